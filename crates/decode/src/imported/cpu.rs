//! What one processor is doing: its current task, and the interrupts that are stacked upon it.

use super::received::{Received, Waiting};
use crate::raw::Block;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{EndedBy, PacketContext, PacketRow};

/// Softirq vectors with a meaning of their own.
const TIMER: u8 = 1;
const NET_TX: u8 = 2;
const NET_RX: u8 = 3;
const BLOCK: u8 = 4;
const HRTIMER: u8 = 8;

/// Interrupts nest this deep at most; deeper than that, the trace has lost their ends.
const DEPTH_MAX: usize = 8;
/// What an interrupt wakes on its way out follows its end within this time (ns): later, the task it came upon may have.
const WAY_OUT_NS: u64 = 1_000_000;

/// An interrupt that came upon whatever ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Irq(u32),
    /// Of the processor itself, without a line. `is_call`: another processor asked for it.
    Vector {
        vector: u8,
        is_call: bool,
    },
    Softirq(u8),
    Timer,
}

/// An interrupt that has just ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    at: MonoNs,
    kind: Kind,
    /// Of a line's handler: the kernel wakes the line's thread next.
    wakes_thread: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entered {
    kind: Kind,
    /// The block request that was found done in it, as [`block_object`].
    block: Option<u64>,
}

/// Who is on a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Current {
    /// No switch was seen yet, or events were lost since.
    #[default]
    Unknown,
    /// The idle task.
    Idle,
    /// A thread.
    Tid(u32),
}

impl Current {
    /// From an event's thread.
    pub fn of(tid: u32) -> Current {
        if tid == 0 { Current::Idle } else { Current::Tid(tid) }
    }
}

/// One processor.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub current: Current,
    /// Time of its last event.
    pub last: MonoNs,
    /// Whether it had any event.
    pub seen: bool,
    stack: [Option<Entered>; DEPTH_MAX],
    depth: usize,
    /// The last interrupt to end, while nothing else was seen to happen here.
    ended: Option<Ended>,
    /// Whether the current task is a thread of the kernel that may receive packets itself: an interrupt's, NAPI's.
    pub receives_itself: bool,
    /// Packets that the current softirq received, the latest last.
    pub received: Received,
    /// A received datagram without ports: whom it wakes may tell them.
    pub arriving: Option<PacketRow>,
    /// A packet seen at its socket that may yet be seen at the device.
    pub leaving: Option<Waiting>,
}

impl Cpu {
    /// An interrupt begins. A softirq never begins inside another one or inside an interrupt handler: whatever is
    /// stacked then has lost its end.
    pub fn enter(&mut self, kind: Kind) {
        if matches!(kind, Kind::Softirq(_)) {
            self.clear();
        }
        self.ended = None;
        if self.depth == DEPTH_MAX {
            self.stack.rotate_left(1);
            self.depth -= 1;
        }
        self.stack[self.depth] = Some(Entered { kind, block: None });
        self.depth += 1;
    }

    /// An interrupt ends, and with it all that still stands above it. An end without a begin takes nothing away.
    /// `wakes_thread`: of a line whose handler leaves the rest to its thread.
    pub fn exit(&mut self, at: MonoNs, kind: Kind, wakes_thread: bool) {
        self.ended = Some(Ended { at, kind, wakes_thread });
        if let Some(i) = self.stack[..self.depth].iter().rposition(|e| e.is_some_and(|e| e.kind == kind)) {
            self.depth = i;
            if matches!(kind, Kind::Softirq(_)) {
                self.received.clear();
            }
        }
    }

    /// Interrupts are over: a task comes or goes, or it is not known what happened.
    pub fn clear(&mut self) {
        self.depth = 0;
        self.ended = None;
        self.received.clear();
    }

    /// The current task does something of its own: the interrupts before it have been left altogether.
    pub fn task_acts(&mut self) {
        self.ended = None;
    }

    fn top(&self) -> Option<&Entered> {
        self.stack[..self.depth].last().and_then(Option::as_ref)
    }

    /// A request to a disk was found done. In a task's own context nothing is noted: that it was done there says
    /// nothing of what the task wakes afterwards.
    pub fn block_done(&mut self, block: &Block) {
        let top = self.stack[..self.depth].iter_mut().rev().flatten().find(|e| e.kind != Kind::Timer);
        if let Some(e) = top {
            e.block = Some(block_object(block));
        }
    }

    /// Whether a task's own call is what happens, and no interrupt.
    pub fn in_task(&self) -> bool {
        self.depth == 0
    }

    /// Whether another processor asked for what happens.
    pub fn is_called(&self) -> bool {
        self.top().is_some_and(|e| matches!(e.kind, Kind::Vector { is_call: true, .. }))
    }

    /// Whether packets are being received: in the network's softirq, or in a thread that has taken one itself.
    pub fn receives(&self) -> bool {
        match self.top() {
            Some(e) => e.kind == Kind::Softirq(NET_RX),
            None => self.receives_itself && !self.received.is_empty(),
        }
    }

    /// In whose name a packet is handled now: one of [`PacketContext`].
    pub fn packet_context(&self, sent: bool) -> PacketContext {
        match self.top().map(|e| e.kind) {
            None if self.receives() || (self.receives_itself && !sent) => PacketContext::Net,
            None => PacketContext::Task,
            Some(Kind::Softirq(NET_RX | NET_TX)) => PacketContext::Net,
            Some(Kind::Timer | Kind::Softirq(TIMER | HRTIMER)) => PacketContext::Timer,
            Some(_) => PacketContext::Irq,
        }
    }

