//! Calls that are over, as records.

use crate::calls::{self, By, Call};
use crate::flows::{Flow, Seen, head};
use crate::kernel::{Kernel, Numbers, Task};
use crate::tasks::Pending;
use crate::user::{self, Message};
use crate::{Cpu, Guest, Records, number};
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// `MSG_PEEK`: the bytes stay.
const PEEK: u64 = 2;
/// The connect goes on.
const IN_PROGRESS: i64 = -115;
/// `prctl`: it names the thread.
const SET_NAME: u64 = 15;
/// `shutdown`: for reading alone.
const SHUT_READ: u64 = 0;
/// State of a TCP socket with a connection.
const TCP_ESTABLISHED: u8 = 1;
/// State of a TCP socket without a connection.
const TCP_CLOSE: u8 = 7;

/// A call that is over, and whose it was.
struct Over<'a> {
    call: &'a Pending,
    task: Task,
    cpu: u16,
    now_ns: u64,
}

impl Over<'_> {
    fn ago_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.call.entry_ns)
    }

    fn operation(&self, op: u8, flow: u64, bytes: i32) -> w::Op {
        w::Op {
            head: head(w::KIND_OP, op),
            ts_ns: self.now_ns,
            flow,
            tgid: self.task.tgid,
            tid: self.task.tid,
            entry_ago_ns: w::short_ago(self.ago_ns()),
            arrived_ago_ns: 0,
            seq_end: 0,
            bytes,
            flags: w::OPF_ENTRY,
            head_bytes: 0,
            syscall: self.call.number as u16,
            cpu: self.cpu,
        }
    }

    /// An operation that moves no bytes.
    fn control<R: Records>(&self, op: u8, flow: &Flow, result: i64, flags: u16, out: &mut R) {
        let mut o = self.operation(op, flow.id, result as i32);
        o.flags |= flags | if flow.is_tcp { 0 } else { w::OPF_COUNTED };
        out.put(&o, &[], w::DROP_OP);
    }
}

