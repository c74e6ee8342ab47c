//! Synchronisation of hosts that never were, whose clocks are known.

use proptest::prelude::*;
use wakepath_clocks::sighting::{End, Evidence, FlowName, Seen, Sighting, mix};
use wakepath_clocks::{Outcome, Unsynchronised, held_in_one_pass, synchronise_seen};
use wakepath_testkit::random::Random;

/// A clock: what it shows at a true time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset_ns: i64,
    drift_ppm: f64,
    /// How the drift swings: by so many ppm, once in so long.
    swing_ppm: f64,
    swing_ns: f64,
}

impl Clock {
    fn linear(offset_ns: i64, drift_ppm: f64) -> Clock {
        Clock { offset_ns, drift_ppm, swing_ppm: 0.0, swing_ns: 1.0 }
    }

    fn shows(&self, true_ns: u64) -> u64 {
        let t = true_ns as f64;
        let turn = std::f64::consts::TAU / self.swing_ns;
        let bend = self.swing_ppm * 1e-6 * (1.0 - (t * turn).cos()) / turn;
        (BASE + true_ns).saturating_add_signed(self.offset_ns + (t * self.drift_ppm * 1e-6 + bend) as i64)
    }
}

/// Clocks do not begin at 0.
const BASE: u64 = 1_000_000_000_000;

/// What happens between the hosts.
#[derive(Clone, Debug)]
struct World {
    clocks: Vec<Clock>,
    /// Who talks with whom.
    pairs: Vec<(usize, usize)>,
    length_ns: u64,
    messages: u64,
    /// Least time on the way (ns), and how much more on average.
    latency_ns: (u64, u64),
    loss_percent: f64,
    seed: u64,
}

impl World {
    fn new(clocks: Vec<Clock>, pairs: &[(usize, usize)]) -> World {
        World {
            clocks,
            pairs: pairs.to_vec(),
            length_ns: 60_000_000_000,
            messages: 4_000,
            latency_ns: (10_000, 100_000),
            loss_percent: 2.0,
            seed: 1,
        }
    }

    fn latency(&self, random: &mut Random) -> u64 {
        // exponential, with now and then a long queue
        let unit = (random.any() >> 11) as f64 / (1u64 << 53) as f64;
        let queue = if random.chance(1.0) { 50 } else { 1 };
        self.latency_ns.0 + (-(1.0 - unit).ln() * self.latency_ns.1 as f64) as u64 * queue
    }

    /// Packets both ways between each pair, with losses and retransmissions, by host in the order of its clock.
    fn packets(&self) -> Vec<Vec<Seen>> {
        let mut random = Random::new(self.seed);
        let mut seen: Vec<Vec<Seen>> = vec![Vec::new(); self.clocks.len()];
        let mut push = |host: usize, t: u64, key: u64, sent: bool| {
            let at = self.clocks[host].shows(t);
            let unit = Sighting::Unit { key, sent, at, evidence: Evidence::Packet, carries: None };
            seen[host].push((at, unit));
        };
        for (index, &(a, b)) in self.pairs.iter().enumerate() {
            for i in 0..self.messages {
                let t = random.within(0, self.length_ns);
                for (way, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
                    let key = mix(mix(index as u64, way as u64), i);
                    let mut sent = t + way as u64 * 300_000;
                    // sent until it is not lost; the same packet, so the same name
                    for _ in 0..3 {
                        push(from, sent, key, true);
                        if !random.chance(self.loss_percent) {
                            push(to, sent + self.latency(&mut random), key, false);
                            break;
                        }
                        sent += 1_000_000;
                    }
                }
            }
        }
        seen.iter_mut().for_each(|s| s.sort_by_key(|x| x.0));
        seen
    }

