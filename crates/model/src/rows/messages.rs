//! Messages, and their ends.

use super::OPEN;
use crate::ids::{EndpointId, MonoNs, StrId};
use crate::table::{Kind, Value, computed, optional};
use crate::{codes, table};

codes! {
    /// Roles of a message.
    MessageRole(u8) {
        /// Asks for a reply.
        Request = 1 => "request",
        /// Answers a request.
        Reply = 2 => "reply",
        /// Precedes the reply of the same request (HTTP 1xx).
        Interim = 3 => "interim",
        /// Answers nothing and asks nothing.
        Unsolicited = 4 => "unsolicited",
        /// Takes back the request with the same witness: its client waits for the reply no longer.
        Withdrawal = 5 => "withdrawal",
    }
}

codes! {
    /// How a message's end became known.
    MessageEndHow(u8) {
        /// Not known.
        NotKnown = 0 => "",
        /// By the protocol's framing.
        Framed = 1 => "framed",
        /// The flow changed direction.
        Turn = 2 => "turn",
        /// The flow ended.
        Close = 3 => "close",
        /// Framing was lost: the end is not known.
        Lost = 4 => "lost",
    }
}

/// What else is known of a message, as bits.
pub mod message_flag {
    /// A request that gets no reply: a message published, a write without acknowledgement.
    pub const NO_REPLY: u8 = 1;
    /// A request that puts something where others take it up later: a queue, a list, a topic.
    pub const QUEUED: u8 = 2;
    /// A request that asks to wait until something happens elsewhere: for an item of a list, a record of a topic.
    pub const AWAITS: u8 = 4;
    /// A queued one that names where the answer is to go: whoever takes it up makes that.
    pub const RELAYED: u8 = 8;
    /// Nothing but the turn says what answers what: a request is answered before the next such one of its flow, if at all. A server's
    /// message that answers nothing has it too.
    pub const BY_TURN: u8 = 16;
    /// A request that only says which messages the other side is to send from now on, or not any more.
    pub const SUBSCRIBES: u8 = 32;
    /// Its flow carries messages one way, whatever they are: what answers it may come by another flow.
    pub const ON_LANE: u8 = 64;
}

codes! {
    /// Kinds of witness.
    WitnessKind(u8) {
        /// None.
        None = 0 => "",
        /// FastCGI request id.
        Fastcgi = 1 => "fastcgi",
        /// DNS id.
        Dns = 2 => "dns",
        /// Hash of a `traceparent` span id.
        Traceparent = 3 => "traceparent",
        /// Hash of an `x-request-id`.
        XRequestId = 4 => "x-request-id",
        /// HTTP/2 stream id.
        Http2 = 5 => "http2",
        /// Kafka correlation id.
        Kafka = 6 => "kafka",
        /// MongoDB request id.
        Mongo = 7 => "mongo",
        /// Memcached `opaque`.
        Memcached = 8 => "memcached",
        /// AMQP channel.
        AmqpChannel = 9 => "amqp-channel",
        /// AMQP channel (upper 16 bits) and delivery tag.
        AmqpDelivery = 10 => "amqp-delivery",
        /// X11 sequence number.
        X11 = 11 => "x11",
        /// A number or hash that pairs replies with requests, of a protocol without a kind of its own here.
        Named = 12 => "named",
    }
}

impl WitnessKind {
    /// Whether an identifier of this kind stands for the place of a message in its flow: datagrams have no bytes to count, and both
    /// ends know the message by it.
    pub const fn stands_for_place(self) -> bool {
        matches!(self, WitnessKind::Dns)
    }

    /// Whether an identifier of this kind is the number of a stream, of which one connection carries many at once.
    pub const fn is_stream(self) -> bool {
        matches!(self, WitnessKind::Http2)
    }

    /// Whether an identifier of this kind says which request of its flow a reply answers. Others name the request across
    /// hosts, where a server or a gateway may set one of its own in the reply, or something else: there order decides.
    pub const fn names_exchange(self) -> bool {
        !matches!(
            self,
            WitnessKind::None | WitnessKind::Traceparent | WitnessKind::XRequestId | WitnessKind::AmqpDelivery
        )
    }

    /// Whether messages with an identifier of this kind overlap on their flow, and bytes of no message lie between and within
    /// them: what is said there explains no range of bytes.
    pub const fn interleaves(self) -> bool {
        matches!(self, WitnessKind::Http2)
    }
}

