//! A goroutine that was made amid a request and ended with it, as all do that its process makes in requests and that call: what it
//! does while the request is open is for it. A worker of a pool takes others' work too, and lives on.
//!
//! So is a thread whose end is known. It is also known when it works for others all the same: it lets the task of another request go on that
//! had slept since before a call of its own, which is answered. That task waited for what came of the call, unless it calls next on the
//! same connection (which a pool had lent), or waited for an answer of its own, and then for the lock of an interpreter. Threads of one
//! kind have one name.
//!
//! Habit: who made it had one request at a time; it, and those between it and the one that took the request, ended before that
//! request's end or at once afterwards; at least eight of the process did so and called, and none that called went on after the end
//! of the request that it was made for. That a goroutine does nobody else's work is in no record: one that takes another's item
//! and ends in time looks the same, so that this is no proof.
//!
//! Counterexamples: `link.spawned/goroutine_that_lives_on`, `dispatcher_that_lives_on`, `one_goroutine_of_many_lives_on`,
//! `worker_that_waits_a_little`, `thread_that_gathers`.

use super::born::kept;
use crate::attribution::claims::{Claim, Claimed};
use crate::attribution::exclusion::{ExclusionRule, Question};
use crate::attribution::facts::Facts;
use crate::attribution::state::CallFlag;
use crate::attribution::worker::Resumed;
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::exchange::{ExId, Slab};
use crate::finished::Parent;
use crate::lineage::Basis;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::WaitRow;

/// How many calls of a request are looked at for the one that a task waited for.
const CALLS_MAX: usize = 64;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the task was made for this request and ended with it, as all did that the process made in requests",
    names: Some(|_, _| Rule::Spawned),
    cases: Some(ended),
    ..ExclusionRule::habit(1, "spawned", |q| {
        let line = q.line(Basis::EndsWithIt)?;
        holds("spawned.never_otherwise", ended(q) > 0).then(|| kept(q, line)).flatten()
    })
};

fn ended(q: &Question) -> u32 {
    q.facts.roles.ending_with_requests(q.task, q.process)
}

impl Facts<'_> {
    /// A task that was made for a request let the task go on that holds another one.
    pub(in crate::attribution) fn lets_another_go_on(&mut self, xs: &Slab, r: &WaitRow, other: ExId) {
        let line = self.made_for(r.by, r.woken).filter(|line| line.basis == Basis::EndsWithIt);
        let Some(of) = line.map(|line| line.of).filter(|&x| x != other && self.is_undelivered(xs, x)) else { return };
        let last = |x: ExId, by: TaskId| {
            let calls = self.state(x).request.calls.iter().rev().take(CALLS_MAX);
            calls.copied().filter(move |&y| xs.is_live(y) && xs.get(y).request.actor == by)
        };
        let is_answered = |y: ExId| self.state(y).call.flags.has(CallFlag::Replied);
        let is_between = |&y: &ExId| {
            let e = xs.get(y);
            e.request.began > r.blocked && is_answered(y) && e.reply.ended <= r.woken
        };
        // who waits for an answer of its own was let go on by another one to take the interpreter's lock
        let waits_for_its_own = last(other, r.task).any(|y| !is_answered(y));
        let Some(y) = last(of, r.by).find(is_between).filter(|_| !waits_for_its_own) else { return };
        let resumed = Resumed { by: r.by, of, flow: xs.get(y).flow, at: r.woken };
        self.tasks.or_default(r.task).sleeps.resumed_by = Some(resumed);
    }

    /// A task that may have been handed what came of a call replies, or calls, on a connection that it began to make then: whose calls are
    /// disputed now.
    pub(in crate::attribution) fn goes_on_resumed(
        &mut self,
        xs: &Slab,
        task: TaskId,
        calls_on: EndpointId,
        dialled: Option<MonoNs>,
    ) -> Vec<Claim> {
        let resumed = self.tasks.get_mut(task).and_then(|w| w.sleeps.resumed_by.take());
        let is_handed = |r: &Resumed| r.flow != calls_on && dialled.is_none_or(|since| since > r.at);
        let Some(Resumed { by, of, .. }) = resumed.filter(is_handed) else { return Vec::new() };
        if !self.is_undelivered(xs, of) {
            return Vec::new();
        }
        let is_its = |&y: &ExId| {
            let is_of_line = self.state(y).call.parent == Some(Parent::Of(of, Rule::Spawned));
            xs.is_live(y) && is_of_line && xs.get(y).request.actor == by
        };
        let calls = self.state(of).request.calls.iter().copied().filter(is_its);
        calls.map(|call| Claim { call, claimed: Claimed::Anyones(of) }).collect()
    }
}
