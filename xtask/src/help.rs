//! `cargo xtask help`: what to run for what, one line a task.

use crate::TASKS;
use std::fmt::Write as _;

/// Commands that are no tasks of ours: what for, and what to run.
const OTHERS: &[(&str, &str)] = &[
    ("format", "cargo fmt"),
    ("lints", "cargo clippy -p CRATE --all-targets -- -D warnings"),
    ("build the command", "cargo build -p wakepath"),
    ("build the page", "scripts/page"),
    ("tests of one crate", "cargo test -p CRATE NAME"),
    ("tests that CI runs", "./test (./test --help lists its steps)"),
    ("tests with emulators", "./test extended"),
    ("goldens of the linker", "UPDATE_GOLDEN=1 cargo test -p wakepath-causality --test golden"),
    ("goldens of protocols", "UPDATE_GOLDEN=1 cargo test -p wakepath-protocols"),
    ("goldens of readers", "UPDATE_GOLDEN=1 cargo test -p wakepath-decode --test tracers"),
    ("goldens of paths", "UPDATE_GOLDEN=1 cargo test -p wakepath-analysis --test paths"),
    ("search for wrong links", "PROPTEST_CASES=2000 cargo test -p wakepath-causality --test simulated"),
    ("one bench", "bench/NAME --quick (bench/README.md)"),
    ("all benches", "bench/all --quick"),
    ("fuzz one target", "cargo +nightly fuzz run TARGET (targets: fuzz/fuzz_targets)"),
    ("a runtime's layout", "scripts/runtime-offsets RUNTIME PROGRAM"),
    ("record a demo", "./demo"),
    ("debug a recording", "docs/internals/debugging.md"),
];

/// The whole text.
pub fn text() -> String {
    let mut out = String::from("Tasks of this repository:\n");
    for task in TASKS {
        let command = format!("{} {}", task.name, task.takes);
        let _ = writeln!(out, "  cargo xtask {command:<24} {}", task.does);
    }
    out.push_str("\nFor what to run what:\n");
    for (purpose, command) in OTHERS {
        let _ = writeln!(out, "  {purpose:<24} {command}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a command that name files or folders of the repository, or packages.
    fn places(command: &str) -> impl Iterator<Item = &str> {
        let words = command.split([' ', '(', ')']).map(|w| w.trim_start_matches("./"));
        words.filter(|w| w.contains('/') && !w.contains("NAME"))
    }

    #[test]
    fn help_names_each_task_and_only_what_exists() {
        let text = text();
        assert!(TASKS.iter().all(|t| text.contains(&format!("cargo xtask {} ", t.name))), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
        for (_, command) in OTHERS {
            for place in places(command) {
                assert!(crate::root().join(place).exists(), "{command}: {place} does not exist");
            }
        }
        assert_eq!(places("scripts/x Y (see docs/z.md)").collect::<Vec<_>>(), ["scripts/x", "docs/z.md"]);
    }
}
