//! Frames of the kernel vantage into rows.

use crate::RowSink;
use crate::flow::Flow;
use crate::tasks::{TaskFacts, Tasks};
use rustc_hash::FxHashMap;
use std::hash::{Hash, Hasher};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{EndpointRow, FlowStateRow, OpRow, PollRow, WaitRow, op, range, seen};
use wakepath_wire::{self as w, Frame};

/// How much of what was said may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: messages are not looked for.
    None,
    /// Masked attributes.
    Attributes,
    /// Masked attributes, and the captured bytes as they are.
    Heads,
}

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const IPPROTO_TCP: u16 = 6;
const TCP_CLOSE: u8 = 7;
const TCP_LISTEN: u8 = 10;
const PEER_BYTES: usize = 32;
/// Marks an endpoint that stands for one peer of an unconnected datagram socket.
const FLOW_PEER_BIT: u64 = 1 << 61;
/// Most endpoints followed at once; beyond it those that were idle longest are let go.
const FLOWS_MAX: usize = 200_000;

struct Met {
    row: EndpointRow,
    flow: Flow,
    used: u64,
}

/// Follows tasks and flows, and turns records into rows. Memory: some hundred bytes a living task, up to 9 KiB a flow
/// that speaks a known protocol.
pub struct KernelDecoder {
    payload: Payload,
    tasks: Tasks,
    flows: FxHashMap<u64, Met>,
    /// (namespace, port) of listeners: the local side of a flow on such a port is the server.
    listeners: FxHashMap<(u32, u16), ()>,
    events: u64,
}

impl KernelDecoder {
    /// A decoder that has seen nothing.
    pub fn new(payload: Payload) -> KernelDecoder {
        KernelDecoder {
            payload,
            tasks: Tasks::default(),
            flows: FxHashMap::default(),
            listeners: FxHashMap::default(),
            events: 0,
        }
    }

    /// A task that was there before the recording.
    pub fn task<S: RowSink>(&mut self, tgid: u32, tid: u32, facts: &TaskFacts, at: MonoNs, sink: &mut S) {
        self.tasks.add(tgid, tid, facts, at, sink);
    }

    /// Everything alive again, for a segment that must stand alone.
    pub fn restate<S: RowSink>(&self, at: MonoNs, sink: &mut S) {
        self.tasks.restate(at, sink);
        for m in self.flows.values() {
            let mut row = EndpointRow { at, how: seen::SNAPSHOT, ..m.row };
            row.snd = m.flow.snd.next().unwrap_or(row.snd);
            row.rcv = m.flow.rcv.next().unwrap_or(row.rcv);
            sink.push(&row);
            m.flow.restate(EndpointId(m.row.flow.0), at, sink);
        }
    }

    /// One record.
    pub fn frame<S: RowSink>(&mut self, f: Frame<'_>, sink: &mut S) {
        self.events += 1;
        let Some(head) = f.head() else { return };
        match head.kind {
            w::KIND_OP => {
                if let Some(o) = f.read::<w::Op>() {
                    self.operation(&o, &f, sink);
                }
            }
            w::KIND_WAIT => {
                if let Some(r) = f.read::<w::Wait>() {
                    self.wait(&r, sink);
                }
            }
            w::KIND_POLL => {
                if let Some(r) = f.read::<w::Poll>() {
                    self.poll(&r, sink);
                }
            }
            w::KIND_FLOW => {
                if let Some(r) = f.read::<w::FlowSeen>() {
                    self.seen(&r, sink);
                }
            }
            w::KIND_STATE => {
                if let Some(r) = f.read::<w::FlowState>() {
                    self.state(&r, sink);
                }
            }
            w::KIND_TASK => {
                if let Some(r) = f.read::<w::TaskEvent>() {
                    let cmdline = f.tail::<w::TaskEvent>(r.cmdline_bytes as usize);
                    self.tasks.event(&r, cmdline, sink);
                }
            }
            _ => {}
        }
    }

