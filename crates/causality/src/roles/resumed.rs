//! Tasks that a request made, and that hand on to another one: what came of the answer to their call, that one waited for. A worker that
//! requests start when there is work, and that ends when there is none, takes what others put into a queue of the program's. A task or
//! callback that gathers what several requests ask, and asks it at once, is made by the first of them.
//!
//! That shows where answers to such calls are all that a loop is given in its turn, and another request is replied to in it, or calls: it
//! can only have been resumed by one of them. Where it calls on the connection on which such an answer came, it may have waited for that
//! alone (a pool's). One that waited for a lock looks the same: whether it also got what the answer brought is not known. And the turn
//! after must be known whole too: a thread puts its result where the loop finds it before it wakes the loop.

use crate::exchange::ExId;
use crate::process::turn::Turn;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::PollRow;

/// The answer to the call of a task that was made for a request.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) task: TaskId,
    pub(super) of: ExId,
    /// When the call began.
    pub(super) called: MonoNs,
}

/// Most that is kept of one turn; a longer one shows nothing.
const ACTS_MAX: usize = 64;

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
    /// For which requests it acted, but by those whose answers it took, and what they made.
    acted: SmallVec<[ExId; 4]>,
    /// A timer may have been due, or it was too long.
    is_late: bool,
    /// In the turn before, a task may have handed on to another request.
    may_follow_handing_on: bool,
}

/// What loops do, by their threads: none where no runtime has such loops.
#[derive(Default)]
pub(super) struct Resumed {
    /// Of threads that took a request. Others that poll, a pool's, wait so for one answer, and then go on with another's job.
    acts: FxHashMap<TaskId, Acts>,
    are_loops: bool,
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

    /// A poll of a thread returned. Whether a task was seen to hand on to another request in the turn before.
    pub(super) fn polled(&mut self, r: &PollRow) -> bool {
        let Some(acts) = self.acts.get_mut(&r.task) else { return false };
        let mut turn = acts.turn;
        let mut handed_on = false;
        if turn.polled(r).is_some() {
            let over = std::mem::take(acts);
            handed_on = over.may_follow_handing_on && over.is_all_known();
            acts.may_follow_handing_on = over.handed_on();
        }
        acts.turn = turn;
        handed_on
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

    /// A thread calls on a connection, in the name of a task that works for a request, as far as is known. `line`: that task, and what
    /// made it.
    pub(super) fn calls(
        &mut self,
        (thread, on): (TaskId, EndpointId),
        line: impl Iterator<Item = TaskId>,
        of: ExId,
        at: MonoNs,
    ) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            // what such a task does next itself, or has done, says nothing of who waited for it
            let is_others = line.into_iter().all(|task| acts.answers.iter().all(|answer| answer.task != task));
            acts.acts_for(of, at, is_others && !acts.read.contains(&on));
        }
    }

    /// A thread replies to a request.
    pub(super) fn replies(&mut self, thread: TaskId, of: ExId, at: MonoNs) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            acts.acts_for(of, at, true);
        }
    }
}

impl Acts {
    fn acts_for(&mut self, of: ExId, at: MonoNs, is_others: bool) {
        self.is_late |= !self.turn.no_timer_due(at) || self.acted.len() >= ACTS_MAX;
        self.acted.extend(Some(of).filter(|_| is_others && !self.is_late));
    }

    /// Whether all that its polls found ready was seen taken up.
    fn is_all_known(&self) -> bool {
        self.read.len() < ACTS_MAX && self.turn.ready as usize == self.read.len()
    }

    fn handed_on(&self) -> bool {
        let is_all = self.is_all_known() && !self.is_given_more && !self.is_late;
        let is_its = |x: &ExId| self.answers.iter().any(|answer| answer.of == *x);
        is_all && !self.answers.is_empty() && !self.acted.iter().all(is_its)
    }
}