    /// Byte streams both ways between each pair: written and read in pieces of different sizes.
    fn streams(&self) -> Vec<Vec<Seen>> {
        let mut random = Random::new(self.seed);
        let mut seen: Vec<Vec<Seen>> = vec![Vec::new(); self.clocks.len()];
        for (index, &(a, b)) in self.pairs.iter().enumerate() {
            let number = 100 + index as u64;
            let first = [random.any() as u32, random.any() as u32];
            for (side, host) in [a, b].into_iter().enumerate() {
                let end = End {
                    by_addresses: FlowName { flow: mix(7, number), low: side == 0 },
                    by_numbers: None,
                    numbers: (first[side], first[1 - side]),
                };
                let at = self.clocks[host].shows(0);
                seen[host].push((at, Sighting::Opened(number, end)));
            }
            for side in 0..2 {
                let (from, to) = if side == 0 { (a, b) } else { (b, a) };
                let (mut start, mut t) = (first[side], 1_000_000);
                let mut read_until = 0;
                for _ in 0..self.messages {
                    t += random.within(1, 2 * self.length_ns / self.messages);
                    let len = random.within(1, 3_000) as u32;
                    let entry = self.clocks[from].shows(t);
                    let done = self.clocks[from].shows(t + 20_000);
                    let sent = Sighting::Bytes { end: number, sent: true, start, len, first: entry, last: entry };
                    seen[from].push((done, sent));
                    let arrived = read_until + 1;
                    let arrived = arrived.max(t + self.latency(&mut random));
                    let half = len / 2;
                    for (start, len) in [(start, half), (start.wrapping_add(half), len - half)] {
                        if len == 0 {
                            continue;
                        }
                        let read = arrived + random.within(1_000, 50_000);
                        let (first, last) = (self.clocks[to].shows(arrived), self.clocks[to].shows(read));
                        seen[to].push((last, Sighting::Bytes { end: number, sent: false, start, len, first, last }));
                        read_until = read_until.max(read);
                    }
                    start = start.wrapping_add(len);
                }
            }
        }
        seen.iter_mut().for_each(|s| s.sort_by_key(|x| x.0));
        seen
    }

    /// The largest error of an offset between two hosts of one group, over the whole time.
    fn error_ns(&self, outcome: &Outcome) -> i64 {
        let mut worst = 0;
        for group in &outcome.groups {
            for (i, &a) in group.hosts.iter().enumerate() {
                for (j, &b) in group.hosts.iter().enumerate().skip(i + 1) {
                    for step in 0..=64 {
                        let t = self.length_ns / 64 * step;
                        let x = group.clocks[i].at(self.clocks[a].shows(t));
                        let y = group.clocks[j].at(self.clocks[b].shows(t));
                        worst = worst.max((x - y).abs());
                    }
                }
            }
        }
        worst
    }
}

fn synchronise(seen: &[Vec<Seen>], reference: Option<usize>) -> Outcome {
    synchronise_seen(seen.len(), reference, &|h| seen[h].iter().copied())
}

const MINUTE: u64 = 60_000_000_000;
const RING: [(usize, usize); 5] = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)];

#[test]
fn two_hosts_days_apart() {
    let clocks = vec![Clock::linear(0, 0.0), Clock::linear(324 * 86_400_000_000_000, -120.0)];
    let world = World::new(clocks, &[(0, 1)]);
    let outcome = synchronise(&world.packets(), Some(0));
    assert_eq!(outcome.groups.len(), 1, "{outcome:#?}");
    assert_eq!(outcome.inversions, 0);
    assert!(world.error_ns(&outcome) <= 20_000, "{}", world.error_ns(&outcome));
    let pair = &outcome.pairs[0];
    assert!(pair.counts.messages.iter().all(|n| *n > 3_000) && pair.ambiguous > 50, "{pair:#?}");
    let piece = &pair.pieces[0];
    let (low, high) = piece.begin_ns.1.expect("bounded");
    let true_offset = 324 * 86_400_000_000_000;
    assert!(low <= piece.begin_ns.0 && piece.begin_ns.0 <= high);
    assert!((low..=high).contains(&(true_offset - 12)) || (low..=high).contains(&true_offset), "{piece:#?}");
    let (low, high) = piece.drift_ppm.range.expect("bounded");
    assert!(low <= -120.0 && -120.0 <= high && high - low < 10.0, "{piece:#?}");
    assert!(low <= piece.drift_ppm.value && piece.drift_ppm.value <= high);
}

