//! Header compression of HTTP/2 (RFC 7541), as far as the fields go that are wanted.
//!
//! Sizes and evictions are not followed: an index counts from the newest entry, and no encoder names one that is gone.
//! A field whose value was not kept, or whose entry is from before the flow was joined, is unknown, never wrong. Of a table of the
//! default size all values that are wanted are kept, as templates, but for those of more than 96 bytes; of a larger one, those of
//! the last 128 entries.

use crate::http::HandedOn;

/// The fields that are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Name {
    Other,
    Method,
    Path,
    Status,
    Grpc,
    HandedOn(HandedOn),
}

impl Name {
    /// The longest of the names, Huffman-coded or not.
    pub const LONGEST: u64 = HandedOn::LONGEST as u64;

    pub fn of(name: &[u8]) -> Name {
        match name {
            b":method" => Name::Method,
            b":path" => Name::Path,
            b":status" => Name::Status,
            b"grpc-status" => Name::Grpc,
            _ => HandedOn::of(name).map_or(Name::Other, Name::HandedOn),
        }
    }
}

/// Most entries that are kept: each counts as at least 32 bytes of a table (RFC 7541, 4.1) that has 4,096, unless its reader allows
/// more (SETTINGS_HEADER_TABLE_SIZE).
const ENTRIES: usize = 128;
/// The longest text that is kept: bytes.
const TEXT_MAX: usize = 96;
/// Bytes of texts that are kept. In a table of 4,096 bytes an entry has 37 beside a path's own, or 39 beside a method's: paths of
/// [`TEXT_MAX`] bytes then have less than this, and shorter ones have less than those. Where templates are longer than their paths
/// (`/{n}` for `/7`), the oldest of a full table may be unknown.
const TEXTS: usize = 3072;
/// Where counting of their bytes begins anew: a multiple of [`TEXTS`], above what as many texts as there are entries have.
const COUNTED: usize = 20 * TEXTS;

/// An entry of the dynamic table.
#[derive(Clone, Copy)]
struct Entry {
    name: Name,
    value: Value,
}

/// The value of an entry.
#[derive(Clone, Copy)]
enum Value {
    Unknown,
    Number(u16),
    /// Where it begins, in bytes of texts so far, and its length.
    Text(u16, u8),
}

/// The last entries of the dynamic table of one direction. The oldest are evicted first, so their texts are overwritten first.
pub(crate) struct Table {
    entries: [Entry; ENTRIES],
    len: u8,
    next: u8,
    texts: [u8; TEXTS],
    /// Bytes of texts so far, with what is left over at the upper end; less than [`COUNTED`].
    count: u16,
}

/// A value as the table has it.
#[derive(Clone, Copy)]
pub(crate) enum Known<'t> {
    Text(&'t [u8]),
    Number(u16),
    Unknown,
}

impl Table {
    pub const NEW: Table = Table {
        entries: [Entry { name: Name::Other, value: Value::Unknown }; ENTRIES],
        len: 0,
        next: 0,
        texts: [0; TEXTS],
        count: 0,
    };

    /// What came before is not known any more.
    pub fn forget(&mut self) {
        self.len = 0;
    }

    /// Whether a field with this index is known: another one was put into a table that was lost.
    pub fn has(&self, index: u64) -> bool {
        index < 62 + u64::from(self.len)
    }

    /// The field with this index (RFC 7541, 2.3.3).
    pub fn get(&self, index: u64) -> (Name, Known<'_>) {
        const UNKNOWN: (Name, Known<'_>) = (Name::Other, Known::Unknown);
        let back = match index {
            2 => return (Name::Method, Known::Text(b"GET")),
            3 => return (Name::Method, Known::Text(b"POST")),
            4 => return (Name::Path, Known::Text(b"/")),
            5 => return (Name::Path, Known::Text(b"/index.html")),
            8..=14 => return (Name::Status, Known::Number([200, 204, 206, 304, 400, 404, 500][index as usize - 8])),
            0..=61 => return UNKNOWN,
            _ => index - 62,
        };
        if back >= u64::from(self.len) {
            return UNKNOWN;
        }
        let Entry { name, value } = self.entries[(usize::from(self.next) + ENTRIES - 1 - back as usize) % ENTRIES];
        let known = match value {
            Value::Unknown => Known::Unknown,
            Value::Number(number) => Known::Number(number),
            Value::Text(at, length) => self.text(at.into(), length.into()),
        };
        (name, known)
    }

    /// A text, if nothing was written over it.
    fn text(&self, at: usize, length: usize) -> Known<'_> {
        let age = (usize::from(self.count) + COUNTED - at) % COUNTED;
        match self.texts.get(at % TEXTS..at % TEXTS + length) {
            Some(text) if age <= TEXTS => Known::Text(text),
            _ => Known::Unknown,
        }
    }

