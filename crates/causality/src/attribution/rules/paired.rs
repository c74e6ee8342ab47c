//! A connection that serves the requests of one other connection, as proxies have them that share none between their clients.
//!
//! Habit: each connection of the process on which calls are made was only ever used for requests of the same connection, also
//! where others were idle that could have been used.
//!
//! Counterexample: `link.turn/paired_by_chance`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Property, Question};
use crate::roles::HabitId;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the call's connection was only ever used for requests of one other, and theirs came elsewhere",
    cases: Some(|q| q.facts.roles.habits.of(q.process, HabitId::Paired).cases),
    ..ExclusionRule::habit(10, "paired", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    (q.is_loop() && q.facts.roles.partner(q.process, q.flow).is_some()).then(|| Kept::those(Property::Paired))
}
