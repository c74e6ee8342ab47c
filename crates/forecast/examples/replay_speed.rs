//! How fast the replay is, how much memory it takes, and how near the truth it is where that is known: for `bench/forecast`.
//!
//! `replay_speed stream EVENTS` writes a recording of so many events to disk and forecasts from it (a replay as it is and
//! one with a change); `replay_speed forms ITEMS` replays queues with known solutions. Both print JSON.

#[path = "../tests/engine/build.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod build;
#[path = "../tests/engine/forms.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod forms;

use build::Busy;
use forms::MEAN;
use std::time::Instant;
use wakepath_forecast::replay::{Options, Spool, SpoolWriter, replay_from};
use wakepath_forecast::system::{Discipline, QueueId, ScriptId};

/// Connections of the recording that is streamed.
const CONNECTIONS: u32 = 16;
/// Steps of one round of a connection, the sender's and the reader's.
const STEPS: u64 = 4 + 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let told = match arguments[..] {
        ["stream", events] => stream(events.parse()?)?,
        ["forms", items] => forms_of(items.parse()?),
        _ => return Err("replay_speed stream EVENTS | forms ITEMS".into()),
    };
    println!("{told}");
    Ok(())
}

/// A recording of so many events, from disk.
fn stream(events: u64) -> std::io::Result<serde_json::Value> {
    let began = Instant::now();
    let mut busy = Busy::new(CONNECTIONS);
    let mut writer = SpoolWriter::new(std::path::Path::new("."))?;
    let rounds = events / (STEPS * u64::from(CONNECTIONS));
    for _ in 0..rounds {
        for connection in 0..CONNECTIONS {
            let (sender, reader) = busy.round(connection as usize);
            for (script, steps) in [(2 * connection, &sender[..]), (2 * connection + 1, &reader[..])] {
                for &step in steps {
                    writer.push(ScriptId(script), step)?;
                }
            }
        }
    }
    let mut spool = writer.finish()?;
    let written = began.elapsed();
    let mut system = busy.system;
    let run = |system: &_, spool: &mut Spool, options: &Options| {
        let began = Instant::now();
        let outcome = replay_from(system, spool, options);
        assert!(outcome.stuck.is_empty(), "{:?}", outcome.stuck);
        (outcome, began.elapsed().as_secs_f64())
    };
    let (before, first) = run(&system, &mut spool, &Options::default());
    let queues = system.queues.len() as u32;
    for queue in (2..queues).step_by(2) {
        system.queues[QueueId(queue).index()].initial *= 2;
    }
    let options = Options { before: Some(before.order.clone()), ..Options::default() };
    let (after, second) = run(&system, &mut spool, &options);
    Ok(serde_json::json!({
        "events": before.steps,
        "write_s": written.as_secs_f64(),
        "replay_s": first,
        "forecast_s": first + second,
        "events_per_s": before.steps as f64 / first,
        "gain": after.throughput() / before.throughput(),
        "reordered": after.reordered,
        "loops": before.loops.len(),
        "peak_kib": peak_kib(),
    }))
}

/// The most memory that this process had (KiB), 0 where it is not known.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Errors against what is known, as parts of the truth.
fn forms_of(items: u64) -> serde_json::Value {
    let mut errors = serde_json::Map::new();
    let mut add = |what: String, got: f64, truth: f64| {
        errors.insert(what, serde_json::json!((got / truth - 1.0).abs()));
    };
    for (load, servers) in [(0.5, 1), (0.7, 1), (0.7, 2), (0.7, 4)] {
        for discipline in [Discipline::Fifo, Discipline::Shared] {
            let outcome = forms::open(items, load, f64::from(servers), discipline);
            let truth = forms::erlang(load, servers);
            add(format!("M/M/{servers} at {load}, {discipline:?}"), outcome.mean_ns(), truth);
        }
    }
    for room in [1, 3] {
        let throughput = forms::tandem(items, None, room).throughput() * MEAN / 1e9;
        add(format!("tandem, room {room}, never idle"), throughput, forms::saturated(room));
        let truth = forms::tandem_chain(0.5, room as usize) / 0.5 * MEAN;
        add(format!("tandem, room {room}, at 0.5"), forms::tandem(items, Some(0.5), room).mean_ns(), truth);
    }
    serde_json::json!({ "items": items, "errors": errors })
}
