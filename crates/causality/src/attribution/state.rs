//! What is kept of an exchange while calls are being explained.

use super::request_set::{CallRange, Candidates, Membership, OpenCall, SetId};
use crate::exchange::ExId;
use crate::finished::Parent;
use crate::flags::{Flags, flags};
use crate::process::ProcessId;
use smallvec::SmallVec;
use std::rc::Rc;
use wakepath_model::ids::{MonoNs, TaskId};

/// Most refusals kept of one request.
pub(super) const REFUSALS_MAX: usize = 16;
/// Most calls kept of those that may be a request's.
pub(super) const OPEN_CALLS_MAX: usize = 8;

flags! {
    /// How far the linker is done with an exchange.
    pub(super) enum Progress {
        /// It is over.
        Closed,
        /// Handed on already, as it was then.
        Given,
        /// Its place was given back.
        Released,
        /// Its reply began, and none of the bytes after the head were read.
        ReplyUnread,
    }
}

/// What the linker keeps of an exchange.
#[derive(Default)]
pub(super) struct State {
    pub(super) flags: Flags<Progress>,
    pub(super) process: ProcessId,
    /// The task that took its last input.
    pub(super) holder: TaskId,
    /// Where it is a request.
    pub(super) request: RequestState,
    /// Where it is a call.
    pub(super) call: CallState,
}

flags! {
    /// What is so of a request.
    pub(super) enum RequestFlag {
        /// It made more of them than are kept.
        Overflow,
        /// What it did may be among what was lost.
        Lossy,
        /// It asked another process in a way that is not followed.
        Unfollowed,
        /// That was done by another process, which woke its task by a way that bears no message.
        DoneElsewhere,
        /// It was an isolated input, and nothing was done for it before the next poll.
        PutOff,
        /// It asked for something that cannot be shown: where that begins and ends is not known.
        Unclear,
    }
}

/// What is kept of a request.
#[derive(Default)]
pub(super) struct RequestState {
    pub(super) flags: Flags<RequestFlag>,
    /// Calls that it made.
    pub(super) calls: SmallVec<[ExId; 2]>,
    /// How much of what it began is not answered.
    pub(super) outstanding: u32,
    /// Of that, connections that are made for it.
    pub(super) dialling: u32,
    pub(super) doubts: RequestDoubts,
    /// When its holder last began a call itself, as it was at the request's end.
    pub(super) holder_called: MonoNs,
    /// Connections that were tried for it and did not come about.
    pub(super) refusals: Vec<u64>,
    /// Its memberships in sets, by their kind.
    pub(super) memberships: [Membership; SetId::KINDS],
}

impl RequestState {
    /// Calls of a part of a set's list may be its; `is_lossy`: where one was made, something was lost.
    pub(super) fn note(&mut self, part: CallRange, is_lossy: bool) {
        self.flags.add_if(RequestFlag::Lossy, is_lossy);
        if part.from < part.to {
            self.doubts.parts.push(part);
        }
    }
}

/// Calls that may be a request's.
#[derive(Default)]
pub(super) struct RequestDoubts {
    /// How many are noted at the request itself.
    pub(super) count: u32,
    /// The first of those.
    pub(super) calls: Vec<Rc<OpenCall>>,
    /// Those that are noted at sets which it left.
    pub(super) parts: Vec<CallRange>,
}

impl RequestDoubts {
    /// It may have made a call.
    pub(super) fn add(&mut self, call: Rc<OpenCall>) {
        self.count += 1;
        if self.calls.len() < OPEN_CALLS_MAX {
            self.calls.push(call);
        }
    }

    /// Another made a call that was noted here.
    pub(super) fn resolve(&mut self, call: ExId) {
        self.count = self.count.saturating_sub(1);
        self.calls.retain(|c| c.call != call);
    }
}

flags! {
    /// What is so of a call.
    pub(super) enum CallFlag {
        /// It counts as outstanding of its request.
        Counted,
        /// Its process closed the connection: no task waits for the rest of the reply.
        GivenUp,
        /// It was made by a helper while its process had but one request open, and not of the helper's own accord.
        OneCandidate,
        /// Something of its reply was read.
        Replied,
        /// Who made it slept until that task woke it, and had no other call under way.
        SleptFor,
    }
}

/// What is kept of a call.
#[derive(Default)]
pub(super) struct CallState {
    pub(super) flags: Flags<CallFlag>,
    pub(super) parent: Option<Parent>,
    /// Who could have made it; none where that is empty.
    pub(super) candidates: Option<Box<Candidates>>,
    /// Its number at the set of candidates.
    pub(super) number: u64,
    /// The other requests that could have made it and were not over when it was.
    pub(super) others: Option<Box<[ExId]>>,
    /// Who read the reply.
    pub(super) reply_task: TaskId,
}
