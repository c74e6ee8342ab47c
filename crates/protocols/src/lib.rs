//! Protocol processors: bytes of a flow in, messages out.
//!
//! Used alike by the preload library, the agent, the sniffer and the importers; hence `no_std`, no I/O, no
//! clock, no allocation, no panic on any input. A protocol costs one file in `processors/` that implements `Framer` (see
//! `duplex.rs`), a `mod` and a line in `processors.rs`, and golden cases in `tests/golden/proto.NAME/`.
//!
//! What a caller may rely on:
//! - Offsets are absolute stream positions (bytes, `u64`), in whatever numbering the caller feeds.
//! - Any split of the same bytes into chunks gives the same sequence of messages, ends and defects. (The
//!   exception is a datagram flow, where one `data` call is one datagram.)
//! - `message` comes once for each message, when its head is complete; `end` once for each message, when its
//!   end is known; for [`Border::Known`] that is at once, and before the body has passed.
//! - Bytes that were not captured are skipped where the framing says how far to skip. Otherwise the direction is
//!   *lost*: one defect, and silence until a [`Processor::turn`] after which the bytes begin like a message.
//! - Texts in [`Attrs`] are masked and printable ASCII: every other byte is written as `\xNN`.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod asked;
mod bytes;
mod codes;
mod duplex;
mod envelope;
mod frames;
mod hpack;
mod http;
pub mod mask;
mod processors;
mod proxy;
mod registry;
mod shapes;
mod sql_words;
mod streams;
mod text;
pub mod vocabulary;

pub use duplex::Duplex;
pub use processors::{AnyProcessor, Protocol};
pub use registry::{About, Askers, Docs, Likely, Maker, RunsOn, Transport, Verdict, begins_anywhere, recognise};
pub use text::Text;

/// One of the two directions of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dir {
    /// From the side that opened the connection to the side that listens.
    ToServer,
    /// From the side that listens to the side that opened the connection.
    ToClient,
}

impl Dir {
    /// The opposite direction.
    pub fn other(self) -> Dir {
        match self {
            Dir::ToServer => Dir::ToClient,
            Dir::ToClient => Dir::ToServer,
        }
    }

    /// 0 for `ToServer`, 1 for `ToClient`: for tables with one entry a direction.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// What a message is to its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Asks for a reply.
    Request,
    /// Asks for something and gets no reply: a message published, a write without acknowledgement.
    OneWay,
    /// The reply to a request: the n-th to the n-th, unless a [`Witness`] says otherwise.
    Reply,
    /// Belongs to an exchange but neither begins nor answers it: a 1xx reply, an authentication step.
    Interim,
    /// Belongs to no exchange: pushed by the server, or sent by the client without getting a reply.
    Unsolicited,
    /// Takes the request with the same [`Witness`] back: the client waits for its reply no longer, though the flow goes on.
    Withdrawal,
}

/// Where a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Border {
    /// At this stream offset (exclusive).
    Known(u64),
    /// Not known yet; a later [`Sink::end`] says.
    Open,
}

/// How the end of a message was found; in falling order of trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndHow {
    /// The protocol's own framing. Exact.
    Framed,
    /// The direction was closed. Exact, if the close was in order.
    Close,
    /// The other side went on to the next message. Right for a flow that is not pipelined.
    Turn,
    /// Not found: the offset is only an upper bound.
    Lost,
}

/// Whether a reply reports success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Not said, or not seen.
    #[default]
    Unknown,
    /// Success, as the protocol defines it.
    Ok,
    /// Failure, as the protocol defines it.
    Error,
}

/// The status of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status<'a> {
    /// Success or failure.
    pub outcome: Outcome,
    /// The protocol's number: HTTP status, DNS RCODE. `None` where it has none.
    pub code: Option<u16>,
    /// The protocol's class of error: SQLSTATE, Redis' error word, a DNS RCODE's name. Empty where there is none.
    pub class: &'a str,
}

