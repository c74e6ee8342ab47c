//! Requests whose client left before the reply was complete. The server does not stop for that: what it calls is for the request
//! until it turns to something else.
//!
//! - A task that works on one request at a time is done with it when it takes the next one, closes the connection, or ends.
//! - Whoever tries to send on the connection has come to the reply.
//! - An event loop is done where it closed the connection and, too, all that it was asking for the request (proxies do).
//! - Of others no row tells. They are waited for as long as the process ever worked on a request, and their paths say that what they
//!   did then is not known.
//!
//! Where a connection carries several requests at once, a client may take one back and keep the connection (HTTP/2's streams). It has left
//! that one alike; but then neither what is sent on the connection tells of it, nor the next request there.

use super::ends::{Ep, FlowFlag};
use super::record::{Answered, Exchange, Side};
use super::{Engine, ExchangeFlag, Steps};
use crate::process::ProcessId;
use crate::slab::ExId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{FlowStateRow, MessageRow, OPEN, OpKind, OpRow};

/// System calls that move bytes past the program (`sendfile`, `splice`), by their numbers on x86-64.
const UNSEEN: [u16; 2] = [40, 275];
/// Most requests taken back that are remembered of a connection: their replies may be on their way.
const WITHDRAWN_MAX: usize = 1 << 10;
/// Most of them that are followed at once.
const LEFT_MAX: usize = 1 << 14;

/// What was seen of a request whose client left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sign {
    /// When a call of its was begun or over last; 0: never.
    pub last: MonoNs,
    /// A call of its is under way.
    pub is_waiting: bool,
    /// Its process dropped calls that were under way for it.
    pub has_dropped: bool,
}

/// Those that are followed.
#[derive(Default)]
pub(super) struct Left {
    /// By their connection; and who closed that, where the server did.
    on_flow: FxHashMap<EndpointId, (SmallVec<[ExId; 1]>, Option<TaskId>)>,
    /// By who took them.
    of_task: FxHashMap<TaskId, SmallVec<[ExId; 1]>>,
}

impl Left {
    /// Whether one came on this connection.
    pub(super) fn is_on(&self, flow: EndpointId) -> bool {
        !self.on_flow.is_empty() && self.on_flow.contains_key(&flow)
    }

    fn all(&self) -> Vec<ExId> {
        let mut all: Vec<ExId> = self.of_task.values().flatten().copied().collect();
        all.sort_unstable();
        all
    }

    pub(super) fn on(&self, flow: EndpointId) -> SmallVec<[ExId; 1]> {
        self.on_flow.get(&flow).map_or(SmallVec::new(), |on| on.0.clone())
    }

    fn remove(&mut self, flow: EndpointId, task: TaskId, x: ExId) {
        if let Some((on, _)) = self.on_flow.get_mut(&flow) {
            on.retain(|o| *o != x);
            if on.is_empty() {
                self.on_flow.remove(&flow);
            }
        }
        if let Some(of) = self.of_task.get_mut(&task) {
            of.retain(|o| *o != x);
            if of.is_empty() {
                self.of_task.remove(&task);
            }
        }
    }
}

impl<S: Steps> Engine<S> {
    /// The other end of a server's connection closed or reset it: noted for what is not replied to then.
    pub(super) fn client_left(&mut self, flow: EndpointId, at: MonoNs) {
        let is_there = |ep: &&Ep| ep.other.left == MonoNs(0) && !ep.is_shut && ep.closed_by().is_none();
        if self.eps.get(&flow).filter(is_there).is_none() || self.is_answered_unseen(flow) {
            return;
        }
        if let Some(ep) = self.eps.get_mut(&flow) {
            ep.other.left = at;
        }
    }

