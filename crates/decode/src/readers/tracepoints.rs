//! The kernel's tracepoints as [`Raw`] events: which field of which event says what. For perf.data and trace.dat, which
//! both hold an event's bytes as the kernel laid them out.
//!
//! Not translated: `net_dev_queue`, `netif_receive_skb` (a buffer's address and length: no packet can be told by them)
//! and the `tcp_*` tracepoints (addresses, but not the sequence number of the packet). They are counted by name.

use super::tracefs::{Format, Order, Slot};
use crate::raw::{self, Block, Raw, RawSink, Task, WorkStep};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wakepath_model::ids::MonoNs;
use wakepath_wire::{NO_SYSCALL, calls};

/// Most births whose process is remembered until the fork event says the rest.
const BIRTHS_MAX: usize = 1024;
/// `CLONE_THREAD` of `clone(2)`.
const CLONE_THREAD: u64 = 0x10000;

/// The state bits of today's kernels (`include/linux/sched.h`) by the letter under which a kernel prints them. Letters
/// that are not here are no reason to sleep.
const STATES: [(char, u16); 9] = [
    ('S', 0x01),
    ('D', 0x02),
    ('T', 0x04),
    ('t', 0x08),
    ('X', 0x10),
    ('x', 0x10),
    ('Z', 0x20),
    ('P', raw::STATE_PARKED),
    ('I', raw::STATE_IDLE),
];
/// What Linux prints since 4.14.
const STATES_SINCE_4_14: [(u64, u16); 8] =
    [(1, 1), (2, 2), (4, 4), (8, 8), (0x10, 0x10), (0x20, 0x20), (0x40, raw::STATE_PARKED), (0x80, raw::STATE_IDLE)];

/// Who an event happened to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Who {
    tid: Slot,
    comm: Slot,
}

impl Who {
    fn of(format: &Format, tid: &str, comm: &str) -> Who {
        Who { tid: format.slot(tid), comm: format.slot(comm) }
    }

    fn task<'a>(self, order: Order, event: &'a [u8]) -> Task<'a> {
        Task { tid: self.tid.number(order, event) as u32, tgid: 0, comm: self.comm.text(order, event) }
    }
}

/// What to make of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Unknown,
    Switch { prev: Who, state: Slot, states: Vec<(u64, u16)>, next: Who },
    Waking(Who),
    Wakeup { who: Who, target_cpu: Slot },
    WakeupNew(Who),
    Fork { parent: Who, child: Who },
    NewTask { child: Who, flags: Slot, parent: Slot },
    Exec { tid: Slot, old_tid: Slot, filename: Slot },
    Exit(Who),
    Name(Who),
    IrqEntry { irq: Slot, name: Slot },
    IrqExit { irq: Slot, ret: Slot },
    Vector { vector: Slot, is_call: bool, entry: bool },
    Softirq { vector: Slot, entry: bool },
    Timer { entry: bool },
    Block { device: Slot, sector: Slot, bytes: Slot, sectors: Slot, flags: Slot, done: bool },
    SyscallEntry { nr: Slot, arg0: Slot, raw: bool },
    SyscallExit { nr: Slot, ret: Slot, raw: bool },
    PageFault { address: Slot },
    Work { item: Slot, step: WorkStep },
}

