//! What is learned of tasks and processes, by what it is about.

use crate::canary::holds;
use crate::dense::PerTask;
use crate::exchange::ExId;
use crate::exchange::Side;
use crate::per_end::PerEnd;
use crate::polled::Polled;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};

/// In how many cases an exception could have shown before a habit is believed.
pub(super) const CASES_MIN: u32 = 8;
/// The same of moments at which nothing was to do: what is rare shows in few of them.
pub(super) const GAPS_MIN: u32 = 8;

/// What a process with loops was never seen to do, and how often it could have been. A habit is no proof: what rests on one
/// says so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    /// Turns in which one input led to just one call, and another one would have found a connection.
    pub(super) single: u32,
    /// The same of turns in which a connection was made for the call.
    pub(super) single_dialled: u32,
    /// Several calls at once for one input.
    pub(super) is_parallel: bool,
    /// Several calls at once on one connection: there is always room for another.
    pub(super) shares_connections: bool,
    /// Turns in which a call was made behind an input, and calls that were made before any.
    pub(super) asked: u32,
    pub(super) spontaneous: u32,
    /// Times at which the process had no request open, between two that it had.
    pub(super) gaps: u32,
    /// What comes behind replies.
    pub(super) behind: BehindReplies,
    /// Who is replied to behind the answer to a call.
    pub(super) awaited: Awaited,
    /// What comes behind connections that are accepted.
    pub(super) accepting: Accepting,
    /// What is left for later.
    pub(super) puts_off: PutsOff,
    /// For whom connections are made.
    pub(super) dialling: Dialling,
}

impl Habits {
    /// Whether the process calls only when it is asked: it was given nothing to call for at other times, as far as was seen.
    pub(super) fn is_asked(&self) -> bool {
        self.gaps >= GAPS_MIN || self.spontaneous == 0 && self.asked >= CASES_MIN
    }
}

/// Whether loops leave for later what an input asks for, in turns in which they take several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PutsOff {
    /// Turns in which calls were made, and never two behind the same input.
    pub(super) never: u32,
    /// Calls that were the second behind one: what an earlier input had left for later.
    pub(super) calls: u32,
}

impl PutsOff {
    /// In how many turns something that was put off could have been seen; 0 where it was.
    pub(super) fn cases(&self) -> u32 {
        if holds("prompt.never_put_off", self.calls == 0) { self.never } else { 0 }
    }
}

/// Connections that a process makes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dialling {
    /// How often one was used that it had made beside another.
    pub(super) beside: u32,
    /// It had more of them than requests when one was answered: it makes some for whoever comes.
    pub(super) is_for_whoever: bool,
}

/// Connections that were accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accepting {
    /// How often the next thing that it did was to read of one or another, or it did nothing in its turn: it could have made a
    /// connection.
    pub(super) waits: u32,
    /// It made one right behind, or in a turn in which it read nothing.
    pub(super) is_dialling: bool,
}

impl Accepting {
    /// Whether none is made for an accepted connection, as far as was seen.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_dialling && self.waits >= CASES_MIN
    }
}

/// Answers to calls behind which a loop replied, and took nothing else before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Awaited {
    /// How many were all that it was given, and that it replies to another one than who had asked could have shown.
    pub(super) alone: u32,
    /// It replied to another one then.
    pub(super) is_by_others: bool,
    /// The same where it was given more in its turn.
    pub(super) passed_on: u32,
    pub(super) is_passed_to_others: bool,
    /// It took two answers before it did anything with the first.
    pub(super) is_kept: bool,
}

/// Turns with one input in which a request was answered and a call behind that could have been seen; and calls behind such a
/// reply that nobody else can have made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BehindReplies {
    /// It would have found a connection.
    pub(super) replied: u32,
    pub(super) after: u32,
    /// Calls behind such a reply while requests were open: one of these may have been handed to the task meanwhile, where
    /// requests move between tasks.
    pub(super) after_beside_open: u32,
    /// It would have made a connection, or waited for one: what a process that uses none again would not wait for.
    pub(super) replied_dialled: u32,
    pub(super) after_dialled: u32,
}

impl BehindReplies {
    /// A call was made in a turn with one input, in which this was replied; `is_any_open`: a request is open.
    pub(super) fn called(&mut self, replied: Replied, is_any_open: bool) {
        match (replied, is_any_open) {
            (Replied::No, _) | (Replied::Bound, true) => {}
            (Replied::Freely, true) => self.after_beside_open += 1,
            (Replied::WithoutSpare, true) => self.after_dialled += 1,
            (Replied::WithoutSpare, false) => {
                (self.after, self.after_dialled) = (self.after + 1, self.after_dialled + 1)
            }
            (_, false) => self.after += 1,
        }
    }

    /// In how many turns a call behind a reply could have been seen, and in how many one was. `dials`: of those with a new
    /// connection too. `is_migrating`: requests move between tasks, so that a call beside an open request says nothing, and
    /// then neither does one that was not made.
    pub(super) fn seen(&self, dials: bool, is_migrating: bool) -> (u32, u32) {
        if is_migrating && (self.after_beside_open > 0 || dials && self.after_dialled > self.after) {
            return (0, self.after);
        }
        let (replied, after) = (self.replied, self.after + self.after_beside_open);
        if dials { (replied + self.replied_dialled, after + self.after_dialled) } else { (replied, after) }
    }
}

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

impl Round {
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
    /// Calls that nothing was answered to yet, by their places, with their process and the request that made them where that
    /// was all that was given; and how many each process has.
    pub(super) unanswered: Vec<Option<(u32, Option<ExId>)>>,
    pub(super) asking: FxHashMap<u32, u32>,
    /// When a process last had more of them than requests open.
    pub(super) fanned_out: FxHashMap<u32, MonoNs>,
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
    /// Those for which nothing was sent yet, with who made them.
    pub(super) connecting: FxHashMap<EndpointId, TaskId>,
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
    /// How often one was used for the same again though another one was idle, and had not been used last.
    pub(super) cases: u32,
    /// One was used for another.
    pub(super) is_broken: bool,
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
    pub(super) habits: FxHashMap<u32, Habits>,
    /// Of such processes.
    pub(super) pairs: FxHashMap<u32, Pairs>,
    /// How many replies each loop began, and how many of them where it was given only what nobody saw.
    pub(super) replies: PerTask<(u32, u32)>,
}

/// Tasks that reply to requests which others took.
#[derive(Default)]
pub(super) struct Workers {
    /// The first call that each task made since it last replied.
    pub(super) first_calls: FxHashMap<TaskId, MonoNs>,
    /// Processes of which a task replied to a request that another took, behind a call that it had made before that was taken.
    pub(super) busy_until_taken: FxHashMap<u32, u32>,
    /// How often a task replied to one behind calls that it had all made since that was taken.
    pub(super) replies_behind_calls: FxHashMap<u32, u32>,
}
