//! Flows that this process holds: identity, byte numbers, and whether their other end is here too.

use crate::address::Address;
use crate::arena::Tail;
use crate::process::Me;
use crate::{record, sys};
use core::cell::Cell;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use wakepath_protocols::mask::fnv1a;
use wakepath_wire as w;

thread_local! {
    /// Bytes that the thread's call has taken and that nobody was told of yet, where a flow is met after the call.
    pub static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Most flows that a process can hold at once; more are counted and not seen.
pub const FLOWS: usize = 16384;

/// What a flow runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// TCP.
    Tcp = 1,
    /// A UNIX stream.
    Unix = 2,
    /// Datagrams of any family.
    Datagram = 3,
    /// A pipe.
    Pipe = 4,
    /// A socket that listens.
    Listener = 5,
    /// Any other socket: its bytes are counted and nothing else.
    Other = 6,
}

impl Kind {
    fn of(n: u8) -> Kind {
        match n {
            1 => Kind::Tcp,
            2 => Kind::Unix,
            3 => Kind::Datagram,
            4 => Kind::Pipe,
            5 => Kind::Listener,
            _ => Kind::Other,
        }
    }
}

/// `Flow.side`: it came out of a listener.
pub const SERVER: u8 = 1;
/// `Flow.side`: it was connected.
pub const CLIENT: u8 = 2;

/// `Flow.internal`: who accepts it will show whose the other end is.
pub const MAYBE: u8 = 2;

/// A flow. All zeros is a free one.
pub struct Flow {
    id: AtomicU64,
    /// Descriptors of this process that mean it.
    refs: AtomicU32,
    kind: AtomicU8,
    /// `SERVER`, `CLIENT`, or 0.
    pub side: AtomicU8,
    /// 1: the last operation sent, 2: it received.
    last: AtomicU8,
    /// 1: the other end is in this process too. `MAYBE`: it was connected to a listener of this process.
    pub internal: AtomicU8,
    /// Whether it was handed to the program by a wait that was seen: 0, 1 (by poll or select last) or 2 (by epoll).
    pub waited: AtomicU8,
    /// A connect is under way of which nobody was told how it ended.
    connecting: AtomicU8,
    /// Bytes sent and received since the beginning.
    pub snd: AtomicU64,
    /// See `snd`.
    pub rcv: AtomicU64,
    snd_base: AtomicU32,
    rcv_base: AtomicU32,
    /// Local port << 16 | remote port.
    pub ports: AtomicU32,
    /// The epoch in which it was announced.
    told: AtomicU32,
    /// The process that knows its numbers: after a fork they may have moved.
    owner: AtomicU32,
    /// The process that holds the lock, or 0.
    lock: AtomicU32,
    /// What is known of its protocol; see `border.rs`. Only under the lock.
    pub talk: AtomicU32,
    /// Plaintext bytes of a TLS session on it, sent and received.
    pub plain: [AtomicU64; 2],
    /// Place + 1 of the other end, where both were made here (socketpair).
    pair: AtomicU32,
    next_free: AtomicU32,
}

#[allow(clippy::declare_interior_mutable_const)] // what each place of the table begins as
const FREE: Flow = Flow {
    id: AtomicU64::new(0),
    refs: AtomicU32::new(0),
    kind: AtomicU8::new(0),
    side: AtomicU8::new(0),
    last: AtomicU8::new(0),
    internal: AtomicU8::new(0),
    waited: AtomicU8::new(0),
    connecting: AtomicU8::new(0),
    snd: AtomicU64::new(0),
    rcv: AtomicU64::new(0),
    snd_base: AtomicU32::new(0),
    rcv_base: AtomicU32::new(0),
    ports: AtomicU32::new(0),
    told: AtomicU32::new(0),
    owner: AtomicU32::new(0),
    lock: AtomicU32::new(0),
    talk: AtomicU32::new(0),
    plain: [const { AtomicU64::new(0) }; 2],
    pair: AtomicU32::new(0),
    next_free: AtomicU32::new(0),
};

static TABLE: [Flow; FLOWS] = [const { FREE }; FLOWS];
/// Slots after this one were never used.
static USED: AtomicU32 = AtomicU32::new(0);
/// Free slots: count of changes << 32 | index + 1 of the first.
static FREED: AtomicU64 = AtomicU64::new(0);
/// Client ends by local port, to find out that an accepted connection comes from this process.
static BY_PORT: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];
/// Ports on which this process listens, or listened.
static LISTENING: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];

