//! Actors at work.

use crate::critical::{Node, ROOT};
use crate::system::{QueueId, ScriptId, StateId};

/// What an actor is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Does {
    /// Its next step is due.
    Runs,
    /// It has not begun with its next script yet.
    Pauses,
    /// It works, or waits for a server.
    Works {
        state: StateId,
        /// What it takes by itself.
        ns: f64,
    },
    /// It waits for items.
    Takes { queue: QueueId, count: u64, latency: u64 },
    /// It has been called and takes them in a moment.
    Took { queue: QueueId, count: u64 },
    /// It waits for room.
    Gives { queue: QueueId, count: u64, latency: u64 },
    /// It has been called and puts them in in a moment.
    Gave { queue: QueueId, count: u64 },
    /// It found no room so many times and tries again.
    Retries { queue: QueueId, count: u64, refused: u32 },
    /// It waits for all that it forked.
    Joins,
    /// It has ended, and what it forked has not.
    Ended,
    /// It can never go on.
    Stuck(Stuck),
    /// There is none: the slot is free.
    Gone,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// What it gives is more than the queue holds.
    TooMuch { queue: QueueId, count: u64 },
    /// A step or actor names a queue, station, state, script or kind that the system has not.
    Unknown(&'static str),
    /// A script forks itself.
    Recursion,
    /// Its work takes for ever.
    Forever,
}

/// An actor that has begun and not ended.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    /// In [`crate::system::System::actors`]; of forked ones, that from which they stem.
    pub(super) root: u32,
    /// Whose work it does: the actor's, or of shared scripts, the script's in their order.
    pub(super) whose: u64,
    /// It takes shared scripts.
    pub(super) is_shared: bool,
    /// Of which crowd it is, where there are several.
    pub(super) crowd: u32,
    pub(super) script: ScriptId,
    /// Its next step.
    pub(super) position: u64,
    /// Who forked it.
    pub(super) parent: Option<u32>,
    pub(super) depth: u32,
    /// So many that it forked have not ended.
    pub(super) forked: u32,
    pub(super) does: Does,
    /// Since when it waits or works.
    pub(super) since: f64,
    /// What led here.
    pub(super) path: Node,
    /// What led here from the begin of its transaction.
    pub(super) way: Node,
    /// On behalf of which transaction.
    pub(super) transaction: u64,
    /// Transactions that it began itself, the innermost last.
    pub(super) begun: Vec<u64>,
    /// What it did last.
    pub(super) place: u32,
}

impl Actor {
    /// Takes a free slot into use.
    pub(super) fn reset(&mut self, root: u32) {
        self.begun.clear();
        *self = Actor { root, whose: u64::from(root), begun: std::mem::take(&mut self.begun), ..Actor::none() };
    }

    /// Nobody.
    pub(super) fn none() -> Actor {
        Actor {
            root: 0,
            whose: 0,
            is_shared: false,
            crowd: 0,
            script: ScriptId(0),
            position: 0,
            parent: None,
            depth: 0,
            forked: 0,
            does: Does::Gone,
            since: 0.0,
            path: ROOT,
            way: ROOT,
            transaction: super::queue::NONE,
            begun: Vec::new(),
            place: u32::MAX,
        }
    }
}