/// [`MessageRow::fingerprint`].
pub mod fingerprint {
    /// The body is too short to be told from others, or there is none.
    pub const NOTHING: u64 = 1;
}

table! {
    /// A message seen at one endpoint.
    MessageRow {
        /// When its head was complete.
        at: MonoNs,
        /// The endpoint at which it was seen.
        flow: EndpointId,
        /// First byte.
        start: u64 => named("start_byte"),
        /// One past the last byte, or [`OPEN`].
        end: u64 => beyond().named("end_byte").none(OPEN),
        /// Witness value.
        witness: u64,
        /// Of a reply: fingerprint of the first bytes of its body, a hash under a key that is kept nowhere. 0 = none, or its
        /// [`MessageEndRow`] has it; 1 = it has no body, or a short one ([`fingerprint`]).
        fingerprint: u64 => none(0),
        /// Protocol id (`proto.http1`).
        protocol: StrId,
        /// Method, command or verb.
        verb: StrId,
        /// Path template, statement shape, question.
        target: StrId,
        /// Error class (SQLSTATE, `WRONGTYPE`), empty where none.
        detail: StrId,
        /// Status code where the protocol has one, else 0.
        status: u16,
        /// What it is to others.
        role: MessageRole,
        /// 1 = sent by this endpoint, 0 = received.
        sent: u8 => flag(),
        /// What kind of identifier the witness is.
        witness_kind: WitnessKind,
        /// Whether it says failure.
        failed: Failed => hidden().also(&[optional("failed", Kind::Bool, " It says failure; none where it is no reply, or where that was not read.", |r| {
            r.failed.value(r.role == MessageRole::Reply)
        })]),
        /// 1 = attributes were cut by the end of what was captured.
        cut: u8 => flag(),
        /// Bits of [`message_flag`].
        flags: u8 => hidden().also(&[
            computed("no_reply", Kind::Bool, " It is a request that gets no reply.", |r| {
                Value::Bool(r.flags & message_flag::NO_REPLY != 0)
            }),
            computed("queued", Kind::Bool, " It puts something into a queue, a list or a topic.", |r| {
                Value::Bool(r.flags & message_flag::QUEUED != 0)
            }),
            computed("awaits", Kind::Bool, " It asks to wait until something happens elsewhere.", |r| {
                Value::Bool(r.flags & message_flag::AWAITS != 0)
            })
        ]),
        /// Hash of an identifier that services hand on: of `x-request-id`, else of the trace in `traceparent`; 0 = none.
        identifier: u64 => none(0),
    }
}

table! {
    /// The end of a message whose row said [`OPEN`].
    MessageEndRow {
        /// When it became known.
        at: MonoNs,
        /// The endpoint.
        flow: EndpointId,
        /// First byte of the message.
        start: u64 => named("start_byte"),
        /// One past its last byte ([`OPEN`] where lost).
        end: u64 => beyond().named("end_byte").none(OPEN),
        /// 1 = sent by this endpoint.
        sent: u8 => flag(),
        /// How it became known.
        how: MessageEndHow,
        /// Whether what came after the head says failure. In a row of an end (`how` is not 0) it says nothing.
        failed: Failed => hidden().also(&[optional("failed", Kind::Bool, " What came after the head says failure.", |r| {
            // of an end, the row says nothing of it
            if r.how == MessageEndHow::NotKnown { r.failed.value(true) } else { Value::None }
        })]),
        /// Zero.
        pad: [u8; 1],
        /// Error class learned after the head, empty where none.
        detail: StrId,
        /// Fingerprint of the first bytes of a reply's body, as in [`MessageRow::fingerprint`], where they came after the head. In a row
        /// of an end (`how` is not 0) there is none.
        fingerprint: u64 => none(0),
    }
}

codes! {
    /// Whether a reply says that the request failed. Older folders know only the first two.
    Failed(u8) {
        /// It says success; also messages that are no replies.
        No = 0 => "no",
        /// It says failure.
        Yes = 1 => "yes",
        /// It says neither, or where it would say so was not read.
        Unknown = 2 => "unknown",
    }
}

impl Failed {
    /// The column: none where nobody could read it. Requests and what has no reply (`!is_reply`) say [`Failed::No`] as well, which
    /// means nothing there.
    pub(in crate::rows) fn value(self, is_reply: bool) -> Value {
        match self {
            Failed::Yes => Value::Bool(true),
            Failed::No if is_reply => Value::Bool(false),
            _ => Value::None,
        }
    }
}