/// The flow at `index`.
pub fn get(index: u32) -> Option<&'static Flow> {
    TABLE.get(index as usize)
}

/// The flow whose id this is, if the process holds it. Looks at all: for rare occasions.
pub fn find(id: u64) -> Option<(u32, &'static Flow)> {
    let used = (USED.load(Acquire) as usize).min(FLOWS);
    let at = TABLE[..used].iter().position(|f| f.id.load(Relaxed) == id && f.refs.load(Relaxed) > 0)?;
    Some((at as u32, &TABLE[at]))
}

/// A slot for a new flow with one descriptor, or `None` where the table is full.
pub fn make(id: u64, kind: Kind) -> Option<(u32, &'static Flow)> {
    let index = take_slot()?;
    let f = get(index)?;
    for n in [&f.snd, &f.rcv, &f.plain[0], &f.plain[1]] {
        n.store(0, Relaxed);
    }
    for n in [&f.snd_base, &f.rcv_base, &f.ports, &f.told, &f.owner, &f.lock, &f.talk, &f.pair] {
        n.store(0, Relaxed);
    }
    for n in [&f.side, &f.last, &f.internal, &f.waited, &f.connecting] {
        n.store(0, Relaxed);
    }
    f.kind.store(kind as u8, Relaxed);
    f.refs.store(1, Relaxed);
    f.id.store(id, Release);
    Some((index, f))
}

fn take_slot() -> Option<u32> {
    let mut head = FREED.load(Acquire);
    while head as u32 != 0 {
        let index = head as u32 - 1;
        let next = get(index)?.next_free.load(Relaxed);
        let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(next);
        match FREED.compare_exchange_weak(head, new, AcqRel, Acquire) {
            Ok(_) => return Some(index),
            Err(now) => head = now,
        }
    }
    let index = USED.fetch_add(1, AcqRel);
    if index as usize >= FLOWS {
        USED.store(FLOWS as u32, Release);
        return None;
    }
    Some(index)
}

