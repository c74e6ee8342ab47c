//! Frames of the kernel vantage, and of the library vantage, into rows.

mod endpoints;
mod faults;
mod rows;

use crate::flow::Plaintext;
use crate::joined::{Joined, PEER_BYTES};
use crate::sink::{RowSink, TaskFacts};
use crate::tasks::Tasks;
use endpoints::Endpoints;
use faults::Files;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{
    FlowStateRow, OpKind, OpRow, RangeHow, Reset, SeenHow, Side, Strength, TcpState, held, op_flag,
};
use wakepath_wire::{self as w, Frame};

/// What a row keeps of a record's flags has the same numbers in both.
const _: () = {
    assert!(op_flag::TURN == w::OPF_TURN && op_flag::MORE == w::OPF_MORE && op_flag::IO_URING == w::OPF_IO_URING);
    assert!(op_flag::SHUT_WRITE == w::OPF_SHUT_WRITE && held::BITS == w::OPF_HELD);
};

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

/// Follows tasks and flows, and turns records into rows. Memory: some hundred bytes a living task, up to 13 KiB a flow
/// that speaks a known protocol.
pub struct KernelDecoder {
    payload: Payload,
    tasks: Tasks,
    endpoints: Endpoints,
    files: Files,
    /// Only where both vantages record.
    pub(crate) joined: Option<Joined>,
}

