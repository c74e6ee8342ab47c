//! Outer headers: those that the kernel took off are put back, and what is behind them is found for a filter.

use std::net::IpAddr;
use wakepath_wire::packet::{Packet, link};

const UDP: u8 = 17;
const GRE: u8 = 47;
/// EtherTypes: Ethernet over GRE and Geneve (RFC 7637, RFC 8926), IP, ERSPAN types I and II, and III.
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ERSPAN_II: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;

/// Writes an IP header to the end of `room`, for a payload of that length after it; its length.
pub fn put_ip(room: &mut [u8], payload_bytes: usize, protocol: u8, from: IpAddr, to: IpAddr) -> usize {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let at = room.len() - 20;
            let h = &mut room[at..];
            h.fill(0);
            h[0] = 0x45;
            h[2..4].copy_from_slice(&short(20 + payload_bytes));
            h[8] = 64;
            h[9] = protocol;
            h[12..16].copy_from_slice(&from.octets());
            h[16..20].copy_from_slice(&to.octets());
            let sum = checksum(h);
            h[10..12].copy_from_slice(&sum.to_be_bytes());
            20
        }
        (from, to) => {
            let v6 = |a: IpAddr| match a {
                IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
                IpAddr::V6(a) => a.octets(),
            };
            let at = room.len() - 40;
            let h = &mut room[at..];
            h.fill(0);
            h[0] = 0x60;
            h[4..6].copy_from_slice(&short(payload_bytes));
            h[6] = protocol;
            h[7] = 64;
            h[8..24].copy_from_slice(&v6(from));
            h[24..40].copy_from_slice(&v6(to));
            40
        }
    }
}

/// Writes an IP and a UDP header to the end of `room`; their length. The checksum is left out.
pub fn put_udp(room: &mut [u8], payload_bytes: usize, from: (IpAddr, u16), to: (IpAddr, u16)) -> usize {
    let at = room.len() - 8;
    let (before, h) = room.split_at_mut(at);
    h[0..2].copy_from_slice(&from.1.to_be_bytes());
    h[2..4].copy_from_slice(&to.1.to_be_bytes());
    h[4..6].copy_from_slice(&short(8 + payload_bytes));
    h[6..8].fill(0);
    8 + put_ip(before, 8 + payload_bytes, UDP, from.0, to.0)
}

fn short(n: usize) -> [u8; 2] {
    u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes()
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], *c.get(1).unwrap_or(&0)]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// What is inside a tunnel's packet that begins with its outer IP header; none where that cannot be told.
pub fn inside<'a>(packet: &Packet<'a>) -> Option<Packet<'a>> {
    let bytes = packet.bytes;
    let (protocol, header_bytes) = match bytes.first()? >> 4 {
        4 => (*bytes.get(9)?, usize::from(bytes[0] & 15) * 4),
        6 => (*bytes.get(6)?, 40),
        _ => return None,
    };
    let behind_ip = bytes.get(header_bytes..)?;
    let (link, skipped) = match protocol {
        UDP => match word(behind_ip, 2)? {
            super::VXLAN_PORT => (link::ETHERNET, 8 + 8),
            super::GENEVE_PORT => {
                let options_bytes = usize::from(behind_ip.get(8)? & 0x3f) * 4;
                (link_of(word(behind_ip, 10)?)?, 8 + 8 + options_bytes)
            }
            _ => return None,
        },
        GRE => {
            let (flags, protocol) = (word(behind_ip, 0)?, word(behind_ip, 2)?);
            if flags & 7 != 0 {
                return None;
            }
            // a checksum, a key, a sequence number
            let optional = [0x8000, 0x2000, 0x1000].iter().filter(|bit| flags & **bit != 0).count() * 4;
            let at = 4 + optional;
            match protocol {
                ERSPAN_II => (link::ETHERNET, at + if flags & 0x1000 != 0 { 8 } else { 0 }),
                ERSPAN_III => {
                    let more = if behind_ip.get(at + 11)? & 1 != 0 { 8 } else { 0 };
                    (link::ETHERNET, at + 12 + more)
                }
                other => (link_of(other)?, at),
            }
        }
        _ => return None,
    };
    let inner = behind_ip.get(skipped..)?;
    Some(Packet { link, bytes: inner, length: inner.len() as u32, ..*packet })
}

fn link_of(protocol: u16) -> Option<u32> {
    match protocol {
        TRANSPARENT_ETHERNET => Some(link::ETHERNET),
        IPV4 | IPV6 => Some(link::RAW),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn packet(bytes: &[u8]) -> Packet<'_> {
        Packet { at_ns: 1, link: link::RAW, interface: 0, length: bytes.len() as u32, bytes }
    }

    fn with_headers(payload: &[u8], put: impl Fn(&mut [u8]) -> usize) -> Vec<u8> {
        let mut room = [0xaa; 48];
        let used = put(&mut room);
        [&room[48 - used..], payload].concat()
    }

    #[test]
    fn headers_are_as_they_were() {
        let v4 = with_headers(b"12345", |r| put_udp(r, 5, (FROM, 7), (TO, 4789)));
        assert_eq!(
            v4,
            [
                &[0x45, 0, 0, 33, 0, 0, 0, 0, 64, 17, 0x66, 0xca, 10, 0, 0, 1, 10, 0, 0, 2][..],
                &[0, 7, 0x12, 0xb5, 0, 13, 0, 0],
                b"12345"
            ]
            .concat()
        );
        assert_eq!(checksum(&v4[..20]), 0);
        let v6 = with_headers(b"12345", |r| put_ip(r, 5, 47, Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()));
        assert_eq!((v6.len(), v6[0], v6[5], v6[6], v6[23], v6[39]), (45, 0x60, 5, 47, 1, 1));
    }

    #[test]
    fn the_inside_is_found() {
        let vxlan = |inner: &[u8]| [&[8u8, 0, 0, 0, 0, 0, 5, 0][..], inner].concat();
        let geneve = |inner: &[u8]| [&[1u8, 0, 0x65, 0x58, 0, 0, 5, 0, 9, 9, 9, 9][..], inner].concat();
        for (port, payload) in [(4789, vxlan(b"ethernet")), (6081, geneve(b"ethernet"))] {
            let bytes = with_headers(&payload, |r| put_udp(r, payload.len(), (FROM, 7), (TO, port)));
            let inner = inside(&packet(&bytes)).expect("it is a tunnel");
            assert_eq!((inner.link, inner.bytes), (link::ETHERNET, &b"ethernet"[..]));
        }
        let gre: [(&[u8], u32); 6] = [
            (&[0, 0, 8, 0], link::RAW),
            (&[0, 0, 0x65, 0x58], link::ETHERNET),
            (&[0xb0, 0, 0x65, 0x58, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2], link::ETHERNET),
            (&[0, 0, 0x88, 0xbe], link::ETHERNET),
            (&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2], link::ETHERNET),
            (&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 0], link::ETHERNET),
        ];
        for (header, link) in gre {
            let payload = [header, b"inside"].concat();
            let bytes = with_headers(&payload, |r| put_ip(r, payload.len(), 47, FROM, TO));
            let inner = inside(&packet(&bytes)).expect("it is a tunnel");
            assert_eq!((inner.link, inner.bytes), (link, &b"inside"[..]), "{header:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(inner) = inside(&packet(&bytes)) {
                prop_assert!(inner.bytes.len() < bytes.len());
            }
        }
    }
}
