//! Processes that the library vantage gave an input when all of their tasks had come to rest: what any task does until
//! the next is for that input.

use super::Component;
use crate::exchange::{ExId, Slab, is_peer};
use crate::finished::Finished;
use crate::worker::TIMER_GRAIN_NS;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{InputRow, input};

/// The last input of a process that had come to rest.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    /// Its flow, and what was accepted since.
    flows: [EndpointId; 2],
    /// The request that it is of, once that is known.
    of: Option<ExId>,
    /// Something of several requests was taken: nobody knows which is gone on with.
    is_mixed: bool,
    /// A call ended since, or a connection for one: what that set free, another request may have waited for.
    is_answered: bool,
    /// When the first timer of the loop that took it can be due, in ns.
    until: u64,
}

impl Rest {
    /// Whether what is taken from a flow is of the input. A datagram comes from one of its socket's peers; the library puts
    /// off reads of other sockets, or says that the process goes on with something else.
    fn is_given(&self, flow: EndpointId) -> bool {
        self.flows.contains(&flow) || is_peer(flow)
    }
}

impl<F: Finished> Component<'_, F> {
    /// An input was handed over, or a process goes on with something else.
    pub(super) fn given_at_rest(&mut self, xs: &Slab, r: &InputRow) {
        let process = self.roles.process_of(r.task);
        if r.kind == input::ELSE {
            self.rests.remove(&process);
        }
        if r.isolated < 2 {
            return;
        }
        let is_of = |x: &&ExId| self.is_open(xs, **x) && xs.get(**x).flow == r.flow;
        // a connection that is made goes to whoever waits for one, where connections are kept
        let is_kept = self.roles.keeps_connections(process);
        let waits_on = |x: ExId| self.is_open(xs, x) && (!is_kept || self.states[x.place as usize].outstanding == 1);
        let mut is_answered = false;
        let of = match self.owners.get(&r.flow) {
            _ if r.kind != input::WRITE => None,
            Some(&(x, _)) => {
                is_answered = is_kept;
                Some(x).filter(|&x| waits_on(x))
            }
            // a reply is on its way there
            None => {
                self.open.get(&process).and_then(|o| o.iter().filter(is_of).min_by_key(|x| xs.get(**x).number)).copied()
            }
        };
        let until = if self.last_poll.0 == r.task { self.last_poll.1 } else { 0 };
        let rest = Rest { flows: [r.flow, EndpointId(0)], of, is_mixed: false, is_answered, until };
        self.rests.insert(process, rest);
        self.doubtful.entry(process).or_default();
    }

    /// Any of several requests could have made a call.
    pub(super) fn doubted_at_rest(&mut self, xs: &Slab, y: ExId, process: u32) {
        if let Some(mut calls) = self.doubtful.remove(&process) {
            calls.retain(|&c| self.is_asking(xs, c));
            calls.push(y);
            self.doubtful.insert(process, calls);
        }
    }

    /// Whether nothing of the answer to a call has come.
    fn is_asking(&self, xs: &Slab, y: ExId) -> bool {
        self.is_open(xs, y) && !self.states[y.place as usize].replied
    }

    /// How many requests of a process wait at least for answers to calls of which only that is known: where each makes
    /// one call at a time, as many as there are such calls. 0 where that is not so, or where calls may be nobody's.
    fn waiting_unknown(&self, xs: &Slab, process: u32, at: MonoNs) -> usize {
        let roles = self.roles;
        let several = roles.is_parallel_at_rest(process) || roles.fans_out(process);
        if several || roles.calls_of_its_own(process) || at <= roles.unseen_until(process) {
            return 0;
        }
        let is_sure = |y: &&ExId| self.is_asking(xs, **y) && !roles.is_lossy(xs.get(**y).began, at);
        self.doubtful.get(&process).map_or(0, |calls| calls.iter().filter(is_sure).count())
    }

    /// A task took something of a request from `flow`; `None` where nobody knows of which.
    pub(super) fn took_at_rest(&mut self, task: TaskId, flow: EndpointId, x: Option<ExId>) {
        let process = self.roles.process_of(task);
        if let Some(r) = self.rests.get_mut(&process) {
            // what is not of the input came from inside: a request of the process to itself, or its reply
            r.is_mixed |= x.is_none() || r.of != x && (r.of.is_some() || !r.is_given(flow));
            r.of = x;
        }
    }

    /// A call of the process ended, or a connection that was being made for one.
    pub(super) fn answered_at_rest(&mut self, process: u32) {
        if let Some(r) = self.rests.get_mut(&process) {
            r.is_answered = true;
        }
    }

    /// A connection was accepted.
    pub(super) fn accepted_at_rest(&mut self, task: TaskId, flow: EndpointId) {
        if let Some(r) = self.rests.get_mut(&self.roles.process_of(task)) {
            r.flows[1] = flow;
        }
    }

    /// Whether connections go to whichever request wants one first, and any task may go on with it.
    pub(super) fn is_pooling(&self, process: u32) -> bool {
        self.roles.is_migrating(process) && self.roles.keeps_connections(process)
    }

    /// The request for which all is done in a process: that of the input. Behind the end of a call only where no other
    /// could be gone on with, since that may set free what another one waits for inside the program; where requests make
    /// several calls at once, one that has calls under way may wait for that too. Behind an input that was handed over
    /// without rest some calls are nobody's in particular: those who made them wait for their answers all the same.
    pub(super) fn at_rest(&self, xs: &Slab, process: u32, at: MonoNs) -> Option<ExId> {
        let r = self.rests.get(&process)?;
        let x = r.of.filter(|&x| !r.is_mixed && self.is_open(xs, x))?;
        if at.0.saturating_add(TIMER_GRAIN_NS) >= r.until {
            return None;
        }
        if !r.is_answered {
            return Some(x);
        }
        let waits = |y: &ExId| *y != x && !Self::is_over_softly(xs, *y);
        let open = self.open.get(&process)?;
        let others = match self.roles.is_parallel_at_rest(process) {
            true => open.iter().copied().filter(|&y| self.is_open(xs, y)).collect(),
            false => self.in_court(xs, open),
        };
        let waiting = others.iter().filter(|y| waits(y)).count();
        // each of them waits for an answer, though nobody knows which for which
        (waiting == 0 || waiting <= self.waiting_unknown(xs, process, at)).then_some(x)
    }
}
