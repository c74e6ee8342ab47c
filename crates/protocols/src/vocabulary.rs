//! What words may be in an attribute, and which of them say nothing about anybody: the protocols' own.
//!
//! A processor's attributes hold structure and words. Which words are known beforehand each processor lists; whoever writes
//! attributes down decides about all others (`docs/privacy.md`).

/// An attribute of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// [`crate::Attrs::verb`].
    Verb,
    /// [`crate::Attrs::target`].
    Target,
    /// [`crate::Status::class`].
    Class,
}

/// A stretch of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'t> {
    /// Structure, a mask, or a word of the protocol's own.
    Known(&'t str),
    /// A word that somebody chose.
    Word(&'t str),
}

/// How an attribute is divided, and which of its words are known.
#[derive(Clone, Copy)]
pub(crate) enum Grammar {
    /// The processor chose it of a few constants.
    Constant,
    /// Words with blanks between them.
    Words(List),
    /// Segments with slashes between them, masks among them.
    Path(List),
    /// Labels with dots between them.
    Labels(List),
    /// The shape of an SQL statement.
    Statement(List),
}

/// How the attributes of a protocol's messages are divided.
#[derive(Clone, Copy)]
pub struct Vocabulary {
    pub(crate) verb: Grammar,
    pub(crate) target: Grammar,
    pub(crate) class: Grammar,
}

impl Vocabulary {
    /// Of processors that choose all that they say of a few constants.
    pub(crate) const CONSTANT: Vocabulary =
        Vocabulary { verb: Grammar::Constant, target: Grammar::Constant, class: Grammar::Constant };

    /// Divides an attribute; the stretches put together again are `text`.
    pub fn divide<'t>(&self, attribute: Attribute, text: &'t str, each: &mut dyn FnMut(Part<'t>)) {
        match self.of(attribute) {
            Grammar::Constant => each(Part::Known(text)),
            Grammar::Words(known) => between(text, ' ', each, |word, each| each(known.part(word))),
            Grammar::Labels(known) => between(text, '.', each, |label, each| each(known.part(label))),
            Grammar::Path(known) => between(text, '/', each, |segment, each| divide_segment(segment, known, each)),
            Grammar::Statement(known) => divide_statement(text, known, each),
        }
    }

    fn of(&self, attribute: Attribute) -> Grammar {
        match attribute {
            Attribute::Verb => self.verb,
            Attribute::Target => self.target,
            Attribute::Class => self.class,
        }
    }
}

/// Words that are known of a protocol, sorted.
#[derive(Clone, Copy)]
pub(crate) struct List {
    words: &'static [&'static str],
    folds: bool,
}

impl List {
    pub const NONE: List = List::of(&[]);

    /// These words, sorted.
    pub const fn of(words: &'static [&'static str]) -> List {
        List { words, folds: false }
    }

    /// These words, sorted and in lower case, matched without regard to case.
    pub const fn folding(words: &'static [&'static str]) -> List {
        List { words, folds: true }
    }

    fn contains(self, word: &str) -> bool {
        let fold = |b: u8| if self.folds { b.to_ascii_lowercase() } else { b };
        self.words.binary_search_by(|known| known.bytes().cmp(word.bytes().map(fold))).is_ok()
    }

    fn part(self, word: &str) -> Part<'_> {
        if word.is_empty() || self.contains(word) { Part::Known(word) } else { Part::Word(word) }
    }
}

/// Calls `piece` for what stands between separators, and `each` for the separators.
fn between<'t>(
    text: &'t str,
    separator: char,
    each: &mut dyn FnMut(Part<'t>),
    piece: impl Fn(&'t str, &mut dyn FnMut(Part<'t>)),
) {
    let mut at = 0;
    for one in text.split(separator) {
        if at > 0 {
            each(Part::Known(&text[at - 1..at]));
        }
        piece(one, each);
        at += one.len() + 1;
    }
}

/// A segment of a path template: a mask, a mask with what looked like an extension, or a word.
fn divide_segment<'t>(segment: &'t str, known: List, each: &mut dyn FnMut(Part<'t>)) {
    const MASKS: [&str; 3] = ["{n}", "{id}", "{authority}"];
    let behind = MASKS.iter().find_map(|mask| segment.strip_prefix(mask));
    match behind {
        Some("") => each(Part::Known(segment)),
        Some(extension) if extension.starts_with('.') => {
            let (mask, word) = segment.split_at(segment.len() - extension.len() + 1);
            each(Part::Known(mask));
            each(known.part(word));
        }
        _ if segment == "*" => each(Part::Known(segment)),
        _ => each(known.part(segment)),
    }
}

/// A statement's shape: names and keywords, with marks between them. A name in quotation marks is one word; so is what has the
/// form of a mail address or of a token, which no name has.
fn divide_statement<'t>(text: &'t str, known: List, each: &mut dyn FnMut(Part<'t>)) {
    let bytes = text.as_bytes();
    let is_letter = |b: u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'\\');
    let mut at = 0;
    while at < bytes.len() {
        let (first, start) = (bytes[at], at);
        let run = address_or_token(&bytes[at..]);
        if run > 0 {
            at += run;
            each(Part::Word(&text[start..at]));
        } else if is_letter(first) {
            let more = |b: &&u8| is_letter(**b) || b.is_ascii_digit() || **b == b'$';
            at += bytes[at..].iter().take_while(more).count();
            each(known.part(&text[start..at]));
        } else if matches!(first, b'"' | b'`') {
            let inner = bytes[at + 1..].iter().take_while(|b| **b != first).count();
            each(Part::Known(&text[at..at + 1]));
            if inner > 0 {
                each(Part::Word(&text[at + 1..at + 1 + inner]));
            }
            at = (at + 2 + inner).min(bytes.len());
            each(Part::Known(&text[(start + 1 + inner).min(at)..at]));
        } else {
            let plain = |b: &&u8| !is_letter(**b) && !matches!(**b, b'"' | b'`');
            at += bytes[at..].iter().take_while(plain).count();
            each(Part::Known(&text[start..at]));
        }
    }
}

