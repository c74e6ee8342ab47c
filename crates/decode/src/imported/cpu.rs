//! What one processor is doing: its current task, and the interrupts that are stacked upon it.

use super::packets::{Received, Waiting};
use crate::raw::Block;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{PacketRow, cause, context};

/// Softirq vectors with a meaning of their own.
const TIMER: u8 = 1;
const NET_TX: u8 = 2;
const NET_RX: u8 = 3;
const BLOCK: u8 = 4;
const HRTIMER: u8 = 8;

/// Interrupts nest this deep at most; deeper than that, the trace has lost their ends.
const DEPTH_MAX: usize = 8;

/// An interrupt that came upon whatever ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Irq(u32),
    Softirq(u8),
    Timer,
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
        if self.depth == DEPTH_MAX {
            self.stack.rotate_left(1);
            self.depth -= 1;
        }
        self.stack[self.depth] = Some(Entered { kind, block: None });
        self.depth += 1;
    }

    /// An interrupt ends, and with it all that still stands above it. An end without a begin changes nothing.
    pub fn exit(&mut self, kind: Kind) {
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
        self.received.clear();
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

    /// Whether the network's receiving softirq is what happens.
    pub fn receives(&self) -> bool {
        self.top().is_some_and(|e| e.kind == Kind::Softirq(NET_RX))
    }

    /// In whose name a packet is handled now: one of [`context`].
    pub fn packet_context(&self) -> u8 {
        match self.top().map(|e| e.kind) {
            None => context::TASK,
            Some(Kind::Softirq(NET_RX | NET_TX)) => context::NET,
            Some(Kind::Timer | Kind::Softirq(TIMER | HRTIMER)) => context::TIMER,
            Some(_) => context::IRQ,
        }
    }

    /// What a wake-up in an interrupt is caused by, one of [`cause`], and what that names; `None` in a task's own
    /// context. A received packet is used up by its first wake-up: the next one may be due to what was not seen.
    pub fn waking_cause(&mut self) -> Option<(u8, u64)> {
        let top = self.top()?;
        Some(match (top.kind, top.block) {
            (Kind::Timer, _) => (cause::TIMER, 0),
            (_, Some(object)) => (cause::BLOCK, object),
            (Kind::Irq(irq), None) => (cause::IRQ, u64::from(irq)),
            (Kind::Softirq(NET_RX), None) => match self.received.claim() {
                Some(packet) => (cause::PACKET, packet),
                None => (cause::NET, u64::from(NET_RX)),
            },
            (Kind::Softirq(v), None) => {
                let cause = match v {
                    NET_TX => cause::NET,
                    TIMER | HRTIMER => cause::TIMER,
                    BLOCK => cause::BLOCK,
                    _ => cause::SOFTIRQ,
                };
                (cause, u64::from(v))
            }
        })
    }
}

/// A request to a disk, as a wait's object names it: the device above, the low half of its first sector below.
fn block_object(block: &Block) -> u64 {
    (u64::from(block.device) << 32 | block.sector & 0xffff_ffff) & !(1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause_of(cpu: &mut Cpu) -> Option<u8> {
        cpu.waking_cause().map(|(c, _)| c)
    }

    #[test]
    fn the_innermost_interrupt_counts() {
        let mut cpu = Cpu::default();
        assert_eq!(cpu.waking_cause(), None);
        cpu.enter(Kind::Softirq(NET_RX));
        cpu.enter(Kind::Irq(30));
        cpu.enter(Kind::Timer);
        assert_eq!(cpu.waking_cause(), Some((cause::TIMER, 0)));
        cpu.exit(Kind::Timer);
        assert_eq!(cpu.waking_cause(), Some((cause::IRQ, 30)));
        cpu.exit(Kind::Irq(30));
        assert_eq!(cpu.waking_cause(), Some((cause::NET, 3)));
        cpu.exit(Kind::Softirq(NET_RX));
        assert!(cpu.in_task());
    }

    #[test]
    fn ends_and_begins_may_be_missing() {
        let mut cpu = Cpu::default();
        cpu.exit(Kind::Irq(1));
        assert!(cpu.in_task());
        // the timer's end is missing: the end of what is below it takes it along
        cpu.enter(Kind::Irq(1));
        cpu.enter(Kind::Timer);
        cpu.exit(Kind::Irq(1));
        assert!(cpu.in_task());
        // the handler's end is missing: softirqs begin upon nothing
        cpu.enter(Kind::Irq(1));
        cpu.enter(Kind::Softirq(7));
        cpu.exit(Kind::Softirq(7));
        assert!(cpu.in_task());
        for irq in 0..100 {
            cpu.enter(Kind::Irq(irq));
        }
        assert_eq!(cpu.waking_cause(), Some((cause::IRQ, 99)));
    }

    #[test]
    fn a_request_that_is_done_explains_what_its_interrupt_wakes() {
        let mut cpu = Cpu::default();
        let done = Block { device: 8 << 20, sector: 0x1_0000_0007, bytes: 4096, write: true };
        cpu.block_done(&done);
        assert_eq!(cpu.waking_cause(), None);
        cpu.enter(Kind::Irq(11));
        cpu.block_done(&done);
        assert_eq!(cpu.waking_cause(), Some((cause::BLOCK, 8 << 52 | 7)));
        cpu.exit(Kind::Irq(11));
        cpu.enter(Kind::Irq(11));
        assert_eq!(cause_of(&mut cpu), Some(cause::IRQ));
        cpu.enter(Kind::Softirq(BLOCK));
        assert_eq!(cause_of(&mut cpu), Some(cause::BLOCK));
    }
}
