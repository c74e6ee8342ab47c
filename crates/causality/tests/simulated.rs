//! What is claimed of simulated recordings, against the truth: whatever the architecture, the seed and what was lost.

mod support;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use support::{found, found_with, read};
use wakepath_causality::Options;
use wakepath_model::folder::merge;
use wakepath_testkit::crowd;
use wakepath_testkit::random::Random;
use wakepath_testkit::reactor;
use wakepath_testkit::recording::{Cuts, Recording};
use wakepath_testkit::script::play;
use wakepath_testkit::shapes::{Plan, Shape, long, namespaces, pipelined, simulate};

fn right(recording: &Recording) -> Result<wakepath_testkit::truth::Verdict, TestCaseError> {
    // rules ask what was seen and never each other: asked in another order they say the same
    let found = found(recording, Cuts::default());
    let order = found.report.operations ^ 0x9e37_79b9;
    let shuffled = found_with(recording, &Options { order: Some(order), ..Options::default() });
    prop_assert_eq!(found.digest(), shuffled.digest());
    // those that could have made a call may be kept as a set
    let shared = found_with(recording, &Options { shared_from: Some(2), ..Options::default() });
    prop_assert_eq!(found.digest(), shared.digest());
    prop_assert!(found.report.calls.are_conserved(), "{:?}", found.report.calls);
    let verdict = recording.truth.judge(&found.claims());
    prop_assert!(verdict.wrong.is_empty(), "{:#?}", verdict.wrong);
    Ok(verdict)
}

fn plans(shapes: &'static [Shape]) -> impl Strategy<Value = Plan> {
    (proptest::sample::select(shapes), any::<u64>(), any::<[bool; 4]>(), 1..8u64, 0..40u64).prop_map(
        |(shape, seed, [keepalive, opaque, reuse, two_hosts], clients, partial)| Plan {
            keepalive,
            opaque,
            two_hosts,
            clients,
            partial_percent: partial as f64,
            ports: if reuse { 12 } else { 20_000 },
            ..Plan::new(shape, seed)
        },
    )
}

fn reactors() -> impl Strategy<Value = reactor::Plan> {
    let some = || proptest::sample::select(vec![0u64, 0, 60]);
    let sizes = (any::<u64>(), 1..6u64, 1..30u64, 1..5u64, 1..6usize);
    let percents = (some(), some(), some(), some(), some());
    let own = proptest::sample::select(vec![0u64, 0, 700, 3_000]);
    (sizes, percents, own, any::<bool>()).prop_map(
        |((seed, clients, requests, streams, pool), (shared, timer, deferred, parallel, after), own_us, isolated)| {
            reactor::Plan {
                seed,
                clients,
                requests,
                streams,
                pool,
                shared_percent: shared,
                timer_percent: timer,
                deferred_percent: deferred,
                parallel_percent: parallel,
                after_percent: after,
                own_us,
                isolated,
            }
        },
    )
}

