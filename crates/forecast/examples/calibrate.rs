//! Derives a model of a recording, replays it unchanged and prints how far that is from what was measured.
//!
//! `cargo run -p wakepath-forecast --example calibrate -- DIR [KIND]`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use wakepath_analysis::names::Names;
use wakepath_forecast::derive::{Selection, derive};
use wakepath_forecast::derived::{Derived, Model};
use wakepath_forecast::jobs::{Jobs, Part, Visit, WorkState};
use wakepath_forecast::replay::{Options, replay};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(dir) = args.next().map(PathBuf::from) else {
        eprintln!("usage: calibrate DIR [KIND]");
        return ExitCode::from(2);
    };
    match run(&dir, args.next()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(dir: &PathBuf, kind: Option<String>) -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::open(&[dir])?;
    let names = Names::read(&folder);
    let index = Index::open(&folder, std::slice::from_ref(dir))?;
    let started = Instant::now();
    let derived = derive(&folder, &index, &names, &Selection { kind, ..Selection::default() })?;
    println!("derived in {:.2} s", started.elapsed().as_secs_f64());
    if let Model::Jobs(jobs) = &derived.model {
        describe(jobs);
    }
    for a in &derived.assumptions {
        println!("  {a}");
    }
    compare(&derived);
    Ok(())
}

fn describe(jobs: &Jobs) {
    for s in &jobs.stations {
        println!("station {}: {} {} at {}, {:?}", s.name, s.servers, s.what, s.speed, s.discipline);
    }
    let n = jobs.jobs.len().max(1) as f64;
    let mut totals = vec![[0u64; 7]; jobs.services.len() + 1];
    jobs.jobs.iter().for_each(|j| add(&j.root, &mut totals));
    let us = |ns: u64| ns as f64 / n / 1e3;
    for (id, t) in totals.iter().enumerate() {
        let (name, about) = match jobs.services.get(id) {
            Some(s) => (
                s.name.as_str(),
                format!(
                    "workers {:?} in {} processes, turns {:?}, {:?}, station {}, backlog {:?}, wake {} µs",
                    s.workers,
                    s.processes.len(),
                    s.turns,
                    s.holds,
                    s.station.index(),
                    s.backlog,
                    s.wake_ns / 1000
                ),
            ),
            None => ("(unwatched)", String::new()),
        };
        println!(
            "{name}: {:.2} visits, µs a request: cpu {:.1} disk {:.1} timer {:.1} outside {:.1} there {:.1} back {:.1}; {about}",
            t[6] as f64 / n,
            us(t[0]),
            us(t[1]),
            us(t[2]),
            us(t[3]),
            us(t[4]),
            us(t[5]),
        );
    }
    for p in &jobs.pools {
        println!("pool {}: {} tokens", p.name, p.tokens);
    }
    let think: u64 = jobs.jobs.iter().map(|j| j.think_ns).sum();
    println!("{} jobs, {} left out, {:?}, think {:.1} µs", jobs.jobs.len(), jobs.left_out, jobs.arrivals, us(think));
}

fn add(v: &Visit, totals: &mut [[u64; 7]]) {
    let last = totals.len() - 1;
    let at = v.service.unwrap_or(last);
    totals[at][4] += v.there_ns;
    totals[at][5] += v.back_ns;
    totals[at][6] += 1;
    for part in &v.parts {
        match part {
            Part::Work { state, ns } => {
                let column = match state {
                    WorkState::Cpu => 0,
                    WorkState::Disk => 1,
                    WorkState::Timer => 2,
                    WorkState::Outside => 3,
                };
                totals[at][column] += ns;
            }
            Part::Calls(calls) => calls.iter().for_each(|c| add(c, totals)),
            _ => {}
        }
    }
}

fn compare(derived: &Derived) {
    let system = match &derived.model {
        Model::Jobs(jobs) => jobs.system(),
        Model::Machines(system) => system.clone(),
    };
    let started = Instant::now();
    let outcome = replay(&system, &Options::default());
    println!(
        "{} actors, {} steps replayed in {:.2} s; stuck: {:?}",
        system.actors.len(),
        outcome.steps,
        started.elapsed().as_secs_f64(),
        &outcome.stuck[..outcome.stuck.len().min(3)]
    );
    for (s, u) in system.stations.iter().zip(&outcome.stations) {
        let use_ = u.busy_ns as f64 / outcome.elapsed_ns.max(1) as f64;
        println!("  {}: {use_:.3} servers busy of {}, waited {:.3} s", s.name, s.servers, u.waited_ns as f64 / 1e9);
    }
    for (q, u) in system.queues.iter().zip(&outcome.queues) {
        println!(
            "  {}: waited {:.3} s for items, {:.3} s for room",
            q.name,
            u.waited_items_ns as f64 / 1e9,
            u.waited_room_ns as f64 / 1e9
        );
    }
    let m = &derived.measured;
    let rate = m.count as f64 * 1e9 / m.elapsed_ns.max(1) as f64;
    let mean = m.latency.mean() as f64;
    let error = |model: f64, real: f64| 100.0 * (model - real) / real;
    println!(
        "throughput: measured {rate:.1} /s, replay {:.1} /s, error {:+.1} %",
        outcome.throughput(),
        error(outcome.throughput(), rate)
    );
    println!(
        "mean latency: measured {:.3} ms, replay {:.3} ms, error {:+.1} %",
        mean / 1e6,
        outcome.mean_ns() / 1e6,
        error(outcome.mean_ns(), mean)
    );
    let mut all = wakepath_analysis::histogram::Histogram::default();
    outcome.kinds.iter().for_each(|k| all.merge(&k.latency));
    for q in [0.5, 0.95, 0.99] {
        let (a, b) = (m.latency.quantile(q) as f64 / 1e6, all.quantile(q) as f64 / 1e6);
        println!("  p{:.0}: measured {a:.3} ms, replay {b:.3} ms", q * 100.0);
    }
    println!("lossy {:.3}, blocks {:?}", derived.lossy, m.blocks.iter().map(|b| b.count).collect::<Vec<_>>());
}
