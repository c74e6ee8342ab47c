//! To whose account time goes, and what is no request that could be slow.

use std::collections::BTreeMap;
use wakepath_analysis::critical_path::critical_path;
use wakepath_analysis::names::Names;
use wakepath_analysis::open::open;
use wakepath_analysis::reasons;
use wakepath_analysis::requests::{Awaited, Kinds};
use wakepath_analysis::spans::lay_out;
use wakepath_analysis::throttled::throttled;
use wakepath_analysis::why::{Cause, Detail, Reader, What};
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{EndpointId, MonoNs, TaskId};
use wakepath_model::rows::{
    EndedBy, EndpointRow, Event, LimitKind, LimitRow, MessageRole, TcpState, WaitRow, message_flag,
};
use wakepath_testkit::recording::{Cuts, HostRows, Recording};
use wakepath_testkit::script::play;

/// Writes a recording and gives its requests to `take`, with what is needed to look into it.
fn each(recording: &Recording, mut take: impl FnMut(&Folder, &Index, &Names<'_>, Request)) {
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    let names = Names::read(&folder);
    wakepath_causality::reconstruct(&folder, |r| take(&folder, &index, &names, r), |_, _, _, _| {});
}

/// How long (us) the critical paths of a script's requests went to each cause and service.
fn told(script: &str) -> Vec<(Cause, String, u64)> {
    let mut out: Vec<(Cause, String, u64)> = Vec::new();
    slices(&play(script).expect("the script"), |what, _, us| {
        match out.iter_mut().find(|o| (o.0, &o.1) == (what.cause, &what.service)) {
            Some(o) => o.2 += us,
            None => out.push((what.cause, what.service, us)),
        }
    });
    out
}

/// Gives the critical paths of a recording's requests to `take`, slice by slice, with how long each lasted (us).
fn slices(recording: &Recording, mut take: impl FnMut(What, Detail, u64)) {
    each(recording, |folder, index, names, r| {
        let reader = Reader::new(folder, index, names);
        let path = critical_path(folder, index, &r);
        reader.read_path(Some(&r), |step| path.drain(step), &mut |s, what, detail| {
            take(what, detail, s.duration_ns() / 1000)
        });
    });
}

/// The app waits for another process of its name, which sleeps: before a handshake, as far as anybody can read.
const TWO_OF_A_NAME: &str = "
task P sh
task A python3 by P with python3 app.py
task B python3 by P with python3 peer.py
flow c - A
50 B woken by timer since 40
100 A takes r1 c
5000 B woken by timer since 120
5010 A woken by B since 110
5100 A answers r1
6000 B woken by timer since 5500
6000 A woken by timer since 5500
";

#[test]
fn what_another_process_of_the_same_name_did_is_not_the_callers() {
    let told = told(TWO_OF_A_NAME);
    let slept: Vec<_> = told.iter().filter(|t| t.0 == Cause::Timer).map(|t| (t.1.as_str(), t.2)).collect();
    assert_eq!(slept, [("python3 peer.py", 4879)], "{told:?}");
}

#[test]
fn workers_of_one_command_line_are_one_service() {
    let told = told(&TWO_OF_A_NAME.replace("peer.py", "app.py"));
    assert!(told.iter().any(|t| t.0 == Cause::Timer && t.1.starts_with("python3:")), "{told:?}");
}

/// A worker of its own asks for work and gets it late; another one's request is not answered when the recording ends.
const WORKER: &str = "
task W worker
task D redis
flow d W D
100 W asks q1 d for -
110 D takes q1
5000 D answers q1
5010 W hears q1
5100 W asks q2 d for -
5110 D takes q2
9000 W woken by timer since 8000
";

/// The script's recording, where all requests ask to wait until something happens.
fn waiting(is_so: bool) -> Recording {
    let mut recording = play(WORKER).expect("the script");
    for event in recording.hosts.iter_mut().flat_map(|h| &mut h.rows) {
        if let Event::Message(m) = event
            && m.role == MessageRole::Request
            && is_so
        {
            m.flags |= message_flag::AWAITS;
        }
    }
    recording
}

#[test]
fn who_asks_to_wait_for_work_makes_no_slow_request_and_hangs_nowhere() {
    for is_so in [false, true] {
        let recording = waiting(is_so);
        let mut kinds = Kinds::default();
        each(&recording, |_, _, names, r| kinds.add(&r, names));
        let awaited = kinds.awaited.values().fold(Awaited::default(), |a, b| Awaited {
            count: a.count + b.count,
            answered: a.answered + b.answered,
            longest_ns: a.longest_ns.max(b.longest_ns),
        });
        let (requests, waits) = if is_so { (0, (2, 1)) } else { (2, (0, 0)) };
        assert_eq!((kinds.requests, kinds.kinds.len() as u64), (requests, requests));
        assert_eq!((awaited.count, awaited.answered), waits);
        assert_eq!(awaited.longest_ns > 4_000_000, is_so, "{awaited:?}");

        let dir = tempfile::tempdir().expect("a folder");
        let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
        let folder = Folder::open(&dirs).expect("opened");
        let index = Index::open(&folder, &dirs).expect("an index");
        let unended = open(&folder, &index, &Names::read(&folder));
        assert_eq!(unended.requests.len(), usize::from(!is_so));
        assert_eq!(unended.awaited.values().map(|a| a.0).sum::<u64>(), u64::from(is_so));
    }
}

/// A subscription is made ready at once, and whoever makes it waits for what comes then: it is no request that could be slow.
#[test]
fn a_subscription_is_no_kind_of_request() {
    let mut recording = play(WORKER).expect("the script");
    for event in recording.hosts.iter_mut().flat_map(|h| &mut h.rows) {
        if let Event::Message(m) = event
            && m.role == MessageRole::Request
        {
            m.flags |= message_flag::SUBSCRIBES;
        }
    }
    let mut kinds = Kinds::default();
    each(&recording, |_, _, names, r| kinds.add(&r, names));
    assert_eq!((kinds.requests, kinds.kinds.len(), kinds.opened.values().sum::<u64>()), (0, 0, 2));
}

/// A request lies in the queue of a listener whose process has no descriptor left: it was not busy.
const NO_DESCRIPTOR: &str = "
task C cli
task A app
flow c C A ports 40000 80
90 A woken by timer since 80
100 C asks r1 c for -
4000 A accepts c
4010 A takes r1
4100 A answers r1
4200 C hears r1
6000 A woken by timer since 5500
";

#[test]
fn a_request_that_no_descriptor_was_left_for_says_so() {
    let us = |t: u64| MonoNs(t * 1000);
    for failures in [&[][..], &[1_000, 2_000]] {
        let mut recording = play(NO_DESCRIPTOR).expect("the script");
        let rows = &mut recording.hosts[0].rows;
        let begin = rows.iter().map(Event::at).min().expect("a row");
        let listener = EndpointId(999);
        let listens = EndpointRow {
            at: begin,
            flow: listener,
            lport: 80,
            state: TcpState::Listen,
            family: 2,
            protocol: 6,
            ..Default::default()
        };
        rows.push(listens.into());
        rows.extend(failures.iter().map(|&t| {
            Event::from(LimitRow {
                at: us(t),
                flow: listener,
                kind: LimitKind::Descriptors,
                value: 24,
                ..Default::default()
            })
        }));
        rows.sort_by_key(Event::at);
        let mut queued: BTreeMap<bool, u64> = BTreeMap::new();
        slices(&recording, |what, detail, us| {
            if what.cause == Cause::Queue {
                *queued.entry(detail.reason == Some(reasons::NO_DESCRIPTOR)).or_default() += us;
            }
        });
        let starved = queued.get(&true).copied().unwrap_or_default();
        assert_eq!(starved, if failures.is_empty() { 0 } else { 3_000 }, "{queued:?}");
        assert!((3_800..4_000).contains(&queued.values().sum::<u64>()), "{queued:?}");
    }
}

/// The rest of a request comes late: that time is the client's.
#[test]
fn time_in_which_the_client_sends_is_not_the_servers() {
    let script = "
task A app
flow c - A
90 A woken by timer since 80
100 A takes r1 c part
5000 A woken by c since 110
5010 A takes r1 rest
5100 A answers r1
6000 A woken by timer since 5500
";
    let mut timed = Vec::new();
    each(&play(script).expect("the script"), |_, _, _, r| timed.extend(lay_out(&r)));
    let sums: Vec<(u64, u64)> = timed.iter().map(|t| (t.self_ns / 1000, (t.end.0 - t.start.0) / 1000)).collect();
    assert_eq!(timed.len(), 1, "{sums:?}");
    assert!(timed[0].self_ns <= 200_000, "{sums:?}");
}

/// A loop has one connection to its service, and a request waits until another's answer comes on it.
#[test]
fn who_waits_for_a_place_at_a_service_waits_until_that_has_answered_another() {
    let script = "
task A haproxy
task B puma
context k of A
context j of A
flow c - A
flow e - A
flow b A B
95 A woken by c since 50 in epoll
100 A/k takes r1 c
105 A/k asks q1 b for r1
109 B woken by b since 60 in epoll
110 B takes q1
120 A woken by e since 108 in epoll
122 A/j takes r2 e
500 B answers q1
505 A woken by b since 130 in epoll
506 A/k hears q1
507 A/k answers r1
508 A/j asks q2 b for r2
511 B woken by b since 502 in epoll
512 B takes q2
700 B answers q2
705 A woken by b since 515 in epoll
706 A/j hears q2
710 A/j answers r2
";
    let (mut queued, mut own) = (0, 0);
    slices(&play(script).expect("the script"), |what, detail, us| {
        let is_queue = what.cause == Cause::Queue && detail.reason == Some(reasons::OTHERS_ANSWERED);
        assert!(!is_queue || what.service.starts_with("puma"), "{what:?}");
        *(if is_queue { &mut queued } else { &mut own }) += us;
    });
    assert!((360..=390).contains(&queued), "{queued} of {own} more");
}

/// Two threads of a process and one of another are held back by the quota of one cgroup, at times at once: what no thread of theirs could use
/// counts once. Who was preempted by others, and who has no quota, was not held back.
#[test]
fn what_a_quota_holds_back_counts_once_for_all_threads() {
    let mut host = HostRows::new("web", 0);
    for (task, leader) in [(1, 1), (2, 1), (3, 3), (4, 4)] {
        host.task(0, task, leader, 0, "app");
    }
    for task in [1, 3] {
        host.rows.push(Event::Limit(LimitRow {
            at: MonoNs(5),
            value: 10,
            beside: 100,
            task: TaskId(task),
            kind: LimitKind::Quota,
            ..LimitRow::default()
        }));
    }
    for (task, from, to, is_quota) in
        [(1, 100, 200, true), (2, 150, 300, true), (3, 290, 310, true), (1, 400, 500, false), (4, 500, 600, true)]
    {
        host.waited(from, to, to, task, task, 0);
        let Some(Event::Wait(row)) = host.rows.last_mut() else { unreachable!("it was added") };
        *row = WaitRow { cause: EndedBy::Preempted, object: u64::from(is_quota), ..*row };
    }
    let recording = Recording { hosts: vec![host], ..Recording::default() };
    let dir = tempfile::tempdir().expect("a folder");
    let folder =
        Folder::open(&recording.write(&dir.path().join("t"), Cuts::default()).expect("written")).expect("opened");
    let found = throttled(&folder, &Names::read(&folder));
    assert_eq!(found.len(), 1, "{found:#?}");
    let t = &found[0];
    assert_eq!((t.task.0, t.processes, t.quota_ns, t.held_ns), (1, 2, (10, 100), 210), "{t:#?}");
}
