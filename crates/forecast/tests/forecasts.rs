//! Forecasts of systems whose future is known in closed form, and bottlenecks in a known order.

use wakepath_analysis::histogram::Histogram;
use wakepath_forecast::bottleneck::{Limit, Score, find};
use wakepath_forecast::calibration::Verdict;
use wakepath_forecast::change::Change;
use wakepath_forecast::derived::{Block, Derived, Measured, Model, Unit};
use wakepath_forecast::forecast::{Forecast, NoForecast, Question, forecast, lay_out};
use wakepath_forecast::jobs::{Arrivals, Holds, Job, Jobs, Part, Pool, Service, Visit, WorkState};
use wakepath_forecast::outcome::Place;
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::system::{Discipline, QueueKind, Station, StationId};
use wakepath_testkit::random::Random;

const MS: u64 = 1_000_000;

fn station(name: &str, servers: f64) -> Station {
    Station { name: name.into(), what: "processors", servers, speed: 1.0, others: 0.0, discipline: Discipline::Shared }
}

fn service(name: &str, station: u32) -> Service {
    Service {
        name: name.into(),
        host: format!("host {station}"),
        process: name.split(':').next().unwrap_or(name).into(),
        station: StationId(station),
        workers: None,
        wake_ns: 0,
        holds: Holds::Visit,
        backlog: None,
        processes: Vec::new(),
        turns: None,
        keeps_connections: false,
    }
}

fn work(ns: u64) -> Part {
    Part::Work { state: WorkState::Cpu, ns }
}

fn visit(service: usize, parts: Vec<Part>) -> Visit {
    Visit { service: Some(service), asked: service, there_ns: 0, back_ns: 0, parts }
}

fn jobs(stations: Vec<Station>, services: Vec<Service>, jobs: Vec<Job>, arrivals: Arrivals) -> Jobs {
    let asked = services.iter().map(|s| format!("{} GET /", s.name)).collect();
    Jobs { stations, services, asked, jobs, arrivals: Some(arrivals), ..Jobs::default() }
}

fn job(at_ns: u64, think_ns: u64, root: Visit) -> Job {
    Job { at_ns, think_ns, took_ns: 0, root }
}

/// A recording of just what the model says: measured is what its replay gives, in four equal blocks.
fn recorded(model: Model, lossy: f64) -> Derived {
    let outcome = replay(&lay_out(&model), &Options::default());
    let mut latency = Histogram::default();
    outcome.kinds.iter().for_each(|k| latency.merge(&k.latency));
    let elapsed_ns = if outcome.transactions > 0 { outcome.busy_span_ns } else { outcome.elapsed_ns };
    let count = outcome.transactions.max(1);
    let block = Block { count: count / 4, elapsed_ns: elapsed_ns / 4, mean_ns: latency.mean() as f64 };
    let measured = Measured { unit: Unit::Requests, count, elapsed_ns, latency, blocks: vec![block; 4] };
    Derived {
        model,
        measured,
        assumptions: Vec::new(),
        lossy,
        impossible: Vec::new(),
        hidden: None,
        flows: Vec::new(),
        warnings: Vec::new(),
    }
}

fn ask(derived: &Derived, changes: &[&str], next: usize) -> Forecast {
    let changes: Vec<Change> = changes.iter().map(|c| c.parse().unwrap_or_else(|e| panic!("{c}: {e}"))).collect();
    forecast(derived, &Question { changes, next, kind: None }).unwrap_or_else(|e| panic!("{e}"))
}

fn mean(f: &Forecast) -> f64 {
    f.fares.mean_ns.expect("requests have a latency").value
}

fn near(value: f64, truth: f64, part: f64) {
    assert!((value - truth).abs() <= part * truth, "{value} is not within {part} of {truth}");
}

/// Exponential times of a mean.
fn exponential() -> impl FnMut(u64) -> u64 {
    let mut random = Random::new(7);
    // of the upper 53 bits, and never 0
    move |mean| (mean as f64 * -(((random.any() >> 11) as f64 + 0.5) / (1u64 << 53) as f64).ln()) as u64
}

