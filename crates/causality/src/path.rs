//! Between components: calls and the exchanges that served them, joined into trees.

use crate::at_work::{AtWork, Caller, Server};
use crate::evidence::{Gap, Rule};
use crate::exchange::{Exchange, ExchangeFlag, Side};
use crate::finished::{Done, Refusal, Refused};
use crate::intervals::Intervals;
pub use crate::request::{Half, OpenCall, Request, Span, Wire};
use crate::request::{number, request_id};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wakepath_flows::{End, How, Pairs, Place, is_loopback};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndpointRow, QueuedHow};

/// Where an exchange stands in its direction: the same at both ends.
type Key = (End, u64);

struct Call {
    half: Half,
    rule: Rule,
    server: Option<(u64, Rule)>,
}

struct Node {
    half: Half,
    calls: Vec<Call>,
    doubts: u32,
    open_calls: Vec<OpenCall>,
    gap: Option<Gap>,
    /// Calls whose server's side is still to come or not yet whole.
    pending: u32,
    /// The node and call that asked for it.
    caller: Option<(u64, u32, Rule)>,
    /// It has no caller to wait for.
    root: Option<Option<Gap>>,
    refusals: Vec<Refusal>,
    /// It has its place in a path.
    is_placed: bool,
    /// It may be several requests that were taken for one: what it called may be any one's.
    is_merged: bool,
}

/// Counts of the linker's work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linked {
    /// Requests given.
    pub requests: u64,
    /// Of these, whole.
    pub complete: u64,
    /// Server exchanges whose caller is watched but not explained.
    pub orphans: u64,
    /// Calls joined to the exchange that served them, by rule.
    pub joined: FxHashMap<Rule, u64>,
    /// Calls whose other end is not watched.
    pub leaves: u64,
    /// Pairs refused since the server took the message before it was sent: counts that do not line up.
    pub misaligned: u64,
}

/// Joins what all hosts' linkers finish.
pub struct Assembler<'a> {
    pairs: Pairs<AtWork>,
    /// By their numbers, counted up.
    nodes: FxHashMap<u64, Box<Node>>,
    made: u64,
    gone: VecDeque<(MonoNs, End)>,
    /// When operations were lost, of each host by its own clock, in order.
    losses: FxHashMap<HostId, Intervals>,
    /// Refused connections for which requests wait that are not over, by their numbers.
    tried: FxHashMap<(HostId, u64), Refusal>,
    out: Box<dyn FnMut(Request) + 'a>,
    refused: Box<dyn FnMut(HostId, TaskId, Place, i32) + 'a>,
    /// Counts so far.
    pub linked: Linked,
}

/// How long a message may lie in buffers between its sending and its arrival, for what a loss may have hidden. Longer makes more
/// requests incomplete beside a loss, shorter might hide one: where rows are lost, the host was busy, so this is far more than a busy
/// host's delay.
const ON_ITS_WAY_NS: u64 = 1_000_000_000;
/// How long endpoints of flows that are gone are remembered.
const FORGET_NS: u64 = 20_000_000_000;

fn key(host: HostId, e: &Exchange) -> Key {
    ((host, e.flow), number(e))
}

impl<'a> Assembler<'a> {
    /// An assembler that hands requests to `out` and connections that did not come about, with the error, to `refused`.
    pub fn new(out: impl FnMut(Request) + 'a, refused: impl FnMut(HostId, TaskId, Place, i32) + 'a) -> Self {
        Assembler {
            pairs: Pairs::default(),
            nodes: FxHashMap::default(),
            made: 0,
            gone: VecDeque::new(),
            losses: FxHashMap::default(),
            tried: FxHashMap::default(),
            out: Box::new(out),
            refused: Box::new(refused),
            linked: Linked::default(),
        }
    }

    /// Operations were lost on a host in these intervals: what was not seen of it may have been there.
    pub fn lost_on(&mut self, host: HostId, intervals: &[(u64, u64)]) {
        if !intervals.is_empty() {
            self.losses.insert(host, Intervals::of(intervals));
        }
    }

