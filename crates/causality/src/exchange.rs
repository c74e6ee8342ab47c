//! Exchanges: a request and its reply as one endpoint saw them.
//!
//! Where the protocol is known its messages make them; elsewhere a change of direction does (vPath §2.2's
//! communication pattern, merged operations of its Algorithm 1). The engine keeps only what is open, and hands every
//! step to a [`Steps`] in the order in which it happened on the host.

mod ends;
mod record;
mod refusals;

pub use crate::slab::{ExId, Slab};
pub(crate) use ends::is_peer;
use ends::{Ends, NO_SOCKET, SPANS, Span};
pub use record::{Exchange, Side};
use refusals::{Connect, Refusals};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    EndpointRow, FlowNoteRow, FlowStateRow, MessageEndRow, MessageRow, OPEN, OpRow, TaskRow, end_how, failed, life,
    message_flag, op, range, role, seen, witness,
};

/// What happens to exchanges, in order.
pub trait Steps {
    /// Whether exchanges are still asked for after [`Steps::closed`]; else their places are given back at once.
    const KEEPS: bool;
    /// A server's request was read as far as its head, or a client's was sent.
    fn begun(&mut self, xs: &Slab, x: ExId, at: MonoNs);
    /// More of the request was received (server) by this task.
    fn request_progress(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs);
    /// The first bytes of the reply moved.
    fn reply_began(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs);
    /// More of the reply was received (client) by this task.
    fn reply_progress(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs);
    /// The reply is complete, or will never be.
    fn closed(&mut self, xs: &Slab, x: ExId, at: MonoNs);
    /// A task accepted a flow.
    fn accepted(&mut self, _: EndpointId, _: TaskId) {}
    /// A task connects a flow.
    fn connecting(&mut self, xs: &Slab, flow: EndpointId, task: TaskId, at: MonoNs);
    /// A connection that this task wanted, perhaps had begun to make, did not come about, for this reason (Linux's error
    /// number, 0 = not known).
    fn refused(&mut self, _: &Slab, _: EndpointId, _: TaskId, _: MonoNs, _error: i32) {}
    /// A reply left whose request was not seen.
    fn unseen_reply(&mut self, task: TaskId, at: MonoNs);
    /// A task replied to a request that was not seen.
    fn stray_reply(&mut self, task: TaskId, at: MonoNs);
    /// A task moved request bytes that no message explains: a request of which nothing is known.
    fn unclear(&mut self, xs: &Slab, side: Side, task: TaskId, at: MonoNs);
    /// A task shuts a flow down or closes it; this was the last exchange on it.
    fn left(&mut self, last: ExId, task: TaskId, at: MonoNs);
    /// Nothing will happen on the flow any more.
    fn flow_gone(&mut self, xs: &Slab, flow: EndpointId);
    /// The process of a task: the number of its leading task.
    fn process_of(&self, task: TaskId) -> u32;
}

/// Makes exchanges of one host's rows.
pub struct Engine<S: Steps> {
    eps: Ends,
    refusals: Refusals,
    /// The exchanges.
    pub xs: Slab,
    /// Where steps go.
    pub steps: S,
}

const TCP_CLOSE: u8 = 7;
/// `OpRow::flags`: the flow changed direction with this operation.
const TURN: u16 = 8;

impl<S: Steps> Engine<S> {
    /// An engine that has seen nothing.
    pub fn new(steps: S) -> Engine<S> {
        Engine { eps: Ends::default(), refusals: Refusals::default(), xs: Slab::default(), steps }
    }

    /// An endpoint was announced.
    pub fn endpoint(&mut self, r: &EndpointRow) {
        let side = match r.side {
            1 => Some(Side::Server),
            2 => Some(Side::Client),
            _ => None,
        };
        let ep = self.eps.at(r.flow, r.at);
        ep.announced(r.task);
        if ep.side.is_none() {
            ep.side = side;
        }
        ep.met |= r.how == seen::MET || r.how == seen::SNAPSHOT;
        self.eps.pair(r);
    }

    /// A step in a task's life.
    pub fn task(&mut self, r: &TaskRow) {
        if r.what == life::EXIT && r.tid == r.tgid {
            self.eps.process_ended(self.steps.process_of(r.task), r.at);
        }
    }

