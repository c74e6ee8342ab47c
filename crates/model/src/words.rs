//! Words of what was said, as a folder keeps them: a keyed hash until the word has recurred, then hash and word.
//!
//! ```text
//! /user/{~8f3a09c41d20b7e5}/{=19c0d2f4a6b83e57:orders}     as written
//! /user/{value}/orders                                     as read, where no text of the recording names the first word
//! ```
//!
//! Each mention of a word that has recurred carries its hash, so that a reader can put it into texts that were written
//! before, whichever segment or frame is missing. Who writes keeps braces out of words; `docs/privacy.md` has the rule.

use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// What stands for a word that has not recurred.
pub const VALUE: &str = "{value}";
/// Words of a recording that a reader takes, far above what a recorder writes, and the longest.
const WORDS_MAX: usize = 1 << 20;
const WORD_BYTES_MAX: usize = 256;
/// Hexadecimal digits of a hash.
const DIGITS: usize = 16;

/// Words by their hashes, of one recording.
#[derive(Clone, Debug, Default)]
pub struct Words(FxHashMap<u64, Box<str>>);

impl Words {
    /// Takes the words that `text` names with their hashes. Whether it holds any token at all.
    pub fn learn(&mut self, text: &str) -> bool {
        let mut has_token = false;
        for part in parts(text) {
            has_token |= !matches!(part, Part::Plain(_));
            if let Part::Word(hash, word) = part
                && word.len() <= WORD_BYTES_MAX
                && self.0.len() < WORDS_MAX
                && !self.0.contains_key(&hash)
            {
                self.0.insert(hash, word.into());
            }
        }
        has_token
    }

    /// `text` as it is shown: words that are known for their hashes, [`VALUE`] for all others.
    pub fn show<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !has_token(text) {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        for part in parts(text) {
            out.push_str(match part {
                Part::Plain(plain) => plain,
                Part::Word(_, word) => word,
                Part::Hash(hash) => self.0.get(&hash).map_or(VALUE, |word| word),
            });
        }
        Cow::Owned(out)
    }
}

/// `text` as it is shown where no other text is known.
pub fn show(text: &str) -> Cow<'_, str> {
    Words::default().show(text)
}

/// Appends the token of a word that has not recurred.
pub fn push_hash(out: &mut Vec<u8>, hash: u64) {
    out.extend_from_slice(b"{~");
    push_digits(out, hash);
    out.push(b'}');
}

/// Appends the token of a word that has recurred. It holds no braces.
pub fn push_word(out: &mut Vec<u8>, hash: u64, word: &[u8]) {
    out.extend_from_slice(b"{=");
    push_digits(out, hash);
    out.push(b':');
    out.extend_from_slice(word);
    out.push(b'}');
}

fn push_digits(out: &mut Vec<u8>, hash: u64) {
    let digit = |at: usize| b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 15];
    out.extend((0..DIGITS).map(digit));
}

fn has_token(text: &str) -> bool {
    text.contains("{~") || text.contains("{=")
}

/// A stretch of a text.
#[derive(Debug, PartialEq)]
enum Part<'t> {
    Plain(&'t str),
    Hash(u64),
    Word(u64, &'t str),
}

/// The stretches of a text in order; what only looks like a token is plain.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((part, length)) = token(rest) {
            rest = &rest[length..];
            return Some(part);
        }
        // The first character is none of a token: up to the next place where one may begin.
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let length = rest[first..].find('{').map_or(rest.len(), |at| first + at);
        let (plain, behind) = rest.split_at(length);
        rest = behind;
        Some(Part::Plain(plain))
    })
}

/// The token at the start of a text, and its length.
fn token(text: &str) -> Option<(Part<'_>, usize)> {
    let inner = text.strip_prefix("{~").or_else(|| text.strip_prefix("{="))?;
    let digits = inner.get(..DIGITS).filter(|d| d.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))?;
    let hash = u64::from_str_radix(digits, 16).ok()?;
    let behind = &inner[DIGITS..];
    if text.starts_with("{~") {
        return behind.starts_with('}').then_some((Part::Hash(hash), 2 + DIGITS + 1));
    }
    let word = behind.strip_prefix(':')?;
    let length = word.find('}')?;
    Some((Part::Word(hash, &word[..length]), 2 + DIGITS + 1 + length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[(&str, u64, &str)]) -> String {
        let mut out = Vec::new();
        for &(plain, hash, word) in parts {
            out.extend_from_slice(plain.as_bytes());
            match (hash, word) {
                (0, _) => {}
                (hash, "") => push_hash(&mut out, hash),
                (hash, word) => push_word(&mut out, hash, word.as_bytes()),
            }
        }
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn a_word_resolves_its_hash_in_every_other_text() {
        let mut words = Words::default();
        let before = text(&[("/", 7, ""), ("/", 9, ""), ("/{n}", 0, "")]);
        assert_eq!(before, "/{~0000000000000007}/{~0000000000000009}/{n}");
        assert_eq!(words.show(&before), "/{value}/{value}/{n}");
        assert!(words.learn(&text(&[("/x/", 9, "orders"), (".", u64::MAX, "html")])));
        assert_eq!(words.show(&before), "/{value}/orders/{n}");
        assert!(!words.learn("SELECT ? FROM {id}"));
    }

    #[test]
    fn what_only_looks_like_a_token_stays_as_it_is() {
        let mut words = Words::default();
        for odd in [
            "",
            "{",
            "{~",
            "{~12}",
            "{~000000000000000G}",
            "{=0000000000000001}",
            "{=0000000000000001:x",
            "é{~é}",
            "{~{~{n}",
        ] {
            assert!(!words.learn(odd), "{odd}");
            assert_eq!(show(odd), odd);
        }
        assert_eq!(show("{~{~0000000000000001}é"), "{~{value}é");
    }
}
