//! Laws for any recording: a system of machines is run here, by the plainest means, and writes marks as it goes; what is
//! derived from them and replayed unchanged takes the same time.

use super::{derived, system};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::fmt::Write as _;
use wakepath_forecast::replay::{Options, replay};

/// What a machine does in its round.
#[derive(Clone, Debug)]
enum Act {
    Work(u64),
    Give(usize, u64),
    Take(usize, u64),
}

/// A queue, and what passes between its being ready and who waited going on.
#[derive(Clone, Debug)]
struct Between {
    room: Option<u64>,
    initial: u64,
    latency: u64,
}

#[derive(Clone, Debug)]
struct World {
    queues: Vec<Between>,
    /// Each machine's round, how often it goes round, and when it begins.
    machines: Vec<(Vec<Act>, u32, u64)>,
}

struct Machine {
    at: usize,
    rounds: u32,
    /// When it goes on, where it does not wait.
    next: Option<u64>,
    waiting: Option<(usize, u64)>,
    /// It was called and does at `next` what it waited for.
    is_called: bool,
}

/// Runs a world and writes down what its machines say, and when it ended. Each queue has one machine that gives and one that
/// takes. `None`: both came to a queue at the same moment, and whether who waited did so for no time, and then for the
/// queue's latency, depends on who is looked at first.
fn run(world: &World) -> Option<(String, u64)> {
    let mut text = "wakepath-marks 1 unit=1ns\n".to_owned();
    let mut level: Vec<u64> = world.queues.iter().map(|q| q.initial).collect();
    let mut promised: Vec<u64> = vec![0; level.len()];
    let mut takers: Vec<VecDeque<usize>> = vec![VecDeque::new(); level.len()];
    let mut givers = takers.clone();
    let mut machines: Vec<Machine> = (world.machines.iter())
        .map(|(_, rounds, begin)| Machine {
            at: 0,
            rounds: *rounds,
            next: Some(*begin),
            waiting: None,
            is_called: false,
        })
        .collect();
    let mut last = 0;
    let mut touched: Vec<Option<(u64, usize)>> = vec![None; level.len()];
    let mut is_tie = false;
    while let Some(now) = machines.iter().filter_map(|m| m.next).min() {
        last = now;
        let due: Vec<usize> = (0..machines.len()).filter(|m| machines[*m].next == Some(now)).collect();
        for m in due {
            let (round, ..) = &world.machines[m];
            loop {
                if machines[m].rounds == 0 || round.is_empty() {
                    writeln!(text, "{now} h m {m} state -").unwrap();
                    machines[m].next = None;
                    break;
                }
                if let Act::Give(q, _) | Act::Take(q, _) = round[machines[m].at] {
                    let before = touched[q].replace((now, m));
                    is_tie |= world.queues[q].latency > 0 && before.is_some_and(|(at, who)| at == now && who != m);
                }
                let mut does = |text: &mut String, machine: &mut Machine| match round[machine.at] {
                    Act::Work(ns) => {
                        writeln!(text, "{now} h m {m} state s{}", machine.at).unwrap();
                        machine.next = Some(now + ns);
                        true
                    }
                    Act::Give(q, n) => {
                        let room = world.queues[q].room.unwrap_or(u64::MAX);
                        if !machine.is_called && (level[q] + promised[q] + n > room || !givers[q].is_empty()) {
                            writeln!(text, "{now} h m {m} wait_full q {n} {q}").unwrap();
                            machine.waiting = Some((q, n));
                            machine.next = None;
                            givers[q].push_back(m);
                            return false;
                        }
                        if std::mem::take(&mut machine.is_called) {
                            promised[q] -= n;
                        }
                        level[q] += n;
                        writeln!(text, "{now} h m {m} enqueue q {n} {q}").unwrap();
                        true
                    }
                    Act::Take(q, n) => {
                        if !machine.is_called && (level[q] < n || !takers[q].is_empty()) {
                            writeln!(text, "{now} h m {m} wait_empty q {n} {q}").unwrap();
                            machine.waiting = Some((q, n));
                            machine.next = None;
                            takers[q].push_back(m);
                            return false;
                        }
                        machine.is_called = false;
                        level[q] -= n;
                        writeln!(text, "{now} h m {m} dequeue q {n} {q}").unwrap();
                        true
                    }
                };
                if !does(&mut text, &mut machines[m]) {
                    break;
                }
                let machine = &mut machines[m];
                machine.at += 1;
                if machine.at == round.len() {
                    machine.at = 0;
                    machine.rounds -= 1;
                }
                if machine.next != Some(now) {
                    break;
                }
            }
            // one taker and one giver of each queue is called, if that is possible
            for q in 0..level.len() {
                if let Some(first) = takers[q].front().copied()
                    && let Some((_, n)) = machines[first].waiting
                    && level[q] >= n
                {
                    takers[q].pop_front();
                    machines[first].is_called = true;
                    machines[first].next = Some(now + world.queues[q].latency);
                }
                let room = world.queues[q].room.unwrap_or(u64::MAX);
                if let Some(first) = givers[q].front().copied()
                    && let Some((_, n)) = machines[first].waiting
                    && level[q] + promised[q] + n <= room
                {
                    givers[q].pop_front();
                    promised[q] += n;
                    machines[first].is_called = true;
                    machines[first].next = Some(now + world.queues[q].latency);
                }
            }
        }
    }
    (!is_tie).then_some((text, last))
}

