//! `wakepath show`: one request as a waterfall, with the evidence of each link.

mod text;

use crate::proofs::ProofView;
use crate::refusals;
use serde::Serialize;
use wakepath_analysis::faults::{FileRead, SpanFaults};
use wakepath_analysis::names::Names;
use wakepath_analysis::spans::{Timed, evidence, lay_out};
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::finished::Refusal;
use wakepath_causality::path::{OpenCall, Request, Span};
use wakepath_model::ids::{CommonNs, HostId, MonoNs};

/// A span.
#[derive(Default, Serialize)]
pub struct SpanView {
    /// Number in the request.
    pub span: u32,
    /// Number of the span that asked for it; none for the root.
    pub parent: Option<u32>,
    /// Depth below the root.
    pub depth: u32,
    /// Host whose clock the times are of.
    pub host: String,
    /// Service.
    pub service: String,
    /// Task that took it (that asked, where the server is not watched).
    pub task: String,
    /// Client and server address.
    pub flow: String,
    /// What was asked.
    pub asked: String,
    /// Status code, 0 = none.
    pub status: u16,
    /// Error class, empty where none.
    pub error: String,
    /// The reply says that it failed; `None` where no reply that says so was read.
    pub failed: Option<bool>,
    /// Reset before the reply was complete.
    pub reset: bool,
    /// When its client closed or reset the connection before the reply was complete, from the span's begin (ns); null: it did not.
    pub left_ns: Option<u64>,
    /// A whole reply was sent to it.
    #[serde(skip)]
    pub has_replied: bool,
    /// When its caller had the answer, after the root's begin, ns.
    #[serde(skip)]
    pub heard_ns: Option<i64>,
    /// Nobody saw its request arrive: it may have waited there before its begin.
    #[serde(skip)]
    pub arrival_unseen: bool,
    /// Begin (host's monotonic ns).
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Begin after the root's, ns.
    pub offset_ns: i64,
    /// Length, ns.
    pub duration_ns: u64,
    /// Own time, ns.
    pub self_ns: u64,
    /// Waited before a task took it, ns.
    pub queued_ns: u64,
    /// Until the connection was there, where this is the first call on it and its caller waited for it, ns.
    pub connect_ns: u64,
    /// Until the peer had answered in the handshake of that connection, ns.
    pub handshake_ns: u64,
    /// Between the two sides, ns.
    pub between_ns: Option<u64>,
    /// How it is known.
    pub evidence: String,
    /// What is missing, empty where nothing.
    pub hole: String,
    /// Both sides watched.
    pub watched: bool,
    /// It puts something where others take it up later: a queue, a list, a topic.
    pub queued: bool,
    /// What a sniffer tells of its time, where one saw its reply.
    pub wire: Option<WireView>,
    /// Connections that were tried while it was served and did not come about, the first 16.
    pub refused: Vec<RefusalView>,
    /// Calls that may belong to it and could not be determined, the first 8.
    pub open_calls: Vec<OpenCallView>,
    /// Page faults of the task that served it, while it did; none where none were recorded.
    pub faults: Option<FaultView>,
}

/// A call that several requests could have made.
#[derive(Serialize)]
pub struct OpenCallView {
    /// What it asks.
    pub asked: String,
    /// Whom.
    pub remote: String,
    /// Task that made it.
    pub task: String,
    /// When it began, after the root's begin, ns.
    pub offset_ns: i64,
    /// How many other requests could have made it; 0: the program itself, if not this one.
    pub others: u32,
}

/// Page faults of a span.
#[derive(Serialize)]
pub struct FaultView {
    /// Without a read.
    pub minor: u64,
    /// With one.
    pub major: u64,
    /// Counted by the kernel as neither.
    pub neither: u64,
    /// How long the task was held up in those with a read, ns.
    pub major_ns: u64,
    /// What was read, longest first.
    pub files: Vec<FileView>,
}

