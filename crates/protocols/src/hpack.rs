//! Header compression of HTTP/2 (RFC 7541), as far as the fields go that are wanted.
//!
//! Sizes and evictions are not followed: an index counts from the newest entry, and no encoder names one that is gone.
//! A field whose value was not kept, or whose entry is from before the flow was joined, is unknown, never wrong.

use crate::Text;
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

/// An entry of the dynamic table: a field, and which of the kept values is its own.
#[derive(Clone, Copy)]
struct Entry {
    name: Name,
    /// Number of a text, or a status; `u16::MAX`: not kept.
    value: u16,
}

/// The last entries of the dynamic table of one direction, and the last values of `:method` and `:path`.
pub(crate) struct Table {
    entries: [Entry; 96],
    len: u8,
    next: u8,
    texts: [Text<64>; 6],
    count: u16,
}

/// A value as the table has it.
#[derive(Clone, Copy)]
pub(crate) enum Known<'t> {
    Text(&'t str),
    Number(u16),
    Unknown,
}

impl Table {
    pub const NEW: Table = Table {
        entries: [Entry { name: Name::Other, value: u16::MAX }; 96],
        len: 0,
        next: 0,
        texts: [const { Text::new() }; 6],
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
            2 => return (Name::Method, Known::Text("GET")),
            3 => return (Name::Method, Known::Text("POST")),
            4 => return (Name::Path, Known::Text("/")),
            5 => return (Name::Path, Known::Text("/index.html")),
            8..=14 => return (Name::Status, Known::Number([200, 204, 206, 304, 400, 404, 500][index as usize - 8])),
            0..=61 => return UNKNOWN,
            _ => (index - 62) as usize,
        };
        if back >= usize::from(self.len) {
            return UNKNOWN;
        }
        let room = self.entries.len();
        let entry = self.entries[(usize::from(self.next) + room - 1 - back % room) % room];
        let age = self.count.wrapping_sub(entry.value);
        let known = match entry.name {
            _ if entry.value == u16::MAX => Known::Unknown,
            Name::Status | Name::Grpc => Known::Number(entry.value),
            Name::Method | Name::Path if (1..=6).contains(&age) => {
                Known::Text(self.texts[usize::from(entry.value % 6)].as_str())
            }
            _ => Known::Unknown,
        };
        (entry.name, known)
    }

    /// Inserts a field in front of the others.
    pub fn insert(&mut self, name: Name, value: Known<'_>) {
        let value = match value {
            Known::Number(number) => number,
            Known::Text(text) if text.len() <= 64 => {
                // Numbers of texts stay below a multiple of 6, so that they may begin anew.
                self.count = if self.count >= 60_000 { self.restart() } else { self.count };
                self.texts[usize::from(self.count % 6)] = Text::of(text.as_bytes());
                self.count += 1;
                self.count - 1
            }
            _ => u16::MAX,
        };
        self.entries[usize::from(self.next)] = Entry { name, value };
        self.next = (self.next + 1) % self.entries.len() as u8;
        self.len = (self.len + 1).min(self.entries.len() as u8);
    }

    /// Numbers begin anew: the values of older entries are no longer known.
    fn restart(&mut self) -> u16 {
        for entry in self.entries.iter_mut().filter(|e| matches!(e.name, Name::Method | Name::Path)) {
            entry.value = u16::MAX;
        }
        0
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
