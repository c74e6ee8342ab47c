//! Tunnels: what can be inside an IP packet besides a transport protocol.

use super::{Around, Layer, Stop, Unread, Walk, ether, ppp, wireless};

/// Looks at what an IP packet carries, and strips a tunnel's headers.
pub(super) fn inside(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    match walk.ip.protocol {
        17 => udp(walk),
        // IPv4 in IP (RFC 2003), IPv6 in IP (RFC 2473, RFC 4213).
        4 | 41 => Ok(Layer::Ip),
        47 => {
            let mut tunnel = *walk;
            match gre(&mut tunnel) {
                Err(Stop::NotIp(unread)) => {
                    // Its ends are known: it is a flow between them.
                    walk.reason = unread.what;
                    Ok(Layer::Found)
                }
                layer => {
                    *walk = tunnel;
                    layer
                }
            }
        }
        // Authentication (RFC 4302 §2), of IPv4; IPv6's is an extension header.
        51 => {
            let header: &[u8; 2] = walk.head()?;
            walk.ip.protocol = header[0];
            walk.skip((usize::from(header[1]) + 2) * 4)?;
            Ok(Layer::Transport)
        }
        // Ethernet in IP (RFC 3378 §3).
        97 if walk.bytes.first().is_some_and(|version| version >> 4 == 3) => walk.skip(2).map(|()| Layer::Ethernet),
        // MPLS in IP (RFC 4023).
        137 => Ok(Layer::Type(0x8847)),
        _ => Ok(Layer::Found),
    }
}

/// VXLAN, Geneve, GRE and GTP. What does not look like one of them stays a datagram: a port is no proof.
fn udp(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let Some(&[_, _, high, low]) = walk.bytes.first_chunk::<4>() else { return Ok(Layer::Found) };
    let mut tunnel = *walk;
    let layer = match u16::from_be_bytes([high, low]) {
        4789 | 4790 | 8472 => vxlan(&mut tunnel),
        6081 => geneve(&mut tunnel),
        2152 => gtp(&mut tunnel),
        4754 => gre_in_udp(&mut tunnel),
        _ => return Ok(Layer::Found),
    };
    match layer {
        Ok(layer) => {
            *walk = tunnel;
            Ok(layer)
        }
        Err(Stop::Malformed) => Ok(Layer::Found),
        Err(stop) => Err(stop),
    }
}

/// VXLAN (RFC 7348 §5), and VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe §3), whose header says what it carries.
fn vxlan(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    walk.skip(8)?;
    let header: &[u8; 8] = walk.next()?;
    let (is_valid, says_protocol, is_group) = (header[0] & 0x08 != 0, header[0] & 0x04 != 0, header[0] & 0x80 != 0);
    if !is_valid {
        return Err(Stop::Malformed);
    }
    walk.enter(Around::Vxlan, number24(&header[4..7]));
    // Where that flag is one of the reserved ones, they may all be set.
    if says_protocol && header[0] >> 4 == 0 && header[1..3] == [0; 2] {
        return ether::next_protocol(header[3]).map_err(|_| Stop::Malformed);
    }
    // Reserved bytes are 0 as a rule, but where the group policy extension (draft-smith-vxlan-group-policy) has its group. Whoever
    // receives them has to ignore them: then what is inside has to look like a frame.
    let is_usual = header[7] == 0 && (header[1..3] == [0; 2] || is_group);
    let is_frame = walk.bytes.get(12..14).is_some_and(|n| ether::is_known(u16::from_be_bytes([n[0], n[1]])));
    if is_usual || is_frame { Ok(Layer::Ethernet) } else { Err(Stop::Malformed) }
}

/// GTP-U (3GPP TS 29.281 §5.1): packets of a mobile network's users. A flow's two directions have different endpoint numbers.
fn gtp(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    const DATA: u8 = 0xff;
    walk.skip(8)?;
    let header: &[u8; 8] = walk.next()?;
    if header[0] >> 4 != 3 || header[1] != DATA {
        return Err(Stop::Malformed); // another version, or a message of its own
    }
    if header[0] & 7 != 0 {
        let mut next = walk.next::<4>()?[3];
        while next != 0 {
            let words = usize::from(walk.head::<1>()?[0]);
            if words == 0 {
                return Err(Stop::Malformed);
            }
            next = *walk.bytes.get(words * 4 - 1).ok_or_else(|| walk.short(words * 4))?;
            walk.skip(words * 4)?;
        }
    }
    match walk.head::<1>()?[0] >> 4 {
        4 | 6 => Ok(Layer::Ip),
        _ => Err(Stop::Malformed),
    }
}