    /// Time went on to `now`: forgets ends of which nothing more can come, and gives them. TCP says when a connection is
    /// over; of other sockets only their descriptors and processes tell.
    pub fn forget(&mut self, now: MonoNs) -> Vec<EndpointId> {
        let gone = self.eps.over(now, |task| self.steps.process_of(task));
        for &flow in &gone {
            self.end(flow, now);
        }
        gone
    }

    /// The flow is over: what is open on it was cut off.
    fn end(&mut self, flow: EndpointId, at: MonoNs) {
        self.cut(flow, at);
        if self.eps.remove(flow) {
            self.steps.flow_gone(&self.xs, flow);
        }
    }

    /// Closes what is open on a flow, as cut off where its end was not seen.
    fn cut(&mut self, flow: EndpointId, at: MonoNs) {
        let open: Vec<ExId> = self.eps.get(&flow).map(|e| e.open.iter().copied().collect()).unwrap_or_default();
        for x in open {
            let e = self.xs.get_mut(x);
            let whole = e.reply_start != OPEN && e.open_ended;
            e.cut = !whole;
            self.close(flow, x, at, whole);
        }
    }

    /// A protocol was recognised, or given up.
    pub fn note(&mut self, r: &FlowNoteRow) {
        let ep = self.eps.at(r.flow, r.at);
        if r.protocol == StrId::EMPTY {
            ep.opaque = true;
        } else {
            ep.messages = true;
            ep.protocol = r.protocol;
        }
    }

    /// An operation.
    pub fn operation(&mut self, r: &OpRow) {
        if matches!(r.kind, op::SEND | op::RECV) && r.end > r.start {
            return self.moved(r);
        }
        self.eps.used(r);
        match r.kind {
            op::RECV if r.result <= 0 => self.ended(r.flow, r.at, r.result < 0),
            op::SEND if r.result < 0 => self.ended(r.flow, r.at, true),
            op::CONNECT => {
                let connect = self.refusals.connect(r);
                self.eps.at(r.flow, r.at).side.get_or_insert(Side::Client);
                match connect {
                    Connect::Begun => self.steps.connecting(&self.xs, r.flow, r.task, r.at),
                    Connect::Failed(error) => self.steps.refused(&self.xs, r.flow, r.task, r.at, error),
                    Connect::Told => {}
                }
            }
            op::ACCEPT => {
                self.eps.at(r.flow, r.at).side.get_or_insert(Side::Server);
                self.steps.accepted(r.flow, r.task);
            }
            op::CLOSE | op::SHUTDOWN => self.left(r.flow, r.task, r.at),
            _ => {}
        }
    }