    /// Whether the other end's part in an exchange of `host` may be among what was lost on `other`. A message may have
    /// lain in buffers for [`ON_ITS_WAY_NS`]; on another clock any loss counts.
    fn may_be_lost(&self, other: HostId, host: HostId, e: &Exchange) -> bool {
        let Some(losses) = self.losses.get(&other) else { return false };
        if other != host {
            return true;
        }
        let first = if e.request.arrived.0 != 0 { e.request.arrived.min(e.request.began) } else { e.request.began };
        let from = first.0.saturating_sub(ON_ITS_WAY_NS);
        losses.touch(MonoNs(from), e.reply.ended.max(e.request.taken))
    }

    /// An endpoint was announced.
    pub fn endpoint(&mut self, host: HostId, r: &EndpointRow) {
        self.pairs.add(host, r);
    }

    /// A flow is over; `sent_to`: where all that it sent ends.
    pub fn flow_over(&mut self, host: HostId, flow: EndpointId, sent_to: u64) {
        self.pairs.over((host, flow), sent_to);
    }

    /// A flow is gone.
    pub fn flow_gone(&mut self, host: HostId, flow: EndpointId, at: MonoNs) {
        self.gone.push_back((at, (host, flow)));
        while let Some(&(t, end)) = self.gone.front() {
            if t.0 + FORGET_NS > at.0 {
                break;
            }
            self.gone.pop_front();
            self.pairs.forget(end);
        }
    }

    /// Where an endpoint is, as far as that is known.
    pub(crate) fn place(&self, host: HostId, flow: EndpointId) -> Place {
        self.pairs.place((host, flow))
    }

    /// A connect failed.
    pub(crate) fn refused(&mut self, host: HostId, r: Refused) {
        let Refused { flow, task, tried, error, number } = r;
        let place = self.place(host, flow);
        if let Some(number) = number {
            self.tried.insert((host, number), Refusal { place, task, tried, error });
        }
        (self.refused)(host, task, place, error);
    }

    /// An exchange began.
    pub(crate) fn began(&mut self, host: HostId, e: &Exchange, asks_only: bool) {
        match e.side {
            Side::Client => {
                self.pairs.calling((host, e.flow));
                if asks_only {
                    self.pairs.called((host, e.flow), true);
                }
                if e.is_on_shared_connection() {
                    self.pairs.shared((host, e.flow));
                }
                self.set_caller(key(host, e), Caller::Live);
            }
            Side::Server => {
                self.pairs.serving((host, e.flow));
                self.pairs.work((host, e.flow), |w| w.servers.put(number(e), Server::Live));
            }
        }
    }

    /// The same exchange at the other end.
    fn opposite(&self, host: HostId, e: &Exchange) -> Option<(Key, How)> {
        let (end, how) = self.pairs.peer((host, e.flow))?;
        Some(((end, number(e)), how))
    }

    fn caller(&self, (end, number): Key) -> Option<Caller> {
        self.pairs.at_work(end)?.callers.get(number)
    }

    fn server(&self, (end, number): Key) -> Option<Server> {
        self.pairs.at_work(end)?.servers.get(number)
    }

    fn set_caller(&mut self, (end, number): Key, caller: Caller) {
        self.pairs.work(end, |w| w.callers.put(number, caller));
    }

    fn remove_caller(&mut self, (end, number): Key) {
        self.pairs.work(end, |w| w.callers.remove(number));
    }

    fn rule(e: &Exchange, how: How) -> Rule {
        match how {
            _ if e.content.witness.0.stands_for_place() => Rule::Witness,
            How::Addresses | How::Peers => Rule::Bytes,
            How::Translated => Rule::BytesTranslated,
        }
    }

    fn half(&self, host: HostId, exchange: Exchange) -> Half {
        Half { host, place: self.pairs.place((host, exchange.flow)), exchange }
    }

    /// An exchange is over.
    pub(crate) fn done(&mut self, host: HostId, d: Done) {
        match d.exchange.side {
            Side::Client => self.called(host, &d),
            Side::Server => self.served(host, d),
        }
    }

