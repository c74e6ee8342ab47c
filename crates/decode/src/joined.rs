//! What is kept while both vantages record, and how the records of one operation become one.

use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_wire::{self as w, Frame};

pub(crate) const PEER_BYTES: usize = 32;
/// How long an operation without its first bytes is kept back for the library's record of it, in ns.
pub(crate) const HOLD_NS: u64 = 20_000_000;

/// What is kept while both record.
#[derive(Default)]
pub(crate) struct Joined {
    /// Processes under the library.
    pub processes: FxHashSet<u32>,
    /// Operations without their first bytes, by thread.
    pub held: FxHashMap<u32, Vec<u8>>,
    /// When the oldest of them was taken in.
    pub oldest_ns: u64,
}

/// A record's time, which stands behind its head.
pub(crate) fn time_of(record: &[u8]) -> u64 {
    record.get(8..16).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// The kernel's record `k` with the first bytes that the library's has.
pub(crate) fn with_head(k: &w::Op, kernel: &Frame<'_>, o: &w::Op, library: &Frame<'_>) -> Vec<u8> {
    let peer_bytes = |o: &w::Op| if o.flags & w::OPF_PEER != 0 { PEER_BYTES } else { 0 };
    let head = library.tail::<w::Op>(usize::MAX);
    let head = head.get(peer_bytes(o)..).unwrap_or(&[]);
    let head = &head[..head.len().min(o.head_bytes.into())];
    let mut all = *k;
    all.head_bytes = head.len() as u16;
    all.flags = all.flags & !w::OPF_UNREADABLE | w::OPF_HEAD;
    let mut record = w::bytes_of(&all).to_vec();
    record.extend_from_slice(kernel.tail::<w::Op>(peer_bytes(k)));
    record.extend_from_slice(head);
    record
}