    fn moved(&mut self, r: &OpRow) {
        let sent = r.kind == op::SEND;
        let ep = self.eps.at(r.flow, r.at);
        ep.used(r);
        let Some(side) = ep.side else {
            // a socket whose announcement was lost: who sends on it does something that cannot be shown
            let span = Span { start: r.start, end: r.end, task: r.task, entry: r.entry, at: r.at, arrived: r.arrived };
            ep.early = Some((sent, span));
            if sent && !ep.is_announced() && r.flow.0 < NO_SOCKET {
                self.steps.unclear(&self.xs, Side::Client, r.task, r.at);
            }
            return;
        };
        let is_request = (side == Side::Client) == sent;
        if side == Side::Server {
            ep.sends_to_reader(r, sent);
        }
        // the kernel's programs note each change of direction, also where the record of it found no room
        let missed_run = r.flags & TURN != 0 && ep.last_was_request == Some(is_request);
        // a reply ends where a request follows, or where its message did
        let goes_on = !is_request && ep.last_was_request == Some(false) && r.start != ep.reply_explained_to;
        ep.last_was_request = Some(is_request);
        ep.missed_reply |= missed_run && is_request;
        let spans = if is_request { &mut ep.request } else { &mut ep.reply };
        // consecutive operations of one task are one (Algorithm 1, line 5)
        match spans.back_mut() {
            Some(b) if b.end == r.start && b.task == r.task && goes_on => {
                b.end = r.end;
                b.at = r.at;
            }
            _ => {
                if spans.len() == SPANS {
                    spans.pop_front();
                }
                spans.push_back(Span {
                    start: r.start,
                    end: r.end,
                    task: r.task,
                    entry: r.entry,
                    at: r.at,
                    arrived: r.arrived,
                });
            }
        }
        // a head may be moved in pieces, but when the flow turns it has had its chance to be explained
        let (to, task, at) = ep.request_moved;
        let unclear = ep.messages && !is_request && to > ep.request_explained_to && ep.request_explained_to != 0;
        if unclear {
            ep.request_explained_to = to;
        }
        if is_request {
            ep.request_moved = (ep.request_moved.0.max(r.end), r.task, r.at);
            if ep.request_explained_to == 0 {
                ep.request_explained_to = r.start;
            }
        }
        if !is_request {
            ep.reply_moved_to = ep.reply_moved_to.max(r.end);
            if ep.reply_explained_to == 0 {
                ep.reply_explained_to = r.start;
            }
        }
        let (murky, messages) = (ep.murky, ep.messages);
        if unclear {
            self.steps.unclear(&self.xs, side, task, at);
        }
        if missed_run && !is_request {
            self.steps.unclear(&self.xs, side, r.task, r.at);
        }
        if murky {
            if is_request && side == Side::Client {
                self.steps.unclear(&self.xs, side, r.task, r.at);
            }
            return;
        }
        if messages {
            if is_request {
                self.request_moved(r, side);
            } else {
                self.reply_moved(r);
            }
        } else if is_request {
            self.run_request(r, side, missed_run || r.range == range::GAP);
        } else {
            self.run_reply(r, missed_run);
        }
    }

    /// Without messages: bytes towards the server begin an exchange where the last one has its reply.
    /// `missed`: what moved before it was not all recorded, so its reply may have been among that.
    fn run_request(&mut self, r: &OpRow, side: Side, missed: bool) {
        let ep = self.eps.at(r.flow, r.at);
        if let Some(&last) = ep.open.back() {
            let e = self.xs.get_mut(last);
            if missed {
                e.murky = true;
            } else if e.reply_start == OPEN {
                e.request_end = r.end;
                if side == Side::Server {
                    self.steps.request_progress(&self.xs, last, r.task, r.at);
                }
                return;
            }
            self.close(r.flow, last, r.at, true);
        }
        let e = Exchange {
            number: 0,
            flow: r.flow,
            side,
            request_start: r.start,
            request_end: r.end,
            reply_start: OPEN,
            reply_end: OPEN,
            arrived: r.arrived,
            received_to: r.end,
            began: if side == Side::Client { r.entry } else { r.at },
            taken: r.at,
            reply_began: MonoNs(0),
            ended: MonoNs(0),
            task: r.task,
            reply_task: TaskId::UNKNOWN,
            protocol: StrId::EMPTY,
            verb: StrId::EMPTY,
            target: StrId::EMPTY,
            detail: StrId::EMPTY,
            status: 0,
            failed: false,
            outcome_unknown: true,
            reset: false,
            cut: false,
            unfinished: false,
            replied: false,
            open_ended: true,
            by_order: true,
            one_way: false,
            queued: false,
            process: 0,
            witness: (0, 0),
            murky: false,
            unread_ns: 0,
            is_internal: false,
        };
        self.begin(r.flow, e, r.at);
    }

    fn begin(&mut self, flow: EndpointId, mut e: Exchange, at: MonoNs) -> ExId {
        e.process = self.steps.process_of(e.task);
        let peer = self.eps.get(&flow).and_then(|ep| self.eps.get(&ep.peer));
        let user = peer.map_or(TaskId::UNKNOWN, |p| p.user());
        e.is_internal = user != TaskId::UNKNOWN && self.steps.process_of(user) == e.process;
        let x = self.xs.insert(e);
        let ep = self.eps.at(flow, at);
        ep.open.push_back(x);
        ep.last_begun = Some(x);
        ep.ever_requested = true;
        self.steps.begun(&self.xs, x, at);
        x
    }

