//! Which requests bear the identifiers that services hand on with their calls.

use crate::conditions::holds;
use crate::exchange::ExId;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wakepath_model::rows::WitnessKind;

/// An identifier in a message's head: its kind and hash.
pub(super) type Identifier = (WitnessKind, u64);

/// What a message says that services hand on.
pub(super) fn carried(witness: Identifier) -> Option<Identifier> {
    witness.0.is_handed_on().then_some(witness)
}

/// How many identifiers are remembered of a process.
const REMEMBERED: usize = 1 << 14;

/// Which requests of a process bear which identifiers.
#[derive(Default)]
pub(super) struct Bearers {
    /// The one that bears it; none where several did.
    of: FxHashMap<Identifier, Option<ExId>>,
    /// In the order in which they came.
    order: VecDeque<Identifier>,
}

impl Bearers {
    /// A request came that bears this identifier.
    pub(super) fn came(&mut self, id: Identifier, x: ExId) {
        let is_new = !self.of.contains_key(&id);
        if is_new {
            if self.order.len() == REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.of.remove(&oldest);
            }
            self.order.push_back(id);
        }
        self.of.insert(id, holds("witness.borne_by_one", is_new).then_some(x));
    }

    /// The one request that was seen to bear it.
    pub(super) fn bearer(&self, id: Identifier) -> Option<ExId> {
        *self.of.get(&id)?
    }
}
