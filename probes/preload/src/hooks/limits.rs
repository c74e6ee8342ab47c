//! Limits of memory that a program gives itself: what this library maps is added, so that as much is left to the program as
//! without it, and taken off again where the program asks for its limits.

use crate::{arena, border, real};
use libc::*;

/// Bytes that the library takes of an address space beside the arena: its pool, and its own code and data.
const BESIDE: u64 = border::POOL_BYTES as u64 + (16 << 20);

/// What this library takes of the address space; `None` where it takes nothing, or where `resource` is another.
fn taken(resource: c_int) -> Option<u64> {
    if resource as i64 != RLIMIT_AS as i64 {
        return None;
    }
    Some(arena::mapped()? as u64 + BESIDE)
}

/// What the program sees of a limit: what is left to it beside what this library takes. Infinity, and what leaves no room for
/// this library, stay what they are.
fn left(limit: u64, taken: u64) -> u64 {
    if limit == RLIM64_INFINITY { limit } else { limit.checked_sub(taken).unwrap_or(limit) }
}

/// The limit to set where the program wants `wanted`: as much more as this library takes, but no change where it wants what
/// it sees of the limit that is in force. A program that sets what it was told changes nothing, however often.
fn widened(wanted: u64, now: u64, taken: u64) -> u64 {
    // infinity stays what it is
    if wanted == left(now, taken) { now } else { wanted.saturating_add(taken) }
}

/// Sets a limit by `set`: the widened one, or, where that may not be, the one that the program named.
///
/// # Safety
/// `wanted` is null or a limit.
unsafe fn limited(resource: c_int, wanted: *const rlimit64, set: impl Fn(*const rlimit64) -> c_int) -> c_int {
    let Some(taken) = taken(resource).filter(|_| !wanted.is_null()) else { return set(wanted) };
    let mut now = rlimit64 { rlim_cur: RLIM64_INFINITY, rlim_max: RLIM64_INFINITY };
    // SAFETY: room for one limit; the caller's promise
    let asked = unsafe {
        real::prlimit64(0, resource, core::ptr::null(), &raw mut now);
        *wanted
    };
    let wider = rlimit64 {
        rlim_cur: widened(asked.rlim_cur, now.rlim_cur, taken),
        rlim_max: widened(asked.rlim_max, now.rlim_max, taken),
    };
    match set(&raw const wider) {
        0 => 0,
        _ => set(wanted),
    }
}

/// Takes off a limit that the kernel told what this library takes.
///
/// # Safety
/// `told` is null or a limit, where `result` says so.
unsafe fn told(resource: c_int, told: *mut rlimit64, result: c_int) -> c_int {
    if let Some(taken) = taken(resource).filter(|_| result == 0 && !told.is_null()) {
        // SAFETY: the caller's promise
        unsafe {
            (*told).rlim_cur = left((*told).rlim_cur, taken);
            (*told).rlim_max = left((*told).rlim_max, taken);
        }
    }
    result
}

hooks! {
    /// `getrlimit`.
    fn getrlimit(resource: c_int, into: *mut rlimit64) -> c_int {
        told(resource, into, real::getrlimit(resource, into))
    }

    /// `getrlimit64`.
    fn getrlimit64(resource: c_int, into: *mut rlimit64) -> c_int {
        told(resource, into, real::getrlimit64(resource, into))
    }

    /// `setrlimit`.
    fn setrlimit(resource: c_int, wanted: *const rlimit64) -> c_int {
        limited(resource, wanted, |l| real::setrlimit(resource, l))
    }

    /// `setrlimit64`.
    fn setrlimit64(resource: c_int, wanted: *const rlimit64) -> c_int {
        limited(resource, wanted, |l| real::setrlimit64(resource, l))
    }

    /// `prlimit`.
    fn prlimit(pid: pid_t, resource: c_int, wanted: *const rlimit64, old: *mut rlimit64) -> c_int {
        if pid != 0 {
            return real::prlimit(pid, resource, wanted, old);
        }
        let result = limited(resource, wanted, |l| real::prlimit(pid, resource, l, old));
        told(resource, old, result)
    }

    /// `prlimit64`.
    fn prlimit64(pid: pid_t, resource: c_int, wanted: *const rlimit64, old: *mut rlimit64) -> c_int {
        if pid != 0 {
            return real::prlimit64(pid, resource, wanted, old);
        }
        let result = limited(resource, wanted, |l| real::prlimit64(pid, resource, l, old));
        told(resource, old, result)
    }
}
