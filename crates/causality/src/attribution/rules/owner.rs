//! A connection that was made for a request: its first use is that request's, which waited for it.
//!
//! Condition: the process never uses a connection twice; or it made no other at the same time, so that no other request can
//! have waited for one and been given this. (A pool hands what comes first to whoever waits longest.) And its request made no other call
//! of that protocol meanwhile, and none was made that may be its: it may have got a connection that was set free. Else by habit: it and its
//! siblings of the same program often made several at once, and never had more of them than requests when one was answered.
//! Where its runtime names the task that uses it, that one made it, or made the task that did: another one got it from a pool.
//! A process whose tasks share their requests and that keeps connections has a pool for all of them: there it holds only for a
//! request that was handed its input alone ([`super::rest`]).
//!
//! A loop that has accepted a connection and read no request there may make one for that, as proxies of bytes do: then only habit
//! tells that it never did so when it was given nothing else.
//!
//! Counterexamples: `link.dialled/pool_dials_for_two`, `pool_gave_one_to_another`, `link.owner/pool_of_all_tasks`, `pool_serves_who_comes_first`, `racing`, `link.dialled/too_few_dials`, `link.owner/another_goroutine_uses_it`,
//! `accepts_and_dials`.

use crate::attribution::facts::Facts;
use crate::attribution::state::RequestFlag;
use crate::conditions::holds;
use crate::evidence::Rule;
use crate::exchange::{ExId, Exchange, Slab};
use crate::process::ProcessId;
use crate::process::dials::Dial;
use crate::roles::HabitId;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};

impl Facts<'_> {
    /// A process makes a connection, for a request where that is known.
    pub(in crate::attribution) fn dials(&mut self, flow: EndpointId, by: TaskId, of: Option<ExId>, since: MonoNs) {
        let (process, is_by_habit) = (self.roles.process_of(by), self.awaits_requests(by));
        let calls_before = of.map_or(0, |x| self.state(x).request.calls.len());
        let is_new =
            self.dials.begin(flow, Dial { of, by, process, is_by_habit, since, calls_before, ..Dial::default() });
        if let Some(x) = of.filter(|_| is_new) {
            // until its first request is on its way, the connection is what the request waits for
            self.change(x, |r| (r.outstanding, r.dialling) = (r.outstanding + 1, r.dialling + 1));
        }
    }

    /// Whether a task has accepted a connection in its turn whose request is still to come: what it connects may be for that.
    pub(in crate::attribution) fn awaits_requests(&self, task: TaskId) -> bool {
        self.tasks.get(task).is_some_and(|w| w.given.awaits_requests())
    }

    /// A connection is used for the first time, or gone.
    pub(in crate::attribution) fn dialled(&mut self, xs: &Slab, flow: EndpointId) -> Option<Dial> {
        let dial = self.dials.end(flow)?;
        if let Some(x) = dial.of.filter(|&x| self.is_open(xs, x)) {
            self.change(x, |r| {
                (r.outstanding, r.dialling) = (r.outstanding.saturating_sub(1), r.dialling.saturating_sub(1));
            });
        }
        Some(dial)
    }

    /// A call was made of which it is not known whose it is: who waits for a connection may have got one that was set free. Where several
    /// are under way, each was made beside another, and that is asked first.
    pub(in crate::attribution) fn doubt_dial(&mut self, y: ExId, call: &Exchange, process: ProcessId) {
        let Some(only) = self.dials.only(process) else { return };
        let is_new = |dial: &&Dial| !dial.doubted.contains(&call.content.protocol);
        let of = self.dials.get(only).filter(is_new).and_then(|dial| dial.of);
        if of.is_some_and(|x| self.is_candidate(x, y)) {
            self.dials.doubt(only, call.content.protocol);
        }
    }

    /// Whether the request for which a connection was made may have got another one meanwhile: it made a call of the same protocol, or may
    /// have.
    fn may_have_got_another(&self, xs: &Slab, dial: &Dial, x: ExId, call: &Exchange) -> bool {
        let is_like = |y: &&ExId| xs.is_live(**y) && xs.get(**y).content.protocol == call.content.protocol;
        let is_later = |y: &ExId| xs.get(*y).request.began >= dial.since;
        let request = &self.state(x).request;
        // what was known of before was made before
        let since = request.calls.get(dial.calls_before..).unwrap_or_default();
        request.flags.has(RequestFlag::Overflow)
            || dial.doubted.contains(&call.content.protocol)
            || since.iter().filter(is_like).any(is_later)
    }

    /// The request whose a connection's first use is, by a call, and how that is known.
    pub(in crate::attribution) fn owner(&self, xs: &Slab, dial: &Dial, call: &Exchange) -> Option<(ExId, Rule)> {
        let x = dial.of.filter(|&x| self.is_open(xs, x))?;
        let (process, at) = (dial.process, call.request.began);
        let is_its_own = || {
            dial.by == call.request.actor || self.lineage.makers(dial.by).any(|(maker, _)| maker == call.request.actor)
        };
        if !holds("owner.used_by_who_made_it", call.request.actor == call.request.task || is_its_own()) {
            return None;
        }
        let is_pool = self.roles.keeps_connections(process);
        let by_owner = if dial.is_by_habit { Rule::Dialled } else { Rule::Owner };
        let is_its_only = || holds("owner.got_no_other", !self.may_have_got_another(xs, dial, x, call));
        let is_at_rest = || self.at_rest(xs, process, at) == Some(x);
        match () {
            () if !is_pool || is_at_rest() => Some((x, by_owner)),
            () if !holds("owner.no_pool", !self.roles.is_migrating(process)) => None,
            () if holds("owner.made_alone", !dial.is_beside_another) && is_its_only() => Some((x, by_owner)),
            () => holds("owner.made_for_one", self.roles.habits.is_believed(process, HabitId::DialsForOne))
                .then_some((x, Rule::Dialled)),
        }
    }
}
