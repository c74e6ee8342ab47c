//! Words of a line.

use std::borrow::Cow;

/// So many characters of a word are shown where it is told what is wrong with it.
const SHOWN_MAX: usize = 40;

/// A word for people: in quotes, escaped and cut.
pub(super) fn quoted(word: &str) -> String {
    let mut shown: String = word.chars().take(SHOWN_MAX).flat_map(char::escape_default).collect();
    if word.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// Hands out the words of a line up to its comment.
pub(super) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Words<'a> {
        Words { rest: line }
    }

    /// The next word.
    pub(super) fn next(&mut self) -> Result<Option<Cow<'a, str>>, String> {
        let begin = self.rest.iter().position(|b| !matches!(b, b' ' | b'\t')).unwrap_or(self.rest.len());
        self.rest = &self.rest[begin..];
        match self.rest.first() {
            None | Some(b'#') => {
                self.rest = &[];
                Ok(None)
            }
            Some(b'"') => self.in_quotes().map(Some),
            Some(_) => {
                let end = self.rest.iter().position(|b| matches!(b, b' ' | b'\t')).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                text(word).map(|w| Some(Cow::Borrowed(w)))
            }
        }
    }

    fn in_quotes(&mut self) -> Result<Cow<'a, str>, String> {
        let inner = &self.rest[1..];
        let mut escaped: Option<Vec<u8>> = None;
        let mut at = 0;
        loop {
            match inner.get(at) {
                None => return Err("a quote that does not end".to_owned()),
                Some(b'"') => break,
                Some(b'\\') => {
                    let c = *inner
                        .get(at + 1)
                        .filter(|c| matches!(c, b'"' | b'\\'))
                        .ok_or("\\ before neither \" nor \\")?;
                    escaped.get_or_insert_with(|| inner[..at].to_vec()).push(c);
                    at += 2;
                }
                Some(b) => {
                    if let Some(e) = &mut escaped {
                        e.push(*b);
                    }
                    at += 1;
                }
            }
        }
        let (word, rest) = (&inner[..at], &inner[at + 1..]);
        if !matches!(rest.first(), None | Some(b' ' | b'\t')) {
            return Err("a quote ends inside a word".to_owned());
        }
        self.rest = rest;
        Ok(match escaped {
            None => Cow::Borrowed(text(word)?),
            Some(e) => Cow::Owned(text(&e)?.to_owned()),
        })
    }
}

fn text(word: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(word).map_err(|_| "a word is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, String> {
        let (mut words, mut out) = (Words::new(line.as_bytes()), Vec::new());
        while let Some(w) = words.next()? {
            out.push(w.into_owned());
        }
        Ok(out)
    }

    #[test]
    fn quotes_hold_blanks_and_comments_end_lines() {
        assert_eq!(words("  a\t\"b c\" \"d\\\"\\\\e\" f#g # h").unwrap(), ["a", "b c", "d\"\\e", "f#g"]);
        assert_eq!(words("# all").unwrap(), [""; 0]);
        for bad in ["\"a", "\"a\"b", "\"a\\n\"", "\"a\\"] {
            assert!(words(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_shown_is_short_and_printable() {
        assert_eq!(quoted("a\u{1b}[0m"), "\"a\\u{1b}[0m\"");
        assert!(quoted(&"x".repeat(1000)).len() < 60);
    }
}
