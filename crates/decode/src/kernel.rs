//! Frames of the kernel vantage, and of the library vantage, into rows.

use crate::flow::Flow;
use crate::joined::{Joined, PEER_BYTES};
use crate::sink::{RowSink, TaskFacts};
use crate::tasks::Tasks;
use rustc_hash::FxHashMap;
use std::hash::{Hash, Hasher};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    DescriptorRow, EndpointRow, FaultRow, FlowStateRow, InputRow, LimitRow, MarkRow, OpRow, PollRow, ResentRow,
    StackRow, WaitRow, limit, op, range, seen,
};
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
const IPPROTO_UDP: u16 = 17;
const AF_INET6: u16 = 10;
const TCP_CLOSE: u8 = 7;
const TCP_LISTEN: u8 = 10;
/// Marks an endpoint that stands for one peer of an unconnected datagram socket.
const FLOW_PEER_BIT: u64 = 1 << 61;
/// Most endpoints followed at once; beyond it those that were idle longest are let go.
const FLOWS_MAX: usize = 200_000;
/// Most names of files that are remembered; beyond, they are learned again.
const FILE_NAMES_MAX: usize = 1 << 16;
/// An endpoint is idle when it was not used for so many events.
const SWEEP_EVENTS: u64 = 1_000_000;

struct Met {
    row: EndpointRow,
    flow: Flow,
    used: u64,
}

