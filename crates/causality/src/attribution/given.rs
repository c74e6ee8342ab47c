//! What a loop was given since it last waited for something to do.

use crate::conditions::holds;
use crate::exchange::ExId;
use crate::flags::{Flags, flags};
use crate::process::turn::Turn;
use wakepath_model::ids::{EndpointId, MonoNs};
use wakepath_model::rows::{InputRow, PollRow};

/// Most requests kept of one turn; beyond that nothing is claimed of it.
const OWNERS_MAX: usize = 64;

flags! {
    /// What is so of what a loop was given.
    enum GivenFlag {
        /// A reply was taken, or a call ended without one. What that set free (a place in a pool), another may have waited for.
        Answered,
        /// A reply was taken to a call that no request made.
        Own,
        /// Something was taken of which it is not known whose it is.
        Unknown,
        /// The library vantage handed it over: nothing else was.
        Isolated,
    }
}

/// What a loop was given since its last poll that waited, and from whom.
#[derive(Default)]
pub(super) struct Given {
    flags: Flags<GivenFlag>,
    pub(super) turn: Turn,
    /// When the one before it began.
    before: MonoNs,
    /// The request that was read last before it.
    read_before: Option<ExId>,
    /// From how many flows something was taken, and the last of them.
    taken_from: (u32, EndpointId),
    /// Requests whose input was taken: their own bytes, or the reply to a call of theirs. Some may be answered by now.
    pub(super) owners: Vec<ExId>,
    /// The request whose connection can be written to: that is what it waited for.
    pub(super) writes_for: Option<ExId>,
    /// The request whose own bytes were taken last, where nothing was taken since, and no other's with them.
    asked_last: Option<ExId>,
    /// The request that was read last in any case, and when.
    read_last: Option<(ExId, MonoNs)>,
    /// The flow of that input, and what was accepted since.
    inputs: [EndpointId; 2],
    /// Connections that were accepted, and those of them on which no request was read.
    accepted: Vec<EndpointId>,
    unread: Vec<EndpointId>,
}

impl Given {
    /// A poll returned.
    pub(super) fn polled(&mut self, r: &PollRow) {
        if let Some(over) = self.turn.polled(r) {
            let owners = std::mem::take(&mut self.owners);
            let read_before = self.read_last().or(self.read_before);
            *self = Given { turn: self.turn, before: over.since, read_before, owners, ..Given::default() };
            self.owners.clear();
        }
        if r.ready > 0 {
            // what comes with such a poll may come before or after what was put off
            self.flags.set(GivenFlag::Isolated, false);
        }
    }

    /// The library vantage handed over an input, after the row of the poll that returned it.
    pub(super) fn given(&mut self, r: &InputRow) {
        self.inputs = [r.flow, EndpointId(0)];
        self.turn.is_by_library = true;
        // who asks not to wait has something else to do
        let is_isolated = r.isolated != 0 && self.turn.ready <= 1 && self.turn.messages == 0;
        self.flags.set(GivenFlag::Isolated, is_isolated);
    }

    /// One of what its polls found ready was this flow.
    pub(super) fn saw(&mut self, flow: EndpointId) {
        // what is read of a new connection at once was not among what the poll found ready: the listener was
        if self.taken_from.1 != flow && !self.accepted.contains(&flow) {
            self.taken_from = (self.taken_from.0.saturating_add(1), flow);
        }
    }

    /// An input of a request was taken from a flow.
    pub(super) fn took(&mut self, flow: EndpointId, x: ExId) {
        self.saw(flow);
        self.asked_last = None;
        self.turn.takes();
        if !self.owners.contains(&x) {
            if self.owners.len() < OWNERS_MAX {
                self.owners.push(x);
            } else {
                self.flags.add(GivenFlag::Unknown);
            }
        }
    }

    /// Bytes of a request were taken.
    pub(super) fn asked(&mut self, flow: EndpointId, x: ExId, at: MonoNs) {
        self.took(flow, x);
        self.unread.retain(|&f| f != flow);
        // one read may take several requests, of which any may go on first
        let before = self.read_last.replace((x, at));
        let is_beside_another = before.is_some_and(|(other, then)| then == at && other != x);
        self.asked_last = Some(x).filter(|_| holds("prompt.one_at_once", !is_beside_another));
    }

    /// A flow can be written to that was connected for a request, or on which it is answered.
    pub(super) fn may_write(&mut self, flow: EndpointId, x: ExId) {
        self.took(flow, x);
        self.writes_for = Some(x);
    }