impl Plan {
    fn of(format: &Format) -> Plan {
        let slot = |name| format.slot(name);
        let who = || Who::of(format, "pid", "comm");
        match (format.system.as_str(), format.name.as_str()) {
            ("sched", "sched_switch") => Plan::Switch {
                prev: Who::of(format, "prev_pid", "prev_comm"),
                state: slot("prev_state"),
                states: states(&format.print),
                next: Who::of(format, "next_pid", "next_comm"),
            },
            ("sched", "sched_waking") => Plan::Waking(who()),
            ("sched", "sched_wakeup") => Plan::Wakeup { who: who(), target_cpu: slot("target_cpu") },
            ("sched", "sched_wakeup_new") => Plan::WakeupNew(who()),
            ("sched", "sched_process_fork") => Plan::Fork {
                parent: Who::of(format, "parent_pid", "parent_comm"),
                child: Who::of(format, "child_pid", "child_comm"),
            },
            ("sched", "sched_process_exec") => {
                Plan::Exec { tid: slot("pid"), old_tid: slot("old_pid"), filename: slot("filename") }
            }
            ("sched", "sched_process_exit") => Plan::Exit(who()),
            ("task", "task_newtask") => {
                Plan::NewTask { child: who(), flags: slot("clone_flags"), parent: slot("common_pid") }
            }
            ("task", "task_rename") => {
                // kernels that do not say whose name it is mean the current task
                let tid = if slot("pid").is_there() { slot("pid") } else { slot("common_pid") };
                Plan::Name(Who { tid, comm: slot("newcomm") })
            }
            ("irq", "irq_handler_entry") => Plan::IrqEntry { irq: slot("irq"), name: slot("name") },
            ("irq", "irq_handler_exit") => Plan::IrqExit { irq: slot("irq"), ret: slot("ret") },
            ("irq", "softirq_entry") => Plan::Softirq { vector: slot("vec"), entry: true },
            ("irq", "softirq_exit") => Plan::Softirq { vector: slot("vec"), entry: false },
            ("irq_vectors", "local_timer_entry") | ("timer", "hrtimer_expire_entry" | "timer_expire_entry") => {
                Plan::Timer { entry: true }
            }
            ("irq_vectors", "local_timer_exit") | ("timer", "hrtimer_expire_exit" | "timer_expire_exit") => {
                Plan::Timer { entry: false }
            }
            ("irq_vectors", name) => match raw::vector(name) {
                Some((is_call, entry)) => Plan::Vector { vector: slot("vector"), is_call, entry },
                None => Plan::Unknown,
            },
            ("block", name @ ("block_rq_issue" | "block_rq_complete")) => Plan::Block {
                device: slot("dev"),
                sector: slot("sector"),
                bytes: slot("bytes"),
                sectors: slot("nr_sector"),
                flags: slot("rwbs"),
                done: name == "block_rq_complete",
            },
            ("raw_syscalls", "sys_enter") => {
                let args = slot("args");
                Plan::SyscallEntry { nr: slot("id"), arg0: Slot { size: args.size / 6, ..args }, raw: true }
            }
            ("raw_syscalls", "sys_exit") => Plan::SyscallExit { nr: slot("id"), ret: slot("ret"), raw: true },
            ("syscalls", name) => {
                let number = if slot("__syscall_nr").is_there() { "__syscall_nr" } else { "nr" };
                if name.starts_with("sys_enter_") {
                    Plan::SyscallEntry { nr: slot(number), arg0: format.first_own(number), raw: false }
                } else {
                    Plan::SyscallExit { nr: slot(number), ret: slot("ret"), raw: false }
                }
            }
            ("exceptions", "page_fault_user") => Plan::PageFault { address: slot("address") },
            ("workqueue", "workqueue_queue_work") => Plan::Work { item: slot("work"), step: WorkStep::Queued },
            ("workqueue", "workqueue_execute_start") => Plan::Work { item: slot("work"), step: WorkStep::Begun },
            ("workqueue", "workqueue_execute_end") => Plan::Work { item: slot("work"), step: WorkStep::Ended },
            _ => Plan::Unknown,
        }
    }

