//! Requests whose first bytes came before anybody could tell their protocol.

mod support;

use support::read;
use wakepath_model::rows::{Event, SeenHow, Side, op_flag};
use wakepath_testkit::recording::{Announced, Cuts, HostRows};

/// The kernel says that the flow turned between two pieces, so a reply was missed; then a message says that both are one request.
#[test]
fn a_reply_that_was_missed_may_have_ended_what_a_message_then_tells() {
    const FLOW: u64 = 5;
    let mut h = HostRows::new("a", 1_000_000);
    h.task(1, 1, 1, 0, "app");
    h.endpoint(
        2,
        &Announced {
            flow: FLOW,
            local: ([10, 0, 0, 1], 80),
            remote: ([10, 0, 0, 2], 40_000),
            netns: 1,
            snd: 5000,
            rcv: 1000,
            task: 1,
            how: SeenHow::Accepted,
            side: Side::Server,
        },
    );
    h.moved((100, 100, 90), 1, FLOW, false, 1000..1005);
    h.note(150, FLOW, true);
    h.moved((200, 200, 190), 1, FLOW, false, 1005..1100);
    if let Some(Event::Op(r)) = h.rows.last_mut() {
        r.flags |= op_flag::TURN;
    }
    h.message(210, FLOW, false, 1000..1100, ("GET", "/a"), 0);
    h.moved((300, 300, 0), 1, FLOW, true, 5000..5100);
    h.message(310, FLOW, true, 5000..5100, ("", ""), 200);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a");
    h.write(&path, Cuts::default()).expect("the disk takes it");
    let found = read(&[path]);
    assert!(!found.requests.is_empty());
}
