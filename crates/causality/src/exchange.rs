//! Exchanges: a request and its reply as one endpoint saw them.
//!
//! Where the protocol is known its messages make them; elsewhere a change of direction does (vPath §2.2's communication pattern, merged
//! operations of its Algorithm 1). The engine keeps only what is open, and hands every step to a [`Steps`] in the order on the host.

mod channels;
mod direction;
mod ends;
mod lanes;
mod leaving;
mod messages;
mod opening;
mod record;
mod refusals;
mod said;
mod turns;

use crate::process::ProcessId;
pub use crate::slab::{ExId, Slab};
pub use channels::Channels;
use direction::Span;
pub(crate) use ends::is_peer;
use ends::{Early, Ends, FlowFlag, NO_SOCKET};
use leaving::Left;
pub use leaving::Sign;
pub use opening::Opening;
pub use record::{Answered, Asked, ByClient, Content, Exchange, ExchangeFlag, Said, Side};
use refusals::{Connect, Refusals};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    EndpointRow, FlowNoteRow, FlowStateRow, Life, OPEN, OpKind, OpRow, RangeHow, Reset, SeenHow, StreamRow, TaskRow,
    TcpState, op_flag,
};

/// Most streams that are about to begin.
const ASKING_MAX: usize = 1 << 16;
/// How many exchanges of a connection that several requests share stay open: to lines of a log there may never be a reply.
const SHARED_MAX: usize = 32;

/// Which end serves, of flows that are older than the recording: their announcement does not tell, but what was said later. `None`: nothing
/// told it, though bytes went both ways.
pub type Sides = FxHashMap<EndpointId, Option<Side>>;

/// Whose bytes are sent after a request that has no reply yet, whose protocol is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// They are more of that request.
    OfIt,
    /// Another's: they begin a request of their own.
    OfAnother,
    /// It is not known.
    Unknown,
}

