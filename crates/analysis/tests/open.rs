//! For which connection a task waits, where the wait itself does not say it.

use wakepath_analysis::names::Names;
use wakepath_analysis::open::{Known, Unended, open};
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{
    DescriptorRow, EndedBy, Event, FlowNoteRow, OpKind, OpRow, SeenHow, Side, TcpState, WaitRow, descriptor,
};
use wakepath_testkit::recording::{Announced, Cuts, HostRows, Recording};
use wakepath_testkit::script::play;

const TASK: u32 = 1;
const ASKED: u64 = 11;
const OTHER: u64 = 12;
const PIPE: u64 = 1 << 63 | 77;
const RECVFROM: u16 = 45;
const DESCRIPTOR: u64 = 5;

/// A task with two connections out.
fn host() -> HostRows {
    let mut host = HostRows::new("web", 0);
    host.task(0, TASK, TASK, 0, "app");
    for (i, flow) in [ASKED, OTHER].into_iter().enumerate() {
        let (local, remote) = (([127, 0, 0, 1], 40000 + i as u16), ([127, 0, 0, 1], 80 + i as u16));
        let how = SeenHow::Connected;
        let (snd, rcv) = (0, 0);
        host.endpoint(10, &Announced { flow, local, remote, netns: 1, snd, rcv, task: TASK, how, side: Side::Client });
    }
    host
}

/// It waits for bytes on its descriptor 5, which `ended` or went on.
fn waits(host: &mut HostRows, at: u64, since: u64, ended: bool) {
    host.waited(since, at, at, TASK, TASK, 0);
    let Some(Event::Wait(row)) = host.rows.last_mut() else { unreachable!("it was added") };
    *row = WaitRow { syscall: RECVFROM, arg0: DESCRIPTOR, object: 0, ..*row };
    row.cause = if ended { EndedBy::Task } else { EndedBy::Open };
}

/// It received within a call in which it waited.
fn receives(host: &mut HostRows, entry: u64, at: u64, flow: u64) {
    waits(host, at - 1, entry + 1, true);
    host.moved((entry, at, at - 1), TASK, flow, false, 0..10);
    let Some(Event::Op(row)) = host.rows.last_mut() else { unreachable!("it was added") };
    *row = OpRow { syscall: RECVFROM, ..*row };
}

fn sends(host: &mut HostRows, at: u64, flow: u64) {
    host.moved((at - 1, at, 0), TASK, flow, true, 0..10);
}

/// What is open at the end of a host's recording.
fn found_open(host: HostRows) -> Unended {
    found_open_in(&Recording { hosts: vec![host], ..Recording::default() })
}

fn found_open_in(recording: &Recording) -> Unended {
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    open(&folder, &index, &Names::read(&folder))
}

/// For which flow it waits at the end, and how that is known.
fn awaited(mut host: HostRows) -> Option<(u64, Known)> {
    waits(&mut host, 10_000, 1_000, false);
    let found = found_open(host);
    let all: Vec<_> = found.waits.iter().flat_map(|w| &w.awaited).collect();
    assert!(all.len() <= 1, "{all:?}");
    all.first().map(|a| (a.end.1.0, a.known))
}

#[test]
fn what_is_logged_to_a_pipe_meanwhile_is_no_question() {
    let mut host = host();
    sends(&mut host, 100, ASKED);
    assert_eq!(awaited(host.clone()), Some((ASKED, Known::LastSend)));
    sends(&mut host, 200, PIPE);
    assert_eq!(awaited(host.clone()), Some((ASKED, Known::LastSend)));
    // what it received from a pipe may be what it asked for
    host.moved((290, 300, 299), TASK, PIPE, false, 0..10);
    assert_eq!(awaited(host), None);
}

#[test]
fn nothing_but_a_pipe_written_to_is_nobody_asked() {
    let mut host = host();
    sends(&mut host, 100, PIPE);
    assert_eq!(awaited(host), None);
}

