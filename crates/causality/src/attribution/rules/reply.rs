//! A worker that takes up what others read, and replies: the calls that it made and waited for since the request was taken
//! were for that request (vPath's thread pattern, section 2.2).
//!
//! Habit: when it took the request up is not recorded. It may have been busy with another until then, to which somebody else
//! replies. So the rule does not hold in processes whose workers replied more often after a call from before the request came
//! than after calls that all came since.
//!
//! Only calls that it also waited for: it read the answer itself; or it slept from the call on, at a place of its own, until
//! the task that had read the answer woke it, and that sleep was for no other of its calls.
//!
//! A reply claims by each of its parts: what was called between two of them is no later reply's.
//!
//! Nor where another request was open to which nobody ever replied, as the call began: the worker may have begun with that one.
//!
//! Counterexamples: `link.reply/busy_worker`, `never_replied_to`, `sends_for_another`, `in_parts`.

use crate::attribution::claims::{Claim, Claimed};
use crate::attribution::facts::Facts;
use crate::attribution::state::CallFlag;
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::exchange::{ExId, Slab};
use crate::finished::Parent;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::WaitRow;

impl Facts<'_> {
    /// A worker was woken by a task that may have read the answer to a call of the worker's.
    pub(in crate::attribution) fn woke_with_answer(&mut self, xs: &Slab, r: &WaitRow) {
        if !self.roles.is_private(r) {
            return;
        }
        let Some(w) = self.tasks.get(r.task) else { return };
        let is_under_way = |y: &ExId| {
            let e = xs.get(*y);
            let is_answered = self.state(*y).call.flags.has(CallFlag::Replied) && e.reply.ended <= r.blocked;
            e.request.began <= r.blocked && !is_answered
        };
        let mut calls = w.segment.iter().copied().filter(|&y| xs.is_live(y)).filter(is_under_way);
        let (Some(y), other) = (calls.next(), calls.next()) else { return };
        if !holds("reply.one_call_under_way", other.is_none()) {
            return;
        }
        let call = &mut self.state_mut(y).call;
        call.flags.add_if(CallFlag::SleptFor, call.flags.has(CallFlag::Replied) && call.reply_task == r.by);
    }

    /// A worker replies to `x`: which of its calls since its last reply were for that?
    pub(in crate::attribution) fn claim_segment(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) -> Vec<Claim> {
        let Some(w) = self.tasks.get_mut(task).filter(|w| !w.segment.is_empty()) else { return Vec::new() };
        let segment = std::mem::take(&mut w.segment);
        let taken = xs.get(x).request.taken;
        let process = self.roles.process_of(task);
        let is_busy = !holds("reply.never_busy_before", !self.roles.works_on_others(process));
        let is_for_replied =
            |y| holds("reply.all_were_replied_to", self.roles.replied_to_all(process, xs.get(y).request.began));
        let mut claims = Vec::new();
        for y in segment.into_iter().filter(|&y| self.is_undelivered(xs, y)) {
            let s = self.state(y);
            let given_to = match s.call.parent {
                Some(Parent::Pending) => None,
                Some(Parent::Of(given_to, Rule::Handoff)) if given_to != x => Some(given_to),
                _ => continue,
            };
            let has_waited = s.call.flags.has(CallFlag::Replied)
                && (s.call.reply_task == task || s.call.flags.has(CallFlag::SleptFor));
            // else the worker was busy before, and nothing is claimed anyway, unless what shows it was lost
            let is_since = xs.get(y).request.taken >= taken;
            let claimed = match is_since && has_waited {
                true if self.roles.is_lossy(taken, at) => Claimed::Lost,
                true if is_busy || !is_for_replied(y) => continue,
                true => given_to.map_or(Claimed::By(x, Rule::Reply), |before| Claimed::Disputed(x, before)),
                // that its request was taken before may be among what was lost
                false if self.roles.is_lossy(MonoNs(0), at) => Claimed::LostFrom(x),
                false => continue,
            };
            claims.push(Claim { call: y, claimed });
        }
        claims
    }
}
