//! Parts of documents and schemas that are made from the registries: `cargo xtask tables` writes them, `tidy` compares them.

use std::path::Path;
use wakepath_analysis::causes::{Cause, State};
use wakepath_analysis::reasons;
use wakepath_causality::conditions::CONDITIONS;
use wakepath_decode::readers::Format;
use wakepath_model::defects::{self, Defect};
use wakepath_protocols::{About, Docs, Protocol};

/// A part of a document.
pub struct Made {
    /// The document.
    pub path: &'static str,
    /// Where in it.
    pub place: Place,
    /// Its lines, in order; of an enumeration its words.
    pub rows: Vec<String>,
}

/// Where a part stands.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The rows that begin so; no other row of the document does.
    Rows(&'static str),
    /// The rows below this head of a table.
    Table(&'static str),
    /// The values that a schema allows each property of this name. A `null` behind them stays.
    Enum(&'static str),
}

const EVIDENCE: &str = "docs/evidence.md";

/// All that is made.
pub fn all() -> Vec<Made> {
    let readers = Format::ALL.iter().map(|f| f.about()).map(|a| format!("| `{}` | {} |", a.id, a.reads));
    let mut protocols: Vec<String> = Protocol::ALL.iter().map(|p| p.about()).map(protocol).collect();
    protocols.dedup(); // one on two transports
    let states = || State::ALL.iter().map(|s| s.name().to_owned());
    let cause = |a: &wakepath_analysis::causes::About| format!("| `{}` | {} | {} |", a.name, a.what, a.known_by);
    let causes = || Cause::ALL.iter().map(|c| c.about());
    vec![
        Made { path: "docs/imports.md", place: Place::Rows("| `read."), rows: sorted(readers) },
        Made { path: "docs/protocols.md", place: Place::Rows("| `proto."), rows: protocols },
        Made {
            path: "docs/defects.md",
            place: Place::Table("| defect | severity | may affect | what it means | what to do |"),
            rows: defects::ALL.iter().map(defect).collect(),
        },
        Made {
            path: EVIDENCE,
            place: Place::Table("| state | what the time went to |"),
            rows: State::ALL.iter().map(|s| format!("| `{}` | {} |", s.name(), s.about())).collect(),
        },
        Made {
            path: EVIDENCE,
            place: Place::Table("| why a slice is not known | what it means, and what helps |"),
            rows: reasons::ALL.iter().map(|(reason, explained)| format!("| `{reason}` | {explained} |")).collect(),
        },
        Made {
            path: EVIDENCE,
            place: Place::Table("| cause | what it says | how it is known |"),
            rows: causes().map(cause).collect(),
        },
        Made {
            path: "docs/schemas/why.schema.json",
            place: Place::Enum("cause"),
            rows: causes().map(|a| a.name.to_owned()).collect(),
        },
        Made { path: "docs/schemas/waits.schema.json", place: Place::Enum("state"), rows: states().collect() },
        Made { path: "docs/schemas/waits.schema.json", place: Place::Enum("wait"), rows: states().collect() },
        Made {
            path: "docs/internals/attribution.md",
            place: Place::Table("| condition | what is true where it holds |"),
            rows: CONDITIONS.iter().map(|c| format!("| `{}` | {} |", c.name, c.says)).collect(),
        },
    ]
}

fn defect(d: &Defect) -> String {
    let touches: Vec<&str> = d.touches.iter().map(|t| t.name()).collect();
    let touches = match touches.len() {
        0 => "nothing".to_owned(),
        n if n == defects::EVERYTHING.len() => "every answer".to_owned(),
        _ => touches.join(", "),
    };
    format!("| `{}` | {} | {touches} | {} | {} |", d.id, d.severity.name(), d.meaning, d.remedy)
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
    /// The same part without its rows.
    pub fn emptied(&self) -> Made {
        Made { path: self.path, place: self.place, rows: Vec::new() }
    }

    /// The document with this part; `None` where it has no such place.
    pub fn within(&self, text: &str) -> Option<String> {
        let lines: Vec<&str> = text.lines().collect();
        let made = match self.place {
            Place::Rows(begins) => {
                let is_row = |line: &&str| line.starts_with(begins);
                let first = lines.iter().position(is_row)?;
                let mut others: Vec<&str> = lines.into_iter().filter(|line| !is_row(line)).collect();
                others.splice(first..first, self.rows.iter().map(String::as_str));
                others.join("\n")
            }
            Place::Table(head) => {
                let first = lines.iter().position(|line| *line == head)? + 2;
                let count = lines.get(first..)?.iter().take_while(|line| line.starts_with('|')).count();
                let mut lines = lines;
                lines.splice(first..first + count, self.rows.iter().map(String::as_str));
                lines.join("\n")
            }
            Place::Enum(property) => self.enumeration(&lines, property)?,
        };
        Some(made + "\n")
    }

    fn enumeration(&self, lines: &[&str], property: &str) -> Option<String> {
        let head = format!("\"{property}\": {{");
        let mut out: Vec<String> = Vec::new();
        let (mut rest, mut found) = (lines, false);
        while let Some((line, more)) = rest.split_first() {
            out.push((*line).to_owned());
            rest = more;
            let is_one = line.trim_start() == head && rest.first().is_some_and(|l| l.trim_start() == "\"enum\": [");
            if is_one {
                let end = rest.iter().position(|l| l.trim_start().starts_with(']'))?;
                let (first, last) = (rest[0], rest[end - 1]);
                let indent = " ".repeat(first.len() - first.trim_start().len() + 2);
                let mut words: Vec<String> = self.rows.iter().map(|r| format!("{indent}\"{r}\"")).collect();
                words.extend((last.trim() == "null").then(|| format!("{indent}null")));
                out.push(first.to_owned());
                out.push(words.join(",\n"));
                rest = &rest[end..];
                found = true;
            }
        }
        found.then(|| out.join("\n"))
    }
}

/// Writes the parts into their documents.
pub fn write(root: &Path) {
    for part in all() {
        let path = root.join(part.path);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", part.path));
        let made = part.within(&text).unwrap_or_else(|| panic!("{}: no {:?}", part.path, part.place));
        std::fs::write(&path, made).unwrap_or_else(|e| panic!("{}: {e}", part.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(place: Place, rows: &[&str], text: &str) -> Option<String> {
        Made { path: "", place, rows: rows.iter().map(|r| (*r).to_owned()).collect() }.within(text)
    }

    #[test]
    fn rows_are_replaced_where_they_stand() {
        let rows = ["| `x.a` | 1 |", "| `x.b` | 2 |"];
        let text = "# T\n\n| id | n |\n| --- | --- |\n| `x.b` | 3 |\n\nend\n";
        let made = "# T\n\n| id | n |\n| --- | --- |\n| `x.a` | 1 |\n| `x.b` | 2 |\n\nend\n";
        for place in [Place::Rows("| `x."), Place::Table("| id | n |")] {
            assert_eq!(within(place, &rows, text).as_deref(), Some(made));
            assert_eq!(within(place, &rows, made).as_deref(), Some(made));
            assert_eq!(within(place, &rows, "nothing"), None);
        }
    }

    #[test]
    fn values_of_a_schema_are_replaced_wherever_the_property_stands() {
        let one = |values: &str| format!("  \"a\": {{\n    \"enum\": [\n      {values}\n    ]\n  }},\n");
        let text = one("\"x\"") + &one("\"y\",\n      null") + "  \"a\": {\n    \"type\": \"string\"\n  }\n";
        let made = one("\"p\",\n      \"q\"")
            + &one("\"p\",\n      \"q\",\n      null")
            + "  \"a\": {\n    \"type\": \"string\"\n  }\n";
        assert_eq!(within(Place::Enum("a"), &["p", "q"], &text).as_deref(), Some(made.as_str()));
        assert_eq!(within(Place::Enum("b"), &["p", "q"], &text), None);
    }
}
