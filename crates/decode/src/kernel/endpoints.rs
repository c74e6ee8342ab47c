//! The endpoints of flows: what their announcements and operations tell of them.

use super::rows::code;
use crate::flow::Flow;
use crate::sink::RowSink;
use rustc_hash::FxHashMap;
use std::hash::{Hash, Hasher};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{EndpointRow, OpKind, SeenHow, Side, TcpState};
use wakepath_wire as w;

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const IPPROTO_TCP: u16 = 6;
const IPPROTO_UDP: u16 = 17;
const AF_INET6: u16 = 10;
/// Marks an endpoint that stands for one peer of an unconnected datagram socket.
const FLOW_PEER_BIT: u64 = 1 << 61;
/// Most endpoints followed at once; beyond it those that were idle longest are let go.
const FLOWS_MAX: usize = 200_000;
/// An endpoint is idle when it was not used for so many events.
const SWEEP_EVENTS: u64 = 1_000_000;

/// An endpoint that is followed.
pub(super) struct TrackedFlow {
    pub row: EndpointRow,
    pub flow: Flow,
    /// Number of the event that used it last.
    used: u64,
}

impl TrackedFlow {
    /// The row as it stands now.
    pub fn push<S: RowSink>(&self, at: MonoNs, sink: &mut S) {
        let mut row = EndpointRow { at, ..self.row };
        row.snd = self.flow.snd.next().unwrap_or(row.snd);
        row.rcv = self.flow.rcv.next().unwrap_or(row.rcv);
        row.side = self.flow.side;
        sink.push(&row);
    }

    /// It is announced again (by the snapshot, or by each process that holds it): only what was not known yet is news.
    fn announced_again<S: RowSink>(&mut self, r: &w::FlowSeen, name: &[u8], side: Side, task: TaskId, sink: &mut S) {
        let before = self.row;
        if self.flow.side == Side::Unknown {
            self.flow.side = side;
        }
        self.row.side = self.flow.side;
        if self.row.peer.0 == 0 {
            self.row.peer = EndpointId(r.peer_flow);
        }
        if self.row.task == TaskId::UNKNOWN {
            self.row.task = task;
        }
        // a datagram socket that was connected, or bound, since
        if r.rport != 0 || self.row.lport == 0 {
            (self.row.lport, self.row.rport, self.row.laddr, self.row.raddr) = (r.lport, r.rport, r.laddr, r.raddr);
            self.row.family = r.family;
            plain_v4(&mut self.row);
            self.flow.joins(&self.row);
        }
        // a UNIX socket that tries another path after one that failed
        if r.family == AF_UNIX && r.marks & w::FLOW_NAMED == 0 && !name.is_empty() {
            self.row.path = unix_name(name, sink);
        }
        if self.row != before {
            self.push(MonoNs(r.ts_ns), sink);
        }
    }
}

/// All endpoints that are followed.
#[derive(Default)]
pub(super) struct Endpoints {
    flows: FxHashMap<u64, TrackedFlow>,
    /// (namespace, port) of listeners: the local side of a flow on such a port is the server.
    listeners: FxHashMap<(u32, u16), ()>,
    events: u64,
    /// After how many events idle flows are looked for again.
    sweep: u64,
}

