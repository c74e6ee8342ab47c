//! Jobs that are derived from simulated systems: the right services, workers, demands and arrivals, and forecasts that
//! hold against the simulation of the changed system.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use wakepath_analysis::names::Names;
use wakepath_forecast::derive::{ArrivalModel, Selection, derive};
use wakepath_forecast::derived::{Derived, Model};
use wakepath_forecast::jobs::{Arrivals, Holds, Jobs, Part, Visit, WorkState};
use wakepath_forecast::replay::{Options, replay};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{Event, LimitKind, LimitRow, MessageRole, OpKind, message_flag};
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

/// Threads of one process that serve clients; each asks a database over a connection of its own. Times in microseconds.
#[derive(Clone, Copy, Debug)]
struct Plan {
    clients: u64,
    workers: u64,
    think: u64,
    before: u64,
    database: u64,
    after: u64,
    requests: u64,
}

impl Plan {
    /// What a request takes of a worker, besides waiting for one.
    fn held(&self) -> u64 {
        5 + self.before + 2 + 3 + self.database + 3 + 2 + self.after
    }
}

/// Runs a plan: the text of its recording, and for each reading of a request, when that had come.
fn simulate(p: &Plan) -> (String, Vec<(u64, u64)>, u64) {
    let mut head = String::from("host web\ntask A0 app\ntask D0 db\n");
    for w in 1..p.workers {
        let _ = writeln!(head, "task A{w} app of A0\ntask D{w} db of D0");
    }
    for w in 0..p.workers {
        let _ = writeln!(head, "flow d{w} A0 D0 ports {} 5432", 30_000 + w);
    }
    for c in 0..p.clients {
        let _ = writeln!(head, "flow c{c} - A0 ports {} 80", 40_000 + c);
    }
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut came = Vec::new();
    // clients by when they ask; workers by when they are free, and since when each of their databases sleeps
    let mut asking: BinaryHeap<Reverse<(u64, u64)>> = (0..p.clients).map(|c| Reverse((1_000 + 17 * c, c))).collect();
    let mut free: BinaryHeap<Reverse<(u64, u64)>> = (0..p.workers).map(|w| Reverse((100, w))).collect();
    let mut slept: Vec<u64> = vec![100; p.workers as usize];
    let mut last = 0;
    for n in 0..p.requests {
        let Reverse((at, c)) = asking.pop().expect("clients ask one after the other");
        let Reverse((idle, w)) = free.pop().expect("workers are many or few, not none");
        let begin = at.max(idle);
        let mut say = |t: u64, text: String| lines.push((t, text));
        if at > idle {
            say(begin, format!("A{w} woken by c{c} since {idle}"));
        }
        let taken = begin + 5;
        came.push((taken, at));
        say(taken, format!("A{w} takes r{n} c{c}"));
        let asked = taken + p.before;
        say(asked, format!("A{w} asks q{n} d{w} for r{n}"));
        say(asked + 2, format!("D{w} woken by d{w} since {}", slept[w as usize]));
        say(asked + 5, format!("D{w} takes q{n}"));
        let answered = asked + 5 + p.database;
        say(answered, format!("D{w} answers q{n}"));
        slept[w as usize] = answered + 4;
        say(answered + 3, format!("A{w} woken by d{w} since {}", asked + 1));
        say(answered + 5, format!("A{w} hears q{n}"));
        let end = answered + 5 + p.after;
        say(end, format!("A{w} answers r{n}"));
        free.push(Reverse((end, w)));
        asking.push(Reverse((end + p.think, c)));
        last = last.max(end);
    }
    lines.sort_by_key(|l| l.0);
    lines.iter().for_each(|(t, text)| {
        let _ = writeln!(head, "{t} {text}");
    });
    (head, came, last - 1_000)
}

/// Derives a simulated recording.
fn derived(p: &Plan, selection: &Selection) -> Derived {
    derived_with(p, selection, |_| {})
}

