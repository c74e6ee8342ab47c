//! What tasks do in the first pass, as far as it shows habits.

use super::habits::{HabitId, Habits};
use crate::exchange::ExId;
use crate::flags::{Flags, flags};
use crate::process::ProcessId;
use crate::process::dials::Dials;
use crate::process::turn::Turn;
use wakepath_flows::per_end::PerEnd;
use wakepath_model::ids::{EndpointId, MonoNs};

/// Whether a loop has answered a request and was given nothing since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Replied {
    #[default]
    No,
    /// It did; a timer may have been due.
    Bound,
    /// It did; a call after that may have found no connection.
    WithoutSpare,
    /// A call after that would have found a connection.
    Freely,
}

/// The epoll descriptors of a loop, each plus 1; 0: none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Epoll {
    /// By which it was last given something.
    pub(super) given_by: i32,
    /// By which it was given a request.
    pub(super) asked_by: i32,
}

/// Whether a loop does at once what its inputs ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promptness {
    /// How many requests and replies were taken since it last made a call.
    pub(super) since_call: u32,
    /// It made a call right after each of two inputs of a turn.
    pub(super) is_seen: bool,
    /// It has accepted a connection and taken nothing since: one that it makes now may be for that.
    pub(super) has_accepted: bool,
    /// How often it took something then.
    pub(super) reads_after_accept: u32,
}

/// What a loop took in its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// The flow of the last reply that was taken, and of the last request.
    pub(super) heard: EndpointId,
    pub(super) asked: EndpointId,
    /// The call whose answer was taken last.
    pub(super) call: Option<ExId>,
    /// The request whose input was taken last, its own bytes or an answer, where that is known.
    pub(super) of: Option<ExId>,
    /// When the call began whose answer that was, where nothing was replied since; else 0.
    pub(super) answers: MonoNs,
    /// The request for which that call's connection was made, where another one could have been given it.
    pub(super) dialled_for: Option<ExId>,
}

flags! {
    /// What is so of a turn.
    pub(super) enum TurnFlag {
        /// Another call would have found a connection.
        Spare,
        /// No timer was due when a call was made.
        CalledTimely,
        /// A connection was made.
        Dialled,
        /// A connection was accepted.
        Accepted,
    }
}

/// What a loop did before its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// When the last turn began.
    pub(super) since: MonoNs,
    /// The flow of the request that was read last.
    pub(super) asked: EndpointId,
}

/// What an event loop did since it last waited for something to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    pub(super) flags: Flags<TurnFlag>,
    pub(super) turn: Turn,
    pub(super) before: Before,
    /// How many flows it sent requests on, or connected for one.
    pub(super) calls: u32,
    /// The last of them, and when that was sent.
    pub(super) last: (EndpointId, MonoNs),
    pub(super) taken: Taken,
    pub(super) promptness: Promptness,
    pub(super) replied: Replied,
    pub(super) epoll: Epoll,
}

impl Replied {
    /// A call was made in a turn with one input, in which this was replied; `is_any_open`: a request is open.
    pub(super) fn called(self, is_any_open: bool, habits: &mut Habits) {
        let dialled = HabitId::OverWithReplyDialled;
        match (self, is_any_open) {
            (Replied::No, _) | (Replied::Bound, true) => {}
            (Replied::Freely, true) => habits.exception_if(HabitId::OverWithReplyBesideOthers, true),
            (Replied::WithoutSpare, true) => habits.exception_if(dialled, true),
            (_, false) => {
                habits.exception_if(HabitId::OverWithReply, true);
                habits.exception_if(dialled, self == Replied::WithoutSpare);
            }
        }
    }
}

