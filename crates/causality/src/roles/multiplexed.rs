//! Connections on which a task sends what others have left to be sent.
//!
//! A program may put messages into a queue until its connection takes more, or until nobody else sends there: the one that sends then sends
//! for all. So asyncio's `add_writer` runs in the context of who called it, and of threads that share a connection of HTTP/2 one sends what
//! all have put into the connection's state. What such a task works for says nothing of whose the messages are.
//!
//! That shows where a task that works for a request begins several streams of HTTP/2 by one operation, while several requests are open.
//! On a connection of an unknown protocol it does not show: there it is enough that tasks of a loop send beside each other.

use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{EndpointId, MonoNs};

/// Most connections that are kept. Beyond, any may be one on which a task sends for others.
const CONNECTIONS_MAX: usize = 1 << 16;

/// Connections that several tasks use at once.
#[derive(Default)]
pub(super) struct Multiplexed {
    /// Of each connection that carries streams, when the operation began that began the last one.
    begun: FxHashMap<EndpointId, MonoNs>,
    /// Those on which a task sends for others.
    for_others: FxHashSet<EndpointId>,
}

impl Multiplexed {
    /// A task may have sent for others on a connection.
    pub(super) fn add(&mut self, on: EndpointId) {
        if self.for_others.len() < CONNECTIONS_MAX {
            self.for_others.insert(on);
        }
    }

    /// A stream begins on a connection, by an operation that began at a moment: whether that began another one too.
    pub(super) fn begins(&mut self, on: EndpointId, at: MonoNs) -> bool {
        if self.begun.len() >= CONNECTIONS_MAX && !self.begun.contains_key(&on) {
            return true;
        }
        self.begun.insert(on, at) == Some(at)
    }

    /// A connection is gone.
    pub(super) fn gone(&mut self, flow: EndpointId) {
        self.begun.remove(&flow);
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        self.begun = FxHashMap::default();
    }

    /// Whether a task may have sent for others on a connection.
    pub(super) fn is_for_others(&self, on: EndpointId) -> bool {
        self.for_others.len() >= CONNECTIONS_MAX || self.for_others.contains(&on)
    }
}
