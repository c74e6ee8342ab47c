//! Tables for the terminal: no wider than it, numbers to the right, what does not fit ends in `…`.

use crate::text::{Style, Tint, columns, cut, sanitise};
use std::fmt::Write as _;

/// Columns between two columns.
const GAP: usize = 2;
/// A column is not made narrower, unless the table could not fit otherwise.
const NARROW: usize = 10;

/// Most lines of a cell that is wrapped; what is longer ends in `…`.
const LINES_MAX: usize = 4;
/// Lines below the first one of a cell begin with so many spaces.
const HANGING: usize = 2;

/// A column's heading and side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    title: &'static str,
    is_number: bool,
    is_wrapped: bool,
}

impl Column {
    /// Text, to the left; it is cut where the table is too wide.
    pub const fn text(title: &'static str) -> Column {
        Column { title, is_number: false, is_wrapped: false }
    }

    /// Text, to the left; where the table is too wide it goes on in the lines below, [`LINES_MAX`] in all.
    pub const fn wrapped(title: &'static str) -> Column {
        Column { title, is_number: false, is_wrapped: true }
    }

    /// A number, to the right; it is never cut.
    pub const fn number(title: &'static str) -> Column {
        Column { title, is_number: true, is_wrapped: false }
    }
}

/// A cell: sanitised when it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tint: Tint,
}

impl Cell {
    /// In a colour.
    pub fn tinted(text: impl AsRef<str>, tint: Tint) -> Cell {
        Cell { text: sanitise(text.as_ref()).into_owned(), tint }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::tinted(text, Tint::Plain)
    }
}

