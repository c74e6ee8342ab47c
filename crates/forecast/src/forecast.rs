//! The forecast itself: what was measured, times what two replays make of the change.
//!
//! A model is biased: costs that no event shows, a scheduler that is simpler than the real one. Most of that is in the
//! replay of the unchanged model as it is in that of the changed one, so their ratio is applied to what was measured. How
//! far the unchanged replay is from what was measured is told (`calibration`), and goes into the bar.

use crate::bottleneck::{Found, Limit, Score, find};
use crate::calibration::{Calibration, Untrusted, calibrate};
use crate::change::{Change, Effect, Refusal, apply};
use crate::derived::{Derived, Measured, Model, Unit};
use crate::jobs::Arrivals;
use crate::outcome::Outcome;
use crate::replay::{Options, replay};
use crate::system::{KindId, System};
use crate::uncertainty::{Bar, PACE, of_mean, of_throughput};
use wakepath_analysis::histogram::Histogram;

/// The quantiles that are told.
pub const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Made all at once, in this order.
    pub changes: Vec<Change>,
    /// So many bottlenecks are removed, one after the other.
    pub next: usize,
    /// The kind of request that figures are of, as `requests` names it; `None` = all.
    pub kind: Option<String>,
}

/// A figure with its bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// As measured.
    pub measured: f64,
    /// As the replay of the unchanged model has it.
    pub replayed: f64,
    /// What is forecast.
    pub value: f64,
    /// What the bar is made of.
    pub bar: Bar,
}

impl Figure {
    /// From where to where it may be.
    pub fn range(&self) -> (f64, f64) {
        self.bar.around(self.value)
    }
}

/// How a system would fare.
#[derive(Clone, Debug)]
pub struct Fares {
    /// Of the measured unit, a second.
    pub throughput: Figure,
    /// Mean latency (ns); `None` where nothing has one.
    pub mean_ns: Option<Figure>,
    /// Latency by [`QUANTILES`] (ns).
    pub quantiles_ns: Option<[Figure; 3]>,
}

/// A bottleneck, and what would come of its removal.
#[derive(Clone, Debug)]
pub struct Step {
    /// What was found in the system that still has it.
    pub found: Found,
    /// The system that still has it: names of what was found.
    pub system: System,
    /// What came of its replay, with its paths.
    pub outcome: Outcome,
    /// How the system would fare without it; `None` where nothing was found.
    pub without: Option<Fares>,
}

/// How requests come, in the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Coming {
    /// As jobs do.
    Jobs(Arrivals),
    /// As the state machines were recorded.
    Recorded,
}

/// A forecast.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// How requests come.
    pub coming: Coming,
    /// The changes with what they did.
    pub effects: Vec<(Change, Effect)>,
    /// How the changed system fares.
    pub fares: Fares,
    /// How the unchanged replay compares with what was measured.
    pub calibration: Calibration,
    /// The kind of request that the figures are of, where one was asked for.
    pub kind: Option<KindId>,
    /// What throughput counts.
    pub unit: Unit,
    /// What is taken for granted, the changes' assumptions too.
    pub assumptions: Vec<String>,
    /// What came of the unchanged replay.
    pub base: Outcome,
    /// The unchanged system.
    pub system: System,
    /// Items that another took, or in another order, than in the unchanged replay; of how many that were taken.
    pub reordered: (u64, u64),
    /// Actors that wait forever in the changed system and did not before.
    pub stuck: Vec<String>,
    /// The bottleneck of the changed system, and those that follow. The last has nothing left to remove, unless as many
    /// as asked for were.
    pub steps: Vec<Step>,
}

/// Why there is no forecast.
#[derive(Debug, thiserror::Error)]
pub enum NoForecast {
    /// A change cannot be made.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The model has nothing that a figure could be of.
    #[error("{0}")]
    Empty(String),
    /// The changed model of requests comes to a standstill, which the recorded system did not: it is wrong.
    #[error(
        "with that change, the replay comes to a standstill ({count} wait forever, as {first}): what the model takes for locks \
         or pools is then taken in an order that did not occur, and would not be so in the real system; no forecast can be \
         made of it from this recording"
    )]
    Standstill {
        /// How many wait forever.
        count: usize,
        /// One of them.
        first: String,
    },
    /// The model is none of what was recorded.
    #[error("{0}; {1}")]
    Untrusted(Untrusted, String),
}

/// The kind of the system that was asked for. `requests` names kinds with or without the entry service.
pub fn kind_of(system: &System, kind: &str) -> Option<KindId> {
    let is_it = |k: &String| k == kind || k.split_once(' ').is_some_and(|(_, asked)| asked == kind);
    system.kinds.iter().position(is_it).map(|i| KindId(i as u32))
}

