//! A request's path: its spans, and how each is known.

use crate::evidence::{Gap, Rule};
use crate::exchange::Exchange;
use crate::finished::Refusal;
use fnv::FnvHasher;
use std::hash::{Hash as _, Hasher as _};
use wakepath_flows::Place;
use wakepath_model::ids::{HostId, MonoNs, StrId};

/// One side of a span.
#[derive(Clone, Debug)]
pub struct Half {
    /// The host whose clock its times are of.
    pub host: HostId,
    /// What that side saw.
    pub exchange: Exchange,
    /// Where its endpoint is.
    pub place: Place,
}

/// A request message, its reply, and all that was done between them.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Index of the span in whose processing it was asked for; `None` for the root.
    pub parent: Option<u32>,
    /// The rule that says so.
    pub made_by: Option<Rule>,
    /// The rule that joins the two sides, where both were seen.
    pub joined_by: Option<Rule>,
    /// Who asked, where watched.
    pub caller: Option<Half>,
    /// Who served, where watched.
    pub callee: Option<Half>,
    /// Calls that may have been its and could not be told.
    pub doubts: u32,
    /// The first 8 of them.
    pub open_calls: Vec<OpenCall>,
    /// What is missing, besides.
    pub gap: Option<Gap>,
    /// What a sniffer saw of it between the two sides.
    pub wire: Option<Wire>,
    /// Connections that were tried while it was served and did not come about, the first 16.
    pub refusals: Vec<Refusal>,
}

impl Span {
    /// Whether no vantage watches its server, as far as is known: a server's side that cannot be told from others' may be watched.
    pub fn is_unwatched(&self) -> bool {
        let is_known_by_address =
            |h: &Half| !h.exchange.is_on_shared_connection() && !h.place.is_multipath() && !h.place.is_peer_unknown();
        self.callee.is_none() && self.caller.as_ref().is_none_or(is_known_by_address)
    }

    /// Why it is not whole: what the linker found, calls that may be its, or its reply, where the recording ended before that.
    pub fn missing(&self) -> Option<Gap> {
        let is_alone = self.doubts as usize == self.open_calls.len() && self.open_calls.iter().all(|c| c.others == 0);
        let doubts = (self.doubts > 0).then_some(if is_alone { Gap::Itself } else { Gap::Ambiguous });
        self.gap.or(doubts).or(self.is_in_progress().then_some(Gap::AfterRecording))
    }

    /// Whether its end was not recorded ([`Exchange::is_without_end`]). To a call of no known protocol (a line of a log) perhaps none is due.
    pub fn is_in_progress(&self) -> bool {
        let half = self.callee.as_ref().or(self.caller.as_ref());
        half.is_some_and(|h| {
            let is_due = self.parent.is_none() || h.exchange.content.protocol != StrId::EMPTY;
            h.exchange.is_without_end() && is_due
        })
    }
}

/// A call that several requests could have made.
#[derive(Clone, Debug)]
pub struct OpenCall {
    /// The call, as its caller's side saw it begin.
    pub half: Half,
    /// How many other requests could have made it; 0: the program itself could, or nothing says that it was this one.
    pub others: u32,
}

/// A request and its reply as they passed a sniffer, in its clock.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The sniffer's host.
    pub host: HostId,
    /// What leads from its clock to that of the span's own side (the server where watched, else the caller); `None` where
    /// nothing relates the two closely.
    pub offset_ns: Option<i64>,
    /// The span's caller is what passed here: no vantage watches who asked.
    pub is_caller: bool,
    /// First packet of the request.
    pub request_first: MonoNs,
    /// Last packet of the request.
    pub request_last: MonoNs,
    /// First packet of the reply, 0 = not seen.
    pub reply_first: MonoNs,
    /// Last packet of the reply, 0 = not seen.
    pub reply_last: MonoNs,
}

/// Everything done on behalf of one root message.
#[derive(Clone, Debug)]
pub struct Request {
    /// Hash of the flow and the first byte: the same in every rerun, merge and export.
    pub id: u64,
    /// Spans, parents before children, in order of time. The first is the root.
    pub spans: Vec<Span>,
    /// Its caller is watched, but which request it was made for is not known.
    pub orphan: Option<Gap>,
}

impl Request {
    /// Why the path is not whole, with the span; empty where it is.
    pub fn gaps(&self) -> Vec<(u32, Gap)> {
        let mut out: Vec<(u32, Gap)> = self.orphan.map(|h| (0, h)).into_iter().collect();
        out.extend(self.spans.iter().enumerate().filter_map(|(i, s)| Some((i as u32, s.missing()?))));
        out
    }

    /// Whether its end was not recorded: how long it took is not known.
    pub fn is_in_progress(&self) -> bool {
        self.spans.first().is_some_and(Span::is_in_progress)
    }

    /// Whether nothing is known to be missing.
    pub fn is_complete(&self) -> bool {
        self.orphan.is_none() && self.spans.iter().all(|s| s.missing().is_none())
    }
}

impl Half {
    /// What tells this side of the exchange from all others of the recording: the same in every rerun, merge and export. Of
    /// a request's server it is the request's id.
    pub fn id(&self) -> u64 {
        request_id(&self.place, &self.exchange)
    }

    /// The same of its other end, where addresses say which that is: not through a UNIX socket.
    pub fn other_id(&self) -> Option<u64> {
        let Place { laddr, raddr, lport, rport, .. } = self.place;
        let other = Place { laddr: raddr, raddr: laddr, lport: rport, rport: lport, ..self.place };
        (lport != 0 && rport != 0).then(|| request_id(&other, &self.exchange))
    }
}

/// Where an exchange stands in its flow: the same at both ends and between them.
pub(crate) fn number(e: &Exchange) -> u64 {
    // datagrams may be lost: their ids say more than their place
    if e.content.witness.0.stands_for_place() { e.content.witness.1 | 1 << 40 } else { e.request.start & 0xffff_ffff }
}

/// The id of the request that an exchange is the root of, from its server's place.
pub(crate) fn request_id(p: &Place, e: &Exchange) -> u64 {
    let mut f = FnvHasher::default(); // the same in every version and on every machine
    (p.laddr, p.lport, p.raddr, p.rport, p.protocol).hash(&mut f);
    if p.lport == 0 {
        e.flow.0.hash(&mut f);
    }
    number(e).hash(&mut f);
    f.finish()
}
