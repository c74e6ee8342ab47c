//! `cargo xtask canary`: takes each condition of the rules away in turn. A test must fail each time: if none does, the condition
//! is not guarded, or not needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tests that are asked, quick ones first.
const TESTS: [&str; 3] = ["golden", "rest", "simulated"];

/// The conditions that the rules ask for: the words of `holds("…", …)` in `crates/causality/src`.
///
/// # Panics
/// Where the sources cannot be read.
pub fn asked_for(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.join("crates/causality/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            for after in text.split("holds(").skip(1) {
                let name = after.trim_start().strip_prefix('"').and_then(|t| t.split('"').next());
                found.extend(name.map(str::to_owned));
            }
        }
    }
    found
}

/// Runs it for all conditions, or for those whose names begin so; gives the number that no test guards.
///
/// # Panics
/// Where the tests cannot be built or started.
pub fn run(root: &Path, wanted: Option<&str>) -> usize {
    let tests = build(root);
    let wanted = wanted.unwrap_or_default();
    let conditions: Vec<String> = asked_for(root).into_iter().filter(|c| c.starts_with(wanted)).collect();
    let mut unguarded = 0;
    let mut likely: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for condition in &conditions {
        let rule = condition.split('.').next().unwrap_or(condition);
        let likely = likely.entry(rule).or_insert_with(|| vec![format!("link.{rule}")]);
        match guard(root, &tests, condition, likely) {
            Some(test) => {
                println!("{condition}: guarded by {test}");
                let folder = folder(&test).filter(|f| !likely.iter().any(|l| l == f));
                likely.extend(folder.map(str::to_owned));
            }
            None => {
                println!("{condition}: NOT GUARDED: no test fails without it");
                unguarded += 1;
            }
        }
    }
    println!("{} conditions, {unguarded} not guarded", conditions.len());
    unguarded
}

/// The test binaries, built as `cargo test --workspace` builds them: `./test` has them already.
fn build(root: &Path) -> Vec<PathBuf> {
    let mut args = vec!["test", "-q", "--workspace", "--locked", "--no-run", "--message-format=json"];
    args.extend(TESTS.iter().flat_map(|t| ["--test", t]));
    let built = Command::new("cargo").args(&args).current_dir(root).stderr(Stdio::inherit()).output();
    let built = built.expect("cargo starts");
    assert!(built.status.success(), "the tests cannot be built");
    let text = String::from_utf8_lossy(&built.stdout);
    let artifacts: Vec<serde_json::Value> = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let binary = |test: &str| {
        let is_it = |a: &&serde_json::Value| {
            let of_linker = a["manifest_path"].as_str().is_some_and(|p| p.ends_with("crates/causality/Cargo.toml"));
            of_linker && a["target"]["name"] == test && a["executable"].is_string()
        };
        let found = artifacts.iter().find(is_it).and_then(|a| a["executable"].as_str());
        PathBuf::from(found.unwrap_or_else(|| panic!("cargo does not say where {test} is")))
    };
    TESTS.iter().map(|t| binary(t)).collect()
}

/// The first test that fails without the condition. Golden cases where conditions of the same rule failed are asked first.
fn guard(root: &Path, tests: &[PathBuf], condition: &str, likely: &[String]) -> Option<String> {
    let first = likely.iter().find_map(|folder| failing(root, &tests[0], condition, Some(folder)));
    first.or_else(|| tests.iter().find_map(|t| failing(root, t, condition, None)))
}

/// The folder of golden cases in a test's name.
fn folder(test: &str) -> Option<&str> {
    let (folder, _) = test.split_once("::")?.1.split_once('/')?;
    Some(folder)
}

/// The first test of a binary, among those with `filter` in their names, that fails without the condition.
fn failing(root: &Path, test: &Path, condition: &str, filter: Option<&str>) -> Option<String> {
    let run = Command::new(test)
        .args(filter)
        .env("WAKEPATH_CANARY", condition)
        .env("RUST_BACKTRACE", "0")
        .current_dir(root.join("crates/causality"))
        .output()
        .expect("a test starts");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let failed =
        |l: &str| l.strip_prefix("test ")?.strip_suffix("FAILED").map(|n| n.trim_end_matches([' ', '.']).to_owned());
    let name = text.lines().find_map(failed);
    (!run.status.success()).then(|| name.unwrap_or_else(|| "a test that did not end".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_causality::conditions::CONDITIONS;

    #[test]
    fn a_golden_test_names_its_folder() {
        assert_eq!(folder("gives_the_paths_that_are_expected::link.sole/often/input.txt"), Some("link.sole"));
        assert_eq!(folder("rest::reads_in_turn"), None);
    }

    #[test]
    fn each_condition_that_rules_ask_has_a_sentence_and_each_sentence_is_of_one() {
        let asked = asked_for(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")));
        let listed: BTreeSet<String> = CONDITIONS.iter().map(|c| c.name.to_owned()).collect();
        assert_eq!(asked.symmetric_difference(&listed).collect::<Vec<_>>(), Vec::<&String>::new());
        assert!(CONDITIONS.is_sorted_by_key(|c| c.name), "they stand in the order of their names");
    }
}
