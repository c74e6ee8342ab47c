//! The reader of CTF traces: golden cases (`tests/golden/read.ctf`), other people's traces held against babeltrace2, and
//! what must hold for any trace.

mod data;
mod properties;
mod support;

use std::path::{Path, PathBuf};
use support::{Lines, case, events, reader};
use wakepath_decode::readers::TraceReader as _;

/// Folders of the golden cases.
fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/read.ctf");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut cases: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

#[test]
fn every_case_gives_what_is_expected() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = String::new();
    for folder in cases() {
        let name = folder.display();
        let input = std::fs::read_to_string(folder.join("input.txt")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (metadata, streams) = case(&input);
        let mut lines = Lines::default();
        let mut raw = reader(&metadata, &streams);
        raw.run(&mut lines);
        let mut got = String::from("events\n");
        for line in events(&mut reader(&metadata, &streams)) {
            got += &format!("  {line}\n");
        }
        got += "facts\n";
        for line in &lines.0 {
            got += &format!("  {line}\n");
        }
        got += &format!("host {:?}\n{:?}\n", raw.facts(), raw.tally());
        for fault in raw.counts().faults {
            got += &format!("fault {} in {} at byte {}: {}\n", fault.defect, fault.file, fault.offset, fault.what);
        }
        let path = folder.join("expected.txt");
        if update {
            std::fs::write(&path, &got).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if expected != got {
            wrong += &format!("--- {name}: expected\n{expected}+++ got\n{got}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
