//! Raw events of one host in, the model's rows out: the same wait records that the kernel programs write
//! (`probes/bpf/waits.h`), made from a trace of scheduler events, interrupts and packets.
//!
//! Memory is held for living tasks and for processors alone. Where the trace leaves open what happened (it began in the
//! middle, events were lost, a switch is missing), the wait says that its cause is not known, and a defect is counted.

mod cpu;
mod packets;
mod received;
mod tasks;
mod wakes;

pub use tasks::NO_SYSCALL;

use crate::RowSink;
use crate::raw::{self, Raw, RawSink, STATE_DEAD_OR_PARKED, STATE_GONE, STATE_IDLE, STATE_PARKED};
use cpu::{Cpu, Current, Kind};
use packets::Packets;
use tasks::{Call, Notice, Run, Task, Tasks};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, LossRow, PollRow, WaitRow};

/// Losses remembered, to find those that lie in a wait.
const LOSSES_MAX: usize = 16;
/// Processors that Linux can have (`NR_CPUS` is at most 8192).
const CPUS_MAX: usize = 8192;

/// What was made of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Raw events taken.
    pub events: u64,
    /// Wait rows made, those that go on at the end included.
    pub waits: u64,
    /// Waits that had not ended at the end.
    pub open_waits: u64,
    /// Packet rows made.
    pub packets: u64,
    /// Events that the tracer lost.
    pub lost: u64,
    /// Time of the first event.
    pub first: MonoNs,
    /// Time of the last one.
    pub last: MonoNs,
}

/// Which kinds of events the trace has.
#[derive(Clone, Copy, Debug, Default)]
struct Has {
    switches: bool,
    waking: bool,
    wakeups: bool,
    interrupts: bool,
    timers: bool,
}

/// Makes rows of one host's raw events.
pub struct Importer<S> {
    out: S,
    /// The host's processors, 0 where not known.
    host_cpus: usize,
    /// It has one: who wakes a task is on it.
    has_one_cpu: bool,
    tasks: Tasks,
    cpus: Vec<Cpu>,
    packets: Packets,
    losses: Vec<(MonoNs, MonoNs)>,
    has: Has,
    done: Imported,
}

impl<S: RowSink> Importer<S> {
    /// An importer that pushes its rows into `out`; `cpus`: the host's processors, 0 where not known.
    pub fn new(out: S, cpus: u32) -> Importer<S> {
        Importer {
            out,
            host_cpus: cpus as usize,
            has_one_cpu: cpus == 1,
            tasks: Tasks::default(),
            cpus: Vec::new(),
            packets: Packets::default(),
            losses: Vec::with_capacity(LOSSES_MAX),
            has: Has::default(),
            done: Imported { first: MonoNs(u64::MAX), ..Imported::default() },
        }
    }

    /// Where the rows go.
    pub fn out(&mut self) -> &mut S {
        &mut self.out
    }

    /// How many tasks live, and so are held in memory.
    pub fn task_count(&self) -> usize {
        self.tasks.count()
    }

    /// What was made so far.
    pub fn so_far(&self) -> Imported {
        self.done
    }

    /// Every living task again, for a segment that must stand alone.
    pub fn restate(&mut self) {
        self.tasks.restate(self.done.last, &mut self.out);
    }

    /// Ends the trace: waits that go on become rows, and what the trace lacks becomes defects.
    pub fn finish(mut self) -> (S, Imported) {
        let end = self.done.last;
        for cpu in &mut self.cpus {
            for row in [cpu.arriving.take(), packets::left(cpu)].into_iter().flatten() {
                self.out.push(&row);
            }
        }
        // who was never seen to run may have run on a processor that never switched
        let all_known = self.cpus.iter().all(|c| !c.seen || c.current != Current::Unknown);
        for t in self.tasks.sorted() {
            let since = match t.run {
                Run::On(_) => continue,
                // nothing tells who runs
                _ if !self.has.switches => continue,
                // it ended, and its last switch was not seen
                Run::Unsure(_) if t.exited => continue,
                Run::Off(since) => since,
                Run::Unsure(since) if all_known || t.wake.is_some() => since,
                Run::Unsure(_) => continue,
            };
            let since = since.min(end);
            let row = WaitRow { cause: EndedBy::Open, object: 0, ..closed(t, since, end, 0) };
            if matches!(t.run, Run::Unsure(_)) && t.edge == MonoNs(0) {
                self.out.count(defect::IMPORT_BEGAN_BEFORE, end);
            }
            self.out.push(&row);
            self.done.waits += 1;
            self.done.open_waits += 1;
        }
        self.tell_what_lacks(end);
        self.done.packets = self.packets.count;
        self.done.first = self.done.first.min(end);
        (self.out, self.done)
    }