#[test]
fn streams_of_bytes_do_as_well_as_packets() {
    let clocks = vec![Clock::linear(-3_000_000_000, 50.0), Clock::linear(9_000_000_000, -150.0)];
    let world = World::new(clocks, &[(0, 1)]);
    let outcome = synchronise(&world.streams(), None);
    assert_eq!((outcome.groups.len(), outcome.inversions), (1, 0), "{outcome:#?}");
    assert!(outcome.pairs[0].counts.messages.iter().all(|n| *n > 7_000), "{outcome:#?}");
    assert!(world.error_ns(&outcome) <= 20_000, "{}", world.error_ns(&outcome));
}

/// What stands between the hosts translates addresses and ports: each end has another name for its connections, and only
/// the numbers at establishment are the same.
#[test]
fn connections_through_translated_ports_are_matched_by_their_numbers_alone() {
    let clocks = vec![Clock::linear(0, 0.0), Clock::linear(-6_000_000_000, 90.0)];
    // two connections between the same two hosts, so that one could be taken for the other
    let world = World::new(clocks, &[(0, 1), (0, 1)]);
    let translated = |with_numbers: bool| {
        let mut seen = world.streams();
        for (host, of_host) in seen.iter_mut().enumerate() {
            for (_, sighting) in of_host {
                let Sighting::Opened(_, end) = sighting else { continue };
                end.by_addresses = FlowName { flow: mix(end.by_addresses.flow, host as u64), low: true };
                let (snd, rcv) = end.numbers;
                let flow = mix(u64::from(snd.min(rcv)), u64::from(snd.max(rcv)));
                end.by_numbers = with_numbers.then_some(FlowName { flow, low: snd < rcv });
            }
        }
        synchronise(&seen, Some(0))
    };
    let outcome = translated(true);
    assert_eq!((outcome.groups.len(), outcome.inversions), (1, 0), "{outcome:#?}");
    let pair = &outcome.pairs[0];
    assert!(pair.counts.messages.iter().all(|n| *n > 14_000) && pair.counts.rejected == 0, "{pair:#?}");
    assert!(world.error_ns(&outcome) <= 20_000, "{}", world.error_ns(&outcome));
    // without having seen the establishment there is nothing to tell them by
    let outcome = translated(false);
    assert!(outcome.groups.is_empty());
    assert_eq!((outcome.pairs[0].why_not, outcome.messages), (Some(Unsynchronised::NoMessages), 0));
}

#[test]
fn hosts_that_never_talk_are_composed() {
    let clocks = vec![Clock::linear(0, 10.0), Clock::linear(5_000_000_000, -70.0), Clock::linear(-8_000_000_000, 3.0)];
    let world = World::new(clocks, &[(0, 1), (1, 2)]);
    let outcome = synchronise(&world.packets(), None);
    assert_eq!((outcome.groups.len(), outcome.groups[0].reference, outcome.inversions), (1, 1, 0));
    assert_eq!(outcome.groups[0].tree.len(), 2);
    let composed = &outcome.pairs[1];
    assert_eq!((composed.a, composed.b, &composed.via[..]), (0, 2, &[0, 1, 2][..]));
    let direct: u64 = [0, 2].iter().filter_map(|i: &usize| outcome.pairs[*i].uncertainty_ns).sum();
    assert!(composed.uncertainty_ns.is_some_and(|u| u.abs_diff(direct) <= 2), "{outcome:#?}");
    assert!(world.error_ns(&outcome) <= 40_000);
}

