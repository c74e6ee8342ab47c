//! Service metrics of the SDN paper, section 4: load, service times, success, requests by kind, and what the network did.
//!
//! Rows of `sniffed_flows` and `sniffed_exchanges` go in, of one capture or of several, as they are made or from folders;
//! figures of windows and over all come out. Memory is bounded by [`MetricsOptions`]; what found no room is counted.

mod endpoints;
mod figures;
mod flow_rows;
mod flows;
mod kinds;
mod places;
mod windows;

pub use endpoints::{Seen, of_endpoints};
pub use figures::{Counts, Network, NetworkCounts, Spread, Tally, Times};
pub use places::{Place, address};
pub use windows::{Window, WindowRow};

use flows::{Flows, NONE};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::VecDeque;
use wakepath_model::folder::Host;
use wakepath_model::ids::{CommonNs, MonoNs, SniffedFlowId, StrId};
use wakepath_model::intern::Interner;
use wakepath_model::rows::{ExchangeKind, Failed, OPEN, SniffedExchangeRow};
use wakepath_model::words;

/// What a kind without room is called.
pub const OTHER: &str = "(other)";
/// Who cannot be told.
const UNKNOWN: &str = "(unknown)";

/// Bounds of the memory, and what is taken.
#[derive(Clone, Copy, Debug)]
pub struct MetricsOptions {
    /// Length of a window, ns. Windows begin at multiples of it.
    pub window_ns: u64,
    /// Services told apart; later ones are one called [`OTHER`].
    pub services_max: usize,
    /// Kinds told apart of one service; later ones are one called [`OTHER`].
    pub kinds_max: usize,
    /// Kinds told apart of all services together.
    pub kinds_all_max: usize,
    /// Flows remembered.
    pub flows_max: usize,
    /// Open requests remembered.
    pub open_max: usize,
    /// Pairs of a client's address and a service told apart; later ones are one client called [`OTHER`].
    pub callers_max: usize,
    /// Rows of closed windows kept until they are taken; then the oldest windows go.
    pub window_rows_max: usize,
    /// An open request of which nothing was said for so long is no longer held for open, ns.
    pub open_stale_ns: u64,
    /// Nothing before is counted.
    pub from: CommonNs,
    /// Nothing from here on is counted.
    pub to: CommonNs,
}

impl Default for MetricsOptions {
    fn default() -> MetricsOptions {
        MetricsOptions {
            window_ns: 10_000_000_000,
            services_max: 1000,
            kinds_max: 100,
            kinds_all_max: 5000,
            flows_max: 1 << 17,
            open_max: 1 << 16,
            callers_max: 10_000,
            window_rows_max: 100_000,
            open_stale_ns: 60_000_000_000,
            from: CommonNs(i64::MIN),
            to: CommonNs(i64::MAX),
        }
    }
}

/// Texts of the ids in rows.
pub trait Texts {
    /// The text of an id.
    fn text(&self, id: StrId) -> Cow<'_, str>;
}

impl Texts for Host {
    fn text(&self, id: StrId) -> Cow<'_, str> {
        Cow::Borrowed(Host::text(self, id))
    }
}

impl Texts for Interner {
    fn text(&self, id: StrId) -> Cow<'_, str> {
        match self.get(id).map_or(Cow::Borrowed(""), String::from_utf8_lossy) {
            Cow::Borrowed(text) => words::show(text),
            Cow::Owned(text) => Cow::Owned(words::show(&text).into_owned()),
        }
    }
}

/// A service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Where it is reached.
    pub place: Place,
    /// The process that serves, where that is known.
    pub name: String,
    /// Its protocol's id, empty where it is not known.
    pub protocol: String,
    /// Why a flow of it is opaque, empty where none is.
    pub opaque: String,
    /// Its kinds: numbers for [`Metrics::kind`].
    pub kinds: Vec<u32>,
    /// Flows that are not over.
    pub flows_open: u64,
    other: Option<u32>,
    /// Some of its kinds were put together.
    has_wider: bool,
    /// Of the window: what is of no kind; of windows before: everything.
    counting: Tally,
    closed: Tally,
    network: Network,
    network_closed: Network,
    is_touched: bool,
}

