//! What happens when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// An actor's time has come.
    Wake(u32),
    /// What the first in a queue's line waits for has arrived.
    Supply(u32),
}

/// Things to come, in order of time, and of being said among those of the same time.
#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Due)>>,
    said: u64,
}

impl Events {
    /// Something will happen at `at`, which is not negative: then the order of the bits is that of the numbers.
    pub(super) fn push(&mut self, at: f64, due: Due) {
        debug_assert!(at >= 0.0 && at.is_finite());
        self.said += 1;
        self.heap.push(Reverse((at.to_bits(), self.said, due)));
    }

    /// When the next thing happens.
    pub(super) fn next_at(&self) -> f64 {
        self.heap.peek().map_or(f64::INFINITY, |Reverse((at, ..))| f64::from_bits(*at))
    }

    pub(super) fn pop(&mut self) -> Option<(f64, Due)> {
        self.heap.pop().map(|Reverse((at, _, due))| (f64::from_bits(at), due))
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}
