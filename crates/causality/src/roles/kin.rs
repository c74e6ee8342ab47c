//! Which logical tasks that reply were made together with the one that reads their connection, for that connection alone.
//!
//! What an asyncio server makes when it accepts a connection makes the reader and the task that serves it. A worker of a pool has
//! nothing in common with a connection's reader but what it has with those of others, too.

use crate::exchange::Exchange;
use crate::lineage::Lineage;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, TaskId};

/// Most readers, repliers and makers of which is kept for which connection they were seen.
const TASKS_MAX: usize = 1 << 20;
/// Stands for several connections.
const SEVERAL: EndpointId = EndpointId(0);

/// What readers and repliers of connections have in common.
#[derive(Default)]
pub(super) struct Kin {
    /// For which connection each of them works, and each of their makers.
    of: FxHashMap<TaskId, EndpointId>,
    /// Of each that replied again: the nearest maker that it has in common with its connection's reader.
    common: FxHashMap<TaskId, TaskId>,
    /// On which connection each replied, how often, and its process.
    replied: FxHashMap<TaskId, (EndpointId, u32, u32)>,
    /// Of each process: replies of tasks that were made for their connections; of others.
    made_for: FxHashMap<u32, (u32, u32)>,
    /// Not all could be kept.
    is_full: bool,
}

impl Kin {
    /// A logical task reads on a connection, or replied there again.
    pub(super) fn works(&mut self, lineage: &Lineage, flow: EndpointId, task: TaskId) {
        if self.of.get(&task).is_some_and(|of| *of == flow || *of == SEVERAL) {
            return;
        }
        if self.of.len() >= TASKS_MAX {
            self.is_full = true;
            return;
        }
        for task in std::iter::once(task).chain(lineage.makers(task).map(|(maker, _)| maker)) {
            let of = self.of.entry(task).or_insert(flow);
            *of = if *of == flow { flow } else { SEVERAL };
        }
    }

    /// Whether there is no room for another one that replies.
    pub(super) fn is_full_for(&self, task: TaskId) -> bool {
        self.replied.len() >= TASKS_MAX && !self.replied.contains_key(&task)
    }

    /// A task of a process replied to a request that another one read. How often it did so on this connection; `None` where it replied
    /// on another one before.
    pub(super) fn replied(&mut self, lineage: &Lineage, e: &Exchange, task: TaskId, process: u32) -> Option<u32> {
        let (flow, replies, _) = self.replied.entry(task).or_insert((e.flow, 0, process));
        *replies += 1;
        let (flow, replies) = (*flow, *replies);
        if flow != e.flow {
            return None;
        }
        if replies == 2 {
            self.replied_again(lineage, e, task);
        }
        Some(replies)
    }

    /// A task replied again on the connection of a request that another one read.
    fn replied_again(&mut self, lineage: &Lineage, e: &Exchange, task: TaskId) {
        self.works(lineage, e.flow, task);
        let of_reader: SmallVec<[TaskId; 8]> = lineage.makers(e.actor).map(|(maker, _)| maker).collect();
        let mut of_task = lineage.makers(task).map(|(maker, _)| maker).peekable();
        // of those from before the recording nothing is known
        if of_reader.is_empty() || of_task.peek().is_none() {
            return;
        }
        let common = of_task.find(|maker| of_reader.contains(maker)).unwrap_or(TaskId::UNKNOWN);
        self.common.insert(task, common);
    }

    /// How many replies of a process were of tasks that were made for their connections, and of others.
    pub(super) fn replies(&self, process: u32) -> (u32, u32) {
        self.made_for.get(&process).copied().unwrap_or_default()
    }

    /// All has been seen.
    pub(super) fn finish(&mut self) {
        let mut made_for: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
        for (&task, &(flow, replies, process)) in &self.replied {
            let Some(is_made_for_it) = self.is_made_for(task, flow) else { continue };
            let (own, others) = made_for.entry(process).or_default();
            *if is_made_for_it { own } else { others } += replies;
        }
        *self = Kin { made_for, ..Kin::default() };
    }

    /// Whether a task that replied again was made for its connection alone, together with the reader; nothing where that is not
    /// known.
    fn is_made_for(&self, task: TaskId, flow: EndpointId) -> Option<bool> {
        let common = self.common.get(&task)?;
        Some(!self.is_full && self.of.get(common) == Some(&flow))
    }
}
