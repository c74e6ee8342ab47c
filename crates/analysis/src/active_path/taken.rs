//! Between when bytes had come and when a thread took them: the thread got ready, or had something else to do, and for whom.
//!
//! What a thread did before it read the bytes was not for who waits for them. For whom it was is known where it was between two
//! operations on one connection on which its process is asked; a time between two connections may be anybody's.

use super::locks::is_poll;
use super::others::Outstanding;
use super::{Message, Walk, own_wait};
use crate::names::{asked, remote_of};
use crate::reasons;
use crate::slices::State;
use wakepath_graph::{Index, is_futex};
use wakepath_model::ids::{CommonNs, EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, OpKind, OpRow, RuntimeKind, Side, WaitRow};

/// Most operations that are looked at for whom a thread worked, at once.
pub(super) const WORK_MAX: usize = 4096;

impl Walk<'_> {
    /// What `task` took at the cursor had come at `floor`, for a request that came in on `own`: tells what the task did
    /// instead, down to `floor`. Where it waited for input and came onto a processor for this, tells nothing below that and
    /// gives the wait. A task that has taken up the request already may have worked for it: see [`Taken`].
    pub(crate) fn busy_since(
        &mut self,
        task: (HostId, TaskId),
        floor: CommonNs,
        own: EndpointId,
        what: Taken,
    ) -> Option<WaitRow> {
        let (index, (host, id)) = (self.index, task);
        let took = self.at;
        let mut told = CommonNs(i64::MAX);
        // where records contradict each other nothing more is told of them
        while self.at > floor && self.at < told {
            told = self.at;
            let place = index.waits_from(host, id, index.timeline().local(host, self.at));
            let wait = place.checked_sub(1).and_then(|p| index.wait(host, id, p)).filter(|w| w.cause != EndedBy::Open);
            let ran = wait.map_or(CommonNs(i64::MIN), |w| index.common(host, w.at));
            let Some(w) = wait.filter(|_| ran > floor && ran <= self.at) else {
                self.tell_work(task, floor, own, what);
                break;
            };
            if self.is_stopped_by_vm(host, &w) {
                self.tell_work(task, ran, own, what);
                self.back(host, id, index.common(host, w.blocked).clamp(floor, self.at), self.at);
                continue;
            }
            // a loop that polled since had been at work for something else; a runtime says so itself
            let polled = w.is_told == 0 && index.polls_within(host, id, w.at, index.timeline().local(host, took));
            if self.is_idle(host, &w, what) && !polled && !self.had_polled(host, &w, floor) {
                // of one wake-up it took others' inputs first
                let others = self.work(task, ran, own).into_iter().find(|w| w.is_others);
                let Some(last) = others else { return Some(w) };
                self.back(host, id, last.to, self.at);
                self.tell_work(task, ran, own, what);
                return Some(w);
            }
            self.tell_work(task, ran, own, what);
            let is_waiting = !matches!(w.cause, EndedBy::Preempted | EndedBy::Stopped);
            let is_others = is_waiting && (what == Taken::Request || self.is_amid_anothers(host, &w, own));
            let until = if is_others { w.woken } else { w.blocked };
            self.back(host, id, index.common(host, until).clamp(floor, self.at), self.at);
            if is_others {
                let from = index.common(host, w.blocked).clamp(floor, self.at);
                let object = self.waited_in(host, &w);
                self.put(task, from, State::Queued, busy(), object);
            }
        }
        self.put(task, floor, State::Queued, busy(), None);
        None
    }

    /// From when what `task` took at the cursor had come until it had taken it: it got ready, or was busy.
    pub(crate) fn taken(&mut self, task: (HostId, TaskId), floor: CommonNs, own: EndpointId) {
        let Some((failed, accepted)) = self.starved(task.0, floor, own) else {
            return self.picked_up(task, floor, own);
        };
        self.picked_up(task, accepted, own);
        let reason = Message { reason: Some(reasons::NO_DESCRIPTOR), ..Message::NOTHING };
        self.put(task, failed, State::Queued, reason, None);
        self.picked_up(task, floor, own);
    }

    /// When accepts first failed for want of a descriptor while what came on a connection waited, and when it was accepted.
    fn starved(&self, host: HostId, floor: CommonNs, own: EndpointId) -> Option<(CommonNs, CommonNs)> {
        let (index, local) = (self.index, |t| self.index.timeline().local(host, t));
        let failed = index.common(host, index.starved(host, own, local(floor), local(self.at))?).max(floor);
        let accepted = index.common(host, index.last_left(host, own, OpKind::Accept, self.at)?.at);
        (failed < accepted).then_some((failed, accepted))
    }

    /// Each task is asked only about the time in which it could have taken the bytes: before it was born its maker had them, and
    /// before it was accepted whoever accepted the connection.
    fn picked_up(&mut self, task: (HostId, TaskId), floor: CommonNs, own: EndpointId) {
        let mut by = task;
        for _ in 0..HANDS_MAX {
            let Some((since, other)) = self.had_before(by, own).filter(|before| before.0 > floor) else {
                return self.picked_up_by(by, floor, own, Taken::Request);
            };
            // who was made for it begins with it
            let is_new = self.index.fork(by.0, by.1).is_some_and(|made| self.index.common(by.0, made.0) >= floor);
            self.picked_up_by(by, since, own, if is_new { Taken::Answer } else { Taken::Request });
            by.1 = other;
        }
        self.put(task, floor, State::Queued, Message::NOTHING, None);
    }

    /// Since when, before the cursor, a task can have had what comes on a connection, and who had it before.
    fn had_before(&self, (host, task): (HostId, TaskId), own: EndpointId) -> Option<(CommonNs, TaskId)> {
        let made = self.index.fork(host, task).map(|(at, maker)| (self.index.common(host, at), maker));
        let accepted = self.index.last_left(host, own, OpKind::Accept, self.at);
        let accepted = accepted.map(|o| (self.index.common(host, o.at), o.task));
        let is_another = |had: &(CommonNs, TaskId)| had.0 < self.at && had.1 != task && had.1 != TaskId::UNKNOWN;
        [made, accepted].into_iter().flatten().filter(is_another).max()
    }

    /// When, after `floor` and before the cursor, a thread last replied to another request than the one that came in on `own`. `None`
    /// where it reads requests itself, as loops and workers of runtimes do: they may have been at several at once; or where calls of the
    /// request may be missing, with which it may have begun before.
    pub(crate) fn replied_since(
        &self,
        (host, task): (HostId, TaskId),
        floor: CommonNs,
        own: EndpointId,
    ) -> Option<CommonNs> {
        let (index, until) = (self.index, self.index.timeline().local(host, self.at));
        if self.outstanding.is_none() || self.takes_others((host, task), own, until) {
            return None;
        }
        let operations = index.operations_back(host, task, until).take(WORK_MAX);
        let mut amid = operations.take_while(|o| index.common(host, o.at) > floor);
        amid.find(|o| self.is_reply_to_another(host, o, own)).map(|o| index.common(host, o.at))
    }

    pub(crate) fn picked_up_by(&mut self, task: (HostId, TaskId), floor: CommonNs, own: EndpointId, what: Taken) {
        let mut by = task;
        for _ in 0..HANDS_MAX {
            let Some(w) = self.busy_since(by, floor, own, what) else { return };
            // it came onto the processor for this, and was held up before
            let ready = self.index.common(by.0, w.woken).clamp(floor, self.at);
            self.back(by.0, by.1, ready, self.at);
            // another of its threads had taken it first, and handed it on
            let is_handed_on = is_futex(&w) && w.cause == EndedBy::Task && self.is_of_one_process(by.0, w.task, w.by);
            if !is_handed_on || self.at <= floor {
                break;
            }
            by.1 = w.by;
        }
        self.put(task, floor, State::Queued, Message::NOTHING, None);
    }

    fn is_of_one_process(&self, host: HostId, a: TaskId, b: TaskId) -> bool {
        let process = |task| self.index.program(host, task).map(|p| p.0);
        a != b && process(a).is_some() && process(a) == process(b)
    }

    /// Whether a thread stood still until its virtual machine let it go on.
    fn is_stopped_by_vm(&self, host: HostId, w: &WaitRow) -> bool {
        let is_stopped = is_futex(w) && w.cause == EndedBy::Task && self.index.thread_name(host, w.by) == VM_THREAD;
        is_stopped && self.is_of_one_process(host, w.task, w.by)
    }

    /// When what `task` read on a connection before the cursor had reached the host; the cursor where that is not known.
    pub(crate) fn arrival(&self, task: (HostId, TaskId), flow: EndpointId) -> CommonNs {
        let (host, id) = task;
        let before = self.index.operation_before(host, id, self.index.timeline().local(host, self.at));
        let read = before.filter(|o| o.kind == OpKind::Recv && o.flow == flow && o.arrived != MonoNs(0));
        read.map_or(self.at, |o| self.index.common(host, o.arrived).min(self.at))
    }

    /// Until when what `task` read on a connection at the cursor had not come, where nobody saw it arrive: so long the task waited for
    /// input, and read this first. `None` where it did something else before, and the bytes may have lain there.
    pub(crate) fn awaited_until(&self, task: (HostId, TaskId), flow: EndpointId) -> Option<CommonNs> {
        let (index, (host, id)) = (self.index, task);
        let read = index.timeline().local(host, self.at);
        let mut earlier =
            (0..index.waits_from(host, id, read)).rev().take(WORK_MAX).map_while(|p| index.wait(host, id, p));
        let w = earlier.find(|w| !matches!(w.cause, EndedBy::Preempted | EndedBy::Stopped))?;
        let next = index.operation_from(host, id, w.at).filter(|o| o.flow == flow && o.kind == OpKind::Recv)?;
        let is_for_input = is_poll(&w) || next.entry <= w.blocked;
        let is_first = next.entry <= read && !index.polls_within(host, id, w.at, next.entry);
        (is_for_input && is_first).then(|| index.common(host, w.woken).min(self.at))
    }

    /// The task ran for something else from `from` to the cursor: for whom, part by part.
    fn tell_work(&mut self, task: (HostId, TaskId), from: CommonNs, own: EndpointId, what: Taken) {
        let is_seen = is_seen(self.index, task, from, self.at);
        let mut work = self.work(task, from, own);
        work.push(Work { from, to: from, is_others: false, is_eithers: false, object: Some(COMPUTING.to_owned()) });
        for w in work {
            if w.is_others || what == Taken::Request {
                self.put(task, w.from, State::Queued, busy(), w.object.filter(|_| is_seen));
            } else if w.is_eithers && is_seen {
                self.put(
                    task,
                    w.from,
                    State::Unknown,
                    Message { reason: Some(reasons::EITHERS), ..Message::NOTHING },
                    None,
                );
            } else {
                self.back(task.0, task.1, w.from, self.at);
            }
        }
    }

    /// Whether a task may have waited for the next thing to do. Who reads on a connection by which it asks
    /// others waits for an answer, and for no request.
    fn is_idle(&self, host: HostId, w: &WaitRow, what: Taken) -> bool {
        let is_ended = !matches!(w.cause, EndedBy::Preempted | EndedBy::Stopped);
        let asks = || self.index.end(host, EndpointId(w.object)).is_some_and(|e| e.side == Side::Client);
        let is_answer = what == Taken::Request && w.cause == EndedBy::Socket && !is_poll(w) && asks();
        // who waits for a lock has something to do
        let is_lock = || is_futex(w) && self.futex(host, w, w.by).0 == State::Lock;
        // one that ran a goroutine or a virtual thread waited for what that needed
        is_ended
            && !is_lock()
            && w.logical == TaskId::UNKNOWN
            && !is_answer
            && (is_poll(w) || is_futex(w) || matches!(w.cause, EndedBy::Socket | EndedBy::Net | EndedBy::Packet))
    }

    /// Whether the last poll before a wait had told of what had come at a moment: the task was at work for what that told, and not
    /// waiting for more.
    fn had_polled(&self, host: HostId, w: &WaitRow, came: CommonNs) -> bool {
        let poll = self.index.poll_before(host, w.task, w.blocked);
        poll.is_some_and(|p| p.ready > 0 && self.index.common(host, p.at) >= came && !is_poll(w))
    }

    /// Whether a task waited while it worked for another request.
    fn is_amid_anothers(&self, host: HostId, w: &WaitRow, own: EndpointId) -> bool {
        let before = self.index.operation_before(host, w.task, w.blocked);
        let after = self.index.operation_from(host, w.task, w.at);
        before.zip(after).is_some_and(|(before, after)| self.served_between(host, &before, &after, own).is_some())
    }

    /// What a task did from `from` to the cursor, last first; `own` is the connection on which a request came in.
    pub(super) fn work(&self, task: (HostId, TaskId), from: CommonNs, own: EndpointId) -> Vec<Work> {
        let (index, (host, id)) = (self.index, task);
        let local = index.timeline().local(host, self.at);
        let mut next = index.operation_from(host, id, local);
        let mut to = self.at;
        let mut out: Vec<Work> = Vec::new();
        for o in index.operations_back(host, id, local).take(WORK_MAX) {
            let began = index.common(host, o.entry).max(from);
            if began < to {
                let kind = next.and_then(|n| self.served_between(host, &o, &n, own));
                let is_others = kind.is_some();
                let before_reply = next.filter(|n| !is_others && self.is_reply_to_another(host, n, own));
                let is_eithers = before_reply.is_some() || !is_others && self.is_for_another(host, &o, own);
                if let Some((since, kind)) = before_reply.and_then(|n| self.ran_for_reply(task, began, &n)) {
                    let object = Some(format!("{COMPUTING} for {kind}"));
                    out.push(Work { from: since, to, is_others: true, is_eithers: false, object });
                    to = since;
                }
                let object = kind.map_or_else(|| COMPUTING.to_owned(), |kind| format!("{COMPUTING} for {kind}"));
                match out.last_mut() {
                    Some(last)
                        if last.object.as_ref() == Some(&object)
                            && (last.is_others, last.is_eithers) == (is_others, is_eithers) =>
                    {
                        last.from = began
                    }
                    _ => out.push(Work { from: began, to, is_others, is_eithers, object: Some(object) }),
                }
                to = began;
            }
            if to <= from {
                break;
            }
            next = Some(o);
        }
        out
    }

    /// Since when a thread worked for nobody but who then replied by an operation, where samples tell, and what that had been asked for.
    fn ran_for_reply(
        &self,
        (host, task): (HostId, TaskId),
        from: CommonNs,
        reply: &OpRow,
    ) -> Option<(CommonNs, String)> {
        let from = self.index.timeline().local(host, from);
        let since = self.index.ran_for_since(host, task, reply.logical, from, reply.entry)?;
        Some((self.index.common(host, since), self.asked_on(host, reply.flow, reply.entry)))
    }

    /// Whether an operation is on another connection on which its process is asked, and sends there.
    pub(super) fn is_reply_to_another(&self, host: HostId, o: &OpRow, own: EndpointId) -> bool {
        o.kind == OpKind::Send && self.is_anothers(host, o.flow, own)
    }

    /// Whether an operation was for another request: on another connection on which its process is asked, or for a call that the
    /// request had not made, where all its calls are known.
    pub(super) fn is_for_another(&self, host: HostId, o: &OpRow, own: EndpointId) -> bool {
        let at = |at| self.index.common(host, at);
        let is_its = |calls: &Outstanding| calls.at(host, o.flow, at(o.entry)) || calls.at(host, o.flow, at(o.at));
        // a log to which it writes is no call
        let is_call = || self.index.last_left(host, o.flow, OpKind::Recv, CommonNs(i64::MAX)).is_some();
        match self.index.end(host, o.flow).map(|e| e.side) {
            Some(Side::Server) => o.flow != own,
            Some(Side::Client) => self.outstanding.as_ref().is_some_and(|calls| !is_its(calls)) && is_call(),
            _ => false,
        }
    }

    /// Whether a connection is another one than `own` on which its process is asked.
    pub(super) fn is_anothers(&self, host: HostId, flow: EndpointId, own: EndpointId) -> bool {
        flow != own && self.index.end(host, flow).is_some_and(|e| e.side == Side::Server)
    }

    /// For which other request a task worked between two of its operations: what had been asked for on the one connection of
    /// both.
    fn served_between(&self, host: HostId, before: &OpRow, after: &OpRow, own: EndpointId) -> Option<String> {
        let flow = before.flow;
        let is_one = || before.logical == after.logical || self.is_answered_in_a_loop(host, before, after);
        if flow != after.flow || !is_one() || !self.is_anothers(host, flow, own) {
            return None;
        }
        Some(self.asked_on(host, flow, after.entry.max(before.at)))
    }

    /// What had been asked for on a connection, for people.
    fn asked_on(&self, host: HostId, flow: EndpointId, at: MonoNs) -> String {
        let words = self.index.asked(host, flow, at);
        words.map_or_else(|| "another request".to_owned(), |[protocol, verb, target]| asked(protocol, verb, target))
    }

    /// Whether an event loop's thread read on a connection and replied there next. What reads in a loop and what replies may be
    /// two of its contexts, or a read may have none.
    fn is_answered_in_a_loop(&self, host: HostId, before: &OpRow, after: &OpRow) -> bool {
        let is_of_loop = |logical| {
            matches!(self.index.runtime(host, logical), RuntimeKind::None | RuntimeKind::Python | RuntimeKind::Node)
        };
        let are_of_loop = is_of_loop(before.logical) && is_of_loop(after.logical);
        are_of_loop && before.kind == OpKind::Recv && after.kind == OpKind::Send
    }

    /// What a wait amid other work was for, for people.
    fn waited_in(&self, host: HostId, w: &WaitRow) -> Option<String> {
        let answer = || {
            let next = self.index.operation_from(host, w.task, w.at).filter(|o| o.kind == OpKind::Recv)?;
            self.index.end(host, next.flow).filter(|e| e.side == Side::Client)
        };
        Some(match own_wait(self.index, host, w) {
            _ if is_poll(w) => format!("waiting for an answer of {}", remote_of(&answer()?)),
            State::Network => answer().map_or_else(
                || "waiting for the network".to_owned(),
                |end| format!("waiting for an answer of {}", remote_of(&end)),
            ),
            State::Lock if self.index.is_on_an_interpreter(host, w) => "waiting for its interpreter's lock".to_owned(),
            State::Lock => "waiting for a lock".to_owned(),
            State::Futex if w.cause == EndedBy::Task => "waiting to be woken by another thread".to_owned(),
            State::Futex => "waiting on a futex until its timeout".to_owned(),
            State::Disk => "waiting for the disk".to_owned(),
            State::PageFault => "reading pages from the disk".to_owned(),
            State::Timer => "asleep until a time".to_owned(),
            State::Blocked => "waiting for another task".to_owned(),
            _ => return None,
        })
    }
}

