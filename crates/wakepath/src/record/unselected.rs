//! What a recording with a selection leaves out, told in sums.

use crate::sink::Sink;
use wakepath_capture::Unselected;
use wakepath_decode::RowSink as _;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::StayRow;

/// How often the processor time is written of all that are not selected.
const EVERY_NS: u64 = 1_000_000_000;

/// The sums as they were written last.
pub struct Sums {
    written: Unselected,
    at: MonoNs,
}

impl Sums {
    /// Nothing yet, from a moment on.
    pub fn new(at: MonoNs, now: Unselected) -> Sums {
        Sums { written: now, at }
    }

    /// Writes what came since the time before, once it is due; `is_last`: now.
    pub fn write(&mut self, now: Unselected, at: MonoNs, is_last: bool, sink: &mut Sink) {
        let ran_ns = now.ran_ns.saturating_sub(self.written.ran_ns);
        if ran_ns == 0 || (!is_last && at.0.saturating_sub(self.at.0) < EVERY_NS) {
            return;
        }
        sink.push(&StayRow { at, from: self.at, to: at, ran_ns, task: TaskId::UNKNOWN, ..Default::default() });
        (self.written, self.at) = (now, at);
    }
}
