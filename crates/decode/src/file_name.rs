//! Which parts of a file's name are kept: the words that say what it is, never what looks like a value.
//!
//! Programs name files after sessions, customers and hashes (`sess_4f2a9c1e07`, `anna@shop.example.json`). The name of a file that a
//! task waited for is needed, since it says which lock or log that was, and so is a table's number (`base/16384/2619`).

use crate::recurring::is_value;

/// What stands for a word that is left out.
const LEFT_OUT: char = '?';
/// More digits may be a date of birth, a telephone number or a card.
const DIGITS_MAX: usize = 6;

/// A file's or folder's name as it may be kept.
pub fn masked(name: &str) -> String {
    // of an address of a person, no part is kept
    if name.contains('@') {
        return LEFT_OUT.into();
    }
    let mut out = String::with_capacity(name.len());
    for piece in name.split_inclusive(['.', '_', '-', '+', ' ']) {
        let word = piece.trim_end_matches(['.', '_', '-', '+', ' ']);
        if is_kept(word) {
            out.push_str(word);
        } else {
            out.push(LEFT_OUT);
        }
        out.push_str(&piece[word.len()..]);
    }
    out
}

fn is_kept(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    // letters around a number name a thing and its number: `wal12`, `x86`; digits among letters are random
    let mut kinds: Vec<bool> = word.bytes().map(|b| b.is_ascii_digit()).collect();
    kinds.dedup();
    word.bytes().all(|b| b.is_ascii_alphanumeric()) && digits <= DIGITS_MAX && kinds.len() <= 2 && !is_value(word)
}

#[cfg(test)]
mod tests {
    use super::masked;
    use proptest::prelude::*;

    #[test]
    fn what_a_file_is_stays_and_whose_it_is_goes() {
        for name in ["shop.lock", "2619", "postgresql-15.log", "a1.pid", "state_2.json", ".cache", "data", ""] {
            assert_eq!(masked(name), name);
        }
        for (name, kept) in [
            ("sess_4f2a9c1e07", "sess_?"),
            ("anna@shop.example.json", "?"),
            ("0000000100000000000000A3", "?"),
            ("invoice-4111111111111111.pdf", "invoice-?.pdf"),
            ("1971-05-23 Jörg.txt", "1971-05-23 ?.txt"),
            ("a8f3c2.lock", "?.lock"),
            ("d41d8cd98f00b204e9800998ecf8427e", "?"),
        ] {
            assert_eq!(masked(name), kept);
        }
    }

    proptest! {
        #[test]
        fn no_random_word_is_kept(token in "[a-z][0-9][a-z][0-9a-f]{9,20}", before in "[a-z]{0,6}") {
            let kept = masked(&format!("{before}_{token}.tmp"));
            prop_assert!(!kept.contains(&token), "{kept}");
        }
    }
}
