//! Exchanges where the protocol is known: its messages make them.

use super::direction::Span;
use super::ends::{Early, FlowFlag, Replied};
use super::record::{Asked, Content, Exchange, ExchangeFlag, Side};
use super::{Channels, Engine, Said, Steps};
use crate::slab::ExId;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    AnsweredBy, AskedFor, Failed, MessageEndHow, MessageEndRow, MessageRole, MessageRow, OPEN, QueuedHow, message_flag,
};

/// What a request's message says, and the operations that moved its first byte and the last of its head.
fn asked(r: &MessageRow, side: Side, first: Option<Span>, last: Option<Span>) -> Exchange {
    let mut e = Exchange::of_request(r.flow, side, r.start, r.end);
    e.by = if r.flags & message_flag::BY_TURN != 0 { AnsweredBy::Turn } else { AnsweredBy::Message };
    e.request = Asked {
        arrived: first.map_or(MonoNs(0), |s| s.arrived),
        received_to: last.map_or(0, |s| s.end),
        began: first.map_or(r.at, |s| if side == Side::Client { s.entry } else { s.at }),
        task: last.map_or(TaskId::UNKNOWN, |s| s.task),
        ..e.request
    };
    e.content = Content {
        protocol: r.protocol,
        verb: r.verb,
        target: r.target,
        detail: r.detail,
        queued: match () {
            () if r.flags & message_flag::RELAYED != 0 => QueuedHow::Relayed,
            () if r.flags & message_flag::QUEUED != 0 => QueuedHow::Left,
            () => QueuedHow::No,
        },
        wanted: match () {
            () if r.flags & message_flag::AWAITS != 0 => AskedFor::Event,
            () if r.flags & message_flag::SUBSCRIBES != 0 => AskedFor::Messages,
            () => AskedFor::Answer,
        },
        witness: (r.witness_kind, r.witness),
        identifier: r.identifier,
        ..e.content
    };
    e
}

impl<S: Steps> Engine<S> {
    /// A message.
    pub fn message(&mut self, r: &MessageRow) {
        if r.flags & message_flag::ON_LANE != 0 {
            return self.message_on_lane(r);
        }
        let ep = self.eps.at(r.flow, r.at);
        ep.traits.flags.add_if(FlowFlag::Interleaves, r.witness_kind.interleaves());
        let Some(is_request) = ep.direction_of(r) else {
            return if r.role == MessageRole::Withdrawal { self.withdrawn(r) } else { self.message_unasked(r) };
        };
        let Some(side) = ep.side else { return };
        let early = ep.early.take().map(|early| *early);
        if let Some(Early { sent, last, .. }) = early {
            // what it said now tells which side it is, and so what that operation moved
            if sent == (side == Side::Client) { ep.requests.spans.push(last) } else { ep.replies.spans.push(last) }
        }
        let has_unclear_borders = ep.is(FlowFlag::UnclearBorders);
        if early.is_some() {
            self.sides.insert(r.flow, Some(side));
        }
        if has_unclear_borders {
            return;
        }
        if is_request {
            return self.request_message(r, side);
        }
        let Some(ep) = self.eps.get_mut(&r.flow) else { return };
        let by_turn = r.flags & message_flag::BY_TURN != 0;
        let is_named = r.witness_kind.names_exchange();
        if ep.is(FlowFlag::Unpaired) && !is_named {
            ep.replies.forget_before(r.start);
            ep.replies.explained_to = if r.end == OPEN { r.start } else { r.end };
            return;
        }
        // a reply: the oldest exchange without one, or the one with the same identifier, where that names exchanges
        let found = ep.open.iter().copied().find(|&x| {
            let e = self.xs.get(x);
            let is_its = !is_named || e.content.witness.0 != r.witness_kind || e.content.witness.1 == r.witness;
            // of what turns pair, and what identifiers pair, neither answers the other
            e.is_owed()
                && !e.is_by_direction()
                && is_its
                && !(is_named && e.is_by_turn())
                && (!by_turn || e.is_by_turn())
        });
        let spans: SmallVec<[Span; 2]> = ep.replies.spans.iter().filter(|s| s.end > r.start).copied().collect();
        ep.replies.forget_before(r.start);
        let missed = r.start > ep.replies.explained_to && ep.replies.explained_to != 0;
        let owed = ep.open.iter().filter(|&&x| self.xs.get(x).is_owed()).count();
        if owed > 1 && !is_named {
            let is_last = |e: &Exchange| e.reply.start == ep.replies.explained_to && e.is(ExchangeFlag::OpenEnded);
            let is_open = missed && ep.open.iter().any(|&x| is_last(self.xs.get(x)));
            if ep.replies.is_overdue(r.at) || missed && !ep.replies.may_end_at(r.start, r.at, is_open) {
                self.lose_borders(r.flow, r.at);
                return;
            }
        }
        ep.replies.explained_to = if r.end == OPEN { r.start } else { r.end };
        let (is_older, interleaves) = (ep.is(FlowFlag::Older), ep.is(FlowFlag::Interleaves));
        let (task, reached) =
            (spans.last().map_or(TaskId::UNKNOWN, |s| s.actor), spans.iter().map(|s| s.end).max().unwrap_or(r.start));
        let Some(x) = found else {
            if self.is_too_late(r, task) {
                return;
            }
            if side == Side::Client && interleaves && !is_older {
                // the answer to a call that was not seen
                self.steps.unclear(&self.xs, side, task, r.at);
            }
            if side == Side::Server {
                if is_older { self.steps.unseen_reply(task, r.at) } else { self.steps.stray_reply(task, r.at) }
            }
            return;
        };
        let process = self.xs.get(x).process;
        if let Some(ep) = self.eps.get_mut(&r.flow) {
            let replied = Replied { of: x, start: r.start, status: r.status, process };
            ep.traits.replied = (r.fingerprint == 0).then_some(replied);
        }
        self.steps.said(process, side, Said { fingerprint: r.fingerprint, status: r.status });
        self.reply_to(x, r, side, &spans, reached);
    }

