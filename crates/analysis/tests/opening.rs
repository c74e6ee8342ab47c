//! To whose account the time goes in which a connection comes about.

use wakepath_analysis::spans::lay_out;
use wakepath_model::folder::Folder;
use wakepath_model::rows::Event;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

/// Of the request of a script that makes a call: the call's connecting and handshake, and the caller's own time (µs).
fn opening(steps: &str) -> (u64, u64, u64) {
    let script = format!("task A app\ntask B app of A\ntask D db\nflow c - A\nflow d A D\n{steps}");
    let dir = tempfile::tempdir().expect("a folder");
    let mut recording = play(&script).expect("the script");
    let rows = &mut recording.hosts[0].rows;
    let first = rows.iter().map(Event::at).min().expect("rows");
    for row in rows.iter_mut() {
        // a hello tells which protocol it is
        if let Event::FlowNote(note) = row {
            note.at = first;
        }
    }
    rows.sort_by_key(Event::at);
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let mut found = None;
    let take = |r: wakepath_causality::path::Request| {
        let timed = lay_out(&r);
        if let [caller, call] = &timed[..] {
            found = Some((call.opening.connect / 1_000, call.opening.handshake / 1_000, caller.self_ns / 1_000));
        }
    };
    wakepath_causality::reconstruct(&folder, take, |_, _, _, _| {});
    found.expect("a request with a call")
}

const CALL: &str = "510 A asks q1 d for r1\n520 D takes q1\n530 D answers q1\n540 A hears q1\n550 A answers r1\n";

#[test]
fn a_handshake_is_the_peers() {
    let (connect, handshake, own) = opening(&format!(
        "100 A takes r1 c\n110 A connects d\n120 A sends frames d\n490 D reads frames d\n495 D sends frames d\n500 A reads frames d\n{CALL}"
    ));
    assert!(connect <= 2 && handshake == 380, "{connect} {handshake}");
    assert!(own < 60, "{own} of 450");
}

#[test]
fn what_came_about_before_the_request_is_no_part_of_it() {
    let steps = format!(
        "10 A connects d\n20 A sends frames d\n80 D reads frames d\n85 D sends frames d\n90 A reads frames d\n100 A takes r1 c\n{CALL}"
    );
    let (connect, handshake, own) = opening(&steps);
    assert_eq!((connect, handshake), (0, 0));
    assert!(own > 400, "{own}");
}

/// A connection may lie idle in a pool once it is open.
#[test]
fn only_waits_for_the_peers_answers_are_its_own() {
    let steps = format!(
        "100 A takes r1 c\n110 A connects d\n120 A sends frames d\n140 D reads frames d\n145 D sends frames d\n150 A reads frames d\n{CALL}"
    );
    let (_, handshake, own) = opening(&steps);
    assert_eq!(handshake, 30);
    assert!(own > 380, "{own}: from 150 on A did something else");
}

#[test]
fn what_another_task_called_for_was_not_waited_for() {
    let steps = format!(
        "100 A takes r1 c\n110 B connects d\n120 B sends frames d\n490 D reads frames d\n495 D sends frames d\n500 B reads frames d\n{CALL}"
    );
    let (connect, handshake, _) = opening(&steps);
    assert_eq!((connect, handshake), (0, 0));
}

/// A caller gives up after 60 µs, asks again, and answers; who was asked first works on for longer than all that.
#[test]
fn what_is_done_after_the_caller_left_is_no_part_of_the_request() {
    const SCRIPT: &str = "
task A app
task D db
task E db of D
flow c - A
flow d A D
flow e A E
100 A takes r1 c
110 A asks q1 d for r1
120 D takes q1
170 A leaves d
171 D loses client d reset
180 A asks q2 e for r1
190 E takes q2
200 E answers q2
210 A hears q2
220 A answers r1
900 D fails d
";
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = play(SCRIPT).expect("the script").write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let mut parts = Vec::new();
    let take = |r: wakepath_causality::path::Request| {
        let timed = lay_out(&r);
        let whole = timed[0].duration_ns();
        parts.extend(timed.iter().skip(1).map(|t| (t.self_ns, t.self_ns.saturating_sub(t.after_ns), whole)));
    };
    wakepath_causality::reconstruct(&folder, take, |_, _, _, _| {});
    assert!(parts.iter().any(|(own, ..)| *own > 700_000), "it worked on: {parts:?}");
    assert!(parts.iter().all(|(_, before, whole)| before <= whole), "{parts:?}");
}
