//! Making, copying and closing descriptors.

use super::sockets;
use crate::flow::{Flow, Kind};
use crate::process::{Me, lent, watch};
use crate::record::{self, Call, Moved};
use crate::{arena, border, epolls, fds, real, sys};
use libc::*;
use wakepath_wire as w;
use wakepath_wire::arena::aside;

/// What must be known of a descriptor before it is closed, to tell of it afterwards.
struct Closing {
    me: Me,
    id: u64,
    entry: u64,
    flags: u16,
    state: Option<w::FlowState>,
}

fn closing(fd: c_int) -> Option<Closing> {
    let me = watch()?;
    let (_, f) = fds::known(fd)?;
    if f.is_connecting() {
        sockets::given_up(&me, f, fd, Call::done(sys::now(), SYS_close));
    }
    let state = (f.kind() == Kind::Tcp).then(|| end_of(&me, f));
    Some(Closing { me, id: f.id(), entry: sys::now(), flags: f.flags(), state })
}

/// The end of a TCP flow, as far as this process has a part in it.
fn end_of(me: &Me, f: &Flow) -> w::FlowState {
    const ESTABLISHED: u8 = 1;
    const CLOSE: u8 = 7;
    w::FlowState {
        head: record::head(w::KIND_STATE, 0),
        ts_ns: 0,
        flow: f.id(),
        old: ESTABLISHED,
        new: CLOSE,
        reset: 0,
        by_task: 1,
        tid: me.tid,
        snd_seq: f.snd_seq(),
        rcv_seq: f.rcv_seq(),
    }
}

/// Closes `fd` by `f`, and tells of it.
#[inline]
fn close_by(fd: c_int, f: impl FnOnce() -> c_int) -> c_int {
    if arena::header().is_none() || lent() {
        return f();
    }
    let closing = closing(fd);
    // before it is closed: another thread may get the same number at once
    let last = fds::forget(fd);
    let r = f();
    if let Some(c) = closing {
        let error = sys::errno();
        told(c, last, if r == 0 { 0 } else { -error }, SYS_close);
        sys::set_errno(error);
    }
    r
}

fn told(c: Closing, last: bool, result: i32, nr: c_long) {
    let mut m = Moved::control(w::OP_CLOSE, result);
    m.flags = c.flags;
    let call = Call::done(c.entry, nr);
    record::operation(&c.me, c.id, call, &m);
    if let Some(s) = c.state.filter(|_| last) {
        let s = w::FlowState { ts_ns: call.ret, ..s };
        c.me.slot.put(&s, w::DROP_FLOW, &arena::Tail::EMPTY);
    }
}

/// Closes all descriptors from `from` to `to` by `f`, and tells of those that are flows.
fn close_all(from: c_int, to: c_int, f: impl FnOnce() -> c_int) -> c_int {
    if arena::header().is_none() || lent() {
        return f();
    }
    for fd in from.max(0)..=to.min(fds::high() - 1) {
        let closing = closing(fd);
        let last = fds::forget(fd);
        if let Some(c) = closing {
            told(c, last, 0, SYS_close_range);
        }
    }
    f()
}

/// `new` is a copy of `old` now, unless the call failed.
fn copied(old: c_int, new: c_int) -> c_int {
    if new >= 0 && arena::header().is_some() && !lent() {
        fds::copied(old, new);
    }
    new
}

/// What `fcntl` did.
fn controlled(fd: c_int, cmd: c_int, arg: usize, r: c_int) -> c_int {
    match cmd {
        F_DUPFD | F_DUPFD_CLOEXEC => return copied(fd, r),
        // a signal is sent for bytes that arrive, not for those that were left: no read is made short
        F_SETFL if arg & O_ASYNC as usize != 0 && arena::header().is_some() => {
            if let Some((_, f)) = fds::known(fd) {
                border::give_up(f);
            }
        }
        _ => {}
    }
    r
}

/// Something that is no flow was made on `fd`.
fn made_other(fd: c_int) -> c_int {
    if fd >= 0 && arena::header().is_some() && !lent() {
        fds::forget(fd);
        if let Some(me) = watch() {
            fds::made_other(&me, fd);
        }
    }
    fd
}

fn made_epoll(fd: c_int) -> c_int {
    if fd >= 0 && arena::header().is_some() && !lent() {
        fds::forget(fd);
        epolls::fresh(fd);
        if let Some(me) = watch() {
            fds::made_epoll(&me, fd);
        }
    }
    fd
}

/// What is read and written on `fd` from now on, the C library does by calls of its own: said where it is a flow.
fn stays_inside(fd: c_int) {
    if let Some(me) = watch() {
        let error = sys::errno();
        if fds::flow(&me, fd).is_some() {
            me.aside(aside::DESCRIPTOR);
        }
        sys::set_errno(error);
    }
}

