//! Waits, and where in their programs tasks blocked.

use super::names;
use crate::ids::{MonoNs, StrId, TaskId};
use crate::table::{Kind, Value, computed};
use crate::{codes, table};

codes! {
    /// Causes of a wait's end; the numbers are the wire room's `CAUSE_…`.
    EndedBy(u8) {
        /// Not known.
        Unknown = 0 => "unknown",
        /// Another task.
        Task = 1 => "task",
        /// A packet for a socket (`object` = endpoint).
        Socket = 2 => "socket",
        /// Network softirq, socket not named.
        Net = 3 => "net",
        /// A timer.
        Timer = 4 => "timer",
        /// A block request (`object` = device << 32 and the low half of its first sector; 0 = not known which).
        Block = 5 => "block",
        /// A hardware interrupt (`object` = its line; with [`EndedBy::VECTOR`], one of the processor's own vectors).
        Irq = 6 => "irq",
        /// Another softirq.
        Softirq = 7 => "softirq",
        /// Preempted: nobody had to wake it. `object` = 1: by the CPU quota of a cgroup of it.
        Preempted = 8 => "preempted",
        /// Not ended when the recording was cut or ended.
        Open = 9 => "open",
        /// A packet that was being received (`object` = [`super::PacketRow::id`] of its row on the same host).
        Packet = 10 => "packet",
        /// The task was stopped by a signal (`object` = its number, 0 = not known; `by` = who sent it), a debugger,
        /// or the freezer of its cgroup ([`super::WaitRow::state`] says which: 4, 8, 0x8000).
        Stopped = 11 => "stopped",
    }
}

impl EndedBy {
    /// In the object of [`EndedBy::Irq`]: what is below is a vector of the processor, and no line.
    pub const VECTOR: u64 = 1 << 32;
}

/// [`WaitRow::state`] of a wait whose begin was not seen (imported traces).
pub const STATE_UNKNOWN: u16 = 0xffff;

table! {
    /// An interval in which a task did not run.
    WaitRow {
        /// When it ran again (or the flush, where open).
        at: MonoNs,
        /// When it stopped running.
        blocked: MonoNs => near().named("blocked_ns").also(&[computed("duration_ns", Kind::Ns, " How long it did not run.", |r| {
            Value::Ns(r.at.0.saturating_sub(r.blocked.0))
        })]),
        /// When it was made runnable.
        woken: MonoNs => near().named("woken_ns"),
        /// What the cause names.
        object: u64,
        /// First argument of the system call; the address of a page fault where an imported trace saw one.
        arg0: u64,
        /// Who waited.
        task: TaskId,
        /// Who woke or preempted it.
        by: TaskId => named("woken_by"),
        /// `rcv_nxt` where the cause is a socket.
        rcv_seq: u32,
        /// Task state at switch-out; 0 = preempted, [`STATE_UNKNOWN`] = not seen.
        state: u16 => words(names::task_state),
        /// System call number, 0xffff = none.
        syscall: u16 => none(0xffff),
        /// Processor on which it ran again.
        cpu: u16,
        /// Processor of the waking.
        woken_cpu: u16,
        /// What ended it.
        cause: EndedBy,
        /// 1: the thread's runtime said in whose name it had run: `logical`, or in nobody's where it has none, and looked for work.
        is_told: u8 => flag(),
        /// 1: in memory, the futex on which the task waited was the word of a lock that a thread held.
        is_lock: u8 => flag(),
        /// One of [`gaps`]: where waits of this task were not recorded, since neither it nor whom it let go on was selected.
        gaps: u8,
        /// The logical task (goroutine, virtual thread) that the thread ran when it stopped: the wait is that one's. 0 = none.
        logical: TaskId => none(0),
        /// The thread that held the lock when the wait began, as the lock itself said. 0 = not known.
        holder: TaskId => none(0),
        /// The file of its system call, as `…/FOLDER/NAME`; empty where it had none, or the wait was shorter than 1 ms.
        file: StrId,
        /// Zero.
        pad: [u8; 4],
    }
}

/// [`WaitRow::gaps`].
pub mod gaps {
    /// Waits before this one were not recorded: since when it had run is not known.
    pub const BEFORE: u8 = 1;
    /// Waits after this one may not have been recorded.
    pub const AFTER: u8 = 2;
}

impl WaitRow {
    /// Whether the task ran from the end of this wait until the next began, `next` being the next that was recorded.
    pub fn runs_until(&self, next: Option<&WaitRow>) -> bool {
        next.map_or(self.gaps & gaps::AFTER == 0, |next| next.gaps & gaps::BEFORE == 0)
    }

