//! A process that the preload library gave an input when all of its tasks had come to rest: what any task does until the
//! next is for that input (BorderPatrol, section 2: immediacy and independence).
//!
//! Condition: nothing of another request was taken since, no timer can be due, and after the answer to a call nobody else
//! waits for what that set free.
//!
//! Counterexamples: `link.isolation/rest_mixed`, `rest_else`, `rest_pool`, `timer`.

use crate::attribution::domain::{Rest, RestFlag};
use crate::attribution::exclusion::{ExclusionRule, Kept, Question};
use crate::attribution::facts::Facts;
use crate::attribution::state::CallFlag;
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::exchange::{ExId, Slab};
use crate::flags::Flags;
use crate::lineage::is_over;
use crate::process::ProcessId;
use crate::process::known::ProcessFlag;
use crate::process::turn::ROUNDED_NS;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{InputKind, InputRow};

pub(super) const RULE: ExclusionRule = ExclusionRule {
    says: "the whole process was at rest when it was handed this request's input, and was given nothing else since",
    names: Some(|_, _| Rule::Isolation),
    seen_at: |q, _| q.facts.rested_at(q.process),
    ..ExclusionRule::shown(0, "rest", |q: &Question| q.facts.at_rest(q.xs, q.process, q.at).map(Kept::one))
};

impl Facts<'_> {
    /// An input was handed over, or a process goes on with something else.
    pub(in crate::attribution) fn given_at_rest(&mut self, xs: &Slab, r: &InputRow) {
        let process = self.roles.process_of(r.task);
        if r.kind == InputKind::Else {
            self.domain_mut(process).rest = None;
        }
        if r.isolated < 2 {
            return;
        }
        let is_of = |x: &&ExId| self.state(**x).process == process;
        // a connection that is made goes to whoever waits for one, where connections are kept
        let is_kept = self.roles.keeps_connections(process);
        let waits_on = |x: ExId| self.is_open(xs, x) && (!is_kept || self.state(x).request.outstanding == 1);
        let mut is_answered = false;
        let of = match self.dials.get(r.flow).and_then(|d| d.of) {
            _ if r.kind != InputKind::Write => None,
            Some(x) => {
                is_answered = is_kept;
                Some(x).filter(|&x| waits_on(x))
            }
            // a reply is on its way there
            None => self.on_flow(r.flow).iter().filter(is_of).min_by_key(|x| xs.get(**x).number).copied(),
        };
        let until = if self.last_poll.0 == r.task { self.last_poll.1 } else { 0 };
        let mut flags = Flags::default();
        flags.set(RestFlag::Answered, is_answered);
        let rest = Rest { flows: [r.flow, EndpointId(0)], of, flags, until, at: r.at };
        let domain = self.domain_mut(process);
        domain.rest = Some(rest);
        domain.doubtful.get_or_insert_default();
    }

    /// When the process was handed its last input.
    fn rested_at(&self, process: ProcessId) -> MonoNs {
        self.domain(process).and_then(|d| d.rest).map_or(MonoNs(0), |r| r.at)
    }

    /// Any of several requests could have made a call.
    pub(in crate::attribution) fn doubted_at_rest(&mut self, xs: &Slab, y: ExId, process: ProcessId) {
        if let Some(mut calls) = self.domains.get_mut(process.leader()).and_then(|d| d.doubtful.take()) {
            if calls.len() == calls.capacity() {
                calls.retain(|&c| self.is_asking(xs, c));
                calls.reserve(calls.len() + 1);
            }
            calls.push(y);
            self.domain_mut(process).doubtful = Some(calls);
        }
    }

    /// Whether nothing of the answer to a call has come.
    fn is_asking(&self, xs: &Slab, y: ExId) -> bool {
        self.is_open(xs, y) && !self.state(y).call.flags.has(CallFlag::Replied)
    }

    /// How many requests of a process wait at least for answers to calls of which only that is known: where each makes
    /// one call at a time, as many as there are such calls. 0 where that is not so, or where calls may be of no request.
    fn waiting_unknown(&self, xs: &Slab, process: ProcessId, at: MonoNs) -> usize {
        let roles = self.roles;
        let several = roles.is_so(process, ProcessFlag::ParallelAtRest) || roles.fans_out(process);
        if several || roles.calls_of_its_own(process) || at <= roles.unseen_until(process) {
            return 0;
        }
        let is_sure = |y: &&ExId| self.is_asking(xs, **y) && !roles.is_lossy(xs.get(**y).request.began, at);
        let doubtful = self.domain(process).and_then(|d| d.doubtful.as_ref());
        doubtful.map_or(0, |calls| calls.iter().filter(is_sure).count())
    }

    fn rest_mut(&mut self, process: ProcessId) -> Option<&mut Rest> {
        self.domains.get_mut(process.leader()).and_then(|d| d.rest.as_mut())
    }

    /// A task took something of a request from `flow`; `None` where it is not known of which.
    pub(in crate::attribution) fn took_at_rest(&mut self, task: TaskId, flow: EndpointId, x: Option<ExId>) {
        let process = self.roles.process_of(task);
        if let Some(r) = self.rest_mut(process) {
            // what is not of the input came from inside: a request of the process to itself, or its reply
            r.flags.add_if(RestFlag::Mixed, x.is_none() || r.of != x && (r.of.is_some() || !r.is_given(flow)));
            r.of = x;
        }
    }

    /// A call of the process ended, or a connection that was being made for one.
    pub(in crate::attribution) fn answered_at_rest(&mut self, process: ProcessId) {
        if let Some(r) = self.rest_mut(process) {
            r.flags.add(RestFlag::Answered);
        }
    }

    /// A connection was accepted.
    pub(in crate::attribution) fn accepted_at_rest(&mut self, task: TaskId, flow: EndpointId) {
        if let Some(r) = self.rest_mut(self.roles.process_of(task)) {
            r.flows[1] = flow;
        }
    }

    /// Whether connections go to whichever request wants one first, and any task may go on with it.
    pub(in crate::attribution) fn is_pooling(&self, process: ProcessId) -> bool {
        self.roles.is_migrating(process) && self.roles.keeps_connections(process)
    }

    /// The request for which all is done in a process: that of the input. After the end of a call only where no other
    /// could be gone on with, since that may set free what another one waits for inside the program; where requests make
    /// several calls at once, one that has calls under way may wait for that too. After an input that was handed over
    /// without rest some calls are of no request in particular: those who made them wait for their answers all the same.
    pub(in crate::attribution) fn at_rest(&self, xs: &Slab, process: ProcessId, at: MonoNs) -> Option<ExId> {
        let r = self.domain(process)?.rest.as_ref()?;
        let x =
            r.of.filter(|&x| holds("rest.nothing_of_others", !r.flags.has(RestFlag::Mixed)) && self.is_open(xs, x))?;
        if !holds("rest.no_timer_due", at.0.saturating_add(ROUNDED_NS) < r.until) {
            return None;
        }
        if !r.flags.has(RestFlag::Answered) {
            return Some(x);
        }
        // one that sends its reply in parts goes on between them
        let is_other = |y: &ExId| *y != x && !is_over(xs.get(*y));
        // each of them waits for an answer, though it is not known which for which
        let most = self.waiting_unknown(xs, process, at);
        let is_alone = match self.roles.is_so(process, ProcessFlag::ParallelAtRest) {
            true => self.open(process).iter().copied().filter(is_other).nth(most).is_none(),
            false => self.runnable(xs, process).filter(is_other).nth(most).is_none(),
        };
        holds("rest.nobody_waits", is_alone).then_some(x)
    }
}