/// The same of a recording in which something is otherwise.
fn derived_with(p: &Plan, selection: &Selection, change: impl FnOnce(&mut Vec<Event>)) -> Derived {
    let (text, came, _) = simulate(p);
    let mut recording = play(&text).expect("the simulation writes what the player reads");
    let host = &mut recording.hosts[0];
    change(&mut host.rows);
    let arrived: std::collections::HashMap<MonoNs, MonoNs> =
        came.iter().map(|&(taken, at)| (host.at(taken * 1_000), host.at(at * 1_000))).collect();
    for row in &mut host.rows {
        if let Event::Op(o) = row
            && o.kind == OpKind::Recv
            && let Some(&at) = arrived.get(&o.at)
        {
            o.arrived = at;
        }
    }
    let at = host.at(1);
    let processors = LimitRow {
        at,
        flow: EndpointId(0),
        value: 64,
        beside: 0,
        task: TaskId(0),
        cgroup: StrId::EMPTY,
        port: 0,
        kind: LimitKind::Processors,
        ..Default::default()
    };
    host.rows.insert(0, processors.into());
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folders = recording.write(dir.path(), Cuts::default()).expect("a recording is written");
    let folder = Folder::open(&folders).expect("it is read");
    let names = Names::read(&folder);
    let index = Index::open(&folder, &folders).expect("it is indexed");
    derive(&folder, &index, &names, selection).expect("requests make a model")
}

fn jobs(d: &Derived) -> &Jobs {
    match &d.model {
        Model::Jobs(jobs) => jobs,
        Model::Machines(_) => panic!("requests become jobs"),
    }
}

/// Computing of a visit itself (ns).
fn cpu(v: &Visit) -> u64 {
    let of = |p: &Part| if let Part::Work { state: WorkState::Cpu, ns } = p { *ns } else { 0 };
    v.parts.iter().map(of).sum()
}

fn calls(v: &Visit) -> Vec<&Visit> {
    let groups = v.parts.iter().filter_map(|p| if let Part::Calls(calls) = p { Some(calls) } else { None });
    groups.flatten().collect()
}

fn near(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= part * b
}

const PLAN: Plan = Plan { clients: 6, workers: 2, think: 700, before: 300, database: 400, after: 200, requests: 400 };

#[test]
fn a_simulated_system_is_found_again() {
    let d = derived(&PLAN, &Selection::default());
    let jobs = jobs(&d);
    assert_eq!(jobs.jobs.len(), 400);
    let mut names: Vec<&str> = jobs.services.iter().map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["app:80", "db:5432"]);
    let app = jobs.services.iter().position(|s| s.name == "app:80").unwrap();
    assert_eq!((jobs.services[app].workers, jobs.services[app].holds), (Some(2), Holds::Visit));
    // each of the database's tasks serves one connection: their number limits nothing
    let db = jobs.services.iter().position(|s| s.name == "db:5432").unwrap();
    assert_eq!(jobs.services[db].workers, None);
    assert_eq!(jobs.arrivals, Some(Arrivals::Closed { clients: 6 }));
    assert_eq!(jobs.stations[jobs.services[app].station.index()].servers, 64.0);
    // after the first, every client pauses as long as it was told to
    let pauses: Vec<u64> = jobs.jobs.iter().map(|j| j.think_ns).collect();
    assert_eq!(pauses.iter().filter(|p| **p == 0).count(), 6);
    assert!(pauses.iter().all(|p| *p == 0 || near(*p as f64, 700e3, 0.02)), "{pauses:?}");
    for job in &jobs.jobs {
        assert_eq!((job.root.service, job.root.there_ns, job.root.back_ns), (Some(app), 0, 0));
        let called = calls(&job.root);
        assert_eq!(called.len(), 1);
        assert_eq!(called[0].service, Some(db));
        assert!(called[0].there_ns < 5_000 && called[0].back_ns < 10_000, "{called:?}");
    }
    let mean = |of: &dyn Fn(&Visit) -> u64| jobs.jobs.iter().map(|j| of(&j.root)).sum::<u64>() as f64 / 400.0;
    assert!(near(mean(&cpu), 510e3, 0.03), "the service computes {}", mean(&cpu));
    assert!(near(mean(&|v| calls(v).iter().map(|c| cpu(c)).sum()), 405e3, 0.03));
}