impl Status<'_> {
    /// Success without a number.
    pub const OK: Status<'static> = Status { outcome: Outcome::Ok, code: None, class: "" };
}

/// What a message says about itself, masked: fit for writing to disk and to a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attrs<'a> {
    /// Method, command or first word of the statement. Empty in replies.
    pub verb: &'a str,
    /// Path template, statement shape, command without its keys, or question name. Empty in most replies.
    pub target: &'a str,
    /// Number of arguments (count), where the protocol counts them. Redis: words after the command's own.
    pub args: Option<u32>,
    /// Status, in replies.
    pub status: Status<'a>,
    /// `true`: the head was cut (by the capture or by the cap), so the attributes may be incomplete.
    pub cut: bool,
    /// `true`: it puts something where others take it up later: a queue, a list, a topic.
    pub queued: bool,
    /// `true`: it asks to wait until something happens elsewhere, such as an item in a list: a reply that comes late is not slow, and
    /// one that does not come hangs nowhere.
    pub awaits: bool,
    /// `true`: it only says which messages the other side is to send from now on, or not any more: a subscription.
    pub subscribes: bool,
    /// `true`: it is queued, and names where the answer is to go: whoever takes it up makes that, not the one who took this.
    pub relayed: bool,
    /// `true`: nothing but the turn says what answers what: a request that another of its kind follows is not answered any more.
    pub by_turn: bool,
}

impl<'a> Attrs<'a> {
    /// Of a message of which no more is to be said than what it is.
    pub(crate) fn alone(verb: &'a str) -> Attrs<'a> {
        Attrs { verb, target: verb, ..Attrs::default() }
    }

    /// Of a message that has no target, or of a reply with an empty verb.
    pub(crate) fn status(verb: &'a str, status: Status<'a>) -> Attrs<'a> {
        Attrs { verb, status, ..Attrs::default() }
    }
}

/// An identifier that the messages of one exchange, or of one request across hosts, have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Witness {
    /// FastCGI request id; unique among the open requests of the flow.
    FastCgi(u16),
    /// DNS message id; unique among the open questions of the four-tuple.
    Dns(u16),
    /// HTTP/2 stream id; unique in the flow.
    Http2(u32),
    /// Kafka correlation id; unique among the open requests of the flow.
    Kafka(u32),
    /// MongoDB request id; unique among the open requests of the flow.
    Mongo(u32),
    /// What a client of Memcached's binary protocol calls `opaque`; many clients send 0.
    Memcached(u32),
    /// AMQP channel: it has one open request at a time.
    AmqpChannel(u16),
    /// AMQP delivery, named again when it is acknowledged.
    AmqpDelivery {
        /// Channel.
        channel: u16,
        /// Delivery tag; unique in the channel.
        tag: u64,
    },
    /// X11 sequence number.
    X11(u16),
    /// A number or a hash by which a protocol without a kind of its own here pairs replies with requests; unique among the
    /// open requests of the flow.
    Named(u64),
    /// W3C Trace Context `traceparent`: the trace, and the span of the sender.
    TraceParent {
        /// Trace id, 16 bytes as sent.
        trace: [u8; 16],
        /// Parent (span) id, 8 bytes as sent.
        span: [u8; 8],
    },
    /// FNV-1a (64 bit) of an `x-request-id`, or else of what another such field (`x-correlation-id`, `b3`, …) says of the trace; the value
    /// itself is never kept. Odd where nobody else would give the same one to another request by chance.
    XRequestId(u64),
}

/// One message, borrowed for the time of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Direction in which it travels.
    pub dir: Dir,
    /// Its part in the exchange.
    pub role: Role,
    /// Offset of its first byte.
    pub start: u64,
    /// Offset after its last byte, if known.
    pub end: Border,
    /// Offset after the part that gave the attributes; at most the end.
    pub head_end: u64,
    /// Masked attributes.
    pub attrs: Attrs<'a>,
    /// Identifiers found in the head; none or a few.
    pub witnesses: &'a [Witness],
}