    /// A message that neither asks nor answers. Where turns alone would pair it, no turn of its process does from here on. What is told
    /// before the first request may answer one from before the recording.
    fn message_unasked(&mut self, r: &MessageRow) {
        let Some(ep) = self.eps.get(&r.flow).filter(|_| r.role == MessageRole::Unsolicited) else { return };
        let may_answer = ep.is(FlowFlag::Older) && !ep.is(FlowFlag::Requested);
        let (process, is_clients) = (self.steps.process_of(ep.user()), ep.side == Some(Side::Client));
        if r.flags & message_flag::BY_TURN != 0 && !may_answer {
            self.steps.pushed(process, if r.sent == 1 { Side::Server } else { Side::Client });
        }
        // more on a stream that both sides talk on: a call, as far as anybody can tell, and what answers it does not show
        let sender = ep.requests.spans.last().map(|s| s.actor);
        if let Some(task) =
            sender.filter(|_| r.sent == 1 && is_clients && r.witness_kind.interleaves() && r.witness != 0)
        {
            self.steps.unfollowed(&self.xs, task, r.at);
        }
        if r.sent == 0 && is_clients {
            self.steps.message_unasked(process, r.at);
        }
    }

    /// The head of a reply to an exchange, with the operations that moved its bytes so far, up to `reached`.
    fn reply_to(&mut self, x: ExId, r: &MessageRow, side: Side, spans: &[Span], reached: u64) {
        let e = self.xs.get_mut(x);
        e.reply.start = r.start;
        e.reply.end = r.end;
        e.flags.set(ExchangeFlag::OpenEnded, r.end == OPEN);
        e.content.status = r.status;
        e.content.reply = r.fingerprint;
        e.flags.set(ExchangeFlag::Failed, r.failed == Failed::Yes);
        e.flags.set(ExchangeFlag::OutcomeUnknown, r.failed == Failed::Unknown);
        if r.detail != StrId::EMPTY {
            e.content.detail = r.detail;
        }
        let first = spans.first();
        e.reply.began = first.map_or(r.at, |s| if side == Side::Server { s.entry } else { s.at });
        let last = if r.end == OPEN { spans.last() } else { spans.iter().find(|s| s.end >= r.end).or(spans.last()) };
        e.reply.ended = last.map_or(r.at, |s| s.at);
        (e.reply.task, e.reply.actor) = last.map_or((TaskId::UNKNOWN, TaskId::UNKNOWN), |s| (s.task, s.actor));
        let (task, ended) = (e.reply.actor, e.reply.ended);
        self.steps.reply_began(&self.xs, x, task, r.at);
        self.steps.reply_progress(&self.xs, x, task, ended);
        if r.end != OPEN && reached >= r.end {
            self.close(r.flow, x, ended, true);
        }
    }

