//! A connection that serves the requests of one other connection, as proxies have them that share none between their clients.
//!
//! Habit: each connection of the process on which calls are made was only ever used for requests of the same connection, also
//! where others were idle that could have been used.
//!
//! Counterexample: `link.turn/paired_by_chance`.

use crate::attribution::exclusion::{ExclusionRule, Kept, NO_MOMENT, Property, Question};
use crate::evidence::Strength;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    name: "paired",
    says: "the call's connection was only ever used for requests of one other, and theirs came elsewhere",
    strength: Strength::Habit,
    rank: 10,
    keeps,
    names: None,
    seen_at: NO_MOMENT,
    cases: Some(|q| q.facts.roles.pair_cases(q.process)),
};

fn keeps(q: &Question) -> Option<Kept> {
    (q.is_loop() && q.facts.roles.partner(q.process, q.flow).is_some()).then(|| Kept::those(Property::Paired))
}
