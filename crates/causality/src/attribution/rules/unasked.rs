//! The program makes no call of its own accord.
//!
//! Habit: this process was never seen to make one while it had no request open.
//!
//! Not where it was just given the answer to a call of its own, or asks again for what it has just been told, and not where the kernel receives ahead of the program.
//!
//! Counterexamples: `link.fragment/loop_own_timer`, `link.asked-again/too_few_cases`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::conditions::holds;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "this process makes no call while no request is open",
    cases: Some(|q| q.facts.roles.unasked_cases(q.process)),
    ..ExclusionRule::habit(9, "unasked", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let roles = q.facts.roles;
    let is_asked = match () {
        () if q.is_woken_by_who_asks() => false,
        () if q.is_loop() => {
            !q.is_ring()
                && holds("unasked.never_seen", !roles.may_call_unasked(q.process))
                && !q.worker.is_some_and(|w| w.given.is_own())
                && holds("unasked.not_asked_again", !q.may_ask_again())
        }
        () => q.is_migrating() && holds("unasked.never_seen", !roles.may_call_unasked(q.process)),
    };
    is_asked.then(Kept::all_but_own)
}
