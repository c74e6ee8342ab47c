//! One id serves code, golden folders and documents: the three are held against each other.

use super::Tree;
use crate::tables;
use std::collections::BTreeSet;
use wakepath_causality::evidence::{Gap, Rule};
use wakepath_decode::readers::Format;
use wakepath_protocols::Protocol;

const PROTOCOLS: &str = "crates/protocols/src/processors.rs";
const EVIDENCE: &str = "docs/evidence.md";
const READERS: &str = "crates/decode/src/readers/mod.rs";
const RULES: &str = "crates/causality/src/evidence.rs";

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    protocols(tree, out);
    evidence(tree, out);
    readers(tree, out);
    made(tree, out);
}

/// Every protocol has golden cases, and nothing else has.
fn protocols(tree: &Tree, out: &mut Vec<String>) {
    let ids = Protocol::ALL.iter().map(|p| p.id().to_owned()).collect();
    golden(tree, "proto.", &ids, PROTOCOLS, out);
}

/// Every reader has golden cases, and nothing else has.
fn readers(tree: &Tree, out: &mut Vec<String>) {
    let ids = Format::ALL.iter().map(|f| f.about().id.to_owned()).collect();
    golden(tree, "read.", &ids, READERS, out);
}

/// Golden folders whose names begin so are those of a registry.
fn golden(tree: &Tree, begins: &str, ids: &BTreeSet<String>, registry: &str, out: &mut Vec<String>) {
    let folders = tree.folders("tests/golden").into_iter().filter(|g| g.starts_with(begins)).collect();
    for id in ids.symmetric_difference(&folders) {
        out.push(format!("{id}: must be in {registry} and in tests/golden alike"));
    }
}

/// Tables that are made from the registries are as they would be made now.
fn made(tree: &Tree, out: &mut Vec<String>) {
    for table in tables::all() {
        if table.within(tree.text(table.path)).as_deref() != Some(tree.text(table.path)) {
            out.push(format!("{}: {:?} is not as the registry has it: cargo xtask tables", table.path, table.place));
        }
    }
}

/// Every rule's and every gap's name, as it is shown, is explained.
fn evidence(tree: &Tree, out: &mut Vec<String>) {
    let documented: BTreeSet<&str> = first_cells(tree.text(EVIDENCE)).collect();
    let shown: BTreeSet<&str> = Rule::ALL.map(Rule::name).into_iter().chain(Gap::ALL.map(Gap::name)).collect();
    for name in &shown {
        if !documented.contains(name) {
            out.push(format!("{EVIDENCE}: no row `{name}`; {RULES} shows it"));
        }
    }
}

/// The back-quoted word that a table's row begins with.
fn first_cells(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|l| l.strip_prefix("| `")?.split_once('`').map(|(cell, _)| cell))
}

#[cfg(test)]
mod tests {
    use super::first_cells;

    #[test]
    fn rows_begin_with_their_id() {
        let text = "| id | what |\n| --- | --- |\n| `proto.x` | `y` |\n`proto.z`";
        assert_eq!(first_cells(text).collect::<Vec<_>>(), ["proto.x"]);
    }
}
