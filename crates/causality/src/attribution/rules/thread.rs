//! A thread that takes requests and works on one at a time: what it does before it takes the next is for the one that it
//! has (vPath, section 2.2).
//!
//! Condition: its process's requests stay with the task that took them, it was never seen to take one beside another or to
//! wait amid one at the epoll descriptor that gives it requests, and it has one. Where others read requests for it, one that
//! was not read whole may have been put aside. It keeps what it takes: one to whose requests only others reply has handed over
//! what it read, and may send for any of them.
//!
//! Counterexamples: `link.fragment/loop_own_timer`, a loop that happened to serve one request at a time;
//! `link.reply/reader_sends`, `read_in_part`.

use crate::attribution::exclusion::{ExclusionRule, Keeps, Kept, Property, Question};
use crate::conditions::holds;
use crate::evidence::{Rule, Strength};
use crate::process::known::Does;
use wakepath_model::ids::MonoNs;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the thread works on one request at a time, and had taken this one",
    names: Some(|_, strength| if strength == Strength::Shown { Rule::Fragment } else { Rule::Thread }),
    seen_at: |q, _| q.worker.map_or(MonoNs(0), |w| w.fragment.since),
    ..ExclusionRule::shown(2, "thread", keeps)
};

fn keeps(q: &Question) -> Option<Kept> {
    let is_reader = q.role.has(Does::GiveAway) && !q.role.has(Does::ReplyItself) && !q.role.has(Does::ReplyForOthers);
    if !q.is_thread() || !holds("thread.keeps_what_it_takes", !is_reader) {
        return None;
    }
    match q.facts.sole_of(q.xs, q.held()) {
        Some(x) if !q.role.has(Does::ReplyForOthers) || holds("thread.read_whole", q.xs.get(x).is_received()) => {
            Some(Kept::one(x))
        }
        None if !q.role.has(Does::ReplyForOthers) => {
            // several of one flow, each with an identifier: which it works on does not show
            let is_any = !q.held().is_empty();
            is_any.then_some(Kept { requests: Keeps::Those(Property::Held), own: false, before: false })
        }
        _ => None,
    }
}
