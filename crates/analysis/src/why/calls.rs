//! How many calls of each kind two groups of requests make. Time alone does not say of a request that it asks for one thing
//! forty-one times.

use super::KindName;
use crate::names::Names;
use std::collections::BTreeMap;
use wakepath_causality::path::Request;

/// Kinds of call told apart in a group; those of further kinds count together.
const KINDS_MAX: usize = 1_000;
/// Most kinds of call of a comparison.
const DIFFERENCES_MAX: usize = 50;
/// A kind counts as made more often from so many calls a request on.
const CALLS_MIN: f64 = 0.5;
/// The same as a share of the larger number.
const SHARE_MIN: f64 = 0.2;

/// The calls that the requests of a group made.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    kinds: BTreeMap<KindName, u32>,
    /// Of each kind, how many each request made that made any.
    each: Vec<Vec<u64>>,
    requests: u64,
}

/// A kind of call that one group makes more often than the other.
#[derive(Clone, Debug, PartialEq)]
pub struct CallDifference {
    /// Which service is called, and what it is asked for.
    pub to: KindName,
    /// How many calls a slow one makes on average.
    pub slow: f64,
    /// How many a typical one makes.
    pub typical: f64,
    /// How many of the slow ones have at least half of the difference.
    pub with: u64,
}

impl Calls {
    /// Counts what a request called, and what was called for it further below.
    pub(super) fn add(&mut self, r: &Request, names: &Names<'_>) {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for span in r.spans.iter().filter(|s| s.parent.is_some()) {
            let asked = span.callee.as_ref().or(span.caller.as_ref()).map_or(String::new(), |h| names.asked(h));
            *counts.entry(self.place((names.service(span), asked))).or_default() += 1;
        }
        self.close(counts);
    }

    fn place(&mut self, mut kind: KindName) -> u32 {
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind) {
            kind = ("(other)".into(), "(other)".into());
        }
        let next = self.each.len() as u32;
        let place = *self.kinds.entry(kind).or_insert(next);
        if place == next {
            self.each.push(Vec::new());
        }
        place
    }

    fn close(&mut self, counts: BTreeMap<u32, u64>) {
        self.requests += 1;
        for (place, count) in counts {
            self.each[place as usize].push(count);
        }
    }

    /// How many of a kind each request made that made any.
    fn of(&self, kind: &KindName) -> &[u64] {
        self.kinds.get(kind).map_or(&[], |&place| &self.each[place as usize])
    }

    fn mean(&self, kind: &KindName) -> f64 {
        self.of(kind).iter().sum::<u64>() as f64 / self.requests.max(1) as f64
    }

    /// How many requests make so many calls more than others do on average, or so many fewer.
    fn with(&self, kind: &KindName, usual: f64, more: f64) -> u64 {
        let has_it = |count: u64| (count as f64 - usual) * more.signum() >= more.abs() / 2.0;
        let made = self.of(kind);
        let none = self.requests - made.len() as u64;
        made.iter().filter(|n| has_it(**n)).count() as u64 + if has_it(0) { none } else { 0 }
    }
}

/// What calls the slow ones make more or fewer of, the largest difference first.
pub(super) fn compare(slow: &Calls, typical: &Calls) -> Vec<CallDifference> {
    if slow.requests == 0 || typical.requests == 0 {
        return Vec::new();
    }
    let further = typical.kinds.keys().filter(|k| !slow.kinds.contains_key(*k));
    let kinds = slow.kinds.keys().chain(further);
    let mut differences: Vec<CallDifference> = kinds
        .filter_map(|kind| {
            let (s, t) = (slow.mean(kind), typical.mean(kind));
            let differs = (s - t).abs() >= CALLS_MIN.max(s.max(t) * SHARE_MIN);
            let with = || slow.with(kind, t, s - t);
            differs.then(|| CallDifference { to: kind.clone(), slow: s, typical: t, with: with() })
        })
        .collect();
    let size = |d: &CallDifference| (d.slow - d.typical).abs();
    differences.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.to.cmp(&b.to)));
    differences.truncate(DIFFERENCES_MAX);
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(n: usize) -> KindName {
        (format!("s{n}"), "GET".into())
    }

    /// Calls of requests: of each, how often it made which kind.
    fn calls(requests: &[&[(usize, u64)]]) -> Calls {
        let mut calls = Calls::default();
        for r in requests {
            let counts = r.iter().map(|&(n, count)| (calls.place(kind(n)), count)).collect();
            calls.close(counts);
        }
        calls
    }

    #[test]
    fn what_is_called_more_often_is_told_with_who_does() {
        let slow = calls(&[&[(0, 1), (1, 41)], &[(0, 1), (1, 1)], &[(0, 1), (1, 41)]]);
        let typical = calls(&[&[(0, 1), (1, 1)], &[(0, 1), (1, 1)]]);
        let found = compare(&slow, &typical);
        assert_eq!(found, [CallDifference { to: kind(1), slow: 83.0 / 3.0, typical: 1.0, with: 2 }]);
    }

    #[test]
    fn what_the_slow_ones_leave_out_is_told() {
        let found = compare(&calls(&[&[], &[]]), &calls(&[&[(3, 1)], &[(3, 1)]]));
        assert_eq!(found, [CallDifference { to: kind(3), slow: 0.0, typical: 1.0, with: 2 }]);
    }

    #[test]
    fn a_few_more_of_many_and_one_more_of_a_few_requests_are_no_difference() {
        assert_eq!(compare(&calls(&[&[(0, 11)]]), &calls(&[&[(0, 10)]])), []);
        assert_eq!(compare(&calls(&[&[(1, 1)], &[], &[]]), &calls(&[&[]])), []);
        assert_eq!(compare(&calls(&[]), &calls(&[&[(0, 5)]])), [], "nothing compares with nothing");
    }

    #[test]
    fn further_kinds_count_together() {
        let requests: Vec<Vec<(usize, u64)>> = (0..KINDS_MAX + 10).map(|n| vec![(n, 1)]).collect();
        let many = calls(&requests.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!((many.kinds.len(), many.each.len()), (KINDS_MAX + 1, KINDS_MAX + 1));
        assert_eq!(many.of(&("(other)".into(), "(other)".into())).len(), 10);
    }
}
