//! The table of flows: whose a packet is, when a flow begins, is told of, and ends.

use super::datagrams::Datagrams;
use super::exchanges::Ending;
use super::link::{Inner, Unread};
use super::row::{Carrier, Flow, Key, TUNNELS_MAX};
use super::servers::{NONE, Servers};
use super::sniffed::{Sniffed, SnifferOptions};
use super::tcp::{Segment, Taken};
use crate::RowSink;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::FlowRowKind;

/// Flows with the same ends in different tunnels that are looked through.
const CHAIN_MAX: usize = 64;

/// Flows looked at for the one that was silent longest.
const CANDIDATES: usize = 32;

/// All flows of a capture.
///
/// A flow is found by its ends alone; those of the same ends in different VLANs and tunnels are a chain, as two tenants
/// may well use the same addresses. Where a packet is in a tunnel that no flow of the chain was seen in, its numbers
/// decide: if both fit those of one in the chain, it is the same flow, mirrored inside and outside of a tunnel or by two
/// tunnels, or of its other direction. Two tenants' sequence numbers do not agree in 2^40 cases but one.
pub(super) struct Flows {
    options: SnifferOptions,
    table: FxHashMap<Key, u32>,
    slots: Vec<Flow>,
    free: Vec<u32>,
    /// Each flow once, by when it is to be looked at.
    visits: VecDeque<(u64, u32, u32)>,
    /// Flows that wait for something with a time limit.
    wakes: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Flows that hold segments, by when they began to.
    holding: VecDeque<(u32, u32)>,
    held_bytes: usize,
    servers: Servers,
    now: MonoNs,
    lost: MonoNs,
}

impl Flows {
    pub fn new(options: SnifferOptions) -> Flows {
        let options = SnifferOptions {
            flows_max: options.flows_max.clamp(1, NONE as usize),
            update_ns: options.update_ns.max(1_000_000),
            ..options
        };
        Flows {
            options,
            table: FxHashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            visits: VecDeque::new(),
            wakes: BinaryHeap::new(),
            holding: VecDeque::new(),
            held_bytes: 0,
            servers: Servers::default(),
            now: MonoNs(0),
            lost: MonoNs(0),
        }
    }

    /// The capture lost packets until `at`.
    pub fn lost(&mut self, at: MonoNs) {
        self.lost = self.lost.max(at);
    }

    /// Takes what one packet carries.
    pub fn take<S: RowSink>(&mut self, inner: &Inner<'_>, out: &mut S, done: &mut Sniffed) {
        self.idle(inner.at, out, done);
        let wire = inner.payload_length;
        match inner.ip_protocol {
            6 => match Segment::read(inner.payload, wire) {
                Some(segment) => {
                    let (at, ip_id, wire_bytes) = (inner.at, inner.ip_id, inner.wire_bytes);
                    self.segment(inner, &Segment { at, ip_id, wire_bytes, ..segment }, out, done);
                }
                None => unread(inner, 20, out),
            },
            17 => match inner.payload.first_chunk::<8>() {
                Some(&[s1, s0, d1, d0, l1, l0, ..]) => {
                    let ports = (u16::from_be_bytes([s1, s0]), u16::from_be_bytes([d1, d0]));
                    let reported = u32::from(u16::from_be_bytes([l1, l0]));
                    // 0 in jumbograms (RFC 2675).
                    let length = if reported < 8 { wire } else { reported.min(wire) }.max(8) - 8;
                    let captured = &inner.payload[8..inner.payload.len().min(length as usize + 8)];
                    self.datagram(inner, ports, (captured, length.into()), out, done);
                }
                None => unread(inner, 8, out),
            },
            _ => self.datagram(inner, (0, 0), (&[], wire.into()), out, done),
        }
    }

    /// Counts a packet that carries no IP with its like.
    pub fn unread<S: RowSink>(
        &mut self,
        (unread, at, wire_bytes): (Unread, MonoNs, u32),
        out: &mut S,
        done: &mut Sniffed,
    ) {
        let inner = Inner::without_ip(unread, at, wire_bytes, done.packets as u32);
        self.idle(at, out, done);
        self.datagram(&inner, (0, unread.number), (&[], wire_bytes.into()), out, done);
    }