/// Requests of exponential length that come at exponential times to a part `load` of one server.
fn random_line(load: f64, count: usize) -> Jobs {
    let (mut time, mut at) = (exponential(), 0);
    let all = (0..count).map(|_| {
        at += time((MS as f64 / load) as u64);
        job(at, 0, visit(0, vec![work(time(MS).max(1))]))
    });
    let all = all.collect();
    jobs(vec![station("web", 1.0)], vec![service("app:80", 0)], all, Arrivals::Open)
}

/// M/M/1 at a load of 0.8 takes 5 times the work; with a second server M/M/2 takes 1/(1 - 0.4²), with one twice as fast
/// M/M/1 at 0.4 takes half of 1/(1 - 0.4).
#[test]
fn more_or_faster_servers_are_worth_what_queueing_theory_says() {
    let derived = recorded(Model::Jobs(random_line(0.8, 200_000)), 0.0);
    let ms = MS as f64;
    let now = ask(&derived, &[], 0);
    near(mean(&now), 5.0 * ms, 0.05);
    near(mean(&ask(&derived, &["cpu web=+1"], 0)), ms / (1.0 - 0.16), 0.03);
    near(mean(&ask(&derived, &["speed web=2x"], 0)), 0.5 * ms / 0.6, 0.03);
    near(mean(&ask(&derived, &["scale */app/cpu=0.5"], 0)), 0.5 * ms / 0.6, 0.03);
    // requests that come at their times come no oftener
    near(ask(&derived, &["cpu web=+1"], 0).fares.throughput.value, 800.0, 0.02);
}

/// A model that is off by a constant factor still forecasts the right ratio, and says how far off it is.
#[test]
fn a_biased_model_forecasts_ratios_and_a_wider_bar() {
    let exact = recorded(Model::Jobs(random_line(0.5, 20_000)), 0.0);
    let biased = slower(&exact, 1.24);
    let (right, wrong) = (ask(&exact, &["speed web=2x"], 0), ask(&biased, &["speed web=2x"], 0));
    near(mean(&wrong), 1.24 * mean(&right), 0.01);
    assert_eq!((right.calibration.verdict(), wrong.calibration.verdict()), (Verdict::Holds, Verdict::Misses));
    let (right, wrong) = (right.fares.mean_ns.expect("mean"), wrong.fares.mean_ns.expect("mean"));
    assert!(right.bar.calibration < 0.01);
    near(wrong.bar.calibration, 0.24, 0.05);
    let width = |f: wakepath_forecast::forecast::Figure| f.range().1 / f.range().0;
    assert!(width(wrong) > 1.3 * width(right));
}

/// The same recording, of which longer latencies were measured.
fn slower(exact: &Derived, times: f64) -> Derived {
    let mut biased = exact.clone();
    let mut latency = Histogram::default();
    (0..1000).for_each(|_| latency.add((times * exact.measured.latency.mean() as f64) as u64));
    biased.measured.latency = latency;
    biased
}

/// Two locks taken in different orders stand still as soon as two threads may run: no real system was recorded doing so.
#[test]
fn refuses_a_change_with_which_the_model_stands_still() {
    let lock = |n| Pool { name: format!("app/lock {n}"), tokens: 1, is_lock: true, process: Some(1) };
    let held = |a, b| vec![Part::Take(a), work(MS), Part::Take(b), work(MS), Part::Give(b), Part::Give(a)];
    let all = (0..200).map(|n| job(0, 0, visit(0, if n % 2 == 0 { held(0, 1) } else { held(1, 0) }))).collect();
    let mut app = service("app:80", 0);
    app.workers = Some(1);
    let mut jobs = jobs(vec![station("web", 8.0)], vec![app], all, Arrivals::Closed { clients: 4 });
    jobs.pools = vec![lock(1), lock(2)];
    let derived = recorded(Model::Jobs(jobs), 0.0);
    let changes = vec!["workers app:80=4".parse().expect("a change")];
    let problem = forecast(&derived, &Question { changes, next: 0, kind: None }).expect_err("it stands still");
    assert!(matches!(problem, NoForecast::Standstill { .. }), "{problem}");
}

