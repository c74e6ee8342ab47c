//! What HotSpot says of its own layout: tables of fields, each with the names of its type and of itself, and its offset or address.
//!
//! Any bytes may stand there: every length is bounded, and what cannot be read is not described.

use crate::memory::Memory;
use std::collections::HashMap;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Field {
    /// Addresses of the version's numbers.
    Major,
    Minor,
    Security,
    /// Offsets in bytes.
    ThreadOs,
    OsNumber,
    ThreadOwner,
    ThreadRecorder,
    RecorderNumber,
    RecorderIsVirtual,
}

/// Types and fields as HotSpot names them. Which type a field is said to be of depends on the version, not where it is.
const NAMES: [(&str, &str, Field); 10] = [
    ("Abstract_VM_Version", "_vm_major_version", Field::Major),
    ("Abstract_VM_Version", "_vm_minor_version", Field::Minor),
    ("Abstract_VM_Version", "_vm_security_version", Field::Security),
    ("Thread", "_osthread", Field::ThreadOs),
    ("JavaThread", "_osthread", Field::ThreadOs),
    ("OSThread", "_thread_id", Field::OsNumber),
    ("JavaThread", "_monitor_owner_id", Field::ThreadOwner),
    ("Thread", "_jfr_thread_local", Field::ThreadRecorder),
    ("JfrThreadLocal", "_vthread_id", Field::RecorderNumber),
    ("JfrThreadLocal", "_vthread", Field::RecorderIsVirtual),
];

/// Most entries of a table that are read.
const ENTRIES_MAX: usize = 4096;
/// Longest entry, and longest name that is looked at (bytes).
const ENTRY_MAX: usize = 256;
const NAME_MAX: usize = 32;

/// How the tables of a process are to be read.
pub(crate) struct Described<'a, M> {
    memory: &'a M,
    entry_bytes: usize,
    type_name: usize,
    field_name: usize,
    is_static: usize,
    offset: usize,
    address: usize,
}

impl<'a, M: Memory> Described<'a, M> {
    /// `at` tells the address of an exported word.
    pub(crate) fn new(memory: &'a M, at: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let told = |what: &str| memory.word(at(&format!("gHotSpotVMStructEntry{what}"))?);
        let entry_bytes = usize::try_from(told("ArrayStride")?).ok().filter(|n| (8..=ENTRY_MAX).contains(n))?;
        let within = |what| told(what).and_then(|o| usize::try_from(o).ok()).filter(|o| *o <= entry_bytes - 8);
        Some(Described {
            memory,
            entry_bytes,
            type_name: within("TypeNameOffset")?,
            field_name: within("FieldNameOffset")?,
            is_static: within("IsStaticOffset")?,
            offset: within("OffsetOffset")?,
            address: within("AddressOffset")?,
        })
    }

    /// The fields that tables at these addresses describe: the offset of each, or the address where it is static. The first counts.
    pub(crate) fn fields(&self, tables: impl Iterator<Item = u64>) -> HashMap<Field, u64> {
        let mut out = HashMap::new();
        for table in tables {
            for i in 0..ENTRIES_MAX {
                let mut entry = [0; ENTRY_MAX];
                let entry = &mut entry[..self.entry_bytes];
                let at = table.wrapping_add((i * self.entry_bytes) as u64);
                // a table ends with an entry that has no names
                if self.memory.read(at, entry) < entry.len() || word(entry, self.type_name) == 0 {
                    break;
                }
                if let Some((field, place)) = self.field(entry) {
                    out.entry(field).or_insert(place);
                }
            }
        }
        out
    }

    fn field(&self, entry: &[u8]) -> Option<(Field, u64)> {
        let of_type = self.name(word(entry, self.type_name));
        if !NAMES.iter().any(|n| of_type.is(n.0)) {
            return None;
        }
        let name = self.name(word(entry, self.field_name));
        let field = NAMES.iter().find(|n| of_type.is(n.0) && name.is(n.1))?.2;
        let is_static = word(entry, self.is_static) as u32 != 0;
        Some((field, word(entry, if is_static { self.address } else { self.offset })))
    }

    fn name(&self, at: u64) -> Name {
        let mut name = [0; NAME_MAX];
        let read = self.memory.read(at, &mut name);
        name[read.min(NAME_MAX)..].fill(0xff);
        Name(name)
    }
}

/// A name that ends with a zero, if it is not longer; after what could be read stand bytes that no name has.
struct Name([u8; NAME_MAX]);

