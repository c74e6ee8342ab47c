//! Files that a process has mapped.

use crate::program::Program;
use std::path::PathBuf;

/// A file that a process has mapped.
pub(crate) struct Mapped {
    pub(crate) program: Program,
    /// Where it can be opened.
    pub(crate) path: PathBuf,
    /// What its addresses are raised by in the process.
    pub(crate) bias: u64,
}

impl Mapped {
    /// The first file with this in its path.
    pub(crate) fn find(tgid: u32, part: &str) -> Option<Mapped> {
        let maps = std::fs::read_to_string(format!("/proc/{tgid}/maps")).ok()?;
        let (begin, path) = maps.lines().filter_map(first_byte).find(|(_, path)| path.contains(part))?;
        Mapped::open(format!("/proc/{tgid}/root{path}").into(), begin)
    }

    /// The program that it runs.
    pub(crate) fn executed(tgid: u32) -> Option<Mapped> {
        let path = std::fs::read_link(format!("/proc/{tgid}/exe")).ok()?;
        let maps = std::fs::read_to_string(format!("/proc/{tgid}/maps")).ok()?;
        let (begin, _) = maps.lines().filter_map(first_byte).find(|(_, p)| Some(*p) == path.to_str())?;
        Mapped::open(format!("/proc/{tgid}/exe").into(), begin)
    }

    fn open(path: PathBuf, begin: u64) -> Option<Mapped> {
        let program = Program::open(path.to_str()?)?;
        let bias = begin.wrapping_sub(program.first_address()?);
        Some(Mapped { program, path, bias })
    }
}

/// Where a file's first byte is mapped, and its path, out of a line of `maps`.
pub(crate) fn first_byte(line: &str) -> Option<(u64, &str)> {
    // 7f0a…-7f0b… r--p 00000000 fe:00 1234   /usr/lib/x86_64-linux-gnu/libc.so.6
    let (range, rest) = line.split_once(' ')?;
    let (_, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let path = rest.find('/').map(|i| &rest[i..])?;
    let is_first = u64::from_str_radix(offset, 16) == Ok(0);
    is_first.then_some((u64::from_str_radix(range.split('-').next()?, 16).ok()?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_of_a_mapped_file_is_found() {
        let line = "7f0a10000000-7f0a10022000 r--p 00000000 fe:00 1234                 /usr/lib/libc.so.6";
        assert_eq!(first_byte(line), Some((0x7f0a_1000_0000, "/usr/lib/libc.so.6")));
        assert_eq!(first_byte(&line.replace("00000000 fe", "00022000 fe")), None);
        for other in ["", "7f0a-7f0b", "7ffd000-7ffe000 rw-p 00000000 00:00 0    [stack]", "x y 00000000 z /a"] {
            assert_eq!(first_byte(other), None, "{other}");
        }
    }
}