impl Endpoints {
    /// One more event: what was not used for many is idle.
    pub fn tick(&mut self) {
        self.events += 1;
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &TrackedFlow> {
        self.flows.values()
    }

    /// The endpoint, if it is followed.
    pub fn get(&mut self, id: u64) -> Option<&mut TrackedFlow> {
        self.flows.get_mut(&id)
    }

    /// The endpoint is gone.
    pub fn remove(&mut self, id: u64) {
        self.flows.remove(&id);
    }

    /// Nobody listens on that port any more.
    pub fn stops_listening(&mut self, netns: u32, port: u16) {
        self.listeners.remove(&(netns, port));
    }

    /// A flow is announced; `task` has it.
    pub fn seen<S: RowSink>(&mut self, r: &w::FlowSeen, name: &[u8], task: TaskId, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        if r.state == TcpState::Listen as u8 && r.protocol == IPPROTO_TCP {
            self.listeners.insert((r.netns, r.lport), ());
        }
        let side = self.side(r);
        let id = EndpointId(r.flow);
        if let Some(m) = self.flows.get_mut(&r.flow)
            && m.row.family != 0
        {
            m.announced_again(r, name, side, task, sink);
            self.tell_peer(r.flow, r.peer_flow, at, sink);
            return;
        }
        let datagram = r.kind == 2;
        // operations that came before the announcement have told numbers and perhaps the side
        let mut flow = self.flows.remove(&r.flow).map_or_else(|| Flow::new(side, (0, 0), datagram), |m| m.flow);
        if flow.side == Side::Unknown {
            flow.side = side;
        }
        flow.datagram = datagram;
        // the other end's first number comes with its answer, which a connection is told of while it still has this state
        let is_unanswered = r.protocol == IPPROTO_TCP && r.state == TcpState::SynSent as u8 && r.rcv_seq == 0;
        let rcv = if is_unanswered { flow.rcv.next().unwrap_or(0) } else { flow.rcv.begin(r.rcv_seq) };
        let snd = flow.snd.begin(r.snd_seq);
        let first = |seq: u32| if r.marks & w::FLOW_FIRST != 0 { (1 << 32) + u64::from(seq) } else { 0 };
        let mut row = EndpointRow {
            at,
            flow: id,
            peer: EndpointId(r.peer_flow),
            snd,
            rcv,
            laddr: r.laddr,
            raddr: r.raddr,
            netns: r.netns,
            task,
            path: unix_name(name, sink),
            lport: r.lport,
            rport: r.rport,
            family: r.family,
            protocol: if r.family == AF_UNIX { 0 } else { r.protocol },
            how: code(r.head.sub, at, sink),
            state: code(r.state, at, sink),
            side: flow.side,
            ulp: u8::from(r.marks & w::FLOW_ULP != 0),
            snd_first: first(r.snd_first),
            rcv_first: first(r.rcv_first),
            ..Default::default()
        };
        plain_v4(&mut row);
        flow.joins(&row);
        sink.push(&row);
        if row.ulp != 0 {
            flow.opaque(id, at, "kernel TLS or MPTCP: its bytes are not those of the wire", sink);
        }
        let used = self.events;
        self.flows.insert(r.flow, TrackedFlow { row, flow, used });
        self.tell_peer(r.flow, r.peer_flow, at, sink);
    }
    /// Which end serves, as far as the announcement tells.
    fn side(&self, r: &w::FlowSeen) -> Side {
        match r.head.sub {
            w::FLOW_ACCEPTED => return Side::Server,
            w::FLOW_CONNECTED => return Side::Client,
            _ => {}
        }
        if r.family == AF_UNIX {
            // what came out of a listener bears its name; of a socketpair neither end has one
            return match (r.marks & w::FLOW_NAMED != 0, r.marks & w::FLOW_PEER_NAMED != 0) {
                (true, false) if r.peer_flow != 0 => Side::Server,
                (false, true) => Side::Client,
                _ => Side::Unknown,
            };
        }
        if r.rport == 0 {
            return Side::Unknown;
        }
        if r.protocol == IPPROTO_TCP {
            // both ends may listen on the other's port only on one machine with one namespace: then the data tells
            let here = self.listeners.contains_key(&(r.netns, r.lport));
            let there = self.listeners.contains_key(&(r.netns, r.rport)) && r.laddr == r.raddr;
            return match (here, there) {
                (true, false) => Side::Server,
                (false, true) => Side::Client,
                _ => Side::Unknown,
            };
        }
        usual_side(r.lport, r.rport)
    }
    /// The other end of a UNIX flow was announced when it did not know this one: it learns it now.
    fn tell_peer<S: RowSink>(&mut self, flow: u64, peer: u64, at: MonoNs, sink: &mut S) {
        let side = self.flows.get(&flow).map_or(Side::Unknown, |m| m.flow.side);
        let Some(m) = self.flows.get_mut(&peer).filter(|m| m.row.family == AF_UNIX) else {
            return;
        };
        let before = m.row;
        if m.row.peer.0 == 0 {
            m.row.peer = EndpointId(flow);
        }
        if m.flow.side == Side::Unknown {
            m.flow.side = side.other();
        }
        m.row.side = m.flow.side;
        if m.row != before {
            m.flow.joins(&m.row);
            m.push(at, sink);
        }
    }
    /// The endpoint, or a bare one where its announcement was lost.
    pub fn tracked(&mut self, id: u64) -> &mut TrackedFlow {
        if self.flows.len() > FLOWS_MAX && self.events > self.sweep {
            let horizon = self.events.saturating_sub(SWEEP_EVENTS);
            self.sweep = self.events + SWEEP_EVENTS / 4;
            self.flows.retain(|_, m| m.used > horizon || m.row.state == TcpState::Listen);
        }
        let used = self.events;
        let m = self.flows.entry(id).or_insert_with(|| TrackedFlow {
            row: EndpointRow { flow: EndpointId(id), how: SeenHow::Met, ..EndpointRow::default() },
            flow: Flow::new(Side::Unknown, (0, 0), false),
            used,
        });
        m.used = used;
        m
    }
    /// The endpoint that stands for one peer of an unconnected datagram socket.
    fn peer<S: RowSink>(&mut self, socket: u64, address: &[u8], at: MonoNs, sink: &mut S) -> u64 {
        let (family, port) =
            (u16::from_ne_bytes([address[0], address[1]]), u16::from_be_bytes([address[2], address[3]]));
        let mut raddr = [0u8; 16];
        if family == AF_INET {
            raddr[..4].copy_from_slice(&address[4..8]);
        } else {
            raddr.copy_from_slice(&address[8..24]);
        }
        let mut h = rustc_hash::FxHasher::default();
        (socket, port, raddr).hash(&mut h);
        let id = (h.finish() >> 3) | FLOW_PEER_BIT;
        if self.flows.contains_key(&id) {
            return id;
        }
        let base = self.flows.get(&socket).map_or_else(EndpointRow::default, |m| m.row);
        let side = usual_side(base.lport, port);
        let mut flow = Flow::new(side, (base.lport, port), true);
        let (snd, rcv) = (flow.snd.begin(0), flow.rcv.begin(0));
        let mut row = EndpointRow {
            at,
            flow: EndpointId(id),
            peer: EndpointId(0),
            snd,
            rcv,
            raddr,
            rport: port,
            how: SeenHow::Met,
            side,
            ..base
        };
        plain_v4(&mut row);
        flow.joins(&row);
        // the first operation tells the side where the ports do not, and writes the row then
        if side != Side::Unknown {
            sink.push(&row);
        }
        self.flows.insert(id, TrackedFlow { row, flow, used: self.events });
        id
    }

    /// The endpoint that stands for the peer at `address` (empty: none was recorded), where the socket is not connected to it.
    pub fn peer_of<S: RowSink>(&mut self, o: &w::Op, address: &[u8], sink: &mut S) -> Option<u64> {
        let is_ip = |a: &[u8]| matches!(u16::from_ne_bytes([a[0], a[1]]), AF_INET | AF_INET6);
        let by_peer = !address.is_empty()
            && o.flow & w::FLOW_PIPE_BIT == 0
            && is_ip(address)
            && self.flows.get(&o.flow).is_none_or(|m| m.row.rport == 0);
        by_peer.then(|| self.peer(o.flow, address, MonoNs(o.ts_ns), sink))
    }

    /// An operation without bytes: it may tell the side. A flow that is gone, or was never announced, is not made by its
    /// close.
    pub fn control<S: RowSink>(&mut self, o: &w::Op, kind: OpKind, sink: &mut S) {
        let Some(m) = self.flows.get_mut(&o.flow) else { return };
        let side = match kind {
            OpKind::Accept => Side::Server,
            OpKind::Connect if m.row.protocol != IPPROTO_UDP => Side::Client,
            _ => Side::Unknown,
        };
        if side != Side::Unknown && m.flow.side == Side::Unknown {
            (m.flow.side, m.row.side) = (side, side);
            m.push(MonoNs(o.ts_ns), sink);
        }
    }
}

/// The side by the ports of a datagram flow: a service has a reserved one.
fn usual_side(lport: u16, rport: u16) -> Side {
    let usual = |p: u16| p != 0 && p < 1024;
    match (usual(lport), usual(rport)) {
        (true, false) => Side::Server,
        (false, true) => Side::Client,
        _ => Side::Unknown,
    }
}
/// A socket that speaks both families says `::ffff:10.0.0.1` where the other end says `10.0.0.1`.
fn plain_v4(row: &mut EndpointRow) {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    if row.family != AF_INET6 || row.raddr[..12] != MAPPED {
        return;
    }
    row.family = AF_INET;
    for a in [&mut row.laddr, &mut row.raddr] {
        let mut plain = [0; 16];
        if a[..12] == MAPPED {
            plain[..4].copy_from_slice(&a[12..]);
        }
        *a = plain;
    }
}
/// A UNIX socket's name as text: an abstract one begins with `@`.
fn unix_name<S: RowSink>(name: &[u8], sink: &mut S) -> StrId {
    match name.split_first() {
        None => StrId::EMPTY,
        Some((0, rest)) => {
            let mut text = vec![b'@'];
            text.extend(rest.iter().map(|&b| if b.is_ascii_control() { b'?' } else { b }));
            sink.intern(&text)
        }
        Some(_) => sink.intern(&name[..name.iter().position(|&b| b == 0).unwrap_or(name.len())]),
    }
}
