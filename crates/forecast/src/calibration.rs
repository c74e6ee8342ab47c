//! Whether the model behaves as what was recorded: asked before anything is forecast from it.
//!
//! The unchanged model is replayed and held against what was measured. What a recording varies by, and what the pace of
//! processors makes, is the most that chance explains (`bar`). A model that misses by more is wrong somewhere: then every
//! answer begins with that. One that misses by a quarter is no model of that system, and nothing is answered from it; nor is
//! anything where losses may have touched most of what was measured, or where that is impossible. `trusted` is the one gate:
//! whoever states a limit or a forecast has passed it.

use crate::derived::{Derived, Model, Unit};
use crate::forecast::Fares;
use crate::outcome::Outcome;
use crate::system::{KindId, System};

/// From here on (0.25 = measured and replayed differ by a quarter of the lesser) nothing is answered from a model.
pub const UNUSABLE: f64 = 0.25;
/// Nor where losses and incomplete paths may have touched more than this part of what was measured.
const LOSSY_MAX: f64 = 0.5;
/// A replay of a random process differs from another by so much.
const LEAST_BAR: f64 = 0.02;

/// A figure as measured and as replayed without any change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// As measured.
    pub measured: f64,
    /// As replayed.
    pub replayed: f64,
    /// How far they are apart, as a part of the lesser of them.
    pub off: f64,
    /// What chance explains of that.
    pub bar: f64,
}

/// How a model's unchanged replay compares with what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// What throughput counts.
    pub unit: Unit,
    /// It is a model of requests at services, not of state machines as they were recorded.
    pub is_of_jobs: bool,
    /// A second.
    pub throughput: Held,
    /// Mean latency (ns); `None` where nothing has one.
    pub mean_ns: Option<Held>,
}

/// Why nothing is answered from a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Untrusted {
    /// It does not behave as the recorded system did.
    #[error("{}", .0.refusal())]
    Uncalibrated(Calibration),
    /// Most of what it is made of may be wrong: the part, 0 to 1.
    #[error("data loss or incomplete paths may affect {:.0} % of what was measured", 100.0 * .0)]
    Lossy(f64),
    /// It is made of figures that cannot be.
    #[error("{0}")]
    Impossible(String),
    /// Much of the time may be a queue that nobody saw.
    #[error("{0}")]
    Hidden(String),
}

/// Whether anything is answered from a model: the gate for all that states a limit or a forecast.
///
/// # Errors
/// Why nothing is.
pub fn trusted(calibration: &Calibration, derived: &Derived) -> Result<(), Untrusted> {
    if let Some(what) = derived.impossible.first() {
        return Err(Untrusted::Impossible(what.clone()));
    }
    if derived.lossy > LOSSY_MAX && calibration.is_of_jobs {
        return Err(Untrusted::Lossy(derived.lossy));
    }
    if let Some(what) = &derived.hidden {
        return Err(Untrusted::Hidden(what.clone()));
    }
    match calibration.verdict() {
        Verdict::Unusable => Err(Untrusted::Uncalibrated(*calibration)),
        Verdict::Holds | Verdict::Misses => Ok(()),
    }
}

/// What follows from a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The model behaves as what was recorded.
    Holds,
    /// It misses by more than chance explains: said first.
    Misses,
    /// It misses by more than [`UNUSABLE`]: nothing is answered.
    Unusable,
}

impl Calibration {
    /// Of figures whose replay is of the unchanged model.
    pub fn of(fares: &Fares, unit: Unit, is_of_jobs: bool) -> Calibration {
        let held = |f: &crate::forecast::Figure| Held {
            measured: f.measured,
            replayed: f.replayed,
            off: f.bar.calibration,
            bar: f.bar.variation.unwrap_or(0.0).hypot(f.bar.pace).max(LEAST_BAR),
        };
        let mean_ns = fares.mean_ns.as_ref().map(held);
        Calibration { unit, is_of_jobs, throughput: held(&fares.throughput), mean_ns }
    }

    /// Of the two figures the one that is further off, measured by what chance explains.
    pub fn worst(&self) -> Held {
        let by = |h: &Held| (h.off > UNUSABLE, h.off / h.bar);
        let latency = self.mean_ns.filter(|m| by(m) > by(&self.throughput));
        latency.unwrap_or(self.throughput)
    }

    /// How far off, in words: `replayed without any change, mean latency is 3.3 ms, measured were 33 ms (900 % off)`.
    pub fn sentence(&self) -> String {
        let worst = self.worst();
        let figure = |value: f64| match (self.mean_ns == Some(worst), self.unit) {
            (true, _) => format!("{:.3} ms", value / 1e6),
            (false, Unit::Bytes) => format!("{:.3} MB/s", value / 1e6),
            (false, _) => format!("{value:.1}/s"),
        };
        let what = if self.mean_ns == Some(worst) { "mean latency" } else { "throughput" };
        format!(
            "replayed without any change, {what} is {}, measured was {} ({:.0} % off; chance explains {:.0} %)",
            figure(worst.replayed),
            figure(worst.measured),
            100.0 * worst.off,
            100.0 * worst.bar
        )
    }

    /// Why nothing is answered from a model that is further off than [`UNUSABLE`].
    fn refusal(&self) -> String {
        let worst = self.worst();
        let why = if worst.off > worst.bar {
            "the model made of this recording does not behave as the recorded system did"
        } else {
            "the recording is too short, or its load too uneven, to tell whether a model of it holds"
        };
        format!("{why}: {}", self.sentence())
    }

    /// What follows. State machines (streams, annotations) are always answered: they are what was recorded, and what
    /// they miss was not.
    pub fn verdict(&self) -> Verdict {
        let each = || [Some(self.throughput), self.mean_ns].into_iter().flatten();
        if each().all(|h| h.off <= h.bar.min(UNUSABLE)) {
            Verdict::Holds
        } else if self.is_of_jobs && each().any(|h| h.off > UNUSABLE) {
            Verdict::Unusable
        } else {
            Verdict::Misses
        }
    }
}

/// Holds the unchanged replay of a derivation, `base`, against what was measured.
pub fn calibrate(derived: &Derived, system: &System, base: &Outcome, kind: Option<KindId>) -> Calibration {
    let fares = crate::forecast::unchanged(derived, system, base, kind);
    Calibration::of(&fares, derived.measured.unit, matches!(derived.model, Model::Jobs(_)))
}