    /// A request: ends what it shows to be over, then begins its exchange.
    fn request_message(&mut self, r: &MessageRow, side: Side) {
        let flow = r.flow;
        let Some(ep) = self.eps.get_mut(&flow) else { return };
        // what lies between the last message and this one is told by none
        let interleaves = ep.is(FlowFlag::Interleaves);
        // what came before the loss in the same operation does not end it
        let was_unframed = ep.traits.unframed.is_some(); // then whoever sent it is in doubt already
        ep.traits.unframed = ep.traits.unframed.filter(|&since| r.at <= since);
        let is_new = !interleaves && !was_unframed;
        let skipped = ep.is(FlowFlag::ByMessages) && is_new && (1..r.start).contains(&ep.requests.explained_to);
        let (task, at) = ep.requested;
        // a request whose end is open explains all that comes until it is known
        ep.requests.explained_to = r.end;
        if skipped {
            self.steps.unclear(&self.xs, side, task, at);
        }
        let span = ep.requests.spans.iter().find(|s| s.start <= r.start && r.start < s.end).copied();
        // the newest span is the one that completed the head
        let last = ep.requests.spans.last().copied();
        let unsent_ns = if side == Side::Server && !interleaves { ep.requests.unsent_since(r.start) } else { 0 };
        ep.requests.forget_before(r.start);
        // its first bytes may have come before anybody could tell its protocol, and begun it by direction
        let early = ep.open.iter().copied().find(|&x| {
            let e = self.xs.get(x);
            e.is_by_direction()
                && !e.is(ExchangeFlag::UnclearBorders)
                && e.reply.start == OPEN
                && (r.start..r.end).contains(&e.request.start)
        });
        // a request on a flow whose last reply only a turn can end ends it; so does an exchange made by direction
        let over: SmallVec<[ExId; 2]> = ep
            .open
            .iter()
            .copied()
            .filter(|&x| {
                let e = self.xs.get(x);
                // others of its flow may begin before it ends, unless no part follows it
                let may_go_on = interleaves && e.reply.end == OPEN;
                (e.is(ExchangeFlag::OpenEnded) && e.reply.start != OPEN && !may_go_on)
                    || (e.is_by_direction() && Some(x) != early)
            })
            .collect();
        for x in over {
            self.close(flow, x, r.at, true);
        }
        let by_turn = r.flags & message_flag::BY_TURN != 0;
        if by_turn {
            self.goes_unanswered(flow, r.at);
        }
        // of a reply on a pipe, part may have passed
        let is_way = Channels::is_end(flow);
        if !is_way && (!self.end_missed_reply(flow, r.at) || !self.end_uncaptured_reply(flow, r.at)) {
            self.lose_borders(flow, r.at);
            self.call_unseen(flow, side);
            return;
        }
        // what ended a missed reply may have ended it
        let early = early.filter(|x| self.eps.get(&flow).is_some_and(|ep| ep.open.contains(x)));
        let at = last.map_or(r.at, |s| s.at);
        let mut actor = last.map_or(TaskId::UNKNOWN, |s| s.actor);
        if side == Side::Client && r.witness_kind.is_stream() {
            actor = self.asking.remove(&(actor, r.witness)).unwrap_or(actor);
        }
        let is_unpaired = by_turn && self.steps.pushes(self.steps.process_of(actor), side);
        let one_way = r.flags & message_flag::NO_REPLY != 0 || is_unpaired;
        let mut e = asked(r, side, span, last);
        (e.request.taken, e.request.actor, e.request.unsent_ns) = (at, actor, unsent_ns);
        e.flags.set(ExchangeFlag::OneWay, one_way);
        let x = match early {
            Some(x) => {
                self.xs.get_mut(x).identify(e);
                self.steps.identified(&self.xs, x);
                x
            }
            None => self.begin(flow, e, r.at),
        };
        if is_unpaired && let Some(ep) = self.eps.get_mut(&flow) {
            ep.traits.flags.add(FlowFlag::Unpaired);
        }
        if is_unpaired && side == Side::Server {
            self.works_on_unpaired(x, at);
        } else if one_way && r.end != OPEN {
            self.close(flow, x, at, true);
        }
        if self.eps.get(&flow).is_some_and(|ep| ep.is(FlowFlag::Over)) {
            self.met_its_end(flow, r.at);
        }
    }

