//! A turn of an event loop: since it last waited for something to do, it goes on with what it was given.
//!
//! Shown, where all that its polls found ready was seen taken up, no timer of the loop can be due, and no answer set free what
//! another request may have waited for (a connection of a pool): then only requests that were given something can have made
//! the call. Else any that it holds can, and the program itself; habits may tell ([`super::waiting`], [`super::answered`],
//! [`super::unasked`]).
//!
//! Nor where a thread of the process has just read an answer: what came of it lies in memory, and is taken in whichever turn comes; or while one
//! has a job that the loop gave it. Habits then say only whether the program calls by itself.
//!
//! Nor is anything shown where several loops of a process give each other work in memory: none of them counts as one then
//! ([`Roles::is_migrating`](crate::roles::Roles::is_migrating)).
//!
//! Counterexamples: `link.fragment/loops_give_each_other_work`, `loop_unseen_input`, `loop_timer_due`, `loop_pool`, `loop_several_ready`, `loop_ring`,
//! `streams`,
//! `result_of_a_thread`, `result_of_a_thread_later`, `result_of_a_job`.

use crate::attribution::exclusion::{ExclusionRule, Keeps, Kept, Property, Question};
use crate::evidence::{Rule, Strength};
use wakepath_model::ids::MonoNs;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the loop was given nothing of theirs since it last waited",
    names: Some(|q, strength| match strength {
        Strength::Habit => Rule::Turn,
        _ if q.worker.is_some_and(|w| w.given.is_isolated()) => Rule::Isolation,
        _ => Rule::Fragment,
    }),
    seen_at: |q, _| q.worker.map_or(MonoNs(0), |w| w.given.turn.since),
    ..ExclusionRule::shown(3, "turn", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let turn = &q.worker.filter(|_| q.is_loop() && !q.is_ring())?.given;
    if turn.may_be_anothers(q.at) || q.may_have_taken_results() {
        return Some(Kept { requests: Keeps::Those(Property::GivenOrHeld), own: true, before: true });
    }
    let given = turn.owners.iter().copied().filter(|&x| q.xs.is_live(x)).collect();
    Some(Kept { requests: Keeps::These(given), own: turn.is_own(), before: false })
}
