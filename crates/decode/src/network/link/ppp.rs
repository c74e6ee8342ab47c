//! PPP (RFC 1661 §2, RFC 1662 §3.1).

use super::{Layer, Stop, Unread, Walk};

/// A frame of PPP: address and control bytes, if they are there, and the protocol.
pub(super) fn inside(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    if walk.bytes.starts_with(&[0xff, 3]) {
        walk.skip(2)?;
    }
    protocol(walk)
}

/// The protocol's number, of one byte where that is odd (RFC 1661 §6.5), and what it stands for.
pub(super) fn protocol(walk: &mut Walk<'_>) -> Result<Layer, Stop> {
    let first = walk.next::<1>()?[0];
    let number = if first & 1 != 0 { first.into() } else { u16::from_be_bytes([first, walk.next::<1>()?[0]]) };
    match number {
        0x0021 | 0x0057 => Ok(Layer::Ip),
        0x0281 | 0x0283 => Ok(Layer::Type(0x8847)),
        0x002d | 0x002f | 0x00fb | 0x00fd => Unread::stop("PPP, compressed", number),
        0x0053 | 0x0055 => Unread::stop("PPP, encrypted", number),
        0xc021 | 0xc023 | 0xc025 | 0xc223 | 0xc227 | 0x8000..=0x80ff => Unread::stop("PPP, negotiation", number),
        _ => Unread::stop("PPP with a protocol that is not known", number),
    }
}
