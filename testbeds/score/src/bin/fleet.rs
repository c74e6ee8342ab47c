//! `wakepath-fleet`: the traces of simulated hosts, a folder each. For measuring how costs grow with the number of hosts.

use anyhow::Result;
use clap::Parser;
use std::path::PathBuf;
use wakepath_testkit::fleet::Plan;
use wakepath_testkit::recording::{Cuts, Recording};

/// Writes the traces of hosts that serve each other's requests
#[derive(Parser)]
#[command(name = "wakepath-fleet")]
struct Args {
    /// Folder to make, with a folder for each recording
    out: PathBuf,
    /// Hosts
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    hosts: u64,
    /// Requests that begin on each host
    #[arg(long, default_value_t = 10_000)]
    requests: u64,
    /// Threads of each service
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    workers: u64,
    /// Recordings of each host, one after the other without a gap
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    recordings: u64,
}

fn main() -> Result<()> {
    let Args { out, hosts, requests, workers, recordings } = Args::parse();
    let plan = Plan { hosts, requests, workers };
    let cuts = Cuts { flush_rows: 10_000, ..Cuts::default() };
    for host in 0..hosts {
        let rows = plan.host(host);
        if recordings == 1 {
            rows.write(&out.join(&rows.name), cuts)?;
            continue;
        }
        for number in 0..recordings {
            let mut part = Recording { hosts: vec![rows.clone()], ..Recording::default() };
            let border = |n: u64| plan.length_ns() * n / recordings;
            part.cut(border(number), border(number + 1) - 1);
            part.write(&out.join(format!("part-{number}")), cuts)?;
        }
    }
    Ok(())
}
