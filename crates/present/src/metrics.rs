//! `wakepath metrics`: services and their kinds of request, what the network did, and who called whom.

pub mod live;
pub mod prometheus;
mod text;

use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use wakepath_analysis::metrics::{
    Counts, Limits, Metrics, NetworkCounts, Place, Service, Spread, Tally, Window, WindowRow, address,
};

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.metrics/1";

/// Who saw what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Seen {
    /// Packets on the wire.
    Packets,
    /// The kernel or the library vantage, at the endpoint that serves.
    Server,
    /// The same at the endpoint that calls.
    Client,
}

/// Metrics of one vantage, and their windows.
pub struct Part<'a> {
    /// Who saw it.
    pub seen: Seen,
    /// Totals.
    pub metrics: &'a Metrics,
    /// Closed windows, oldest first.
    pub windows: &'a [Window],
}

/// What is shown.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Only this service: its label, address, port, or process.
    pub service: Option<String>,
    /// Most kinds of a service; 0 = all.
    pub kinds: usize,
    /// Most services, callers and windows in text; 0 = all. The JSON answer has all.
    pub rows: usize,
    /// Whether windows are told.
    pub window_ns: Option<u64>,
    /// Whether the text says who called whom.
    pub map: bool,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SpreadView {
    /// Requests, or handshakes, whose time is known.
    pub count: u64,
    /// The least (ns).
    pub min_ns: u64,
    /// The mean (ns).
    pub mean_ns: u64,
    /// The median (ns).
    pub p50_ns: u64,
    /// 95th percentile (ns).
    pub p95_ns: u64,
    /// 99th percentile (ns).
    pub p99_ns: u64,
    /// The largest (ns).
    pub max_ns: u64,
}

impl From<Spread> for SpreadView {
    fn from(s: Spread) -> SpreadView {
        SpreadView {
            count: s.count,
            min_ns: s.min,
            mean_ns: s.mean,
            p50_ns: s.p50,
            p95_ns: s.p95,
            p99_ns: s.p99,
            max_ns: s.max,
        }
    }
}

/// What is told of a service or a kind, over all or in a window.
#[derive(Clone, Debug, Serialize)]
pub struct FiguresView {
    /// Requests that are over.
    pub requests: u64,
    /// Of them each second.
    pub rate_per_s: f64,
    /// Requests in service at the end.
    pub open: u64,
    /// Requests in service on average.
    pub concurrency: f64,
    /// Share of the requests of known outcome that succeeded.
    pub success_rate: Option<f64>,
    /// Answered, and the reply says success.
    pub succeeded: u64,
    /// HTTP 4xx.
    pub rejected: u64,
    /// HTTP 5xx, or the error of another protocol.
    pub failed: u64,
    /// Answered, but whether with success is not known: the reply does not say it, or that part was not read.
    pub outcome_unknown: u64,
    /// Of the answered ones: the reply was not over when the recording ended.
    pub reply_unfinished: u64,
    /// The flow ended before a reply.
    pub unanswered: u64,
    /// Requests that get no reply.
    pub no_reply: u64,
    /// Requests whose reply was not captured.
    pub reply_missed: u64,
    /// Replies whose request was not captured.
    pub reply_only: u64,
    /// Messages that are neither request nor reply.
    pub unsolicited: u64,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Bytes of replies.
    pub reply_bytes: u64,
    /// Bytes of both that were not captured.
    pub missing_bytes: u64,
    /// Status codes and how often; 0 = without a code.
    pub statuses: Vec<(u16, u64)>,
    /// Replies with codes that found no room there.
    pub other_statuses: u64,
    /// HTTP replies by class, 1xx to 5xx.
    pub http_classes: [u64; 5],
    /// Last packet of the request's header to last packet of the reply's.
    pub service_time: SpreadView,
    /// First packet of the request to first packet of the reply.
    pub first_byte: SpreadView,
    /// First packet of the request to last packet of the reply.
    pub last_byte: SpreadView,
}

