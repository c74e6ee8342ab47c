//! What is learned of tasks and processes, by what it is about.

use super::habits::{HabitId, Habits};
use crate::dense::PerTask;
use crate::exchange::ExId;
use crate::exchange::Side;
use crate::per_end::PerEnd;
use crate::polled::Polled;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};

/// Whether a loop has answered a request and was given nothing since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Replied {
    #[default]
    No,
    /// It did; a timer may have been due.
    Bound,
    /// It did; a call behind that may have found no connection.
    WithoutSpare,
    /// A call behind that would have found a connection.
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
    /// It made a call right behind each of two inputs of a turn.
    pub(super) is_seen: bool,
    /// It has accepted a connection and taken nothing since: one that it makes now may be for that.
    pub(super) has_accepted: bool,
    /// How often it took something then.
    pub(super) reads_behind: u32,
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

/// What an event loop did since it last waited for something to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) polled: Polled,
    /// How many flows it sent requests on, or connected for one.
    pub(super) calls: u32,
    /// The last of them, and when that was sent.
    pub(super) last: (EndpointId, MonoNs),
    pub(super) taken: Taken,
    pub(super) promptness: Promptness,
    /// Another call would have found a connection.
    pub(super) has_spare: bool,
    /// No timer was due when a call was made.
    pub(super) has_called_timely: bool,
    /// A connection was made, and one was accepted.
    pub(super) has_dialled: bool,
    pub(super) has_accepted: bool,
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

impl Round {
    /// What a turn that is over shows of habits.
    pub(super) fn tell(&self, habits: &mut Habits) {
        let is_single = (self.polled.ready, self.calls) == (1, 1) && self.has_called_timely;
        habits.case_if(HabitId::OneCall, is_single && self.has_spare);
        habits.case_if(HabitId::OneCallDialled, is_single && self.has_dialled);
        habits.case_if(HabitId::Asked, self.calls > 0 && self.polled.messages > 0);
        let is_alone = self.polled.ready == 1;
        habits.case_if(HabitId::OverWithReply, is_alone && self.replied == Replied::Freely);
        habits.case_if(HabitId::OverWithReplyDialled, is_alone && self.replied == Replied::WithoutSpare);
        let only_accepts = self.has_accepted && self.polled.messages == 0;
        habits.cases(HabitId::DialsWhenAsked, self.promptness.reads_behind);
        habits.case_if(HabitId::DialsWhenAsked, only_accepts && self.calls == 0);
        habits.exception_if(HabitId::DialsWhenAsked, only_accepts && self.has_dialled);
        habits.case_if(HabitId::Prompt, self.promptness.is_seen);
    }

    /// Whether one thing is all that it was given, and no timer can be due.
    pub(super) fn is_given_one(&self, at: MonoNs) -> bool {
        (self.polled.ready, self.polled.messages) == (1, 1) && self.polled.no_timer_due(at)
    }

    /// Whether something was ready, none of it was a request or a reply, and no timer can be due: a word of another thread.
    pub(super) fn is_given_unseen(&self, at: MonoNs) -> bool {
        self.polled.ready > 0 && self.polled.messages == 0 && self.polled.no_timer_due(at)
    }

    /// Whether the last that it took was an answer, and it did nothing with that yet: no reply, and no call.
    pub(super) fn keeps_an_answer(&self) -> bool {
        self.taken.answers.0 != 0 && self.promptness.since_call > 0
    }

    /// A request or reply was taken: what follows may be for it.
    pub(super) fn takes(&mut self) {
        self.polled.takes();
        self.promptness.since_call += 1;
        self.promptness.reads_behind += u32::from(std::mem::take(&mut self.promptness.has_accepted));
        self.replied = Replied::No;
    }
}

/// The task by whose number a thread group goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leader {
    pub(super) task: TaskId,
    /// Another thread, where the recording met one before the leader itself.
    pub(super) stands_in: bool,
}

/// Which process each task is of.
#[derive(Default)]
pub(super) struct Processes {
    /// The leading task of each task's process, 0 where not known.
    pub(super) process: PerTask<u32>,
    pub(super) leaders: FxHashMap<u32, Leader>,
    /// Names of processes.
    pub(super) names: PerTask<StrId>,
    /// The words that each was started with.
    pub(super) words: PerTask<StrId>,
    /// The process that forked each, 0 where not known.
    pub(super) parents: PerTask<u32>,
    /// Tasks whose names the recorder had to find first.
    pub(super) is_named_late: PerTask<bool>,
    /// Contexts of an event loop: it goes on with others at its own word.
    pub(super) is_context: PerTask<bool>,
    /// Tasks whose operations io_uring carries.
    pub(super) is_ring: PerTask<bool>,
    /// Since when processes have such: who acted before is not known.
    pub(super) named_since: FxHashMap<u32, MonoNs>,
}

impl Processes {
    /// The processes of one crew go by this, the others by nothing: they were forked from a process of their name, and run with the same
    /// words, as a server's workers do.
    pub(super) fn crew_of(&self, process: u32) -> Option<(u32, StrId)> {
        let name = |process: u32| self.names.get(TaskId(process));
        let parent = self.parents.get(TaskId(process));
        let is_worker = parent != 0 && name(process) != StrId::EMPTY && name(parent) == name(process);
        is_worker.then(|| (parent, self.words.get(TaskId(process))))
    }
}

