//! A helper that slept and was woken by a task that worked on a request: it was not its own timer that made it go on.
//!
//! Habit: that a task of a request wakes it does not prove that it wakes it for that request.
//!
//! Condition: the task takes no requests, and was not made in a request that it still may work for. Together with this only
//! the number of open requests decides: a request may hand out several jobs at once, so that one of its calls is under way
//! excludes nothing.
//!
//! Counterexamples: `link.handoff/woken_by_a_bystander`, `worker_of_a_pool`.

use crate::attribution::exclusion::{ExclusionRule, Kept, NO_MOMENT, Question};
use crate::attribution::helper::Woken;
use crate::canary::holds;
use crate::evidence::{Rule, Strength};

pub(super) const RULE: ExclusionRule = ExclusionRule {
    name: "handoff",
    says: "a task that worked on a request woke the helper: it did not go on by itself",
    strength: Strength::Habit,
    rank: 5,
    keeps,
    names: Some(|_, _| Rule::Handoff),
    seen_at: NO_MOMENT,
    cases: None,
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_helper = !q.role.takes && !q.is_migrating() && holds("handoff.no_maker", q.born_of().is_none());
    match q.worker.filter(|_| is_helper)?.helper.woken {
        Woken::For(x) if q.is_open(x) => Some(Kept::all_but_own()),
        _ => None,
    }
}
