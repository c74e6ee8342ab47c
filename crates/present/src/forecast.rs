//! What would happen if, as text and as JSON.

use crate::bottleneck::{ArrivalsView, BottleneckView, PathView, Scope, lines, listed, lossy_sentence, number};
use crate::calibration::CalibrationView;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_forecast::derived::Unit;
use wakepath_forecast::forecast::{Fares, Figure, Forecast, QUANTILES, Step};

/// Up to here (a part of what was measured) a change makes hardly any difference.
const LITTLE: f64 = 0.01;
/// From here on a change of order is worth a sentence.
const REORDERED: f64 = 0.01;

/// A figure: what was measured, and what is forecast.
#[derive(Clone, Debug, Serialize)]
pub struct FigureView {
    /// As measured.
    pub measured: f64,
    /// As the replay of the unchanged model has it.
    pub replayed: f64,
    /// The forecast.
    pub value: f64,
    /// It is not expected below this; null where the recording is too short to know how much such recordings differ.
    pub low: Option<f64>,
    /// Nor above this; null at the same time.
    pub high: Option<f64>,
    /// What the bar is made of, as parts of the value.
    pub bar: BarView,
}

/// What a bar is made of, as parts of the value: the root of the squares' sum of the first two, and the others, added up.
#[derive(Clone, Debug, Serialize)]
pub struct BarView {
    /// How much such recordings differ; null where this one is too short to tell.
    pub variation: Option<f64>,
    /// What a tenth in the pace of processors makes, between the recording and another time.
    pub pace: f64,
    /// By how much the replay of the unchanged model misses what was measured.
    pub calibration: f64,
    /// What is not known of the change.
    pub change: f64,
    /// What data loss may have affected.
    pub losses: f64,
}

/// How a system fares.
#[derive(Clone, Debug, Serialize)]
pub struct FaresView {
    /// Units a second.
    pub throughput_per_s: FigureView,
    /// Nanoseconds; null where nothing has a latency.
    pub mean_ns: Option<FigureView>,
    /// The same.
    pub p50_ns: Option<FigureView>,
    /// The same.
    pub p95_ns: Option<FigureView>,
    /// The same.
    pub p99_ns: Option<FigureView>,
}

/// A change that was made.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeView {
    /// As `--change` reads it.
    pub change: String,
    /// What is different.
    pub done: Vec<String>,
}

/// A bottleneck on the way of `--next`.
#[derive(Clone, Debug, Serialize)]
pub struct StepView {
    /// What limits.
    pub bottleneck: BottleneckView,
    /// The critical path while it does: of the run, or of the requests.
    pub path: PathView,
    /// How the system would fare without it, and without those before.
    pub without: Option<FaresView>,
}

/// The answer to `wakepath forecast`.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastView {
    /// Whether the model behaves as what was recorded.
    pub calibration: CalibrationView,
    /// How requests come.
    pub arrivals: ArrivalsView,
    /// What throughput counts: `requests`, `bytes` or `items`.
    pub unit: &'static str,
    /// The kind of request that the figures are of; null = all.
    pub request: Option<String>,
    /// The changes, in order.
    pub changes: Vec<ChangeView>,
    /// How the changed system fares.
    pub forecast: FaresView,
    /// Assumptions, a sentence each.
    pub assumptions: Vec<String>,
    /// Items that are taken by another, or in another order, than without the changes.
    pub reordered: u64,
    /// Of how many.
    pub reordered_of: u64,
    /// Actors that wait forever in the changed system and did not before.
    pub stuck: Vec<String>,
    /// Share of what was measured that losses may have touched.
    pub lossy: f64,
    /// The next bottleneck; with --next, those that follow it.
    pub bottlenecks: Vec<StepView>,
}

impl FigureView {
    fn new(f: &Figure) -> FigureView {
        // what is made of the other parts alone would say too much
        let (low, high) = f.bar.variation.map(|_| f.range()).unzip();
        let bar = BarView {
            variation: f.bar.variation,
            pace: f.bar.pace,
            calibration: f.bar.calibration,
            change: f.bar.change,
            losses: f.bar.losses,
        };
        FigureView { measured: f.measured, replayed: f.replayed, value: f.value, low, high, bar }
    }
}

impl FaresView {
    fn new(f: &Fares) -> FaresView {
        let quantile = |i: usize| f.quantiles_ns.as_ref().map(|q| FigureView::new(&q[i]));
        FaresView {
            throughput_per_s: FigureView::new(&f.throughput),
            mean_ns: f.mean_ns.as_ref().map(FigureView::new),
            p50_ns: quantile(0),
            p95_ns: quantile(1),
            p99_ns: quantile(2),
        }
    }

    /// Its figures with their names.
    fn rows(&self) -> Vec<(String, bool, &FigureView)> {
        let mut rows = vec![("throughput".to_owned(), true, &self.throughput_per_s)];
        rows.extend(self.mean_ns.iter().map(|f| ("mean latency".to_owned(), false, f)));
        for (q, f) in QUANTILES.iter().zip([&self.p50_ns, &self.p95_ns, &self.p99_ns]) {
            let name = format!("p{}", number(100.0 * q));
            rows.extend(f.iter().map(|f| (name.clone(), false, f)));
        }
        rows
    }
}