impl Activity {
    /// What a turn that is over shows of habits.
    pub(super) fn tell(&self, habits: &mut Habits) {
        let is_single = (self.turn.ready, self.calls) == (1, 1) && self.flags.has(TurnFlag::CalledTimely);
        habits.case_if(HabitId::OneCall, is_single && self.flags.has(TurnFlag::Spare));
        habits.case_if(HabitId::OneCallDialled, is_single && self.flags.has(TurnFlag::Dialled));
        habits.case_if(HabitId::Asked, self.calls > 0 && self.turn.messages > 0);
        let is_alone = self.turn.ready == 1;
        habits.case_if(HabitId::OverWithReply, is_alone && self.replied == Replied::Freely);
        habits.case_if(HabitId::OverWithReplyDialled, is_alone && self.replied == Replied::WithoutSpare);
        let only_accepts = self.flags.has(TurnFlag::Accepted) && self.turn.messages == 0;
        habits.cases(HabitId::DialsWhenAsked, self.promptness.reads_after_accept);
        habits.case_if(HabitId::DialsWhenAsked, only_accepts && self.calls == 0);
        habits.exception_if(HabitId::DialsWhenAsked, only_accepts && self.flags.has(TurnFlag::Dialled));
        habits.case_if(HabitId::Prompt, self.promptness.is_seen);
    }

    /// Whether it called, and what it was given was no message, no connection and no time.
    pub(super) fn calls_unseen(&self) -> bool {
        let is_given = self.turn.ready > 0 && self.turn.messages == 0;
        is_given && self.calls > 0 && !self.flags.has(TurnFlag::Accepted) && !self.flags.has(TurnFlag::Dialled)
    }

    /// A turn is over; `next` begins.
    pub(super) fn turns(&mut self, next: Turn) {
        let asked = if self.taken.asked == EndpointId(0) { self.before.asked } else { self.taken.asked };
        let before = Before { since: self.turn.since, asked };
        let epoll = Epoll { given_by: 0, asked_by: self.epoll.asked_by };
        *self = Activity { epoll, before, turn: next, ..Activity::default() };
    }

    /// Whether a request that was read at `taken` was left to wait for more than a turn, and another flow's was read after it. Nothing was
    /// read in this turn, and no timer can be due.
    pub(super) fn was_asked_since(&self, flow: EndpointId, taken: MonoNs, at: MonoNs) -> bool {
        let Before { since, asked } = self.before;
        let is_left = taken < since && self.turn.messages == 0 && self.turn.no_timer_due(at);
        is_left && asked != EndpointId(0) && asked != flow
    }

    /// Whether one thing is all that it was given, and no timer can be due.
    pub(super) fn is_given_one(&self, at: MonoNs) -> bool {
        (self.turn.ready, self.turn.messages) == (1, 1) && self.turn.no_timer_due(at)
    }

    /// Whether something was ready, none of it was a request or a reply, and no timer can be due: a word of another thread.
    pub(super) fn is_given_unseen(&self, at: MonoNs) -> bool {
        self.turn.ready > 0 && self.turn.messages == 0 && self.turn.no_timer_due(at)
    }

    /// Whether the last that it took was an answer, and it did nothing with that yet: no reply, and no call.
    pub(super) fn keeps_an_answer(&self) -> bool {
        self.taken.answers.0 != 0 && self.promptness.since_call > 0
    }

    /// A request or reply was taken: what follows may be for it.
    pub(super) fn takes(&mut self) {
        self.turn.takes();
        self.promptness.since_call += 1;
        self.promptness.reads_after_accept += u32::from(std::mem::take(&mut self.promptness.has_accepted));
        self.replied = Replied::No;
    }
}

/// A call that nothing was answered to yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    pub(super) process: ProcessId,
    /// The request that made it, where that was all that its loop was given.
    pub(super) of: Option<ExId>,
    /// The request for which its connection was made, where that is known and another one could have been given it.
    pub(super) dialled_for: Option<ExId>,
}

/// What is asked on a connection.
#[derive(Default)]
pub(super) struct Asked {
    /// How many calls on it are not over.
    pub(super) under_way: u32,
    /// Whose it is.
    pub(super) process: ProcessId,
    /// Something was asked before.
    pub(super) is_used: bool,
}

/// What a task is doing.
#[derive(Default)]
pub(super) struct Doing {
    pub(super) activity: Activity,
    /// Requests that it has.
    pub(super) held: Vec<ExId>,
    /// The first call that it made since it last replied.
    pub(super) first_call: Option<MonoNs>,
    /// How many replies it began, and how many of them where it was given only what nobody saw.
    pub(super) replies: (u32, u32),
}

/// Calls and connections that are under way.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Calls that nothing was answered to yet, by their places.
    pub(super) calls: Vec<Option<Unanswered>>,
    /// What is asked on each connection.
    pub(super) asked_on: PerEnd<Asked>,
    pub(super) dials: Dials,
}
