//! The probes that annotated programs bring along (`annotations/`): where they are in a file, and attaching to them.
//! Files belong to watched programs: any bytes may stand there.

use crate::error::CaptureError;
use crate::procfs::{self, Mapping};
use libbpf_rs::{Link, ProgramMut, UprobeMultiOpts, UprobeOpts};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The provider that these probes name.
const PROVIDER: &[u8] = b"wakepath";
/// The section of the program that one link attaches to many probes (Linux 6.6).
pub(crate) const MULTI: &str = "uprobe.multi";
/// The section of the program of which each probe is a link; since 2025 it needs CAP_SYS_ADMIN.
pub(crate) const SINGLE: &str = "uprobe";
/// The same for programs that look at what a function returns.
pub(crate) const MULTI_RETURN: &str = "uretprobe.multi";
/// See [`SINGLE`].
pub(crate) const SINGLE_RETURN: &str = "uretprobe";
/// All processes: who is not watched is left out by the program.
const ANYBODY: i32 = -1;
/// Most probes that are attached to in one file: one of each kind in each source file that has annotations.
const PROBES_MAX: usize = 4096;
/// Most bytes of a table or a section that are read.
const READ_MAX: u64 = 4 << 20;
/// Most files of which is remembered what they hold; beyond it all are looked at again.
const FILES_MAX: usize = 16_384;

/// A probe in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    /// Where in the file its instruction is.
    pub offset: u64,
    /// Where in the file the count of its listeners is.
    pub semaphore: u64,
}

