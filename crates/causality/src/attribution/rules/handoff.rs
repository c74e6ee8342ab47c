//! A helper that slept and was woken by a task that worked on a request: it was not its own timer that made it go on.
//!
//! Habit: that a task of a request wakes it does not prove that it wakes it for that request.
//!
//! Condition: the task takes no requests, and was not made in a request that it still may work for. A loop that woke it had been
//! given something of that request alone since it last waited. It never sent anything while no request was open: a helper that
//! collects data of all requests, and sends it when its buffer is full or a timer ends (telemetry), is woken by the last one that
//! added data. Together with this only the number of open requests decides: a request may hand out several jobs at once, so that
//! one of its calls is under way excludes nothing.
//!
//! Counterexamples: `link.handoff/woken_by_a_bystander`, `sends_for_all`, `worker_of_a_pool`, `behind_a_reply`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::attribution::facts::Facts;
use crate::attribution::helper::Woken;
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::exchange::{ExId, Slab};
use crate::process::known::Does;
use wakepath_model::rows::WaitRow;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "a task that worked on a request woke the helper: it did not go on by itself",
    names: Some(|_, _| Rule::Handoff),
    ..ExclusionRule::habit(5, "handoff", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_helper = !q.role.has(Does::Take) && !q.is_migrating() && holds("handoff.no_maker", q.born_of().is_none());
    let is_helper = is_helper && holds("handoff.never_unasked", !q.role.has(Does::CallUnasked));
    match q.worker.filter(|_| is_helper)?.helper.woken {
        Woken::For(x) if q.is_open(x) => Some(Kept::all_but_own()),
        _ => None,
    }
}

impl Facts<'_> {
    /// The open request on which the task worked that ended a wait.
    pub(in crate::attribution) fn woke_for(&self, xs: &Slab, r: &WaitRow) -> Option<ExId> {
        let by = self.tasks.get(r.by)?;
        let x = by.request_at(r.woken).or(by.held.only()).filter(|&x| self.is_open(xs, x))?;
        // of who was never seen to poll nobody knows what else it was given
        let is_loop = self.roles.role(r.by).is_loop() && by.given.turn.since.0 != 0;
        let is_alone = !is_loop || by.given.owners == [x];
        holds("handoff.of_one_alone", is_alone).then_some(x)
    }
}