/// # Safety
/// `a` is null or what the program asks for.
unsafe fn inside(a: *const aiocb) {
    // SAFETY: the caller's promise
    if let Some(a) = unsafe { a.as_ref() } {
        stays_inside(a.aio_fildes);
    }
}

/// Both ends of a new pipe, which are one flow.
///
/// # Safety
/// `pair` has two descriptors, if `r` is 0.
unsafe fn piped(r: c_int, pair: *const c_int) -> c_int {
    if r != 0 || arena::header().is_none() || lent() {
        return r;
    }
    // SAFETY: the caller's promise
    let (a, b) = unsafe { (*pair, *pair.add(1)) };
    fds::forget(a);
    fds::forget(b);
    if let Some(me) = watch() {
        let error = sys::errno();
        if let Some((_, inode)) = sys::stat(a)
            && let Some((index, f)) = fds::made(&me, a, w::FLOW_PIPE_BIT | inode, Kind::Pipe)
        {
            fds::also(&me, b, index);
            f.announce(&me, a, w::FLOW_MET, 0, sys::now());
        }
        sys::set_errno(error);
    }
    r
}

hooks! {
    /// `close`.
    fn close(fd: c_int) -> c_int {
        close_by(fd, || real::close(fd))
    }

    /// `close_range`.
    fn close_range(from: c_uint, to: c_uint, flags: c_int) -> c_int {
        const CLOEXEC: c_int = 4;
        if flags & CLOEXEC != 0 {
            return real::close_range(from, to, flags);
        }
        let clamp = |n: c_uint| c_int::try_from(n).unwrap_or(c_int::MAX);
        close_all(clamp(from), clamp(to), || real::close_range(from, to, flags))
    }

    /// `closefrom`.
    fn closefrom(from: c_int) -> () {
        close_all(from, c_int::MAX, || {
            real::closefrom(from);
            0
        });
    }

    /// `fclose`: the C library closes the descriptor itself.
    fn fclose(file: *mut FILE) -> c_int {
        if arena::header().is_none() || file.is_null() {
            return real::fclose(file);
        }
        let error = sys::errno();
        let fd = fileno(file);
        sys::set_errno(error);
        close_by(fd, || real::fclose(file))
    }

    /// `fdopen`: what is read and written through a stream stays inside the C library, which is said.
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        stays_inside(fd);
        real::fdopen(fd, mode)
    }

    /// `aio_read`: a thread of the C library reads, by calls of its own, which is said where it is a flow.
    fn aio_read(a: *mut aiocb) -> c_int {
        inside(a);
        real::aio_read(a)
    }

    /// `aio_read64`; see [`aio_read`].
    fn aio_read64(a: *mut aiocb) -> c_int {
        inside(a);
        real::aio_read64(a)
    }

    /// `aio_write`; see [`aio_read`].
    fn aio_write(a: *mut aiocb) -> c_int {
        inside(a);
        real::aio_write(a)
    }

    /// `aio_write64`; see [`aio_read`].
    fn aio_write64(a: *mut aiocb) -> c_int {
        inside(a);
        real::aio_write64(a)
    }

    /// `dup`.
    fn dup(fd: c_int) -> c_int {
        copied(fd, real::dup(fd))
    }

    /// `dup2`.
    fn dup2(from: c_int, to: c_int) -> c_int {
        copied(from, real::dup2(from, to))
    }

    /// `dup3`.
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        copied(from, real::dup3(from, to, flags))
    }

    /// `fcntl`. It is variadic in C; on x86-64 and aarch64 Linux an optional integer or pointer travels like a named one.
    fn fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int {
        controlled(fd, cmd, arg, real::fcntl(fd, cmd, arg))
    }

    /// `fcntl64`; see [`fcntl`].
    fn fcntl64(fd: c_int, cmd: c_int, arg: usize) -> c_int {
        controlled(fd, cmd, arg, real::fcntl64(fd, cmd, arg))
    }

    /// `pipe`.
    fn pipe(pair: *mut c_int) -> c_int {
        piped(real::pipe(pair), pair)
    }

    /// `pipe2`.
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
        piped(real::pipe2(pair, flags), pair)
    }

    /// `epoll_create`.
    fn epoll_create(n: c_int) -> c_int {
        made_epoll(real::epoll_create(n))
    }

    /// `epoll_create1`.
    fn epoll_create1(flags: c_int) -> c_int {
        made_epoll(real::epoll_create1(flags))
    }

    /// `eventfd`.
    fn eventfd(n: c_uint, flags: c_int) -> c_int {
        let fd = made_other(real::eventfd(n, flags));
        if let Some(me) = watch().filter(|_| fd >= 0) {
            fds::made_event(&me, fd);
        }
        fd
    }

    /// `signalfd`.
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int {
        let r = real::signalfd(fd, mask, flags);
        if fd < 0 { made_other(r) } else { r }
    }

    /// `timerfd_create`.
    fn timerfd_create(clock: clockid_t, flags: c_int) -> c_int {
        made_other(real::timerfd_create(clock, flags))
    }
}