#[test]
fn what_cannot_be_synchronised_says_why() {
    let clocks = vec![Clock::linear(0, 0.0); 5];
    let world = World::new(clocks, &[(0, 1), (2, 3)]);
    let mut seen = world.packets();
    // host 3 never answers
    seen[2].retain(|s| matches!(s.1, Sighting::Unit { sent: true, .. }));
    let outcome = synchronise(&seen, None);
    assert_eq!(outcome.groups.len(), 1);
    let why = |a: usize, b: usize| outcome.pairs.iter().find(|p| (p.a, p.b) == (a, b)).and_then(|p| p.why_not);
    assert_eq!(why(0, 1), None);
    assert_eq!(why(2, 3), Some(Unsynchronised::OneWay(2)));
    assert_eq!(why(0, 4), Some(Unsynchronised::NoMessages));
    assert!(synchronise(&[], None).groups.is_empty());
    assert!(synchronise(&[vec![]], None).groups.is_empty());
    assert!(synchronise(&[vec![], vec![]], None).groups.is_empty());
}

/// Adds packets from host 0 that host 1 has as having come `early` before they were sent: each is taken for another.
fn pair_falsely(seen: &mut [Vec<Seen>], times: &[u64], early: u64) {
    for (key, &at) in (1u64 << 60..).zip(times) {
        for (host, at, sent) in [(0, BASE + at, true), (1, BASE + at - early, false)] {
            let unit = Sighting::Unit { key, sent, at, evidence: Evidence::Packet, carries: None };
            seen[host].push((at, unit));
            seen[host].sort_by_key(|s| s.0);
        }
    }
}

#[test]
fn false_pairings_are_rejected_and_counted() {
    let world = World::new(vec![Clock::linear(0, 0.0); 2], &[(0, 1)]);
    let clean = synchronise(&world.packets(), None);
    for times in [&[30_000_000_000][..], &[30_000_000_000, 30_000_400_000, 30_002_000_000, 51_000_000_000]] {
        let mut seen = world.packets();
        pair_falsely(&mut seen, times, 2_000_000);
        let outcome = synchronise(&seen, None);
        assert_eq!((outcome.groups.len(), outcome.inversions), (1, 0), "{outcome:#?}");
        let (pair, without) = (&outcome.pairs[0], &clean.pairs[0]);
        assert_eq!(pair.counts.rejected, times.len() as u64, "{pair:#?}");
        assert_eq!((pair.counts.messages, without.counts.rejected), (without.counts.messages, 0));
        assert_eq!(pair.uncertainty_ns, without.uncertainty_ns);
        assert!(world.error_ns(&outcome) <= 20_000, "{}", world.error_ns(&outcome));
    }
}

#[test]
fn where_too_many_contradict_each_other_it_is_a_contradiction_and_not_a_clock() {
    let world = World::new(vec![Clock::linear(0, 0.0); 2], &[(0, 1)]);
    let mut seen = world.packets();
    let times: Vec<u64> = (1..200).map(|i| i * 300_000_000).collect();
    pair_falsely(&mut seen, &times, 2_000_000);
    let outcome = synchronise(&seen, None);
    assert!(outcome.groups.is_empty());
    assert!(
        matches!(outcome.pairs[0].why_not, Some(Unsynchronised::Contradiction(by)) if by > 500_000.0),
        "{outcome:#?}"
    );
    // of few messages, none can be told to be the false one
    let mut few = World::new(vec![Clock::linear(0, 0.0); 2], &[(0, 1)]);
    few.messages = 20;
    let mut seen = few.packets();
    pair_falsely(&mut seen, &[30_000_000_000], 2_000_000);
    let outcome = synchronise(&seen, None);
    assert!(outcome.inversions == 0 && outcome.pairs[0].counts.rejected == 0, "{outcome:#?}");
}

