//! A sniffed exchange while it is held: what it says of itself, and what was found out about it.

use super::learn::Address;
use crate::evidence::{Gap, Rule};
use crate::exchange::{Answered, Content, Exchange, ExchangeFlag, Side};
use crate::request::{Half, Wire, number};
use wakepath_flows::Place;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, SniffedFlowId};
use wakepath_model::rows::{ExchangeKind, Failed, OPEN, SniffedExchangeRow};

pub(crate) type NodeId = u64;

/// How long a server may work on for a client that went away: until then its calls may be that one's.
pub(super) const ABANDONED_NS: i64 = 60_000_000_000;

const TCP: u16 = 6;

/// The same exchange at its client, on the wire and at its server: both ends, and its place in the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ByteKey {
    client: (Address, u16),
    server: (Address, u16),
    protocol: u16,
    at: u64,
}

impl ByteKey {
    /// Of an exchange at one of its ends. `None` where its numbers are not those of the other end.
    pub(crate) fn of(p: &Place, e: &Exchange) -> Option<ByteKey> {
        if p.family < 2 || p.protocol != TCP && !e.content.witness.0.stands_for_place() {
            return None;
        }
        let (here, there) = ((p.laddr, p.lport), (p.raddr, p.rport));
        let (client, server) = if e.side == Side::Client { (here, there) } else { (there, here) };
        Some(ByteKey { client, server, protocol: p.protocol, at: number(e) })
    }
}

/// Two of an exchange's byte numbers, where both are known: the same before and behind an address translation.
pub(crate) fn numbers(protocol: u16, a: u64, b: u64) -> Option<(u32, u32)> {
    (protocol == TCP && a != OPEN && b != OPEN).then_some((a as u32, b as u32))
}

/// In whose processing an exchange was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Not everything that may be it was told of yet.
    Undecided,
    /// Nobody's; or it could not be told.
    Root(Option<Gap>),
    /// This one's.
    Of(NodeId, Rule),
}

/// The same exchange in another capture: in another tunnel, or behind an address translation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    pub(crate) flow: SniffedFlowId,
    pub(crate) request_start: u64,
    pub(crate) place: Place,
}

/// What other vantages have of a sniffed exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elsewhere {
    /// They watch its client, or its server.
    pub(crate) client_watched: bool,
    pub(crate) server_watched: bool,
    /// What they say of its client, where no request of a watched server made it: nobody's, or not known.
    pub(crate) client_said: Option<Option<Gap>>,
    /// The request of theirs, and the span in it, that it is.
    pub(crate) span_of: Option<(u64, u32)>,
}

/// A sniffed exchange.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) host: HostId,
    pub(crate) row: SniffedExchangeRow,
    /// Addresses as its client has them.
    pub(crate) place: Place,
    /// The same where it was captured again.
    pub(crate) others: Vec<Again>,
    /// First packet of the request and last packet, on the common line.
    pub(crate) begin: i64,
    pub(crate) end: i64,
    /// The flow was reset.
    pub(crate) is_reset: bool,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) parent: Parent,
    pub(crate) children: Vec<NodeId>,
    pub(crate) doubts: u32,
}

impl Node {
    /// Nothing more comes of it.
    pub(crate) fn is_closed(&self) -> bool {
        self.row.what != ExchangeKind::Open
    }

    /// Until when its server may have been at work on it, on the common line: nobody can say where no reply was seen.
    pub(crate) fn worked_until(&self) -> i64 {
        match self.row.what {
            ExchangeKind::Open => i64::MAX,
            ExchangeKind::Answered => self.end,
            _ => self.end.saturating_add(ABANDONED_NS),
        }
    }

    /// Whether two exchanges whose requests have the same bytes are one: so have their replies, or as long as those are not
    /// known, they bear the same identifiers.
    pub(crate) fn is_same_as(&self, other: &Node) -> bool {
        const NEAR_NS: u64 = 1_000_000_000;
        let (a, b) = (&self.row, &other.row);
        let bears = |r: &SniffedExchangeRow| (r.request_id, r.trace, r.span);
        let is_near = self.host != other.host || self.begin.abs_diff(other.begin) <= NEAR_NS;
        let is_same_reply = match (a.reply_start, b.reply_start) {
            (OPEN, _) | (_, OPEN) => bears(a) != (0, 0, 0),
            (a, b) => a as u32 == b as u32,
        };
        a.flow != b.flow && is_near && bears(a) == bears(b) && is_same_reply
    }

