//! Which requests logical tasks work for: what they replied to, and what their ends say of those that requests make, where a runtime
//! tells them.

use super::habits::HabitId;
use super::{CASES_MIN, Roles};
use crate::exchange::Exchange;
use crate::lineage::Lineage;
use wakepath_model::ids::TaskId;

impl Roles {
    /// Whether a logical task works for other requests than the one that it was made for, or replied to.
    pub fn works_for_others(&self, task: TaskId) -> bool {
        self.answerers.works_for_others(task)
    }

    /// Whether a logical task, or what made it, was told to work for others.
    pub(crate) fn is_told_for_others(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.answerers.is_told_for_others(lineage, task)
    }

    /// Whether a task of the process that was made for a request, and did not reply to it, was seen to hand on to another.
    pub(crate) fn hands_on(&self, process: u32) -> bool {
        self.answerers.hands_on(process)
    }

    /// The logical task that replies to a request, and to those of no other connection.
    pub fn answerer(&self, e: &Exchange) -> Option<TaskId> {
        self.answerers.of(e)
    }

    /// The logical task that was made for a request, since it made the one that replied, or what made that.
    pub fn head(&self, e: &Exchange) -> Option<TaskId> {
        self.answerers.head(e)
    }

    /// How many connections of a process have a task of their own, which replies to all their requests; 0 where that is no habit.
    pub fn own_answerers(&self, process: u32) -> u32 {
        Some(self.answerers.own(process, &self.habits)).filter(|own| *own >= CASES_MIN).unwrap_or_default()
    }

    /// Whether a runtime tells when a logical task ends that was made for a request.
    pub(crate) fn is_end_told(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.answerers.is_end_told(lineage, task)
    }

    /// Whether a logical task that was made for a request, and what is between, ended with that.
    pub(crate) fn ended_in_time(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.answerers.ended_in_time(lineage, task)
    }

    /// How many tasks of a process were made in requests that did not wait for them, where this is one, none did anything else, and there
    /// were enough; else 0.
    pub(crate) fn fired(&self, task: TaskId, process: u32) -> u32 {
        Some(self.answerers.fired(task, process, &self.habits)).filter(|cases| *cases >= CASES_MIN).unwrap_or_default()
    }

    /// How many tasks of a process that were made in requests called and ended with them, where none went on and there were enough;
    /// else 0.
    pub(crate) fn ending_with_requests(&self, process: u32) -> u32 {
        match self.answerers.endings(process, &self.habits) {
            (ended, 0) if ended >= HabitId::EndsWithRequest.min_cases() => ended,
            _ => 0,
        }
    }
}