    /// Ends the exchange whose reply was not recorded, where one was missed. False where that may be one of several.
    fn end_missed_reply(&mut self, flow: EndpointId, at: MonoNs) -> bool {
        let Some(ep) = self.eps.get_mut(&flow) else { return true };
        if !ep.traits.flags.take(FlowFlag::MissedReply) {
            return true;
        }
        let mut owed = ep.open.iter().copied().filter(|&x| self.xs.get(x).is_owed());
        let (first, is_one) = (owed.next(), owed.next().is_none());
        if let Some(x) = first.filter(|_| is_one) {
            // it was answered, and the answer was not recorded
            self.xs.get_mut(x).flags.add(ExchangeFlag::UnclearBorders);
            self.close(flow, x, at, false);
        }
        is_one
    }

    /// Ends the exchange of a reply that passed and whose head was not captured. False where that may be one of several:
    /// with one open request it can only be that one's.
    fn end_uncaptured_reply(&mut self, flow: EndpointId, at: MonoNs) -> bool {
        let Some(ep) = self.eps.get_mut(&flow) else { return true };
        let is_in_reply = || ep.open.iter().any(|&x| self.xs.get(x).reply.start != OPEN);
        if ep.is(FlowFlag::Interleaves) || ep.replies.moved_to <= ep.replies.explained_to || is_in_reply() {
            return true;
        }
        let (from, to) = (ep.replies.explained_to, ep.replies.moved_to);
        let mut owed = ep.open.iter().copied().filter(|&x| self.xs.get(x).is_owed());
        let (x, is_one) = (owed.next(), owed.next().is_none());
        if !is_one {
            return false;
        }
        ep.replies.explained_to = to;
        let Some(x) = x else { return true };
        let e = self.xs.get_mut(x);
        (e.reply.start, e.reply.end) = (from, to);
        if let Some(s) = ep.replies.spans.last() {
            (e.reply.began, e.reply.ended, e.reply.task, e.reply.actor) = (s.entry, s.at, s.task, s.actor);
        }
        let task = e.reply.actor;
        self.steps.reply_began(&self.xs, x, task, at);
        self.steps.reply_progress(&self.xs, x, task, at);
        self.close(flow, x, at, true);
        true
    }

