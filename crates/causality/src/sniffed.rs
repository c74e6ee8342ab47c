//! Exchanges that were seen on the wire, joined to requests: to each other by a witness, to what other vantages saw by
//! their bytes.
//!
//! ```text
//! rows of sniffers ─► nodes ─(in order of begin)─► parents ─┐
//! other vantages' requests ─(same bytes)────────────────────┴─► trees ─► requests
//! ```
//!
//! A sniffed exchange is written when it is over, so a call is told of before the request that it was made for. An
//! exchange that stays open is told of every few seconds, so after [`HORIZON_NS`] all that began before it are known: then
//! its parent is looked for. Nothing is held longer, but what is open, and what another vantage still holds.

mod learn;
mod node;
mod parents;
mod trees;

pub(crate) use learn::Seen;
pub(crate) use node::ByteKey;

use crate::evidence::{Gap, Rule};
use crate::exchange::{Exchange, Side};
use crate::request::{Half, Request};
use learn::Address;
use node::{Again, Elsewhere, Node, NodeId, Parent, numbers};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use wakepath_flows::Place;
use wakepath_model::clock::Timeline;
use wakepath_model::ids::{HostId, MonoNs, SniffedFlowId, StrId};
use wakepath_model::rows::{ExchangeKind, FlowRowKind, OPEN, SniffedExchangeRow, SniffedFlowRow};

/// After so long everything that had begun was told of: twice the time between two rows of an exchange that stays open,
/// and what the clocks of hosts that are not synchronised may be apart.
const HORIZON_NS: i64 = 12_000_000_000;
/// Most exchanges held; more are decided before their time, and counted.
const HELD_MAX: usize = 1 << 20;

/// What came of the wire's exchanges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnWire {
    /// Exchanges, each counted once however often it was captured.
    pub exchanges: u64,
    /// Seen at a second place, or before and behind an address translation.
    pub repeated: u64,
    /// With several requests of the same identifier that could have made them.
    pub ambiguous: u64,
    /// Without a witness, from where requests were being worked on.
    pub unwitnessed: u64,
    /// Where a witness and another vantage's rule disagreed.
    pub disagreements: u64,
    /// Told of after the request that they belong to was given: the clocks of the two hosts are far apart.
    pub late: u64,
    /// Decided early, for lack of memory.
    pub given_up: u64,
    /// Without a row that tells of their flow.
    pub without_flow: u64,
    /// Most held at once.
    pub held_max: usize,
    /// Links made, by rule: to parents, and to the same bytes elsewhere.
    pub made: FxHashMap<Rule, u64>,
    pub(crate) joined: FxHashMap<Rule, u64>,
    /// Requests given, those without gaps, and those whose caller is watched and not explained.
    pub(crate) given: (u64, u64, u64),
}

#[derive(Clone, Copy)]
struct Flow {
    place: Place,
    is_reset: bool,
}

/// A request of other vantages that has to do with exchanges on the wire.
struct Tree {
    request: Request,
    /// Its spans' nodes, and whether they were found by numbers alone, behind a translation.
    nodes: Vec<Option<(NodeId, bool)>>,
    end: i64,
}

/// What may be handed out at a time: a sniffed exchange, or another vantage's request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Top {
    Node(NodeId),
    Tree(u64),
}

const CLIENT: u8 = 1;
const SERVER: u8 = 2;

/// What is known of the vantages.
struct Vantages {
    line: Rc<Timeline>,
    /// What the first pass learned of each sniffer.
    seen: FxHashMap<HostId, Seen>,
    /// Hosts on which other vantages lost something: what they did not see may have been.
    lossy: Vec<HostId>,
}

/// Flows that sniffers saw.
#[derive(Default)]
struct Flows {
    all: FxHashMap<SniffedFlowId, Flow>,
    /// Those that ended, in order of time.
    over: VecDeque<(i64, SniffedFlowId)>,
}

