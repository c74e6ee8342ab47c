//! What a process is, and what is learned of one.

pub(crate) mod births;
pub(crate) mod dials;
pub(crate) mod known;
pub(crate) mod listening;
pub(crate) mod runtime;
pub(crate) mod turn;

use wakepath_model::ids::TaskId;

/// A process: the number of its leading task, so that a reused process number is another one. 0 where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(u32);

impl ProcessId {
    /// Which process that is, is not known.
    pub const UNKNOWN: ProcessId = ProcessId(0);

    /// The process that a task leads.
    pub const fn led_by(task: TaskId) -> ProcessId {
        ProcessId(task.0)
    }

    /// Its leading task.
    pub const fn leader(self) -> TaskId {
        TaskId(self.0)
    }
}
