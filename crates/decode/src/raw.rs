//! Kernel events as other tracers write them, each fact once: what a reader makes of its file, and what
//! the wait records of an imported trace are made from.
//!
//! A reader (`readers/`) knows its file's layout and the names of its events; nothing after it does.

use wakepath_model::ids::MonoNs;

/// Takes raw events, in order of time but for small steps back, which it bears and counts.
pub trait RawSink {
    /// An event on processor `cpu`.
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>);
    /// `count` events of `cpu` were lost between `from` and `to` (`None`: of which processor is not known). 0: it is not
    /// known how many.
    fn lost(&mut self, cpu: Option<u16>, from: MonoNs, to: MonoNs, count: u64);
    /// Counts a defect of the central list.
    fn count(&mut self, defect: &'static str, at: MonoNs);
}

/// An idle kernel thread (`TASK_IDLE`).
pub const STATE_IDLE: u16 = 0x402;
/// States of a task on its last switch: `EXIT_DEAD`, `EXIT_ZOMBIE`.
pub const STATE_GONE: u16 = 0x10 | 0x20;
/// A kernel thread that is parked (`TASK_PARKED`).
pub const STATE_PARKED: u16 = 0x40;
/// Bit 0x40 of a kernel whose version is not known: until Linux 4.13 the task is dead, since then it is parked.
pub const STATE_DEAD_OR_PARKED: u16 = 0x80 | STATE_PARKED;

/// What `irq_handler_exit` returns where the line's thread is to be woken.
pub const IRQ_WAKE_THREAD: u64 = 2;

/// Of an event of the group `irq_vectors`: whether another processor sends that interrupt to have something done, and
/// whether it begins; `None` for what is no interrupt.
pub fn vector(event: &str) -> Option<(bool, bool)> {
    let (name, entry) = match event.strip_suffix("_entry") {
        Some(name) => (name, true),
        None => (event.strip_suffix("_exit")?, false),
    };
    Some((matches!(name, "reschedule" | "call_function" | "call_function_single"), entry))
}

