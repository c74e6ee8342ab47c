//! What is learned of the tasks and processes of a host.

use super::ProcessId;
use super::runtime::{Nature, traits};
use crate::exchange::{ExId, Side};
use crate::flags::{Flags, flags};
use crate::intervals::Intervals;
use crate::per_task::{OfTasks, PerTask};
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{Life, TaskRow};

/// Most connections of a process whose partners are kept.
pub(crate) const PARTNERS_MAX: usize = 100_000;

flags! {
    /// What a task was ever seen to do.
    pub enum Does {
        /// Takes requests.
        Take,
        /// Took a request while it had another of another flow.
        Multiplex,
        /// Waited amid a request at the epoll descriptor that had given it the request: a loop, which may go on with others, or
        /// do something of its own.
        WaitAmid,
        /// Replies to requests that another task took.
        ReplyForOthers,
        /// Another task replied to a request that it took.
        GiveAway,
        /// Replies to requests that it took.
        ReplyItself,
        /// Sends requests.
        Call,
        /// io_uring carries its operations: the kernel receives ahead of the program.
        UseRing,
        /// Calls in a turn in which it was given something, and nothing that anybody saw: a word of another thread.
        CallUnseen,
        /// Takes no requests, and sent one while its process had none open: also of its own accord.
        CallUnasked,
    }
}

/// All that a task was ever seen to do.
pub type Role = Flags<Does>;

impl Role {
    /// Whether it may work on several requests at once, or on none, between two steps of one.
    pub fn is_loop(&self) -> bool {
        self.has(Does::Multiplex) || self.has(Does::WaitAmid)
    }
}

/// A task: of which process, and what it does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Task {
    /// Unknown where the task itself stands for it.
    process: ProcessId,
    pub(crate) role: Role,
    pub(crate) nature: Nature,
}

/// How a process was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Start {
    /// The process that forked it.
    parent: ProcessId,
    name: StrId,
    words: StrId,
}

/// The task by whose number a thread group goes.
#[derive(Clone, Copy, Debug)]
struct Leader {
    task: TaskId,
    /// Another thread, where the recording met one before the leader itself.
    stands_in: bool,
}

flags! {
    /// What is so of a process.
    pub(crate) enum ProcessFlag {
        /// It takes requests.
        Serves,
        /// It takes some on connections, and not only on a pipe.
        ServesClients,
        /// It had several requests at once.
        Concurrent,
        /// Its requests move between its threads: any of them may go on with any request.
        MovesBetweenThreads,
        /// The same of tasks that were named late: what their threads did before says nothing of them.
        MovesBetweenLateNamed,
        /// It made several calls for one input that was handed over at rest.
        ParallelAtRest,
        /// It made several calls on one connection.
        KeepsConnections,
        /// It made several at once on one: there is always room for another.
        SharesConnections,
    }
}

/// What was seen of a process that takes requests, or makes calls.
#[derive(Default)]
pub(crate) struct Process {
    pub(crate) flags: Flags<ProcessFlag>,
    /// Since when it has tasks that were named late: who acted before is not known.
    pub(crate) named_since: Option<MonoNs>,
    /// How many requests it replied to, and the longest time in which it did (ns).
    pub(crate) lasted: (u32, u64),
    /// When requests were open that were never replied to, or whoever works on such may not have noticed yet.
    pub(crate) unanswered: Intervals,
    /// Until when replies to requests from before the recording left.
    pub(crate) unseen_until: MonoNs,
    /// How often it passed on to a client, in an unknown protocol, what another client had sent.
    pub(crate) relayed: u32,
    pub(crate) calls: Calls,
    pub(crate) connections: Connections,
    /// What is under way; empty when all was seen.
    pub(crate) now: Now,
}

/// When calls were last made against what its requests could have made; 0 where never.
#[derive(Default)]
pub(crate) struct Calls {
    /// By a task that takes no requests, while none was open.
    pub(crate) unasked: MonoNs,
    /// By whatever task, while none was open.
    pub(crate) unasked_by_any: MonoNs,
    /// When there were more of them without an answer than requests open.
    pub(crate) fanned_out: MonoNs,
}

/// Connections on which it makes calls.
#[derive(Default)]
pub(crate) struct Connections {
    /// By a connection on which calls are made: the one whose requests alone it serves.
    pub(crate) partners: FxHashMap<EndpointId, EndpointId>,
    /// The one that was used last.
    pub(crate) last: EndpointId,
}

/// What of a process is under way.
#[derive(Default)]
pub(crate) struct Now {
    /// How many of its requests are open; none where it never took one.
    pub(crate) open: Option<u32>,
    /// When the last of them was over.
    pub(crate) idle_since: MonoNs,
    /// The request that it took last.
    pub(crate) newest: Option<ExId>,
    /// How many of its calls have no answer.
    pub(crate) asking: u32,
    /// On how many of its connections nothing is asked.
    pub(crate) spare: u32,
    /// Since it was given an input at rest.
    pub(crate) rest: Option<Rest>,
}

/// What a process did since it was given an input at rest.
#[derive(Default)]
pub(crate) struct Rest {
    /// How many requests it took.
    pub(crate) took: u32,
    /// On how many flows it sent requests.
    pub(crate) calls: u32,
    /// The last of them.
    pub(crate) last: EndpointId,
}

/// The tasks of a host, and its processes.
#[derive(Default)]
pub(crate) struct Processes {
    tasks: PerTask<Task>,
    starts: PerTask<Start>,
    leaders: FxHashMap<u32, Leader>,
    processes: OfTasks<Process>,
    /// Names of processes that take requests.
    serving: FxHashSet<StrId>,
    /// Processes on a side of a connection where turns alone pair messages, and the server said something unasked.
    pushing: FxHashSet<(ProcessId, Side)>,
}

