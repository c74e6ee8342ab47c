//! Tasks of this repository. `cargo xtask help` lists them, with the other commands that contributors need.

mod bindings;
mod canary;
mod columns;
mod dist;
mod help;
mod tables;
mod tidy;
mod touched;
mod transcripts;

use std::path::Path;
use std::process::ExitCode;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root")
}

/// A task of `cargo xtask`.
struct Task {
    name: &'static str,
    /// Its arguments, as help shows them.
    takes: &'static str,
    /// What it does, in one line.
    does: &'static str,
    run: fn(&[String]) -> ExitCode,
}

/// All tasks, in the order of help.
const TASKS: &[Task] = &[
    Task {
        name: "help",
        takes: "",
        does: "list what to run for what",
        run: |_| {
            print!("{}", help::text());
            ExitCode::SUCCESS
        },
    },
    Task { name: "tidy", takes: "", does: "check the tree against its rules; `cargo test` does so too", run: tidy },
    Task {
        name: "tables",
        takes: "",
        does: "write the parts of documents and schemas that come from registries",
        run: |_| {
            tables::write(root());
            columns::write(root());
            ExitCode::SUCCESS
        },
    },
    Task {
        name: "bindings",
        takes: "",
        does: "write probes/bpf/wire.h from crates/wire",
        run: |_| {
            bindings::write(root());
            ExitCode::SUCCESS
        },
    },
    Task {
        name: "canary",
        takes: "[CONDITION]",
        does: "switch each condition of the rules off in turn; some test must fail",
        run: |args| match canary::run(root(), args.first().map(String::as_str)) {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
    },
    Task {
        name: "touched",
        takes: "[--write]",
        does: "count the files that the last additions of each kind touched; or write that",
        run: |args| done("touched", touched::run(root(), args.iter().any(|a| a == "--write"))),
    },
    Task {
        name: "transcripts",
        takes: "DIR",
        does: "compare what documents show with what commands print",
        run: transcripts,
    },
    Task {
        name: "dist",
        takes: "[--arch ARCH]",
        does: "make packages",
        run: |args| done("dist", dist::run(root(), args).map_err(|e| format!("{e:#}"))),
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let task = args.first().and_then(|name| TASKS.iter().find(|t| t.name == name));
    match task {
        Some(task) => (task.run)(&args[1..]),
        None => {
            eprint!("{}", help::text());
            ExitCode::from(2)
        }
    }
}

/// Success, or the error on standard error.
fn done(task: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{task}: {e}");
            ExitCode::FAILURE
        }
    }
}

fn tidy(_: &[String]) -> ExitCode {
    for e in tidy::exceptions(root()) {
        eprintln!("{e}");
    }
    let problems = tidy::problems(root());
    for p in &problems {
        println!("{p}");
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn transcripts(args: &[String]) -> ExitCode {
    let made = args.first().map_or("", String::as_str);
    let result = match transcripts::run(root(), Path::new(made)) {
        Ok(0) => Ok(()),
        Ok(outdated) => {
            Err(format!("{outdated} documents show what is not printed any more; remedy: paste {made}/answers"))
        }
        Err(e) => Err(e.to_string()),
    };
    done("transcripts", result)
}
