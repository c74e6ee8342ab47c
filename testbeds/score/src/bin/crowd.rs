//! `wakepath-crowd`: the trace of a simulated service that has so many requests open at once. For measuring what each costs.

use anyhow::{Result, anyhow};
use clap::Parser;
use std::path::PathBuf;
use wakepath_testkit::crowd::{Plan, Serves, simulate};
use wakepath_testkit::recording::Cuts;

/// Writes the trace of a service with many requests open at once
#[derive(Parser)]
#[command(name = "wakepath-crowd")]
struct Args {
    /// How it works: loop, loops, isolated, workers, timers, parked
    serves: String,
    /// Folder to make
    out: PathBuf,
    /// Requests open at once
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=24_000))]
    open: u64,
    /// Requests in all
    #[arg(long, default_value_t = 60_000)]
    requests: u64,
    /// Most inputs that a loop is given at once
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    at_once: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let found = Serves::ALL.into_iter().find(|(name, _)| *name == args.serves);
    let (_, serves) = found.ok_or_else(|| anyhow!("{}: there is no such service", args.serves))?;
    let plan = Plan { serves, open: args.open, requests: args.requests, at_once: args.at_once, seed: 1 };
    let host = simulate(&plan).hosts.remove(0);
    host.write(&args.out, Cuts { flush_rows: 10_000, ..Cuts::default() })?;
    Ok(())
}