/// A model that takes half of what was measured is none of that system: nothing is forecast from it.
#[test]
fn refuses_a_model_that_does_not_behave_as_what_was_recorded() {
    let exact = recorded(Model::Jobs(random_line(0.5, 20_000)), 0.0);
    for changes in [vec![], vec!["speed web=2x".parse::<Change>().expect("a change")]] {
        let question = Question { changes, next: 0, kind: None };
        assert!(forecast(&exact, &question).is_ok());
        let problem = forecast(&slower(&exact, 3.6), &question).expect_err("it is 260 % off");
        assert!(matches!(problem, NoForecast::Untrusted(..)), "{problem}");
        let text = problem.to_string();
        assert!(text.contains("mean latency is ") && text.contains("260 % off"), "{text}");
    }
}

/// Where most of what was measured may be wrong, or is impossible, no limit and no forecast follows from it, however well the
/// model fits.
#[test]
fn refuses_what_was_not_measured_well() {
    let model = Model::Jobs(random_line(0.5, 5_000));
    let refused = |derived: &Derived| forecast(derived, &Question::default()).expect_err("refused").to_string();
    let text = refused(&recorded(model.clone(), 0.6));
    assert!(text.contains("may affect 60 % of what was measured") && text.contains("wakepath info"), "{text}");
    let mut impossible = recorded(model, 0.0);
    impossible.impossible.push("tasks seem to have run on 78.7 processors at a time, and web has 2".into());
    assert!(refused(&impossible).starts_with("tasks seem to have run on 78.7 processors"));
}

#[test]
fn losses_widen_every_bar() {
    let model = Model::Jobs(random_line(0.5, 5_000));
    let (whole, lossy) =
        (ask(&recorded(model.clone(), 0.0), &["cpu web=+1"], 0), ask(&recorded(model, 0.07), &["cpu web=+1"], 0));
    let bars = |f: &Forecast| {
        let quantiles = f.fares.quantiles_ns.expect("quantiles");
        [f.fares.throughput, f.fares.mean_ns.expect("mean"), quantiles[0], quantiles[1], quantiles[2]]
            .map(|f| f.bar.whole())
    };
    for (a, b) in bars(&whole).into_iter().zip(bars(&lossy)) {
        near(b - a, 0.07, 1e-6);
    }
}

/// Clients that think for 50 ms on average and are served for 10 ms: throughput is bounded by 1/D and by N/(D + Z); few
/// clients reach the one, many the other.
#[test]
fn closed_arrivals_keep_to_the_asymptotic_bounds() {
    let with = |clients: u32| {
        let mut time = exponential();
        let all = (0..4000).map(|_| job(0, time(50 * MS), visit(0, vec![work(10 * MS)]))).collect();
        let model = jobs(vec![station("web", 1.0)], vec![service("app:80", 0)], all, Arrivals::Closed { clients });
        recorded(Model::Jobs(model), 0.0)
    };
    let throughput = |derived: &Derived, changes: &[&str]| ask(derived, changes, 0).fares.throughput.value;
    let (one, many) = (with(1), with(20));
    near(throughput(&one, &[]), 1e3 / 60.0, 0.02);
    near(throughput(&one, &["speed web=2x"]), 1e3 / 55.0, 0.02);
    // nobody waits for a second one
    near(throughput(&one, &["cpu web=+1"]), 1e3 / 60.0, 0.02);
    near(throughput(&many, &[]), 100.0, 0.01);
    near(throughput(&many, &["cpu web=+1"]), 200.0, 0.01);
    near(throughput(&many, &["cpu web=unbounded"]), 20e3 / 60.0, 0.02);
    near(throughput(&many, &["speed web=2x"]), 200.0, 0.01);
    // the pace of processors is all where they limit, and a sixth of it where computing takes a sixth of a round
    let pace = |derived: &Derived, changes: &[&str]| ask(derived, changes, 0).fares.throughput.bar.pace;
    near(pace(&many, &[]), 0.1, 0.02);
    near(pace(&many, &["cpu web=unbounded"]), 0.1 / 6.0, 0.1);
    near(pace(&one, &["speed web=2x"]), 0.1 / 11.0, 0.1);
}

