//! The build id of an ELF file. Files belong to watched programs: any bytes may stand there.

use object::LittleEndian;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

/// Longer ids are no build ids.
const ID_BYTES_MAX: usize = 64;

/// The GNU build id in the first bytes of a 64-bit little-endian ELF file; `None` where they have none.
pub fn build_id(file: &[u8]) -> Option<&[u8]> {
    let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    header.program_headers(endian, file).ok()?.iter().find_map(|segment| {
        let mut notes = segment.notes(endian, file).ok()??;
        while let Some(note) = notes.next().ok()? {
            if note.n_type(endian) == NT_GNU_BUILD_ID && note.name() == ELF_NOTE_GNU {
                return Some(note.desc()).filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one note segment.
    fn file(notes: &[u8]) -> Vec<u8> {
        let mut f = vec![0u8; 64 + 56];
        f[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        f[32] = 64;
        f[54] = 56;
        f[56] = 1;
        f[64] = 4;
        f[72] = 120;
        f[96..104].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        f[112] = 4;
        f.extend_from_slice(notes);
        f
    }

    fn one(name: &[u8], kind: u8, id: &[u8]) -> Vec<u8> {
        let mut n = vec![name.len() as u8, 0, 0, 0, id.len() as u8, 0, 0, 0, kind, 0, 0, 0];
        n.extend_from_slice(name);
        n.resize(n.len().next_multiple_of(4), 0);
        n.extend_from_slice(id);
        n.resize(n.len().next_multiple_of(4), 0);
        n
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let f = file(&[one(b"GNU\0", 1, &[1; 16]), one(b"stapsdt\0", 3, &[2; 5]), one(b"GNU\0", 3, &[9; 20])].concat());
        assert_eq!(build_id(&f), Some(&[9u8; 20][..]));
        assert_eq!(build_id(&file(&one(b"GNU\0", 1, &[1; 16]))), None);
    }

    #[test]
    fn no_bytes_make_a_panic() {
        let good = file(&one(b"GNU\0", 3, &[9; 20]));
        for cut in 0..good.len() {
            assert_eq!(build_id(&good[..cut]), None, "cut at {cut}");
        }
        let mut seed = 7u64;
        for _ in 0..20_000 {
            let mut bad = good.clone();
            for _ in 0..4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bad.len();
                bad[at] = (seed >> 56) as u8;
            }
            assert!(build_id(&bad).is_none_or(|id| id.len() <= 64));
        }
    }
}
