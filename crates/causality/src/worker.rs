//! What is kept of a task and of an exchange while calls are being explained.

use crate::component::GRACE_NS;
use crate::exchange::{ExId, Slab};
use crate::finished::Parent;
use std::collections::VecDeque;
use wakepath_model::ids::{MonoNs, TaskId};

/// Time-outs are given in rounded milliseconds: timers may be due that much earlier.
const TIMER_GRAIN_NS: u64 = 2_000_000;

/// What the linker keeps of an exchange.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) process: u32,
    pub(crate) parent: Option<Parent>,
    pub(crate) outstanding: u32,
    pub(crate) holder: TaskId,
    pub(crate) last_input: MonoNs,
    pub(crate) doubts: u32,
    pub(crate) lossy: bool,
    pub(crate) closed: bool,
    /// Given to the next stage already, as it was then.
    pub(crate) given: bool,
    pub(crate) calls: Vec<ExId>,
    pub(crate) suspects: Vec<ExId>,
    pub(crate) reply_task: TaskId,
    pub(crate) replied: bool,
    pub(crate) overflow: bool,
    pub(crate) released: bool,
    /// A helper woke its holder.
    pub(crate) was_woken: bool,
    /// Its reply left in parts, so one waking does not tell that all was done.
    pub(crate) in_parts: bool,
}

/// What a helper task did, besides its calls: enough to tell where one piece of its work ends.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mark {
    /// It began a call.
    Call,
    /// It woke the task that held this request.
    Woke(ExId),
    /// It went idle.
    Idle,
}

/// Marks older than this are of no use: their calls are decided.
pub(crate) const MARKS_NS: u64 = 4 * GRACE_NS;

/// What the linker keeps of a task.
#[derive(Default)]
pub(crate) struct Worker {
    /// Open requests whose last input this task took.
    pub(crate) held: Vec<ExId>,
    /// The request of the fragment that it is in.
    pub(crate) current: Option<ExId>,
    pub(crate) current_since: MonoNs,
    pub(crate) before: Option<ExId>,
    /// Calls since the last border, not yet explained.
    pub(crate) segment: Vec<ExId>,
    /// Return, entry and time-out of its last poll.
    pub(crate) polled: Option<(MonoNs, MonoNs, u64)>,
    /// How many descriptors that poll found ready.
    pub(crate) ready: i32,
    /// The request of the task that woke it last, while it was idle.
    pub(crate) woken_for: Option<ExId>,
    /// The request that it was made in.
    pub(crate) born_of: Option<ExId>,
    /// Its last input was for a request that is not known.
    pub(crate) unknown_input: bool,
    /// The call whose reply that input was.
    pub(crate) unknown_call: Option<ExId>,
    /// It took a request of which nothing is known.
    pub(crate) unknown_work: bool,
    /// A request was handed to it before.
    pub(crate) is_handed_work: bool,
    /// What it did, in order of time.
    pub(crate) marks: VecDeque<(MonoNs, Mark)>,
}

impl Worker {
    /// Whether no timer of an event loop can have been due: it asked its last poll to return by then.
    pub(crate) fn no_timer_due(&self, at: MonoNs) -> bool {
        self.polled
            .is_some_and(|(_, entry, timeout)| at.0.saturating_add(TIMER_GRAIN_NS) < entry.0.saturating_add(timeout))
    }

    pub(crate) fn mark(&mut self, at: MonoNs, mark: Mark) {
        // wake-ups are told when the woken task runs, so a little late
        let place = self.marks.iter().rposition(|&(t, _)| t <= at).map_or(0, |i| i + 1);
        self.marks.insert(place, (at, mark));
        while self.marks.front().is_some_and(|&(t, _)| t.0 + MARKS_NS < at.0) {
            self.marks.pop_front();
        }
    }

    /// Whom the task woke when it had finished a call that was over at `ended`: the holder of a request that had been
    /// taken before the call. `None` where it did anything else first, since a piece of work whose end needs no waking
    /// leaves no sign, or where before its next call or idle moment it woke holders of several: one of them may only have
    /// waited for a lock.
    pub(crate) fn completed_for(&self, xs: &Slab, began: MonoNs, ended: MonoNs) -> Option<ExId> {
        let mut found: Option<ExId> = None;
        for &(_, mark) in self.marks.iter().filter(|(at, _)| *at >= ended) {
            match mark {
                Mark::Woke(x) if !xs.is_live(x) || xs.get(x).taken > began => return None,
                Mark::Woke(x) if found.is_none_or(|f| f == x) => found = Some(x),
                Mark::Woke(_) => return None,
                Mark::Call | Mark::Idle => return found,
            }
        }
        found
    }

    pub(crate) fn enter(&mut self, x: ExId, at: MonoNs) {
        self.unknown_input = false;
        self.unknown_call = None;
        if self.current != Some(x) {
            self.before = self.current;
            self.current_since = at;
            self.current = Some(x);
        }
    }

    pub(crate) fn leave_fragment(&mut self) {
        self.unknown_call = None;
        if self.current.is_some() {
            self.before = self.current.take();
        }
    }

    /// The request of the fragment at a moment not long ago.
    pub(crate) fn request_at(&self, at: MonoNs) -> Option<ExId> {
        if self.current.is_some() && self.current_since <= at { self.current } else { self.before }
    }
}