/// What was asked of a service.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its service: a number for [`Metrics::service`].
    pub service: u32,
    /// Protocol id.
    pub protocol: String,
    /// Verb and target.
    pub asked: String,
    /// Requests in service now.
    pub open: u64,
    counting: Tally,
    closed: Tally,
    is_http: bool,
    is_touched: bool,
}

/// One client's doings with one service.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Address family, 0 for all that are not told apart.
    pub family: u16,
    /// The client's address.
    pub address: [u8; 16],
    /// The service: a number for [`Metrics::service`].
    pub service: u32,
    /// Flows.
    pub flows: u64,
    /// Requests that are over.
    pub requests: u64,
    /// Of them, failed or not answered.
    pub failed: u64,
    /// Of them, HTTP 4xx.
    pub rejected: u64,
    /// Bytes of the streams, to the server and to the client.
    pub stream_bytes: [u64; 2],
}

/// What could not be counted as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests counted under the kind [`OTHER`], since there were too many kinds.
    pub requests_in_other_kinds: u64,
    /// Flows counted under the service [`OTHER`], since there were too many services.
    pub flows_in_other_services: u64,
    /// Requests on flows of which nothing is known.
    pub requests_without_flow: u64,
    /// Flows forgotten to make room while they went on.
    pub flows_forgotten: u64,
    /// Flows met again after some had been forgotten: what came before is not counted.
    pub flows_uncertain: u64,
    /// Open requests that found no room.
    pub open_untold: u64,
    /// Exchanges that another capture told of already.
    pub duplicates: u64,
    /// Exchanges counted in a later window than the one in which they ended.
    pub late: u64,
    /// Windows that went before they were taken.
    pub windows_dropped: u64,
}

/// A request without its whole reply.
struct StillOpen {
    kind: u32,
    caller: u32,
    /// When it was told of last.
    told: CommonNs,
    /// What its reply's head says, where that was seen.
    begun: Option<Box<SniffedExchangeRow>>,
}

type KindIds = (u32, u16, StrId, StrId, StrId);

/// Aggregates rows as they come.
pub struct Metrics {
    options: MetricsOptions,
    services: Vec<Service>,
    by_place: FxHashMap<Place, u32>,
    kinds: Vec<Kind>,
    kinds_live: usize,
    by_text: FxHashMap<(u32, String, String), u32>,
    by_ids: FxHashMap<KindIds, u32>,
    callers: Vec<Caller>,
    by_caller: FxHashMap<(u16, [u8; 16], u32), u32>,
    flows: Flows,
    /// By flow and first byte.
    open: FxHashMap<(SniffedFlowId, u64), StillOpen>,
    touched_services: Vec<u32>,
    touched_kinds: Vec<u32>,
    /// Number of the window that is counted.
    window: Option<i64>,
    windows: VecDeque<Window>,
    window_rows: usize,
    span: Option<(CommonNs, CommonNs)>,
    lost_packets: u64,
    limits: Limits,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new(options: MetricsOptions) -> Metrics {
        Metrics {
            flows: Flows::new(options.flows_max),
            options: MetricsOptions { window_ns: options.window_ns.clamp(1, i64::MAX as u64), ..options },
            services: Vec::new(),
            by_place: FxHashMap::default(),
            kinds: Vec::new(),
            kinds_live: 0,
            by_text: FxHashMap::default(),
            by_ids: FxHashMap::default(),
            callers: Vec::new(),
            by_caller: FxHashMap::default(),
            open: FxHashMap::default(),
            touched_services: Vec::new(),
            touched_kinds: Vec::new(),
            window: None,
            windows: VecDeque::new(),
            window_rows: 0,
            span: None,
            lost_packets: 0,
            limits: Limits::default(),
        }
    }