    /// Kinds of events that the trace has none of, so that answers say less.
    fn tell_what_lacks(&mut self, end: MonoNs) {
        let has = self.has;
        let lacks = [
            (!has.switches && self.done.events > 0, defect::IMPORT_NO_SWITCHES),
            (has.switches && !has.waking && !has.wakeups, defect::IMPORT_NO_WAKEUPS),
            (has.wakeups && !has.waking && !self.has_one_cpu, defect::IMPORT_NO_WAKING),
            (has.switches && self.cpus.iter().filter(|c| c.seen).count() < self.host_cpus, defect::IMPORT_SOME_CPUS),
            (has.switches && !has.interrupts, defect::IMPORT_NO_INTERRUPTS),
            (has.switches && !has.timers, defect::IMPORT_NO_TIMERS),
        ];
        for (_, id) in lacks.into_iter().filter(|l| l.0) {
            self.out.count(id, end);
        }
    }

    fn switch(&mut self, at: MonoNs, cpu: u16, prev: raw::Task<'_>, prev_state: u16, next: raw::Task<'_>) {
        self.has.switches = true;
        let begin = self.done.first;
        let c = &mut self.cpus[usize::from(cpu)];
        c.clear();
        for row in [c.arriving.take(), packets::left(c)].into_iter().flatten() {
            self.out.push(&row);
        }
        let (was, last) = (c.current, c.last);
        c.current = Current::of(next.tid);
        if let Current::Tid(tid) = was
            && tid != prev.tid
            && let Some(t) = self.tasks.get(tid)
            && t.run == Run::On(cpu)
        {
            // it left this processor without being seen: after its last event here
            t.forget(last);
            self.out.count(defect::IMPORT_SWITCH_UNSEEN, at);
        }
        if prev.tid == next.tid {
            return;
        }
        // whoever comes is met first, since it may be who preempts
        let by = self.tasks.meet(at, begin, next, &mut self.out).map_or(TaskId::UNKNOWN, |t| t.id());
        self.leave(at, cpu, prev, prev_state, by);
        if by != TaskId::UNKNOWN {
            self.arrive(at, cpu, next.tid);
        }
        self.looks_at(cpu);
    }

    /// Notes what the current task may do that others do not.
    fn looks_at(&mut self, cpu: u16) {
        let receives = self.current(cpu).is_some_and(|t| t.receives_itself());
        self.cpus[usize::from(cpu)].receives_itself = receives;
    }

    /// A task stops running.
    fn leave(&mut self, at: MonoNs, cpu: u16, prev: raw::Task<'_>, state: u16, by: TaskId) {
        let begin = self.done.first;
        let Some(t) = self.tasks.meet(at, begin, prev, &mut self.out) else { return };
        match t.run {
            Run::On(c) if c != cpu => {
                // it was seen to come elsewhere in the meantime: this end is late
                self.out.count(defect::IMPORT_SWITCH_UNSEEN, at);
                return;
            }
            Run::On(_) | Run::Unsure(_) => {}
            Run::Off(since) => {
                // it ran, and nobody saw since when
                let at = at.max(since);
                self.out.count(defect::IMPORT_SWITCH_UNSEEN, at);
                let row = unknown(closed(t, since, at, cpu));
                self.out.push(&row);
                self.done.waits += 1;
                t.edge = at;
                t.wake = None;
            }
        }
        // who has ended is neither parked nor idle: then these bits are those of a dead task on another kernel
        let is_either = state & STATE_DEAD_OR_PARKED == STATE_DEAD_OR_PARKED && !t.is_kernel();
        if state & STATE_GONE != 0 || is_either || (t.exited && state & (STATE_PARKED | STATE_IDLE) != 0) {
            self.tasks.exit(at, prev.tid, &mut self.out);
            self.tasks.remove(prev.tid);
            return;
        }
        t.run = Run::Off(at.max(t.edge));
        t.state = if state == STATE_DEAD_OR_PARKED { STATE_PARKED } else { state };
        (t.syscall, t.arg0, t.by) = (NO_SYSCALL, 0, TaskId::UNKNOWN);
        if state == 0 {
            t.by = by;
            t.wake = None;
        } else if let Some(call) = t.call {
            (t.syscall, t.arg0) = (call.nr, call.arg0);
        } else if !t.is_kernel() {
            t.arg0 = t.fault;
        }
    }

