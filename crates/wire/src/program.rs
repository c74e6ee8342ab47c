//! Which programs the preload library sees, by the first bytes of their file. Files belong to others: any bytes may stand there.

/// Why the library does not see what a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// It has no dynamic loader.
    Static,
    /// It is of another machine or word size, whose loader does not take the library.
    OtherMachine,
    /// It has another C library than the one that the library stands before.
    OtherLibrary,
    /// Its runtime makes system calls itself, past the C library.
    Go,
}

/// Bytes of a file that tell.
pub const HEAD_BYTES: usize = 4096;

const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;

/// Whether the library sees what an ELF program does, by the first [`HEAD_BYTES`] of its file; `None` where it does, and
/// where nothing can be told: scripts, and headers that lie further back.
pub fn unseen(head: &[u8]) -> Option<Unseen> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    if !head.starts_with(b"\x7fELF\x02\x01") || short(head, 18)? != MACHINE {
        return Some(Unseen::OtherMachine);
    }
    let (table, size, count) = (long(head, 32)?, usize::from(short(head, 54)?), usize::from(short(head, 56)?));
    // headers that lie behind what was read say nothing
    if table.checked_add(count * size)? > head.len() {
        return None;
    }
    let headers = || (0..count).map(|i| &head[table + i * size..][..size]);
    let of = |kind: u32| headers().filter(move |h| word(h, 0) == Some(kind)).filter_map(|h| part(head, h));
    let Some(loader) = headers().find(|h| word(h, 0) == Some(PT_INTERP)) else { return Some(Unseen::Static) };
    if part(head, loader).is_some_and(|path| contains(path, b"musl")) {
        return Some(Unseen::OtherLibrary);
    }
    // the owner of the note in which Go keeps its build id
    if of(PT_NOTE).any(|notes| contains(notes, b"\x04\0\0\0Go\0\0")) { Some(Unseen::Go) } else { None }
}

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// What a program header says is its part of the file, as far as it was read.
fn part<'a>(head: &'a [u8], header: &[u8]) -> Option<&'a [u8]> {
    let begin = long(header, 8)?;
    let end = begin.checked_add(long(header, 32)?)?.min(head.len());
    head.get(begin..end)
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|w| w == wanted)
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with these parts: kind and bytes.
    fn program(parts: &[(u32, &[u8])], out: &mut [u8; 1024]) {
        *out = [0; 1024];
        out[..6].copy_from_slice(b"\x7fELF\x02\x01");
        out[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        out[32] = 64;
        out[54] = 56;
        out[56] = parts.len() as u8;
        let mut at = 512;
        for (i, (kind, bytes)) in parts.iter().enumerate() {
            let h = 64 + i * 56;
            out[h..h + 4].copy_from_slice(&kind.to_le_bytes());
            out[h + 8..h + 16].copy_from_slice(&(at as u64).to_le_bytes());
            out[h + 32..h + 40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
    }

    #[test]
    fn what_the_loader_gives_no_library_or_passes_it_by_is_known() {
        const GLIBC: (u32, &[u8]) = (PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0");
        const GO: (u32, &[u8]) = (PT_NOTE, b"\x04\0\0\0\x08\0\0\0\x04\0\0\0Go\0\0build id");
        let mut p = [0; 1024];
        program(&[GLIBC, (PT_NOTE, b"\x04\0\0\0\x10\0\0\0\x03\0\0\0GNU\0")], &mut p);
        assert_eq!(unseen(&p), None);
        program(&[(1, b"code")], &mut p);
        assert_eq!(unseen(&p), Some(Unseen::Static));
        program(&[GLIBC, GO], &mut p);
        assert_eq!(unseen(&p), Some(Unseen::Go));
        program(&[(PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0")], &mut p);
        assert_eq!(unseen(&p), Some(Unseen::OtherLibrary));
        p[4] = 1;
        assert_eq!(unseen(&p), Some(Unseen::OtherMachine));
        assert_eq!(unseen(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn no_bytes_make_a_panic() {
        let mut p = [0; 1024];
        program(&[(PT_INTERP, b"/lib64/ld.so\0"), (PT_NOTE, b"\x04\0\0\0")], &mut p);
        for cut in 0..p.len() {
            let _ = unseen(&p[..cut]);
        }
        let mut seed = 7u64;
        for _ in 0..20_000 {
            let mut bad = p;
            for _ in 0..4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                bad[(seed >> 33) as usize % 200] = (seed >> 56) as u8;
            }
            let _ = unseen(&bad);
        }
    }
}