impl FiguresView {
    fn new(counts: &Counts, times: [Spread; 3], busy_ns: u64, open: u64, span_ns: u64) -> FiguresView {
        let a_second = |n: u64| if span_ns == 0 { 0.0 } else { n as f64 * 1e9 / span_ns as f64 };
        let [head, first, last] = times;
        FiguresView {
            requests: counts.requests(),
            rate_per_s: a_second(counts.requests()),
            open,
            concurrency: a_second(busy_ns) / 1e9,
            success_rate: counts.success_rate(),
            succeeded: counts.succeeded,
            rejected: counts.rejected,
            failed: counts.failed,
            outcome_unknown: counts.outcome_unknown,
            reply_unfinished: counts.reply_unfinished,
            unanswered: counts.unanswered,
            no_reply: counts.no_reply,
            reply_missed: counts.reply_missed,
            reply_only: counts.reply_only,
            unsolicited: counts.unsolicited,
            request_bytes: counts.request_bytes,
            reply_bytes: counts.reply_bytes,
            missing_bytes: counts.missing_bytes,
            statuses: counts.statuses.clone(),
            other_statuses: counts.other_statuses,
            http_classes: [1, 2, 3, 4, 5].map(|c| counts.classes[c]),
            service_time: head.into(),
            first_byte: first.into(),
            last_byte: last.into(),
        }
    }

    fn of(tally: &Tally, open: u64, span_ns: u64) -> FiguresView {
        let t = &tally.times;
        let busy_ns = u64::try_from(t.last.sum()).unwrap_or(u64::MAX);
        let times = [(&t.head).into(), (&t.first).into(), (&t.last).into()];
        FiguresView::new(&tally.counts, times, busy_ns, open, span_ns)
    }

    /// Failed by the server or not answered.
    fn bad(&self) -> u64 {
        self.failed + self.unanswered
    }
}

/// A direction pair: to the server, to the client.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Directions {
    /// To the server.
    pub to_server: u64,
    /// To the client.
    pub to_client: u64,
}

impl From<[u64; 2]> for Directions {
    fn from([to_server, to_client]: [u64; 2]) -> Directions {
        Directions { to_server, to_client }
    }
}

impl Directions {
    fn sum(self) -> u64 {
        self.to_server + self.to_client
    }
}

/// What the network did.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NetworkView {
    /// Connections and datagram flows seen.
    pub flows: u64,
    /// Connections that the server refused.
    pub refused: u64,
    /// Resets by the client.
    pub resets_by_client: u64,
    /// Resets by the server.
    pub resets_by_server: u64,
    /// SYN to SYN-ACK.
    pub handshake_server: SpreadView,
    /// SYN-ACK to ACK.
    pub handshake_client: SpreadView,
    /// Packets.
    pub packets: Directions,
    /// Bytes of packets.
    pub wire_bytes: Directions,
    /// Bytes of streams.
    pub stream_bytes: Directions,
    /// Bytes that were not captured.
    pub missing_bytes: Directions,
    /// Segments that repeated bytes.
    pub retransmitted: Directions,
    /// Segments that came early.
    pub reordered: Directions,
    /// Zero windows that this direction's sender received.
    pub zero_windows: Directions,
    #[serde(skip)]
    is_troubled: bool,
}

impl NetworkView {
    fn new(c: &NetworkCounts, [server, client]: [Spread; 2]) -> NetworkView {
        NetworkView {
            flows: c.flows,
            refused: c.refused,
            resets_by_client: c.resets[0],
            resets_by_server: c.resets[1],
            handshake_server: server.into(),
            handshake_client: client.into(),
            packets: c.packets.into(),
            wire_bytes: c.wire_bytes.into(),
            stream_bytes: c.stream_bytes.into(),
            missing_bytes: c.missing_bytes.into(),
            retransmitted: c.retransmitted.into(),
            reordered: c.reordered.into(),
            zero_windows: c.zero_windows.into(),
            is_troubled: c.is_troubled(),
        }
    }
}

