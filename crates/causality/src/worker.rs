//! What is kept of a task and of an exchange while calls are being explained.

use crate::component::GRACE_NS;
use crate::exchange::{ExId, Slab};
use crate::finished::Parent;
use std::collections::VecDeque;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{InputRow, PollRow};

/// Time-outs are given in rounded milliseconds: timers may be due that much earlier.
pub(crate) const TIMER_GRAIN_NS: u64 = 2_000_000;

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
    /// It was an isolated input, and nothing was done for it before the next poll.
    pub(crate) is_lying: bool,
    pub(crate) released: bool,
    /// A call of a helper, made while its process had but one request open, and not of the helper's own accord.
    pub(crate) has_one_suspect: bool,
    /// A helper woke its holder.
    pub(crate) was_woken: bool,
    /// Its reply left in parts, so one waking does not tell that all was done.
    pub(crate) in_parts: bool,
}

/// Why a helper task that was idle goes on.
#[derive(Clone, Copy, PartialEq, Default)]
pub(crate) enum Woken {
    /// It was not seen to sleep, or the task that woke it was at no request that is known and open.
    #[default]
    Unknown,
    /// A task woke it that worked on this request.
    For(ExId),
    /// A timer: what it does is perhaps nobody's.
    Timer,
}

/// What a helper task did, besides its calls: enough to tell where one piece of its work ends.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mark {
    /// It began a call.
    Call,
    /// It woke the task that held this request.
    Woke(ExId),
    /// It went idle, or waited for a lock.
    Idle,
    /// It closed the flow of this call of its.
    Left(ExId),
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
    /// When the first timer of its loop can be due, in ns, while it works on an isolated input; `None` while it does not.
    pub(crate) isolated_until: Option<u64>,
    /// The flow of that input, and what was accepted since.
    pub(crate) inputs: [EndpointId; 2],
    /// It took a reply since its last poll that waited, or saw a call end without one: what that set free (a connection
    /// of a pool), another request may have waited for.
    pub(crate) is_answered: bool,
    /// How many descriptors that poll found ready.
    pub(crate) ready: i32,
    /// From how many flows it took something since then, and the last of them.
    pub(crate) taken_from: (i32, EndpointId),
    /// Why it woke last, while it was idle.
    pub(crate) woken: Woken,
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

    /// A poll returned. One that asked for no waiting and was given nothing is not the end of what the last input began:
    /// it goes on with what that left for later (asyncio's `call_soon`, libuv's `setImmediate`).
    pub(crate) fn polled(&mut self, r: &PollRow) {
        if r.ready == 0 && r.timeout_ns == 0 && self.isolated_until.is_some() {
            return;
        }
        self.isolated_until = None;
        self.polled = Some((r.at, r.entry, r.timeout_ns));
        self.ready = r.ready;
        self.taken_from = (0, EndpointId(0));
        // what a reply left for later is done behind a poll that does not wait
        self.is_answered &= r.timeout_ns == 0;
        self.leave_fragment();
        self.unknown_input = false;
    }

    /// The library vantage handed it an input.
    pub(crate) fn given(&mut self, r: &InputRow) {
        self.leave_fragment();
        self.unknown_input = false;
        self.inputs = [r.flow, EndpointId(0)];
        let (entry, timeout_ns) = self.polled.map_or((r.at, 0), |(_, entry, timeout)| (entry, timeout));
        // who asks not to wait has something else to do, and does it before or after this input
        self.isolated_until = (r.isolated != 0 && timeout_ns != 0).then(|| entry.0.saturating_add(timeout_ns));
    }

    /// It took something from a flow. Where that is not its input, it has something else to go on with.
    pub(crate) fn took(&mut self, flow: EndpointId) {
        self.saw(flow);
        if !self.inputs.contains(&flow) {
            self.isolated_until = None;
        }
    }

    /// One of what its poll found ready was this flow.
    pub(crate) fn saw(&mut self, flow: EndpointId) {
        if self.taken_from.1 != flow {
            self.taken_from = (self.taken_from.0.saturating_add(1), flow);
        }
    }

    /// Whether its poll found something ready that it was not seen to take up, and may have without a sign: a pipe or
    /// an eventfd by which another thread says that it is done.
    pub(crate) fn has_unseen_input(&self) -> bool {
        self.ready > self.taken_from.0
    }

    /// Whether all that it does now is for the input that it was given last.
    pub(crate) fn is_isolated(&self, at: MonoNs) -> bool {
        self.isolated_until.is_some_and(|until| at.0.saturating_add(TIMER_GRAIN_NS) < until)
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
    pub(crate) fn completed_for(&self, xs: &Slab, call: ExId, began: MonoNs, ended: MonoNs) -> Option<ExId> {
        let since = || self.marks.iter().filter(|(at, _)| *at >= ended).map(|&(_, mark)| mark);
        // until it closed the call's flow it was still at the same piece of work: what looked idle was a lock
        let piece = since().take_while(|mark| matches!(mark, Mark::Idle | Mark::Left(_)));
        let closed = piece.enumerate().filter(|&(_, mark)| mark == Mark::Left(call)).last();
        let mut found: Option<ExId> = None;
        for mark in since().skip(closed.map_or(0, |(i, _)| i)) {
            match mark {
                Mark::Left(_) => {}
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
