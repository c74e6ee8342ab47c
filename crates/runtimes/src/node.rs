//! Node.js: the request for which its only thread of JavaScript writes, where the process has loaded Wakepath's helper
//! (`helpers/node.cjs`, by `node --require` or `wakepath attach`).
//!
//! No memory of Node's own keeps that across an `await`. The helper keeps it in a block of memory so large that the C library
//! gives it pages of its own, with two words at its begin by which it is found. Verified at each read by these words and the
//! process's own number.

use crate::mapped::Mapped;
use crate::memory::{Memory as _, Running};
use crate::{Process, Runtime, Unread};
use wakepath_wire::{self as w, Runtime as Layout};

/// The helper, as a program in JavaScript.
pub const HELPER: &str = include_str!("../helpers/node.cjs");

/// Exported by every Node, the program or its library.
const EXPORTED: &str = "napi_get_node_version";
/// In the name of Node where it is a library.
const LIBRARY: &str = "/libnode.so";
/// Bytes that the block has at least.
const BLOCK: u64 = 34 << 20;
/// Where in its first page the block may begin: after the C library's own words, or without these.
const BEGINS: [u64; 2] = [16, 0];
const PAGE: u64 = 4096;
/// Where in it the number of the layout stands.
const AT_LAYOUT: u64 = 20;
/// Most pages looked at in one process.
const PAGES_MAX: u64 = 1 << 17;

pub(crate) fn recognise(process: &Process) -> Option<Runtime> {
    let is_node = process.program.exported(EXPORTED).is_some()
        || Mapped::find(process.tgid, LIBRARY).is_some_and(|m| m.program.exported(EXPORTED).is_some());
    is_node.then(|| Runtime {
        name: "Node.js",
        tasks: "requests",
        version: version(process.tgid).unwrap_or_default(),
        asked_by: "",
        layout: words(process.tgid),
    })
}

/// `20.20.2`: where the function that tells it has it.
fn version(tgid: u32) -> Option<String> {
    let mapped = Mapped::executed(tgid).filter(|m| m.program.exported(EXPORTED).is_some());
    let node = mapped.or_else(|| Mapped::find(tgid, LIBRARY))?;
    let function = node.program.exported(EXPORTED)?;
    let code: [u8; 64] = node.program.bytes_at(node.program.place(function)?)?;
    let numbers = |address| -> Option<[u32; 3]> {
        let bytes: [u8; 12] = node.program.bytes_at(node.program.place(address)?)?;
        let of = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        Some([of(0), of(4), of(8)])
            .filter(|[major, minor, patch]| (10..100).contains(major) && minor.max(patch) < &1000)
    };
    let told = (0..code.len() - 7).find_map(|at| numbers(pointed(&code[at..], function + at as u64)?))?;
    Some(format!("{}.{}.{}", told[0], told[1], told[2]))
}

/// The address that an instruction at `at` names: `lea REG, [rip + n]` or `mov qword [rsi], n`.
fn pointed(code: &[u8], at: u64) -> Option<u64> {
    let number = i32::from_le_bytes(code.get(3..7)?.try_into().ok()?);
    match *code {
        [0x48, 0x8d, modrm, ..] if modrm & 0xc7 == 0x05 => Some(at.wrapping_add(7).wrapping_add_signed(number.into())),
        [0x48, 0xc7, 0x06, ..] => u64::try_from(number).ok(),
        _ => None,
    }
}

fn words(tgid: u32) -> Result<Layout, Unread> {
    let maps = std::fs::read_to_string(format!("/proc/{tgid}/maps")).map_err(|_| Unread::Memory)?;
    let memory = Running::open(tgid).ok_or(Unread::Memory)?;
    let pages = maps.lines().filter_map(large).flat_map(|(begin, end)| (begin..end).step_by(PAGE as usize));
    let is_it = |at: &u64| memory.bytes(*at) == Some(magic());
    let found =
        pages.take(PAGES_MAX as usize).find_map(|page| BEGINS.map(|begin| page + begin).into_iter().find(is_it));
    // of a helper that was taken away the memory stays, without the number of its layout
    let begun = found.filter(|at| memory.bytes(at + AT_LAYOUT) == Some(w::NODE_LAYOUT.to_ne_bytes()));
    let helper_words = begun.ok_or(Unread::Helper)?;
    Ok(Layout { kind: u32::from(w::RUNTIME_NODE), helper_words, ..crate::EMPTY })
}

fn magic() -> [u8; 16] {
    (u128::from(w::NODE_MAGIC_0) | u128::from(w::NODE_MAGIC_1) << 64).to_le_bytes()
}

/// Begin and end of memory that may have the block, out of a line of `maps`: private, without a file, large enough.
fn large(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let is_private = words.next()? == "rw-p";
    let has_file = words.nth(3).is_some();
    let (begin, end) = (u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (is_private && !has_file && end.saturating_sub(begin) >= BLOCK).then_some((begin, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_has_the_words_by_which_it_is_found() {
        let words: Vec<u32> = magic().chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let told: Vec<String> = words.iter().map(|word| format!("{word:#010x}")).collect();
        assert!(HELPER.contains(&format!("const MAGIC = [{}];", told.join(", "))));
        assert!(HELPER.contains(&format!("const LAYOUT = {};", w::NODE_LAYOUT)));
        assert!(HELPER.contains(&format!("const BYTES = {} << 20;", BLOCK >> 20)));
    }

    #[test]
    fn the_version_is_found_where_the_function_names_it() {
        assert_eq!(pointed(&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0], 0x1000), Some(0x1017));
        assert_eq!(pointed(&[0x48, 0x8d, 0x0d, 0xf9, 0xff, 0xff, 0xff], 0x1000), Some(0x1000));
        assert_eq!(pointed(&[0x48, 0xc7, 0x06, 0x70, 0x3d, 0x62, 0x02], 0x1000), Some(0x0262_3d70));
        assert_eq!(pointed(&[0x48, 0x8b, 0x05, 0, 0, 0, 0], 0x1000), None);
        assert_eq!(pointed(&[0x48, 0x8d], 0x1000), None);
    }

    #[test]
    fn only_large_private_memory_without_a_file_is_looked_at() {
        let line = "7f0000000000-7f0002201000 rw-p 00000000 00:00 0";
        assert_eq!(large(line), Some((0x7f00_0000_0000, 0x7f00_0220_1000)));
        for other in [
            "7f0000000000-7f0002100000 rw-p 00000000 00:00 0",
            "7f0000000000-7f0002201000 rw-s 00000000 00:00 0",
            "7f0000000000-7f0002201000 rw-p 00000000 00:00 0   [heap]",
            "7f0002201000-7f0000000000 rw-p 00000000 00:00 0",
            "",
        ] {
            assert_eq!(large(other), None, "{other}");
        }
    }
}
