//! The grammar of changes, and what they do to small models made by hand.

use proptest::prelude::*;
use wakepath_forecast::change::{Amount, Bandwidth, Change, Delay, VERBS, Which, apply};
use wakepath_forecast::derived::Model;
use wakepath_forecast::jobs::{Holds, Job, Jobs, Part, Pool, Service, Visit, WorkState};
use wakepath_forecast::system::{
    Discipline, Queue, QueueKind, State, StateId, Station, StationId, Step, System, WhenFull,
};

fn change(text: &str) -> Change {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn every_verb_has_an_example_that_is_a_change() {
    for (verb, example) in VERBS {
        let parsed = change(example);
        assert!(parsed.to_string().starts_with(verb), "{example}");
        assert_eq!(change(&parsed.to_string()), parsed);
    }
}

#[test]
fn values_are_read_as_people_write_them() {
    for (text, parsed) in [
        ("cpu web=+1", Change::Cpu { of: "web".into(), to: Amount::By(1.0) }),
        ("  cpu   web1 = 2x ", Change::Cpu { of: "web1".into(), to: Amount::Times(2.0) }),
        ("cpu web=-50%", Change::Cpu { of: "web".into(), to: Amount::Times(0.5) }),
        ("workers a:80=8", Change::Workers { of: "a:80".into(), to: Amount::To(8.0) }),
        ("queue a send buffer=+64K", Change::Queue { name: "a send buffer".into(), to: Amount::By(65_536.0) }),
        ("queue \"odd=name\"=unbounded", Change::Queue { name: "odd=name".into(), to: Amount::Unbounded }),
        ("pool a:1->b:2=-3", Change::Pool { name: "a:1->b:2".into(), to: Amount::By(-3.0) }),
        ("speed db=+25%", Change::Speed { of: "db".into(), factor: 1.25 }),
        (
            "scale web/kworker/0:1/cpu=0",
            Change::Scale { host: "web".into(), process: "kworker/0:1".into(), state: "cpu".into(), factor: 0.0 },
        ),
        (
            "link a-b delay=-50% bandwidth=10x",
            Change::Link {
                between: "a-b".into(),
                bandwidth: Some(Bandwidth::Times(10.0)),
                delay: Some(Delay::Times(0.5)),
            },
        ),
        (
            "link a-b delay=+1.5ms",
            Change::Link { between: "a-b".into(), bandwidth: None, delay: Some(Delay::By(1_500_000)) },
        ),
        (
            "link a-b delay=5us bandwidth=100Mbit",
            Change::Link {
                between: "a-b".into(),
                bandwidth: Some(Bandwidth::Bits(1e8)),
                delay: Some(Delay::To(5_000)),
            },
        ),
        (
            "drop pg:5432 SELECT * FROM t WHERE id = ? keep=1",
            Change::Drop { span: "pg:5432 SELECT * FROM t WHERE id = ?".into(), which: Which::Beyond(1) },
        ),
        ("drop GET /a share=90%", Change::Drop { span: "GET /a".into(), which: Which::Percent(90.0) }),
        ("drop 'it''s' share=1%", Change::Drop { span: "it's".into(), which: Which::Percent(1.0) }),
        ("parallel \"SELECT a, b\", GET /x", Change::Parallel { spans: vec!["SELECT a, b".into(), "GET /x".into()] }),
        ("cache * hit=12.5%", Change::Cache { span: "*".into(), hit: 12.5 }),
    ] {
        assert_eq!(change(text), parsed, "{text}");
        assert_eq!(change(&parsed.to_string()), parsed, "{parsed}");
    }
}

#[test]
fn errors_say_where_what_and_how() {
    for (text, at, part) in [
        ("", 0, "one of scale, cpu"),
        ("worker a=1", 0, "did you mean workers?"),
        ("cpu", 3, "a host"),
        ("cpu web", 7, "=+1"),
        ("cpu web=", 8, "+1 (more)"),
        ("cpu web=one", 8, "+1 (more)"),
        ("cpu web=+1e9", 9, "+1 (more)"),
        ("speed ü=0", 8, "above 0"),
        ("speed a=-200%", 8, "at most -100%"),
        ("scale a/b=1", 6, "HOST/PROCESS/STATE"),
        ("scale a/b/c=lots", 12, "a factor"),
        ("link a-b", 8, "bandwidth="),
        ("link a-b delay=5", 15, "5ms"),
        ("link a-b delay=5x delay=4x", 15, "only once"),
        ("link a-b bandwidth=0x", 19, "a bandwidth"),
        ("drop", 4, "wakepath requests"),
        ("drop x share=101%", 13, "from 0% to 100%"),
        ("drop \"x", 5, "a quote that ends"),
        ("drop \"x\" y", 8, "nothing more"),
        ("parallel a,", 11, "wakepath requests"),
        ("cache x", 7, "hit=90%"),
        ("pool \"\"=1", 5, "a pool"),
    ] {
        let Err(error) = text.parse::<Change>() else { panic!("{text} is no change") };
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.expected.contains(part), "{text}: {error}");
        assert!(error.example.parse::<Change>().is_ok(), "{text}: {error}");
        let shown = error.to_string();
        let mark = shown.lines().nth(2).and_then(|l| l.find('^')).expect("a mark");
        assert_eq!(mark, 4 + at, "{shown}");
    }
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9:]{1,8}", "[a-z \"',=*%/>-]{1,12}", "\\PC{1,12}"]
        .prop_map(|s| s.trim().to_owned())
        .prop_filter("names are not empty", |s| !s.is_empty())
}

fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![
        (-1e6..1e6).prop_map(Amount::By),
        (0.0..1e6).prop_map(Amount::To),
        (0.0..1e3).prop_map(Amount::Times),
        Just(Amount::Unbounded)
    ]
}

fn changes() -> impl Strategy<Value = Change> {
    let part = || names().prop_filter("parts", |s| !s.contains('/'));
    let bandwidth = prop_oneof![
        (1e-3..1e3).prop_map(Bandwidth::Times),
        (1.0..1e12).prop_map(Bandwidth::Bits),
        Just(Bandwidth::Unbounded)
    ];
    let delay = prop_oneof![
        (0.0..1e3).prop_map(Delay::Times),
        (-1_000_000_000..1_000_000_000i64).prop_map(Delay::By),
        (0..1_000_000_000u64).prop_map(Delay::To)
    ];
    let which =
        prop_oneof![Just(Which::All), (0.0..100.0).prop_map(Which::Percent), any::<u32>().prop_map(Which::Beyond)];
    prop_oneof![
        (part(), names(), part(), 0.0..1e3f64).prop_map(|(host, process, state, factor)| Change::Scale {
            host,
            process,
            state,
            factor
        }),
        (names(), amounts()).prop_map(|(of, to)| Change::Cpu { of, to }),
        (names(), 1e-3..1e3f64).prop_map(|(of, factor)| Change::Speed { of, factor }),
        (names(), bandwidth, proptest::option::of(delay.clone())).prop_map(|(between, b, delay)| Change::Link {
            between,
            bandwidth: Some(b),
            delay
        }),
        (names(), delay).prop_map(|(between, d)| Change::Link { between, bandwidth: None, delay: Some(d) }),
        (names(), amounts()).prop_map(|(name, to)| Change::Queue { name, to }),
        (names(), amounts()).prop_map(|(of, to)| Change::Workers { of, to }),
        (names(), amounts()).prop_map(|(name, to)| Change::Pool { name, to }),
        (names(), which).prop_map(|(span, which)| Change::Drop { span, which }),
        proptest::collection::vec(names(), 1..4).prop_map(|spans| Change::Parallel { spans }),
        (names(), 0.0..100.0f64).prop_map(|(span, hit)| Change::Cache { span, hit }),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_the_same(change in changes()) {
        let text = change.to_string();
        prop_assert_eq!(text.parse::<Change>(), Ok(change), "{}", text);
    }

    #[test]
    fn any_text_is_a_change_or_an_error(text in "\\PC{0,40}", verb in 0..VERBS.len(), tail in "[a-z/=,+x%\" '-]{0,20}") {
        for text in [text.clone(), format!("{} {text}", VERBS[verb].0), format!("{} {tail}", VERBS[verb].0)] {
            match text.parse::<Change>() {
                Ok(change) => prop_assert_eq!(change.to_string().parse::<Change>(), Ok(change)),
                Err(e) => prop_assert!(e.at <= text.chars().count() && !e.to_string().is_empty()),
            }
        }
    }

    #[test]
    fn any_change_is_made_or_refused_whole(change in changes()) {
        for model in [Model::Jobs(jobs()), Model::Machines(machines())] {
            let mut after = model.clone();
            match apply(&change, &mut after) {
                Ok(effect) => prop_assert!(!effect.done.is_empty()),
                Err(refusal) => {
                    prop_assert!(after == model);
                    prop_assert!(!refusal.reason.is_empty());
                }
            }
        }
    }
}

const MS: u64 = 1_000_000;

fn work(state: WorkState, ms: u64) -> Part {
    Part::Work { state, ns: ms * MS }
}

fn visit(service: Option<usize>, asked: usize, parts: Vec<Part>) -> Visit {
    Visit { service, asked, there_ns: MS, back_ns: MS, parts }
}

fn station(name: &str, discipline: Discipline) -> Station {
    let what = if discipline == Discipline::Shared { "processors" } else { "disk" };
    Station { name: name.into(), what, servers: 1.0, speed: 1.0, others: 0.0, discipline }
}

/// Two requests at an application on one host: three times the same statement, each with a millisecond of computing before
/// it, then a call of a service that nobody watches; all of it over a pool's connection but that. Computing under a lock
/// comes last.
fn jobs() -> Jobs {
    let statement = || Part::Calls(vec![visit(Some(1), 1, vec![work(WorkState::Cpu, 2), work(WorkState::Disk, 4)])]);
    let outside = Visit { there_ns: 0, back_ns: 0, ..visit(None, 2, vec![work(WorkState::Outside, 5)]) };
    let parts = vec![
        Part::Take(0),
        work(WorkState::Cpu, 1),
        statement(),
        work(WorkState::Cpu, 1),
        statement(),
        work(WorkState::Cpu, 1),
        statement(),
        Part::Give(0),
        Part::Calls(vec![outside]),
        Part::Take(1),
        work(WorkState::Cpu, 3),
        Part::Give(1),
    ];
    let job = Job { at_ns: 0, think_ns: 0, took_ns: 40 * MS, root: visit(Some(0), 0, parts) };
    let service = |name: &str, host: &str, station, workers, backlog| Service {
        name: name.into(),
        host: host.into(),
        process: name.split(':').next().unwrap_or(name).into(),
        station: StationId(station),
        workers,
        wake_ns: 0,
        holds: Holds::Visit,
        backlog,
        processes: Vec::new(),
        turns: None,
        keeps_connections: false,
    };
    Jobs {
        stations: vec![
            station("web", Discipline::Shared),
            station("db", Discipline::Shared),
            station("db/disk", Discipline::Fifo),
        ],
        services: vec![service("app:8000", "web", 0, Some(2), Some(16)), service("postgres:5432", "db", 1, None, None)],
        pools: vec![
            Pool { name: "app:8000->postgres:5432".into(), tokens: 2, is_lock: false, process: None },
            Pool { name: "app/lock 1".into(), tokens: 1, is_lock: true, process: None },
        ],
        asked: ["app:8000 GET /", "postgres:5432 SELECT a, b FROM t", "redis:6379 GET"].map(String::from).into(),
        jobs: vec![Job { at_ns: 10 * MS, ..job.clone() }, job],
        unseen: vec!["the number of workers of postgres:5432 where none is waited for; record under load".into()],
        ..Jobs::default()
    }
}

fn made(text: &str) -> Jobs {
    let mut model = Model::Jobs(jobs());
    let effect = apply(&change(text), &mut model).unwrap_or_else(|e| panic!("{e}"));
    assert!(!effect.done.is_empty(), "{text}");
    match model {
        Model::Jobs(jobs) => jobs,
        Model::Machines(_) => unreachable!("a change keeps the kind of model"),
    }
}

/// Work of a state in all visits, in milliseconds.
fn total(jobs: &Jobs, wanted: WorkState) -> u64 {
    fn of(v: &Visit, wanted: WorkState) -> u64 {
        let part = |p: &Part| match p {
            Part::Work { state, ns } if *state == wanted => *ns,
            Part::Calls(calls) => calls.iter().map(|c| of(c, wanted)).sum(),
            _ => 0,
        };
        v.parts.iter().map(part).sum()
    }
    jobs.jobs.iter().map(|j| of(&j.root, wanted)).sum::<u64>() / MS
}

fn all_work(jobs: &Jobs) -> [u64; 4] {
    [WorkState::Cpu, WorkState::Disk, WorkState::Timer, WorkState::Outside].map(|w| total(jobs, w))
}

#[test]
fn numbers_are_changed_where_the_words_say() {
    assert_eq!(all_work(&jobs()), [24, 24, 0, 10]);
    assert_eq!(made("cpu web=+1").stations[0].servers, 2.0);
    assert_eq!(made("cpu app:8000=+0.5").stations[0].servers, 1.5);
    assert_eq!(made("cpu app=2x").stations[0].servers, 2.0);
    assert!(made("cpu db=unbounded").stations[1].servers.is_infinite());
    assert_eq!(made("speed db/disk=4x").stations[2].speed, 4.0);
    assert_eq!(made("speed postgres:5432=2x").stations[1].speed, 2.0);
    assert_eq!(made("workers app:8000=+1").services[0].workers, Some(3));
    assert_eq!(made("workers app=unbounded").services[0].workers, None);
    assert_eq!(made("pool app:8000->postgres:5432=2x").pools[0].tokens, 4);
    assert_eq!(made("queue app:8000=+112").services[0].backlog, Some(128));
    assert_eq!(made("queue app=unbounded").services[0].backlog, None);
}

#[test]
fn work_is_scaled_by_host_process_and_state() {
    assert_eq!(all_work(&made("scale db/postgres/disk=0.5")), [24, 12, 0, 10]);
    assert_eq!(all_work(&made("scale */postgres:5432/*=0")), [12, 0, 0, 10]);
    assert_eq!(all_work(&made("scale web/*/cpu=2")), [36, 24, 0, 10]);
    assert_eq!(all_work(&made("scale */redis:6379/outside=-50%")), [24, 24, 0, 5]);
    // three of the twelve milliseconds of its computing are under the lock
    for lock in ["scale web/app/lock=0", "scale */app/lock 1=0"] {
        assert_eq!(all_work(&made(lock)), [18, 24, 0, 10], "{lock}");
    }
}

/// A service that shares its host's processors becomes faster alone.
#[test]
fn a_faster_service_does_not_make_its_neighbours_faster() {
    let mut shared = jobs();
    shared.services[1].station = StationId(0);
    let mut model = Model::Jobs(shared.clone());
    apply(&change("speed postgres:5432=2x"), &mut model).expect("made");
    let Model::Jobs(after) = model else { unreachable!("a change keeps the kind of model") };
    assert_eq!(after.stations, shared.stations);
    assert_eq!(all_work(&after), [18, 24, 0, 10]);
}

#[test]
fn a_links_delay_is_changed_both_ways_and_nowhere_else() {
    let ways = |jobs: &Jobs| {
        let root = &jobs.jobs[0].root;
        let Part::Calls(calls) = &root.parts[2] else { panic!("a call") };
        [root.there_ns, root.back_ns, calls[0].there_ns, calls[0].back_ns]
    };
    assert_eq!(ways(&made("link app:8000-postgres:5432 delay=-50%")), [MS, MS, MS / 2, MS / 2]);
    assert_eq!(ways(&made("link db-web delay=+1ms")), [MS, MS, 2 * MS, 2 * MS]);
    assert_eq!(ways(&made("link client-app delay=3ms")), [3 * MS, 3 * MS, MS, MS]);
}

#[test]
fn calls_are_left_out_with_their_loop() {
    // of each three statements two go, with the millisecond before each
    let kept = made("drop postgres:5432 SELECT a, b FROM t keep=1");
    assert_eq!(all_work(&kept), [2 * (4 + 2), 8, 0, 10]);
    // the computing before the first is no repetition's
    assert_eq!(all_work(&made("drop SELECT*")), [2 * 4, 0, 0, 10]);
    assert_eq!(made("drop postgres:5432"), made("drop SELECT*"));
    assert_eq!(made("drop select a, b from T keep=1"), kept, "in any case of letters");
    // what was taken for nothing but them is not taken
    let all = made("drop SELECT a, b FROM t");
    assert!(matches!(all.jobs[0].root.parts[..], [Part::Take(0), Part::Work { .. }, Part::Give(0), ..]));
    // every other one: three of six
    assert_eq!(total(&made("drop SELECT* share=50%"), WorkState::Disk), 12);
    let refusal = apply(&change("drop SELECT* share=0%"), &mut Model::Jobs(jobs())).expect_err("none is left out");
    assert!(refusal.reason.contains("changes nothing"), "{refusal}");
    assert_eq!(total(&made("drop SELECT* share=100%"), WorkState::Disk), 0);
}

/// A hit leaves its caller's computing; of ten thousand, every tenth stays.
#[test]
fn a_cache_answers_evenly() {
    assert_eq!(all_work(&made("cache redis:6379 GET hit=100%")), [24, 24, 0, 0]);
    let mut many = jobs();
    many.jobs = vec![many.jobs[0].clone(); 1000];
    let before = total(&many, WorkState::Cpu);
    let mut model = Model::Jobs(many);
    apply(&change("cache SELECT* hit=90%"), &mut model).expect("made");
    let Model::Jobs(after) = model else { unreachable!("a change keeps the kind of model") };
    assert_eq!(total(&after, WorkState::Disk), 4 * 300);
    assert_eq!(total(&after, WorkState::Cpu), before - 2 * 2700);
}

#[test]
fn calls_made_at_once_are_one_part() {
    let repeats = made("parallel SELECT*");
    let root = &repeats.jobs[0].root;
    let calls: Vec<usize> =
        root.parts.iter().filter_map(|p| if let Part::Calls(c) = p { Some(c.len()) } else { None }).collect();
    assert_eq!(calls, [3, 1]);
    assert_eq!(all_work(&repeats), all_work(&jobs()));
    let both = made("parallel \"SELECT a, b FROM t\",redis:6379");
    let calls = both.jobs[0].root.parts.iter().filter(|p| matches!(p, Part::Calls(_))).count();
    assert_eq!(calls, 1);
    assert_eq!(all_work(&both), all_work(&jobs()));
}

/// Calls that each take a connection of their own take it along when they are made at once.
#[test]
fn a_call_made_at_once_keeps_its_connection() {
    let mut own = jobs();
    for job in &mut own.jobs {
        let call = || Part::Calls(vec![visit(Some(1), 1, vec![work(WorkState::Cpu, 2)])]);
        job.root.parts =
            [0, 1].iter().flat_map(|_| [Part::Take(0), call(), work(WorkState::Cpu, 1), Part::Give(0)]).collect();
    }
    let mut model = Model::Jobs(own.clone());
    apply(&change("parallel SELECT*"), &mut model).expect("made");
    let Model::Jobs(after) = model else { unreachable!("a change keeps the kind of model") };
    let parts = &after.jobs[0].root.parts;
    let Part::Calls(calls) = &parts[0] else { panic!("{parts:?}") };
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert!(
            call.service.is_none() && matches!(call.parts[..], [Part::Take(0), Part::Calls(_), Part::Give(0)]),
            "{call:?}"
        );
    }
    assert!(!parts.iter().any(|p| matches!(p, Part::Take(_) | Part::Give(_))), "{parts:?}");
    assert_eq!(all_work(&after), all_work(&own));
}