/// Messages that take `there` and `back` on the way, and nothing less: the offset cannot be known better than half of both.
#[test]
fn the_true_offset_of_an_uneven_way_lies_within_the_bounds_told() {
    for (there, back) in [(5_000, 5_000_000), (5_000_000, 5_000), (200_000, 40_000_000)] {
        let truth = 7_000_000_000i64;
        let mut seen = World::new(vec![Clock::linear(0, 0.0), Clock::linear(truth, 35.0)], &[]).packets();
        let (a, b) = (Clock::linear(0, 0.0), Clock::linear(truth, 35.0));
        let mut random = Random::new(3);
        for i in 0..2_000u64 {
            let t = i * 10_000_000 + random.within(0, 1_000_000);
            let late = random.within(0, 20_000);
            for (way, [(from, sent), (to, received)]) in
                [[(0, a.shows(t)), (1, b.shows(t + there + late))], [(1, b.shows(t)), (0, a.shows(t + back + late))]]
                    .into_iter()
                    .enumerate()
            {
                for (host, at, sent) in [(from, sent, true), (to, received, false)] {
                    let key = mix(way as u64, i);
                    let unit = Sighting::Unit { key, sent, at, evidence: Evidence::Packet, carries: None };
                    seen[host].push((at, unit));
                }
            }
        }
        seen.iter_mut().for_each(|s| s.sort_by_key(|x| x.0));
        let outcome = synchronise(&seen, Some(0));
        assert_eq!((outcome.groups.len(), outcome.inversions), (1, 0), "{outcome:#?}");
        let pair = &outcome.pairs[0];
        let half = (there + back) / 2;
        let within = pair.uncertainty_ns.expect("synchronised");
        assert!(within.abs_diff(half) < half / 10 + 20_000, "{within} of {half}");
        for piece in &pair.pieces {
            for ((value, range), at) in [(piece.begin_ns, piece.span.0), (piece.end_ns, piece.span.1)] {
                let (low, high) = range.expect("bounded");
                let ahead = b.shows(at.0 - BASE) as i64 - at.0 as i64;
                assert!((low..=high).contains(&ahead), "{ahead} is not in {low}..={high}");
                assert!(value.abs_diff(ahead) <= within, "{value} against {ahead}");
            }
        }
    }
}

/// Messages in the first second of a minute: their bounds open from there on, and both are told.
#[test]
fn bounds_between_the_messages_are_told_beside_those_far_from_them() {
    let clocks = vec![Clock::linear(0, 0.0), Clock::linear(3_000_000, 20.0)];
    let mut world = World { length_ns: 1_000_000_000, messages: 400, ..World::new(clocks, &[(0, 1)]) };
    let mut seen = world.packets();
    world.length_ns = MINUTE;
    for (host, key) in [(0, 1), (1, 2)] {
        let at = world.clocks[host].shows(MINUTE);
        let alone = Sighting::Unit { key, sent: true, at, evidence: Evidence::Packet, carries: None };
        seen[host].push((at, alone));
    }
    let outcome = synchronise(&seen, Some(0));
    let pair = &outcome.pairs[0];
    let (within, amid) = (pair.uncertainty_ns.expect("synchronised"), pair.uncertainty_amid_ns.expect("bounded"));
    assert!(amid < 100_000 && within > 10 * amid, "{amid} {within}");
    // the clocks that were chosen are as close as is said
    let [a, b] = [0, 1].map(|host| world.clocks[host]);
    for (t, limit) in [(0, amid), (900_000_000, amid), (MINUTE, within)] {
        let off = |host: usize, shown: u64| {
            let i = outcome.groups[0].hosts.iter().position(|h| *h == host).expect("in the group");
            outcome.groups[0].clocks[i].at(shown)
        };
        let error = off(0, a.shows(t)).abs_diff(off(1, b.shows(t)));
        assert!(error <= limit, "{error} at {t}, within {limit}");
    }
}

