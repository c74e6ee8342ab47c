//! A request as other tracers know it: a trace of spans, one for each side of each call that was watched, with OpenTelemetry's
//! names for what is known.
//!
//! Nothing is guessed: a message whose request is not known is a trace of its own that says so, and spans that may have made it
//! point to it with a link. Times are as recorded, on the line that all hosts share: where clocks are not closely related, a
//! span may begin before its parent.

mod attributes;
mod paths;

pub use attributes::{Attribute, Value};
pub use paths::{Paths, Tells, Untold};

use attributes::{Attributes, addresses, asked, ending, placement};
use fnv::FnvHasher;
use paths::Spent;
use std::cmp::Reverse;
use std::hash::Hasher as _;
use wakepath_analysis::causes::Cause;
use wakepath_analysis::names::Names;
use wakepath_analysis::spans::{Timed, evidence, lay_out};
use wakepath_analysis::why::{Detail, What};
use wakepath_causality::path::{Half, Request, Span};
use wakepath_model::clock::Timeline;
use wakepath_model::ids::{HostId, MonoNs};
use wakepath_present::text::escaped;

/// What a span is of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It served it.
    Server,
    /// It made it, and waited for the reply.
    Client,
    /// It put something where others take it up later.
    Producer,
}

/// What happened during a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// What it is.
    pub name: &'static str,
    /// When (ns since 1970).
    pub at_ns: i64,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
}

/// A span of another trace that may belong to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its trace.
    pub trace: [u8; 16],
    /// The span.
    pub span: u64,
    /// Why it is linked.
    pub attributes: Vec<Attribute>,
}

/// One side of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSpan {
    /// Its id, never 0: the same in every export.
    pub id: u64,
    /// The span that made it, in the same trace.
    pub parent: Option<u64>,
    /// Which side.
    pub side: Side,
    /// The service whose time it is.
    pub service: String,
    /// On which host.
    pub host: String,
    /// Where the service runs: what is known of its container, pod and systemd unit.
    pub placement: Vec<Attribute>,
    /// What was asked.
    pub name: String,
    /// Begin (ns since 1970, or what the host's clock said where nothing relates it to that).
    pub from_ns: i64,
    /// End, not before the begin.
    pub to_ns: i64,
    /// It failed: the reply says so, or it never came.
    pub failed: bool,
    /// How, for people; empty where it did not.
    pub failure: String,
    /// What else is known.
    pub attributes: Vec<Attribute>,
    /// What happened meanwhile, in order of time.
    pub happened: Vec<Happened>,
    /// What may belong to it.
    pub links: Vec<Link>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its id; the last eight bytes are the request's own, as `wakepath show` takes it.
    pub id: [u8; 16],
    /// Parents before children.
    pub spans: Vec<TraceSpan>,
}

/// A part of a request's critical path: its intervals that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// The span of its trace in whose time they lie.
    pub span: u64,
    /// What they were spent on.
    pub what: What,
    /// What is known besides.
    pub detail: Detail,
    /// How long they are together (ns).
    pub ns: u64,
    /// How many they are.
    pub intervals: u64,
}

/// Id of the trace of a request.
pub fn trace_id(request: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&hash(&[request, u64::from(b't')]).to_be_bytes());
    id[8..].copy_from_slice(&request.to_be_bytes());
    id
}

/// Id of a span within the trace of a request: `side` is what tells the side of the exchange from all others.
pub fn span_id(request: u64, side: u64) -> u64 {
    hash(&[request, side]).max(1)
}

fn hash(words: &[u64]) -> u64 {
    let mut f = FnvHasher::default(); // the same in every version and on every machine
    words.iter().for_each(|w| f.write(&w.to_le_bytes()));
    f.finish()
}

/// What the spans of a trace are grouped by: service, host, and where it runs, as several pods may be one service.
pub(crate) type Origin<'t> = (&'t str, &'t str, &'t [Attribute]);

impl TraceSpan {
    /// What it is grouped by.
    pub(crate) fn origin(&self) -> Origin<'_> {
        (&self.service, &self.host, &self.placement)
    }
}

