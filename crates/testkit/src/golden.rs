//! Answers that stand in files.

use std::path::Path;

/// Holds `got` against `expected.txt` of a case's folder. With `WAKEPATH_BLESS` set in the environment that file is written
/// first, so that what changed shows as a change of the file.
///
/// # Panics
/// Where they differ: with the first line that does.
pub fn holds(case: &Path, got: &str) {
    let path = case.join("expected.txt");
    if std::env::var_os("WAKEPATH_BLESS").is_some() {
        std::fs::write(&path, got).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let first = got.lines().zip(expected.lines()).enumerate().find(|(_, (a, b))| a != b);
    assert!(got == expected, "{}: the first difference: {first:?}; in all\n{got}", case.display());
}