/// A kind of request of a service.
#[derive(Clone, Debug, Serialize)]
pub struct KindView {
    /// Protocol id, empty where it is not known.
    pub protocol: String,
    /// Verb and target.
    pub asked: String,
    /// Figures.
    #[serde(flatten)]
    pub figures: FiguresView,
}

/// A service.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceView {
    /// `ADDRESS:PORT`, or a path.
    pub service: String,
    /// The process that serves, where known.
    pub process: Option<String>,
    /// Protocol id, empty where it is not known.
    pub protocol: String,
    /// Why flows of it are opaque.
    pub opaque: Option<String>,
    /// Who saw it.
    pub seen: Seen,
    /// Flows that are not over.
    pub flows_open: u64,
    /// Figures.
    #[serde(flatten)]
    pub figures: FiguresView,
    /// The network, where packets were seen.
    pub network: Option<NetworkView>,
    /// Kinds, most requests first.
    pub kinds: Vec<KindView>,
    /// Kinds that are not listed.
    pub kinds_left_out: u64,
}

/// A service or kind in a window.
#[derive(Clone, Debug, Serialize)]
pub struct WindowRowView {
    /// The service.
    pub service: String,
    /// What was asked; none = the service as a whole.
    pub asked: Option<String>,
    /// Figures.
    #[serde(flatten)]
    pub figures: FiguresView,
    /// The network, of a service whose packets were seen.
    pub network: Option<NetworkView>,
}

/// A window.
#[derive(Clone, Debug, Serialize)]
pub struct WindowView {
    /// Its begin, ns since 1970.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// How much of it was watched (ns); rates are by this.
    pub covered_ns: u64,
    /// Services in which something happened, and their kinds.
    pub rows: Vec<WindowRowView>,
}

/// Who called whom.
#[derive(Clone, Debug, Serialize)]
pub struct CallerView {
    /// The client's address.
    pub client: String,
    /// The service.
    pub service: String,
    /// Flows; 0 where no packets were seen.
    pub flows: u64,
    /// Requests that are over.
    pub requests: u64,
    /// Of them, HTTP 4xx.
    pub rejected: u64,
    /// Of them, failed or not answered.
    pub failed: u64,
    /// Bytes of streams; 0 where no packets were seen.
    pub stream_bytes: Directions,
}

/// What a capture held.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CaptureView {
    /// Packets read.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that the capture says it lost.
    pub lost: u64,
}

/// What could not be counted as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitsView {
    /// Requests counted as of the kind `(other)`.
    pub requests_in_other_kinds: u64,
    /// Flows counted as of the service `(other)`.
    pub flows_in_other_services: u64,
    /// Requests on flows of which nothing is known.
    pub requests_without_flow: u64,
    /// Flows forgotten while they went on.
    pub flows_forgotten: u64,
    /// Flows met again after some were forgotten: what came before is not counted.
    pub flows_uncertain: u64,
    /// Open requests that found no room.
    pub open_untold: u64,
    /// Exchanges that several captures told of, counted once.
    pub duplicates: u64,
    /// Exchanges counted in a later window.
    pub late: u64,
    /// Windows that went since there were too many.
    pub windows_dropped: u64,
}

impl LimitsView {
    fn add(&mut self, l: &Limits) {
        self.requests_in_other_kinds += l.requests_in_other_kinds;
        self.flows_in_other_services += l.flows_in_other_services;
        self.requests_without_flow += l.requests_without_flow;
        self.flows_forgotten += l.flows_forgotten;
        self.flows_uncertain += l.flows_uncertain;
        self.open_untold += l.open_untold;
        self.duplicates += l.duplicates;
        self.late += l.late;
        self.windows_dropped += l.windows_dropped;
    }

