//! Bytes that come in: one way for all of libc's receiving functions.
//!
//! Where inputs are isolated, a read of a stream whose protocol is known stops at the first message's end. The bytes are
//! looked at first (`MSG_PEEK`) and then taken up to there; the rest stays in the kernel, so whatever asks for it
//! finds it there: another function, another process, an exec'ed program, poll, select, level-triggered epoll.

use crate::flow::{self, Flow};
use crate::hooks::sockets;
use crate::process::{Me, is_on, watch};
use crate::record::{self, Call, Cause, Moved};
use crate::{border, epolls, fds, isolate, real, rest, sys};
use core::sync::atomic::Ordering::*;
use libc::{c_int, c_long, iovec, msghdr};
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// A receiving call of the program.
pub struct Receive<'a> {
    /// Descriptor.
    pub fd: c_int,
    /// Where the bytes go.
    pub iov: &'a [iovec],
    /// `MSG_…`; 0 for read.
    pub flags: c_int,
    /// What `recvmsg` was given, where it was that.
    pub msg: Option<*mut msghdr>,
    /// System call number.
    pub nr: c_long,
}

/// Bytes stay, are not a stream's, or all of them must be there: nothing to make shorter.
const NOT_PLAIN: c_int = libc::MSG_PEEK | libc::MSG_OOB | libc::MSG_WAITALL | libc::MSG_TRUNC | libc::MSG_ERRQUEUE;

/// Runs the call, as it is or stopping at a border, and tells it. `plain` is the call as the program made it.
///
/// # Safety
/// `c` describes the arguments of the C function, which `plain` calls.
#[inline]
pub unsafe fn receive(c: Receive<'_>, plain: impl FnOnce() -> isize) -> isize {
    let Some(me) = watch() else {
        let r = plain();
        if r > 0 && is_on() {
            begun_before(&c, r);
        }
        return r;
    };
    let before = sys::errno();
    let Some(f) = fds::flow(&me, c.fd) else {
        sys::set_errno(before);
        return plain();
    };
    sys::set_errno(before);
    let id = f.id();
    let entry = sys::now();
    if rest::is_put_off(&me, f, c.fd, c.flags) {
        sys::set_errno(libc::EAGAIN);
        return -1;
    }
    let mut how = How::default();
    let r = if me.isolate && f.is_stream() && f.is_foreign() {
        // SAFETY: the caller's promise
        unsafe { isolated(&me, f, &c, plain, &mut how) }
    } else {
        plain()
    };
    let call = Call::done(entry, c.nr);
    let error = sys::errno();
    tell(&me, f, id, &c, r, call, how);
    sys::set_errno(error);
    r
}

/// A call that was under way when recording was switched on, as that of a thread that waits for its next request is: told
/// as if it had begun where it returned.
#[cold]
fn begun_before(c: &Receive<'_>, r: isize) {
    let error = sys::errno();
    if let Some(me) = watch() {
        let entry = met_behind(&me, c.fd, r);
        moved_already(&me, c, r, Call::done(entry, c.nr));
    }
    sys::set_errno(error);
}

/// When a call that has taken `r` bytes is told as begun, if its flow is only met after it.
#[cold]
pub fn met_behind(me: &Me, fd: c_int, r: isize) -> u64 {
    flow::TAKEN.set(r.max(0) as u64);
    let _ = fds::flow(me, fd);
    flow::TAKEN.set(0);
    sys::now()
}

/// How a read of a stream was made.
#[derive(Clone, Copy, Default)]
struct How {
    /// It stopped at a border, and more was there.
    is_cut: bool,
    /// There was room for bytes of one message's body alone.
    is_body: bool,
}