    /// A reply was taken from a flow, for a request of `of`, or for nobody's where that is empty.
    pub(super) fn heard(&mut self, flow: EndpointId, of: Option<ExId>, is_known: bool) {
        match of {
            Some(x) => self.took(flow, x),
            None => {
                self.saw(flow);
                self.asked_last = None;
                self.turn.takes();
                self.flags.add_if(GivenFlag::Own, is_known);
                self.flags.add_if(GivenFlag::Unknown, !is_known);
            }
        }
        self.flags.add(GivenFlag::Answered);
    }

    /// A call ended without a reply.
    pub(super) fn ended(&mut self) {
        self.asked_last = None;
        self.flags.add(GivenFlag::Answered);
    }

    /// A connection was accepted. A listener may give several; two listeners count as one, so that something may seem unseen.
    pub(super) fn accepted(&mut self, flow: EndpointId) {
        self.inputs[1] = flow;
        if self.accepted.is_empty() {
            self.taken_from.0 = self.taken_from.0.saturating_add(1);
        }
        if self.turn.since == MonoNs(0) {
            // a task that never polls is done with those before
            self.unread.clear();
        }
        if self.accepted.len() < OWNERS_MAX {
            self.accepted.push(flow);
            self.unread.push(flow);
        } else {
            self.flags.add(GivenFlag::Unknown);
        }
    }

    /// Whether a connection was accepted whose request is still to come.
    pub(super) fn awaits_requests(&self) -> bool {
        !self.unread.is_empty()
    }

    /// A wait in the kernel that is a poll, too, ended (io_uring): what it gave is not known.
    pub(super) fn waited(&mut self, entry: MonoNs) {
        let turn = Turn { due: entry.0, ..Turn::default() };
        *self = Given { turn, flags: Flags::of(&[GivenFlag::Unknown]), ..Given::default() };
    }

    /// Whether its polls found something ready that it was not seen to take up, and may have without a sign: a pipe or an
    /// eventfd by which another thread says that it is done.
    fn has_unseen_input(&self) -> bool {
        self.turn.ready > self.taken_from.0
    }

    /// Whether what came about at a moment may be taken up in it, without a sign: that was not over two turns ago.
    pub(super) fn may_take_up(&self, at: MonoNs) -> bool {
        self.turn.since != MonoNs(0) && at >= self.before
    }

    /// The request that was read last, whatever came since.
    pub(super) fn read_last(&self) -> Option<ExId> {
        self.read_last.map(|(x, _)| x)
    }

    /// The request whose own bytes were its last input, where no timer can have been due since.
    pub(super) fn asked_last(&self, at: MonoNs) -> Option<ExId> {
        self.asked_last.filter(|_| self.turn.no_timer_due(at))
    }

    /// Whether it was given the answer to a call that no request made.
    pub(super) fn is_own(&self) -> bool {
        self.flags.has(GivenFlag::Own)
    }

    /// Whether somebody may go on in it who was given nothing: something was not seen, a timer may be due, or an answer set
    /// free what another waits for.
    pub(super) fn may_be_anothers(&self, at: MonoNs) -> bool {
        let is_all_seen = holds("turn.all_was_seen", !self.flags.has(GivenFlag::Unknown) && !self.has_unseen_input());
        let is_timely = holds("turn.no_timer_due", self.turn.no_timer_due(at));
        !is_all_seen || !is_timely || !holds("turn.no_answer", !self.flags.has(GivenFlag::Answered))
    }

    /// Whether one message was all that it was given.
    pub(super) fn is_single(&self, at: MonoNs) -> bool {
        self.turn.messages == 1 && self.turn.ready == 1 && self.turn.no_timer_due(at)
    }

    /// Whether a request was given nothing in it, and no timer can have been due: it goes on because of what others were given.
    pub(super) fn is_nothing_of(&self, x: ExId, at: MonoNs) -> bool {
        self.turn.since != MonoNs(0) && !self.owners.contains(&x) && self.turn.no_timer_due(at)
    }

    /// The request that was read last before it, where that is another one than `x`, which was read at `taken` and then left to wait for
    /// more than one turn.
    pub(super) fn read_before(&self, x: ExId, taken: MonoNs) -> Option<ExId> {
        self.read_before.filter(|&y| y != x && taken < self.before)
    }

    /// Whether the library vantage handed it just one input.
    pub(super) fn is_isolated(&self) -> bool {
        self.flags.has(GivenFlag::Isolated)
    }

    /// Whether the library vantage hands it inputs: it waits for them, as a loop does.
    pub(super) fn is_given_inputs(&self) -> bool {
        self.inputs[0] != EndpointId(0)
    }
}
