//! Goroutines that a request makes and does not wait for: each makes all its calls after the end of that request, and ends with the last
//! answer. Such calls are of no request.
//!
//! A worker that the first request starts waits for work before it ends, if it does. One such task, and none of its process counts. Nor
//! where goroutines call before the end of the requests that made them: by what they do the two are not to be told apart, and one that
//! is late may still work for a request that waits.

use crate::process::ProcessId;
use rustc_hash::FxHashMap;
use wakepath_model::ids::{MonoNs, TaskId};

/// How long after its last answer a task may end (ns): it may lack a processor, or give back a connection. A worker that ends when there
/// is nothing to do waits for longer. On a host so slow that it takes more, none counts as background, and such calls stay open.
const LATE_NS: u64 = 500_000_000;
/// Most tasks whose end is still to come; those beyond are no such.
const TASKS_MAX: usize = 1 << 20;

/// Such tasks.
#[derive(Default)]
pub(super) struct Background {
    /// Those that called, and whose end is still to come: their processes, and when they had the answer (0 until then).
    open: FxHashMap<TaskId, (ProcessId, MonoNs)>,
    last: MonoNs,
}

impl Background {
    /// A task of a process calls after the end of its request; whether it may be such a one. `has_called`: it did before that end.
    pub(super) fn called(&mut self, task: TaskId, process: ProcessId, has_called: bool) -> bool {
        let is_full = self.open.len() >= TASKS_MAX && !self.open.contains_key(&task);
        if has_called || is_full {
            self.open.remove(&task);
            return false;
        }
        self.open.insert(task, (process, MonoNs(0)));
        true
    }

    /// The call of a task is over.
    pub(super) fn answered(&mut self, task: TaskId, at: MonoNs) {
        self.last = self.last.max(at);
        if let Some((_, answered)) = self.open.get_mut(&task) {
            *answered = at;
        }
    }

    /// A task ends; gives the process of one that had called so, and whether it did just that.
    pub(super) fn ended(&mut self, task: TaskId, at: MonoNs) -> Option<(ProcessId, bool)> {
        self.last = self.last.max(at);
        let (process, answered) = self.open.remove(&task)?;
        let is_one = answered.0 != 0 && !is_late(answered, at);
        Some((process, is_one))
    }

    /// The recording ends: gives all whose ends were not seen, with the process of those that have long had their answers. They live on.
    pub(super) fn finish(&mut self) -> Vec<(TaskId, Option<ProcessId>)> {
        let last = self.last;
        let lives_on = |(process, answered): (ProcessId, MonoNs)| is_late(answered, last).then_some(process);
        self.open.drain().map(|(task, open)| (task, lives_on(open))).collect()
    }
}

/// Whether a task that has had its answer since `answered` was still there, and did nothing, long after that.
fn is_late(answered: MonoNs, at: MonoNs) -> bool {
    answered.0 != 0 && at.0 > answered.0.saturating_add(LATE_NS)
}
