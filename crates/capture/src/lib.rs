//! Sources of frames: the kernel vantage and the library vantage. All privilege and all `unsafe` I/O of the agent live in this room;
//! nothing here interprets a payload.
#![deny(missing_docs)]

pub mod containers;
mod elf;
mod error;
pub mod faults;
mod kernel;
mod library;
pub mod limits;
pub mod mirror;
pub mod packets;
pub mod procfs;
mod refusal;
pub mod runtimes;
mod support;
mod syscalls;
mod timens;
pub mod usdt;

pub use error::CaptureError;
pub use kernel::{
    Backend, KernelOptions, KernelSource, Placed, ProgramCost, SelectionRules, StackTable, Unselected, Watch,
};
pub use library::{Arena, ArenaOptions, LibrarySource};
pub use support::{Support, support};

/// Now on the host's `CLOCK_MONOTONIC`, in nanoseconds, whatever time namespace this process is in: the clock of every record.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).wrapping_sub(timens::own().monotonic_ns as u64)
}

/// Now on `CLOCK_REALTIME`, in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

fn boot_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME).wrapping_sub(timens::own().boottime_ns as u64)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place to write to; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
