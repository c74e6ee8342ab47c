//! Every folder `tests/golden/proto.*/*` is a test; the registry is held against the folders.

mod support;

use std::collections::BTreeSet;
use support::{cases, folders, golden_root, run};
use wakepath_protocols::Protocol;

#[test]
fn every_case_gives_what_is_expected() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = String::new();
    for case in cases() {
        let recorder = run(case.protocol, case.offset, &case.steps, |len| len);
        let got = recorder.lines.join("\n") + "\n";
        let path = case.folder.join("expected.txt");
        if update {
            std::fs::write(&path, &got).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if expected != got {
            wrong += &format!("--- {}: expected\n{expected}+++ got\n{got}", case.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn registry_and_folders_name_the_same_protocols() {
    let listed: BTreeSet<_> = Protocol::ALL.iter().map(|p| p.id().to_string()).collect();
    let golden: BTreeSet<_> = folders(&golden_root())
        .iter()
        .map(|f| f.file_name().unwrap().to_str().unwrap().to_string())
        .filter(|name| name.starts_with("proto."))
        .collect();
    assert_eq!(listed, golden);
    for protocol in Protocol::ALL {
        let count = cases().iter().filter(|c| c.protocol == *protocol).count();
        assert!(count > 0, "{protocol:?} has no golden case");
    }
}