/// One fact. Names are bytes up to their first NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// `sched_switch`.
    Switch {
        /// Who leaves.
        prev: Task<'a>,
        /// Its state; 0 = still to run (preempted). In the bits of today's kernels, whatever kernel was traced: those of
        /// `TASK_REPORT`, and [`STATE_IDLE`]. [`STATE_DEAD_OR_PARKED`] where the trace leaves open which.
        prev_state: u16,
        /// Who comes.
        next: Task<'a>,
    },
    /// `sched_waking`, `sched_ttwu`: the current context wakes `task`.
    Waking {
        /// Who is woken.
        task: Task<'a>,
    },
    /// `sched_wakeup`: `task` is runnable; the current context may be an interrupt on its own processor, and no waker.
    Wakeup {
        /// Who was woken.
        task: Task<'a>,
        /// Its processor (`target_cpu`). Where that is another one than the event's, the current context is the waker.
        target_cpu: Option<u16>,
    },
    /// `sched_wakeup_new`: a new task is runnable.
    WakeupNew {
        /// The new task.
        task: Task<'a>,
    },
    /// `sched_process_fork`.
    Fork {
        /// The parent.
        parent: Task<'a>,
        /// The child.
        child: Task<'a>,
    },
    /// `sched_process_exec`.
    Exec {
        /// Who; its name where the event has it.
        task: Task<'a>,
        /// Its tid before, the same where it did not change.
        old_tid: u32,
        /// The program.
        filename: &'a [u8],
    },
    /// `sched_process_exit`.
    Exit {
        /// Who.
        task: Task<'a>,
    },
    /// `task_rename`.
    Name {
        /// Who, by its new name.
        task: Task<'a>,
    },
    /// An event's context names the task that is current on its processor: given where it changes.
    Current {
        /// Who; tid 0 is the idle task.
        task: Task<'a>,
    },
    /// A task that lived when the trace began (state dump).
    Alive {
        /// Who.
        task: Task<'a>,
        /// Its parent, 0 where not known.
        ppid: u32,
        /// Whether it is a kernel thread, where known.
        kernel: Option<bool>,
    },
    /// An interrupt handler begins.
    IrqEntry {
        /// Its number.
        irq: u32,
        /// What the line is called.
        name: &'a [u8],
    },
    /// It ends.
    IrqExit {
        /// Its number.
        irq: u32,
        /// Whether the kernel wakes the line's thread next (`IRQ_WAKE_THREAD`), as far as the event says.
        wakes_thread: bool,
    },
    /// An interrupt of the processor itself begins, with a vector and no line (`irq_vectors`; the local timer's is
    /// [`Raw::TimerEntry`]).
    VectorEntry {
        /// Its number.
        vector: u8,
        /// Whether another processor sent it to have something done here: then who asked for it is there.
        is_call: bool,
    },
    /// It ends.
    VectorExit {
        /// As at its begin.
        vector: u8,
        /// As at its begin.
        is_call: bool,
    },
    /// A softirq begins.
    SoftirqEntry {
        /// 0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK, 5 IRQ_POLL, 6 TASKLET, 7 SCHED, 8 HRTIMER, 9 RCU.
        vector: u8,
    },
    /// It ends.
    SoftirqExit {
        /// As at its begin.
        vector: u8,
    },
    /// An hrtimer's or timer's function begins, or the local timer's interrupt.
    TimerEntry,
    /// It ends.
    TimerExit,
    /// A packet goes out or comes in.
    Packet(Packet),
    /// A request to a disk is issued.
    BlockIssue(Block),
    /// A request to a disk is done.
    BlockDone(Block),
    /// A system call begins.
    SyscallEntry {
        /// Number, where the trace or its table of names has one (x86-64 numbering).
        nr: Option<u16>,
        /// First argument, 0 where not known.
        arg0: u64,
    },
    /// The call that has just begun names the other end of a socket (`connect`, `sendto`).
    Peer(Peer),
    /// It ends.
    SyscallExit {
        /// As at its begin; LTTng 2.4 does not say.
        nr: Option<u16>,
        /// What it returned.
        ret: i64,
    },
    /// A page fault by user code begins (`exceptions:page_fault_user`).
    PageFault {
        /// Where.
        address: u64,
    },
    /// Work is queued (`workqueue_queue_work`), or a function on it begins or ends.
    Work {
        /// The work item.
        item: u64,
        /// What happens to it.
        step: WorkStep,
    },
}

/// Steps of a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStep {
    /// Queued by the current context.
    Queued,
    /// Its function begins in the current task.
    Begun,
    /// Its function ended.
    Ended,
}

/// A task as an event names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task<'a> {
    /// Thread; 0 = the processor's idle task.
    pub tid: u32,
    /// Its process, 0 where the event does not say.
    pub tgid: u32,
    /// Name, empty where the event does not say.
    pub comm: &'a [u8],
}

/// What an event says of a packet; zero where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Whether this host sends it.
    pub sent: bool,
    /// 4 or 6, 0 where not known.
    pub ip: u8,
    /// IP protocol, 0 where not known (`inet_sock_local_*`: TCP).
    pub protocol: u8,
    /// Source address (IPv4 in the first four bytes).
    pub saddr: [u8; 16],
    /// Destination address.
    pub daddr: [u8; 16],
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// TCP sequence number.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// TCP flags as on the wire, without the header's length.
    pub flags: u16,
    /// IPv4 identification.
    pub ip_id: u16,
    /// TCP window or UDP checksum: only to tell packets apart.
    pub window: u16,
    /// Bytes of payload, `None` where not known.
    pub payload: Option<u32>,
    /// The kernel's socket or packet buffer, 0 where not known: tells the events of one packet on one host together.
    pub object: u64,
    /// Whether the event stands at the socket (`inet_sock_local_*`) rather than at the device.
    pub at_socket: bool,
}

/// The other end of a socket, as the task that talks to it names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The socket's descriptor.
    pub fd: u32,
    /// Address (IPv4 in the first four bytes).
    pub address: [u8; 16],
    /// Port, never 0.
    pub port: u16,
}

/// A request to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Device as the kernel's `dev_t` (major << 20 | minor).
    pub device: u32,
    /// First sector.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// Whether it writes.
    pub write: bool,
}
