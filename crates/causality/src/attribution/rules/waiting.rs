//! A request that waits for the answer to a call makes no other meanwhile.
//!
//! Habit: requests of this process were never seen to make several calls at once.
//!
//! Not where the kernel receives ahead of the program: an answer may have come long before the program hears of it. Not of
//! helpers: a request may hand out several jobs at once.
//!
//! Counterexamples: `link.fragment/loop_pool_parallel`, `loop_pool_dials`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Property, Question};
use crate::conditions::holds;
use crate::process::known::Does;
use wakepath_model::ids::MonoNs;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "requests of this process do one thing at a time, and these waited for an answer",
    seen_at: |q, x| x.map_or(MonoNs(0), |x| q.facts.waits_since(q.xs, x)),
    cases: Some(|q| q.facts.roles.single_cases(q.process)),
    ..ExclusionRule::habit(7, "waiting", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_single = match () {
        () if q.is_loop() => !q.is_ring() && holds("waiting.never_several", !q.facts.roles.is_parallel(q.process)),
        () => {
            let is_single = holds("waiting.never_several", !q.facts.roles.fans_out(q.process));
            (q.is_migrating() || q.role.has(Does::Take)) && is_single
        }
    };
    is_single.then(|| Kept::those(Property::GoesOn))
}
