//! Making sockets and connections.

use crate::address::Address;
use crate::flow::{self, CLIENT, Flow, Kind, SERVER};
use crate::hooks::io::put_off;
use crate::process::{Me, lent, watch};
use crate::record::{self, Call, Cause, Moved};
use crate::{epolls, fds, real, rest, sys, unix};
use core::sync::atomic::Ordering::*;
use libc::*;
use wakepath_wire as w;

hooks! {
    /// `socket`: what is on it becomes a flow when it is connected or used.
    fn socket(domain: c_int, ty: c_int, protocol: c_int) -> c_int {
        let fd = real::socket(domain, ty, protocol);
        if fd >= 0 && !lent() {
            fds::forget(fd);
        }
        fd
    }

    /// `socketpair`: both ends are known, and know each other.
    fn socketpair(domain: c_int, ty: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
        let r = real::socketpair(domain, ty, protocol, pair);
        if r == 0 && !lent() {
            let (a, b) = (*pair, *pair.add(1));
            fds::forget(a);
            fds::forget(b);
            if let Some(me) = watch() {
                let error = sys::errno();
                let kind = fds::kind_of(domain, ty, protocol);
                if let (Some(x), Some(y)) = (fds::cookie(a), fds::cookie(b))
                    && let Some((i, f)) = fds::made(&me, a, x, kind)
                    && let Some((j, g)) = fds::made(&me, b, y, kind)
                {
                    flow::pair(i, j);
                    f.announce(&me, a, w::FLOW_MET, y, sys::now());
                    g.announce(&me, b, w::FLOW_MET, x, sys::now());
                }
                sys::set_errno(error);
            }
        }
        r
    }

    /// `listen`.
    fn listen(fd: c_int, n: c_int) -> c_int {
        let r = real::listen(fd, n);
        if let Some(me) = watch().filter(|_| r == 0) {
            let error = sys::errno();
            if let Some((_, f)) = fds::known(fd) {
                f.listens();
            }
            // announced, so that who reads the records knows which side of a connection serves
            let _ = fds::flow(&me, fd);
            sys::set_errno(error);
        }
        r
    }

    /// `accept`.
    fn accept(fd: c_int, a: *mut sockaddr, len: *mut socklen_t) -> c_int {
        accepting(fd, SYS_accept, || real::accept(fd, a, len))
    }

    /// `accept4`.
    fn accept4(fd: c_int, a: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        accepting(fd, SYS_accept4, || real::accept4(fd, a, len, flags))
    }

    /// `connect`.
    fn connect(fd: c_int, a: *const sockaddr, len: socklen_t) -> c_int {
        let Some(me) = watch() else { return real::connect(fd, a, len) };
        let entry = sys::now();
        let r = real::connect(fd, a, len);
        let (error, call) = (sys::errno(), Call::done(entry, SYS_connect));
        // what the kernel did not get as far as to read may not be readable
        let is_read = r == 0 || !matches!(error, EBADF | ENOTSOCK | EFAULT | EINVAL | EPERM | ENOSYS);
        let to = Address::given(if is_read { a.cast() } else { core::ptr::null() }, len as usize);
        connected(&me, fd, &to, if r == 0 { 0 } else { -error }, call);
        sys::set_errno(error);
        r
    }

    /// `getsockopt`: by `SO_ERROR` a program is told how a connect ended that it did not wait for.
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        let r = real::getsockopt(fd, level, name, value, len);
        if r == 0 && (level, name) == (SOL_SOCKET, SO_ERROR) && let Some(me) = watch() {
            let error = sys::errno();
            if let Some((_, f)) = fds::known(fd).filter(|(_, f)| f.is_connecting() && *len as usize >= size_of::<c_int>()) {
                settled(&me, f, fd, -value.cast::<c_int>().read_unaligned(), Call::done(sys::now(), SYS_getsockopt));
            }
            sys::set_errno(error);
        }
        r
    }

    /// `shutdown`.
    fn shutdown(fd: c_int, how: c_int) -> c_int {
        let Some(me) = watch() else { return real::shutdown(fd, how) };
        let entry = sys::now();
        let r = real::shutdown(fd, how);
        let (error, call) = (sys::errno(), Call::done(entry, SYS_shutdown));
        if let Some(f) = fds::flow(&me, fd).filter(|_| r == 0) {
            let mut m = Moved::control(w::OP_SHUTDOWN, 0);
            m.flags = f.flags() | if how == SHUT_RD { 0 } else { w::OPF_SHUT_WRITE };
            record::operation(&me, f.id(), call, &m);
        }
        sys::set_errno(error);
        r
    }
}

fn accepting(listener: c_int, nr: c_long, plain: impl FnOnce() -> c_int) -> c_int {
    let before = watch();
    if before.as_ref().is_some_and(|me| put_off(me, listener, 0)) {
        return sys::ret(-(EAGAIN as isize)) as c_int;
    }
    let entry = before.map_or(0, |_| sys::now());
    let new = plain();
    let error = sys::errno();
    if new >= 0 && !lent() {
        fds::forget(new);
    }
    // one that was under way when recording was switched on is told as if it had begun where it returned
    if let Some(me) = watch().filter(|_| entry != 0 || new >= 0) {
        let call = Call::done(if entry == 0 { sys::now() } else { entry }, nr);
        if new >= 0 {
            take_up(&me, listener, new, call);
        } else {
            record::wait(&me, call, listener, &Cause::Unknown);
        }
    }
    sys::set_errno(error);
    new
}