fn tell(me: &Me, f: &Flow, id: u64, c: &Receive<'_>, r: isize, call: Call, how: How) {
    if r < 0 && sys::errno() == libc::EAGAIN || c.flags & (libc::MSG_PEEK | libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0 {
        return record::wait(me, call, c.fd, &Cause::Unknown);
    }
    if r > 0 && f.is_plain() {
        rest::moved(me, f, call.entry, true);
        // a TLS library's own bytes: what they mean was told, or will be
        return record::wait(me, call, c.fd, &Cause::Flow(f));
    }
    let bytes = if r < 0 { -sys::errno() } else { i32::try_from(r).unwrap_or(i32::MAX) };
    if f.is_connecting() {
        sockets::settled(me, f, c.fd, bytes.min(0), call);
    }
    let mut flags = f.flags();
    if r > 0 {
        f.answered();
        flags |= f.turn(false);
    }
    if how.is_cut {
        flags |= w::OPF_BORDER | w::OPF_MORE;
    }
    let seq_end = f.moved(id, false, r.max(0) as u64);
    rest::moved(me, f, call.entry, r >= 0);
    record::wait(me, call, c.fd, &if r >= 0 { Cause::Flow(f) } else { Cause::Unknown });
    let peer = c.msg.filter(|_| r > 0).and_then(|m| peer_address(m));
    // discarded bytes are in no buffer
    let is_discarded = c.flags & libc::MSG_TRUNC != 0 && f.is_stream();
    let iov = if is_discarded || how.is_body { &[][..] } else { c.iov };
    record::operation(me, id, call, &Moved { op: w::OP_RECV, bytes, seq_end, flags, iov, peer: peer.as_ref() });
}

/// The sender's address as the kernel wrote it, for datagrams.
fn peer_address(m: *const msghdr) -> Option<[u8; 32]> {
    // SAFETY: the program's own header, which the kernel has just written
    let (name, len) = unsafe { ((*m).msg_name, (*m).msg_namelen as usize) };
    // SAFETY: the kernel wrote `len` bytes there, or fewer where there was no room
    unsafe { address(name.cast(), len) }
}

/// An internet address of a datagram's other end, padded; `None` for any other.
///
/// # Safety
/// `at` is null or has `len` bytes.
pub unsafe fn address(at: *const u8, len: usize) -> Option<[u8; 32]> {
    if at.is_null() || !(16..=28).contains(&len) {
        return None;
    }
    let mut out = [0u8; 32];
    // SAFETY: the caller's promise; at most 28 bytes go
    unsafe { core::ptr::copy_nonoverlapping(at, out.as_mut_ptr(), len) };
    Some(out)
}

/// # Safety
/// As [`receive`].
unsafe fn isolated(me: &Me, f: &Flow, c: &Receive<'_>, plain: impl FnOnce() -> isize, how: &mut How) -> isize {
    if c.flags & libc::MSG_PEEK != 0 {
        border::give_up(f); // it may have moved the place from which is peeked
        return plain();
    }
    if !border::is_open(f) {
        return plain();
    }
    let room = c.iov.iter().fold(0usize, |n, v| n.saturating_add(v.iov_len));
    if room == 0 || c.flags & NOT_PLAIN != 0 {
        return plain_and_look(me, f, c, plain);
    }
    if !border::is_worth_a_look(f, f.turned_by(false)) {
        return plain();
    }
    if !f.try_lock(me) {
        me.aside(aside::RACE);
        return plain();
    }
    let ahead = border::ahead(f, false);
    f.unlock();
    how.is_body = border::is_body(ahead, room as u64);
    if room as u64 <= ahead || !epolls::can_rearm(c.fd) {
        return plain_and_look(me, f, c, plain);
    }
    let at = f.rcv.load(Relaxed);
    let peek = c.flags & libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // a call that can be cancelled, like the program's own
    let n = match c.iov {
        // SAFETY: the program's own buffer; a header would only cost more
        [one] => unsafe { real::recv(c.fd, one.iov_base, one.iov_len, peek) },
        // SAFETY: the header describes the program's own buffers
        _ => unsafe { real::recvmsg(c.fd, &mut empty_header(c.iov), peek) },
    };
    if n <= 0 {
        if n < 0 && sys::errno() == libc::ENOTSOCK {
            fds::forget(c.fd); // closed by a call that was not seen
            return plain();
        }
        return n;
    }
    if !f.try_lock(me) {
        me.aside(aside::RACE);
        return plain();
    }
    if f.rcv.load(Relaxed) != at {
        // somebody else has read meanwhile: these may be other bytes
        f.unlock();
        me.aside(aside::RACE);
        return plain();
    }
    let turned = f.turned_by(false);
    let mut taken = border::look(f, false, turned, at, c.iov, n as usize);
    if taken < n as usize && !can_leave(f, c, at) {
        border::give_up(f);
        me.aside(aside::NOT_ISOLATED);
        taken = n as usize;
    }
    // SAFETY: as the program's own call, for fewer bytes
    let r = unsafe { take(c, taken) };
    f.unlock();
    if r < 0 && (sys::errno() == libc::EAGAIN || sys::errno() == libc::EINTR) {
        // somebody took the bytes between the two calls
        me.aside(aside::RACE);
        return plain();
    }
    if taken < n as usize {
        how.is_cut = true;
        let error = sys::errno();
        epolls::rearm(c.fd);
        sys::set_errno(error);
    }
    r
}

/// Whether bytes may be left in the kernel: the program must come to know of them. `at`: how many were read before.
fn can_leave(f: &Flow, c: &Receive<'_>, at: u64) -> bool {
    // with a low-water mark they might be too few to make the socket readable
    if sys::option::<c_int>(c.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT) != Some(1) {
        return false;
    }
    let is_new = at == 0 && f.waited.load(Relaxed) == 0 && isolate::is_seen_waiting();
    if is_new || isolate::is_told_of(f, c.fd) {
        return true;
    }
    // a program that waits by system calls of its own, edge-triggered perhaps, unless it blocks in the read itself
    c.flags & libc::MSG_DONTWAIT == 0 && sys::is_nonblocking(c.fd) == Some(false)
}

/// A read that needs no look beforehand; the processor hears of it afterwards.
fn plain_and_look(me: &Me, f: &Flow, c: &Receive<'_>, plain: impl FnOnce() -> isize) -> isize {
    let r = plain();
    if r > 0 && f.try_lock(me) {
        let (at, len, turned) = (f.rcv.load(Relaxed), r as usize, f.turned_by(false));
        if c.flags & (libc::MSG_TRUNC | libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 {
            border::unseen(f, false, at, len as u64);
        } else {
            look_all(f, turned, at, c.iov, len);
        }
        f.unlock();
    }
    r
}

/// Shows the processor all of what was read, whatever borders are in it.
fn look_all(f: &Flow, mut turned: bool, mut at: u64, iov: &[iovec], len: usize) {
    let end = at + len as u64;
    let mut skip = 0;
    for v in iov {
        let piece = v.iov_len.min(len - skip);
        let mut done = 0;
        while done < piece {
            // SAFETY: inside the program's buffer
            let base = unsafe { v.iov_base.cast::<u8>().add(done) };
            let rest = [iovec { iov_base: base.cast(), iov_len: piece - done }];
            let n = border::look(f, false, turned, at, &rest, piece - done);
            (turned, done, at) = (false, done + n.max(1), at + n.max(1) as u64);
        }
        skip += piece;
        if at >= end {
            break;
        }
    }
}

fn empty_header(iov: &[iovec]) -> msghdr {
    // SAFETY: all zeros is a valid header: no name, no control data
    let mut m: msghdr = unsafe { core::mem::zeroed() };
    m.msg_iov = iov.as_ptr().cast_mut();
    m.msg_iovlen = iov.len() as _;
    m
}

/// Most pieces of a scatter list that is made shorter; the rest waits for the next read.
const PIECES: usize = 64;

/// Takes exactly `len` bytes that are known to be there, without waiting.
///
/// # Safety
/// As [`receive`].
unsafe fn take(c: &Receive<'_>, len: usize) -> isize {
    let flags = libc::MSG_DONTWAIT | c.flags & libc::MSG_CMSG_CLOEXEC;
    if let (None, [one]) = (c.msg, c.iov) {
        // TCP throws the bytes away, since the look has left them in the buffer; others copy them once more
        let flags = (flags | libc::MSG_TRUNC) as usize;
        let a = [c.fd as usize, one.iov_base as usize, len.min(one.iov_len), flags, 0, 0];
        // SAFETY: the program's own buffer
        return sys::ret(unsafe { sys::call(libc::SYS_recvfrom, a) });
    }
    let mut cut = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PIECES];
    let (mut left, mut count) = (len, 0);
    for (to, from) in cut.iter_mut().zip(c.iov) {
        let n = from.iov_len.min(left);
        *to = iovec { iov_base: from.iov_base, iov_len: n };
        (left, count) = (left - n, count + 1);
        if left == 0 {
            break;
        }
    }
    let mut own = empty_header(&[]);
    let m = c.msg.unwrap_or(&mut own);
    // SAFETY: the program's header, given back as it was but for what the kernel fills in
    unsafe {
        let (iov, n) = ((*m).msg_iov, (*m).msg_iovlen);
        (*m).msg_iov = cut.as_mut_ptr();
        (*m).msg_iovlen = count as _;
        let r = sys::call(libc::SYS_recvmsg, [c.fd as usize, m as usize, flags as usize, 0, 0, 0]);
        (*m).msg_iov = iov;
        (*m).msg_iovlen = n;
        sys::ret(r)
    }
}

/// Tells bytes that a call has moved already, and shows them to the processor.
pub fn moved_already(me: &Me, c: &Receive<'_>, r: isize, call: Call) {
    let Some(f) = fds::flow(me, c.fd) else { return };
    if me.isolate && r > 0 && f.is_stream() && border::is_open(f) && f.try_lock(me) {
        let (at, turned) = (f.rcv.load(Relaxed), f.turned_by(false));
        if c.flags & libc::MSG_PEEK != 0 {
            border::give_up(f);
        } else if c.iov.is_empty() {
            border::unseen(f, false, at, r as u64);
        } else {
            look_all(f, turned, at, c.iov, r as usize);
        }
        f.unlock();
    }
    tell(me, f, f.id(), c, r, call, How::default());
}
