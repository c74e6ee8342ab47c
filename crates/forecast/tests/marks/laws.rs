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

/// A world as it runs. Each queue has one machine that gives and one that takes.
struct Run<'w> {
    world: &'w World,
    machines: Vec<Machine>,
    /// Of each queue: what is in it, and what those who were called may put there.
    level: Vec<u64>,
    promised: Vec<u64>,
    /// Of each queue: machines that wait for items, and for room.
    takers: Vec<VecDeque<usize>>,
    givers: Vec<VecDeque<usize>>,
    /// Of each queue: when it was last come to, and by whom.
    touched: Vec<Option<(u64, usize)>>,
    is_tie: bool,
    /// What the machines say.
    text: String,
}

/// Runs a world and writes down what its machines say, and when it ended. `None`: both came to a queue at the same moment,
/// and whether who waited did so for no time, and then for the queue's latency, depends on who is looked at first.
fn run(world: &World) -> Option<(String, u64)> {
    let count = world.queues.len();
    let machine = |rounds, begin| Machine { at: 0, rounds, next: Some(begin), waiting: None, is_called: false };
    let mut run = Run {
        world,
        machines: world.machines.iter().map(|(_, rounds, begin)| machine(*rounds, *begin)).collect(),
        level: world.queues.iter().map(|q| q.initial).collect(),
        promised: vec![0; count],
        takers: vec![VecDeque::new(); count],
        givers: vec![VecDeque::new(); count],
        touched: vec![None; count],
        is_tie: false,
        text: "wakepath-marks 1 unit=1ns\n".to_owned(),
    };
    let mut last = 0;
    while let Some(now) = run.machines.iter().filter_map(|m| m.next).min() {
        last = now;
        let due: Vec<usize> = (0..run.machines.len()).filter(|m| run.machines[*m].next == Some(now)).collect();
        for m in due {
            run.go_on(now, m);
            run.call(now);
        }
    }
    (!run.is_tie).then_some((run.text, last))
}

impl Run<'_> {
    /// A machine does what it can until time passes, it waits or it has done all its rounds.
    fn go_on(&mut self, now: u64, m: usize) {
        let (round, ..) = &self.world.machines[m];
        loop {
            if self.machines[m].rounds == 0 || round.is_empty() {
                writeln!(self.text, "{now} h m {m} state -").unwrap();
                self.machines[m].next = None;
                return;
            }
            let act = &round[self.machines[m].at];
            if let Act::Give(q, _) | Act::Take(q, _) = *act {
                let before = self.touched[q].replace((now, m));
                self.is_tie |=
                    self.world.queues[q].latency > 0 && before.is_some_and(|(at, who)| at == now && who != m);
            }
            if !self.does(now, m, act) {
                return;
            }
            let machine = &mut self.machines[m];
            machine.at += 1;
            if machine.at == round.len() {
                machine.at = 0;
                machine.rounds -= 1;
            }
            if machine.next != Some(now) {
                return;
            }
        }
    }

    /// One act of a machine's round; false where it has to wait for it.
    fn does(&mut self, now: u64, m: usize, act: &Act) -> bool {
        let machine = &mut self.machines[m];
        match *act {
            Act::Work(ns) => {
                writeln!(self.text, "{now} h m {m} state s{}", machine.at).unwrap();
                machine.next = Some(now + ns);
            }
            Act::Give(q, n) => {
                let room = self.world.queues[q].room.unwrap_or(u64::MAX);
                if !machine.is_called && (self.level[q] + self.promised[q] + n > room || !self.givers[q].is_empty()) {
                    writeln!(self.text, "{now} h m {m} wait_full q {n} {q}").unwrap();
                    machine.waiting = Some((q, n));
                    machine.next = None;
                    self.givers[q].push_back(m);
                    return false;
                }
                if std::mem::take(&mut machine.is_called) {
                    self.promised[q] -= n;
                }
                self.level[q] += n;
                writeln!(self.text, "{now} h m {m} enqueue q {n} {q}").unwrap();
            }
            Act::Take(q, n) => {
                if !machine.is_called && (self.level[q] < n || !self.takers[q].is_empty()) {
                    writeln!(self.text, "{now} h m {m} wait_empty q {n} {q}").unwrap();
                    machine.waiting = Some((q, n));
                    machine.next = None;
                    self.takers[q].push_back(m);
                    return false;
                }
                machine.is_called = false;
                self.level[q] -= n;
                writeln!(self.text, "{now} h m {m} dequeue q {n} {q}").unwrap();
            }
        }
        true
    }

    /// Calls one taker and one giver of each queue, if that is possible.
    fn call(&mut self, now: u64) {
        for q in 0..self.level.len() {
            if let Some(first) = self.takers[q].front().copied()
                && let Some((_, n)) = self.machines[first].waiting
                && self.level[q] >= n
            {
                self.takers[q].pop_front();
                self.machines[first].is_called = true;
                self.machines[first].next = Some(now + self.world.queues[q].latency);
            }
            let room = self.world.queues[q].room.unwrap_or(u64::MAX);
            if let Some(first) = self.givers[q].front().copied()
                && let Some((_, n)) = self.machines[first].waiting
                && self.level[q] + self.promised[q] + n <= room
            {
                self.givers[q].pop_front();
                self.promised[q] += n;
                self.machines[first].is_called = true;
                self.machines[first].next = Some(now + self.world.queues[q].latency);
            }
        }
    }
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
