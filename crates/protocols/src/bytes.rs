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
