//! What a derivation gives: a model to replay, what was measured of the real thing, and what is not known.

use crate::jobs::Jobs;
use crate::system::System;
use wakepath_analysis::histogram::Histogram;

/// The two kinds of model.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Requests at services: live recordings with requests.
    Jobs(Jobs),
    /// State machines as recorded: streams, annotated programs, simulators' marks.
    Machines(System),
}

/// What throughput counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests, or an annotated program's transactions.
    Requests,
    /// Bytes of a stream.
    Bytes,
    /// Items of an annotated queue.
    Items,
}

/// One part of the recording, for how much it varies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Of [`Measured::unit`].
    pub count: u64,
    /// Its length (ns).
    pub elapsed_ns: u64,
    /// Mean latency of what ended in it (ns), 0 where there is none.
    pub mean_ns: f64,
}

/// What was measured, of the same requests, bytes or items that the model replays.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What is counted.
    pub unit: Unit,
    /// How many.
    pub count: u64,
    /// In what time (ns).
    pub elapsed_ns: u64,
    /// Their latencies (ns); empty where there are none.
    pub latency: Histogram,
    /// The recording in equal parts, at least four where it is long enough: what the error bar is made of.
    pub blocks: Vec<Block>,
}

/// Machines that had a part in the same items: a connection, seen through all machines that serve it (section 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The machines, as `HOST/MACHINE[KEY]`.
    pub machines: Vec<String>,
    /// Items that came to the last of them.
    pub items: u64,
}

/// A contradiction in annotations (section 3.2); meaning and remedy are in the central list of defects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Id in the central list.
    pub defect: &'static str,
    /// How often.
    pub count: u64,
    /// The machine that was met first, where it is one's.
    pub machine: Option<String>,
    /// The queue.
    pub queue: Option<String>,
    /// When, since the first mark (ns).
    pub at_ns: Option<u64>,
}

impl Warning {
    /// Where it was met first: `web/driver[7], queue txq, at +1.5 s`; empty where that says nothing.
    pub fn place(&self) -> String {
        let queue = self.queue.as_ref().map(|q| format!("queue {q}"));
        let at = self.at_ns.map(|ns| format!("at +{} s", ns as f64 / 1e9));
        self.machine.clone().into_iter().chain(queue).chain(at).collect::<Vec<_>>().join(", ")
    }
}

/// What [`crate`]'s derivations give.
#[derive(Clone, Debug)]
pub struct Derived {
    /// To be replayed.
    pub model: Model,
    /// To be held against the replay of the model as it is.
    pub measured: Measured,
    /// What the forecast takes for granted, a sentence each; the arrival model is not among them, it comes first.
    pub assumptions: Vec<String>,
    /// Share of what was measured that losses may have touched, 0 to 1: widens the error bar.
    pub lossy: f64,
    /// What was measured and cannot be, a sentence each: such as more processor time than there is. Nothing follows from it.
    pub impossible: Vec<String>,
    /// What may be a queue that no record shows and takes much of the time, in words: then nothing can be forecast.
    pub hidden: Option<String>,
    /// Of annotations, who belongs together, the largest first; the first thousand.
    pub flows: Vec<Flow>,
    /// Of annotations, what contradicts itself, one of each kind.
    pub warnings: Vec<Warning>,
}
