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

/// Services that call each other, or one that calls itself, so deep that no stack holds a frame for each.
#[test]
fn a_request_may_be_thousands_of_calls_deep() {
    const DEPTH: usize = 5_000;
    let mut script = String::from("task T0 app\nflow f0 - T0\n");
    for i in 1..=DEPTH {
        script += &format!("task T{i} app{i}\nflow f{i} T{} T{i}\n", i - 1);
    }
    script += "100 T0 takes q0 f0\n";
    let mut at = 100;
    for i in 1..=DEPTH {
        script += &format!("{} T{} asks q{i} f{i} for q{}\n{} T{i} takes q{i}\n", at + 10, i - 1, i - 1, at + 20);
        at += 20;
    }
    for i in (1..=DEPTH).rev() {
        script += &format!("{} T{i} answers q{i}\n{} T{} hears q{i}\n", at + 10, at + 20, i - 1);
        at += 20;
    }
    script += &format!("{} T0 answers q0\n", at + 10);
    let recording = play(&script).expect("a script");
    let f = found(&recording, Cuts::default());
    let verdict = recording.truth.judge(&f.claims());
    assert!(verdict.wrong.is_empty());
    assert_eq!(f.requests.iter().map(|r| r.spans.len()).collect::<Vec<_>>(), [DEPTH + 1]);
}
