//! The tables: one fixed-size row type each, any bytes a valid value, no padding.
//!
//! A row's time (`Row::at`) is when the recorder knew it; rows of a segment come in that order but for small
//! inversions between processors, which readers must bear.

use crate::ids::{EndpointId, MonoNs, StrId, TaskId};
use bytemuck::{Pod, Zeroable};

mod descriptors;
mod faults;
mod limits;
mod marks;
mod sniffed;

pub use descriptors::{DescriptorRow, ResentRow, descriptor, held};
pub use faults::{FaultRow, NO_OFFSET, access, fault};
pub use limits::{LimitRow, limit};
pub use marks::{MarkRow, mark};
pub use sniffed::{SniffedExchangeRow, SniffedFlowRow, exchange_row, flow_row, side_how};

/// End offset of a message whose end is not known yet.
pub const OPEN: u64 = u64::MAX;

/// What all rows have: a time and a table.
pub trait Row: Pod {
    /// The table's number on disk.
    const TABLE: Table;
    /// When the recorder knew it.
    fn at(&self) -> MonoNs;
}

macro_rules! tables {
    ($($(#[$m:meta])* $name:ident = $n:literal => $row:ident, $file:literal;)*) => {
        /// The tables of a folder; numbers are part of the format and never reused.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Table { $($(#[$m])* $name = $n),* }

        impl Table {
            /// Every table.
            pub const ALL: &'static [Table] = &[$(Table::$name),*];
            /// The table's name: of its Parquet file and in documents.
            pub const fn name(self) -> &'static str { match self { $(Table::$name => $file),* } }
            /// Bytes of one row.
            pub const fn row_bytes(self) -> usize { match self { $(Table::$name => size_of::<$row>()),* } }
            /// From its number on disk.
            pub const fn from_number(n: u8) -> Option<Table> { match n { $($n => Some(Table::$name),)* _ => None } }
        }

        $(impl Row for $row {
            const TABLE: Table = Table::$name;
            fn at(&self) -> MonoNs { self.at }
        })*

        /// A row of any table.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Event { $($(#[$m])* $name($row)),* }

        impl Event {
            /// When the recorder knew it.
            pub fn at(&self) -> MonoNs { match self { $(Event::$name(r) => r.at),* } }
            /// Its table.
            pub fn table(&self) -> Table { match self { $(Event::$name(_) => Table::$name),* } }
            /// The row's bytes.
            pub fn bytes(&self) -> &[u8] { match self { $(Event::$name(r) => bytemuck::bytes_of(r)),* } }
            /// Reads one row of `table` from exactly its bytes.
            pub fn read(table: Table, bytes: &[u8]) -> Option<Event> {
                match table { $(Table::$name => bytemuck::try_pod_read_unaligned(bytes).ok().map(Event::$name)),* }
            }
        }
        $(impl From<$row> for Event { fn from(r: $row) -> Event { Event::$name(r) } })*
    };
}

tables! {
    /// Operations.
    Op = 1 => OpRow, "operations";
    /// Messages.
    Message = 2 => MessageRow, "messages";
    /// Ends of messages that were open when their row was written.
    MessageEnd = 3 => MessageEndRow, "message_ends";
    /// Endpoints of flows.
    Endpoint = 4 => EndpointRow, "endpoints";
    /// Changes of a flow's state.
    FlowState = 5 => FlowStateRow, "flow_states";
    /// Waits.
    Wait = 6 => WaitRow, "waits";
    /// Returns from poll, select, epoll.
    Poll = 7 => PollRow, "polls";
    /// Steps in tasks' lives.
    Task = 8 => TaskRow, "tasks";
    /// What was lost.
    Loss = 9 => LossRow, "losses";
    /// Pairs of monotonic and wall-clock time.
    Anchor = 10 => AnchorRow, "anchors";
    /// What is known of a flow's protocol, or why it is opaque.
    FlowNote = 11 => FlowNoteRow, "flow_notes";
    /// Packets seen by an imported trace.
    Packet = 12 => PacketRow, "packets";
    /// Where in its program a task blocked (only with `--stacks`).
    Stack = 13 => StackRow, "stacks";
    /// Inputs that the library vantage handed over, one at a time.
    Input = 14 => InputRow, "inputs";
    /// Flows that a sniffer saw.
    SniffedFlow = 15 => SniffedFlowRow, "sniffed_flows";
    /// Requests and their replies that a sniffer saw.
    SniffedExchange = 16 => SniffedExchangeRow, "sniffed_exchanges";
    /// Annotations of state machines.
    Mark = 17 => MarkRow, "marks";
    /// What bounds the host, its processes and its flows.
    Limit = 18 => LimitRow, "limits";
    /// Page faults (only with `--faults`).
    Fault = 19 => FaultRow, "faults";
    /// How descriptors' sockets and pipes stood.
    Descriptor = 20 => DescriptorRow, "descriptors";
    /// What TCP sent once more.
    Resent = 21 => ResentRow, "retransmissions";
}

/// Operation kinds.
pub mod op {
    /// Bytes sent or written.
    pub const SEND: u8 = 1;
    /// Bytes received or read; an empty range is the end of the stream.
    pub const RECV: u8 = 2;
    /// A connection accepted.
    pub const ACCEPT: u8 = 3;
    /// A connect call.
    pub const CONNECT: u8 = 4;
    /// A descriptor closed.
    pub const CLOSE: u8 = 5;
    /// A direction shut down.
    pub const SHUTDOWN: u8 = 6;
}

/// How an operation's byte range is known.
pub mod range {
    /// No bytes moved.
    pub const NONE: u8 = 0;
    /// Sequence numbers that chain to the flow's previous end.
    pub const EXACT: u8 = 1;
    /// The end is the kernel's number but does not chain: something between was not seen.
    pub const GAP: u8 = 2;
    /// The kernel's number was moved by another thread meanwhile: the range overlaps a neighbour's.
    pub const OVERLAP: u8 = 3;
    /// Counted from the first operation seen, not a number of the flow itself.
    pub const COUNTED: u8 = 4;
}

/// One operation of a task on a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct OpRow {
    /// When it returned.
    pub at: MonoNs,
    /// When it was entered; equal to `at` where the entry was not seen.
    pub entry: MonoNs,
    /// When the first byte that it read reached the host, 0 where not known.
    pub arrived: MonoNs,
    /// The endpoint.
    pub flow: EndpointId,
    /// First byte moved: an unwrapped sequence number or count of this direction.
    pub start: u64,
    /// One past the last byte moved.
    pub end: u64,
    /// Who.
    pub task: TaskId,
    /// Bytes moved, or a negative error number.
    pub result: i32,
    /// One of [`op`].
    pub kind: u8,
    /// One of [`range`].
    pub range: u8,
    /// `OPF_…` of the wire room that matter later: 8 turn, 32 more unread, 64 io_uring, 0xe000 one of [`held`].
    pub flags: u16,
    /// System call number.
    pub syscall: u16,
    /// Processor.
    pub cpu: u16,
}

/// Roles of a message.
pub mod role {
    /// Asks for a reply.
    pub const REQUEST: u8 = 1;
    /// Answers a request.
    pub const REPLY: u8 = 2;
    /// Precedes the reply of the same request (HTTP 1xx).
    pub const INTERIM: u8 = 3;
    /// Answers nothing and asks nothing.
    pub const UNSOLICITED: u8 = 4;
}

/// How a message's end became known.
pub mod end_how {
    /// By the protocol's framing.
    pub const FRAMED: u8 = 1;
    /// The flow changed direction.
    pub const TURN: u8 = 2;
    /// The flow ended.
    pub const CLOSE: u8 = 3;
    /// Framing was lost: the end is not known.
    pub const LOST: u8 = 4;
}

/// What else is known of a message, as bits.
pub mod message_flag {
    /// A request that gets no reply: a message published, a write without acknowledgement.
    pub const NO_REPLY: u8 = 1;
    /// A request that puts something where others take it up later: a queue, a list, a topic.
    pub const QUEUED: u8 = 2;
}

/// Kinds of witness.
pub mod witness {
    /// None.
    pub const NONE: u8 = 0;
    /// FastCGI request id.
    pub const FASTCGI: u8 = 1;
    /// DNS id.
    pub const DNS: u8 = 2;
    /// Hash of a `traceparent` span id.
    pub const TRACEPARENT: u8 = 3;
    /// Hash of an `x-request-id`.
    pub const X_REQUEST_ID: u8 = 4;
    /// HTTP/2 stream id.
    pub const HTTP2: u8 = 5;
    /// Kafka correlation id.
    pub const KAFKA: u8 = 6;
    /// MongoDB request id.
    pub const MONGO: u8 = 7;
    /// Memcached `opaque`.
    pub const MEMCACHED: u8 = 8;
    /// AMQP channel.
    pub const AMQP_CHANNEL: u8 = 9;
    /// AMQP channel (upper 16 bits) and delivery tag.
    pub const AMQP_DELIVERY: u8 = 10;
    /// X11 sequence number.
    pub const X11: u8 = 11;

    /// Whether an identifier of this kind says which request of its flow a reply answers. Others name the request across
    /// hosts, where a server or a gateway may set one of its own in the reply, or something else: there order decides.
    pub const fn names_exchange(kind: u8) -> bool {
        !matches!(kind, NONE | TRACEPARENT | X_REQUEST_ID | AMQP_DELIVERY)
    }
}

/// A message seen at one endpoint.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct MessageRow {
    /// When its head was complete.
    pub at: MonoNs,
    /// The endpoint at which it was seen.
    pub flow: EndpointId,
    /// First byte.
    pub start: u64,
    /// One past the last byte, or [`OPEN`].
    pub end: u64,
    /// Witness value.
    pub witness: u64,
    /// Protocol id (`proto.http1`).
    pub protocol: StrId,
    /// Method, command or verb.
    pub verb: StrId,
    /// Path template, statement shape, question.
    pub target: StrId,
    /// Error class (SQLSTATE, `WRONGTYPE`), empty where none.
    pub detail: StrId,
    /// Status code where the protocol has one, else 0.
    pub status: u16,
    /// One of [`role`].
    pub role: u8,
    /// 1 = sent by this endpoint, 0 = received.
    pub sent: u8,
    /// One of [`witness`].
    pub witness_kind: u8,
    /// One of [`failed`].
    pub failed: u8,
    /// 1 = attributes were cut by the end of what was captured.
    pub cut: u8,
    /// Bits of [`message_flag`].
    pub flags: u8,
}