fn world() -> impl Strategy<Value = World> {
    let queue = (
        proptest::option::of(1u64..6),
        0u64..4,
        prop_oneof![Just(0u64), 1u64..9_000],
        // who gives, who takes, where in their rounds, how many at a time
        (0usize..4, 0usize..4, any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u64..4, 1u64..4),
    );
    let machine = (proptest::collection::vec(0u64..20_000, 1..4), 1u32..12, 0u64..30_000);
    (proptest::collection::vec(queue, 1..5), proptest::collection::vec(machine, 4)).prop_map(|(queues, machines)| {
        let mut world = World { queues: Vec::new(), machines: Vec::new() };
        for (works, rounds, begin) in machines {
            world.machines.push((works.into_iter().map(Act::Work).collect(), rounds, begin));
        }
        for (q, (room, initial, latency, (giver, taker, at, to, give, take))) in queues.into_iter().enumerate() {
            // what is there at the begin fits in, and so does each gift
            let room = room.map(|r| r.max(initial).max(give));
            world.queues.push(Between { room, initial, latency });
            let round = &mut world.machines[giver].0;
            round.insert(at.index(round.len() + 1), Act::Give(q, give));
            let round = &mut world.machines[taker].0;
            round.insert(to.index(round.len() + 1), Act::Take(q, take));
        }
        // whose first mark takes an item is taken to have come with it: not one that came late by itself
        for (round, _, begin) in &mut world.machines {
            *begin = if matches!(round.first(), Some(Act::Take(..))) { 0 } else { *begin };
        }
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_of_what_was_recorded_takes_as_long(world in world()) {
        let Some((text, last)) = run(&world) else { return Err(TestCaseError::reject("a tie")) };
        let made = derived(&text, None).unwrap();
        let first = world.machines.iter().map(|m| m.2).min().unwrap();
        let contradictions: Vec<_> = made.warnings.iter().filter(|w| {
            !matches!(w.defect, "marks.never_filled" | "marks.never_taken" | "marks.never_waits" | "marks.state_open")
        }).collect();
        prop_assert!(contradictions.is_empty(), "{contradictions:?}\n{text}");
        let outcome = replay(system(&made), &Options::default());
        prop_assert!(outcome.stuck.is_empty(), "{:?}\n{text}", outcome.stuck);
        prop_assert_eq!(outcome.elapsed_ns, last - first, "{}", text);
        prop_assert_eq!(made.measured.elapsed_ns, last - first);
    }

    /// Whatever anybody says in whatever order, something is derived, and it can be replayed.
    #[test]
    fn any_marks_make_a_system(
        lines in proptest::collection::vec((0u64..60, 0u8..3, 0usize..9, 0u8..3, 1u64..4), 1..120)
    ) {
        let mut text = "wakepath-marks 1 unit=1ns\n".to_owned();
        let mut lines = lines;
        lines.sort_by_key(|l| l.0);
        for (at, machine, verb, name, count) in lines {
            let verb = [
                "state", "enqueue", "dequeue", "wait_empty", "wait_full", "begin", "end", "enqueue", "dequeue",
            ][verb];
            let count = if matches!(verb, "state" | "begin" | "end") { String::new() } else { count.to_string() };
            writeln!(text, "{at} h m {machine} {verb} n{name} {count}").unwrap();
        }
        let made = derived(&text, None).unwrap();
        let outcome = replay(system(&made), &Options::default());
        prop_assert!(outcome.steps <= system(&made).steps.len() as u64);
        for between in [("m[1]", "m[2]"), ("m", "h/m")] {
            if let Ok(made) = derived(&text, Some(between)) {
                replay(system(&made), &Options::default());
            }
        }
    }
}
