//! `wakepath-score`: holds a trace's reconstructed paths against what a testbed knows to be true.
//!
//! Exit 0 where everything that was claimed is true, 1 where something is not, 2 for wrong usage or unreadable input.

mod bases;
mod marked;
mod marks;
mod paths;
mod show;
mod truth;

use anyhow::{Context as _, Result};
use clap::Parser;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use wakepath_causality::reconstruct;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::rows::{Event, Table};

use crate::marked::{Expect, Marked};
use crate::paths::Score;
use crate::show::Show;
use crate::truth::Truth;

/// Completeness and accuracy of a trace's paths, and right, orphan and wrong links
#[derive(Parser)]
#[command(name = "wakepath-score")]
struct Args {
    /// Trace folder
    trace: PathBuf,
    /// Truth file (docs/formats/truth.md)
    truth: PathBuf,
    /// Links may rest on identifiers that services hand on: they may be the very ones that the truth was made from
    #[arg(long)]
    witness: bool,
    /// One JSON document on standard output
    #[arg(long)]
    json: bool,
    /// Print so many wrong paths, with what the trace has of them
    #[arg(long, default_value_t = 0, value_name = "N")]
    show: usize,
    /// TRUTH is the load generator's (vload); the raw heads of a recording with --payload heads say which message is
    /// whose, and the routes what each request must do
    #[arg(long, conflicts_with = "rid")]
    demo: bool,
    /// The same for any stack whose messages carry rid=ID
    #[arg(long)]
    rid: bool,
    /// With --rid: so many messages below each root
    #[arg(long, value_name = "N", requires = "rid")]
    messages: Option<u32>,
    /// TRUTH has another clock's times, as that of a guest: brings it to the recording's by the first message of each connection;
    /// with --demo and --rid, leaves times out
    #[arg(long)]
    other_clock: bool,
    /// Print so many paths that say they are incomplete
    #[arg(long, default_value_t = 0, value_name = "N")]
    show_incomplete: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("wakepath-score: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    let mut folder = Folder::open(&[&args.trace])?;
    if !args.witness {
        folder.refuse_witness();
    }
    if args.demo || args.rid {
        return run_marked(args, &folder);
    }
    let mut truth = Truth::read(&args.truth)?;
    if args.other_clock {
        truth.set_back(bases::lead_ns(&folder, &truth).context("the recording has no connection of the truth")?);
    }
    let mut score = Score::new(&truth, &folder);
    let mut show = Show::new(&truth, args.show);
    let mut left = args.show_incomplete;
    let started = Instant::now();
    let report = reconstruct(
        &folder,
        |request| {
            if let Some(wrong) = score.take(&request)
                && show.wants_more()
            {
                show.keep(&wrong);
            } else if left > 0 && !request.is_complete() {
                left -= 1;
                eprintln!("incomplete: {}", show::admitted(&truth, &request));
            }
        },
        |_, _, _, _| {},
    );
    let took = started.elapsed();
    let outcome = score.finish(&report);
    eprint!("{}", show.print(&folder));
    if args.json {
        let mut document = outcome.json();
        document["losses"] = losses(&folder);
        println!("{document}");
        eprint!("{}", outcome.table());
    } else {
        print!("{}", outcome.table());
    }
    for d in folder.defects() {
        eprintln!("folder: {d:?}");
    }
    eprintln!("took          {:.2} s, {} exchanges held at most", took.as_secs_f64(), report.held_max);
    Ok(outcome.correct == outcome.reported && outcome.links.wrong == 0)
}

/// What the recording lost, by defect.
fn losses(folder: &Folder) -> serde_json::Value {
    let mut lost: BTreeMap<String, u64> = BTreeMap::new();
    for host in folder.hosts() {
        for event in host.events(TableSet::of(&[Table::Loss]), ..) {
            if let Event::Loss(r) = event {
                *lost.entry(host.text(r.what).to_owned()).or_default() += r.count;
            }
        }
    }
    serde_json::json!(lost)
}

fn run_marked(args: &Args, folder: &Folder) -> Result<bool> {
    let expect = if args.demo { Expect::Demo } else { Expect::Messages(args.messages) };
    let mut marked = Marked::new(folder, &args.truth, expect, args.show)?;
    if args.other_clock {
        marked = marked.by_other_clock();
    }
    let report = reconstruct(folder, |request| marked.take(&request), |_, _, _, _| {});
    let outcome = marked.finish(&report);
    eprint!("{}", outcome.shown);
    if args.json {
        let mut document = outcome.json();
        document["losses"] = losses(folder);
        println!("{document}");
        eprint!("{}", outcome.table());
    } else {
        print!("{}", outcome.table());
    }
    for d in folder.defects() {
        eprintln!("folder: {d:?}");
    }
    Ok(outcome.is_true())
}
