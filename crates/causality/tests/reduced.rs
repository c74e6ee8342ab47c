//! Hosts that are linked each by itself and joined from files give what they give linked together; and damaged files give no wrong
//! parent.

mod support;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use support::{folders_reduced_alike, read, reduce, reduced_alike};
use wakepath_model::defects::id;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_testkit::random::Random;
use wakepath_testkit::recording::{Cuts, Recording};
use wakepath_testkit::script::play;
use wakepath_testkit::shapes::{Plan, Shape, simulate};
use wakepath_testkit::{crowd, wired};

fn plans() -> impl Strategy<Value = Plan> {
    (proptest::sample::select(&Shape::ALL[..]), any::<u64>(), any::<[bool; 3]>(), 1..8u64).prop_map(
        |(shape, seed, [keepalive, opaque, translated], clients)| Plan {
            keepalive,
            opaque,
            translated,
            two_hosts: true,
            clients,
            ..Plan::new(shape, seed)
        },
    )
}

/// A chain of hosts whose clocks differ: each passes every request on to the next.
fn fleet(hosts: usize, requests: usize) -> Recording {
    let mut script = String::new();
    for h in 0..hosts {
        let _ = write!(script, "host h{h} clock +{}s\ntask T{h} app{h} on h{h}\n", 1 + h * 7 % 19);
        let _ = match h.checked_sub(1) {
            None => writeln!(script, "flow f0 - T0"),
            Some(before) => writeln!(script, "flow f{h} T{before} T{h}"),
        };
    }
    let mut at = 100;
    for r in 0..requests {
        let _ = writeln!(script, "{at} T0 takes r{r}x0 f0");
        for h in 1..hosts {
            let before = h - 1;
            let _ = writeln!(script, "{} T{before} asks r{r}x{h} f{h} for r{r}x{before}", at + 10);
            let _ = writeln!(script, "{} T{h} takes r{r}x{h}", at + 300);
            at += 300;
        }
        for h in (1..hosts).rev() {
            let _ = writeln!(script, "{} T{h} answers r{r}x{h}\n{} T{} hears r{r}x{h}", at + 10, at + 300, h - 1);
            at += 300;
        }
        let _ = writeln!(script, "{} T0 answers r{r}x0", at + 10);
        at += 30_000;
    }
    play(&script).expect("a script")
}

/// The segments of a reduced host.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![dir.join("hosts")];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => todo.push(path),
                path if path.extension().is_some_and(|e| e == "seg") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn hosts_join_alike(plan in plans(), percent in 0..30u64, seed in any::<u64>()) {
        let mut recording = simulate(&plan);
        let mut random = Random::new(seed);
        recording.hand_on(&mut random);
        for h in recording.hosts.iter_mut().filter(|_| percent > 10) {
            h.lose(percent as f64, 2_000_000, &mut random);
        }
        reduced_alike(&recording);
    }

    #[test]
    fn hosts_and_sniffers_join_alike(seed in any::<u64>(), services in 1..6usize, is_translated in any::<bool>()) {
        let plan = wired::Plan { services, is_translated, watched: vec![0, 2], ..wired::Plan::new(seed) };
        reduced_alike(&wired::simulate(&plan));
    }

    /// Each host is recorded twice: one after the other with a pause between them, without one, or both at once for a while. What is
    /// on disk is cut into segments, as an agent's is.
    #[test]
    fn hosts_with_several_recordings_join_alike(
        plan in plans(),
        (ends, begins) in (30..70u64, 30..70u64),
        segment_bytes in proptest::sample::select(&[0, 8_192][..]),
        seed in any::<u64>(),
    ) {
        let recording = simulate(&plan);
        let last = recording.truth.calls.iter().map(|c| c.began_ns).filter(|&t| t < u64::MAX).max().unwrap_or_default();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut paths = Vec::new();
        for (name, from, to) in [("second", last * begins / 100, u64::MAX / 4), ("first", 0, last * ends / 100)] {
            let mut part = recording.clone();
            part.cut(from, to);
            let cuts = Cuts { flush_rows: 20, seed, segment_bytes };
            paths.extend(part.write(&dir.path().join(name), cuts).expect("the disk takes it"));
        }
        folders_reduced_alike(&paths, dir.path());
    }

    /// One byte of a reduced host is another, or what follows it is gone.
    #[test]
    fn damage_is_counted_and_makes_no_wrong_parent(plan in plans(), place in any::<u64>(), is_cut in any::<bool>()) {
        let recording = simulate(&plan);
        let dir = tempfile::tempdir().expect("a temporary folder");
        let paths = recording.write(dir.path(), Cuts::default()).expect("the disk takes it");
        let reduced = reduce(&paths, dir.path());
        let path = &segments(&reduced[0])[0];
        let mut bytes = fs::read(path).expect("a segment");
        let at = (place % bytes.len() as u64) as usize;
        bytes[at] ^= 0x55;
        if is_cut {
            bytes.truncate(at);
        }
        fs::write(path, &bytes).expect("the disk takes it");
        let found = read(&reduced);
        let verdict = recording.truth.judge(&found.claims());
        prop_assert!(verdict.wrong.is_empty(), "{:#?}", verdict.wrong);
        let folder = Folder::open(&reduced).expect("folders");
        folder.hosts().iter().for_each(|h| _ = h.events(TableSet::ALL, ..).count());
        prop_assert!(!folder.defects().is_empty(), "nobody counts byte {at}");
    }
}

#[test]
fn a_fleet_joins_alike() {
    reduced_alike(&fleet(12, 40));
}

#[test]
fn crowds_join_alike() {
    for (_, serves) in crowd::Serves::ALL {
        reduced_alike(&crowd::simulate(&crowd::Plan { serves, open: 50, requests: 200, at_once: 3, seed: 3 }));
    }
}

/// Frames of steps that are missing as a whole leave gaps, and no claim that nobody asked for what they had.
#[test]
fn missing_steps_are_told() {
    let recording = fleet(3, 4_000);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let paths = recording.write(dir.path(), Cuts::default()).expect("the disk takes it");
    let reduced = reduce(&paths, dir.path());
    let whole = read(&reduced);
    assert!(whole.requests.iter().all(|r| r.is_complete()) && whole.requests.len() == 4_000);
    // the last frame of the host in the middle is cut
    let path = &segments(&reduced[1])[0];
    let bytes = fs::read(path).expect("a segment");
    fs::write(path, &bytes[..bytes.len() - 64]).expect("the disk takes it");
    let folder = Folder::open(&reduced).expect("folders");
    let mut requests = Vec::new();
    wakepath_causality::reconstruct(&folder, |r| requests.push(r), |_, _, _, _| {});
    assert!(folder.ledger().count(id::FOLDER_REDUCED) > 0, "{:?}", folder.defects());
    let whole_ones = requests.iter().filter(|r| r.is_complete() && r.spans.len() == 1).count();
    assert_eq!(whole_ones, 0, "a part of a chain looks like a request of its own");
}