/// What a task took.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A request of which it knew nothing: all that it did before was for something else.
    Request,
    /// An answer to what it had asked for the request, or a request for which it was made: it may have worked for that meanwhile, so
    /// only what is known to have been for another request was for something else.
    Answer,
}

/// What a task did for a while.
pub(super) struct Work {
    /// Begin.
    pub(super) from: CommonNs,
    /// End.
    to: CommonNs,
    /// It is known to have been for another request.
    pub(super) is_others: bool,
    /// It may have been: at its end another one was replied to.
    pub(super) is_eithers: bool,
    /// What it was, for people.
    pub(super) object: Option<String>,
}

const COMPUTING: &str = "computing";
/// Most threads of a process that hand something on.
const HANDS_MAX: usize = 8;
/// The thread of a JVM that stops the others.
pub(crate) const VM_THREAD: &str = "VM Thread";

fn busy() -> Message {
    Message { reason: Some(reasons::TASK_BUSY), ..Message::NOTHING }
}

/// Whether somebody who sees processors watched the task, and lost nothing meanwhile: then it ran where it did not wait.
fn is_seen(index: &Index, (host, task): (HostId, TaskId), from: CommonNs, to: CommonNs) -> bool {
    let local = |t| index.timeline().local(host, t);
    !index.is_by_library(host) && index.waits_of(host, task) > 0 && !index.lost_between(host, local(from), local(to))
}
