//! Whether a model behaves as what was recorded, as the first line of an answer and as JSON.

use crate::text::{Style, Tint, sanitise, wrap};
use serde::Serialize;
use wakepath_forecast::calibration::{Calibration, Held, Verdict};
use wakepath_forecast::derived::Unit;

/// A figure as measured, and as a replay of the unchanged model has it.
#[derive(Clone, Debug, Serialize)]
pub struct HeldView {
    /// As measured.
    pub measured: f64,
    /// As replayed.
    pub replayed: f64,
    /// How far they are apart, as a part of the lesser of them.
    pub off: f64,
    /// What chance explains of that.
    pub bar: f64,
}

/// Whether the model behaves as what was recorded.
#[derive(Clone, Debug, Serialize)]
pub struct CalibrationView {
    /// Neither figure is off by more than its bar.
    pub holds: bool,
    /// Of the measured unit, a second.
    pub throughput_per_s: HeldView,
    /// Nanoseconds; null where nothing has a latency.
    pub mean_ns: Option<HeldView>,
    /// What is said first where it does not hold.
    #[serde(skip)]
    sentence: Option<String>,
}

impl CalibrationView {
    /// Of a calibration.
    pub fn new(c: &Calibration) -> CalibrationView {
        let held = |h: &Held| HeldView { measured: h.measured, replayed: h.replayed, off: h.off, bar: h.bar };
        let holds = c.verdict() == Verdict::Holds;
        // what state machines miss is what was not recorded of them
        let why = match c.unit {
            Unit::Bytes => " What limits may be the congestion or the receive window, which are not recorded.",
            _ => "",
        };
        let sentence = format!(
            "The model does not fully match the recording: {}. Treat what follows as a direction, not as figures.{why}",
            c.sentence()
        );
        CalibrationView {
            holds,
            throughput_per_s: held(&c.throughput),
            mean_ns: c.mean_ns.as_ref().map(held),
            sentence: (!holds).then_some(sentence),
        }
    }

    /// What is said first where the model does not hold.
    pub fn sentence(&self) -> Option<&str> {
        self.sentence.as_deref()
    }

    /// The first line of an answer whose model does not hold.
    pub fn render(&self, out: &mut String, style: Style) {
        if let Some(sentence) = &self.sentence {
            out.push_str(&style.paint(wrap(&sanitise(sentence), "", style.prose()).trim_end(), Tint::Warn));
            out.push('\n');
        }
    }
}
