//! The reply to call Y and the reply to request X begin with the same bytes: a proxy sends on what it got.
//!
//! Habit: what begins a reply to a request, if that did not fail, began the answer to a call before, in at least eight cases and without an
//! exception. Who makes answers, or has some from before the recording, is no such process: it may answer X with what Y brings to another.
//!
//! Condition: no other reply of the process begins so, neither to a call (equal answers, retries, hedged and mirrored requests) nor to a
//! request (a cache; requests that wait for one fetch), of the last 16,384. Y was made while X was open, was answered before X was, and X was
//! among those that could have made it. And of each reply that was under way since Y was made, the first bytes were read: else it may begin
//! so, too. It is decided some time after X was answered, when another request with the same answer would have it.
//!
//! Counterexamples: `link.same-reply/too_few`, `answers_of_its_own`, `equal_answers`, `served_from_a_cache`, `answered_too_early`,
//! `another_is_unread`.

use crate::attribution::Attribution;
use crate::attribution::facts::Facts;
use crate::attribution::helper::GRACE_NS;
use crate::attribution::state::Progress;
use crate::conditions::holds;
use crate::evidence::{Gap, Rule};
use crate::exchange::{ExId, Side, Slab};
use crate::finished::{Finished, Parent};
use crate::roles::HabitId;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::fingerprint;

/// How long another request may take to be answered alike: long before what was answered is handed on.
const ALIKE_NS: u64 = GRACE_NS / 2;

impl Facts<'_> {
    /// A reply begins; its first bytes were read with its head, or are to come.
    pub(in crate::attribution) fn reply_begins(&mut self, xs: &Slab, x: ExId) {
        if xs.get(x).content.reply == 0 {
            let process = self.state(x).process;
            if self.state_mut(x).flags.insert(Progress::ReplyUnread) {
                self.domain_mut(process).replies.begins_unread();
            }
        } else {
            self.reply_says(xs, x);
        }
    }

    /// The first bytes of a reply's body were read.
    pub(in crate::attribution) fn reply_says(&mut self, xs: &Slab, x: ExId) {
        let (e, process) = (xs.get(x), self.state(x).process);
        let was_unread = self.state_mut(x).flags.take(Progress::ReplyUnread);
        let replies = &mut self.domain_mut(process).replies;
        if was_unread {
            replies.is_read_or_over(None);
        }
        if e.content.reply > fingerprint::NOTHING {
            replies.begins(e.content.reply, e.side, x);
        }
    }

    /// An exchange has been over for a while: of a reply that was not read by now, nothing is.
    pub(in crate::attribution) fn reply_stays_unread(&mut self, xs: &Slab, x: ExId) {
        if self.state_mut(x).flags.take(Progress::ReplyUnread) {
            let process = self.state(x).process;
            self.domain_mut(process).replies.is_read_or_over(Some(xs.get(x).reply.ended));
        }
    }

    /// A call whose reply begins as the one to request `x`.
    pub(in crate::attribution) fn call_answered_alike(&self, xs: &Slab, x: ExId) -> Option<ExId> {
        let e = xs.get(x);
        let replies = &self.domain(self.state(x).process).filter(|_| e.content.reply > fingerprint::NOTHING)?.replies;
        replies.alike(e.content.reply).calls.first.filter(|&y| e.side == Side::Server && xs.is_live(y))
    }

    /// The request that was answered with the answer to call `y`.
    pub(in crate::attribution) fn answered_alike(&self, xs: &Slab, y: ExId) -> Option<ExId> {
        let (e, process) = (xs.get(y), self.state(y).process);
        let replies = &self.domain(process).filter(|_| e.content.reply > fingerprint::NOTHING)?.replies;
        let alike = replies.alike(e.content.reply);
        let x = alike.requests.first.filter(|&x| self.is_undelivered(xs, x))?;
        let of = xs.get(x);
        let is_meanwhile = of.request.taken <= e.request.began && e.reply.began <= of.reply.began;
        let is_proxy = self.roles.habits.is_believed(process, HabitId::PassesAnswersOn);
        let is_known = holds("same-reply.always_passed_on", is_proxy)
            && holds("same-reply.of_one_call", !alike.calls.is_shared)
            && holds("same-reply.to_one_request", !alike.requests.is_shared)
            && holds("same-reply.asked_and_answered_meanwhile", is_meanwhile)
            && holds("same-reply.all_were_read", replies.were_read_since(e.request.began));
        (is_known && self.is_candidate(x, y) && !self.roles.is_lossy(of.request.taken, of.reply.ended)).then_some(x)
    }
}

impl<F: Finished> Attribution<'_, F> {
    /// A request was answered, or what it was answered with is known now: a call may have been answered alike.
    pub(in crate::attribution) fn seek_alike(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        if let Some(y) = self.facts.call_answered_alike(xs, x) {
            self.outbox.alike.push_back((at, y));
        }
    }

    /// Decides on calls whose time has come.
    pub(in crate::attribution) fn claim_same_replies(&mut self, xs: &Slab, now: MonoNs) {
        while let Some(&(at, y)) = self.outbox.alike.front()
            && at.0 + ALIKE_NS <= now.0
        {
            self.outbox.alike.pop_front();
            if self.facts.is_undelivered(xs, y) {
                self.claim_same_reply(xs, y);
            }
        }
    }

    /// Whether call `y`, of which nobody knows whose it is, was a request's that was answered with its answer.
    pub(in crate::attribution) fn claim_same_reply(&mut self, xs: &Slab, y: ExId) -> bool {
        let is_refused = self.facts.options.refuses_witness || !self.uses_habits();
        if is_refused
            || !matches!(self.facts.state(y).call.parent, Some(Parent::Pending | Parent::Open(Gap::Ambiguous)))
        {
            return false;
        }
        let found = self.watched(xs.get(y).request.actor, |facts| facts.answered_alike(xs, y));
        found.inspect(|&x| self.link(xs, y, x, Rule::SameReply)).is_some()
    }
}
