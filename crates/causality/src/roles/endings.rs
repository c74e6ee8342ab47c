//! Which requests logical tasks work for: what they replied to, and what their ends say of those that requests make, where a runtime
//! tells them.

use super::Roles;
use super::habits::{Evidence, HabitId};
use crate::conditions::holds;
use crate::exchange::Exchange;
use crate::lineage::Lineage;
use crate::process::ProcessId;
use crate::process::births::Births;
use std::sync::Arc;
use wakepath_model::ids::TaskId;

impl Roles {
    /// Whether a logical task works for other requests than the one that it was made for, or replied to.
    pub fn works_for_others(&self, task: TaskId) -> bool {
        self.logical_tasks.works_for_others(task)
    }

    /// Who made which task, as was learned.
    pub(crate) fn births(&self) -> &Arc<Births> {
        self.logical_tasks.births()
    }

    /// Whether a logical task, or what made it, was told to work for others.
    pub(crate) fn is_reported_for_others(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.logical_tasks.is_reported_for_others(lineage, task)
    }

    /// Whether a task of the process that was made for a request, and did not reply to it, was seen to hand on to another.
    pub(crate) fn hands_on(&self, process: ProcessId) -> bool {
        !self.habits.of(process, HabitId::HandsNothingOn).is_kept()
    }

    /// The logical task that replies to a request, and to those of no other connection.
    pub fn answerer(&self, e: &Exchange) -> Option<TaskId> {
        self.logical_tasks.of(e)
    }

    /// The logical task that was made for a request, since it made the one that replied, or what made that.
    pub fn head(&self, e: &Exchange) -> Option<TaskId> {
        self.logical_tasks.head(e)
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

    /// Whether a runtime tells when a logical task ends that was made for a request.
    pub(crate) fn is_end_reported(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.logical_tasks.is_end_reported(lineage, task)
    }

    /// Whether a logical task that was made for a request, and what is between, ended with that.
    pub(crate) fn ended_in_time(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.logical_tasks.ended_in_time(lineage, task)
    }

    /// How many tasks of a process were made in requests that did not wait for them, where this is one, none did anything else, and there
    /// were enough; else 0.
    pub(crate) fn background_cases(&self, task: TaskId, process: ProcessId) -> u32 {
        if !self.logical_tasks.is_background(task) {
            return 0;
        }
        // one that calls before the end of its request, or goes on for longer, may work for others; and so may those that are late
        let is_unseen = self.habits.of(process, HabitId::EndsWithRequest) == Evidence::default();
        let is_habit = holds("background.none_was_waited_for", is_unseen);
        if is_habit { self.cases(process, HabitId::Background) } else { 0 }
    }

    /// How many tasks of a process that were made in requests called and ended with them, where none went on and there were enough;
    /// else 0.
    pub(crate) fn ending_with_requests(&self, process: ProcessId) -> u32 {
        let goes_on = self.habits.of(process, HabitId::Background).cases > 0;
        if goes_on { 0 } else { self.cases(process, HabitId::EndsWithRequest) }
    }
}
