//! What is kept of a task and of an exchange while calls are being explained.

use super::turn::Turn;
use crate::exchange::{ExId, Exchange, Slab};
use crate::finished::{Parent, Refusal};
use std::collections::VecDeque;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{InputRow, PollRow};

/// How long after its end an exchange can still be linked.
pub(super) const GRACE_NS: u64 = 1_000_000_000;

/// What the linker keeps of an exchange.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) process: u32,
    pub(crate) parent: Option<Parent>,
    pub(crate) outstanding: u32,
    /// Of what is outstanding, connections that are made for it.
    pub(crate) dialling: u32,
    /// This call counts as outstanding of its parent.
    pub(crate) is_counted: bool,
    pub(crate) holder: TaskId,
    pub(crate) last_input: MonoNs,
    pub(crate) doubts: u32,
    /// The first of the calls that may be its, as they were when they began, each with how many others could have made it.
    pub(crate) open_calls: Vec<(ExId, Exchange, u32)>,
    pub(crate) lossy: bool,
    pub(crate) closed: bool,
    /// Given to the next stage already, as it was then.
    pub(crate) given: bool,
    pub(crate) calls: Vec<ExId>,
    pub(crate) suspects: Vec<ExId>,
    pub(crate) reply_task: TaskId,
    pub(crate) replied: bool,
    /// Who made this call slept until the task that read its answer woke it, and had no other call under way.
    pub(crate) is_slept_for: bool,
    pub(crate) overflow: bool,
    /// It was an isolated input, and nothing was done for it before the next poll.
    pub(crate) is_put_off: bool,
    pub(crate) released: bool,
    /// A call of a helper, made while its process had but one request open, and not of the helper's own accord.
    pub(crate) has_one_suspect: bool,
    /// When its holder last began a call itself, as it was at the request's end.
    pub(crate) holder_called: MonoNs,
    /// The other requests that could have made this call and were not over when it was.
    pub(crate) rivals: Vec<ExId>,
    /// Connections that were tried for it and did not come about.
    pub(crate) refusals: Vec<Refusal>,
}

/// Most of them kept for one exchange.
pub(crate) const REFUSALS_MAX: usize = 16;
/// Most calls kept of those that may be a request's.
pub(crate) const OPEN_CALLS_MAX: usize = 8;

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

/// What a helper task did, besides its calls: enough to tell where one job of its ends.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum HelperEvent {
    /// It began a call.
    Call,
    /// It woke the task that held this request, which had slept since then.
    Woke(ExId, MonoNs),
    /// It went idle, or waited for a lock.
    Idle,
    /// It closed the flow of this call of its.
    Left(ExId),
}

/// Jobs that were seen in a process, by what a helper's signs tell of them.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct JobStats {
    /// They made no call.
    pub(crate) callless: u32,
    /// After a call of theirs nobody was woken: another call may have been the same job's. Less than 0 where wake-ups
    /// are told that it had counted as missing.
    pub(crate) unsignalled: i32,
    /// Behind their call who waited was woken.
    pub(crate) signalled: u32,
    /// They were signalled to a task that another call's end had woken while theirs was under way.
    pub(crate) at_once: u32,
}

impl JobStats {
    /// Adds what was seen besides.
    pub(crate) fn add(&mut self, seen: JobStats) {
        self.callless = self.callless.saturating_add(seen.callless);
        self.unsignalled = self.unsignalled.saturating_add(seen.unsignalled);
        self.signalled = self.signalled.saturating_add(seen.signalled);
        self.at_once = self.at_once.saturating_add(seen.at_once);
    }

    /// Whether the signs say little of whose a job was. Where ends that wake nobody are more than exceptions (who waits for
    /// a result may not sleep yet when it is there), requests hear of the last of their jobs alone, and sleep proves
    /// nothing. Where they are exceptions, no job may be without a call.
    pub(crate) fn say_little(&self) -> bool {
        let unsignalled = self.unsignalled.unsigned_abs();
        unsignalled > 0 && (self.callless > 0 || unsignalled.saturating_mul(EXCEPTIONS) > self.signalled)
    }

    /// Whether too few were seen to tell whether ends that wake nobody are exceptions: one more would not be.
    pub(crate) fn are_few(&self) -> bool {
        self.unsignalled.unsigned_abs().saturating_add(1).saturating_mul(EXCEPTIONS) > self.signalled
    }

    /// Whether nobody was seen to wait for several calls at once, nor a piece without one.
    pub(crate) fn are_single(&self) -> bool {
        self.callless == 0 && self.at_once == 0
    }
}

/// One in how many is an exception.
const EXCEPTIONS: u32 = 16;

/// Marks older than this are of no use: their calls are decided.
pub(crate) const MARKS_NS: u64 = 4 * GRACE_NS;

/// A sleep at a place of its own from which another task woke it, or has not yet.
#[derive(Clone, Copy)]
pub(crate) struct Sleep {
    pub(crate) from: MonoNs,
    pub(crate) to: MonoNs,
    /// A helper ended it directly behind a call of its own.
    is_answered: bool,
}

/// Most sleeps kept of a task.
const SLEEPS_MAX: usize = 1_024;

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
    /// What it was given since it last waited for something to do.
    pub(crate) turn: Turn,
    /// Why it woke last, while it was idle.
    pub(crate) woken: Woken,
    /// The request that it was made in, until it waits for work.
    pub(crate) born_of: Option<ExId>,
    /// How it slept while it held one request.
    sleeps: VecDeque<Sleep>,
    /// When a helper last woke it directly behind a call, while it held one request.
    heard: MonoNs,
    /// When it last began a call.
    pub(crate) called: MonoNs,
    /// The call of unknown origin whose reply its last input was.
    pub(crate) unknown_call: Option<ExId>,
    /// It took a request of which nothing is known.
    pub(crate) unknown_work: bool,
    /// A request was handed to it before.
    pub(crate) is_handed_work: bool,
    /// What it did, in order of time.
    pub(crate) marks: VecDeque<(MonoNs, HelperEvent)>,
}

