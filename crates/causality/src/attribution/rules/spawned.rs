//! A goroutine that was made amid a request and ended with it, as all do that its process makes in requests and that call: what it
//! does while the request is open is for it. A worker of a pool takes others' work too, and lives on.
//!
//! Habit: who made it had one request at a time; it, and those between it and the one that took the request, ended before that
//! request's end or at once afterwards; at least eight of the process did so and called, and none that called went on after the end
//! of the request that it was made for. That a goroutine does nobody else's work is in no record: one that takes another's item
//! and ends in time looks the same, so that this is no proof.
//!
//! Counterexamples: `link.spawned/goroutine_that_lives_on`, `dispatcher_that_lives_on`, `one_goroutine_of_many_lives_on`,
//! `worker_that_waits_a_little`.

use super::born::kept;
use crate::attribution::exclusion::{ExclusionRule, Question};
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::lineage::Basis;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the task was made for this request and ended with it, as all did that the process made in requests",
    names: Some(|_, _| Rule::Spawned),
    cases: Some(ended),
    ..ExclusionRule::habit(1, "spawned", |q| {
        let line = q.line(Basis::EndsWithIt)?;
        holds("spawned.never_otherwise", ended(q) > 0).then(|| kept(q, line)).flatten()
    })
};

fn ended(q: &Question) -> u32 {
    q.facts.roles.ending_with_requests(q.process)
}