/// A table, row by row.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
    width_max: usize,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new(), indent: 0, width_max: usize::MAX }
    }

    /// Every line begins with so many spaces.
    pub fn indented(mut self, indent: usize) -> Table {
        self.indent = indent;
        self
    }

    /// At most so many columns, also where the terminal has more.
    pub fn within(mut self, width: usize) -> Table {
        self.width_max = width.max(1);
        self
    }

    /// Adds a row. Cells that it lacks are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        cells.resize(self.columns.len(), Cell::default());
        self.rows.push(cells);
    }

    /// How many rows it has.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines of at most the style's columns, or those of [`Table::within`].
    pub fn render(&self, style: Style) -> String {
        let widths = self.widths(style.width.min(self.width_max));
        let mut out = String::new();
        if self.columns.iter().any(|c| !c.title.is_empty()) {
            let titles = self.columns.iter().map(|c| (c.title, Tint::Dim));
            self.line(&mut out, titles, &widths, style);
        }
        for row in &self.rows {
            let cells: Vec<Vec<String>> = row
                .iter()
                .zip(&self.columns)
                .zip(&widths)
                .map(|((c, column), width)| lines(c, *column, *width))
                .collect();
            for n in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let nth = |lines: &'_ Vec<String>| lines.get(n).cloned().unwrap_or_default();
                let texts: Vec<(String, Tint)> = cells.iter().map(nth).zip(row.iter().map(|c| c.tint)).collect();
                self.line(&mut out, texts.iter().map(|(text, tint)| (text.as_str(), *tint)), &widths, style);
            }
        }
        out
    }

    /// The rows whose cell in this column is shortened when they are rendered.
    pub fn cut_rows(&self, column: usize, style: Style) -> Vec<usize> {
        let width = self.widths(style.width.min(self.width_max))[column];
        let is_cut =
            |row: &Vec<Cell>| lines(&row[column], self.columns[column], width).iter().any(|l| columns(l) > width);
        (0..self.rows.len()).filter(|&n| is_cut(&self.rows[n])).collect()
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| {
                let cells = self.rows.iter().map(|r| columns(&r[i].text));
                cells.chain([columns(c.title)]).max().unwrap_or(0)
            })
            .collect();
        let room = width - self.indent.min(width / 2) + GAP - (GAP * widths.len()).min(width / 2);
        // The widest text gives way first, down to a floor; then whatever is widest.
        for (texts_only, floor) in [(true, NARROW), (true, 1), (false, 1)] {
            while widths.iter().sum::<usize>() > room {
                let widest = (0..widths.len())
                    .filter(|&i| widths[i] > floor && !(texts_only && self.columns[i].is_number))
                    .max_by_key(|&i| (widths[i], std::cmp::Reverse(i)));
                let Some(i) = widest else { break };
                widths[i] -= 1;
            }
        }
        widths
    }

    fn line<'a>(&self, out: &mut String, cells: impl Iterator<Item = (&'a str, Tint)>, widths: &[usize], style: Style) {
        let mut line = " ".repeat(self.indent);
        let mut owed = 0;
        for (i, (text, tint)) in cells.enumerate() {
            let shown = cut(text, widths[i]);
            let fill = widths[i] - columns(&shown);
            let before = owed + if self.columns[i].is_number { fill } else { 0 };
            if !shown.is_empty() {
                let _ = write!(line, "{:before$}{}", "", style.paint(&shown, tint));
                owed = 0;
            } else {
                owed += if self.columns[i].is_number { fill } else { 0 };
            }
            owed += GAP + if self.columns[i].is_number { 0 } else { fill };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// The lines of a cell: one, unless its column is wrapped and too narrow for it.
fn lines(cell: &Cell, column: Column, width: usize) -> Vec<String> {
    if !column.is_wrapped || columns(&cell.text) <= width || width <= 2 * HANGING {
        return vec![cell.text.clone()];
    }
    // a cell that begins with spaces stands below what it belongs to
    let indent = cell.text.len() - cell.text.trim_start().len();
    let below = " ".repeat((indent + HANGING).min(width / 2));
    let mut out: Vec<String> = Vec::new();
    let mut rest = cell.text.as_str();
    while !rest.is_empty() && out.len() + 1 < LINES_MAX {
        let begin = if out.is_empty() { "" } else { below.as_str() };
        if columns(rest) + begin.len() <= width {
            break;
        }
        let fits = |(at, _): &(usize, char)| *at > indent && columns(&rest[..*at]) + begin.len() <= width;
        let Some((at, _)) = rest.char_indices().filter(|(_, c)| *c == ' ').rfind(fits) else { break };
        out.push(format!("{begin}{}", &rest[..at]));
        rest = rest[at..].trim_start();
    }
    if !rest.is_empty() {
        out.push(format!("{}{rest}", if out.is_empty() { "" } else { &below }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::WIDTH_MAX;

    fn plain(table: &Table) -> String {
        table.render(Style::default())
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let mut t = Table::new(&[Column::text("table"), Column::number("rows")]);
        t.row(["waits".into(), "1 234".into()]);
        t.row(["polls".into(), "7".into()]);
        t.row([Cell::default(), "8".into()]);
        assert_eq!(plain(&t), "table   rows\nwaits  1 234\npolls      7\n           8\n");
    }

    #[test]
    fn never_wider_than_the_terminal_and_as_wide_where_it_has_more_to_show() {
        let long = "x".repeat(300);
        for (n, width) in (1..=12).flat_map(|n| [80, 100, 200].map(|width| (n, width))) {
            let columns_: Vec<Column> =
                (0..n).map(|i| if i % 3 == 2 { Column::number("number") } else { Column::text("text") }).collect();
            let mut t = Table::new(&columns_).indented(2);
            t.row((0..n).map(|_| Cell::tinted(&long, Tint::Bad)));
            t.row((0..n).map(|_| Cell::from("漢字かな")));
            let out = t.render(Style { width, ..Style::default() });
            assert_eq!(out.lines().map(columns).max(), Some(width), "{n}: {out}");
        }
    }

    #[test]
    fn text_gives_way_before_numbers() {
        let mut t = Table::new(&[Column::text("what"), Column::number("n"), Column::text("why")]);
        t.row(["y".repeat(90).into(), "123 456 789".into(), "short".into()]);
        let out = plain(&t);
        assert!(out.contains("123 456 789  short") && out.contains('…'), "{out}");
        assert_eq!(out.lines().map(columns).max(), Some(WIDTH_MAX));
    }

    #[test]
    fn a_wrapped_cell_goes_on_below_and_loses_nothing() {
        let text =
            "postgres:27432 waiting for another postgres that holds a lock, in epoll_wait, and what it did meanwhile";
        let mut t = Table::new(&[Column::number("more"), Column::wrapped("spent on"), Column::text("holds")]);
        t.row(["934 ms".into(), text.into(), "857492c7".into()]);
        t.row([Cell::default(), format!("  {text}").into(), Cell::default()]);
        let out = plain(&t);
        assert!(!out.contains('…') && out.lines().all(|l| columns(l) <= WIDTH_MAX), "{out}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let shown: Vec<String> = words(&out).into_iter().filter(|w| *w != "857492c7").collect();
        assert_eq!(shown[4..], [words("934 ms"), words(text), words(text)].concat(), "{out}");
        assert!(
            out.lines().nth(2).is_some_and(|l| l.starts_with("          ") && l.trim().starts_with("what it did")),
            "{out}"
        );
        // a word that is too long is cut, and so is what takes too many lines
        let mut t = Table::new(&[Column::wrapped("a")]);
        t.row(["x".repeat(150).into()]);
        t.row([format!("{} ", "word".repeat(10)).repeat(12).into()]);
        let out = plain(&t);
        assert!(out.lines().count() <= 2 + LINES_MAX && out.lines().all(|l| columns(l) <= WIDTH_MAX), "{out}");
        assert_eq!(out.matches('…').count(), 2, "{out}");
        t.row(["short".into()]);
        assert_eq!(t.cut_rows(0, Style::default()), [0, 1]);
    }

    #[test]
    fn cells_are_sanitised_and_coloured_outside_the_width() {
        let mut t = Table::new(&[Column::text("a"), Column::text("b")]);
        t.row([Cell::tinted("x\x1b[2Jy", Tint::Good), "z".into()]);
        assert_eq!(plain(&t), "a      b\nx?[2Jy  z\n".replace("a      b", "a       b"));
        assert!(t.render(Style { colour: true, ..Style::default() }).contains("\x1b[32mx?[2Jy\x1b[0m  z"));
    }
}
