//! What the index keeps of each table, and by what it is found.

use super::sort::{Key, Keyed};
use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    EndedBy, FaultRow, LimitRow, OpKind, OpRow, PacketRow, ParkRow, PollRow, RanRow, RangeHow, ResentRow, Side,
    TaskRow, TcpState, WaitRow,
};

fn task(t: TaskId) -> u64 {
    u64::from(t.0)
}

/// Waits by task, then by begin; of one wait the row that knows most (written last) stands last.
impl Keyed for WaitRow {
    fn key(&self) -> Key {
        (task(self.task), self.blocked.0, self.at.0)
    }
}

/// Operations by task and return.
impl Keyed for OpRow {
    fn key(&self) -> Key {
        (task(self.task), self.at.0, self.entry.0)
    }
}

/// Waits of logical tasks inside their program, by task and end.
impl Keyed for ParkRow {
    fn key(&self) -> Key {
        (task(self.task), self.at.0, self.blocked.0)
    }
}

/// Samples of whose work a thread did, by thread and time.
impl Keyed for RanRow {
    fn key(&self) -> Key {
        (task(self.task), self.at.0, self.key)
    }
}

/// Polls by task and return.
impl Keyed for PollRow {
    fn key(&self) -> Key {
        (task(self.task), self.at.0, self.entry.0)
    }
}

/// Page faults by task and end.
impl Keyed for FaultRow {
    fn key(&self) -> Key {
        (task(self.task), self.at.0, self.began.0)
    }
}

/// Lives by task and time.
impl Keyed for TaskRow {
    fn key(&self) -> Key {
        (task(self.task), self.at.0, self.what as u64)
    }
}

/// Bounds of endpoints, by endpoint and time.
impl Keyed for LimitRow {
    fn key(&self) -> Key {
        (self.flow.0, self.at.0, 0)
    }
}

/// What was sent once more, by endpoint and time.
impl Keyed for ResentRow {
    fn key(&self) -> Key {
        (self.flow.0, self.at.0, u64::from(self.seq))
    }
}

/// Packets of a host by their number.
impl Keyed for PacketRow {
    fn key(&self) -> Key {
        (self.id, self.at.0, 0)
    }
}

/// What left an endpoint or came to it: a send, a read, or that it connected, was accepted, closed or shut down.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, NoUninit, CheckedBitPattern)]
pub struct Left {
    /// The endpoint.
    pub flow: EndpointId,
    /// First byte sent or read.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// When the call was entered.
    pub entry: MonoNs,
    /// When it returned.
    pub at: MonoNs,
    /// Who.
    pub task: TaskId,
    /// What it did.
    pub kind: OpKind,
    /// How its byte range is known.
    pub range: RangeHow,
    /// Of a send, for what TCP kept bytes of it back: one of `rows::held`, 0 = for nothing.
    pub held: u16,
}

/// What somebody asked for on a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Asked {
    /// The endpoint of who was asked.
    pub flow: EndpointId,
    /// When the message's head had been read.
    pub at: MonoNs,
    /// `MessageRow::protocol`.
    pub protocol: StrId,
    /// `MessageRow::verb`.
    pub verb: StrId,
    /// `MessageRow::target`.
    pub target: StrId,
    /// Zero.
    pub pad: u32,
}

impl Keyed for Asked {
    fn key(&self) -> Key {
        (self.flow.0, self.at.0, 0)
    }
}

/// A futex on which tasks waited as CPython's do for its interpreter lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Interpreter {
    /// Where it is: the word without the bits that tell a condition's groups of waiters apart.
    pub futex: u64,
}

impl Interpreter {
    /// The lock to which a futex belongs: glibc's conditions have two words, beside each other, on which tasks wait by turns.
    pub fn of(w: &WaitRow) -> Interpreter {
        Interpreter { futex: w.arg0 & !7 }
    }
}

impl Keyed for Interpreter {
    fn key(&self) -> Key {
        (self.futex, 0, 0)
    }
}

/// A task went on from a futex that another task let it have.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Got {
    /// Where the futex is, as [`Interpreter::futex`].
    pub futex: u64,
    /// When.
    pub at: MonoNs,
    /// Which task.
    pub task: TaskId,
    /// Zero.
    pub pad: u32,
}

impl Keyed for Got {
    fn key(&self) -> Key {
        (self.futex, self.at.0, 0)
    }
}

/// A text that rows name, once.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Word {
    /// Its id.
    pub id: StrId,
    /// Zero.
    pub pad: u32,
}

impl Keyed for Word {
    fn key(&self) -> Key {
        (u64::from(self.id.0), 0, 0)
    }
}

