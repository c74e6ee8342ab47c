//! Which end of a flow serves, where only what was said later tells: of connections that are older than the recording.

use super::record::Side;
use rustc_hash::FxHashMap;
use wakepath_model::ids::EndpointId;

/// What a first pass learned of flows whose announcement does not tell.
#[derive(Clone, Default)]
pub struct Sides {
    /// `None`: nothing told it, though bytes went both ways.
    of: FxHashMap<EndpointId, Option<Side>>,
}

impl Sides {
    pub(super) fn learn(&mut self, flow: EndpointId, side: Option<Side>) {
        self.of.insert(flow, side);
    }

    /// The side that shows later.
    pub(super) fn later(&self, flow: EndpointId) -> Option<Side> {
        self.of.get(&flow).copied().flatten()
    }

    /// Whether it never shows, though bytes go both ways.
    pub(super) fn is_never_told(&self, flow: EndpointId) -> bool {
        self.of.get(&flow) == Some(&None)
    }
}
