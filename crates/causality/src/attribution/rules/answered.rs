//! A request whose reply was sent makes no call any more.
//!
//! Habit: in this process none was seen after a reply. (A reply that was sent proves nothing: many programs log or clean up
//! after it.)
//!
//! Counterexamples: `link.fragment/loop_answered_goes_on`, `loop_answered_beside`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Property, Question};
use crate::conditions::holds;
use wakepath_model::ids::MonoNs;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "requests of this process make no call after their reply, and these had sent theirs",
    seen_at: |q, x| x.filter(|&x| q.xs.is_live(x)).map_or(MonoNs(0), |x| q.xs.get(x).reply.ended),
    cases: Some(|q| q.facts.roles.answered_cases(q.process)),
    ..ExclusionRule::habit(8, "answered", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_known = q.is_loop() && holds("answered.never_seen", !q.facts.roles.may_go_on_answered(q.process));
    is_known.then(|| Kept::those(Property::Open))
}