    /// `missed`: the request that it answers was not recorded.
    fn run_reply(&mut self, r: &OpRow, missed: bool) {
        let ep = self.eps.at(r.flow, r.at);
        let (side, met, asked) = (ep.side, ep.met, ep.ever_requested);
        match ep.open.back().copied() {
            Some(x) if missed => self.close(r.flow, x, r.at, true),
            Some(x) => return self.extend_reply(x, r),
            // a server may speak first; but a flow that is older than the recording owes a reply
            None if side == Some(Side::Server) && met && !asked => return self.steps.unseen_reply(r.task, r.at),
            None => {}
        }
        if side == Some(Side::Server) {
            self.steps.stray_reply(r.task, r.at);
        }
    }

    fn extend_reply(&mut self, x: ExId, r: &OpRow) {
        let e = self.xs.get_mut(x);
        let first = e.reply_start == OPEN;
        if first {
            e.reply_start = r.start;
            e.reply_began = if e.side == Side::Server { r.entry } else { r.at };
        }
        e.reply_end = r.end;
        e.ended = r.at;
        e.reply_task = r.task;
        if first {
            self.steps.reply_began(&self.xs, x, r.task, r.at);
        }
        self.steps.reply_progress(&self.xs, x, r.task, r.at);
    }

    /// With messages: request bytes may be more of a request whose head was read before.
    fn request_moved(&mut self, r: &OpRow, side: Side) {
        let last = self.eps.get(&r.flow).and_then(|ep| ep.open.back().copied());
        let Some(x) = last.filter(|_| side == Side::Server) else { return };
        let e = self.xs.get_mut(x);
        e.received_to = e.received_to.max(r.end);
        if e.request_start < r.start && r.start < e.request_end && !e.by_order {
            self.steps.request_progress(&self.xs, x, r.task, r.at);
        }
    }

    /// With messages: reply bytes may complete the oldest exchanges whose reply has begun.
    fn reply_moved(&mut self, r: &OpRow) {
        let Some(ep) = self.eps.get(&r.flow) else { return };
        let (met, asked, side) = (ep.met, ep.ever_requested, ep.side);
        if ep.open.is_empty() {
            if side == Some(Side::Server) {
                if met && !asked {
                    self.steps.unseen_reply(r.task, r.at);
                } else {
                    self.steps.stray_reply(r.task, r.at);
                }
            }
            return;
        }
        let open: Vec<ExId> = ep.open.iter().copied().filter(|&x| self.xs.get(x).reply_start != OPEN).collect();
        for x in open {
            let e = self.xs.get_mut(x);
            if r.end <= e.reply_start {
                continue;
            }
            if e.reply_end == OPEN || e.open_ended {
                // how far it goes shows later
                e.ended = r.at;
                e.reply_task = r.task;
                self.steps.reply_progress(&self.xs, x, r.task, r.at);
            } else if r.start < e.reply_end {
                e.ended = r.at;
                e.reply_task = r.task;
                let done = r.end >= e.reply_end;
                self.steps.reply_progress(&self.xs, x, r.task, r.at);
                if done {
                    self.close(r.flow, x, r.at, true);
                }
            }
        }
    }

