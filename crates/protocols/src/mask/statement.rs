//! The shape of an SQL statement.

use crate::Text;

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
/// - A list of literals becomes `?+`, after `IN (` also a list of one; rows repeated in `VALUES` become one row.
/// - What a `SET` gives to a setting becomes `?` also where it is a bare word, unless it is a switch (`SET x TO on`): there it is a
///   value, as in `SET search_path TO tenant`. A column of an `UPDATE` is none.
/// - Comments go, white space is folded to one blank.
/// - Whether `'…\'` ends there depends on a setting of the server, so the shape stops at it, as cut.
pub fn statement<const N: usize>(sql: &[u8], cut: bool, dialect: Sql, out: &mut Text<N>) {
    let mut shape = Shape { out, blank: false, setting: Setting::Begins };
    let mut rest = sql;
    while !rest.is_empty() {
        if shape.out.is_cut() {
            return;
        }
        let (token, used) = token(rest, dialect);
        match token {
            Token::Blank => shape.blank = true,
            Token::Prefix => {}
            Token::Literal => shape.literal(),
            Token::Unsure => {
                shape.literal();
                return shape.out.mark_cut();
            }
            Token::Word if shape.setting.takes(&rest[..used]) => shape.literal(),
            Token::Word => shape.token(&rest[..used]),
            Token::Sign => {
                shape.setting.meets(rest[0], dialect);
                shape.blank &= rest[0] != b',';
                shape.token(&rest[..used]);
                shape.rows();
            }
        }
        rest = rest.get(used..).unwrap_or(&[]);
    }
    if cut {
        shape.out.mark_cut();
    }
}

/// What stands at the start of the rest of a statement.
#[derive(Clone, Copy)]
enum Token {
    /// White space, or a comment.
    Blank,
    /// What says of which kind the string after it is.
    Prefix,
    /// A string or a number.
    Literal,
    /// A string of which it is not known where it ends.
    Unsure,
    /// A name, a keyword or a parameter.
    Word,
    /// One byte of anything else.
    Sign,
}

/// The token at the start of `rest`, and its length.
fn token(rest: &[u8], dialect: Sql) -> (Token, usize) {
    let (postgres, escapes) = (dialect == Sql::Postgres, dialect == Sql::MySql);
    let (byte, next) = (rest[0], rest.get(1).copied());
    let to_line_end = || rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    match byte {
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => (Token::Blank, 1),
        b'-' if next == Some(b'-') => (Token::Blank, to_line_end()),
        b'#' if !postgres => (Token::Blank, to_line_end()),
        b'/' if next == Some(b'*') => (Token::Blank, comment(rest)),
        b'\'' | b'"' if byte == b'\'' || !postgres => match string(rest, escapes) {
            (used, true) => (Token::Literal, used),
            (used, false) => (Token::Unsure, used),
        },
        b'e' | b'E' if postgres && next == Some(b'\'') => (Token::Literal, 1 + string(&rest[1..], true).0),
        b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if next == Some(b'\'') => (Token::Prefix, 1),
        b'u' | b'U' if rest[1..].starts_with(b"&'") => (Token::Prefix, 2),
        b'"' | b'`' => {
            let inner = rest[1..].iter().position(|&b| b == byte);
            (Token::Word, inner.map_or(rest.len(), |inner| inner + 2))
        }
        b'$' if postgres && !next.is_some_and(|b| b.is_ascii_digit()) => match dollar(rest) {
            Some(used) => (Token::Literal, used),
            None => (Token::Word, 1),
        },
        b'$' => (Token::Word, 1 + rest[1..].iter().take_while(|b| b.is_ascii_digit()).count()),
        b'0'..=b'9' => (Token::Literal, number(rest)),
        b'.' if next.is_some_and(|b| b.is_ascii_digit()) => (Token::Literal, number(rest)),
        _ if name(byte) => (Token::Word, rest.iter().take_while(|&&b| name(b) || b == b'$').count()),
        _ => (Token::Sign, 1),
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

/// Where in a statement that changes settings something stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// Before its first word.
    Begins,
    /// In a statement of another kind.
    Other,
    /// In one that alters something, which may be what is set for it.
    Alters,
    /// At the name of a setting.
    Named,
    /// At what it is set to, inside that many brackets.
    Value(u32),
}

impl Setting {
    /// A word comes; whether it is a value.
    fn takes(&mut self, word: &[u8]) -> bool {
        let is = |one: &str| word.eq_ignore_ascii_case(one.as_bytes());
        match self {
            Setting::Begins | Setting::Alters if is("SET") => *self = Setting::Named,
            Setting::Begins => *self = if is("ALTER") { Setting::Alters } else { Setting::Other },
            Setting::Named if is("TO") => *self = Setting::Value(0),
            Setting::Value(_) => {
                return word[0] != b'$' && !["DEFAULT", "ON", "OFF", "TRUE", "FALSE", "NULL"].into_iter().any(is);
            }
            Setting::Named | Setting::Alters | Setting::Other => {}
        }
        false
    }

    /// A sign comes.
    fn meets(&mut self, sign: u8, dialect: Sql) {
        *self = match (*self, sign) {
            (_, b';') => Setting::Begins,
            (Setting::Named, b'=') => Setting::Value(0),
            (Setting::Value(depth), b'(') => Setting::Value(depth + 1),
            (Setting::Value(depth), b')') => Setting::Value(depth.saturating_sub(1)),
            // several settings; in PostgreSQL several values of one
            (Setting::Value(0), b',') if dialect != Sql::Postgres => Setting::Named,
            (same, _) => same,
        };
    }
}

struct Shape<'t, const N: usize> {
    out: &'t mut Text<N>,
    blank: bool,
    setting: Setting,
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

    /// Drops a row of literals after an equal one.
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
