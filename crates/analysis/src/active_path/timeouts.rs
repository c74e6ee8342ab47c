//! Waits that ended by a time-out. A wait has an object: a lock, an answer, a connection, a time. That a time-out ended it
//! says how it ended and not what for: only where nothing else was awaited was it for the time itself.

use super::locks::futex_name;
use super::locks::{is_lock_call, is_poll};
use super::untaken::untaken;
use super::{Evidence, Frame, Walk, What, because};
use crate::names::remote_of;
use crate::reasons;
use crate::slices::State;
use wakepath_causality::evidence::Class;
use wakepath_graph::{is_for_an_interpreter, is_futex};
use wakepath_model::ids::{EndpointId, HostId, TaskId};
use wakepath_model::rows::{EndedBy, OpKind, OpRow, WaitRow};

const LATCH: Evidence = ("latch", Class::ByRule);
const FUTEX_AGAIN: Evidence = ("futex, asked for again", Class::ByRule);
/// Waits looked at after one that ended by a time-out; of a futex the ones after it are remembered.
const AGAIN_MAX: u64 = 4096;
/// Most that a task does between a time-out and asking for the same again.
const AGAIN_NS: u64 = 1_000_000;
/// The same of who asks for an interpreter's lock: without it there is nothing that it could do, but it may be kept from
/// asking by the machine under it.
const AGAIN_INTERPRETER_NS: u64 = 5_000_000;
/// The words of a condition and of the mutex beside it lie no further apart (glibc: 48 and 40 bytes).
const CONDITION_BYTES: u64 = 128;
/// The words on which one condition's waiters sleep (glibc: two groups).
const GROUP_BYTES: u64 = 4;

/// A wait for a futex that went on after a time-out: who ended it at last.
#[derive(Clone, Copy)]
pub(super) struct Again {
    waiter: (HostId, TaskId),
    /// Place of its first wait that is known to be part of it.
    place: u64,
    by: TaskId,
}

/// What a wait that ended by a time-out was for.
enum Awaited {
    /// The time.
    Time,
    /// A lock on a file, or a semaphore.
    Lock,
    /// An answer on a connection.
    Answer(EndpointId),
    /// A connection to be established.
    Connection(EndpointId),
    /// The kernel held it up.
    Kernel,
    /// What another lets go of; a signal of its alarm clock ended the wait.
    Alarm,
}

