//! Critical paths of requests of simulated systems: each covers its request to the nanosecond, whatever the architecture.

mod support;

use support::check;
use wakepath_analysis::critical_path::critical_path;
use wakepath_analysis::each::End;
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::Kinds;
use wakepath_analysis::slices::{Slice, State};
use wakepath_analysis::spans::lay_out;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::rows::Event;
use wakepath_testkit::recording::{Cuts, Recording};
use wakepath_testkit::script::play;
use wakepath_testkit::shapes::{Plan, Shape, simulate};
use wakepath_testkit::wired;

fn each(recording: &Recording, mut then: impl FnMut(&Folder, &Index, &Request)) -> usize {
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    let mut requests = Vec::new();
    wakepath_causality::reconstruct(&folder, |r| requests.push(r), |_, _, _, _| {});
    requests.iter().for_each(|r| then(&folder, &index, r));
    requests.len()
}

fn slices_of(folder: &Folder, index: &Index, r: &Request) -> Vec<Slice> {
    let mut slices = Vec::new();
    critical_path(folder, index, r).drain(&mut |s| slices.push(s));
    slices
}

#[test]
fn every_request_is_covered_exactly() {
    let mut count = 0;
    for shape in Shape::ALL {
        for seed in 0..3 {
            count += each(&simulate(&Plan::new(shape, seed)), |folder, index, r| {
                let slices = slices_of(folder, index, r);
                let timed = lay_out(r);
                let root = timed.first().expect("a root");
                if root.duration_ns() == 0 {
                    assert!(slices.is_empty());
                    return;
                }
                check(&slices, index.common(root.host, root.start), index.common(root.host, root.end));
            });
        }
    }
    assert!(count > 700, "{count} requests");
}

/// Two calls at once: the one that ended last counts, and the other is not seen.
#[test]
fn of_parallel_calls_the_last_counts() {
    let script = "
task A app
task D db
task E cache
flow c - A
flow d A D
flow e A E
90 A woken by c since 10
100 A takes r1 c
110 A asks q1 d for r1
115 A asks q2 e for r1
120 D takes q1
125 E takes q2
140 E answers q2
141 A woken by e since 118
150 A hears q2
300 D answers q1
305 A woken by d since 155
310 A hears q1
350 A answers r1
";
    let seen = each(&play(script).expect("the script"), |folder, index, r| {
        let slices = slices_of(folder, index, r);
        let spans: Vec<u32> =
            r.spans.iter().enumerate().filter(|(_, s)| s.parent.is_some()).map(|(i, _)| i as u32).collect();
        let of = |span: u32| -> u64 { slices.iter().filter(|s| s.span == Some(span)).map(|s| s.duration_ns()).sum() };
        let mut times: Vec<u64> = spans.iter().map(|s| of(*s)).collect();
        times.sort_unstable();
        assert!(times[0] == 0 && (200_000..202_000).contains(&times[1]), "{times:?}");
        assert!(slices.iter().any(|s| s.state == State::Network && s.span.is_some_and(|s| s > 0)));
    });
    assert_eq!(seen, 1);
}

/// A loop's own time-out ends a call that was not answered, and the loop asks again: until then it waited for the call,
/// and not for a time, though the other end keeps that connection far longer.
#[test]
fn a_call_that_was_given_up_is_what_a_request_waited_for() {
    let script = "
task A app
task D db
flow c - A
flow d A D
flow e A D
90 A woken by c since 10
100 A takes r1 c
110 A asks q1 d for r1
300 A woken by timer since 111 in epoll
301 A leaves d
310 A asks q2 e for r1
320 D takes q2
330 D answers q2
340 A hears q2
350 A answers r1
400 D takes q1
410 D answers q1
420 A resets d
";
    let seen = each(&play(script).expect("the script"), |folder, index, r| {
        let slices = slices_of(folder, index, r);
        let of =
            |is: &dyn Fn(&Slice) -> bool| -> u64 { slices.iter().filter(|s| is(s)).map(|s| s.duration_ns()).sum() };
        assert_eq!(of(&|s| s.state == State::Timer), 0, "{slices:?}");
        let given_up = r
            .spans
            .iter()
            .position(|s| s.caller.as_ref().is_some_and(|h| !h.exchange.is(ExchangeFlag::Replied)))
            .expect("q1");
        assert!(of(&|s| s.span == Some(given_up as u32)) >= 190_000, "{slices:?}");
    });
    assert_eq!(seen, 1);
}