    /// Takes a row of an exchange; its flow's rows come before it. `at` is when it ended, on the common line.
    pub fn exchange(&mut self, source: u16, at: CommonNs, row: &SniffedExchangeRow, texts: &impl Texts) {
        if at < self.options.from || at >= self.options.to {
            return;
        }
        let (service, caller) = match self.flows.get(row.flow) {
            Some(flow) if flow.source != source => {
                self.limits.duplicates += 1;
                return;
            }
            Some(flow) if flow.service != NONE => (flow.service, flow.caller),
            Some(flow) => {
                let mut flow = *flow;
                self.settle(&mut flow);
                if let Some(kept) = self.flows.get(row.flow) {
                    *kept = flow;
                }
                (flow.service, flow.caller)
            }
            None => {
                self.limits.requests_without_flow += 1;
                let service = self.service_at(Place::named(UNKNOWN));
                (service, self.caller_of(0, [0; 16], service))
            }
        };
        self.count(source, at, row, service, caller, texts);
    }

    fn count(
        &mut self,
        source: u16,
        at: CommonNs,
        row: &SniffedExchangeRow,
        service: u32,
        caller: u32,
        texts: &impl Texts,
    ) {
        let is_late = self.roll(at);
        if matches!(row.what, ExchangeKind::Unsolicited | ExchangeKind::ReplyOnly) {
            self.touch_service(service);
            self.services[service as usize].counting.add(row, false);
            return;
        }
        let k = self.kind_of(service, source, row, texts);
        if row.what == ExchangeKind::Open {
            return self.still_open(row, k, caller);
        }
        if !self.open.is_empty()
            && let Some(open) = self.open.remove(&(row.flow, row.request_start))
        {
            let kind = &mut self.kinds[open.kind as usize];
            kind.open = kind.open.saturating_sub(1);
        }
        self.touch_service(service);
        let kind = &mut self.kinds[k as usize];
        kind.counting.add(row, kind.is_http);
        if !std::mem::replace(&mut kind.is_touched, true) {
            self.touched_kinds.push(k);
        }
        self.limits.late += u64::from(is_late);
        self.limits.requests_in_other_kinds += u64::from(kind.asked == OTHER);
        let is_rejected = kind.is_http && row.failed == Failed::Yes && (400..500).contains(&row.status);
        let caller = &mut self.callers[caller as usize];
        caller.requests += 1;
        caller.rejected += u64::from(is_rejected);
        caller.failed += u64::from(row.what == ExchangeKind::Unanswered || (row.failed == Failed::Yes && !is_rejected));
    }

    fn still_open(&mut self, row: &SniffedExchangeRow, kind: u32, caller: u32) {
        let now = self.span.map_or(CommonNs(0), |s| s.1);
        let key = (row.flow, row.request_start);
        let begun = (row.reply_head.0 != 0).then(|| Box::new(*row));
        if let Some(known) = self.open.get_mut(&key) {
            (known.told, known.begun) = (now, begun);
        } else if self.open.len() < self.options.open_max {
            self.open.insert(key, StillOpen { kind, caller, told: now, begun });
            self.kinds[kind as usize].open += 1;
        } else {
            self.limits.open_untold += 1;
        }
    }

    fn answered_so_far(&mut self, k: u32, row: SniffedExchangeRow) {
        let row = SniffedExchangeRow { what: ExchangeKind::Answered, reply_end: OPEN, reply_last: MonoNs(0), ..row };
        let kind = &mut self.kinds[k as usize];
        kind.open = kind.open.saturating_sub(1);
        kind.counting.add(&row, kind.is_http);
        kind.counting.counts.reply_unfinished += 1;
        let service = kind.service;
        if !std::mem::replace(&mut kind.is_touched, true) {
            self.touched_kinds.push(k);
        }
        self.touch_service(service);
    }

    /// Packets that the capture lost.
    pub fn lost(&mut self, packets: u64) {
        self.lost_packets += packets;
    }

    /// Counts only what ends between these times; to be said before the first row.
    pub fn only(&mut self, from: CommonNs, to: CommonNs) {
        (self.options.from, self.options.to) = (from, to);
    }