    /// A message.
    pub fn message(&mut self, r: &MessageRow) {
        let ep = self.eps.at(r.flow, r.at);
        let is_request_dir = match (r.role, r.sent) {
            (role::REQUEST, s) => {
                ep.side.get_or_insert(if s == 1 { Side::Client } else { Side::Server });
                true
            }
            (role::REPLY, s) => {
                ep.side.get_or_insert(if s == 1 { Side::Server } else { Side::Client });
                false
            }
            (_, s) => {
                // neither asks nor answers, but explains its bytes
                let replies = ep.side == Some(if s == 1 { Side::Server } else { Side::Client });
                let explained = if replies { &mut ep.reply_explained_to } else { &mut ep.request_explained_to };
                if r.end != OPEN || !replies {
                    *explained = (*explained).max(r.end);
                }
                return;
            }
        };
        let Some(side) = ep.side else { return };
        if let Some((sent, span)) = ep.early.take() {
            // what it said now tells which side it is, and so what that operation moved
            if sent == (side == Side::Client) { ep.request.push_back(span) } else { ep.reply.push_back(span) }
        }
        if ep.murky {
            return;
        }
        if is_request_dir {
            // what lies between the last message and this one is told by none
            let skipped = ep.messages && (1..r.start).contains(&ep.request_explained_to);
            let (_, task, at) = ep.request_moved;
            // a request whose end is open explains all that comes until it is known
            ep.request_explained_to = r.end;
            if skipped {
                self.steps.unclear(&self.xs, side, task, at);
            }
            let Some(ep) = self.eps.get_mut(&r.flow) else { return };
            let span = ep.request.iter().find(|s| s.start <= r.start && r.start < s.end).copied();
            // the newest span is the one that completed the head
            let last = ep.request.back().copied();
            let flow = r.flow;
            while ep.request.front().is_some_and(|s| s.end <= r.start) {
                ep.request.pop_front();
            }
            // a request on a flow whose last reply only a turn can end ends it; so does an exchange made by direction
            let over: Vec<ExId> = ep
                .open
                .iter()
                .copied()
                .filter(|&x| {
                    let e = self.xs.get(x);
                    (e.open_ended && e.reply_start != OPEN) || e.by_order
                })
                .collect();
            for x in over {
                self.close(flow, x, r.at, true);
            }
            let Some(ep) = self.eps.get_mut(&flow) else { return };
            let owed: Vec<ExId> = ep.open.iter().copied().filter(|&x| self.xs.get(x).is_owed()).collect();
            let in_reply = ep.open.iter().any(|&x| self.xs.get(x).reply_start != OPEN);
            if std::mem::take(&mut ep.missed_reply) && !owed.is_empty() {
                if owed.len() > 1 {
                    self.become_murky(flow, r.at);
                    self.call_unseen(flow, side);
                    return;
                }
                // it was answered, and the answer was not recorded
                for &x in &owed {
                    self.xs.get_mut(x).murky = true;
                    self.close(flow, x, r.at, false);
                }
            }
            let Some(ep) = self.eps.get_mut(&flow) else { return };
            let owed: Vec<ExId> = ep.open.iter().copied().filter(|&x| self.xs.get(x).is_owed()).collect();
            if ep.reply_moved_to > ep.reply_explained_to && !in_reply {
                // a reply passed whose head was not captured: with one open request it can only be that one's
                match owed[..] {
                    [x] => {
                        let (from, to) = (ep.reply_explained_to, ep.reply_moved_to);
                        ep.reply_explained_to = to;
                        let s = ep.reply.back().copied();
                        let e = self.xs.get_mut(x);
                        (e.reply_start, e.reply_end) = (from, to);
                        if let Some(s) = s {
                            (e.reply_began, e.ended, e.reply_task) = (s.entry, s.at, s.task);
                        }
                        let task = e.reply_task;
                        self.steps.reply_began(&self.xs, x, task, r.at);
                        self.steps.reply_progress(&self.xs, x, task, r.at);
                        self.close(flow, x, r.at, true);
                    }
                    [] => ep.reply_explained_to = ep.reply_moved_to,
                    _ => {
                        self.become_murky(flow, r.at);
                        self.call_unseen(flow, side);
                        return;
                    }
                }
            }
            let at = last.map_or(r.at, |s| s.at);
            let one_way = r.flags & message_flag::NO_REPLY != 0;
            let e = Exchange {
                number: 0,
                flow,
                side,
                request_start: r.start,
                request_end: r.end,
                reply_start: OPEN,
                reply_end: OPEN,
                arrived: span.map_or(MonoNs(0), |s| s.arrived),
                received_to: last.map_or(0, |s| s.end),
                began: span.map_or(r.at, |s| if side == Side::Client { s.entry } else { s.at }),
                taken: at,
                reply_began: MonoNs(0),
                ended: MonoNs(0),
                task: last.map_or(TaskId::UNKNOWN, |s| s.task),
                reply_task: TaskId::UNKNOWN,
                protocol: r.protocol,
                verb: r.verb,
                target: r.target,
                detail: r.detail,
                status: 0,
                failed: false,
                outcome_unknown: true,
                reset: false,
                cut: false,
                unfinished: false,
                replied: false,
                open_ended: false,
                by_order: false,
                one_way,
                queued: r.flags & message_flag::QUEUED != 0,
                process: 0,
                witness: (r.witness_kind, r.witness),
                murky: false,
                unread_ns: 0,
                is_internal: false,
            };
            let x = self.begin(flow, e, r.at);
            if one_way && r.end != OPEN {
                self.close(flow, x, at, true);
            }
            return;
        }
        // a reply: the oldest exchange without one, or the one with the same identifier, where that names exchanges
        let is_named = witness::names_exchange(r.witness_kind);
        let found = ep.open.iter().copied().find(|&x| {
            let e = self.xs.get(x);
            e.is_owed() && !e.by_order && (!is_named || e.witness.0 != r.witness_kind || e.witness.1 == r.witness)
        });
        let spans: Vec<Span> = ep.reply.iter().filter(|s| s.end > r.start).copied().collect();
        while ep.reply.front().is_some_and(|s| s.end <= r.start) {
            ep.reply.pop_front();
        }
        let missed = r.start > ep.reply_explained_to && ep.reply_explained_to != 0;
        let owed = ep.open.iter().filter(|&&x| self.xs.get(x).is_owed()).count();
        if missed && owed > 1 && !is_named {
            let flow = r.flow;
            self.become_murky(flow, r.at);
            return;
        }
        ep.reply_explained_to = if r.end == OPEN { r.start } else { r.end };
        let (met, reached) = (ep.met, spans.iter().map(|s| s.end).max().unwrap_or(r.start));
        let Some(x) = found else {
            if side == Side::Server {
                let task = spans.last().map_or(TaskId::UNKNOWN, |s| s.task);
                if met { self.steps.unseen_reply(task, r.at) } else { self.steps.stray_reply(task, r.at) }
            }
            return;
        };
        let e = self.xs.get_mut(x);
        e.reply_start = r.start;
        e.reply_end = r.end;
        e.open_ended = r.end == OPEN;
        e.status = r.status;
        e.failed = r.failed == failed::YES;
        e.outcome_unknown = r.failed == failed::UNKNOWN;
        if r.detail != StrId::EMPTY {
            e.detail = r.detail;
        }
        let first = spans.first();
        e.reply_began = first.map_or(r.at, |s| if side == Side::Server { s.entry } else { s.at });
        let last = if r.end == OPEN { spans.last() } else { spans.iter().find(|s| s.end >= r.end).or(spans.last()) };
        e.ended = last.map_or(r.at, |s| s.at);
        e.reply_task = last.map_or(TaskId::UNKNOWN, |s| s.task);
        let (task, ended) = (e.reply_task, e.ended);
        self.steps.reply_began(&self.xs, x, task, r.at);
        self.steps.reply_progress(&self.xs, x, task, ended);
        if r.end != OPEN && reached >= r.end {
            self.close(r.flow, x, ended, true);
        }
    }

