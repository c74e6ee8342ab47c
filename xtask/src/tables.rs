//! Tables of documents that are made from the registries: `cargo xtask tables` writes them, `tidy` compares them.

use std::path::Path;
use wakepath_decode::readers::Format;
use wakepath_protocols::{About, Docs, Protocol};

/// A table of a document.
pub struct Made {
    /// The document.
    pub path: &'static str,
    /// What its rows begin with; no other row of the document does.
    pub begins: &'static str,
    /// Its rows, in order.
    pub rows: Vec<String>,
}

/// All tables that are made.
pub fn all() -> Vec<Made> {
    let readers = Format::ALL.iter().map(|f| f.about()).map(|a| format!("| `{}` | {} |", a.id, a.reads));
    let mut protocols: Vec<String> = Protocol::ALL.iter().map(|p| p.about()).map(protocol).collect();
    protocols.dedup(); // one on two transports
    vec![
        Made { path: "docs/imports.md", begins: "| `read.", rows: sorted(readers) },
        Made { path: "docs/protocols.md", begins: "| `proto.", rows: protocols },
    ]
}

fn protocol(about: &About) -> String {
    let Docs { what, request, kept, pairs } = about.docs;
    format!("| `{}` | {what} | {request} | {kept} | {pairs} |", about.id)
}

fn sorted(rows: impl Iterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    rows
}

impl Made {
    /// The document with these rows; `None` where it has no such table.
    pub fn within(&self, text: &str) -> Option<String> {
        let is_row = |line: &&str| line.starts_with(self.begins);
        let first = text.lines().position(|line| is_row(&line))?;
        let mut lines: Vec<&str> = text.lines().filter(|line| !is_row(line)).collect();
        lines.splice(first..first, self.rows.iter().map(String::as_str));
        Some(lines.join("\n") + "\n")
    }
}

/// Writes the tables into their documents.
pub fn write(root: &Path) {
    for table in all() {
        let path = root.join(table.path);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", table.path));
        let made = table.within(&text).unwrap_or_else(|| panic!("{}: no row `{}`", table.path, table.begins));
        std::fs::write(&path, made).unwrap_or_else(|e| panic!("{}: {e}", table.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_replaced_where_they_stand() {
        let table = Made { path: "", begins: "| `x.", rows: vec!["| `x.a` | 1 |".into(), "| `x.b` | 2 |".into()] };
        let text = "# T\n\n| id | n |\n| --- | --- |\n| `x.b` | 3 |\n\nend\n";
        let made = "# T\n\n| id | n |\n| --- | --- |\n| `x.a` | 1 |\n| `x.b` | 2 |\n\nend\n";
        assert_eq!(table.within(text).as_deref(), Some(made));
        assert_eq!(table.within(made).as_deref(), Some(made));
        assert_eq!(table.within("nothing"), None);
    }
}
