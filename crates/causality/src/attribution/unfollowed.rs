//! Requests that waited for something that is not followed: a queue, or what another client sent.

use super::Attribution;
use super::domain::HeardBack;
use super::state::{RequestFlag, State};
use super::worker::Worker;
use crate::exchange::{ExId, Exchange, ExchangeFlag, Slab};
use crate::finished::{Finished, Parent};
use crate::process::ProcessId;
use wakepath_model::ids::{MonoNs, TaskId};

impl<F: Finished> Attribution<'_, F> {
    /// Call `y`, which waited for something to happen elsewhere, is answered: so its request is told, or where that is not known, any of its
    /// process's may be.
    pub(super) fn is_notified(&mut self, xs: &Slab, y: ExId, process: ProcessId, at: MonoNs) {
        match self.facts.state(y).call.parent {
            Some(Parent::Of(x, _)) if xs.is_live(x) => {
                let has_put = self.has_put_before(xs, x, at);
                self.facts.state_mut(x).request.flags.add_if(RequestFlag::Unfollowed, has_put);
            }
            _ => self.facts.domain_mut(process).elsewhere.notified = at,
        }
    }

    /// Whether a request put something into a queue before a moment.
    fn has_put_before(&self, xs: &Slab, x: ExId, at: MonoNs) -> bool {
        let is_put = |&y: &ExId| xs.is_live(y) && xs.get(y).content.is_queued() && xs.get(y).request.began < at;
        self.facts.state(x).request.calls.iter().any(is_put)
    }

    /// Whether a request put something into a queue, and its process was told something since that answers none of its calls: that may be
    /// what came of it, and who did the work is not known.
    pub(super) fn may_have_waited_for_a_queue(&self, xs: &Slab, x: ExId) -> bool {
        let process = self.facts.state(x).process;
        let told = self.facts.domains.get(process.leader()).map_or(MonoNs(0), |d| d.elsewhere.notified);
        told != MonoNs(0) && self.has_put_before(xs, x, told)
    }

    /// Whether a loop replies to a request in a turn in which it was told what happened elsewhere, and given nothing of that request's: it
    /// waited for that, and who did the work is not known.
    pub(super) fn is_answered_with_news(&self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) -> bool {
        let told = self.facts.domain(self.facts.state(x).process).map_or(MonoNs(0), |d| d.elsewhere.notified);
        let taken = xs.get(x).request.taken;
        let is_none_of_its = |y: ExId| {
            let is_own = || self.facts.state(y).call.parent == Some(Parent::Root);
            xs.is_live(y) && (xs.get(y).request.began < taken || is_own())
        };
        let is_news = |w: &Worker| {
            let is_told = w.given.turn.since <= told && w.given.is_nothing_of(x, at);
            is_told && w.unknown_call.is_none_or(is_none_of_its)
        };
        let is_since = told > taken && self.facts.roles.role(task).is_loop();
        is_since && self.facts.tasks.get(task).is_some_and(is_news)
    }

    /// Whether a loop answers a request of an unknown protocol, for which it made no call, only after it had left it to wait and then read
    /// another client's: a broker does so, and what that client sent is what was waited for.
    pub(super) fn is_answered_by_another(&self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) -> bool {
        let e = xs.get(x);
        let is_alone = e.is_by_direction() && self.facts.state(x).request.calls.is_empty();
        let is_after_another = |w: &Worker| {
            let another = w.given.read_before(x, e.request.taken);
            w.given.is_nothing_of(x, at) && another.is_some_and(|y| !xs.is_live(y) || xs.get(y).flow != e.flow)
        };
        is_alone && self.facts.roles.role(task).is_loop() && self.facts.tasks.get(task).is_some_and(is_after_another)
    }

    /// Whether a loop goes on with a logical task's request, for which nothing is outstanding, because of the answer to another one's call: as
    /// where requests share one call (a batch of look-ups, a fetch that several wait for). Since the loop last slept it was given
    /// such an answer, nothing of this request's and nothing that was not seen, and no timer can have been due. In a process that did so often, a request that goes on after
    /// another one's answer may as well, where the loop never came to sleep.
    pub(super) fn is_answered_with_anothers(&mut self, xs: &Slab, x: ExId, at: MonoNs) -> bool {
        const OFTEN: u32 = 3;
        let e = xs.get(x);
        let Some(w) = self.facts.tasks.get(e.reply.task).filter(|_| e.reply.task != e.request.actor) else {
            return false;
        };
        let State { process, request, .. } = self.facts.state(x);
        let elsewhere = self.facts.domain(*process).map(|d| d.elsewhere).unwrap_or_default();
        let (has_no_calls, shares) = (request.calls.is_empty(), elsewhere.shared_answers >= OFTEN);
        // where tasks go from thread to thread, another one may have heard it
        let changes_threads = self.facts.lineage.births().traits(e.request.actor).changes_threads;
        if changes_threads && has_no_calls && shares && elsewhere.heard > e.request.taken {
            return true;
        }
        let (turn, (heard, of)) = (w.given.turn, w.heard);
        let is_anothers = match of {
            Some(Parent::Of(other, _)) => other != x,
            Some(Parent::Root) => true,
            Some(Parent::Open(_) | Parent::Pending) | None => false,
        };
        let own = |&y: &ExId| if xs.is_live(y) { xs.get(y).reply.ended } else { MonoNs(u64::MAX) };
        let given = request.calls.iter().map(own).fold(e.request.taken.max(e.request.read), MonoNs::max);
        if !is_anothers || request.outstanding != 0 || heard <= given {
            return false;
        }
        // and what its own answer let go on may have waited for a thread until now
        let is_its_turn = has_no_calls || !changes_threads;
        let was_given_no_more = turn.since > given && heard >= turn.since && turn.no_timer_due(at);
        let is_alone = is_its_turn && was_given_no_more && !w.has_unread_input();
        let shared = &mut self.facts.domain_mut(*process).elsewhere.shared_answers;
        *shared = shared.saturating_add(u32::from(is_alone));
        is_alone || shares
    }

    /// Whether a process told the client of another connection something after it took request `x`, and heard from that client while
    /// nothing was outstanding of `x`: that may be what it waited for, as where a server asks by a connection that its client opened
    /// (Socket.IO, tunnels, remote workers). Only where turns or nothing pair what is said there: else it answers that client.
    pub(super) fn may_have_asked_a_client(&self, xs: &Slab, x: ExId) -> bool {
        let e = xs.get(x);
        let State { process, request, .. } = self.facts.state(x);
        let HeardBack { told, at } = self.facts.domain(*process).map_or(HeardBack::default(), |d| d.heard_back);
        let is_outstanding = |&y: &ExId| {
            let call = || xs.get(y);
            xs.is_live(y) && call().request.began < at && !(1..at.0).contains(&call().reply.ended.0)
        };
        let is_paired = !e.is_by_direction() && !e.is_by_turn();
        is_paired && told >= e.request.taken && self.facts.is_free(x) && !request.calls.iter().any(is_outstanding)
    }

    /// The message `e` came from a client that was told something before, last at `told`.
    pub(super) fn heard_back(&mut self, e: &Exchange, told: MonoNs, at: MonoNs) {
        let is_unpaired = e.is_by_direction() || e.is_by_turn() || e.is(ExchangeFlag::OneWay);
        if is_unpaired && !e.is(ExchangeFlag::Internal) {
            let heard = &mut self.facts.domain_mut(e.process).heard_back;
            *heard = HeardBack { told: heard.told.max(told), at };
        }
    }
}