/// How long a request was in a state (ns).
fn time_in(slices: &[Slice], state: State) -> u64 {
    slices.iter().filter(|s| s.state == state).map(|s| s.duration_ns()).sum()
}

/// A loop that sleeps in one request and answers another meanwhile: the first slept, and waited for nobody's input.
#[test]
fn others_inputs_are_not_what_a_request_waited_for() {
    let script = "
task A app
flow c - A
flow e - A
90 A woken by c since 10
100 A takes r1 c
200 A woken by e since 110 in epoll
204 A woken by e since 201
205 A takes r2 e
210 A answers r2
400 A woken by timer since 215 in epoll
410 A answers r1
";
    let mut seen = 0;
    each(&play(script).expect("the script"), |folder, index, r| {
        let slices = slices_of(folder, index, r);
        let of = |state| time_in(&slices, state);
        if lay_out(r)[0].duration_ns() < 200_000 {
            return;
        }
        // from where the loop left it until the timer
        assert_eq!((of(State::Timer), of(State::Network)), (289_000, 0), "{slices:?}");
        let timer = slices.iter().find(|s| s.state == State::Timer).expect("a sleep");
        assert_eq!(timer.evidence.map(|e| e.0), Some("others' inputs"));
        seen += 1;
    });
    assert_eq!(seen, 1);
}

/// The same where the other's input is the answer to what it had asked: the first asked that service nothing.
#[test]
fn answers_to_others_are_not_what_a_request_waited_for() {
    let script = "
task A app
task D db
flow c - A
flow e - A
flow d A D
90 A woken by c since 10
100 A takes r1 c
context j of A by A at 101
150 A woken by e since 110 in epoll
155 A takes r2 e
context k of A by A at 156
160 A/k asks q1 d for r2
170 D takes q1
250 D answers q1
251 A woken by d since 165 in epoll
255 A/k hears q1
260 A/k answers r2
400 A woken by timer since 265 in epoll
410 A/j answers r1
";
    let mut seen = 0;
    each(&play(script).expect("the script"), |folder, index, r| {
        let slices = slices_of(folder, index, r);
        let of = |state| time_in(&slices, state);
        if lay_out(r)[0].duration_ns() < 200_000 {
            return;
        }
        assert!(r.is_complete(), "{r:?}");
        assert_eq!((of(State::Timer), of(State::Network)), (289_000, 0), "{slices:?}");
        seen += 1;
    });
    assert_eq!(seen, 1);
}

/// A timer after which the loop did nothing for the request, which went on with an answer to another: what had come before the timer
/// was no sleep.
#[test]
fn a_timer_in_vain_is_not_what_a_request_waited_for_before() {
    let script = "
task A app
task D db
flow c - A
flow e - A
flow d A D
90 A woken by c since 10
100 A takes r1 c
context j of A by A at 101
110 A woken by e since 105 in epoll
115 A takes r2 e
context k of A by A at 116
120 A/k asks q1 d for r2
125 D takes q1
200 D answers q1
201 A woken by d since 130 in epoll
205 A/k hears q1
210 A/k asks q2 d for r2
215 D takes q2
250 A woken by timer since 220 in epoll
300 D answers q2
301 A woken by d since 255 in epoll
305 A/k hears q2
310 A/k answers r2
315 A/j answers r1
";
    let mut seen = 0;
    each(&play(script).expect("the script"), |folder, index, r| {
        let slices = slices_of(folder, index, r);
        let of = |state| time_in(&slices, state);
        if r.spans.len() > 1 {
            return;
        }
        assert!(r.is_complete() && of(State::Timer) <= 30_000, "{slices:?}");
        seen += 1;
    });
    assert_eq!(seen, 1);
}

/// The poll that brought a request is none that it waited in, whatever ended it: a listener, or another's input before it.
#[test]
fn a_poll_before_a_request_was_taken_is_no_wait_of_it() {
    let script = "
task A app
flow c - A
flow e - A
50 A woken by e since 10 in epoll
55 A takes r0 e
60 A takes r1 c
500 A woken by timer since 100 in epoll
510 A answers r0
520 A answers r1
";
    let mut seen = 0;
    each(&play(script).expect("the script"), |folder, index, r| {
        let slices = slices_of(folder, index, r);
        let timer = slices.iter().find(|s| s.state == State::Timer).expect("a sleep");
        assert_eq!((timer.duration_ns(), timer.evidence.map(|e| e.0)), (399_000, None), "{slices:?}");
        seen += 1;
    });
    assert_eq!(seen, 2);
}