    /// An interrupt begins or ends.
    fn interrupt(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        if matches!(event, Raw::SoftirqEntry { .. } | Raw::SoftirqExit { .. }) {
            self.arrived(cpu);
        }
        let (has, c) = (&mut self.has, &mut self.cpus[usize::from(cpu)]);
        match *event {
            Raw::IrqEntry { irq, .. } => {
                has.interrupts = true;
                c.enter(Kind::Irq(irq));
            }
            Raw::IrqExit { irq, wakes_thread } => c.exit(at, Kind::Irq(irq), wakes_thread),
            Raw::VectorEntry { vector, is_call } => c.enter(Kind::Vector { vector, is_call }),
            Raw::VectorExit { vector, is_call } => c.exit(at, Kind::Vector { vector, is_call }, false),
            Raw::SoftirqEntry { vector } => {
                has.interrupts = true;
                c.enter(Kind::Softirq(vector));
            }
            Raw::SoftirqExit { vector } => c.exit(at, Kind::Softirq(vector), false),
            Raw::TimerEntry => {
                has.timers = true;
                c.enter(Kind::Timer);
            }
            Raw::TimerExit => c.exit(at, Kind::Timer, false),
            _ => {}
        }
    }

    /// A task begins to run: its wait is over.
    fn arrive(&mut self, at: MonoNs, cpu: u16, tid: u32) {
        let Some(t) = self.tasks.get(tid) else { return };
        let (since, seen) = match t.run {
            Run::Off(since) => (since, true),
            Run::Unsure(since) => (since, false),
            Run::On(c) => {
                if c != cpu {
                    self.out.count(defect::IMPORT_SWITCH_UNSEEN, at);
                }
                t.run = Run::On(cpu);
                return;
            }
        };
        let at = at.max(since);
        if !seen && at == since {
            // nothing has passed since nothing is known
            t.run = Run::On(cpu);
            t.edge = at;
            t.wake = None;
            return;
        }
        let mut row = closed(t, since, at, cpu);
        if !seen {
            let is_first = t.edge == MonoNs(0);
            self.out.count(if is_first { defect::IMPORT_BEGAN_BEFORE } else { defect::IMPORT_SWITCH_UNSEEN }, at);
        }
        let within = self.losses.iter().filter(|(from, to)| *from < at && *to > since);
        if let Some(lost_to) = within.map(|l| l.1).max() {
            // a waking that was seen after the loss is this wait's
            let woken = if row.woken >= lost_to { row.woken } else { at };
            row = WaitRow { woken, ..unknown(row) };
            self.out.count(defect::IMPORT_ACROSS_LOSS, at);
        }
        self.out.push(&row);
        self.done.waits += 1;
        t.run = Run::On(cpu);
        t.edge = at;
        t.wake = None;
    }

    fn exec(&mut self, at: MonoNs, cpu: u16, task: raw::Task<'_>, old_tid: u32, filename: &[u8]) {
        let begin = self.done.first;
        self.tasks.meet(at, begin, raw::Task { tid: old_tid, ..raw::Task::default() }, &mut self.out);
        if tasks::is_possible(task.tid) && task.tid != 0 {
            self.tasks.exec(at, task, old_tid, filename, &mut self.out);
            let c = &mut self.cpus[usize::from(cpu)];
            if c.current == Current::Tid(old_tid) {
                c.current = Current::Tid(task.tid);
            }
        }
    }

    /// A task is seen to run. Only asked where no switch has told yet.
    fn present(&mut self, at: MonoNs, cpu: u16, task: raw::Task<'_>) {
        let begin = self.done.first;
        let run = self.tasks.meet(at, begin, task, &mut self.out).map(|t| t.run);
        let c = &mut self.cpus[usize::from(cpu)];
        if c.current != Current::Unknown {
            return;
        }
        c.current = Current::of(task.tid);
        match run {
            Some(Run::Off(_)) => self.arrive(at, cpu, task.tid),
            Some(Run::Unsure(_)) => {
                if let Some(t) = self.tasks.get(task.tid) {
                    t.run = Run::On(cpu);
                    t.wake = None;
                }
            }
            Some(Run::On(_)) | None => {}
        }
        self.looks_at(cpu);
    }

    fn current(&mut self, cpu: u16) -> Option<&mut Task> {
        match self.cpus[usize::from(cpu)].current {
            Current::Tid(tid) => self.tasks.get(tid),
            Current::Idle | Current::Unknown => None,
        }
    }

