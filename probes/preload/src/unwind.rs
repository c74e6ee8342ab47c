//! The unwinder, fetched when it is needed.
//!
//! Rust's own library unwinds by `libgcc_s`. Were that a library that this one needs, every program would load it at its
//! start, which is a fifth of what a start under this library costs; but only a thread that is cancelled, or a panic of
//! ours, unwinds, and whoever cancels has it loaded. So its functions are jumped to by way of a table that the first call
//! of each fills in. They find out from the stack whom to unwind, and find it as the caller left it.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::*};

macro_rules! unwinder {
    ($($nth:literal $name:literal)*) => {
        const NAMES: &[&str] = &[$(concat!($name, "\0")),*];

        /// Addresses of the real functions, or 0.
        static FOUND: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];

        // seen by nobody but this library: a program's own calls go where they went before
        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            $(
                concat!(".hidden ", $name), concat!(".globl ", $name), concat!(".type ", $name, ", @function"),
                concat!($name, ":"),
                concat!("mov rax, [rip + {found} + 8 * ", $nth, "]"), "test rax, rax", "jz 2f", "jmp rax",
                "2:", "push rdi", "push rsi", "push rdx", "push rcx", "sub rsp, 8",
                concat!("mov edi, ", $nth), "call {fetch}",
                "add rsp, 8", "pop rcx", "pop rdx", "pop rsi", "pop rdi", "jmp rax",
                concat!(".size ", $name, ", . - ", $name),
            )*
            found = sym FOUND, fetch = sym fetch,
        );

        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            $(
                concat!(".hidden ", $name), concat!(".globl ", $name), concat!(".type ", $name, ", @function"),
                concat!($name, ":"),
                "adrp x16, {found}", "add x16, x16, :lo12:{found}", concat!("ldr x16, [x16, #8 * ", $nth, "]"),
                "cbz x16, 2f", "br x16",
                "2:", "stp x29, x30, [sp, #-48]!", "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]",
                concat!("mov w0, #", $nth), "bl {fetch}", "mov x16, x0",
                "ldp x2, x3, [sp, #32]", "ldp x0, x1, [sp, #16]", "ldp x29, x30, [sp], #48", "br x16",
                concat!(".size ", $name, ", . - ", $name),
            )*
            found = sym FOUND, fetch = sym fetch,
        );
    };
}

// all that Rust's own library calls
unwinder! {
    0 "_Unwind_Backtrace"
    1 "_Unwind_DeleteException"
    2 "_Unwind_FindEnclosingFunction"
    3 "_Unwind_GetCFA"
    4 "_Unwind_GetDataRelBase"
    5 "_Unwind_GetIP"
    6 "_Unwind_GetIPInfo"
    7 "_Unwind_GetLanguageSpecificData"
    8 "_Unwind_GetRegionStart"
    9 "_Unwind_GetTextRelBase"
    10 "_Unwind_RaiseException"
    11 "_Unwind_Resume"
    12 "_Unwind_SetGR"
    13 "_Unwind_SetIP"
}

/// Address of the `nth` function. Without an unwinder nothing can go on: the program ends.
extern "C" fn fetch(nth: usize) -> usize {
    let name = NAMES.get(nth).and_then(|n| CStr::from_bytes_with_nul(n.as_bytes()).ok());
    // SAFETY: C strings; the loader gives what the C library's own cancellation has loaded, or loads it for good
    let found = unsafe {
        let library = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW);
        match name {
            Some(name) if !library.is_null() => libc::dlsym(library, name.as_ptr()) as usize,
            _ => 0,
        }
    };
    if found == 0 {
        // SAFETY: takes no arguments
        unsafe { libc::abort() }
    }
    if let Some(known) = FOUND.get(nth) {
        known.store(found, Relaxed);
    }
    found
}
