//! Calls of helpers that are explained by what came after them: the task that held the request was woken, or the helper
//! ended.

use super::Component;
use crate::evidence::{Hole, Rule};
use crate::exchange::{ExId, Slab};
use crate::finished::{Finished, Parent};
use crate::worker::Pieces;
use wakepath_model::ids::{MonoNs, TaskId};

impl<F: Finished> Component<'_, F> {
    /// The request that a helper finished a piece of when it was done with call `y`: it then woke the task that held
    /// it. That task must have waited for the result and not for what the helper set free besides (a connection of a
    /// pool), so it made no call itself from then on. And whoever else could have made the call must have been over,
    /// or must have slept all the while: a piece of work whose end wakes nobody leaves no sign, and the end of the
    /// helper's next one would be taken for it.
    pub(super) fn completed(&self, xs: &Slab, y: ExId) -> Option<ExId> {
        let (x, at) = self.woken_after(xs, y)?;
        let pieces = self.pieces.get(&self.states[y.place as usize].process).copied().unwrap_or_default();
        if pieces.say_little() {
            return None;
        }
        let state = &self.states[x.place as usize];
        if !state.closed || state.holder_called >= at {
            return None;
        }
        let ended = xs.get(y).ended;
        let sleeps = |t: TaskId| self.tasks.get(&t).is_some_and(|w| w.sleeps_through(ended, at));
        let is_out = |&s: &ExId| s == x || xs.is_live(s) && sleeps(self.states[s.place as usize].holder);
        self.states[y.place as usize].rivals.iter().all(is_out).then_some(x)
    }

    /// Whether that will show when a request that is still open is over.
    pub(super) fn is_being_completed(&self, xs: &Slab, y: ExId) -> bool {
        self.woken_after(xs, y).is_some_and(|(x, _)| self.is_open(xs, x))
    }

    /// A helper's signs told of such pieces of work.
    pub(super) fn saw_pieces(&mut self, helper: TaskId, seen: Pieces) {
        let role = self.roles.role(helper);
        if seen != Pieces::default() && role.calls && !role.takes && !role.replies_foreign {
            let pieces = self.pieces.entry(self.roles.process_of(helper)).or_default();
            pieces.callless = pieces.callless.saturating_add(seen.callless);
            pieces.unsaid = pieces.unsaid.saturating_add(seen.unsaid);
            pieces.said = pieces.said.saturating_add(seen.said);
        }
    }

    fn woken_after(&self, xs: &Slab, y: ExId) -> Option<(ExId, MonoNs)> {
        let (e, s) = (xs.get(y), &self.states[y.place as usize]);
        let role = self.roles.role(e.task);
        let is_undecided = matches!(s.parent, Some(Parent::Pending | Parent::Of(_, Rule::Handoff)));
        let is_helpers = s.replied && s.reply_task == e.task && !role.takes && !role.replies_foreign;
        let helper = self.tasks.get(&e.task).filter(|_| is_undecided && is_helpers)?;
        helper.completed_for(xs, y, e.taken, e.ended)
    }

    /// A helper's call is over: who else could have made it and is not over yet?
    pub(super) fn keep_rivals(&mut self, xs: &Slab, y: ExId) {
        let (s, ended) = (&self.states[y.place as usize], xs.get(y).ended);
        if s.suspects.is_empty() {
            return;
        }
        let is_over = |x: ExId| self.states[x.place as usize].closed && xs.get(x).ended < ended;
        let rivals = s.suspects.iter().copied().filter(|&x| xs.is_live(x) && !is_over(x)).collect();
        self.state(y).rivals = rivals;
    }

    /// A task ended. One that was made in a request and never waited for work did that request's alone, unless it
    /// outlived it for long: whoever takes up other work lives on. (That a task is made for a request does not say
    /// that it begins with its work: a pool grows by a worker, and another's may be the first in its queue.)
    pub(super) fn claim_lifetime(&mut self, xs: &Slab, task: TaskId, at: MonoNs) {
        let Some(w) = self.tasks.get_mut(&task) else { return };
        let Some(x) = w.born_of.take().filter(|&x| xs.is_live(x)) else { return };
        if self.state(x).given {
            return;
        }
        let segment = self.tasks.get_mut(&task).map(|w| std::mem::take(&mut w.segment)).unwrap_or_default();
        for y in segment {
            if !xs.is_live(y) || self.state(y).given || self.state(y).parent != Some(Parent::Pending) {
                continue;
            }
            if self.roles.is_lossy(xs.get(x).taken, at) {
                self.state(y).parent = Some(Parent::Open(Hole::Losses));
            } else {
                self.link(xs, y, x, Rule::Fork);
            }
        }
    }
}
