//! `wakepath requests --against`: kinds, or services and the calls between them, of two recordings or periods side by side.

use crate::losses::{Loss, losses_or_none};
use crate::requests::{KindView, RequestsView};
use crate::service_map::{CallsView, EdgeView, ServiceMapView, ServiceView};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, wrap};
use crate::units;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use wakepath_model::defects::Answer;

/// From this difference on, two shares of errors are different (a hundredth of all requests).
const SHARE_MIN: f64 = 0.01;

/// The requests of one side.
#[derive(Clone, Debug, Serialize)]
pub struct SideView {
    /// What it is: folders, or a period.
    pub name: String,
    /// Time recorded in it (ns).
    pub span_ns: u64,
    /// Requests in it.
    pub requests: u64,
    /// Of them, with a path known to be incomplete, for another reason than the recording's end.
    pub incomplete: u64,
}

/// Both sides.
#[derive(Clone, Debug, Serialize)]
pub struct SidesView {
    /// The requests that are asked about.
    pub selected: SideView,
    /// What they are compared with.
    pub against: SideView,
}

/// What is counted and measured on one side.
#[derive(Clone, Debug, Serialize)]
pub struct FiguresView {
    /// Requests, or calls.
    pub count: u64,
    /// How many a second while they came; null where there are too few to tell.
    pub rate_per_s: Option<f64>,
    /// How long they came: from the first to the end of the last, without idle time (ns).
    pub active_ns: u64,
    /// For each request of the side (kinds: 1).
    pub per_request: f64,
    /// Mean duration (ns). This and the following are `None` where all were in progress when the recording ended.
    pub mean_ns: Option<u64>,
    /// Median (ns).
    pub p50_ns: Option<u64>,
    /// 99th percentile (ns); of calls `None` of fewer than 100.
    pub p99_ns: Option<u64>,
    /// Longest (ns).
    pub max_ns: Option<u64>,
    /// Failed by their reply, reset, cut short, or left by their client.
    pub errors: u64,
    /// The slowest request; none of calls.
    pub slowest: Option<String>,
}

/// A kind of request, a service, or the calls between two, on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeView {
    /// The service; of calls the one that is called.
    pub service: String,
    /// Who calls it; empty except of calls between two services.
    pub caller: String,
    /// What is asked; empty except of kinds.
    pub asked: String,
    /// It is not recorded: its figures are as its callers saw them.
    pub unwatched: bool,
    /// How much longer it takes on average (ns): a request of the kind; of services and calls, all calls of a request together.
    /// `None` where it is not known of both sides.
    pub more_ns: Option<i64>,
    /// On the side that is asked about; `None` where it is not there.
    pub selected: Option<FiguresView>,
    /// On the other side.
    pub against: Option<FiguresView>,
}

/// The answer to `wakepath requests --against`.
#[derive(Clone, Debug, Serialize)]
pub struct KindsComparedView {
    /// What is compared.
    #[serde(flatten)]
    pub sides: SidesView,
    /// Kinds, what changed most first.
    pub kinds: Vec<ChangeView>,
}

/// The answer to `wakepath requests --map --against`.
#[derive(Clone, Debug, Serialize)]
pub struct MapComparedView {
    /// What is compared.
    #[serde(flatten)]
    pub sides: SidesView,
    /// Services, what changed most first.
    pub services: Vec<ChangeView>,
    /// Calls from a service to a service, what changed most first.
    pub edges: Vec<ChangeView>,
}

impl SidesView {
    /// Requests of both sides.
    pub fn requests(&self) -> u64 {
        self.selected.requests + self.against.requests
    }

    /// Whether every path is whole, but for what came after a recording.
    pub fn is_complete(&self) -> bool {
        self.selected.incomplete == 0 && self.against.incomplete == 0
    }

    /// What is compared, in words.
    fn which(&self) -> String {
        let of = |s: &SideView| format!("{} of {}", units::counted(s.requests, "request", "requests"), s.name);
        let mut text = format!(
            "Compared: {} (right) with {} (left); what changed most first.",
            of(&self.selected),
            of(&self.against)
        );
        let incomplete = self.selected.incomplete + self.against.incomplete;
        if incomplete > 0 {
            text += &format!(" {} have an incomplete path: calls of theirs may be missing.", units::count(incomplete));
        }
        text
    }
}

impl FiguresView {
    fn of_kind(k: &KindView) -> FiguresView {
        let known = |ns| (k.count > k.unfinished).then_some(ns);
        FiguresView {
            count: k.count,
            rate_per_s: k.rate_per_s,
            active_ns: k.active_ns,
            per_request: 1.0,
            mean_ns: known(k.mean_ns),
            p50_ns: known(k.p50_ns),
            p99_ns: known(k.p99_ns),
            max_ns: known(k.max_ns),
            errors: k.without_success(),
            slowest: k.slowest.first().cloned(),
        }
    }

