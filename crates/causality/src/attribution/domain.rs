//! What is kept of a process.

use super::bearers::Bearers;
use super::carriers::Carriers;
use super::helper::JobStats;
use super::replies::Replies;
use super::request_set::RequestSet;
use crate::exchange::{ExId, is_peer};
use crate::flags::{Flags, flags};
use crate::process::listening::Listening;
use wakepath_model::ids::{EndpointId, MonoNs};

/// All that can hand work on without a message: the threads of one process.
#[derive(Default)]
pub(super) struct Domain {
    /// Open requests.
    pub(super) open: RequestSet,
    /// Those of them of which nothing is outstanding.
    pub(super) free: RequestSet,
    /// What jobs of helpers were seen.
    pub(super) jobs: JobStats,
    /// The last input, where the process had come to rest when it was given it and has done nothing else since.
    pub(super) rest: Option<Rest>,
    /// Its threads that read answers: what came of them may be waiting for a loop to take it.
    pub(super) carriers: Carriers,
    /// How often its requests waited for what was not done for them alone.
    pub(super) elsewhere: Elsewhere,
    /// When it last took a request.
    pub(super) taken: MonoNs,
    /// A message of a client that it had told something before.
    pub(super) heard_back: HeardBack,
    /// Where it waits for what happens elsewhere.
    pub(super) listening: Listening,
    /// Which of its requests bear which identifiers.
    pub(super) bearers: Bearers,
    /// How replies begin: those to its calls, and its own.
    pub(super) replies: Replies,
    /// Calls that any of several requests could have made, where it was ever given an input so.
    pub(super) doubtful: Option<Vec<ExId>>,
}

/// What requests of a process waited for that was not done for them alone: how many for what another process did by a way that bears no
/// message, and how many did not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Elsewhere {
    waited: u32,
    did_not: u32,
    /// How many went on with the answer to another request's call.
    pub(super) shared_answers: u32,
    /// When it last heard the answer to a call.
    pub(super) heard: MonoNs,
    /// When it was last told something that a request of its may have waited for, though it answers none of its calls: a message that a
    /// server pushed, or what was put into a queue.
    pub(super) notified: MonoNs,
}

impl Elsewhere {
    /// Counts one more. Whether work may have been done elsewhere for it too: nearly all others waited for that, and for this one it
    /// may have been ready before it came to wait.
    pub(super) fn counts(&mut self, waited: bool) -> bool {
        const CASES_MIN: u32 = 8;
        let count = if waited { &mut self.waited } else { &mut self.did_not };
        *count = count.saturating_add(1);
        !waited && self.waited >= CASES_MIN && self.did_not <= self.waited / CASES_MIN
    }
}

/// What a process heard from clients that it had told something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeardBack {
    /// When it had told one of them something, the latest of such times.
    pub(super) told: MonoNs,
    /// When it last heard from one.
    pub(super) at: MonoNs,
}

flags! {
    /// What is so since the last input.
    pub(super) enum RestFlag {
        /// Something of several requests was taken: which of them is gone on with is not known.
        Mixed,
        /// A call ended since, or a connection for one: what that set free, another request may have waited for.
        Answered,
    }
}

/// The last input of a process that had come to rest.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pub(super) flags: Flags<RestFlag>,
    /// Its flow, and what was accepted since.
    pub(super) flows: [EndpointId; 2],
    /// The request that it is of, once that is known.
    pub(super) of: Option<ExId>,
    /// When the first timer of the loop that took it can be due, in ns.
    pub(super) until: u64,
    /// When it was handed over.
    pub(super) at: MonoNs,
}

impl Rest {
    /// Whether what is taken from a flow is of the input. A datagram comes from one of its socket's peers; the library puts
    /// off reads of other sockets, or says that the process goes on with something else.
    pub(super) fn is_given(&self, flow: EndpointId) -> bool {
        self.flows.contains(&flow) || is_peer(flow)
    }
}
