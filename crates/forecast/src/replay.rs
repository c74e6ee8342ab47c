//! Runs a system: a discrete event simulation of its actors, queues and stations.
//!
//! Time is in nanoseconds, kept as floating point numbers, since servers that are shared give fractions of them; systems
//! without such servers are computed exactly. Equal systems give equal outcomes: ties go to who was there first.
//! Queues are first come, first served, for items and for those who wait. Memory is that of what is going on at a
//! time: actors that have begun and not ended, items in queues, and a window of the critical path ([`crate::critical`]).
//!
//! A replay always ends. Actors that nobody helps on, scripts that fork themselves and names of nothing are said
//! ([`Outcome::stuck`]); [`Options::steps_max`] bounds the rest.

mod actor;
mod engine;
mod events;
mod handover;
mod order;
mod queue;
mod report;
mod spool;
mod spooled;
mod station;

pub(crate) use engine::Observe;
pub use order::Order;
pub use spool::{Spool, SpoolWriter};
pub use spooled::Spooled;

use crate::outcome::Outcome;
use crate::system::{NOT_SEEN, QueueId, ScriptId, Step, System};
use wakepath_analysis::histogram::Histogram;

/// How to replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// Follow the critical path of the whole run and its loops; where only durations are of interest, a third of the
    /// time is saved without.
    pub path: bool,
    /// The replay is cut off after so many steps, and says so in [`Outcome::stuck`].
    pub steps_max: u64,
    /// Least number of path segments between two foldings (24 bytes each).
    pub window: usize,
    /// Who took from whom in another replay: what [`Outcome::reordered`] is held against.
    pub before: Option<Order>,
}

impl Default for Options {
    fn default() -> Options {
        Options { path: true, steps_max: 4_000_000_000, window: 1 << 17, before: None }
    }
}

/// What passed between "could go on" and "went on" where it is not known, since the recorded run did not wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usual {
    /// For who waited for items (ns).
    pub items_ns: u64,
    /// For who waited for room (ns).
    pub room_ns: u64,
}

/// Where the steps of a system's scripts come from: its own memory, or a recording that does not fit in there ([`Spool`]).
pub trait Source {
    /// The step of a script at a position, `None` after its last. A run of a script asks for each position once, from 0
    /// on; scripts of a source that can be read only once are run by one actor each.
    fn step(&mut self, script: ScriptId, position: u64) -> Option<Step>;

    /// The medians of the latencies that were seen at a queue by who waited there.
    fn usual(&self, queue: QueueId) -> Usual;
}

/// Gathers latencies for [`Source::usual`].
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    of: Vec<(Histogram, Histogram)>,
}

impl Latencies {
    /// Adds a step's, where it waited.
    pub fn add(&mut self, step: Step) {
        let (queue, latency, is_room) = match step {
            Step::Enqueue { queue, latency_ns, .. } => (queue, latency_ns, true),
            Step::Dequeue { queue, latency_ns, .. } => (queue, latency_ns, false),
            _ => return,
        };
        if latency == NOT_SEEN {
            return;
        }
        if self.of.len() <= queue.index() {
            self.of.resize_with(queue.index() + 1, Default::default);
        }
        let (items, room) = &mut self.of[queue.index()];
        if is_room { room } else { items }.add(latency);
    }

    /// The medians, by queue; queues beyond the list have none.
    pub fn usual(&self) -> Vec<Usual> {
        let median = |h: &Histogram| h.quantile(0.5);
        self.of.iter().map(|(items, room)| Usual { items_ns: median(items), room_ns: median(room) }).collect()
    }
}

/// The steps that a system holds itself.
pub struct InMemory<'a> {
    system: &'a System,
    usual: Vec<Usual>,
}

impl<'a> InMemory<'a> {
    /// Of a system.
    pub fn new(system: &'a System) -> InMemory<'a> {
        let mut latencies = Latencies::default();
        for &step in &system.steps {
            // an index that names no queue must not cost its memory
            match step {
                Step::Enqueue { queue, .. } | Step::Dequeue { queue, .. } if queue.index() >= system.queues.len() => {}
                _ => latencies.add(step),
            }
        }
        InMemory { system, usual: latencies.usual() }
    }
}

impl Source for InMemory<'_> {
    fn step(&mut self, script: ScriptId, position: u64) -> Option<Step> {
        let range = self.system.scripts.get(script.index())?;
        let at = range.start.checked_add(usize::try_from(position).ok()?)?;
        if at < range.end { self.system.steps.get(at).copied() } else { None }
    }

    fn usual(&self, queue: QueueId) -> Usual {
        self.usual.get(queue.index()).copied().unwrap_or_default()
    }
}

/// Runs a system.
pub fn replay(system: &System, options: &Options) -> Outcome {
    replay_observed(system, &mut (), options)
}

/// Runs a system whose steps come from elsewhere: `system.steps` is not looked at, and of `system.scripts` nothing but
/// their number.
pub fn replay_from<S: Source>(system: &System, source: &mut S, options: &Options) -> Outcome {
    engine::Engine::new(system, source, &mut (), options).run()
}

/// Runs a system and tells an observer of every handing over.
pub(crate) fn replay_observed<O: Observe>(system: &System, observer: &mut O, options: &Options) -> Outcome {
    let Some(spooled) = &system.spooled else {
        return engine::Engine::new(system, &mut InMemory::new(system), observer, options).run();
    };
    let mut source = spooled.read();
    let mut outcome = engine::Engine::new(system, &mut source, observer, options).run();
    if let Some(e) = source.spool.failed() {
        outcome.stuck.push(format!("the steps on disk could not be read: {e}"));
    }
    outcome
}
