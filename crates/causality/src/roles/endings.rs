//! What the ends of logical tasks say of those that requests make, where a runtime tells them.

use super::{CASES_MIN, Roles};
use crate::lineage::Lineage;
use wakepath_model::ids::TaskId;

impl Roles {
    /// Whether a runtime tells when a logical task ends that was made for a request.
    pub(crate) fn is_end_told(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.answerers.is_end_told(lineage, task)
    }

    /// Whether a logical task that was made for a request, and what is between, ended with that.
    pub(crate) fn ended_in_time(&self, lineage: &Lineage, task: TaskId) -> bool {
        self.answerers.ended_in_time(lineage, task)
    }

    /// How many tasks of a process that were made in requests called and ended with them, where none went on and there were enough;
    /// else 0.
    pub(crate) fn ending_with_requests(&self, process: u32) -> u32 {
        match self.answerers.endings(process) {
            (ended, 0) if ended >= CASES_MIN => ended,
            _ => 0,
        }
    }
}
