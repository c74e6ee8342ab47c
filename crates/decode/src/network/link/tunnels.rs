//! Tunnels: what can be inside an IP packet besides a transport protocol.

use super::{Around, Layer, Stop, Walk};

/// Looks at what an IP packet carries, and strips a tunnel's headers.
pub(super) fn inside(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    match walk.ip.protocol {
        17 => udp(walk),
        // IPv4 in IP (RFC 2003), IPv6 in IP (RFC 2473, RFC 4213).
        4 | 41 => Ok(Layer::Ip),
        47 => gre(walk),
        // Authentication (RFC 4302 §2), of IPv4; IPv6's is an extension header.
        51 => {
            let header: &[u8; 2] = walk.head()?;
            walk.ip.protocol = header[0];
            walk.skip((usize::from(header[1]) + 2) * 4)?;
            Ok(Layer::Transport)
        }
        // MPLS in IP (RFC 4023).
        137 => Ok(Layer::Type(0x8847)),
        _ => Ok(Layer::Found),
    }
}

/// VXLAN and Geneve. What does not look like one of them stays a datagram: a port is no proof.
fn udp(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let Some(&[_, _, high, low]) = walk.bytes.first_chunk::<4>() else { return Ok(Layer::Found) };
    let mut tunnel = *walk;
    let layer = match u16::from_be_bytes([high, low]) {
        4789 | 8472 => vxlan(&mut tunnel),
        6081 => geneve(&mut tunnel),
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

/// VXLAN (RFC 7348 §5).
fn vxlan(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    walk.skip(8)?;
    let header: &[u8; 8] = walk.next()?;
    // Reserved bytes are 0, but where the group policy extension (draft-smith-vxlan-group-policy) has its group, and where
    // VXLAN-GPE has its next protocol, which some fill in without saying so.
    let is_group = header[0] & 0x80 != 0;
    if header[0] & 0x08 == 0 || header[7] != 0 || (header[1..3] != [0; 2] && !is_group) {
        return Err(Stop::Malformed);
    }
    walk.enter(Around::Vxlan, number24(&header[4..7]));
    Ok(Layer::Ethernet)
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
    // Version 1 is PPTP's, whose contents are compressed and encrypted as a rule; routing is of the first GRE alone.
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
        number => Ok(carried(number)),
    }
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
        _ => Err(Stop::NotIp),
    }
}

/// The mirror session, which both types have at the same place.
fn session(header: &[u8]) -> u64 {
    u64::from(u16::from_be_bytes([header[2], header[3]]) & 0x03ff)
}

fn carried(number: u16) -> Layer {
    // Transparent Ethernet bridging.
    if number == 0x6558 { Layer::Ethernet } else { Layer::Type(number) }
}

fn number24(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
