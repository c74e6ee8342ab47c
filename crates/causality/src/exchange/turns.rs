//! Exchanges where no protocol is known: changes of direction make them.

use super::ends::FlowFlag;
use super::record::{Asked, Exchange, ExchangeFlag, Side};
use super::{Engine, More, SHARED_MAX, Steps};
use crate::slab::ExId;
use wakepath_model::ids::{EndpointId, MonoNs};
use wakepath_model::rows::{AnsweredBy, OPEN, OpRow};

impl<S: Steps> Engine<S> {
    /// Without messages: bytes towards the server begin an exchange where the last one has its reply.
    /// `missed`: what moved before it was not all recorded, so its reply may have been among that.
    pub(super) fn run_request(&mut self, r: &OpRow, side: Side, missed: bool) {
        let ep = self.eps.at(r.flow, r.at);
        ep.requests.explained_to = r.end;
        let last = ep.open.last().copied();
        match last {
            Some(last) if !missed && self.xs.get(last).reply.start == OPEN => {
                let more = match side {
                    Side::Client => self.steps.sends_more(&self.xs, last, r.actor(), r.at),
                    Side::Server => More::OfIt,
                };
                let e = self.xs.get_mut(last);
                // where another's bytes may follow, its borders are not known, and neither is which reply is whose
                e.flags.add_if(ExchangeFlag::UnclearBorders, more != More::OfIt);
                if more == More::OfIt {
                    e.request.end = r.end;
                }
                if side == Side::Server {
                    self.steps.request_progress(&self.xs, last, r.actor(), r.at);
                }
                if more != More::OfAnother {
                    return;
                }
                let ep = self.eps.at(r.flow, r.at);
                ep.traits.flags.add(FlowFlag::Shared);
                if let Some(&oldest) = ep.open.first().filter(|_| ep.open.len() >= SHARED_MAX) {
                    self.give_up(r.flow, oldest, r.at);
                }
            }
            Some(last) => {
                self.xs.get_mut(last).flags.add_if(ExchangeFlag::UnclearBorders, missed);
                self.close(r.flow, last, r.at, true);
            }
            None => {}
        }
        let has_unclear_borders = self.eps.at(r.flow, r.at).traits.flags.has(FlowFlag::Shared);
        let mut e = Exchange::of_request(r.flow, side, r.start, r.end);
        e.by = AnsweredBy::Direction;
        e.flags.add(ExchangeFlag::OpenEnded);
        e.flags.set(ExchangeFlag::UnclearBorders, has_unclear_borders);
        e.request = Asked {
            arrived: r.arrived,
            received_to: r.end,
            began: if side == Side::Client { r.entry } else { r.at },
            taken: r.at,
            task: r.task,
            actor: r.actor(),
            ..e.request
        };
        self.begin(r.flow, e, r.at);
    }

    /// `missed`: the request that it answers was not recorded.
    pub(super) fn run_reply(&mut self, r: &OpRow, missed: bool) {
        let ep = self.eps.at(r.flow, r.at);
        let (side, is_older, asked) = (ep.side, ep.is(FlowFlag::Older), ep.is(FlowFlag::Requested));
        match ep.open.last().copied() {
            Some(x) if missed => self.close(r.flow, x, r.at, true),
            Some(_) if ep.is(FlowFlag::Shared) => return self.answered_some(r.flow, r.at),
            Some(x) => return self.extend_reply(x, r),
            // a server may speak first; but a flow that is older than the recording owes a reply
            None if side == Some(Side::Server) && is_older && !asked => {
                return self.steps.unseen_reply(r.actor(), r.at);
            }
            None => {}
        }
        if side == Some(Side::Server) {
            self.steps.stray_reply(r.actor(), r.at);
        }
    }

    /// A reply on a connection that several requests share: whose it is, and what it ends, is not known.
    fn answered_some(&mut self, flow: EndpointId, at: MonoNs) {
        let open = self.eps.get(&flow).map(|ep| ep.open.clone()).unwrap_or_default();
        for x in open {
            self.give_up(flow, x, at);
        }
    }

    /// Ends an exchange whose reply cannot be told from others': all that is known of its time is when it was sent.
    fn give_up(&mut self, flow: EndpointId, x: ExId, at: MonoNs) {
        let e = self.xs.get_mut(x);
        e.reply.ended = e.request.taken;
        self.close(flow, x, at, false);
    }

    fn extend_reply(&mut self, x: ExId, r: &OpRow) {
        let e = self.xs.get_mut(x);
        let first = e.reply.start == OPEN;
        if first {
            e.reply.start = r.start;
            e.reply.began = if e.side == Side::Server { r.entry } else { r.at };
        }
        e.reply.end = r.end;
        e.replies_by(r);
        if first {
            self.steps.reply_began(&self.xs, x, r.actor(), r.at);
        }
        self.steps.reply_progress(&self.xs, x, r.actor(), r.at);
    }
}
