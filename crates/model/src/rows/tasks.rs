//! Steps in the lives of tasks: threads, and the logical tasks that runtimes make.

use crate::ids::{MonoNs, StrId, TaskId};
use crate::{codes, table};

codes! {
    /// How well a link is known.
    Strength(u8) {
        /// There is none.
        None = 0 => "",
        /// Seen: the same identifier on both sides, and it was verified.
        Seen = 1 => "seen",
        /// Shown: it follows from a complete record of what could have been otherwise.
        Shown = 2 => "shown",
        /// By habit: it was never seen otherwise where that would have been visible.
        Habit = 3 => "habit",
    }
}

codes! {
    /// What happened to a task.
    Life(u8) {
        /// Made by its parent, be it that a kept thread took it up (Ruby's).
        Fork = 1 => "fork",
        /// Began another program.
        Exec = 2 => "exec",
        /// Ended.
        Exit = 3 => "exit",
        /// Changed its name.
        Name = 4 => "name",
        /// Found by the snapshot, or met by an event.
        Snapshot = 5 => "snapshot",
        /// Its process was selected to be watched, with what it makes. Where no task has this, all are.
        Watched = 6 => "watched",
        /// A logical task: it works for others than the one that it has, or was made for, as its runtime was seen to hand on what came of it.
        ForOthers = 7 => "for_others",
    }
}

codes! {
    /// Whose code a task runs.
    TaskClass(u8) {
        /// A program's.
        User = 0 => "user",
        /// The kernel's.
        Kernel = 1 => "kernel",
        /// The kernel's, as io_uring's worker of a program.
        IoUring = 2 => "io_uring",
    }
}

table! {
    /// A step in a task's life.
    TaskRow {
        /// When.
        at: MonoNs,
        /// The task's start. Of an asyncio context: when its parent made it, or made what it was made by. Of a task that a kept thread took up:
        /// when its parent woke that.
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
        /// What happened.
        what: Life,
        /// Whose code it runs.
        class: TaskClass,
        /// What runs a logical task; none for threads, which the kernel runs.
        runtime: RuntimeKind,
        /// How it is known that `parent` made a logical task, or woke a kept thread for this one; none for other threads, where the kernel says
        /// so.
        parent_strength: Strength,
        /// Of its end: how the kernel tells it to whoever waits for the process (wait(2): the signal in the low 7 bits, the exit code in
        /// the 8 bits from bit 8 on), and [`OUT_OF_MEMORY`].
        status: u32 => none(0),
        /// Zero.
        pad: [u8; 4],
    }
}

/// In `status`: the kernel killed the process to free its memory.
pub const OUT_OF_MEMORY: u32 = 1 << 16;

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

/// The least number that the agent for the JVM gives a task of an executor.
pub const JVM_EXECUTORS: u64 = 1 << 48;

codes! {
    /// What runs logical tasks.
    RuntimeKind(u8) {
        /// None: it is a thread.
        None = 0 => "",
        /// Go: goroutines.
        Go = 1 => "go",
        /// CPython: contexts of asyncio tasks.
        Python = 2 => "python",
        /// The JVM: virtual threads, and from [`JVM_EXECUTORS`] on tasks of executors.
        Jvm = 3 => "jvm",
        /// Node: asynchronous contexts.
        Node = 4 => "node",
        /// Tokio: tasks.
        Tokio = 5 => "tokio",
    }
}