/// What happens to exchanges, in order: each hears what it asks for.
pub trait Steps {
    /// Whether exchanges are still asked for after [`Steps::closed`]; else their places are given back at once.
    const KEEPS: bool;
    /// A server's request was read as far as its head, or a client's was sent.
    fn begun(&mut self, _: &Slab, _x: ExId, _: MonoNs) {}
    /// More of the request was received (server) by this task.
    fn request_progress(&mut self, _: &Slab, _x: ExId, _: TaskId, _: MonoNs) {}
    /// A task reads from a pipe or a pair of sockets that is no way between processes: its own process may have asked it for something.
    fn reads_within(&mut self, _: TaskId, _: MonoNs) {}
    /// A task moves bytes from one thread of its process to another, on this way.
    fn moved_within(&mut self, _way: u64, _: &OpRow) {}
    /// A task sends on a client's flow, of an unknown protocol, before there is a reply to `y`.
    fn sends_more(&mut self, _: &Slab, _y: ExId, _: TaskId, _: MonoNs) -> More {
        More::OfIt
    }
    /// The first bytes of the reply moved.
    fn reply_began(&mut self, _: &Slab, _x: ExId, _: TaskId, _: MonoNs) {}
    /// More of the reply was received (client) by this task.
    fn reply_progress(&mut self, _: &Slab, _x: ExId, _: TaskId, _: MonoNs) {}
    /// A message told what an exchange is that began before its protocol was known.
    fn identified(&mut self, _: &Slab, _: ExId) {}
    /// A task reads from a flow whose messages overlap: frames that may let another request go on.
    fn read_frames(&mut self, _: TaskId) {}
    /// The reply is complete, or will never be.
    fn closed(&mut self, xs: &Slab, x: ExId, at: MonoNs);
    /// How the body of the reply to `x` begins was read after its head.
    fn reply_says(&mut self, _: &Slab, _x: ExId, _: MonoNs) {}
    /// How the body of a reply of a process begins was read: to a call of it, or its own.
    fn said(&mut self, _: ProcessId, _: Side, _: Said) {}
    /// A task accepted a flow.
    fn accepted(&mut self, _: EndpointId, _: TaskId, _: MonoNs) {}
    /// A task connects a flow.
    fn connecting(&mut self, _: &Slab, _flow: EndpointId, _: TaskId, _: MonoNs) {}
    /// A connection that this task wanted did not come about, for this reason (Linux's error number, 0 = not known).
    fn refused(&mut self, _: &Slab, _: EndpointId, _: TaskId, _tried: (MonoNs, MonoNs), _error: i32) {}
    /// A reply left whose request was not seen.
    fn unseen_reply(&mut self, _: TaskId, _: MonoNs) {}
    /// A task replied to a request that was not seen.
    fn stray_reply(&mut self, _: TaskId, _: MonoNs) {}
    /// A task moved request bytes that no message explains: a request of which nothing is known.
    fn unclear(&mut self, _: &Slab, _: Side, _: TaskId, _: MonoNs) {}
    /// A task asks another process on a pipe that several use: what that does for it is not followed.
    fn unfollowed(&mut self, _: &Slab, _: TaskId, _: MonoNs) {}
    /// A process moved request bytes of unknown borders on a shared connection: any open request may have made calls unseen.
    fn unread(&mut self, _: &Slab, _: ProcessId, _: MonoNs) {}
    /// Its client closed the flow amid a call: it waits for the rest of the reply no longer.
    fn gave_up(&mut self, _: &Slab, _y: ExId, _: TaskId) {}
    /// A task shuts a flow down or closes it; this was the last exchange on it.
    fn left(&mut self, _last: ExId, _: TaskId, _: MonoNs) {}
    /// Nothing will happen on the flow any more.
    fn flow_gone(&mut self, xs: &Slab, flow: EndpointId);
    /// Turns alone pair messages on a connection of which a process has this side, and its server said something unasked.
    fn pushed(&mut self, _process: ProcessId, _: Side) {}
    /// The message `x` comes from a client that was told something before, last at `told`.
    fn hears_back(&mut self, _: &Slab, _x: ExId, _told: MonoNs, _: MonoNs) {}
    /// A client was told something that answers no request.
    fn message_unasked(&mut self, _process: ProcessId, _: MonoNs) {}
    /// Whether a push was ever seen of it: then turns do not tell what answers what. A first pass cannot know yet.
    fn pushes(&self, _process: ProcessId, _: Side) -> bool {
        false
    }
    /// Whether a task works on one request at a time, and is done with it when it takes another or closes its connection.
    fn turns_away(&self, _: TaskId) -> bool {
        true
    }
    /// What was seen last of a request whose client left.
    fn sign(&self, _: &Slab, _x: ExId) -> Sign {
        Sign::default()
    }
    /// The longest time in which the process replied to a request (ns).
    fn longest(&self, _process: ProcessId) -> u64 {
        0
    }
    /// The process of a task: the number of its leading task.
    fn process_of(&self, task: TaskId) -> ProcessId;
}

/// Makes exchanges of one host's rows.
pub struct Engine<S: Steps> {
    eps: Ends,
    refusals: Refusals,
    left: Left,
    /// Which end serves, where an announcement does not tell: what was learned before, and what is learned now.
    pub sides: Sides,
    /// Pipes and pairs of sockets on which processes talk: the same.
    pub channels: Channels,
    /// Who asks by a stream that is about to begin: by who writes for its connection, and the stream's number.
    asking: FxHashMap<(TaskId, u64), TaskId>,
    /// The exchanges.
    pub xs: Slab,
    /// Where steps go.
    pub steps: S,
}

impl<S: Steps> Engine<S> {
    /// An engine that has seen nothing, but perhaps learned which ends serve.
    pub fn new(steps: S, sides: Sides, channels: Channels) -> Engine<S> {
        Engine {
            eps: Ends::default(),
            refusals: Refusals::default(),
            left: Left::default(),
            sides,
            channels,
            asking: FxHashMap::default(),
            xs: Slab::default(),
            steps,
        }
    }

    /// A logical task asks by a stream, for which another one writes.
    pub fn asks_by_stream(&mut self, r: &StreamRow) {
        if r.calls == 0 {
            return;
        }
        if self.asking.len() >= ASKING_MAX {
            self.asking.clear();
        }
        self.asking.insert((r.by, r.stream), r.task);
    }

