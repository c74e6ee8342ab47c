//! A small sample of a host's sends and receives that is the same on all hosts, however far apart their clocks are.
//!
//! Of all names of things seen, those with the least hashes are kept: two hosts that saw the same things kept the same
//! ones. That is what makes the coarse pass (wait paper, section 3.6) bounded without the paper's premise that all
//! traces began at about the same time.

use super::sighting::{End, Seen, Sighting, mix};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BinaryHeap;

/// Bytes of a stream are sampled at multiples of this.
const GRID: u32 = 64;

/// The least hashes of one direction, with their times.
#[derive(Default)]
pub struct Sample {
    times: FxHashMap<u64, u64>,
    largest: BinaryHeap<u64>,
    /// Names that came twice: nobody can tell which is which.
    twice: FxHashSet<u64>,
    overflowed: bool,
}

impl Sample {
    fn add(&mut self, name: u64, at: u64, is_unique: bool, capacity: usize) {
        if self.largest.len() >= capacity {
            self.overflowed = true;
            if self.largest.peek().is_some_and(|&l| name > l) {
                return;
            }
        }
        if self.times.contains_key(&name) {
            if is_unique {
                self.twice.insert(name);
            }
            return;
        }
        self.times.insert(name, at);
        self.largest.push(name);
        if self.largest.len() > capacity
            && let Some(out) = self.largest.pop()
        {
            self.times.remove(&out);
            self.twice.remove(&out);
        }
    }

    fn get(&self, name: u64) -> Option<u64> {
        self.times.get(&name).copied().filter(|_| !self.twice.contains(&name))
    }
}

/// What is kept of one host.
#[derive(Default)]
pub struct Sketch {
    sent: Sample,
    received: Sample,
    ends: FxHashMap<u64, End>,
    ends_max: usize,
    /// Times of the first and last sighting.
    pub span: Option<(u64, u64)>,
}

impl Sketch {
    /// Of what a host saw, with at most `capacity` sends and as many receives.
    pub fn of(seen: impl Iterator<Item = Seen>, capacity: usize) -> Sketch {
        let mut s = Sketch::default();
        for (at, sighting) in seen {
            let first = s.span.map_or(at, |x| x.0.min(at));
            s.span = Some((first, s.span.map_or(at, |x| x.1.max(at))));
            match sighting {
                Sighting::Opened(number, end) => {
                    s.ends.insert(number, end);
                    s.ends_max = s.ends_max.max(s.ends.len());
                }
                Sighting::Closed(number) => {
                    s.ends.remove(&number);
                }
                Sighting::Unit { key, sent, at, evidence, .. } => {
                    s.side(sent).add(mix(key, evidence.index() as u64), at, true, capacity);
                }
                Sighting::Bytes { end, sent, start, len, first: _, last } => {
                    let Some(&end) = s.ends.get(&end) else { continue };
                    let names = [Some(end.by_addresses), end.by_numbers];
                    let to_grid = start.wrapping_neg() % GRID;
                    for name in names.into_iter().flatten().map(|n| n.direction(sent)) {
                        for offset in (to_grid..len).step_by(GRID as usize) {
                            let name = mix(name, u64::from(start.wrapping_add(offset)));
                            s.side(sent).add(name, last, false, capacity);
                        }
                    }
                }
            }
        }
        s
    }

    fn side(&mut self, sent: bool) -> &mut Sample {
        if sent { &mut self.sent } else { &mut self.received }
    }

    /// Entries held at most.
    pub fn held(&self) -> usize {
        self.sent.times.len() + self.received.times.len() + self.ends_max
    }

    /// Not everything was kept.
    pub fn overflowed(&self) -> bool {
        self.sent.overflowed || self.received.overflowed
    }

    /// What this host sent and the other received: times on both clocks.
    pub fn sent_to<'s>(&'s self, other: &'s Sketch) -> impl Iterator<Item = (u64, u64)> + 's {
        let is_local = |name: u64| self.received.times.contains_key(&name) || other.sent.times.contains_key(&name);
        let mut names: Vec<u64> = self.sent.times.keys().copied().filter(|n| !is_local(*n)).collect();
        names.sort_unstable();
        names.into_iter().filter_map(|n| Some((self.sent.get(n)?, other.received.get(n)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sighting::Evidence;
    use super::*;

    fn unit(key: u64, sent: bool, at: u64) -> Seen {
        (at, Sighting::Unit { key, sent, at, evidence: Evidence::Packet, carries: None })
    }

    #[test]
    fn two_hosts_keep_the_same_names() {
        let a = Sketch::of((0..10_000).map(|i| unit(i, true, i)), 100);
        let b = Sketch::of((0..10_000).rev().map(|i| unit(i, false, 1_000_000 + i)), 100);
        let both: Vec<(u64, u64)> = a.sent_to(&b).collect();
        assert_eq!(both.len(), 100);
        assert!(both.iter().all(|(s, r)| s + 1_000_000 == *r));
        assert!(a.overflowed() && a.held() == 100);
        assert_eq!(a.span, Some((0, 9_999)));
        assert_eq!(b.sent_to(&a).count(), 0);
    }

    #[test]
    fn what_came_twice_or_stayed_at_home_says_nothing() {
        let a = Sketch::of([unit(1, true, 1), unit(1, true, 2), unit(2, true, 3), unit(3, true, 4)].into_iter(), 9);
        let b = Sketch::of([unit(1, false, 5), unit(2, false, 6), unit(3, false, 7), unit(3, true, 8)].into_iter(), 9);
        assert_eq!(a.sent_to(&b).collect::<Vec<_>>(), [(3, 6)]);
    }

    #[test]
    fn bytes_are_sampled_at_the_same_places_however_they_were_split() {
        let end = |low, numbers| End {
            by_addresses: super::super::sighting::FlowName { flow: 7, low },
            by_numbers: None,
            numbers,
        };
        let bytes = |sent, start: u32, len, at| (at, Sighting::Bytes { end: 1, sent, start, len, first: at, last: at });
        let near = u32::MAX - 99;
        let a = Sketch::of([(0, Sighting::Opened(1, end(true, (0, 0)))), bytes(true, near, 1000, 10)].into_iter(), 99);
        let received = (0..10u32).map(|i| bytes(false, near.wrapping_add(i * 100), 100, 1_000 + u64::from(i)));
        let b = Sketch::of([(0, Sighting::Opened(1, end(false, (0, 0))))].into_iter().chain(received), 99);
        let both: Vec<(u64, u64)> = a.sent_to(&b).collect();
        assert!(both.len() >= 15 && both.iter().all(|(s, r)| *s == 10 && (1_000..1_010).contains(r)), "{both:?}");
    }
}
