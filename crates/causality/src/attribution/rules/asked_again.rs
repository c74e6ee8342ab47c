//! A call that waits for what happens elsewhere, asked again as soon as it was answered, is the loop's own: of a consumer of events that
//! all requests share.
//!
//! Habit: whenever this process waited so on a connection, it asked there again in the turn in which it had the answer, also where no
//! more than one request was open. So no request asks for it: what asks for a request asks when that has come.
//!
//! Counterexamples: `link.asked-again/for_each_request`, `too_few_cases`, `paused_once`, `until_it_has_it`, `queue_for_a_connection`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the loop always waits again on this connection for what happens elsewhere, as soon as it was answered",
    // what it keeps is of no request
    cases: Some(|q| q.facts.roles.listening_cases(q.process)),
    ..ExclusionRule::habit(1, "asked again", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_own = q.is_loop() && q.asks_again() && q.facts.roles.listening_cases(q.process) > 0;
    is_own.then(Kept::no_request)
}
