//! A path that ends at a queue says so, in `requests` and in `show`.

mod support;

use support::requests;
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::Kinds;
use wakepath_model::folder::Folder;
use wakepath_model::ids::CommonNs;
use wakepath_present::requests::RequestsView;
use wakepath_present::show::ShowView;
use wakepath_present::text::Style;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::script::play;

#[test]
fn a_message_put_into_a_queue_is_named_and_its_consumer_is_not_claimed() {
    let script = include_str!("../../../tests/golden/link.bytes/one_way/input.txt");
    let dir = tempfile::tempdir().expect("a folder");
    let recording = play(script).expect("the script");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let names = Names::read(&folder);
    let (mut kinds, mut shown) = (Kinds::default(), Vec::new());
    let report = wakepath_causality::reconstruct(
        &folder,
        |r| {
            kinds.add(&r, &names);
            shown.push(ShowView::new(&r, &[], &names, |_, _| None, |_, t| CommonNs(t.0 as i64)));
        },
        |_, _, _, _| {},
    );
    let view = RequestsView::new(&kinds, &report, &[(0, 1_000_000)]);
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("Put into queues, lists or topics: GET /q1 at broker:"), "{text}");
    assert!(text.contains("What happens to these later is not linked"), "{text}");
    assert!(text.contains("2 of 2 complete"), "{text}");
    let of: Vec<String> = shown.iter().filter(|s| s.asked == "GET /r1").map(|s| s.render(Style::default())).collect();
    assert_eq!(of.len(), 1);
    assert!(of[0].contains("puts work into a queue"), "{}", of[0]);
}

/// A handshake is ready in no time, or after a long one that nobody waits for: it is no request that could be slow. One that asks others is.
#[test]
fn what_only_opens_a_connection_is_no_kind_of_request() {
    let script = "
task A app
task D db
flow c - A
flow e - A
flow d A D
100 A takes h1 c
110 A answers h1 101
200 A takes h2 e
210 A asks q1 d for h2
220 D takes q1
230 D answers q1
240 A hears q1
250 A answers h2 101
";
    let view = requests(script);
    assert_eq!((view.kinds.len(), view.opened.len()), (1, 1));
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("because they only open connections or subscriptions: GET /h1 at app:"), "{text}");
}

/// A call whose answer comes after the reply lies beyond its request's bar: that is said, and why.
#[test]
fn a_call_that_nobody_waited_for_says_so() {
    let script = "
task A app
task D db
flow c - A
flow d A D
flow e A D
100 A takes r1 c
110 A asks q1 d for r1
120 D takes q1
130 A asks q2 e for r1
140 D takes q2
150 D answers q2
160 A hears q2
170 A answers r1
700 D answers q1
710 A hears q1
";
    let dir = tempfile::tempdir().expect("a folder");
    let recording = play(script).expect("the script");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let names = Names::read(&folder);
    let mut shown = Vec::new();
    let out = |r| shown.push(ShowView::new(&r, &[], &names, |_, _| None, |_, t| CommonNs(t.0 as i64)));
    wakepath_causality::reconstruct(&folder, out, |_, _, _, _| {});
    let text = shown.iter().find(|s| s.asked == "GET /r1").expect("the request").render(Style::default());
    let notes: Vec<&str> = text.lines().filter(|l| l.contains("had replied, which did not wait for it")).collect();
    assert!(matches!(notes[..], [one] if one.contains("db:") && one.contains("5")), "{text}");
    assert!(text.contains("Going on after the reply of who asked"), "{text}");
}
