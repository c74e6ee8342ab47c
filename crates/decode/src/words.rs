//! What protocol processors say, in the numbers of the model's rows: one place for all vantages.

use crate::RowSink;
use crate::recurring::{Asker, Said};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::StrId;
use wakepath_model::rows::{Failed, MessageEndHow, WitnessKind, message_flag};
use wakepath_protocols::vocabulary::Attribute;
use wakepath_protocols::{
    Defect, Dir, EndHow, Maker, Message, Outcome, Processor, Protocol, Role, Status, Witness, mask,
};

/// Makes processors as large as their protocol needs, and no larger.
pub(crate) struct Boxed;

impl Maker for Boxed {
    type Made = Box<dyn Processor + Send>;
    fn take<P: Processor + Send + 'static>(self, processor: P) -> Self::Made {
        Box::new(processor)
    }
}

/// What a message says of failure: only a reply can leave it open.
pub(crate) fn failed(of: Role, outcome: Outcome) -> Failed {
    match outcome {
        Outcome::Error => Failed::Yes,
        Outcome::Unknown if of == Role::Reply => Failed::Unknown,
        Outcome::Unknown | Outcome::Ok => Failed::No,
    }
}

/// Kind and value of an identifier.
pub(crate) fn witness(of: Witness) -> (WitnessKind, u64) {
    match of {
        Witness::FastCgi(n) => (WitnessKind::Fastcgi, n.into()),
        Witness::Dns(n) => (WitnessKind::Dns, n.into()),
        Witness::Http2(n) => (WitnessKind::Http2, n.into()),
        Witness::Kafka(n) => (WitnessKind::Kafka, n.into()),
        Witness::Mongo(n) => (WitnessKind::Mongo, n.into()),
        Witness::Memcached(n) => (WitnessKind::Memcached, n.into()),
        Witness::AmqpChannel(n) => (WitnessKind::AmqpChannel, n.into()),
        // channels are few and tags count from 1: both fit
        Witness::AmqpDelivery { channel, tag } => {
            (WitnessKind::AmqpDelivery, u64::from(channel) << 48 | tag & !(0xffff << 48))
        }
        Witness::X11(n) => (WitnessKind::X11, n.into()),
        Witness::Named(n) => (WitnessKind::Named, n),
        Witness::TraceParent { span, .. } => (WitnessKind::Traceparent, u64::from_be_bytes(span)),
        Witness::XRequestId(hash) => (WitnessKind::XRequestId, hash),
    }
}

/// Hash of an identifier that services hand on, if nobody else would give the same one by chance; 0 where there is none.
pub(crate) fn handed_on(witnesses: &[Witness]) -> u64 {
    let id = witnesses.iter().find_map(|w| match w {
        Witness::XRequestId(hash) => Some(*hash).filter(|hash| hash & 1 == 1),
        _ => None,
    });
    let trace = witnesses.iter().find_map(|w| match w {
        Witness::TraceParent { trace, .. } => Some(mask::fnv1a(trace)),
        _ => None,
    });
    id.or(trace).unwrap_or(0)
}

/// How a message's end became known.
pub(crate) fn end(how: EndHow) -> MessageEndHow {
    match how {
        EndHow::Framed => MessageEndHow::Framed,
        EndHow::Close => MessageEndHow::Close,
        EndHow::Turn => MessageEndHow::Turn,
        EndHow::Lost => MessageEndHow::Lost,
    }
}

/// The central list's name of a processor's defect.
pub(crate) fn defect(of: Defect) -> &'static str {
    match of {
        Defect::BorderLost | Defect::ClosedInside => defect::PROTOCOL_LOST,
        Defect::BadHead => defect::PROTOCOL_MALFORMED,
        Defect::QueueOverflow => defect::PROTOCOL_LIMIT,
        Defect::Unsupported => defect::PROTOCOL_UNKNOWN,
    }
}

/// A text that is empty where there is none.
pub(crate) fn text<S: RowSink>(sink: &mut S, text: &str) -> StrId {
    if text.is_empty() { StrId::EMPTY } else { sink.intern(text.as_bytes()) }
}

/// What the messages of a flow say of themselves, on its way into rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speech {
    pub protocol: Protocol,
    pub asker: Asker,
}

impl Speech {
    /// Verb and target of a message, and its class of error.
    pub fn message<S: RowSink>(self, m: &Message<'_>, sink: &mut S) -> [StrId; 3] {
        // what a server says of itself is an echo
        let asks = m.dir == Dir::ToServer;
        let mut of = |text, attribute, counts| self.text(text, attribute, m.start, counts, sink);
        [
            of(m.attrs.verb, Attribute::Verb, asks),
            of(m.attrs.target, Attribute::Target, asks),
            of(m.attrs.status.class, Attribute::Class, true),
        ]
    }

    /// The class of error of the message that begins at `start`.
    pub fn class<S: RowSink>(self, status: &Status<'_>, start: u64, sink: &mut S) -> StrId {
        self.text(status.class, Attribute::Class, start, true, sink)
    }

    fn text<S: RowSink>(self, text: &str, attribute: Attribute, start: u64, counts: bool, sink: &mut S) -> StrId {
        let Speech { protocol, asker } = self;
        if text.is_empty() {
            return StrId::EMPTY;
        }
        sink.said(text, &Said { protocol, attribute, asker, start, counts })
    }
}

/// Bits of [`message_flag`]. `to_all`: nobody who is asked need answer.
pub(crate) fn flags(m: &Message<'_>, to_all: bool) -> u8 {
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    bit(m.role == Role::OneWay || (to_all && m.role == Role::Request), message_flag::NO_REPLY)
        | bit(m.attrs.queued, message_flag::QUEUED)
        | bit(m.attrs.relayed, message_flag::RELAYED)
        | bit(m.attrs.by_turn, message_flag::BY_TURN)
        | bit(m.attrs.awaits, message_flag::AWAITS)
        | bit(m.attrs.subscribes, message_flag::SUBSCRIBES)
}
