//! Queues of which the truth is known in closed form, or as the solution of a Markov chain.

use crate::build::*;
use wakepath_forecast::outcome::Outcome;
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::system::*;

/// Mean of the work in all of these (ns).
pub const MEAN: f64 = 1e6;
/// Items of the tests; `examples/replay_speed.rs` does the same with a million.
const ITEMS: u64 = 200_000;
/// By how much a mean of so many may be off: the random numbers' spread, not the replay's.
const NEAR: f64 = 0.04;

/// Open arrivals at a station.
pub fn open(items: u64, load: f64, servers: f64, discipline: Discipline) -> Outcome {
    let mut b = Build::new();
    let station = b.station(servers, discipline);
    let state = b.state("server", "cpu", Some(station));
    let kind = b.kind("job");
    let mut dice = Dice(7);
    let mut at = 0;
    for _ in 0..items {
        at += dice.exponential(MEAN / (load * servers));
        let script = b.script([Step::Begin { kind }, work(state, dice.exponential(MEAN)), Step::End]);
        b.actor("job", at, script);
    }
    replay(&b.0, &Options { path: false, ..Options::default() })
}

/// Mean time in an M/M/k station (Erlang's C).
pub fn erlang(load: f64, servers: u32) -> f64 {
    let offered = load * f64::from(servers);
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..servers {
        term *= offered / f64::from(n);
        sum += term;
    }
    let last = term * offered / f64::from(servers) / (1.0 - load);
    let waits = last / (sum + last);
    MEAN + waits * MEAN / (f64::from(servers) * (1.0 - load))
}

fn near(what: &str, got: f64, truth: f64) {
    assert!((got / truth - 1.0).abs() < NEAR, "{what}: {got} and not {truth}");
}

#[test]
fn one_server_and_several() {
    assert_eq!(erlang(0.5, 1), 2.0 * MEAN);
    for (load, servers) in [(0.5, 1), (0.7, 1), (0.7, 2), (0.7, 4)] {
        // with exponential work, the mean is that of either discipline
        for discipline in [Discipline::Fifo, Discipline::Shared] {
            let outcome = open(ITEMS, load, f64::from(servers), discipline);
            let what = format!("{discipline:?}, load {load}, {servers} servers");
            near(&what, outcome.mean_ns(), erlang(load, servers));
            near(&what, outcome.throughput() * MEAN / 1e9, load * f64::from(servers));
            assert_eq!(outcome.transactions, ITEMS);
        }
    }
}

#[test]
fn half_a_server_is_a_slow_one() {
    let outcome = open(ITEMS, 0.5, 0.5, Discipline::Shared);
    near("half a server", outcome.mean_ns(), 2.0 * erlang(0.5, 1));
}

/// Two servers with so much room between them; who finds it full keeps its server (blocking after service). Arrivals
/// come at `load`, or all at once.
pub fn tandem(items: u64, load: Option<f64>, room: u64) -> Outcome {
    let mut b = Build::new();
    let first = b.state("first", "works", None);
    let second = b.state("second", "works", None);
    let arrivals = b.queue("arrivals", None, 0);
    let between = b.queue("between", Some(room), 0);
    let kind = b.kind("item");
    let mut dice = Dice(11);
    let (mut at, mut one, mut other) = (0, Vec::new(), Vec::new());
    for _ in 0..items {
        if let Some(load) = load {
            at += dice.exponential(MEAN / load);
        }
        let script = b.script([Step::Begin { kind }, put(arrivals, 1)]);
        b.actor("item", at, script);
        one.extend([get(arrivals, 1), work(first, dice.exponential(MEAN)), put(between, 1)]);
        other.extend([get(between, 1), work(second, dice.exponential(MEAN)), Step::End]);
    }
    b.machine("first", one);
    b.machine("second", other);
    replay(&b.0, &Options { path: false, ..Options::default() })
}

/// Throughput of two servers with work of mean 1 and `room` between them, the first never idle: the birth-death chain of
/// the items that the first is done with.
pub fn saturated(room: u64) -> f64 {
    // 0 to room + 1 items at the second, and one more where the first is blocked: all equally likely at equal rates
    let states = room as f64 + 3.0;
    (states - 1.0) / states
}

/// Mean number of items in the tandem with arrivals, by solving the chain: `n` items at the first (waiting, in work or
/// blocked), `m` at the second or done with the first and not in the second yet.
pub fn tandem_chain(load: f64, room: usize) -> f64 {
    const MOST: usize = 150;
    let stop = room + 2;
    let at = |n: usize, m: usize| n * (stop + 1) + m;
    let mut p = vec![1.0 / ((MOST + 1) * (stop + 1)) as f64; (MOST + 1) * (stop + 1)];
    // n: items that the first is not done with; m = stop: the first is blocked
    for _ in 0..4000 {
        for n in 0..=MOST {
            for m in 0..=stop {
                let arrives = if n < MOST { load } else { 0.0 };
                let first = if n > 0 && m < stop { 1.0 } else { 0.0 };
                let second = if m > 0 { 1.0 } else { 0.0 };
                let mut flow = 0.0;
                if n > 0 {
                    flow += load * p[at(n - 1, m)];
                }
                if m > 0 && n < MOST {
                    flow += p[at(n + 1, m - 1)];
                }
                if m < stop {
                    flow += p[at(n, m + 1)];
                }
                p[at(n, m)] = flow / (arrives + first + second);
            }
        }
        let sum: f64 = p.iter().sum();
        p.iter_mut().for_each(|p| *p /= sum);
    }
    (0..=MOST).flat_map(|n| (0..=stop).map(move |m| (n, m))).map(|(n, m)| (n + m) as f64 * p[at(n, m)]).sum()
}

#[test]
fn tandem_with_little_room_between() {
    for room in [1, 3] {
        let outcome = tandem(ITEMS, None, room);
        near(&format!("saturated, room {room}"), outcome.throughput() * MEAN / 1e9, saturated(room));
        // Little's law: time = number / rate
        let truth = tandem_chain(0.5, room as usize) / 0.5 * MEAN;
        let outcome = tandem(ITEMS, Some(0.5), room);
        near(&format!("open, room {room}"), outcome.mean_ns(), truth);
        assert!(outcome.queues[1].most <= room && outcome.queues[1].waited_room_ns > 0);
    }
    // without bound it is two M/M/1
    near("chain", tandem_chain(0.5, 40) / 0.5, 4.0);
}