    fn syscall_exit(&mut self, at: MonoNs, cpu: u16, nr: Option<u16>, ret: i64) {
        let Some(t) = self.current(cpu) else { return };
        t.fault = 0;
        let Some(call) = t.call.take() else { return };
        let nr = if call.nr == NO_SYSCALL { nr.unwrap_or(NO_SYSCALL) } else { call.nr };
        if is_poll(nr) {
            let row = PollRow {
                at: at.max(call.entry),
                entry: call.entry,
                timeout_ns: u64::MAX,
                task: t.id(),
                ready: ret.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
                fd: if is_epoll(nr) { call.arg0 as i32 } else { -1 },
                ..Default::default()
            };
            self.out.push(&row);
        }
    }

    /// A received datagram woke nobody who could tell its ports.
    fn arrived(&mut self, cpu: u16) {
        if let Some(row) = self.cpus[usize::from(cpu)].arriving.take() {
            self.out.push(&row);
        }
    }

    /// The other end of the socket on which the current task's own call works, if the task named it last.
    fn peer(&mut self, cpu: u16) -> Option<raw::Peer> {
        if !self.cpus[usize::from(cpu)].in_task() {
            return None;
        }
        let t = self.current(cpu)?;
        let fd = t.call?.arg0;
        t.peer.filter(|p| u64::from(p.fd) == fd)
    }

    fn packet(&mut self, at: MonoNs, cpu: u16, p: &raw::Packet) {
        self.arrived(cpu);
        let peer = if p.sent { self.peer(cpu) } else { None };
        let c = &mut self.cpus[usize::from(cpu)];
        let task = match c.current {
            Current::Tid(tid) => self.tasks.id(tid),
            Current::Idle | Current::Unknown => TaskId::UNKNOWN,
        };
        for mut row in self.packets.packet(at, cpu, task, c, p).into_iter().flatten() {
            if packets::lacks_ports(&row) {
                if row.sent == 0 {
                    c.arriving = Some(row);
                    continue;
                }
                // key and flow stay as both ends can make them
                row.dport = peer.filter(|p| p.address == row.daddr).map_or(0, |p| p.port);
            }
            self.out.push(&row);
        }
    }

    /// Notes the time of an event, and that its processor is there.
    #[inline]
    fn tick(&mut self, at: MonoNs, cpu: u16) {
        if usize::from(cpu) >= self.cpus.len() {
            self.cpus.resize_with(usize::from(cpu) + 1, Cpu::default);
        }
        self.has_one_cpu &= cpu == 0;
        let c = &mut self.cpus[usize::from(cpu)];
        c.seen = true;
        if at < c.last {
            self.out.count(defect::IMPORT_BACKWARDS, at);
        } else {
            c.last = at;
        }
        if at > self.done.last {
            self.done.last = at;
        }
        if at < self.done.first {
            self.done.first = at;
        }
        self.done.events += 1;
    }
}

impl<S: RowSink> RawSink for Importer<S> {
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        if usize::from(cpu) >= CPUS_MAX || !possible(event) {
            self.out.count(defect::IMPORT_BAD_TASK, at);
            return;
        }
        self.tick(at, cpu);
        if is_of_task(event) {
            self.cpus[usize::from(cpu)].task_acts();
        }
        let begin = self.done.first;
        match *event {
            Raw::Switch { prev, prev_state, next } => self.switch(at, cpu, prev, prev_state, next),
            Raw::Waking { task } => self.wake(at, cpu, task, Notice::Waking),
            Raw::Wakeup { task, target_cpu } => self.wake(at, cpu, task, Notice::Wakeup { target: target_cpu }),
            Raw::WakeupNew { task } => self.wakeup_new(at, cpu, task),
            Raw::Fork { parent, child } => self.fork(at, cpu, parent, child),
            Raw::Exec { task, old_tid, filename } => self.exec(at, cpu, task, old_tid, filename),
            Raw::Exit { task } => {
                self.tasks.meet(at, begin, task, &mut self.out);
                self.tasks.exit(at, task.tid, &mut self.out);
            }
            Raw::Name { task } => {
                self.tasks.meet(at, begin, task, &mut self.out);
            }
            Raw::Current { task } => self.present(at, cpu, task),
            Raw::Alive { task, ppid, kernel } => self.tasks.alive(at, begin, task, ppid, kernel, &mut self.out),
            Raw::IrqEntry { .. }
            | Raw::IrqExit { .. }
            | Raw::VectorEntry { .. }
            | Raw::VectorExit { .. }
            | Raw::SoftirqEntry { .. }
            | Raw::SoftirqExit { .. }
            | Raw::TimerEntry
            | Raw::TimerExit => self.interrupt(at, cpu, event),
            Raw::Packet(ref p) => self.packet(at, cpu, p),
            Raw::BlockDone(ref block) => self.cpus[usize::from(cpu)].block_done(block),
            Raw::SyscallEntry { nr, arg0 } => {
                if let Some(t) = self.current(cpu) {
                    t.call = Some(Call { nr: nr.unwrap_or(NO_SYSCALL), arg0, entry: at });
                    t.fault = 0;
                }
            }
            Raw::Peer(peer) => {
                if let Some(t) = self.current(cpu) {
                    t.peer = Some(peer);
                }
            }
            Raw::SyscallExit { nr, ret } => self.syscall_exit(at, cpu, nr, ret),
            Raw::PageFault { address } => {
                if let Some(t) = self.current(cpu) {
                    t.fault = address;
                }
            }
            // a kworker is woken by who queues the work, which its waking says already
            Raw::BlockIssue(_) | Raw::Work { .. } => {}
        }
    }

    fn lost(&mut self, cpu: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        let to = to.max(from);
        let what = self.out.intern(defect::TRACE_LOST.as_bytes());
        self.out.push(&LossRow { at: to, from, count, what, ..Default::default() });
        self.done.lost = self.done.lost.saturating_add(count);
        if self.losses.len() == LOSSES_MAX {
            self.losses.remove(0);
        }
        self.losses.push((from, to));
        for (i, c) in self.cpus.iter_mut().enumerate() {
            if cpu.is_some_and(|lost| usize::from(lost) != i) {
                continue;
            }
            c.clear();
            if let Current::Tid(tid) = std::mem::take(&mut c.current)
                && let Some(t) = self.tasks.get(tid)
                && t.run == Run::On(i as u16)
            {
                t.forget(from.min(self.done.last));
            }
        }
    }

    fn count(&mut self, defect: &'static str, at: MonoNs) {
        self.out.count(defect, at);
    }
}