/// What counts as better.
pub fn score(model: &Model, kind: Option<KindId>) -> Score {
    match model {
        Model::Jobs(_) => Score::Latency(kind),
        Model::Machines(_) => Score::Run,
    }
}

/// The system that a model is replayed as.
pub fn lay_out(model: &Model) -> System {
    match model {
        Model::Jobs(jobs) => jobs.system(),
        Model::Machines(system) => system.clone(),
    }
}

/// How requests come in a model.
pub fn coming(model: &Model) -> Coming {
    match model {
        Model::Jobs(jobs) => Coming::Jobs(jobs.arrivals.clone().unwrap_or(Arrivals::Open)),
        Model::Machines(_) => Coming::Recorded,
    }
}

/// Makes a forecast.
pub fn forecast(derived: &Derived, question: &Question) -> Result<Forecast, NoForecast> {
    let system = lay_out(&derived.model);
    let kind = match &question.kind {
        Some(name) => Some(kind_of(&system, name).ok_or_else(|| no_kind(&system, name))?),
        None => None,
    };
    let base = replay(&system, &Options { path: question.changes.is_empty(), ..Options::default() });
    if base.steps == 0 || derived.measured.count == 0 {
        return Err(NoForecast::Empty(
            "the recording has nothing whose throughput or latency could be forecast".into(),
        ));
    }
    let calibration = calibrate(derived, &system, &base, kind);
    trusted(&calibration, derived)?;
    let mut model = derived.model.clone();
    let mut effects = Vec::new();
    for change in &question.changes {
        let effect = apply(change, &mut model).map_err(Box::new)?;
        effects.push((change.clone(), effect));
    }
    let of = Of { measured: &derived.measured, lossy: derived.lossy, base: &base, kind };
    let (mut changed, mut outcome) = (system.clone(), base.clone());
    let (mut reordered, mut stuck) = ((0, 0), base.stuck.clone());
    if !question.changes.is_empty() {
        changed = lay_out(&model);
        outcome = replay(&changed, &Options { before: Some(base.order.clone()), ..Options::default() });
        reordered = (outcome.reordered, outcome.queues.iter().map(|q| q.count).sum());
        stuck = outcome.stuck.iter().filter(|s| !base.stuck.contains(s)).cloned().collect();
        if let (Model::Jobs(_), Some(first)) = (&model, stuck.first()) {
            return Err(NoForecast::Standstill { count: stuck.len(), first: first.clone() });
        }
    }
    let fares = of.fares(&outcome, &slower(&changed, &outcome));
    let mut assumptions = derived.assumptions.clone();
    assumptions.extend(effects.iter().flat_map(|(_, e)| e.assumptions.iter().cloned()));
    let mut steps = Vec::new();
    for n in 0..=question.next {
        let found = find(&changed, &outcome, score(&model, kind));
        let limits: Vec<Limit> = found.limits.clone();
        let without = found.outcome.as_ref().map(|o| {
            let mut wide = changed.clone();
            limits.iter().for_each(|l| l.widen(&mut wide, f64::INFINITY));
            of.fares(o, &slower(&wide, o))
        });
        let is_last = limits.is_empty();
        steps.push(Step { found, system: changed.clone(), outcome: outcome.clone(), without });
        if is_last || n == question.next {
            break;
        }
        limits.iter().for_each(|l| l.widen(&mut changed, f64::INFINITY));
        outcome = replay(&changed, &Options::default());
    }
    Ok(Forecast {
        coming: coming(&derived.model),
        effects,
        fares,
        calibration,
        kind,
        unit: derived.measured.unit,
        assumptions,
        reordered,
        stuck,
        steps,
        base,
        system,
    })
}

/// The figures of an unchanged model, whose replay is `base`.
pub fn unchanged(derived: &Derived, system: &System, base: &Outcome, kind: Option<KindId>) -> Fares {
    Of { measured: &derived.measured, lossy: derived.lossy, base, kind }.fares(base, &slower(system, base))
}

/// Refuses a model that is none of what was recorded, with what is known of why.
pub fn trusted(calibration: &Calibration, derived: &Derived) -> Result<(), NoForecast> {
    let Err(untrusted) = crate::calibration::trusted(calibration, derived) else { return Ok(()) };
    let mut why = "no forecast and no bottleneck can be derived from it".to_owned();
    match untrusted {
        Untrusted::Uncalibrated(_) => {
            why.push_str("\n  The cause may be one of its assumptions:");
            for sentence in &derived.assumptions {
                why.push_str("\n    ");
                why.push_str(sentence);
            }
        }
        Untrusted::Hidden(_) => {
            why.push_str(
                "\n  Annotate that queue (docs/annotations.md), or record with fewer requests at once and compare",
            );
        }
        Untrusted::Lossy(_) | Untrusted::Impossible(_) => {
            why.push_str("\n  Record again, with fewer services or for longer; `wakepath info` shows what was lost");
        }
    }
    why.push_str("\n  `wakepath why` and `wakepath requests` tell where the time went, from what was recorded alone");
    Err(NoForecast::Untrusted(untrusted, why))
}

