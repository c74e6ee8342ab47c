//! Plug-ins that are bound past this library.
//!
//! With `RTLD_DEEPBIND` the loader looks names up in the plug-in and what it needs, the C library with it, before it looks
//! here: what such a plug-in calls is not seen (PHP loads its extensions so). It is counted, and nothing else is done,
//! since another order of lookup could give the plug-in another function than the one that it was built for.

use crate::process::watch;
use crate::{real, sys};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use libc::c_int;
use wakepath_wire::arena::aside;

/// How many this process, or one that it was forked from, has loaded.
static LOADED: AtomicU32 = AtomicU32::new(0);

/// How many plug-ins of the process were bound past this library.
pub fn bound_past() -> u32 {
    LOADED.load(Relaxed)
}

/// `dlopen`. The loader takes from the return address in whose name it searches, so the real function is jumped to.
///
/// # Safety
/// As the C function's own.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
// SAFETY: stack and arguments are as the caller left them when the real function is jumped to
pub unsafe extern "C" fn dlopen() {
    core::arch::naked_asm!(
        "push rdi", "push rsi", "sub rsp, 8", "mov edi, esi", "call {loads}", "add rsp, 8", "pop rsi", "pop rdi",
        "jmp rax", loads = sym loads
    )
}

/// See the other one.
///
/// # Safety
/// As the C function's own.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
// SAFETY: stack, arguments and link register are as the caller left them when the real function is jumped to
pub unsafe extern "C" fn dlopen() {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!", "stp x0, x1, [sp, #16]", "mov w0, w1", "bl {loads}", "mov x16, x0",
        "ldp x0, x1, [sp, #16]", "ldp x29, x30, [sp], #32", "br x16", loads = sym loads
    )
}

/// Counts a plug-in that is loaded with such flags; the address of the real `dlopen`.
extern "C" fn loads(flags: c_int) -> usize {
    if flags & libc::RTLD_DEEPBIND != 0 {
        let error = sys::errno();
        if let Some(me) = watch() {
            me.aside(aside::DEEPBIND);
        }
        // those from before recording are told when the process is first met
        LOADED.fetch_add(1, Relaxed);
        sys::set_errno(error);
    }
    static REAL: AtomicUsize = AtomicUsize::new(0);
    match REAL.load(Relaxed) {
        0 => {
            let found = real::next(c"dlopen");
            REAL.store(found, Relaxed);
            // a program that calls it has one behind us
            if found == 0 { nothing as *const () as usize } else { found }
        }
        known => known,
    }
}

/// Loads nothing.
extern "C" fn nothing() -> usize {
    0
}
