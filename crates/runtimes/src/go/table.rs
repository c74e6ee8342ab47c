//! `.gopclntab`: where each function begins, in stripped programs too. As Go 1.18 and later write it.

use crate::program::Program;

/// Go 1.20 changed the tables to which this one leads, not this one.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Most bytes of Go's description of a program: it has six hundred.
const MODULE_MAX: u64 = 1 << 16;
/// The section, and what Go calls it up to 1.25 in a program that can be moved.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Most bytes that are looked at.
const TABLE_MAX: u64 = 256 << 20;

/// A function: where it is in memory, before the program is moved, and how many bytes its code has at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// The functions of a program.
pub(super) struct Functions<'a> {
    program: &'a Program,
    table: Vec<u8>,
}

impl<'a> Functions<'a> {
    /// Reads the table; `None` where there is none.
    pub(super) fn read(program: &'a Program) -> Option<Functions<'a>> {
        let table = SECTIONS.iter().find_map(|name| program.section(name, TABLE_MAX))?;
        Some(Functions { program, table })
    }

    /// The function of a name.
    pub(super) fn find(&self, name: &str) -> Option<Function> {
        let (offset, bytes, text) = entry(&self.table, name)?;
        // Go 1.26 leaves it to the linker. Where neither tells, code begins where its section does, but for programs with C in them,
        // which the caller tells by the function's first bytes
        let linked = || module_text(&self.program.section(".go.module", MODULE_MAX)?);
        let text = || if text == 0 { linked().or_else(|| self.program.address_of(".text")) } else { Some(text) };
        let address = match self.program.symbol(name) {
            Some(address) => address,
            None => text()?.checked_add(u64::from(offset))?,
        };
        Some(Function { address, bytes: u64::from(bytes) })
    }
}

/// Where code begins, as Go 1.26 says in `runtime.firstmoduledata`; `None` in a program that is told it when it starts.
fn module_text(module: &[u8]) -> Option<u64> {
    // the code's first address, the last, and where the code begins (minpc, maxpc, text)
    let word = |i: usize| Some(u64::from_le_bytes(module.get(8 * i..8 * i + 8)?.try_into().ok()?));
    let (first, text) = (word(20)?, word(22)?);
    (text != 0 && first == text).then_some(text)
}

/// How far after the code's begin a function begins, how far it is from there to the next one, and where the code begins if the table
/// says so.
fn entry(table: &[u8], name: &str) -> Option<(u32, u32, u64)> {
    const POINTER_BYTES: u8 = 8;
    const FUNCTION: usize = 8;
    let word = |at: usize| Some(u32::from_le_bytes(table.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(table.get(at..at.checked_add(8)?)?.try_into().ok()?));
    if !MAGICS.contains(&word(0)?) || *table.get(7)? != POINTER_BYTES {
        return None;
    }
    let (functions, text) = (usize::try_from(long(8)?).ok()?, long(24)?);
    let (names, list) = (usize::try_from(long(32)?).ok()?, usize::try_from(long(64)?).ok()?);
    (0..functions.min(table.len() / FUNCTION)).find_map(|i| {
        let here = list.checked_add(i * FUNCTION)?;
        let about = list.checked_add(word(here.checked_add(4)?)? as usize)?;
        let at = names.checked_add(word(about.checked_add(4)?)? as usize)?;
        let is_it = table.get(at..)?.strip_prefix(name.as_bytes())?.first() == Some(&0);
        let next = word(here.checked_add(FUNCTION)?)?;
        is_it.then_some(())?;
        let begin = word(about)?;
        Some((begin, next.checked_sub(begin)?, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two functions.
    fn table(text: u64) -> Vec<u8> {
        let mut t = MAGICS[1].to_le_bytes().to_vec();
        t.extend([0, 0, 1, 8]);
        // functions, files, text, names, units, files, counters, functions
        for long in [2u64, 0, text, 72, 0, 0, 0, 96] {
            t.extend(long.to_le_bytes());
        }
        t.extend(b"main.a\0main.ab\0");
        t.resize(96, 0);
        // after the last function, where the code ends
        for (begin, about) in [(0x10u32, 20u32), (0x40, 28)] {
            t.extend(begin.to_le_bytes());
            t.extend(about.to_le_bytes());
        }
        t.extend(0x60u32.to_le_bytes());
        for (begin, name) in [(0x10u32, 0u32), (0x40, 7)] {
            t.extend(begin.to_le_bytes());
            t.extend(name.to_le_bytes());
        }
        t
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        assert_eq!(entry(&table(0x1000), "main.ab"), Some((0x40, 0x20, 0x1000)));
        assert_eq!(entry(&table(0), "main.a"), Some((0x10, 0x30, 0)));
        assert_eq!(entry(&table(0), "main.b"), None);
    }

    #[test]
    fn where_code_begins_is_believed_if_told_twice() {
        let module = |first: u64, text: u64| {
            let words: [u64; 24] = std::array::from_fn(|i| [7, first, first + 9, text][i.saturating_sub(19).min(3)]);
            words.map(u64::to_le_bytes).concat()
        };
        assert_eq!(module_text(&module(0x2440, 0x2440)), Some(0x2440));
        assert_eq!(module_text(&module(0x2440, 0x2340)), None);
        assert_eq!(module_text(&module(0, 0)), None);
        assert_eq!(module_text(&module(0x2440, 0x2440)[..180]), None);
    }

    #[test]
    fn no_bytes_make_a_panic() {
        let good = table(0);
        for cut in 0..good.len() {
            assert_eq!(entry(&good[..cut], "main.zz"), None, "cut at {cut}");
        }
        let mut seed = 7u64;
        for _ in 0..20_000 {
            let mut bad = good.clone();
            for _ in 0..4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bad.len();
                bad[at] = (seed >> 56) as u8;
            }
            let found = entry(&bad, "main.ab");
            assert!(found.is_none_or(|(_, _, text)| text == 0 || bad != good));
        }
    }
}