/// The end of a message whose row said [`OPEN`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct MessageEndRow {
    /// When it became known.
    pub at: MonoNs,
    /// The endpoint.
    pub flow: EndpointId,
    /// First byte of the message.
    pub start: u64,
    /// One past its last byte ([`OPEN`] where lost).
    pub end: u64,
    /// 1 = sent by this endpoint.
    pub sent: u8,
    /// One of [`end_how`].
    pub how: u8,
    /// One of [`failed`]: what came after the head says. In a row of an end (`how` is not 0) it says nothing.
    pub failed: u8,
    /// Zero.
    pub pad: u8,
    /// Error class learned after the head, empty where none.
    pub detail: StrId,
}

/// Whether a reply says that the request failed. Older folders know only the first two.
pub mod failed {
    /// It says success; also messages that are no replies.
    pub const NO: u8 = 0;
    /// It says failure.
    pub const YES: u8 = 1;
    /// It says neither, or where it would say so was not read.
    pub const UNKNOWN: u8 = 2;
}

/// How an endpoint came to be known.
pub mod seen {
    /// It connected out.
    pub const CONNECTED: u8 = 1;
    /// It came out of a listener.
    pub const ACCEPTED: u8 = 2;
    /// First met by an operation, older than the recording.
    pub const MET: u8 = 3;
    /// Found by the snapshot.
    pub const SNAPSHOT: u8 = 4;
}

