//! Tasks of the workspace: `cargo xtask bindings` writes `probes/bpf/wire.h` from `crates/wire`; `cargo xtask tables` writes
//! what documents, schemas and lists have of the registries; `cargo xtask dist` makes packages; `cargo xtask transcripts` compares documents with what commands print; `cargo xtask tidy` holds the tree against its rules, as a test
//! does too.

mod bindings;
mod canary;
mod columns;
mod dist;
mod tables;
mod tidy;
mod transcripts;

use std::path::Path;
use std::process::ExitCode;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root")
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("bindings") => {
            bindings::write(root());
            ExitCode::SUCCESS
        }
        Some("tables") => {
            tables::write(root());
            columns::write(root());
            ExitCode::SUCCESS
        }
        Some("canary") => match canary::run(root(), std::env::args().nth(2).as_deref()) {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
        Some("dist") => match dist::run(root(), &std::env::args().skip(2).collect::<Vec<_>>()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("dist: {e:#}");
                ExitCode::FAILURE
            }
        },
        Some("tidy") => {
            for e in tidy::exceptions(root()) {
                eprintln!("{e}");
            }
            let problems = tidy::problems(root());
            for p in &problems {
                println!("{p}");
            }
            if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Some("transcripts") => {
            let made = std::env::args().nth(2).unwrap_or_default();
            match transcripts::run(root(), Path::new(&made)) {
                Ok(0) => ExitCode::SUCCESS,
                Ok(outdated) => {
                    eprintln!(
                        "transcripts: {outdated} documents show what is not printed any more; remedy: paste {made}/answers"
                    );
                    ExitCode::FAILURE
                }
                Err(e) => {
                    eprintln!("transcripts: {e}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => {
            eprintln!("usage: cargo xtask bindings|tables|tidy|dist [--arch ARCH]|canary [CONDITION]|transcripts DIR");
            ExitCode::from(2)
        }
    }
}
