//! Kernel events of CTF traces as raw events: LTTng's names and fields of both generations (2.4 and before; 2.10 and
//! later), and the kernel's own after their group (`sched:sched_switch`), as perf writes them when it converts a trace.

use super::ctf::Fields;
use crate::raw::{self, Block, Packet, Peer, Raw, RawSink, Task, WorkStep};
use wakepath_model::ids::MonoNs;
use wakepath_model::syscalls;

/// Outputs of an event's context.
const CONTEXT_TGID: u8 = 28;
const CONTEXT_TID: u8 = 29;
const CONTEXT_COMM: u8 = 30;

/// Outputs of a call that names the other end of a socket, after its first argument.
const PEER_PORT: u8 = 2;
const PEER_V4: u8 = 3;
const PEER_V6: u8 = 4;

/// What an event becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Fork,
    Exec,
    Exit,
    Alive,
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    TimerEntry,
    TimerExit,
    Sent,
    Received,
    SocketSent,
    SocketReceived,
    BlockIssue,
    BlockDone,
    SyscallEntry,
    SyscallExit,
    VectorEntry { is_call: bool },
    VectorExit { is_call: bool },
    PageFault,
    Work(WorkStep),
}

/// What an event class becomes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    fact: Fact,
    nr: Option<u16>,
    kernel: Kernel,
}

/// The traced kernel, as far as its version changes what the bits of a task's state mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kernel {
    /// The trace does not say.
    #[default]
    Unknown,
    /// Until 4.13.
    Old {
        /// 4.2 and later: 0x400 is that of idle kernel threads, and no longer that of preempted tasks.
        has_idle: bool,
    },
    /// 4.14 and later: the kernel says what it would report to others (`TASK_REPORT`).
    Since414,
}

impl Kernel {
    /// By its release, as `uname -r` prints it.
    pub fn of(release: &str) -> Kernel {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) if (major, minor) >= (4, 14) => Kernel::Since414,
            (Some(major), Some(minor)) => Kernel::Old { has_idle: (major, minor) >= (4, 2) },
            _ => Kernel::Unknown,
        }
    }
}

/// A class's fact, and the fields that it is made of.
pub(super) struct Plan {
    pub mapped: Mapped,
    fields: Vec<(String, u8)>,
}

impl Plan {
    /// Which output a field goes to; `name` gives the parts of its path.
    pub fn output<'n>(&self, parts: usize, name: impl Fn(usize) -> &'n str) -> Option<u8> {
        let is =
            |field: &str| field.split('.').count() == parts && field.split('.').enumerate().all(|(i, p)| p == name(i));
        self.fields.iter().find(|(field, _)| is(field)).map(|(_, out)| *out)
    }
}

/// The output of a field of the streams' event context.
pub(super) fn context(name: &str) -> Option<u8> {
    match name {
        "pid" => Some(CONTEXT_TGID),
        "tid" => Some(CONTEXT_TID),
        "procname" => Some(CONTEXT_COMM),
        _ => None,
    }
}

const TASK: &[&str] = &["tid", "comm"];
const BLOCK: &[&str] = &["dev", "sector", "nr_sector", "bytes", "rwbs"];
const SOCKET: &[&str] = &["sk", "seq", "ack_seq", "window", "flags"];

/// What is made of an event class, by its name and the names of its fields; `None`: nothing.
pub(super) fn plan(kernel: Kernel, name: &str, members: &[&str]) -> Option<Plan> {
    match name.split_once(':') {
        Some((group, name)) => kernels_own(kernel, group, name, members),
        None => lttngs(kernel, name, members),
    }
}

