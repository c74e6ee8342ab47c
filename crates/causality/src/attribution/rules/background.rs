//! A task for which its request does not wait: what it calls after the end of that is of no request.
//!
//! asyncio: a task that another one made after its reply, as FastAPI's background tasks do where a call has a time limit. Habit: who made it
//! was itself made for its request, replied to that alone, and had no other. The task calls but once in the whole recording: one that
//! calls again may be a worker that lives on. One that took a single job of another request's from a queue would look the same.
//!
//! Go: a goroutine that was made amid a request (`go func`), made all its calls after the end of that, and ended with the last answer. Habit:
//! at least eight of the process did so, and none that was made in a request and called did anything else
//! (`crates/causality/src/roles/background.rs`).
//!
//! Counterexamples: `link.background/made_behind_a_reply_and_calls_again`, `made_behind_a_reply_and_the_next`,
//! `goroutine_that_waits_for_work`, `goroutines_some_are_waited_for`.

use super::born::kept;
use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::lineage::Basis;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "its request did not wait for the task, which makes calls only after its end",
    // what it keeps is of no request: the request is over
    cases: Some(|q| q.facts.roles.background_cases(q.task, q.process)),
    ..ExclusionRule::habit(1, "background", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    if q.is_background() {
        return Some(Kept::no_request());
    }
    q.line(Basis::AfterReply).and_then(|line| kept(q, line))
}