    /// The end of a message that was open, or news of its outcome.
    pub fn message_end(&mut self, r: &MessageEndRow) {
        let Some(ep) = self.eps.get(&r.flow) else { return };
        let Some(side) = ep.side else { return };
        let is_request_dir = (side == Side::Client) == (r.sent == 1);
        let found = ep.open.iter().copied().find(|&x| {
            let e = self.xs.get(x);
            (if is_request_dir { e.request_start } else { e.reply_start }) == r.start
        });
        if is_request_dir && r.end != OPEN {
            let to = r.end;
            if let Some(ep) = self.eps.get_mut(&r.flow).filter(|ep| ep.request_explained_to == OPEN) {
                ep.request_explained_to = to;
            }
        }
        let Some(x) = found else { return };
        let Some(ep) = self.eps.get(&r.flow) else { return };
        let reached = ep.reply.back().map_or(0, |s| s.end);
        let e = self.xs.get_mut(x);
        if is_request_dir {
            if r.end != OPEN {
                e.request_end = r.end;
            }
            if e.one_way {
                let at = ep.request.back().map_or(r.at, |s| s.at).max(e.taken);
                self.close(r.flow, x, at, true);
            }
            return;
        }
        match (r.how, r.failed) {
            (_, failed::YES) => (e.failed, e.outcome_unknown) = (true, false),
            (0, failed::NO) => e.outcome_unknown = false,
            _ => {}
        }
        if r.detail != StrId::EMPTY {
            e.detail = r.detail;
        }
        match r.how {
            0 => {}
            end_how::LOST => e.open_ended = true,
            _ => {
                e.reply_end = r.end;
                e.open_ended = false;
                if r.end != OPEN
                    && let Some(ep) = self.eps.get_mut(&r.flow)
                {
                    ep.reply_explained_to = ep.reply_explained_to.max(r.end);
                }
                let e = self.xs.get_mut(x);
                if r.end != OPEN && (reached >= r.end || r.how != end_how::FRAMED) {
                    let at = e.ended;
                    self.close(r.flow, x, at, true);
                }
            }
        }
    }

