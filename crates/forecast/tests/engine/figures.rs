//! Figures 2 to 4 of the paper.

use crate::build::*;
use wakepath_forecast::bottleneck::{Limit, Score, find};
use wakepath_forecast::outcome::Place;
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::slack::slack;
use wakepath_forecast::system::*;

/// Figures 2 and 3: a stack and a driver with a queue between them. The driver waits from 5 on, the stack puts its packet
/// in at 16, and the driver takes it 2 later.
fn stack_and_driver() -> (System, [StateId; 3], QueueId) {
    let mut b = Build::new();
    let send = b.state("stack", "send", None);
    let enqueue = b.state("stack", "enqueue in TX queue", None);
    let setup = b.state("driver", "set up", None);
    let packet = b.queue("TX queue", Some(8), 0);
    b.machine("stack", [work(send, 9), work(enqueue, 7), put(packet, 1)]);
    b.machine("driver", [work(setup, 5), get_late(packet, 2)]);
    (b.0, [send, enqueue, setup], packet)
}

#[test]
fn waiting_has_no_weight_and_the_edge_between_the_machines_two() {
    let (system, [send, enqueue, setup], packet) = stack_and_driver();
    let outcome = replay(&system, &Options::default());
    assert_eq!(outcome.elapsed_ns, 18);
    assert_eq!(outcome.queues[0].waited_items_ns, 13);
    assert_eq!(on_path(&outcome, Place::Queue(packet)), 2);
    assert_eq!((on_path(&outcome, Place::State(send)), on_path(&outcome, Place::State(enqueue))), (9, 7));
    // the driver's own way to the queue is not on it, nor is its waiting
    assert_eq!(on_path(&outcome, Place::State(setup)), 0);
    assert_eq!(length(&outcome.path), 18);
    assert!(outcome.loops.is_empty() && outcome.stuck.is_empty());
}

#[test]
fn the_driver_may_be_eleven_later() {
    let (system, [_, enqueue, setup], packet) = stack_and_driver();
    let all = slack(&system);
    let of = |place| all.iter().find(|s| s.from == Some(place) && s.to == Place::Queue(packet)).unwrap();
    assert_eq!((of(Place::State(setup)).least_ns, of(Place::State(setup)).count), (11, 1));
    assert_eq!(of(Place::State(enqueue)).median_ns, 0);
    // the stack's 16 come to 5 only if both its states do: seven of them may go
    let without = |state| replay(&widened(&system, Limit::Work(state), f64::INFINITY), &Options::default()).elapsed_ns;
    assert_eq!((without(enqueue), without(setup)), (11, 18));
}

/// Figure 4: A gives to B, B to C, and C gives A credit. The data's way from A through B and C and back takes 5, A's own
/// way to where it needs the credit 3, and from there 1 until it gives again.
fn credits(buffers: u64) -> (System, QueueId) {
    let mut b = Build::new();
    let a: Vec<StateId> = (0..4).map(|i| b.state("A", &format!("A{i}"), None)).collect();
    let in_b = b.state("B", "B", None);
    let in_c = b.state("C", "C", None);
    let to_b = b.queue("A to B", None, 0);
    let to_c = b.queue("B to C", None, 0);
    let credit = b.queue("credit", None, buffers);
    let kind = b.kind("two rounds");
    let give = [put(to_b, 1), work(a[1], 1), work(a[2], 1), work(a[3], 1), get_late(credit, 1)];
    let mut steps = vec![get_late(credit, 1), work(a[0], 1), Step::Begin { kind }];
    steps.extend(give);
    steps.push(work(a[0], 1));
    steps.extend(give);
    steps.push(Step::End);
    b.machine("A", steps);
    b.machine("B", [get_late(to_b, 1), work(in_b, 1), put(to_c, 1), get_late(to_b, 1), work(in_b, 1), put(to_c, 1)]);
    b.machine(
        "C",
        [get_late(to_c, 1), work(in_c, 1), put(credit, 1), get_late(to_c, 1), work(in_c, 1), put(credit, 1)],
    );
    (b.0, credit)
}

#[test]
fn one_buffer_makes_a_loop_of_eleven() {
    let (system, credit) = credits(1);
    let outcome = replay(&system, &Options::default());
    assert_eq!(outcome.kinds[0].latency.max(), 11);
    // and one unit before the first data
    assert_eq!((outcome.elapsed_ns, length(&outcome.path)), (12, 12));
    let [found] = &outcome.loops[..] else { panic!("{:?}", outcome.loops) };
    assert_eq!((found.closed_by, found.count, found.ns), (credit, 2, 12));
    // each round: A0, the way to B, B, the way to C, C, the credit
    let round: Vec<(u64, u64)> = found.round.iter().map(|s| (s.ns, s.count)).collect();
    assert_eq!(round, [(2, 2); 6]);
    assert_eq!(at(&found.round, Place::Full(credit)), 2);
    // the transaction went along with A, and what it spent was A's own and waiting
    assert_eq!(length(&outcome.kinds[0].shares), 11);
    assert_eq!(at(&outcome.kinds[0].shares, Place::Full(credit)), 4);
}

#[test]
fn a_second_buffer_makes_it_seven_inside_a_and_five_through_c() {
    let (system, credit) = credits(2);
    let outcome = replay(&system, &Options::default());
    assert_eq!(outcome.kinds[0].latency.max(), 7);
    assert!(outcome.loops.is_empty());
    let [kind] = &outcome.kinds[..] else { panic!() };
    assert!(kind.shares.iter().all(|s| matches!(s.place, Place::State(_))) && length(&kind.shares) == 7);
    // through C the credit is there 5 after the first data, but for the unit that who waits for it needs
    let all = slack(&system);
    let edges: Vec<(u64, u64)> =
        all.iter().filter(|s| s.to == Place::Full(credit)).map(|s| (s.least_ns, s.count)).collect();
    // A has none of it; C's credit was given at 4 and taken at 7
    assert_eq!(edges, [(0, 1), (3, 1)]);
    // the loop's break says the same, from the recording with one buffer
    let (one, _) = credits(1);
    let broken = replay(&widened(&one, Limit::Room(credit), f64::INFINITY), &Options::default());
    assert_eq!(broken.kinds[0].latency.max(), 7);
    let doubled = replay(&widened(&one, Limit::Room(credit), 2.0), &Options::default());
    assert_eq!(doubled.kinds[0].latency.max(), 7);
    // and so does the search, with how much of it is enough
    let found = find(&one, &replay(&one, &Options::default()), Score::Run);
    assert_eq!(found.limits, [Limit::Room(credit)]);
    assert_eq!(found.enough.map(|e| (e.now, e.then)), Some((1.0, 2.0)));
}