fn give_back(index: u32) {
    let Some(f) = get(index) else { return };
    let mut head = FREED.load(Acquire);
    loop {
        f.next_free.store(head as u32, Relaxed);
        let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(index + 1);
        match FREED.compare_exchange_weak(head, new, AcqRel, Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// One more descriptor means the flow.
pub fn hold(index: u32) {
    if let Some(f) = get(index) {
        f.refs.fetch_add(1, AcqRel);
    }
}

/// One descriptor less; `true` for the last one.
pub fn release(index: u32) -> bool {
    let Some(f) = get(index) else { return false };
    let last = f.refs.fetch_update(AcqRel, Acquire, |n| n.checked_sub(1)) == Ok(1);
    if last {
        // whoever has the other end now, it is not this process
        if let Some(other) = f.pair.load(Relaxed).checked_sub(1).and_then(get) {
            other.internal.store(0, Relaxed);
            other.pair.store(0, Relaxed);
            crate::epolls::changed();
        }
        f.id.store(0, Release);
        give_back(index);
    }
    last
}

impl Flow {
    /// Socket cookie, or `FLOW_PIPE_BIT | inode`; 0 once the flow is gone.
    pub fn id(&self) -> u64 {
        self.id.load(Acquire)
    }

    /// What it runs on.
    pub fn kind(&self) -> Kind {
        Kind::of(self.kind.load(Relaxed))
    }

    /// It began to listen.
    pub fn listens(&self) {
        self.kind.store(Kind::Listener as u8, Relaxed);
        self.told.store(0, Relaxed);
    }

    /// Number of the next byte to be received.
    pub fn rcv_seq(&self) -> u32 {
        self.rcv_base.load(Relaxed).wrapping_add(self.rcv.load(Relaxed) as u32)
    }

    /// Number of the next byte to be sent.
    pub fn snd_seq(&self) -> u32 {
        self.snd_base.load(Relaxed).wrapping_add(self.snd.load(Relaxed) as u32)
    }

    /// Whether its bytes are a stream in which messages have borders.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind(), Kind::Tcp | Kind::Unix)
    }

    /// Whether what comes in here may come from another process.
    pub fn is_foreign(&self) -> bool {
        match self.kind() {
            Kind::Listener | Kind::Other => false,
            // of a pipe that was made here both ends are here until one is closed
            Kind::Pipe => self.refs.load(Relaxed) < 2,
            _ => self.internal.load(Relaxed) == 0,
        }
    }

    /// `OPF_TURN` where the direction changed with this operation.
    pub fn turn(&self, sent: bool) -> u16 {
        let now = if sent { 1 } else { 2 };
        if self.last.swap(now, Relaxed) == now { 0 } else { w::OPF_TURN }
    }

    /// Whether an operation in this direction would change it.
    pub fn turned_by(&self, sent: bool) -> bool {
        self.last.load(Relaxed) != if sent { 1 } else { 2 }
    }

    /// Flags of operations on it.
    pub fn flags(&self) -> u16 {
        if self.kind() == Kind::Tcp { 0 } else { w::OPF_COUNTED }
    }

    /// Counts `bytes` moved by the flow that had `id` when the call began, and gives the number behind them.
    pub fn moved(&self, id: u64, sent: bool, bytes: u64) -> u32 {
        let (count, base) = if sent { (&self.snd, &self.snd_base) } else { (&self.rcv, &self.rcv_base) };
        if self.id() != id {
            return 0;
        }
        let before = count.fetch_add(bytes, Relaxed);
        base.load(Relaxed).wrapping_add(before.wrapping_add(bytes) as u32)
    }

    /// As [`Flow::moved`], for plaintext of a TLS session: its numbers begin anew, at the same place at both ends, and low
    /// enough to need no unwrapping.
    pub fn moved_plain(&self, sent: bool, bytes: u64) -> u32 {
        let base = if sent { &self.snd_base } else { &self.rcv_base };
        let before = self.plain[usize::from(sent)].fetch_add(bytes, Relaxed);
        (base.load(Relaxed) & 0x3fff_ffff).wrapping_add(before.wrapping_add(bytes) as u32)
    }

    /// Whether plaintext of a TLS session was told of it.
    pub fn is_plain(&self) -> bool {
        self.plain.iter().any(|n| n.load(Relaxed) != 0)
    }

    /// Takes the lock if it is free. A holder that forked away is none.
    pub fn try_lock(&self, me: &Me) -> bool {
        let held = self.lock.load(Relaxed);
        held != me.tgid && self.lock.compare_exchange(held, me.tgid, AcqRel, Relaxed).is_ok()
    }

    /// Gives the lock back.
    pub fn unlock(&self) {
        self.lock.store(0, Release);
    }

    /// Announces the flow where it was not announced in this epoch, and finds out its numbers where others may have
    /// moved them.
    #[inline]
    pub fn ready(&self, me: &Me, fd: i32) {
        if self.told.load(Relaxed) == me.epoch && self.owner.load(Relaxed) == me.tgid {
            return;
        }
        self.meet_again(me, fd);
    }

    #[cold]
    fn meet_again(&self, me: &Me, fd: i32) {
        if self.kind() == Kind::Tcp && self.owner.load(Relaxed) != 0 {
            self.numbers_from_kernel(fd);
        }
        self.owner.store(me.tgid, Relaxed);
        self.announce(me, fd, w::FLOW_MET, 0, sys::now());
    }

    /// Byte counts of a TCP flow whose beginning was not watched, as its socket has them.
    pub fn numbers_from_kernel(&self, fd: i32) {
        let Some(i) = sys::option::<TcpInfo>(fd, libc::IPPROTO_TCP, libc::TCP_INFO) else { return };
        if i.0[0] != TCP_ESTABLISHED && i.0[0] != TCP_CLOSE_WAIT {
            return;
        }
        let not_told = u64::from(sys::count(fd, libc::FIONREAD)) + TAKEN.get();
        self.rcv.store(i.u64_at(128).saturating_sub(not_told), Relaxed);
        // bytes sent for the first time, and those that wait to be
        self.snd.store(i.u64_at(200).saturating_sub(i.u64_at(208)) + u64::from(i.u32_at(144)), Relaxed);
    }

    /// Whether a connect is under way of which nobody was told how it ended.
    #[inline]
    pub fn is_connecting(&self) -> bool {
        self.connecting.load(Relaxed) != 0
    }

    /// A connect began that did not wait, or its end was told.
    pub fn set_connecting(&self, is_under_way: bool) {
        self.connecting.store(is_under_way.into(), Relaxed);
    }

    /// How far a TCP connection has come (`TCP_…`), 0 where the kernel does not say.
    pub fn tcp_state(fd: i32) -> u8 {
        sys::option::<TcpInfo>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).map_or(0, |i| i.0[0])
    }

    /// Whether one descriptor alone means it.
    pub fn has_one_descriptor(&self) -> bool {
        self.refs.load(Relaxed) == 1
    }

    /// Writes its [`w::FlowSeen`]. `at`: when it became known.
    pub fn announce(&self, me: &Me, fd: i32, how: u8, peer_flow: u64, at: u64) {
        self.announce_to(me, fd, how, peer_flow, at, None);
    }

    /// As [`Flow::announce`]. `to`: whom it is to be connected to, which the kernel does not say before it is.
    pub fn announce_to(&self, me: &Me, fd: i32, how: u8, peer_flow: u64, at: u64, to: Option<&Address>) {
        self.owner.store(me.tgid, Relaxed);
        self.told.store(me.epoch, Relaxed);
        let mut seen = w::FlowSeen {
            head: record::head(w::KIND_FLOW, how),
            ts_ns: at,
            flow: self.id(),
            peer_flow,
            netns: netns(),
            tgid: me.tgid,
            snd_seq: 0,
            rcv_seq: 0,
            family: 0,
            protocol: 0,
            lport: 0,
            rport: 0,
            kind: 0,
            state: TCP_ESTABLISHED,
            marks: 0,
            name_bytes: 0,
            unread: 0,
            laddr: [0; 16],
            raddr: [0; 16],
            snd_first: 0,
            rcv_first: 0,
        };
        let mut name = [0u8; w::UNIX_NAME_BYTES as usize];
        if self.kind() == Kind::Pipe {
            return self.put_seen(me, &seen, &[]);
        }
        let option = |name| sys::option::<i32>(fd, libc::SOL_SOCKET, name).unwrap_or(0);
        seen.kind = option(libc::SO_TYPE) as u8;
        seen.protocol = option(libc::SO_PROTOCOL) as u16;
        if option(libc::SO_ACCEPTCONN) != 0 {
            seen.state = TCP_LISTEN;
        }
        let (local, remote) = (Address::local(fd), Address::remote(fd));
        let to = to.filter(|_| remote.family() == 0);
        let remote = to.unwrap_or(&remote);
        seen.family = local.family();
        if seen.family == libc::AF_UNIX as u16 {
            seen.protocol = 0;
            let (own, peer) = (local.unix_name(), remote.unix_name());
            seen.marks = if own.is_empty() { 0 } else { w::FLOW_NAMED };
            seen.marks |= if peer.is_empty() { 0 } else { w::FLOW_PEER_NAMED };
            let given = if own.is_empty() { peer } else { own };
            let n = given.len().min(name.len());
            name[..n].copy_from_slice(&given[..n]);
            seen.name_bytes = n as u8;
        } else {
            (seen.laddr, seen.lport) = local.inet();
            (seen.raddr, seen.rport) = remote.inet();
            if to.is_some() && seen.raddr == [0; 16] {
                seen.raddr = seen.laddr; // to no address in particular: this host's own
            }
            self.ports.store(u32::from(seen.lport) << 16 | u32::from(seen.rport), Relaxed);
        }
        if seen.state == TCP_LISTEN {
            LISTENING[usize::from(seen.lport) % LISTENING.len()].store(seen.lport.into(), Relaxed);
        }
        if self.kind() == Kind::Tcp && seen.state != TCP_LISTEN {
            self.snd_base.store(base(&seen.laddr, seen.lport, &seen.raddr, seen.rport), Relaxed);
            self.rcv_base.store(base(&seen.raddr, seen.rport, &seen.laddr, seen.lport), Relaxed);
        }
        let n = usize::from(seen.name_bytes);
        self.put_seen(me, &seen, &name[..n]);
    }

    fn put_seen(&self, me: &Me, seen: &w::FlowSeen, name: &[u8]) {
        let seen = w::FlowSeen { snd_seq: self.snd_seq(), rcv_seq: self.rcv_seq(), ..*seen };
        me.slot.put(&seen, w::DROP_FLOW, &Tail { prefix: name, iov: &[], take: 0 });
    }

    /// Something came in: had this process accepted the other end, that would be known by now.
    pub fn answered(&self) {
        if self.internal.compare_exchange(MAYBE, 0, Relaxed, Relaxed).is_ok() {
            crate::epolls::changed();
        }
    }

    /// Remembers the end that was connected from here, for [`from_here`].
    pub fn connected(&self, index: u32) {
        let ports = self.ports.load(Relaxed);
        let (local, remote) = (ports >> 16, ports & 0xffff);
        let listener = LISTENING[remote as usize % LISTENING.len()].load(Relaxed);
        if self.kind() == Kind::Tcp && remote != 0 && listener == remote {
            self.internal.store(MAYBE, Relaxed);
        }
        if let Some(c) = BY_PORT.get(local as usize % 1024) {
            c.store(index + 1, Relaxed);
        }
    }
}

/// Two flows that are each other's other end.
pub fn pair(a: u32, b: u32) {
    for (one, other) in [(a, b), (b, a)] {
        if let Some(f) = get(one) {
            f.internal.store(1, Relaxed);
            f.pair.store(other + 1, Relaxed);
        }
    }
}

/// The flow of this process that was connected from the local port `port` to `to`, if there is one.
pub fn from_here(port: u16, to: u16) -> Option<&'static Flow> {
    let index = BY_PORT.get(usize::from(port) % 1024)?.load(Relaxed).checked_sub(1)?;
    let f = get(index)?;
    let same = f.ports.load(Relaxed) == u32::from(port) << 16 | u32::from(to);
    (same && f.id() != 0 && f.side.load(Relaxed) == CLIENT).then_some(f)
}

