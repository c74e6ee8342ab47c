//! Event loops: whose input a task took since it last waited for something to do, and who else could have gone on since.

use super::Component;
use crate::evidence::Rule;
use crate::exchange::{ExId, Slab};
use crate::finished::Finished;
use crate::worker::TIMER_GRAIN_NS;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{InputRow, PollRow};

/// Most requests kept of one turn; beyond that nothing is claimed of it.
const OWNERS_MAX: usize = 64;

/// What a loop was given since its last poll that waited. A poll that asks for no waiting continues the turn: something
/// was put off, and is done before or after what that poll gave.
#[derive(Default)]
pub(crate) struct Turn {
    /// When the first timer of the loop can be due (ns); 0 before its first poll.
    due: u64,
    /// How many descriptors its polls found ready.
    ready: i32,
    /// From how many flows something was taken, and the last of them.
    taken_from: (i32, EndpointId),
    /// Requests whose input was taken: their own bytes, or the reply to a call of theirs. Some may be answered by now.
    owners: Vec<ExId>,
    /// The request whose connection can be written to: that is what it waited for.
    writes_for: Option<ExId>,
    /// How many requests and replies were taken.
    messages: u32,
    /// A reply was taken, or a call ended without one. What that set free (a place in a pool), another may have waited for.
    is_answered: bool,
    /// A reply was taken to a call that nobody's request made.
    is_own: bool,
    /// Something was taken of which nobody knows whose it is.
    is_unknown: bool,
    /// The library vantage handed it over: nothing else was.
    is_isolated: bool,
    /// The flow of that input, and what was accepted since.
    inputs: [EndpointId; 2],
    /// Connections that were accepted.
    accepted: Vec<EndpointId>,
}

impl Turn {
    /// A poll returned.
    pub(crate) fn polled(&mut self, r: &PollRow) {
        if r.timeout_ns != 0 {
            let due = r.entry.0.saturating_add(r.timeout_ns);
            *self = Turn { due, owners: std::mem::take(&mut self.owners), ..Turn::default() };
            self.owners.clear();
        }
        if r.ready > 0 {
            // what comes with such a poll may come before or after what was put off
            self.is_isolated = false;
        }
        self.ready = self.ready.saturating_add(r.ready.max(0));
    }

    /// The library vantage handed over an input, behind the row of the poll that returned it.
    pub(crate) fn given(&mut self, r: &InputRow) {
        self.inputs = [r.flow, EndpointId(0)];
        // who asks not to wait has something else to do
        self.is_isolated = r.isolated != 0 && self.ready <= 1 && self.messages == 0;
    }

    /// One of what its polls found ready was this flow.
    pub(crate) fn saw(&mut self, flow: EndpointId) {
        // what is read of a new connection at once was not among what the poll found ready: the listener was
        if self.taken_from.1 != flow && !self.accepted.contains(&flow) {
            self.taken_from = (self.taken_from.0.saturating_add(1), flow);
        }
    }

    /// An input of a request was taken from a flow.
    pub(crate) fn took(&mut self, flow: EndpointId, x: ExId) {
        self.saw(flow);
        self.messages = self.messages.saturating_add(1);
        if !self.owners.contains(&x) {
            if self.owners.len() < OWNERS_MAX {
                self.owners.push(x);
            } else {
                self.is_unknown = true;
            }
        }
    }

    /// A flow can be written to that was connected for a request, or on which it is answered.
    pub(crate) fn may_write(&mut self, flow: EndpointId, x: ExId) {
        self.took(flow, x);
        self.writes_for = Some(x);
    }

    /// A reply was taken from a flow, for a request of `of`, or for nobody's where that is empty.
    pub(crate) fn heard(&mut self, flow: EndpointId, of: Option<ExId>, is_known: bool) {
        match of {
            Some(x) => self.took(flow, x),
            None => {
                self.saw(flow);
                self.messages = self.messages.saturating_add(1);
                self.is_own |= is_known;
                self.is_unknown |= !is_known;
            }
        }
        self.is_answered = true;
    }

    /// A call ended without a reply.
    pub(crate) fn ended(&mut self) {
        self.is_answered = true;
    }

    /// A connection was accepted. A listener may give several; two listeners count as one, so that something may seem unseen.
    pub(crate) fn accepted(&mut self, flow: EndpointId) {
        self.inputs[1] = flow;
        if self.accepted.is_empty() {
            self.taken_from.0 = self.taken_from.0.saturating_add(1);
        }
        if self.accepted.len() < OWNERS_MAX {
            self.accepted.push(flow);
        } else {
            self.is_unknown = true;
        }
    }