impl Processes {
    /// A step in a task's life.
    pub(crate) fn task(&mut self, r: &TaskRow) {
        self.joins(r);
        let process = self.process_of(r.task);
        let nature = traits(r.runtime).nature;
        if nature != Nature::Plain {
            self.tasks.entry(r.task).nature = nature;
        }
        if nature == Nature::NamedLate {
            self.at(process).named_since.get_or_insert(r.at);
        }
        let start = self.starts.entry(process.leader());
        start.name = r.comm;
        if r.cmdline != StrId::EMPTY {
            start.words = r.cmdline;
        }
    }

    fn joins(&mut self, r: &TaskRow) {
        let leads = r.tgid == r.tid;
        let own = Leader { task: r.task, stands_in: !leads };
        // a thread group is its leader's task: a reused tgid has another leader
        let leader = match self.leaders.get(&r.tgid) {
            Some(&known) if !leads || known.stands_in && r.what != Life::Fork => known,
            _ => own,
        };
        self.leaders.insert(r.tgid, leader);
        self.tasks.entry(r.task).process = ProcessId::led_by(leader.task);
        if leads && r.parent != TaskId::UNKNOWN {
            self.starts.entry(leader.task).parent = self.process_of(r.parent);
        }
    }

    /// The process of a task: the number of its leading task.
    pub(crate) fn process_of(&self, task: TaskId) -> ProcessId {
        match self.tasks.get(task).process {
            ProcessId::UNKNOWN => ProcessId::led_by(task),
            process => process,
        }
    }

    /// What is known of a task.
    pub(crate) fn of_task(&self, task: TaskId) -> Task {
        self.tasks.get(task)
    }

    /// The same, to add to it.
    pub(crate) fn at_task(&mut self, task: TaskId) -> &mut Task {
        self.tasks.entry(task)
    }

    /// All tasks.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (TaskId, Task)> + '_ {
        self.tasks.iter()
    }

    /// What was seen of a process; none where it did nothing.
    pub(crate) fn of(&self, process: ProcessId) -> Option<&Process> {
        self.processes.get(process.leader())
    }

    /// The same, to add to it.
    pub(crate) fn at(&mut self, process: ProcessId) -> &mut Process {
        self.processes.or_default(process.leader())
    }

    /// A process takes requests.
    pub(crate) fn serves(&mut self, process: ProcessId) {
        self.at(process).flags.add(ProcessFlag::Serves);
        let name = self.starts.get(process.leader()).name;
        self.serving.extend(Some(name).filter(|n| *n != StrId::EMPTY));
    }

    /// Whether a process may be one that takes requests, by its name: it has none, or that of one that does.
    pub(crate) fn may_serve(&self, process: ProcessId) -> bool {
        let name = self.starts.get(process.leader()).name;
        name == StrId::EMPTY || self.serving.contains(&name)
    }

    /// The master whose workers a process and its siblings are, and the words with which they run; none where it has none: they were forked
    /// from a process of their name, and run with the same words, as a server's workers do.
    pub(crate) fn master_of(&self, process: ProcessId) -> Option<(ProcessId, StrId)> {
        let Start { parent, name, words } = self.starts.get(process.leader());
        let is_worker =
            parent != ProcessId::UNKNOWN && name != StrId::EMPTY && self.starts.get(parent.leader()).name == name;
        is_worker.then_some((parent, words))
    }

    /// On a connection where turns alone pair messages, the server said something unasked; the process is on this side of it.
    pub(crate) fn pushed(&mut self, process: ProcessId, side: Side) {
        self.pushing.insert((process, side));
    }

    /// Whether a server of this process (or, of a client's side, one that it asks) was seen to say something when nothing was asked, on a
    /// connection where turns alone pair messages; or one of its siblings.
    pub(crate) fn pushes(&self, process: ProcessId, side: Side) -> bool {
        let master = self.master_of(process);
        let is_its = |of: ProcessId| of == process || master.is_some() && self.master_of(of) == master;
        self.pushing.iter().any(|&(of, at)| at == side && is_its(of))
    }

    /// All was seen: nothing is under way.
    pub(crate) fn finish(&mut self) {
        self.processes.values_mut().for_each(|p| {
            p.now = Now::default();
            p.unanswered.settle();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(task: u32, tgid: u32, tid: u32, what: Life) -> TaskRow {
        TaskRow { task: TaskId(task), tgid, tid, what, ..Default::default() }
    }

    #[test]
    fn threads_are_of_one_process_in_whatever_order_they_are_met() {
        let mut known = Processes::default();
        let rows = [(1, 7, 8), (2, 7, 7), (3, 7, 9)];
        rows.iter().for_each(|&(task, tgid, tid)| known.task(&row(task, tgid, tid, Life::Snapshot)));
        known.task(&row(2, 7, 7, Life::Exec));
        let process = known.process_of(TaskId(1));
        assert_eq!((known.process_of(TaskId(2)), known.process_of(TaskId(3))), (process, process));
        let of = |leader| ProcessId::led_by(TaskId(leader));
        // the number is given to others later
        known.task(&row(4, 7, 7, Life::Fork));
        known.task(&row(5, 7, 10, Life::Fork));
        assert_eq!((known.process_of(TaskId(4)), known.process_of(TaskId(5))), (of(4), of(4)));
        known.task(&row(6, 7, 7, Life::Snapshot));
        assert_eq!(known.process_of(TaskId(6)), of(6));
    }
}