    /// A call that no request of a watched server made is over.
    fn called(&mut self, host: HostId, d: &Done) {
        let own = key(host, &d.exchange);
        let opposite = self.opposite(host, &d.exchange);
        let served = opposite.and_then(|(k, _)| self.server(k));
        self.remove_caller(own);
        if !d.is_root_call {
            self.pairs.called((host, d.exchange.flow), false);
        }
        let Some(served) = served else {
            self.linked.leaves += 1;
            return;
        };
        let (root, state) = match (d.is_root_call, d.parent) {
            (false, Some(h)) => (Some(h), Caller::Orphan(h)),
            _ => (None, Caller::Root),
        };
        match served {
            Server::Given(id) => self.becomes_root(id, root),
            Server::Live => self.set_caller(own, state),
        }
    }

    /// A server's exchange is over, with the calls that were made for it.
    fn served(&mut self, host: HostId, d: Done) {
        let opposite = self.opposite(host, &d.exchange);
        self.made += 1;
        let id = self.made;
        self.pairs.work((host, d.exchange.flow), |w| w.servers.put(number(&d.exchange), Server::Given(id)));
        let mut node = Node {
            half: self.half(host, d.exchange),
            calls: Vec::with_capacity(d.calls.len()),
            doubts: d.doubts,
            open_calls: d
                .open_calls
                .into_iter()
                .map(|(e, others)| OpenCall { half: self.half(host, e), others })
                .collect(),
            gap: d.gap,
            pending: 0,
            caller: None,
            root: None,
            refusals: d.refusals.iter().filter_map(|number| self.tried.remove(&(host, *number))).collect(),
            is_placed: false,
            is_merged: false,
        };
        let arrived = self.add_calls(host, id, &mut node, d.calls);
        self.find_caller(host, &mut node, opposite, d.flows_lost);
        for (server, i, rule) in arrived {
            if self.attach(id, &mut node, i, server, rule) {
                node.pending += 1;
            }
        }
        let caller = node.caller;
        self.nodes.insert(id, Box::new(node));
        if let Some((parent, i, rule)) = caller {
            self.join(parent, i, id, rule);
        }
        self.settle(id);
    }

    /// Adds its calls to a new node; gives those whose server's side is over: which node that is, and the rule.
    fn add_calls(
        &mut self,
        host: HostId,
        id: u64,
        node: &mut Node,
        calls: Vec<(Exchange, Rule)>,
    ) -> Vec<(u64, u32, Rule)> {
        let mut arrived = Vec::new();
        for (i, (e, rule)) in calls.into_iter().enumerate() {
            let call_key = key(host, &e);
            self.pairs.called((host, e.flow), false);
            let opposite = self.opposite(host, &e);
            self.remove_caller(call_key);
            let is_lossy = opposite.is_some_and(|(((h, _), _), _)| self.may_be_lost(h, host, &e));
            match opposite.and_then(|(k, how)| self.server(k).map(|s| (s, how))) {
                Some((Server::Given(server), how)) => arrived.push((server, i as u32, Self::rule(&e, how))),
                Some((Server::Live, _)) => {
                    node.pending += 1;
                    self.set_caller(call_key, Caller::Linked(id, i as u32));
                }
                None => {
                    self.linked.leaves += 1;
                    if e.content.queued == QueuedHow::Relayed || self.pairs.place((host, e.flow)).is_multipath() {
                        node.gap.get_or_insert(Gap::Unfollowed);
                    } else if e.is(ExchangeFlag::OneWay) {
                        // it was said whole; who took it need not have been seen
                    } else if is_lossy {
                        node.gap.get_or_insert(Gap::Losses);
                    } else if e.is_on_shared_connection()
                        && (opposite.is_some()
                            || e.reply.ended.0 != 0 && !e.is(ExchangeFlag::Cut) && !e.is(ExchangeFlag::Reset))
                    {
                        // it was taken for more of another's, or how long it took is not known
                        node.gap.get_or_insert(Gap::Shared);
                    } else if !self.pairs.knows((host, e.flow))
                        || opposite.is_some_and(|((end, _), _)| !self.pairs.knows(end))
                    {
                        // it was taken for over, and went on
                        node.gap.get_or_insert(Gap::Borders);
                    }
                }
            }
            let half = self.half(host, e);
            node.calls.push(Call { half, rule, server: None });
        }
        arrived
    }