const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE_WAIT: u8 = 8;
/// State of a TCP socket whose connect is under way.
pub const TCP_SYN_SENT: u8 = 2;
/// State of a TCP socket without a connection.
pub const TCP_CLOSE: u8 = 7;
/// `FlowSeen.state` of a socket that listens.
pub const TCP_LISTEN: u8 = 10;

/// `struct tcp_info` up to `tcpi_bytes_retrans` (Linux 4.19).
#[derive(Clone, Copy)]
struct TcpInfo([u8; 216]);

impl Default for TcpInfo {
    fn default() -> Self {
        TcpInfo([0; 216])
    }
}

impl TcpInfo {
    fn u64_at(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }

    fn u32_at(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }
}

/// Number of the first byte of a direction of a TCP flow. Both ends get the same from the addresses, and two flows
/// hardly ever numbers that are near each other (FNV-1a with a last mixing).
fn base(from: &[u8; 16], from_port: u16, to: &[u8; 16], to_port: u16) -> u32 {
    let mut ends = [0; 36];
    ends[..16].copy_from_slice(&plain_v4(from));
    ends[16..18].copy_from_slice(&from_port.to_be_bytes());
    ends[18..34].copy_from_slice(&plain_v4(to));
    ends[34..].copy_from_slice(&to_port.to_be_bytes());
    let h = fnv1a(&ends);
    ((h ^ (h >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// An IPv4 address that a socket of both families writes as `::ffff:a.b.c.d`, as an IPv4 socket has it.
fn plain_v4(a: &[u8; 16]) -> [u8; 16] {
    let mut out = *a;
    if a[..10] == [0; 10] && a[10..12] == [0xff, 0xff] {
        out = [0; 16];
        out[..4].copy_from_slice(&a[12..]);
    }
    out
}

/// Inode number of the network namespace, found once.
fn netns() -> u32 {
    static NETNS: AtomicU32 = AtomicU32::new(0);
    let known = NETNS.load(Relaxed);
    if known != 0 {
        return known;
    }
    let found = sys::namespace(b"/proc/self/ns/net\0") as u32;
    NETNS.store(found, Relaxed);
    found
}

/// The flow's place in the table.
pub fn index(f: &Flow) -> usize {
    (&raw const *f as usize).wrapping_sub(&raw const TABLE as usize) / size_of::<Flow>()
}
