//! A program's own memory in the guest: buffers, vectors and addresses that it gave to a call.

use crate::{Memory, number};

/// Most pieces of a vector that are read.
const PIECES_MAX: usize = 32;
/// Bytes of an address with its padding, as records have it.
pub const PEER_BYTES: usize = 32;
/// Bytes of the longest address that is kept: IPv6's.
const ADDRESS_MAX: usize = 28;
/// Bytes of an entry of sendmmsg and recvmmsg.
const MESSAGES_STEP: u64 = 64;

/// Buffers, in order: where each begins, and its bytes.
pub type Buffers = Vec<(u64, u64)>;

/// The buffers of a vector; those after an entry that cannot be read are left out.
pub fn vector(memory: &dyn Memory, at: u64, count: u64) -> Buffers {
    let entries = 0..count.min(PIECES_MAX as u64);
    let entry = |i| {
        let at = at.checked_add(16 * i)?;
        Some((number(memory, at, 8)?, number(memory, at.checked_add(8)?, 8)?))
    };
    entries.map_while(entry).collect()
}

/// What a message of sendmsg and recvmsg has.
#[derive(Default)]
pub struct Message {
    /// Its buffers.
    pub buffers: Buffers,
    /// The other end's address.
    pub address: Option<[u8; PEER_BYTES]>,
}

/// Reads a message.
pub fn message(memory: &dyn Memory, at: u64) -> Message {
    let word = |offset, bytes| number(memory, at.checked_add(offset)?, bytes);
    let buffers = || Some(vector(memory, word(16, 8)?, word(24, 8)?));
    let named = || address(memory, word(0, 8)?, word(8, 4)?);
    Message { buffers: buffers().unwrap_or_default(), address: named() }
}

/// Where entry `i` of sendmmsg and recvmmsg is, and how many bytes it moved.
pub fn entry(memory: &dyn Memory, at: u64, i: u64) -> Option<(u64, u64)> {
    let at = at.checked_add(MESSAGES_STEP.checked_mul(i)?)?;
    Some((at, number(memory, at.checked_add(56)?, 4)?))
}

/// An address of so many bytes; `None` where there is none, or it is none of IP.
pub fn address(memory: &dyn Memory, at: u64, bytes: u64) -> Option<[u8; PEER_BYTES]> {
    let mut all = [0; PEER_BYTES];
    let bytes = usize::try_from(bytes).ok()?.min(ADDRESS_MAX);
    let is_there = at != 0 && bytes >= 16 && memory.read(at, &mut all[..bytes]);
    let family = u16::from_le_bytes([all[0], all[1]]);
    (is_there && matches!(family, crate::kernel::AF_INET | crate::kernel::AF_INET6)).then_some(all)
}

/// The first bytes of what lies in buffers, at most `most`. Shorter where some cannot be read.
pub fn head(memory: &dyn Memory, buffers: &[(u64, u64)], most: usize) -> Vec<u8> {
    const PAGE: u64 = 4096;
    let mut out = Vec::new();
    for &(at, bytes) in buffers {
        let (mut at, mut left) = (at, bytes);
        while left > 0 && out.len() < most {
            // one page after the other: the next may not be there
            let step = left.min(PAGE - at % PAGE).min((most - out.len()) as u64);
            let before = out.len();
            out.resize(before + step as usize, 0);
            if at >= 1 << 47 || !memory.read(at, &mut out[before..]) {
                out.truncate(before);
                return out;
            }
            (at, left) = (at + step, left - step);
        }
    }
    out
}

/// How long a `timespec`, or with `unit_ns` 1,000 a `timeval`, is in ns; all ones for none.
pub fn time(memory: &dyn Memory, at: u64, unit_ns: u64) -> u64 {
    let read = || {
        let (seconds, rest) = (number(memory, at, 8)?, number(memory, at.checked_add(8)?, 8)?);
        Some(seconds.saturating_mul(1_000_000_000).saturating_add(rest.saturating_mul(unit_ns)))
    };
    if at == 0 { u64::MAX } else { read().unwrap_or(u64::MAX) }
}
