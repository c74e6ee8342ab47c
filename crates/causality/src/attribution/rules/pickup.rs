//! A worker that took up what another task had read, by replying to it or by reading an answer to one of its calls: what it
//! does next is for that request.
//!
//! Condition: it takes no requests itself, and holds just this one, whose reply may still go on.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::attribution::facts::Facts;
use crate::evidence::Rule;
use crate::process::known::Does;
use wakepath_model::ids::MonoNs;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the worker had taken up this request alone: it had replied in part, or read an answer of its",
    names: Some(|_, _| Rule::Fragment),
    seen_at: |q, _| q.worker.map_or(MonoNs(0), |w| w.fragment.since),
    ..ExclusionRule::shown(4, "pick-up", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_worker = q.role.has(Does::ReplyForOthers) && !q.role.has(Does::Take) && !q.is_migrating();
    let x = q.facts.sole_of(q.xs, q.held()).filter(|_| is_worker)?;
    (!Facts::is_implicitly_ended(q.xs, x)).then_some(Kept::one(x))
}