/// The probes of this provider in a 64-bit little-endian ELF file, in order of place. `read`: so many bytes at an offset, `None`
/// where the file has fewer.
pub fn probes(read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Vec<Probe> {
    let mut out = find(&read).unwrap_or_default();
    out.sort_unstable();
    out.dedup();
    out
}

fn find(read: &impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Vec<Probe>> {
    const SHT_NOTE: u32 = 7;
    const PT_LOAD: u32 = 1;
    const SHDR_BYTES: usize = 64;
    const PHDR_BYTES: usize = 56;
    let head = read(0, 64)?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    // a table: where its place, its entries' size and their count stand in the head, and the size that it must be
    let table = |place: usize, size: usize, bytes: usize| {
        let count = usize::from(word16(&head, size + 2)?);
        (usize::from(word16(&head, size)?) == bytes).then(|| read(word64(&head, place)?, count * bytes))?
    };
    let (segments, sections) = (table(32, 54, PHDR_BYTES)?, table(40, 58, SHDR_BYTES)?);
    let mut loads = Vec::new();
    for s in segments.chunks_exact(PHDR_BYTES).filter(|s| word32(s, 0) == Some(PT_LOAD)) {
        // address, bytes in the file, place in the file
        loads.push((word64(s, 16)?, word64(s, 32)?, word64(s, 8)?));
    }
    let place = |address: u64| {
        loads.iter().find_map(|&(begin, bytes, offset)| {
            let into = address.checked_sub(begin)?;
            (into < bytes).then(|| offset.checked_add(into))?
        })
    };
    let mut out = Vec::new();
    for s in sections.chunks_exact(SHDR_BYTES).filter(|s| word32(s, 4) == Some(SHT_NOTE)) {
        let (at, bytes) = (word64(s, 24)?, word64(s, 32)?);
        if bytes > READ_MAX {
            continue;
        }
        let Some(notes) = read(at, bytes as usize) else { continue };
        each(&notes, |place_of, semaphore| {
            if let (Some(offset), Some(semaphore)) = (place(place_of), place(semaphore))
                && out.len() < PROBES_MAX
            {
                out.push(Probe { offset, semaphore });
            }
        });
    }
    Some(out)
}

/// Address and semaphore of each note of ours.
fn each(mut notes: &[u8], mut found: impl FnMut(u64, u64)) {
    const NT_STAPSDT: u32 = 3;
    const HEADER: usize = 12;
    let mut next = || -> Option<()> {
        let (name_bytes, bytes) = (word32(notes, 0)? as usize, word32(notes, 4)? as usize);
        let name_end = HEADER.checked_add(name_bytes)?;
        let at = name_end.checked_next_multiple_of(4)?;
        let end = at.checked_add(bytes)?;
        if word32(notes, 8)? == NT_STAPSDT && notes.get(HEADER..name_end)? == b"stapsdt\0" {
            let text = notes.get(at..end)?;
            if text.get(24..).is_some_and(|t| t.strip_prefix(PROVIDER).is_some_and(|t| t.first() == Some(&0))) {
                // prelink moved addresses away from their notes once; nothing does so any more, and `base` is not looked at
                found(word64(text, 0)?, word64(text, 16)?);
            }
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
        Some(())
    };
    while next().is_some() {}
}

fn word16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A file, whatever name it has now: device, inode, when it was changed last (s, ns).
type FileId = (u64, u64, i64, i64);

/// The probes that are attached to, by file.
#[derive(Default)]
pub(crate) struct Attached {
    /// What was looked at, and how many probes it has.
    files: HashMap<FileId, usize>,
    links: Vec<Link>,
}

impl Attached {
    /// Attaches to the probes in all code that a process has mapped; how many came new. What cannot be attached to is
    /// left, and the last refusal is the error.
    pub fn process(&mut self, program: &ProgramMut<'_>, tgid: u32) -> Result<usize, CaptureError> {
        let mut new = 0;
        let mut refused = Ok(());
        for mapping in procfs::code(tgid) {
            match self.mapping(program, tgid, &mapping) {
                Ok(n) => new += n,
                Err(e) => refused = Err(e),
            }
        }
        refused.map(|()| new)
    }

    fn mapping(&mut self, program: &ProgramMut<'_>, tgid: u32, of: &Mapping) -> Result<usize, CaptureError> {
        if of.inode == 0 || !of.path.starts_with('/') {
            return Ok(0);
        }
        // as the process sees it
        self.file(program, Path::new(&format!("/proc/{tgid}/root{}", of.path)), Some(of.inode))
    }

    /// Attaches to the probes in a file; how many came new. `inode`: the one that it must have.
    pub fn file(&mut self, program: &ProgramMut<'_>, path: &Path, inode: Option<u64>) -> Result<usize, CaptureError> {
        let Some(file) = self.new_file(path, inode) else { return Ok(0) };
        let found = probes(|at, bytes| part(&file.0, at, bytes));
        let id = file.1;
        self.files.insert(id, found.len());
        if !found.is_empty() {
            self.attach(program, path, &found)?;
        }
        Ok(found.len())
    }

    /// Attaches programs to places in a file that the caller knows; false where that was done before.
    pub fn places(&mut self, path: &Path, places: &[(&ProgramMut<'_>, u64)]) -> Result<bool, CaptureError> {
        let Some((_, id)) = self.new_file(path, None) else { return Ok(false) };
        self.files.insert(id, places.len());
        for &(program, offset) in places {
            self.attach(program, path, &[Probe { offset, semaphore: 0 }])?;
        }
        Ok(true)
    }

    /// The same for those that `find` finds in a file, with this inode, that was not looked at yet; how many.
    pub fn places_in<'p, 'l: 'p>(
        &mut self,
        path: &Path,
        inode: u64,
        find: impl FnOnce() -> Vec<(&'p ProgramMut<'l>, u64)>,
    ) -> Result<usize, CaptureError> {
        let Some((_, id)) = self.new_file(path, Some(inode)) else { return Ok(0) };
        let places = find();
        self.files.insert(id, places.len());
        for &(program, offset) in &places {
            self.attach(program, path, &[Probe { offset, semaphore: 0 }])?;
        }
        Ok(places.len())
    }

    /// A file that was not looked at yet. `inode`: the one that it must have.
    fn new_file(&mut self, path: &Path, inode: Option<u64>) -> Option<(File, FileId)> {
        // the path is the process's choice: never wait for what it may be
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let (file, about) = opened.and_then(|f| f.metadata().map(|m| (f, m))).ok()?;
        let id = (about.dev(), about.ino(), about.ctime(), about.ctime_nsec());
        if !about.is_file() || inode.is_some_and(|i| i != about.ino()) || self.files.contains_key(&id) {
            return None;
        }
        if self.files.len() >= FILES_MAX {
            self.files.retain(|_, probes| *probes > 0);
        }
        Some((file, id))
    }

    fn attach(&mut self, program: &ProgramMut<'_>, path: &Path, probes: &[Probe]) -> Result<(), CaptureError> {
        let section = program.section();
        let retprobe = section == MULTI_RETURN || section == SINGLE_RETURN;
        if section == MULTI || section == MULTI_RETURN {
            let options = UprobeMultiOpts {
                offsets: probes.iter().map(|p| p.offset as usize).collect(),
                ref_ctr_offsets: probes.iter().map(|p| p.semaphore as usize).collect(),
                retprobe,
                ..UprobeMultiOpts::default()
            };
            self.links.push(program.attach_uprobe_multi_with_opts(ANYBODY, path, "", options)?);
            return Ok(());
        }
        for probe in probes {
            let options = UprobeOpts { ref_ctr_offset: probe.semaphore as usize, retprobe, ..UprobeOpts::default() };
            self.links.push(program.attach_uprobe_with_opts(ANYBODY, path, probe.offset as usize, options)?);
        }
        Ok(())
    }

    /// Lets go of all.
    pub fn clear(&mut self) {
        self.links.clear();
    }
}

fn part(file: &File, at: u64, bytes: usize) -> Option<Vec<u8>> {
    if bytes as u64 > READ_MAX {
        return None;
    }
    let mut out = vec![0; bytes];
    file.read_exact_at(&mut out, at).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: usize = 64;

    fn note(provider: &str, name: &str, place: u64, semaphore: u64) -> Vec<u8> {
        let mut text = [place.to_le_bytes(), [0; 8], semaphore.to_le_bytes()].concat();
        for t in [provider, name, "8@%rdi"] {
            text.extend_from_slice(t.as_bytes());
            text.push(0);
        }
        let mut n = vec![8, 0, 0, 0, text.len() as u8, 0, 0, 0, 3, 0, 0, 0];
        n.extend_from_slice(b"stapsdt\0");
        n.extend_from_slice(&text);
        n.resize(n.len().next_multiple_of(4), 0);
        n
    }

    /// A file with one segment (address 0x1000, place 0x200, 0x400 bytes) and one section of notes.
    fn file(notes: &[u8]) -> Vec<u8> {
        let mut f = vec![0u8; HEAD + 56 + 64];
        f[..6].copy_from_slice(b"\x7fELF\x02\x01");
        f[32] = HEAD as u8;
        f[40] = (HEAD + 56) as u8;
        (f[54], f[56], f[58], f[60]) = (56, 1, 64, 1);
        f[HEAD] = 1;
        f[HEAD + 8..HEAD + 16].copy_from_slice(&0x200u64.to_le_bytes());
        f[HEAD + 16..HEAD + 24].copy_from_slice(&0x1000u64.to_le_bytes());
        f[HEAD + 32..HEAD + 40].copy_from_slice(&0x400u64.to_le_bytes());
        f[HEAD + 56 + 4] = 7;
        f[HEAD + 56 + 24] = (HEAD + 56 + 64) as u8;
        f[HEAD + 56 + 32..HEAD + 56 + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        f.extend_from_slice(notes);
        f
    }

    fn of(file: &[u8]) -> Vec<Probe> {
        probes(|at, bytes| file.get(at as usize..(at as usize).checked_add(bytes)?).map(<[u8]>::to_vec))
    }

    #[test]
    fn own_probes_are_found_among_others() {
        let notes = [
            note("libc", "setjmp", 0x1004, 0),
            note("wakepath", "enqueue", 0x1123, 0x13fe),
            note("wakepath", "state", 0x1010, 0x13fe),
            note("wakepath", "state", 0x1010, 0x13fe),
            note("wakepathology", "state", 0x1011, 0x13fe),
            // its code was left out of the program, or is not in the file
            note("wakepath", "end", 0, 0x13fe),
            note("wakepath", "end", 0x1400, 0x13fe),
        ];
        let expected = [Probe { offset: 0x210, semaphore: 0x5fe }, Probe { offset: 0x323, semaphore: 0x5fe }];
        assert_eq!(of(&file(&notes.concat())), expected);
        assert_eq!(of(b"#!/bin/sh\n"), []);
    }

    #[test]
    fn no_bytes_make_a_panic() {
        let good = file(&note("wakepath", "state", 0x1010, 0x13fe));
        for cut in 0..good.len() - 4 {
            assert_eq!(of(&good[..cut]), [], "cut at {cut}");
        }
        let mut seed = 7u64;
        for _ in 0..50_000 {
            let mut bad = good.clone();
            for _ in 0..4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bad.len();
                bad[at] = (seed >> 56) as u8;
            }
            assert!(of(&bad).len() <= 1);
        }
    }
}
