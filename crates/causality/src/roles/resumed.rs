//! Tasks that a request made, and that hand on to another one: what came of the answer to their call, that one waited for. A worker that
//! requests start when there is work, and that ends when there is none, takes what others put into a queue of the program's.
//!
//! That shows where answers to such calls are all that a loop is given in its turn, and another request is replied to in it, while nothing is
//! done for those that made the tasks but by these and what they make: it can only have been resumed by one of them. (A request that had
//! its own answer and then let another one go on, as with a lock, goes on itself.)

use crate::exchange::ExId;
use crate::process::turn::Turn;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{MonoNs, TaskId};
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
    /// What it took, where that was nothing else.
    answers: SmallVec<[Answer; 2]>,
    /// For which requests it did something, but by those whose answers it took, and what they made.
    acted: SmallVec<[ExId; 4]>,
    /// To which it replied.
    replied: SmallVec<[ExId; 4]>,
    /// A timer may have been due, or it was too long.
    is_late: bool,
}

/// What loops do, by their threads: none where no runtime has such loops.
#[derive(Default)]
pub(super) struct Resumed {
    acts: FxHashMap<TaskId, Acts>,
    are_loops: bool,
}

impl Resumed {
    /// There are loops of a runtime that has a thread for each, which runs nothing else between two polls.
    pub(super) fn has_loops(&mut self) {
        self.are_loops = true;
    }

    /// A poll of a thread returned. Whether a task was seen to hand on to another request in the turn before.
    pub(super) fn polled(&mut self, r: &PollRow) -> bool {
        if !self.are_loops {
            return false;
        }
        let acts = self.acts.entry(r.task).or_default();
        let mut turn = acts.turn;
        let handed_on = turn.polled(r).is_some_and(|_| std::mem::take(acts).handed_on());
        acts.turn = turn;
        handed_on
    }

    /// A thread takes something: the answer to the call of a task that was made for a request, or anything else.
    pub(super) fn takes(&mut self, thread: TaskId, answer: Option<Answer>) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            acts.turn.takes();
            // one that is read without a wait, or again, need not be what a poll found ready
            let is_found =
                |a: &Answer| a.called < acts.turn.since && acts.answers.iter().all(|other| other.task != a.task);
            let found = answer.filter(is_found).filter(|_| acts.answers.len() < ACTS_MAX);
            acts.answers.extend(found);
        }
    }

    /// A thread calls in the name of a task that works for a request, as far as is known. `line`: that task, and what made it.
    pub(super) fn calls(&mut self, thread: TaskId, line: impl Iterator<Item = TaskId>, of: ExId, at: MonoNs) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            acts.is_late |= !acts.turn.no_timer_due(at) || acts.acted.len() >= ACTS_MAX;
            // what such a task does next itself, or has done, says nothing of who waited for it
            let is_others = line.into_iter().all(|task| acts.answers.iter().all(|answer| answer.task != task));
            acts.acted.extend(Some(of).filter(|_| is_others && !acts.is_late));
        }
    }

    /// A thread replies to a request.
    pub(super) fn replies(&mut self, thread: TaskId, of: ExId, at: MonoNs) {
        if let Some(acts) = self.acts.get_mut(&thread) {
            acts.is_late |= !acts.turn.no_timer_due(at) || acts.replied.len() >= ACTS_MAX;
            acts.replied.extend(Some(of).filter(|_| !acts.is_late));
        }
    }
}

impl Acts {
    fn handed_on(&self) -> bool {
        let taken = self.answers.len() as u32;
        let is_all = (self.turn.ready, self.turn.messages) == (taken, taken) && !self.is_late;
        let is_its = |x: &ExId| self.answers.iter().any(|answer| answer.of == *x);
        let goes_on = self.acted.iter().chain(&self.replied).any(is_its);
        is_all && !self.answers.is_empty() && !goes_on && !self.replied.is_empty()
    }
}
