//! Requests whose first bytes came before anybody could tell their protocol, and whose operations stand in another order.

mod support;

use support::read;
use wakepath_model::rows::{Event, SeenHow, Side, WitnessKind, op_flag};
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

/// Where both ways are used at once, the kernel may note two operations in another order than they end in: no reply was missed, since the
/// requests and replies bear the numbers of their streams.
#[test]
fn streams_are_known_though_both_ways_were_used_at_once() {
    const FLOW: u64 = 5;
    let mut h = HostRows::new("a", 1_000_000);
    h.task(1, 1, 1, 0, "app");
    h.task(2, 2, 1, 0, "app");
    let announced = Announced {
        flow: FLOW,
        local: ([10, 0, 0, 1], 80),
        remote: ([10, 0, 0, 2], 40_000),
        netns: 1,
        snd: 5000,
        rcv: 1000,
        task: 1,
        how: SeenHow::Accepted,
        side: Side::Server,
    };
    h.endpoint(2, &announced);
    h.note(50, FLOW, true);
    let stream = |h: &mut HostRows, number: u64| {
        if let Some(Event::Message(m)) = h.rows.last_mut() {
            (m.witness_kind, m.witness) = (WitnessKind::Http2, number);
        }
    };
    for (i, at) in [(0, 100), (1, 200), (2, 300)] {
        let bytes = 1000 + 100 * i..1100 + 100 * i;
        h.moved((at, at, at - 10), 1, FLOW, false, bytes.clone());
        // of the third, what is sent at the same time was noted before and ends after
        if let Some(Event::Op(r)) = h.rows.last_mut().filter(|_| i == 2) {
            r.flags |= op_flag::TURN;
        }
        h.message(at + 1, FLOW, false, bytes, ("GET", "/a"), 0);
        stream(&mut h, 2 * i + 1);
    }
    for (i, at) in [(1, 310), (0, 400), (2, 500)] {
        let bytes = 5000 + (at - 300)..5000 + (at - 300) + 50;
        h.moved((at, at, 0), 2, FLOW, true, bytes.clone());
        h.message(at + 1, FLOW, true, bytes, ("", ""), 200);
        stream(&mut h, 2 * i + 1);
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a");
    h.write(&path, Cuts::default()).expect("the disk takes it");
    let found = read(&[path]);
    assert_eq!(found.requests.len(), 3);
    for request in &found.requests {
        assert!(request.is_complete());
    }
}
