//! Whether who goes on with the answer to a call is who made it, as far as was seen: in turns in which one thing was given.

use super::{CASES_MIN, Roles};
use crate::canary::holds;
use crate::exchange::{ExId, Slab};
use wakepath_model::ids::{MonoNs, TaskId};

impl Roles {
    /// The request that makes a call now: its own bytes were all that the loop was given. (Behind an answer it may be another one,
    /// which waited for the connection.)
    pub(super) fn maker(&self, task: TaskId, at: MonoNs) -> Option<ExId> {
        let round = self.loops.rounds.get(task);
        round.taken.of.filter(|_| round.is_given_one(at) && round.taken.answers.0 == 0)
    }

    /// A loop replies to `x`. With the answer to a call alone: was it `x` that asked? Where the maker is known it tells; and a
    /// request that came after the call cannot have made it.
    pub(super) fn replies_to(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let process = self.process_of(task);
        let round = self.loops.rounds.entry(task);
        let (asked, maker) = (std::mem::take(&mut round.taken.answers), round.taken.of.take());
        if asked.0 == 0 || !round.is_given_one(at) {
            return;
        }
        let is_after = |y: ExId| xs.is_live(y) && xs.get(y).taken > asked;
        let may_be_anothers = self.requests.newest.get(&process).is_some_and(|&y| y != x && is_after(y));
        let habits = self.loops.habits.entry(process).or_default();
        match maker.is_some_and(|maker| maker != x) || is_after(x) {
            true => habits.is_awaited_by_others = true,
            false => habits.awaited += u32::from(maker.is_some() || may_be_anothers),
        }
    }

    /// Whether the request to which a loop of this process replies with an answer alone is the one that asked: it often was, and
    /// never another.
    pub fn awaits_its_own(&self, process: u32) -> bool {
        let habits = self.loops.habits.get(&process);
        let is_often = habits.is_some_and(|h| h.awaited >= CASES_MIN);
        let is_never_anothers = habits.is_none_or(|h| !h.is_awaited_by_others);
        holds("awaited.often", is_often) && holds("awaited.never_anothers", is_never_anothers)
    }
}
