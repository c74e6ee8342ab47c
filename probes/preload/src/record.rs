//! Records of what a call did, in the layouts of the kernel vantage.

use crate::arena::{self, Tail};
use crate::flow::Flow;
use crate::process::Me;
use crate::sys;
use wakepath_wire as w;

/// A call that took longer than this (ns) is told as a wait.
const WAIT_NS: u64 = 10_000;

/// When a call began and ended, and which it was.
#[derive(Clone, Copy)]
pub struct Call {
    /// Entry, ns.
    pub entry: u64,
    /// Return, ns.
    pub ret: u64,
    /// System call number, as the kernel vantage would give it.
    pub nr: u16,
}

impl Call {
    /// A call that began at `entry` and returns now.
    pub fn done(entry: u64, nr: i64) -> Call {
        Call { entry, ret: sys::now(), nr: w::calls::recorded(nr) }
    }

    fn ago(&self) -> u64 {
        self.ret.saturating_sub(self.entry)
    }
}

/// What the program says of itself, with both names: the machine's, then the mark's.
pub fn mark(me: &Me, r: &w::Mark, names: &[u8]) {
    let r = w::Mark { ts_ns: sys::now(), tgid: me.tgid, tid: me.tid, ..*r };
    me.slot.put(&r, w::DROP_MARK, &Tail { prefix: names, ..Tail::EMPTY });
}

fn cpu() -> u16 {
    // SAFETY: it reads the thread's own restartable-sequence area, or asks the kernel
    unsafe { libc::sched_getcpu().max(0) as u16 }
}

/// The head of a record; its length and mark are filled in when it is written.
pub const fn head(kind: u8, sub: u8) -> w::Head {
    w::Head { tag: 0, bytes: 0, kind, sub }
}

/// What an operation moved.
pub struct Moved<'a> {
    /// `OP_…`.
    pub op: u8,
    /// Bytes, or a negative error number.
    pub bytes: i32,
    /// End of the moved range.
    pub seq_end: u32,
    /// `OPF_…` beside those that follow from the rest.
    pub flags: u16,
    /// The program's buffers, where they hold the bytes.
    pub iov: &'a [libc::iovec],
    /// The other end's address of a datagram, padded.
    pub peer: Option<&'a [u8; 32]>,
}

impl Moved<'_> {
    /// An operation without bytes.
    pub const fn control(op: u8, result: i32) -> Moved<'static> {
        Moved { op, bytes: result, seq_end: 0, flags: 0, iov: &[], peer: None }
    }
}

/// One operation, with the head of what it moved.
pub fn operation(me: &Me, flow: u64, call: Call, m: &Moved<'_>) {
    let have = m.iov.iter().fold(0usize, |n, v| n.saturating_add(v.iov_len));
    let take = have.min(m.bytes.max(0) as usize).min(arena::head_bytes());
    let prefix: &[u8] = m.peer.map_or(&[], |p| p);
    let mut flags = m.flags | w::OPF_ENTRY;
    if take > 0 {
        flags |= w::OPF_HEAD;
    } else if m.bytes > 0 && arena::head_bytes() > 0 {
        flags |= w::OPF_UNREADABLE;
    }
    if m.peer.is_some() {
        flags |= w::OPF_PEER;
    }
    let o = w::Op {
        head: head(w::KIND_OP, m.op),
        ts_ns: call.ret,
        flow,
        tgid: me.tgid,
        tid: me.tid,
        entry_ago_ns: w::short_ago(call.ago()),
        arrived_ago_ns: 0,
        seq_end: m.seq_end,
        bytes: m.bytes,
        flags,
        head_bytes: take as u16,
        syscall: call.nr,
        cpu: cpu(),
    };
    me.slot.put(&o, w::DROP_OP, &Tail { prefix, iov: m.iov, take });
}

/// What a wait was for.
pub enum Cause<'a> {
    /// Bytes or a connection of a flow, which the call took.
    Flow(&'a Flow),
    /// A flow that became ready, by this descriptor: what arrived is still unread.
    Ready(&'a Flow, i32),
    /// A time-out.
    Timer,
    /// Not known.
    Unknown,
}

/// A call that may block, as a wait, where it took long enough to have been one.
pub fn wait(me: &Me, call: Call, fd: i32, cause: &Cause<'_>) {
    if call.ago() < WAIT_NS {
        return;
    }
    const INTERRUPTIBLE: u16 = 1;
    let (sub, object, rcv_seq) = match cause {
        Cause::Flow(f) => (w::CAUSE_SOCKET, f.id(), f.rcv_seq()),
        Cause::Ready(f, fd) if f.is_stream() => {
            // an isolated input's wait ended with the first byte that is unread, and the read that follows tells the rest:
            // that saves a call for each input
            let unread = if me.isolate { 1 } else { sys::count(*fd, libc::FIONREAD) };
            (w::CAUSE_SOCKET, f.id(), f.rcv_seq().wrapping_add(unread))
        }
        Cause::Ready(f, _) => (w::CAUSE_SOCKET, f.id(), f.rcv_seq()),
        Cause::Timer => (w::CAUSE_TIMER, 0, 0),
        Cause::Unknown => (w::CAUSE_UNKNOWN, 0, 0),
    };
    let cpu = cpu();
    let r = w::Wait {
        head: head(w::KIND_WAIT, sub),
        ts_ns: call.ret,
        blocked_ns: call.entry,
        woken_ns: call.ret,
        object,
        arg0: fd as u64,
        tid: me.tid,
        by_tid: 0,
        rcv_seq,
        state: INTERRUPTIBLE,
        syscall: call.nr,
        tgid: me.tgid,
        cpu,
        woken_cpu: cpu,
    };
    me.slot.put(&r, w::DROP_WAIT, &Tail::EMPTY);
}

/// A return from poll, select or epoll. `class`: `SC_…`; `timeout_ns`: all ones for none.
pub fn poll(me: &Me, call: Call, class: u8, timeout_ns: u64, ready: i32, fd: i32) {
    let r = w::Poll {
        head: head(w::KIND_POLL, class),
        ts_ns: call.ret,
        entry_ago_ns: call.ago(),
        timeout_ns,
        tgid: me.tgid,
        tid: me.tid,
        ready,
        fd,
    };
    me.slot.put(&r, w::DROP_POLL, &Tail::EMPTY);
}

/// The process goes on with something else than its last input. Where this is lost, so are operations: what follows
/// would be taken for that input's.
pub fn went_on(me: &Me) {
    let r = w::Input {
        head: head(w::KIND_INPUT, w::INPUT_ELSE),
        ts_ns: sys::now(),
        flow: 0,
        tgid: me.tgid,
        tid: me.tid,
        fd: -1,
        ready: 0,
        flags: 0,
        pad: 0,
        pad2: 0,
    };
    me.slot.put(&r, w::DROP_OP, &Tail::EMPTY);
}

/// One input that was handed over. `ready`: how many there were; `flags`: `INPUTF_…`.
pub fn input(me: &Me, at: u64, sub: u8, flow: u64, fd: i32, ready: u32, flags: u16) {
    let r = w::Input {
        head: head(w::KIND_INPUT, sub),
        ts_ns: at,
        flow,
        tgid: me.tgid,
        tid: me.tid,
        fd,
        ready,
        flags,
        pad: 0,
        pad2: 0,
    };
    let drop = if flags & w::INPUTF_REST != 0 { w::DROP_OP } else { w::DROP_POLL };
    me.slot.put(&r, drop, &Tail::EMPTY);
}