/// The kernel's own name after its group: it calls a thread `pid`, and its process nothing.
fn kernels_own(kernel: Kernel, group: &str, name: &str, members: &[&str]) -> Option<Plan> {
    let own = |f: &&str| !f.starts_with("common_") && !f.starts_with("perf_") && !matches!(*f, "nr" | "__syscall_nr");
    let own: Vec<&str> = members.iter().copied().filter(own).collect();
    let planned = |fact, fields: &[(&str, u8)]| Plan {
        mapped: Mapped { fact, nr: None, kernel },
        fields: fields.iter().map(|(f, out)| ((*f).to_owned(), *out)).collect(),
    };
    let mut plan = match (group, name) {
        ("raw_syscalls", "sys_enter") => planned(Fact::SyscallEntry, &[("id", 1)]),
        ("raw_syscalls", "sys_exit") => planned(Fact::SyscallExit, &[("ret", 0), ("id", 1)]),
        ("syscalls", name) => match name.strip_prefix("sys_enter_") {
            Some(call) => system_call(kernel, &format!("sys_{call}"), &own)?,
            None => system_call(kernel, &format!("syscall_exit_{}", name.strip_prefix("sys_exit_")?), &own)?,
        },
        ("irq_vectors", name) if !name.starts_with("local_timer_") => {
            let (is_call, entry) = raw::vector(name)?;
            let fact = if entry { Fact::VectorEntry { is_call } } else { Fact::VectorExit { is_call } };
            planned(fact, &[("vector", 0)])
        }
        ("exceptions", "page_fault_user") => planned(Fact::PageFault, &[("address", 0)]),
        ("sched" | "irq" | "irq_vectors" | "timer" | "block" | "workqueue", name) => lttngs(kernel, name, &own)?,
        _ => return None,
    };
    plan.fields.retain(|(f, _)| !matches!(f.as_str(), "pid" | "parent_pid" | "child_pid"));
    for (field, _) in &mut plan.fields {
        if let Some(of) = field.strip_suffix("tid") {
            *field = format!("{of}pid");
        }
    }
    plan.fields.extend([("perf_tid".to_owned(), CONTEXT_TID), ("perf_pid".to_owned(), CONTEXT_TGID)]);
    Some(plan)
}

fn lttngs(kernel: Kernel, name: &str, members: &[&str]) -> Option<Plan> {
    use Fact::*;
    let (fact, fields): (Fact, &[&str]) = match name {
        "sched_switch" => (Switch, &["prev_tid", "prev_comm", "prev_state", "next_tid", "next_comm"]),
        "sched_waking" | "sched_ttwu" => (Waking, TASK),
        "sched_wakeup" => (Wakeup, &["tid", "comm", "target_cpu"]),
        "sched_wakeup_new" => (WakeupNew, TASK),
        "sched_process_fork" => {
            (Fork, &["parent_tid", "parent_comm", "parent_pid", "child_tid", "child_comm", "child_pid"])
        }
        "sched_process_exec" => (Exec, &["tid", "filename", "old_tid"]),
        "sched_process_exit" => (Exit, TASK),
        "lttng_statedump_process_state" => (Alive, &["tid", "name", "pid", "ppid", "type"]),
        "irq_handler_entry" => (IrqEntry, &["irq", "name"]),
        "irq_handler_exit" => (IrqExit, &["irq", "ret"]),
        "irq_softirq_entry" | "softirq_entry" => (SoftirqEntry, &["vec"]),
        "irq_softirq_exit" | "softirq_exit" => (SoftirqExit, &["vec"]),
        "timer_hrtimer_expire_entry"
        | "hrtimer_expire_entry"
        | "timer_expire_entry"
        | "x86_irq_vectors_local_timer_entry"
        | "local_timer_entry" => (TimerEntry, &[]),
        "timer_hrtimer_expire_exit"
        | "hrtimer_expire_exit"
        | "timer_expire_exit"
        | "x86_irq_vectors_local_timer_exit"
        | "local_timer_exit" => (TimerExit, &[]),
        "net_dev_queue" => (Sent, &[]),
        "net_if_receive_skb" | "netif_receive_skb" => (Received, &[]),
        "inet_sock_local_out" => (SocketSent, SOCKET),
        "inet_sock_local_in" => (SocketReceived, SOCKET),
        "block_rq_issue" => (BlockIssue, BLOCK),
        "block_rq_complete" => (BlockDone, BLOCK),
        "x86_exceptions_page_fault_user" | "exceptions_page_fault_user" => (PageFault, &["address"]),
        "workqueue_queue_work" => (Work(WorkStep::Queued), &["work"]),
        "workqueue_execute_start" => (Work(WorkStep::Begun), &["work"]),
        "workqueue_execute_end" => (Work(WorkStep::Ended), &["work"]),
        _ => match name.strip_prefix("x86_irq_vectors_").map(raw::vector) {
            Some(Some((is_call, true))) => (VectorEntry { is_call }, &["vector"]),
            Some(Some((is_call, false))) => (VectorExit { is_call }, &["vector"]),
            _ => return system_call(kernel, name, members),
        },
    };
    let mut fields: Vec<(String, u8)> = fields.iter().zip(0..).map(|(f, out)| ((*f).to_owned(), out)).collect();
    if matches!(fact, Sent | Received) {
        fields = headers();
    }
    Some(Plan { mapped: Mapped { fact, nr: None, kernel }, fields })
}

