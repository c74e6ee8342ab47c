//! What came waits until its thread has time for it: the critical path says what that did instead, and for whom.

mod support;

use support::check;
use wakepath_analysis::critical_path::critical_path;
use wakepath_analysis::slices::{Slice, State};
use wakepath_analysis::spans::lay_out;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::Event;
use wakepath_testkit::recording::{Cuts, Recording};
use wakepath_testkit::script::play;

/// Of the longest request of a script: begin and end (us from its own begin), state, and object or reason of each slice of a state
/// that is asked for.
fn told(script: &str, wanted: &[State]) -> Vec<(i64, i64, State, String)> {
    told_of(&play(script).expect("the script"), wanted)
}

fn told_of(recording: &Recording, wanted: &[State]) -> Vec<(i64, i64, State, String)> {
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    let mut longest: (u64, Vec<Slice>) = Default::default();
    wakepath_causality::reconstruct(
        &folder,
        |r| {
            let root = lay_out(&r)[0].clone();
            let mut slices = Vec::new();
            critical_path(&folder, &index, &r).drain(&mut |s| slices.push(s));
            check(&slices, index.common(root.host, root.start), index.common(root.host, root.end));
            if root.duration_ns() > longest.0 {
                longest = (root.duration_ns(), slices);
            }
        },
        |_, _, _, _| {},
    );
    let zero = longest.1[0].from.0;
    let us = |at: i64| (at - zero) / 1000;
    let slices = longest.1.into_iter().filter(|s| wanted.contains(&s.state));
    slices
        .map(|s| (us(s.from.0), us(s.to.0), s.state, s.object.or(s.reason.map(str::to_owned)).unwrap_or_default()))
        .collect()
}

const BEFORE: &str = "
task C client
task D client
task B back
task A app
flow c C A
flow e D A
flow b A B
";

/// A loop computes for one request while another's bytes lie there.
#[test]
fn a_request_that_had_come_waited_for_what_its_loop_did_for_another() {
    let script = format!(
        "{BEFORE}
85 D asks r2 e for -
88 A woken by e since 10 in epoll
90 A takes r2
100 C asks r1 c for -
500 A answers r2
510 A takes r1
520 A answers r1
525 C hears r1
525 D hears r2
"
    );
    let queued = told(&script, &[State::Queued]);
    assert_eq!(queued.len(), 2, "{queued:?}");
    let (from, to, _, what) = &queued[0];
    assert!(*from <= 1 && (398..=400).contains(to) && what == "computing for GET /r2", "{queued:?}");
    assert_eq!(queued[1].3, "computing", "between two connections it is anybody's");
    let ran = told(&script, &[State::Running]);
    assert!(ran.iter().map(|s| s.1 - s.0).sum::<i64>() < 20, "{ran:?}");
}

/// What nobody saw arrive was on its way, or lay there while the loop computed. It was on its way while the loop waited for it.
#[test]
fn a_call_that_was_not_seen_to_arrive_is_on_the_network_only_while_its_server_waited_for_it() {
    let of = |server: &str, state| {
        let script = format!(
            "{BEFORE}5 C asks r1 c for -\n10 A takes r1\n20 A asks r2 b for r1\n{server}\n520 A hears r2\n530 A answers r1\n535 C hears r1\n"
        );
        let mut recording = play(&script).expect("the script");
        for row in recording.hosts.iter_mut().flat_map(|h| &mut h.rows) {
            if let Event::Op(o) = row {
                o.arrived = MonoNs(0);
            }
        }
        told_of(&recording, &[state])
    };
    let busy = "500 B takes r2\n510 B answers r2";
    let unknown = of(busy, State::Unknown);
    assert!(unknown.iter().any(|s| s.1 - s.0 > 470), "{unknown:?}");
    let network = of(busy, State::Network);
    assert!(network.iter().all(|s| s.1 - s.0 < 20), "{network:?}");
    let waiting = "498 B woken by b since 2 in epoll\n500 B takes r2\n510 B answers r2";
    let network = of(waiting, State::Network);
    assert!(network.iter().any(|s| s.1 - s.0 > 470), "{network:?}");
}

