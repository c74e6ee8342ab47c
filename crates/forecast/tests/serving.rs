//! Threads share what their process has, processes have it each for themselves; and changes that change nothing.

use wakepath_forecast::change::{Change, apply};
use wakepath_forecast::derived::Model;
use wakepath_forecast::jobs::{Arrivals, Holds, Job, Jobs, Part, Pool, Service, Turns, Visit, WorkState};
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::system::{Discipline, Station, StationId};

const MS: u64 = 1_000_000;

/// Two threads of one process; each request computes for 1 ms, and holds the process's lock while it sleeps for 10 ms.
fn locked(processes: Vec<u32>, workers: u32) -> Jobs {
    let sleep = Part::Work { state: WorkState::Timer, ns: 10 * MS };
    let parts = vec![Part::Work { state: WorkState::Cpu, ns: MS }, Part::Take(0), sleep, Part::Give(0)];
    let root = Visit { service: Some(0), asked: 0, there_ns: 0, back_ns: 0, parts };
    let job = Job { at_ns: 0, think_ns: 0, took_ns: 11 * MS, root };
    Jobs {
        stations: vec![Station {
            name: "vm".into(),
            what: "processors",
            servers: 8.0,
            speed: 1.0,
            others: 0.0,
            discipline: Discipline::Shared,
        }],
        services: vec![Service {
            name: "app:80".into(),
            host: "vm".into(),
            process: "app".into(),
            station: StationId(0),
            workers: Some(workers),
            processes,
            turns: None,
            keeps_connections: false,
            holds: Holds::Visit,
            backlog: None,
            wake_ns: 0,
        }],
        pools: vec![Pool { name: "app/lock 1".into(), tokens: 1, is_lock: true, process: Some(7) }],
        asked: vec!["app:80 GET /".into()],
        jobs: vec![job; 400],
        arrivals: Some(Arrivals::Closed { clients: 16 }),
        ..Jobs::default()
    }
}

fn made(jobs: Jobs, change: &str) -> Result<Jobs, String> {
    let change: Change = change.parse().expect("a change");
    let mut model = Model::Jobs(jobs);
    apply(&change, &mut model).map_err(|refusal| refusal.to_string())?;
    let Model::Jobs(jobs) = model else { unreachable!("jobs stay jobs") };
    Ok(jobs)
}

fn throughput(jobs: &Jobs) -> f64 {
    replay(&jobs.system(), &Options::default()).throughput()
}

#[test]
fn a_second_process_has_a_lock_of_its_own() {
    let before = throughput(&locked(vec![7], 2));
    assert!((before - 100.0).abs() < 2.0, "one holds it for 10 ms: {before}");
    let more = made(locked(vec![7], 2), "processes app:80=+1").expect("made");
    assert_eq!(more.services[0].workers, Some(4));
    let ratio = throughput(&more) / before;
    assert!((ratio - 2.0).abs() < 0.05, "{ratio}");
    // and back
    let less = made(more, "processes app:80=-1").expect("made");
    assert!((throughput(&less) / before - 1.0).abs() < 0.02);
}

#[test]
fn kept_connections_stay_with_their_process() {
    let mut jobs = locked(vec![7], 2);
    jobs.services[0].keeps_connections = true;
    let problem = made(jobs.clone(), "processes app:80=+1").expect_err("who gets which connection?");
    assert!(problem.contains("stays with the process that accepted it"), "{problem}");
    assert!(made(jobs, "threads app:80=+2").is_ok());
    // a worker a process: they are processes
    let mut jobs = locked(vec![7, 8], 2);
    jobs.services[0].keeps_connections = true;
    let problem = made(jobs.clone(), "workers app:80=+2").expect_err("who gets which connection?");
    assert!(problem.contains("stays with the process that accepted it"), "{problem}");
    assert!(made(jobs, "workers app:80=1").is_ok(), "all of them are the one's that is left");
}

#[test]
fn more_threads_share_the_lock() {
    let before = throughput(&locked(vec![7], 2));
    let more = made(locked(vec![7], 2), "threads app:80=+6").expect("made");
    assert!((throughput(&more) / before - 1.0).abs() < 0.02);
}

#[test]
fn workers_are_refused_where_threads_and_processes_differ() {
    let problem = made(locked(vec![7], 2), "workers app:80=+2").expect_err("which of them?");
    assert!(problem.contains("threads app:80") && problem.contains("processes app:80"), "{problem}");
    assert!(problem.contains("lock app/lock 1"), "{problem}");
    // a worker a process: they are processes
    let more = made(locked(vec![7], 1), "workers app:80=+1").expect("made");
    assert!((throughput(&more) / throughput(&locked(vec![7], 1)) - 2.0).abs() < 0.1);
}

#[test]
fn a_second_process_takes_turns_of_its_own() {
    let mut jobs = locked(vec![7], 4);
    jobs.pools.clear();
    jobs.jobs.iter_mut().for_each(|j| j.root.parts = vec![Part::Work { state: WorkState::Cpu, ns: 5 * MS }]);
    jobs.stations[0].servers = 1.0;
    jobs.services[0].turns = Some(Turns { each: 1.0, most: 2.0 });
    let before = throughput(&jobs);
    assert!(made(jobs.clone(), "workers app:80=+1").is_err(), "an interpreter's lock is shared");
    let two = throughput(&made(jobs.clone(), "processes app:80=2").expect("made")) / before;
    let three = throughput(&made(jobs, "processes app:80=3").expect("made")) / before;
    assert!((two - 2.0).abs() < 0.05 && (three - 2.0).abs() < 0.05, "no more than there are processors: {two} {three}");
}

#[test]
fn refuses_a_change_that_changes_nothing() {
    let jobs = || {
        let mut jobs = locked(vec![7], 2);
        jobs.pools.push(Pool { name: "app:80->db:1".into(), tokens: 4, is_lock: false, process: None });
        jobs
    };
    for same in ["threads app:80=2", "threads app:80=+0", "pool app:80->db:1=1x", "processes app:80=1", "cpu vm=+0"] {
        let problem = made(jobs(), same).expect_err(same);
        assert!(problem.contains("changes nothing"), "{same}: {problem}");
    }
    // one more than can be taken away is not quietly one less
    for many in ["threads app:80=-5", "pool app:80->db:1=-4", "pool app:80->db:1=0", "processes app:80=-1"] {
        let problem = made(jobs(), many).expect_err(many);
        assert!(problem.contains("at least 1"), "{many}: {problem}");
    }
}
