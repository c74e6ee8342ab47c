//! How a task slept while it held one request: what others may have done for it meanwhile.

use super::helper::MARKS_NS;
use std::collections::VecDeque;
use wakepath_model::ids::MonoNs;

/// A sleep at a place of its own from which another task woke it, or has not yet.
#[derive(Clone, Copy)]
pub(super) struct Sleep {
    pub(super) from: MonoNs,
    pub(super) to: MonoNs,
    /// A helper ended it directly after a call of its own.
    is_answered: bool,
}

/// Most sleeps kept of a task.
const SLEEPS_MAX: usize = 1_024;

/// The sleeps of a task.
#[derive(Default)]
pub(super) struct Sleeps {
    all: VecDeque<Sleep>,
    /// When a helper last woke it directly after a call.
    heard: MonoNs,
}

impl Sleeps {
    /// It slept while it held one request.
    pub(super) fn slept(&mut self, from: MonoNs, to: MonoNs) {
        let is_old = |s: &Sleep| s.to.0 + MARKS_NS < to.0;
        while self.all.len() >= SLEEPS_MAX || self.all.front().is_some_and(is_old) {
            self.all.pop_front();
        }
        self.all.push_back(Sleep { from, to, is_answered: false });
    }

    /// A helper ended its last sleep at `at`, directly after a call that began at `began`. True where another call's end had
    /// woken it since then: it waited for both at once.
    pub(super) fn heard(&mut self, began: MonoNs, at: MonoNs) -> bool {
        if let Some(sleep) = self.all.back_mut() {
            sleep.is_answered = true;
        }
        std::mem::replace(&mut self.heard, at) > began
    }

    /// Whether it slept for the answer to another call while one was under way that began and ended then.
    pub(super) fn waits_for_another(&self, began: MonoNs, ended: MonoNs) -> bool {
        self.all.iter().any(|s| s.is_answered && s.from <= ended && began <= s.to)
    }

    /// Whether it slept all the while from `from` to `to`.
    pub(super) fn through(&self, from: MonoNs, to: MonoNs) -> bool {
        self.all.iter().any(|s| s.from <= from && to <= s.to)
    }
}