impl Guest {
    /// The call `pending` of the task at `place` is over.
    pub(crate) fn over<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        (place, task): (u64, Task),
        pending: &Pending,
        result: i64,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) {
        let Some(call) = calls::of(pending.number) else { return };
        let over = Over { call: pending, task, cpu: cpu.number, now_ns: cpu.now_ns };
        let first = pending.flows[0];
        match call {
            Call::Move { sent, by } => {
                if let Some(flow) = first {
                    self.moved_by(kernel, &over, (flow, sent, by), result, cpu, out);
                }
            }
            Call::Between { .. } => {
                for (flow, sent) in pending.flows.into_iter().zip([false, true]) {
                    if let Some(flow) = flow {
                        self.moved(kernel, &over, (flow, sent), (result, &Message::default()), cpu, out);
                    }
                }
            }
            Call::Accept if result >= 0 => {
                let seen = Seen { how: w::FLOW_ACCEPTED, tgid: task.tgid };
                if let Some(flow) = self.told(kernel, place, result as u64, seen, cpu, out) {
                    over.control(w::OP_ACCEPT, &flow, 0, 0, out);
                }
            }
            Call::Connect if result == 0 || result == IN_PROGRESS => {
                self.connected(kernel, place, &over, result, cpu, out)
            }
            Call::Listen if result == 0 => {
                let seen = Seen { how: w::FLOW_MET, tgid: task.tgid };
                self.told(kernel, place, pending.arguments[0], seen, cpu, out);
            }
            Call::Close => {
                if let Some(flow) = first {
                    self.closed(&over, &flow, result, out);
                }
            }
            Call::Shutdown if result == 0 => {
                let flags = if pending.arguments[1] == SHUT_READ { 0 } else { w::OPF_SHUT_WRITE };
                first.iter().for_each(|flow| over.control(w::OP_SHUTDOWN, flow, 0, flags, out));
            }
            Call::Poll(class) => polled(&over, class, result, out),
            Call::Fork if result < 0 => self.tasks.made_none(&task),
            Call::Control if pending.arguments[0] == SET_NAME && result == 0 => {
                self.tasks.named(kernel, place, cpu, out);
            }
            _ => {}
        }
    }

    /// Tells a connection that its own process asked for.
    fn connected<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        place: u64,
        over: &Over<'_>,
        result: i64,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) {
        const DATAGRAM: u8 = 2;
        let descriptor = over.call.arguments[0];
        let is_same = |sock| over.call.flows[0].is_some_and(|flow| flow.sock == sock);
        let Some(Some(file)) = kernel.file(place, descriptor as i32).filter(|f| f.is_some_and(|f| is_same(f.sock)))
        else {
            return;
        };
        let is_datagram = kernel.kind(file.sock).is_some_and(|(_, _, kind)| kind == DATAGRAM);
        let how = if is_datagram { w::FLOW_MET } else { w::FLOW_CONNECTED };
        let seen = Seen { how, tgid: over.task.tgid };
        if let Some(flow) = self.told(kernel, place, descriptor, seen, cpu, out) {
            over.control(w::OP_CONNECT, &flow, result, 0, out);
        }
    }

    /// A call that has its bytes in memory of the program.
    fn moved_by<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        over: &Over<'_>,
        (flow, sent, by): (Flow, bool, By),
        result: i64,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) {
        let a = &over.call.arguments;
        let memory = cpu.memory;
        let is_peek = !sent
            && match by {
                By::Address | By::Messages => a[3] & PEEK != 0,
                By::Message => a[2] & PEEK != 0,
                _ => false,
            };
        if is_peek {
            return;
        }
        let message = match by {
            By::Buffer => Message { buffers: vec![(a[1], a[2])], address: None },
            By::Vector => Message { buffers: user::vector(memory, a[1], a[2]), address: None },
            By::Address => {
                let bytes = if sent { Some(a[5]) } else { number(memory, a[5], 4) };
                let address = bytes.filter(|_| a[4] != 0).and_then(|bytes| user::address(memory, a[4], bytes));
                Message { buffers: vec![(a[1], a[2])], address }
            }
            By::Message => user::message(memory, a[1]),
            By::Messages => {
                for i in 0..(result.max(0) as u64).min(w::MMSG_MAX.into()) {
                    let Some((at, bytes)) = user::entry(memory, a[1], i) else { return };
                    self.moved(kernel, over, (flow, sent), (bytes as i64, &user::message(memory, at)), cpu, out);
                }
                return;
            }
            By::Kernel => Message::default(),
        };
        let is_empty = matches!(by, By::Buffer | By::Address) && a[2] == 0;
        if !is_empty {
            self.moved(kernel, over, (flow, sent), (result, &message), cpu, out);
        }
    }

    /// An operation moved bytes; of a stream, none is its end.
    fn moved<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        over: &Over<'_>,
        (flow, sent): (Flow, bool),
        (result, message): (i64, &Message),
        cpu: &Cpu<'_>,
        out: &mut R,
    ) {
        let Ok(bytes) = i32::try_from(result) else { return };
        if bytes < 0 || bytes == 0 && sent {
            return;
        }
        let numbers = if flow.is_tcp {
            // another socket may have its place by now
            let Some(numbers) = kernel.numbers(flow.sock) else { return out.aside(aside::GUEST_UNREAD) };
            numbers
        } else {
            Numbers::default()
        };
        let (counted, is_turn) = self.flows.moved(flow.id, sent, bytes as u32);
        let first = user::head(cpu.memory, &message.buffers, self.head_bytes.min(bytes as usize));
        let mut o = over.operation(if sent { w::OP_SEND } else { w::OP_RECV }, flow.id, bytes);
        o.seq_end = match (flow.is_tcp, sent) {
            (true, true) => numbers.written,
            (true, false) => numbers.copied,
            _ => counted,
        };
        let mark = |is_set: bool, mark| if is_set { mark } else { 0 };
        o.flags |= mark(!flow.is_tcp, w::OPF_COUNTED)
            | mark(is_turn && bytes > 0, w::OPF_TURN)
            | mark(!first.is_empty(), w::OPF_HEAD)
            | mark(first.is_empty() && bytes > 0 && self.head_bytes > 0, w::OPF_UNREADABLE)
            | mark(flow.is_tcp && !sent && numbers.arrived != numbers.copied, w::OPF_MORE);
        o.head_bytes = first.len() as u16;
        let mut tail = Vec::with_capacity(user::PEER_BYTES + first.len());
        if let Some(address) = message.address.filter(|_| flow.is_datagram) {
            o.flags |= w::OPF_PEER;
            tail.extend_from_slice(&address);
        }
        tail.extend_from_slice(&first);
        out.put(&o, &tail, w::DROP_OP);
    }

    /// A descriptor was closed, and with the last one its connection.
    fn closed<R: Records>(&mut self, over: &Over<'_>, flow: &Flow, result: i64, out: &mut R) {
        over.control(w::OP_CLOSE, flow, result, 0, out);
        if !over.call.is_last {
            return;
        }
        if let Some(numbers) = over.call.end {
            let end = w::FlowState {
                head: head(w::KIND_STATE, 0),
                ts_ns: over.now_ns,
                flow: flow.id,
                old: TCP_ESTABLISHED,
                new: TCP_CLOSE,
                reset: 0,
                by_task: 1,
                tid: over.task.tid,
                snd_seq: numbers.written,
                rcv_seq: numbers.arrived,
            };
            out.put(&end, &[], w::DROP_FLOW);
        }
        self.flows.remove(flow.id);
    }
}

/// A call that waited for descriptors is over.
fn polled<R: Records>(over: &Over<'_>, class: u8, result: i64, out: &mut R) {
    let is_epoll = matches!(class, w::SC_EPOLL | w::SC_EPOLL2);
    let poll = w::Poll {
        head: head(w::KIND_POLL, class),
        ts_ns: over.now_ns,
        entry_ago_ns: over.ago_ns(),
        timeout_ns: over.call.timeout_ns,
        tgid: over.task.tgid,
        tid: over.task.tid,
        ready: result as i32,
        fd: if is_epoll { over.call.arguments[0] as i32 } else { -1 },
    };
    out.put(&poll, &[], w::DROP_POLL);
}
