//! Limits of memory that a program gives itself: what this library maps is added, so that as much is left to the program as
//! without it.

use crate::{arena, border, real};
use libc::*;

/// Bytes that the library takes of an address space beside the arena: its pool, and its own code and data.
const BESIDE: u64 = border::POOL_BYTES as u64 + (16 << 20);

/// `wanted`, with as much added to limits of the address space as this library takes of it; `None` where nothing is to be added.
///
/// # Safety
/// `wanted` is null or a limit.
unsafe fn widened(resource: c_int, wanted: *const rlimit64) -> Option<rlimit64> {
    if resource as i64 != RLIMIT_AS as i64 || wanted.is_null() {
        return None;
    }
    let ours = arena::mapped()? as u64 + BESIDE;
    // SAFETY: the caller's promise
    let wanted = unsafe { *wanted };
    // infinity stays what it is
    Some(rlimit64 { rlim_cur: wanted.rlim_cur.saturating_add(ours), rlim_max: wanted.rlim_max.saturating_add(ours) })
}

/// Sets a limit by `set`: the widened one, or, where that may not be, the one that the program named.
///
/// # Safety
/// `wanted` is null or a limit.
unsafe fn limited(resource: c_int, wanted: *const rlimit64, set: impl Fn(*const rlimit64) -> c_int) -> c_int {
    // SAFETY: the caller's promise
    match unsafe { widened(resource, wanted) } {
        Some(wider) if set(&raw const wider) == 0 => 0,
        _ => set(wanted),
    }
}

hooks! {
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
        limited(resource, wanted, |l| real::prlimit(pid, resource, l, old))
    }

    /// `prlimit64`.
    fn prlimit64(pid: pid_t, resource: c_int, wanted: *const rlimit64, old: *mut rlimit64) -> c_int {
        if pid != 0 {
            return real::prlimit64(pid, resource, wanted, old);
        }
        limited(resource, wanted, |l| real::prlimit64(pid, resource, l, old))
    }
}
