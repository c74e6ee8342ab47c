//! What each step, queue and station does.

use crate::build::*;
use wakepath_forecast::outcome::{Outcome, Place};
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::system::*;

fn run(b: &Build) -> Outcome {
    replay(&b.0, &Options::default())
}

#[test]
fn a_way_takes_its_delay_and_is_taken_by_one_after_the_other() {
    let mut b = Build::new();
    let reads = b.state("reader", "cpu", None);
    let link = b.queue("link", None, 0);
    b.0.queues[0].delay_ns = 100;
    b.0.queues[0].ns_per_item = 2.0;
    b.machine("writer", [put(link, 10), put(link, 10)]);
    // the 15th byte is there when 15 were sent, not when all of its lot were
    b.machine("reader", [get(link, 15), work(reads, 7), get(link, 5)]);
    let outcome = run(&b);
    // 15 at 30 + 100, then 7 of work, the rest at 40 + 100
    assert_eq!(outcome.elapsed_ns, 140);
    assert_eq!(on_path(&outcome, Place::Queue(link)), 140);
    assert_eq!((outcome.queues[0].most, outcome.queues[0].count), (20, 20));
    assert_eq!(outcome.queues[0].waited_items_ns, 130 + 3);
}

#[test]
fn latency_is_spent_only_by_who_waits_and_is_the_usual_one_where_none_was_seen() {
    for (wait, latency, expected) in [(true, 30, 130), (true, NOT_SEEN, 150), (true, 0, 100), (false, 30, 200)] {
        let mut b = Build::new();
        let cpu = b.state("p", "cpu", None);
        let queue = b.queue("queue", None, 0);
        let other = b.queue("other", None, 0);
        b.machine("giver", [work(cpu, 100), put(queue, 1)]);
        b.machine("taker", [work(cpu, if wait { 10 } else { 200 }), get_late(queue, latency)]);
        // what is usual is told by others at the same queue, of whom half may be stuck for all we care
        for late in [40, 50, 60] {
            b.machine("stuck", [get(other, 1), get_late(queue, late)]);
        }
        let outcome = run(&b);
        assert_eq!(outcome.elapsed_ns, expected, "{wait} {latency}");
        assert_eq!(outcome.stuck.len(), 3);
    }
}

#[test]
fn who_waits_for_room_goes_on_with_the_path_of_who_made_it() {
    let mut b = Build::new();
    let fast = b.state("fast", "cpu", None);
    let slow = b.state("slow", "cpu", None);
    let queue = b.queue("queue", Some(1), 0);
    b.machine("fast", [put(queue, 1), put(queue, 1), put(queue, 1), work(fast, 5)]);
    b.machine("slow", [work(slow, 10), get(queue, 1), work(slow, 10), get(queue, 1), work(slow, 1)]);
    let outcome = run(&b);
    assert_eq!(outcome.elapsed_ns, 25);
    assert_eq!(on_path(&outcome, Place::State(slow)), 20);
    assert_eq!(on_path(&outcome, Place::State(fast)), 5);
    assert_eq!(outcome.path.iter().find(|s| s.place == Place::Full(queue)).unwrap().count, 1);
    assert_eq!((outcome.queues[0].waited_room_ns, outcome.queues[0].full_ns), (20, 25));
}

#[test]
fn room_is_given_back_when_the_taker_goes_on() {
    let mut b = Build::new();
    let cpu = b.state("p", "cpu", None);
    let queue = b.queue("queue", Some(1), 0);
    b.machine("giver", [work(cpu, 10), put(queue, 1), put(queue, 1)]);
    b.machine("taker", [get_late(queue, 3), work(cpu, 50), get(queue, 1)]);
    assert_eq!(run(&b).queues[0].waited_room_ns, 3);
}