impl Met {
    /// The row as it stands now.
    fn push<S: RowSink>(&self, at: MonoNs, sink: &mut S) {
        let mut row = EndpointRow { at, ..self.row };
        row.snd = self.flow.snd.next().unwrap_or(row.snd);
        row.rcv = self.flow.rcv.next().unwrap_or(row.rcv);
        row.side = self.flow.side;
        sink.push(&row);
    }
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
    /// After how many events idle flows are looked for again.
    sweep: u64,
    /// Names of files by device, inode and generation, as page faults tell them.
    file_names: FxHashMap<(u32, u64, u32), StrId>,
    /// Only where both vantages record.
    pub(crate) joined: Option<Joined>,
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
            sweep: 0,
            file_names: FxHashMap::default(),
            joined: None,
        }
    }

    /// A task that was there before the recording.
    pub fn task<S: RowSink>(&mut self, tgid: u32, tid: u32, facts: &TaskFacts, at: MonoNs, sink: &mut S) {
        self.tasks.add(tgid, tid, facts, at, sink);
    }

    /// What a tid means now; [`TaskId::UNKNOWN`] where it was not met.
    pub fn task_of(&self, tid: u32) -> TaskId {
        self.tasks.known(tid)
    }

    /// Writes down that a process was selected to be watched. False: it is not known yet.
    pub fn watched<S: RowSink>(&self, tgid: u32, at: MonoNs, sink: &mut S) -> bool {
        self.tasks.watched(tgid, at, sink)
    }

    /// Everything alive again, for a segment that must stand alone.
    pub fn restate<S: RowSink>(&self, at: MonoNs, sink: &mut S) {
        self.tasks.restate(at, sink);
        for m in self.flows.values() {
            m.push(at, sink);
            m.flow.restate(EndpointId(m.row.flow.0), at, sink);
        }
    }

    /// One record.
    pub fn frame<S: RowSink>(&mut self, f: Frame<'_>, sink: &mut S) {
        if self.joined.is_some() && self.is_held(&f, sink) {
            return;
        }
        self.record(f, sink);
    }

    pub(crate) fn record<S: RowSink>(&mut self, f: Frame<'_>, sink: &mut S) {
        self.events += 1;
        let Some(head) = f.head() else { return };
        match head.kind {
            w::KIND_OP => {
                if let Some(o) = f.read::<w::Op>() {
                    self.operation(&o, &f, sink);
                }
            }
            w::KIND_INPUT => {
                if let Some(r) = f.read::<w::Input>() {
                    self.input(&r, sink);
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
            w::KIND_STACK => {
                if let Some(r) = f.read::<w::Stack>() {
                    self.stack(&r, sink);
                }
            }
            w::KIND_FLOW => {
                if let Some(r) = f.read::<w::FlowSeen>() {
                    self.seen(&r, f.tail::<w::FlowSeen>(r.name_bytes.into()), sink);
                }
            }
            w::KIND_STATE => {
                if let Some(r) = f.read::<w::FlowState>() {
                    self.state(&r, sink);
                }
            }
            w::KIND_MARK => {
                if let Some(r) = f.read::<w::Mark>() {
                    self.mark(&r, &f, sink);
                }
            }
            w::KIND_FAULT_FILE => {
                if let Some(r) = f.read::<w::FaultFile>() {
                    self.file_name(&r, sink);
                }
            }
            w::KIND_FAULT => {
                if let Some(r) = f.read::<w::Fault>() {
                    self.fault(&r, sink);
                }
            }
            w::KIND_SIZES => {
                if let Some(r) = f.read::<w::Sizes>() {
                    sink.push(&sizes(&r));
                }
            }
            w::KIND_FD => {
                if let Some(r) = f.read::<w::Descriptor>() {
                    self.descriptor(&r, sink);
                }
            }
            w::KIND_RESENT => {
                if let Some(r) = f.read::<w::Resent>() {
                    sink.push(&resent(&r));
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

    fn seen<S: RowSink>(&mut self, r: &w::FlowSeen, name: &[u8], sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        if r.state == TCP_LISTEN && r.protocol == IPPROTO_TCP {
            self.listeners.insert((r.netns, r.lport), ());
        }
        let side = self.side(r);
        let task = if r.tgid != 0 { self.tasks.id(r.tgid, r.tgid, at, sink) } else { TaskId::UNKNOWN };
        let id = EndpointId(r.flow);
        if let Some(m) = self.flows.get_mut(&r.flow)
            && m.row.family != 0
        {
            // told again (by the snapshot, or by each process that holds it): only what was not known yet is news
            let before = m.row;
            if m.flow.side == 0 {
                m.flow.side = side;
            }
            m.row.side = m.flow.side;
            if m.row.peer.0 == 0 {
                m.row.peer = EndpointId(r.peer_flow);
            }
            if m.row.task == TaskId::UNKNOWN {
                m.row.task = task;
            }
            // a datagram socket that was connected, or bound, since
            if r.rport != 0 || m.row.lport == 0 {
                (m.row.lport, m.row.rport, m.row.laddr, m.row.raddr) = (r.lport, r.rport, r.laddr, r.raddr);
                m.row.family = r.family;
                plain_v4(&mut m.row);
                m.flow.joins(&m.row);
            }
            // a UNIX socket that tries another path after one that failed
            if r.family == AF_UNIX && r.marks & w::FLOW_NAMED == 0 && !name.is_empty() {
                m.row.path = unix_name(name, sink);
            }
            if m.row != before {
                m.push(at, sink);
            }
            self.tell_peer(r.flow, r.peer_flow, at, sink);
            return;
        }
        let datagram = r.kind == 2;
        // operations that came before the announcement have told numbers and perhaps the side
        let mut flow = self.flows.remove(&r.flow).map_or_else(|| Flow::new(side, (0, 0), datagram), |m| m.flow);
        if flow.side == 0 {
            flow.side = side;
        }
        flow.datagram = datagram;
        let (snd, rcv) = (flow.snd.begin(r.snd_seq), flow.rcv.begin(r.rcv_seq));
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
            how: r.head.sub,
            state: r.state,
            side: flow.side,
            ulp: u8::from(r.marks & w::FLOW_ULP != 0),
            ..Default::default()
        };
        plain_v4(&mut row);
        flow.joins(&row);
        sink.push(&row);
        if row.ulp != 0 {
            flow.opaque(id, at, "kernel TLS or MPTCP: its bytes are not those of the wire", sink);
        }
        let used = self.events;
        self.flows.insert(r.flow, Met { row, flow, used });
        self.tell_peer(r.flow, r.peer_flow, at, sink);
    }

    /// Which end serves, as far as the announcement tells.
    fn side(&self, r: &w::FlowSeen) -> u8 {
        match r.head.sub {
            w::FLOW_ACCEPTED => return 1,
            w::FLOW_CONNECTED => return 2,
            _ => {}
        }
        if r.family == AF_UNIX {
            // what came out of a listener bears its name; of a socketpair neither end has one
            return match (r.marks & w::FLOW_NAMED != 0, r.marks & w::FLOW_PEER_NAMED != 0) {
                (true, false) if r.peer_flow != 0 => 1,
                (false, true) => 2,
                _ => 0,
            };
        }
        if r.rport == 0 {
            return 0;
        }
        if r.protocol == IPPROTO_TCP {
            // both ends may listen on the other's port only on one machine with one namespace: then the data tells
            let here = self.listeners.contains_key(&(r.netns, r.lport));
            let there = self.listeners.contains_key(&(r.netns, r.rport)) && r.laddr == r.raddr;
            return match (here, there) {
                (true, false) => 1,
                (false, true) => 2,
                _ => 0,
            };
        }
        usual_side(r.lport, r.rport)
    }

    /// The other end of a UNIX flow was announced when it did not know this one: it learns it now.
    fn tell_peer<S: RowSink>(&mut self, flow: u64, peer: u64, at: MonoNs, sink: &mut S) {
        let side = self.flows.get(&flow).map_or(0, |m| m.flow.side);
        let Some(m) = self.flows.get_mut(&peer).filter(|m| m.row.family == AF_UNIX) else {
            return;
        };
        let before = m.row;
        if m.row.peer.0 == 0 {
            m.row.peer = EndpointId(flow);
        }
        if m.flow.side == 0 && side != 0 {
            m.flow.side = 3 - side;
        }
        m.row.side = m.flow.side;
        if m.row != before {
            m.flow.joins(&m.row);
            m.push(at, sink);
        }
    }

    /// The endpoint, or a bare one where its announcement was lost.
    fn met(&mut self, id: u64) -> &mut Met {
        if self.flows.len() > FLOWS_MAX && self.events > self.sweep {
            let horizon = self.events.saturating_sub(SWEEP_EVENTS);
            self.sweep = self.events + SWEEP_EVENTS / 4;
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
        let base = self.flows.get(&socket).map_or_else(no_endpoint, |m| m.row);
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
            how: seen::MET,
            side,
            ..base
        };
        plain_v4(&mut row);
        flow.joins(&row);
        // the first operation tells the side where the ports do not, and writes the row then
        if side != 0 {
            sink.push(&row);
        }
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
            flags: o.flags & (w::OPF_TURN | w::OPF_MORE | w::OPF_IO_URING | w::OPF_SHUT_WRITE | w::OPF_HELD),
            syscall: o.syscall,
            cpu: o.cpu,
            ..Default::default()
        };
        let sent = match o.head.sub {
            op::SEND => true,
            op::RECV => false,
            control => {
                // no bytes; a flow that is gone, or was never announced, is not made by its close
                if let Some(m) = self.flows.get_mut(&o.flow) {
                    let side = match control {
                        op::ACCEPT => 1,
                        op::CONNECT if m.row.protocol != IPPROTO_UDP => 2,
                        _ => 0,
                    };
                    if side != 0 && m.flow.side == 0 {
                        (m.flow.side, m.row.side) = (side, side);
                        m.push(at, sink);
                    }
                }
                sink.push(&row);
                return;
            }
        };
        let tail = f.tail::<w::Op>(f.bytes.len());
        let has_peer = o.flags & w::OPF_PEER != 0 && tail.len() >= PEER_BYTES;
        let (address, tail) = tail.split_at(if has_peer { PEER_BYTES } else { 0 });
        let head = &tail[..(o.head_bytes as usize).min(tail.len())];
        let is_pipe = o.flow & w::FLOW_PIPE_BIT != 0;
        let mut id = o.flow;
        let by_peer = has_peer
            && !is_pipe
            && matches!(u16::from_ne_bytes([address[0], address[1]]), AF_INET | AF_INET6)
            && self.flows.get(&o.flow).is_none_or(|m| m.row.rport == 0);
        if by_peer {
            id = self.peer(o.flow, address, at, sink);
            row.flow = EndpointId(id);
        }
        let payload = self.payload;
        let m = self.met(id);
        if m.flow.datagram && m.flow.side == 0 && m.row.rport != 0 {
            // nobody listens and nobody connects: who speaks first asks
            let side = if sent { 2 } else { 1 };
            (m.flow.side, m.row.side) = (side, side);
            m.push(at, sink);
        }
        if o.flags & w::OPF_PLAIN != 0 {
            m.flow.plaintext(sent);
        }
        if o.bytes > 0 {
            let numbers = if sent { &mut m.flow.snd } else { &mut m.flow.rcv };
            let bytes = o.bytes as u64;
            let counted = o.flags & w::OPF_COUNTED != 0;
            let is_first = numbers.is_looked_at() && m.row.how == seen::SNAPSHOT;
            let (start, end, class) = if by_peer || o.flags & w::OPF_UNNUMBERED != 0 {
                numbers.follow(bytes)
            } else {
                numbers.moved(o.seq_end, bytes, counted)
            };
            (row.start, row.end, row.range) = (start, end, class);
            sink.push(&row);
            match class {
                range::GAP if is_first => sink.count(defect::RANGE_START, at),
                range::GAP => sink.count(defect::RANGE_GAP, at),
                range::OVERLAP => sink.count(defect::RANGE_OVERLAP, at),
                _ => {}
            }
            if payload != Payload::None && !is_pipe {
                m.flow.bytes(EndpointId(id), at, sent, start..end, head, sink);
            }
            if payload == Payload::Heads && !head.is_empty() {
                sink.push_head(at, EndpointId(id), start, sent, head);
            }
            return;
        }
        if o.bytes == 0
            && !sent
            && let Some(next) = m.flow.rcv.next()
        {
            (row.start, row.end) = (next, next);
        }
        sink.push(&row);
        // nothing read is the end of a stream; an empty datagram is only that
        if o.bytes == 0 && !sent && !m.flow.datagram {
            m.flow.ended(EndpointId(id), at, false, sink);
        }
    }

    fn state<S: RowSink>(&mut self, r: &w::FlowState, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let task = if r.by_task != 0 { self.tasks.known(r.tid) } else { TaskId::UNKNOWN };
        let id = EndpointId(r.flow);
        let near = |n: Option<u64>, seq: u32| match n {
            Some(n) => n.wrapping_add_signed(i64::from(seq.wrapping_sub(n as u32) as i32)),
            None => (1 << 32) + u64::from(seq),
        };
        // a flow may end before it was announced (a refused connection), or after it was let go
        let known = self.flows.get_mut(&r.flow);
        let (snd, rcv) = known.as_ref().map_or((None, None), |m| (m.flow.snd.next(), m.flow.rcv.next()));
        let row = FlowStateRow {
            at,
            flow: id,
            snd: near(snd, r.snd_seq),
            rcv: near(rcv, r.rcv_seq),
            task,
            old: r.old,
            new: r.new,
            reset: r.reset,
            by_task: r.by_task,
            ..Default::default()
        };
        sink.push(&row);
        let Some(m) = known else { return };
        if r.reset == 0 && r.new == TCP_CLOSE {
            if m.row.state == TCP_LISTEN {
                self.listeners.remove(&(m.row.netns, m.row.lport));
            }
            // what it received may still be read: then it is let go with the idle ones
            if row.rcv > rcv.unwrap_or(0) + 1 && m.row.state != TCP_LISTEN {
                m.flow.ended(id, at, true, sink);
                return;
            }
            m.flow.ended(id, at, true, sink);
            m.flow.ended(id, at, false, sink);
            self.flows.remove(&r.flow);
        }
    }

    fn descriptor<S: RowSink>(&mut self, r: &w::Descriptor, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let task = self.tasks.id(r.tgid, r.tgid, at, sink);
        sink.push(&DescriptorRow {
            at,
            flow: EndpointId(r.flow),
            received: MonoNs(r.received_ns),
            sent: MonoNs(r.sent_ns),
            task,
            fd: r.fd,
            unread: r.unread,
            unacked: r.unacked,
            window: r.window,
            state: r.state,
            marks: r.marks,
            look: r.look,
            ..Default::default()
        });
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
            ..Default::default()
        });
    }

    fn stack<S: RowSink>(&mut self, r: &w::Stack, sink: &mut S) {
        const EFAULT: i32 = -14;
        let at = MonoNs(r.ts_ns);
        let task = self.tasks.id(r.tgid, r.tid, at, sink);
        let frames = match u32::try_from(r.id) {
            Ok(id) => sink.stack(r.tgid, r.image, id),
            Err(_) => {
                sink.count(if r.id == EFAULT { defect::STACK_UNREADABLE } else { defect::STACK_LOST }, at);
                StrId::EMPTY
            }
        };
        sink.push(&StackRow {
            at,
            blocked: MonoNs(r.blocked_ns),
            task,
            frames,
            syscall: r.syscall,
            cause: r.head.sub,
            ..Default::default()
        });
    }

    /// What a file is called, for where its path cannot be looked up.
    fn file_name<S: RowSink>(&mut self, r: &w::FaultFile, sink: &mut S) {
        let name = &r.name[..r.name.iter().position(|&b| b == 0).unwrap_or(r.name.len())];
        if name.is_empty() {
            return;
        }
        if self.file_names.len() >= FILE_NAMES_MAX {
            self.file_names.clear();
        }
        let text = sink.intern(&["…/".as_bytes(), name].concat());
        self.file_names.insert((r.device, r.inode, r.generation), text);
    }

    fn fault<S: RowSink>(&mut self, r: &w::Fault, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let task = self.tasks.id(r.tgid, r.tid, at, sink);
        let has_file = r.inode != 0;
        let mut file = if has_file { sink.file(r.tgid, r.device, r.inode, r.generation) } else { StrId::EMPTY };
        if has_file && file == StrId::EMPTY {
            let known = self.file_names.get(&(r.device, r.inode, r.generation));
            file = known.copied().unwrap_or(StrId::EMPTY);
        }
        sink.push(&FaultRow {
            at,
            began: MonoNs(r.began_ns),
            address: r.address,
            ip: r.ip,
            inode: r.inode,
            offset: r.offset,
            device: r.device,
            task,
            file,
            cpu: r.cpu,
            kind: r.head.sub,
            access: r.access,
            ..Default::default()
        });
    }

    fn input<S: RowSink>(&mut self, r: &w::Input, sink: &mut S) {
        let at = MonoNs(r.ts_ns);
        let task = self.tasks.id(r.tgid, r.tid, at, sink);
        sink.push(&InputRow {
            at,
            flow: EndpointId(r.flow),
            task,
            fd: r.fd,
            ready: r.ready,
            kind: r.head.sub,
            isolated: (r.flags & (w::INPUTF_ISOLATED | w::INPUTF_REST)).count_ones() as u8,
            ..Default::default()
        });
    }

    fn mark<S: RowSink>(&mut self, r: &w::Mark, f: &Frame<'_>, sink: &mut S) {
        const ROOM: usize = w::MARK_NAME_BYTES as usize;
        let at = MonoNs(r.ts_ns);
        let tail = f.tail::<w::Mark>(2 * ROOM);
        if r.flags & w::MARKF_UNREAD != 0 || tail.len() < 2 * ROOM {
            sink.count(defect::MARKS_UNREAD, at);
            return;
        }
        if r.flags & w::MARKF_CUT != 0 {
            sink.count(defect::MARKS_CUT, at);
        }
        let (machine, name) = tail.split_at(ROOM);
        let task = self.tasks.id(r.tgid, r.tid, at, sink);
        let machine = sink.intern(&machine[..ROOM.min(r.machine_bytes.into())]);
        let name = sink.intern(&name[..ROOM.min(r.name_bytes.into())]);
        sink.push(&MarkRow {
            at,
            seq: 0,
            key: r.key,
            name_key: r.name_key,
            count: r.count,
            task,
            machine,
            name,
            kind: r.head.sub,
            ..Default::default()
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
            ..Default::default()
        });
    }
}

/// A segment that was sent once more.
fn resent(r: &w::Resent) -> ResentRow {
    ResentRow {
        at: MonoNs(r.ts_ns),
        flow: EndpointId(r.flow),
        seq: r.seq,
        seq_end: r.seq_end,
        rtt_us: r.rtt_us,
        state: r.state,
        ..Default::default()
    }
}

/// What a socket has room for.
fn sizes(r: &w::Sizes) -> LimitRow {
    let (kind, value, beside) = match r.state {
        TCP_LISTEN => (limit::BACKLOG, r.backlog, r.waiting),
        _ => (limit::BUFFERS, r.sndbuf, r.rcvbuf),
    };
    LimitRow {
        at: MonoNs(r.ts_ns),
        flow: EndpointId(r.flow),
        value: value.into(),
        beside: beside.into(),
        task: TaskId::UNKNOWN,
        cgroup: StrId::EMPTY,
        port: if kind == limit::BACKLOG { r.lport } else { 0 },
        kind,
        ..Default::default()
    }
}

/// The side by the ports of a datagram flow: a service has a reserved one. 0 where that does not tell.
fn usual_side(lport: u16, rport: u16) -> u8 {
    let usual = |p: u16| p != 0 && p < 1024;
    match (usual(lport), usual(rport)) {
        (true, false) => 1,
        (false, true) => 2,
        _ => 0,
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

fn no_endpoint() -> EndpointRow {
    bytemuck::Zeroable::zeroed()
}
