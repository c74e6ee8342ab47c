//! What came of a replay.

use crate::system::{KindId, QueueId, StateId, StationId};
use wakepath_analysis::histogram::Histogram;

/// What a moment of a path was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A state's own work.
    State(StateId),
    /// Work was there and the station's servers were taken.
    Station(StationId),
    /// On the way through a queue: its delay, its occupation, what was seen to pass between enqueue and dequeue.
    Queue(QueueId),
    /// Waiting for room in a queue, or for a token, that whoever is on the path next gave back.
    Full(QueueId),
}

/// A part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// What.
    pub place: Place,
    /// Of the path's length (ns).
    pub ns: u64,
    /// How often.
    pub count: u64,
}

/// A path that comes back to where it was because something was full (section 3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The queue whose room closes it.
    pub closed_by: QueueId,
    /// Time of the critical path in its rounds (ns).
    pub ns: u64,
    /// Rounds.
    pub count: u64,
    /// Where a round's time goes, longest first.
    pub round: Vec<Share>,
}

/// How a kind of transaction fared.
#[derive(Clone, Debug)]
pub struct KindOutcome {
    /// Which.
    pub kind: KindId,
    /// Their durations (ns).
    pub latency: Histogram,
    /// Where they went: sums over all of them.
    pub shares: Vec<Share>,
}

/// How a station was used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StationUse {
    /// Server time used (ns).
    pub busy_ns: u64,
    /// Time that work waited (ns, summed).
    pub waited_ns: u64,
}

/// How a queue was used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueUse {
    /// Most that was in it.
    pub most: u64,
    /// Time that it was full, or that no token was left (ns).
    pub full_ns: u64,
    /// Time that takers waited for items (ns, summed).
    pub waited_items_ns: u64,
    /// Time that givers waited for room (ns, summed).
    pub waited_room_ns: u64,
    /// Items or bytes that went through.
    pub count: u64,
}

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From its begin to its last event (ns).
    pub elapsed_ns: u64,
    /// Transactions that ended, and from the first's begin to the last's end (ns).
    pub transactions: u64,
    /// See above.
    pub busy_span_ns: u64,
    /// Each kind of transaction, in the system's order.
    pub kinds: Vec<KindOutcome>,
    /// The critical path of the whole run (Hollingsworth's online profile), longest first. Clients' pauses and what is
    /// before an actor's start are at no place: the sum may be less than the run.
    pub path: Vec<Share>,
    /// Loops on it, longest first.
    pub loops: Vec<Loop>,
    /// In the order of the system's stations.
    pub stations: Vec<StationUse>,
    /// In the order of the system's queues.
    pub queues: Vec<QueueUse>,
    /// Items that were taken by another or in another order than in the replay that this one is held against
    /// ([`crate::replay::Options::before`]), 0 where there is none; about, where there are many.
    pub reordered: u64,
    /// Actors that wait forever for something that nobody gives: the scripts do not fit the changed system.
    pub stuck: Vec<String>,
    /// Steps done.
    pub steps: u64,
    /// Who took what after what, to hold another replay against ([`crate::replay::Options::before`]).
    pub order: crate::replay::Order,
}

impl Outcome {
    /// Transactions per second, 0 where there are none.
    pub fn throughput(&self) -> f64 {
        if self.busy_span_ns == 0 { 0.0 } else { self.transactions as f64 * 1e9 / self.busy_span_ns as f64 }
    }

    /// Mean duration of all transactions (ns), 0 where there are none.
    pub fn mean_ns(&self) -> f64 {
        let sum: u128 = self.kinds.iter().map(|k| k.latency.sum()).sum();
        if self.transactions == 0 { 0.0 } else { sum as f64 / self.transactions as f64 }
    }
}