    /// An endpoint was announced.
    pub fn endpoint(&mut self, r: &EndpointRow) {
        self.channels.endpoint(r);
        let ep = self.eps.at(r.flow, r.at);
        ep.announced(r.task, r.rport != 0);
        ep.side = ep.side.or(Side::of(r.side));
        ep.traits.flags.add_if(FlowFlag::Older, r.how == SeenHow::Met || r.how == SeenHow::Snapshot);
        if let Some(opening) = ep.traits.opening.as_mut().filter(|_| r.how == SeenHow::Connected) {
            opening.connected(r.at);
        }
        self.eps.pair(r);
    }

    /// A step in a task's life.
    pub fn task(&mut self, r: &TaskRow) {
        let Engine { channels, steps, .. } = self;
        channels.task(r, |task| steps.process_of(task));
        if r.what != Life::Exit {
            return;
        }
        self.turned(r.task, None, r.at);
        if r.tid == r.tgid {
            let process = self.steps.process_of(r.task);
            self.eps.process_ended(process, r.at);
            self.process_ended(process, r.at);
        }
    }

    /// Time went on to `now`: forgets ends of which nothing more can come, and gives them. TCP says when a connection is
    /// over; of other sockets only their descriptors and processes tell.
    pub fn forget(&mut self, now: MonoNs) -> Vec<EndpointId> {
        self.silent(now);
        let gone = self.eps.over(now, |task| self.steps.process_of(task));
        for &flow in &gone {
            self.end(flow, now);
        }
        gone
    }

    /// The flow is over: what is open on it was cut off.
    fn end(&mut self, flow: EndpointId, at: MonoNs) {
        self.is_answered_unseen(flow);
        self.cut(flow, at);
        if self.eps.remove(flow, at) {
            self.steps.flow_gone(&self.xs, flow);
        }
    }

    /// Closes what is open on a flow, as cut off where its end was not seen.
    fn cut(&mut self, flow: EndpointId, at: MonoNs) {
        let open = self.eps.get(&flow).map(|e| e.open.clone()).unwrap_or_default();
        for x in open {
            let e = self.xs.get_mut(x);
            let whole = e.reply.start != OPEN && e.is(ExchangeFlag::OpenEnded);
            e.flags.set(ExchangeFlag::Cut, !whole);
            self.close(flow, x, at, whole);
        }
    }

    /// A protocol was recognised, or given up, or lost where its next message begins.
    pub fn note(&mut self, r: &FlowNoteRow) {
        if self.note_on_lane(r) {
            return;
        }
        let ep = self.eps.at(r.flow, r.at);
        ep.traits.flags.add_if(FlowFlag::ByMessages, r.protocol != StrId::EMPTY);
        // where no reply is due, no turn shows that requests went unseen
        let is_owed = ep.open.iter().any(|&x| self.xs.get(x).is_owed());
        if r.protocol != StrId::EMPTY && r.reason != StrId::EMPTY && (ep.is(FlowFlag::Interleaves) || !is_owed) {
            ep.traits.unframed = Some(r.at);
            let (asker, interleaves) = (ep.requested.0, ep.may_interleave());
            if ep.side == Some(Side::Client) && asker != TaskId::UNKNOWN {
                self.went_unseen(asker, interleaves, r.at);
            }
        }
    }

    /// Requests may have gone in what a client sent: its own, or, where a connection carries many at once, anybody's of its
    /// process.
    fn went_unseen(&mut self, sender: TaskId, interleaves: bool, at: MonoNs) {
        if interleaves {
            let process = self.steps.process_of(sender);
            self.steps.unread(&self.xs, process, at);
        } else {
            self.steps.unclear(&self.xs, Side::Client, sender, at);
        }
    }