/// `syscall_entry_read`, `sys_read`, `compat_sys_read`, `syscall_exit_read`, `exit_syscall`. The call's name gives the
/// number, also that of a 32-bit program's call.
fn system_call(kernel: Kernel, name: &str, members: &[&str]) -> Option<Plan> {
    let bare = name.strip_prefix("compat_").unwrap_or(name);
    let entry = bare.strip_prefix("syscall_entry_").or_else(|| bare.strip_prefix("sys_"));
    let (fact, call, first) = match (entry, bare.strip_prefix("syscall_exit_")) {
        (Some(call), _) => (Fact::SyscallEntry, call, members.first().copied()),
        (_, Some(call)) => (Fact::SyscallExit, call, Some("ret")),
        _ if bare == "exit_syscall" => (Fact::SyscallExit, "", Some("ret")),
        _ => return None,
    };
    let mut fields: Vec<(String, u8)> = first.map(|f| (f.to_owned(), 0)).into_iter().collect();
    if fact == Fact::SyscallEntry && matches!(call, "connect" | "sendto") {
        fields.extend([("dport", PEER_PORT), ("v4addr", PEER_V4), ("v6addr", PEER_V6)].map(|(f, n)| (f.to_owned(), n)));
    }
    // a call that the tracer has no name for: its number is a field, but a 32-bit program's numbers are others
    if call == "unknown" {
        fields.retain(|(f, _)| f != "id");
        if bare == name {
            fields.push(("id".to_owned(), 1));
        }
    }
    Some(Plan { mapped: Mapped { fact, nr: syscalls::number(call), kernel }, fields })
}

/// Outputs of a packet's headers.
mod packet {
    pub const BUFFER: u8 = 0;
    pub const HEADER_WORDS: u8 = 1;
    pub const TOTAL: u8 = 2;
    pub const ID: u8 = 3;
    pub const PROTOCOL: u8 = 4;
    pub const SADDR: u8 = 5;
    pub const DADDR: u8 = 6;
    pub const PAYLOAD6: u8 = 7;
    pub const SPORT: u8 = 8;
    pub const DPORT: u8 = 9;
    pub const SEQ: u8 = 10;
    pub const ACK: u8 = 11;
    pub const TCP_WORDS: u8 = 12;
    pub const FLAGS: u8 = 13;
    pub const WINDOW: u8 = 14;
    pub const UDP_LEN: u8 = 15;
    pub const CHECK: u8 = 16;
}