/// Three services in a line, each with a processor of its own, that compute for 10, 6 and 3 ms on average; 32 clients.
fn line_of_three() -> Jobs {
    let mut time = exponential();
    let mut root = || {
        let c = visit(2, vec![work(time(3 * MS))]);
        let b = visit(1, vec![work(time(6 * MS)), Part::Calls(vec![c])]);
        visit(0, vec![work(time(10 * MS)), Part::Calls(vec![b])])
    };
    let all = (0..2000).map(|_| job(0, 0, root())).collect();
    let services = ["a:1", "b:2", "c:3"].iter().zip(0..).map(|(n, i)| service(n, i)).collect();
    let stations = ["a", "b", "c"].map(|n| station(n, 1.0)).into();
    jobs(stations, services, all, Arrivals::Closed { clients: 32 })
}

#[test]
fn bottlenecks_are_found_in_their_order() {
    let derived = recorded(Model::Jobs(line_of_three()), 0.0);
    let f = ask(&derived, &[], 3);
    let servers = |n| vec![Limit::Servers(StationId(n))];
    let found: Vec<Vec<Limit>> = f.steps.iter().map(|s| s.found.limits.clone()).collect();
    assert_eq!(found[..3], [servers(0), servers(1), servers(2)]);
    // then nobody waits for anybody: what is left is work, that of the first above all
    let Limit::Work(state) = found[3][0] else { panic!("{found:?}") };
    assert_eq!(f.steps[3].system.states[state.index()].process, "a");
    let throughput = |n: usize| f.steps[n].without.as_ref().expect("a gain").throughput.value;
    near(throughput(0), 1e3 / 6.0, 0.03);
    near(throughput(1), 1e3 / 3.0, 0.03);
    near(throughput(2), 32e3 / 19.0, 0.03);
    // beside one that serves 166 a second, the first needs 1.67 processors for the same: 2
    assert_eq!(f.steps[0].found.enough.map(|e| (e.now, e.then)), Some((1.0, 2.0)));
    // the path is where the queue is
    let most = f.steps[0].outcome.path.iter().max_by_key(|s| s.ns).expect("a path");
    assert_eq!(most.place, Place::Station(StationId(0)));
}

/// All requests but the last few sleep for 50 ms, and all come one by one: what is found is what most of them spend their time
/// on, and not what the run ended with.
#[test]
fn what_all_requests_spend_their_time_on_is_found_and_not_what_the_last_did() {
    let sleeps = Part::Work { state: WorkState::Timer, ns: 50 * MS };
    let slow = |i: u64| job(i * 60 * MS, 0, visit(0, vec![work(MS), sleeps.clone()]));
    let fast = |i: u64| job(i * 60 * MS, 0, visit(0, vec![work(2 * MS)]));
    let all = (0..200).map(slow).chain((200..203).map(fast)).collect();
    let jobs = jobs(vec![station("web", 2.0)], vec![service("app:80", 0)], all, Arrivals::Open);
    let system = lay_out(&Model::Jobs(jobs));
    let found = find(&system, &replay(&system, &Options { path: true, ..Options::default() }), Score::Latency(None));
    let [Limit::Work(state)] = found.limits[..] else { panic!("{:?}", found.limits) };
    assert_eq!(system.states[state.index()].state, "timer", "{:?}", system.states[state.index()]);
    assert!(found.gain > 20.0, "{}", found.gain);
}

/// A change moves the bottleneck, and the forecast says where to.
#[test]
fn the_next_bottleneck_is_that_of_the_changed_system() {
    let derived = recorded(Model::Jobs(line_of_three()), 0.0);
    for (changes, next) in [(&["cpu a=2x"][..], 1), (&["cpu a=4", "cpu b=4"], 2), (&["speed b=0.5"], 1)] {
        let f = ask(&derived, changes, 0);
        assert_eq!(f.steps[0].found.limits, [Limit::Servers(StationId(next))], "{changes:?}");
    }
}