    /// Inserts a field in front of the others.
    pub fn insert(&mut self, name: Name, value: Known<'_>) {
        let value = match value {
            Known::Number(number) => Value::Number(number),
            Known::Text(text) if text.len() <= TEXT_MAX => self.keep(text),
            _ => Value::Unknown,
        };
        self.entries[usize::from(self.next)] = Entry { name, value };
        self.next = (self.next + 1) % ENTRIES as u8;
        self.len = (self.len + 1).min(ENTRIES as u8);
    }

    /// Writes a text over the oldest ones.
    fn keep(&mut self, text: &[u8]) -> Value {
        let mut at = usize::from(self.count);
        if at % TEXTS + text.len() > TEXTS {
            at = at.next_multiple_of(TEXTS) % COUNTED;
        }
        self.texts[at % TEXTS..][..text.len()].copy_from_slice(text);
        self.count = ((at + text.len()) % COUNTED) as u16;
        Value::Text(at as u16, text.len() as u8)
    }
}

/// An integer with a prefix of so many bits, and how many bytes it takes (RFC 7541, 5.1); `None`: not all there.
pub(crate) fn integer(bytes: &[u8], bits: u32) -> Option<(u64, usize)> {
    let most = (1u64 << bits) - 1;
    let mut value = u64::from(*bytes.first()?) & most;
    if value < most {
        return Some((value, 1));
    }
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        value = value.saturating_add(u64::from(byte & 0x7f) << (7 * (at - 1)).min(42));
        if byte < 0x80 || at == 6 {
            return Some((value, at + 1));
        }
    }
    None
}

/// The index of the first field of a block whose name stands in the static table and tells who sends it (1 to 14); `is_whole`: no
/// more of the block follows. `Err`: these are no fields.
pub(crate) fn first_static(mut block: &[u8], is_whole: bool) -> Result<Option<u64>, ()> {
    let over = |found| if is_whole { Err(()) } else { Ok(found) };
    let mut found = None;
    while let Some(&first) = block.first() {
        let (bits, has_value) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let Some((index, mut used)) = integer(block, bits) else { return over(found) };
        if first >= 0x80 && index == 0 {
            return Err(());
        }
        let is_size = (0x20..0x40).contains(&first);
        found = found.or(Some(index).filter(|index| !is_size && (1..=14).contains(index)));
        for _ in 0..u8::from(has_value) + u8::from(has_value && index == 0) {
            let length = integer(block.get(used..).unwrap_or(&[]), 7);
            let Some((length, more)) = length else { return over(found) };
            used = used.saturating_add(more).saturating_add(length as usize);
        }
        match block.get(used..) {
            Some(rest) => block = rest,
            None => return over(found),
        }
    }
    Ok(found)
}

/// How many codes have 5, 6, … 30 bits (RFC 7541, B); codes of one length are consecutive.
const COUNTS: [u8; 26] = [10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19, 29, 0, 4];
/// What those of up to 15 bits stand for; the longer ones are of bytes that are not printable, but for the first.
const SYMBOLS: &[u8; 96] =
    b"012aceiost %-./3456789=A_bdfghlmnpru:BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz&*,;XZ!\"()?'+|#>\0$@[]~^}<`{\\";

/// Writes a string to `out`, as much as fits; what is not printable may come out as another such byte.
pub(crate) fn text<'o>(raw: &[u8], huffman: bool, out: &'o mut [u8]) -> &'o [u8] {
    let mut len = 0;
    let mut put = |byte| {
        if let Some(slot) = out.get_mut(len) {
            *slot = byte;
            len += 1;
        }
    };
    if !huffman {
        raw.iter().for_each(|&byte| put(byte));
        return &out[..len];
    }
    // The code so far, less the first code of its length; and the place of that one's symbol.
    let (mut code, mut symbol, mut bits) = (0u32, 0usize, 0usize);
    for bit in raw.iter().flat_map(|byte| (0..8).rev().map(move |bit| u32::from(byte >> bit & 1))) {
        code = code << 1 | bit;
        bits += 1;
        if bits < 5 {
            continue;
        }
        let count = COUNTS.get(bits - 5).map_or(0, |&count| u32::from(count));
        if code < count {
            put(SYMBOLS.get(symbol + code as usize).copied().unwrap_or(0x80));
            (code, symbol, bits) = (0, 0, 0);
        } else {
            code -= count;
            symbol += count as usize;
        }
        if bits > 30 {
            break; // no code is that long
        }
    }
    &out[..len]
}