    /// What touches the answer, each with what it means.
    fn told(&self) -> [(u64, &'static str); 7] {
        [
            (self.requests_in_other_kinds, "requests are under (other): there were too many kinds to tell them apart"),
            (self.flows_in_other_services, "flows are under (other): there were too many services to tell them apart"),
            (self.requests_without_flow, "requests are under (unknown): the record of their flow was lost"),
            (self.flows_forgotten, "flows were dropped while still open: there were too many at once"),
            (self.flows_uncertain, "flows appeared again after that: their earlier part is not counted"),
            (self.open_untold, "times an open request was not counted as open: there were too many at once"),
            (
                self.windows_dropped,
                "of the oldest windows were left out: use longer windows, or a shorter time with --from and --to",
            ),
        ]
    }
}

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct MetricsView {
    /// Begin of the time that was watched, ns since 1970; none where nothing was seen.
    pub from_ns: Option<i64>,
    /// Its end.
    pub to_ns: Option<i64>,
    /// Its length.
    pub span_ns: u64,
    /// Length of the windows, where they were asked for.
    pub window_ns: Option<u64>,
    /// The capture files that were read; none of folders.
    pub capture: Option<CaptureView>,
    /// Services, most requests first.
    pub services: Vec<ServiceView>,
    /// Windows, oldest first.
    pub windows: Vec<WindowView>,
    /// Who called whom, most requests first.
    pub callers: Vec<CallerView>,
    /// What could not be counted as it should be.
    pub limits: LimitsView,
    #[serde(skip)]
    wanted: Wanted,
}

/// Services of several vantages, each of the best one that saw it: packets before servers before clients, as the parts come.
fn chosen<'a>(parts: &'a [Part<'a>], wanted: Option<&str>) -> Vec<(&'a Part<'a>, u32, &'a Service)> {
    let mut known: HashSet<&Place> = HashSet::new();
    let mut out = Vec::new();
    for part in parts {
        let services = part.metrics.services();
        for (number, service) in services.iter().enumerate() {
            if !known.contains(&service.place) && wanted.is_none_or(|w| is_meant(service, w)) {
                out.push((part, number as u32, service));
            }
        }
        known.extend(services.iter().map(|s| &s.place));
    }
    out
}

/// Whether people mean this service by its label, address, port or process.
fn is_meant(service: &Service, wanted: &str) -> bool {
    let place = &service.place;
    let is_port = wanted.trim_start_matches(':').parse() == Ok(place.port) && place.path.is_empty();
    is_port || place.label() == wanted || service.name == wanted || address(place.family, place.address) == wanted
}

impl MetricsView {
    /// Of the parts, better vantages first.
    pub fn new(parts: &[Part<'_>], capture: Option<CaptureView>, wanted: Wanted) -> MetricsView {
        let spans: Vec<_> = parts.iter().filter_map(|p| p.metrics.span()).collect();
        let (from, to) = (spans.iter().map(|s| s.0.0).min(), spans.iter().map(|s| s.1.0).max());
        let span_ns = from.zip(to).map_or(0, |(a, b)| b.abs_diff(a));
        let chosen = chosen(parts, wanted.service.as_deref());
        let mut services: Vec<ServiceView> =
            chosen.iter().map(|(part, n, s)| service_view(part, *n, s, span_ns, wanted.kinds)).collect();
        services.sort_by(|a, b| b.figures.requests.cmp(&a.figures.requests).then_with(|| a.service.cmp(&b.service)));
        let mut limits = LimitsView::default();
        parts.iter().for_each(|p| limits.add(&p.metrics.limits()));
        let is_chosen: HashSet<(Seen, u32)> = chosen.iter().map(|(p, n, _)| (p.seen, *n)).collect();
        let windows = if wanted.window_ns.is_some() { windows(parts, &is_chosen) } else { Vec::new() };
        MetricsView {
            from_ns: from,
            to_ns: to,
            span_ns,
            window_ns: wanted.window_ns,
            capture,
            services,
            windows,
            callers: callers(parts, &is_chosen),
            limits,
            wanted,
        }
    }

    /// Whether the bounds of memory or a lost record touch it.
    pub fn is_whole(&self) -> bool {
        self.limits.told().iter().all(|(n, _)| *n == 0)
    }
}

fn service_view(part: &Part<'_>, number: u32, s: &Service, span_ns: u64, kinds_max: usize) -> ServiceView {
    let m = part.metrics;
    let mut kinds: Vec<KindView> = s
        .kinds
        .iter()
        .map(|&k| {
            let kind = m.kind(k);
            let figures = FiguresView::of(&m.kind_tally(k), kind.open, span_ns);
            KindView { protocol: kind.protocol.clone(), asked: kind.asked.clone(), figures }
        })
        .filter(|k| k.figures.requests + k.figures.open > 0)
        .collect();
    kinds.sort_by(|a, b| b.figures.requests.cmp(&a.figures.requests).then_with(|| a.asked.cmp(&b.asked)));
    let shown = if kinds_max == 0 { kinds.len() } else { kinds_max.min(kinds.len()) };
    let left_out = kinds.split_off(shown).len() as u64;
    let network = (part.seen == Seen::Packets).then(|| {
        let n = m.network(number);
        NetworkView::new(&n.counts, [(&n.rtt_server).into(), (&n.rtt_client).into()])
    });
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    ServiceView {
        service: s.place.label(),
        process: some(&s.name),
        protocol: s.protocol.clone(),
        opaque: some(&s.opaque),
        seen: part.seen,
        flows_open: s.flows_open,
        figures: FiguresView::of(&m.service_tally(number), m.open_of(number), span_ns),
        network,
        kinds,
        kinds_left_out: left_out,
    }
}

fn row_view(part: &Part<'_>, row: &WindowRow, covered_ns: u64) -> WindowRowView {
    let m = part.metrics;
    WindowRowView {
        service: m.service(row.service).place.label(),
        asked: row.kind.map(|k| m.kind(k).asked.clone()),
        figures: FiguresView::new(&row.counts, row.times, row.busy_ns, row.open, covered_ns),
        network: row.network.as_ref().filter(|_| part.seen == Seen::Packets).map(|(c, rtt)| NetworkView::new(c, *rtt)),
    }
}

fn windows(parts: &[Part<'_>], is_chosen: &HashSet<(Seen, u32)>) -> Vec<WindowView> {
    let mut by_time: BTreeMap<i64, WindowView> = BTreeMap::new();
    for part in parts {
        for w in part.windows {
            let rows: Vec<WindowRowView> = w
                .rows
                .iter()
                .filter(|r| is_chosen.contains(&(part.seen, r.service)))
                .map(|r| row_view(part, r, w.covered_ns))
                .collect();
            if rows.is_empty() {
                continue;
            }
            let empty = || WindowView { from_ns: w.from.0, to_ns: w.to.0, covered_ns: 0, rows: Vec::new() };
            let view = by_time.entry(w.from.0).or_insert_with(empty);
            view.covered_ns = view.covered_ns.max(w.covered_ns);
            view.rows.extend(rows);
        }
    }
    by_time.into_values().collect()
}

fn callers(parts: &[Part<'_>], is_chosen: &HashSet<(Seen, u32)>) -> Vec<CallerView> {
    let mut out: Vec<CallerView> = Vec::new();
    for part in parts {
        let callers = part.metrics.callers().iter().filter(|c| is_chosen.contains(&(part.seen, c.service)));
        out.extend(callers.map(|c| CallerView {
            client: address(c.family, c.address),
            service: part.metrics.service(c.service).place.label(),
            flows: c.flows,
            requests: c.requests,
            rejected: c.rejected,
            failed: c.failed,
            stream_bytes: c.stream_bytes.into(),
        }));
    }
    let key = |c: &CallerView| (c.client.clone(), c.service.clone());
    out.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| key(a).cmp(&key(b))));
    out
}
