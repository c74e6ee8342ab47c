//! Waits that end by a time-out of their own: after one, a thread goes on for nobody that is known.

use crate::process::watch;
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

hooks! {
    /// `nanosleep`.
    fn nanosleep(t: *const timespec, left: *mut timespec) -> c_int {
        waited(real::nanosleep(t, left), |_| true)
    }

    /// `clock_nanosleep`.
    fn clock_nanosleep(clock: clockid_t, flags: c_int, t: *const timespec, left: *mut timespec) -> c_int {
        waited(real::clock_nanosleep(clock, flags, t, left), |_| true)
    }

    /// `usleep`.
    fn usleep(us: c_uint) -> c_int {
        waited(real::usleep(us), |_| true)
    }

    /// `sleep`.
    fn sleep(s: c_uint) -> c_uint {
        waited(real::sleep(s), |_| true)
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
