//! A goroutine that took an item from a request's goroutine through a channel, and handed back what came of it, to just that one, or
//! passed the item on as it is: what it does between is for that request. So the workers of a pool work.
//!
//! Habit: it took nothing else in between but what workers take amid such work alone and never hand back, as a connection of a pool;
//! it handed nothing back to others in between, and called nothing between the sending and its receipt; and there were at least eight
//! such cases with calls in the process. That it does not work for others by what is in memory that both share is in no record, so this is
//! no proof.
//!
//! Counterexamples: `link.channel/worker_takes_two`, `worker_takes_two_and_answers_the_last`, `worker_answers_another_first`,
//! `worker_takes_another_behind_its_call`, `worker_answers_the_later_first`, `worker_that_never_hands_back`, `worker_calls_behind_what_it_hands_back`, `worker_lost_a_handover`,
//! `few_items_were_handed_back`.

use super::born::kept;
use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::attribution::facts::Facts;
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::exchange::{ExId, Slab};
use crate::lineage::{Basis, Line, TaskRequest};
use crate::roles::HabitId;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::HandoverRow;

/// From how many goroutines on that take items those are forgotten that are at nothing.
const JOBS_MAX: usize = 1 << 16;

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the goroutine took an item of this request's through a channel, and handed back to it alone what came of it",
    names: Some(|_, _| Rule::Channel),
    cases: Some(cases),
    ..ExclusionRule::habit(1, "channel", |q| {
        let line = q.line(Basis::HandedOver)?;
        holds("handed.often_enough", cases(q) > 0).then(|| kept(q, line).unwrap_or_else(Kept::no_request))
    })
};

fn cases(q: &Question) -> u32 {
    q.facts.roles.habits.believed_cases(q.process, HabitId::HandsBack)
}

impl Facts<'_> {
    /// A goroutine got an item from another.
    pub(in crate::attribution) fn handed_over_item(&mut self, xs: &Slab, r: &HandoverRow) {
        if r.is_empty != 0 || self.lineage.has_requests(r.task) {
            return;
        }
        let process = self.roles.process_of(r.task);
        let until = self.roles.logical_tasks.jobs.until(r.task, r.at);
        if until.is_none() && self.roles.logical_tasks.jobs.is_harmless(process, r.of) {
            return;
        }
        let of = until.and_then(|_| self.at_work(xs, r.first, r.first_sent));
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&r.task) {
            self.jobs.retain(|_, job| job.until > r.at);
        }
        self.jobs.entry(r.task).or_default().begin(r.at, of, until.unwrap_or_default());
    }

    /// For which request a goroutine worked when it sent an item.
    pub(in crate::attribution) fn at_work(&self, xs: &Slab, task: TaskId, at: MonoNs) -> Option<ExId> {
        if let Some(job) = self.jobs.get(&task) {
            return job.at(at);
        }
        if self.lineage.has_requests(task) {
            return match self.lineage.worked_for(task, at) {
                TaskRequest::Of(line) if line.basis == Basis::Seen => Some(line.of),
                _ => None,
            };
        }
        let line = self.made_for(task, at).filter(|line| self.is_known(*line, task))?;
        xs.is_live(line.of).then_some(line.of)
    }

    /// What a goroutine that takes items works for at a moment; `None` where it takes none.
    pub(in crate::attribution) fn job(&self, task: TaskId, at: MonoNs) -> Option<Option<Line>> {
        let job = self.jobs.get(&task)?;
        let line = |of| Line { of, answers: false, basis: Basis::HandedOver };
        Some(job.at(at).map(line))
    }
}
