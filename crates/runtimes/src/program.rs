//! Programs and libraries as ELF files.

use object::elf::{
    EM_AARCH64, EM_X86_64, FileHeader64, PT_LOAD, PT_TLS, R_X86_64_DTPMOD64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT,
};
use object::read::elf::{ElfFile, ProgramHeader as _};
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _, ReadCache, ReadRef as _,
    RelocationFlags, RelocationTarget, SymbolKind,
};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

/// What is in the header of this machine's programs.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };

/// A program or library of this machine's.
pub(crate) struct Program {
    cache: ReadCache<Blocks>,
    file: File,
}

type Elf<'a> = ElfFile<'a, FileHeader64<LittleEndian>, &'a ReadCache<Blocks>>;

/// A file that is read in blocks, of which some are kept: each symbol's name is asked for by itself, in the order of symbols and not of
/// their names. Not mapped into memory: whoever cuts the file would end the recorder.
struct Blocks {
    file: File,
    at: u64,
    /// Each with its number in the file, at that number modulo [`KEPT`].
    kept: Vec<(u64, Vec<u8>)>,
}

/// Bytes of a file that are read at once.
const BLOCK: usize = 1 << 18;
/// Most blocks that are kept: large programs have 13 MB of names.
const KEPT: usize = 64;

impl Blocks {
    fn new(file: File) -> Blocks {
        Blocks { file, at: 0, kept: vec![(0, Vec::new()); KEPT] }
    }

    /// What there is from the place on, to the end of its block; empty at the end of the file.
    fn here(&mut self) -> Result<&[u8], Error> {
        let (number, within) = (self.at / BLOCK as u64, (self.at % BLOCK as u64) as usize);
        let (of, block) = &mut self.kept[number as usize % KEPT];
        if *of != number || block.len() <= within {
            *of = number;
            block.clear();
            block.resize(BLOCK, 0);
            let mut have = 0;
            let read = loop {
                match self.file.read_at(&mut block[have..], number * BLOCK as u64 + have as u64) {
                    Ok(0) => break Ok(()),
                    Ok(n) => have += n,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => break Err(e),
                }
            };
            block.truncate(have);
            read?;
        }
        Ok(block.get(within..).unwrap_or_default())
    }
}

impl Read for Blocks {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        let here = self.here()?;
        let n = here.len().min(to.len());
        to[..n].copy_from_slice(&here[..n]);
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Blocks {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Error> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(more) => self.file.metadata()?.len().checked_add_signed(more),
            SeekFrom::Current(more) => self.at.checked_add_signed(more),
        };
        self.at = place.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl Program {
    /// Opens a regular file; `None` where it is none of this machine's.
    pub(crate) fn open(path: &str) -> Option<Program> {
        // a pipe in its place must not stop us
        let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let blocks = Blocks::new(file.try_clone().ok()?);
        let program = Program { cache: ReadCache::new(blocks), file };
        let is_ours = {
            let elf = program.elf()?;
            elf.elf_header().e_machine.get(LittleEndian) == MACHINE
        };
        is_ours.then_some(program)
    }

    fn elf(&self) -> Option<Elf<'_>> {
        ElfFile::parse(&self.cache).ok()
    }

    /// The bytes of a section; `None` where it has more than `most`.
    pub(crate) fn section(&self, name: &str, most: u64) -> Option<Vec<u8>> {
        let elf = self.elf()?;
        let section = elf.section_by_name(name).filter(|s| s.size() <= most)?;
        section.data().ok().map(<[u8]>::to_vec)
    }

    /// The bytes that begin with these in a section, and up to `N - begin.len()` more, each time that they stand there; the
    /// first of which `f` makes something. Nothing of the section is kept.
    pub(crate) fn search<T, const N: usize>(
        &self,
        section: &str,
        begin: &[u8],
        f: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let (place, bytes) = self.elf()?.section_by_name(section)?.file_range()?;
        let (mut from, end) = (place, place.checked_add(bytes)?);
        let mut part = vec![0; PART.min(bytes as usize)];
        while from < end {
            let here = &mut part[..(end - from).min(PART as u64) as usize];
            self.file.read_exact_at(here, from).ok()?;
            let found = memchr::memmem::find_iter(here, begin);
            let made = found.into_iter().find_map(|at| f(&here[at..here.len().min(at + N)]));
            if made.is_some() || end - from <= PART as u64 {
                return made;
            }
            // what stands across two parts is whole in the second
            from += (PART - N) as u64;
        }
        None
    }

    /// Where a section is in memory.
    pub(crate) fn address_of(&self, section: &str) -> Option<u64> {
        Some(self.elf()?.section_by_name(section)?.address())
    }

    /// Where an address's byte is in the file.
    pub(crate) fn place(&self, address: u64) -> Option<u64> {
        let elf = self.elf()?;
        elf.elf_program_headers().iter().filter(|h| h.p_type(LittleEndian) == PT_LOAD).find_map(|h| {
            let into = address.checked_sub(h.p_vaddr(LittleEndian))?;
            (into < h.p_filesz(LittleEndian)).then(|| h.p_offset(LittleEndian).checked_add(into))?
        })
    }

    /// Bytes of the file.
    pub(crate) fn bytes_at<const N: usize>(&self, place: u64) -> Option<[u8; N]> {
        (&self.cache).read_bytes_at(place, N as u64).ok()?.try_into().ok()
    }

    /// As many bytes of the file.
    pub(crate) fn code(&self, place: u64, bytes: u64) -> Option<Vec<u8>> {
        (&self.cache).read_bytes_at(place, bytes).ok().map(<[u8]>::to_vec)
    }

