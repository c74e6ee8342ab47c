//! Every folder `tests/golden/import.waits/*` is a test: raw events as lines of text, and the rows that they give.
//! `UPDATE_GOLDEN=1` writes `expected.txt` anew. Beside them, what must hold for any events whatever.

mod support;

use proptest::prelude::*;
use support::{Rows, play};
use wakepath_decode::imported::Importer;
use wakepath_decode::raw::{Block, Packet, Peer, Raw, RawSink, Task};
use wakepath_model::ids::MonoNs;
use wakepath_testkit::golden;

#[test]
fn every_golden_case_gives_the_rows_that_are_expected() {
    golden::each("import.waits", |case| {
        let got = play(&golden::text(case, "input.txt")).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
        golden::holds(case, &got.text());
    });
}

/// Any event, of few threads and processors, so that they meet; now and then an absurd number.
#[derive(Clone, Debug)]
enum Step {
    Event(u64, u16, u8, u32, u32, u16),
    Lost(Option<u16>, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let tid = prop_oneof![8 => 0u32..6, 1 => any::<u32>()];
    let number = prop_oneof![6 => 0u16..10, 1 => any::<u16>()];
    let cpu = prop_oneof![20 => 0u16..3, 1 => any::<u16>()];
    prop_oneof![
        30 => (0u64..60, cpu, 0u8..28, tid.clone(), tid, number).prop_map(|(d, c, k, a, b, n)| Step::Event(d, c, k, a, b, n)),
        1 => (proptest::option::of(0u16..3), 0u64..400, 0u64..200).prop_map(|(c, f, l)| Step::Lost(c, f, l)),
    ]
}

fn run(steps: &[Step]) -> Rows {
    let mut importer = Importer::new(Rows::default(), 0);
    let mut now = 1000u64;
    for s in steps {
        match *s {
            Step::Lost(cpu, from, length) => {
                let from = (now + 100).saturating_sub(from);
                importer.lost(cpu, MonoNs(from), MonoNs(from + length), 7);
            }
            Step::Event(after, cpu, kind, a, b, n) => {
                // a third of them go back in time
                now = if after < 20 { now - after } else { now + after };
                let task = |tid| Task { tid, tgid: u32::from(n), comm: if n % 2 == 0 { b"name" } else { b"" } };
                let packet = |sent| {
                    Raw::Packet(Packet {
                        sent,
                        seq: b,
                        object: u64::from(a),
                        at_socket: n % 3 == 0,
                        protocol: if n % 5 == 0 { 17 } else { 0 },
                        ..Packet::default()
                    })
                };
                let event = match kind {
                    0..=5 => Raw::Switch { prev: task(a), prev_state: n, next: task(b) },
                    6 | 7 => Raw::Waking { task: task(a) },
                    8 => Raw::Wakeup { task: task(a), target_cpu: Some(n) },
                    9 => Raw::WakeupNew { task: task(a) },
                    10 => Raw::Fork { parent: task(a), child: task(b) },
                    11 => Raw::Exec { task: task(a), old_tid: b, filename: b"/bin/x" },
                    12 => Raw::Exit { task: task(a) },
                    13 => Raw::Alive { task: task(a), ppid: b, kernel: None },
                    14 => Raw::IrqEntry { irq: a, name: b"" },
                    15 => Raw::IrqExit { irq: a, wakes_thread: n % 2 == 0 },
                    16 => Raw::SoftirqEntry { vector: n as u8 },
                    17 => Raw::SoftirqExit { vector: n as u8 },
                    18 => Raw::TimerEntry,
                    19 => packet(true),
                    20 => packet(false),
                    21 => Raw::BlockDone(Block::default()),
                    22 => Raw::SyscallEntry { nr: Some(7), arg0: 1 },
                    23 => Raw::Current { task: task(a) },
                    24 => Raw::Peer(Peer { fd: a, address: [0; 16], port: n.max(1) }),
                    25 => Raw::VectorEntry { vector: b as u8, is_call: n % 2 == 0 },
                    26 => Raw::VectorExit { vector: b as u8, is_call: n % 2 == 0 },
                    _ => Raw::SyscallExit { nr: None, ret: -1 },
                };
                importer.event(MonoNs(now), cpu, &event);
            }
        }
    }
    importer.finish().0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn waits_of_a_task_follow_each_other_whatever_comes(steps in proptest::collection::vec(step(), 0..300)) {
        let rows = run(&steps);
        let mut by_task = std::collections::BTreeMap::<u32, Vec<_>>::new();
        for w in &rows.waits {
            prop_assert!(w.blocked <= w.woken && w.woken <= w.at, "{w:?}");
            by_task.entry(w.task.0).or_default().push(*w);
        }
        for waits in by_task.values() {
            // rows of one task come in order of time
            for pair in waits.windows(2) {
                prop_assert!(pair[0].at <= pair[1].blocked, "{pair:?}");
            }
        }
        // every task that a row names was introduced
        let known: std::collections::BTreeSet<u32> = rows.tasks.iter().map(|t| t.task.0).chain([0]).collect();
        for w in &rows.waits {
            prop_assert!(known.contains(&w.task.0) && known.contains(&w.by.0), "{w:?}");
        }
        let ids: Vec<u64> = rows.packets.iter().map(|p| p.id).collect();
        let distinct: std::collections::BTreeSet<u64> = ids.iter().copied().collect();
        prop_assert_eq!(ids.len(), distinct.len());
    }
}

/// Tracers that write no UDP header: ports come from the call that named the other end.
#[test]
fn datagrams_without_ports_have_those_that_the_calls_name() {
    const NET_RX: u8 = 3;
    let address = |last: u8| {
        let mut a = [0; 16];
        a[..4].copy_from_slice(&[10, 0, 0, last]);
        a
    };
    let (local, server, other) = (address(1), address(53), address(99));
    let (asker, idle) = (Task { tid: 7, tgid: 7, comm: b"asker" }, Task::default());
    let datagram = |sent, from, to, ip_id| {
        Raw::Packet(Packet { sent, ip: 4, protocol: 17, saddr: from, daddr: to, ip_id, ..Packet::default() })
    };
    let waking = Raw::Waking { task: asker };
    let events = [
        (1, Raw::Switch { prev: idle, prev_state: 0, next: asker }),
        (2, Raw::SyscallEntry { nr: Some(42), arg0: 3 }),
        (2, Raw::Peer(Peer { fd: 3, address: server, port: 53 })),
        (3, Raw::SyscallExit { nr: Some(42), ret: 0 }),
        // on that socket, on another, and to somewhere else
        (4, Raw::SyscallEntry { nr: Some(44), arg0: 3 }),
        (5, datagram(true, local, server, 1)),
        (6, datagram(true, local, other, 2)),
        (7, Raw::SyscallExit { nr: Some(44), ret: 30 }),
        (8, Raw::SyscallEntry { nr: Some(44), arg0: 4 }),
        (9, datagram(true, local, server, 3)),
        (10, Raw::SyscallExit { nr: Some(44), ret: 30 }),
        (11, Raw::SyscallEntry { nr: Some(7), arg0: 0 }),
        (12, Raw::Switch { prev: asker, prev_state: 1, next: idle }),
        // one that wakes nobody, one of somebody else, and the answer
        (20, Raw::SoftirqEntry { vector: NET_RX }),
        (21, datagram(false, server, local, 4)),
        (22, datagram(false, other, local, 5)),
        (23, waking),
        (24, datagram(false, server, local, 6)),
        (25, waking),
        (26, Raw::SoftirqExit { vector: NET_RX }),
        (27, Raw::Switch { prev: idle, prev_state: 0, next: asker }),
    ];
    let mut importer = Importer::new(Rows::default(), 0);
    events.iter().for_each(|(at, event)| importer.event(MonoNs(*at), 0, event));
    let rows = importer.finish().0;
    let ports: Vec<_> = rows.packets.iter().map(|p| (p.id, p.sport, p.dport)).collect();
    assert_eq!(ports, [(1, 0, 53), (2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0), (6, 53, 0)]);
    // a name that both ends can make does not depend on what one of them knows besides
    let bare = Packet { ip: 4, protocol: 17, saddr: local, daddr: server, ip_id: 1, ..Packet::default() };
    let mut receiver = Importer::new(Rows::default(), 0);
    receiver.event(MonoNs(1), 0, &Raw::Packet(bare));
    let received = receiver.finish().0.packets;
    assert_eq!((received[0].key, received[0].flow), (rows.packets[0].key, rows.packets[0].flow));
}

#[test]
fn memory_is_held_for_the_living_alone() {
    let mut importer = Importer::new(Rows::default(), 0);
    let idle = Task::default();
    for i in 0..50_000u64 {
        let (at, tid) = (MonoNs(i * 10), 10 + (i as u32 % 30_000));
        let child = Task { tid, tgid: tid, comm: b"short" };
        let parent = Task { tid: 5, tgid: 5, comm: b"maker" };
        importer.event(at, 0, &Raw::Fork { parent, child });
        importer.event(at, 0, &Raw::Switch { prev: idle, prev_state: 0, next: child });
        importer.event(at, 0, &Raw::Exit { task: child });
        importer.event(at, 0, &Raw::Switch { prev: child, prev_state: 0x40, next: idle });
        assert!(importer.task_count() <= 2);
    }
    let done = importer.finish().1;
    assert_eq!(done.waits - done.open_waits, 50_000);
}
