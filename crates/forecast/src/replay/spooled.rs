//! Steps on disk as a part of a system: shared by all systems that were made of it by changes.

use super::{Source, Spool, Usual};
use crate::system::{QueueId, ScriptId, StateId, Step};
use std::sync::Arc;

/// Steps on disk, with the factors by which changes have altered them.
#[derive(Clone)]
pub struct Spooled {
    spool: Arc<Spool>,
    work: Vec<f64>,
    items: Vec<f64>,
    room: Vec<f64>,
}

impl Spooled {
    /// Unaltered.
    pub fn new(spool: Spool) -> Spooled {
        Spooled { spool: Arc::new(spool), work: Vec::new(), items: Vec::new(), room: Vec::new() }
    }

    /// How often work is done as a state, and for how long altogether (ns).
    pub fn work(&self, state: StateId) -> (u64, u64) {
        let (count, ns) = self.spool.work(state);
        (count, (ns as f64 * factor(&self.work, state.index())).round() as u64)
    }

    /// Work as a state takes `times` as long.
    pub(crate) fn scale_work(&mut self, state: StateId, times: f64) {
        scale(&mut self.work, state.index(), times);
    }

    /// What passes at a queue for who waited for items takes `items` as long, for room `room`.
    pub(crate) fn scale_latency(&mut self, queue: QueueId, items: f64, room: f64) {
        scale(&mut self.items, queue.index(), items);
        scale(&mut self.room, queue.index(), room);
    }

    /// To be read from the begin.
    pub(super) fn read(&self) -> Altered<'_> {
        Altered { spool: self.spool.again(), by: self }
    }
}

fn factor(factors: &[f64], at: usize) -> f64 {
    factors.get(at).copied().unwrap_or(1.0)
}

fn scale(factors: &mut Vec<f64>, at: usize, times: f64) {
    if factors.len() <= at {
        factors.resize(at + 1, 1.0);
    }
    factors[at] *= times;
}

impl PartialEq for Spooled {
    fn eq(&self, other: &Spooled) -> bool {
        Arc::ptr_eq(&self.spool, &other.spool)
            && (&self.work, &self.items, &self.room) == (&other.work, &other.items, &other.room)
    }
}

impl std::fmt::Debug for Spooled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spooled")
            .field("work", &self.work)
            .field("items", &self.items)
            .field("room", &self.room)
            .finish()
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
        let by = self.by;
        Some(match self.spool.step(script, position)? {
            Step::Work { state, ns } => Step::Work { state, ns: times(ns, factor(&by.work, state.index())) },
            Step::Dequeue { queue, count, latency_ns } => {
                Step::Dequeue { queue, count, latency_ns: times(latency_ns, factor(&by.items, queue.index())) }
            }
            Step::Enqueue { queue, count, latency_ns } => {
                Step::Enqueue { queue, count, latency_ns: times(latency_ns, factor(&by.room, queue.index())) }
            }
            other => other,
        })
    }

    fn usual(&self, queue: QueueId) -> Usual {
        let usual = self.spool.usual(queue);
        Usual {
            items_ns: times(usual.items_ns, factor(&self.by.items, queue.index())),
            room_ns: times(usual.room_ns, factor(&self.by.room, queue.index())),
        }
    }
}
