//! A logical task that was made amid a request, as its runtime tells: what it does while that is open is for it. So asyncio
//! gives each task and each callback a copy of the context of who made it. And one that was made after a request's first byte
//! and replied to it, and to no other, works for it, and so does what made that one, if it was itself made after that byte.
//!
//! Condition: who made it had one request at a time, whose end had not come (a connection's task may read its first request
//! itself, and makes tasks for all that follow), and what was made never did anything for another request, nor after its own's
//! end, in the whole recording, which saw that end: a worker that the first request starts lives on. What the one that
//! replied does after its reply is of no request; of what it makes there [`super::background`] speaks. Where the runtime tells when its tasks end
//! (Go), [`super::spawned`] speaks instead.
//!
//! Nor may any such task of its process have been seen to hand on what came of its call to another request: a worker that requests start when
//! there is work (`crates/causality/src/roles/resumed.rs`).
//!
//! Nor may it, or what made it, have been told to work for others: what came of it another one waited for (Java's executors).
//!
//! Counterexamples: `link.logical/hands_on_to_another`, `worker_made_by_the_first`, `worker_of_an_open_request`, `two_on_one_connection`,
//! `task_behind_the_first_request`, `worker_leads_to_two_replies`.

use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::attribution::facts::Facts;
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::lineage::{Basis, Line, TaskRequest};
use crate::roles::HabitId;
use wakepath_model::ids::{MonoNs, TaskId};

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the task was made for this request, and did nothing for others",
    names: Some(|_, _| Rule::Fork),
    ..ExclusionRule::shown(1, "born", |q| q.line(Basis::Seen).and_then(|line| kept(q, line)))
};

/// Its request, if that is open.
pub(super) fn kept(q: &Question, line: Line) -> Option<Kept> {
    match () {
        () if q.is_open(line.of) => Some(Kept::one(line.of)),
        () if line.answers => Some(Kept::no_request()),
        () => None,
    }
}

impl Facts<'_> {
    /// What a logical task works for at a moment, if that is one request alone.
    pub(in crate::attribution) fn made_for(&self, task: TaskId, at: MonoNs) -> Option<Line> {
        if let Some(job) = self.job(task, at) {
            // whatever made it, it works for those whose items it takes
            return job;
        }
        let TaskRequest::Of(line) = self.lineage.of(task, at) else { return None };
        let is_for_it_alone = holds("born.never_for_others", !self.roles.logical_tasks.works_for_others(task));
        let is_handed_on = self.roles.logical_tasks.is_reported_for_others(&self.lineage, task);
        let is_for_it_alone = is_for_it_alone && holds("born.hands_nothing_on", !is_handed_on);
        let is_worker = !line.answers && self.roles.hands_on(self.roles.process_of(task));
        let is_for_it_alone = is_for_it_alone && holds("born.none_hands_on", !is_worker);
        let is_told = line.basis == Basis::Seen && self.roles.logical_tasks.ends.are_told(&self.lineage, task);
        // as long as a thread never waited for work, its end will show more than a habit
        if is_told && self.tasks.get(task).is_some_and(|w| w.born_of.is_some()) {
            return None;
        }
        let basis = if is_told { Basis::EndsWithIt } else { line.basis };
        let is_its =
            !is_told || holds("spawned.ended_in_time", self.roles.logical_tasks.ends.are_in_time(&self.lineage, task));
        (is_for_it_alone && is_its).then_some(Line { basis, ..line })
    }

    /// Whether what a task works for is seen, or its habit is known.
    pub(in crate::attribution) fn is_known(&self, line: Line, task: TaskId) -> bool {
        let process = self.roles.process_of(task);
        match line.basis {
            Basis::Seen | Basis::AfterReply => true,
            Basis::OneConnection => self.roles.own_answerers(process) > 0,
            Basis::EndsWithIt => self.roles.ending_with_requests(task, process) > 0,
            Basis::HandedOver => self.roles.habits.is_believed(process, HabitId::HandsBack),
        }
    }
}