    /// The task was stopped by a signal, by who traces it, or by the freezer of its cgroup.
    pub fn is_stopped(&self) -> bool {
        self.has_state(4 | 8 | 0x8000)
    }

    /// The task slept where signals do not reach it, and was no idle kernel thread (`TASK_NOLOAD`).
    pub fn is_uninterruptible(&self) -> bool {
        self.has_state(2) && !self.has_state(0x400)
    }

    /// The task slept where a signal could have woken it, or as an idle kernel thread: it waited for no disk.
    pub fn is_interruptible(&self) -> bool {
        self.has_state(0x401)
    }

    /// A state that was not seen has no bits.
    fn has_state(&self, bits: u16) -> bool {
        self.state != STATE_UNKNOWN && self.state & bits != 0
    }
}

codes! {
    /// What a logical task that ran on no thread waited for; the numbers are the wire room's `PARK_…`.
    Park(u8) {
        /// None of the others, or not known.
        Other = 0 => "other",
        /// One of several channels.
        Select = 1 => "select",
        /// An item of a channel.
        Receive = 2 => "receive",
        /// Room in a channel, or who takes the item.
        Send = 3 => "send",
        /// A time.
        Sleep = 4 => "sleep",
        /// A condition.
        Condition = 5 => "condition",
        /// A mutex.
        Mutex = 6 => "mutex",
        /// Others that write what a lock guards.
        ReadLock = 7 => "read_lock",
        /// Others that read or write what a lock guards.
        WriteLock = 8 => "write_lock",
    }
}

table! {
    /// An interval in which a logical task ran on no thread, since it waited inside its program (Go, where that has probes).
    ParkRow {
        /// When it ran again.
        at: MonoNs,
        /// When it stopped running.
        blocked: MonoNs => near().named("blocked_ns").also(&[computed("duration_ns", Kind::Ns, " How long it did not run.", |r| {
            Value::Ns(r.at.0.saturating_sub(r.blocked.0))
        })]),
        /// When it was made ready to run; [`ParkRow::at`] where that was not seen.
        woken: MonoNs => near().named("woken_ns"),
        /// Who waited.
        task: TaskId,
        /// The logical task that made it ready, 0 = a timer, or not known.
        by: TaskId => named("woken_by"),
        /// The thread that ran it before.
        from: TaskId => named("from_thread"),
        /// The thread that ran it again.
        on: TaskId => named("on_thread"),
        /// For what it waited.
        why: Park,
        /// Zero.
        pad: [u8; 7],
    }
}

table! {
    /// Whose work a thread did when its processor's clock ticked: what it computes between two operations nothing else tells (CPython,
    /// where that has probes).
    RanRow {
        /// When.
        at: MonoNs,
        /// The logical task, as its runtime calls it: [`super::TaskRow::key`].
        key: u64,
        /// The thread.
        task: TaskId,
        /// Zero.
        pad: [u8; 4],
    }
}

table! {
    /// Who had a processor and is not selected: a task, where a selected one waited for that processor; or all of them together.
    StayRow {
        /// When that was known: when the selected task had a processor.
        at: MonoNs,
        /// When the task came onto the processor.
        from: MonoNs => near().named("from_ns"),
        /// When it left.
        to: MonoNs => near().named("to_ns"),
        /// How long it ran; of all together, on all processors, without those whose waits were recorded then.
        ran_ns: u64,
        /// The task; 0 = all that are not selected.
        task: TaskId => none(0),
        /// The processor; of all together 0.
        cpu: u16,
        /// Zero.
        pad: [u8; 2],
    }
}

table! {
    /// Where in its program a task was when it blocked: one row for each wait of a watched task that has a [`WaitRow`] too,
    /// where the recording was asked for stacks. Preemptions have none.
    StackRow {
        /// When it ran again (or the flush, where open).
        at: MonoNs,
        /// When it stopped running: the [`WaitRow::blocked`] of the same task.
        blocked: MonoNs => near().named("blocked_ns").also(&[computed("duration_ns", Kind::Ns, " How long it did not run.", |r| {
            Value::Ns(r.at.0.saturating_sub(r.blocked.0))
        })]),
        /// Who waited.
        task: TaskId,
        /// Return addresses, innermost first, as offsets into files: see [`crate::stack`]. Empty where the stack was lost.
        frames: StrId,
        /// System call number, 0xffff = none.
        syscall: u16 => none(0xffff),
        /// What ended it.
        cause: EndedBy,
        /// Zero.
        pad: [u8; 5],
    }
}