#[test]
fn a_full_accept_queue_is_tried_again_after_twice_the_time() {
    let mut b = Build::new();
    let cpu = b.state("p", "cpu", None);
    let queue = b.queue("accept", Some(1), 0);
    b.0.queues[0].when_full = WhenFull::Retry { first_ns: 100, linear: 0 };
    let kind = b.kind("connect");
    b.machine("client 0", [put(queue, 1)]);
    b.machine("client 1", [Step::Begin { kind }, put(queue, 1), Step::End]);
    b.machine("server", [work(cpu, 250), get(queue, 1), get(queue, 1)]);
    let outcome = run(&b);
    // tried at 0, 100 and 300
    assert_eq!(outcome.kinds[0].latency.max(), 300);
    assert_eq!(at(&outcome.kinds[0].shares, Place::Full(queue)), 300);
    assert_eq!(outcome.elapsed_ns, 300);
    // tried at 0, 100, 200, 300, 500 and 900: what is tried in equal steps first is doubled from there
    b.0.queues[0].when_full = WhenFull::Retry { first_ns: 100, linear: 2 };
    for (free_at, got_at) in [(150, 200), (250, 300), (350, 500), (550, 900)] {
        let server = b.0.scripts[2].start;
        b.0.steps[server] = work(cpu, free_at);
        assert_eq!(run(&b).kinds[0].latency.max(), got_at);
    }
    // and where room never comes, nobody tries for ever
    b.0.steps.pop();
    b.0.scripts[2] = 3 + 1..3 + 2;
    let outcome = run(&b);
    assert_eq!(outcome.stuck.len(), 1, "{:?}", outcome.stuck);
    assert!(outcome.elapsed_ns < 10_000);
}

#[test]
fn forks_run_beside_and_join_waits_for_the_last() {
    let mut b = Build::new();
    let cpu: Vec<StateId> = (0..3).map(|i| b.state("p", &format!("part {i}"), None)).collect();
    let short = b.script([work(cpu[0], 10)]);
    let long = b.script([work(cpu[1], 70)]);
    let kind = b.kind("request");
    b.machine(
        "request",
        [
            Step::Begin { kind },
            Step::Fork { script: short },
            Step::Fork { script: long },
            work(cpu[2], 20),
            Step::Join,
            work(cpu[2], 5),
            Step::End,
        ],
    );
    let outcome = run(&b);
    assert_eq!((outcome.elapsed_ns, outcome.kinds[0].latency.max()), (75, 75));
    assert_eq!((on_path(&outcome, Place::State(cpu[1])), on_path(&outcome, Place::State(cpu[2]))), (70, 5));
    assert_eq!(at(&outcome.kinds[0].shares, Place::State(cpu[1])), 70);
    assert_eq!(at(&outcome.kinds[0].shares, Place::State(cpu[0])), 0);
}

#[test]
fn clients_take_the_next_script_and_pause_before_it() {
    let mut b = Build::new();
    let host = b.station(1.0, Discipline::Shared);
    let cpu = b.state("p", "cpu", Some(host));
    let kind = b.kind("request");
    for ns in [10, 20, 30] {
        let script = b.script([Step::Begin { kind }, work(cpu, ns), Step::End]);
        b.0.shared.push((script, 5));
    }
    b.0.rounds = 2;
    b.clients(1);
    let outcome = run(&b);
    assert_eq!((outcome.transactions, outcome.elapsed_ns), (6, 2 * (10 + 20 + 30) + 6 * 5));
    assert_eq!((outcome.busy_span_ns, outcome.stations[0].busy_ns), (145, 120));
    assert_eq!(outcome.mean_ns(), 20.0);
    // two of them share the one server
    b.clients(1);
    let outcome = run(&b);
    assert_eq!((outcome.transactions, outcome.stations[0].busy_ns), (6, 120));
    assert!(outcome.stations[0].waited_ns > 0 && outcome.elapsed_ns < 150);
}

