//! Who calls whom on behalf of requests: services, and the calls between them.

use crate::activity::Activity;
use crate::histogram::Histogram;
use crate::names::Names;
use crate::requests::has_failed;
use crate::selection::{Known, Placed, Selection};
use crate::served_at::ServedAt;
use crate::spans::Timed;
use std::collections::BTreeMap;
use wakepath_causality::exchange::Exchange;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;

/// Most services told apart; what comes later is one called `(other)`.
const SERVICES_MAX: usize = 200;
/// What further services are called.
const OTHER: &str = "(other)";

/// Calls alike.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How long they took (ns), where they were served; as the caller saw it where the server is not recorded.
    pub durations: Histogram,
    /// Of them, failed by their reply (5xx, an error), reset or cut short.
    pub failed: u64,
    /// When they were made.
    pub activity: Activity,
}

/// A service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// What it was asked, by clients and by other services.
    pub calls: Calls,
    /// Of them, requests: asked by somebody who is not watched.
    pub entries: u64,
    /// Time of its own, all calls together (ns).
    pub self_ns: u128,
    /// Of that, in spans some of whose calls may be missing, or of which only the callers tell: a part of it may be others' (ns).
    pub self_unsure_ns: u128,
    /// Least depth at which it was met.
    pub depth: u32,
    /// It is not recorded.
    pub unwatched: bool,
}

/// Calls from a service to a service.
#[derive(Clone, Debug, Default)]
pub struct Edge {
    /// The calls.
    pub calls: Calls,
    /// Requests in which there was such a call.
    pub requests: u64,
    /// The last of them, counting from 1.
    last: u64,
}

/// Who calls whom.
#[derive(Clone, Debug, Default)]
pub struct ServiceMap {
    /// By name.
    pub services: BTreeMap<String, Service>,
    /// By caller and called.
    pub edges: BTreeMap<(String, String), Edge>,
    /// Requests in it.
    pub requests: u64,
    /// Of them, with a path known to be incomplete: calls of theirs may be missing.
    pub incomplete: u64,
    served_at: ServedAt,
}

impl Calls {
    fn add(&mut self, e: &Exchange, t: &Timed, names: &Names<'_>) {
        self.durations.add(t.duration_ns());
        self.activity.add(names.common(t.host, t.start), names.common(t.host, t.end));
        self.failed += u64::from(
            has_failed(e) || e.is(ExchangeFlag::Reset) || (e.is(ExchangeFlag::Cut) && !e.is(ExchangeFlag::Unfinished)),
        );
    }
}

/// The services of a selection of requests; one by cause needs the index.
pub fn service_map(folder: &Folder, names: &Names<'_>, index: Option<&Index>, selection: &Selection) -> ServiceMap {
    let line = folder.timeline();
    let known = Known::new(folder, names, index, selection.asks_for_causes());
    let mut map = ServiceMap::default();
    let take = |r: Request| {
        if let Some(placed) = Placed::new(&r, names, &line).filter(|p| selection.has(&r, p, &known)) {
            map.add(&r, &placed, names);
        }
    };
    wakepath_causality::reconstruct(folder, take, |_, _, _, _| {});
    map
}

impl ServiceMap {
    fn add(&mut self, r: &Request, placed: &Placed, names: &Names<'_>) {
        self.requests += 1;
        self.incomplete += u64::from(!r.is_complete());
        let gaps = r.gaps();
        self.served_at.learn(r);
        for t in &placed.timed {
            let span = &r.spans[t.index as usize];
            let Some(half) = span.callee.as_ref().or(span.caller.as_ref()) else { continue };
            let name = self.name(names.service(span));
            let is_new = !self.services.contains_key(&name);
            let service = self.services.entry(name.clone()).or_default();
            service.calls.add(&half.exchange, t, names);
            service.entries += u64::from(span.parent.is_none());
            service.self_ns += u128::from(t.self_ns);
            if self.served_at.is_untold(span, t) || gaps.iter().any(|&(at, gap)| at == t.index && gap.hides_calls()) {
                service.self_unsure_ns += u128::from(t.self_ns);
            }
            service.depth = if is_new { t.depth } else { service.depth.min(t.depth) };
            service.unwatched = self.served_at.is_unwatched(span, t);
            if let Some(parent) = span.parent.and_then(|p| r.spans.get(p as usize)) {
                let from = self.name(names.service(parent));
                let edge = self.edges.entry((from, name)).or_default();
                edge.calls.add(&half.exchange, t, names);
                edge.requests += u64::from(edge.last != self.requests);
                edge.last = self.requests;
            }
        }
    }

    fn name(&self, name: String) -> String {
        if self.services.len() >= SERVICES_MAX && !self.services.contains_key(&name) { OTHER.into() } else { name }
    }
}
