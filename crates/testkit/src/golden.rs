//! Golden cases: folders `tests/golden/ID/SITUATION` with an input and the answer that is expected.

use std::path::{Path, PathBuf};

/// Where the cases are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// The cases of an id, by name.
///
/// # Panics
/// Where there is none.
pub fn cases(id: &str) -> Vec<PathBuf> {
    let of = root().join(id);
    let entries = std::fs::read_dir(&of).unwrap_or_else(|e| panic!("{}: {e}", of.display()));
    let mut cases: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    cases.sort();
    assert!(!cases.is_empty(), "{}: no case", of.display());
    cases
}

/// Runs a test for each case of an id, and names all those that fail.
///
/// # Panics
/// Where one fails.
pub fn each(id: &str, test: impl Fn(&Path)) {
    let fails = |case: &PathBuf| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(case))).is_err();
    let failed: Vec<PathBuf> = cases(id).into_iter().filter(fails).collect();
    assert!(failed.is_empty(), "these cases fail, see above for the first difference of each: {failed:#?}");
}

/// A text file of a case.
///
/// # Panics
/// Where it cannot be read.
pub fn text(case: &Path, file: &str) -> String {
    let path = case.join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Holds `got` against `expected.txt` of a case's folder. With `UPDATE_GOLDEN` set in the environment that file is written
/// first, so that what changed shows as a change of the file.
///
/// # Panics
/// Where they differ: with the first line that does.
pub fn holds(case: &Path, got: &str) {
    holds_as(case, "expected.txt", got);
}

/// As [`holds`], for an answer in another file.
///
/// # Panics
/// Where they differ.
pub fn holds_as(case: &Path, file: &str, got: &str) {
    let path = case.join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, got).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let first = got.lines().zip(expected.lines()).enumerate().find(|(_, (a, b))| a != b);
    assert!(got == expected, "{}: the first difference: {first:?}; in all\n{got}", path.display());
}