/// The same plans in every run, so that a failure is of this tree; `PROPTEST_RNG_SEED=N` tries others, `PROPTEST_CASES=N` more.
fn config() -> ProptestConfig {
    let chosen = ProptestConfig::default();
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let rng_seed = if is_set("PROPTEST_RNG_SEED") { chosen.rng_seed } else { RngSeed::Fixed(7) };
    let cases = if is_set("PROPTEST_CASES") { chosen.cases } else { 64 };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_parent_is_wrong(plan in plans(&Shape::ALL)) {
        let verdict = right(&simulate(&plan))?;
        prop_assert!(verdict.wrong_paths.is_empty(), "{:#?}", verdict.wrong_paths);
    }

    #[test]
    fn programs_of_one_loop_make_no_wrong_parent(plan in reactors()) {
        let verdict = right(&reactor::simulate(&plan))?;
        prop_assert!(verdict.wrong_paths.is_empty(), "{:#?}", verdict.wrong_paths);
    }

    #[test]
    fn identifiers_that_are_handed_on_make_no_wrong_parent(plan in plans(&Shape::ALL), seed in any::<u64>()) {
        let mut recording = simulate(&plan);
        recording.hand_on(&mut Random::new(seed));
        let verdict = right(&recording)?;
        prop_assert!(verdict.wrong_paths.is_empty(), "{:#?}", verdict.wrong_paths);
    }

    #[test]
    fn identifiers_that_a_loop_hands_on_make_no_wrong_parent(plan in reactors(), seed in any::<u64>()) {
        let mut recording = reactor::simulate(&plan);
        let plain = right(&recording)?;
        recording.hand_on(&mut Random::new(seed));
        let verdict = right(&recording)?;
        prop_assert!(verdict.wrong_paths.is_empty(), "{:#?}", verdict.wrong_paths);
        prop_assert!(verdict.links >= plain.links, "{} links with identifiers, {} without", verdict.links, plain.links);
    }

    #[test]
    fn blocking_shapes_are_found_whole(plan in plans(&[Shape::ThreadPerConnection, Shape::Prefork, Shape::Reactor])) {
        // a worker that replies for a reader is only believed once enough of its replies were seen
        let requests = if plan.shape == Shape::Reactor { 60 } else { plan.requests };
        let verdict = right(&simulate(&Plan { requests, ..plan }))?;
        prop_assert_eq!(verdict.right_paths, verdict.existing_paths);
    }

    #[test]
    fn isolated_event_loops_are_found_whole(plan in plans(&[Shape::EventLoop])) {
        // that who replies with an answer alone had asked for it is only believed once it was seen often enough
        let verdict = right(&simulate(&Plan { isolated: true, requests: 60, ..plan }))?;
        prop_assert_eq!(verdict.right_paths, verdict.existing_paths);
    }

    #[test]
    fn isolation_under_loss_makes_no_wrong_parent(plan in plans(&Shape::ALL), percent in 0..30u64, seed in any::<u64>()) {
        let mut recording = simulate(&Plan { isolated: true, ..plan });
        let mut random = Random::new(seed);
        for h in &mut recording.hosts {
            h.lose(percent as f64, 2_000_000, &mut random);
        }
        right(&recording)?;
    }

    #[test]
    fn jobs_without_a_call_make_no_wrong_parent(
        plan in plans(&[Shape::Executor]), callless in 1..90u64, counts_down in any::<bool>(),
    ) {
        let verdict = right(&simulate(&Plan { callless_percent: callless as f64, counts_down, ..plan }))?;
        prop_assert!(verdict.wrong_paths.is_empty(), "{:#?}", verdict.wrong_paths);
    }

    #[test]
    fn requests_with_one_job_or_more_make_no_wrong_parent(
        plan in plans(&[Shape::Executor]),
        [single, callless] in [1..100u64, 0..40u64],
        [between_us, requests] in [0..300u64, 1..24u64],
        counts_down in any::<bool>(),
    ) {
        let (single_percent, callless_percent) = (single as f64, callless as f64);
        let plan = Plan { single_percent, callless_percent, between_us, requests, counts_down, think_us: 100, ..plan };
        let verdict = right(&simulate(&plan))?;
        prop_assert!(verdict.wrong_paths.is_empty(), "{:#?}", verdict.wrong_paths);
    }

    #[test]
    fn messages_in_two_pieces_give_no_wrong_parent(plan in plans(&Shape::ALL), percent in 1..60u64) {
        right(&simulate(&Plan { split_percent: percent as f64, ..plan }))?;
    }

    #[test]
    fn a_translated_address_changes_nothing(plan in plans(&Shape::ALL)) {
        let plain = right(&simulate(&plan))?;
        let translated = right(&simulate(&Plan { translated: true, ..plan }))?;
        prop_assert_eq!((plain.right_paths, plain.links), (translated.right_paths, translated.links));
    }

    #[test]
    fn what_was_lost_makes_no_wrong_parent(plan in plans(&Shape::ALL), percent in 0..30u64, seed in any::<u64>()) {
        let mut recording = simulate(&plan);
        let mut random = Random::new(seed);
        for h in &mut recording.hosts {
            h.lose(percent as f64, 2_000_000, &mut random);
        }
        let verdict = right(&recording)?;
        prop_assert!(verdict.wrong_paths.is_empty(), "{:#?}", verdict.wrong_paths);
    }

    #[test]
    fn a_recording_from_the_middle_makes_no_wrong_parent(
        plan in plans(&[Shape::ThreadPerConnection, Shape::Prefork]), from in 0..10u64, length in 1..10u64,
    ) {
        let mut recording = simulate(&plan);
        recording.cut(from * 1_000_000, (from + length) * 1_000_000);
        right(&recording)?;
    }

    #[test]
    fn cuts_of_batches_and_segments_change_nothing(plan in plans(&Shape::ALL), seed in any::<u64>(), rows in 2..200u64) {
        let recording = simulate(&plan);
        let whole = found(&recording, Cuts::default());
        let cut = found(&recording, Cuts { flush_rows: rows, seed, segment_bytes: 8 << 10 });
        prop_assert_eq!(whole.digest(), cut.digest());
        prop_assert_eq!(whole.report.linked, cut.report.linked);
    }

    #[test]
    fn pipelined_requests_are_told_apart(seed in any::<u64>()) {
        right(&pipelined(seed, 12))?;
    }

    #[test]
    fn namespaces_with_the_same_addresses_are_told_apart(seed in any::<u64>()) {
        let verdict = right(&namespaces(seed, 6))?;
        prop_assert_eq!(verdict.right_paths, verdict.existing_paths);
    }
}