    /// The cause of waking a thread that serves interrupts, by its name, directly after the end of the one that wakes it
    /// on its way out: a line's thread (`irq/30-eth0`), or this processor's `ksoftirqd/0`, `ktimers/0`, `irq_work/0`.
    pub fn way_out_cause(&self, at: MonoNs, cpu: u16, woken: &[u8]) -> Option<(EndedBy, u64)> {
        let ended = self.ended?;
        let (name, number) = std::str::from_utf8(woken).ok()?.split_once('/')?;
        let is_its = match ended.kind {
            Kind::Irq(irq) if name == "irq" => {
                ended.wakes_thread && number.split_once('-').is_some_and(|n| n.0.parse() == Ok(irq))
            }
            _ => {
                let is_soon = self.current == Current::Idle || at.0.saturating_sub(ended.at.0) <= WAY_OUT_NS;
                matches!(name, "ksoftirqd" | "ktimers" | "ktimersoftd" | "irq_work")
                    && number.parse() == Ok(cpu)
                    && is_soon
            }
        };
        is_its.then(|| ended.kind.cause())
    }

    /// What a wake-up in an interrupt is caused by, one of [`EndedBy`], and what that names; `None` where a task itself
    /// wakes. A received packet is used up by its first wake-up: the next one may be due to what was not seen.
    pub fn waking_cause(&mut self) -> Option<(EndedBy, u64)> {
        if self.receives()
            && let Some(packet) = self.received.claim()
            && self.top().is_none_or(|top| top.block.is_none())
        {
            return Some((EndedBy::Packet, packet));
        }
        let top = self.top()?;
        Some(match top.block {
            Some(object) if top.kind != Kind::Timer => (EndedBy::Block, object),
            _ => top.kind.cause(),
        })
    }
}

impl Kind {
    /// What it says of a wake-up, where nothing more is known: one of [`EndedBy`], and what that names.
    fn cause(self) -> (EndedBy, u64) {
        match self {
            Kind::Timer => (EndedBy::Timer, 0),
            Kind::Irq(irq) => (EndedBy::Irq, u64::from(irq)),
            Kind::Vector { vector, .. } => (EndedBy::Irq, EndedBy::VECTOR | u64::from(vector)),
            // some disk, and nothing says which
            Kind::Softirq(BLOCK) => (EndedBy::Block, 0),
            Kind::Softirq(v @ (TIMER | HRTIMER)) => (EndedBy::Timer, u64::from(v)),
            Kind::Softirq(v @ (NET_RX | NET_TX)) => (EndedBy::Net, u64::from(v)),
            Kind::Softirq(v) => (EndedBy::Softirq, u64::from(v)),
        }
    }
}

/// A request to a disk, as a wait's object names it: the device above, the low half of its first sector below.
fn block_object(block: &Block) -> u64 {
    (u64::from(block.device) << 32 | block.sector & 0xffff_ffff) & !(1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause_of(cpu: &mut Cpu) -> Option<EndedBy> {
        cpu.waking_cause().map(|(c, _)| c)
    }

    #[test]
    fn the_innermost_interrupt_counts() {
        let mut cpu = Cpu::default();
        assert_eq!(cpu.waking_cause(), None);
        cpu.enter(Kind::Softirq(NET_RX));
        cpu.enter(Kind::Irq(30));
        cpu.enter(Kind::Timer);
        assert_eq!(cpu.waking_cause(), Some((EndedBy::Timer, 0)));
        cpu.exit(MonoNs(0), Kind::Timer, false);
        assert_eq!(cpu.waking_cause(), Some((EndedBy::Irq, 30)));
        cpu.exit(MonoNs(0), Kind::Irq(30), false);
        assert_eq!(cpu.waking_cause(), Some((EndedBy::Net, 3)));
        cpu.exit(MonoNs(0), Kind::Softirq(NET_RX), false);
        assert!(cpu.in_task());
    }

    #[test]
    fn ends_and_begins_may_be_missing() {
        let mut cpu = Cpu::default();
        cpu.exit(MonoNs(0), Kind::Irq(1), false);
        assert!(cpu.in_task());
        // the timer's end is missing: the end of what is below it takes it along
        cpu.enter(Kind::Irq(1));
        cpu.enter(Kind::Timer);
        cpu.exit(MonoNs(0), Kind::Irq(1), false);
        assert!(cpu.in_task());
        // the handler's end is missing: softirqs begin upon nothing
        cpu.enter(Kind::Irq(1));
        cpu.enter(Kind::Softirq(7));
        cpu.exit(MonoNs(0), Kind::Softirq(7), false);
        assert!(cpu.in_task());
        for irq in 0..100 {
            cpu.enter(Kind::Irq(irq));
        }
        assert_eq!(cpu.waking_cause(), Some((EndedBy::Irq, 99)));
    }

    #[test]
    fn a_request_that_is_done_explains_what_its_interrupt_wakes() {
        let mut cpu = Cpu::default();
        let done = Block { device: 8 << 20, sector: 0x1_0000_0007, bytes: 4096, write: true };
        cpu.block_done(&done);
        assert_eq!(cpu.waking_cause(), None);
        cpu.enter(Kind::Irq(11));
        cpu.block_done(&done);
        assert_eq!(cpu.waking_cause(), Some((EndedBy::Block, 8 << 52 | 7)));
        cpu.exit(MonoNs(0), Kind::Irq(11), false);
        cpu.enter(Kind::Irq(11));
        assert_eq!(cause_of(&mut cpu), Some(EndedBy::Irq));
        cpu.enter(Kind::Softirq(BLOCK));
        assert_eq!(cpu.waking_cause(), Some((EndedBy::Block, 0)), "no disk is known");
    }
}
