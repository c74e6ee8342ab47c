//! Calls of helpers that are explained by what came after them: the task that held the request was woken, or the helper
//! ended.

use super::Component;
use crate::evidence::{Hole, Rule};
use crate::exchange::{ExId, Slab};
use crate::finished::{Finished, Parent};
use crate::worker::{Mark, Pieces, Worker};
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::WaitRow;

impl<F: Finished> Component<'_, F> {
    /// The request that a helper finished a piece of when it was done with call `y`: it then woke the task that held
    /// it. That task must have waited for the result and not for what the helper set free besides (a connection of a
    /// pool), so it made no call itself from then on. And whoever else could have made the call must be accounted for:
    /// a piece of work whose end wakes nobody leaves no sign, and the end of the helper's next one would be taken for it.
    /// Its request was over, or
    ///
    /// - its holder slept all the while from the answer to the waking: the end of its piece would have woken it; or
    /// - while the call was under way its holder waited for the answer to another: a helper woke it then, directly behind a
    ///   call of that helper's own. Were `y` its call as well, both would have been under way at once. Ends of such calls
    ///   wake the holder one after the other, unless one comes while it is awake; so that this was never seen in the process
    ///   says that its requests do not wait for several calls at once. (A piece without a call would have to follow
    ///   besides, so there must be none of them either.)
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
        let (began, ended) = (xs.get(y).taken, xs.get(y).ended);
        let is_elsewhere =
            |w: &Worker| w.sleeps_through(ended, at) || pieces.are_single() && w.waits_for_another(began, ended);
        let holder = |s: ExId| self.tasks.get(&self.states[s.place as usize].holder);
        let is_out = |s: ExId| xs.is_live(s) && holder(s).is_some_and(is_elsewhere);
        let mut rivals = self.states[y.place as usize].rivals.iter().copied().filter(|&s| s != x).peekable();
        let is_known = rivals.peek().is_none() || !pieces.are_few();
        (is_known && rivals.all(is_out)).then_some(x)
    }

    /// Whether that will show when a request that is still open is over.
    pub(super) fn is_being_completed(&self, xs: &Slab, y: ExId) -> bool {
        self.woken_after(xs, y).is_some_and(|(x, _)| self.is_open(xs, x))
    }

    /// The task that holds `x` alone was woken from a wait of its own: another may have done something for it.
    pub(super) fn saw_waking(&mut self, r: &WaitRow, x: ExId) {
        let (mut pieces, said) = self.tasks.entry(r.by).or_default().mark(r.woken, Mark::Woke(x, r.blocked));
        if let Some(began) = said.filter(|_| self.is_helper(r.by))
            && let Some(holder) = self.tasks.get_mut(&r.task)
        {
            pieces.at_once = u32::from(holder.heard(began, r.woken));
        }
        self.saw_pieces(r.by, pieces);
    }

    /// Whether a task takes no requests, never replies, and makes calls.
    fn is_helper(&self, task: TaskId) -> bool {
        let role = self.roles.role(task);
        role.calls && !role.takes && !role.replies_foreign
    }

    /// A helper's signs told of such pieces of work.
    pub(super) fn saw_pieces(&mut self, helper: TaskId, seen: Pieces) {
        if seen != Pieces::default() && self.is_helper(helper) {
            let pieces = self.pieces.entry(self.roles.process_of(helper)).or_default();
            pieces.callless = pieces.callless.saturating_add(seen.callless);
            pieces.unsaid = pieces.unsaid.saturating_add(seen.unsaid);
            pieces.said = pieces.said.saturating_add(seen.said);
            pieces.at_once = pieces.at_once.saturating_add(seen.at_once);
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