    /// The address of what it exports to those that link with it.
    pub(crate) fn exported(&self, name: &str) -> Option<u64> {
        let elf = self.elf()?;
        let found = elf.dynamic_symbols().find(|s| s.is_definition() && s.name() == Ok(name))?;
        Some(found.address())
    }

    /// The same of many names, looked for at once.
    pub(crate) fn all_exported<const N: usize>(&self, names: [&str; N]) -> [Option<u64>; N] {
        let Some(elf) = self.elf() else { return [None; N] };
        addresses(elf.dynamic_symbols(), names)
    }

    /// The addresses of what has these symbols for debuggers, which stripped programs lack.
    pub(crate) fn all_with_symbols<const N: usize>(&self, names: [&str; N]) -> [Option<u64>; N] {
        let Some(elf) = self.elf() else { return [None; N] };
        addresses(elf.symbols(), names)
    }

    /// The address at which its first byte is mapped.
    pub(crate) fn first_address(&self) -> Option<u64> {
        let elf = self.elf()?;
        let is_first = |h: &&object::elf::ProgramHeader64<LittleEndian>| {
            h.p_type(LittleEndian) == PT_LOAD && h.p_offset(LittleEndian) == 0
        };
        elf.elf_program_headers().iter().find(is_first).map(|h| h.p_vaddr(LittleEndian))
    }

    /// The value of a symbol for debuggers, which stripped programs lack.
    pub(crate) fn symbol(&self, name: &str) -> Option<u64> {
        let elf = self.elf()?;
        elf.symbols().find(|s| s.name() == Ok(name)).map(|s| s.address())
    }

    /// Addresses of all functions whose symbols for debuggers contain this.
    pub(crate) fn functions(&self, part: &str) -> Vec<u64> {
        let Some(elf) = self.elf() else { return Vec::new() };
        let is_it = |s: &object::read::elf::ElfSymbol<'_, '_, FileHeader64<LittleEndian>, _>| {
            s.kind() == SymbolKind::Text && s.is_definition() && s.name().is_ok_and(|name| name.contains(part))
        };
        let mut found: Vec<u64> = elf.symbols().filter(is_it).map(|s| s.address()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Address of a word in which the linker told it which library with thread-local words it is itself.
    pub(crate) fn module_slot(&self) -> Option<u64> {
        let elf = self.elf()?;
        let symbols = elf.dynamic_symbol_table()?;
        let is_own = |target| match target {
            RelocationTarget::Absolute => true,
            RelocationTarget::Symbol(i) => symbols.symbol_by_index(i).is_ok_and(|s| s.is_definition()),
            _ => false,
        };
        let tells = RelocationFlags::Elf { r_type: R_X86_64_DTPMOD64 };
        let found = elf.dynamic_relocations()?.find(|(_, r)| r.flags() == tells && is_own(r.target()));
        found.map(|(address, _)| address)
    }

    /// Addresses of the words in which the linker tells it where a function of another library is; none where it calls it not.
    pub(crate) fn slots_of(&self, function: &str) -> Vec<u64> {
        let found = || {
            let elf = self.elf()?;
            let symbols = elf.dynamic_symbol_table()?;
            let is_it = |target| match target {
                RelocationTarget::Symbol(i) => symbols.symbol_by_index(i).is_ok_and(|s| s.name() == Ok(function)),
                _ => false,
            };
            let tells = [R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT].map(|r_type| RelocationFlags::Elf { r_type });
            let slots = elf.dynamic_relocations()?.filter(|(_, r)| tells.contains(&r.flags()) && is_it(r.target()));
            Some(slots.map(|(address, _)| address).collect())
        };
        found().unwrap_or_default()
    }

    /// Size in bytes, and alignment, of the thread-local words that it brings.
    pub(crate) fn thread_local(&self) -> Option<(u64, u64)> {
        let elf = self.elf()?;
        let is = |h: &&object::elf::ProgramHeader64<LittleEndian>| h.p_type(LittleEndian) == PT_TLS;
        elf.elf_program_headers().iter().find(is).map(|h| (h.p_memsz(LittleEndian), h.p_align(LittleEndian).max(1)))
    }
}

/// The addresses of what is defined by these names.
fn addresses<'a, const N: usize>(
    symbols: impl Iterator<Item = impl object::ObjectSymbol<'a>>,
    names: [&str; N],
) -> [Option<u64>; N] {
    let mut out = [None; N];
    for symbol in symbols.filter(|s| s.is_definition()) {
        let place = symbol.name().ok().and_then(|name| names.iter().position(|n| *n == name));
        if let Some(i) = place {
            out[i] = Some(symbol.address());
        }
    }
    out
}

/// Bytes of a section that are searched at once.
const PART: usize = 1 << 20;
/// `O_NONBLOCK`.
const NONBLOCK: i32 = 0o4000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_is_read_the_same_by_blocks_whatever_the_order() {
        // the first and the last block have one place
        let bytes: Vec<u8> = (0..BLOCK * KEPT + 100).map(|i| (i / 7 + i / BLOCK) as u8).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("it has room");
        let mut blocks = Blocks::new(file);
        for at in [0, BLOCK * KEPT, 5, BLOCK - 3, BLOCK, BLOCK * KEPT + 90, 2 * BLOCK - 1] {
            let wanted = &bytes[at..bytes.len().min(at + 9)];
            blocks.seek(SeekFrom::Start(at as u64)).expect("it is in the file");
            let mut found = vec![0; wanted.len()];
            blocks.read_exact(&mut found).expect("it is there");
            assert_eq!(found, wanted, "at {at}");
        }
        blocks.seek(SeekFrom::Start(bytes.len() as u64)).expect("its end");
        assert_eq!(blocks.read(&mut [0; 4]).expect("nothing is read"), 0);
    }
}