/// Where to find exchanges.
#[derive(Default)]
struct Index {
    /// By flow and first byte.
    by_row: FxHashMap<(SniffedFlowId, u64), NodeId>,
    by_bytes: FxHashMap<ByteKey, NodeId>,
    /// By the first bytes of request and reply, and by first and last of the request.
    by_numbers: FxHashMap<(u32, u32), NodeId>,
    by_request: FxHashMap<(u32, u32), NodeId>,
}

/// What was given not long ago.
#[derive(Default)]
struct Past {
    keys: FxHashSet<ByteKey>,
    order: VecDeque<(i64, ByteKey)>,
}

/// What waits to be handed out.
#[derive(Default)]
struct Held {
    trees: FxHashMap<u64, Tree>,
    tops: BinaryHeap<Reverse<(i64, Top)>>,
    /// The number of the next tree.
    next: u64,
}

/// Joins what sniffers saw with the requests of other vantages.
pub(crate) struct Wires<'a> {
    vantages: Vantages,
    flows: Flows,
    nodes: FxHashMap<NodeId, Node>,
    index: Index,
    /// Exchanges that other vantages have open, by end.
    claims: FxHashMap<ByteKey, (u8, HostId)>,
    past: Past,
    undecided: BinaryHeap<Reverse<(i64, NodeId)>>,
    /// Exchanges by their servers, in order of begin, as far as time was looked at.
    active: FxHashMap<Address, Vec<NodeId>>,
    held: Held,
    now: i64,
    out: Box<dyn FnMut(Request) + 'a>,
    /// Counts so far.
    pub(crate) counts: OnWire,
}

impl<'a> Wires<'a> {
    /// `seen`: what the first pass learned of each sniffer.
    pub(crate) fn new(line: Rc<Timeline>, seen: FxHashMap<HostId, Seen>, out: impl FnMut(Request) + 'a) -> Self {
        Wires {
            vantages: Vantages { line, seen, lossy: Vec::new() },
            flows: Flows::default(),
            nodes: FxHashMap::default(),
            index: Index::default(),
            claims: FxHashMap::default(),
            past: Past::default(),
            undecided: BinaryHeap::new(),
            active: FxHashMap::default(),
            held: Held::default(),
            now: i64::MIN,
            out: Box::new(out),
            counts: OnWire::default(),
        }
    }

    /// Another vantage lost operations on a host.
    pub(crate) fn lost_on(&mut self, host: HostId) {
        self.vantages.lossy.push(host);
    }

    fn common(&self, host: HostId, at: MonoNs) -> i64 {
        self.vantages.line.common(host, at).0
    }

    /// Rows of a flow.
    pub(crate) fn flow(&mut self, host: HostId, r: &SniffedFlowRow) {
        let place = Place {
            laddr: r.client,
            raddr: r.server,
            lport: r.client_port,
            rport: r.server_port,
            family: r.family,
            protocol: u16::from(r.ip_protocol),
            netns: 0,
            path: StrId::EMPTY,
        };
        let is_reset = r.what == FlowRowKind::Reset;
        self.flows.all.insert(r.flow, Flow { place, is_reset });
        if learn::is_over(r) {
            let at = self.common(host, r.at);
            self.flows.over.push_back((at, r.flow));
        }
    }