/// What was wrong with the input: located and counted, never an error of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Defect {
    /// Bytes are missing where the framing was needed.
    BorderLost,
    /// The bytes are not a message of this protocol.
    BadHead,
    /// Well-formed, but a feature that the processor does not know.
    Unsupported,
    /// More open requests than the processor remembers.
    QueueOverflow,
    /// The direction was closed inside a message.
    ClosedInside,
}

impl Defect {
    /// The id used in counters and documents.
    pub fn id(self) -> &'static str {
        match self {
            Defect::BorderLost => "proto.border_lost",
            Defect::BadHead => "proto.bad_head",
            Defect::Unsupported => "proto.unsupported",
            Defect::QueueOverflow => "proto.queue_overflow",
            Defect::ClosedInside => "proto.closed_inside",
        }
    }

    /// One sentence: what a person can do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Defect::BorderLost => "Capture longer heads, or look for capture losses on this flow.",
            Defect::BadHead => "Check that the flow speaks the protocol it was taken for.",
            Defect::Unsupported => "Report the flow's protocol and version to the project.",
            Defect::QueueOverflow => "No action needed: replies beyond the limit have unknown borders.",
            Defect::ClosedInside => "Look for resets and crashes of the peer at this time.",
        }
    }
}

/// Where a processor puts what it finds.
pub trait Sink {
    /// A message whose head is complete. Once for each message.
    fn message(&mut self, message: &Message<'_>);
    /// The message that starts at `start` ends at `end` (exclusive). Once for each message, after `message`.
    fn end(&mut self, dir: Dir, start: u64, end: u64, how: EndHow);
    /// The status of a message that was already given has turned out otherwise (an error after the first rows).
    fn amend(&mut self, _dir: Dir, _start: u64, _status: Status<'_>) {}
    /// After `pos` of `dir`, and in the other direction from its next byte on, the flow speaks another protocol.
    fn upgraded(&mut self, _to: Upgrade, _dir: Dir, _pos: u64) {}
    /// Something was wrong at `pos`.
    fn defect(&mut self, defect: Defect, dir: Dir, pos: u64);
}

/// What a flow speaks after an upgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upgrade {
    /// Something that is not known here.
    #[default]
    Other,
    /// Whatever the first bytes show: a tunnel.
    Tunnel,
    /// WebSocket.
    WebSocket,
    /// HTTP/2, in which the reply to the request that asked for it comes by stream 1.
    Http2,
}

/// A protocol processor of one flow.
///
/// Calls come in the order in which things happened. `pos` is the stream offset of the first byte concerned; a
/// jump forward counts as a gap, bytes seen before are ignored. The first call of a direction sets its origin.
pub trait Processor {
    /// `bytes` moved at offset `pos` and were captured. In a datagram flow: one datagram, or its captured prefix.
    fn data(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink);
    /// Like [`Processor::data`], but of no more of `bytes` than lies before the end of the first message of `dir` that
    /// ends among them. The number of bytes taken, from `pos` on; all of them where no message ends. At a border the
    /// caller comes again with the bytes after it, or with more of them. Reads can so be made to stop at borders, as
    /// event isolation asks for (BorderPatrol, 3.3). A datagram is always taken whole.
    fn data_to_border(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) -> usize {
        self.data(dir, pos, bytes, sink);
        bytes.len()
    }
    /// So many of the next bytes of `dir` (count; `u64::MAX`: all) hold no border before their last, whatever they are:
    /// they need not be looked at before they move. 0: not known without a look. Right until the next call.
    fn ahead(&self, _dir: Dir) -> u64 {
        0
    }
    /// `len` bytes moved at offset `pos`, but were not captured.
    fn gap(&mut self, dir: Dir, pos: u64, len: u64, sink: &mut dyn Sink);
    /// The flow's direction changed: the next byte of `dir`, at `pos`, may begin a message. Optional, but a lost
    /// direction never recovers without it.
    fn turn(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink);
    /// `dir` ended at `pos` by FIN, RST or close.
    fn shutdown(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink);
}