/// A file that page faults read.
#[derive(Serialize)]
pub struct FileView {
    /// Its path, else its device and inode.
    pub file: String,
    /// How many faults read of it.
    pub faults: u64,
    /// How long the task was held up in them, ns.
    pub duration_ns: u64,
}

/// A connection that did not come about.
#[derive(Serialize)]
pub struct RefusalView {
    /// Task that tried.
    pub task: String,
    /// Where.
    pub remote: String,
    /// Why.
    pub why: String,
    /// The same as a number of Linux's, 0 = not known.
    pub error: i32,
    /// When that was known, after the root's begin, ns.
    pub offset_ns: i64,
    /// How long it had been tried, ns.
    pub took_ns: u64,
}

/// A span's time as a sniffer divides it.
#[derive(Serialize)]
pub struct WireView {
    /// The sniffer's host.
    pub host: String,
    /// From the caller's sending to the request's last packet, ns; null where the caller or the clocks are not known.
    pub out_ns: Option<u64>,
    /// From there to the reply's first packet, ns.
    pub server_ns: u64,
    /// From there until the caller had the complete reply, ns.
    pub back_ns: Option<u64>,
}

/// A request.
#[derive(Serialize)]
pub struct ShowView {
    /// Id.
    pub request: String,
    /// Entry service.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// Wall-clock begin, ns since 1970.
    pub wall_ns: Option<i64>,
    /// Length, ns; of one whose end was not recorded, as far as it was seen.
    pub duration_ns: u64,
    /// Its end was not recorded: it was in progress when recording stopped, or the end was lost.
    pub in_progress: bool,
    /// Whether nothing is known to be missing.
    pub complete: bool,
    /// Spans, parents first.
    pub spans: Vec<SpanView>,
    /// How its calls are known; none unless that was asked.
    pub proofs: Option<Vec<ProofView>>,
}

/// What every span of a request needs to be shown.
struct Around<'a, W, C> {
    names: &'a Names<'a>,
    /// A host's time on the wall clock.
    wall: W,
    /// A host's time on the line that all hosts share.
    common: C,
    /// Where the request begins on that line, ns.
    begin: i64,
}

impl<W: Fn(HostId, u64) -> Option<i64>, C: Fn(HostId, MonoNs) -> CommonNs> Around<'_, W, C> {
    /// Time since the request's begin, ns.
    fn offset(&self, host: HostId, at: MonoNs) -> i64 {
        (self.common)(host, at).0.saturating_sub(self.begin)
    }

    /// A span; `hole` says why its request's path is incomplete there.
    fn span(&self, s: &Span, t: &Timed, hole: Option<&str>, faults: Option<&SpanFaults>) -> SpanView {
        let names = self.names;
        let half = s.callee.as_ref().or(s.caller.as_ref()).expect("a span has a side");
        let e = &half.exchange;
        let is_unseen = s.callee.is_none() && s.wire.as_ref().is_some_and(|w| w.is_caller);
        let detail = names.text(half.host, e.content.detail);
        SpanView {
            span: t.index,
            parent: s.parent,
            depth: t.depth,
            host: names.host(t.host).to_owned(),
            service: names.service(s),
            task: if is_unseen { String::new() } else { names.task(half.host, e.request.task) },
            flow: flow(s),
            asked: names.asked(half),
            status: e.content.status,
            error: if e.is(ExchangeFlag::Failed) { detail.to_owned() } else { String::new() },
            failed: (e.is(ExchangeFlag::Failed) || !e.is(ExchangeFlag::OutcomeUnknown))
                .then_some(e.is(ExchangeFlag::Failed)),
            reset: e.is(ExchangeFlag::Reset),
            left_ns: (e.client.left.0 != 0).then(|| e.client.left.0.saturating_sub(t.start.0)),
            has_replied: e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::OneWay),
            heard_ns: s.caller.as_ref().map(|c| self.offset(c.host, c.exchange.reply.ended)),
            arrival_unseen: s.callee.as_ref().is_some_and(|c| c.exchange.request.arrived.0 == 0),
            start_ns: t.start.0,
            end_ns: t.end.0,
            offset_ns: self.offset(t.host, t.start),
            duration_ns: t.duration_ns(),
            self_ns: t.self_ns,
            queued_ns: t.queued_ns,
            connect_ns: t.opening.connect,
            handshake_ns: t.opening.handshake,
            between_ns: t.between_ns,
            evidence: evidence(s),
            hole: hole.unwrap_or_default().to_owned(),
            watched: s.callee.is_some(),
            queued: e.content.is_queued(),
            wire: t.wire.zip(s.wire.as_ref()).map(|(legs, w)| WireView {
                host: names.host(w.host).to_owned(),
                out_ns: legs.out_ns,
                server_ns: legs.server_ns,
                back_ns: legs.back_ns,
            }),
            refused: s.refusals.iter().map(|f| self.refusal(half.host, f)).collect(),
            open_calls: s.open_calls.iter().map(|c| self.open_call(c)).collect(),
            faults: faults.filter(|f| !f.is_empty()).map(FaultView::new),
        }
    }

    /// A connection that was refused to a task of the span's `host`.
    fn refusal(&self, host: HostId, f: &Refusal) -> RefusalView {
        RefusalView {
            task: self.names.task(host, f.task),
            remote: self.names.asked_for(host, &f.place),
            why: refusals::why(f.error),
            error: f.error,
            offset_ns: self.offset(host, f.tried.1),
            took_ns: f.tried.1.0.saturating_sub(f.tried.0.0),
        }
    }

    fn open_call(&self, c: &OpenCall) -> OpenCallView {
        let e = &c.half.exchange;
        OpenCallView {
            asked: self.names.asked(&c.half),
            remote: self.names.asked_for(c.half.host, &c.half.place),
            task: self.names.task(c.half.host, e.request.task),
            offset_ns: self.offset(c.half.host, e.request.began),
            others: c.others,
        }
    }
}