/// A kind that the recording does not have.
pub fn no_kind(system: &System, name: &str) -> NoForecast {
    const LISTED: usize = 8;
    let mut text = format!("no requests of the kind {name:?}; `wakepath requests` lists the kinds");
    if !system.kinds.is_empty() {
        text.push_str(". Here:");
    }
    for kind in system.kinds.iter().take(LISTED) {
        text.push_str("\n    ");
        text.push_str(kind);
    }
    NoForecast::Empty(text)
}

/// A system's replay with processors slower by [`PACE`]; as it is, where it has none.
fn slower(system: &System, outcome: &Outcome) -> Outcome {
    let mut slow = system.clone();
    let mut processors = slow.stations.iter_mut().filter(|s| s.discipline.is_shared()).peekable();
    if processors.peek().is_none() {
        return outcome.clone();
    }
    processors.for_each(|s| s.speed /= 1.0 + PACE);
    replay(&slow, &Options { path: false, ..Options::default() })
}

/// What figures are of.
struct Of<'a> {
    measured: &'a Measured,
    lossy: f64,
    base: &'a Outcome,
    kind: Option<KindId>,
}

impl Of<'_> {
    /// What was measured, times what became of the replay. `slower`: with processors slower by [`PACE`].
    fn fares(&self, after: &Outcome, slower: &Outcome) -> Fares {
        let m = self.measured;
        let per_second = m.count as f64 * 1e9 / m.elapsed_ns.max(1) as f64;
        // where no transactions are told apart, all that there is to do was done in the length of the run
        let run = |o: &Outcome| if o.elapsed_ns == 0 { 0.0 } else { m.count as f64 * 1e9 / o.elapsed_ns as f64 };
        let pace = |o: &Outcome| match (m.unit, o.busy_span_ns) {
            (Unit::Requests, 1..) => self.count(o) as f64 * 1e9 / o.busy_span_ns as f64,
            _ => run(o),
        };
        let varied = of_throughput(&m.blocks);
        let throughput = self.figure(per_second, pace(self.base), pace(after), pace(slower), varied);
        if m.latency.count() == 0 {
            return Fares { throughput, mean_ns: None, quantiles_ns: None };
        }
        let (before, then, late) = (self.latency(self.base), self.latency(after), self.latency(slower));
        if before.count() == 0 || then.count() == 0 {
            return Fares { throughput, mean_ns: None, quantiles_ns: None };
        }
        let varied = of_mean(&m.blocks);
        let mean = self.figure(mean(&m.latency), mean(&before), mean(&then), mean(&late), varied);
        let mut quantiles = QUANTILES.map(|q| {
            let of = |h: &Histogram| h.quantile(q) as f64;
            self.figure(of(&m.latency), of(&before), of(&then), of(&late), varied)
        });
        // a larger share is not below a smaller one
        for i in 1..quantiles.len() {
            quantiles[i].value = quantiles[i].value.max(quantiles[i - 1].value);
        }
        Fares { throughput, mean_ns: Some(mean), quantiles_ns: Some(quantiles) }
    }

    fn figure(&self, measured: f64, before: f64, after: f64, slower: f64, variation: Option<f64>) -> Figure {
        let of = |then: f64| if before > 0.0 && then > 0.0 { then / before } else { 1.0 };
        let ratio = of(after);
        let bar = Bar::new(variation, before, measured, ratio, of(slower), self.lossy);
        Figure { measured, replayed: before, value: measured * ratio, bar }
    }

    fn count(&self, outcome: &Outcome) -> u64 {
        self.kinds(outcome).map(Histogram::count).sum()
    }

    fn latency(&self, outcome: &Outcome) -> Histogram {
        let mut all = Histogram::default();
        self.kinds(outcome).for_each(|h| all.merge(h));
        all
    }

    fn kinds<'o>(&self, outcome: &'o Outcome) -> impl Iterator<Item = &'o Histogram> {
        let kind = self.kind;
        outcome.kinds.iter().filter(move |k| kind.is_none_or(|wanted| k.kind == wanted)).map(|k| &k.latency)
    }
}

/// The mean of a histogram, with its fraction.
fn mean(h: &Histogram) -> f64 {
    h.sum() as f64 / h.count().max(1) as f64
}
