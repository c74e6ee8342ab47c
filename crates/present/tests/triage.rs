//! What triage says of what hangs, and in which order.

use wakepath_present::open::{HeldView, OpenView, OwingView, SessionView, SilentView, StoppedView};
use wakepath_present::triage::{Part, Parts, Section, TriageView};

const S: u64 = 1_000_000_000;

/// What had not ended: nothing.
fn nothing() -> OpenView {
    OpenView {
        circles: Vec::new(),
        head: "No request was in flight.".into(),
        requests: Vec::new(),
        left_unknown: 0,
        open_before: 0,
        before_sentence: None,
        before: Vec::new(),
        before_unknown: 0,
        owing: Vec::new(),
        sessions: Vec::new(),
        silent: Vec::new(),
        stopped: Vec::new(),
        full_queues: Vec::new(),
        waits: Vec::new(),
        idle: Vec::new(),
        may_owe: Vec::new(),
        may_have: Vec::new(),
        awaited: Vec::new(),
    }
}

/// The sentences on what hangs.
fn told(open: OpenView) -> Vec<String> {
    let none = || "it is not asked here".to_owned();
    let parts = Parts {
        requests: Part::None(none()),
        why: Part::None(none()),
        open: Part::Answer(open),
        forecast: Part::None(none()),
        info: Part::None(none()),
        losses: Vec::new(),
    };
    let hangs = TriageView::new("t", &parts).findings.into_iter().filter(|f| f.section == Section::Hangs);
    hangs.map(|f| f.sentence).collect()
}

fn session(task: &str, statement: &str, idle_ns: Option<u64>) -> SessionView {
    let client = idle_ns.map(|_| "psql/7 (127.0.0.1:4000)".to_owned());
    SessionView { task: task.into(), statement: statement.into(), idle_ns, client }
}

fn asleep(task: &str, age_ns: u64, statement: &str, others: Vec<SessionView>) -> HeldView {
    let query = format!("SELECT pg_blocking_pids({})", task.trim_start_matches("postgres/"));
    let (task, host, statement) = (task.into(), "db".into(), statement.into());
    HeldView { task, host, age_ns, statement, is_in_transaction: false, others, query }
}

fn queue(others: Vec<SessionView>) -> Vec<HeldView> {
    vec![
        asleep("postgres/2", 9 * S, "ALTER TABLE stock", others),
        asleep("postgres/3", 8 * S, "SELECT * FROM stock", Vec::new()),
        asleep("postgres/4", 7 * S, "SELECT * FROM stock", Vec::new()),
        // what has just begun to wait hangs nowhere
        asleep("postgres/5", S / 20, "SELECT ?", Vec::new()),
    ]
}

#[test]
fn who_may_hold_the_lock_comes_first_then_the_first_in_the_queue() {
    let idle = session("postgres/1", "SELECT ?", Some(10 * S));
    let sleeper = session("postgres/3", "SELECT * FROM stock", None);
    let sessions = queue(vec![idle, sleeper.clone()]);
    assert_eq!(
        told(OpenView { sessions, ..nothing() })[0],
        "postgres/1, client psql/7 (127.0.0.1:4000), has a transaction open, last with SELECT ?, and has waited for its client for \
         10.0 s: it may hold the lock that others wait for. postgres/2 has slept for 9.00 s in the middle of ALTER TABLE stock, then 2 \
         more sessions in SELECT * FROM stock. Ask the server: SELECT pg_blocking_pids(2)"
    );
    let sessions = queue(vec![sleeper]);
    let only_sleepers = &told(OpenView { sessions, ..nothing() })[0];
    assert!(only_sleepers.contains("All other sessions with an open transaction sleep so too."), "{only_sleepers}");
}

/// A session that was silent during the whole recording may have a transaction open, or not: it is named, and nothing is claimed.
#[test]
fn a_silent_session_is_named_where_none_is_known_to_have_a_transaction_open() {
    let (task, host, client) = ("postgres/1".into(), "db".into(), "psql/7 (127.0.0.1:4000)".into());
    let silent = vec![SilentView { task, host, age_ns: 10 * S, client }];
    let sessions = vec![asleep("postgres/2", 9 * S, "ALTER TABLE stock", Vec::new())];
    assert_eq!(
        told(OpenView { sessions, silent, ..nothing() })[0],
        "postgres/2 has slept for 9.00 s in the middle of ALTER TABLE stock. No other session with an open transaction was recorded. \
         Silent since before that: postgres/1, client psql/7 (127.0.0.1:4000), for 10.0 s. If a transaction is open there, others may \
         wait for its locks. Ask the server: SELECT pg_blocking_pids(2)"
    );
}

/// Each service is said to wait for the one that it asks, and the one that asks none of them comes first.
#[test]
fn services_that_owe_answers_are_told_from_the_one_that_waits_for_no_other() {
    let owes = |service: &str, connections, asks: &[&str], silent: Option<&str>| OwingView {
        service: service.into(),
        host: "db".into(),
        connections,
        oldest_ns: 9 * S,
        asks: asks.iter().map(|&a| a.to_owned()).collect(),
        sentence: format!("{service} hangs."),
        silent_sentence: silent.map(str::to_owned),
    };
    let owing = vec![
        owes("db:5432", 17, &[], Some("One is silent.")),
        owes("web:81", 1, &["db:5432"], None),
        owes("nginx:80", 29, &["web:81"], None),
        owes("other:90", 2, &[], None),
    ];
    assert_eq!(
        told(OpenView { owing, ..nothing() })[..2],
        [
            "db:5432 hangs. web:81 waits for db:5432, and owes 1 answer itself; nginx:80 waits for web:81, and owes 29 answers itself. \
             One is silent.",
            "other:90 hangs."
        ]
    );
}

#[test]
fn a_stopped_process_comes_before_what_waits_for_it() {
    let stopped = |name: &str, age_ns| StoppedView {
        process: name.into(),
        host: "db".into(),
        threads: 38,
        age_ns,
        sentence: format!("{name} has been stopped"),
    };
    let open = OpenView {
        stopped: vec![stopped("java/7", 3 * S), stopped("sh/8", S / 2)],
        sessions: queue(Vec::new()),
        ..nothing()
    };
    let told = told(open);
    assert_eq!(told[0], "java/7 has been stopped", "and the other one only just: {told:?}");
    assert!(!told.iter().any(|text| text.contains("sh/8")), "{told:?}");
}

/// A refusal that names an option is followed by the command that has it.
#[test]
fn a_refusal_that_says_which_option_helps_is_followed_by_it() {
    let none = || "it is not asked here".to_owned();
    let told = |why: &str| {
        let parts = Parts {
            requests: Part::None(none()),
            why: Part::None(none()),
            open: Part::None(none()),
            forecast: Part::None(why.to_owned()),
            info: Part::None(none()),
            losses: Vec::new(),
        };
        let mut limits = TriageView::new("t", &parts).findings.into_iter().filter(|f| f.section == Section::Limits);
        limits.next().and_then(|f| f.next).expect("a command")
    };
    let one_kind = "t: they would count as other clients'; forecast one kind: --request 'GET /shop/item/{n}'";
    assert_eq!(told(one_kind), "wakepath bottleneck t --request 'GET /shop/item/{n}'");
    assert_eq!(told("t: nothing was replayed"), "wakepath why t");
}