    /// Of calls that `requests` requests led to.
    fn of_calls(c: &CallsView, requests: u64) -> FiguresView {
        FiguresView {
            count: c.calls,
            rate_per_s: c.rate_per_s,
            active_ns: c.active_ns,
            per_request: c.calls as f64 / requests.max(1) as f64,
            mean_ns: Some(c.mean_ns),
            p50_ns: Some(c.p50_ns),
            p99_ns: c.p99_ns,
            max_ns: Some(c.max_ns),
            errors: c.failed,
            slowest: None,
        }
    }

    fn error_share(&self) -> f64 {
        self.errors as f64 / self.count.max(1) as f64
    }

    /// Time for each request (ns).
    fn time_ns(&self) -> Option<f64> {
        self.mean_ns.map(|mean| mean as f64 * self.per_request)
    }
}

impl ChangeView {
    fn new(service: &str, caller: &str, asked: &str) -> ChangeView {
        let (service, caller, asked) = (service.to_owned(), caller.to_owned(), asked.to_owned());
        ChangeView { service, caller, asked, unwatched: false, more_ns: None, selected: None, against: None }
    }

    /// How much it changed, to be compared in this order: requests that fail now and did not, or the other way round, where their
    /// share changed by [`SHARE_MIN`]; then the time that all of them take more or less together (ns).
    fn weight(&self) -> (u64, u64) {
        let count = |f: &Option<FiguresView>| f.as_ref().map_or(0, |f| f.count);
        let errors = |f: &Option<FiguresView>| f.as_ref().map_or(0.0, FiguresView::error_share);
        let time = |f: &Option<FiguresView>| f.as_ref().and_then(FiguresView::time_ns).unwrap_or(0.0);
        // one that is gone weighs what it had
        let n = if self.selected.is_some() { count(&self.selected) } else { count(&self.against) } as f64;
        let share = (errors(&self.selected) - errors(&self.against)).abs();
        let failing = if share >= SHARE_MIN { share * n } else { 0.0 };
        // that many requests: calls are counted for each request already
        let of = [&self.selected, &self.against].into_iter().flatten().next();
        let requests = n / of.map_or(1.0, |f| f.per_request.max(f64::MIN_POSITIVE));
        let moved = (time(&self.selected) - time(&self.against)).abs() * requests;
        (failing.round() as u64, moved as u64)
    }

    /// The figures of both sides as cells: the other side's first.
    fn cells(&self) -> [Cell; 4] {
        let both = |of: &dyn Fn(&FiguresView) -> String| {
            let text = |f: &Option<FiguresView>| f.as_ref().map_or_else(|| "-".to_owned(), of);
            let (old, new) = (text(&self.against), text(&self.selected));
            if old == new { old } else { format!("{old} → {new}") }
        };
        let rate = |f: &FiguresView| match f.rate_per_s {
            Some(_) => units::rate(f.count, f.active_ns),
            None => "-".into(),
        };
        let errors = |f: &FiguresView| match f.errors {
            0 => "none".to_owned(),
            _ => format!("{:.1} %", 100.0 * f.error_share()),
        };
        let more = |f: &Option<FiguresView>| f.as_ref().map_or(0.0, FiguresView::error_share);
        let tint = if more(&self.selected) > more(&self.against) { Tint::Bad } else { Tint::Plain };
        [
            Cell::from(both(&rate)),
            Cell::from(both(&|f| f.p50_ns.map_or_else(|| "-".into(), units::duration))),
            Cell::from(both(&|f| f.p99_ns.map_or_else(|| "-".into(), units::duration))),
            Cell::tinted(both(&errors), tint),
        ]
    }
}

/// Changes of what is on either side, what changed most first.
struct Changes(BTreeMap<(String, String, String), ChangeView>);

impl Changes {
    fn new() -> Changes {
        Changes(BTreeMap::new())
    }

    fn of(&mut self, service: &str, caller: &str, asked: &str) -> &mut ChangeView {
        let key = (service.to_owned(), caller.to_owned(), asked.to_owned());
        self.0.entry(key).or_insert_with(|| ChangeView::new(service, caller, asked))
    }

    fn sorted(self) -> Vec<ChangeView> {
        let mut all: Vec<ChangeView> = self.0.into_values().collect();
        for c in &mut all {
            let time = |f: &Option<FiguresView>| f.as_ref().and_then(FiguresView::time_ns);
            c.more_ns = time(&c.selected).zip(time(&c.against)).map(|(new, old)| (new - old) as i64);
        }
        // the sort is stable: alike ones stay in the order of their names
        all.sort_by_key(|c| Reverse(c.weight()));
        all
    }
}

