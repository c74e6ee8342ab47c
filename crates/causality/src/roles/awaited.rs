//! Whether who goes on with the answer to a call is who made it, as far as was seen: in turns in which one thing was given, and
//! in those with several.

use super::Roles;
use super::habits::HabitId;
use crate::conditions::holds;
use crate::exchange::{ExId, Slab};
use crate::process::ProcessId;
use wakepath_model::ids::{MonoNs, TaskId};

impl Roles {
    /// The request that makes a call now: its own bytes were all that the loop was given. (After an answer it may be another one,
    /// which waited for the connection.)
    pub(super) fn maker(&self, task: TaskId, at: MonoNs) -> Option<ExId> {
        let activity = &self.doing.get(task)?.activity;
        activity.taken.of.filter(|_| activity.is_given_one(at) && activity.taken.answers.0 == 0)
    }

    /// A loop replies to `x`. With the answer to a call alone: was it `x` that asked? Where the maker is known it tells; and a
    /// request that came after the call cannot have made it. And where the call's connection was made for a request: was it for `x`?
    pub(super) fn replies_to(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let process = self.process_of(task);
        let activity = &mut self.doing.or_default(task).activity;
        let (asked, maker) = (std::mem::take(&mut activity.taken.answers), activity.taken.of.take());
        let dialled_for = activity.taken.dialled_for.take();
        if asked.0 == 0 || !activity.turn.no_timer_due(at) {
            return;
        }
        let (is_one, is_first) = (activity.is_given_one(at), activity.turn.messages == 1);
        let is_after = |y: ExId| xs.is_live(y) && xs.get(y).request.taken > asked;
        let now = self.known.of(process).map(|p| &p.now);
        let may_be_anothers = now.and_then(|n| n.newest).is_some_and(|y| y != x && is_after(y));
        let has_others = now.and_then(|n| n.open).is_some_and(|open| open > 1);
        let habits = self.habits.at(process);
        // that it was for `x` is no case: mostly no other waited for a connection
        habits.exception_if(HabitId::DialsForOne, is_first && dialled_for.is_some_and(|of| of != x));
        let is_anothers = maker.is_some_and(|maker| maker != x) || is_after(x);
        match (is_one, is_anothers) {
            (true, true) => habits.exception_if(HabitId::AwaitsItsOwn, true),
            (true, false) => habits.case_if(HabitId::AwaitsItsOwn, maker.is_some() || may_be_anothers),
            (false, true) => habits.exception_if(HabitId::PassesOn, true),
            (false, false) => {
                habits.case_if(HabitId::PassesOn, maker.is_some() && has_others || may_be_anothers);
            }
        }
    }

    /// Whether the request to which a loop of this process replies with an answer alone is the one that asked: it often was, and
    /// never another.
    pub fn awaits_its_own(&self, process: ProcessId) -> bool {
        holds("awaited.often", self.habits.is_often(process, HabitId::AwaitsItsOwn))
            && holds("awaited.never_anothers", self.habits.of(process, HabitId::AwaitsItsOwn).is_kept())
    }

    /// Whether a loop of this process replies with an answer right when it has read it, and to the one that asked, also where it was
    /// given more: it often did so while others were open, and never replied to another, or took a second answer first.
    pub fn passes_on(&self, process: ProcessId) -> bool {
        let is_kept = |id| self.habits.of(process, id).is_kept();
        let is_never_anothers = is_kept(HabitId::AwaitsItsOwn) && is_kept(HabitId::PassesOn);
        holds("awaited.often_passed_on", self.habits.is_often(process, HabitId::PassesOn))
            && holds("awaited.never_passed_to_others", is_never_anothers)
    }
}
