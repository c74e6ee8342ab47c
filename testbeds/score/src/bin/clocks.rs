//! `wakepath-clocks`: synchronises two simulated hosts whose clocks are known, and tells how exactly, how fast, and how
//! much less the two steps hold than one pass would.

use anyhow::{Result, ensure};
use clap::Parser;
use std::time::Instant;
use wakepath_clocks::sighting::{Evidence, Seen, Sighting};
use wakepath_clocks::{held_in_one_pass, synchronise_seen};

/// Synchronises two simulated hosts
#[derive(Parser)]
#[command(name = "wakepath-clocks")]
struct Args {
    /// Messages in each direction
    messages: u64,
    /// Messages a second and direction
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// What the second clock is ahead (days)
    #[arg(long, default_value_t = 324)]
    days: u64,
    /// What it gains, in parts per million
    #[arg(long, default_value_t = 80.0, allow_negative_numbers = true)]
    drift_ppm: f64,
}

/// Well mixed numbers.
fn mixed(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.rate > 0, "--rate 0: give at least one message a second");
    let ahead = args.days * 86_400_000_000_000;
    let second = |t: u64| t + ahead + (t as f64 * args.drift_ppm * 1e-6) as u64;
    let gap = 1_000_000_000 / args.rate;
    let mut seen: [Vec<Seen>; 2] = [Vec::new(), Vec::new()];
    for i in 0..args.messages {
        for way in 0..2u64 {
            let key = mixed(2 * i + way);
            let sent = 1_000_000_000 + i * gap + way * 300_000;
            // 10 µs and more on the way, once in a hundred a millisecond
            let delay = 10_000 + key % 60_000 + if key.is_multiple_of(100) { 1_000_000 } else { 0 };
            for (host, t, is_send) in [(way, sent, true), (1 - way, sent + delay, false)] {
                let at = if host == 0 { t } else { second(t) };
                let unit = Sighting::Unit { key, sent: is_send, at, evidence: Evidence::Packet, carries: None };
                seen[host as usize].push((at, unit));
            }
        }
    }
    seen.iter_mut().for_each(|s| s.sort_by_key(|x| x.0));
    let open = |h: usize| seen[h].iter().copied();
    let begin = Instant::now();
    let outcome = synchronise_seen(2, Some(0), &open);
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(outcome.groups.len() == 1, "the two hosts were not synchronised");
    let group = &outcome.groups[0];
    let clock = |h: usize| &group.clocks[group.hosts.iter().position(|g| *g == h).unwrap_or(0)];
    let times = (0..=100).map(|s| 1_000_000_000 + args.messages * gap / 100 * s);
    let error = times.map(|t| clock(0).at(t).abs_diff(clock(1).at(second(t)))).max().unwrap_or(0);
    let answer = serde_json::json!({
        "error_ns": error,
        "inversions": outcome.inversions,
        "messages": outcome.messages,
        "messages_per_s": outcome.messages as f64 / seconds,
        "one_pass": held_in_one_pass(2, &open),
        "two_steps": outcome.held_max.0.max(outcome.held_max.1),
        "window_ns": outcome.window_ns,
    });
    println!("{answer}");
    Ok(())
}
