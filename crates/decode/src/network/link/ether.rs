//! What an EtherType stands for: tags in front of another one, and what carries IP.

use super::{Around, Layer, Stop, Unread, Walk, ppp};

/// What stands in front of IP, and how it is called where it is not looked into. IEEE and IANA number them.
const NAMES: &[(u16, &str)] = &[
    (0x0806, "ARP"),
    (0x0842, "Wake-on-LAN"),
    (0x22ea, "stream reservation"),
    (0x22f3, "TRILL"),
    (0x6003, "DECnet"),
    (0x8035, "RARP"),
    (0x809b, "AppleTalk"),
    (0x80f3, "AppleTalk ARP"),
    (0x8137, "IPX"),
    (0x8808, "flow control"),
    (0x8809, "slow protocols (LACP)"),
    (0x880b, "PPP"),
    (0x8863, "PPPoE discovery"),
    (0x887b, "HomePlug"),
    (0x888e, "802.1X"),
    (0x8892, "PROFINET"),
    (0x88a2, "ATA over Ethernet"),
    (0x88a4, "EtherCAT"),
    (0x88b5, "a local experiment"),
    (0x88b6, "a local experiment"),
    (0x88b8, "GOOSE"),
    (0x88ba, "sampled values"),
    (0x88cc, "LLDP"),
    (0x88e1, "HomePlug"),
    (0x88e5, "MACsec"),
    (0x88f5, "MVRP"),
    (0x88f7, "PTP"),
    (0x8902, "connectivity fault management"),
    (0x8906, "Fibre Channel over Ethernet"),
    (0x8914, "Fibre Channel over Ethernet"),
    (0x8915, "RoCE"),
    (0x891d, "TTEthernet"),
    (0x892f, "HSR"),
    (0x9000, "loopback test"),
];

/// What has a tag's or a tunnel's EtherType here.
const READ: &[u16] = &[
    0x0800, 0x86dd, 0x8100, 0x88a8, 0x9100, 0x8847, 0x8848, 0x8864, 0x880b, 0x88e5, 0x88e7, 0x8926, 0x893f, 0x894f,
    0x883e,
];

/// Whether an EtherType is one that is looked into.
pub(super) fn is_read(number: u16) -> bool {
    READ.contains(&number)
}

/// Whether an EtherType is one that is known here, read or not.
pub(super) fn is_known(number: u16) -> bool {
    is_read(number) || NAMES.binary_search_by_key(&number, |name| name.0).is_ok()
}

/// Strips what stands between an EtherType and an IP packet.
pub(super) fn inside(number: u16, walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    match number {
        0x0800 | 0x86dd => Ok(Layer::Ip),
        // 802.1Q, 802.1ad, and what was used before that.
        0x8100 | 0x88a8 | 0x9100 => {
            let tag: &[u8; 4] = walk.next()?;
            let vlan = u16::from_be_bytes([tag[0], tag[1]]) & 0x0fff;
            // 0 is a priority alone.
            if vlan != 0 {
                walk.enter(Around::Vlan, u64::from(vlan));
            }
            Ok(Layer::Type(u16::from_be_bytes([tag[2], tag[3]])))
        }
        0x8847 | 0x8848 => {
            // Labels up to the one that says it is the last (RFC 3032 §2.1).
            while walk.next::<4>()?[2] & 1 == 0 {}
            // Nothing says what follows. IP is told by its version, Ethernet by the control word (RFC 4385 §3, RFC 4448).
            match walk.head::<1>()?[0] >> 4 {
                4 | 6 => Ok(Layer::Ip),
                0 => walk.skip(4).map(|()| Layer::Ethernet),
                _ => Unread::stop("MPLS without IP", 0x8847),
            }
        }
        // PPPoE, sessions (RFC 2516 §4).
        0x8864 => {
            let header: &[u8; 6] = walk.next()?;
            if header[0] != 0x11 {
                return Err(Stop::Malformed);
            }
            walk.enter(Around::Pppoe, u64::from(u16::from_be_bytes([header[2], header[3]])));
            ppp::protocol(walk)
        }
        0x880b => ppp::inside(walk),
        0x88e5 => macsec(walk),
        // A provider's backbone bridges (802.1ah, 9.7): flags and the service's number, then the customer's frame.
        0x88e7 => {
            let tag: &[u8; 4] = walk.next()?;
            walk.enter(Around::Pbb, u64::from(u32::from_be_bytes(*tag) & 0x00ff_ffff));
            Ok(Layer::Ethernet)
        }
        // VN-Tag and E-Tag (802.1BR, 7.3.1.2): the port of an extended bridge. The two directions of a flow have different ones.
        0x8926 => walk.next::<6>().map(|tag| Layer::Type(u16::from_be_bytes([tag[4], tag[5]]))),
        0x893f => walk.next::<8>().map(|tag| Layer::Type(u16::from_be_bytes([tag[6], tag[7]]))),
        0x894f => nsh(walk),
        // What a web cache is handed (WCCP): in version 2 after four bytes of its own.
        0x883e => {
            if walk.head::<1>()?[0] >> 4 != 4 {
                walk.skip(4)?;
            }
            Ok(Layer::Ip)
        }
        // A length: IEEE 802.3 with LLC, and after it an EtherType if that is SNAP.
        0..=0x05dc => llc(walk),
        _ => unread(number),
    }
}