    /// How many identifiers two exchanges share: request id, trace, and the trace's span.
    pub(crate) fn shares(&self, other: &Node) -> u32 {
        let (a, b) = (&self.row, &other.row);
        let same = |x: u64, y: u64| u32::from(x != 0 && x == y);
        let trace = same(a.trace, b.trace);
        same(a.request_id, b.request_id) + trace + trace * same(a.span, b.span)
    }

    /// Every address of its client, the one before translations first.
    pub(crate) fn clients(&self) -> impl Iterator<Item = Address> {
        distinct(self.places().map(|p| p.laddr))
    }

    /// Every address of its server.
    pub(crate) fn servers(&self) -> impl Iterator<Item = Address> {
        distinct(self.places().map(|p| p.raddr))
    }

    /// Where it was captured, the place nearest to its client first.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.place).chain(self.others.iter().map(|o| &o.place))
    }

    /// As a call, as the wire saw it.
    pub(crate) fn half(&self) -> Half {
        let r = &self.row;
        let known = |t: MonoNs, or: MonoNs| if t.0 == 0 { or } else { t };
        let one_way = r.what == ExchangeKind::NoReply;
        let replied = r.what == ExchangeKind::Answered || one_way;
        // The server may well have answered, so that this is no failure, and nothing that still goes on.
        let is_missed = r.what == ExchangeKind::ReplyMissed;
        let is_cut = !replied && !is_missed;
        let mut exchange = Exchange::of_request(EndpointId(r.flow.0), Side::Client, r.request_start, r.request_end);
        exchange.request.began = r.request_first;
        exchange.request.taken = known(r.request_head, r.request_first);
        exchange.reply = Answered {
            start: r.reply_start,
            end: r.reply_end,
            began: r.reply_first,
            ended: known(r.reply_last, r.at),
            ..exchange.reply
        };
        exchange.content = Content {
            protocol: r.protocol,
            verb: r.verb,
            target: r.target,
            detail: r.detail,
            status: r.status,
            witness: (r.witness_kind, r.witness),
            ..exchange.content
        };
        let is_unknown = r.failed == Failed::Unknown || r.what != ExchangeKind::Answered;
        for (flag, is_so) in [
            (ExchangeFlag::Failed, r.failed == Failed::Yes),
            (ExchangeFlag::OutcomeUnknown, is_unknown),
            (ExchangeFlag::Reset, is_cut && self.is_reset),
            (ExchangeFlag::Cut, is_cut && !self.is_reset),
            (ExchangeFlag::UnclearBorders, is_missed),
            (ExchangeFlag::Unfinished, r.what == ExchangeKind::Open),
            (ExchangeFlag::Replied, replied),
            (ExchangeFlag::OneWay, one_way),
        ] {
            exchange.flags.set(flag, is_so);
        }
        Half { host: self.host, exchange, place: self.place }
    }

    /// Its passing, for a span whose own side's clock is so much later, and whose caller nobody else saw.
    pub(crate) fn wire(&self, offset_ns: Option<i64>, is_caller: bool) -> Wire {
        let r = &self.row;
        Wire {
            host: self.host,
            offset_ns,
            is_caller,
            request_first: r.request_first,
            request_last: r.request_last.max(r.request_first),
            reply_first: r.reply_first,
            reply_last: r.reply_last.max(r.reply_first),
        }
    }
}

/// Without what comes twice; there are few.
fn distinct(all: impl Iterator<Item = Address>) -> impl Iterator<Item = Address> {
    let mut seen: Vec<Address> = Vec::new();
    all.filter(move |a| {
        let is_new = !seen.contains(a);
        if is_new {
            seen.push(*a);
        }
        is_new
    })
}