    fn seen<S: RowSink>(&mut self, r: &w::FlowSeen, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        if r.state == TCP_LISTEN && r.protocol == IPPROTO_TCP {
            self.listeners.insert((r.netns, r.lport), ());
        }
        let mut side = match r.head.sub {
            w::FLOW_ACCEPTED => 1,
            w::FLOW_CONNECTED => 2,
            _ => 0,
        };
        if side == 0 && r.protocol == IPPROTO_TCP && r.family != AF_UNIX && r.rport != 0 {
            // both ends may listen on the other's port only on one machine with one namespace: then the data tells
            let here = self.listeners.contains_key(&(r.netns, r.lport));
            let there = self.listeners.contains_key(&(r.netns, r.rport)) && r.laddr == r.raddr;
            side = match (here, there) {
                (true, false) => 1,
                (false, true) => 2,
                (false, false) if r.head.sub == w::FLOW_SNAPSHOT || r.head.sub == w::FLOW_MET => 0,
                _ => 0,
            };
        }
        if r.family == AF_UNIX && r.peer_flow != 0 {
            side = if r.path_bytes != 0 { 1 } else { 2 };
        }
        let task = if r.tgid != 0 { self.tasks.id(r.tgid, r.tgid, at, sink) } else { TaskId::UNKNOWN };
        let datagram = r.kind == 2;
        let old = self.flows.remove(&r.flow);
        let mut flow = match old {
            // met by an operation before the snapshot came by: keep what was followed since
            Some(m) if m.row.protocol == r.protocol => {
                if m.row.family != 0 && r.head.sub == w::FLOW_SNAPSHOT {
                    self.flows.insert(r.flow, m);
                    return;
                }
                m.flow
            }
            _ => Flow::new(side, (r.lport, r.rport), datagram),
        };
        if flow.side == 0 {
            flow.side = side;
        }
        flow.ports = (r.lport, r.rport);
        flow.datagram = datagram;
        let (snd, rcv) = (flow.snd.begin(r.snd_seq), flow.rcv.begin(r.rcv_seq));
        let id = EndpointId(r.flow);
        let row = EndpointRow {
            at,
            flow: id,
            peer: EndpointId(r.peer_flow),
            snd,
            rcv,
            laddr: r.laddr,
            raddr: r.raddr,
            netns: r.netns,
            task,
            path: StrId::EMPTY,
            lport: r.lport,
            rport: r.rport,
            family: r.family,
            protocol: if r.family == AF_UNIX { 0 } else { r.protocol },
            how: r.head.sub,
            state: r.state,
            side: flow.side,
            ulp: r.ulp,
        };
        sink.push(&row);
        if r.ulp != 0 {
            flow.opaque(id, at, "kernel TLS: its bytes are not those of the wire", sink);
        }
        self.flows.insert(r.flow, Met { row, flow, used: self.events });
    }

    /// The endpoint, or a bare one where its announcement was lost.
    fn met(&mut self, id: u64) -> &mut Met {
        if self.flows.len() > FLOWS_MAX {
            let horizon = self.events.saturating_sub(1_000_000);
            self.flows.retain(|_, m| m.used > horizon || m.row.state == TCP_LISTEN);
        }
        let used = self.events;
        let m = self.flows.entry(id).or_insert_with(|| Met {
            row: EndpointRow { flow: EndpointId(id), how: seen::MET, ..no_endpoint() },
            flow: Flow::new(0, (0, 0), false),
            used,
        });
        m.used = used;
        m
    }

    /// The endpoint that stands for one peer of an unconnected datagram socket.
    fn peer<S: RowSink>(&mut self, socket: u64, address: &[u8], at: MonoNs, sink: &mut S) -> u64 {
        let (family, port) = (u16::from_ne_bytes([address[0], address[1]]), u16::from_be_bytes([address[2], address[3]]));
        let mut raddr = [0u8; 16];
        if family == AF_INET {
            raddr[..4].copy_from_slice(&address[4..8]);
        } else {
            raddr.copy_from_slice(&address[8..24]);
        }
        let mut h = rustc_hash::FxHasher::default();
        (socket, port, raddr).hash(&mut h);
        let id = (h.finish() >> 3) | FLOW_PEER_BIT;
        let own = self.flows.get(&socket).map(|m| m.row);
        if self.flows.contains_key(&id) {
            return id;
        }
        let base = own.unwrap_or_else(no_endpoint);
        // the usual port of a service says which end serves, where nothing else does
        let side = if base.lport != 0 && base.lport < 1024 && port >= 1024 { 1 } else { 2 };
        let mut flow = Flow::new(side, (base.lport, port), true);
        let (snd, rcv) = (flow.snd.begin(0), flow.rcv.begin(0));
        let row = EndpointRow {
            at,
            flow: EndpointId(id),
            peer: EndpointId(socket),
            snd,
            rcv,
            raddr,
            rport: port,
            how: seen::MET,
            side,
            ..base
        };
        sink.push(&row);
        self.flows.insert(id, Met { row, flow, used: self.events });
        id
    }