/// The stop at an EtherType that is not looked into.
pub(super) fn unread(number: u16) -> Result<Layer, Stop> {
    let name = NAMES.binary_search_by_key(&number, |name| name.0);
    Unread::stop(name.map_or("an EtherType that is not known", |i| NAMES[i].1), number)
}

/// LLC (IEEE 802.2), as in 802.3 and 802.11.
pub(super) fn llc(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let bytes = walk.bytes;
    match walk.next::<8>() {
        Ok(&[0xaa, 0xaa, 3, 0, 0, 0, high, low]) => Ok(Layer::Type(u16::from_be_bytes([high, low]))),
        _ => match bytes.first() {
            Some(0x42) => Unread::stop("spanning tree", 0x42),
            Some(0xfe) => Unread::stop("IS-IS", 0xfe),
            Some(0xe0 | 0xff) => Unread::stop("IPX", 0xe0),
            Some(0xaa) => Unread::stop("a vendor's protocol (SNAP)", 0xaa),
            other => Unread::stop("LLC", other.copied().unwrap_or_default().into()),
        },
    }
}

/// MACsec (802.1AE, 9.3): read where it only signs.
fn macsec(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    const CHECK_BYTES: u32 = 16;
    let flags = walk.next::<6>()?[0];
    if flags & 0x20 != 0 {
        walk.skip(8)?;
    }
    if flags & 0x0c != 0 {
        return Unread::stop("MACsec, encrypted", 0x88e5);
    }
    walk.wire = walk.wire.saturating_sub(CHECK_BYTES);
    walk.bytes = &walk.bytes[..walk.bytes.len().min(walk.wire as usize)];
    let number: &[u8; 2] = walk.next()?;
    Ok(Layer::Type(u16::from_be_bytes(*number)))
}

/// A network service header (RFC 8300 §2.2).
pub(super) fn nsh(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let header: &[u8; 8] = walk.head()?;
    let words = usize::from(header[1] & 0x3f);
    if header[0] >> 6 != 0 || words < 2 {
        return Err(Stop::Malformed);
    }
    walk.enter(Around::Nsh, u64::from(u32::from_be_bytes([0, header[4], header[5], header[6]])));
    walk.skip(words * 4)?;
    next_protocol(header[3])
}

/// Numbers that NSH (RFC 8300 §2.2) and VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe §3.2) share as far as they are read.
pub(super) fn next_protocol(number: u8) -> Result<Layer, Stop> {
    match number {
        1 | 2 => Ok(Layer::Ip),
        3 => Ok(Layer::Ethernet),
        4 => Ok(Layer::Type(0x894f)),
        5 => Ok(Layer::Type(0x8847)),
        _ => Unread::stop("a service's own protocol (NSH, VXLAN-GPE)", number.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn names_are_sorted_and_there_once() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
    }
}