    /// A row of an exchange.
    pub(crate) fn exchange(&mut self, host: HostId, r: &SniffedExchangeRow) {
        let is_request = matches!(
            r.what,
            ExchangeKind::Answered | ExchangeKind::Unanswered | ExchangeKind::Open | ExchangeKind::ReplyMissed
        );
        if !is_request || r.request_start == OPEN || r.request_first.0 == 0 {
            return;
        }
        let end = self.common(host, r.at.max(r.reply_last));
        let flow = self.flows.all.get(&r.flow).copied();
        if let Some(&id) = self.index.by_row.get(&(r.flow, r.request_start)) {
            let Some(n) = self.nodes.get_mut(&id) else { return };
            if n.host != host || n.row.flow != r.flow {
                self.counts.repeated += u64::from(r.what != ExchangeKind::Open && n.host != host);
                return;
            }
            (n.row, n.end) = (*r, end);
            n.is_reset = flow.is_some_and(|f| f.is_reset);
            return self.over(id);
        }
        let Some(flow) = flow else {
            self.counts.without_flow += 1;
            return;
        };
        let id = self.held.next;
        let begin = self.common(host, r.request_first);
        let node = Node {
            host,
            row: *r,
            place: flow.place,
            others: Vec::new(),
            begin,
            end,
            is_reset: flow.is_reset,
            elsewhere: Elsewhere::default(),
            parent: Parent::Undecided,
            children: Vec::new(),
            doubts: 0,
        };
        self.held.next += 1;
        self.counts.exchanges += 1;
        let key = self.key_of(&node);
        if let Some(key) = key {
            if self.past.keys.contains(&key) {
                self.counts.late += 1;
                return;
            }
            self.index.by_bytes.insert(key, id);
        }
        self.index.by_row.insert((r.flow, r.request_start), id);
        self.nodes.insert(id, node);
        if let Some((bits, _)) = key.and_then(|k| self.claims.get(&k)).copied() {
            self.claimed(id, bits);
        }
        self.undecided.push(Reverse((begin, id)));
        self.counts.held_max = self.counts.held_max.max(self.nodes.len());
        self.over(id);
    }

    /// The exchange got a row: it may turn out to be one that is known already, be found by its numbers, and where that was
    /// its last row, be handed out in time.
    fn over(&mut self, id: NodeId) {
        let id = self.unite(id);
        let Some(n) = self.nodes.get(&id) else { return };
        if let Some(k) = numbers(n.place.protocol, n.row.request_start, n.row.reply_start) {
            self.index.by_numbers.insert(k, id);
        }
        if n.is_closed() && matches!(n.parent, Parent::Root(_)) {
            self.held.tops.push(Reverse((n.worked_until().saturating_add(HORIZON_NS), Top::Node(id))));
        }
    }

    /// Makes an exchange one with another, if that is the same captured a second time: in another tunnel, or before and
    /// behind an address translation, which leaves numbers alone. The one whose request passed first is the caller's. Gives
    /// the one that is left.
    fn unite(&mut self, id: NodeId) -> NodeId {
        let Some(n) = self.nodes.get(&id) else { return id };
        let Some(k) = numbers(n.place.protocol, n.row.request_start, n.row.request_end) else { return id };
        let other = self.index.by_request.insert(k, id).filter(|o| *o != id);
        let Some((other, o)) = other.and_then(|o| Some((o, self.nodes.get(&o)?))) else { return id };
        let is_within = self.is_within(id, other) || self.is_within(other, id);
        if !n.is_same_as(o) || is_within || n.elsewhere.span_of.is_some() && o.elsewhere.span_of.is_some() {
            return id;
        }
        let (kept, gone) = if n.begin < o.begin { (id, other) } else { (other, id) };
        self.counts.repeated += 1;
        self.counts.exchanges -= 1;
        self.merge(kept, gone);
        self.index.by_request.insert(k, kept);
        kept
    }

    /// Whether an exchange was made for another, or for what that one was made for.
    fn is_within(&self, mut id: NodeId, other: NodeId) -> bool {
        while let Some(&Parent::Of(p, _)) = self.nodes.get(&id).map(|n| &n.parent) {
            if p == other {
                return true;
            }
            id = p;
        }
        false
    }