fn headers() -> Vec<(String, u8)> {
    use packet::*;
    const IPV4: [(&str, u8); 6] = [
        ("ihl", HEADER_WORDS),
        ("tot_len", TOTAL),
        ("id", ID),
        ("protocol", PROTOCOL),
        ("saddr", SADDR),
        ("daddr", DADDR),
    ];
    const IPV6: [(&str, u8); 4] =
        [("payload_len", PAYLOAD6), ("nexthdr", PROTOCOL), ("saddr", SADDR), ("daddr", DADDR)];
    const TCP: [(&str, u8); 7] = [
        ("source_port", SPORT),
        ("dest_port", DPORT),
        ("seq", SEQ),
        ("ack_seq", ACK),
        ("data_offset", TCP_WORDS),
        ("flags", FLAGS),
        ("window_size", WINDOW),
    ];
    const UDP: [(&str, u8); 4] = [("source_port", SPORT), ("dest_port", DPORT), ("len", UDP_LEN), ("check", CHECK)];
    let mut out = vec![("skbaddr".to_owned(), BUFFER)];
    let mut add = |ip: &str, fields: &[(&str, u8)]| {
        out.extend(fields.iter().map(|(f, n)| (format!("network_header.{ip}.{f}"), *n)));
        for (transport, fields) in [("tcp", TCP.as_slice()), ("udp", &UDP)] {
            let at = |f| format!("network_header.{ip}.transport_header.{transport}.{f}");
            out.extend(fields.iter().map(|(f, n)| (at(f), *n)));
        }
    };
    add("ipv4", &IPV4);
    add("ipv6", &IPV6);
    out
}

/// The task whose context an event shows, if the stream's events have it: tid, process and name.
pub(super) fn current<'a>(fields: &Fields<'a>) -> Option<Task<'a>> {
    // perf writes -1 for a thread that has ended
    let tid = fields.int(CONTEXT_TID).filter(|tid| *tid as i32 >= 0)? as u32;
    Some(Task { tid, tgid: fields.int(CONTEXT_TGID).unwrap_or(0) as u32, comm: fields.name(CONTEXT_COMM) })
}

/// Gives an event to the sink.
#[inline]
pub(super) fn emit(mapped: Mapped, f: &Fields<'_>, at: MonoNs, cpu: u16, sink: &mut impl RawSink) {
    if let Some(raw) = raw(mapped, f) {
        sink.event(at, cpu, &raw);
    }
    if mapped.fact == Fact::SyscallEntry
        && let Some(peer) = peer(f)
    {
        sink.event(at, cpu, &Raw::Peer(peer));
    }
}

fn peer(f: &Fields<'_>) -> Option<Peer> {
    let port = f.int(PEER_PORT).and_then(|p| u16::try_from(p).ok()).filter(|p| *p != 0)?;
    let bytes = [f.bytes(PEER_V4), f.bytes(PEER_V6)].into_iter().find(|b| matches!(b.len(), 4 | 16))?;
    let mut address = [0; 16];
    address[..bytes.len()].copy_from_slice(bytes);
    Some(Peer { fd: f.int(0)? as u32, address, port })
}

fn task<'a>(f: &Fields<'a>, tid: u8, comm: u8) -> Option<Task<'a>> {
    Some(Task { tid: f.int(tid)? as u32, tgid: 0, comm: f.name(comm) })
}

