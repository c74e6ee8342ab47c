//! `wakepath requests --map`: which service calls which on behalf of requests.

use crate::losses::{Loss, losses_or_none};
use crate::own_time::{AT_MOST, is_unsure, own_time};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, wrap};
use crate::units;
use serde::Serialize;
use wakepath_analysis::service_map::{Calls, ServiceMap};
use wakepath_model::defects::Answer;

/// Calls alike.
#[derive(Clone, Debug, Serialize)]
pub struct CallsView {
    /// How many.
    pub calls: u64,
    /// Of them, failed by their reply, reset or cut short.
    pub failed: u64,
    /// How many a second over the recording.
    pub rate_per_s: Option<f64>,
    /// How long they were made: from the first to the end of the last, without idle time (ns).
    pub active_ns: u64,
    /// Mean length (ns), where they were served; as the caller saw it where the server is not recorded.
    pub mean_ns: u64,
    /// Median (ns).
    pub p50_ns: u64,
    /// 99th percentile (ns); `None` of fewer than 100.
    pub p99_ns: Option<u64>,
    /// Longest (ns).
    pub max_ns: u64,
}

/// A service.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceView {
    /// Its name.
    pub service: String,
    /// Of what it was asked, requests: asked by somebody who is not watched.
    pub entries: u64,
    /// Least depth at which it was met; 0 = an entry.
    pub depth: u32,
    /// It is not recorded.
    pub unwatched: bool,
    /// Time of its own for each call (ns).
    pub self_ns: u64,
    /// Of that, in spans some of whose calls could not be assigned: a part of it may be theirs (ns).
    pub self_unsure_ns: u64,
    /// What it was asked.
    #[serde(flatten)]
    pub asked: CallsView,
}

/// Calls from a service to a service.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeView {
    /// Who calls.
    pub caller: String,
    /// Who is called.
    pub service: String,
    /// Calls for each request of the selection, on average.
    pub calls_per_request: f64,
    /// Requests of the selection that have such a call.
    pub requests: u64,
    /// The calls.
    #[serde(flatten)]
    pub made: CallsView,
}

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceMapView {
    /// Time recorded (ns).
    pub span_ns: u64,
    /// Requests in the selection.
    pub requests: u64,
    /// Of them, with a path known to be incomplete: calls of theirs may be missing.
    pub incomplete: u64,
    /// Entries first, then by depth.
    pub services: Vec<ServiceView>,
    /// Most calls first.
    pub edges: Vec<EdgeView>,
}

/// Of fewer calls no 99th percentile is told: it would be the longest.
const P99_MIN: u64 = 100;

impl CallsView {
    fn new(c: &Calls) -> CallsView {
        let calls = c.durations.count();
        CallsView {
            calls,
            failed: c.failed,
            rate_per_s: c.activity.rate_per_s(),
            active_ns: c.activity.active_ns(),
            mean_ns: c.durations.mean(),
            p50_ns: c.durations.quantile(0.5),
            p99_ns: (calls >= P99_MIN).then(|| c.durations.quantile(0.99)),
            max_ns: c.durations.max(),
        }
    }

    fn cells(&self) -> [Cell; 5] {
        [
            Cell::from(self.rate_per_s.map_or_else(|| "-".into(), |_| units::rate(self.calls, self.active_ns))),
            Cell::from(units::duration(self.p50_ns)),
            Cell::from(self.p99_ns.map_or_else(|| "-".to_owned(), units::duration)),
            Cell::from(units::duration(self.max_ns)),
            match self.failed {
                0 => Cell::from("-"),
                n => Cell::tinted(units::count(n), Tint::Bad),
            },
        ]
    }
}

impl ServiceMapView {
    /// From what was found, over a time recorded of `span_ns`.
    pub fn new(map: &ServiceMap, span_ns: u64) -> ServiceMapView {
        let mut services: Vec<ServiceView> = map
            .services
            .iter()
            .map(|(name, s)| ServiceView {
                service: name.clone(),
                self_unsure_ns: (s.self_unsure_ns / u128::from(s.calls.durations.count().max(1))) as u64,
                entries: s.entries,
                depth: s.depth,
                unwatched: s.unwatched,
                self_ns: (s.self_ns / u128::from(s.calls.durations.count().max(1))) as u64,
                asked: CallsView::new(&s.calls),
            })
            .collect();
        services.sort_by(|a, b| a.depth.cmp(&b.depth).then(b.asked.calls.cmp(&a.asked.calls)));
        let mut edges: Vec<EdgeView> = map
            .edges
            .iter()
            .map(|((caller, service), e)| EdgeView {
                caller: caller.clone(),
                service: service.clone(),
                calls_per_request: e.calls.durations.count() as f64 / map.requests.max(1) as f64,
                requests: e.requests,
                made: CallsView::new(&e.calls),
            })
            .collect();
        edges.sort_by(|a, b| b.made.calls.cmp(&a.made.calls).then_with(|| a.caller.cmp(&b.caller)));
        ServiceMapView { span_ns, requests: map.requests, incomplete: map.incomplete, services, edges }
    }

    /// As text for a terminal.
    pub fn render(&self, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        if self.services.is_empty() {
            out.push_str("No request is selected. `wakepath requests` shows which kinds there are.\n");
            out.push_str(&losses_or_none(losses, &[Answer::Requests], style));
            return out;
        }
        let times = ["rate", "p50", "p99", "longest", "errors"].map(Column::number);
        let titles = [&[Column::text("service"), Column::number("requests"), Column::number("own time")][..], &times];
        let mut t = Table::new(&titles.concat());
        for s in &self.services {
            let name = if s.unwatched { format!("{} (not watched)", s.service) } else { s.service.clone() };
            let own_time = own_time(s.self_ns, s.self_unsure_ns);
            let own = [Cell::from(name), Cell::from(units::count(s.entries)), Cell::from(own_time)];
            t.row(own.into_iter().chain(s.asked.cells()));
        }
        out.push_str(&t.render(style));
        if self.services.iter().any(|s| is_unsure(s.self_ns, s.self_unsure_ns)) {
            out.push_str(&wrap(AT_MOST, "", style.prose()));
        }
        if !self.edges.is_empty() {
            let titles = [&[Column::text("caller"), Column::text("calls"), Column::number("a request")][..], &times];
            let mut t = Table::new(&titles.concat());
            for e in &self.edges {
                let own =
                    [Cell::from(&e.caller), Cell::from(&e.service), Cell::from(format!("{:.2}", e.calls_per_request))];
                t.row(own.into_iter().chain(e.made.cells()));
            }
            out.push('\n');
            out.push_str(&t.render(style));
        }
        let mut text = format!("Of {}.", units::counted(self.requests, "request", "requests"));
        if self.incomplete > 0 {
            text +=
                &format!(" {} have an incomplete path: calls of theirs may be missing.", units::count(self.incomplete));
        }
        out.push_str(&wrap(&text, "", style.prose()));
        out.push_str(&losses_or_none(losses, &[Answer::Requests], style));
        out
    }
}
