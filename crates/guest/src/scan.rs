//! Finding the kernel's description of its types in a guest's memory.

use crate::Memory;
use crate::btf::{BEGIN, Btf, HEADER, Lengths};

const PAGE: u64 = 4096;
/// The part of the address space that has the kernel's image; its modules follow.
const IMAGE_END: u64 = 0xffff_ffff_c000_0000;
/// How far after the entry of system calls the description may begin: it follows the kernel's code.
const REACH: u64 = 128 << 20;
/// Bytes of the smallest that is worth a look: a kernel's has megabytes, a module's follows elsewhere.
const TYPES_MIN: usize = 256 << 10;
/// Most places that look like one and are read whole.
const LOOKS_MAX: usize = 8;

/// The description that follows the kernel code at `near`, if it is in memory that this processor has mapped.
pub fn find(memory: &dyn Memory, near: u64) -> Option<Btf> {
    let first = near & !(PAGE - 1);
    let end = first.saturating_add(REACH).min(IMAGE_END);
    let mut looks = 0;
    // a page, and before it the last bytes of the one before
    let mut bytes = [0; HEADER + PAGE as usize];
    let mut at = first;
    while at < end && looks < LOOKS_MAX {
        bytes.copy_within(PAGE as usize.., 0);
        let is_read = memory.read(at, &mut bytes[HEADER..]);
        if !is_read {
            bytes = [0; HEADER + PAGE as usize];
        }
        for begin in begins(&bytes) {
            let place = at.wrapping_add(begin as u64).wrapping_sub(HEADER as u64);
            let Some(lengths) = lengths_at(memory, place).filter(|l| l.types >= TYPES_MIN) else { continue };
            looks += 1;
            if let Some(btf) = whole(memory, place, lengths.all()).and_then(Btf::new) {
                return Some(btf);
            }
        }
        at += PAGE;
    }
    None
}

/// Where a description may begin; of one that begins in the last bytes only the next page tells.
fn begins(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let last = bytes.len() - HEADER;
    (0..last).filter(|&i| bytes[i] == BEGIN[0] && bytes[i..].starts_with(&BEGIN))
}

fn lengths_at(memory: &dyn Memory, at: u64) -> Option<Lengths> {
    let mut header = [0; HEADER];
    memory.read(at, &mut header).then(|| Lengths::of(&header))?
}

fn whole(memory: &dyn Memory, at: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut all = vec![0; bytes];
    let mut from = at;
    for piece in all.chunks_mut(1 << 20) {
        if !memory.read(from, piece) {
            return None;
        }
        from = from.checked_add(piece.len() as u64)?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Made, types};

    /// Types of a size that a kernel has: the made-up ones, and many integers.
    fn large() -> Vec<u8> {
        let mut t = types();
        (0..20_000).for_each(|_| _ = t.add("", 1 << 24, 4, &[32]));
        t.bytes()
    }

    #[test]
    fn a_description_is_found_wherever_it_begins() {
        const NEAR: u64 = 0xffff_ffff_8100_0123;
        for offset in [0x8000, 0x8001, 0x9ff5, 0x9fff] {
            let memory = Made::default();
            memory.write(NEAR & !0xfff, &[0; 8]);
            memory.write((NEAR & !0xfff) + offset, &large());
            let found = find(&memory, NEAR).expect("it is there");
            assert_eq!(found.of_each_processor("current_task"), Some(0x1000), "{offset:#x}");
        }
    }

    #[test]
    fn what_only_begins_like_one_is_passed_over() {
        const NEAR: u64 = 0xffff_ffff_8100_0000;
        let memory = Made::default();
        let all = large();
        memory.write(NEAR, &all[..HEADER]);
        memory.write(NEAR + 64, &[0; 64]);
        assert!(find(&memory, NEAR).is_none(), "its bytes are not there");
        memory.write(NEAR + (4 << 20), &all);
        assert!(find(&memory, NEAR).is_some());
        assert!(find(&memory, 0xffff_ffff_c000_0000).is_none(), "after the kernel's image");
        assert!(find(&memory, u64::MAX).is_none());
    }
}
