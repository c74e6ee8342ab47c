//! A task that another one made behind its reply, as FastAPI's background tasks do where a call has a time limit: its call is
//! nobody's.
//!
//! Habit: who made it was itself made for its request, replied to that alone, and had no other. The task calls but once in the whole
//! recording: one that calls again may be a worker that lives on. One that took a single job of another request's from a queue would
//! look the same.
//!
//! Counterexamples: `link.logical/made_behind_a_reply_and_calls_again`, `made_behind_a_reply_and_the_next`.

use super::born::kept;
use crate::attribution::exclusion::{ExclusionRule, NO_MOMENT};
use crate::evidence::{Rule, Strength};
use crate::lineage::Basis;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    name: "behind",
    says: "the task was made behind a reply by the one that replied, and calls once",
    strength: Strength::Habit,
    rank: 1,
    keeps: |q| q.facts.made_for(q.task, q.at).filter(|line| line.basis == Basis::Behind).and_then(|line| kept(q, line)),
    names: Some(|_, _| Rule::Habit),
    seen_at: NO_MOMENT,
    cases: None,
};
