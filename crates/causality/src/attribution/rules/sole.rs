//! A helper to which requests handed work before, in a process with one open request: such helpers never called when there
//! was none.
//!
//! Condition: no timer made it go on; what it was woken for is over only where there was never more than one request at
//! once.

use crate::attribution::exclusion::{ExclusionRule, Kept, NO_MOMENT, Question};
use crate::attribution::worker::Woken;
use crate::canary::holds;
use crate::evidence::{Rule, Strength};

pub(super) const RULE: ExclusionRule = ExclusionRule {
    name: "sole",
    says: "helpers of this process never made a call while no request was open",
    strength: Strength::Habit,
    rank: 6,
    keeps,
    names: Some(|_, _| Rule::Sole),
    seen_at: NO_MOMENT,
    cases: None,
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_helper = !q.role.takes && !q.is_migrating() && q.born_of().is_none();
    let is_handed_work = q.worker.filter(|_| is_helper)?.is_handed_work;
    (is_handed_work && is_asked_by_one(q)).then_some(Kept::all_but_own())
}

/// Whether a call of a helper can only be of a request that its process has open; of which, where there are several, is another
/// question.
pub(in crate::attribution) fn is_asked_by_one(q: &Question) -> bool {
    let roles = q.facts.roles;
    let is_asked = match q.worker.map(|w| w.woken).unwrap_or_default() {
        Woken::Unknown => true,
        // it went on to something else without sleeping, and there was never more than one thing to go on to
        Woken::For(x) => !q.is_open(x) && !roles.is_concurrent(q.process),
        Woken::Timer => holds("sole.no_timer", false),
    };
    is_asked
        && q.at > roles.unseen_until(q.process)
        && holds("sole.never_without_a_request", !roles.calls_unasked(q.process))
}