#[test]
fn a_known_descriptor_goes_before_what_was_sent_last() {
    let mut host = host();
    receives(&mut host, 50, 60, ASKED);
    sends(&mut host, 100, ASKED);
    sends(&mut host, 200, OTHER);
    assert_eq!(awaited(host.clone()), Some((ASKED, Known::Descriptor)));
    // closed: the number is another's
    host.op(298, 300, TASK, ASKED, OpKind::Close, 0);
    assert_eq!(awaited(host), Some((OTHER, Known::LastSend)));
}

#[test]
fn who_waits_on_what_was_answered_or_on_a_pipe_is_owed_nothing() {
    for flow in [ASKED, PIPE] {
        let mut host = host();
        sends(&mut host, 20, flow);
        receives(&mut host, 50, 60, flow);
        sends(&mut host, 200, OTHER);
        assert_eq!(awaited(host), None, "{:?}", EndpointId(flow));
    }
}

#[test]
fn only_selected_processes_and_their_children_are_told() {
    const CHILD: u32 = 2;
    const OTHER_TASK: u32 = 3;
    let idle = |is_said: bool| {
        let mut host = host();
        host.task(0, OTHER_TASK, OTHER_TASK, 0, "other");
        if is_said {
            host.watched(1, TASK, "app");
        }
        host.task(20, CHILD, CHILD, TASK, "child");
        for task in [TASK, CHILD, OTHER_TASK] {
            host.waited(1_000, 10_000, 10_000, task, task, 0);
            let Some(Event::Wait(row)) = host.rows.last_mut() else { unreachable!("it was added") };
            row.cause = EndedBy::Open;
        }
        let recording = Recording { hosts: vec![host], ..Recording::default() };
        let dir = tempfile::tempdir().expect("a folder");
        let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
        let folder = Folder::open(&dirs).expect("opened");
        let index = Index::open(&folder, &dirs).expect("an index");
        let found = open(&folder, &index, &Names::read(&folder));
        found.idle.values().sum::<u64>() + found.waits.len() as u64
    };
    assert_eq!(idle(true), 2, "the process and its child");
    assert_eq!(idle(false), 3, "a recording that does not say who was selected has all");
}

/// A session of PostgreSQL is asked something at `at`; its answer, where it has one, 50 later.
fn session_asked(host: &mut HostRows, at: u64, task: u32, statement: (&str, &str), place: u64, is_answered: bool) {
    let flow = u64::from(task) + 100;
    let say = |host: &mut HostRows, at: u64, sent: bool, status: u16| {
        host.moved((at - 5, at, if sent { 0 } else { at - 6 }), task, flow, sent, place..place + 10);
        host.message(at, flow, sent, place..place + 10, if sent { ("", "") } else { statement }, status);
        let protocol = host.text("proto.postgres");
        let Some(Event::Message(row)) = host.rows.last_mut() else { unreachable!("it was added") };
        row.protocol = protocol;
    };
    say(host, at, false, 0);
    if is_answered {
        say(host, at + 50, true, 200);
    }
}