const FIGURES: [Column; 4] =
    [Column::number("rate"), Column::number("p50"), Column::number("p99"), Column::number("errors")];

impl KindsComparedView {
    /// From the kinds of both sides, with the names of these: the one that is asked about first.
    pub fn new(names: (&str, &str), selected: &RequestsView, against: &RequestsView) -> KindsComparedView {
        let side = |name: &str, view: &RequestsView| SideView {
            name: name.to_owned(),
            span_ns: view.span_ns,
            requests: view.requests,
            incomplete: view.kinds.iter().map(|k| k.incomplete.saturating_sub(k.cut_off)).sum(),
        };
        let mut changes = Changes::new();
        for k in &selected.kinds {
            changes.of(&k.service, "", &k.asked).selected = Some(FiguresView::of_kind(k));
        }
        for k in &against.kinds {
            changes.of(&k.service, "", &k.asked).against = Some(FiguresView::of_kind(k));
        }
        let sides = SidesView { selected: side(names.0, selected), against: side(names.1, against) };
        KindsComparedView { sides, kinds: changes.sorted() }
    }

    /// As text for a terminal; at most `limit` kinds, 0 for all.
    pub fn render(&self, limit: usize, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        let shown = if limit == 0 { self.kinds.len() } else { limit.min(self.kinds.len()) };
        let mut t = Table::new(&[&[Column::wrapped("kind of request")][..], &FIGURES].concat());
        for k in &self.kinds[..shown] {
            let name = Cell::from(format!("{} at {}", k.asked, k.service));
            t.row(std::iter::once(name).chain(k.cells()));
        }
        if !t.is_empty() {
            out.push_str(&t.render(style));
        }
        if shown < self.kinds.len() {
            out.push_str(&format!("… and {} more kinds (--limit 0 shows all)\n", self.kinds.len() - shown));
        }
        out.push_str(&wrap(&self.sides.which(), "", style.prose()));
        out.push_str(&losses_or_none(losses, &[Answer::Requests], style));
        out
    }
}

impl MapComparedView {
    /// From the maps of both sides, with the names of these: the one that is asked about first.
    pub fn new(names: (&str, &str), selected: &ServiceMapView, against: &ServiceMapView) -> MapComparedView {
        let side = |name: &str, view: &ServiceMapView| SideView {
            name: name.to_owned(),
            span_ns: view.span_ns,
            requests: view.requests,
            incomplete: view.incomplete,
        };
        let (mut services, mut edges) = (Changes::new(), Changes::new());
        for (view, is_selected) in [(selected, true), (against, false)] {
            let add = |change: &mut ChangeView, calls: &CallsView| {
                let figures = Some(FiguresView::of_calls(calls, view.requests));
                *(if is_selected { &mut change.selected } else { &mut change.against }) = figures;
            };
            for ServiceView { service, asked, unwatched, .. } in &view.services {
                let change = services.of(service, "", "");
                change.unwatched |= unwatched;
                add(change, asked);
            }
            for EdgeView { caller, service, made, .. } in &view.edges {
                add(edges.of(service, caller, ""), made);
            }
        }
        let sides = SidesView { selected: side(names.0, selected), against: side(names.1, against) };
        MapComparedView { sides, services: services.sorted(), edges: edges.sorted() }
    }

    /// As text for a terminal.
    pub fn render(&self, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        let mut t = Table::new(&[&[Column::wrapped("service")][..], &FIGURES].concat());
        for s in &self.services {
            let name = if s.unwatched { format!("{} (not watched)", s.service) } else { s.service.clone() };
            t.row(std::iter::once(Cell::from(name)).chain(s.cells()));
        }
        if !t.is_empty() {
            out.push_str(&t.render(style));
        }
        if !self.edges.is_empty() {
            let titles = [Column::wrapped("calls"), Column::number("a request")];
            let mut t = Table::new(&[&titles[..], &FIGURES].concat());
            for e in &self.edges {
                let each = |f: &Option<FiguresView>| {
                    f.as_ref().map_or_else(|| "-".to_owned(), |f| format!("{:.2}", f.per_request))
                };
                let (old, new) = (each(&e.against), each(&e.selected));
                let each = if old == new { old } else { format!("{old} → {new}") };
                let name = Cell::from(format!("{} to {}", e.caller, e.service));
                t.row([name, Cell::from(each)].into_iter().chain(e.cells()));
            }
            out.push('\n');
            out.push_str(&t.render(style));
        }
        out.push_str(&wrap(&self.sides.which(), "", style.prose()));
        out.push_str(&losses_or_none(losses, &[Answer::Requests], style));
        out
    }
}