#[test]
fn refusals_name_what_there_is() {
    for (text, part, near) in [
        ("workers gunicorn=+1", "no service is called", "app:8000"),
        ("workers postgres=+1", "limits nothing", "app:8000"),
        ("cpu nowhere=+1", "nothing that serves work", "web"),
        ("cpu web=-1", "none would be left", ""),
        ("pool app/lock 1=+1", "is a lock", "app:8000->postgres:5432"),
        ("queue postgres:5432=+1", "no queue with a bound", "app:8000"),
        ("scale web/app/disk=0.5", "no work is called", "web/app:8000/cpu"),
        ("scale db/postgres/lock=0.5", "no lock is called", "web/app/lock 1"),
        ("link web-cache delay=2x", "no requests go over", "app:8000-postgres:5432"),
        ("link app:8000-redis:6379 delay=2x", "no delay of the link", ""),
        ("link web-db bandwidth=10x", "only its delay", ""),
        ("drop GET /", "what clients ask for", "postgres:5432 SELECT a, b FROM t"),
        ("drop INSERT", "no call is named", "postgres:5432 SELECT a, b FROM t"),
        ("parallel redis:6379 GET", "no visit makes two", ""),
    ] {
        let mut model = Model::Jobs(jobs());
        let refusal = apply(&change(text), &mut model).expect_err(text);
        assert!(refusal.reason.contains(part), "{text}: {refusal}");
        assert!(near.is_empty() || refusal.near.iter().any(|n| n == near), "{text}: {refusal}");
        assert!(model == Model::Jobs(jobs()), "{text}");
    }
    let mut model = Model::Jobs(jobs());
    let refusal = apply(&change("workers postgres=+1"), &mut model).expect_err("refused");
    assert!(refusal.to_string().contains("Not seen: the number of workers of postgres:5432"), "{refusal}");
}

