//! Byte layouts shared by the kernel programs, the preload library and the agent.
//!
//! This room is poor on purpose: `no_std`, no dependencies, no allocation. [`c_header`] renders the same
//! layouts as C; `xtask bindings` writes them to `probes/bpf/wire.h` and a test compares the two.
//!
//! A record begins with [`Head`]; its length is a multiple of eight. All times are nanoseconds of
//! `CLOCK_MONOTONIC` of the recording host.
#![no_std]
#![deny(missing_docs)]

#[macro_use]
mod layout;
mod ago;
pub mod arena;
pub mod calls;
mod constants;
mod logical;
pub mod packet;
pub mod program;
mod records;

pub use ago::{ago_ns, short_ago};
pub use constants::*;
pub use layout::{CConst, CField, CStruct};
pub use logical::{Ended, Handover, Makers, Park, Ran, Stream};
pub use records::*;

/// Every layout of the header, in the order in which it needs them.
pub fn layouts() -> impl Iterator<Item = &'static CStruct> {
    records::LAYOUTS.iter().chain(logical::LAYOUTS)
}

/// Version of these layouts. Kernel programs and agent are built together, so this only guards stored frames.
pub const VERSION: u32 = 1;

/// One record as it came from a source, together with where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Which ring or stream of the source (the processor's number for the kernel vantage).
    pub origin: u32,
    /// The record: a [`Head`] and what follows it.
    pub bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The record's head, or `None` where fewer than eight bytes are there.
    pub fn head(&self) -> Option<Head> {
        view::<Head>(self.bytes)
    }

    /// When it was written down (ns, `CLOCK_MONOTONIC`), which stands behind the head of each record; 0 where it is shorter.
    pub fn at_ns(&self) -> u64 {
        self.bytes.get(8..16).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }

    /// Reads the record as `T`, or `None` where it is shorter than `T`.
    pub fn read<T: Record>(&self) -> Option<T> {
        view::<T>(self.bytes)
    }

    /// What follows the fixed part `T`: a message head or a command line, cut to its stated length.
    pub fn tail<T: Record>(&self, bytes: usize) -> &'a [u8] {
        let rest = self.bytes.get(core::mem::size_of::<T>()..).unwrap_or(&[]);
        &rest[..bytes.min(rest.len())]
    }
}

/// A plain fixed-size layout of this crate: any bytes are a valid value.
///
/// # Safety
/// Implemented by the layout macro alone, for `repr(C)` structs of integers without padding.
pub unsafe trait Record: Copy + 'static {}

/// Copies a `T` out of the front of `bytes`.
pub fn view<T: Record>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < core::mem::size_of::<T>() {
        return None;
    }
    // SAFETY: the length was checked, `Record` promises that any bytes are valid, and the read is unaligned.
    Some(unsafe { core::ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}

/// The bytes of a record, for tests and for sources that make records themselves.
pub fn bytes_of<T: Record>(record: &T) -> &[u8] {
    // SAFETY: `Record` promises integers without padding, so every byte is initialised.
    unsafe { core::slice::from_raw_parts((record as *const T).cast::<u8>(), core::mem::size_of::<T>()) }
}