/// Kind and place in the stream as one number, in this order.
pub(super) fn place(kind: OpKind, end: u64) -> u64 {
    const PLACES: u64 = (1 << 60) - 1;
    ((kind as u64) << 60) | end.min(PLACES)
}

/// By endpoint and kind, then by place in the stream, then by time.
impl Keyed for Left {
    fn key(&self) -> Key {
        (self.flow.0, place(self.kind, self.end), self.entry.0)
    }
}

/// Who came onto a processor, and when.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Came {
    /// When.
    pub at: MonoNs,
    /// When it left again, where that is known besides its waits; else 0.
    pub left: MonoNs,
    /// Who.
    pub task: TaskId,
    /// The processor.
    pub cpu: u32,
}

/// By processor and time; of what is told twice, what knows of the longer stay stands last.
impl Keyed for Came {
    fn key(&self) -> Key {
        (u64::from(self.cpu), self.at.0, self.left.0)
    }
}

/// A packet that left a host, by what is the same of it on all hosts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Sent {
    /// `PacketRow::key`.
    pub key: u64,
    /// Its number on the host that sent it.
    pub id: u64,
    /// When, by that host's clock.
    pub at: MonoNs,
    /// That host.
    pub host: u64,
}

impl Keyed for Sent {
    fn key(&self) -> Key {
        (self.key, self.host, self.at.0)
    }
}

/// How often CPython asks for its interpreter lock (`sys.getswitchinterval`), with what a timer may be late (ns).
const SWITCH_INTERVAL_NS: std::ops::Range<u64> = 4_900_000..6_000_000;

/// Whether a wait was in futex(2).
pub fn is_futex(w: &WaitRow) -> bool {
    // futex, futex_waitv, futex_wait of x86-64
    matches!(w.syscall, 202 | 449 | 455)
}

/// Whether a wait ended as CPython's for its interpreter lock do, which asks for it every 5 ms.
pub fn is_for_an_interpreter(w: &WaitRow) -> bool {
    let took_ns = w.woken.0.saturating_sub(w.blocked.0);
    w.cause == EndedBy::Timer && is_futex(w) && SWITCH_INTERVAL_NS.contains(&took_ns)
}

/// An endpoint, and the other end where it is known.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, NoUninit, CheckedBitPattern)]
pub struct End {
    /// The endpoint.
    pub flow: EndpointId,
    /// The other end, 0 where not known.
    pub peer: EndpointId,
    /// Remote address.
    pub raddr: [u8; 16],
    /// The other end's host.
    pub peer_host: u16,
    /// Local port.
    pub lport: u16,
    /// Remote port.
    pub rport: u16,
    /// Address family.
    pub family: u16,
    /// IP protocol.
    pub protocol: u16,
    /// 0 no other end known, 1 by addresses, 2 by sequence numbers alone, 3 UNIX peers.
    pub how: u16,
    /// TCP state when it was announced.
    pub state: TcpState,
    /// Which end it is.
    pub side: Side,
    /// Zero.
    pub pad: [u8; 2],
    /// Who had it when it was announced, 0 where not known.
    pub task: TaskId,
    /// Network namespace, 0 where not known.
    pub netns: u32,
}

impl End {
    /// Whether datagrams go through it.
    pub fn is_of_datagrams(&self) -> bool {
        self.protocol == DATAGRAMS
    }
}

/// By endpoint; what knows its other end stands last.
impl Keyed for End {
    fn key(&self) -> Key {
        (self.flow.0, u64::from(self.how), 0)
    }
}

/// The IP protocol of datagrams (UDP).
pub(super) const DATAGRAMS: u16 = 17;

/// A socket that listens, or one of datagrams that is bound and takes them from anybody.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Listener {
    /// Its endpoint.
    pub flow: EndpointId,
    /// Its address, zero = any.
    pub laddr: [u8; 16],
    /// A task of a process that holds it, where known.
    pub task: TaskId,
    /// Network namespace.
    pub netns: u32,
    /// Its port.
    pub port: u16,
    /// Address family.
    pub family: u16,
    /// IP protocol.
    pub protocol: u16,
    /// Zero.
    pub pad: u16,
}

/// Listeners by port, then by endpoint; what knows its task stands last.
impl Keyed for Listener {
    fn key(&self) -> Key {
        (u64::from(self.port), self.flow.0, u64::from(self.task != TaskId::UNKNOWN))
    }
}

/// A packet of a host by its flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct OfFlow {
    /// `PacketRow::flow`, not 0.
    pub flow: u64,
    /// When.
    pub at: MonoNs,
    /// Its number.
    pub id: u64,
}

impl Keyed for OfFlow {
    fn key(&self) -> Key {
        (self.flow, self.at.0, self.id)
    }
}