/// A sender that computes, waits for credits of a buffer, and a link; and a lock around half of its work.
fn machines() -> System {
    let queue = |name: &str, kind, capacity, initial| Queue {
        name: name.into(),
        kind,
        capacity,
        initial,
        delay_ns: 1000,
        ns_per_item: if kind == QueueKind::Link { 80.0 } else { 0.0 },
        when_full: WhenFull::Wait,
        is_bytes: matches!(kind, QueueKind::Link | QueueKind::Buffer),
    };
    let state = |state: &str| State {
        host: "a".into(),
        process: "send".into(),
        state: state.into(),
        station: (state == "cpu").then_some(StationId(0)),
    };
    let work = |state, ns| Step::Work { state: StateId(state), ns };
    let id = wakepath_forecast::system::QueueId;
    let steps = vec![
        work(0, 100),
        work(1, 50),
        Step::Dequeue { queue: id(3), count: 1, latency_ns: 0 },
        work(0, 100),
        Step::Enqueue { queue: id(3), count: 1, latency_ns: 0 },
    ];
    System {
        stations: vec![station("a", Discipline::Shared)],
        queues: vec![
            queue("a-b", QueueKind::Link, None, 0),
            queue("send send buffer", QueueKind::Buffer, None, 65_536),
            queue("parts", QueueKind::Annotated, Some(2), 0),
            queue("send/lock 1", QueueKind::Lock, None, 1),
            queue("connections", QueueKind::Pool, None, 2),
        ],
        states: vec![state("cpu"), state("encode")],
        scripts: std::iter::once(0..steps.len()).collect(),
        steps,
        rounds: 1,
        ..System::default()
    }
}

