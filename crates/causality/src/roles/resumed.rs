//! Tasks that a request made, and that hand on to another one: what came of the answer to their call, that one waited for. A worker that
//! requests start when there is work, and that ends when there is none, takes what others put into a queue of the program's.
//!
//! That shows where the answer to such a call is all that a loop is given in its turn, and another request is replied to in it, while
//! nothing is done for the one that made the task: it can only have been resumed by the task. (A request that had its own answer and then
//! let another one go on, as with a lock, goes on itself.)

use crate::exchange::ExId;
use crate::polled::Polled;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::PollRow;

/// The answer to the call of a task that was made for a request.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) task: TaskId,
    pub(super) of: ExId,
}

/// Most that is kept of one turn; a longer one shows nothing.
const ACTS_MAX: usize = 64;

/// What a loop did since it last waited.
#[derive(Default)]
struct Turn {
    polled: Polled,
    answer: Option<Answer>,
    /// For which requests it did something.
    acted: SmallVec<[ExId; 4]>,
    /// To which it replied.
    replied: SmallVec<[ExId; 4]>,
    /// A timer may have been due, or it was too long.
    is_late: bool,
}

/// What loops do, by their threads.
#[derive(Default)]
pub(super) struct Resumed(FxHashMap<TaskId, Turn>);

impl Resumed {
    /// A poll of a thread returned. Gives the task that was seen to hand on to another request in the turn before.
    pub(super) fn polled(&mut self, r: &PollRow) -> Option<TaskId> {
        let turn = self.0.entry(r.task).or_default();
        let mut handed_on = None;
        if r.timeout_ns != 0 {
            let done = std::mem::replace(turn, Turn { polled: Polled::begin(r), ..Turn::default() });
            handed_on = done.handed_on();
        }
        turn.polled.found(r);
        handed_on
    }

    /// A thread takes something: the answer to the call of a task that was made for a request, or anything else.
    pub(super) fn takes(&mut self, thread: TaskId, answer: Option<Answer>) {
        if let Some(turn) = self.0.get_mut(&thread) {
            turn.polled.takes();
            turn.answer = answer;
        }
    }

    /// A thread calls in the name of a task that works for a request, as far as is known.
    pub(super) fn calls(&mut self, thread: TaskId, by: TaskId, of: ExId, at: MonoNs) {
        if let Some(turn) = self.0.get_mut(&thread) {
            turn.is_late |= !turn.polled.no_timer_due(at) || turn.acted.len() >= ACTS_MAX;
            // what it does next itself says nothing of who waited for it
            let is_others = turn.answer.is_none_or(|answer| answer.task != by);
            turn.acted.extend(Some(of).filter(|_| is_others && !turn.is_late));
        }
    }

    /// A thread replies to a request.
    pub(super) fn replies(&mut self, thread: TaskId, of: ExId, at: MonoNs) {
        if let Some(turn) = self.0.get_mut(&thread) {
            turn.is_late |= !turn.polled.no_timer_due(at) || turn.replied.len() >= ACTS_MAX;
            turn.replied.extend(Some(of).filter(|_| !turn.is_late));
        }
    }
}

impl Turn {
    fn handed_on(&self) -> Option<TaskId> {
        let Answer { task, of } = self.answer?;
        let is_all = (self.polled.ready, self.polled.messages) == (1, 1) && !self.is_late;
        let goes_on = self.acted.contains(&of) || self.replied.contains(&of);
        (is_all && !goes_on && !self.replied.is_empty()).then_some(task)
    }
}
