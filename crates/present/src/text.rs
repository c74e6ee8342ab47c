//! Text for the terminal: sanitised, measured in columns, cut, wrapped, coloured where that is wanted.

use std::borrow::Cow;
use std::io::IsTerminal;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Tables and prose never take more columns.
pub const WIDTH_MAX: usize = 100;

/// What a text says by its colour. Never the only thing that says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tint {
    /// As it is.
    #[default]
    Plain,
    /// Works, complete.
    Good,
    /// May touch the answer.
    Warn,
    /// Does not work, wrong.
    Bad,
    /// Less important.
    Dim,
    /// A heading.
    Strong,
}

impl Tint {
    const fn code(self) -> &'static str {
        match self {
            Tint::Plain => "",
            Tint::Good => "32",
            Tint::Warn => "33",
            Tint::Bad => "31",
            Tint::Dim => "2",
            Tint::Strong => "1",
        }
    }
}

/// Whether colour is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Colour is used.
    pub colour: bool,
}

impl Style {
    /// For standard output: colour only on a terminal that knows it, and not where `NO_COLOR` is set.
    pub fn for_stdout() -> Style {
        Style::choose(
            std::io::stdout().is_terminal(),
            std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()),
            std::env::var_os("TERM").is_some_and(|t| t == "dumb"),
        )
    }

    const fn choose(is_terminal: bool, no_color: bool, dumb: bool) -> Style {
        Style { colour: is_terminal && !no_color && !dumb }
    }

    /// The text in its colour.
    pub fn paint(self, text: &str, tint: Tint) -> String {
        if self.colour && tint != Tint::Plain && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", tint.code())
        } else {
            text.to_owned()
        }
    }
}

/// Whether a character may do something to a terminal instead of being shown: controls, and what changes the order
/// of the text around it.
const fn is_unsafe(c: char) -> bool {
    matches!(c, '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// The text with everything unsafe to print shown as `?`. Whatever was recorded passes through here.
pub fn sanitise(text: &str) -> Cow<'_, str> {
    if text.contains(is_unsafe) {
        Cow::Owned(text.chars().map(|c| if is_unsafe(c) { '?' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// The text in at most `width` columns; what is cut ends in `…`.
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if w > left {
            break;
        }
        left -= w;
        out.push(c);
    }
    if width > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Breaks prose into lines of at most `width` columns, each begun with `indent`. A word longer than that stands alone.
pub fn wrap(text: &str, indent: &str, width: usize) -> String {
    let mut out = String::new();
    let mut line = String::from(indent);
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && columns(&line) + 1 + columns(word) > width {
            out.push_str(&line);
            out.push('\n');
            line.clear();
            line.push_str(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    if !is_empty {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        assert_eq!(sanitise("plain ü 漢"), "plain ü 漢");
        assert_eq!(sanitise("a\x1b]0;x\x07b\u{9b}31m\r\n\u{202e}c"), "a?]0;x?b?31m???c");
    }

    #[test]
    fn cut_counts_columns_not_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("漢字漢字", 4), "漢…");
        assert_eq!(cut("abcd", 0), "");
    }

    #[test]
    fn wrapped_lines_keep_the_width() {
        let text = "one two three four five six seven eight nine ten ".repeat(10);
        let out = wrap(&text, "    ", 40);
        assert!(out.lines().all(|l| columns(l) <= 40 && l.starts_with("    o") || l.starts_with("    ")));
        assert!(out.lines().all(|l| columns(l) <= 40));
        assert_eq!(out.split_whitespace().count(), 100);
        assert_eq!(wrap("  ", "x", 40), "");
    }

    #[test]
    fn colour_only_where_it_is_wanted() {
        assert!(Style::choose(true, false, false).colour);
        for (terminal, no_color, dumb) in [(false, false, false), (true, true, false), (true, false, true)] {
            assert!(!Style::choose(terminal, no_color, dumb).colour);
        }
        assert_eq!(Style { colour: false }.paint("x", Tint::Bad), "x");
        assert_eq!(Style { colour: true }.paint("x", Tint::Bad), "\x1b[31mx\x1b[0m");
    }
}
