//! The build id of an ELF file. Files belong to watched programs: any bytes may stand there.

/// The GNU build id in the first bytes of a 64-bit little-endian ELF file; `None` where they have none.
pub fn build_id(file: &[u8]) -> Option<&[u8]> {
    const PT_NOTE: u32 = 4;
    const PHDR_BYTES: usize = 56;
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let headers = usize::try_from(word64(file, 32)?).ok()?;
    let count = usize::from(u16::from_le_bytes(file.get(56..58)?.try_into().ok()?));
    (0..count).find_map(|i| {
        let header = file.get(headers.checked_add(i * PHDR_BYTES)?..)?.get(..PHDR_BYTES)?;
        if word32(header, 0)? != PT_NOTE {
            return None;
        }
        let begin = usize::try_from(word64(header, 8)?).ok()?;
        let bytes = usize::try_from(word64(header, 32)?).ok()?;
        let align = if word64(header, 48)? == 8 { 8 } else { 4 };
        note(file.get(begin..begin.checked_add(bytes)?)?, align)
    })
}

/// The build id among the notes of one segment.
fn note(mut notes: &[u8], align: usize) -> Option<&[u8]> {
    const GNU_BUILD_ID: u32 = 3;
    const HEADER: usize = 12;
    const ID_BYTES_MAX: usize = 64;
    loop {
        let (name_bytes, id_bytes) = (word32(notes, 0)? as usize, word32(notes, 4)? as usize);
        let name_end = HEADER.checked_add(name_bytes)?;
        let at = name_end.checked_next_multiple_of(align)?;
        let end = at.checked_add(id_bytes)?;
        if word32(notes, 8)? == GNU_BUILD_ID && notes.get(HEADER..name_end)? == b"GNU\0" {
            return notes.get(at..end).filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX);
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one note segment.
    fn file(notes: &[u8]) -> Vec<u8> {
        let mut f = vec![0u8; 64 + 56];
        f[..6].copy_from_slice(b"\x7fELF\x02\x01");
        f[32] = 64;
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