    /// A client takes a request back, and keeps the flow: it waits for the reply no longer. One whose reply has begun goes on.
    pub(super) fn withdrawn(&mut self, r: &MessageRow) {
        let Some(ep) = self.eps.get_mut(&r.flow) else { return };
        let (sender, xs) = (ep.requested.0, &self.xs);
        let is_its = |e: &Exchange| e.is_owed() && e.content.witness == (r.witness_kind, r.witness);
        let Some(x) = ep.open.iter().copied().find(|&x| is_its(xs.get(x))) else { return };
        if ep.traits.withdrawn.len() == WITHDRAWN_MAX {
            ep.traits.withdrawn.remove(0);
        }
        ep.traits.withdrawn.push(r.witness);
        ep.open.retain(|o| *o != x);
        let e = self.xs.get_mut(x);
        e.client.left = r.at;
        e.flags.add(ExchangeFlag::Cut);
        let (side, process, task) = (e.side, e.process, e.request.actor);
        if side == Side::Server {
            return self.follow(x, r.flow, task, r.at);
        }
        self.steps.gave_up(&self.xs, x, sender);
        self.close(r.flow, x, r.at, false);
        self.dropped(process, r.at);
    }

    /// Whether a reply that finds no open request is one to what its client took back. Who sends it has come to the reply.
    pub(super) fn is_too_late(&mut self, r: &MessageRow, by: TaskId) -> bool {
        let is_withdrawn = |ep: &Ep| ep.traits.withdrawn.contains(&r.witness);
        if !r.witness_kind.names_exchange() || !self.eps.get(&r.flow).is_some_and(is_withdrawn) {
            return false;
        }
        let is_its = |x: &ExId| self.xs.get(*x).content.witness == (r.witness_kind, r.witness);
        if let Some(x) = self.left.on(r.flow).into_iter().find(is_its) {
            self.steps.reply_began(&self.xs, x, by, r.at);
            self.is_done(x, r.at, r.at);
        }
        true
    }

    /// A client closes a flow amid calls: it waits for their answers no longer, however long the other end keeps the flow.
    pub(super) fn gave_up(&mut self, flow: EndpointId, task: TaskId, at: MonoNs) {
        let is_clients = self.eps.get(&flow).is_some_and(|ep| ep.side == Some(Side::Client));
        if !is_clients || self.is_answered_unseen(flow) {
            return;
        }
        let process = self.steps.process_of(task);
        for x in self.eps.get(&flow).map(|ep| ep.open.clone()).unwrap_or_default() {
            let e = self.xs.get_mut(x);
            e.ended_by(at);
            // a child closes what it has of its parent's, too
            if e.process == process {
                self.steps.gave_up(&self.xs, x, task);
            }
        }
        self.dropped(process, at);
    }

    /// Whether something moved after the only open request by a call whose bytes nobody sees: then that is its reply.
    pub(super) fn is_answered_unseen(&mut self, flow: EndpointId) -> bool {
        let Some(ep) = self.eps.get(&flow) else { return false };
        let moved = ep.replies.spans.last().filter(|s| s.end > ep.replies.explained_to);
        let (Some(moved), [x]) = (moved, &ep.open[..]) else { return false };
        let e = self.xs.get_mut(*x);
        let is_unseen = UNSEEN.contains(&moved.syscall) && !ep.is(FlowFlag::Interleaves);
        if e.reply.start != OPEN || e.is_by_direction() || moved.entry < e.request.taken || !is_unseen {
            return false;
        }
        let began = if e.side == Side::Server { moved.entry } else { moved.at };
        let (task, actor) = (moved.task, moved.actor);
        e.reply = Answered { start: moved.start, end: moved.end, began, ended: moved.at, task, actor };
        e.flags.add(ExchangeFlag::OpenEnded);
        e.flags.add(ExchangeFlag::OutcomeUnknown);
        let (x, at) = (*x, moved.at);
        self.steps.reply_began(&self.xs, x, actor, at);
        self.steps.reply_progress(&self.xs, x, actor, at);
        true
    }

    /// Whether a task of the process that uses an end changed its state. (Over loopback the peer's task may be at work in the kernel.)
    pub(super) fn is_by_its_user(&self, r: &FlowStateRow) -> bool {
        let user = self.eps.get(&r.flow).map_or(TaskId::UNKNOWN, |ep| ep.user());
        r.by_task == 1 && self.steps.process_of(user) == self.steps.process_of(r.task)
    }

    /// The server shut its own end of a connection.
    pub(super) fn shut(&mut self, flow: EndpointId) {
        if let Some(ep) = self.eps.get_mut(&flow) {
            ep.is_shut = true;
        }
    }