impl StepView {
    fn new(step: &Step, scope: Scope) -> StepView {
        StepView {
            bottleneck: BottleneckView::new(&step.system, &step.found),
            path: PathView::new(&step.system, &step.outcome, scope),
            without: step.without.as_ref().map(FaresView::new),
        }
    }
}

impl ForecastView {
    /// Of a forecast. `inferred`: its arrival model was not given.
    pub fn new(f: &Forecast, inferred: bool, request: Option<&str>, lossy: f64) -> ForecastView {
        let change = |(c, e): &(wakepath_forecast::change::Change, wakepath_forecast::change::Effect)| ChangeView {
            change: c.to_string(),
            done: e.done.clone(),
        };
        let mut assumptions = f.assumptions.clone();
        ForecastView {
            calibration: CalibrationView::new(&f.calibration),
            arrivals: ArrivalsView::new(&f.coming, inferred, &mut assumptions),
            unit: match f.unit {
                Unit::Requests => "requests",
                Unit::Bytes => "bytes",
                Unit::Items => "items",
            },
            request: request.map(str::to_owned),
            changes: f.effects.iter().map(change).collect(),
            forecast: FaresView::new(&f.fares),
            assumptions,
            reordered: f.reordered.0,
            reordered_of: f.reordered.1,
            stuck: f.stuck.clone(),
            lossy,
            bottlenecks: f.steps.iter().map(|s| StepView::new(s, Scope::of(&f.coming, f.kind, &s.outcome))).collect(),
        }
    }

    /// Whether nothing is known to be missing in it.
    pub fn is_complete(&self) -> bool {
        self.stuck.is_empty() && self.lossy == 0.0
    }

    fn rate(&self, per_second: f64) -> String {
        match self.unit {
            "bytes" => format!("{}/s", units::bytes(per_second as u64)),
            _ => units::rate((per_second * 1e3) as u64, 1_000_000_000_000),
        }
    }

    fn figure(&self, is_rate: bool, value: f64) -> String {
        if is_rate { self.rate(value) } else { units::duration(value.round() as u64) }
    }

    /// As text for a terminal. `folders` as they were given.
    pub fn render(&self, folders: &str, style: Style) -> String {
        let mut out = String::new();
        self.calibration.render(&mut out, style);
        out.push_str(&wrap(&self.arrivals.sentence(), "", style.prose()));
        out.push('\n');
        for line in wrap(&sanitise(&self.sentence()), "", style.prose()).lines() {
            let _ = writeln!(out, "{}", style.paint(line, Tint::Strong));
        }
        for c in &self.changes {
            let _ = write!(
                out,
                "{}",
                wrap(&sanitise(&format!("- {}: {}", c.change, c.done.join("; "))), "  ", style.prose())
            );
        }
        out.push('\n');
        self.table(&mut out, style);
        for note in self.notes() {
            out.push_str(&style.paint(wrap(&sanitise(&note), "", style.prose()).trim_end(), Tint::Warn));
            out.push('\n');
        }
        self.steps(&mut out, folders, style);
        let mut granted = self.assumptions.clone();
        if self.arrivals.model != "recorded" {
            granted.extend(self.order());
        }
        listed(&mut out, "Assumptions:", &granted, style);
        out
    }

    /// The answer in one sentence.
    fn sentence(&self) -> String {
        let whose = self.request.as_ref().map_or(String::new(), |r| format!(" of {r}"));
        let head = match self.changes.is_empty() {
            true => "As it is now",
            false if self.changes_little() => "With that changed, hardly anything changes",
            false => "With that changed",
        };
        let part = |name: &str, is_rate: bool, f: &FigureView| {
            let range = match f.low.zip(f.high) {
                Some((low, high)) => format!("{} to {}", self.figure(is_rate, low), self.figure(is_rate, high)),
                None => "error bar not known".to_owned(),
            };
            let (value, measured) = (self.figure(is_rate, f.value), self.figure(is_rate, f.measured));
            match self.changes.is_empty() {
                true => format!("{name} {value}"),
                false if value == measured => format!("{name} stays {value} ({range})"),
                false => format!("{name} goes from {measured} to {value} ({range})"),
            }
        };
        let mut parts = vec![part(&format!("throughput{whose}"), true, &self.forecast.throughput_per_s)];
        parts.extend(self.forecast.mean_ns.iter().map(|f| part("mean latency", false, f)));
        format!("{head}: {}.", parts.join(", "))
    }

    /// Whether throughput and mean latency stay what they are.
    fn changes_little(&self) -> bool {
        let stays = |f: &FigureView| (f.value - f.measured).abs() <= LITTLE * f.measured;
        stays(&self.forecast.throughput_per_s) && self.forecast.mean_ns.as_ref().is_some_and(stays)
    }

