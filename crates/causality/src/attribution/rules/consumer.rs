//! A thread that asks a queue for work in a loop of its own works for no request of its process.
//!
//! Habit: since it first asked to wait for something that happens elsewhere (an item of a list, a record of a topic), no task of its process
//! let it go on but at a lock, and it let none go on. So no task handed it a job meanwhile, and no request waits for what it does. At least
//! eight rounds, in each of which it slept until somebody outside of its process answered. A request that came before the loop began may
//! have begun it. One that puts a job into memory, which the thread takes without ever having to wait for one, would look the same.
//!
//! Counterexamples: `link.consumer/handed_by_a_request`, `tells_a_request`, `too_few_rounds`, `begun_by_a_request`,
//! `replies_for_another`,
//! `waits_lost`.

use crate::attribution::exclusion::{ExclusionRule, Keeps, Kept, Question};
use crate::conditions::holds;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the thread asks for work in a loop of its own, and no task of its process hands it any",
    // what it keeps is of no request
    cases: Some(|q| q.facts.roles.consumers.rounds(q.task)),
    ..ExclusionRule::habit(1, "consumer", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let since = q.consumes_since()?;
    let came_before =
        q.candidates().filter(|&x| !holds("consumer.began_before_the_request", q.xs.get(x).request.taken >= since));
    Some(Kept { requests: Keeps::These(came_before.collect()), own: true, before: true })
}
