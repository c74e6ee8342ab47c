//! Every folder `tests/golden/link.*/*` is a test: a script (`wakepath_testkit::script`), and the paths that it gives. For each
//! rule there is a case in which its condition holds, and one in which it does not: then the link must be left open.
//! Whatever is expected, no parent may be wrong. `UPDATE_GOLDEN=1` writes `expected.txt` anew.

mod support;

use std::path::{Path, PathBuf};
use support::found;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut folders: Vec<_> = entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}

#[test]
fn every_case_gives_what_is_expected() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let is_link = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("link."));
    let mut wrong = String::new();
    let mut count = 0;
    for case in folders(&root).into_iter().filter(is_link).flat_map(|rule| folders(&rule)) {
        let name = case.strip_prefix(&root).unwrap_or(&case).display().to_string();
        let input = std::fs::read_to_string(case.join("input.txt")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let recording = play(&input).unwrap_or_else(|e| panic!("{name}: {e}"));
        let f = found(&recording, Cuts::default());
        let verdict = recording.truth.judge(&f.claims());
        if !verdict.wrong.is_empty() {
            wrong += &format!("{name}: WRONG PARENT: {:?}\n", verdict.wrong);
        }
        let got = f.text(&recording.truth);
        let path = case.join("expected.txt");
        if update {
            std::fs::write(&path, &got).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if expected != got {
            wrong += &format!("--- {name}: expected\n{expected}+++ got\n{got}");
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 30, "{count} cases");
}
