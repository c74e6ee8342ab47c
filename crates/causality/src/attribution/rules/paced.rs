//! A task that calls at a pace of its own, whether its process has requests or not: a refresher, a health check, a heartbeat.
//!
//! Habit: it called by itself as often as `crates/causality/src/roles/paced.rs` asks for, and never sooner than its pace.
//!
//! Condition: it takes no requests, and was not made in one that it still may work for.
//!
//! Counterexamples: `link.paced/worker_of_a_queue`, `never_alone`, `few`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the task calls at a pace of its own, also while its process has no request",
    cases: Some(|q| q.facts.roles.paced_rounds(q.task)),
    ..ExclusionRule::habit(1, "paced", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    q.is_paced().then(Kept::no_request)
}
