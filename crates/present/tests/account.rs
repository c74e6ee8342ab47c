//! What is said of requests whose client left, and of paths that end where nobody watches.

mod support;

use support::{requests, told};
use wakepath_model::rows::{Event, MessageRole};
use wakepath_present::text::Style;
use wakepath_testkit::script::play;

/// The server replies to a client that reset the connection: the kernel has forgotten that by then.
#[test]
fn a_reply_to_who_left_does_not_undo_that() {
    const SCRIPT: &str = "
task A app
flow c - A
100 A takes r1 c
150 A loses client c reset
300 A answers r1
";
    let mut recording = play(SCRIPT).expect("the script");
    for row in &mut recording.hosts[0].rows {
        // what is sent is read before the system call returns
        if let Event::Message(m) = row
            && m.role == MessageRole::Reply
        {
            m.at.0 -= 3_000;
        }
    }
    recording.hosts[0].rows.sort_by_key(Event::at);
    let view = told(recording);
    let kind = &view.kinds[0];
    assert_eq!((kind.left, kind.reset, kind.cut), (1, 0, 0));
    let text = view.render(0, &[], Style::default());
    assert!(!text.contains("reset"), "{text}");
}

#[test]
fn who_leaves_before_the_reply_is_said_to_have_left_and_when() {
    const SCRIPT: &str = "
task A app
flow c - A
100 A takes r1 c
150 A loses client c reset
300 A fails c
";
    let view = requests(SCRIPT);
    let kind = &view.kinds[0];
    assert_eq!((kind.left, kind.reset, kind.cut, kind.left_longest_ns / 1_000), (1, 0, 0, 51));
    assert!(kind.failed_example.is_some());
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("1 client left or closed its side before the reply was complete (at most 5"), "{text}");
}

/// A service calls one that nobody watches for one of two requests.
#[test]
fn paths_that_end_where_nobody_watches_are_told_in_the_total() {
    const SCRIPT: &str = "
task A app
flow c - A
flow d A -
100 A takes r1 c
110 A asks q1 d for r1
150 A hears q1
160 A answers r1
200 A takes r2 c
250 A answers r2
";
    let view = requests(SCRIPT);
    assert_eq!(
        view.kinds.iter().map(|k| (k.leaving, k.incomplete)).fold((0, 0), |s, k| (s.0 + k.0, s.1 + k.1)),
        (1, 0)
    );
    assert_eq!(view.unwatched.iter().map(|u| u.calls).collect::<Vec<_>>(), [1]);
    let text = view.render(0, &[], Style::default());
    assert!(text.contains("1 request called what is not watched: ") && text.contains(" (1 call)."), "{text}");
}
