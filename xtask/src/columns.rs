//! The tables of a folder as documents: `docs/formats/columns.md` has each field, and the list in `docs/queries.md` each
//! column, as `crates/model/src/rows` declares them.

use std::fmt::Write as _;
use std::path::Path;
use wakepath_model::rows::Table;
use wakepath_model::table::Kind;

const COLUMNS: &str = "docs/formats/columns.md";
const QUERIES: &str = "docs/queries.md";
/// Between these lines of `docs/queries.md` stands what is made here.
const MARKS: [&str; 2] = ["<!-- made by `cargo xtask tables`: begin -->\n", "<!-- end -->\n"];

/// A doc comment as a sentence of a document: links are names.
fn plain(about: &str) -> String {
    let text = about.trim().replace("[`", "`").replace("`]", "`").replace("crate::", "").replace("super::", "");
    text.replace('|', "\\|")
}

fn kind(of: Kind) -> &'static str {
    match of {
        Kind::Bool => "true or false",
        Kind::U16 => "16 bits",
        Kind::U32 => "32 bits",
        Kind::I32 => "32 bits, signed",
        Kind::U64 => "64 bits",
        Kind::Ns => "ns",
        Kind::Text => "text",
    }
}

/// The page of all fields.
fn page() -> String {
    let mut out = String::from(
        "# Tables of a folder, field by field\n\n\
         <!-- Made by `cargo xtask tables` from crates/model/src/rows. Do not edit. -->\n\n\
         Each table's rows as they stand in a segment (`docs/formats/folder.md` says how they are packed), and the columns \
         that `wakepath tables` writes of each field. All tables begin with `at`, of which the columns `at_ns` and `wall_time` \
         are made. A column with `?` may have no value.\n",
    );
    for table in Table::ALL {
        let _ = write!(
            out,
            "\n## {} (number {}, {} bytes)\n\n{}\n\n| byte | field | type | columns | meaning |\n| --- | --- | --- | --- | --- |\n",
            table.name(),
            *table as u8,
            table.row_bytes(),
            plain(table.about()),
        );
        for field in table.layout() {
            let columns: Vec<String> = field
                .columns
                .iter()
                .map(|c| format!("`{}`{} ({})", c.name, if c.may_miss { "?" } else { "" }, kind(c.kind)))
                .collect();
            let _ = writeln!(
                out,
                "| {} | `{}` | `{}` | {} | {} |",
                field.at,
                field.name,
                field.stored,
                columns.join(", "),
                plain(field.about)
            );
        }
    }
    out
}

/// The list of columns of each table.
fn list() -> String {
    let mut out = String::new();
    for table in Table::ALL {
        let columns = table.layout().into_iter().flat_map(|f| f.columns);
        let names: Vec<String> = columns.map(|c| format!("`{}`", c.name)).collect();
        let _ = writeln!(out, "| `{}` | {} |", table.name(), names.join(", "));
    }
    out
}

/// `docs/queries.md` with the list as it should be; `None` where it has no place for it.
fn queries(now: &str) -> Option<String> {
    let (before, rest) = now.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    let head = "\n| table | columns |\n| --- | --- |\n";
    Some(format!("{before}{}{head}{}\n{}{after}", MARKS[0], list(), MARKS[1]))
}

fn documents(root: &Path) -> Option<[(&'static str, String); 2]> {
    let now = std::fs::read_to_string(root.join(QUERIES)).ok()?;
    Some([(COLUMNS, page()), (QUERIES, queries(&now)?)])
}

/// Writes the documents.
pub fn write(root: &Path) {
    for (name, text) in documents(root).expect("docs/queries.md has the lines between which the list of columns stands")
    {
        std::fs::write(root.join(name), text).expect("docs is writable");
    }
}

/// Which documents are not what would be written.
pub fn stale(root: &Path) -> Vec<&'static str> {
    let Some(documents) = documents(root) else { return vec![QUERIES] };
    let differs = |(name, text): &(&str, String)| std::fs::read_to_string(root.join(name)).ok().as_ref() != Some(text);
    documents.iter().filter(|d| differs(d)).map(|d| d.0).collect()
}