fn take_up(me: &Me, listener: c_int, new: c_int, call: Call) {
    let parent = fds::flow(me, listener);
    let cause = parent.map_or(Cause::Unknown, Cause::Flow);
    record::wait(me, call, listener, &cause);
    rest::accepted(me, parent, call.entry, fds::cookie(new).unwrap_or(0));
    let kind = fds::socket_kind(new);
    let Some(id) = fds::cookie(new) else { return };
    let Some((_, f)) = fds::made(me, new, id, kind) else { return };
    f.side.store(SERVER, Relaxed);
    let mut peer = 0;
    if kind == Kind::Unix {
        peer = sys::stat(new).and_then(|(_, inode)| unix::peer(inode)).unwrap_or(0);
        if sys::option::<Credentials>(new, SOL_SOCKET, SO_PEERCRED).is_some_and(|c| c.0[0] == me.tgid) {
            f.internal.store(1, Relaxed);
        }
    }
    f.announce(me, new, w::FLOW_ACCEPTED, peer, call.ret);
    let ports = f.ports.load(Relaxed);
    if kind == Kind::Tcp
        && let Some(other) = flow::from_here(ports as u16, (ports >> 16) as u16)
    {
        // both ends are in this process
        f.internal.store(1, Relaxed);
        other.internal.store(1, Relaxed);
    }
    epolls::changed();
    let mut m = Moved::control(w::OP_ACCEPT, 0);
    m.flags = f.flags();
    record::operation(me, id, call, &m);
}

/// Process, user and group of the other end.
#[derive(Clone, Copy, Default)]
struct Credentials([u32; 3]);

fn connected(me: &Me, fd: c_int, to: &Address, result: i32, call: Call) {
    record::wait(me, call, fd, &Cause::Unknown);
    let under_way = fds::known(fd).map(|(_, f)| f).filter(|f| f.is_connecting());
    if let Some(f) = under_way.filter(|_| matches!(-result, 0 | EISCONN)) {
        return f.set_connecting(false); // asked again how far it is
    }
    if matches!(-result, EALREADY | EISCONN | EBADF | ENOTSOCK | EFAULT) {
        return;
    }
    let begun = matches!(-result, 0 | EINPROGRESS | EINTR);
    let kind = fds::socket_kind(fd);
    let flow = match fds::known(fd) {
        Some(known) => Some(known),
        None => fds::cookie(fd).and_then(|id| fds::made(me, fd, id, kind)),
    };
    let Some((index, f)) = flow else { return };
    rest::moved(me, f, call.entry, false);
    let mut how = w::FLOW_MET;
    if kind != Kind::Datagram {
        f.side.store(CLIENT, Relaxed);
        how = w::FLOW_CONNECTED;
    }
    f.announce_to(me, fd, how, 0, call.ret, Some(to));
    if begun {
        let mine = kind == Kind::Unix
            && sys::option::<Credentials>(fd, SOL_SOCKET, SO_PEERCRED).is_some_and(|c| c.0[0] == me.tgid);
        f.internal.store(u8::from(mine), Relaxed);
        f.connected(index);
        epolls::changed();
    }
    f.set_connecting(begun && result != 0);
    let mut m = Moved::control(w::OP_CONNECT, result);
    m.flags = f.flags();
    record::operation(me, f.id(), call, &m);
}

/// A program uses a flow again whose connect it did not wait for ([`Flow::is_connecting`]). `result`: what it was told, 0
/// or a negative error number. Where that is how the connect failed, it is told as the end of one.
#[cold]
pub fn settled(me: &Me, f: &Flow, fd: c_int, result: i32, call: Call) {
    let state = Flow::tcp_state(fd);
    if state == flow::TCP_SYN_SENT {
        return;
    }
    f.set_connecting(false);
    if state == flow::TCP_CLOSE && result < 0 {
        failed(me, f, result, call);
    }
}

fn failed(me: &Me, f: &Flow, result: i32, call: Call) {
    let mut m = Moved::control(w::OP_CONNECT, result);
    m.flags = f.flags();
    record::operation(me, f.id(), call, &m);
}

/// The last descriptor of a flow whose connect is under way is about to be closed: how it ended, or that it is given up.
#[cold]
pub fn given_up(me: &Me, f: &Flow, fd: c_int, call: Call) {
    if !f.has_one_descriptor() {
        return;
    }
    f.set_connecting(false);
    let error = match Flow::tcp_state(fd) {
        flow::TCP_SYN_SENT => ECANCELED,
        // reading it takes it away, but the program will not ask for it any more
        flow::TCP_CLOSE => sys::option::<c_int>(fd, SOL_SOCKET, SO_ERROR).unwrap_or(0),
        _ => 0,
    };
    if error > 0 {
        failed(me, f, -error, call);
    }
}