    /// Who asked for the request of a new node, as far as that is known; `opposite` is the other end of its exchange.
    fn find_caller(&mut self, host: HostId, node: &mut Node, opposite: Option<(Key, How)>, flows_lost: bool) {
        let caller = opposite.map(|(k, how)| (k, how, self.caller(k)));
        let is_lossy = opposite.is_some_and(|(((h, _), _), _)| self.may_be_lost(h, host, &node.half.exchange));
        node.is_merged = matches!(caller, Some(((end, _), _, None)) if self.pairs.is_shared(end));
        match caller {
            // the caller's end is on this host, but its announcement was lost
            None if flows_lost && (node.half.place.family == 0 || is_loopback(&node.half.place)) => {
                node.root = Some(Some(Gap::Losses))
            }
            None if !self.pairs.knows((host, node.half.exchange.flow)) => node.root = Some(Some(Gap::Borders)),
            None => node.root = Some(None),
            // its caller is watched, but the call itself was not seen: what only makes calls of its own made this one too
            Some(((end, _), _, None)) if self.pairs.calls_roots_only(end) => node.root = Some(None),
            Some(((end, _), _, None)) if !is_lossy && !self.pairs.is_calling(end) => node.root = Some(None),
            Some((_, _, None)) if is_lossy => node.root = Some(Some(Gap::Losses)),
            Some((_, _, None)) if node.is_merged => node.root = Some(Some(Gap::Shared)),
            Some((_, _, None)) => node.root = Some(Some(node.gap.unwrap_or(Gap::Borders))),
            Some((k, _, Some(Caller::Root))) => {
                node.root = Some(None);
                self.remove_caller(k);
            }
            Some((k, _, Some(Caller::Orphan(h)))) => {
                node.root = Some(Some(h));
                self.remove_caller(k);
            }
            Some((_, _, Some(Caller::Live))) => {}
            Some((k, how, Some(Caller::Linked(parent, i)))) => {
                node.caller = Some((parent, i, Self::rule(&node.half.exchange, how)));
                self.remove_caller(k);
            }
        }
    }

    /// Gives call `i` of a new node its server; true where that is not whole yet.
    fn attach(&mut self, id: u64, node: &mut Node, i: u32, server: u64, rule: Rule) -> bool {
        let Some(s) = self.nodes.get_mut(&server) else { return false };
        if misaligned(&node.calls[i as usize].half, &s.half) {
            self.linked.misaligned += 1;
            s.is_merged = node.calls[i as usize].half.exchange.is_on_shared_connection();
            let gap = gap_of(&node.calls[i as usize].half);
            node.gap.get_or_insert(gap);
            self.becomes_root(server, Some(gap));
            return false;
        }
        s.caller = Some((id, i, rule));
        s.root = None;
        node.calls[i as usize].server = Some((server, rule));
        *self.linked.joined.entry(rule).or_default() += 1;
        s.pending > 0
    }

    /// A server's side arrived for a call that waited for it.
    fn join(&mut self, parent: u64, i: u32, id: u64, rule: Rule) {
        let Some(node) = self.nodes.get(&id) else { return };
        let Some(p) = self.nodes.get(&parent) else { return };
        if misaligned(&p.calls[i as usize].half, &node.half) {
            self.linked.misaligned += 1;
            let gap = gap_of(&p.calls[i as usize].half);
            let node = self.nodes.get_mut(&id).expect("just found");
            (node.caller, node.is_merged) = (None, gap == Gap::Shared);
            node.root = Some(Some(gap));
            let p = self.nodes.get_mut(&parent).expect("just found");
            p.pending -= 1;
            p.gap.get_or_insert(gap);
            self.settle(parent);
            return;
        }
        let p = self.nodes.get_mut(&parent).expect("just found");
        p.calls[i as usize].server = Some((id, rule));
        *self.linked.joined.entry(rule).or_default() += 1;
    }

