//! Numbers and strings at places in bytes that may end before.

use crate::duplex::Stop;

/// The length of the line at the start of `bytes` with its end; and whether that is missing, so that it is cut.
pub(crate) fn line(bytes: &[u8], last: bool) -> Result<(usize, bool), Stop> {
    match bytes.iter().position(|&b| b == b'\n') {
        Some(newline) => Ok((newline + 1, false)),
        None if last => Ok((bytes.len(), true)),
        None => Err(Stop::Need),
    }
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(u16::from_be_bytes)
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).map(u32::from_be_bytes)
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    chunk(bytes, at).map(u64::from_be_bytes)
}

pub(crate) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).map(u32::from_le_bytes)
}

/// The bytes before the first NUL; and whether there is none, so that they are cut.
pub(crate) fn until_nul(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.iter().position(|&b| b == 0) {
        Some(nul) => (&bytes[..nul], false),
        None => (bytes, true),
    }
}

/// A length-encoded integer of MySQL, and how many bytes it takes.
pub(crate) fn lenenc(bytes: &[u8]) -> Option<(u64, usize)> {
    let wide = |count: usize| {
        let field = bytes.get(1..1 + count)?;
        Some((field.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)), 1 + count))
    };
    match *bytes.first()? {
        short @ 0..=0xfa => Some((short.into(), 1)),
        0xfc => wide(2),
        0xfd => wide(3),
        0xfe => wide(8),
        _ => None,
    }
}

/// A number in decimal digits, at most 12 of them.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if !(1..=12).contains(&text.len()) || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

/// Whether these are characters as a person types them, beginning with a letter.
pub(crate) fn is_typed(text: &[u8]) -> bool {
    let shown = text.iter().all(|b| !b.is_ascii_control() || b.is_ascii_whitespace());
    shown && text.first().is_some_and(u8::is_ascii_alphabetic)
}