/// `None` where a field is missing without which the event says nothing.
fn raw<'a>(mapped: Mapped, f: &Fields<'a>) -> Option<Raw<'a>> {
    let named = || task(f, 0, 1);
    let whole = |out: u8| f.int(out).unwrap_or(0);
    Some(match mapped.fact {
        Fact::Switch => {
            Raw::Switch { prev: named()?, prev_state: asleep(mapped.kernel, f.int(2)?), next: task(f, 3, 4)? }
        }
        Fact::Waking => Raw::Waking { task: named()? },
        Fact::Wakeup => Raw::Wakeup { task: named()?, target_cpu: f.int(2).and_then(|c| u16::try_from(c).ok()) },
        Fact::WakeupNew => Raw::WakeupNew { task: named()? },
        Fact::Fork => Raw::Fork {
            parent: Task { tgid: whole(2) as u32, ..named()? },
            child: Task { tgid: whole(5) as u32, ..task(f, 3, 4)? },
        },
        Fact::Exec => {
            let task = Task { tid: f.int(0)? as u32, ..Task::default() };
            Raw::Exec { task, old_tid: f.int(2).map_or(task.tid, |t| t as u32), filename: f.bytes(1) }
        }
        Fact::Exit => Raw::Exit { task: named()? },
        Fact::Alive => Raw::Alive {
            task: Task { tgid: whole(2) as u32, ..named()? },
            ppid: whole(3) as u32,
            kernel: f.int(4).map(|kind| kind == 1),
        },
        Fact::IrqEntry => Raw::IrqEntry { irq: f.int(0)? as u32, name: f.bytes(1) },
        Fact::IrqExit => Raw::IrqExit {
            irq: f.int(0)? as u32,
            wakes_thread: f.int(1).is_none_or(|ret| ret & raw::IRQ_WAKE_THREAD != 0),
        },
        Fact::VectorEntry { is_call } => Raw::VectorEntry { vector: f.int(0)? as u8, is_call },
        Fact::VectorExit { is_call } => Raw::VectorExit { vector: f.int(0)? as u8, is_call },
        Fact::SoftirqEntry => Raw::SoftirqEntry { vector: f.int(0)? as u8 },
        Fact::SoftirqExit => Raw::SoftirqExit { vector: f.int(0)? as u8 },
        Fact::TimerEntry => Raw::TimerEntry,
        Fact::TimerExit => Raw::TimerExit,
        Fact::Sent => Raw::Packet(packet(f, true)),
        Fact::Received => Raw::Packet(packet(f, false)),
        Fact::SocketSent | Fact::SocketReceived => Raw::Packet(Packet {
            sent: mapped.fact == Fact::SocketSent,
            protocol: TCP,
            object: whole(0),
            seq: f.int(1)? as u32,
            ack: whole(2) as u32,
            window: whole(3) as u16,
            flags: tcp_flags(whole(4) as u16),
            at_socket: true,
            ..Packet::default()
        }),
        Fact::BlockIssue => Raw::BlockIssue(block(f)?),
        Fact::BlockDone => Raw::BlockDone(block(f)?),
        Fact::SyscallEntry => Raw::SyscallEntry { nr: number(mapped, f), arg0: whole(0) },
        Fact::SyscallExit => Raw::SyscallExit { nr: number(mapped, f), ret: f.int(0)? as i64 },
        Fact::PageFault => Raw::PageFault { address: f.int(0)? },
        Fact::Work(step) => Raw::Work { item: f.int(0)?, step },
    })
}

/// The state in which a task left, in today's bits; 0 = still to run. Kernels have moved the bits of preempted, dead,
/// parked and idle tasks; those beside them (killable, no load) only go with a state of sleep.
fn asleep(kernel: Kernel, state: u64) -> u16 {
    /// `TASK_STATE_MAX` of Linux 4.14 and later.
    const PREEMPTED: u64 = 0x1000;
    /// Uninterruptible, stopped, traced.
    const SLEEPS: u64 = 2 | 4 | 8;
    let is_old = matches!(kernel, Kernel::Old { .. });
    match state {
        s if s & PREEMPTED != 0 => 0,
        s if is_old && s & 0x70 != 0 => raw::STATE_GONE & 0x10,
        // 0x200 is a parked one's since 3.9
        0x200 if is_old => raw::STATE_PARKED,
        0x402 if kernel == (Kernel::Old { has_idle: false }) => 0,
        0x402 => raw::STATE_IDLE,
        // killable is 0x80 or 0x100, no load 0x400
        s if s > 0xff && s & SLEEPS == 0 => 0,
        s if is_old => (s & 0xf) as u16,
        0x40 if kernel == Kernel::Unknown => raw::STATE_DEAD_OR_PARKED,
        0x80 => raw::STATE_IDLE,
        s => (s & 0x7f) as u16,
    }
}

