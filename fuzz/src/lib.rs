//! What several targets hold their readers to.

use wakepath_decode::raw::{Raw, RawSink};
use wakepath_model::defects;
use wakepath_model::ids::MonoNs;

/// What a reader told, folded into numbers that differ where an event, its time or its order does.
#[derive(Default, PartialEq, Debug)]
pub struct Sum {
    /// How many events.
    pub events: u64,
    /// Their times and processors, in order.
    pub times: u64,
    /// How many events the trace says were lost.
    pub lost: u64,
    /// How many defects were counted.
    pub defects: u64,
}

impl RawSink for Sum {
    fn event(&mut self, at: MonoNs, cpu: u16, event: &Raw<'_>) {
        self.events += 1;
        self.times = self.times.wrapping_mul(31).wrapping_add(at.0 ^ u64::from(cpu));
        assert!(format!("{event:?}").len() > 2);
    }

    fn lost(&mut self, _: Option<u16>, from: MonoNs, to: MonoNs, count: u64) {
        assert!(from <= to, "a loss ends before it begins");
        self.lost = self.lost.saturating_add(count);
    }

    fn count(&mut self, defect: &'static str, _: MonoNs) {
        assert!(defects::find(defect).is_some(), "{defect} is in no list");
        self.defects += 1;
    }
}