impl Walk<'_> {
    /// A time-out ended a wait.
    pub(super) fn timed_out(&mut self, f: Frame, w: &WaitRow, syscall: Option<u16>) {
        let what = What { syscall, ..What::default() };
        if is_futex(w) {
            let object = Some(futex_name(w));
            let by = self.woken_at_last(&f, w).or_else(|| self.holder(f.host, w));
            let (state, _) = self.futex(f.host, w, by.unwrap_or(TaskId::UNKNOWN));
            match by.map(|by| (f.host, by)) {
                Some(by) => self.follow(f, by, state, FUTEX_AGAIN, What { by: Some(by), object, ..what }),
                None => self.tell_wait(&f, state, What { object, reason: Some(reasons::NOT_SIGNALLED), ..what }),
            }
            return;
        }
        if let Some(by) = self.goes_on_for(f.host, w) {
            let by = (f.host, by);
            self.follow(f, by, State::Lock, LATCH, What { by: Some(by), ..what });
            return;
        }
        match self.awaited(f.host, w) {
            // whose timer it was is not known: such a loop may also look again and again whether another request is done
            Awaited::Time if self.is_wait_of_loop(&f, w) => {
                self.tell_wait(&f, State::Timer, What { reason: Some(reasons::LOOP_TIMER), ..what })
            }
            Awaited::Time => self.tell_wait(&f, State::Timer, what),
            Awaited::Lock => {
                let object = self.awaited_object(f.host, w);
                self.tell_wait(&f, State::Lock, What { object, ..what })
            }
            Awaited::Answer(flow) => {
                let object = self.index.end(f.host, flow).as_ref().map(remote_of);
                let (state, by, reason) = match untaken(self.index, (f.host, flow), w.blocked, w.woken) {
                    Some((by, reason)) => (State::Queued, Some(by), reason),
                    None => (State::Network, None, reasons::NO_ANSWER),
                };
                self.tell_wait(&f, state, What { by, object, reason: Some(reason), ..what });
            }
            Awaited::Connection(flow) => {
                let end = self.index.end(f.host, flow);
                let object = end.as_ref().map(remote_of);
                self.connecting(f, w, flow, end, What { object, ..what });
            }
            Awaited::Kernel => self.tell_wait(&f, State::Unknown, What { syscall, ..because(reasons::HELD_UP) }),
            Awaited::Alarm => self.tell_wait(&f, State::Unknown, What { syscall, ..because(reasons::ALARM) }),
        }
    }

    /// The connection whose answer had not come when a wait timed out.
    pub(super) fn unanswered(&self, host: HostId, w: &WaitRow) -> Option<EndpointId> {
        match self.awaited(host, w) {
            Awaited::Answer(flow) => Some(flow),
            _ => None,
        }
    }

    /// What a wait that a time-out ended was for, where nobody is known to have ended it later.
    fn awaited(&self, host: HostId, w: &WaitRow) -> Awaited {
        if is_lock_call(w.syscall) {
            return Awaited::Lock;
        }
        if w.is_uninterruptible() && w.syscall != super::NO_SYSCALL && !is_sleep(w) {
            return Awaited::Kernel;
        }
        let before = self.index.operation_before(host, w.task, w.blocked);
        let after = self.index.operation_from(host, w.task, w.at);
        if is_connect(w) || is_poll(w) {
            let tried = after.filter(|o| o.kind == OpKind::Connect && o.entry <= w.blocked);
            let polled = before.filter(|o| o.kind == OpKind::Connect && is_poll(w) && is_on(after.as_ref(), o.flow));
            if let Some(o) = tried.or(polled) {
                return Awaited::Connection(o.flow);
            }
        }
        // a thread that asked and then waits on that connection; a loop waits for its timers in epoll
        let asked = before.filter(|o| o.kind == OpKind::Send && o.end > o.start);
        // or the call is known to be the request's, and it went on with something else
        let is_due = |flow| {
            let at = self.index.common(host, w.blocked);
            self.outstanding.as_ref().is_some_and(|o| o.at(host, flow, at))
        };
        let is_for = |o: &OpRow| is_plain_poll(w) && (is_on(after.as_ref(), o.flow) || is_due(o.flow));
        if let Some(o) = asked.filter(|o| is_receive(w) || is_for(o)) {
            return Awaited::Answer(o.flow);
        }
        if self.amid_a_request(host, w).is_some() && self.index.polls_without_time_out(host, w) {
            return Awaited::Alarm;
        }
        Awaited::Time
    }

    /// The holder of a lock for which a task went on waiting after a time-out, as PostgreSQL's backends do when they have
    /// looked for a deadlock.
    fn goes_on_for(&self, host: HostId, w: &WaitRow) -> Option<TaskId> {
        const LATCHES_MAX: u64 = 8;
        let taken = self.amid_a_request(host, w)?;
        let first = self.index.waits_from(host, w.task, w.at);
        for place in first..first.saturating_add(LATCHES_MAX) {
            let next = self.index.wait(host, w.task, place)?;
            match next.cause {
                EndedBy::Preempted => {}
                EndedBy::Timer if (next.syscall, next.arg0) == (w.syscall, w.arg0) => {}
                EndedBy::Task if (next.syscall, next.arg0) == (w.syscall, w.arg0) => {
                    let again = self.amid_a_request(host, &next)?;
                    let is_same = (again.at, again.flow) == (taken.at, taken.flow);
                    return (is_same && self.is_held_by(host, &next, &taken)).then_some(next.by);
                }
                _ => return None,
            }
        }
        None
    }

    /// Who woke a task at last on the futex for which it asked again and again, doing nothing else in between.
    fn woken_at_last(&mut self, f: &Frame, w: &WaitRow) -> Option<TaskId> {
        let waiter = (f.host, w.task);
        let known = self.again.filter(|a| a.waiter == waiter && a.place > f.place);
        let again_ns = if is_for_an_interpreter(w) { AGAIN_INTERPRETER_NS } else { AGAIN_NS };
        let mut ran = w.at;
        let mut by = None;
        for place in f.place + 1..f.place.saturating_add(AGAIN_MAX) {
            let Some(next) = self.index.wait(f.host, w.task, place) else { break };
            let is_busy = next.blocked.0.saturating_sub(ran.0) > again_ns;
            if is_busy || self.index.operation_from(f.host, w.task, ran).is_some_and(|o| o.entry < next.blocked) {
                break;
            }
            ran = next.at;
            let apart = next.arg0.abs_diff(w.arg0);
            let is_same = is_futex(&next) && apart <= GROUP_BYTES;
            match next.cause {
                EndedBy::Preempted => {}
                EndedBy::Timer if is_same && known.is_some_and(|a| a.place == place) => {
                    by = known.map(|a| a.by);
                    break;
                }
                // where it is not known what ended a wait, asking again shows that this did not give what was asked for
                EndedBy::Timer | EndedBy::Unknown if is_same => {}
                EndedBy::Task if is_same => {
                    by = Some(next.by).filter(|&t| t != TaskId::UNKNOWN && t != w.task);
                    break;
                }
                // the mutex that guards the condition
                EndedBy::Task if is_futex(&next) && apart <= CONDITION_BYTES => {}
                _ => break,
            }
        }
        self.again = by.map(|by| Again { waiter, place: f.place, by });
        by
    }
}

fn is_on(o: Option<&OpRow>, flow: EndpointId) -> bool {
    o.is_some_and(|o| o.flow == flow)
}

/// nanosleep, clock_nanosleep of x86-64.
pub(super) fn is_sleep(w: &WaitRow) -> bool {
    matches!(w.syscall, 35 | 230)
}

/// Whether a wait is for something on descriptors.
pub(super) fn is_for_bytes(w: &WaitRow) -> bool {
    is_receive(w) || is_poll(w)
}

pub(super) fn is_connect(w: &WaitRow) -> bool {
    w.syscall == 42
}

/// recvfrom, recvmsg, recvmmsg of x86-64.
pub(super) fn is_receive(w: &WaitRow) -> bool {
    matches!(w.syscall, 45 | 47 | 299)
}

/// poll, select, pselect6, ppoll of x86-64.
fn is_plain_poll(w: &WaitRow) -> bool {
    matches!(w.syscall, 7 | 23 | 270 | 271)
}
