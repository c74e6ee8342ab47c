//! One id serves code, golden folders and documents: the three are held against each other.

use super::Tree;
use crate::tables;
use std::collections::BTreeSet;
use wakepath_decode::readers::Format;
use wakepath_protocols::Protocol;

const PROTOCOLS: &str = "docs/protocols.md";
const EVIDENCE: &str = "docs/evidence.md";
const READERS: &str = "crates/decode/src/readers/mod.rs";
const RULES: &str = "crates/causality/src/evidence.rs";

pub fn check(tree: &Tree, out: &mut Vec<String>) {
    protocols(tree, out);
    evidence(tree, out);
    readers(tree, out);
    made(tree, out);
}

fn protocols(tree: &Tree, out: &mut Vec<String>) {
    let ids: BTreeSet<&str> = Protocol::ALL.iter().map(|p| p.id()).collect();
    let golden = tree.folders("tests/golden");
    let documented: BTreeSet<&str> = first_cells(tree.text(PROTOCOLS)).filter(|w| w.starts_with("proto.")).collect();
    for id in &ids {
        if !golden.iter().any(|g| g == id) {
            out.push(format!("tests/golden/{id}: missing; the registry of crates/protocols has it"));
        }
        if !documented.contains(id) {
            out.push(format!("{PROTOCOLS}: no row `{id}`; the registry of crates/protocols has it"));
        }
    }
    for id in golden.iter().map(String::as_str).filter(|g| g.starts_with("proto.")).chain(documented.iter().copied()) {
        if !ids.contains(id) {
            out.push(format!("{id}: has a golden folder or a row in {PROTOCOLS}, but the registry does not know it"));
        }
    }
}

/// Every reader has golden cases, and nothing else has.
fn readers(tree: &Tree, out: &mut Vec<String>) {
    let ids = Format::ALL.iter().map(|f| f.about().id.to_owned()).collect::<BTreeSet<_>>();
    let golden = tree.folders("tests/golden").into_iter().filter(|g| g.starts_with("read.")).collect();
    for id in ids.symmetric_difference(&golden) {
        out.push(format!("{id}: must be in {READERS} and in tests/golden alike"));
    }
}

/// Tables that are made from the registries are as they would be made now.
fn made(tree: &Tree, out: &mut Vec<String>) {
    for table in tables::all() {
        if table.within(tree.text(table.path)).as_deref() != Some(tree.text(table.path)) {
            out.push(format!(
                "{}: its table `{}` is not as the registry has it: cargo xtask tables",
                table.path, table.begins
            ));
        }
    }
}

/// Every rule's and every hole's name, as it is shown, is explained.
fn evidence(tree: &Tree, out: &mut Vec<String>) {
    let documented: BTreeSet<&str> = first_cells(tree.text(EVIDENCE)).collect();
    let shown: BTreeSet<&str> = ["Rule::", "Hole::"]
        .iter()
        .flat_map(|kind| tree.text(RULES).lines().filter(move |l| l.trim_start().starts_with(kind)))
        .filter_map(|l| l.split_once("=> \"")?.1.split_once('"').map(|(name, _)| name))
        .collect();
    if shown.is_empty() {
        out.push(format!("{RULES}: no names of rules found there; xtask/src/tidy/registries.rs must look elsewhere"));
    }
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
