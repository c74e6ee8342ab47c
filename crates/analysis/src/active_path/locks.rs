//! Waits that another task of the host ended, and what they were for.

use super::network::is_local;
use super::timeouts::is_sleep;
use super::{Evidence, Frame, Walk, What};
use crate::reasons;
use crate::slices::State;
use wakepath_causality::evidence::Class;
use wakepath_graph::{Index, is_futex};
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, OpKind, OpRow, Side, WaitRow};

const WAKE_UP: Evidence = ("wake-up", Class::Observed);
const FUTEX: Evidence = ("futex", Class::Observed);
const LOCK_WORD: Evidence = ("lock's holder", Class::Observed);
const INTERPRETER: Evidence = ("interpreter's lock", Class::ByRule);
const TAKEN: Evidence = ("futex, taken before", Class::ByRule);
const READ: Evidence = ("read", Class::Observed);
const LATCH: Evidence = ("latch", Class::ByRule);
/// Most that a task does between the signal that stops it and its stop.
const STOPS_NS: u64 = 1_000_000;

impl Walk<'_> {
    /// Another task of the host woke it.
    pub(super) fn woken_by(&mut self, f: Frame, w: &WaitRow, syscall: Option<u16>) {
        if let Some(object) = self.full_pipe(f.host, w) {
            let by = (w.by != TaskId::UNKNOWN && w.by != f.task).then_some((f.host, w.by));
            let what = What { by, syscall, object: Some(object), reason: None };
            match by {
                Some(by) => self.follow(f, by, State::Unread, READ, what),
                None => self.tell_wait(&f, State::Unread, What { reason: Some(reasons::NO_WAKER), ..what }),
            }
            return;
        }
        let is_latch = self.amid_a_request(f.host, w).is_some_and(|taken| self.is_held_by(f.host, w, &taken));
        let (kind, evidence) = match () {
            () if is_futex(w) => self.futex(f.host, w, w.by),
            () if is_latch => (State::Lock, LATCH),
            () if is_lock_call(w.syscall) => (State::Lock, WAKE_UP),
            () => (State::Blocked, WAKE_UP),
        };
        let what = What {
            by: (w.by != TaskId::UNKNOWN).then_some((f.host, w.by)),
            syscall,
            object: self.awaited_object(f.host, w),
            reason: None,
        };
        if self.is_interrupted(&f, w) {
            let state = if is_sleep(w) { State::Timer } else { State::Unknown };
            self.tell_wait(&f, state, What { by: None, reason: Some(reasons::INTERRUPTED), ..what });
        } else if w.by == TaskId::UNKNOWN {
            let state = if kind == State::Blocked { State::Unknown } else { kind };
            self.tell_wait(&f, state, What { reason: Some(reasons::NO_WAKER), ..what });
        } else if w.by == f.task {
            self.tell_wait(&f, kind, What { reason: Some(reasons::ITSELF), ..what });
        } else {
            self.follow(f, (f.host, w.by), kind, evidence, what);
        }
    }

    /// Whether a signal that stops the task ended its wait, and not what it waited for.
    fn is_interrupted(&self, f: &Frame, w: &WaitRow) -> bool {
        let next = self.index.wait(f.host, w.task, f.place.saturating_add(1));
        next.is_some_and(|n| n.cause == EndedBy::Stopped && n.blocked.0.saturating_sub(w.at.0) <= STOPS_NS)
    }

    /// What had no room, where a task waited in a call that wrote to a pipe or a UNIX socket.
    fn full_pipe(&self, host: HostId, w: &WaitRow) -> Option<String> {
        let o = self.index.operation_from(host, w.task, w.at)?;
        let is_write = o.kind == OpKind::Send && o.entry <= w.blocked && o.syscall == w.syscall;
        (is_write && is_local(self.index, host, o.flow))
            .then(|| if o.flow.is_pipe() { "a pipe".to_owned() } else { "a UNIX socket".to_owned() })
    }

    /// What a task had taken up, where it slept in poll in the middle of it: the last thing that it did before was to
    /// receive on a connection, and the next was to send on the same one.
    pub(super) fn amid_a_request(&self, host: HostId, w: &WaitRow) -> Option<OpRow> {
        if !is_poll(w) {
            return None;
        }
        let before = self.index.operation_before(host, w.task, w.blocked)?;
        let after = self.index.operation_from(host, w.task, w.at)?;
        let is_amid = before.kind == OpKind::Recv
            && before.end > before.start
            && after.kind == OpKind::Send
            && after.flow == before.flow
            && after.entry >= w.at;
        is_amid.then_some(before)
    }

    /// Whether another process of the same program ended a wait amid a request, and not by a message, when its own client had
    /// just asked it for something, as for the end of a transaction: it let go of what the task needed. One that was made for
    /// the request works for it, and one without a client (a parallel worker, a writer) hands over work: neither holds anything up.
    pub(super) fn is_held_by(&self, host: HostId, w: &WaitRow, taken: &OpRow) -> bool {
        let program = |task| self.index.program(host, task);
        let (Some(mine), Some(theirs)) = (program(w.task), program(w.by)) else { return false };
        let is_older = self.index.fork(host, w.by).is_none_or(|(made, _)| made < taken.at);
        let is_like = w.cause == EndedBy::Task && mine.0 != theirs.0 && mine.1 == theirs.1;
        is_like && is_older && asked_last(self.index, host, w.by, w.woken).is_some()
    }

    /// What a wait for a futex that `by` ended was for, and how that is known: a lock only where a holder is shown.
    pub(super) fn futex(&self, host: HostId, w: &WaitRow, by: TaskId) -> (State, Evidence) {
        futex(self.index, host, w, by)
    }

    /// What a wait was for, where its record names it: a futex, or a file.
    pub(super) fn awaited_object(&self, host: HostId, w: &WaitRow) -> Option<String> {
        if is_futex(w) { Some(futex_name(w)) } else { self.index.file_waited_for(host, w).map(str::to_owned) }
    }

    /// Who held a lock when a wait for it began, as the lock itself said.
    pub(super) fn holder(&self, host: HostId, w: &WaitRow) -> Option<TaskId> {
        let process = |task| self.index.program(host, task).map(|p| p.0);
        let is_other = w.is_lock != 0 && w.holder != TaskId::UNKNOWN && w.holder != w.task;
        (is_other && process(w.holder) == process(w.task)).then_some(w.holder)
    }
}