impl Name {
    fn is(&self, name: &str) -> bool {
        self.0.starts_with(name.as_bytes()) && self.0.get(name.len()) == Some(&0)
    }
}

/// The offset was held against the entry's length.
fn word(entry: &[u8], at: usize) -> u64 {
    entry.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes from an address on.
    struct Bytes(Vec<u8>);
    const BASE: u64 = 0x7f00_0000_1000;
    const STRIDE: usize = 48;

    impl Memory for Bytes {
        fn read(&self, at: u64, into: &mut [u8]) -> usize {
            let from = at.checked_sub(BASE).and_then(|o| self.0.get(usize::try_from(o).ok()?..)).unwrap_or_default();
            let n = from.len().min(into.len());
            into[..n].copy_from_slice(&from[..n]);
            n
        }
    }

    /// Words at `BASE`: stride and offsets as exported, then the table, then names.
    fn described(entries: &[(&str, &str, u32, u64)]) -> Bytes {
        let head = [STRIDE as u64, 0, 8, 24, 32, 40];
        let mut out: Vec<u8> = head.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut names = Vec::new();
        let names_at = BASE + out.len() as u64 + ((entries.len() + 1) * STRIDE) as u64;
        for (of_type, name, is_static, place) in entries {
            let mut put = |text: &str| {
                let at = names_at + names.len() as u64;
                names.extend(text.bytes().chain([0]));
                at
            };
            // the offset, or the address; the other is none of ours
            let (offset, address) = if *is_static == 1 { (77, *place) } else { (*place, 78) };
            let entry = [put(of_type), put(name), 0, u64::from(*is_static), offset, address];
            out.extend(entry.iter().flat_map(|w| w.to_le_bytes()));
        }
        out.extend([0; STRIDE]);
        out.extend(names);
        Bytes(out)
    }

    fn exported(name: &str) -> Option<u64> {
        let names =
            ["ArrayStride", "TypeNameOffset", "FieldNameOffset", "IsStaticOffset", "OffsetOffset", "AddressOffset"];
        let i = names.iter().position(|n| name.strip_prefix("gHotSpotVMStructEntry") == Some(n))?;
        Some(BASE + 8 * i as u64)
    }

    fn read(memory: &Bytes) -> HashMap<Field, u64> {
        Described::new(memory, exported).map_or_else(HashMap::new, |d| d.fields([BASE + 48].into_iter()))
    }

    fn example() -> Bytes {
        described(&[
            ("Thread", "_osthread_of_another", 0, 3),
            ("Abstract_VM_Version", "_vm_major_version", 1, 0x1234_5678_9abc),
            ("JavaThread", "_osthread", 0, 1016),
            ("Thread", "_osthread", 0, 2000),
            ("JfrThreadLocal", "_vthread_id", 0, 240),
            ("JfrThreadLocal", "_vthread", 0, 339),
        ])
    }

    #[test]
    fn the_fields_that_are_looked_for_are_found_by_their_whole_names() {
        let found = read(&example());
        let expected = [
            (Field::Major, 0x1234_5678_9abc),
            (Field::ThreadOs, 1016),
            (Field::RecorderNumber, 240),
            (Field::RecorderIsVirtual, 339),
        ];
        assert_eq!(found, HashMap::from(expected));
    }

    #[test]
    fn what_cannot_be_read_is_not_described() {
        let whole = example().0;
        for cut in 0..whole.len() {
            let found = read(&Bytes(whole[..cut].to_vec()));
            assert!(found.iter().all(|(f, place)| read(&example()).get(f) == Some(place)), "cut at {cut}: {found:?}");
        }
    }

    #[test]
    fn any_bytes_may_stand_there() {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut byte = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        };
        for _ in 0..3000 {
            let mut bytes = example().0;
            for _ in 0..8 {
                let (high, low) = (byte(), byte());
                let at = usize::from(u16::from_le_bytes([high, low])) % bytes.len();
                bytes[at] = byte();
            }
            read(&Bytes(bytes));
            read(&Bytes((0..600).map(|_| byte()).collect()));
        }
        // entries without end, each like the first
        let mut endless = example().0[..48].to_vec();
        endless.extend(std::iter::repeat_n(0x7f, 48 * 8192));
        assert_eq!(read(&Bytes(endless)), HashMap::new());
        let mut strides = example().0;
        for stride in [0u64, 7, 257, u64::MAX] {
            strides[..8].copy_from_slice(&stride.to_le_bytes());
            assert_eq!(read(&Bytes(strides.clone())), HashMap::new(), "{stride}");
        }
    }
}
