//! Text for the terminal: sanitised, measured in columns, cut, wrapped, coloured where that is wanted.

use std::borrow::Cow;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::OnceLock;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Prose never takes more columns, since longer lines are hard to read. Tables do where a terminal has them.
pub const WIDTH_MAX: usize = 100;
/// What is written is laid out for no fewer columns: tables would be cut beyond use.
const WIDTH_MIN: usize = 80;
/// Nor for more: a line of a table would no longer be followed by eye.
const WIDTH_TABLE_MAX: usize = 400;

/// An error with its causes after it. Many of ours have their cause in their own sentence: it is not said again.
pub fn reasons(e: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in std::iter::successors(Some(e), |&e| e.source()).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += if text.is_empty() { "" } else { ": " };
            text += &cause;
        }
    }
    text
}

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

/// Where colour is wanted, as `--color` says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourChoice {
    /// On a terminal that knows it; `NO_COLOR`, `CLICOLOR_FORCE` and `CLICOLOR` are obeyed.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// What `--color` said; [`ColourChoice::Auto`] until it was read.
static CHOICE: OnceLock<ColourChoice> = OnceLock::new();

/// Decides about colour for the rest of the process: once, before the first answer.
pub fn choose_colour(choice: ColourChoice) {
    let _ = CHOICE.set(choice);
}

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Colour is used.
    pub colour: bool,
    /// Columns that a table may take.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Style {
        Style { colour: false, width: WIDTH_MAX }
    }
}

/// What the environment says about colour, as variable values.
struct Wishes {
    is_terminal: bool,
    no_color: bool,
    forced: bool,
    refused: bool,
    dumb: bool,
}

impl Wishes {
    const fn colour(&self, choice: ColourChoice) -> bool {
        match choice {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto if self.no_color => false,
            ColourChoice::Auto if self.forced => true,
            ColourChoice::Auto => self.is_terminal && !self.refused && !self.dumb,
        }
    }
}

impl Style {
    /// For standard output: colour where it is wanted, and the terminal's width. Where there is no terminal, 100 columns.
    /// `COLUMNS`, where a user exports it, says it for both.
    pub fn for_stdout() -> Style {
        let is = |name: &str, test: fn(&OsStr) -> bool| std::env::var_os(name).is_some_and(|v| test(&v));
        let wishes = Wishes {
            is_terminal: std::io::stdout().is_terminal(),
            no_color: is("NO_COLOR", |v| !v.is_empty()),
            forced: is("CLICOLOR_FORCE", |v| !v.is_empty() && v != "0"),
            refused: is("CLICOLOR", |v| v == "0"),
            dumb: is("TERM", |v| v == "dumb"),
        };
        let asked = std::env::var("COLUMNS").ok().and_then(|c| c.trim().parse().ok()).filter(|c| *c > 0);
        let terminal = || terminal_size::terminal_size_of(std::io::stdout()).map(|(w, _)| usize::from(w.0));
        Style {
            colour: wishes.colour(CHOICE.get().copied().unwrap_or_default()),
            width: Style::width_of(asked.or_else(terminal)),
        }
    }

    fn width_of(columns: Option<usize>) -> usize {
        columns.filter(|c| *c > 0).map_or(WIDTH_MAX, |c| c.clamp(WIDTH_MIN, WIDTH_TABLE_MAX))
    }

    /// Columns that prose may take.
    pub const fn prose(self) -> usize {
        if self.width < WIDTH_MAX { self.width } else { WIDTH_MAX }
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
pub(crate) const fn is_unsafe(c: char) -> bool {
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

/// The text with everything unsafe to show written as an escape (`\u{202e}`), so that different texts stay different: for
/// other programs, which may show it anywhere.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
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
        use ColourChoice::{Always, Auto, Never};
        let nothing = || Wishes { is_terminal: false, no_color: false, forced: false, refused: false, dumb: false };
        let terminal = || Wishes { is_terminal: true, ..nothing() };
        assert!(terminal().colour(Auto) && !terminal().colour(Never));
        assert!(!nothing().colour(Auto) && nothing().colour(Always));
        assert!(Wishes { forced: true, ..nothing() }.colour(Auto), "CLICOLOR_FORCE");
        for refusing in [
            Wishes { no_color: true, ..terminal() },
            Wishes { no_color: true, forced: true, ..terminal() },
            Wishes { refused: true, ..terminal() },
            Wishes { dumb: true, ..terminal() },
        ] {
            assert!(!refusing.colour(Auto) && refusing.colour(Always));
        }
        assert_eq!(Style::default().paint("x", Tint::Bad), "x");
        assert_eq!(Style { colour: true, ..Style::default() }.paint("x", Tint::Bad), "\x1b[31mx\x1b[0m");
    }

    #[test]
    fn tables_take_the_terminals_width_and_prose_no_more_than_100_columns() {
        for (terminal, table, prose) in
            [(None, 100, 100), (Some(0), 100, 100), (Some(40), 80, 80), (Some(90), 90, 90), (Some(200), 200, 100)]
        {
            let style = Style { width: Style::width_of(terminal), ..Style::default() };
            assert_eq!((style.width, style.prose()), (table, prose), "{terminal:?}");
        }
    }
}