/// Length of the mail address or JSON Web Token at the start of a text; 0 where it is none.
fn address_or_token(text: &[u8]) -> usize {
    if !text[0].is_ascii_alphanumeric() {
        return 0;
    }
    let within = |b: &&u8| b.is_ascii_alphanumeric() || matches!(**b, b'_' | b'.' | b'@' | b'-' | b'+');
    let run = text.iter().take_while(within).count();
    let is_either = text[..run].contains(&b'@') || text.starts_with(b"eyJ") && text[..run].contains(&b'.');
    if is_either { run } else { 0 }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::Protocol;
    use std::format;
    use std::string::String;

    /// The text with brackets around its words.
    fn divided(protocol: Protocol, attribute: Attribute, text: &str) -> String {
        let (mut out, mut again) = (String::new(), String::new());
        protocol.about().vocabulary.divide(attribute, text, &mut |part| match part {
            Part::Known(known) => {
                out.push_str(known);
                again.push_str(known);
            }
            Part::Word(word) => {
                out.push_str(&format!("[{word}]"));
                again.push_str(word);
            }
        });
        assert_eq!(again, text, "nothing is left out");
        out
    }

    #[test]
    fn lists_are_sorted_and_hold_each_word_once() {
        let attributes = [Attribute::Verb, Attribute::Target, Attribute::Class];
        for (protocol, attribute) in Protocol::ALL.iter().flat_map(|p| attributes.map(|a| (*p, a))) {
            let (Grammar::Words(list) | Grammar::Path(list) | Grammar::Labels(list) | Grammar::Statement(list)) =
                protocol.about().vocabulary.of(attribute)
            else {
                continue;
            };
            for pair in list.words.windows(2) {
                assert!(pair[0] < pair[1], "{protocol:?} {attribute:?}: {} before {}", pair[0], pair[1]);
            }
            let is_lower = |w: &&str| w.bytes().all(|b| !b.is_ascii_uppercase());
            assert!(!list.folds || list.words.iter().all(is_lower), "{protocol:?} {attribute:?} folds case");
        }
    }

    #[test]
    fn words_of_the_protocol_are_known_and_all_others_are_words() {
        use Attribute::{Class, Target, Verb};
        let cases = [
            (Protocol::Http1, Verb, "GET", "GET"),
            (Protocol::Http1, Verb, "ALICE", "[ALICE]"),
            (Protocol::Http1, Verb, "", ""),
            (Protocol::Http2, Target, "/user/alice", "/[user]/[alice]"),
            (Protocol::FastCgi, Target, "/", "/"),
            (Protocol::Http1, Target, "*", "*"),
            (Protocol::Http1, Target, "/a//{n}.smith/{id}/{n}", "/[a]//{n}.[smith]/{id}/{n}"),
            (Protocol::Http1, Target, "/{nobody}/{n}x", "/[{nobody}]/[{n}x]"),
            (Protocol::Http1, Target, "{authority}", "{authority}"),
            (
                Protocol::Postgres,
                Target,
                "SELECT a.b FROM t1 WHERE x = ? AND y IN (?+)",
                "SELECT [a].[b] FROM [t1] WHERE [x] = ? AND [y] IN (?+)",
            ),
            (Protocol::Postgres, Target, "EXECUTE <prepared>", "EXECUTE <prepared>"),
            (Protocol::Postgres, Target, "select $1, \"My Name\", \"cut", "select $1, \"[My Name]\", \"[cut]"),
            (Protocol::MySql, Target, "set x\\xc3\\xa9 = `` + `a`;", "set [x\\xc3\\xa9] = `` + `[a]`;"),
            (
                Protocol::MySql,
                Target,
                "set role ann.lee@corp.example, @a.b",
                "set role [ann.lee@corp.example], @[a].[b]",
            ),
            (Protocol::Postgres, Target, "listen eyJhb.eyJz.c2ln; a-b", "listen [eyJhb.eyJz.c2ln]; [a]-[b]"),
            (Protocol::MySql, Verb, "LONG DATA", "LONG DATA"),
            (Protocol::Postgres, Class, "40P01", "40P01"),
            (Protocol::Redis, Target, "CONFIG GET", "CONFIG GET"),
            (Protocol::Redis, Verb, "HUNTER2", "[HUNTER2]"),
            (Protocol::Redis, Class, "WRONGTYPE", "WRONGTYPE"),
            (Protocol::Mongo, Verb, "find", "find"),
            (Protocol::Mongo, Verb, "hunter", "[hunter]"),
            (Protocol::Mongo, Target, "people", "[people]"),
            (Protocol::Memcached, Verb, "FLUSH_ALL", "FLUSH_ALL"),
            (Protocol::DnsUdp, Target, "alice.Example.COM", "[alice].Example.COM"),
            (Protocol::Kafka, Target, "orders.v1", "[orders.v1]"),
            (Protocol::Amqp, Verb, "basic.publish", "basic.publish"),
            (Protocol::X11, Target, "GetGeometry", "GetGeometry"),
        ];
        for (protocol, attribute, text, expected) in cases {
            assert_eq!(divided(protocol, attribute, text), expected, "{protocol:?} {attribute:?}");
        }
    }
}
