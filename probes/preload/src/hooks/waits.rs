//! Waiting for descriptors.

use crate::isolate::{self, Return, Sets};
use crate::process::{Me, is_on, lent, watch};
use crate::record::Call;
use crate::{arena, epolls, real, rest, sys};
use libc::*;
use wakepath_wire as w;

const NO_TIMEOUT: u64 = u64::MAX;

fn from_ms(ms: c_int) -> u64 {
    u64::try_from(ms).map_or(NO_TIMEOUT, |ms| ms * 1_000_000)
}

/// # Safety
/// `t` is null or a time.
unsafe fn from_spec(t: *const timespec) -> u64 {
    // SAFETY: the caller's promise
    unsafe { t.as_ref() }
        .map_or(NO_TIMEOUT, |t| (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64))
}

/// A wait without a time-out that was under way when recording was switched on: what it returns is an input like any
/// other, and its time-out, which counts from an entry that nobody noted, does not matter.
fn begun_before(r: c_int, timeout_ns: u64) -> Option<Me> {
    if r > 0 && timeout_ns == NO_TIMEOUT && is_on() { watch() } else { None }
}

/// # Safety
/// `fds` is what the C function asks for.
unsafe fn polling(
    fds: *mut pollfd,
    n: nfds_t,
    class: (u8, c_long),
    timeout_ns: u64,
    plain: impl FnOnce() -> c_int,
) -> c_int {
    let before = watch();
    let entry = before.as_ref().map(|_| sys::now());
    let r = plain();
    let Some(me) = before.or_else(|| begun_before(r, timeout_ns)) else { return r };
    let entry = entry.unwrap_or_else(sys::now);
    let (error, mut call) = (sys::errno(), Call::done(entry, class.1));
    let set: &mut [pollfd] = if fds.is_null() || r < 0 {
        &mut []
    } else {
        // SAFETY: the kernel has just read and written these
        unsafe { core::slice::from_raw_parts_mut(fds, n as usize) }
    };
    let (r, at_rest) = if me.rest { rest::polled(&me, set, r, (entry, timeout_ns)) } else { (r, 0) };
    if at_rest != 0 {
        call.ret = at_rest;
    }
    let of = Return { call, class: class.0, timeout_ns, fd: -1, rest: at_rest != 0, at: 0 };
    let r = isolate::polled(&me, &of, set, r);
    sys::set_errno(error);
    r
}

/// # Safety
/// The sets are what the C function asks for.
unsafe fn selecting(
    n: c_int,
    sets: [*mut fd_set; 3],
    class: (u8, c_long),
    timeout_ns: u64,
    plain: impl FnOnce() -> c_int,
) -> c_int {
    let Some(me) = watch() else { return plain() };
    let error = sys::errno();
    // SAFETY: the caller's promise
    let foreign = unsafe { isolate::any_foreign(&me, &Sets::new(n, sets)) };
    sys::set_errno(error);
    let entry = sys::now();
    let r = plain();
    let (error, call) = (sys::errno(), Call::done(entry, class.1));
    // SAFETY: the caller's promise
    let mut sets = unsafe { Sets::new(if r < 0 { 0 } else { n }, sets) };
    rest::selected(&me, r, timeout_ns);
    let of = Return { call, class: class.0, timeout_ns, fd: -1, rest: false, at: 0 };
    let r = isolate::selected(&me, &of, &mut sets, foreign, r);
    sys::set_errno(error);
    r
}

/// # Safety
/// `events` has room for `n`.
unsafe fn waiting(
    ep: c_int,
    events: *mut epoll_event,
    n: c_int,
    class: (u8, c_long),
    timeout_ns: u64,
    plain: impl FnOnce(c_int) -> c_int,
) -> c_int {
    let here = 0u8;
    let at = &raw const here as usize;
    let Some(me) = watch() else {
        let r = plain(n);
        if let Some(me) = begun_before(r, timeout_ns) {
            let of = Waiting { ep, class, entry: sys::now(), timeout_ns, limited: false, at };
            // SAFETY: the kernel has just written `r` of them
            return unsafe { given(&me, events, r, of) };
        }
        return r;
    };
    let error = sys::errno();
    if n > 0 && isolate::is_put_off(&me, ep, timeout_ns, at) {
        let call = Call::done(sys::now(), class.1);
        isolate::put_off(&me, &Return { call, class: class.0, timeout_ns, fd: ep, rest: false, at });
        sys::set_errno(error);
        return 0;
    }
    let wanted = wanted(&me, ep, n);
    sys::set_errno(error);
    let entry = sys::now();
    let r = plain(wanted);
    // SAFETY: the kernel has just written `r` of them
    unsafe { given(&me, events, r, Waiting { ep, class, entry, timeout_ns, limited: wanted < n, at }) }
}

