//! Waits that another task of the host ended, and what they were for.

use super::{Evidence, Frame, Walk, What, is_futex};
use crate::reasons;
use crate::slices::State;
use wakepath_causality::evidence::Class;
use wakepath_model::ids::{HostId, TaskId};
use wakepath_model::rows::{OpRow, WaitRow, cause, op};

const WAKE_UP: Evidence = ("wake-up", Class::Observed);
const FUTEX: Evidence = ("futex", Class::Observed);
const LATCH: Evidence = ("latch", Class::ByRule);
/// Waits looked at behind one that ended by a time-out.
const AGAIN_MAX: u64 = 8;

impl Walk<'_> {
    /// Another task of the host woke it.
    pub(super) fn woken_by(&mut self, f: Frame, w: &WaitRow, syscall: Option<u16>) {
        let is_latch = self.amid_a_request(f.host, w).is_some_and(|taken| self.is_held_by(f.host, w, &taken));
        let (kind, evidence) = match () {
            () if is_futex(w) => (State::Lock, FUTEX),
            () if is_latch => (State::Lock, LATCH),
            () => (State::Blocked, WAKE_UP),
        };
        let what = What {
            by: (w.by != TaskId::UNKNOWN).then_some((f.host, w.by)),
            syscall,
            object: is_futex(w).then(|| format!("futex {:#x}", w.arg0)),
            reason: None,
        };
        if w.by == TaskId::UNKNOWN {
            let state = if kind == State::Lock { kind } else { State::Unknown };
            self.tell_wait(&f, state, What { reason: Some(reasons::NO_WAKER), ..what });
        } else if w.by == f.task {
            self.tell_wait(&f, kind, What { reason: Some(reasons::ITSELF), ..what });
        } else {
            self.follow(f, (f.host, w.by), kind, evidence, what);
        }
    }

    /// A time-out woke it: it slept, or it looked whether a lock was to be had and waited on.
    pub(super) fn timed_out(&mut self, f: Frame, w: &WaitRow, syscall: Option<u16>) {
        let what = What { syscall, ..What::default() };
        match self.goes_on_for(f.host, w) {
            Some(by) => {
                let by = (f.host, by);
                self.follow(f, by, State::Lock, LATCH, What { by: Some(by), ..what });
            }
            None => self.tell_wait(&f, State::Timer, what),
        }
    }

    /// The holder of a lock for which a task went on waiting after a time-out, as PostgreSQL's backends do when they have
    /// looked for a deadlock.
    fn goes_on_for(&self, host: HostId, w: &WaitRow) -> Option<TaskId> {
        let taken = self.amid_a_request(host, w)?;
        let first = self.index.waits_from(host, w.task, w.at);
        for place in first..first.saturating_add(AGAIN_MAX) {
            let next = self.index.wait(host, w.task, place)?;
            match next.cause {
                cause::PREEMPTED => {}
                cause::TIMER if (next.syscall, next.arg0) == (w.syscall, w.arg0) => {}
                cause::TASK if (next.syscall, next.arg0) == (w.syscall, w.arg0) => {
                    let again = self.amid_a_request(host, &next)?;
                    let is_same = (again.at, again.flow) == (taken.at, taken.flow);
                    return (is_same && self.is_held_by(host, &next, &taken)).then_some(next.by);
                }
                _ => return None,
            }
        }
        None
    }

    /// What a task had taken up, where it slept in poll in the middle of it: the last thing that it did before was to
    /// receive on a connection, and the next was to send on the same one.
    fn amid_a_request(&self, host: HostId, w: &WaitRow) -> Option<OpRow> {
        if !is_poll(w) {
            return None;
        }
        let before = self.index.operation_before(host, w.task, w.blocked)?;
        let after = self.index.operation_from(host, w.task, w.at)?;
        let is_amid = before.kind == op::RECV
            && before.end > before.start
            && after.kind == op::SEND
            && after.flow == before.flow
            && after.entry >= w.at;
        is_amid.then_some(before)
    }

    /// Whether another process of the same program ended a wait amid a request, and not by a message: it let go of what
    /// the task needed. One that was made for the request works for it, and holds nothing up.
    fn is_held_by(&self, host: HostId, w: &WaitRow, taken: &OpRow) -> bool {
        let program = |task| self.index.program(host, task);
        let (Some(mine), Some(theirs)) = (program(w.task), program(w.by)) else { return false };
        let is_older = self.index.fork(host, w.by).is_none_or(|(made, _)| made < taken.at);
        w.cause == cause::TASK && mine.0 != theirs.0 && mine.1 == theirs.1 && is_older
    }
}

/// poll, select, epoll_wait and their kin of x86-64.
fn is_poll(w: &WaitRow) -> bool {
    matches!(w.syscall, 7 | 23 | 34 | 128 | 130 | 232 | 270 | 271 | 281 | 441)
}