/// A loop that went on with a request when it had taken another's input: what the request waited for is not known.
#[test]
fn a_loop_that_goes_on_behind_anothers_input_says_so() {
    let script = "
task A app
flow c - A
flow e - A
90 A woken by c since 10
100 A takes r1 c
300 A woken by e since 110 in epoll
305 A takes r2 e
310 A answers r1
320 A answers r2
";
    let mut seen = 0;
    each(&play(script).expect("the script"), |folder, index, r| {
        let slices = slices_of(folder, index, r);
        let long = slices.iter().max_by_key(|s| s.duration_ns()).expect("slices");
        if lay_out(r)[0].duration_ns() < 200_000 {
            return;
        }
        assert_eq!((long.state, long.reason), (State::Unknown, Some(wakepath_analysis::reasons::OTHERS)), "{slices:?}");
        seen += 1;
    });
    assert_eq!(seen, 1);
}

/// An error that a database replied and the application hid: it is counted, with whose request it was in.
#[test]
fn hidden_errors_of_calls_are_listed() {
    let script = "
task A app
task D db
flow c - A
flow d A D
90 A woken by c since 10
100 A takes r1 c
110 A asks q1 d for r1
120 D takes q1
140 D answers q1 500
150 A hears q1
200 A answers r1
";
    let mut kinds = Kinds::default();
    each(&play(script).expect("the script"), |folder, _, r| kinds.add(r, &Names::read(folder)));
    let (error, met) = kinds.call_errors.first_key_value().expect("an error");
    assert_eq!((error.service.split(':').next(), error.error.as_str()), (Some("db"), "500"));
    assert_eq!(error.kind.as_ref().and_then(|k| k.0.split(':').next()), Some("app"));
    assert_eq!((met.count, met.hidden, kinds.call_errors.len()), (1, 1, 1));
    assert!(kinds.kinds.values().all(|k| k.failed == 0), "the request itself succeeded");
}

/// Requests that sniffers saw, alone or beside the kernel: covered exactly too, with clocks that disagree.
#[test]
fn sniffed_requests_are_covered_exactly() {
    let mut count = 0;
    for seed in 0..6 {
        let watched = if seed % 2 == 0 { Vec::new() } else { vec![0, 2] };
        let (is_parallel, wall_error_ns) = (seed % 3 == 0, seed as i64 * 3_000_000 - 9_000_000);
        let plan = wired::Plan { watched, is_parallel, wall_error_ns, ..wired::Plan::new(seed) };
        count += each(&wired::simulate(&plan), |folder, index, r| {
            let slices = slices_of(folder, index, r);
            let root = &lay_out(r)[0];
            check(&slices, index.common(root.host, root.start), index.common(root.host, root.end));
        });
    }
    assert!(count >= 360, "{count} requests");
}

/// A caller that is watched and a wire: network there, server, network back; a server on the wire without its calls.
#[test]
fn the_wire_splits_network_from_server() {
    let script = "
host web
task A nginx
sniffer tap
flow c - A
flow d A - seen as 10.0.0.3 8080
100 A takes r1 c
120 A asks q1 d for r1
180 A hears q1
190 A answers r1
seen q1 by web 130 170 id X
seen s1 by web 140 160 from 10.0.0.3 to 10.0.0.4 9000 for q1 id X
";
    let mut seen = 0;
    each(&play(script).expect("a script"), |folder, index, r| {
        let timed = lay_out(r);
        let [_, q1, s1] = &timed[..] else { panic!("{} spans", timed.len()) };
        // sent on entry, half a microsecond before; first and last packet are a microsecond apart
        let legs = q1.wire.expect("it passed");
        assert_eq!((legs.out_ns, legs.server_ns, legs.back_ns), (Some(11_500), 38_000, Some(11_000)));
        assert_eq!((q1.duration_ns(), q1.self_ns, q1.between_ns), (60_500, 18_000, Some(22_500)));
        assert_eq!((s1.duration_ns(), s1.self_ns, s1.between_ns), (20_000, 18_000, Some(2_000)));
        let slices = slices_of(folder, index, r);
        let time = |span: u32, state: State| -> u64 {
            slices.iter().filter(|s| s.span == Some(span) && s.state == state).map(Slice::duration_ns).sum()
        };
        assert_eq!((time(1, State::Unknown), time(1, State::Network)), (18_000, 22_500));
        assert_eq!((time(2, State::Unknown), time(2, State::Network)), (18_000, 2_000));
        seen += 1;
    });
    assert_eq!(seen, 1);
}

