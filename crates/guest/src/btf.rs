//! BTF: the types of a kernel, as the kernel describes them. Only what leads to the place of a member is read.
//!
//! The bytes come out of a guest's memory, so any bytes may: lengths are checked once, when the types are indexed, and
//! chains of types are followed to a limit.

/// The first bytes: magic number, version 1, no flags, and a header of 24 bytes.
pub const BEGIN: [u8; 8] = [0x9f, 0xeb, 1, 0, HEADER as u8, 0, 0, 0];
/// Bytes of the header.
pub const HEADER: usize = 24;
/// Most bytes of a whole description that is read.
pub const BYTES_MAX: usize = 64 << 20;
/// Most types.
const TYPES_MAX: usize = 1 << 21;
/// How many names for one type, and how many unnamed structs inside each other, are followed.
const DEPTH_MAX: usize = 16;
/// Most entries of structs that one question looks at: unnamed members may lead to the same struct again and again.
const LOOKS_MAX: usize = 1 << 16;
/// Bytes of what all types begin with: name, kind and count, size or type.
const COMMON: usize = 12;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const ENUM64: u32 = 19;
/// Typedef, volatile, const, restrict, and type tag: other names for one type.
const NAMES_FOR: [u32; 5] = [8, 9, 10, 11, 18];

/// Where a member is in its struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the beginning of the struct.
    pub at: u64,
    /// Its size in bytes.
    pub bytes: u32,
}

/// Lengths of the two parts after the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Bytes of types.
    pub types: usize,
    /// Bytes of names, which follow.
    pub names: usize,
}

impl Lengths {
    /// From a header; `None` where the bytes are none, or are more than [`BYTES_MAX`].
    pub fn of(header: &[u8]) -> Option<Lengths> {
        let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?) as usize);
        let (types_at, types, names_at, names) = (word(8)?, word(12)?, word(16)?, word(20)?);
        let is_sound = header.starts_with(&BEGIN) && types_at == 0 && names_at == types && names > 0;
        (is_sound && types.saturating_add(names) <= BYTES_MAX - HEADER).then_some(Lengths { types, names })
    }

    /// Bytes of the whole.
    pub fn all(self) -> usize {
        HEADER + self.types + self.names
    }
}

/// A description that was indexed.
pub struct Btf {
    bytes: Vec<u8>,
    lengths: Lengths,
    /// Where each type begins, in bytes from the first type. The number of the first is 1.
    starts: Vec<u32>,
}

/// A type, as it stands there.
#[derive(Clone, Copy)]
struct Type<'a> {
    name: u32,
    kind: u32,
    count: usize,
    has_bits: bool,
    /// Its size, or the number of the type that it names.
    word: u32,
    rest: &'a [u8],
}

impl Type<'_> {
    fn entry(&self, i: usize, bytes: usize, at: usize) -> Option<u32> {
        let from = i.checked_mul(bytes)? + at;
        Some(u32::from_le_bytes(self.rest.get(from..from + 4)?.try_into().ok()?))
    }

    /// Bytes that follow what all types have; `None` for a kind that this version does not know.
    fn rest_bytes(kind: u32, count: usize) -> Option<usize> {
        Some(match kind {
            INT | VAR | 17 => 4,
            ARRAY => 12,
            STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
            ENUM | 13 => 8 * count,
            PTR | 7..=12 | 16 | 18 => 0,
            _ => return None,
        })
    }
}

impl Btf {
    /// Indexes a description; `None` where it is not one, is cut, or has a kind of type that this version does not know.
    pub fn new(bytes: Vec<u8>) -> Option<Btf> {
        let lengths = Lengths::of(&bytes)?;
        if bytes.len() < lengths.all() {
            return None;
        }
        let mut btf = Btf { bytes, lengths, starts: Vec::new() };
        let mut at = 0;
        while at < lengths.types {
            let t = btf.type_at(at)?;
            let rest = Type::rest_bytes(t.kind, t.count)?;
            if btf.starts.len() == TYPES_MAX || at + COMMON + rest > lengths.types {
                return None;
            }
            btf.starts.push(at as u32);
            at += COMMON + rest;
        }
        Some(btf)
    }