#[test]
fn a_fraction_of_a_server_takes_longer_and_waiting_is_told_apart_from_work() {
    for (servers, speed, took) in [(0.25, 1.0, 400), (1.0, 2.0, 50), (4.0, 1.0, 100), (f64::INFINITY, 0.5, 200)] {
        let mut b = Build::new();
        let host = b.station(servers, Discipline::Shared);
        b.0.stations[0].speed = speed;
        let cpu = b.state("p", "cpu", Some(host));
        b.machine("p", [work(cpu, 100)]);
        let outcome = run(&b);
        assert_eq!(outcome.elapsed_ns, took, "{servers} {speed}");
        let own = (100.0 / speed) as u64;
        assert_eq!(on_path(&outcome, Place::State(cpu)), own);
        assert_eq!(on_path(&outcome, Place::Station(host)), took - own);
        assert_eq!(outcome.stations[0].waited_ns, took - own);
    }
}

#[test]
fn a_disk_serves_in_order() {
    let mut b = Build::new();
    let disk = b.station(1.0, Discipline::Fifo);
    let cpu = b.state("p", "cpu", None);
    let writes = b.state("p", "disk", Some(disk));
    let kinds: Vec<KindId> = (0..3).map(|i| b.kind(&format!("write {i}"))).collect();
    for (i, ns) in [(0u64, 100), (1, 10), (2, 10)] {
        let kind = kinds[i as usize];
        b.machine("writer", [work(cpu, i), Step::Begin { kind }, work(writes, ns), Step::End]);
    }
    let outcome = run(&b);
    let took: Vec<u64> = outcome.kinds.iter().map(|k| k.latency.max()).collect();
    assert_eq!(took, [100, 109, 118]);
    assert_eq!(outcome.stations[0].waited_ns, 99 + 108);
}

#[test]
fn a_transaction_goes_with_its_item_through_who_serves_it() {
    let mut b = Build::new();
    let cpu = b.state("client", "cpu", None);
    let serves = b.state("server", "cpu", None);
    let there = b.queue("there", None, 0);
    let back = b.queue("back", None, 0);
    b.0.queues[0].delay_ns = 3;
    let kind = b.kind("request");
    b.machine("busy", [put(there, 1)]);
    b.machine("client", [work(cpu, 1), Step::Begin { kind }, work(cpu, 2), put(there, 1), get(back, 2), Step::End]);
    b.machine("server", [get(there, 1), work(serves, 50), put(back, 1), get(there, 1), work(serves, 50), put(back, 1)]);
    let outcome = run(&b);
    let shares = &outcome.kinds[0].shares;
    // put at 3, there at 6, taken at 53, done at 103
    assert_eq!(outcome.kinds[0].latency.max(), 102);
    assert_eq!(at(shares, Place::State(cpu)), 2);
    assert_eq!(at(shares, Place::Queue(there)), 50);
    assert_eq!(at(shares, Place::State(serves)), 50);
    assert_eq!(length(shares), 102);
    // the whole run's path is the server's
    assert_eq!(on_path(&outcome, Place::State(serves)), 100);
}

#[test]
fn a_pool_that_is_too_small_is_a_loop_of_who_holds_its_token() {
    let mut b = Build::new();
    let uses = b.state("app", "query", None);
    let idle = b.state("app", "idle", None);
    let pool = b.queue("pool", None, 1);
    b.0.queues[0].kind = QueueKind::Pool;
    let kind = b.kind("request");
    let steps = [Step::Begin { kind }, work(idle, 1), get(pool, 1), work(uses, 10), put(pool, 1), Step::End];
    let script = b.script(steps);
    b.0.shared = vec![(script, 0); 100];
    b.clients(4);
    let outcome = run(&b);
    assert_eq!(outcome.elapsed_ns, 1 + 100 * 10);
    let [found] = &outcome.loops[..] else { panic!("{:?}", outcome.loops) };
    assert_eq!((found.closed_by, found.ns, found.count), (pool, 990, 99));
    assert_eq!(found.round[0].place, Place::State(uses));
    // of 41 for a request, 30 are waiting for the token
    let shares = &outcome.kinds[0].shares;
    assert!((0.70..0.76).contains(&(at(shares, Place::Full(pool)) as f64 / length(shares) as f64)));
    assert_eq!(outcome.queues[0].most, 1);
}