    /// What an event says that stands by itself.
    fn fact<'e>(&self, order: Order, event: &'e [u8]) -> Option<Raw<'e>> {
        let number = |slot: Slot| slot.number(order, event);
        Some(match self {
            Plan::IrqEntry { irq, name } => Raw::IrqEntry { irq: number(*irq) as u32, name: name.text(order, event) },
            Plan::IrqExit { irq, ret } => {
                Raw::IrqExit { irq: number(*irq) as u32, wakes_thread: number(*ret) & raw::IRQ_WAKE_THREAD != 0 }
            }
            Plan::Vector { vector, is_call, entry: true } => {
                Raw::VectorEntry { vector: number(*vector) as u8, is_call: *is_call }
            }
            Plan::Vector { vector, is_call, entry: false } => {
                Raw::VectorExit { vector: number(*vector) as u8, is_call: *is_call }
            }
            Plan::Softirq { vector, entry: true } => Raw::SoftirqEntry { vector: number(*vector) as u8 },
            Plan::Softirq { vector, entry: false } => Raw::SoftirqExit { vector: number(*vector) as u8 },
            Plan::Timer { entry: true } => Raw::TimerEntry,
            Plan::Timer { entry: false } => Raw::TimerExit,
            Plan::Block { device, sector, bytes, sectors, flags, done } => {
                let bytes = if bytes.is_there() { number(*bytes) } else { number(*sectors) * 512 };
                let block = Block {
                    device: number(*device) as u32,
                    sector: number(*sector),
                    bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                    write: flags.text(order, event).contains(&b'W'),
                };
                if *done { Raw::BlockDone(block) } else { Raw::BlockIssue(block) }
            }
            Plan::PageFault { address } => Raw::PageFault { address: number(*address) },
            Plan::Work { item, step } => Raw::Work { item: number(*item), step: *step },
            _ => return None,
        })
    }
}

/// Which bit of `prev_state` is which state, from the pairs `{ 0x0001, "S" }` that the kernel prints them by; bits
/// that are not there (the mark of a preempted task among them) are no state.
fn states(print: &str) -> Vec<(u64, u16)> {
    let mut found = Vec::new();
    for pair in print.split('{').skip(1) {
        let Some((bit, letter)) = pair.split_once('}').and_then(|p| p.0.split_once(',')) else { continue };
        let bit = bit.trim();
        let bit = match bit.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => bit.parse(),
        };
        let letter = letter.trim().trim_matches('"').chars().next();
        if let (Ok(bit), Some(letter)) = (bit, letter) {
            found.extend(STATES.iter().filter(|s| s.0 == letter).map(|s| (bit, s.1)));
        }
    }
    if found.is_empty() { STATES_SINCE_4_14.to_vec() } else { found }
}

/// In whose name an event was noted, where its container says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    /// Current thread, 0 where not known.
    pub tid: u32,
    /// Its process, 0 where not known.
    pub tgid: u32,
}

impl Context {
    /// `task` with its process, if it is the current one.
    fn fill<'a>(self, task: Task<'a>) -> Task<'a> {
        if task.tid != 0 && task.tid == self.tid { Task { tgid: self.tgid, ..task } } else { task }
    }
}

/// The tracepoints of one file, and what must be remembered between their events.
#[derive(Clone, Debug)]
pub(super) struct Tracepoints {
    order: Order,
    /// Names (`sched:sched_switch`), plans and counts, in the order in which they came.
    points: Vec<(String, Plan, u64)>,
    /// The field that names the current thread, the same in all events.
    current: Slot,
    /// Current thread of each processor and one, as far as events told; 0 = not known.
    running: Vec<u32>,
    /// Of each id its index and one; 0 = not known.
    by_id: Vec<u32>,
    /// Events of ids that the file does not lay out.
    unknown: BTreeMap<u16, u64>,
    /// Process of tasks that were just made, until `sched_process_fork` names the parent.
    births: FxHashMap<u32, u32>,
    /// Whether `sched_process_fork`, `sched_process_exec`, `sched_process_exit` and `raw_syscalls` were met.
    pub forks: bool,
    pub execs: bool,
    pub exits: bool,
    raw_syscalls: bool,
    /// Whose system call numbers they are.
    pub numbers: Numbers,
}

/// By which machine's table system calls are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    X86,
    Aarch64,
    /// By one that is not known.
    Other,
}