/// A worker that another thread hands requests to is done with one before it has the next.
#[test]
fn a_request_that_was_handed_over_waited_for_what_its_worker_did_for_another() {
    let script = |before: &str| {
        format!(
            "
task C client
task D client
task A app
task W app of A
flow c C A
flow e D A
{before}100 C asks r1 c for -
101 D asks r2 e for -
102 A takes r1
103 A takes r2
105 W woken by A since 10
480 W answers r2
500 W answers r1
505 C hears r1
505 D hears r2
"
        )
    };
    let of = |before: &str, state| -> i64 { told(&script(before), &[state]).iter().map(|s| s.1 - s.0).sum() };
    assert!((370..=385).contains(&of("", State::Queued)), "{:?}", told(&script(""), State::ALL));
    assert_eq!(of("", State::Unknown), 0);
    // one that takes requests itself may have been at both until it replied
    let takes = "20 D asks r0 e for -\n22 W takes r0\n30 W answers r0\n32 D hears r0\n";
    assert!((15..=25).contains(&of(takes, State::Unknown)), "{:?}", told(&script(takes), State::ALL));
}

/// Before it was accepted nobody but the acceptor could have taken a connection, and a child that is made for it did nothing before.
#[test]
fn what_lay_before_a_child_was_made_for_it_waited_for_the_acceptor() {
    let script = |acceptor: &str| {
        format!(
            "
task C client
task D client
task P app
flow c C P
flow e D P
100 C asks r1 c for -
{acceptor}410 P accepts c
450 P forks B app
460 B takes r1
500 B answers r1
505 C hears r1
"
        )
    };
    let all = told(&script("400 P woken by c since 50 when 100 in epoll\n"), State::ALL);
    let of = |all: &[(i64, i64, State, String)], state| -> i64 {
        all.iter().filter(|s| s.2 == state).map(|s| s.1.min(350) - s.0.min(350)).sum()
    };
    assert!(of(&all, State::Preempted) >= 295 && of(&all, State::Queued) <= 60, "{all:?}");
    assert!(all.iter().all(|s| s.3 != "computing" || s.0 >= 295), "{all:?}");
    // it may be busy with another
    let busy =
        "80 D asks r2 e for -\n85 P woken by e since 10 in epoll\n86 P takes r2\n390 P answers r2\n395 D hears r2\n";
    let all = told(&script(busy), State::ALL);
    let served = |s: &&(i64, i64, State, String)| s.3 == "computing for GET /r2";
    assert!((285..=295).contains(&all.iter().filter(served).map(|s| s.1 - s.0).sum::<i64>()), "{all:?}");
}

/// The same of an answer that the loop had asked for.
#[test]
fn an_answer_that_had_come_waited_for_what_its_loop_did_for_another() {
    let script = |until: &str, by: &str| {
        format!(
            "{BEFORE}context k of A
context j of A
50 C asks r1 c for -
58 A woken by c since 10 in epoll
60 A/k takes r1
65 A/k asks q1 b for r1
80 D asks r2 e for -
88 A woken by e since 70 in epoll
90 A/j takes r2
95 B takes q1
100 B answers q1
{until}500 A/j answers r2
{by}510 A/k hears q1
520 A/k answers r1
525 C hears r1
525 D hears r2
"
        )
    };
    let queued = told(&script("", ""), &[State::Queued]);
    let of_other: i64 = queued.iter().filter(|s| s.3 == "computing for GET /r2").map(|s| s.1 - s.0).sum();
    assert!((395..=402).contains(&of_other), "{:?}", told(&script("", ""), State::ALL));
    // a loop that blocks amid another's request is no less busy
    let blocked = script("400 A woken by timer since 120\n", "");
    let queued = told(&blocked, &[State::Queued]);
    assert!(queued.iter().any(|s| s.3 == "asleep until a time" && s.1 - s.0 > 250), "{queued:?}");
    // a lock for which it waits after the poll that told of the answer is not what it waited for: the answer lay there before
    let locked = script("", "503 A polls 1 since 502\n507 A woken by B since 505 at 64\n");
    let queued = told(&locked, &[State::Queued]);
    let of_other: i64 = queued.iter().filter(|s| s.3 == "computing for GET /r2").map(|s| s.1 - s.0).sum();
    assert!((395..=402).contains(&of_other), "{:?}", told(&locked, State::ALL));
}

