//! Flows without sequence numbers: UDP, and what nobody here knows.

use super::link::Inner;
use wakepath_model::ids::MonoNs;

/// Packets remembered of each direction, to know them again.
const RECENT: usize = 8;

/// For how long a packet may be captured again.
const AGAIN_NS: u64 = 150_000_000;

/// The same where packets have no identification: then the same question may be put again.
const AGAIN_UNNAMED_NS: u64 = 2_000_000;

/// What one end sends.
pub(super) struct Direction {
    pub packets: u64,
    pub wire_bytes: u64,
    pub missing: u64,
    /// Number of the next byte of payload.
    pub next: u64,
    recent: [(u32, MonoNs); RECENT],
    recent_next: u8,
}

/// A flow of datagrams.
pub(super) struct Datagrams {
    pub directions: [Direction; 2],
}

impl Datagrams {
    pub fn new() -> Datagrams {
        let direction = || Direction {
            packets: 0,
            wire_bytes: 0,
            missing: 0,
            next: 1 << 32,
            recent: [(0, MonoNs(0)); RECENT],
            recent_next: 0,
        };
        Datagrams { directions: [direction(), direction()] }
    }

    /// Counts a packet that `direction` sent; `None`: it was captured before. Else the number of its first byte.
    pub fn take(&mut self, direction: usize, inner: &Inner<'_>, length: u64, captured: u64) -> Option<u64> {
        if self.knows(direction, inner) {
            return None;
        }
        let direction = &mut self.directions[direction];
        direction.recent[usize::from(direction.recent_next) % RECENT] = (mark(inner), inner.at);
        direction.recent_next = direction.recent_next.wrapping_add(1);
        direction.packets += 1;
        direction.wire_bytes += u64::from(inner.wire_bytes);
        direction.missing += length - captured;
        let pos = direction.next;
        direction.next += length;
        Some(pos)
    }

    /// Whether this packet, or one just like it, came a moment ago.
    pub fn knows(&self, direction: usize, inner: &Inner<'_>) -> bool {
        let mark = mark(inner);
        let limit = if inner.ip_id == u32::MAX || inner.ip_id == 0 { AGAIN_UNNAMED_NS } else { AGAIN_NS };
        self.directions[direction].recent.iter().any(|&(m, at)| m == mark && at.0.abs_diff(inner.at.0) <= limit)
    }
}

/// What a packet that is captured again has in common with itself.
fn mark(inner: &Inner<'_>) -> u32 {
    let head = &inner.payload[..inner.payload.len().min(64)];
    let seed = u64::from(inner.ip_id) << 32 | u64::from(inner.payload_length);
    let mixed = head.chunks(8).fold(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), |h, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (h.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    (mixed >> 32) as u32 | 1
}