impl ShowView {
    /// From a request and the page faults of its spans; `wall` and `common` put a host's time on the wall clock and on the line that all hosts share.
    pub fn new(
        r: &Request,
        faults: &[SpanFaults],
        names: &Names<'_>,
        wall: impl Fn(HostId, u64) -> Option<i64>,
        common: impl Fn(HostId, MonoNs) -> CommonNs,
    ) -> ShowView {
        let timed = lay_out(r);
        let holes = r.gaps();
        let root = timed.first().map(|t| (t.start.0, t.end.0, t.host));
        let (start, end, host) = root.unwrap_or_default();
        let begin = common(host, MonoNs(start)).0;
        let around = Around { names, wall, common, begin };
        let span = |t: &Timed| {
            let hole = holes.iter().find(|h| h.0 == t.index).map(|h| h.1.name());
            around.span(&r.spans[t.index as usize], t, hole, faults.get(t.index as usize))
        };
        let spans = timed.iter().map(span).collect();
        let (service, asked) = wakepath_analysis::requests::kind_of(r, names);
        ShowView {
            request: format!("{:016x}", r.id),
            service,
            asked,
            wall_ns: (around.wall)(host, start),
            duration_ns: end.saturating_sub(start),
            in_progress: r.is_in_progress(),
            complete: r.is_complete(),
            spans,
            proofs: None,
        }
    }
}

impl FaultView {
    fn new(f: &SpanFaults) -> FaultView {
        let file = |r: &FileRead| FileView { file: r.name.clone(), faults: r.faults, duration_ns: r.ns };
        let (minor, major, neither, major_ns) = (f.minor, f.major, f.neither, f.major_ns);
        FaultView { minor, major, neither, major_ns, files: f.files.iter().map(file).collect() }
    }
}

fn flow(s: &wakepath_causality::path::Span) -> String {
    use wakepath_analysis::names::remote;
    match (&s.callee, &s.caller) {
        (Some(h), _) => format!("{} -> :{}", remote(&h.place), h.place.lport),
        (None, Some(h)) => format!(":{} -> {}", h.place.lport, remote(&h.place)),
        (None, None) => String::new(),
    }
}
