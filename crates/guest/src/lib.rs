//! System calls of a guest, watched from below: from the emulator that runs it, without touching the guest.
//!
//! The emulator tells when a processor enters a system call and when it returns to a program. What the call was about is
//! read out of the guest's memory by the guest kernel's own description of its types (BTF), so nothing here depends on the
//! kernel's version. The results are the records of the kernel vantage (`wakepath_wire`).
//!
//! The guest is not trusted: each length is bounded, each read of its memory may fail, and nothing that it has in its memory
//! makes a panic.
#![deny(missing_docs)]

pub mod btf;
pub mod calls;
mod flows;
pub mod kernel;
pub mod layout;
mod operations;
pub mod scan;
mod tasks;
mod user;
mod watcher;

#[cfg(any(test, feature = "made"))]
pub mod made;
#[cfg(test)]
mod tests;

pub use watcher::{Cpu, Guest};

/// The guest's memory as the processor sees it that is in the system call: by virtual addresses.
pub trait Memory {
    /// Fills `into` with the bytes from `at` on; false where a page of them is not there.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;
}

/// Where records go.
pub trait Records {
    /// Takes a record: its fixed part, and what follows it. If there is no room, it counts as lost under `drop`
    /// (`wakepath_wire::DROP_…`).
    fn put<T: wakepath_wire::Record>(&mut self, record: &T, tail: &[u8], drop: u32);
    /// Counts something that was not seen (`wakepath_wire::arena::aside`).
    fn aside(&mut self, why: usize);
}

/// A number of `bytes` ≤ 8 bytes at `at`; `None` where that cannot be read.
pub(crate) fn number(memory: &dyn Memory, at: u64, bytes: usize) -> Option<u64> {
    let mut all = [0; 8];
    memory.read(at, all.get_mut(..bytes)?).then(|| u64::from_le_bytes(all))
}