/// The wait of a task that ends at `at`, as far as the task itself tells.
fn closed(t: &Task, since: MonoNs, at: MonoNs, cpu: u16) -> WaitRow {
    let mut row = WaitRow {
        at,
        blocked: since,
        woken: since,
        object: 0,
        arg0: t.arg0,
        task: t.id(),
        by: t.by,
        rcv_seq: 0,
        state: t.state,
        syscall: t.syscall,
        cpu,
        woken_cpu: cpu,
        cause: EndedBy::Unknown,
        ..Default::default()
    };
    match t.wake {
        _ if t.state == 0 => row.cause = EndedBy::Preempted,
        Some(w) => {
            // a waking from just before it had left is this one's
            row.woken = w.at.clamp(since, at);
            (row.cause, row.object, row.by, row.woken_cpu) = (w.cause, w.object, w.by, w.cpu);
        }
        // nobody knows since when it could have run
        None => row.woken = at,
    }
    row
}

/// The same interval, of which nothing else is known: the task may even have run.
fn unknown(row: WaitRow) -> WaitRow {
    WaitRow { cause: EndedBy::Unknown, object: 0, by: TaskId::UNKNOWN, woken: row.at, ..row }
}

/// Whether an event shows the current task at something of its own, on its way out of no interrupt any more.
fn is_of_task(event: &Raw<'_>) -> bool {
    matches!(
        event,
        Raw::Fork { .. }
            | Raw::Exec { .. }
            | Raw::Exit { .. }
            | Raw::SyscallEntry { .. }
            | Raw::SyscallExit { .. }
            | Raw::PageFault { .. }
    )
}

/// Whether an event names only threads that can be.
fn possible(event: &Raw<'_>) -> bool {
    let ok = |t: raw::Task<'_>| tasks::is_possible(t.tid);
    match *event {
        Raw::Switch { prev, next, .. } => ok(prev) && ok(next),
        Raw::Fork { parent, child } => ok(parent) && ok(child),
        Raw::Exec { task, old_tid, .. } => ok(task) && tasks::is_possible(old_tid),
        Raw::Alive { task, ppid, .. } => ok(task) && tasks::is_possible(ppid),
        Raw::Waking { task }
        | Raw::Wakeup { task, .. }
        | Raw::WakeupNew { task }
        | Raw::Exit { task }
        | Raw::Name { task }
        | Raw::Current { task } => ok(task),
        _ => true,
    }
}

/// poll, select, pselect6, ppoll, and epoll, by their numbers on x86-64.
fn is_poll(nr: u16) -> bool {
    matches!(nr, 7 | 23 | 270 | 271) || is_epoll(nr)
}

/// epoll_wait, epoll_pwait, epoll_pwait2.
fn is_epoll(nr: u16) -> bool {
    matches!(nr, 232 | 281 | 441)
}