/// GRE in UDP (RFC 8086 §3.2).
fn gre_in_udp(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    walk.skip(8)?;
    let header: &[u8; 4] = walk.head()?;
    let number = u16::from_be_bytes([header[2], header[3]]);
    if header[1] & 7 != 0 || !(ether::is_known(number) || number == BRIDGED) {
        return Err(Stop::Malformed);
    }
    gre(walk)
}

/// Geneve (RFC 8926 §3.4).
fn geneve(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    walk.skip(8)?;
    let header: &[u8; 8] = walk.next()?;
    // Version and reserved bits.
    if header[0] >> 6 != 0 || header[1] & 0x3f != 0 || header[7] != 0 {
        return Err(Stop::Malformed);
    }
    walk.skip(usize::from(header[0] & 0x3f) * 4)?;
    walk.enter(Around::Geneve, number24(&header[4..7]));
    Ok(carried(u16::from_be_bytes([header[2], header[3]])))
}

/// GRE (RFC 2784, RFC 2890), and what mirrors put into it.
fn gre(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let header: &[u8; 4] = walk.head()?;
    let flags = header[0];
    if header[1] & 7 == 1 && header[2..] == [0x88, 0x0b] {
        return pptp(walk);
    }
    // Routing is of the first GRE alone.
    if header[1] & 7 != 0 || flags & 0x40 != 0 {
        return Ok(Layer::Found);
    }
    walk.skip(4)?;
    if flags & 0x80 != 0 {
        walk.skip(4)?;
    }
    if flags & 0x20 != 0 {
        let key: &[u8; 4] = walk.next()?;
        walk.enter(Around::GreKey, u64::from(u32::from_be_bytes(*key)));
    }
    let sequence = flags & 0x10 != 0;
    if sequence {
        walk.skip(4)?;
    }
    match u16::from_be_bytes([header[2], header[3]]) {
        // Type I of ERSPAN has no header of its own; the types with one have sequence numbers.
        0x88be if sequence => erspan2(walk),
        0x88be => Ok(Layer::Ethernet),
        0x22eb => erspan3(walk),
        // Aruba's access points: one number for each radio and queue.
        0x8200..=0x82ff => wireless::inside(walk),
        number if number == BRIDGED || ether::is_read(number) => Ok(carried(number)),
        number => ether::unread(number),
    }
}

/// GRE of version 1, as PPTP has it (RFC 2637 §4.1). A flow's two directions have different call numbers.
fn pptp(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let header: &[u8; 8] = walk.head()?;
    let [flags, more] = [header[0], header[1]];
    let behind = 12 + 4 * usize::from(more & 0x80 != 0);
    let has_data = flags & 0x10 != 0;
    if flags & 0x20 == 0 || !has_data || walk.wire as usize <= behind {
        return Ok(Layer::Found); // an acknowledgement, or none
    }
    walk.skip(behind)?;
    ppp::inside(walk)
}

/// ERSPAN type II (draft-foschiano-erspan-03 §4.2).
fn erspan2(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let header: &[u8; 8] = walk.next()?;
    walk.enter(Around::Erspan, session(header));
    Ok(Layer::Ethernet)
}

/// ERSPAN type III (draft-foschiano-erspan-03 §4.3).
fn erspan3(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let header: &[u8; 12] = walk.next()?;
    walk.enter(Around::Erspan, session(header));
    if header[11] & 1 != 0 {
        walk.skip(8)?;
    }
    match header[10] >> 2 & 0x1f {
        0 => Ok(Layer::Ethernet),
        2 => Ok(Layer::Ip),
        kind => Unread::stop("ERSPAN with another frame", kind.into()),
    }
}

/// The mirror session, which both types have at the same place.
fn session(header: &[u8]) -> u64 {
    u64::from(u16::from_be_bytes([header[2], header[3]]) & 0x03ff)
}

/// Transparent Ethernet bridging.
const BRIDGED: u16 = 0x6558;

fn carried(number: u16) -> Layer {
    if number == BRIDGED { Layer::Ethernet } else { Layer::Type(number) }
}

fn number24(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