    /// A server's connection is over: what it was asked there and has not replied to, it works on where it was the client that left.
    pub(super) fn works_on(&mut self, flow: EndpointId, at: MonoNs, reset: bool) {
        let Some(ep) = self.eps.get_mut(&flow) else { return };
        if ep.side != Some(Side::Server) || ep.other.left == MonoNs(0) {
            return;
        }
        let (left, closed_by) = (ep.other.left, ep.closed_by());
        for x in ep.open.clone() {
            let e = self.xs.get_mut(x);
            let is_whole = e.reply.start != OPEN && (e.is(ExchangeFlag::OpenEnded) || e.reply.end == OPEN) && !reset;
            if is_whole || e.is(ExchangeFlag::OneWay) || e.is(ExchangeFlag::Internal) {
                continue;
            }
            e.client.left = left;
            e.flags.set(ExchangeFlag::Reset, reset);
            e.flags.set(ExchangeFlag::Cut, !reset);
            if let Some(ep) = self.eps.get_mut(&flow) {
                ep.open.retain(|o| *o != x);
            }
            let task = self.xs.get(x).request.actor;
            self.follow(x, flow, task, at);
        }
        if let Some(by) = closed_by {
            self.closed_after_leaving(flow, by, at);
        }
    }

    fn follow(&mut self, x: ExId, flow: EndpointId, task: TaskId, at: MonoNs) {
        self.left.on_flow.entry(flow).or_default().0.push(x);
        self.left.of_task.entry(task).or_default().push(x);
        if self.left.of_task.len() > LEFT_MAX {
            self.lose(x, at);
        }
    }

    /// Another request begins on a flow where only turns pair, and those before it are not answered. A server that works on one at a
    /// time is done with them. Of any other it is not known which of them an answer is for.
    pub(super) fn goes_unanswered(&mut self, flow: EndpointId, at: MonoNs) {
        let Some(ep) = self.eps.get(&flow) else { return };
        for x in ep.open.clone() {
            let e = self.xs.get(x);
            if e.reply.start != OPEN {
                continue;
            }
            let is_alone = e.side == Side::Client || self.steps.turns_away(e.request.actor);
            if !is_alone {
                self.xs.get_mut(x).flags.add(ExchangeFlag::UnclearBorders);
                if let Some(ep) = self.eps.get_mut(&flow) {
                    ep.traits.flags.add(FlowFlag::Shared);
                }
                self.works_on_unpaired(x, at);
                continue;
            }
            let e = self.xs.get_mut(x);
            e.flags.add(ExchangeFlag::OneWay);
            if e.reply.ended.0 == 0 {
                e.reply.ended = e.request.taken;
            }
            self.close(flow, x, at, true);
        }
    }

    /// What the server says on the flow of a request need not be the reply: it works on until something else shows that it is done.
    pub(super) fn works_on_unpaired(&mut self, x: ExId, at: MonoNs) {
        let e = self.xs.get_mut(x);
        e.flags.add(ExchangeFlag::OneWay);
        e.client.is_work_unknown = true;
        let (flow, task) = (e.flow, e.request.actor);
        if let Some(ep) = self.eps.get_mut(&flow) {
            ep.open.retain(|o| *o != x);
        }
        self.follow(x, flow, task, at);
    }

    /// An operation on a connection that its client left. Gives whether that is all that it says.
    pub(super) fn after_leaving(&mut self, r: &OpRow) -> bool {
        match r.kind {
            // messages tell whose it is
            OpKind::Send if r.result >= 0 && self.overlaps(r.flow) => {}
            OpKind::Send => {
                // of several it may be more of the reply to another
                if let [x] = self.left.on(r.flow)[..] {
                    let e = self.xs.get_mut(x);
                    if e.is_unpaired() {
                        // as far as is known
                        e.reply.ended = if e.reply.ended.0 == 0 { r.at } else { e.reply.ended };
                        return self.eps.get(&r.flow).is_none();
                    }
                    if e.reply.start == OPEN {
                        e.reply.actor = r.actor();
                        self.steps.reply_began(&self.xs, x, r.actor(), r.at);
                    }
                    self.is_done(x, r.at, r.at);
                }
            }
            OpKind::Close | OpKind::Shutdown => self.closed_after_leaving(r.flow, r.actor(), r.at),
            _ => {}
        }
        self.eps.get(&r.flow).is_none()
    }