    fn table(&self, out: &mut String, style: Style) {
        let mut t = Table::new(&[
            Column::text(""),
            Column::number("measured"),
            Column::number("forecast"),
            Column::number("from"),
            Column::number("to"),
            Column::number("replayed as it is"),
            Column::number("off by"),
        ])
        .indented(2);
        for (name, is_rate, f) in self.forecast.rows() {
            let edge = |edge: Option<f64>| edge.map_or_else(|| "not known".to_owned(), |e| self.figure(is_rate, e));
            let off = if f.measured > 0.0 { 100.0 * (f.replayed - f.measured) / f.measured } else { 0.0 };
            t.row([
                Cell::from(name),
                Cell::from(self.figure(is_rate, f.measured)),
                Cell::tinted(self.figure(is_rate, f.value), Tint::Strong),
                Cell::from(edge(f.low)),
                Cell::from(edge(f.high)),
                Cell::from(self.figure(is_rate, f.replayed)),
                Cell::from(format!("{off:+.1} %")),
            ]);
        }
        out.push_str(&t.render(style));
    }

    /// By how much the replay of the unchanged model misses what was measured, at worst; a part of that.
    pub fn misses(&self) -> f64 {
        self.forecast.rows().iter().take(2).map(|(_, _, f)| f.bar.calibration).fold(0.0, f64::max)
    }

    /// What a reader must know before believing it.
    fn notes(&self) -> Vec<String> {
        let mut out = Vec::new();
        let rows = self.forecast.rows();
        let unknown = rows.iter().filter(|(_, _, f)| f.low.is_none()).count();
        if unknown > 0 {
            let which = if unknown == rows.len() { "error bars" } else { "some error bars" };
            out.push(format!(
                "The recording is too short to know how much it varies, so {which} are not known; record for longer."
            ));
        }
        out.extend(lossy_sentence(self.lossy));
        // requests are not bound to who served them; of state machines the order is part of what was recorded
        if self.arrivals.model == "recorded" {
            out.extend(self.order());
        }
        if let Some(first) = self.stuck.first() {
            out.push(format!(
                "{} wait forever in the changed system ({first}, …): what they wait for is no longer produced.",
                units::count(self.stuck.len() as u64)
            ));
        }
        out
    }

    /// Whether anything is taken in another order than without the changes.
    fn order(&self) -> Option<String> {
        let part = self.reordered as f64 / self.reordered_of.max(1) as f64;
        (part >= REORDERED).then(|| {
            format!(
                "{:.0} % of what is queued is taken by another, or in another order, than without the change: who waits for \
                 whom differs, the sums less so.",
                100.0 * part
            )
        })
    }

    fn steps(&self, out: &mut String, folders: &str, style: Style) {
        let Some(first) = self.bottlenecks.first() else { return };
        let what = if self.arrivals.model == "recorded" { "the run" } else { "mean latency" };
        let title = if self.changes.is_empty() { "The bottleneck" } else { "The next bottleneck" };
        let sentence = format!("{title}: {}", first.bottleneck.sentence(what));
        out.push('\n');
        for line in wrap(&sanitise(&sentence), "", style.prose()).lines() {
            let _ = writeln!(out, "{}", style.paint(line, Tint::Strong));
        }
        if let Some(l) = first.path.loops.first() {
            out.push_str(&wrap(&sanitise(&l.sentence()), "", style.prose()));
        }
        if self.bottlenecks.len() > 1 {
            self.removed(out, style);
        } else if let Some(next) = first.bottleneck.next(folders, self.changes.iter().map(|c| &c.change), style) {
            let _ = writeln!(out, "{}", lines(&next));
        }
    }

    /// One bottleneck removed after the other; the last of the list is what would be next.
    fn removed(&self, out: &mut String, style: Style) {
        out.push_str("\nRemoved one after the other, all from this one recording:\n");
        let mut t = Table::new(&[
            Column::number(""),
            Column::text("removed"),
            Column::number("enough"),
            Column::number("throughput then"),
            Column::number("mean latency then"),
            Column::number("speedup if removed"),
        ])
        .indented(2);
        let (last, removed) = self.bottlenecks.split_last().unzip();
        for (n, step) in removed.unwrap_or_default().iter().enumerate() {
            let (b, without) = (&step.bottleneck, step.without.as_ref());
            let enough = match (b.enough, b.now) {
                (Some(enough), Some(_)) if b.is_bytes => units::bytes(enough as u64),
                (Some(enough), Some(_)) => number(enough),
                (Some(enough), None) => format!("{}x", number(enough)),
                (None, _) => "-".into(),
            };
            t.row([
                Cell::from((n + 1).to_string()),
                Cell::from(b.limits.join(" and ")),
                Cell::from(enough),
                Cell::from(without.map_or_else(|| "-".into(), |w| self.rate(w.throughput_per_s.value))),
                Cell::from(
                    without
                        .and_then(|w| w.mean_ns.as_ref())
                        .map_or_else(|| "-".into(), |f| self.figure(false, f.value)),
                ),
                Cell::from(format!("{:.2}", b.gain)),
            ]);
        }
        out.push_str(&t.render(style));
        if let Some(last) = last {
            let what = if self.arrivals.model == "recorded" { "the run" } else { "mean latency" };
            out.push_str(&wrap(&sanitise(&format!("Then: {}", last.bottleneck.sentence(what))), "", style.prose()));
        }
    }
}
