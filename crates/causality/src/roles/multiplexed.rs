//! Connections on which a task sends what others have left to be sent.
//!
//! A program may put messages into a queue until its connection takes more, or until nobody else sends there: the one that sends then sends
//! for all. So asyncio's `add_writer` runs in the context of who called it, and of threads that share a connection of HTTP/2 one sends what
//! all have put into the connection's state. What such a task works for says nothing of whose the messages are.
//!
//! That shows where a task that works for a request begins several streams of HTTP/2 by one operation, while several requests are open.
//! On a connection of an unknown protocol it does not show: there it is enough that tasks of a loop send beside each other.

use super::Roles;
use crate::conditions::holds;
use crate::exchange::Exchange;
use crate::process::ProcessId;
use crate::process::known::Does;
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
    fn begins(&mut self, on: EndpointId, at: MonoNs) -> bool {
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
}

impl Roles {
    /// A call begins: where its protocol has streams, whether one operation began several while several requests were open.
    pub(super) fn begins_stream(&mut self, e: &Exchange, process: ProcessId) {
        if !e.content.witness.0.interleaves() {
            return;
        }
        let is_beside_another = self.multiplexed.begins(e.flow, e.request.began);
        // a thread or goroutine that sends for all, and works for none itself, is another matter
        let role = self.known.at_task(e.request.actor).role;
        let is_of_a_request =
            self.births().traits(e.request.actor).has_loops || role.has(Does::Take) && !role.is_loop();
        if is_beside_another && is_of_a_request && self.known.at(process).now.open.is_some_and(|open| open > 1) {
            self.multiplexed.add(e.flow);
        }
    }

    /// Whether what a task sends there may be another request's, whatever it works for.
    pub(crate) fn may_send_for_others(&self, e: &Exchange) -> bool {
        let all = &self.multiplexed.for_others;
        let has_overlap = e.is_by_direction() || e.content.witness.0.interleaves();
        let is_one = has_overlap && (all.len() >= CONNECTIONS_MAX || all.contains(&e.flow));
        !holds("shared.sends_for_itself", !is_one)
    }
}
