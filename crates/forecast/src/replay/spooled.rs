//! Steps on disk as a part of a system: shared by all systems that were made of it by changes.

use super::{Source, Spool, Usual};
use crate::system::{QueueId, ScriptId, StateId, Step};
use std::sync::Arc;

/// Steps on disk, with the factors by which changes have altered them.
#[derive(Clone)]
pub struct Spooled {
    spool: Arc<Spool>,
    work: Vec<f64>,
}

impl Spooled {
    /// Unaltered.
    pub fn new(spool: Spool) -> Spooled {
        Spooled { spool: Arc::new(spool), work: Vec::new() }
    }

    /// How often work is done as a state, and for how long altogether (ns).
    pub fn work(&self, state: StateId) -> (u64, u64) {
        let (count, ns) = self.spool.work(state);
        (count, times(ns, self.factor(state)))
    }

    /// Work as a state takes `times` as long.
    pub(crate) fn scale_work(&mut self, state: StateId, times: f64) {
        if self.work.len() <= state.index() {
            self.work.resize(state.index() + 1, 1.0);
        }
        self.work[state.index()] *= times;
    }

    fn factor(&self, state: StateId) -> f64 {
        self.work.get(state.index()).copied().unwrap_or(1.0)
    }

    /// To be read from the begin.
    pub(super) fn read(&self) -> Altered<'_> {
        Altered { spool: self.spool.again(), by: self }
    }
}

impl PartialEq for Spooled {
    fn eq(&self, other: &Spooled) -> bool {
        Arc::ptr_eq(&self.spool, &other.spool) && self.work == other.work
    }
}

impl std::fmt::Debug for Spooled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spooled").field("work", &self.work).finish_non_exhaustive()
    }
}

/// Reads them as they were altered.
pub(super) struct Altered<'a> {
    pub(super) spool: Spool,
    by: &'a Spooled,
}

fn times(ns: u64, factor: f64) -> u64 {
    if factor == 1.0 { ns } else { (ns as f64 * factor).round() as u64 }
}

impl Source for Altered<'_> {
    fn step(&mut self, script: ScriptId, position: u64) -> Option<Step> {
        Some(match self.spool.step(script, position)? {
            Step::Work { state, ns } => Step::Work { state, ns: times(ns, self.by.factor(state)) },
            other => other,
        })
    }

    fn usual(&self, queue: QueueId) -> Usual {
        self.spool.usual(queue)
    }
}
