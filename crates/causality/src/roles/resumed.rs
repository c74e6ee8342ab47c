//! Tasks that a request made, and that hand on to another one: what came of the answer to their call, that one waited for. A worker that
//! requests start when there is work, and that ends when there is none, takes what others put into a queue of the program's. A task or
//! callback that gathers what several requests ask, and asks it at once, is made by the first of them.
//!
//! That shows where answers to such calls are all that a loop is given in its turn, and another request is replied to in it, or calls: it
//! can only have been resumed by one of them. Where it calls on the connection on which such an answer came, it may have waited for that
//! alone (a pool's). One that waited for a lock looks the same: whether it also got what the answer brought is not known. And the turn
//! after must be known whole too: a thread puts its result where the loop finds it before it wakes the loop.
//!
//! Which request a task was made for may show at the reply alone, if a connection's task or its callback read the request. So who acted is
//! compared with whose answers came once that is known: what made both is of no request.

use crate::lineage::{Lineage, TaskRequest};
use crate::process::ProcessId;
use crate::process::turn::Turn;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::PollRow;

/// The answer to the call of a task that may have been made for a request.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) task: TaskId,
    /// When the call began.
    pub(super) called: MonoNs,
}

/// A task that acted, and those whose answers alone may have resumed it.
type Acted = (TaskId, SmallVec<[TaskId; 2]>);

/// Most that is kept of one turn; a longer one shows nothing.
const ACTS_MAX: usize = 64;
/// How many acts are kept of which is not known yet for which requests they were.
const UNDECIDED_MAX: usize = 1 << 12;

/// What a loop did since it last waited.
#[derive(Default)]
struct Acts {
    turn: Turn,
    /// On which connections it took something, each once.
    read: SmallVec<[EndpointId; 2]>,
    /// The answers that it took there.
    answers: SmallVec<[Answer; 2]>,
    /// It took something else, or what a poll need not have found.
    is_given_more: bool,
    /// Who acted there, but those whose answers it took, and what they made.
    acted: SmallVec<[TaskId; 4]>,
    /// A timer may have been due, or it was too long.
    is_late: bool,
    /// In the turn before, they may have been handed on to by others.
    before: SmallVec<[Acted; 1]>,
}

/// What loops do, by their threads: none where no runtime has such loops.
#[derive(Default)]
pub(super) struct Resumed {
    /// Of threads that took a request. Others that poll, a pool's, wait so for one answer, and then go on with another's job.
    acts: FxHashMap<TaskId, Acts>,
    are_loops: bool,
    undecided: FxHashSet<(ProcessId, Acted)>,
}

impl Resumed {
    /// There are loops of a runtime that has a thread for each, which runs nothing else between two polls.
    pub(super) fn has_loops(&mut self) {
        self.are_loops = true;
    }

    /// A thread takes a request.
    pub(super) fn serves(&mut self, thread: TaskId) {
        if self.are_loops {
            self.acts.entry(thread).or_default();
        }
    }

    /// A poll of a process's thread returned.
    pub(super) fn polled(&mut self, r: &PollRow, process: ProcessId) {
        let Some(acts) = self.acts.get_mut(&r.task) else { return };
        let mut turn = acts.turn;
        if turn.polled(r).is_some() {
            let mut over = std::mem::take(acts);
            let before = std::mem::take(&mut over.before);
            let is_known = over.is_all_known();
            self.undecided.extend(before.into_iter().filter(|_| is_known).map(|acted| (process, acted)));
            acts.before = over.handed_on();
        }
        acts.turn = turn;
    }

    /// In which processes a task that was made for a request was seen to hand on to another one, as far as is known now, or may have where
    /// there is no room to wait until that is known. `is_over`: nothing more comes.
    pub(super) fn handed_on(&mut self, lineage: &Lineage, is_over: bool) -> SmallVec<[ProcessId; 2]> {
        if !is_over && self.undecided.len() < UNDECIDED_MAX {
            return SmallVec::new();
        }
        let mut seen = SmallVec::new();
        self.undecided.retain(|(process, acted)| {
            let handed_on = handed_on(lineage, acted);
            seen.extend(Some(*process).filter(|_| handed_on == Some(true)));
            handed_on.is_none()
        });
        if self.undecided.len() >= UNDECIDED_MAX / 2 {
            seen.extend(self.undecided.drain().map(|(process, _)| process));
        }
        seen
    }

    /// A thread takes something from a connection: the answer to the call of a task that was made for a request, or anything else.
    pub(super) fn takes(&mut self, thread: TaskId, from: EndpointId, answer: Option<Answer>) {
        let Some(acts) = self.acts.get_mut(&thread) else { return };
        if acts.read.len() < ACTS_MAX && !acts.read.contains(&from) {
            acts.read.push(from);
        }
        // one that is read without a wait need not be what a poll found ready
        let found = answer.filter(|a| a.called < acts.turn.since);
        match found.filter(|_| acts.answers.len() < ACTS_MAX) {
            Some(found) => acts.answers.push(found),
            None => acts.is_given_more = true,
        }
    }

    /// A thread calls on a connection, in the name of a task.
    pub(super) fn calls(&mut self, (thread, on): (TaskId, EndpointId), task: TaskId, at: MonoNs) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            acts.acts(task, at, !acts.read.contains(&on));
        }
    }

    /// A thread replies to a request, in the name of a task.
    pub(super) fn replies(&mut self, thread: TaskId, task: TaskId, at: MonoNs) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            acts.acts(task, at, task != thread);
        }
    }
}

impl Acts {
    fn acts(&mut self, task: TaskId, at: MonoNs, may_be_resumed: bool) {
        // runtimes that have such loops read clocks without ticks
        self.is_late |= !self.turn.no_rounded_timer_due(at) || self.acted.len() >= ACTS_MAX;
        self.acted.extend(Some(task).filter(|_| may_be_resumed && !self.is_late));
    }

    /// Whether all that its polls found ready was seen taken up.
    fn is_all_known(&self) -> bool {
        self.read.len() < ACTS_MAX && self.turn.ready as usize == self.read.len()
    }

    /// Who acted in it, where those whose answers came were all that can have resumed it.
    fn handed_on(&self) -> SmallVec<[Acted; 1]> {
        let is_all = self.is_all_known() && !self.is_given_more && !self.is_late && !self.answers.is_empty();
        let by: SmallVec<[TaskId; 2]> = self.answers.iter().map(|answer| answer.task).collect();
        self.acted.iter().filter(|task| is_all && !by.contains(task)).map(|&task| (task, by.clone())).collect()
    }
}

/// Whether one was handed on to by tasks that were made for other requests than its own; none where it is not known yet.
fn handed_on(lineage: &Lineage, (acted, by): &Acted) -> Option<bool> {
    let is_known = |task: TaskId| !matches!(lineage.of(task, MonoNs(u64::MAX)), TaskRequest::Nothing);
    let are_known = by.iter().all(|&task| is_known(task)) && by.iter().any(|&task| !lineage.has_requests(task));
    let is_anothers = |&task: &TaskId| {
        let line: SmallVec<[TaskId; 8]> = lineage.line_up(task).collect();
        let of_both = lineage.line_up(*acted).find(|task| line.contains(task));
        of_both.is_none_or(|task| !is_known(task))
    };
    (is_known(*acted) && are_known).then(|| by.iter().all(is_anothers))
}
