//! A logical task that replies to all requests of one connection, and to no others: what it does between a request and the
//! reply is for that request, and so is what it makes. So asyncio's servers that have a task for each connection work.
//!
//! Habit: at least eight connections of the process had such a task, and none of its tasks replied on two. Or tasks that were each
//! made for their connection alone, together with its reader or at its accept, replied at least eight times, and no other task
//! replied twice.
//!
//! Counterexamples: `link.connection-task/workers_that_reply_anywhere`, `few_connections`, `workers_of_all_connections`,
//! `workers_made_with_the_first`, `one_made_with_its_reader`, `workers_made_behind_the_first_accept`, `accepted_at_once`,
//! `accept_that_was_lost`, `others_made_behind_their_first_bytes`.

use super::born::kept;
use crate::attribution::exclusion::{ExclusionRule, Question};
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::lineage::Basis;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the task replies to the requests of this one's connection, and to no others",
    names: Some(|_, _| Rule::ConnectionTask),
    cases: Some(own),
    ..ExclusionRule::habit(1, "connection task", |q| {
        let line = q.line(Basis::OneConnection)?;
        holds("served.one_each", own(q) > 0).then(|| kept(q, line)).flatten()
    })
};

fn own(q: &Question) -> u32 {
    q.facts.roles.own_answerers(q.process)
}