    fn merge(&mut self, kept: NodeId, gone: NodeId) {
        let Some(g) = self.nodes.remove(&gone) else { return };
        let was_given_to = if let Parent::Of(p, _) = g.parent { Some(p) } else { None };
        let again = Again { flow: g.row.flow, request_start: g.row.request_start, place: g.place };
        for o in g.others.iter().chain([&again]) {
            self.index.by_row.insert((o.flow, o.request_start), kept);
            if let Some(key) = ByteKey::of(&o.place, &g.half().exchange) {
                self.index.by_bytes.insert(key, kept);
            }
        }
        for c in &g.children {
            if let Some(c) = self.nodes.get_mut(c)
                && let Parent::Of(_, rule) = c.parent
            {
                c.parent = Parent::Of(kept, rule);
            }
        }
        if let Some((tree, span)) = g.elsewhere.span_of
            && let Some(Some(node)) = self.held.trees.get_mut(&tree).and_then(|t| t.nodes.get_mut(span as usize))
        {
            node.0 = kept;
        }
        let Some(n) = self.nodes.get_mut(&kept) else { return };
        let is_decided = n.parent != Parent::Undecided || g.parent != Parent::Undecided;
        let is_free = !matches!(n.parent, Parent::Of(..));
        if n.parent == Parent::Undecided || is_free && was_given_to.is_some() {
            n.parent = g.parent;
        }
        n.others.extend(g.others.iter().chain([&again]));
        n.children.extend(&g.children);
        n.doubts = n.doubts.max(g.doubts);
        n.elsewhere.client_watched |= g.elsewhere.client_watched;
        n.elsewhere.server_watched |= g.elsewhere.server_watched;
        n.elsewhere.client_said = n.elsewhere.client_said.or(g.elsewhere.client_said);
        n.elsewhere.span_of = n.elsewhere.span_of.or(g.elsewhere.span_of);
        let servers: Vec<Address> = n.servers().collect();
        if let Some(p) = was_given_to.and_then(|p| self.nodes.get_mut(&p)) {
            p.children.retain(|c| *c != gone);
            if is_free {
                p.children.push(kept);
            }
        }
        for server in servers.into_iter().filter(|_| is_decided) {
            let list = self.active.entry(server).or_default();
            if !list.contains(&kept) {
                list.push(kept);
            }
        }
    }

    fn key_of(&self, n: &Node) -> Option<ByteKey> {
        let h = n.half();
        ByteKey::of(&h.place, &h.exchange)
    }

    /// Other vantages have the exchange at one of its ends.
    fn claimed(&mut self, id: NodeId, bits: u8) {
        if let Some(n) = self.nodes.get_mut(&id) {
            n.elsewhere.client_watched |= bits & CLIENT != 0;
            n.elsewhere.server_watched |= bits & SERVER != 0;
        }
    }

    /// Another vantage saw an exchange begin.
    pub(crate) fn began(&mut self, host: HostId, place: &Place, e: &Exchange) {
        let Some(key) = ByteKey::of(place, e) else { return };
        let bit = if e.side == Side::Client { CLIENT } else { SERVER };
        self.claims.entry(key).or_insert((0, host)).0 |= bit;
        if let Some(&id) = self.index.by_bytes.get(&key) {
            self.claimed(id, bit);
        }
    }

    /// A call that another vantage saw is over, and no request of a watched server made it: nobody's did, or it is not
    /// known whose.
    pub(crate) fn client_done(&mut self, key: ByteKey, gap: Option<Gap>) {
        self.unclaim(key, CLIENT);
        if let Some(n) = self.index.by_bytes.get(&key).and_then(|id| self.nodes.get_mut(id)) {
            n.elsewhere.client_said = Some(gap);
        }
    }

    /// Where a witness says of a call another thing than the rule of another vantage, the witness was seen: with all that
    /// belongs to it the call leaves the request that it was taken for.
    fn reconcile(&mut self, id: NodeId) {
        let Some(n) = self.nodes.get(&id) else { return };
        let (Some((tree, span @ 1..)), Parent::Of(p, _)) = (n.elsewhere.span_of, n.parent) else { return };
        let said = self.held.trees.get(&tree).and_then(|t| t.request.spans.get(span as usize)?.parent);
        let is_elsewhere = |at: (u64, u32)| at.0 != tree || said.is_some_and(|s| s != at.1);
        if self.nodes.get(&p).and_then(|p| p.elsewhere.span_of).is_some_and(is_elsewhere) {
            self.counts.disagreements += 1;
            self.split(tree, span);
        }
    }