    /// The end of a message that was open, or news of its outcome.
    pub fn message_end(&mut self, r: &MessageEndRow) {
        if self.end_on_lane(r) {
            return;
        }
        let Some(ep) = self.eps.get(&r.flow) else { return };
        let Some(side) = ep.side else { return };
        if r.fingerprint != 0 {
            return self.reply_says(r);
        }
        let is_request_dir = (side == Side::Client) == (r.sent == 1);
        let found = ep.open.iter().copied().chain(self.left.on(r.flow)).find(|&x| {
            let e = self.xs.get(x);
            (if is_request_dir { e.request.start } else { e.reply.start }) == r.start
        });
        // of several sent at once, the end of the last one
        let is_last = ep.open.iter().next_back().is_none_or(|&x| self.xs.get(x).request.start <= r.start);
        if is_request_dir && r.end != OPEN && is_last {
            let to = r.end;
            if let Some(ep) = self.eps.get_mut(&r.flow).filter(|ep| ep.requests.explained_to == OPEN) {
                ep.requests.explained_to = to;
            }
        }
        let Some(x) = found else { return };
        let Some(ep) = self.eps.get_mut(&r.flow) else { return };
        if !is_request_dir && r.how != MessageEndHow::NotKnown && ep.replies.leaves_gap(r.start, r.end) {
            self.lose_borders(r.flow, r.at);
            return;
        }
        let reached = ep.replies.spans.last().map_or(0, |s| s.end);
        let e = self.xs.get_mut(x);
        if is_request_dir {
            if r.end != OPEN {
                e.request.end = r.end;
            }
            if e.is(ExchangeFlag::OneWay) && !e.is_unpaired() {
                let at = ep.requests.spans.last().map_or(r.at, |s| s.at).max(e.request.taken);
                self.close(r.flow, x, at, true);
            }
            return;
        }
        match (r.how, r.failed) {
            (_, Failed::Yes) => {
                e.flags.add(ExchangeFlag::Failed);
                e.flags.set(ExchangeFlag::OutcomeUnknown, false);
            }
            (MessageEndHow::NotKnown, Failed::No) => e.flags.set(ExchangeFlag::OutcomeUnknown, false),
            (MessageEndHow::NotKnown, Failed::Unknown) => {
                e.flags.set(ExchangeFlag::OutcomeUnknown, !e.is(ExchangeFlag::Failed))
            }
            _ => {}
        }
        if r.detail != StrId::EMPTY {
            e.content.detail = r.detail;
        }
        match r.how {
            MessageEndHow::NotKnown => {}
            MessageEndHow::Lost => {
                e.flags.add(ExchangeFlag::OpenEnded);
                // no part follows it any more
                if ep.is(FlowFlag::Interleaves) {
                    e.reply.end = r.start;
                } else {
                    // what comes next does not say where it ended
                    ep.replies.explained_to = ep.replies.explained_to.max(r.start + 1);
                }
            }
            _ => {
                e.reply.end = r.end;
                e.flags.set(ExchangeFlag::OpenEnded, false);
                if r.end != OPEN
                    && let Some(ep) = self.eps.get_mut(&r.flow)
                {
                    ep.replies.explained_to = ep.replies.explained_to.max(r.end);
                }
                let e = self.xs.get_mut(x);
                if r.end != OPEN && (reached >= r.end || r.how != MessageEndHow::Framed) {
                    let at = e.reply.ended;
                    self.close(r.flow, x, at, true);
                }
            }
        }
    }

    /// How the body of a reply begins was read after its head, perhaps when it was over.
    fn reply_says(&mut self, r: &MessageEndRow) {
        let Some(ep) = self.eps.get(&r.flow) else { return };
        let (Some(side), Some(replied)) = (ep.side, ep.traits.replied.filter(|replied| replied.start == r.start))
        else {
            return;
        };
        self.steps.said(replied.process, side, Said { fingerprint: r.fingerprint, status: replied.status });
        if self.xs.is_live(replied.of) {
            self.xs.get_mut(replied.of).content.reply = r.fingerprint;
            self.steps.reply_says(&self.xs, replied.of, r.at);
        }
    }

    /// From here on it is not known whose reply is whose on this flow. One exchange stays open for all that may still
    /// be asked on it, so that nothing is claimed past it.
    fn lose_borders(&mut self, flow: EndpointId, at: MonoNs) {
        let Some(ep) = self.eps.get_mut(&flow) else { return };
        ep.traits.flags.add(FlowFlag::UnclearBorders);
        let open: Vec<ExId> = ep.open.iter().copied().collect();
        for (i, x) in open.into_iter().enumerate() {
            let e = self.xs.get_mut(x);
            e.flags.add(ExchangeFlag::UnclearBorders);
            if i == 0 {
                (e.reply.start, e.reply.end) = (OPEN, OPEN);
                e.flags.set(ExchangeFlag::OpenEnded, false);
            } else {
                self.close(flow, x, at, false);
            }
        }
    }

    /// What was sent last is a call that cannot be followed.
    fn call_unseen(&mut self, flow: EndpointId, side: Side) {
        if let Some(ep) = self.eps.get(&flow).filter(|_| side == Side::Client) {
            let (task, at) = ep.requested;
            self.steps.unclear(&self.xs, side, task, at);
        }
    }
}
