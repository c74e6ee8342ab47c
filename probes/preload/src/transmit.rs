//! Bytes that go out: one way for all of libc's sending functions. They are never made shorter.

use crate::flow::Flow;
use crate::hooks::sockets;
use crate::process::{Me, watch};
use crate::record::{self, Call, Cause, Moved};
use crate::{border, fds, rest, sys};
use core::sync::atomic::Ordering::*;
use libc::{c_int, c_long, iovec};
use wakepath_wire as w;

/// A sending call of the program.
pub struct Send<'a> {
    /// Descriptor.
    pub fd: c_int,
    /// Where the bytes are; empty where they come from a file or a pipe.
    pub iov: &'a [iovec],
    /// The other end's address, where one was given.
    pub to: (*const u8, usize),
    /// System call number.
    pub nr: c_long,
}

/// Runs the call and tells it.
///
/// # Safety
/// `c` describes the arguments of the C function, which `plain` calls.
#[inline]
pub unsafe fn send(c: Send<'_>, plain: impl FnOnce() -> isize) -> isize {
    let Some(me) = watch() else { return plain() };
    let before = sys::errno();
    let flow = fds::flow(&me, c.fd);
    sys::set_errno(before);
    let Some(f) = flow else { return plain() };
    let (id, entry) = (f.id(), sys::now());
    let r = plain();
    let call = Call::done(entry, c.nr);
    let error = sys::errno();
    tell(&me, f, id, &c, r, call, error);
    sys::set_errno(error);
    r
}

/// The other half of [`send`], for calls that sent several messages.
pub fn tell(me: &Me, f: &Flow, id: u64, c: &Send<'_>, r: isize, call: Call, error: c_int) {
    rest::moved(me, f, call.entry, false);
    record::wait(me, call, c.fd, &Cause::Unknown);
    // a TLS library's own bytes: what they mean was told, or will be
    if r < 0 && error == libc::EAGAIN || r > 0 && f.is_plain() {
        return;
    }
    let bytes = if r < 0 { -error } else { i32::try_from(r).unwrap_or(i32::MAX) };
    if f.is_connecting() {
        sockets::settled(me, f, c.fd, bytes.min(0), call);
    }
    let (mut flags, mut iov) = (f.flags(), c.iov);
    if r > 0 {
        let turned = f.turned_by(true);
        flags |= f.turn(true);
        if me.isolate && f.is_stream() && border::is_open(f) && f.try_lock(me) {
            let at = f.snd.load(Relaxed);
            if border::is_body(border::ahead(f, true), r as u64) {
                iov = &[];
            }
            if c.iov.is_empty() {
                border::unseen(f, true, at, r as u64);
            } else {
                border::look(f, true, turned, at, c.iov, r as usize);
            }
            f.unlock();
        }
    }
    let seq_end = f.moved(id, true, r.max(0) as u64);
    // SAFETY: the program's own address, which the kernel has read
    let peer = unsafe { crate::receive::address(c.to.0, c.to.1) };
    record::operation(me, id, call, &Moved { op: w::OP_SEND, bytes, seq_end, flags, iov, peer: peer.as_ref() });
}