#[test]
fn a_goroutine_is_called_by_its_number_and_is_found_by_that() {
    let script = "task A shop\ngoroutine g of A\nflow c - A\n100 A/g takes r1 c\n170 A/g answers r1\n";
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = play(script).expect("the script").write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let names = Names::read(&folder);
    let called: Vec<String> = names.tasks().map(|(host, task)| names.task(host, task)).collect();
    let goroutine = called.iter().find(|name| name.starts_with("goroutine ")).expect("it has a name");
    assert!(goroutine.ends_with(" of shop"), "{called:?}");
    assert_eq!(names.find(goroutine).len(), 1);
    let thread = called.iter().find(|name| name.starts_with("shop/")).expect("the thread has one too");
    assert_eq!(names.find("shop"), names.find(thread), "a process's name means its thread");
}

/// The reply to r1 came while nobody recorded. That it has an end shows when the next request comes; how long it took does not.
#[test]
fn how_long_a_request_took_whose_reply_was_missed_is_not_known() {
    let script = "
task A app
flow c - A
100 A takes r1 c
~110 A answers r1
lost 105 150
900000 A takes r2 c
900100 A answers r2
";
    let recording = play(script).expect("the script");
    let mut ends = Vec::new();
    each(&recording, |_, _, r| {
        let e = &r.spans[0].callee.as_ref().expect("it was served").exchange;
        ends.push((End::of(e), r.is_in_progress()));
    });
    ends.sort_by_key(|end| end.1);
    assert_eq!(ends, [(End::Answered, false), (End::Unfinished, true)]);
}

/// Two recorders, one after the other: r1 was open when the first ended, and was answered while nobody recorded. On its connection the
/// second one sees r3 and its reply, long after.
#[test]
fn a_pause_between_two_recorders_ends_what_was_open() {
    let script = |recorded: &str| {
        format!(
            "
task A app
flow c - A
flow e - A
100 A takes r1 c
200 A takes r2 e
210 A answers r2
5000000 A answers r1
30000100 A takes r3 c
30000110 A answers r3
recorded {recorded}
"
        )
    };
    let dir = tempfile::tempdir().expect("a folder");
    let mut dirs = Vec::new();
    for (name, recorded) in [("first", "0 1000"), ("second", "30000000 30001000")] {
        let mut recording = play(&script(recorded)).expect("the script");
        // the second recorder did not see the clock at the first one's begin
        recording.hosts[0].rows.retain(|row| name == "first" || !matches!(row, Event::Anchor(_)));
        dirs.extend(recording.write(&dir.path().join(name), Cuts::default()).expect("written"));
    }
    let folder = Folder::open(&dirs).expect("opened");
    assert_eq!(
        (folder.hosts().len(), folder.hosts()[0].pauses().len()),
        (1, 1),
        "{:?}",
        folder.hosts()[0].recordings()
    );
    let mut found = Vec::new();
    let take = |r: Request| {
        let half = r.spans[0].callee.as_ref().expect("it was served");
        let asked = half.exchange.content.target;
        let name = folder.host(half.host).map_or("", |h| h.text(asked)).to_owned();
        found.push((name, End::of(&half.exchange), r.is_complete(), half.exchange.duration_ns()));
    };
    wakepath_causality::reconstruct(&folder, take, |_, _, _, _| {});
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let ends: Vec<_> = found.iter().map(|(name, end, is_complete, _)| (name.as_str(), *end, *is_complete)).collect();
    let expected = [("/r1", End::Unfinished, false), ("/r2", End::Answered, true), ("/r3", End::Answered, true)];
    assert_eq!(ends, expected, "{found:?}");
    assert!(found.iter().all(|f| f.3 < 1_000_000), "no duration has the pause in it: {found:?}");
    let index = Index::open(&folder, &dirs).expect("an index");
    let open = wakepath_analysis::open::open(&folder, &index, &Names::read(&folder));
    assert!(open.requests.is_empty(), "r1 may have been answered meanwhile: {:?}", open.requests);
}
