//! Page faults (BorderPatrol, section 5.3).

use crate::ids::{MonoNs, StrId, TaskId};
use bytemuck::{Pod, Zeroable};

/// How a page fault ended: [`FaultRow::kind`].
pub mod fault {
    /// The page was in memory, or was made: no wait for a read.
    pub const MINOR: u8 = 1;
    /// The page had to be read, from a file or from swap.
    pub const MAJOR: u8 = 2;
    /// The kernel counted it as neither: nothing was mapped there (a signal followed), or it was taken again.
    pub const NEITHER: u8 = 3;
}

/// How memory was accessed where a page fault began: bits of [`FaultRow::access`].
pub mod access {
    /// A page was there, and the access was not allowed: mostly a copy on write.
    pub const PRESENT: u8 = 1;
    /// A write.
    pub const WRITE: u8 = 2;
    /// By the program itself; else by the kernel on its behalf, in a system call.
    pub const USER: u8 = 4;
    /// Code was fetched.
    pub const EXEC: u8 = 16;
    /// The begin was not seen: the other bits say nothing, and `began` is the end.
    pub const UNSEEN: u8 = 128;
}

/// [`FaultRow::offset`] where it is not known.
pub const NO_OFFSET: u64 = u64::MAX;

/// One page fault of a watched task; only where the recording was asked for them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct FaultRow {
    /// When it was over and the program could go on; of [`fault::NEITHER`], when that was known: at the task's next fault.
    pub at: MonoNs,
    /// When it began.
    pub began: MonoNs,
    /// The address that was accessed.
    pub address: u64,
    /// Where the program was.
    pub ip: u64,
    /// The file that is mapped there, 0 = not told by the kernel (memory without a file, or an older kernel).
    pub inode: u64,
    /// Byte of the file at which the page begins, or [`NO_OFFSET`].
    pub offset: u64,
    /// The file's device: major << 20 | minor.
    pub device: u32,
    /// Whose.
    pub task: TaskId,
    /// The file's path as the process sees it; `…/NAME` where only its name is known, empty where nothing is.
    pub file: StrId,
    /// Processor.
    pub cpu: u16,
    /// One of [`fault`].
    pub kind: u8,
    /// Bits of [`access`].
    pub access: u8,
}

impl FaultRow {
    /// How long the program was held up (ns); `None` where either end is not known.
    pub fn duration_ns(&self) -> Option<u64> {
        let is_known = self.kind != fault::NEITHER && self.access & access::UNSEEN == 0;
        is_known.then(|| self.at.0.saturating_sub(self.began.0))
    }

    /// What is mapped there, for people: `path`, the text of [`FaultRow::file`], where it is known, else device and inode;
    /// `None` where the kernel named no file.
    pub fn mapped(&self, path: &str) -> Option<String> {
        match (path, self.inode) {
            (_, 0) => None,
            ("", inode) => Some(format!("inode {inode} on {}:{}", self.device >> 20, self.device & 0xf_ffff)),
            (path, _) => Some(path.to_owned()),
        }
    }
}