    fn type_at(&self, at: usize) -> Option<Type<'_>> {
        let all = self.bytes.get(HEADER..HEADER + self.lengths.types)?.get(at..)?;
        let word = |i: usize| Some(u32::from_le_bytes(all.get(4 * i..4 * i + 4)?.try_into().ok()?));
        let info = word(1)?;
        Some(Type {
            name: word(0)?,
            kind: info >> 24 & 0x1f,
            count: (info & 0xffff) as usize,
            has_bits: info >> 31 != 0,
            word: word(2)?,
            rest: &all[COMMON..],
        })
    }

    fn get(&self, number: u32) -> Option<Type<'_>> {
        self.type_at(*self.starts.get((number as usize).checked_sub(1)?)? as usize)
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        let names = &self.bytes[HEADER + self.lengths.types..self.lengths.all()];
        let rest = names.get(at as usize..).unwrap_or(&[]);
        rest.strip_prefix(name.as_bytes()).is_some_and(|after| after.first() == Some(&0))
    }

    /// The type behind other names for it.
    fn plain(&self, mut number: u32) -> Option<Type<'_>> {
        for _ in 0..DEPTH_MAX {
            let t = self.get(number)?;
            if !NAMES_FOR.contains(&t.kind) {
                return Some(t);
            }
            number = t.word;
        }
        None
    }

    fn size(&self, number: u32) -> Option<u32> {
        let t = self.plain(number)?;
        match t.kind {
            INT | STRUCT | UNION | ENUM | ENUM64 => Some(t.word),
            PTR => Some(8),
            ARRAY => {
                let element = self.plain(t.entry(0, 12, 0)?)?;
                let each = match element.kind {
                    INT | STRUCT | UNION | ENUM | ENUM64 => element.word,
                    PTR => 8,
                    _ => return None,
                };
                each.checked_mul(t.entry(0, 12, 8)?)
            }
            _ => None,
        }
    }

    fn structs_named(&self, name: &str) -> impl Iterator<Item = Type<'_>> {
        let all = self.starts.iter().filter_map(|&at| self.type_at(at as usize));
        all.filter(move |t| t.kind == STRUCT && t.count > 0 && self.is_named(t.name, name))
    }

    /// The member `path` (`"a.b"`: `b` of the struct that is `a`) of the struct `name`. Members of unnamed structs and unions
    /// count as the struct's own.
    pub fn place(&self, name: &str, path: &str) -> Option<Place> {
        self.structs_named(name).find_map(|of| {
            let (mut of, mut at, mut steps) = (of, 0u64, path.split('.').peekable());
            while let Some(step) = steps.next() {
                let (inside, number) = self.member(of, step, &mut LOOKS_MAX.clone(), DEPTH_MAX)?;
                at = at.checked_add(inside)?;
                if steps.peek().is_none() {
                    return Some(Place { at, bytes: self.size(number)? });
                }
                of = self.plain(number).filter(|t| matches!(t.kind, STRUCT | UNION))?;
            }
            None
        })
    }

    /// Where a member begins in bytes, and the number of its type.
    fn member(&self, of: Type<'_>, name: &str, looks: &mut usize, depth: usize) -> Option<(u64, u32)> {
        let depth = depth.checked_sub(1)?;
        for i in 0..of.count {
            *looks = looks.checked_sub(1)?;
            let (called, number, place) = (of.entry(i, 12, 0)?, of.entry(i, 12, 4)?, of.entry(i, 12, 8)?);
            let (bits, at) = if of.has_bits { (place >> 24, place & 0xff_ffff) } else { (0, place) };
            if bits != 0 || at % 8 != 0 {
                continue;
            }
            let at = u64::from(at / 8);
            if self.is_named(called, name) {
                return Some((at, number));
            }
            let unnamed = self.is_named(called, "").then(|| self.plain(number)).flatten();
            let inside = unnamed.filter(|t| matches!(t.kind, STRUCT | UNION));
            if let Some((more, number)) = inside.and_then(|t| self.member(t, name, looks, depth)) {
                return Some((at.checked_add(more)?, number));
            }
        }
        None
    }

    /// Where a variable of each processor is, in bytes from the beginning of that processor's variables.
    pub fn of_each_processor(&self, name: &str) -> Option<u64> {
        let all = self.starts.iter().filter_map(|&at| self.type_at(at as usize));
        let mut sections = all.filter(|t| t.kind == DATASEC && self.is_named(t.name, ".data..percpu"));
        sections.find_map(|section| {
            (0..section.count).find_map(|i| {
                let variable = self.get(section.entry(i, 12, 0)?).filter(|t| t.kind == VAR)?;
                self.is_named(variable.name, name).then(|| section.entry(i, 12, 4).map(u64::from))?
            })
        })
    }
}

#[cfg(test)]
#[path = "btf/tests.rs"]
mod tests;