    /// Makes a span of another vantage's request, with all that was done for it, a request of its own.
    fn split(&mut self, tree: u64, span: u32) {
        let Some(t) = self.held.trees.get_mut(&tree) else { return };
        let mut kept = Tree { request: Request { spans: Vec::new(), ..t.request }, nodes: Vec::new(), end: t.end };
        let mut cut =
            Tree { request: Request { spans: Vec::new(), orphan: None, ..t.request }, nodes: Vec::new(), end: t.end };
        let id = self.held.next;
        self.held.next += 1;
        // where each span goes: whether it is cut off, and its number there
        let mut to: Vec<(bool, u32)> = Vec::with_capacity(t.nodes.len());
        let spans = std::mem::take(&mut t.request.spans);
        for (i, (mut s, node)) in spans.into_iter().zip(std::mem::take(&mut t.nodes)).enumerate() {
            let above = s.parent.and_then(|p| to.get(p as usize).copied());
            let is_first = i == span as usize;
            let is_cut = is_first || above.is_some_and(|a| a.0);
            let out = if is_cut { &mut cut } else { &mut kept };
            s.parent = above.map(|a| a.1).filter(|_| !is_first);
            let place = out.nodes.len() as u32;
            to.push((is_cut, place));
            out.request.spans.push(s);
            out.nodes.push(node);
            if let Some(n) = node.and_then(|(n, _)| self.nodes.get_mut(&n)) {
                n.elsewhere.span_of = Some((if is_cut { id } else { tree }, place));
            }
        }
        *t = kept;
        self.held.tops.push(Reverse((cut.end.saturating_add(HORIZON_NS), Top::Tree(id))));
        self.held.trees.insert(id, cut);
    }

    fn unclaim(&mut self, key: ByteKey, bit: u8) {
        if let Some((bits, _)) = self.claims.get_mut(&key) {
            *bits &= !bit;
            if *bits == 0 {
                self.claims.remove(&key);
            }
        }
    }

    /// The node of a side of a span, and whether it was found by its numbers alone.
    fn node_of(&self, h: &Half) -> Option<(NodeId, bool)> {
        let exact = ByteKey::of(&h.place, &h.exchange).and_then(|k| self.index.by_bytes.get(&k)).map(|&id| (id, false));
        let e = &h.exchange;
        let by_numbers = || numbers(h.place.protocol, e.request.start, e.reply.start);
        let found = exact.or_else(|| self.index.by_numbers.get(&by_numbers()?).map(|&id| (id, true)));
        found.filter(|(id, _)| self.nodes.get(id).is_some_and(|n| n.elsewhere.span_of.is_none()))
    }

    /// A request of other vantages.
    pub(crate) fn request(&mut self, request: Request) {
        let mut nodes = Vec::with_capacity(request.spans.len());
        let mut end = i64::MIN;
        let id = self.held.next;
        self.held.next += 1;
        for (i, s) in request.spans.iter().enumerate() {
            let mut found = None;
            for h in [&s.caller, &s.callee].into_iter().flatten() {
                found = found.or_else(|| self.node_of(h));
                end = end.max(self.common(h.host, h.exchange.reply.ended));
                if let Some(key) = ByteKey::of(&h.place, &h.exchange) {
                    self.unclaim(key, if h.exchange.side == Side::Client { CLIENT } else { SERVER });
                    if self.past.keys.insert(key) {
                        self.past.order.push_back((self.now, key));
                    }
                }
            }
            if let Some(n) = found.and_then(|(n, _)| self.nodes.get_mut(&n)) {
                n.elsewhere.span_of = Some((id, i as u32));
                n.elsewhere.client_watched |= s.caller.is_some();
                n.elsewhere.server_watched |= s.callee.is_some();
            }
            nodes.push(found);
        }
        if nodes.iter().all(Option::is_none) {
            return self.give(request);
        }
        let found: Vec<NodeId> = nodes.iter().flatten().map(|n| n.0).collect();
        self.held.trees.insert(id, Tree { request, nodes, end });
        self.held.tops.push(Reverse((end.saturating_add(HORIZON_NS), Top::Tree(id))));
        for node in found {
            self.reconcile(node);
            for child in self.nodes.get(&node).map_or(Vec::new(), |n| n.children.clone()) {
                self.reconcile(child);
            }
        }
    }