/// One end of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct EndpointRow {
    /// When.
    pub at: MonoNs,
    /// Its id.
    pub flow: EndpointId,
    /// UNIX: the other end's id, else 0.
    pub peer: EndpointId,
    /// Next byte to be sent, unwrapped.
    pub snd: u64,
    /// Next byte to be read, unwrapped.
    pub rcv: u64,
    /// Local address (IPv4 in the first four bytes).
    pub laddr: [u8; 16],
    /// Remote address.
    pub raddr: [u8; 16],
    /// Network namespace.
    pub netns: u32,
    /// A task of the process that holds it, where known.
    pub task: TaskId,
    /// UNIX path, empty where none.
    pub path: StrId,
    /// Local port.
    pub lport: u16,
    /// Remote port.
    pub rport: u16,
    /// Address family.
    pub family: u16,
    /// IP protocol.
    pub protocol: u16,
    /// One of [`seen`].
    pub how: u8,
    /// TCP state (10 = listening).
    pub state: u8,
    /// 1 = it listens' side: server; 2 = client; 0 = not known.
    pub side: u8,
    /// 1 = an upper-layer protocol (kernel TLS, MPTCP) is on it.
    pub ulp: u8,
}

/// A change of a flow's state.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct FlowStateRow {
    /// When.
    pub at: MonoNs,
    /// The endpoint.
    pub flow: EndpointId,
    /// Next byte to be sent, unwrapped.
    pub snd: u64,
    /// Next byte expected, unwrapped.
    pub rcv: u64,
    /// The current task where `by_task`.
    pub task: TaskId,
    /// TCP state before.
    pub old: u8,
    /// TCP state after.
    pub new: u8,
    /// 1 = reset received, 2 = reset sent.
    pub reset: u8,
    /// 1 = done by the task, 0 = in interrupt context.
    pub by_task: u8,
}

