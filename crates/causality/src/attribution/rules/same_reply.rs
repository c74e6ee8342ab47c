//! The reply to call Y and the reply to request X begin with the same bytes: a proxy sends on what it got.
//!
//! Condition: no other reply of the process begins so, neither to a call (equal answers, retries, hedged and mirrored requests) nor to a
//! request (a cache; requests that wait for one fetch), of the last 16,384. Y was made while X was open, was answered before X was, and X was
//! among those that could have made it. And of each reply that was under way since Y was made, the first bytes were read: else it may begin
//! so, too. It is decided some time after X was answered, when another request with the same answer would have it.
//!
//! Counterexamples: `link.same-reply/equal_answers`, `served_from_a_cache`, `answered_too_early`, `another_is_unread`.

use crate::attribution::facts::Facts;
use crate::attribution::state::Progress;
use crate::conditions::holds;
use crate::exchange::{ExId, Side, Slab};
use wakepath_model::rows::fingerprint;

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
        let x = alike.requests.first.filter(|&x| xs.is_live(x) && !self.state(x).flags.has(Progress::Given))?;
        let of = xs.get(x);
        let is_meanwhile = of.request.taken <= e.request.began && e.reply.began <= of.reply.began;
        let is_known = holds("same-reply.of_one_call", !alike.calls.is_shared)
            && holds("same-reply.to_one_request", !alike.requests.is_shared)
            && holds("same-reply.asked_and_answered_meanwhile", is_meanwhile)
            && holds("same-reply.all_were_read", replies.were_read_since(e.request.began));
        (is_known && self.is_candidate(x, y) && !self.roles.is_lossy(of.request.taken, of.reply.ended)).then_some(x)
    }
}
