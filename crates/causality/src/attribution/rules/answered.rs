//! A request whose reply was sent makes no call any more.
//!
//! Habit: in this process none was seen behind a reply. (A reply that was sent proves nothing: many programs log or clean up
//! behind it.)
//!
//! Counterexample: `link.fragment/loop_answered_goes_on`.

use super::ExclusionRule;
use crate::attribution::candidates::{Kept, Question};
use crate::evidence::Strength;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    name: "answered",
    says: "requests of this process make no call behind their reply, and these had sent theirs",
    strength: Strength::Habit,
    rank: 8,
    keeps,
    names: None,
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_known = q.is_loop() && !q.facts.roles.may_go_on_answered(q.process);
    is_known.then(|| Kept::those(|q, x| q.is_open(x)))
}
