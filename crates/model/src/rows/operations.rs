//! What tasks do on flows: operations, polls, and the inputs that the library vantage hands over.

use super::Strength;
use crate::ids::{EndpointId, MonoNs, TaskId};
use crate::{codes, table};
codes! {
    /// Operation kinds.
    OpKind(u8) {
        /// Bytes sent or written.
        Send = 1 => "send",
        /// Bytes received or read; an empty range is the end of the stream.
        Recv = 2 => "recv",
        /// A connection accepted.
        Accept = 3 => "accept",
        /// A connect call.
        Connect = 4 => "connect",
        /// A descriptor closed.
        Close = 5 => "close",
        /// A direction shut down.
        Shutdown = 6 => "shutdown",
    }
}

codes! {
    /// How an operation's byte range is known.
    RangeHow(u8) {
        /// No bytes moved.
        None = 0 => "none",
        /// Sequence numbers that chain to the flow's previous end.
        Exact = 1 => "exact",
        /// The end is the kernel's number but does not chain: something between was not seen.
        Gap = 2 => "gap",
        /// The kernel's number was moved by another thread meanwhile: the range overlaps a neighbour's.
        Overlap = 3 => "overlap",
        /// Counted from the first operation seen, not a number of the flow itself.
        Counted = 4 => "counted",
    }
}

/// Bits of [`OpRow::flags`]; the numbers are the wire room's `OPF_…`.
pub mod op_flag {
    /// The flow changed its direction with this operation.
    pub const TURN: u16 = 8;
    /// A read left bytes behind.
    pub const MORE: u16 = 32;
    /// io_uring carried it.
    pub const IO_URING: u16 = 64;
    /// A shutdown of the direction in which it sends.
    pub const SHUT_WRITE: u16 = 512;
    /// All of them, and one of [`held`](super::super::held).
    pub const ALL: u16 = TURN | MORE | IO_URING | SHUT_WRITE | crate::rows::held::BITS;
}

/// Bytes of a send whose `entry` is never later than its first byte left.
pub const SENT_AT_ONCE: u32 = 65536;

table! {
    /// One operation of a task on a flow.
    OpRow {
        /// When it returned.
        at: MonoNs,
        /// When it was entered, or of a send when its first byte may have left; equal to `at` if neither is known. Of a send of more
        /// than [`SENT_AT_ONCE`] bytes, the first may have left earlier.
        entry: MonoNs => near().named("entry_ns"),
        /// When the first byte that it read reached the host, 0 where not known.
        arrived: MonoNs => near().named("arrived_ns").none(0),
        /// The endpoint.
        flow: EndpointId,
        /// First byte moved: an unwrapped sequence number or count of this direction.
        start: u64 => named("start_byte"),
        /// One past the last byte moved.
        end: u64 => beyond().named("end_byte"),
        /// Who.
        task: TaskId,
        /// Bytes moved, or a negative error number.
        result: i32,
        /// Which call it was.
        kind: OpKind,
        /// How its byte range is known.
        range: RangeHow,
        /// Bits of [`op_flag`]: 8 turn, 32 more unread, 64 io_uring, 512 shut for sending; and at 0xe000 one of [`held`].
        flags: u16,
        /// System call number.
        syscall: u16,
        /// Processor.
        cpu: u16,
        /// The logical task (goroutine, asyncio task, virtual thread) in whose name `task` did it, 0 = none is known.
        logical: TaskId => none(0),
        /// How it is known that it was that logical task.
        logical_strength: Strength,
        /// Zero.
        pad: [u8; 3],
    }
}

table! {
    /// One return from poll, select or epoll.
    PollRow {
        /// When it returned.
        at: MonoNs,
        /// When it was entered, or first slept; equal to `at` if it did not sleep and nothing saw it begin.
        entry: MonoNs => near().named("entry_ns"),
        /// The timeout given, in ns; all ones = none.
        timeout_ns: u64 => next(),
        /// Who.
        task: TaskId,
        /// Ready descriptors, 0 = timeout, negative = error.
        ready: i32,
        /// The epoll descriptor, or -1.
        fd: i32,
        /// The logical task in whose name `task` waited, 0 = none is known.
        logical: TaskId => none(0),
    }
}

impl OpRow {
    /// In whose name it was done, to all that asks who serves whom: the logical task where one is known, else the thread.
    pub fn actor(&self) -> TaskId {
        if self.logical == TaskId::UNKNOWN { self.task } else { self.logical }
    }
}

impl PollRow {
    /// In whose name was waited: see [`OpRow::actor`].
    pub fn actor(&self) -> TaskId {
        if self.logical == TaskId::UNKNOWN { self.task } else { self.logical }
    }
}

codes! {
    /// What an input was: [`InputRow::kind`].
    InputKind(u8) {
        /// Data, a connection or an end of stream can be taken from the flow.
        Read = 1 => "read",
        /// The flow can be written to, or its connect is complete.
        Write = 2 => "write",
        /// No flow: a timer, an eventfd, a signal, a file.
        Other = 3 => "other",
        /// No input: the process goes on with something else than what it was given last.
        Else = 4 => "else",
    }
}

table! {
    /// One input that poll, select or epoll handed to a task under the library vantage. Until the task's next row of this
    /// table or of `polls` it works on this input alone, where `isolated`.
    InputRow {
        /// When it was handed over.
        at: MonoNs,
        /// On which endpoint; 0 where it is none.
        flow: EndpointId => none(0),
        /// To whom.
        task: TaskId,
        /// The ready descriptor.
        fd: i32,
        /// How many were ready at that moment, as far as was looked.
        ready: u32,
        /// What it was.
        kind: InputKind,
        /// 1: the only input that the task was given. 2: and the whole process had come to rest before, so that what any of
        /// its tasks does is for this input, until the next such row or one of [`InputKind::Else`].
        isolated: u8 => flag(),
        /// Zero.
        pad: [u8; 2],
    }
}
