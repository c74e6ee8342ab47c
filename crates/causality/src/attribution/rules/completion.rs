//! A helper finished a job of a request's: when it was done with the call, it woke the task that held the request, which had
//! waited all the while.
//!
//! Habit: that no job of the process ends without a sign, and that requests do not wait for several at once, is only known as
//! far as it was seen.
//!
//! Counterexamples: `link.completion/awake`, `at_once`, `answered_without_a_call`, `few`, `lock`, `pool_of_connections`.

use crate::attribution::facts::Facts;
use crate::attribution::helper::{HelperEvent, JobStats};
use crate::attribution::state::{CallFlag, Progress};
use crate::attribution::worker::Worker;
use crate::conditions::holds;
use crate::exchange::{ExId, Slab};
use crate::finished::Parent;
use crate::process::known::Does;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::WaitRow;

impl Facts<'_> {
    /// The request that a helper finished a job of when it was done with call `y`: it then woke the task that held
    /// it. That task must have waited for the result and not for what the helper set free besides (a connection of a
    /// pool), so it made no call itself from then on. And whoever else could have made the call must be accounted for:
    /// a job whose end wakes no task leaves no sign, and the end of the helper's next one would be taken for it.
    /// Its request was over, or
    ///
    /// - its holder slept all the while from the answer to the waking: the end of its piece would have woken it; or
    /// - while the call was under way its holder waited for the answer to another: a helper woke it then, directly after a
    ///   call of that helper's own. Were `y` its call as well, both would have been under way at once. Ends of such calls
    ///   wake the holder one after the other, unless one comes while it is awake; so that this was never seen in the process
    ///   says that its requests do not wait for several calls at once. (A piece without a call would have to follow
    ///   besides, so there must be none of them either.)
    pub(in crate::attribution) fn completed(&self, xs: &Slab, y: ExId) -> Option<ExId> {
        let (x, at) = self.woken_after(xs, y)?;
        let jobs = self.domain(self.state(y).process).map(|d| d.jobs).unwrap_or_default();
        if !holds("completion.signs_are_enough", !jobs.say_little()) {
            return None;
        }
        // who else could have made it was not looked at one by one
        let is_crowded = self.state(y).call.candidates.as_ref().is_some_and(|s| s.set.is_some());
        let state = self.state(x);
        if is_crowded
            || !state.flags.has(Progress::Closed)
            || !holds("completion.holder_called_nobody", state.request.holder_called < at)
        {
            return None;
        }
        let (began, ended) = (xs.get(y).request.taken, xs.get(y).reply.ended);
        let is_elsewhere =
            |w: &Worker| w.sleeps.through(ended, at) || jobs.are_single() && w.sleeps.waits_for_another(began, ended);
        let holder = |s: ExId| self.tasks.get(self.state(s).holder);
        let is_out = |s: ExId| xs.is_live(s) && holder(s).is_some_and(is_elsewhere);
        let mut others = self.state(y).call.others.iter().flatten().copied().filter(|&s| s != x).peekable();
        let is_known = others.peek().is_none() || !jobs.are_few();
        holds("completion.others_slept", is_known && others.all(is_out)).then_some(x)
    }

    /// Whether that will show when a request that is still open is over.
    pub(in crate::attribution) fn is_being_completed(&self, xs: &Slab, y: ExId) -> bool {
        self.woken_after(xs, y).is_some_and(|(x, _)| self.is_open(xs, x))
    }

    /// The task that holds `x` alone was woken from a wait of its own: another may have done something for it.
    pub(in crate::attribution) fn saw_wakeup(&mut self, r: &WaitRow, x: ExId) {
        let (mut jobs, signalled) = self.tasks.or_default(r.by).helper.mark(r.woken, HelperEvent::Woke(x, r.blocked));
        if let Some(began) = signalled.filter(|_| self.is_helper(r.by))
            && let Some(holder) = self.tasks.get_mut(r.task)
        {
            jobs.at_once = u32::from(holder.sleeps.heard(began, r.woken));
        }
        self.saw_jobs(r.by, jobs);
    }

    /// A helper's signs told of such jobs.
    pub(in crate::attribution) fn saw_jobs(&mut self, helper: TaskId, seen: JobStats) {
        if seen != JobStats::default() && self.is_helper(helper) {
            let process = self.roles.process_of(helper);
            self.domain_mut(process).jobs.add(seen);
        }
    }

    fn woken_after(&self, xs: &Slab, y: ExId) -> Option<(ExId, MonoNs)> {
        let (e, s) = (xs.get(y), self.state(y));
        let role = self.roles.role(e.request.actor);
        let is_undecided = s.call.parent == Some(Parent::Pending);
        let is_helpers = s.call.flags.has(CallFlag::Replied)
            && s.call.reply_task == e.request.actor
            && !role.has(Does::Take)
            && !role.has(Does::ReplyForOthers);
        let helper = self.tasks.get(e.request.actor).filter(|_| is_undecided && is_helpers)?;
        helper.helper.completed_for(xs, y, e.request.taken, e.reply.ended)
    }

    /// A helper's call is over: who else could have made it and is not over yet?
    pub(in crate::attribution) fn keep_rivals(&mut self, xs: &Slab, y: ExId) {
        let (s, ended) = (self.state(y), xs.get(y).reply.ended);
        let Some(candidates) = s.call.candidates.as_ref().filter(|s| !s.few.is_empty()) else { return };
        let is_over = |x: ExId| self.state(x).flags.has(Progress::Closed) && xs.get(x).reply.ended < ended;
        let others = candidates.few.iter().copied().filter(|&x| xs.is_live(x) && !is_over(x)).collect();
        self.state_mut(y).call.others = Some(others);
    }
}
