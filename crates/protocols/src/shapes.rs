//! What SQL servers have in common: shapes of statements, those that are prepared, SQLSTATE.

use crate::sql_words::WORDS;
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Text, mask};

/// The words of statements. SQLSTATE is checked for its form.
pub(crate) const VOCABULARY: Vocabulary = {
    let statement = Grammar::Statement(List::folding(WORDS));
    Vocabulary { verb: statement, target: statement, class: Grammar::Constant }
};

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
        let verb = self.verb.as_str();
        // words of PostgreSQL alone
        let subscribes = matches!(verb, "LISTEN" | "UNLISTEN");
        Attrs { verb, target: self.text.as_str(), cut: self.text.is_cut(), subscribes, ..Attrs::default() }
    }

    /// Whether it reads from the client: `COPY … FROM STDIN`, as far as it is to be seen.
    pub fn copies(&self) -> bool {
        let from = self.text.as_str().split(' ').any(|word| word.eq_ignore_ascii_case("stdin"));
        self.verb.as_str() == "COPY" && (from || self.text.is_cut())
    }
}

/// Shapes of 8 prepared statements, cut at 128 bytes, by a name or an id; the oldest goes first.
pub(crate) struct Cache {
    slots: [Option<(u64, Text<128>)>; 8],
    next: u8,
}

impl Cache {
    pub const NEW: Cache = Cache { slots: [None; 8], next: 0 };

    pub fn get(&self, name: &[u8]) -> Shape {
        let key = mask::fnv1a(name);
        let Some((_, kept)) = self.slots.iter().flatten().find(|slot| slot.0 == key) else {
            return Shape::unknown();
        };
        let mut text = Text::of(kept.bytes());
        if kept.is_cut() {
            text.mark_cut();
        }
        Shape { verb: mask::verb(kept.as_str()), text }
    }

    pub fn put(&mut self, name: &[u8], shape: &Shape) {
        let mut kept = Text::of(shape.text.bytes());
        if shape.text.is_cut() {
            kept.mark_cut();
        }
        self.forget(name);
        self.slots[usize::from(self.next)] = Some((mask::fnv1a(name), kept));
        self.next = (self.next + 1) % 8;
    }

    /// What was put as `old` is called `new` from now on.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) {
        self.forget(new);
        if let Some(slot) = self.slots.iter_mut().flatten().find(|slot| slot.0 == mask::fnv1a(old)) {
            slot.0 = mask::fnv1a(new);
        }
    }

    pub fn forget(&mut self, name: &[u8]) {
        let key = mask::fnv1a(name);
        for slot in self.slots.iter_mut().filter(|slot| slot.is_some_and(|slot| slot.0 == key)) {
            *slot = None;
        }
    }
}

/// A SQLSTATE: five capitals and digits; nothing where it is none.
pub(crate) fn sqlstate(state: &[u8]) -> Text<5> {
    let plain = state.len() == 5 && state.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if plain { Text::of(state) } else { Text::new() }
}
