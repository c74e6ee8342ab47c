//! Where any task may go on with any request: the one that a task works on because the preload library gave it that one
//! input, where the others are at none that it could be instead (BorderPatrol, section 2).
//!
//! Condition: no timer of the task can be due, the input was one request's alone, and every other request that waits for
//! nothing is in the hands of another task.
//!
//! Counterexamples: `link.isolation/together`; `one_read_beside`, where one read took two requests.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::exchange::ExId;
use wakepath_model::ids::{MonoNs, TaskId};

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the library handed the task this request's input alone, and other tasks have the others",
    names: Some(|_, _| Rule::Isolation),
    seen_at: |q, _| q.worker.map_or(MonoNs(0), |w| w.fragment.since),
    ..ExclusionRule::shown(1, "isolated", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    q.worker.filter(|w| q.is_migrating() && w.given.is_isolated() && w.given.turn.no_timer_due(q.at))?;
    let x = q.current().filter(|&x| holds("isolated.one_request", !q.facts.is_beside_another(q.xs, q.task, x)))?;
    let mut others = q.facts.runnable(q.xs, q.process).filter(|&y| y != x).peekable();
    let mut elsewhere: Vec<ExId> = Vec::new();
    if others.peek().is_some() {
        let is_other = |t: &TaskId| *t != q.task && q.facts.roles.process_of(*t) == q.process;
        elsewhere.extend(q.facts.tasks.iter().filter(|(t, _)| is_other(t)).filter_map(|(_, w)| w.fragment.of));
    }
    let are_elsewhere = others.all(|y| elsewhere.contains(&y));
    holds("isolated.others_are_elsewhere", are_elsewhere).then_some(Kept::one(x))
}
