//! The critical path as people read it: all of it in one unit, that of a single run.

use wakepath_forecast::forecast::Coming;
use wakepath_forecast::jobs::Arrivals;
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::system::{
    Actor, Discipline, NOT_SEEN, Queue, QueueId, QueueKind, Runs, State, StateId, Station, StationId, Step, System,
    WhenFull, Workers,
};
use wakepath_present::bottleneck::{PathView, Scope};
use wakepath_present::text::Style;

const MS: u64 = 1_000_000;
const REQUESTS: u64 = 10;
const CLIENTS: u64 = 4;

/// Clients who share one worker that computes a millisecond for each of ten requests; few, so that the replay goes
/// through them twenty times.
fn system() -> System {
    let (worker, cpu) = (QueueId(0), StateId(0));
    let steps = vec![
        Step::Dequeue { queue: worker, count: 1, latency_ns: NOT_SEEN },
        Step::Work { state: cpu, ns: MS },
        Step::Enqueue { queue: worker, count: 1, latency_ns: NOT_SEEN },
    ];
    let station = Station {
        name: "h".into(),
        what: "processors",
        servers: 2.0,
        speed: 1.0,
        others: 0.0,
        discipline: Discipline::Shared,
    };
    let queue = Queue {
        name: "app:80 workers".into(),
        kind: QueueKind::Workers(Workers::Any),
        capacity: None,
        initial: 1,
        delay_ns: 0,
        ns_per_item: 0.0,
        when_full: WhenFull::Wait,
        is_bytes: false,
    };
    let script = wakepath_forecast::system::ScriptId(0);
    System {
        stations: vec![station],
        queues: vec![queue],
        states: vec![State {
            host: "h".into(),
            process: "app".into(),
            state: "cpu".into(),
            station: Some(StationId(0)),
        }],
        scripts: std::iter::once(0..steps.len()).collect(),
        steps,
        shared: vec![(script, 0); REQUESTS as usize],
        actors: (0..CLIENTS).map(|n| Actor { name: format!("client {n}"), start_ns: 0, runs: Runs::Shared }).collect(),
        rounds: 20,
        ..System::default()
    }
}

#[test]
fn the_path_and_its_loops_are_of_one_run() {
    let system = system();
    let options = Options { path: true, ..Options::default() };
    let path = PathView::new(&system, &replay(&system, &options), Scope::Run);
    assert_eq!(path.ns, REQUESTS * MS, "one worker, one request after the other: no longer than the run");
    assert!((path.shares.iter().map(|s| s.share).sum::<f64>() - 1.0).abs() < 1e-9, "{path:#?}");
    assert_eq!(path.shares.iter().map(|s| s.ns).sum::<u64>(), path.ns, "{path:#?}");
    let [closed] = &path.loops[..] else { panic!("one loop, that of the worker: {path:#?}") };
    assert!(closed.share <= 1.0 && closed.ns <= path.ns, "a loop is no longer than its path: {closed:#?}");
    assert!(closed.share > 0.8 && closed.count <= REQUESTS, "{closed:#?}");
    let (each, of_rounds) = (closed.ns / closed.count, closed.round.iter().map(|s| s.ns).sum::<u64>());
    assert!(each.abs_diff(MS) < MS / 5 && of_rounds.abs_diff(closed.ns) < MS, "{closed:#?}");
    let mut text = String::new();
    path.render(&mut text, Style::default());
    assert!(text.contains("Critical path of the run, 10.0 ms from its first request to its last reply:"), "{text}");
}

#[test]
fn the_path_of_a_client_that_paused_most_of_the_time_is_not_that_of_the_run() {
    let options = Options { path: true, ..Options::default() };
    let mut outcome = replay(&system(), &options);
    let closed = Coming::Jobs(Arrivals::Closed { clients: 4 });
    assert_eq!(Scope::of(&closed, None, &outcome), Scope::Run);
    outcome.elapsed_ns *= 3;
    assert_eq!(Scope::of(&closed, None, &outcome), Scope::Requests(None));
}