/// Causes of a wait's end; the numbers are the wire room's `CAUSE_…`.
pub mod cause {
    /// Not known.
    pub const UNKNOWN: u8 = 0;
    /// Another task.
    pub const TASK: u8 = 1;
    /// A packet for a socket (`object` = endpoint).
    pub const SOCKET: u8 = 2;
    /// Network softirq, socket not named.
    pub const NET: u8 = 3;
    /// A timer.
    pub const TIMER: u8 = 4;
    /// A block request (`object` = device << 32 and the low half of its first sector; 0 = not known which).
    pub const BLOCK: u8 = 5;
    /// A hardware interrupt (`object` = its line; with [`VECTOR`], one of the processor's own vectors).
    pub const IRQ: u8 = 6;
    /// Another softirq.
    pub const SOFTIRQ: u8 = 7;
    /// Preempted: nobody had to wake it. `object` = 1: by the CPU quota of a cgroup of it.
    pub const PREEMPTED: u8 = 8;
    /// Not ended when the recording was cut or ended.
    pub const OPEN: u8 = 9;
    /// In the object of [`IRQ`]: what is below is a vector of the processor, and no line.
    pub const VECTOR: u64 = 1 << 32;
    /// A packet that was being received (`object` = [`super::PacketRow::id`] of its row on the same host).
    pub const PACKET: u8 = 10;
    /// The task was stopped by a signal (`object` = its number, 0 = not known; `by` = who sent it) or a debugger
    /// ([`super::WaitRow::state`] says which).
    pub const STOPPED: u8 = 11;
}

/// [`WaitRow::state`] of a wait whose begin was not seen (imported traces).
pub const STATE_UNKNOWN: u16 = 0xffff;