/// One worker on one processor: neither more workers nor more processors alone gain anything.
#[test]
fn two_limits_that_hide_each_other_are_named_together() {
    let mut model = jobs(
        vec![station("web", 1.0)],
        vec![Service { workers: Some(1), ..service("app:80", 0) }],
        (0..1000).map(|_| job(0, 0, visit(0, vec![work(5 * MS)]))).collect(),
        Arrivals::Closed { clients: 4 },
    );
    let derived = recorded(Model::Jobs(model.clone()), 0.0);
    for alone in ["cpu web=+1", "workers app=+1"] {
        near(ask(&derived, &[alone], 0).fares.throughput.value, 200.0, 0.01);
    }
    near(ask(&derived, &["cpu web=+1", "workers app=+1"], 0).fares.throughput.value, 400.0, 0.01);
    let f = ask(&derived, &[], 0);
    let mut limits = f.steps[0].found.limits.clone();
    limits.sort();
    let workers = f.system.queues.iter().position(|q| matches!(q.kind, QueueKind::Workers(_))).expect("workers");
    assert_eq!(limits, [Limit::Servers(StationId(0)), Limit::Room(wakepath_forecast::system::QueueId(workers as u32))]);
    // where the worker sleeps, it is the worker alone
    model.jobs.iter_mut().for_each(|j| j.root.parts.push(Part::Work { state: WorkState::Timer, ns: 20 * MS }));
    let f = ask(&recorded(Model::Jobs(model), 0.0), &[], 0);
    assert_eq!(f.steps[0].found.limits.len(), 1);
    assert!(matches!(f.steps[0].found.limits[0], Limit::Room(_)), "{:?}", f.steps[0].found);
}

/// A pool of two connections, each held for 10 ms: 200 a second, each further one 100 more.
#[test]
fn a_pool_is_named_and_worth_its_connections() {
    let parts = || vec![Part::Take(0), Part::Work { state: WorkState::Outside, ns: 10 * MS }, Part::Give(0)];
    let mut model = jobs(
        vec![station("web", 4.0)],
        vec![service("app:80", 0)],
        (0..2000).map(|_| job(0, 0, visit(0, parts()))).collect(),
        Arrivals::Closed { clients: 8 },
    );
    model.pools.push(Pool { name: "app:80->pg:5432".into(), tokens: 2, is_lock: false, process: None });
    let derived = recorded(Model::Jobs(model), 0.0);
    near(ask(&derived, &[], 0).fares.throughput.value, 200.0, 0.01);
    near(ask(&derived, &["pool app:80->pg:5432=+1"], 0).fares.throughput.value, 300.0, 0.01);
    near(ask(&derived, &["pool app*=64"], 0).fares.throughput.value, 800.0, 0.01);
    let f = ask(&derived, &[], 0);
    let [limit] = f.steps[0].found.limits[..] else { panic!("{:?}", f.steps[0].found) };
    assert_eq!(limit.change(&f.system, 8.0).map(|c| c.to_string()), Some("pool app:80->pg:5432=8".into()));
    let enough = f.steps[0].found.enough.expect("found").then;
    assert!((7.0..=8.0).contains(&enough), "{enough}");
}

#[test]
fn what_cannot_be_answered_is_an_error() {
    let derived = recorded(Model::Jobs(line_of_three()), 0.0);
    let question = |change: &str, kind: Option<&str>| Question {
        changes: vec![change.parse().expect("a change")],
        next: 0,
        kind: kind.map(str::to_owned),
    };
    let refused = forecast(&derived, &question("pool x=+1", None)).expect_err("there is no pool");
    assert!(matches!(refused, NoForecast::Refused(_)), "{refused}");
    let unknown = forecast(&derived, &question("cpu a=+1", Some("GET /nowhere"))).expect_err("no such kind");
    assert!(unknown.to_string().contains("a:1 GET /"), "{unknown}");
    let empty = recorded(Model::Jobs(Jobs::default()), 0.0);
    assert!(forecast(&empty, &Question::default()).is_err());
    assert!(
        find(&lay_out(&empty.model), &replay(&lay_out(&empty.model), &Options::default()), Score::Run)
            .limits
            .is_empty()
    );
}