    fn operation<S: RowSink>(&mut self, o: &w::Op, f: &Frame<'_>, sink: &mut S) {
        let at = MonoNs(o.ts_ns);
        let task = self.tasks.id(o.tgid, o.tid, at, sink);
        let entry = if o.flags & w::OPF_ENTRY != 0 { o.ts_ns.saturating_sub(o.entry_ago_ns.into()) } else { o.ts_ns };
        let arrived = if o.flags & w::OPF_ARRIVED != 0 { o.ts_ns.saturating_sub(o.arrived_ago_ns.into()) } else { 0 };
        let mut row = OpRow {
            at,
            entry: MonoNs(entry),
            arrived: MonoNs(arrived),
            flow: EndpointId(o.flow),
            start: 0,
            end: 0,
            task,
            result: o.bytes,
            kind: o.head.sub,
            range: range::NONE,
            flags: o.flags & (w::OPF_TURN | w::OPF_MORE | w::OPF_IO_URING | w::OPF_SHUT_WRITE),
            syscall: o.syscall,
            cpu: o.cpu,
        };
        let tail = f.tail::<w::Op>(f.bytes.len());
        let has_peer = o.flags & w::OPF_PEER != 0 && tail.len() >= PEER_BYTES;
        let (address, tail) = tail.split_at(if has_peer { PEER_BYTES } else { 0 });
        let head = &tail[..(o.head_bytes as usize).min(tail.len())];
        let known = self.flows.get(&o.flow).is_some_and(|m| m.row.rport != 0);
        let mut id = o.flow;
        if has_peer && !known && matches!(u16::from_ne_bytes([address[0], address[1]]), 2 | 10) {
            id = self.peer(o.flow, address, at, sink);
            row.flow = EndpointId(id);
        }
        let payload = self.payload;
        let sent = o.head.sub == op::SEND;
        let is_pipe = id & w::FLOW_PIPE_BIT != 0;
        let m = self.met(id);
        match o.head.sub {
            op::SEND | op::RECV if o.bytes > 0 => {
                let numbers = if sent { &mut m.flow.snd } else { &mut m.flow.rcv };
                let bytes = o.bytes as u64;
                let counted = o.flags & w::OPF_COUNTED != 0;
                let (start, end, class) = if id & FLOW_PEER_BIT != 0 && !is_pipe {
                    let next = numbers.next().unwrap_or(1 << 32);
                    numbers.moved((next + bytes) as u32, bytes, true)
                } else {
                    numbers.moved(o.seq_end, bytes, counted)
                };
                (row.start, row.end, row.range) = (start, end, class);
                sink.push(&row);
                match class {
                    range::GAP => sink.count(defect::RANGE_GAP, at),
                    range::OVERLAP => sink.count(defect::RANGE_OVERLAP, at),
                    _ => {}
                }
                if payload != Payload::None && !is_pipe {
                    m.flow.bytes(EndpointId(id), at, sent, start, bytes, head, sink);
                }
                if payload == Payload::Heads && !head.is_empty() {
                    sink.push_head(at, EndpointId(id), start, sent, head);
                }
            }
            op::RECV if o.bytes == 0 => {
                if let Some(next) = m.flow.rcv.next() {
                    (row.start, row.end) = (next, next);
                }
                sink.push(&row);
                m.flow.ended(EndpointId(id), at, false, sink);
            }
            op::ACCEPT => {
                m.flow.side = 1;
                sink.push(&row);
            }
            op::CONNECT => {
                m.flow.side = 2;
                sink.push(&row);
            }
            _ => sink.push(&row),
        }
    }

    fn state<S: RowSink>(&mut self, r: &w::FlowState, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let task = if r.by_task != 0 { self.tasks.known(r.tid) } else { TaskId::UNKNOWN };
        let id = EndpointId(r.flow);
        let Some(m) = self.flows.get_mut(&r.flow) else { return };
        let near = |n: Option<u64>, seq: u32| match n {
            Some(n) => n.wrapping_add_signed(i64::from(seq.wrapping_sub(n as u32) as i32)),
            None => (1 << 32) + u64::from(seq),
        };
        let row = FlowStateRow {
            at,
            flow: id,
            snd: near(m.flow.snd.next(), r.snd_seq),
            rcv: near(m.flow.rcv.next(), r.rcv_seq),
            task,
            old: r.old,
            new: r.new,
            reset: r.reset,
            by_task: r.by_task,
        };
        sink.push(&row);
        if r.reset == 0 && r.new == TCP_CLOSE {
            m.flow.ended(id, at, true, sink);
            m.flow.ended(id, at, false, sink);
            if m.row.state == TCP_LISTEN {
                self.listeners.remove(&(m.row.netns, m.row.lport));
            }
            self.flows.remove(&r.flow);
        }
    }

    fn wait<S: RowSink>(&mut self, r: &w::Wait, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let task = self.tasks.id(r.tgid, r.tid, at, sink);
        sink.push(&WaitRow {
            at,
            blocked: MonoNs(r.blocked_ns),
            woken: MonoNs(r.woken_ns),
            object: r.object,
            arg0: r.arg0,
            task,
            by: if r.by_tid != 0 { self.tasks.known(r.by_tid) } else { TaskId::UNKNOWN },
            rcv_seq: r.rcv_seq,
            state: r.state,
            syscall: r.syscall,
            cpu: r.cpu,
            woken_cpu: r.woken_cpu,
            cause: r.head.sub,
            pad: [0; 3],
        });
    }

    fn poll<S: RowSink>(&mut self, r: &w::Poll, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let task = self.tasks.id(r.tgid, r.tid, at, sink);
        sink.push(&PollRow {
            at,
            entry: MonoNs(r.ts_ns.saturating_sub(r.entry_ago_ns)),
            timeout_ns: r.timeout_ns,
            task,
            ready: r.ready,
            fd: r.fd,
            pad: 0,
        });
    }
}

fn no_endpoint() -> EndpointRow {
    bytemuck::Zeroable::zeroed()
}
