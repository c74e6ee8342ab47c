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
use crate::attribution::exclusion::{ExclusionRule, Keeps, Kept, NO_MOMENT, Question};
use crate::evidence::Strength;
use crate::lineage::Basis;
use smallvec::SmallVec;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    name: "background",
    says: "its request did not wait for the task, which makes calls only after its end",
    strength: Strength::Habit,
    rank: 1,
    keeps,
    // what it keeps is of no request: the request is over
    names: None,
    seen_at: NO_MOMENT,
    cases: Some(|q| q.facts.roles.background_cases(q.task, q.process)),
};

fn keeps(q: &Question) -> Option<Kept> {
    if q.is_background() {
        return Some(Kept { requests: Keeps::These(SmallVec::new()), own: true, before: false });
    }
    q.facts.made_for(q.task, q.at).filter(|line| line.basis == Basis::AfterReply).and_then(|line| kept(q, line))
}