fn number(mapped: Mapped, f: &Fields<'_>) -> Option<u16> {
    mapped.nr.or_else(|| f.int(1).and_then(|id| u16::try_from(id).ok()))
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// TCP's nine flags, without the header's length and the reserved bits before them.
const FLAGS: u16 = 0x1ff;

/// The flags of a segment. Tracers write them alone, or with the header's length as the 16 bits that both take on the
/// wire; and some write those as a number of their processor, which has the flags in the high byte.
fn tcp_flags(word: u16) -> u16 {
    /// Between length and flags.
    const RESERVED: u16 = 0xe00;
    /// One of SYN, RST and ACK is in every segment.
    const ALWAYS: u16 = 0x16;
    let is_header = |w: u16| w >> 12 >= 5 && w & RESERVED == 0 && w & ALWAYS != 0;
    let swapped = word.swap_bytes();
    let is_swapped = word > FLAGS && !is_header(word) && is_header(swapped);
    (if is_swapped { swapped } else { word }) & FLAGS
}

fn packet(f: &Fields<'_>, sent: bool) -> Packet {
    use packet::*;
    let whole = |out: u8| f.int(out).unwrap_or(0);
    let address = |out: u8| {
        let mut address = [0; 16];
        let bytes = f.bytes(out);
        let count = bytes.len().min(16);
        address[..count].copy_from_slice(&bytes[..count]);
        address
    };
    let ip = match (f.int(TOTAL), f.int(PAYLOAD6)) {
        (Some(_), _) => 4,
        (_, Some(_)) => 6,
        _ => 0,
    };
    let protocol = whole(PROTOCOL) as u8;
    // bytes after the IP header; a TSO packet of more than 64 KiB says 0
    let behind_ip = match ip {
        4 => whole(TOTAL).checked_sub(whole(HEADER_WORDS) * 4),
        6 => Some(whole(PAYLOAD6)).filter(|n| *n > 0),
        _ => None,
    };
    let payload = match protocol {
        TCP => f.int(TCP_WORDS).zip(behind_ip).and_then(|(words, all)| all.checked_sub(words * 4)),
        UDP => f.int(UDP_LEN).and_then(|all| all.checked_sub(8)),
        _ => None,
    };
    Packet {
        sent,
        ip,
        protocol,
        saddr: address(SADDR),
        daddr: address(DADDR),
        sport: whole(SPORT) as u16,
        dport: whole(DPORT) as u16,
        seq: whole(SEQ) as u32,
        ack: whole(ACK) as u32,
        flags: tcp_flags(whole(packet::FLAGS) as u16),
        ip_id: whole(ID) as u16,
        window: f.int(WINDOW).or(f.int(CHECK)).unwrap_or(0) as u16,
        payload: payload.map(|n| n as u32),
        object: whole(BUFFER),
        at_socket: false,
    }
}

/// LTTng's bit for a request that writes; others have the kernel's letters.
const RWBS_WRITE: u64 = 1;

fn block(f: &Fields<'_>) -> Option<Block> {
    let sectors = f.int(2).unwrap_or(0) as u32;
    // file systems' requests have their size in sectors alone
    let bytes = (f.int(3).unwrap_or(0) as u32).max(sectors.saturating_mul(512));
    let write = f.int(4).unwrap_or(0) & RWBS_WRITE != 0 || f.bytes(4).contains(&b'W');
    Some(Block { device: f.int(0)? as u32, sector: f.int(1)?, bytes, write })
}

#[cfg(test)]
mod tests {
    use super::{Kernel, asleep, plan, tcp_flags};
    use crate::raw;

    #[test]
    fn knows_the_bits_by_the_release() {
        let old = Kernel::Old { has_idle: false };
        for (release, kernel) in [
            ("6.2.0-32-generic", Kernel::Since414),
            ("4.14.1", Kernel::Since414),
            ("5.4", Kernel::Since414),
            ("4.13.9-x", Kernel::Old { has_idle: true }),
            ("3.13.0-24-generic", old),
            ("4.1", old),
            ("", Kernel::Unknown),
            ("custom", Kernel::Unknown),
        ] {
            assert_eq!(Kernel::of(release), kernel, "{release}");
        }
    }

    #[test]
    fn states_of_all_kernels() {
        let (oldest, old, new) = (Kernel::Old { has_idle: false }, Kernel::Old { has_idle: true }, Kernel::Since414);
        let either = raw::STATE_DEAD_OR_PARKED;
        for (kernel, state, asleep_in) in [
            (new, 0, 0),
            (new, 1, 1),
            (old, 2, 2),
            (Kernel::Unknown, 1, 1),
            // dead, or parked
            (oldest, 64, 0x10),
            (old, 64, 0x10),
            (old, 16, 0x10),
            (old, 32, 0x10),
            (old, 0x200, 0x40),
            (new, 64, 0x40),
            (new, 16, 0x10),
            (new, 32, 0x20),
            (Kernel::Unknown, 64, either),
            // preempted: Linux 3 (with what it was about to do), 4.2, 4.14, 5
            (oldest, 1024, 0),
            (oldest, 1025, 0),
            (oldest, 1026, 0),
            (old, 2048, 0),
            (new, 4096, 0),
            (new, 4097, 0),
            (new, 256, 0),
            // killable, and idle kernel threads
            (old, 130, 2),
            (new, 258, 2),
            (new, 260, 4),
            (old, 1026, raw::STATE_IDLE),
            (new, 128, raw::STATE_IDLE),
        ] {
            assert_eq!(asleep(kernel, state), asleep_in, "{kernel:?} {state:#x}");
        }
    }

    #[test]
    fn takes_tcp_flags_in_every_layout() {
        for (word, flags) in [
            // alone, after the length, and in the high byte
            (0x10, 0x10),
            (0x111, 0x111),
            (0x5010, 0x10),
            (0x8018, 0x18),
            (0xa002, 0x02),
            (0xf0ff, 0xff),
            (0x1050, 0x10),
            (0x1880, 0x18),
            (0x02a0, 0x02),
            (0x1180, 0x11),
            (0x0450, 0x04),
            (0x50a0, 0x50),
        ] {
            assert_eq!(tcp_flags(word), flags, "{word:#06x}");
        }
    }

    #[test]
    fn a_group_before_the_name_is_the_kernels_own_way() {
        let of = |name: &str, members: &[&str]| plan(Kernel::Since414, name, members);
        let switch = of("sched:sched_switch", &["perf_tid", "prev_pid", "prev_state", "next_pid"]).expect("a plan");
        let out = |field: &'static str| switch.output(1, |_| field);
        assert_eq!((out("prev_pid"), out("prev_state"), out("next_pid")), (Some(0), Some(2), Some(3)));
        assert_eq!((out("prev_tid"), out("perf_tid")), (None, Some(super::CONTEXT_TID)));
        let fork = of("sched:sched_process_fork", &["parent_pid", "child_pid"]).expect("a plan");
        assert_eq!((fork.output(1, |_| "parent_pid"), fork.output(1, |_| "child_pid")), (Some(0), Some(3)));
        let read = of("syscalls:sys_enter_read", &["perf_tid", "__syscall_nr", "fd", "buf"]).expect("a plan");
        assert_eq!((read.mapped.nr, read.output(1, |_| "fd")), (Some(0), Some(0)));
        assert!(of("net:net_dev_queue", &["skbaddr", "len"]).is_none());
        assert!(of("irq_vectors:vector_alloc", &["irq"]).is_none());
    }
}