impl Worker {
    /// A poll returned. One that asked for no waiting and was given nothing is not the end of what the last input began:
    /// it goes on with what that left for later (asyncio's `call_soon`, libuv's `setImmediate`).
    pub(crate) fn polled(&mut self, r: &PollRow) {
        self.turn.polled(r);
        if r.ready != 0 || r.timeout_ns != 0 {
            self.leave_fragment();
        }
    }

    /// The library vantage handed it an input.
    pub(crate) fn given(&mut self, r: &InputRow) {
        self.leave_fragment();
        self.turn.given(r);
    }

    /// It did something; gives what that says of jobs that a sign does not tell, and where it woke somebody
    /// directly behind a call, when that began.
    pub(crate) fn mark(&mut self, at: MonoNs, mark: HelperEvent) -> (JobStats, Option<MonoNs>) {
        // wake-ups are told when the woken task runs, so a little late
        let place = self.marks.iter().rposition(|&(t, _)| t <= at).map_or(0, |i| i + 1);
        self.marks.insert(place, (at, mark));
        let counts = |(_, mark): &&(MonoNs, HelperEvent)| !matches!(mark, HelperEvent::Left(_));
        let before = self.marks.range(..place).rev().find(counts).copied();
        let after = self.marks.range(place + 1..).find(counts).map(|m| m.1);
        let call = before.filter(|m| m.1 == HelperEvent::Call).map(|m| m.0);
        let before = before.map(|m| m.1);
        let is_woke = |mark: Option<HelperEvent>| matches!(mark, Some(HelperEvent::Woke(..)));
        let is_next = |mark: Option<HelperEvent>| matches!(mark, Some(HelperEvent::Idle | HelperEvent::Call));
        let signalled = call.filter(|_| is_woke(Some(mark)));
        let unsignalled = call.is_some() && is_next(Some(mark));
        // told late: until now nobody seemed to be woken
        let is_late = signalled.is_some() && is_next(after);
        let is_callless =
            is_woke(Some(mark)) && (is_woke(before) || before == Some(HelperEvent::Idle) || is_woke(after));
        let jobs = JobStats {
            callless: u32::from(is_callless),
            unsignalled: i32::from(unsignalled) - i32::from(is_late),
            signalled: u32::from(signalled.is_some()),
            at_once: 0,
        };
        while self.marks.front().is_some_and(|&(t, _)| t.0 + MARKS_NS < at.0) {
            self.marks.pop_front();
        }
        (jobs, signalled)
    }

    /// It slept while it held one request.
    pub(crate) fn slept(&mut self, from: MonoNs, to: MonoNs) {
        let is_old = |s: &Sleep| s.to.0 + MARKS_NS < to.0;
        while self.sleeps.len() >= SLEEPS_MAX || self.sleeps.front().is_some_and(is_old) {
            self.sleeps.pop_front();
        }
        self.sleeps.push_back(Sleep { from, to, is_answered: false });
    }

    /// A helper ended its last sleep at `at`, directly behind a call that began at `began`. True where another call's end had
    /// woken it since then: it waited for both at once.
    pub(crate) fn heard(&mut self, began: MonoNs, at: MonoNs) -> bool {
        if let Some(sleep) = self.sleeps.back_mut() {
            sleep.is_answered = true;
        }
        std::mem::replace(&mut self.heard, at) > began
    }

    /// Whether it slept for the answer to another call while one was under way that began and ended then.
    pub(crate) fn waits_for_another(&self, began: MonoNs, ended: MonoNs) -> bool {
        self.sleeps.iter().any(|s| s.is_answered && s.from <= ended && began <= s.to)
    }

    /// Whether it slept all the while from `from` to `to`.
    pub(crate) fn sleeps_through(&self, from: MonoNs, to: MonoNs) -> bool {
        self.sleeps.iter().any(|s| s.from <= from && to <= s.to)
    }

    /// Whom the task woke, and when, when it had finished a call that was over at `ended`: the holder of a request that had
    /// been taken before the call, and that had waited since the call was under way (who waits for a lock begins to later).
    /// `None` where it did anything else first, since a piece of work whose end needs no waking leaves no sign, or where
    /// before its next call or idle moment it woke holders of several: one of them may only have waited for a lock.
    pub(crate) fn completed_for(&self, xs: &Slab, call: ExId, began: MonoNs, ended: MonoNs) -> Option<(ExId, MonoNs)> {
        let since = || self.marks.iter().filter(|(at, _)| *at >= ended).copied();
        // until it closed the call's flow it was still at the same piece of work: what looked idle was a lock
        let piece = since().take_while(|(_, mark)| matches!(mark, HelperEvent::Idle | HelperEvent::Left(_)));
        let closed = piece.enumerate().filter(|&(_, (_, mark))| mark == HelperEvent::Left(call)).last();
        let mut found: Option<(ExId, MonoNs)> = None;
        for (at, mark) in since().skip(closed.map_or(0, |(i, _)| i)) {
            match mark {
                HelperEvent::Left(_) => {}
                HelperEvent::Woke(x, slept) if !xs.is_live(x) || xs.get(x).taken > began || slept > ended => {
                    return None;
                }
                HelperEvent::Woke(x, _) if found.is_none_or(|(f, _)| f == x) => found = Some((x, at)),
                HelperEvent::Woke(..) => return None,
                HelperEvent::Call | HelperEvent::Idle => return found,
            }
        }
        found
    }

    pub(crate) fn enter(&mut self, x: ExId, at: MonoNs) {
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
