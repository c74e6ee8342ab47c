//! Steps in the lives of tasks: threads, and the logical tasks that runtimes make.

use super::names;
use crate::ids::{MonoNs, StrId, TaskId};
use crate::table;

/// How well a link is known.
pub mod strength {
    /// There is none.
    pub const NONE: u8 = 0;
    /// Seen: the same identifier on both sides, and it was verified.
    pub const SEEN: u8 = 1;
    /// Shown: it follows from a complete record of what could have been otherwise.
    pub const SHOWN: u8 = 2;
    /// By habit: it was never seen otherwise where that would have been visible.
    pub const HABIT: u8 = 3;
}

/// What happened to a task.
pub mod life {
    /// Made by its parent.
    pub const FORK: u8 = 1;
    /// Began another program.
    pub const EXEC: u8 = 2;
    /// Ended.
    pub const EXIT: u8 = 3;
    /// Changed its name.
    pub const NAME: u8 = 4;
    /// Found by the snapshot, or met by an event.
    pub const SNAPSHOT: u8 = 5;
    /// Its process was selected to be watched, with what it makes. Where no task has this, all are.
    pub const WATCHED: u8 = 6;
    /// A logical task: it works for others than the one that it has, or was made for, as its runtime was seen to hand on what came of it.
    pub const FOR_OTHERS: u8 = 7;
}

table! {
    /// A step in a task's life.
    TaskRow {
        /// When.
        at: MonoNs,
        /// The task's start. Of an asyncio context: when its parent made it, or made what it was made by.
        start: MonoNs => named("start_ns"),
        /// What its runtime calls a logical task (a goroutine's number; when an asyncio context was made, or first met), 0
        /// for threads.
        key: u64 => none(0),
        /// Its id.
        task: TaskId,
        /// Parent, 0 where not known.
        parent: TaskId,
        /// Thread group.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// Name.
        comm: StrId,
        /// Command line of its process.
        cmdline: StrId,
        /// cgroup path.
        cgroup: StrId,
        /// One of [`life`].
        what: u8 => words(names::task_what),
        /// 1 = kernel thread, 2 = io_uring worker.
        class: u8 => words(names::task_class),
        /// One of [`runtime`]: what runs a logical task; 0 for threads, which the kernel runs.
        runtime: u8 => words_or_none(names::runtime),
        /// One of [`strength`]: how it is known that `parent` made a logical task; 0 for threads, where the kernel says so.
        parent_strength: u8 => words_or_none(names::strength),
    }
}

table! {
    /// A logical task got an item that another one sent it by a channel (Go, where channels have probes). Or another one had woken it before
    /// it sent something, or made it; or is resumed by it: then with `is_empty` (Tokio, where wakers have probes).
    HandoverRow {
        /// When.
        at: MonoNs,
        /// When it was sent.
        sent: MonoNs => named("sent_ns"),
        /// When it was sent first: what is passed on without a change has the time of who began.
        first_sent: MonoNs => named("first_sent_ns"),
        /// Which type of items: a number that is the same for all channels of a process that have such. Tokio: which kind of task
        /// it is, and in which way it was woken.
        of: u64 => named("item_type"),
        /// Who got it.
        task: TaskId,
        /// Who sent it, 0 where not known.
        from: TaskId,
        /// Who sent it first. Tokio: 0 where `from` made the task.
        first: TaskId,
        /// It has no bytes, or the channel was closed: it says something, and hands nothing over.
        is_empty: u8 => flag(),
        /// Zero.
        pad: [u8; 3],
    }
}

table! {
    /// A logical task serves a stream of a connection, or asks by it, while others read and write for all of them (HTTP/2 in Go,
    /// where it has probes).
    StreamRow {
        /// When it begins to.
        at: MonoNs,
        /// The stream's number.
        stream: u64,
        /// Who serves it, or asks by it.
        task: TaskId,
        /// Who writes what it asks; who reads what it serves, or made the one that does.
        by: TaskId,
        /// It asks.
        calls: u8 => flag(),
        /// Zero.
        pad: [u8; 7],
    }
}

/// What runs logical tasks.
pub mod runtime {
    /// None: it is a thread.
    pub const NONE: u8 = 0;
    /// Go: goroutines.
    pub const GO: u8 = 1;
    /// CPython: contexts of asyncio tasks.
    pub const PYTHON: u8 = 2;
    /// The JVM: virtual threads, and from [`JVM_EXECUTORS`] on tasks of executors.
    pub const JVM: u8 = 3;
    /// The least number that the agent for the JVM gives a task of an executor.
    pub const JVM_EXECUTORS: u64 = 1 << 48;
    /// Node: asynchronous contexts.
    pub const NODE: u8 = 4;
    /// Tokio: tasks.
    pub const TOKIO: u8 = 5;
}
