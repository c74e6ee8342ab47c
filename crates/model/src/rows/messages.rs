//! Messages, and their ends.

use super::{OPEN, names};
use crate::ids::{EndpointId, MonoNs, StrId};
use crate::table;
use crate::table::{Kind, Value, computed, optional};

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
    /// A request that asks to wait until something happens elsewhere: for an item of a list, a record of a topic.
    pub const AWAITS: u8 = 4;
    /// A queued one that names where the answer is to go: whoever takes it up makes that.
    pub const RELAYED: u8 = 8;
    /// Nothing but the turn says what answers what: a request is answered before the next such one of its flow, if at all. A server's
    /// message that answers nothing has it too.
    pub const BY_TURN: u8 = 16;
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
    /// A number or hash that pairs replies with requests, of a protocol without a kind of its own here.
    pub const NAMED: u8 = 12;

    /// Whether an identifier of this kind stands for the place of a message in its flow: datagrams have no bytes to count, and both
    /// ends know the message by it.
    pub const fn stands_for_place(kind: u8) -> bool {
        kind == DNS
    }

    /// Whether an identifier of this kind is the number of a stream, of which one connection carries many at once.
    pub const fn is_stream(kind: u8) -> bool {
        kind == HTTP2
    }

    /// Whether an identifier of this kind says which request of its flow a reply answers. Others name the request across
    /// hosts, where a server or a gateway may set one of its own in the reply, or something else: there order decides.
    pub const fn names_exchange(kind: u8) -> bool {
        !matches!(kind, NONE | TRACEPARENT | X_REQUEST_ID | AMQP_DELIVERY)
    }

    /// Whether messages with an identifier of this kind overlap on their flow, and bytes of no message lie between and within
    /// them: what is said there explains no range of bytes.
    pub const fn interleaves(kind: u8) -> bool {
        kind == HTTP2
    }
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
        /// Fingerprint of what it says beside its head: a hash under a key of the recording, 0 = none. No recorder of this
        /// version makes one.
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
        /// One of [`role`].
        role: u8 => words(names::message_role),
        /// 1 = sent by this endpoint, 0 = received.
        sent: u8 => flag(),
        /// One of [`witness`].
        witness_kind: u8 => words_or_none(names::witness_kind),
        /// One of [`failed`].
        failed: u8 => hidden().also(&[optional("failed", Kind::Bool, " It says failure; none where it is no reply, or where that was not read.", |r| {
            failed::value(r.failed, r.role == role::REPLY)
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
        /// One of [`end_how`].
        how: u8 => words(names::message_end),
        /// One of [`failed`]: what came after the head says. In a row of an end (`how` is not 0) it says nothing.
        failed: u8 => hidden().also(&[optional("failed", Kind::Bool, " What came after the head says failure.", |r| {
            // of an end, the row says nothing of it
            if r.how == 0 { failed::value(r.failed, true) } else { Value::None }
        })]),
        /// Zero.
        pad: [u8; 1],
        /// Error class learned after the head, empty where none.
        detail: StrId,
    }
}

/// Whether a reply says that the request failed. Older folders know only the first two.
pub mod failed {
    use crate::table::Value;

    /// It says success; also messages that are no replies.
    pub const NO: u8 = 0;
    /// It says failure.
    pub const YES: u8 = 1;
    /// It says neither, or where it would say so was not read.
    pub const UNKNOWN: u8 = 2;

    /// The column: none where nobody could read it. Requests and what has no reply (`!is_reply`) say [`NO`] as well, which
    /// means nothing there.
    pub(in crate::rows) fn value(said: u8, is_reply: bool) -> Value {
        match said {
            YES => Value::Bool(true),
            NO if is_reply => Value::Bool(false),
            _ => Value::None,
        }
    }
}
