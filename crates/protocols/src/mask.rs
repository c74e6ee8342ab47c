//! Masking: what a message is about, without what it says. Values go, structure stays.
//!
//! Everything here holds for input that was cut off anywhere: a literal whose end is missing is masked to the end.

use crate::Text;

/// FNV-1a, 64 bit.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The path template of an HTTP request target; `cut`: the target's end is missing.
///
/// Scheme and authority, query, fragment and `;parameters` are dropped. A segment becomes
/// - `{n}` if it is a number, also before an extension (`123.html` → `{n}.html`);
/// - `{id}` if it is at least 8 hexadecimal digits or hyphens with a digit among them (so also a UUID), is 20 or more
///   letters, digits, `-` and `_` with digits and letters among them, is longer than 64 bytes, or holds `@`, `%`,
///   `=` or bytes that are not printable; and the last one if the target is cut.
///
/// Other segments are kept: `/users/17/orders/5f3a9c00b1` → `/users/{n}/orders/{id}`, `/v2/page-3` stays.
pub fn path<const N: usize>(target: &[u8], cut: bool, out: &mut Text<N>) {
    let path = match target.iter().position(|&b| b == b':') {
        // Absolute form: http://host/path. A colon later in a path is no scheme.
        Some(colon) if !target[..colon].contains(&b'/') => {
            match target[colon..].strip_prefix(b"://") {
                Some(rest) => match rest.iter().position(|&b| b == b'/') {
                    Some(slash) => &rest[slash..],
                    None => b"/",
                },
                None => b"{authority}", // of CONNECT: host:port
            }
        }
        _ => target,
    };
    let end = path.iter().position(|&b| b == b'?' || b == b'#');
    let cut = cut && end.is_none();
    let mut segments = path[..end.unwrap_or(path.len())].split(|&b| b == b'/').peekable();
    let mut first = true;
    while let Some(segment) = segments.next() {
        if !core::mem::take(&mut first) {
            out.push(b'/');
        }
        let name = segment.split(|&b| b == b';').next().unwrap_or(&[]);
        match segment_mask(name) {
            _ if cut && segments.peek().is_none() => out.push_all(b"{id}"),
            Some((mask, kept)) => {
                out.push_all(mask);
                out.push_all(kept);
            }
            None => out.push_all(name),
        }
    }
    if cut {
        out.mark_cut();
    }
}

/// The mask of a segment and the rest that is kept, or `None` if all of it is kept.
fn segment_mask(segment: &[u8]) -> Option<(&'static [u8], &[u8])> {
    let dot = segment.iter().rposition(|&b| b == b'.');
    let (stem, extension) = segment.split_at(dot.unwrap_or(segment.len()));
    if !stem.is_empty() && stem.iter().all(u8::is_ascii_digit) {
        let plain = extension.len() <= 6 && extension.iter().skip(1).all(u8::is_ascii_alphabetic);
        return Some((b"{n}", if plain { extension } else { b"" }));
    }
    let digit = stem.iter().any(u8::is_ascii_digit);
    let letter = stem.iter().any(u8::is_ascii_alphabetic);
    let hex = |&b: &u8| b.is_ascii_hexdigit() || b == b'-';
    let word = |&b: &u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let odd = |&b: &u8| matches!(b, b'@' | b'%' | b'=') || !b.is_ascii_graphic();
    let id = (stem.len() >= 8 && digit && stem.iter().all(hex))
        || (stem.len() >= 20 && digit && letter && stem.iter().all(word))
        || segment.len() > 64
        || (segment.iter().any(odd) && segment != b"{authority}");
    id.then_some((b"{id}", b""))
}

/// Whose lexical rules a statement follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sql {
    /// PostgreSQL (documentation, chapter 4.1).
    Postgres,
    /// MySQL and MariaDB (reference manual, "Language Structure"): `"…"` is a string, `` `…` `` a name, `#` a comment.
    MySql,
    /// The same with NO_BACKSLASH_ESCAPES.
    MySqlPlain,
}