impl KernelDecoder {
    /// A decoder that has seen nothing.
    pub fn new(payload: Payload) -> KernelDecoder {
        KernelDecoder {
            payload,
            tasks: Tasks::default(),
            endpoints: Endpoints::default(),
            files: Files::default(),
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

    /// Everybody is selected; otherwise only who is told to [`KernelDecoder::watched`], and their children.
    pub fn select_all(&mut self) {
        self.tasks.select_all();
    }

    /// Writes down that a process was selected to be watched. False: it is not known yet.
    pub fn watched<S: RowSink>(&mut self, tgid: u32, at: MonoNs, sink: &mut S) -> bool {
        self.tasks.watched(tgid, at, sink)
    }

    /// Everything alive again, for a segment that must stand alone.
    pub fn restate<S: RowSink>(&mut self, at: MonoNs, sink: &mut S) {
        self.tasks.restate(at, sink);
        for m in self.endpoints.all() {
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
        self.endpoints.tick();
        let Some(head) = f.head() else { return };
        match head.kind {
            w::KIND_OP => {
                if let Some(o) = f.read::<w::Op>() {
                    self.operation(&o, &f, sink);
                }
            }
            w::KIND_CLEAR => {
                if let Some(o) = f.read::<w::Op>() {
                    self.clear(&o, &f, sink);
                }
            }
            w::KIND_MORE => {
                if let Some(r) = f.read::<w::More>() {
                    self.more(&r, &f, sink);
                }
            }
            w::KIND_FLOW => {
                if let Some(r) = f.read::<w::FlowSeen>() {
                    let at = MonoNs(r.ts_ns);
                    let task = if r.tgid != 0 { self.tasks.id(r.tgid, r.tgid, at, sink) } else { TaskId::UNKNOWN };
                    self.endpoints.seen(&r, f.tail::<w::FlowSeen>(r.name_bytes.into()), task, sink);
                }
            }
            w::KIND_STATE => {
                if let Some(r) = f.read::<w::FlowState>() {
                    self.state(&r, sink);
                }
            }
            w::KIND_FAULT_FILE => {
                if let Some(r) = f.read::<w::FaultFile>() {
                    self.files.learn(&r, sink);
                }
            }
            w::KIND_FAULT => {
                if let Some(r) = f.read::<w::Fault>() {
                    self.files.fault(&r, &mut self.tasks, sink);
                }
            }
            w::KIND_SIZES => {
                if let Some(r) = f.read::<w::Sizes>() {
                    sink.push(&rows::sizes(&r));
                }
            }
            w::KIND_STAY => {
                if let Some(r) = f.read::<w::Stay>() {
                    rows::stay(&mut self.tasks, &r, sink);
                }
            }
            w::KIND_RESENT => {
                if let Some(r) = f.read::<w::Resent>() {
                    rows::resent(&r, sink);
                }
            }
            kind => self.of_task(kind, &f, sink),
        }
    }

    /// What a task did, or met.
    fn of_task<S: RowSink>(&mut self, kind: u8, f: &Frame<'_>, sink: &mut S) {
        match kind {
            w::KIND_INPUT => {
                if let Some(r) = f.read::<w::Input>() {
                    rows::input(&mut self.tasks, &r, sink);
                }
            }
            w::KIND_WAIT => {
                if let Some(r) = f.read::<w::Wait>() {
                    rows::wait(&mut self.tasks, &r, f, sink);
                }
            }
            w::KIND_POLL => {
                if let Some(r) = f.read::<w::Poll>() {
                    rows::poll(&mut self.tasks, &r, f, sink);
                }
            }
            w::KIND_STACK => {
                if let Some(r) = f.read::<w::Stack>() {
                    rows::stack(&mut self.tasks, &r, sink);
                }
            }
            w::KIND_MARK => {
                if let Some(r) = f.read::<w::Mark>() {
                    rows::mark(&mut self.tasks, &r, f, sink);
                }
            }
            w::KIND_FD => {
                if let Some(r) = f.read::<w::Descriptor>() {
                    rows::descriptor(&mut self.tasks, &r, sink);
                }
            }
            w::KIND_MAKERS => {
                if let Some(r) = f.read::<w::Makers>() {
                    self.tasks.makers(&r, sink);
                }
            }
            w::KIND_FOR_OTHERS => {
                if let Some(r) = f.read::<w::Ended>() {
                    self.tasks.for_others(&r, sink);
                }
            }
            w::KIND_ENDED => {
                if let Some(r) = f.read::<w::Ended>() {
                    self.tasks.ended(&r, sink);
                }
            }
            w::KIND_HANDOVER => {
                if let Some(r) = f.read::<w::Handover>() {
                    self.tasks.handed_over(&r, sink);
                }
            }
            w::KIND_STREAM => {
                if let Some(r) = f.read::<w::Stream>() {
                    self.tasks.stream(&r, sink);
                }
            }
            w::KIND_RAN => {
                if let Some(r) = f.read::<w::Ran>() {
                    rows::ran(&mut self.tasks, &r, sink);
                }
            }
            w::KIND_PARK => {
                if let Some(r) = f.read::<w::Park>() {
                    rows::park(&mut self.tasks, &r, sink);
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

    fn operation<S: RowSink>(&mut self, o: &w::Op, f: &Frame<'_>, sink: &mut S) {
        let at = MonoNs(o.ts_ns);
        let task = self.tasks.id(o.tgid, o.tid, at, sink);
        let (sub, who, tail) = rows::named::<w::Op>(&o.head, f);
        let Ok(kind) = OpKind::try_from(sub) else {
            sink.count(defect::RECORD_CODE, at);
            return;
        };
        if kind == OpKind::Accept && o.bytes < 0 {
            sink.push(&rows::not_accepted(o, task));
            return;
        }
        let mut row = operation_row(o, kind, task);
        if let Some(who) = who {
            row.logical = self.tasks.logical(o.tgid, &who, at, sink);
            row.logical_strength = Strength::Seen;
        }
        let sent = match kind {
            OpKind::Send => true,
            OpKind::Recv => false,
            _ => {
                self.endpoints.control(o, kind, sink);
                sink.push(&row);
                return;
            }
        };
        let has_peer = o.flags & w::OPF_PEER != 0 && tail.len() >= PEER_BYTES;
        let (address, tail) = tail.split_at(if has_peer { PEER_BYTES } else { 0 });
        let head = &tail[..(o.head_bytes as usize).min(tail.len())];
        let peer = self.endpoints.peer_of(o, address, sink);
        self.transfer(o, OpRow { flow: EndpointId(peer.unwrap_or(o.flow)), ..row }, peer.is_some(), sent, head, sink);
    }

    /// A send or a receive. `by_peer`: the endpoint stands for one peer of its socket. `head`: the first bytes.
    fn transfer<S: RowSink>(
        &mut self,
        o: &w::Op,
        mut row: OpRow,
        by_peer: bool,
        sent: bool,
        head: &[u8],
        sink: &mut S,
    ) {
        let (at, id) = (row.at, row.flow);
        let m = self.endpoints.tracked(id.0);
        if m.flow.datagram && m.flow.side == Side::Unknown && m.row.rport != 0 {
            // nobody listens and nobody connects: who speaks first asks
            let side = if sent { Side::Client } else { Side::Server };
            (m.flow.side, m.row.side) = (side, side);
            m.push(at, sink);
        }
        if o.flags & w::OPF_PLAIN != 0 {
            m.flow.plaintext(sent);
        }
        if o.bytes <= 0 {
            if o.bytes == 0
                && !sent
                && let Some(next) = m.flow.rcv.next()
            {
                (row.start, row.end) = (next, next);
            }
            sink.push(&row);
            // nothing read is the end of a stream; an empty datagram is only that
            if o.bytes == 0 && !sent && !m.flow.datagram {
                m.flow.ended(id, at, false, sink);
            }
            return;
        }
        let numbers = if sent { &mut m.flow.snd } else { &mut m.flow.rcv };
        let bytes = o.bytes as u64;
        let counted = o.flags & w::OPF_COUNTED != 0;
        let is_first = numbers.is_looked_at() && m.row.how == SeenHow::Snapshot;
        let (start, end, class) = if by_peer || o.flags & w::OPF_UNNUMBERED != 0 {
            numbers.follow(bytes)
        } else {
            numbers.moved(o.seq_end, bytes, counted)
        };
        (row.start, row.end, row.range) = (start, end, class);
        sink.push(&row);
        match class {
            RangeHow::Gap if is_first => sink.count(defect::RANGE_START, at),
            RangeHow::Gap => sink.count(defect::RANGE_GAP, at),
            RangeHow::Overlap => sink.count(defect::RANGE_OVERLAP, at),
            _ => {}
        }
        let is_pipe = o.flow & w::FLOW_PIPE_BIT != 0;
        if is_pipe && sent && self.payload != Payload::None {
            m.flow.piped(id, at, start..end, head, sink);
        } else if self.payload != Payload::None && !is_pipe {
            if o.head.sub & w::SUB_GOES_ON != 0 {
                m.flow.bytes_and_more(id, at, sent, start..end, head, sink);
            } else {
                m.flow.bytes(id, at, sent, start..end, head, sink);
            }
            if m.flow.takes_unread() {
                sink.unread_tls(o.tgid);
            }
        }
        let is_message = m.flow.is_known() || !is_pipe;
        if self.payload == Payload::Heads && !head.is_empty() && !m.flow.is_in_clear() && is_message {
            sink.push_head(at, id, start, sent, head);
        }
    }

    /// Plaintext of a flow.
    fn clear<S: RowSink>(&mut self, o: &w::Op, f: &Frame<'_>, sink: &mut S) {
        let (at, id) = (MonoNs(o.ts_ns), EndpointId(o.flow));
        let m = self.endpoints.tracked(o.flow);
        if o.bytes <= 0 {
            return m.flow.in_clear(id, at, self.payload == Payload::Heads, sink);
        }
        let head = f.tail::<w::Op>(o.head_bytes.into());
        let sent = o.head.sub & !(w::SUB_GOES_ON | w::CLEAR_RECORD) == w::OP_SEND;
        let ago = w::ago_ns(o.entry_ago_ns);
        // longer times are rounded down, by less than a thousandth
        let rounded = if o.entry_ago_ns < 1 << 31 { 0 } else { ago >> 10 };
        let is_known = o.flags & w::OPF_ENTRY != 0 && o.entry_ago_ns != u32::MAX;
        let began = if is_known { o.ts_ns.saturating_sub(ago.saturating_add(rounded)) } else { 0 };
        let said = Plaintext {
            at,
            began: MonoNs(began),
            sent,
            bytes: o.bytes as u64,
            is_filled: o.flags & w::OPF_MORE != 0,
            record: (o.head.sub & w::CLEAR_RECORD != 0).then_some(o.seq_end.into()),
            head: head.to_vec(),
            goes_on: o.head.sub & w::SUB_GOES_ON != 0,
        };
        m.flow.plain_bytes(id, said, sink);
    }

    /// More of the bytes of an operation, after its head.
    fn more<S: RowSink>(&mut self, r: &w::More, f: &Frame<'_>, sink: &mut S) {
        let (at, id) = (MonoNs(r.ts_ns), EndpointId(r.flow));
        let bytes = f.tail::<w::More>(r.bytes as usize);
        let Some(m) = self.endpoints.get(r.flow) else { return };
        let (from, is_last) = (r.at.into(), r.head.sub & w::MORE_LAST != 0);
        if r.head.sub & w::MORE_CLEAR != 0 {
            return m.flow.more_clear(id, at, from, bytes, is_last, sink);
        }
        // what is in TLS nobody can read
        let place = m.flow.more(id, at, from, bytes, is_last, sink).filter(|_| !m.flow.is_in_clear());
        if let (Some((sent, start)), Payload::Heads, false) = (place, self.payload, bytes.is_empty()) {
            sink.push_head(at, id, start, sent, bytes);
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
        let known = self.endpoints.get(r.flow);
        let (snd, rcv) = known.as_ref().map_or((None, None), |m| (m.flow.snd.next(), m.flow.rcv.next()));
        let row = FlowStateRow {
            at,
            flow: id,
            snd: near(snd, r.snd_seq),
            rcv: near(rcv, r.rcv_seq),
            task,
            old: rows::code(r.old, at, sink),
            new: rows::code(r.new, at, sink),
            reset: rows::code(r.reset, at, sink),
            by_task: r.by_task,
            ..Default::default()
        };
        sink.push(&row);
        let Some(m) = known.filter(|_| row.reset == Reset::None && row.new == TcpState::Close) else { return };
        let listener = (m.row.state == TcpState::Listen).then_some((m.row.netns, m.row.lport));
        m.flow.ended(id, at, true, sink);
        // what it received may still be read: then it is let go with the idle ones
        let is_unread = row.rcv > rcv.unwrap_or(0) + 1 && listener.is_none();
        if !is_unread {
            m.flow.ended(id, at, false, sink);
            self.endpoints.remove(r.flow);
        }
        if let Some((netns, port)) = listener {
            self.endpoints.stops_listening(netns, port);
        }
    }
}

const _: () = assert!(w::SENT_AT_ONCE == wakepath_model::rows::SENT_AT_ONCE);

/// What an operation tells without its flow.
fn operation_row(o: &w::Op, kind: OpKind, task: TaskId) -> OpRow {
    let entry = if o.flags & w::OPF_ENTRY != 0 { o.ts_ns.saturating_sub(w::ago_ns(o.entry_ago_ns)) } else { o.ts_ns };
    let arrived = if o.flags & w::OPF_ARRIVED != 0 { o.ts_ns.saturating_sub(w::ago_ns(o.arrived_ago_ns)) } else { 0 };
    OpRow {
        at: MonoNs(o.ts_ns),
        entry: MonoNs(entry),
        arrived: MonoNs(arrived),
        flow: EndpointId(o.flow),
        start: 0,
        end: 0,
        task,
        result: o.bytes,
        kind,
        range: RangeHow::None,
        flags: o.flags & op_flag::ALL,
        syscall: o.syscall,
        cpu: o.cpu,
        ..Default::default()
    }
}
