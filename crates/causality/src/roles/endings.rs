//! What the ends of logical tasks, and what they hand over, say of those that requests make.

use super::Roles;
use super::habits::{Evidence, HabitId};
use super::logical_tasks::{Is, LogicalTasks};
use crate::conditions::holds;
use crate::process::ProcessId;
use wakepath_model::ids::{StrId, TaskId};
use wakepath_model::rows::HandoverRow;

impl Roles {
    /// A goroutine got an item from another.
    pub fn handed_over(&mut self, r: &HandoverRow) {
        let process = self.process_of(r.task);
        let is_named_late = self.is_named_late(r.task);
        let LogicalTasks { client_tasks, jobs, lineage, .. } = &mut self.logical_tasks;
        // a runtime that names its tasks late tells who set them going, and nothing of items
        match is_named_late {
            true => client_tasks.handed_over(r, process, lineage, &mut self.habits),
            false => jobs.handed_over(r, process, lineage),
        }
    }

    /// How often who had woken a task of a process in a way was resumed with the answer to a call; 0 where that is no habit.
    pub(crate) fn resumed_wakers(&self, process: ProcessId, way: u64) -> u32 {
        let of = |id| self.habits.of_way(process, way, id);
        let cases = of(HabitId::ResumesWhoAsked).cases;
        let is_asking = holds("errand.resumes_who_asked", of(HabitId::ResumesWhoAsked).is_kept())
            && holds("errand.of_none_but_its_maker", of(HabitId::WokenByWhoAsks).is_kept())
            && holds("errand.made_for_one_call", of(HabitId::MadeForOneCall).is_kept())
            && holds("errand.one_at_a_time", of(HabitId::OneCallAtATime).is_kept());
        if is_asking && cases >= HabitId::ResumesWhoAsked.min_cases() { cases } else { 0 }
    }

    /// Whether a task of the process that was made for a request, and did not reply to it, was seen to hand on to another.
    pub(crate) fn hands_on(&self, process: ProcessId) -> bool {
        !self.habits.of(process, HabitId::HandsNothingOn).is_kept()
    }

    /// How many connections of a process have a task of their own, which replies to all their requests; or how many replies there were of
    /// tasks that were made for their connections, where no other task replied. 0 where that is no habit.
    pub fn own_answerers(&self, process: ProcessId) -> u32 {
        let [one, made] = [HabitId::OneTaskReplies, HabitId::MadeForConnection].map(|id| self.habits.of(process, id));
        let made = if holds("served.made_for_one", made.is_kept()) { made.cases } else { 0 };
        Some(one.cases.max(made))
            .filter(|&cases| one.is_kept() && cases >= HabitId::OneTaskReplies.min_cases())
            .unwrap_or_default()
    }

    /// How many tasks of a process were made in requests that did not wait for them, where this is one, none of its kind did anything else,
    /// and there were enough; else 0.
    pub(crate) fn background_cases(&self, task: TaskId, process: ProcessId) -> u32 {
        if !self.logical_tasks.is(task, Is::Background) {
            return 0;
        }
        // one that calls before the end of its request, or goes on for longer, may work for others; and so may those that are late
        let of = |id| self.habits.of_kind(process, self.kind(task), id);
        let is_habit = holds("background.none_was_waited_for", of(HabitId::EndsWithRequest) == Evidence::default());
        if is_habit { of(HabitId::Background).believed_cases(HabitId::Background) } else { 0 }
    }

    /// How many tasks of a task's kind in a process that were made in requests called and ended with them, where none went on and there were
    /// enough; else 0.
    pub(crate) fn ending_with_requests(&self, task: TaskId, process: ProcessId) -> u32 {
        let of = |id| self.habits.of_kind(process, self.kind(task), id);
        let goes_on = of(HabitId::Background).cases > 0;
        if goes_on { 0 } else { of(HabitId::EndsWithRequest).believed_cases(HabitId::EndsWithRequest) }
    }

    /// What threads of a task's kind are named.
    fn kind(&self, task: TaskId) -> StrId {
        self.logical_tasks.lineage.births().kind(task)
    }
}