/// An interval in which a task did not run.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct WaitRow {
    /// When it ran again (or the flush, where open).
    pub at: MonoNs,
    /// When it stopped running.
    pub blocked: MonoNs,
    /// When it was made runnable.
    pub woken: MonoNs,
    /// What the cause names.
    pub object: u64,
    /// First argument of the system call; the address of a page fault where an imported trace saw one.
    pub arg0: u64,
    /// Who waited.
    pub task: TaskId,
    /// Who woke or preempted it.
    pub by: TaskId,
    /// `rcv_nxt` where the cause is a socket.
    pub rcv_seq: u32,
    /// Task state at switch-out; 0 = preempted, [`STATE_UNKNOWN`] = not seen.
    pub state: u16,
    /// System call number, 0xffff = none.
    pub syscall: u16,
    /// Processor on which it ran again.
    pub cpu: u16,
    /// Processor of the waking.
    pub woken_cpu: u16,
    /// One of [`cause`].
    pub cause: u8,
    /// Zero.
    pub pad: [u8; 3],
}

impl WaitRow {
    /// The task was stopped by a signal, or by who traces it.
    pub fn is_stopped(&self) -> bool {
        self.has_state(4 | 8)
    }

    /// The task slept where signals do not reach it, and was no idle kernel thread (`TASK_NOLOAD`).
    pub fn is_uninterruptible(&self) -> bool {
        self.has_state(2) && !self.has_state(0x400)
    }

    /// A state that was not seen has no bits.
    fn has_state(&self, bits: u16) -> bool {
        self.state != STATE_UNKNOWN && self.state & bits != 0
    }
}

/// One return from poll, select or epoll.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct PollRow {
    /// When it returned.
    pub at: MonoNs,
    /// When it was entered.
    pub entry: MonoNs,
    /// The time-out given, in ns; all ones = none.
    pub timeout_ns: u64,
    /// Who.
    pub task: TaskId,
    /// Ready descriptors, 0 = time-out, negative = error.
    pub ready: i32,
    /// The epoll descriptor, or -1.
    pub fd: i32,
    /// Zero.
    pub pad: u32,
}

/// What happened to a task.
pub mod life {
    /// Made by its parent.
    pub const FORK: u8 = 1;
    /// Began another program.
    pub const EXEC: u8 = 2;
    /// Ended.
    pub const EXIT: u8 = 3;
    /// Changed its name.
    pub const NAME: u8 = 4;
    /// Found by the snapshot, or met by an event.
    pub const SNAPSHOT: u8 = 5;
    /// Its process was selected to be watched, with what it makes. Where no task has this, all are.
    pub const WATCHED: u8 = 6;
}

/// A step in a task's life.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct TaskRow {
    /// When.
    pub at: MonoNs,
    /// The task's start.
    pub start: MonoNs,
    /// Its id.
    pub task: TaskId,
    /// Parent, 0 where not known.
    pub parent: TaskId,
    /// Thread group.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Name.
    pub comm: StrId,
    /// Command line of its process.
    pub cmdline: StrId,
    /// cgroup path.
    pub cgroup: StrId,
    /// One of [`life`].
    pub what: u8,
    /// 1 = kernel thread, 2 = io_uring worker.
    pub class: u8,
    /// Zero.
    pub pad: u16,
}

/// Something lost, or not told apart.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct LossRow {
    /// End of the interval in which it was lost.
    pub at: MonoNs,
    /// Begin of that interval.
    pub from: MonoNs,
    /// How many.
    pub count: u64,
    /// Defect id (`loss.ring.op`): the central list is [`crate::defects`].
    pub what: StrId,
    /// Zero.
    pub pad: u32,
}

/// The same instant on two clocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct AnchorRow {
    /// Monotonic time.
    pub at: MonoNs,
    /// Wall-clock time, ns since 1970.
    pub real_ns: u64,
    /// Uncertainty of the pair, ns.
    pub error_ns: u64,
}

/// What is known of a flow's protocol.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct FlowNoteRow {
    /// When.
    pub at: MonoNs,
    /// The endpoint.
    pub flow: EndpointId,
    /// Protocol id, empty = opaque.
    pub protocol: StrId,
    /// Why it is opaque, empty where it is not.
    pub reason: StrId,
}