    fn becomes_root(&mut self, id: u64, orphan: Option<Gap>) {
        if let Some(n) = self.nodes.get_mut(&id)
            && n.caller.is_none()
        {
            n.root = Some(orphan);
            self.settle(id);
        }
    }

    /// A node that is whole makes its caller a step more so, or is given away.
    fn settle(&mut self, mut id: u64) {
        loop {
            let Some(n) = self.nodes.get(&id) else { return };
            if n.pending > 0 {
                return;
            }
            match (n.caller, n.root) {
                (Some((parent, _, _)), _) => {
                    let Some(p) = self.nodes.get_mut(&parent) else { return };
                    p.pending = p.pending.saturating_sub(1);
                    if p.pending > 0 {
                        return;
                    }
                    id = parent;
                }
                (None, Some(orphan)) => {
                    self.emit(id, orphan);
                    return;
                }
                (None, None) => return,
            }
        }
    }

    fn emit(&mut self, id: u64, orphan: Option<Gap>) {
        let mut todo = vec![(id, orphan)];
        while let Some((id, orphan)) = todo.pop() {
            let Some(root) = self.nodes.remove(&id) else { continue };
            let request_id = request_id(&root.half.place, &root.half.exchange);
            let (spans, parted) = self.collect(root);
            let request = Request { id: request_id, spans, orphan };
            self.linked.requests += 1;
            self.linked.complete += u64::from(request.is_complete());
            self.linked.orphans += u64::from(orphan.is_some());
            (self.out)(request);
            todo.extend(parted.into_iter().map(|server| (server, Some(Gap::Shared))));
        }
    }

    /// A request's spans, parents before children, and what was called by those that may be several requests. Without recursion:
    /// services may call each other, or themselves, thousands deep.
    fn collect(&mut self, root: Box<Node>) -> (Vec<Span>, Vec<u64>) {
        let mut parted = Vec::new();
        let mut spans = Vec::with_capacity(1 + root.calls.len());
        // calls still to come, the next one last, with the span that made each and what is missing of it
        let mut todo: Vec<(u32, Call, Option<Gap>)> = Vec::new();
        let mut next = Some((Span::default(), Some(root)));
        while let Some((mut span, node)) = next {
            let me = spans.len() as u32;
            if let Some(node) = node {
                let done = &node.half.exchange;
                self.pairs.work((node.half.host, done.flow), |w| w.servers.remove(number(done)));
                (span.doubts, span.gap, span.refusals) = (node.doubts, node.gap, node.refusals);
                span.open_calls = node.open_calls;
                let mut half = node.half;
                arrives_as_sent(span.caller.as_ref(), &mut half);
                span.callee = Some(half);
                let mut calls = node.calls;
                if node.is_merged {
                    span.doubts += calls.len() as u32;
                    span.gap.get_or_insert(Gap::Shared);
                    parted.extend(calls.drain(..).filter_map(|c| c.server).map(|(s, _)| s));
                }
                calls.sort_by_key(|c| (c.half.exchange.request.began, c.half.exchange.number));
                for mut call in calls.into_iter().rev() {
                    // a request that was sent again is served once
                    let node = call.server.and_then(|(s, _)| self.nodes.get_mut(&s));
                    let is_served = call.server.is_some();
                    call.server =
                        call.server.filter(|_| node.is_some_and(|n| !std::mem::replace(&mut n.is_placed, true)));
                    let is_unread = !is_served && self.is_served_unseen(&call.half);
                    todo.push((me, call, is_unread.then_some(Gap::Borders)));
                }
            }
            spans.push(span);
            next = todo.pop().map(|(by, call, gap)| {
                let server = call.server.and_then(|(s, rule)| Some((rule, self.nodes.remove(&s)?)));
                let (joined_by, server) = server.map_or((None, None), |(rule, node)| (Some(rule), Some(node)));
                let (parent, made_by, caller) = (Some(by), Some(call.rule), Some(call.half));
                (Span { parent, made_by, joined_by, caller, gap, ..Span::default() }, server)
            });
        }
        (spans, parted)
    }