    /// From here on nobody can tell whose reply is whose on this flow. One exchange stays open for all that may still
    /// be asked on it, so that nothing is claimed past it.
    fn become_murky(&mut self, flow: EndpointId, at: MonoNs) {
        let Some(ep) = self.eps.get_mut(&flow) else { return };
        ep.murky = true;
        let open: Vec<ExId> = ep.open.iter().copied().collect();
        for (i, x) in open.into_iter().enumerate() {
            let e = self.xs.get_mut(x);
            e.murky = true;
            if i == 0 {
                (e.reply_start, e.reply_end, e.open_ended) = (OPEN, OPEN, false);
            } else {
                self.close(flow, x, at, false);
            }
        }
    }

    /// What was sent last is a call that cannot be followed.
    fn call_unseen(&mut self, flow: EndpointId, side: Side) {
        if let Some(ep) = self.eps.get(&flow).filter(|_| side == Side::Client) {
            let (_, task, at) = ep.request_moved;
            self.steps.unclear(&self.xs, side, task, at);
        }
    }

    fn left(&mut self, flow: EndpointId, task: TaskId, at: MonoNs) {
        if let Some(x) = self.eps.get(&flow).and_then(|ep| ep.last_begun) {
            self.steps.left(x, task, at);
        }
    }

    /// A change of the flow's state.
    pub fn state(&mut self, r: &FlowStateRow) {
        if r.by_task == 1 {
            self.left(r.flow, r.task, r.at);
        }
        if let Some((task, error)) = self.refusals.state(r) {
            self.steps.refused(&self.xs, r.flow, task, r.at, error);
        }
        if r.reset != 0 {
            self.ended(r.flow, r.at, true);
        } else if r.new == TCP_CLOSE {
            self.ended(r.flow, r.at, false);
            self.end(r.flow, r.at);
        }
    }

    /// The flow ended (at least towards us): what is open will not go on.
    fn ended(&mut self, flow: EndpointId, at: MonoNs, reset: bool) {
        let Some(ep) = self.eps.get(&flow) else { return };
        if ep.open.is_empty() {
            return;
        }
        let side = ep.side;
        let open: Vec<ExId> = ep.open.iter().copied().collect();
        for x in open {
            let e = self.xs.get_mut(x);
            let replied = e.reply_start != OPEN;
            // a client that half-closes still waits for its reply
            if side == Some(Side::Server) && !reset && !(replied && e.open_ended) {
                continue;
            }
            let whole = replied && (e.open_ended || e.reply_end == OPEN) && !reset;
            if !whole {
                e.reset = reset;
                e.cut = !reset;
                if e.ended.0 == 0 {
                    e.ended = at;
                }
            }
            self.close(flow, x, at, whole);
        }
    }

    fn close(&mut self, flow: EndpointId, x: ExId, at: MonoNs, whole: bool) {
        let e = self.xs.get_mut(x);
        e.replied = whole && (e.reply_start != OPEN || e.one_way);
        if e.ended.0 == 0 {
            e.ended = at;
        }
        if let Some(ep) = self.eps.get_mut(&flow) {
            ep.open.retain(|&o| o != x);
            e.unread_ns = std::mem::take(&mut ep.unread_ns);
        }
        self.steps.closed(&self.xs, x, at);
        if !S::KEEPS {
            self.xs.release(x);
        }
    }

    /// The recording is over: whatever is open is closed as cut.
    pub fn finish(&mut self, at: MonoNs) {
        for flow in self.eps.open() {
            let open: Vec<ExId> = self.eps.get(&flow).map(|e| e.open.iter().copied().collect()).unwrap_or_default();
            for x in open {
                self.xs.get_mut(x).unfinished = true;
            }
            self.cut(flow, at);
        }
    }
}