/// The shape of an SQL statement; `cut`: its end is missing.
///
/// - Strings (`'…'`, `E'…'`, `B'…'`, `X'…'`, `N'…'`, `U&'…'`, `$tag$…$tag$`) and numbers, with a sign that cannot be
///   an operator, become `?`. `TRUE`, `FALSE`, `NULL` and parameters (`$1`) are kept, as are identifiers and case.
/// - A list of literals becomes `?+`, behind `IN (` also a list of one; rows repeated in `VALUES` become one row.
/// - Comments go, white space is folded to one blank.
/// - Whether `'…\'` ends there depends on a setting of the server, so the shape stops at it, as cut.
pub fn statement<const N: usize>(sql: &[u8], cut: bool, dialect: Sql, out: &mut Text<N>) {
    let (postgres, escapes) = (dialect == Sql::Postgres, dialect == Sql::MySql);
    let mut shape = Shape { out, blank: false };
    let mut rest = sql;
    while let Some(&byte) = rest.first() {
        if shape.out.is_cut() {
            return;
        }
        let used = match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => {
                shape.blank = true;
                1
            }
            b'-' if rest.starts_with(b"--") => {
                shape.blank = true;
                rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
            }
            b'/' if rest.starts_with(b"/*") => {
                shape.blank = true;
                comment(rest)
            }
            b'#' if !postgres => {
                shape.blank = true;
                rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
            }
            b'\'' | b'"' if byte == b'\'' || !postgres => match string(rest, escapes) {
                (used, true) => {
                    shape.literal();
                    used
                }
                (_, false) => {
                    shape.literal();
                    return shape.out.mark_cut();
                }
            },
            b'e' | b'E' if postgres && rest.get(1) == Some(&b'\'') => {
                shape.literal();
                1 + string(&rest[1..], true).0
            }
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if rest.get(1) == Some(&b'\'') => 1,
            b'u' | b'U' if rest[1..].starts_with(b"&'") => 2,
            b'"' | b'`' => {
                let inner = rest[1..].iter().position(|&b| b == byte);
                let used = inner.map_or(rest.len(), |inner| inner + 2);
                shape.token(&rest[..used]);
                used
            }
            b'$' if postgres && !rest.get(1).is_some_and(u8::is_ascii_digit) => match dollar(rest) {
                Some(used) => {
                    shape.literal();
                    used
                }
                None => {
                    shape.token(b"$");
                    1
                }
            },
            b'$' => {
                let digits = rest[1..].iter().take_while(|b| b.is_ascii_digit());
                let used = 1 + digits.count();
                shape.token(&rest[..used]);
                used
            }
            b'0'..=b'9' => {
                shape.literal();
                number(rest)
            }
            b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) => {
                shape.literal();
                number(rest)
            }
            _ if name(byte) => {
                let used = rest.iter().take_while(|&&b| name(b) || b == b'$').count();
                shape.token(&rest[..used]);
                used
            }
            _ => {
                shape.blank &= byte != b',';
                shape.token(&[byte]);
                shape.rows();
                1
            }
        };
        rest = rest.get(used..).unwrap_or(&[]);
    }
    if cut {
        shape.out.mark_cut();
    }
}

/// The first word of a statement's shape, in upper case: its verb.
pub fn verb(shape: &str) -> Text<16> {
    let letters = shape.bytes().take_while(|&b| b.is_ascii_alphabetic() || b == b'_');
    Text::upper(&shape.as_bytes()[..letters.count()])
}

fn name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

struct Shape<'t, const N: usize> {
    out: &'t mut Text<N>,
    blank: bool,
}

impl<const N: usize> Shape<'_, N> {
    fn token(&mut self, bytes: &[u8]) {
        if core::mem::take(&mut self.blank) && !self.out.bytes().is_empty() {
            self.out.push(b' ');
        }
        self.out.push_all(bytes);
    }

    fn literal(&mut self) {
        let before = self.out.bytes();
        if let [head @ .., b'-' | b'+'] = before {
            // A sign, not an operator, where nothing stands before it that could be an operand.
            if matches!(head.trim_ascii_end().last(), Some(b'(' | b',' | b'=')) {
                self.blank |= head.ends_with(b" ");
                self.out.pop(1);
                if self.out.bytes().ends_with(b" ") {
                    self.out.pop(1);
                }
            }
        }
        let before = self.out.bytes();
        if before.ends_with(b"?+,") {
            self.out.pop(1);
            self.blank = false;
        } else if before.ends_with(b"?,") {
            self.out.pop(1);
            self.blank = false;
            self.out.push(b'+');
        } else if ends_with_in(before) {
            self.token(b"?+");
        } else {
            self.token(b"?");
        }
    }

    /// Drops a row of literals behind an equal one.
    fn rows(&mut self) {
        for row in [&b"(?+)"[..], b"(?)"] {
            let Some(head) = self.out.bytes().strip_suffix(row) else {
                continue;
            };
            let head = head.strip_suffix(b" ").unwrap_or(head);
            if head.strip_suffix(b",").is_some_and(|head| head.ends_with(row)) {
                let extra = self.out.bytes().len() - head.len() + 1;
                self.out.pop(extra);
            }
        }
    }
}

/// Whether `text` ends with the word IN and an opening bracket.
fn ends_with_in(text: &[u8]) -> bool {
    let Some(head) = text.strip_suffix(b"(") else {
        return false;
    };
    let head = head.trim_ascii_end();
    head.len() > 2 && head[head.len() - 2..].eq_ignore_ascii_case(b"in") && !name(head[head.len() - 3])
}

/// Length of the string at the start of `text`, and whether it is sure where it ends.
fn string(text: &[u8], escapes: bool) -> (usize, bool) {
    let (quote, mut at) = (text[0], 1);
    while let Some(&byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            (b'\\', Some(&next)) if !escapes && next == quote => return (text.len(), false),
            (b'\\', _) if escapes => at += 2,
            (_, Some(&next)) if byte == quote && next == quote => at += 2,
            _ if byte == quote => return (at + 1, true),
            _ => at += 1,
        }
    }
    (text.len(), true)
}

/// Length of the dollar-quoted string at the start of `text`, if one is.
fn dollar(text: &[u8]) -> Option<usize> {
    let tag = 1 + text[1..].iter().take_while(|&&b| name(b)).count();
    match text.get(tag) {
        None => Some(text.len()), // cut in the tag: what follows would be the string
        Some(b'$') => {
            let (tag, body) = text.split_at(tag + 1);
            let end = body.windows(tag.len()).position(|window| window == tag);
            Some(end.map_or(text.len(), |end| tag.len() + end + tag.len()))
        }
        Some(_) => None,
    }
}

/// Length of the number at the start of `text`, with everything that sticks to it.
fn number(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        let sign = matches!(byte, b'+' | b'-') && matches!(text[at - 1], b'e' | b'E');
        if !(name(byte) || byte == b'.' || sign) {
            break;
        }
        at += 1;
    }
    at
}

/// Length of the comment at the start of `text`; comments nest.
fn comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0u32);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth = depth.saturating_add(1);
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}
