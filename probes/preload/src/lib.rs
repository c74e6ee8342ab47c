//! The library vantage: stands between a program and its C library, tells what the program does on its flows, and, where
//! asked to, hands it one input at a time (BorderPatrol, sections 3 and 5).
//!
//! It is a guest. The rules of the house:
//! - Without an arena, or with recording off, a call costs a load and a branch more.
//! - Nothing is held back here. What the program is not given yet stays in the kernel, where poll, select, epoll, another
//!   thread, a child or an exec'ed program find it: so nothing goes stale, is lost or starves.
//! - No allocation, no lock that waits, no descriptor kept, `errno` as the C function leaves it. Calls that are
//!   cancellation points stay so: hooks may be unwound and hold nothing over the real call.
//! - In doubt the program's own call is made as it is, and the doubt counted (`wakepath_wire::arena::aside`).
//!
//! `arena` and `record` write; `process`, `fds`, `flow`, `epolls` know who calls and what its descriptors mean; `receive`
//! and `transmit` are the two ways of bytes, `border` where messages end, `isolate` which input is handed over, and `rest` when;
//! `hooks` has the functions themselves, `real` those behind them; `unwind` fetches what a cancelled thread needs.

mod address;
mod arena;
mod border;
mod epolls;
mod fdinfo;
mod fds;
mod flow;
mod hooks;
mod isolate;
mod marks;
mod process;
mod real;
mod receive;
mod record;
mod rest;
mod sys;
mod transmit;
mod unix;
mod unwind;

/// Runs when the loader has mapped the library, before the program's own constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

/// Runs when the program ends of its own accord.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destruct;

extern "C" fn destruct() {
    process::ended(0);
}

extern "C" fn construct() {
    let error = sys::errno();
    real::resolve();
    let mut path = [0u8; 512];
    // SAFETY: a C string; nobody changes the environment before the program runs
    let given = unsafe { libc::getenv(c"WAKEPATH_ARENA".as_ptr()) };
    if !given.is_null() {
        // SAFETY: a C string of the environment
        let text = unsafe { core::ffi::CStr::from_ptr(given) }.to_bytes_with_nul();
        if let Some(room) = path.get_mut(..text.len()) {
            room.copy_from_slice(text);
            if process::prepare() {
                process::make_key();
                hooks::environment::remember(text);
                arena::map(text);
            }
        }
    }
    // a process that begins while recording is on says so before it does anything
    let _ = process::watch();
    sys::set_errno(error);
}
