//! IPv4 and IPv6 headers.

use super::{FAMILY_IP4, FAMILY_IP6, Ip, Layer, Stop, Walk};

/// Which part of a datagram a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::network) struct Piece {
    /// Identification of the datagram.
    pub id: u32,
    /// Where its bytes begin in the datagram.
    pub offset: u32,
    /// It is the datagram's last.
    pub last: bool,
}

/// Strips an IP header with its options or extension headers. The rest of `walk` is then cut to what belongs to the packet, whatever
/// padding follows it. A fragment says so.
pub(super) fn header(walk: &mut Walk<'_>) -> Result<Option<Piece>, Stop> {
    match walk.head::<1>()?[0] >> 4 {
        4 => header4(walk),
        6 => header6(walk),
        _ => Err(Stop::Malformed),
    }
}

/// IPv4 (RFC 791 §3.1).
fn header4(walk: &mut Walk<'_>) -> Result<Option<Piece>, Stop> {
    let header: &[u8; 20] = walk.head()?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    // A segment that the device is to cut (TSO), or was put together of several (GRO), may be longer than the field can say: 0.
    let length = match u16::from_be_bytes([header[2], header[3]]) {
        0 => walk.wire,
        length => u32::from(length),
    };
    if header_bytes < 20 || (length as usize) < header_bytes {
        return Err(Stop::Malformed);
    }
    cut(walk, length);
    walk.skip(header_bytes)?;
    let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
    let [mut src, mut dst] = [[0; 16]; 2];
    src[..4].copy_from_slice(&header[12..16]);
    dst[..4].copy_from_slice(&header[16..20]);
    walk.ip = Ip { family: FAMILY_IP4, src, dst, protocol: header[9], id, wire_bytes: length };
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let offset = u32::from(flags & 0x1fff) * 8;
    let last = flags & 0x2000 == 0;
    Ok((offset != 0 || !last).then_some(Piece { id, offset, last }))
}

/// IPv6 (RFC 8200 §3, §4).
fn header6(walk: &mut Walk<'_>) -> Result<Option<Piece>, Stop> {
    let header: &[u8; 40] = walk.head()?;
    let mut next = header[6];
    // 0 is a jumbogram (RFC 2675), or as with IPv4.
    let length = match u16::from_be_bytes([header[4], header[5]]) {
        0 if next != NO_NEXT => walk.wire.max(40),
        length => u32::from(length) + 40,
    };
    cut(walk, length);
    walk.skip(40)?;
    let [mut src, mut dst] = [[0; 16]; 2];
    src.copy_from_slice(&header[8..24]);
    dst.copy_from_slice(&header[24..40]);
    walk.ip = Ip { family: FAMILY_IP6, src, dst, protocol: next, id: u32::MAX, wire_bytes: length };
    let piece = extensions(walk, &mut next)?;
    walk.ip.protocol = next;
    Ok(piece)
}

/// "No next header".
const NO_NEXT: u8 = 59;

/// Strips IPv6's extension headers, up to the first one of a fragment.
fn extensions(walk: &mut Walk<'_>, next: &mut u8) -> Result<Option<Piece>, Stop> {
    loop {
        let bytes = match *next {
            // Hop-by-hop options, routing, destination options, mobility, host identity, shim.
            0 | 43 | 60 | 135 | 139 | 140 => (usize::from(walk.head::<2>()?[1]) + 1) * 8,
            AUTHENTICATION => (usize::from(walk.head::<2>()?[1]) + 2) * 4,
            44 => {
                let header: &[u8; 8] = walk.next()?;
                *next = header[0];
                let offset = u16::from_be_bytes([header[2], header[3]]);
                let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                let piece = Piece { id, offset: u32::from(offset & 0xfff8), last: offset & 1 == 0 };
                // A datagram of one fragment needs none of the others (RFC 6946).
                if piece.offset != 0 || !piece.last {
                    return Ok(Some(piece));
                }
                continue;
            }
            _ => return Ok(None),
        };
        *next = walk.head::<1>()?[0];
        walk.skip(bytes)?;
    }
}

/// Strips extension headers that were in the fragments, which hold those that only the receiver reads.
pub(super) fn behind_fragments(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    if walk.ip.family == FAMILY_IP6 {
        let mut next = walk.ip.protocol;
        if extensions(walk, &mut next)?.is_some() {
            return Err(Stop::Malformed);
        }
        walk.ip.protocol = next;
    }
    Ok(Layer::Transport)
}

/// The authentication header's number (RFC 4302 §2).
const AUTHENTICATION: u8 = 51;

/// `length` bytes of what is left belong to the packet. A mirror that cuts packets, and says of the cut ones that they were
/// no longer, is believed less than the IP header.
fn cut(walk: &mut Walk<'_>, length: u32) {
    walk.wire = length;
    walk.bytes = &walk.bytes[..walk.bytes.len().min(length as usize)];
}