/// A request that waits for something in memory does not compute while its loop asks for another: what runs after that is of either.
#[test]
fn what_a_loop_runs_after_it_acted_for_another_is_not_the_requests() {
    let script = format!(
        "{BEFORE}context k of A
context j of A
50 C asks r1 c for -
58 A woken by c since 10 in epoll
60 A/k takes r1
62 D asks r2 e for -
64 A/j takes r2
70 A/j asks q2 b for r2
80 B takes q2
90 B answers q2
300 A/j hears q2
490 A/k answers r1
492 A/j answers r2
500 C hears r1
496 D hears r2
"
    );
    let all = told(&script, State::ALL);
    let of = |state| all.iter().filter(|s| s.2 == state).map(|s| s.1 - s.0).sum::<i64>();
    assert!(of(State::Running) < 20 && of(State::Unknown) > 400, "{all:?}");
}

/// A thread that computes between its question and the answer does so for its own request, as far as is known.
#[test]
fn what_a_thread_computes_for_its_own_request_is_its_own() {
    let script = format!(
        "{BEFORE}
50 C asks r1 c for -
58 A woken by c since 10
60 A takes r1
65 A asks q1 b for r1
95 B takes q1
100 B answers q1
510 A hears q1
520 A answers r1
525 C hears r1
"
    );
    let queued: i64 = told(&script, &[State::Queued]).iter().map(|s| s.1 - s.0).sum();
    assert!(queued < 50, "{queued}");
    let ran: i64 = told(&script, &[State::Running]).iter().map(|s| s.1 - s.0).sum();
    assert!(ran > 390, "{ran}");
}

/// A thread of a pool takes a request that came while it waited for an answer for another: it was busy, not idle.
#[test]
fn a_request_waited_for_what_its_thread_asked_for_another() {
    let script = format!(
        "{BEFORE}
40 D asks r2 e for -
48 A woken by e since 10
50 A takes r2
60 A asks q2 b for r2
70 B takes q2
100 C asks r1 c for -
400 B answers q2
406 A woken by b since 62
410 A hears q2
420 A answers r2
425 D hears r2
430 A takes r1
540 A answers r1
545 C hears r1
"
    );
    let queued = told(&script, &[State::Queued]);
    let waited: i64 = queued.iter().filter(|s| s.3.starts_with("waiting for an answer of ")).map(|s| s.1 - s.0).sum();
    assert!((300..=306).contains(&waited), "{:?}", told(&script, State::ALL));
}

/// A loop has read two requests and computes: for which of them its operations do not tell, and samples do.
#[test]
fn for_whom_a_loop_computed_is_known_by_what_ran_when_the_clock_ticked() {
    let script = |ticks: &str| {
        format!(
            "{BEFORE}task E client
flow g E A
context k of A
context j of A
context m of A
50 C asks r1 c for -
58 A woken by c since 10 in epoll
60 A/k takes r1
65 A/k asks q1 b for r1
80 D asks r2 e for -
81 E asks r3 g for -
88 A woken by e since 70 in epoll
90 A/j takes r2
92 A/m takes r3
95 B takes q1
100 B answers q1
{ticks}500 A/j answers r2
510 A/k hears q1
520 A/k answers r1
521 A/m answers r3
525 C hears r1
525 D hears r2
525 E hears r3
"
        )
    };
    let of_r2 = |script: &str| -> i64 {
        told(script, &[State::Queued]).iter().filter(|s| s.3 == "computing for GET /r2").map(|s| s.1 - s.0).sum()
    };
    assert_eq!(of_r2(&script("")), 0, "{:?}", told(&script(""), State::ALL));
    let ticked = script("150 A runs j\n350 A runs j\n");
    assert!((348..=351).contains(&of_r2(&ticked)), "{:?}", told(&ticked, State::ALL));
    // before it worked for another
    let changed = script("150 A runs j\n200 A runs m\n350 A runs j\n");
    assert!((148..=151).contains(&of_r2(&changed)), "{:?}", told(&changed, State::ALL));
}