/// A wait in an epoll instance.
struct Waiting {
    ep: c_int,
    class: (u8, c_long),
    entry: u64,
    timeout_ns: u64,
    /// It was asked for fewer events than the program would have taken.
    limited: bool,
    /// Where on the stack it was called.
    at: usize,
}

/// Tells what epoll gave, when it may be handed over; what the program is told.
///
/// # Safety
/// There are `r` of `events`.
unsafe fn given(me: &Me, events: *mut epoll_event, r: c_int, of: Waiting) -> c_int {
    let error = sys::errno();
    // SAFETY: the caller's promise
    let told = if r > 0 { unsafe { core::slice::from_raw_parts_mut(events, r as usize) } } else { &mut [] };
    let Waiting { ep, class, entry, timeout_ns, limited, at } = of;
    let (r, at_rest) = if me.rest { rest::epolled(me, ep, told, r, (entry, timeout_ns)) } else { (r, 0) };
    let told = told.get(..r.max(0) as usize).unwrap_or(&[]);
    let mut call = Call::done(entry, class.1);
    if at_rest != 0 {
        call.ret = at_rest;
    }
    let of = Return { call, class: class.0, timeout_ns, fd: ep, rest: at_rest != 0, at };
    isolate::epolled(me, &of, told, r, limited);
    sys::set_errno(error);
    r
}

fn wanted(me: &Me, ep: c_int, n: c_int) -> c_int {
    // finds out what is in an instance that was not seen being made
    let _ = crate::fds::get(me, ep);
    isolate::events_wanted(me, ep, n)
}

hooks! {
    /// `poll`.
    fn poll(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int {
        polling(fds, n, (w::SC_POLL, SYS_ppoll), from_ms(timeout), || real::poll(fds, n, timeout))
    }

    /// `poll` of programs that are built with fortified sources.
    fn __poll_chk(fds: *mut pollfd, n: nfds_t, timeout: c_int, room: usize) -> c_int {
        polling(fds, n, (w::SC_POLL, SYS_ppoll), from_ms(timeout), || real::__poll_chk(fds, n, timeout, room))
    }

    /// `ppoll`.
    fn ppoll(fds: *mut pollfd, n: nfds_t, t: *const timespec, mask: *const sigset_t) -> c_int {
        polling(fds, n, (w::SC_PPOLL, SYS_ppoll), from_spec(t), || real::ppoll(fds, n, t, mask))
    }

    /// `ppoll` of programs that are built with fortified sources.
    fn __ppoll_chk(fds: *mut pollfd, n: nfds_t, t: *const timespec, mask: *const sigset_t, room: usize) -> c_int {
        polling(fds, n, (w::SC_PPOLL, SYS_ppoll), from_spec(t), || real::__ppoll_chk(fds, n, t, mask, room))
    }

    /// `select`.
    fn select(n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, t: *mut timeval) -> c_int {
        let ns = t.as_ref().map_or(NO_TIMEOUT, |t| {
            (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add((t.tv_usec as u64).saturating_mul(1000))
        });
        selecting(n, [r, w, e], (w::SC_SELECT, SYS_pselect6), ns, || real::select(n, r, w, e, t))
    }

    /// `pselect`.
    fn pselect(
        n: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, t: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        let plain = || real::pselect(n, r, w, e, t, mask);
        selecting(n, [r, w, e], (w::SC_PSELECT, SYS_pselect6), from_spec(t), plain)
    }

    /// `epoll_ctl`.
    fn epoll_ctl(ep: c_int, op: c_int, fd: c_int, e: *mut epoll_event) -> c_int {
        if arena::header().is_none() || lent() {
            return real::epoll_ctl(ep, op, fd, e);
        }
        epolls::control(ep, op, fd, e)
    }

    /// `epoll_wait`.
    fn epoll_wait(ep: c_int, e: *mut epoll_event, n: c_int, timeout: c_int) -> c_int {
        let plain = |n| real::epoll_wait(ep, e, n, timeout);
        waiting(ep, e, n, (w::SC_EPOLL, SYS_epoll_pwait), from_ms(timeout), plain)
    }

    /// `epoll_pwait`.
    fn epoll_pwait(ep: c_int, e: *mut epoll_event, n: c_int, timeout: c_int, mask: *const sigset_t) -> c_int {
        let plain = |n| real::epoll_pwait(ep, e, n, timeout, mask);
        waiting(ep, e, n, (w::SC_EPOLL, SYS_epoll_pwait), from_ms(timeout), plain)
    }

    /// `epoll_pwait2`.
    fn epoll_pwait2(ep: c_int, e: *mut epoll_event, n: c_int, t: *const timespec, mask: *const sigset_t) -> c_int {
        let plain = |n| real::epoll_pwait2(ep, e, n, t, mask);
        waiting(ep, e, n, (w::SC_EPOLL2, SYS_epoll_pwait2), from_spec(t), plain)
    }
}