    /// An operation.
    pub fn operation(&mut self, r: &OpRow) {
        if self.left.is_on(r.flow) && self.after_leaving(r) {
            return;
        }
        if matches!(r.kind, OpKind::Send | OpKind::Recv) && r.end > r.start {
            if Channels::may_be_lane(r.flow) {
                return self.moved_on_lane(r);
            }
            return self.moved(r);
        }
        self.eps.used(r);
        match r.kind {
            OpKind::Recv if r.result <= 0 => {
                self.client_left(r.flow, r.at);
                self.ended(r.flow, r.at, r.result < 0);
            }
            OpKind::Send if r.result < 0 => self.failed_to_send(r),
            OpKind::Connect => {
                let connect = self.refusals.connect(r);
                let ep = self.eps.at(r.flow, r.at);
                ep.side.get_or_insert(Side::Client);
                ep.traits.opening = (!ep.is(FlowFlag::Requested)).then(|| Box::new(Opening::new(r)));
                match connect {
                    Connect::Begun => self.steps.connecting(&self.xs, r.flow, r.actor(), r.at),
                    Connect::Failed(error) => self.steps.refused(&self.xs, r.flow, r.actor(), (r.entry, r.at), error),
                    Connect::Told => {}
                }
            }
            OpKind::Accept => {
                self.eps.at(r.flow, r.at).side.get_or_insert(Side::Server);
                self.steps.accepted(r.flow, r.actor(), r.at);
            }
            OpKind::Close | OpKind::Shutdown => {
                if r.kind == OpKind::Close {
                    self.gave_up(r.flow, r.actor(), r.at);
                }
                self.left(r.flow, r.actor(), r.at);
            }
            _ => {}
        }
    }

