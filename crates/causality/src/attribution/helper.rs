//! What a helper did: a task that takes no requests and makes calls for those that others hold.

use crate::client_tasks::Wakeups;
use crate::exchange::{ExId, Slab};
use std::collections::VecDeque;
use wakepath_model::ids::MonoNs;

/// How long after its end an exchange can still be linked: a bound of memory. Calls that are linked later leave their request incomplete.
pub(super) const GRACE_NS: u64 = 1_000_000_000;

/// Why a helper task that was idle goes on.
#[derive(Clone, Copy, PartialEq, Default)]
pub(super) enum Woken {
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
pub(super) enum HelperEvent {
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
pub(super) struct JobStats {
    /// They made no call.
    pub(super) callless: u32,
    /// After a call of theirs no task was woken: another call may have been the same job's. Less than 0 where wake-ups
    /// are told that it had counted as missing.
    pub(super) unsignalled: i32,
    /// After their call who waited was woken.
    pub(super) signalled: u32,
    /// They were signalled to a task that another call's end had woken while theirs was under way.
    pub(super) at_once: u32,
}

impl JobStats {
    /// Adds what was seen besides.
    pub(super) fn add(&mut self, seen: JobStats) {
        self.callless = self.callless.saturating_add(seen.callless);
        self.unsignalled = self.unsignalled.saturating_add(seen.unsignalled);
        self.signalled = self.signalled.saturating_add(seen.signalled);
        self.at_once = self.at_once.saturating_add(seen.at_once);
    }

    /// Whether the signs say little of whose a job was. Where ends that wake no task are more than exceptions (who waits for
    /// a result may not sleep yet when it is there), requests hear of the last of their jobs alone, and sleep proves
    /// nothing. Where they are exceptions, no job may be without a call.
    pub(super) fn say_little(&self) -> bool {
        let unsignalled = self.unsignalled.unsigned_abs();
        unsignalled > 0 && (self.callless > 0 || unsignalled.saturating_mul(EXCEPTIONS) > self.signalled)
    }

    /// Whether too few were seen to tell whether ends that wake no task are exceptions: one more would not be.
    pub(super) fn are_few(&self) -> bool {
        self.unsignalled.unsigned_abs().saturating_add(1).saturating_mul(EXCEPTIONS) > self.signalled
    }

    /// Whether nobody was seen to wait for several calls at once, nor a piece without one.
    pub(super) fn are_single(&self) -> bool {
        self.callless == 0 && self.at_once == 0
    }
}

/// One in how many is an exception.
const EXCEPTIONS: u32 = 16;

/// Marks older than this are of no use: their calls are decided.
pub(super) const MARKS_NS: u64 = 4 * GRACE_NS;

/// What is kept of a helper.
#[derive(Default)]
pub(super) struct HelperState {
    /// Why it woke last, while it was idle.
    pub(super) woken: Woken,
    /// When it was last asked for something: it was woken, or given something inside its process.
    pub(super) asked: MonoNs,
    /// When it last sent more on a connection of an unknown protocol.
    pub(super) sent: MonoNs,
    /// A request was handed to it before.
    pub(super) is_handed_work: bool,
    /// What it did, in order of time.
    pub(super) marks: VecDeque<(MonoNs, HelperEvent)>,
    /// Who woke it before it sent, as its runtime tells, until the call was looked at.
    pub(super) wakeups: Wakeups,
}

impl HelperState {
    /// It did something; gives what that says of jobs that a sign does not tell, and where it woke somebody
    /// directly after a call, when that began.
    pub(super) fn mark(&mut self, at: MonoNs, mark: HelperEvent) -> (JobStats, Option<MonoNs>) {
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
        // told late: until now no task seemed to be woken
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

    /// Whom the task woke, and when, when it had finished a call that was over at `ended`: the holder of a request that had
    /// been taken before the call, and that had waited since the call was under way (who waits for a lock begins to later).
    /// `None` where it did anything else first, since a piece of work whose end needs no waking leaves no sign, or where
    /// before its next call or idle moment it woke holders of several: one of them may only have waited for a lock.
    pub(super) fn completed_for(&self, xs: &Slab, call: ExId, began: MonoNs, ended: MonoNs) -> Option<(ExId, MonoNs)> {
        let since = || self.marks.iter().filter(|(at, _)| *at >= ended).copied();
        // until it closed the call's flow it was still at the same piece of work: what looked idle was a lock
        let piece = since().take_while(|(_, mark)| matches!(mark, HelperEvent::Idle | HelperEvent::Left(_)));
        let closed = piece.enumerate().filter(|&(_, (_, mark))| mark == HelperEvent::Left(call)).last();
        let mut found: Option<(ExId, MonoNs)> = None;
        for (at, mark) in since().skip(closed.map_or(0, |(i, _)| i)) {
            match mark {
                HelperEvent::Left(_) => {}
                HelperEvent::Woke(x, slept) if !xs.is_live(x) || xs.get(x).request.taken > began || slept > ended => {
                    return None;
                }
                HelperEvent::Woke(x, _) if found.is_none_or(|(f, _)| f == x) => found = Some((x, at)),
                HelperEvent::Woke(..) => return None,
                HelperEvent::Call | HelperEvent::Idle => return found,
            }
        }
        found
    }
}
