//! Waits that end by a time-out of their own: after one, a thread goes on for nobody that is known.

use crate::process::watch;
use crate::record::{self, Call, Cause};
use crate::{real, rest, sys};
use libc::*;

/// What a call that may end by a time-out answered; `over`: it did.
#[inline]
fn waited<T: Copy>(answer: T, over: impl FnOnce(T) -> bool) -> T {
    if let Some(me) = watch().filter(|me| me.rest) {
        let error = sys::errno();
        if over(answer) {
            rest::else_now(&me);
        }
        sys::set_errno(error);
    }
    answer
}

/// A sleep until a time: a wait like any other.
#[inline]
fn slept<T: Copy>(sleep: impl FnOnce() -> T) -> T {
    let before = watch().map(|me| (me, sys::now()));
    let answer = sleep();
    if let Some((me, entry)) = before {
        let error = sys::errno();
        record::wait(&me, Call::done(entry, SYS_clock_nanosleep), -1, &Cause::Timer);
        sys::set_errno(error);
    }
    waited(answer, |_| true)
}

hooks! {
    /// `nanosleep`.
    fn nanosleep(t: *const timespec, left: *mut timespec) -> c_int {
        slept(|| real::nanosleep(t, left))
    }

    /// `clock_nanosleep`.
    fn clock_nanosleep(clock: clockid_t, flags: c_int, t: *const timespec, left: *mut timespec) -> c_int {
        slept(|| real::clock_nanosleep(clock, flags, t, left))
    }

    /// `usleep`.
    fn usleep(us: c_uint) -> c_int {
        slept(|| real::usleep(us))
    }

    /// `sleep`.
    fn sleep(s: c_uint) -> c_uint {
        slept(|| real::sleep(s))
    }

    /// `pthread_cond_timedwait`.
    fn pthread_cond_timedwait(c: *mut pthread_cond_t, m: *mut pthread_mutex_t, t: *const timespec) -> c_int {
        waited(real::pthread_cond_timedwait(c, m, t), |r| r == ETIMEDOUT)
    }

    /// `pthread_cond_clockwait`.
    fn pthread_cond_clockwait(
        c: *mut pthread_cond_t, m: *mut pthread_mutex_t, clock: clockid_t, t: *const timespec,
    ) -> c_int {
        waited(real::pthread_cond_clockwait(c, m, clock, t), |r| r == ETIMEDOUT)
    }

    /// `sem_timedwait`.
    fn sem_timedwait(s: *mut sem_t, t: *const timespec) -> c_int {
        waited(real::sem_timedwait(s, t), |r| r != 0 && sys::errno() == ETIMEDOUT)
    }

    /// `sem_clockwait`.
    fn sem_clockwait(s: *mut sem_t, clock: clockid_t, t: *const timespec) -> c_int {
        waited(real::sem_clockwait(s, clock, t), |r| r != 0 && sys::errno() == ETIMEDOUT)
    }
}