    fn segment<S: RowSink>(&mut self, inner: &Inner<'_>, segment: &Segment<'_>, out: &mut S, done: &mut Sniffed) {
        let (key, direction) = Key::of(inner, (segment.source, segment.destination));
        let fits = |flow: &Flow| matches!(&flow.carrier, Carrier::Tcp(tcp) if tcp.fits(direction, segment));
        let mut slot = self.find(&key, inner.tunnel, fits);
        if slot != NONE {
            let flow = &self.slots[slot as usize];
            if matches!(&flow.carrier, Carrier::Tcp(tcp) if tcp.is_another(direction, segment)) {
                let ending = flow.ended.unwrap_or(FlowRowKind::Forgotten);
                self.end(slot, ending, inner.at, out, done);
                slot = NONE;
            }
        }
        if slot == NONE {
            slot = self.begin(key, inner, direction, Some(segment), out, done);
        }
        let now = self.now;
        let flow = &mut self.slots[slot as usize];
        let held = flow.held_bytes();
        let (taken, wake) = flow.segment(direction, segment, now, out);
        flow.tell_decided(inner.at, out);
        match taken {
            Taken::Yes | Taken::Reset => {}
            Taken::Duplicate => out.count(defect::NET_DUPLICATE, inner.at),
            Taken::OutOfWindow => out.count(defect::NET_OUT_OF_WINDOW, inner.at),
        }
        done.exchanges += flow.protocol_state.take_ended();
        if flow.ended.is_some() && !flow.protocol_state.is_over() {
            done.exchanges += flow.finish(Ending::Closed, self.lost, out);
        }
        self.wake_at(slot, wake);
        self.holds(slot, held, out, done);
        // What was told of it stays; what comes is another flow, which may turn out to go the other way.
        if self.slots[slot as usize].protocol_state.is_reversed() {
            self.end(slot, FlowRowKind::Forgotten, inner.at, out, done);
        }
    }

    /// A flow that held `held` bytes may hold more now, or less.
    fn holds<S: RowSink>(&mut self, slot: u32, held: usize, out: &mut S, done: &mut Sniffed) {
        let flow = &self.slots[slot as usize];
        let holds = flow.held_bytes();
        if holds != held {
            self.held_bytes = self.held_bytes + holds - held;
            if held == 0 {
                self.holding.push_back((slot, flow.generation));
            }
        }
        if self.held_bytes > self.options.held_bytes_max {
            self.give_up_oldest(out, done);
        }
    }

    fn datagram<S: RowSink>(
        &mut self,
        inner: &Inner<'_>,
        ports: (u16, u16),
        payload: (&[u8], u64),
        out: &mut S,
        done: &mut Sniffed,
    ) {
        let (key, direction) = Key::of(inner, ports);
        let fits = |flow: &Flow| matches!(&flow.carrier, Carrier::Datagrams(flow) if flow.knows(direction, inner));
        let mut slot = self.find(&key, inner.tunnel, fits);
        if slot == NONE {
            slot = self.begin(key, inner, direction, None, out, done);
        }
        let flow = &mut self.slots[slot as usize];
        let held = flow.held_bytes();
        if !flow.datagram(direction, inner, payload, self.now, out) {
            out.count(defect::NET_DUPLICATE, inner.at);
        }
        flow.tell_decided(inner.at, out);
        done.exchanges += flow.protocol_state.take_ended();
        self.holds(slot, held, out, done);
    }

    /// The flow of `key` in `tunnel`, or one in another tunnel that `fits`.
    fn find(&mut self, key: &Key, tunnel: u64, fits: impl Fn(&Flow) -> bool) -> u32 {
        let Some(&head) = self.table.get(key) else { return NONE };
        let mut slot = head;
        while slot != NONE {
            let flow = &self.slots[slot as usize];
            if flow.is_in(tunnel) {
                return slot;
            }
            slot = flow.next_same;
        }
        slot = head;
        while slot != NONE {
            let flow = &mut self.slots[slot as usize];
            if flow.tunnels_count < TUNNELS_MAX && fits(flow) {
                flow.add_tunnel(tunnel);
                return slot;
            }
            slot = flow.next_same;
        }
        NONE
    }