/// Sessions 1 and 2 have a transaction open, 3, 4 and 5 have none: 4 committed within one message, and the process of 5 has
/// ended. 1 sleeps in the middle of its second statement.
#[test]
fn a_session_that_sleeps_amid_a_statement_is_named_with_those_that_may_hold_it_up() {
    const EPOLL_WAIT: u16 = 232;
    let mut host = HostRows::new("db", 0);
    for task in 1..=5 {
        host.task(0, task, task, 0, "postgres");
        let (local, remote) = (([127, 0, 0, 1], 5432), ([127, 0, 0, 2], 40000 + task as u16));
        let (how, flow) = (SeenHow::Accepted, u64::from(task) + 100);
        host.endpoint(10, &Announced { flow, local, remote, netns: 1, snd: 0, rcv: 0, task, how, side: Side::Server });
        host.note(20, flow, true);
    }
    session_asked(&mut host, 1_000, 2, ("BEGIN", ""), 0, true);
    session_asked(&mut host, 2_000, 2, ("UPDATE", "t SET a = ?"), 10, true);
    session_asked(&mut host, 3_000, 1, ("BEGIN", ""), 0, true);
    session_asked(&mut host, 3_500, 3, ("BEGIN", ""), 0, true);
    session_asked(&mut host, 3_600, 3, ("COMMIT", ""), 10, true);
    session_asked(&mut host, 3_700, 4, ("BEGIN", "BEGIN; UPDATE t SET a = ?; COMMIT"), 0, true);
    session_asked(&mut host, 3_800, 5, ("BEGIN", ""), 0, true);
    host.ended(3_900, 5, 5);
    session_asked(&mut host, 4_000, 1, ("UPDATE", "t SET a = ?"), 10, false);
    for (task, since) in [(1, 4_010), (2, 2_060), (3, 3_660)] {
        host.waited(since, 9_000, 9_000, task, task, 0);
        let Some(Event::Wait(row)) = host.rows.last_mut() else { unreachable!("it was added") };
        *row = WaitRow { syscall: EPOLL_WAIT, arg0: 4, object: 0, cause: EndedBy::Open, ..*row };
    }
    let recording = Recording { hosts: vec![host], ..Recording::default() };
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    let found = open(&folder, &index, &Names::read(&folder)).sessions;
    let told: Vec<_> = found.iter().map(|h| (h.pid, h.statement.as_str(), h.is_in_transaction)).collect();
    assert_eq!(told, [(1001, "UPDATE t SET a = ?", true)], "{found:#?}");
    let others: Vec<_> = found[0].others.iter().map(|o| (o.at.1.0, o.statement.as_str())).collect();
    assert_eq!(others, [(2, "UPDATE t SET a = ?")], "3 and 4 have committed, and 5 is gone");
    // it answered at 2 050 and waits for its client since
    assert_eq!(found[0].others[0].idle_ns, Some(9_000 - 2_050));
}

/// When a recording began amid the life of a server.
const BEGAN: u64 = 1_000_000_000;

/// A connection that it had before, and its socket at two looks: when bytes came and went last (ns).
fn looked_at(host: &mut HostRows, received: u64, sent: u64, marks: u8, side: Side) {
    let (local, remote) = (([127, 0, 0, 1], 5432), ([127, 0, 0, 2], 40000));
    let how = SeenHow::Snapshot;
    let announced = Announced { flow: ASKED, local, remote, netns: 1, snd: 0, rcv: 0, task: TASK, how, side };
    host.endpoint(BEGAN + 10, &announced);
    for (at, look) in [(BEGAN + 20, 1), (2 * BEGAN, 2)] {
        host.rows.push(Event::Descriptor(DescriptorRow {
            at: MonoNs(at),
            flow: EndpointId(ASKED),
            received: MonoNs(received),
            sent: MonoNs(sent),
            task: TaskId(TASK),
            fd: 9,
            state: TcpState::Established,
            marks: marks | descriptor::WATCHED,
            look,
            ..DescriptorRow::default()
        }));
    }
}

/// What is told of one connection that a server had before the recording (which begins at 1 s), whose socket looked like
/// this: how many answers are due, and of how many that is not known.
fn silent(received: u64, sent: u64, marks: u8, side: Side) -> (usize, u64) {
    let mut host = HostRows::new("db", 0);
    host.rows.clear();
    host.anchor(BEGAN);
    host.task(BEGAN, TASK, TASK, 0, "postgres");
    looked_at(&mut host, received, sent, marks, side);
    let found = found_open(host);
    assert_eq!(found.open_before, 1, "{found:#?}");
    (found.before.len(), found.before_unknown)
}

