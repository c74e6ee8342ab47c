//! Page faults (BorderPatrol, section 5.3).

use super::names;
use crate::ids::{MonoNs, StrId, TaskId};
use crate::table::{Kind, Value, optional};
use crate::{codes, table};

codes! {
    /// How a page fault ended: [`FaultRow::kind`].
    FaultKind(u8) {
        /// The page was in memory, or was made: no wait for a read.
        Minor = 1 => "minor",
        /// The page had to be read, from a file or from swap.
        Major = 2 => "major",
        /// The kernel counted it as neither: nothing was mapped there (a signal followed), or it was taken again.
        Neither = 3 => "neither",
    }
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

table! {
    /// One page fault of a watched task; only where the recording was asked for them.
    FaultRow {
        /// When it was over and the program could go on; of [`FaultKind::Neither`], when that was known: at the task's next fault.
        at: MonoNs,
        /// When it began.
        began: MonoNs => named("began_ns").also(&[optional("duration_ns", Kind::Ns, " How long the program was held up.", |r| {
            r.duration_ns().map_or(Value::None, Value::Ns)
        })]),
        /// The address that was accessed.
        address: u64,
        /// Where the program was.
        ip: u64,
        /// The file that is mapped there, 0 = not told by the kernel (memory without a file, or an older kernel).
        inode: u64 => none(0),
        /// Byte of the file at which the page begins, or [`NO_OFFSET`].
        offset: u64 => none(NO_OFFSET),
        /// The file's device: major << 20 | minor.
        device: u32 => hidden().also(&[optional("device", Kind::Text, " The file's device.", |r| {
            Value::word_or_none(if r.inode == 0 { String::new() } else { names::device(r.device) })
        })]),
        /// Whose.
        task: TaskId,
        /// The file's path as the process sees it; `…/NAME` where only its name is known, empty where nothing is.
        file: StrId,
        /// Processor.
        cpu: u16,
        /// How it ended.
        kind: FaultKind,
        /// Bits of [`access`].
        access: u8 => hidden().also(&[
            optional("access", Kind::Text, " How memory was accessed, where that was seen.", |r| {
                r.if_seen(Value::Word(names::fault_access(r.access).into()))
            }),
            optional("present", Kind::Bool, " A page was there, and the access was not allowed.", |r| {
                r.if_seen(Value::Bool(r.access & access::PRESENT != 0))
            }),
            optional("in_call", Kind::Bool, " By the kernel on the program's behalf.", |r| {
                r.if_seen(Value::Bool(r.access & access::USER == 0))
            })
        ]),
    }
}

impl FaultRow {
    /// A value that says nothing where the begin was not seen.
    fn if_seen(&self, value: Value) -> Value {
        if self.access & access::UNSEEN != 0 { Value::None } else { value }
    }

    /// How long the program was held up (ns); `None` where either end is not known.
    pub fn duration_ns(&self) -> Option<u64> {
        let is_known = self.kind != FaultKind::Neither && self.access & access::UNSEEN == 0;
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