/// Of how many of 400 requests the path is found whole, where so many are open at once.
fn whole_of_a_crowd(serves: crowd::Serves, open: u64) -> u64 {
    let plan = crowd::Plan { serves, open, requests: 400, at_once: 3, seed: 3 };
    let verdict = right(&crowd::simulate(&plan)).unwrap_or_else(|wrong| panic!("{serves:?}: {wrong}"));
    assert!(verdict.wrong_paths.is_empty(), "{serves:?}: {:#?}", verdict.wrong_paths);
    verdict.right_paths
}

#[test]
fn a_crowd_of_requests_is_told_apart() {
    for (name, serves) in crowd::Serves::ALL {
        // nothing says which of those that are parked a timer belongs to
        let expected = if serves == crowd::Serves::Parked { 0 } else { 400 };
        assert_eq!(whole_of_a_crowd(serves, 100), expected, "{name}");
    }
}

#[test]
fn reruns_and_merging_keep_the_ids() {
    for shape in Shape::ALL {
        let recording = simulate(&Plan { two_hosts: true, ..Plan::new(shape, 5) });
        let dir = tempfile::tempdir().expect("a temporary folder");
        let paths = recording.write(dir.path(), Cuts::default()).expect("the disk takes it");
        let out = dir.path().join("both");
        merge(&paths, &out).expect("they merge");
        let (once, again, merged) = (read(&paths), read(&paths), read(&[out]));
        assert_eq!(once.digest(), again.digest(), "{shape:?}");
        assert_eq!(once.digest(), merged.digest(), "{shape:?}");
    }
}

#[test]
fn memory_does_not_grow_with_the_recording() {
    for shape in [Shape::ThreadPerConnection, Shape::EventLoop, Shape::Dispatcher] {
        let held = |count: u64| found(&long(shape, 11, 8, count), Cuts::default()).report.held_max;
        let (short, long) = (held(16_000), held(64_000));
        assert!(long <= short + short / 4 + 64, "{shape:?}: {short} for 16 000 requests, {long} for 64 000");
    }
}

/// Services that call each other, or one that calls itself, so deep that no stack holds a frame for each.
#[test]
fn a_request_may_be_thousands_of_calls_deep() {
    const DEPTH: usize = 5_000;
    let mut script = String::from("task T0 app\nflow f0 - T0\n");
    for i in 1..=DEPTH {
        script += &format!("task T{i} app{i}\nflow f{i} T{} T{i}\n", i - 1);
    }
    script += "100 T0 takes q0 f0\n";
    let mut at = 100;
    for i in 1..=DEPTH {
        script += &format!("{} T{} asks q{i} f{i} for q{}\n{} T{i} takes q{i}\n", at + 10, i - 1, i - 1, at + 20);
        at += 20;
    }
    for i in (1..=DEPTH).rev() {
        script += &format!("{} T{i} answers q{i}\n{} T{} hears q{i}\n", at + 10, at + 20, i - 1);
        at += 20;
    }
    script += &format!("{} T0 answers q0\n", at + 10);
    let recording = play(&script).expect("a script");
    let f = found(&recording, Cuts::default());
    let verdict = recording.truth.judge(&f.claims());
    assert!(verdict.wrong.is_empty());
    assert_eq!(f.requests.iter().map(|r| r.spans.len()).collect::<Vec<_>>(), [DEPTH + 1]);
}