impl Numbers {
    /// Of a machine as its kernel calls it.
    pub fn of(arch: &str) -> Numbers {
        match arch {
            "x86_64" => Numbers::X86,
            "aarch64" => Numbers::Aarch64,
            _ => Numbers::Other,
        }
    }

    /// The number by which rows know the call.
    fn recorded(self, number: u64) -> Option<u16> {
        match self {
            Numbers::X86 => u16::try_from(number).ok(),
            Numbers::Aarch64 => {
                let recorded = i64::try_from(number).map(calls::recorded_of_aarch64);
                recorded.ok().filter(|&recorded| recorded != NO_SYSCALL)
            }
            Numbers::Other => None,
        }
    }
}

impl Tracepoints {
    /// None yet.
    pub fn new(order: Order) -> Tracepoints {
        Tracepoints {
            order,
            points: Vec::new(),
            current: Slot::default(),
            running: Vec::new(),
            by_id: Vec::new(),
            unknown: BTreeMap::new(),
            births: FxHashMap::default(),
            forks: false,
            execs: false,
            exits: false,
            raw_syscalls: false,
            numbers: Numbers::X86,
        }
    }

    /// Adds a format; the first of an id counts.
    pub fn add(&mut self, format: &Format) {
        let id = usize::from(format.id);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, 0);
        }
        if self.by_id[id] == 0 {
            self.current = format.slot("common_pid");
            self.points.push((format!("{}:{}", format.system, format.name), Plan::of(format), 0));
            self.by_id[id] = self.points.len() as u32;
        }
    }

    /// Whether any event can be read.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    fn index(&self, id: u16) -> Option<usize> {
        self.by_id.get(usize::from(id)).and_then(|i| (*i as usize).checked_sub(1))
    }

    /// Events by name; of unlaid-out ids as `tracepoint:ID`. Events that never came are left out.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (name, _, count) in self.points.iter().filter(|p| p.2 > 0) {
            *counts.entry(name.clone()).or_default() += count;
        }
        counts.extend(self.unknown.iter().map(|(id, count)| (format!("tracepoint:{id}"), *count)));
        counts
    }

    /// Remembers a new task's process for its fork event.
    pub fn born(&mut self, tid: u32, tgid: u32) {
        remember(&mut self.births, tid, tgid);
    }

    /// Counts one event and gives what it says to `sink`. `false` where its id is not laid out.
    pub fn event(&mut self, at: MonoNs, cpu: u16, current: Context, event: &[u8], sink: &mut impl RawSink) -> bool {
        let order = self.order;
        let Some(id) = order.u16(event, 0) else { return false };
        let Some(index) = self.index(id) else {
            *self.unknown.entry(id).or_default() += 1;
            return false;
        };
        self.points[index].2 += 1;
        self.look_at_current(at, cpu, current, event, sink);
        if let Some(fact) = self.fact(index, cpu, current, event) {
            sink.event(at, cpu, &fact);
        }
        true
    }

    /// Tells who is current on a processor, where the event names somebody else than the one before.
    fn look_at_current(&mut self, at: MonoNs, cpu: u16, current: Context, event: &[u8], sink: &mut impl RawSink) {
        if !self.current.is_there() {
            return;
        }
        let tid = self.current.number(self.order, event) as u32;
        let cpu_index = usize::from(cpu);
        if cpu_index >= self.running.len() {
            self.running.resize(cpu_index + 1, 0);
        }
        if self.running[cpu_index] != tid.wrapping_add(1) {
            self.running[cpu_index] = tid.wrapping_add(1);
            let task = current.fill(Task { tid, ..Task::default() });
            sink.event(at, cpu, &Raw::Current { task });
        }
    }

    /// What an event says, and what it says of later ones.
    fn fact<'e>(&mut self, index: usize, cpu: u16, current: Context, event: &'e [u8]) -> Option<Raw<'e>> {
        let (order, numbers) = (self.order, self.numbers);
        let number = |slot: Slot| slot.number(order, event);
        let syscall = |slot: Slot| numbers.recorded(number(slot));
        Some(match &self.points[index].1 {
            Plan::Unknown => return None,
            Plan::Switch { prev, state, states, next } => {
                let bits = number(*state);
                if let Some(running) = self.running.get_mut(usize::from(cpu)) {
                    *running = (number(next.tid) as u32).wrapping_add(1);
                }
                Raw::Switch {
                    prev: current.fill(prev.task(order, event)),
                    prev_state: states.iter().filter(|s| bits & s.0 != 0).fold(0, |all, s| all | s.1),
                    next: next.task(order, event),
                }
            }
            Plan::Waking(who) => Raw::Waking { task: who.task(order, event) },
            Plan::Wakeup { who, target_cpu } => Raw::Wakeup {
                task: who.task(order, event),
                target_cpu: target_cpu.is_there().then(|| number(*target_cpu) as u16),
            },
            Plan::WakeupNew(who) => Raw::WakeupNew { task: who.task(order, event) },
            Plan::Fork { parent, child } => {
                self.forks = true;
                let mut child = child.task(order, event);
                child.tgid = self.births.remove(&child.tid).unwrap_or(0);
                Raw::Fork { parent: current.fill(parent.task(order, event)), child }
            }
            Plan::NewTask { child, flags, parent } => {
                let mut child = child.task(order, event);
                let parent = current.fill(Task { tid: number(*parent) as u32, ..Task::default() });
                child.tgid = if number(*flags) & CLONE_THREAD == 0 { child.tid } else { parent.tgid };
                if self.forks {
                    remember(&mut self.births, child.tid, child.tgid);
                    return None;
                }
                Raw::Fork { parent, child }
            }
            Plan::Exec { tid, old_tid, filename } => {
                self.execs = true;
                let task = current.fill(Task { tid: number(*tid) as u32, ..Task::default() });
                Raw::Exec { task, old_tid: number(*old_tid) as u32, filename: filename.text(order, event) }
            }
            Plan::Exit(who) => {
                self.exits = true;
                Raw::Exit { task: current.fill(who.task(order, event)) }
            }
            Plan::Name(who) => Raw::Name { task: current.fill(who.task(order, event)) },
            // where both kinds were traced, the raw ones say it all
            Plan::SyscallEntry { raw: false, .. } | Plan::SyscallExit { raw: false, .. } if self.raw_syscalls => {
                return None;
            }
            Plan::SyscallEntry { nr, arg0, raw } => {
                let event = Raw::SyscallEntry { nr: syscall(*nr), arg0: number(*arg0) };
                self.raw_syscalls |= *raw;
                event
            }
            Plan::SyscallExit { nr, ret, raw } => {
                let event = Raw::SyscallExit { nr: syscall(*nr), ret: number(*ret) as i64 };
                self.raw_syscalls |= *raw;
                event
            }
            plan => plan.fact(order, event)?,
        })
    }
}