    /// Whether a call was answered on a connection whose other end is recorded, where its request was not found. What its server
    /// did for it is missing then. On another host that may be since nothing was recorded there at that time.
    fn is_served_unseen(&self, call: &Half) -> bool {
        let (e, host) = (&call.exchange, call.host);
        e.is(ExchangeFlag::Replied)
            && self.opposite(host, e).is_some_and(|((end, _), _)| end.0 == host && self.pairs.is_serving(end))
    }

    /// The recording is over: what still waits is given as it is.
    pub fn finish(&mut self) {
        let mut ids: Vec<u64> = self.nodes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            // the topmost of what is connected
            let mut top = id;
            while let Some(n) = self.nodes.get(&top)
                && let Some((parent, _, _)) = n.caller
                && self.nodes.contains_key(&parent)
            {
                top = parent;
            }
            let Some(n) = self.nodes.get_mut(&top) else { continue };
            if n.pending > 0 && n.gap.is_none() {
                n.gap = Some(Gap::AfterRecording);
            }
            let orphan = n.root.unwrap_or(Some(Gap::AfterRecording));
            self.emit(top, orphan);
        }
    }
}

/// What goes through a UNIX socket or a pipe is at its other end when it is sent, accepted or not. The kernel notes no arrival there.
/// Of requests that are read at once it notes that of the first: on one clock none arrives before it is sent.
fn arrives_as_sent(caller: Option<&Half>, callee: &mut Half) {
    let request = &mut callee.exchange.request;
    let Some(c) = caller.filter(|c| c.host == callee.host) else { return };
    if request.arrived.0 != 0 {
        request.arrived = request.arrived.max(c.exchange.request.began.min(request.began));
    } else if c.place.is_unix() {
        request.arrived = c.exchange.request.taken.min(request.began);
    }
}

/// Why a call is parted from what seems to be its server's side.
fn gap_of(caller: &Half) -> Gap {
    if caller.exchange.is_on_shared_connection() { Gap::Shared } else { Gap::Borders }
}

/// On one clock a message cannot be taken before it was sent: then the counts of the two ends do not line up.
fn misaligned(caller: &Half, callee: &Half) -> bool {
    // sending begins before receiving returns, however slow the host: the slack only spares pairs whose times were read at other places
    const SLACK_NS: u64 = 100_000;
    if caller.exchange.is_on_shared_connection() {
        return true;
    }
    caller.host == callee.host && callee.exchange.request.taken.0 + SLACK_NS < caller.exchange.request.began.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_model::ids::{EndpointId, MonoNs};

    fn half(side: Side, family: u16, taken: u64) -> Half {
        let mut exchange = Exchange::of_request(EndpointId(1), side, 0, 10);
        (exchange.request.began, exchange.request.taken) = (MonoNs(taken), MonoNs(taken));
        Half { host: HostId(0), exchange, place: Place { family, ..Place::default() } }
    }

    #[test]
    fn a_request_waits_at_the_other_end_of_a_unix_socket_from_when_it_was_sent() {
        let arrives = |family| {
            let mut callee = half(Side::Server, family, 900);
            arrives_as_sent(Some(&half(Side::Client, family, 100)), &mut callee);
            callee.exchange.request.arrived
        };
        // of TCP the kernel tells, and where it did not nobody knows
        assert_eq!([arrives(1), arrives(2)], [MonoNs(100), MonoNs(0)]);
    }

    #[test]
    fn a_request_that_is_read_with_earlier_ones_does_not_arrive_before_it_is_sent() {
        let arrives = |first, sent, host| {
            let mut callee = half(Side::Server, 2, 900);
            callee.exchange.request.arrived = MonoNs(first);
            arrives_as_sent(Some(&Half { host: HostId(host), ..half(Side::Client, 2, sent) }), &mut callee);
            callee.exchange.request.arrived.0
        };
        assert_eq!([arrives(100, 300, 0), arrives(400, 300, 0)], [300, 400]);
        // nor after it was read, whatever lies between the two times; and another host has another clock
        assert_eq!([arrives(100, 950, 0), arrives(100, 300, 1)], [900, 100]);
    }
}