    /// A send failed. To a client that left, it was the reply.
    pub(super) fn failed_to_send(&mut self, r: &OpRow) {
        self.client_left(r.flow, r.at);
        self.ended(r.flow, r.at, true);
        self.after_leaving(r);
    }

    fn closed_after_leaving(&mut self, flow: EndpointId, by: TaskId, at: MonoNs) {
        if let Some(on) = self.left.on_flow.get_mut(&flow) {
            on.1.get_or_insert(by);
        }
        for x in self.left.on(flow) {
            if self.xs.get(x).request.actor == by && self.steps.turns_away(by) {
                self.is_done(x, at, at);
            } else {
                self.drops(x, at);
            }
        }
    }

    /// A process dropped calls: that may have been all that it did for a request whose connection it closed, too.
    pub(super) fn dropped(&mut self, process: ProcessId, at: MonoNs) {
        if self.left.of_task.is_empty() {
            return;
        }
        for x in self.left.all() {
            let e = self.xs.get(x);
            let is_closed = self.left.on_flow.get(&e.flow).is_some_and(|on| on.1.is_some());
            if is_closed && e.process == process {
                self.drops(x, at);
            }
        }
    }

    fn drops(&mut self, x: ExId, at: MonoNs) {
        let sign = self.steps.sign(&self.xs, x);
        if sign.has_dropped && !sign.is_waiting {
            self.is_done(x, at, at);
        }
    }

    /// Whether requests are under way on a connection side by side.
    fn overlaps(&self, flow: EndpointId) -> bool {
        self.eps.get(&flow).is_some_and(|ep| ep.is(FlowFlag::Interleaves))
    }

    /// A task takes another request on this connection, or ended. Of several that it has at once by one connection, none tells of another.
    pub(super) fn turned(&mut self, task: TaskId, by: Option<EndpointId>, at: MonoNs) {
        let Some(of) = self.left.of_task.get(&task).filter(|_| self.steps.turns_away(task)) else { return };
        let beside = by.filter(|&flow| self.overlaps(flow));
        for x in of.clone() {
            if beside == Some(self.xs.get(x).flow) {
                continue;
            }
            let last = self.steps.sign(&self.xs, x).last;
            self.is_done(x, last, at);
        }
    }

    /// Nobody of a process works on anything any more.
    pub(super) fn process_ended(&mut self, process: ProcessId, at: MonoNs) {
        for x in self.left.all() {
            if self.xs.get(x).process == process {
                self.is_done(x, at, at);
            }
        }
    }

    /// Time went on: of whom nothing was seen for longer than its process ever worked on a request, nobody knows more.
    pub(super) fn silent(&mut self, now: MonoNs) {
        if self.left.of_task.is_empty() {
            return;
        }
        for x in self.left.all() {
            let (e, sign) = (self.xs.get(x), self.steps.sign(&self.xs, x));
            let last = e.client.left.max(sign.last);
            if !sign.is_waiting && last.0.saturating_add(self.steps.longest(e.process)) < now.0 {
                self.lose(x, now);
            }
        }
    }

    fn lose(&mut self, x: ExId, at: MonoNs) {
        self.xs.get_mut(x).client.is_work_unknown = true;
        let last = self.steps.sign(&self.xs, x).last;
        self.is_done(x, last, at);
    }

    /// The recording is over.
    pub(super) fn recording_ended(&mut self, at: MonoNs) {
        for x in self.left.all() {
            let e = self.xs.get_mut(x);
            e.flags.add_if(ExchangeFlag::Unfinished, !e.is_unpaired());
            self.lose(x, at);
        }
    }

    /// The server is done with a request whose client left: at `until`, as is known `now`.
    fn is_done(&mut self, x: ExId, until: MonoNs, now: MonoNs) {
        let e = self.xs.get_mut(x);
        e.reply.ended = e.reply.ended.max(until).max(e.client.left);
        let (flow, task, is_whole) = (e.flow, e.request.actor, e.is_unpaired());
        self.left.remove(flow, task, x);
        self.close(flow, x, now, is_whole);
    }
}