    /// All rows came: the window that is counted is closed as it is. A request whose reply has begun is answered, as far as its
    /// status and the time to its first byte go.
    pub fn finish(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        open.retain(|_, waits| match waits.begun.take() {
            Some(row) => {
                self.answered_so_far(waits.kind, *row);
                self.callers[waits.caller as usize].requests += 1;
                false
            }
            None => true,
        });
        self.open = open;
        self.close();
        self.window = None;
    }

    /// It was watched from `from` to `to`, whether or not something happened.
    pub fn watched(&mut self, from: CommonNs, to: CommonNs) {
        let (from, to) = (from.max(self.options.from), to.min(self.options.to));
        if from <= to {
            self.span = Some(self.span.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
        }
    }

    /// The time that was watched.
    pub fn span(&self) -> Option<(CommonNs, CommonNs)> {
        self.span
    }

    /// Its length, ns.
    pub fn span_ns(&self) -> u64 {
        self.span.map_or(0, |(a, b)| b.0.abs_diff(a.0))
    }

    fn touch_service(&mut self, s: u32) {
        if !std::mem::replace(&mut self.services[s as usize].is_touched, true) {
            self.touched_services.push(s);
        }
    }

    fn service_at(&mut self, place: Place) -> u32 {
        if let Some(&s) = self.by_place.get(&place) {
            return s;
        }
        let (place, is_other) = if self.services.len() >= self.options.services_max && place.path != UNKNOWN {
            self.limits.flows_in_other_services += 1;
            (Place::named(OTHER), true)
        } else {
            (place, false)
        };
        if is_other && let Some(&s) = self.by_place.get(&place) {
            return s;
        }
        let s = self.services.len() as u32;
        self.services.push(Service { place: place.clone(), ..Service::default() });
        self.by_place.insert(place, s);
        s
    }

    fn caller_of(&mut self, family: u16, address: [u8; 16], service: u32) -> u32 {
        let mut key = (family, address, service);
        if let Some(&c) = self.by_caller.get(&key) {
            return c;
        }
        if self.callers.len() >= self.options.callers_max {
            // one more for each service, of which there are few
            key = (0, [0; 16], service);
            if let Some(&c) = self.by_caller.get(&key) {
                return c;
            }
        }
        let c = self.callers.len() as u32;
        self.callers.push(Caller { family: key.0, address: key.1, service, ..Caller::default() });
        self.by_caller.insert(key, c);
        c
    }

    /// All services, in the order in which they were met.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// A service of the number that rows of windows and callers have.
    pub fn service(&self, number: u32) -> &Service {
        &self.services[number as usize]
    }

    /// A kind of the number that services and rows of windows have.
    pub fn kind(&self, number: u32) -> &Kind {
        &self.kinds[number as usize]
    }

    /// A kind's counts over all.
    pub fn kind_tally(&self, number: u32) -> Cow<'_, Tally> {
        let kind = self.kind(number);
        figures::both(&kind.closed, &kind.counting)
    }

    /// A service's counts over all.
    pub fn service_tally(&self, number: u32) -> Cow<'_, Tally> {
        let service = self.service(number);
        let mut sum = figures::both(&service.closed, &service.counting);
        for &k in service.kinds.iter().filter(|&&k| self.kind(k).is_touched) {
            sum.to_mut().merge(&self.kind(k).counting);
        }
        sum
    }

    /// What the network did to a service's flows.
    pub fn network(&self, number: u32) -> Network {
        let service = self.service(number);
        let mut sum = service.network_closed.clone();
        sum.merge(&service.network);
        sum
    }

    /// Requests of a service that are open now.
    pub fn open_of(&self, service: u32) -> u64 {
        self.service(service).kinds.iter().map(|&k| self.kind(k).open).sum()
    }

    /// Who called which service.
    pub fn callers(&self) -> &[Caller] {
        &self.callers
    }

    /// Packets that the capture lost.
    pub fn lost_packets(&self) -> u64 {
        self.lost_packets
    }

    /// What could not be counted as it should be.
    pub fn limits(&self) -> Limits {
        self.limits
    }
}
