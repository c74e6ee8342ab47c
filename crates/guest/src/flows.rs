//! Connections and pipes that were met: byte counts, and what was told of each.

use crate::kernel::{AF_INET, AF_INET6, AF_UNIX, File, Kernel, Numbers, Socket, TCP};
use crate::{Cpu, Records};
use rustc_hash::FxHashMap;
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// Most flows that are kept.
const FLOWS_MAX: usize = 1 << 16;
/// `SOCK_DGRAM`.
const DATAGRAM: u8 = 2;
/// A TCP socket that waits for the answer to its connect.
const SYN_SENT: u8 = 2;
/// A socket that listens.
pub const LISTEN: u8 = 10;

/// A flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Its id in records.
    pub id: u64,
    /// Its socket, 0 = a pipe.
    pub sock: u64,
    /// TCP: the kernel has its numbers.
    pub is_tcp: bool,
    /// Datagrams.
    pub is_datagram: bool,
    /// Bytes sent and received.
    moved: [u32; 2],
    /// The last operation: 0 = none, 1 received, 2 sent.
    last: u8,
}

impl Flow {
    /// A flow of which no more is known than its socket.
    pub fn of(id: u64, sock: u64) -> Flow {
        Flow { id, sock, ..Flow::default() }
    }
}

/// Those that were met and may move bytes again.
#[derive(Default)]
pub struct Flows {
    by_id: FxHashMap<u64, Flow>,
}

/// How a flow became known.
pub struct Seen {
    /// `FLOW_…`.
    pub how: u8,
    /// The process that has it.
    pub tgid: u32,
}

impl Flows {
    /// Nothing is known any more.
    pub fn clear(&mut self) {
        self.by_id.clear();
    }

    /// The last descriptor of a flow is gone.
    pub fn remove(&mut self, id: u64) {
        self.by_id.remove(&id);
    }

    /// A flow that was told before.
    pub fn kept(&self, id: u64, sock: u64) -> Option<Flow> {
        self.by_id.get(&id).copied().filter(|flow| flow.sock == sock)
    }

    /// The flow of a file, told where it is new; `None` for what moves no bytes between processes.
    pub fn met<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        (id, file): (u64, File),
        seen: Seen,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) -> Option<Flow> {
        match self.kept(id, file.sock) {
            Some(flow) => Some(flow),
            None => self.tell(kernel, (id, file), seen, cpu, out),
        }
    }

    /// Tells what is known of a flow now.
    pub fn tell<R: Records>(
        &mut self,
        kernel: &Kernel<'_>,
        (id, file): (u64, File),
        seen: Seen,
        cpu: &Cpu<'_>,
        out: &mut R,
    ) -> Option<Flow> {
        let socket = if file.sock == 0 { Socket::default() } else { kernel.socket(file.sock)? };
        if file.sock != 0 && !matches!(socket.family, AF_UNIX | AF_INET | AF_INET6) {
            return None;
        }
        let is_tcp = socket.family != AF_UNIX && socket.protocol == TCP;
        let fresh = Flow { id, sock: file.sock, is_tcp, is_datagram: socket.kind == DATAGRAM, ..Flow::default() };
        let flow = self.by_id.get(&id).copied().filter(|f| f.sock == file.sock).unwrap_or(fresh);
        if !self.keep(flow) {
            out.aside(aside::GUEST_TABLE_FULL);
            return None;
        }
        let numbers = if is_tcp && socket.state != LISTEN { kernel.numbers(file.sock)? } else { Numbers::default() };
        let numbers = match (is_tcp, socket.state) {
            (true, SYN_SENT) => Numbers { copied: 0, ..numbers },
            (true, _) => numbers,
            _ => Numbers { written: flow.moved[1], copied: flow.moved[0], arrived: 0 },
        };
        let name = if socket.name.is_empty() { &socket.peer_name } else { &socket.name };
        let mark = |is_set: bool, mark| if is_set { mark } else { 0 };
        out.put(
            &w::FlowSeen {
                head: head(w::KIND_FLOW, seen.how),
                ts_ns: cpu.now_ns,
                flow: id,
                peer_flow: if socket.peer == 0 { 0 } else { (id & !INODE) | (socket.peer & INODE) },
                netns: socket.netns,
                tgid: seen.tgid,
                snd_seq: numbers.written,
                rcv_seq: numbers.copied,
                family: socket.family,
                protocol: socket.protocol,
                lport: socket.port,
                rport: socket.peer_port,
                kind: socket.kind,
                state: socket.state,
                marks: mark(!socket.name.is_empty(), w::FLOW_NAMED)
                    | mark(!socket.peer_name.is_empty(), w::FLOW_PEER_NAMED),
                name_bytes: name.len() as u8,
                unread: 0,
                laddr: socket.address,
                raddr: socket.peer_address,
                snd_first: 0,
                rcv_first: 0,
            },
            name,
            w::DROP_FLOW,
        );
        Some(flow)
    }

    /// Keeps a flow; false where there is no room. TCP's numbers are in the kernel, so those flows may be met again.
    fn keep(&mut self, flow: Flow) -> bool {
        if self.by_id.len() >= FLOWS_MAX && !self.by_id.contains_key(&flow.id) {
            self.by_id.retain(|_, f| !f.is_tcp);
        }
        let has_room = self.by_id.len() < FLOWS_MAX || self.by_id.contains_key(&flow.id);
        has_room && {
            self.by_id.insert(flow.id, flow);
            true
        }
    }

    /// Counts bytes that were moved: the number after them, where the kernel does not number them, and whether the
    /// direction changed.
    pub fn moved(&mut self, id: u64, sent: bool, bytes: u32) -> (u32, bool) {
        let Some(flow) = self.by_id.get_mut(&id) else { return (bytes, true) };
        let count = &mut flow.moved[usize::from(sent)];
        *count = count.wrapping_add(bytes);
        let (end, now) = (*count, 1 + u8::from(sent));
        (end, std::mem::replace(&mut flow.last, now) != now)
    }
}

/// Bits of a flow's id that are its inode's number. Those above are the boot's.
const INODE: u64 = (1 << 40) - 1;
/// Boots that ids tell apart.
const BOOTS: u64 = 1 << 16;

/// The id of the flow of a file in the guest's boot number `boot` of this recording.
pub fn id_of(file: &File, boot: u64) -> u64 {
    let kind = if file.sock == 0 { w::FLOW_PIPE_BIT } else { 0 };
    kind | ((boot % BOOTS) << INODE.count_ones()) | (file.inode & INODE)
}

/// The head of a record; its length and mark are filled in where it is written.
pub const fn head(kind: u8, sub: u8) -> w::Head {
    w::Head { tag: 0, bytes: 0, kind, sub }
}
