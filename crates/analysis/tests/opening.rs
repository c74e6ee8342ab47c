//! To whose account the time goes in which a connection comes about.

use wakepath_analysis::critical_path::critical_path;
use wakepath_analysis::flame::flame;
use wakepath_analysis::names::Names;
use wakepath_analysis::selection::Selection;
use wakepath_analysis::service_map::service_map;
use wakepath_analysis::spans::lay_out;
use wakepath_analysis::why::Recording;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{Event, FlowStateRow, OpKind, TcpState};
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

/// A call goes on after the reply of the request that it was made for; the critical path of that, which `why` and flame graphs sum, ends
/// with the reply, so no part of it is larger than the whole.
#[test]
fn what_is_done_after_the_reply_is_in_no_critical_path() {
    const SCRIPT: &str = "
task A app
task D db
flow c - A
flow d A D
100 A takes r1 c
101 A asks q1 d for r1
103 D takes q1
172 A answers r1
1960 D answers q1
1970 A hears q1
2000 A takes r2 c
2010 A asks q2 d for r2
2020 D takes q2
2040 D answers q2
2050 A hears q2
2060 A answers r2
";
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = play(SCRIPT).expect("the script").write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let index = Index::open(&folder, &dirs).expect("an index");
    let names = Names::read(&folder);
    let (mut whole, mut after) = (0u128, 0);
    let take = |r: wakepath_causality::path::Request| {
        let timed = lay_out(&r);
        let mut told = 0;
        critical_path(&folder, &index, &r).drain(&mut |s| {
            assert!(s.from >= index.common(s.host, timed[0].start) && s.to <= index.common(s.host, timed[0].end));
            told += s.duration_ns();
        });
        assert_eq!(told, timed[0].duration_ns(), "{timed:#?}");
        whole += u128::from(told);
        after += timed.iter().map(|t| t.after_ns).sum::<u64>();
    };
    wakepath_causality::reconstruct(&folder, take, |_, _, _, _| {});
    assert!(after > 1_700_000, "a call goes on after the reply: {after}");
    let recording = Recording { folder: &folder, index: &index, names: &names };
    let (flame, _) = flame(&recording, &Selection::default(), false);
    assert_eq!((flame.requests, flame.elapsed_ns), (2, whole), "{flame:#?}");
    assert_eq!(flame.stacks.values().map(|t| t.ns).sum::<u128>(), whole, "{flame:#?}");
    // the map tells of each service's calls what they took there, whoever waited for that
    let map = service_map(&folder, &names, None, &Selection::default());
    for (name, s) in &map.services {
        let longest = u128::from(s.calls.durations.max()) * u128::from(s.calls.durations.count());
        assert!(s.self_ns <= longest, "{name}: {s:#?}");
    }
}

/// A task gives up a connection that did not come about, at 480: until then it had waited for that.
#[test]
fn time_until_a_connection_was_given_up_is_nobodys_own() {
    let script =
        "task A app\ntask D db\nflow c - A\nflow d A D\n100 A takes r1 c\n110 A connects d later\n550 A answers r1\n";
    let dir = tempfile::tempdir().expect("a folder");
    let mut recording = play(script).expect("the script");
    let rows = &mut recording.hosts[0].rows;
    let connect = rows.iter().find_map(|r| match r {
        Event::Op(r) if r.kind == OpKind::Connect => Some(*r),
        _ => None,
    });
    let connect = connect.expect("it connects");
    let (old, new) = (TcpState::SynSent, TcpState::Close);
    let at = MonoNs(connect.at.0 + 370_000);
    let gone =
        FlowStateRow { at, flow: connect.flow, task: connect.task, old, new, by_task: 1, ..FlowStateRow::default() };
    rows.push(Event::FlowState(gone));
    rows.sort_by_key(Event::at);
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let mut found = None;
    let take = |r: wakepath_causality::path::Request| {
        let tried: Vec<_> = r.spans[0].refusals.iter().map(|f| f.tried.1.0.saturating_sub(f.tried.0.0)).collect();
        found = Some((lay_out(&r)[0].self_ns / 1_000, tried.len(), tried[0] / 1_000));
    };
    wakepath_causality::reconstruct(&folder, take, |_, _, _, _| {});
    let (own, tries, tried_us) = found.expect("a request");
    assert_eq!(tries, 1);
    assert!((368..=372).contains(&tried_us) && own < 90, "tried for {tried_us} of 450, own {own}");
}