#[test]
fn clocks_that_bend_are_fitted_in_pieces() {
    let bent = Clock { offset_ns: 2_000_000_000, drift_ppm: 30.0, swing_ppm: 4.0, swing_ns: 50.0 * MINUTE as f64 };
    let mut world =
        World::new(vec![Clock::linear(0, 0.0), bent, Clock::linear(-1_000, -20.0)], &[(0, 1), (1, 2), (0, 2)]);
    (world.length_ns, world.messages) = (60 * MINUTE, 20_000);
    let outcome = synchronise(&world.packets(), None);
    assert_eq!((outcome.groups.len(), outcome.inversions), (1, 0), "{outcome:#?}");
    assert!(outcome.groups[0].pieces > 1, "{}", outcome.groups[0].pieces);
    assert!(world.error_ns(&outcome) <= 60_000, "{} in {}", world.error_ns(&outcome), outcome.groups[0].pieces);
}

#[test]
fn two_steps_hold_a_hundredth_of_one() {
    let clocks = vec![Clock::linear(0, 0.0), Clock::linear(324 * 86_400_000_000_000, 40.0)];
    let mut world = World::new(clocks, &[(0, 1)]);
    (world.messages, world.length_ns) = (100_000, 10 * MINUTE);
    let seen = world.packets();
    let one = held_in_one_pass(2, &|h| seen[h].iter().copied());
    let outcome = synchronise(&seen, None);
    let two = outcome.held_max.0.max(outcome.held_max.1);
    assert_eq!(outcome.inversions, 0);
    assert!(one >= 100 * two, "{one} against {:?}", outcome.held_max);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn offsets_are_recovered(
        seed in any::<u64>(),
        ring in any::<bool>(),
        offsets in prop::collection::vec(-10_000_000_000i64..10_000_000_000, 5),
        drifts in prop::collection::vec(-200.0f64..200.0, 5),
        minutes in 1u64..=60,
        least in 5_000u64..20_000,
        streams in any::<bool>(),
    ) {
        let hosts = if ring { 5 } else { 3 };
        let clocks = (0..hosts).map(|h| Clock::linear(offsets[h], drifts[h])).collect();
        let pairs = if ring { &RING[..] } else { &RING[..2] };
        let mut world = World::new(clocks, pairs);
        (world.length_ns, world.latency_ns.0, world.seed) = (minutes * MINUTE, least, seed);
        let outcome = synchronise(&if streams { world.streams() } else { world.packets() }, None);
        prop_assert_eq!((outcome.groups.len(), outcome.groups[0].hosts.len(), outcome.inversions), (1, hosts, 0));
        prop_assert!(world.error_ns(&outcome) <= 20_000, "{} in {} pieces", world.error_ns(&outcome), outcome.groups[0].pieces);
    }

    #[test]
    fn false_pairings_make_no_wrong_clock(
        seed in any::<u64>(),
        times in prop::collection::vec(1_000_000_000u64..59_000_000_000, 1..5),
        early in 400_000u64..9_000_000,
    ) {
        let mut world = World::new(vec![Clock::linear(0, 0.0), Clock::linear(0, 0.0)], &[(0, 1)]);
        world.seed = seed;
        let mut seen = world.packets();
        pair_falsely(&mut seen, &times, early);
        let outcome = synchronise(&seen, None);
        prop_assert_eq!((outcome.groups.len(), outcome.inversions), (1, 0), "{:#?}", outcome);
        let pair = &outcome.pairs[0];
        prop_assert!(pair.counts.rejected >= times.len() as u64 && pair.counts.rejected <= 16, "{:#?}", pair);
        prop_assert!(world.error_ns(&outcome) <= 20_000, "{}", world.error_ns(&outcome));
        for piece in &pair.pieces {
            let (low, high) = piece.begin_ns.1.expect("bounded");
            prop_assert!(low <= 0 && 0 <= high, "{:#?}", piece);
        }
    }
}