/// Births that no fork event follows must not pile up.
fn remember(births: &mut FxHashMap<u32, u32>, tid: u32, tgid: u32) {
    if births.len() >= BIRTHS_MAX {
        births.clear();
    }
    births.insert(tid, tgid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_numbers_on_x86_64_whatever_machine_was_traced() {
        // read, and one that aarch64 lacks
        let told = ["x86_64", "aarch64", "riscv64"].map(|arch| [0, 63, 250].map(|n| Numbers::of(arch).recorded(n)));
        assert_eq!(told, [[Some(0), Some(63), Some(250)], [Some(206), Some(0), None], [None; 3]]);
    }

    /// Keeps each event as a line.
    #[derive(Default)]
    struct Kept(Vec<String>);

    impl RawSink for Kept {
        fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
            self.0.push(format!("{} {cpu} {event:?}", at.0));
        }

        fn lost(&mut self, cpu: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
            self.0.push(format!("{} {cpu:?} lost {count} from {}", to.0, from.0));
        }

        fn count(&mut self, defect: &'static str, at: MonoNs) {
            self.0.push(format!("{} defect {defect}", at.0));
        }
    }

    #[test]
    fn takes_states_from_the_letters() {
        let new = r#"{ 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000010, "X" }, { 0x00000080, "I" }) : "R""#;
        assert_eq!(states(new), [(1, 1), (2, 2), (0x10, 0x10), (0x80, 0x402)]);
        // Linux 3.x: other bits, and some that are no state
        let old = r#"{ 1, "S"} , { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }) : "R""#;
        assert_eq!(states(old), [(1, 1), (16, 0x20), (32, 0x10), (64, 0x10)]);
        assert_eq!(states("no table"), STATES_SINCE_4_14);
    }

    fn format(system: &str, name: &str, id: u16, fields: &str) -> Format {
        Format::parse(system, &format!("name: {name}\nID: {id}\nformat:\n{fields}")).unwrap()
    }

    #[test]
    fn a_preempted_task_has_no_state_and_the_current_one_its_process() {
        let mut points = Tracepoints::new(Order::Little);
        points.add(&format(
            "sched",
            "sched_switch",
            7,
            "field:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\nfield:long prev_state;\toffset:16;\tsize:8;\tsigned:1;\n\
             field:pid_t next_pid;\toffset:24;\tsize:4;\tsigned:1;\n",
        ));
        let mut event = [0; 28];
        event[0] = 7;
        event[8] = 5;
        event[24] = 6;
        let mut sink = Kept::default();
        for state in [0x100u64, 0, 0x402, 0x81] {
            event[16..24].copy_from_slice(&state.to_le_bytes());
            assert!(points.event(MonoNs(1), 0, Context { tid: 5, tgid: 4 }, &event, &mut sink));
        }
        let states: Vec<&str> = sink.0.iter().map(|l| l.split("prev_state: ").nth(1).unwrap()).collect();
        assert!(states[0].starts_with("0,") && states[1].starts_with("0,"), "{states:?}");
        assert!(states[2].starts_with("2,") && states[3].starts_with("1027,"), "{states:?}");
        assert!(sink.0[0].contains("tid: 5, tgid: 4"), "{}", sink.0[0]);
        assert_eq!(points.counts(), BTreeMap::from([("sched:sched_switch".to_owned(), 4)]));
    }

    #[test]
    fn a_fork_is_told_once_with_its_process() {
        let mut points = Tracepoints::new(Order::Little);
        let pid = "field:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\nfield:u64 clone_flags;\toffset:16;\tsize:8;\tsigned:0;\n\
                   field:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
        points.add(&format("task", "task_newtask", 1, pid));
        let fork = "field:pid_t parent_pid;\toffset:4;\tsize:4;\tsigned:1;\nfield:pid_t child_pid;\toffset:8;\tsize:4;\tsigned:1;\n";
        points.add(&format("sched", "sched_process_fork", 2, fork));
        let mut event = [0; 24];
        (event[4], event[8]) = (3, 9);
        let mut sink = Kept::default();
        points.forks = true;
        for id in [1, 2] {
            event[0] = id;
            points.event(MonoNs(1), 0, Context::default(), &event, &mut sink);
        }
        assert_eq!(sink.0.len(), 1);
        assert!(sink.0[0].contains("child: Task { tid: 9, tgid: 9"), "{}", sink.0[0]);
    }

    #[test]
    fn an_id_without_layout_is_counted() {
        let mut points = Tracepoints::new(Order::Big);
        assert!(!points.event(MonoNs(1), 0, Context::default(), &[1, 2, 3], &mut Kept::default()));
        assert_eq!(points.counts(), BTreeMap::from([("tracepoint:258".to_owned(), 1)]));
    }
}