/// In whose name a packet was handled.
pub mod context {
    /// A task's own call.
    pub const TASK: u8 = 0;
    /// Network softirq.
    pub const NET: u8 = 1;
    /// Timer: an hrtimer or the timer softirq (retransmission, delayed acknowledgement).
    pub const TIMER: u8 = 2;
    /// Another interrupt.
    pub const IRQ: u8 = 3;
}

/// A packet that a host sent or received, as an imported trace saw it. The same packet has the same `key` on both hosts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct PacketRow {
    /// When it was handed to the device, or taken from it.
    pub at: MonoNs,
    /// Its number among the packets of this host, from 1.
    pub id: u64,
    /// What is the same of this packet on all hosts that see it: a hash of addresses (where known), ports, sequence
    /// number, acknowledgement, flags and length of a TCP segment; of addresses, ports, IP id and length of a datagram.
    pub key: u64,
    /// The [`PacketRow::id`] of the received packet that was being handled when this one was sent from a softirq
    /// (an acknowledgement, a SYN-ACK); 0 = none.
    pub trigger: u64,
    /// A hash of the flow, the same in both directions and on both hosts; 0 where the trace names neither addresses
    /// nor ports.
    pub flow: u64,
    /// Local or first address (IPv4 in the first four bytes); zero where the trace does not say.
    pub saddr: [u8; 16],
    /// Remote or second address.
    pub daddr: [u8; 16],
    /// TCP sequence number.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// Bytes of payload, all ones where not known.
    pub payload: u32,
    /// The task that was current. It is the sender only where `context` is [`context::TASK`].
    pub task: TaskId,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Processor.
    pub cpu: u16,
    /// TCP flags as on the wire (1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK).
    pub flags: u16,
    /// 1 = sent, 0 = received.
    pub sent: u8,
    /// One of [`context`].
    pub context: u8,
    /// IP protocol, 0 where not known.
    pub protocol: u8,
    /// 4 or 6, 0 where not known.
    pub ip: u8,
    /// Zero.
    pub pad: u32,
}

/// Where in its program a task was when it blocked: one row for each wait of a watched task that has a [`WaitRow`] too,
/// where the recording was asked for stacks. Preemptions have none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct StackRow {
    /// When it ran again (or the flush, where open).
    pub at: MonoNs,
    /// When it stopped running: the [`WaitRow::blocked`] of the same task.
    pub blocked: MonoNs,
    /// Who waited.
    pub task: TaskId,
    /// Return addresses, innermost first, as offsets into files: see [`crate::stack`]. Empty where the stack was lost.
    pub frames: StrId,
    /// System call number, 0xffff = none.
    pub syscall: u16,
    /// One of [`cause`].
    pub cause: u8,
    /// Zero.
    pub pad: [u8; 5],
}

/// What an input was: [`InputRow::kind`].
pub mod input {
    /// Data, a connection or an end of stream can be taken from the flow.
    pub const READ: u8 = 1;
    /// The flow can be written to, or its connect is complete.
    pub const WRITE: u8 = 2;
    /// No flow: a timer, an eventfd, a signal, a file.
    pub const OTHER: u8 = 3;
    /// No input: the process goes on with something else than what it was given last.
    pub const ELSE: u8 = 4;
}

/// One input that poll, select or epoll handed to a task under the library vantage. Until the task's next row of this
/// table or of `polls` it works on this input alone, where `isolated`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct InputRow {
    /// When it was handed over.
    pub at: MonoNs,
    /// On which endpoint; 0 where it is none.
    pub flow: EndpointId,
    /// To whom.
    pub task: TaskId,
    /// The ready descriptor.
    pub fd: i32,
    /// How many were ready at that moment, as far as was looked.
    pub ready: u32,
    /// One of [`input`].
    pub kind: u8,
    /// 1: the only input that the task was given. 2: and the whole process had come to rest before, so that what any of
    /// its tasks does is for this input, until the next such row or one of [`input::ELSE`].
    pub isolated: u8,
    /// Zero.
    pub pad: [u8; 2],
}