    fn begin<S: RowSink>(
        &mut self,
        key: Key,
        inner: &Inner<'_>,
        direction: usize,
        segment: Option<&Segment<'_>>,
        out: &mut S,
        done: &mut Sniffed,
    ) -> u32 {
        if self.slots.len() - self.free.len() >= self.options.flows_max {
            self.make_room(out, done);
        }
        let mut chain = 0;
        let mut last = self.table.get(&key).copied().unwrap_or(NONE);
        while last != NONE && self.slots[last as usize].next_same != NONE {
            (last, chain) = (self.slots[last as usize].next_same, chain + 1);
        }
        if chain >= CHAIN_MAX {
            out.count(defect::NET_FLOWS_LIMIT, inner.at);
            self.end(last, FlowRowKind::Forgotten, inner.at, out, done);
        }
        done.flows += 1;
        let next_same = self.table.get(&key).copied().unwrap_or(NONE);
        let generation = done.flows as u32;
        let flow = Flow::new(key, inner, direction, segment, generation, next_same, &self.servers);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = flow;
                slot
            }
            None => {
                self.slots.push(flow);
                self.slots.len() as u32 - 1
            }
        };
        self.table.insert(key, slot);
        self.visits.push_back((self.now.0.saturating_add(self.options.update_ns), slot, generation));
        self.slots[slot as usize].tell_decided(inner.at, out);
        self.meet(slot);
        slot
    }

    /// What a new flow says of its ends, and so of another flow that was met with one of them.
    fn meet(&mut self, slot: u32) {
        let flow = &self.slots[slot as usize];
        let (ends, server, new) = (flow.ends(), flow.server(), (slot, flow.generation));
        let likely = server.or(self.servers.of(ends));
        if let Some(likely) = likely {
            let end = ends[likely];
            let (first, generation) = self.servers.first_of(end);
            if self.live(first, generation) {
                let flow = &mut self.slots[first as usize];
                flow.turn_to(usize::from(flow.ends()[1] == end));
            }
        }
        self.servers.meet(ends, server, new);
    }

    fn live(&self, slot: u32, generation: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|flow| flow.generation == generation && flow.live)
    }

    fn wake_at(&mut self, slot: u32, at: MonoNs) {
        let flow = &mut self.slots[slot as usize];
        if at != MonoNs(0) && (flow.wake == 0 || at.0 < flow.wake) {
            flow.wake = at.0;
            self.wakes.push(Reverse((at.0, slot, flow.generation)));
        }
    }

    /// It is `now`, as far as packets say.
    pub fn idle<S: RowSink>(&mut self, now: MonoNs, out: &mut S, done: &mut Sniffed) {
        self.now = self.now.max(now);
        let now = self.now;
        while let Some(&Reverse((at, slot, generation))) = self.wakes.peek() {
            if at > now.0 {
                break;
            }
            self.wakes.pop();
            if self.live(slot, generation) && self.slots[slot as usize].wake == at {
                self.wake(slot, out, done);
            }
        }
        while let Some(&(at, slot, generation)) = self.visits.front() {
            if at > now.0 {
                break;
            }
            self.visits.pop_front();
            if self.live(slot, generation) {
                self.visit(slot, out, done);
            }
        }
    }

    fn wake<S: RowSink>(&mut self, slot: u32, out: &mut S, done: &mut Sniffed) {
        let now = self.now;
        let flow = &mut self.slots[slot as usize];
        flow.wake = 0;
        if let Some(ended) = flow.ended {
            return self.end(slot, ended, now, out, done);
        }
        let held = flow.held_bytes();
        let wake = flow.overdue(now, out);
        flow.tell_decided(now, out);
        done.exchanges += flow.protocol_state.take_ended();
        if flow.ended.is_some() && !flow.protocol_state.is_over() {
            done.exchanges += flow.finish(Ending::Closed, self.lost, out);
        }
        self.held_bytes = self.held_bytes + flow.held_bytes() - held;
        self.wake_at(slot, wake);
    }

    fn visit<S: RowSink>(&mut self, slot: u32, out: &mut S, done: &mut Sniffed) {
        let (now, options) = (self.now, self.options);
        let flow = &mut self.slots[slot as usize];
        let held = flow.held_bytes();
        flow.decide(out);
        self.held_bytes = self.held_bytes + flow.held_bytes() - held;
        if now.0.saturating_sub(flow.last.0) >= options.idle_ns {
            return self.end(slot, FlowRowKind::Forgotten, now, out, done);
        }
        flow.protocol_state.visit(now, self.lost, options.update_ns, options.idle_ns, out);
        done.exchanges += flow.protocol_state.take_ended();
        if flow.is_news() {
            flow.tell(FlowRowKind::Update, now, out);
        }
        self.visits.push_back((now.0.saturating_add(options.update_ns), slot, flow.generation));
    }

    /// Gives up what was waited for longest, until the bound is kept.
    fn give_up_oldest<S: RowSink>(&mut self, out: &mut S, done: &mut Sniffed) {
        while self.held_bytes > self.options.held_bytes_max {
            let Some((slot, generation)) = self.holding.pop_front() else { return };
            if !self.live(slot, generation) {
                continue;
            }
            let flow = &mut self.slots[slot as usize];
            let held = flow.held_bytes();
            if held > 0 {
                if held > flow.protocol_state.held_bytes() {
                    out.count(defect::NET_HELD_LIMIT, self.now);
                }
                flow.flush(self.now, out);
                done.exchanges += flow.protocol_state.take_ended();
                self.held_bytes = self.held_bytes + flow.held_bytes() - held;
            }
        }
    }

    /// Forgets the flow that was silent longest, of those that are looked at next.
    fn make_room<S: RowSink>(&mut self, out: &mut S, done: &mut Sniffed) {
        let mut oldest = (MonoNs(u64::MAX), NONE);
        let (mut seen, mut i) = (0, 0);
        while seen < CANDIDATES && i < self.visits.len() {
            let (_, slot, generation) = self.visits[i];
            i += 1;
            if self.live(slot, generation) {
                seen += 1;
                let flow = &self.slots[slot as usize];
                let last = if flow.ended.is_some() { MonoNs(0) } else { flow.last };
                oldest = oldest.min((last, slot));
            }
        }
        if oldest.1 != NONE {
            let ended = self.slots[oldest.1 as usize].ended;
            if ended.is_none() {
                out.count(defect::NET_FLOWS_LIMIT, self.now);
            }
            let what = ended.unwrap_or(FlowRowKind::Forgotten);
            self.end(oldest.1, what, self.now, out, done);
        }
    }

    /// Tells the flow's end, and forgets it.
    fn end<S: RowSink>(&mut self, slot: u32, what: FlowRowKind, at: MonoNs, out: &mut S, done: &mut Sniffed) {
        let flow = &mut self.slots[slot as usize];
        let held = flow.held_bytes();
        if what != FlowRowKind::Fin && what != FlowRowKind::Reset {
            flow.flush(self.now, out);
            // What was held may hold the ends.
            flow.close_if_done();
            flow.obey_reset(self.now, out);
        }
        let what = flow.ended.unwrap_or(what);
        let closed = what == FlowRowKind::Fin || what == FlowRowKind::Reset;
        done.exchanges += flow.finish(if closed { Ending::Closed } else { Ending::Forgotten }, self.lost, out);
        flow.tell(what, if closed { flow.last } else { at }, out);
        flow.live = false;
        flow.carrier = Carrier::Datagrams(Datagrams::new());
        self.held_bytes -= held;
        let (key, next) = (flow.key, flow.next_same);
        let mut head = self.table.get(&key).copied().unwrap_or(NONE);
        if head == slot {
            if next == NONE {
                self.table.remove(&key);
            } else {
                self.table.insert(key, next);
            }
        } else {
            while head != NONE && self.slots[head as usize].next_same != slot {
                head = self.slots[head as usize].next_same;
            }
            if head != NONE {
                self.slots[head as usize].next_same = next;
            }
        }
        self.free.push(slot);
        // Entries of flows that are gone.
        if self.visits.len() > 64 + 4 * (self.slots.len() - self.free.len()) {
            let (slots, visits) = (&self.slots, &mut self.visits);
            visits.retain(|&(_, slot, generation)| {
                let flow = &slots[slot as usize];
                flow.live && flow.generation == generation
            });
        }
        if self.holding.len() > 1024 + self.slots.len() {
            let (slots, holding) = (&self.slots, &mut self.holding);
            holding.retain(|&(slot, generation)| {
                let flow = &slots[slot as usize];
                flow.live && flow.generation == generation && flow.held_bytes() > 0
            });
        }
    }

    /// Time goes on at `now`, before that of the packets so far: none of the flows goes on.
    pub fn restart<S: RowSink>(&mut self, now: MonoNs, out: &mut S, done: &mut Sniffed) {
        for slot in 0..self.slots.len() as u32 {
            let flow = &self.slots[slot as usize];
            if flow.live {
                let what = flow.ended.unwrap_or(FlowRowKind::Forgotten);
                self.end(slot, what, self.now, out, done);
            }
        }
        *self = Flows::new(self.options);
        self.now = now;
    }

    /// The capture ended.
    pub fn finish<S: RowSink>(&mut self, out: &mut S, done: &mut Sniffed) {
        for slot in 0..self.slots.len() as u32 {
            let flow = &self.slots[slot as usize];
            if flow.live {
                let what = flow.ended.unwrap_or(FlowRowKind::CaptureEnd);
                self.end(slot, what, self.now, out, done);
            }
        }
        self.visits.clear();
        self.wakes.clear();
        self.holding.clear();
    }
}

/// A transport header that is none, or was not captured.
fn unread<S: RowSink>(inner: &Inner<'_>, wanted: u32, out: &mut S) {
    let cut = inner.payload.len() < wanted as usize && inner.payload_length >= wanted;
    out.count(if cut { defect::NET_CUT } else { defect::NET_MALFORMED }, inner.at);
}
