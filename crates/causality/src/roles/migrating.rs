//! Whether requests move between tasks of a process, as far as their tasks are known.

use super::Roles;
use crate::exchange::Exchange;
use wakepath_model::ids::TaskId;

impl Roles {
    /// Whether tasks of the process that reply to requests give away some that they took: any may go on with any.
    pub fn is_migrating(&self, process: u32) -> bool {
        self.serving.migrating.contains(&process) || self.serving.migrating_named.contains(&process)
    }

    /// The same of the tasks among which this one is: threads, or tasks that were named late.
    pub fn is_among_migrating(&self, task: TaskId) -> bool {
        let process = self.process_of(task);
        match self.processes.is_named_late.get(task) {
            true => self.serving.migrating_named.contains(&process),
            false => self.is_migrating(process),
        }
    }

    /// Whether it is a task whose name the recorder had to find first, as Tokio's are.
    pub fn is_named_late(&self, task: TaskId) -> bool {
        self.processes.is_named_late.get(task)
    }

    /// Whether a request was taken before its process's tasks had names: by whom is not known.
    pub(super) fn is_taken_before_names(&self, e: &Exchange, replies: TaskId) -> bool {
        let since = self.processes.named_since.get(&self.process_of(replies));
        self.processes.is_named_late.get(replies)
            && !self.processes.is_named_late.get(e.actor)
            && since.is_some_and(|&since| e.taken < since)
    }
}
