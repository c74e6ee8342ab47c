//! A loop that does at once what an input asks for, before it takes the next: a call right after the reading of a request is
//! that request's.
//!
//! Habit: no input of the process, or of its siblings that run the same program, was ever seen to leave something for later, in turns
//! in which it took several: it made at most one call after each. Sixteen such turns, since one in which an input puts something
//! off, and the next one asks for nothing, looks the same.
//!
//! Condition: the last that the loop took in its turn were a request's own bytes, and no other's with them. (An answer may set
//! free what another one waits for.) No timer can be due, and the call's connection was not made beforehand: when that can be
//! used does not depend on the last input. And that request has not been answered: then what it asked for is done, and what comes
//! after it was left for later, by whomever.
//!
//! Counterexamples: `link.turn/paired_by_chance`, a loop that reads all first; `prompt_answer`,
//! `prompt_two_at_once`, `prompt_answered`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::conditions::holds;
use wakepath_model::ids::EndpointId;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the loop does at once what an input asks for, and had just read this request",
    cases: Some(|q| q.facts.roles.prompt_cases(q.process)),
    ..ExclusionRule::habit(11, "prompt", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_loop = q.is_loop() && !q.is_ring() && q.flow != EndpointId(0) && q.facts.roles.is_prompt(q.process);
    let x = q.worker.filter(|_| is_loop)?.given.asked_last(q.at)?;
    if !holds("prompt.not_answered", q.is_open(x)) {
        return None;
    }
    Some(Kept { own: true, before: true, ..Kept::one(x) })
}