    /// A wait in the kernel that is a poll, too, ended (io_uring): what it gave is not known.
    pub(crate) fn waited(&mut self, entry: MonoNs) {
        *self = Turn { due: entry.0, is_unknown: true, ..Turn::default() };
    }

    /// Whether no timer of the loop can have been due: it asked its poll to return by then.
    pub(crate) fn no_timer_due(&self, at: MonoNs) -> bool {
        at.0.saturating_add(TIMER_GRAIN_NS) < self.due
    }

    /// Whether its polls found something ready that it was not seen to take up, and may have without a sign: a pipe or an
    /// eventfd by which another thread says that it is done.
    pub(crate) fn has_unseen_input(&self) -> bool {
        self.ready > self.taken_from.0
    }

    /// Whether one message was all that it was given.
    pub(crate) fn is_single(&self, at: MonoNs) -> bool {
        self.messages == 1 && self.ready == 1 && self.no_timer_due(at)
    }

    /// Whether the library vantage handed it just one input.
    pub(crate) fn is_isolated(&self) -> bool {
        self.is_isolated
    }

    /// Whether the library vantage hands it inputs: it waits for them, as a loop does.
    pub(crate) fn is_given_inputs(&self) -> bool {
        self.inputs[0] != EndpointId(0)
    }
}

/// Who can have made a call.
pub(super) enum Made {
    /// One request, and nobody else.
    By(ExId, Rule),
    /// No request that is open: the program itself, or a request that was answered already.
    Unasked,
    /// Any of these.
    OneOf(Vec<ExId>),
}

impl<F: Finished> Component<'_, F> {
    /// Who made a call in a turn of a loop. What needs the habits of its process says so.
    pub(super) fn in_turn(&self, xs: &Slab, task: TaskId, at: MonoNs) -> Made {
        match self.made_in_turn(xs, task, at, true) {
            Made::By(x, rule) if matches!(self.made_in_turn(xs, task, at, false), Made::By(..)) => Made::By(x, rule),
            Made::By(x, _) => Made::By(x, Rule::Habit),
            other => other,
        }
    }

    /// Inputs tell who had reason to go on; whoever else could have, by what was not seen or not theirs, stands beside them.
    /// `by_habit`: as far as the process was ever seen to do such a thing.
    fn made_in_turn(&self, xs: &Slab, task: TaskId, at: MonoNs, by_habit: bool) -> Made {
        let process = self.roles.process_of(task);
        let Some(w) = self.tasks.get(&task) else { return Made::OneOf(Vec::new()) };
        let t = &w.turn;
        // one that replies for others may go on with what any of them took
        let held = match self.open.get(&process) {
            Some(open) if self.roles.role(task).replies_foreign => open,
            _ => &w.held,
        };
        let all = self.all_open(xs, held);
        // where a request does one thing at a time, one that waits for an answer does nothing else
        let is_single = by_habit && !self.roles.is_parallel(process);
        let ready = if !is_single { all.clone() } else { self.in_court(xs, held) };
        let goes_on_answered = !by_habit || self.roles.may_go_on_answered(process);
        let is_unseen = t.is_unknown || t.has_unseen_input() || !t.no_timer_due(at);
        let may_others = is_unseen || t.is_answered;
        let may_go_on = |x: &ExId| match self.is_open(xs, *x) {
            true => ready.contains(x) || !held.contains(x) || t.writes_for == Some(*x),
            false => goes_on_answered && xs.is_live(*x),
        };
        let mut set: Vec<ExId> = t.owners.iter().copied().filter(may_go_on).collect();
        if may_others {
            set.extend(ready.iter().copied().filter(|x| !t.owners.contains(x)));
        }
        let is_before = may_others && at <= self.roles.unseen_until(process);
        let may_own = t.is_own || may_others && (!by_habit || self.roles.may_call_unasked(process));
        let is_open = |x: &ExId| self.is_open(xs, *x);
        match set[..] {
            [x] if !may_own && !is_before && is_open(&x) => {
                let rule = match () {
                    () if t.is_isolated && t.owners.contains(&x) => Rule::Isolation,
                    () if t.owners.contains(&x) => Rule::Fragment,
                    () => Rule::Sole,
                };
                Made::By(x, rule)
            }
            _ if is_before => Made::OneOf(all),
            _ if set.iter().any(is_open) => Made::OneOf(set.into_iter().filter(is_open).collect()),
            // an answered request that was given something, or the program itself
            _ if may_own || !set.is_empty() => Made::Unasked,
            // nobody is known to have had a reason
            _ => Made::OneOf(all),
        }
    }
}