#[test]
fn who_is_first_in_line_is_served_first_even_if_it_wants_more() {
    let mut b = Build::new();
    let cpu = b.state("p", "cpu", None);
    let queue = b.queue("queue", None, 0);
    let kinds: Vec<KindId> = (0..2).map(|i| b.kind(&format!("takes {i}"))).collect();
    b.machine("giver", [put(queue, 1), work(cpu, 10), put(queue, 1), work(cpu, 10), put(queue, 1)]);
    b.machine("first", [work(cpu, 1), Step::Begin { kind: kinds[0] }, get(queue, 2), Step::End]);
    b.machine("second", [work(cpu, 2), Step::Begin { kind: kinds[1] }, get(queue, 1), Step::End]);
    let outcome = run(&b);
    let took: Vec<u64> = outcome.kinds.iter().map(|k| k.latency.max()).collect();
    assert_eq!(took, [9, 18]);
}

#[test]
fn other_orders_are_counted() {
    let system = |first| {
        let mut b = Build::new();
        let cpu = b.state("p", "cpu", None);
        let queue = b.queue("queue", None, 0);
        b.machine("one", [work(cpu, first), put(queue, 1), put(queue, 1)]);
        b.machine("other", [work(cpu, 10), put(queue, 1), put(queue, 1)]);
        b.machine("taker", [get(queue, 1), get(queue, 1), get(queue, 1), get(queue, 1)]);
        b.0
    };
    let before = replay(&system(5), &Options::default());
    let options = Options { before: Some(before.order.clone()), ..Options::default() };
    assert_eq!(replay(&system(7), &options).reordered, 0);
    // the first of each now comes after another
    assert_eq!(replay(&system(15), &options).reordered, 2);
}

#[test]
fn who_can_never_go_on_is_named_with_the_reason() {
    let mut b = Build::new();
    let none = b.station(0.0, Discipline::Shared);
    let cpu = b.state("p", "cpu", Some(none));
    let small = b.queue("small", Some(2), 0);
    let empty = b.queue("empty", None, 0);
    let itself = ScriptId(b.0.scripts.len() as u32 + 1);
    b.machine("a", [put(small, 3)]);
    b.machine("b", [Step::Fork { script: itself }, Step::Join]);
    b.machine("c", [get(empty, 1)]);
    b.machine("d", [put(small, 2), put(small, 1)]);
    b.machine("e", [get(small, 5)]);
    b.machine("f", [work(cpu, 1)]);
    b.machine("g", [work(StateId(77), 1)]);
    b.machine("h", [put(QueueId(77), 1)]);
    b.actor("i", 5, ScriptId(99));
    let outcome = run(&b);
    let said = outcome.stuck.join("\n");
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        assert!(outcome.stuck.iter().any(|s| s.starts_with(&format!("{name} "))), "{name} in\n{said}");
    }
    assert!(said.contains("a puts 3 into small, which never holds more than 2"), "{said}");
    assert!(said.contains("c waits for 1 of empty, which holds 0"), "{said}");
    assert!(said.contains("e waits for 5 of small, which never holds more than 2"), "{said}");
    assert!(said.contains("b runs a script that starts itself"), "{said}");
    assert!(said.contains("i names a script that the system has not"), "{said}");
}

#[test]
fn a_replay_is_cut_off_where_it_is_too_long() {
    let mut b = Build::new();
    let cpu = b.state("p", "cpu", None);
    let script = b.script([work(cpu, 1)]);
    b.0.shared = vec![(script, 0); 10];
    b.0.rounds = 1_000_000;
    b.clients(1);
    let outcome = replay(&b.0, &Options { steps_max: 1000, ..Options::default() });
    assert_eq!((outcome.steps, outcome.stuck.len()), (1000, 1));
    assert!(outcome.stuck[0].contains("cut off"));
}
