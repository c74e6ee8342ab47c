//! Only words that recur: what messages say passes here before it is written down, whatever vantage saw it.
//!
//! A text is structure, words of the protocol's own (`wakepath_protocols::vocabulary`), and words that somebody chose. Of the
//! last a keyed hash is written until several clients have said the word; from then on hash and word. So a value of one user
//! never lands, and kinds stay readable, of earlier rows too ([`wakepath_model::words`]). `docs/privacy.md` has the rule.

mod asker;
mod seen;
mod siphash;

pub use asker::{Asker, address_number};
pub use seen::{CLIENTS, REQUESTS};
pub use siphash::Key;

use rustc_hash::{FxHashMap, FxHashSet};
use seen::Seen;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::StrId;
use wakepath_model::words::{VALUE, push_hash, push_word};
use wakepath_protocols::Askers;
use wakepath_protocols::Protocol;
use wakepath_protocols::vocabulary::{Attribute, Part};

/// Texts whose id is kept, since nothing in them can change any more.
const FINAL_MAX: usize = 1 << 16;
/// Texts with hashes in them; further ones have no hashes.
const HASHED_MAX: usize = 100_000;
/// Words that have recurred.
const WORDS_MAX: usize = 1 << 16;
/// A longer word is a value, however often it recurs.
const WORD_BYTES_MAX: usize = 64;

/// Where a text is from.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Whose words are known in it.
    pub protocol: Protocol,
    /// What it is of its message.
    pub attribute: Attribute,
    /// Who asked.
    pub asker: Asker,
    /// The message's first byte in its stream.
    pub start: u64,
    /// The message counts: it is a request, or the text is the server's own.
    pub counts: bool,
}

/// The words of one recording. Memory: at most 8 MB, whatever is said.
pub struct Recurring {
    key: Key,
    /// Every word is written as it is.
    all: bool,
    seen: Seen,
    /// Hashes of words that have recurred.
    words: FxHashSet<u64>,
    /// By hash: texts in which every word has recurred.
    settled: FxHashMap<u64, StrId>,
    /// Hashes of texts that were written with hashes in them.
    hashed: FxHashSet<u64>,
    out: Vec<u8>,
}

impl Recurring {
    /// Nothing has been said. `key` is never written anywhere.
    pub fn new(key: Key) -> Recurring {
        Recurring {
            key,
            all: false,
            seen: Seen::new(),
            words: FxHashSet::default(),
            settled: FxHashMap::default(),
            hashed: FxHashSet::default(),
            out: Vec::new(),
        }
    }

    /// Writes every word as it is, for systems in which nothing is secret.
    pub fn all_words() -> Recurring {
        Recurring { all: true, ..Recurring::new(Key::new([0; 16])) }
    }

    /// The id of `text` as it may be written, which `intern` gives; and a defect to be counted.
    pub fn take(
        &mut self,
        text: &str,
        said: &Said,
        intern: impl FnOnce(&[u8]) -> StrId,
    ) -> (StrId, Option<&'static str>) {
        if text.is_empty() {
            return (StrId::EMPTY, None);
        }
        if self.all {
            return (intern(text.as_bytes()), None);
        }
        let tag = (said.protocol as u64) << 8 | said.attribute as u64;
        let key = self.key.hash(text.as_bytes()) ^ tag.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if said.counts && said.attribute == Attribute::Verb {
            self.seen.request(&said.asker, said.start);
        }
        if let Some(&id) = self.settled.get(&key) {
            return (id, None);
        }
        let mut state = Masked::Settled;
        let mut lost = None;
        let Recurring { key: secret, seen, words, out, .. } = self;
        out.clear();
        said.protocol.about().vocabulary.divide(said.attribute, text, &mut |part| {
            let word = match part {
                Part::Known(known) => return out.extend_from_slice(known.as_bytes()),
                Part::Word(word) => word,
            };
            if is_value(word) {
                state = state.max(Masked::Values);
                return out.extend_from_slice(VALUE.as_bytes());
            }
            let hash = secret.hash(word.as_bytes());
            if !words.contains(&hash) {
                let counted = match said.counts {
                    true => seen.word(hash, &said.asker, said.start, said.protocol.about().askers == Askers::Programs),
                    false => seen::Counted::default(),
                };
                if counted.forgot {
                    lost = Some(defect::WORDS_FORGOTTEN);
                }
                if !counted.recurs || words.len() >= WORDS_MAX {
                    state = Masked::Hashed;
                    return push_hash(out, hash);
                }
                words.insert(hash);
            }
            push_word(out, hash, word.as_bytes());
        });
        if state == Masked::Hashed && !self.hashed.contains(&key) {
            if self.hashed.len() >= HASHED_MAX {
                lost = Some(defect::WORDS_FULL);
                self.plain(text, said);
            } else {
                self.hashed.insert(key);
            }
        }
        let id = intern(&self.out);
        if state == Masked::Settled && self.settled.len() < FINAL_MAX && id != wakepath_model::intern::OVERFLOW {
            self.settled.insert(key, id);
        }
        (id, lost)
    }

    /// The text without hashes: words that have not recurred cannot be told later.
    fn plain(&mut self, text: &str, said: &Said) {
        let Recurring { key: secret, words, out, .. } = self;
        out.clear();
        said.protocol.about().vocabulary.divide(said.attribute, text, &mut |part| match part {
            Part::Known(known) => out.extend_from_slice(known.as_bytes()),
            Part::Word(word) => {
                let hash = secret.hash(word.as_bytes());
                match words.contains(&hash) {
                    true => push_word(out, hash, word.as_bytes()),
                    false => out.extend_from_slice(VALUE.as_bytes()),
                }
            }
        });
    }
}

/// What a text holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Masked {
    /// Nothing that may change.
    Settled,
    /// Values, so that there may be very many such texts.
    Values,
    /// Words that have not recurred.
    Hashed,
}

/// Whether a word is somebody's value by its form: a mail address, a telephone number, a hash, a token. Such a one never lands,
/// whoever says it.
pub(crate) fn is_value(word: &str) -> bool {
    let bytes = word.as_bytes();
    let count = |of: fn(&u8) -> bool| bytes.iter().filter(|b| of(b)).count();
    let digits = count(u8::is_ascii_digit);
    bytes.len() > WORD_BYTES_MAX
        || bytes.iter().any(|b| matches!(b, b'{' | b'}' | b'@' | b'%' | b'=' | b'+' | b' ') || !b.is_ascii_graphic())
        || digits >= 7
        || bytes.starts_with(b"eyJ")
        || bytes.split(|b| matches!(b, b'.' | b'~' | b':')).any(|part| is_token(part, digits > 0))
}

/// Whether it has the form of a hash or token: long and hexadecimal, or long with letters and digits mixed, or with capitals in
/// the midst of words as base64 has them.
fn is_token(part: &[u8], has_digits: bool) -> bool {
    let hex = part.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    if hex && (part.len() >= 16 || part.len() >= 8 && has_digits) {
        return true;
    }
    if part.len() < 16 {
        return false;
    }
    // how often a letter's kind changes: words change it at their beginnings, random letters all the time
    let kind = |b: u8| match b {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    };
    let changes = part.windows(2).filter(|w| kind(w[0]) != kind(w[1]) && kind(w[0]) != 0 && kind(w[1]) != 0).count();
    changes * 3 >= part.len()
}