/// Processes that take requests.
#[derive(Default)]
pub(super) struct Serving {
    pub(super) processes: FxHashSet<u32>,
    pub(super) names: FxHashSet<StrId>,
    /// Those whose requests move between tasks.
    pub(super) migrating: FxHashSet<u32>,
    /// The same among tasks that were named late: what their threads did before says nothing of them.
    pub(super) migrating_named: FxHashSet<u32>,
    /// How many requests each process replied to, and the longest time in which it did (ns).
    pub(super) lasted: FxHashMap<u32, (u32, u64)>,
    /// Ends of connections where turns alone pair messages, and a server said something unasked: of which process, and which side.
    pub(super) pushing: FxHashSet<(u32, Side)>,
}

/// Requests that are open.
#[derive(Default)]
pub(super) struct OpenRequests {
    pub(super) held: FxHashMap<TaskId, Vec<ExId>>,
    /// How many each process has that ever took one.
    pub(super) open: FxHashMap<u32, u32>,
    /// The one that each process took last.
    pub(super) newest: FxHashMap<u32, ExId>,
    /// Processes that had several at once.
    pub(super) concurrent: FxHashSet<u32>,
}

/// When something was not seen.
#[derive(Default)]
pub(super) struct Unseen {
    /// Per process: until when replies to requests from before the recording left.
    pub(super) until: FxHashMap<u32, MonoNs>,
    pub(super) losses: Vec<(u64, u64)>,
}

/// Calls against requests that could have made them.
#[derive(Default)]
pub(super) struct CallCounts {
    /// When a task of a process that had no request open, and takes none, last made a call.
    pub(super) unasked: FxHashMap<u32, MonoNs>,
    /// The same of processes whose requests move between tasks, whatever else the task does.
    pub(super) unasked_by_any: FxHashMap<u32, MonoNs>,
    /// Calls that nothing was answered to yet, by their places; and how many each process has.
    pub(super) unanswered: Vec<Option<Unanswered>>,
    pub(super) asking: FxHashMap<u32, u32>,
    /// When a process last had more of them than requests open.
    pub(super) fanned_out: FxHashMap<u32, MonoNs>,
}

/// A call that nothing was answered to yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    pub(super) process: u32,
    /// The request that made it, where that was all that its loop was given.
    pub(super) of: Option<ExId>,
    /// The request for which its connection was made, where that is known and another one could have been given it.
    pub(super) dialled_for: Option<ExId>,
}

/// A connection for which nothing was sent yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dial {
    /// Who made it.
    pub(super) by: TaskId,
    /// The request for which it was made, where that was all that its loop was given.
    pub(super) of: Option<ExId>,
}

/// What is asked on a connection.
#[derive(Default)]
pub(super) struct Asked {
    /// How many calls on it are not over.
    pub(super) under_way: u32,
    /// Whose it is.
    pub(super) process: u32,
    /// Something was asked before.
    pub(super) is_used: bool,
}

/// Connections on which calls are made.
#[derive(Default)]
pub(super) struct Connections {
    pub(super) asked_on: PerEnd<Asked>,
    /// How many of them each process has on which nothing is asked now.
    pub(super) spare: FxHashMap<u32, u32>,
    /// Processes that made several calls on one.
    pub(super) keeping: FxHashSet<u32>,
    /// Those that made several at once on one: there is always room for another.
    pub(super) sharing: FxHashSet<u32>,
    /// Those for which nothing was sent yet.
    pub(super) connecting: FxHashMap<EndpointId, Dial>,
    /// How many of them each process has.
    pub(super) dialling: FxHashMap<u32, u32>,
}

/// Connections of a process that each serve the requests of one other connection.
#[derive(Default)]
pub(super) struct Pairs {
    /// By a connection on which calls are made: that of the requests.
    pub(super) partners: FxHashMap<EndpointId, EndpointId>,
    /// The connection that was used last.
    pub(super) last: EndpointId,
}

/// Event loops.
#[derive(Default)]
pub(super) struct Loops {
    pub(super) rounds: PerTask<Round>,
    /// The library vantage handed over inputs.
    pub(super) are_given_inputs: bool,
    /// Of each process that was given an input at rest: how many requests it took since, how many flows it sent requests
    /// on, and the last of them.
    pub(super) rests: FxHashMap<u32, (u32, u32, EndpointId)>,
    /// Processes that made several of them for one such input.
    pub(super) parallel_at_rest: FxHashSet<u32>,
    /// Of processes with loops.
    pub(super) pairs: FxHashMap<u32, Pairs>,
    /// How many replies each loop began, and how many of them where it was given only what nobody saw.
    pub(super) replies: PerTask<(u32, u32)>,
}

/// Tasks that reply to requests which others took.
#[derive(Default)]
pub(super) struct Workers {
    /// The first call that each task made since it last replied.
    pub(super) first_calls: FxHashMap<TaskId, MonoNs>,
}