/// What a wait for a futex that `by` ended was for, and how that is known. A futex is a lock where its memory named a holder, where
/// it is asked for as CPython asks for its interpreter's lock, or where who let go of it had waited for it itself and got it. Any
/// other may as well be a condition, a queue of work, or a process's end.
pub(super) fn futex(index: &Index, host: HostId, w: &WaitRow, by: TaskId) -> (State, Evidence) {
    let had_taken = || by != TaskId::UNKNOWN && by != w.task && index.had_taken(host, by, w, w.woken);
    match () {
        () if w.is_lock != 0 => (State::Lock, LOCK_WORD),
        () if index.is_on_an_interpreter(host, w) => (State::Lock, INTERPRETER),
        () if had_taken() => (State::Lock, TAKEN),
        () => (State::Futex, FUTEX),
    }
}

/// What a task had been asked for last on a connection that it serves, where it has done nothing on any connection since. Nothing where
/// that is no request of a known protocol: so is what a standby tells the sender of its log, on a connection from before the recording.
pub(crate) fn asked_last(index: &Index, host: HostId, task: TaskId, at: MonoNs) -> Option<OpRow> {
    let last = index.operation_before(host, task, at).filter(|o| o.kind == OpKind::Recv)?;
    let serves = index.end(host, last.flow).is_some_and(|e| e.side == Side::Server);
    // who sends a standby its log lets others go on, and holds no lock
    let asks = |words: [&str; 3]| !words[1].starts_with("START_REPLICATION");
    (serves && index.asked(host, last.flow, at).is_some_and(asks)).then_some(last)
}

/// Whether a task that was followed for a lock held it. Who wakes another at a futex may as well have handed over work.
pub(super) fn is_of_holder(evidence: Evidence) -> bool {
    evidence == LATCH || evidence == WAKE_UP
}

/// semop, flock, fcntl, semtimedop of x86-64: made for locks.
pub(crate) const fn is_lock_call(syscall: u16) -> bool {
    matches!(syscall, 65 | 72 | 73 | 220)
}

/// poll, select, epoll_wait and their kin of x86-64.
pub(crate) fn is_poll(w: &WaitRow) -> bool {
    matches!(w.syscall, 7 | 23 | 34 | 128 | 130 | 232 | 270 | 271 | 281 | 441)
}

/// What a futex is called, of which only the address is known.
pub(super) fn futex_name(w: &WaitRow) -> String {
    format!("futex {:#x}", w.arg0)
}