#[test]
fn machines_are_changed_too() {
    let made = |text: &str| {
        let mut model = Model::Machines(machines());
        apply(&change(text), &mut model).unwrap_or_else(|e| panic!("{e}"));
        let Model::Machines(system) = model else { unreachable!("a change keeps the kind of model") };
        system
    };
    let work =
        |s: &System| -> u64 { s.steps.iter().map(|s| if let Step::Work { ns, .. } = s { *ns } else { 0 }).sum() };
    assert_eq!(work(&machines()), 250);
    assert_eq!(work(&made("scale a/send/encode=0")), 200);
    assert_eq!(work(&made("scale */*/cpu=0.5")), 150);
    assert_eq!(work(&made("scale a/send/lock=0")), 150);
    assert_eq!(work(&made("speed send=2x")), 150);
    assert_eq!(made("speed a=2x").stations[0].speed, 2.0);
    assert_eq!(made("cpu a=+1").stations[0].servers, 2.0);
    assert_eq!(made("link a-b bandwidth=10x").queues[0].ns_per_item, 8.0);
    assert_eq!(
        made("link b-a bandwidth=1Gbit delay=0.5x").queues[0],
        Queue { ns_per_item: 8.0, delay_ns: 500, ..machines().queues[0].clone() }
    );
    assert_eq!(made("link * bandwidth=unbounded").queues[0].ns_per_item, 0.0);
    assert_eq!(made("queue send send buffer=2x").queues[1].initial, 131_072);
    assert!(made("queue send send buffer=unbounded").queues[1].initial > 1 << 40);
    assert_eq!(made("queue parts=+2").queues[2].capacity, Some(4));
    assert_eq!(made("queue parts=unbounded").queues[2].capacity, None);
    assert_eq!(made("pool connections=+3").queues[4].initial, 5);
    for (text, part) in [
        ("drop x", "state machines"),
        ("workers x=1", "no group of workers"),
        ("queue nothing=1", "no queue with a bound is called"),
        ("link a-c delay=0x", "no link is called"),
        ("scale a/b/c=2", "no work is called"),
    ] {
        let refusal = apply(&change(text), &mut Model::Machines(machines())).expect_err(text);
        assert!(refusal.reason.contains(part), "{text}: {refusal}");
    }
}
