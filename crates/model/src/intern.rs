//! The interner: bytes to [`StrId`], bounded, without an allocation per string.

use crate::ids::StrId;
use std::hash::{BuildHasher, RandomState};

/// What stands for every string that came after the interner was full.
pub const OVERFLOW_TEXT: &str = "…";

/// The id of [`OVERFLOW_TEXT`] in every interner.
pub const OVERFLOW: StrId = StrId(1);

/// Distinct strings to their ids; ids are given in order and never given twice.
///
/// Strings come from watched programs, so the table is bounded and its hash is keyed.
#[derive(Debug)]
pub struct Interner {
    bytes: Vec<u8>,
    /// End of string `i` in `bytes`; it starts where the one before ends.
    ends: Vec<u32>,
    /// Open addressing: ids, 0 = free (the empty string is not in it).
    slots: Vec<u32>,
    hasher: RandomState,
    strings_max: usize,
    bytes_max: usize,
    overflow_count: u64,
}

impl Default for Interner {
    fn default() -> Self {
        Interner::new()
    }
}

impl Interner {
    /// Distinct strings that an interner holds by default.
    pub const STRINGS_MAX: usize = 200_000;
    /// Bytes of strings that an interner holds by default.
    pub const BYTES_MAX: usize = 32 << 20;

    /// An interner with the default bounds.
    pub fn new() -> Interner {
        Interner::with_bounds(Interner::STRINGS_MAX, Interner::BYTES_MAX)
    }

    /// An interner that holds at most so many distinct strings and bytes, the empty string and `…` not counted.
    pub fn with_bounds(strings_max: usize, bytes_max: usize) -> Interner {
        let mut interner = Interner {
            bytes: Vec::new(),
            ends: vec![0],
            slots: vec![0; 1024],
            hasher: RandomState::new(),
            strings_max: strings_max.min(1 << 24) + 2,
            bytes_max: bytes_max.min(1 << 30) + OVERFLOW_TEXT.len(),
            overflow_count: 0,
        };
        let id = interner.intern(OVERFLOW_TEXT);
        debug_assert_eq!(id, OVERFLOW);
        interner
    }

    /// The id of a string; [`OVERFLOW`], and counted, where the interner is full and does not know it.
    pub fn intern(&mut self, text: impl AsRef<[u8]>) -> StrId {
        let text = text.as_ref();
        if text.is_empty() {
            return StrId::EMPTY;
        }
        let slot = match self.probe(text) {
            Ok(id) => return id,
            Err(slot) => slot,
        };
        if self.ends.len() >= self.strings_max || self.bytes.len() + text.len() > self.bytes_max {
            self.overflow_count += 1;
            return OVERFLOW;
        }
        let id = self.ends.len() as u32;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
        self.slots[slot] = id;
        if self.ends.len() * 2 > self.slots.len() {
            self.grow();
        }
        StrId(id)
    }

    /// The id of a string that is already known.
    pub fn find(&self, text: impl AsRef<[u8]>) -> Option<StrId> {
        let text = text.as_ref();
        if text.is_empty() { Some(StrId::EMPTY) } else { self.probe(text).ok() }
    }

    /// The bytes of an id.
    pub fn get(&self, id: StrId) -> Option<&[u8]> {
        let i = id.0 as usize;
        let end = *self.ends.get(i)? as usize;
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        Some(&self.bytes[start..end])
    }

    /// How many strings are held, the empty one and `…` included.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// How many times a string was replaced by `…`.
    pub fn overflow_count(&self) -> u64 {
        self.overflow_count
    }

    fn probe(&self, text: &[u8]) -> Result<StrId, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(text) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return Err(slot),
                id if self.get(StrId(id)) == Some(text) => return Ok(StrId(id)),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        self.slots = vec![0; size];
        for id in 1..self.ends.len() as u32 {
            let text = self.get(StrId(id)).unwrap_or_default();
            if let Err(slot) = self.probe(text) {
                self.slots[slot] = id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_ids_in_order_and_finds_them_again() {
        let mut interner = Interner::new();
        assert_eq!(interner.intern(""), StrId::EMPTY);
        let a = interner.intern("GET");
        let b = interner.intern(b"/users/{}");
        assert_eq!((a, b), (StrId(2), StrId(3)));
        assert_eq!(interner.intern("GET"), a);
        assert_eq!(interner.get(b), Some(&b"/users/{}"[..]));
        assert_eq!(interner.find("GET"), Some(a));
        assert_eq!(interner.find("PUT"), None);
        assert_eq!(interner.get(StrId(99)), None);
        assert_eq!(interner.get(OVERFLOW), Some(OVERFLOW_TEXT.as_bytes()));
    }

    #[test]
    fn grows_past_its_first_table() {
        let mut interner = Interner::new();
        let ids: Vec<StrId> = (0..50_000).map(|i| interner.intern(i.to_string())).collect();
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(interner.get(*id), Some(i.to_string().as_bytes()));
            assert_eq!(interner.intern(i.to_string()), *id);
        }
        assert_eq!(interner.overflow_count(), 0);
    }

    #[test]
    fn is_bounded_by_strings_and_by_bytes() {
        let mut few = Interner::with_bounds(2, 1000);
        assert_ne!(few.intern("a"), OVERFLOW);
        assert_ne!(few.intern("b"), OVERFLOW);
        assert_eq!(few.intern("c"), OVERFLOW);
        assert_ne!(few.intern("a"), OVERFLOW);
        assert_eq!(few.overflow_count(), 1);

        let mut short = Interner::with_bounds(1000, 4);
        assert_ne!(short.intern("abc"), OVERFLOW);
        assert_eq!(short.intern("def"), OVERFLOW);
        assert_ne!(short.intern("d"), OVERFLOW);
    }
}