    fn moved(&mut self, r: &OpRow) {
        let sent = r.kind == OpKind::Send;
        let ep = self.eps.at(r.flow, r.at);
        ep.used(r);
        let is_over = ep.side.is_none() && sent && self.eps.sent_at_its_end(r);
        let ep = self.eps.at(r.flow, r.at);
        if ep.side.is_none() {
            ep.side = self.sides.get(&r.flow).copied().flatten();
        }
        let Some(side) = ep.side else { return self.moved_by_either(r, sent) };
        let is_request = (side == Side::Client) == sent;
        if let Some(opening) = &mut ep.traits.opening {
            opening.moved(r, sent);
        }
        if side == Side::Server {
            ep.sends_to_reader(r, sent);
        }
        // the kernel's programs note each change of direction, also where the record of it found no room; where both ways are used at
        // once, two operations may be noted in another order than they ended in
        let missed_run = r.flags & op_flag::TURN != 0
            && ep.traits.last_was_request == Some(is_request)
            && !ep.is(FlowFlag::Interleaves);
        // a reply ends where a request follows, or where its message did
        let goes_on = !is_request && ep.traits.last_was_request == Some(false) && r.start != ep.replies.explained_to;
        ep.traits.last_was_request = Some(is_request);
        ep.traits.flags.add_if(FlowFlag::MissedReply, missed_run && is_request);
        ep.push_span(r, is_request, goes_on);
        // a head may be moved in pieces, but when the flow turns it has had its chance to be explained
        let (flags, to, (task, at)) = (ep.traits.flags, ep.requests.moved_to, ep.requested);
        let (messages, interleaves) = (flags.has(FlowFlag::ByMessages), flags.has(FlowFlag::Interleaves));
        // a pipe does not turn: both ways are written and read at once
        let is_way = Channels::is_end(r.flow);
        let unclear = messages
            && !interleaves
            && !is_way
            && !is_request
            && to > ep.requests.explained_to
            && ep.requests.explained_to != 0;
        if unclear {
            ep.requests.explained_to = to;
        }
        if is_request {
            ep.requested = (r.actor(), r.at);
        }
        let direction = if is_request { &mut ep.requests } else { &mut ep.replies };
        direction.moved_to = direction.moved_to.max(r.end);
        if direction.explained_to == 0 {
            direction.explained_to = r.start;
        }
        let (is_unframed, may_interleave) = (ep.traits.unframed.is_some(), ep.may_interleave());
        if interleaves && !sent {
            self.steps.read_frames(r.actor());
        }
        if unclear {
            self.steps.unclear(&self.xs, side, task, at);
        }
        if missed_run && !is_request {
            self.steps.unclear(&self.xs, side, r.actor(), r.at);
        }
        if is_unframed && is_request && side == Side::Client {
            self.went_unseen(r.actor(), may_interleave, r.at);
        }
        if flags.has(FlowFlag::UnclearBorders) {
            if is_request && side == Side::Client {
                self.steps.unclear(&self.xs, side, r.actor(), r.at);
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
            self.run_request(r, side, missed_run || r.range == RangeHow::Gap);
            if is_over {
                self.met_its_end(r.flow, r.at);
            }
        } else {
            self.run_reply(r, missed_run);
        }
    }

    /// What a client sent into a flow that was over: it gets no answer.
    fn met_its_end(&mut self, flow: EndpointId, at: MonoNs) {
        self.ended(flow, at, true);
        self.end(flow, at);
    }

    /// An operation on a flow of which it is not known yet which end it is.
    fn moved_by_either(&mut self, r: &OpRow, sent: bool) {
        let is_first = self.eps.at(r.flow, r.at).early.is_none();
        if is_first && self.eps.has_gone(r.flow) {
            return;
        }
        let ep = self.eps.at(r.flow, r.at);
        let before = ep.early.take();
        let is_answered = before.is_some_and(|b| b.is_answered || b.sent != sent);
        ep.early = Some(Box::new(Early { sent, last: Span::of(r), is_answered }));
        let (is_announced, has_ports) = (ep.is_announced(), ep.has_ports());
        if !has_ports && is_announced {
            return self.moved_on_lane(r);
        }
        // who sends on a socket whose announcement was lost, or that never tells, does something that cannot be shown; and what
        // follows without a turn may be another's
        let is_call = if is_announced { self.sides.get(&r.flow) == Some(&None) } else { r.flow.0 < NO_SOCKET };
        if is_answered && has_ports && !self.is_to_itself(r.flow, r.actor()) {
            self.sides.insert(r.flow, None);
        }
        if sent && is_call {
            self.steps.unclear(&self.xs, Side::Client, r.actor(), r.at);
        }
    }

    /// Whether the other end of a flow is the same process's.
    fn is_to_itself(&self, flow: EndpointId, task: TaskId) -> bool {
        let peer = self.eps.get(&flow).and_then(|ep| self.eps.get(&ep.other.flow));
        let user = peer.map_or(TaskId::UNKNOWN, |p| p.user());
        user != TaskId::UNKNOWN && self.steps.process_of(user) == self.steps.process_of(task)
    }

    fn begin(&mut self, flow: EndpointId, mut e: Exchange, at: MonoNs) -> ExId {
        if e.side == Side::Server {
            self.turned(e.request.actor, Some(flow), at);
        }
        e.process = self.steps.process_of(e.request.actor);
        e.flags.set(ExchangeFlag::Internal, self.is_to_itself(flow, e.request.actor));
        e.flags.add_if(ExchangeFlag::UnclearBorders, self.eps.get(&flow).is_some_and(|ep| ep.is(FlowFlag::Shared)));
        let ep = self.eps.at(flow, at);
        let told = ep.traits.told;
        e.client.opening = ep.traits.opening.take().filter(|o| e.side == Side::Client && o.is_by(e.request.actor));
        let x = self.xs.insert(e);
        ep.open.push(x);
        ep.last_begun = Some(x);
        ep.traits.flags.add(FlowFlag::Requested);
        if told != MonoNs(0) {
            self.steps.hears_back(&self.xs, x, told, at);
        }
        self.steps.begun(&self.xs, x, at);
        x
    }

    /// With messages: request bytes may be more of a request whose head was read before.
    fn request_moved(&mut self, r: &OpRow, side: Side) {
        let last = self.eps.get(&r.flow).and_then(|ep| ep.open.last().copied());
        let last = last.or_else(|| self.left.on(r.flow).last().copied());
        let Some(x) = last.filter(|_| side == Side::Server) else { return };
        let e = self.xs.get_mut(x);
        e.reads_more(r);
        if e.request.start < r.start && r.start < e.request.end && !e.is_by_direction() {
            self.steps.request_progress(&self.xs, x, r.actor(), r.at);
        }
    }

    /// With messages: reply bytes may complete the oldest exchanges whose reply has begun.
    fn reply_moved(&mut self, r: &OpRow) {
        let Some(ep) = self.eps.get(&r.flow) else { return };
        let (flags, side) = (ep.traits.flags, ep.side);
        if ep.is(FlowFlag::Unpaired) {
            return;
        }
        if ep.open.is_empty() {
            if side == Some(Side::Server) {
                if flags.has(FlowFlag::Older) && !flags.has(FlowFlag::Requested) {
                    self.steps.unseen_reply(r.actor(), r.at);
                } else {
                    self.steps.stray_reply(r.actor(), r.at);
                }
            }
            return;
        }
        let open: SmallVec<[ExId; 4]> =
            ep.open.iter().copied().filter(|&x| self.xs.get(x).reply.start != OPEN).collect();
        for x in open {
            let e = self.xs.get_mut(x);
            if r.end <= e.reply.start {
                continue;
            }
            if e.reply.end == OPEN || e.is(ExchangeFlag::OpenEnded) {
                // how far it goes shows later
                e.replies_by(r);
                self.steps.reply_progress(&self.xs, x, r.actor(), r.at);
            } else if r.start < e.reply.end {
                e.replies_by(r);
                let done = r.end >= e.reply.end;
                self.steps.reply_progress(&self.xs, x, r.actor(), r.at);
                if done {
                    self.close(r.flow, x, r.at, true);
                }
            }
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
        if let Some((task, since, error)) = self.refusals.state(r) {
            self.steps.refused(&self.xs, r.flow, task, (since, r.at), error);
        }
        let is_own = self.is_by_its_user(r);
        match r.new {
            _ if !is_own && (r.reset != Reset::None || r.new == TcpState::CloseWait) => self.client_left(r.flow, r.at),
            TcpState::FinWait1 | TcpState::LastAck | TcpState::Close if is_own => self.shut(r.flow),
            _ => {}
        }
        if r.reset != Reset::None {
            self.ended(r.flow, r.at, true);
        } else if r.new == TcpState::Close {
            self.ended(r.flow, r.at, false);
            self.works_on(r.flow, r.at, false);
            self.end(r.flow, r.at);
        }
    }

    /// The flow ended (at least towards us): what is open will not go on.
    fn ended(&mut self, flow: EndpointId, at: MonoNs, reset: bool) {
        if reset {
            self.works_on(flow, at, true);
        }
        let Some(ep) = self.eps.get(&flow) else { return };
        if ep.open.is_empty() {
            return;
        }
        let (side, open) = (ep.side, ep.open.clone());
        for x in open {
            let e = self.xs.get_mut(x);
            let replied = e.reply.start != OPEN;
            // a client that half-closes still waits for its reply
            if side == Some(Side::Server) && !reset && !(replied && e.is(ExchangeFlag::OpenEnded)) {
                continue;
            }
            let whole = replied && (e.is(ExchangeFlag::OpenEnded) || e.reply.end == OPEN) && !reset;
            if !whole {
                e.flags.set(ExchangeFlag::Reset, reset);
                e.flags.set(ExchangeFlag::Cut, !reset);
                e.ended_by(at);
            }
            self.close(flow, x, at, whole);
        }
    }

    fn close(&mut self, flow: EndpointId, x: ExId, at: MonoNs, whole: bool) {
        let e = self.xs.get_mut(x);
        e.flags.set(ExchangeFlag::Replied, whole && (e.reply.start != OPEN || e.is(ExchangeFlag::OneWay)));
        e.ended_by(at);
        if let Some(ep) = self.eps.get_mut(&flow) {
            ep.open.retain(|o| *o != x);
            // a message that is told late makes the end anew, which may know nothing of that
            if !e.is(ExchangeFlag::Replied) && !e.is(ExchangeFlag::OneWay) && e.side == Side::Server {
                e.client.left = e.client.left.max(ep.other.left);
            }
            e.client.unread_ns = std::mem::take(&mut ep.unread.total_ns);
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
                self.xs.get_mut(x).flags.add(ExchangeFlag::Unfinished);
            }
            self.cut(flow, at);
        }
        self.recording_ended(at);
    }

    /// Nobody recorded from then on, for a while. What was open may have ended in it, and what a flow moved meanwhile is not known.
    pub fn paused(&mut self, at: MonoNs) {
        self.finish(at);
        self.eps.paused();
    }
}
