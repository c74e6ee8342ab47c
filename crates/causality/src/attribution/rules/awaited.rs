//! A loop read the answer to a call of unknown origin, and with that went on to reply to X: X waited for that answer.
//!
//! Habit: that X waited for the answer does not say that no other request asked for it (a batch, a single flight). But wherever the
//! maker of such a call was known, it was the one that went on.
//!
//! Condition: that answer was all that the loop was given; or it took nothing between the answer and the reply, and its process
//! was often seen to pass answers on so where it was given more. No timer was due, and X was among those that could have made the
//! call: open requests, and no other. One that was answered has no reply left that would tell; nor has the program itself,
//! where it was ever seen to call of its own accord. And no thread of the process may have left it a result in memory, which would be
//! one more thing that it was given.
//!
//! Counterexamples: `link.awaited/awaited_after_answer`, `awaited_of_its_own`, `awaited_by_another`, `awaited_too_few`,
//! `passed_on_too_few`, `passed_to_another`, `passed_on_kept`, `passed_on_behind_frames`,
//! `awaited_behind_a_thread`.

use crate::attribution::claims::{Claim, Claimed};
use crate::attribution::facts::Facts;
use crate::attribution::state::Progress;
use crate::conditions::holds;
use crate::evidence::{Gap, Rule};
use crate::exchange::{ExId, Slab};
use crate::finished::Parent;
use crate::process::known::Does;
use wakepath_model::ids::{MonoNs, TaskId};

impl Facts<'_> {
    /// A loop replies to `x`: was the call whose answer it just read made for that?
    pub(in crate::attribution) fn claim_awaited(
        &mut self,
        xs: &Slab,
        x: ExId,
        task: TaskId,
        at: MonoNs,
    ) -> Option<Claim> {
        let w = self.tasks.get_mut(task)?;
        let call = w.unknown_call.take()?;
        // only where that reply was all that there was to go on with
        let (is_single, is_timely) = (w.given.is_single(at), w.given.turn.no_timer_due(at));
        let s = self.state(call);
        let is_passed_on = || is_timely && self.roles.passes_on(s.process);
        let is_known = holds("awaited.nothing_else_was_given", is_single) && self.roles.awaits_its_own(s.process);
        if self.may_take_results(task, s.process, at) {
            return None;
        }
        if !is_known && !is_passed_on()
            || self.roles.role(task).has(Does::UseRing)
            || self.roles.is_lossy(xs.get(x).request.taken, at)
        {
            return None;
        }
        let is_open = !s.flags.has(Progress::Given) && matches!(s.call.parent, Some(Parent::Open(Gap::Ambiguous)));
        let are_not_all = s.call.candidates.as_ref().is_some_and(|s| s.are_not_all);
        let are_all = holds("awaited.by_an_open_request", !are_not_all);
        (is_open && are_all && self.is_candidate(x, call))
            .then_some(Claim { call, claimed: Claimed::By(x, Rule::Awaited) })
    }
}
