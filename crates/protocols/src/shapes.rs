//! The shapes of a flow's prepared statements.

use crate::{Attrs, Text, mask};

/// The shape of a statement as attributes.
pub(crate) struct Shape {
    verb: Text<16>,
    text: Text<256>,
}

impl Shape {
    /// That of `sql`; `cut`: its end is missing.
    pub fn of(sql: &[u8], cut: bool, dialect: mask::Sql) -> Shape {
        let mut text = Text::new();
        mask::statement(sql, cut, dialect, &mut text);
        Shape { verb: mask::verb(text.as_str()), text }
    }

    /// That of an EXECUTE whose statement is not known.
    pub fn unknown() -> Shape {
        Shape { verb: Text::of(b"EXECUTE"), text: Text::of(b"EXECUTE <prepared>") }
    }

    pub fn attrs(&self) -> Attrs<'_> {
        Attrs { verb: self.verb.as_str(), target: self.text.as_str(), cut: self.text.is_cut(), ..Attrs::default() }
    }

    /// As much of it as is remembered.
    pub fn kept(&self) -> Text<128> {
        let mut kept = Text::of(self.text.bytes());
        if self.text.is_cut() {
            kept.mark_cut();
        }
        kept
    }

    /// Whether it reads from the client: `COPY … FROM STDIN`, as far as it is to be seen.
    pub fn copies(&self) -> bool {
        let from = self.text.as_str().split(' ').any(|word| word.eq_ignore_ascii_case("stdin"));
        self.verb.as_str() == "COPY" && (from || self.text.is_cut())
    }
}

/// Shapes of 8 prepared statements, cut at 128 bytes, by a key; the oldest goes first.
pub(crate) struct Cache {
    slots: [(u64, Text<128>); 8],
    next: u8,
}

impl Cache {
    pub const NEW: Cache = Cache { slots: [const { (0, Text::new()) }; 8], next: 0 };

    pub fn get(&self, key: u64) -> Shape {
        let Some((_, kept)) = self.slots.iter().find(|(k, _)| *k == key && key != 0) else {
            return Shape::unknown();
        };
        let mut text = Text::of(kept.bytes());
        if kept.is_cut() {
            text.mark_cut();
        }
        Shape { verb: mask::verb(kept.as_str()), text }
    }

    pub fn put(&mut self, key: u64, kept: Text<128>) {
        self.forget(key);
        self.slots[usize::from(self.next)] = (key, kept);
        self.next = (self.next + 1) % 8;
    }

    pub fn forget(&mut self, key: u64) {
        for slot in &mut self.slots {
            if slot.0 == key {
                slot.0 = 0;
            }
        }
    }
}
