//! Reading and writing.

use crate::process::{Me, watch};
use crate::receive::{Receive, receive};
use crate::record::Call;
use crate::transmit::{self, Send};
use crate::{epolls, fds, real, sys};
use core::ptr::null;
use libc::*;

fn one(buf: *const c_void, n: usize) -> [iovec; 1] {
    [iovec { iov_base: buf.cast_mut(), iov_len: n }]
}

const NOWHERE: (*const u8, usize) = (null(), 0);

hooks! {
    /// `read`.
    fn read(fd: c_int, buf: *mut c_void, n: usize) -> isize {
        receive(Receive { fd, iov: &one(buf, n), flags: 0, msg: None, nr: SYS_read }, || real::read(fd, buf, n))
    }

    /// `read` of programs that are built with fortified sources.
    fn __read_chk(fd: c_int, buf: *mut c_void, n: usize, room: usize) -> isize {
        if n > room {
            return real::__read_chk(fd, buf, n, room); // it ends the program
        }
        receive(Receive { fd, iov: &one(buf, n), flags: 0, msg: None, nr: SYS_read }, || real::__read_chk(fd, buf, n, room))
    }

    /// `readv`.
    fn readv(fd: c_int, iov: *const iovec, n: c_int) -> isize {
        let c = Receive { fd, iov: sys::iovs(iov, n as usize), flags: 0, msg: None, nr: SYS_readv };
        receive(c, || real::readv(fd, iov, n))
    }

    /// `preadv2`; at offset -1 it is `readv`.
    fn preadv2(fd: c_int, iov: *const iovec, n: c_int, at: off_t, flags: c_int) -> isize {
        if at != -1 || flags != 0 {
            return real::preadv2(fd, iov, n, at, flags);
        }
        let c = Receive { fd, iov: sys::iovs(iov, n as usize), flags: 0, msg: None, nr: SYS_preadv2 };
        receive(c, || real::preadv2(fd, iov, n, at, flags))
    }

    /// `recv`.
    fn recv(fd: c_int, buf: *mut c_void, n: usize, flags: c_int) -> isize {
        receive(Receive { fd, iov: &one(buf, n), flags, msg: None, nr: SYS_recvfrom }, || real::recv(fd, buf, n, flags))
    }

    /// `recv` of programs that are built with fortified sources.
    fn __recv_chk(fd: c_int, buf: *mut c_void, n: usize, room: usize, flags: c_int) -> isize {
        if n > room {
            return real::__recv_chk(fd, buf, n, room, flags);
        }
        let c = Receive { fd, iov: &one(buf, n), flags, msg: None, nr: SYS_recvfrom };
        receive(c, || real::__recv_chk(fd, buf, n, room, flags))
    }

    /// `recvfrom`.
    fn recvfrom(
        fd: c_int, buf: *mut c_void, n: usize, flags: c_int, from: *mut sockaddr, len: *mut socklen_t,
    ) -> isize {
        if from.is_null() {
            let c = Receive { fd, iov: &one(buf, n), flags, msg: None, nr: SYS_recvfrom };
            return receive(c, || real::recvfrom(fd, buf, n, flags, from, len));
        }
        from_whom(fd, buf, n, flags, from, len, || real::recvfrom(fd, buf, n, flags, from, len))
    }

    /// `recvfrom` of programs that are built with fortified sources.
    fn __recvfrom_chk(
        fd: c_int, buf: *mut c_void, n: usize, room: usize, flags: c_int, from: *mut sockaddr,
        len: *mut socklen_t,
    ) -> isize {
        if n > room {
            return real::__recvfrom_chk(fd, buf, n, room, flags, from, len);
        }
        from_whom(fd, buf, n, flags, from, len, || real::__recvfrom_chk(fd, buf, n, room, flags, from, len))
    }

    /// `recvmsg`.
    fn recvmsg(fd: c_int, m: *mut msghdr, flags: c_int) -> isize {
        if m.is_null() {
            return real::recvmsg(fd, m, flags);
        }
        let iov = sys::iovs((*m).msg_iov, (*m).msg_iovlen as _);
        let r = receive(Receive { fd, iov, flags, msg: Some(m), nr: SYS_recvmsg }, || real::recvmsg(fd, m, flags));
        if r >= 0 && !(*m).msg_control.is_null() {
            forget_received(m);
        }
        r
    }

    /// `recvmmsg`: datagrams, each told by itself.
    fn recvmmsg(fd: c_int, m: *mut mmsghdr, n: c_uint, flags: c_int, t: *mut timespec) -> c_int {
        receive_many(fd, m, n, flags, |n| real::recvmmsg(fd, m, n, flags, t))
    }

    /// `write`.
    fn write(fd: c_int, buf: *const c_void, n: usize) -> isize {
        transmit::send(Send { fd, iov: &one(buf, n), to: NOWHERE, nr: SYS_write }, || real::write(fd, buf, n))
    }

    /// `writev`.
    fn writev(fd: c_int, iov: *const iovec, n: c_int) -> isize {
        let c = Send { fd, iov: sys::iovs(iov, n as usize), to: NOWHERE, nr: SYS_writev };
        transmit::send(c, || real::writev(fd, iov, n))
    }

    /// `pwritev2`; at offset -1 it is `writev`.
    fn pwritev2(fd: c_int, iov: *const iovec, n: c_int, at: off_t, flags: c_int) -> isize {
        if at != -1 {
            return real::pwritev2(fd, iov, n, at, flags);
        }
        let c = Send { fd, iov: sys::iovs(iov, n as usize), to: NOWHERE, nr: SYS_pwritev2 };
        transmit::send(c, || real::pwritev2(fd, iov, n, at, flags))
    }

    /// `send`.
    fn send(fd: c_int, buf: *const c_void, n: usize, flags: c_int) -> isize {
        let c = Send { fd, iov: &one(buf, n), to: NOWHERE, nr: SYS_sendto };
        with_flags(c, flags, || real::send(fd, buf, n, flags))
    }

    /// `sendto`.
    fn sendto(fd: c_int, buf: *const c_void, n: usize, flags: c_int, to: *const sockaddr, len: socklen_t) -> isize {
        let c = Send { fd, iov: &one(buf, n), to: (to.cast(), len as usize), nr: SYS_sendto };
        with_flags(c, flags, || real::sendto(fd, buf, n, flags, to, len))
    }

    /// `sendmsg`.
    fn sendmsg(fd: c_int, m: *const msghdr, flags: c_int) -> isize {
        if m.is_null() {
            return real::sendmsg(fd, m, flags);
        }
        let iov = sys::iovs((*m).msg_iov, (*m).msg_iovlen as _);
        let c = Send { fd, iov, to: ((*m).msg_name.cast_const().cast(), (*m).msg_namelen as usize), nr: SYS_sendmsg };
        with_flags(c, flags, || real::sendmsg(fd, m, flags))
    }

    /// `sendmmsg`: datagrams, each told by itself.
    fn sendmmsg(fd: c_int, m: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int {
        send_many(fd, m, || real::sendmmsg(fd, m, n, flags))
    }

    /// `sendfile`: its bytes are in no buffer.
    fn sendfile(to: c_int, from: c_int, at: *mut off_t, n: usize) -> isize {
        transmit::send(Send { fd: to, iov: &[], to: NOWHERE, nr: SYS_sendfile }, || real::sendfile(to, from, at, n))
    }

    /// `sendfile64`.
    fn sendfile64(to: c_int, from: c_int, at: *mut off_t, n: usize) -> isize {
        transmit::send(Send { fd: to, iov: &[], to: NOWHERE, nr: SYS_sendfile }, || real::sendfile64(to, from, at, n))
    }

    /// `splice`: an operation at either end, its bytes in no buffer.
    fn splice(from: c_int, at: *mut loff_t, to: c_int, to_at: *mut loff_t, n: usize, flags: c_uint) -> isize {
        let Some(me) = watch() else { return real::splice(from, at, to, to_at, n, flags) };
        let entry = sys::now();
        let r = real::splice(from, at, to, to_at, n, flags);
        let (error, call) = (sys::errno(), Call::done(entry, SYS_splice));
        if r >= 0 {
            let c = Receive { fd: from, iov: &[], flags: 0, msg: None, nr: SYS_splice };
            crate::receive::moved_already(&me, &c, r, call);
            if let Some(f) = fds::flow(&me, to) {
                transmit::tell(&me, f, f.id(), &Send { fd: to, iov: &[], to: NOWHERE, nr: SYS_splice }, r, call, 0);
            }
        }
        sys::set_errno(error);
        r
    }
}

/// A send with flags. With `MSG_OOB` the last byte is urgent: it is beside the stream, and no read counts it.
///
/// # Safety
/// As [`transmit::send`].
#[inline]
unsafe fn with_flags(c: Send<'_>, flags: c_int, plain: impl FnOnce() -> isize) -> isize {
    // SAFETY: the caller's promise
    let Some(me) = watch().filter(|_| flags & MSG_OOB != 0) else { return unsafe { transmit::send(c, plain) } };
    let entry = met(&me, c.fd);
    let r = plain();
    let error = sys::errno();
    if let Some(f) = fds::flow(&me, c.fd).filter(|_| r > 1) {
        transmit::tell(&me, f, f.id(), &c, r - 1, Call::done(entry, c.nr), 0);
    }
    sys::set_errno(error);
    r
}

/// `recvfrom` with an address: told as `recvmsg` would be.
///
/// # Safety
/// As `recvfrom`'s.
unsafe fn from_whom(
    fd: c_int,
    buf: *mut c_void,
    n: usize,
    flags: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
    plain: impl FnOnce() -> isize,
) -> isize {
    // SAFETY: the caller's promise; all zeros is a valid header
    unsafe {
        let before = watch();
        let entry = before.as_ref().map(|me| met(me, fd));
        if before.is_some_and(|me| put_off(&me, fd, flags)) {
            return sys::ret(-(EAGAIN as isize));
        }
        let r = plain();
        let Some(me) = before.or_else(|| if r > 0 { watch() } else { None }) else { return r };
        let error = sys::errno();
        // one that was under way when recording was switched on: see `receive`
        let entry = entry.unwrap_or_else(|| crate::receive::met_behind(&me, fd, r));
        if r >= 0 {
            let mut m: msghdr = core::mem::zeroed();
            m.msg_name = from.cast();
            m.msg_namelen = if len.is_null() { 0 } else { *len };
            let c = Receive { fd, iov: &one(buf, n), flags, msg: Some(&mut m), nr: SYS_recvfrom };
            crate::receive::moved_already(&me, &c, r, Call::done(entry, SYS_recvfrom));
        }
        sys::set_errno(error);
        r
    }
}

/// When a call begins whose flow was told of before.
fn met(me: &Me, fd: c_int) -> u64 {
    let error = sys::errno();
    let _ = fds::flow(me, fd);
    sys::set_errno(error);
    sys::now()
}

/// See [`crate::rest::is_put_off`].
pub fn put_off(me: &Me, fd: c_int, flags: c_int) -> bool {
    if !me.rest {
        return false;
    }
    let error = sys::errno();
    let off = fds::flow(me, fd).is_some_and(|f| crate::rest::is_put_off(me, f, fd, flags));
    sys::set_errno(error);
    off
}

/// A `recvmmsg` of the program. Where inputs are isolated and the call may give fewer datagrams than were asked for, it
/// gives one.
///
/// # Safety
/// As of the C function; `plain` is it, for so many datagrams.
pub unsafe fn receive_many(
    fd: c_int,
    m: *mut mmsghdr,
    n: c_uint,
    flags: c_int,
    plain: impl FnOnce(c_uint) -> c_int,
) -> c_int {
    let Some(me) = watch() else { return plain(n) };
    let error = sys::errno();
    let may_wait = || flags & (MSG_DONTWAIT | MSG_WAITFORONE) == 0 && sys::is_nonblocking(fd) != Some(true);
    let alone = me.isolate && n > 1 && epolls::has(fd) && epolls::can_rearm(fd) && !may_wait();
    sys::set_errno(error);
    let entry = met(&me, fd);
    if put_off(&me, fd, flags) {
        return sys::ret(-(EAGAIN as isize)) as c_int;
    }
    let r = plain(if alone { 1 } else { n });
    let error = sys::errno();
    for i in 0..r.max(0) as usize {
        // SAFETY: the kernel has just filled these headers in
        unsafe {
            let one = m.add(i);
            let h = &raw mut (*one).msg_hdr;
            let iov = sys::iovs((*h).msg_iov, (*h).msg_iovlen as _);
            let c = Receive { fd, iov, flags, msg: Some(h), nr: SYS_recvmmsg };
            crate::receive::moved_already(&me, &c, (*one).msg_len as isize, Call::done(entry, SYS_recvmmsg));
            if !(*h).msg_control.is_null() {
                forget_received(h);
            }
        }
    }
    if alone && r == 1 {
        epolls::rearm(fd);
    }
    sys::set_errno(error);
    r
}

/// A `sendmmsg` of the program.
///
/// # Safety
/// As of the C function, which `plain` is.
pub unsafe fn send_many(fd: c_int, m: *mut mmsghdr, plain: impl FnOnce() -> c_int) -> c_int {
    let Some(me) = watch() else { return plain() };
    let entry = sys::now();
    let r = plain();
    let error = sys::errno();
    if let Some(f) = fds::flow(&me, fd) {
        for i in 0..r.max(0) as usize {
            // SAFETY: the kernel has just sent what these headers describe
            unsafe {
                let one = &*m.add(i);
                let h = &one.msg_hdr;
                let to = (h.msg_name.cast_const().cast(), h.msg_namelen as usize);
                let c = Send { fd, iov: sys::iovs(h.msg_iov, h.msg_iovlen as _), to, nr: SYS_sendmmsg };
                let call = Call::done(entry, SYS_sendmmsg);
                transmit::tell(&me, f, f.id(), &c, one.msg_len as isize, call, 0);
            }
        }
    }
    sys::set_errno(error);
    r
}

/// Descriptors that came with a message: whatever had their numbers before is gone.
///
/// # Safety
/// The header is one that `recvmsg` has just filled in.
unsafe fn forget_received(m: *const msghdr) {
    // SAFETY: the caller's promise; the macros stay inside the control data
    unsafe {
        let mut c = CMSG_FIRSTHDR(m);
        while !c.is_null() {
            if (*c).cmsg_level == SOL_SOCKET && (*c).cmsg_type == SCM_RIGHTS {
                let bytes = ((*c).cmsg_len as usize).saturating_sub(CMSG_LEN(0) as usize);
                let first = CMSG_DATA(c).cast::<c_int>();
                for i in 0..bytes / size_of::<c_int>() {
                    fds::forget(first.add(i).read_unaligned());
                }
            }
            c = CMSG_NXTHDR(m, c);
        }
    }
}
