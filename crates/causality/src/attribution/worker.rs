//! What is kept of a task while calls are being explained.

use super::given::Given;
use super::helper::{HelperState, MARKS_NS};
use super::request_set::RequestSet;
use crate::exchange::ExId;
use crate::finished::Parent;
use std::collections::VecDeque;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{InputRow, PollRow};

/// Open requests whose last input a task took.
#[derive(Default)]
pub(super) struct Holding {
    pub(super) all: RequestSet,
    /// Those of them of which nothing is outstanding.
    pub(super) free: RequestSet,
    /// Pairs of them that one read took.
    pub(super) twins: usize,
    /// Those that another process took first.
    pub(super) foreign: usize,
}

impl Holding {
    /// Whether it has neither requests nor calls that may be of one which was handed over.
    pub(super) fn is_unused(&self) -> bool {
        self.all.is_unused() && self.free.is_unused()
    }

    /// The only one.
    pub(super) fn only(&self) -> Option<ExId> {
        match self.all.members() {
            [x] => Some(*x),
            _ => None,
        }
    }
}

/// The stretch of work that a task is in: between one input of a request and the next border.
#[derive(Default)]
pub(super) struct Fragment {
    /// The request that it is of.
    pub(super) of: Option<ExId>,
    pub(super) since: MonoNs,
    /// The request of the one before it.
    before: Option<ExId>,
}

/// What the linker keeps of a task.
#[derive(Default)]
pub(super) struct Worker {
    pub(super) held: Holding,
    pub(super) fragment: Fragment,
    /// Calls since the last border, not yet explained.
    pub(super) segment: Vec<ExId>,
    /// What it was given since it last waited for something to do.
    pub(super) given: Given,
    /// The request that it was made in, until it waits for work.
    pub(super) born_of: Option<ExId>,
    /// When it last began a call.
    pub(super) called: MonoNs,
    /// The call of unknown origin whose reply its last input was.
    pub(super) unknown_call: Option<ExId>,
    /// As a thread, whatever the logical tasks in whose name it read: when it last read more of an answer, and to whose call where that is
    /// known.
    pub(super) heard: (MonoNs, Option<Parent>),
    /// Of how many flows it read since it last slept, as that thread, and the last of them.
    pub(super) read_of: (u32, EndpointId),
    /// It took a request of which nothing is known.
    pub(super) unknown_work: bool,
    pub(super) helper: HelperState,
    pub(super) sleeps: Sleeps,
}

impl Worker {
    /// A poll returned. One that asked for no waiting and was given nothing is not the end of what the last input began:
    /// it goes on with what that left for later (asyncio's `call_soon`, libuv's `setImmediate`).
    pub(super) fn polled(&mut self, r: &PollRow) {
        self.given.polled(r);
        if r.timeout_ns != 0 {
            self.read_of = (0, EndpointId(0));
        }
        if r.ready != 0 || r.timeout_ns != 0 {
            self.leave_fragment();
        }
    }

    /// As a thread, in whosever name, it read from a flow.
    pub(super) fn reads_of(&mut self, flow: EndpointId) {
        if self.read_of.1 != flow {
            self.read_of = (self.read_of.0.saturating_add(1), flow);
        }
    }

    /// Whether its polls found something ready, since it slept, that it was not seen to read: another thread may say so that it is done.
    pub(super) fn has_unread_input(&self) -> bool {
        self.given.turn.ready > self.read_of.0
    }

    /// The library vantage handed it an input.
    pub(super) fn given(&mut self, r: &InputRow) {
        self.leave_fragment();
        self.given.given(r);
    }

    pub(super) fn enter(&mut self, x: ExId, at: MonoNs) {
        self.unknown_call = None;
        if self.fragment.of != Some(x) {
            self.fragment.before = self.fragment.of;
            self.fragment.since = at;
            self.fragment.of = Some(x);
        }
    }

    pub(super) fn leave_fragment(&mut self) {
        self.unknown_call = None;
        if self.fragment.of.is_some() {
            self.fragment.before = self.fragment.of.take();
        }
    }

    /// The request of the fragment at a moment not long ago.
    pub(super) fn request_at(&self, at: MonoNs) -> Option<ExId> {
        if self.fragment.of.is_some() && self.fragment.since <= at { self.fragment.of } else { self.fragment.before }
    }
}

/// Who let a task go on that had slept since before a call of that one's, which was answered.
#[derive(Clone, Copy)]
pub(super) struct Resumed {
    /// It.
    pub(super) by: TaskId,
    /// The request that it was made for.
    pub(super) of: ExId,
    /// The connection of that call.
    pub(super) flow: EndpointId,
    /// When.
    pub(super) at: MonoNs,
}

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

/// How a task slept while it held one request: what others may have done for it meanwhile.
#[derive(Default)]
pub(super) struct Sleeps {
    all: VecDeque<Sleep>,
    /// When a helper last woke it directly after a call.
    heard: MonoNs,
    /// Who may have handed it what came of a call that was made for another request, until what it does next shows.
    pub(super) resumed_by: Option<Resumed>,
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
