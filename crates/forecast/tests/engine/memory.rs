//! Long replays: folded paths and steps from disk.

use crate::build::*;
use wakepath_forecast::outcome::Outcome;
use wakepath_forecast::replay::{Options, SpoolWriter, replay, replay_from};
use wakepath_forecast::system::*;

/// Four connections, so many rounds each.
fn busy(rounds: u64) -> System {
    let mut busy = Busy::new(4);
    let mut scripts = vec![Vec::new(); 8];
    for _ in 0..rounds {
        for i in 0..4 {
            let (sender, reader) = busy.round(i);
            scripts[2 * i].extend(sender);
            scripts[2 * i + 1].extend(reader);
        }
    }
    let mut system = busy.system;
    for (range, steps) in system.scripts.iter_mut().zip(scripts) {
        *range = system.steps.len()..system.steps.len() + steps.len();
        system.steps.extend(steps);
    }
    system
}

/// All that has to be the same.
fn seen(o: &Outcome) -> impl PartialEq + std::fmt::Debug {
    let kinds: Vec<_> = o.kinds.iter().map(|k| (k.kind, k.latency.sum(), k.latency.max(), k.shares.clone())).collect();
    (o.elapsed_ns, o.transactions, kinds, o.stations.clone(), o.queues.clone(), o.stuck.clone(), o.steps)
}

#[test]
fn folding_changes_no_path_and_loses_hardly_a_loop() {
    let system = busy(3000);
    let whole = replay(&system, &Options { window: usize::MAX / 2, ..Options::default() });
    assert!(whole.stuck.is_empty(), "{:?}", whole.stuck);
    let rounds = |o: &Outcome| o.loops.iter().map(|l| (l.closed_by, l.count)).collect::<Vec<_>>();
    assert!(!whole.loops.is_empty());
    for window in [500, 20_000] {
        let folded = replay(&system, &Options { window, ..Options::default() });
        assert_eq!(format!("{:?}", seen(&folded)), format!("{:?}", seen(&whole)));
        assert_eq!(length(&folded.path).abs_diff(folded.elapsed_ns), length(&whole.path).abs_diff(whole.elapsed_ns));
        for (one, other) in folded.path.iter().zip(&whole.path) {
            assert!(one.place == other.place && one.ns.abs_diff(other.ns) <= 1 && one.count == other.count);
        }
        // a small window has no room for rounds that are under way
        if window > 1000 {
            for (queue, count) in rounds(&folded) {
                let all = rounds(&whole).iter().find(|r| r.0 == queue).map_or(0, |r| r.1);
                assert!(count <= all && (all - count) * 20 <= all, "{queue:?}: {count} of {all} with window {window}");
            }
        }
    }
}

#[test]
fn the_path_is_as_long_as_the_run() {
    let outcome = replay(&busy(2000), &Options::default());
    // each place's sum is rounded
    assert!(
        length(&outcome.path).abs_diff(outcome.elapsed_ns) < 40,
        "{} {}",
        length(&outcome.path),
        outcome.elapsed_ns
    );
    let latency = outcome.kinds[0].latency.sum() as u64;
    let shares = length(&outcome.kinds[0].shares);
    // each duration is rounded
    assert!(shares.abs_diff(latency) < outcome.transactions, "{shares} {latency}");
}

#[test]
fn steps_from_disk_give_the_same() {
    let mut system = busy(1000);
    let options = Options::default();
    let here = replay(&system, &options);
    let directory = tempfile::tempdir().unwrap();
    let mut writer = SpoolWriter::new(directory.path()).unwrap();
    let scripts = system.scripts.clone();
    // as recorded: a bit of each in turn
    let longest = scripts.iter().map(|s| s.len()).max().unwrap();
    for from in (0..longest).step_by(3) {
        for (i, script) in scripts.iter().enumerate() {
            for at in (from..(from + 3).min(script.len())).map(|at| script.start + at) {
                writer.push(ScriptId(i as u32), system.steps[at]).unwrap();
            }
        }
    }
    let mut spool = writer.finish().unwrap();
    system.steps.clear();
    let there = replay_from(&system, &mut spool, &options);
    assert!(spool.failed().is_none());
    assert_eq!(format!("{:?}", seen(&here)), format!("{:?}", seen(&there)));
    assert_eq!(here.path, there.path);
}
