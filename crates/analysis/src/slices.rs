//! Slices: an interval of elapsed time, and what it was spent on. Active paths and critical paths are made of them.

pub use crate::causes::State;
use wakepath_causality::evidence::Class;
use wakepath_model::ids::{CommonNs, HostId, TaskId};

/// One interval of a path. Slices of a path follow each other without gap or overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where it was spent.
    pub host: HostId,
    /// Whose time it is: who ran, was ready, or waited for what could not be followed further (network, disk).
    pub task: TaskId,
    /// Begin.
    pub from: CommonNs,
    /// End, one past.
    pub to: CommonNs,
    /// What was done.
    pub state: State,
    /// Who preempted or woke it, or who holds what it waited for.
    pub by: Option<(HostId, TaskId)>,
    /// The system call in which it waited. Who runs meanwhile is in none of it.
    pub syscall: Option<u16>,
    /// What it waited for, for people: a flow's peer, a device, a futex's address.
    pub object: Option<String>,
    /// How many waits deep the path had been followed to come here; 0 = the task itself.
    pub depth: u16,
    /// What the outermost wait in which it lies was for; `None` where the task itself ran or was ready.
    pub wait: Option<State>,
    /// Of a request's critical path: the span (index in its request) in whose time it lies.
    pub span: Option<u32>,
    /// How the step that led here is known; `None` at depth 0.
    pub evidence: Option<(&'static str, Class)>,
    /// Why it is unknown or could not be followed.
    pub reason: Option<&'static str>,
}

impl Slice {
    /// Its length (ns).
    pub fn duration_ns(&self) -> u64 {
        u64::try_from(self.to.0.saturating_sub(self.from.0)).unwrap_or(0)
    }
}