    fn give(&mut self, request: Request) {
        self.counts.given.0 += 1;
        self.counts.given.1 += u64::from(request.is_complete());
        self.counts.given.2 += u64::from(request.orphan.is_some());
        (self.out)(request);
    }

    /// Time went on on a host.
    pub(crate) fn tick(&mut self, host: HostId, at: MonoNs) {
        self.now = self.now.max(self.common(host, at));
        self.advance(self.now.saturating_sub(HORIZON_NS));
        while self.nodes.len() > HELD_MAX
            && let Some(&Reverse((begin, _))) = self.undecided.peek()
        {
            let before = self.undecided.len();
            self.advance(begin.saturating_add(1_000_000));
            self.counts.given_up += (before - self.undecided.len()) as u64;
        }
        let old = self.now.saturating_sub(2 * HORIZON_NS);
        while self.flows.over.front().is_some_and(|f| f.0 < old) {
            let (_, flow) = self.flows.over.pop_front().expect("just seen");
            self.flows.all.remove(&flow);
        }
        while self.past.order.front().is_some_and(|p| p.0 < old) {
            let (_, key) = self.past.order.pop_front().expect("just seen");
            self.past.keys.remove(&key);
        }
    }

    /// Decides what began until then, and hands out what is whole.
    fn advance(&mut self, until: i64) {
        while let Some(&Reverse((begin, id))) = self.undecided.peek()
            && begin <= until
        {
            self.undecided.pop();
            self.decide(id);
        }
        const AGAIN_NS: i64 = 1_000_000_000;
        let mut later = Vec::new();
        while let Some(&Reverse((at, top))) = self.held.tops.peek()
            && at <= until.saturating_add(HORIZON_NS)
        {
            self.held.tops.pop();
            if !self.hand_out(top, Some(until)) {
                later.push(Reverse((until.saturating_add(HORIZON_NS + AGAIN_NS), top)));
            }
        }
        self.held.tops.extend(later);
    }

    /// The recordings are over.
    pub(crate) fn finish(&mut self) {
        while let Some(Reverse((_, id))) = self.undecided.pop() {
            self.decide(id);
        }
        let mut rest: Vec<(i64, Top)> = self.nodes.iter().map(|(&id, n)| (n.begin, Top::Node(id))).collect();
        rest.extend(self.held.trees.iter().map(|(&id, t)| (t.end, Top::Tree(id))));
        rest.sort_unstable();
        for &(_, top) in &rest {
            self.hand_out(top, None);
        }
        // where rows contradict each other, each of some may be said to have been made for another of them
        for (_, top) in rest {
            let node = match top {
                Top::Node(id) => Some(id),
                Top::Tree(id) => self.held.trees.get(&id).and_then(|t| Some(t.nodes.first().copied().flatten()?.0)),
            };
            if let Some(n) = node.and_then(|id| self.nodes.get_mut(&id)) {
                n.parent = Parent::Root(Some(Gap::Borders));
            }
            self.hand_out(top, None);
        }
    }

    /// Nothing asks for it any more.
    fn forget(&mut self, id: NodeId) {
        let Some(n) = self.nodes.remove(&id) else { return };
        self.index.by_row.remove(&(n.row.flow, n.row.request_start));
        for o in &n.others {
            self.index.by_row.remove(&(o.flow, o.request_start));
        }
        let exchange = n.half().exchange;
        for place in n.places() {
            if let Some(k) = ByteKey::of(place, &exchange)
                && self.index.by_bytes.get(&k) == Some(&id)
            {
                self.index.by_bytes.remove(&k);
            }
        }
        for (map, to) in
            [(&mut self.index.by_numbers, n.row.reply_start), (&mut self.index.by_request, n.row.request_end)]
        {
            if let Some(k) = numbers(n.place.protocol, n.row.request_start, to)
                && map.get(&k) == Some(&id)
            {
                map.remove(&k);
            }
        }
    }
}
