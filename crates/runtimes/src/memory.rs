//! What stands in the memory of a process.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Reads bytes at an address; says how many there were, as far as `into` has room.
pub(crate) trait Memory {
    fn read(&self, at: u64, into: &mut [u8]) -> usize;

    /// The bytes there; `None` where not all can be read.
    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut out = [0; N];
        (self.read(at, &mut out) == N).then_some(out)
    }

    fn word(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }
}

/// The memory of a process that runs.
pub(crate) struct Running(File);

impl Running {
    pub(crate) fn open(tgid: u32) -> Option<Running> {
        File::open(format!("/proc/{tgid}/mem")).ok().map(Running)
    }
}

impl Memory for Running {
    fn read(&self, at: u64, into: &mut [u8]) -> usize {
        // short where the next page is not there; an address that is none is an error
        self.0.read_at(into, at).unwrap_or(0)
    }
}
