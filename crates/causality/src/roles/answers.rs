//! Whether a process answers only with what its calls were answered with: a proxy, and not a service that makes answers, or keeps them from
//! before the recording.

use crate::exchange::{Said, Side};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// How many answers are remembered of a process: a cache that keeps one for longer makes an exception.
const REMEMBERED: usize = 1 << 14;

/// Fingerprints of the answers to a process's calls.
#[derive(Default)]
pub(super) struct Answers {
    had: FxHashSet<u64>,
    /// In the order in which they came.
    order: VecDeque<u64>,
}

impl Answers {
    fn came(&mut self, fingerprint: u64) {
        if !self.had.insert(fingerprint) {
            return;
        }
        self.order.push_back(fingerprint);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.had.remove(&oldest);
        }
    }

    /// A reply of the process, or to a call of it, begins with bytes of a known fingerprint. Where it answers a request: whether that was
    /// passed on. What a process says itself of a failure is no answer.
    pub(super) fn says(&mut self, side: Side, said: Said) -> Option<bool> {
        const FAILURES: u16 = 300;
        if side == Side::Client {
            self.came(said.fingerprint);
        }
        (side == Side::Server && said.status < FAILURES).then(|| self.had.contains(&said.fingerprint))
    }
}
