//! Which logical tasks that reply were made together with the one that reads their connection, for that connection alone.
//!
//! What an asyncio server makes when it accepts a connection makes the reader and the task that serves it. A worker of a pool has
//! nothing in common with a connection's reader but what it has with those of others, too.
//!
//! uvloop reads in no task's name, so that its readers have no maker. There the moment tells: the task was made after the accept of its
//! connection, before the process accepted another one and before it read anything there. A pool's workers were made before the
//! accepts of most connections. Where several connections are accepted at once, it is not known for which the task was made.

use super::habits::{HabitId, HabitTable};
use crate::conditions::holds;
use crate::exchange::Exchange;
use crate::lineage::Lineage;
use crate::process::ProcessId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};

/// Most readers, repliers and makers of which is kept for which connection they were seen.
const TASKS_MAX: usize = 1 << 20;
/// Stands for several connections.
const SEVERAL: EndpointId = EndpointId(0);

/// Most connections of which is kept when they were accepted.
const ACCEPTS_MAX: usize = 1 << 16;
/// Later than all that was recorded.
const NEVER: MonoNs = MonoNs(u64::MAX);

/// When a process accepted a connection, then another one, and when the first byte of the first was read.
struct Accept {
    at: MonoNs,
    next: MonoNs,
    read: MonoNs,
}

impl Accept {
    /// Whether what was made at a moment was made for this connection; nothing where it may have been for one that came with it.
    fn is_for(&self, made: MonoNs) -> Option<bool> {
        let is_after = holds("served.made_behind_its_accept", made > self.at);
        let is_before = holds("served.made_before_its_first_byte", made < self.read);
        let is_alone = holds("served.accepted_alone", made < self.next);
        if is_after && is_before { is_alone.then_some(true) } else { Some(false) }
    }
}

/// A task that replied to requests that another one read.
struct Replier {
    process: ProcessId,
    /// The connection of its first reply.
    flow: EndpointId,
    replies: u32,
    made: Made,
}

/// What is known of the making of a task that replied again.
#[derive(Clone, Copy, Default)]
enum Made {
    #[default]
    Unknown,
    /// This is the nearest maker that it has in common with its connection's reader; unknown where they have none.
    With(TaskId),
    /// Its connection's reader has no maker. It was made when its connection was accepted, and alone.
    ForConnection,
    /// It was made before that, or later.
    Apart,
}

/// What readers and repliers of connections have in common.
#[derive(Default)]
pub(super) struct ConnectionTasks {
    /// For which connection each of them works, and each of their makers.
    of: FxHashMap<TaskId, EndpointId>,
    accepts: FxHashMap<EndpointId, Accept>,
    /// The last connection that each process accepted.
    newest: FxHashMap<ProcessId, EndpointId>,
    has_lost: bool,
    repliers: FxHashMap<TaskId, Replier>,
    /// Not all could be kept.
    is_full: bool,
}

impl ConnectionTasks {
    /// A logical task reads on a connection, or replied there again.
    pub(super) fn works(&mut self, lineage: &Lineage, flow: EndpointId, task: TaskId) {
        if self.of.get(&task).is_some_and(|of| *of == flow || *of == SEVERAL) {
            return;
        }
        if self.of.len() >= TASKS_MAX {
            self.is_full = true;
            return;
        }
        for task in lineage.line_up(task) {
            let of = self.of.entry(task).or_insert(flow);
            *of = if *of == flow { flow } else { SEVERAL };
        }
    }

    /// A process accepted a connection.
    pub(super) fn accepted(&mut self, flow: EndpointId, process: ProcessId, at: MonoNs) {
        if let Some(before) = self.newest.insert(process, flow).and_then(|flow| self.accepts.get_mut(&flow)) {
            before.next = before.next.min(at);
        }
        if self.accepts.len() < ACCEPTS_MAX {
            self.accepts.insert(flow, Accept { at, next: NEVER, read: NEVER });
        }
    }

    /// Accepts may have been lost.
    pub(super) fn lost_accepts(&mut self) {
        self.has_lost = true;
    }

    /// A request was read on a connection.
    pub(super) fn read(&mut self, flow: EndpointId, at: MonoNs) {
        if let Some(accept) = self.accepts.get_mut(&flow) {
            accept.read = accept.read.min(at);
        }
    }

    /// A connection is gone.
    pub(super) fn gone(&mut self, flow: EndpointId) {
        self.accepts.remove(&flow);
    }

    /// Whether there is no room for another one that replies.
    pub(super) fn is_full_for(&self, task: TaskId) -> bool {
        self.repliers.len() >= TASKS_MAX && !self.repliers.contains_key(&task)
    }

    /// A task of a process replied to a request that another one read. How often it did so on this connection; `None` where it replied
    /// on another one before.
    pub(super) fn replied(&mut self, lineage: &Lineage, e: &Exchange, task: TaskId, process: ProcessId) -> Option<u32> {
        let new = || Replier { process, flow: e.flow, replies: 0, made: Made::Unknown };
        let replier = self.repliers.entry(task).or_insert_with(new);
        replier.replies += 1;
        let replies = replier.replies;
        if replier.flow != e.flow {
            return None;
        }
        if replies == 2 {
            self.works(lineage, e.flow, task);
            let made = self.made(lineage, e, task);
            self.repliers.get_mut(&task)?.made = made;
        }
        Some(replies)
    }

    /// What is known of the making of a task that replied to a request that another one read.
    fn made(&self, lineage: &Lineage, e: &Exchange, task: TaskId) -> Made {
        let of_reader: SmallVec<[TaskId; 8]> = lineage.makers(e.request.actor).map(|(maker, _)| maker).collect();
        if of_reader.is_empty() && e.request.actor != e.request.task {
            let made = lineage.births().at(task);
            return match made.and_then(|made| self.accepts.get(&e.flow)?.is_for(made)) {
                Some(true) => Made::ForConnection,
                Some(false) => Made::Apart,
                None => Made::Unknown,
            };
        }
        let mut of_task = lineage.makers(task).map(|(maker, _)| maker).peekable();
        // of those from before the recording nothing is known
        if of_reader.is_empty() || of_task.peek().is_none() {
            return Made::Unknown;
        }
        Made::With(of_task.find(|maker| of_reader.contains(maker)).unwrap_or(TaskId::UNKNOWN))
    }

    /// All has been seen: counts replies of tasks that were made for their connections, and of others.
    pub(super) fn finish(&mut self, habits: &mut HabitTable) {
        for replier in self.repliers.values() {
            let Some(is_made_for_it) = self.is_made_for_its_connection(replier) else { continue };
            let habits = habits.at(replier.process);
            match is_made_for_it {
                true => habits.cases(HabitId::MadeForConnection, replier.replies),
                false => habits.exception_if(HabitId::MadeForConnection, true),
            }
        }
        *self = ConnectionTasks::default();
    }

    /// Whether a task that replied again was made for its connection alone, together with the reader; nothing where that is not
    /// known.
    fn is_made_for_its_connection(&self, replier: &Replier) -> Option<bool> {
        let is_all_known = || holds("served.no_accept_was_lost", !self.has_lost);
        match replier.made {
            Made::Unknown => None,
            Made::With(common) => Some(!self.is_full && self.of.get(&common) == Some(&replier.flow)),
            Made::ForConnection => is_all_known().then_some(true),
            Made::Apart => is_all_known().then_some(false),
        }
    }
}