#[test]
fn the_replay_of_what_was_derived_is_what_was_measured() {
    let d = derived(&PLAN, &Selection::default());
    let outcome = replay(&jobs(&d).system(), &Options::default());
    assert!(outcome.stuck.is_empty(), "{:?}", outcome.stuck);
    let rate = d.measured.count as f64 * 1e9 / d.measured.elapsed_ns as f64;
    assert!(near(outcome.throughput(), rate, 0.02), "{} of {rate}", outcome.throughput());
    let mean = d.measured.latency.mean() as f64;
    assert!(near(outcome.mean_ns(), mean, 0.03), "{} of {mean}", outcome.mean_ns());
    assert_eq!(d.measured.blocks.iter().map(|b| b.count).sum::<u64>(), d.measured.count);
}

/// Who waits for events waits for no work, however long: it is in no mean, and nothing is gained by shortening that.
#[test]
fn requests_that_wait_for_events_are_no_jobs() {
    let mut waiting = 0;
    let d = derived_with(&PLAN, &Selection::default(), |rows| {
        let mut messages = rows.iter_mut().filter_map(|e| match e {
            Event::Message(m) if m.role == MessageRole::Request => Some(m),
            _ => None,
        });
        let first = messages.next().expect("a request");
        let flow = first.flow;
        for m in std::iter::once(first).chain(messages).filter(|m| m.flow == flow) {
            m.flags |= message_flag::AWAITS;
            waiting += 1;
        }
    });
    assert!(waiting > 1);
    assert_eq!(jobs(&d).jobs.len(), 400 - waiting);
    assert_eq!(d.measured.count, 400 - waiting as u64);
}

#[test]
fn the_caller_may_say_how_requests_come() {
    let d = derived(&PLAN, &Selection { arrivals: Some(ArrivalModel::Open), ..Selection::default() });
    let jobs = jobs(&d);
    assert_eq!(jobs.arrivals, Some(Arrivals::Open));
    assert_eq!(jobs.system().actors.len(), 400);
    assert!(jobs.jobs.windows(2).all(|w| w[0].at_ns <= w[1].at_ns));
}

#[test]
fn a_kind_that_was_not_seen_is_refused_with_a_remedy() {
    let (text, ..) = simulate(&PLAN);
    let recording = play(&text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let folders = recording.write(dir.path(), Cuts::default()).unwrap();
    let folder = Folder::open(&folders).unwrap();
    let (names, index) = (Names::read(&folder), Index::open(&folder, &folders).unwrap());
    let selection = Selection { kind: Some("GET /nowhere".into()), ..Selection::default() };
    let refused = derive(&folder, &index, &names, &selection).unwrap_err().to_string();
    assert!(refused.contains("GET /nowhere") && refused.contains("wakepath requests"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A worker more, forecast from the recording without it, is what the simulation with it gives.
    #[test]
    fn a_worker_more_is_forecast(
        (clients, workers) in (2u64..10, 1u64..4),
        (think, before, database, after) in (50u64..3_000, 20u64..800, 20u64..800, 20u64..800),
    ) {
        // every worker must have served more than one client, else it may have been made for that one
        prop_assume!(clients > workers + 1);
        let p = Plan { clients, workers, think, before, database, after, requests: 300 };
        prop_assume!(think < p.held() * 2);
        let d = derived(&p, &Selection::default());
        let mut jobs = jobs(&d).clone();
        let app = jobs.services.iter_mut().find(|s| s.name == "app:80").expect("it serves");
        let found = app.workers;
        prop_assert_eq!(found, Some(workers as u32));
        let unchanged = replay(&jobs.system(), &Options::default());
        let app = jobs.services.iter_mut().find(|s| s.name == "app:80").expect("it serves");
        app.workers = found.map(|n| n + 1);
        let changed = replay(&jobs.system(), &Options::default());
        let rate = |p: &Plan| p.requests as f64 / simulate(p).2 as f64;
        let truth = rate(&Plan { workers: workers + 1, ..p }) / rate(&p);
        let forecast = changed.throughput() / unchanged.throughput();
        prop_assert!(near(forecast, truth, 0.04), "{forecast} of {truth}");
    }
}