/// Makes traces of requests.
pub struct Traces<'a> {
    names: &'a Names<'a>,
    line: Timeline,
    paths: Option<Paths<'a>>,
}

impl<'a> Traces<'a> {
    /// For the requests of a folder. With `paths`, spans say what their time on the critical path went to.
    pub fn new(names: &'a Names<'a>, line: Timeline, paths: Option<Paths<'a>>) -> Traces<'a> {
        Traces { names, line, paths }
    }

    /// The line that all hosts share.
    pub fn line(&self) -> &Timeline {
        &self.line
    }

    /// The trace of a request.
    pub fn of(&self, r: &Request) -> Trace {
        self.with_parts(r).0
    }

    /// The trace of a request, and what its critical path went to, the largest part first: none where its [`Paths`] tell no parts,
    /// or why that is not known.
    pub fn with_parts(&self, r: &Request) -> (Trace, Result<Vec<PathPart>, Untold>) {
        let timed = lay_out(r);
        let mut spent = self.paths.as_ref().map_or(Err(Untold::NoWaits), |p| p.spent(r));
        // the innermost side of each span: whose children its calls are
        let mut inner: Vec<Option<u64>> = vec![None; r.spans.len()];
        let mut spans = Vec::with_capacity(2 * r.spans.len());
        for t in &timed {
            let s = &r.spans[t.index as usize];
            let mut parent = s.parent.and_then(|p| inner[p as usize]);
            // what a sniffer alone saw of an unwatched caller is the server's side
            let is_on_wire = s.callee.is_none() && s.wire.as_ref().is_some_and(|w| w.is_caller);
            if let Some(caller) = s.caller.as_ref().filter(|_| !is_on_wire) {
                let service = s.parent.map_or_else(
                    || self.names.program(caller.host, caller.exchange.request.task).to_owned(),
                    |p| self.names.service(&r.spans[p as usize]),
                );
                let mut span = self.span(r, s, caller, t, &service);
                span.side = if caller.exchange.content.is_queued() { Side::Producer } else { Side::Client };
                (span.from_ns, span.to_ns) =
                    self.between(caller.host, caller.exchange.request.began, caller.exchange.reply.ended);
                span.parent = parent;
                parent = Some(span.id);
                spans.push(span);
            }
            if let Some(callee) = s.callee.as_ref().or(s.caller.as_ref().filter(|_| is_on_wire)) {
                let mut span = self.span(r, s, callee, t, &self.names.service(s));
                (span.from_ns, span.to_ns) = self.between(t.host, t.start, t.end);
                span.parent = parent;
                parent = Some(span.id);
                spans.push(span);
            }
            inner[t.index as usize] = parent;
            if let Some(last) = spans.last_mut() {
                self.describe(r, s, t, last, spent.as_ref().ok().and_then(|spent| spent.get(t.index as usize)));
            }
        }
        let parts = spent.as_mut().map(|spent| parts(spent, &inner)).map_err(|untold| *untold);
        (Trace { id: trace_id(r.id), spans }, parts)
    }

    fn between(&self, host: HostId, from: MonoNs, to: MonoNs) -> (i64, i64) {
        let from = self.line.common(host, from).0;
        (from, self.line.common(host, to).0.max(from))
    }

    /// One side of a call, as that side saw it.
    fn span(&self, r: &Request, s: &Span, half: &Half, t: &Timed, service: &str) -> TraceSpan {
        let names = self.names;
        let is_server = s.callee.as_ref().is_some_and(|c| std::ptr::eq(c, half)) || s.caller.is_none();
        let mut a = Attributes::default();
        a.text("wakepath.request", &format!("{:016x}", r.id));
        a.number("wakepath.span", i64::from(t.index));
        asked(names, half, is_server, &mut a);
        addresses(&half.place, is_server, &mut a);
        let (comm, tid) = names
            .task(half.host, half.exchange.request.task)
            .rsplit_once('/')
            .map_or_else(|| (String::new(), None), |(comm, tid)| (comm.to_owned(), tid.parse().ok()));
        a.text("thread.name", &comm);
        tid.into_iter().for_each(|tid| a.number("thread.id", tid));
        let failure = ending(names, half, &mut a);
        TraceSpan {
            id: span_id(r.id, half.id()),
            parent: None,
            side: Side::Server,
            service: escaped(service).into_owned(),
            host: escaped(names.host(half.host)).into_owned(),
            placement: placement(&names.placement(half.host, half.exchange.request.task)),
            name: escaped(&names.asked(half)).into_owned(),
            from_ns: 0,
            to_ns: 0,
            failed: failure.is_some(),
            failure: failure.unwrap_or_default(),
            attributes: a.0,
            happened: Vec::new(),
            links: Vec::new(),
        }
    }

    /// What is known of a span by its place in the request: said once, at its inner side.
    fn describe(&self, r: &Request, s: &Span, t: &Timed, span: &mut TraceSpan, spent: Option<&Spent>) {
        let mut a = Attributes(std::mem::take(&mut span.attributes));
        a.text("wakepath.evidence", &evidence(s));
        let ns = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        a.number("wakepath.own_ns", ns(t.self_ns));
        a.number("wakepath.queued_ns", ns(t.queued_ns));
        t.between_ns.into_iter().for_each(|between| a.number("wakepath.between_ns", ns(between)));
        if let Some((_, hole)) = r.gaps().into_iter().find(|h| h.0 == t.index) {
            a.text("wakepath.incomplete", hole.name());
        }
        if let (0, Some(orphan)) = (t.index, r.orphan) {
            a.text("wakepath.request_not_known", orphan.name());
        }
        for f in &s.refusals {
            let mut of = Attributes::default();
            of.text("server.address", &self.names.asked_for(t.host, &f.place));
            of.text("error.type", &wakepath_present::refusals::why(f.error));
            let at_ns = self.line.common(t.host, f.tried.1).0;
            span.happened.push(Happened { name: "connection refused", at_ns, attributes: of.0 });
        }
        for call in &s.open_calls {
            let mut of = Attributes::default();
            of.text("wakepath.asked", &self.names.asked(&call.half));
            of.text("server.address", &self.names.asked_for(call.half.host, &call.half.place));
            of.number("wakepath.other_candidates", i64::from(call.others));
            let at_ns = self.line.common(call.half.host, call.half.exchange.request.began).0;
            span.happened.push(Happened { name: "call that may be its", at_ns, attributes: of.0.clone() });
            if let Some(other) = call.half.other_id() {
                of.text("wakepath.link", "may have been made by this span");
                span.links.push(Link { trace: trace_id(other), span: span_id(other, other), attributes: of.0 });
            }
        }
        if let Some(spent) = spent {
            let name = |cause: &Cause| format!("wakepath.critical_path.{}_ns", cause.name());
            spent.causes.iter().for_each(|(cause, spent)| a.number(name(cause), ns(*spent)));
            span.happened.extend(spent.longest.iter().cloned());
        }
        span.happened.sort_by_key(|h| h.at_ns);
        span.attributes = a.0;
    }
}

/// What spans' times went to, the largest part first; `inner`: each span's own side.
fn parts(spent: &mut [Spent], inner: &[Option<u64>]) -> Vec<PathPart> {
    let mut out = Vec::new();
    for (spent, inner) in spent.iter_mut().zip(inner) {
        let part = |((what, detail), (ns, intervals))| Some(PathPart { span: (*inner)?, what, detail, ns, intervals });
        out.extend(std::mem::take(&mut spent.parts).into_iter().filter_map(part));
    }
    out.sort_by_key(|p| Reverse(p.ns));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_never_empty_and_carry_the_request() {
        for request in [0, 1, u64::MAX] {
            let id = trace_id(request);
            assert!(id != [0; 16] && id[8..] == request.to_be_bytes());
            assert_ne!(span_id(request, 0), 0);
        }
        assert_ne!(span_id(1, 2), span_id(2, 1));
    }
}
