//! A path that ends at a queue says so, in `requests` and in `show`.

mod support;

use support::requests;
use wakepath_analysis::names::Names;
use wakepath_analysis::requests::Kinds;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, HostId, MonoNs};
use wakepath_present::requests::RequestsView;
use wakepath_present::show::{ShowView, SpanView};
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
    let shown = shown(script, |_, t| CommonNs(t.0 as i64));
    let text = shown.iter().find(|s| s.asked == "GET /r1").expect("the request").render(Style::default());
    let notes: Vec<&str> = text.lines().filter(|l| l.contains("had replied, which did not wait for it")).collect();
    assert!(matches!(notes[..], [one] if one.contains("db:") && one.contains("5")), "{text}");
    assert!(text.contains("Going on after the reply of who asked"), "{text}");
}

/// All requests of a script; `common` puts the times of its hosts on one line.
fn shown(script: &str, common: impl Fn(HostId, MonoNs) -> CommonNs) -> Vec<ShowView> {
    let dir = tempfile::tempdir().expect("a folder");
    let recording = play(script).expect("the script");
    let dirs = recording.write(&dir.path().join("t"), Cuts::default()).expect("written");
    let folder = Folder::open(&dirs).expect("opened");
    let names = Names::read(&folder);
    let mut shown = Vec::new();
    let out = |r| shown.push(ShowView::new(&r, &[], &names, |_, _| None, &common));
    wakepath_causality::reconstruct(&folder, out, |_, _, _, _| {});
    shown
}

/// Begin and end of each span lie within those of who asked for it, or the text says why not.
fn lies_within_or_says_why(s: &ShowView) {
    let text = s.render(Style { width: 300, ..Style::default() });
    let said = |words: &str, span: u32| {
        text.lines().any(|l| l.contains(words) && l.split_whitespace().next() == Some(&span.to_string()))
    };
    for of in &s.spans {
        let Some(asker) = of.parent.map(|p| &s.spans[p as usize]) else { continue };
        let end = |s: &SpanView| s.offset_ns + s.duration_ns as i64;
        let outside = said("it seems to", of.span);
        assert!(of.offset_ns >= asker.offset_ns || outside, "{}: {text}", of.span);
        assert!(end(of) <= end(asker) || outside || said("had replied", of.span), "{}: {text}", of.span);
    }
}

/// Commands of several requests lie in one connection and are read at once: what came first is not when all came.
#[test]
fn commands_that_are_read_at_once_begin_within_their_requests() {
    let mut script = "task D redis\ntask A app\nflow d A D\n".to_owned();
    let all: Vec<String> = (0..10).map(|i| format!("q{i}")).collect();
    for i in 0..10 {
        let at = 100 + 1000 * i;
        script += &format!("task T{i} app of A\nflow c{i} - A\n{at} T{i} takes r{i} c{i}\n");
        script += &format!("{} T{i} asks q{i} d for r{i}\n", at + 10);
    }
    script += &format!("20000 D takes {}\n", all.join(","));
    for i in 0..10 {
        script += &format!("{} D answers q{i}\n{} T{i} hears q{i}\n", 20010 + 20 * i, 20015 + 20 * i);
        script += &format!("{} T{i} answers r{i}\n", 21000 + i);
    }
    let shown = shown(&script, |_, t| CommonNs(t.0 as i64));
    assert_eq!(shown.iter().filter(|s| s.spans.len() == 2).count(), 10);
    for s in &shown {
        lies_within_or_says_why(s);
        assert!(s.spans.iter().all(|of| of.offset_ns >= 0 && of.duration_ns <= s.duration_ns), "{}", s.asked);
    }
}

/// Where two hosts' clocks differ, a call seems to begin before its request, or to end after it.
#[test]
fn a_call_outside_its_request_says_why() {
    /// The other one has the greater number.
    const DB: u16 = 0;
    let script = "
host web
task A app
host other
task D db
flow c - A
flow d A D
1000 A takes r1 c
1010 A asks q1 d for r1
1020 D takes q1
1400 D answers q1
1410 A hears q1
1420 A answers r1
1430 A asks q2 d for r1
1440 D takes q2
9000 D answers q2
9010 A hears q2
";
    for (late_us, said) in [(-700, "seems to begin"), (0, ""), (700, "seems to end")] {
        // of the host of the database alone
        let skew = |host: HostId| if host == HostId(DB) { late_us * 1000 } else { 0 };
        let shown = shown(script, |host, t| CommonNs(t.0 as i64 + skew(host)));
        let one = shown.iter().find(|s| s.asked == "GET /r1").expect("the request");
        lies_within_or_says_why(one);
        let text = one.render(Style { width: 300, ..Style::default() });
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains("clocks of their hosts differ"), late_us != 0, "{late_us}: {text}");
        assert!(text.contains(said), "{late_us}: {text}");
        // its caller had the answer before the reply
        assert!(!text.contains("q1 (after the reply)"), "{late_us}: {text}");
    }
}