#[test]
fn no_answer_is_due_only_where_a_socket_shows_who_spoke_last() {
    const TICK: u64 = 500_000_000;
    const BOTH: u8 = descriptor::SENT | descriptor::RECEIVED;
    let told = [
        (silent(TICK + 4, TICK, BOTH, Side::Server), (1, 0), "it was asked last"),
        (silent(TICK, TICK + 4, BOTH, Side::Server), (0, 0), "it answered"),
        (silent(TICK, TICK, BOTH | descriptor::LAST_IN, Side::Server), (1, 0), "asked in the tick of its last reply"),
        (silent(TICK, TICK, BOTH | descriptor::LAST_OUT, Side::Server), (0, 0), "answered within a tick"),
        (silent(TICK, TICK, BOTH | descriptor::LAST_OUT, Side::Client), (1, 0), "asks in the tick of the last reply"),
        (silent(TICK, TICK, BOTH, Side::Server), (0, 1), "within a tick, and nothing else was seen"),
        (silent(TICK + 4, TICK, BOTH, Side::Unknown), (0, 1), "which end it is was not seen"),
        (silent(TICK, TICK, 0, Side::Unknown), (0, 0), "nothing ever moved"),
    ];
    for (found, expected, what) in told {
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn who_sent_last_says_nothing_where_the_service_speaks_http_2() {
    const TICK: u64 = 500_000_000;
    for (protocol, due) in [("proto.http1", 1), ("proto.http2", 0)] {
        let mut host = HostRows::new("db", 0);
        host.rows.clear();
        host.anchor(BEGAN);
        host.task(BEGAN, TASK, TASK, 0, "envoy");
        looked_at(&mut host, TICK + 4, TICK, descriptor::SENT | descriptor::RECEIVED, Side::Server);
        // another connection of the same service, amid the recording
        let (local, remote) = (([127, 0, 0, 1], 5432), ([127, 0, 0, 2], 40001));
        let (how, side) = (SeenHow::Accepted, Side::Server);
        let announced = Announced { flow: ASKED + 1, local, remote, netns: 1, snd: 0, rcv: 0, task: TASK, how, side };
        host.endpoint(BEGAN + 30, &announced);
        let (at, protocol) = (MonoNs(BEGAN + 40), host.text(protocol));
        host.rows.push(FlowNoteRow { at, flow: EndpointId(ASKED + 1), protocol, ..Default::default() }.into());
        let found = found_open(host);
        assert_eq!((found.before.len(), found.before_unknown), (due, 1 - due as u64), "{found:#?}");
    }
}

/// A socket of a process as it was before the recording and stayed, and whose process is watched or not.
fn stayed(host: &mut HostRows, task: u32, ports: (u16, u16), side: Side, last: (u64, u64), is_watched: bool) {
    let flow = u64::from(ports.0) << 16 | u64::from(ports.1);
    let (local, remote) = (([127, 0, 0, 1], ports.0), ([127, 0, 0, 1], ports.1));
    let how = SeenHow::Snapshot;
    host.endpoint(BEGAN + 10, &Announced { flow, local, remote, netns: 1, snd: 0, rcv: 0, task, how, side });
    for (at, look) in [(BEGAN + 20, 1), (2 * BEGAN, 2)] {
        host.rows.push(Event::Descriptor(DescriptorRow {
            at: MonoNs(at),
            flow: EndpointId(flow),
            received: MonoNs(last.0),
            sent: MonoNs(last.1),
            task: TaskId(task),
            fd: u32::from(ports.1),
            state: TcpState::Established,
            marks: descriptor::SENT | descriptor::RECEIVED | if is_watched { descriptor::WATCHED } else { 0 },
            look,
            ..DescriptorRow::default()
        }));
    }
}

/// Before the recording, a session of PostgreSQL answered (1, asked by psql 11), then another was asked (2, by psql 12), then a third (3,
/// by app 4, which owes an answer itself): 2 and 3 wait, and 1 may hold their lock.
#[test]
fn who_owes_answers_comes_before_who_asks_them_and_a_silent_session_is_named() {
    let mut host = HostRows::new("db", 0);
    host.rows.clear();
    host.anchor(BEGAN);
    for (task, name) in [(1, "postgres"), (2, "postgres"), (3, "postgres"), (4, "app"), (11, "psql"), (12, "psql")] {
        host.task(BEGAN, task, task, 0, name);
    }
    let ms = |n: u64| n * 1_000_000;
    for (session, client, port, asked, answered) in
        [(1, 11, 501, 100, 200), (2, 12, 502, 400, 300), (3, 4, 503, 500, 300)]
    {
        stayed(&mut host, session, (5432, port), Side::Server, (ms(asked), ms(answered)), true);
        stayed(&mut host, client, (port, 5432), Side::Client, (ms(answered), ms(asked)), client == 4);
    }
    // it answered last, but after 2 was asked: it was not in the way then
    stayed(&mut host, 3, (5432, 504), Side::Server, (ms(410), ms(420)), true);
    stayed(&mut host, 4, (80, 600), Side::Server, (ms(450), ms(440)), true);
    let found = found_open(host);
    let of = |places: &[usize]| places.iter().map(|&i| found.before[i].leader.1.0).collect::<Vec<_>>();
    let owing: Vec<_> = found.owing.iter().map(|o| (of(&o.before), o.asks.clone())).collect();
    assert_eq!(owing, [(vec![2, 3], vec![]), (vec![4], vec![0])], "{found:#?}");
    let clients: Vec<_> = found.before.iter().map(|b| b.other.map(|t| t.1.0)).collect();
    assert_eq!(clients, [Some(12), None, Some(4)], "{found:#?}");
    let silent: Vec<_> = found.silent.iter().map(|a| (a.leader.1.0, a.client.map(|t| t.1.0))).collect();
    assert_eq!(silent, [(1, Some(11)), (3, None)], "{found:#?}");
}

/// Nobody waits any more for the reply to a request whose client closed its end: that is no hang for anybody.
#[test]
fn a_request_whose_client_left_says_so() {
    let script = "
task A app
task B app
flow c - A
flow e - B
100 A takes r1 c
110 B takes r2 e
150 A loses client c
400 B woken by timer since 390
";
    let recording = play(script).expect("the script");
    let left: Vec<_> = found_open_in(&recording).requests.iter().map(|r| r.left_ago_ns.is_some()).collect();
    assert_eq!(left, [true, false]);
}

/// Its client left and its server closed the connection: what it asked for elsewhere goes on, and that is told. Where no part of it is
/// known to be open, it is told that nothing is known.
#[test]
fn what_a_request_asked_for_goes_on_when_its_client_left() {
    let script = |calls: &str| {
        let script = format!(
            "
task A app
task D db
task Z other
flow c - A
flow d A D
100 A takes r1 c
{calls}150 A loses client c
160 A drops c
400 Z woken by timer since 390
"
        );
        found_open_in(&play(&script).expect("the script"))
    };
    let found = script("110 A asks q1 d for r1\n120 D takes q1\n");
    let told: Vec<_> = found.requests.iter().map(|r| (r.goes_on, r.left_ago_ns.is_some())).collect();
    assert_eq!((told, found.left_unknown), (vec![(true, true)], 0));
    let found = script("110 A asks q1 d for r1\n120 D takes q1\n130 D answers q1\n140 A hears q1\n");
    assert_eq!(found.requests, []);
}

/// Its connection goes on, and says nothing of it.
#[test]
fn a_request_that_its_client_took_back_is_not_in_flight() {
    let script = "
task A app
flow s - A streams
flow c - A
100 A takes r1 s
110 A reads withdrawal r1
120 A takes r2 c
130 A answers r2
";
    let recording = play(script).expect("the script");
    assert_eq!(found_open_in(&recording).requests, []);
}

/// A server that owes an answer since before the recording: its threads that only slept may have that request, those that worked do not.
#[test]
fn who_only_slept_where_an_answer_is_due_is_not_called_idle() {
    let mut host = HostRows::new("db", 0);
    host.rows.clear();
    host.anchor(BEGAN);
    for task in [TASK, TASK + 1, TASK + 2] {
        host.task(BEGAN, task, TASK, 0, "app");
    }
    let both = descriptor::SENT | descriptor::RECEIVED;
    looked_at(&mut host, 500_000_004, 500_000_000, both, Side::Server);
    // the third worked for another connection
    host.moved((BEGAN + 30, BEGAN + 40, BEGAN + 35), TASK + 2, OTHER, false, 0..10);
    for task in [TASK + 1, TASK + 2] {
        host.waited(BEGAN + 50, 2 * BEGAN, 2 * BEGAN, task, task, 0);
        let Some(Event::Wait(row)) = host.rows.last_mut() else { unreachable!("it was added") };
        *row = WaitRow { syscall: 202, cause: EndedBy::Open, ..*row };
    }
    let found = found_open(host);
    let count = |tasks: &std::collections::BTreeMap<_, u64>| tasks.values().sum::<u64>();
    assert_eq!((count(&found.may_owe), count(&found.idle)), (1, 1), "{found:#?}");
}
