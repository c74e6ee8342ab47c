//! Programs and libraries as ELF files.

use object::elf::{EM_X86_64, FileHeader64, PT_LOAD, PT_TLS};
use object::read::elf::{ElfFile, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, ReadRef as _};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;

/// An x86-64 program or library.
pub(crate) struct Program {
    cache: ReadCache<File>,
}

type Elf<'a> = ElfFile<'a, FileHeader64<LittleEndian>, &'a ReadCache<File>>;

impl Program {
    /// Opens a regular file; `None` where it is none of this machine's.
    pub(crate) fn open(path: &str) -> Option<Program> {
        // a pipe in its place must not stop us
        let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let program = Program { cache: ReadCache::new(file) };
        let is_ours = {
            let elf = program.elf()?;
            elf.elf_header().e_machine.get(LittleEndian) == EM_X86_64
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

    /// The address of what it exports to those that link with it.
    pub(crate) fn exported(&self, name: &str) -> Option<u64> {
        let elf = self.elf()?;
        let found = elf.dynamic_symbols().find(|s| s.is_definition() && s.name() == Ok(name))?;
        Some(found.address())
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

    /// Size in bytes, and alignment, of the thread-local words that it brings.
    pub(crate) fn thread_local(&self) -> Option<(u64, u64)> {
        let elf = self.elf()?;
        let is = |h: &&object::elf::ProgramHeader64<LittleEndian>| h.p_type(LittleEndian) == PT_TLS;
        elf.elf_program_headers().iter().find(is).map(|h| (h.p_memsz(LittleEndian), h.p_align(LittleEndian).max(1)))
    }
}

/// `O_NONBLOCK`.
const NONBLOCK: i32 = 0o4000;
