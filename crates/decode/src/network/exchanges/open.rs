//! An exchange that is not over, and what names it.

use crate::words;
use wakepath_model::ids::{MonoNs, StrId};
use wakepath_model::rows::{ExchangeKind, Failed, MessageEndHow, OPEN, SniffedExchangeRow, WitnessKind};
use wakepath_protocols::{Message, Witness, mask};

/// What an open exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request, with its reply where that has begun.
    Asked,
    /// A request whose reply cannot be told.
    Missed,
    /// A reply whose request cannot be told.
    Reply,
    /// A request that gets no reply.
    NoReply,
    /// What belongs to no exchange: the server says it unasked, or the client opens or ends the connection with it.
    Unsolicited,
}

/// One message of an open exchange.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    pub begun: bool,
    pub done: bool,
    pub packets_before: u32,
    pub missing_before: u64,
}

pub(super) struct Open {
    pub row: SniffedExchangeRow,
    pub kind: Kind,
    pub parts: [Part; 2],
    /// Its reply comes in order; otherwise by its number.
    pub ordered: bool,
    /// The pair was made by order while that was on trial.
    pub trial: bool,
    /// Replies were hidden while it was open: perhaps its own.
    pub doubtful: bool,
    /// Of what was asked: see [`question`].
    pub question: u64,
}

impl Open {
    pub fn new(row: SniffedExchangeRow, kind: Kind, parts: [Part; 2]) -> Open {
        Open { row, kind, parts, ordered: false, trial: false, doubtful: false, question: 0 }
    }

    pub fn waits(&self) -> bool {
        self.kind == Kind::Asked && !self.parts[1].begun
    }

    /// What it is where nothing more will be seen of it.
    pub fn cut_short(&self) -> ExchangeKind {
        match self.kind {
            Kind::Asked if self.waits() => ExchangeKind::ReplyMissed,
            Kind::Asked => ExchangeKind::Answered,
            Kind::Missed => ExchangeKind::ReplyMissed,
            Kind::Reply => ExchangeKind::ReplyOnly,
            Kind::NoReply => ExchangeKind::NoReply,
            Kind::Unsolicited => ExchangeKind::Unsolicited,
        }
    }
}

/// What became of a request that has no reply: the capture's losses may have hidden it.
pub(super) fn unanswered(open: &Open, lost: MonoNs) -> ExchangeKind {
    if open.doubtful || lost > open.row.request_first { ExchangeKind::ReplyMissed } else { ExchangeKind::Unanswered }
}

/// A request and a reply that do not belong together after all.
pub(super) fn apart(row: &SniffedExchangeRow) -> [SniffedExchangeRow; 2] {
    let asked = SniffedExchangeRow {
        reply_start: OPEN,
        reply_end: OPEN,
        reply_first: MonoNs(0),
        reply_head: MonoNs(0),
        reply_last: MonoNs(0),
        reply_packets: 0,
        reply_how: MessageEndHow::NotKnown,
        status: 0,
        failed: Failed::No,
        detail: StrId::EMPTY,
        interim: 0,
        ..*row
    };
    let answered = SniffedExchangeRow {
        request_start: OPEN,
        request_end: OPEN,
        request_first: MonoNs(0),
        request_head: MonoNs(0),
        request_last: MonoNs(0),
        request_packets: 0,
        request_how: MessageEndHow::NotKnown,
        trace: 0,
        span: 0,
        request_id: 0,
        verb: StrId::EMPTY,
        target: StrId::EMPTY,
        ..*row
    };
    [asked, answered]
}

pub(super) fn has_any(row: &SniffedExchangeRow) -> bool {
    row.witness_kind != WitnessKind::None
}

pub(super) fn has(row: &SniffedExchangeRow, kind: WitnessKind, value: u64) -> bool {
    (row.witness_kind, row.witness) == (kind, value)
}

/// The number is given again as soon as its exchange is over.
pub(super) fn reused(kind: WitnessKind) -> bool {
    matches!(kind, WitnessKind::Fastcgi | WitnessKind::AmqpChannel)
}

/// A response repeats its question, unless it was cut.
pub(super) fn same_question(asked: &Open, answered: &Message<'_>) -> bool {
    asked.row.cut != 0 || answered.attrs.cut || answered.attrs.target.is_empty() || asked.question == question(answered)
}

/// A number for verb and target. (The texts in the row are masked, and another one once their words have recurred.)
pub(super) fn question(m: &Message<'_>) -> u64 {
    mask::fnv1a(m.attrs.verb.as_bytes()) ^ mask::fnv1a(m.attrs.target.as_bytes()).rotate_left(1)
}

/// What a message's own number says of its exchange.
#[derive(Clone, Copy)]
pub(super) enum Number {
    /// Nothing.
    None,
    /// Unique among the open exchanges.
    Own(WitnessKind, u64),
    /// Given by the client and echoed, not unique: order counts, and the number must be the same.
    Echo(u64),
}

/// What of a message's witnesses names the exchange.
pub(super) fn number(witnesses: &[Witness]) -> (Number, WitnessKind, u64) {
    let Some(first) = witnesses.first() else { return (Number::None, WitnessKind::None, 0) };
    let (kind, value) = words::witness(*first);
    let number = match kind {
        WitnessKind::Traceparent | WitnessKind::XRequestId => return (Number::None, WitnessKind::None, 0),
        kind if !kind.names_exchange() => Number::None,
        WitnessKind::Memcached => Number::Echo(value),
        _ => Number::Own(kind, value),
    };
    (number, kind, value)
}
