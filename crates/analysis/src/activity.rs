//! When something went on, so that a rate is over that time and not over the idle time around it.

use crate::histogram::Histogram;
use wakepath_model::ids::CommonNs;

/// A pause of less than this is part of being active (ns).
const IDLE_MIN_NS: u64 = 1_000_000_000;
/// A pause is idle time where it is so many times as long as 95 of 100 pauses.
const IDLE_TIMES: u64 = 10;
/// Most pauses that can count as idle time; of more, the longest.
const IDLE_MAX: usize = 1024;
/// Of fewer, no rate is told: the time that they happen to lie in says nothing.
const RATE_MIN: u64 = 8;

/// The times in which requests were in progress, and the pauses between them.
///
/// Active is the time from the first begin to the last end without idle time: pauses of a second or more that are ten times
/// longer than 95 of 100 pauses. What comes once a minute is active throughout; a load of ten seconds in a recording of a
/// minute is active for ten seconds.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    count: u64,
    from: i64,
    until: i64,
    /// Lengths of pauses; 0 where the next began before all others had ended.
    pauses: Histogram,
    /// Those that may be idle time.
    long: Vec<u64>,
}

impl Activity {
    /// Adds a request. They come in about the order of their ends.
    pub fn add(&mut self, began: CommonNs, ended: CommonNs) {
        let (from, until) = (began.0, ended.0.max(began.0));
        if self.count == 0 {
            (self.from, self.until) = (from, until);
        } else {
            let before = from.saturating_sub(self.until).max(self.from.saturating_sub(until));
            self.pause(u64::try_from(before).unwrap_or(0));
            (self.from, self.until) = (self.from.min(from), self.until.max(until));
        }
        self.count += 1;
    }

    fn pause(&mut self, ns: u64) {
        self.pauses.add(ns);
        if ns < IDLE_MIN_NS {
            return;
        }
        if self.long.len() < IDLE_MAX {
            self.long.push(ns);
        } else if let Some(least) = self.long.iter_mut().min().filter(|least| **least < ns) {
            *least = ns;
        }
    }

    /// How long requests came (ns).
    pub fn active_ns(&self) -> u64 {
        let least = self.pauses.quantile(0.95).saturating_mul(IDLE_TIMES).max(IDLE_MIN_NS);
        let idle: u64 = self.long.iter().filter(|ns| **ns >= least).sum();
        u64::try_from(self.until.saturating_sub(self.from)).unwrap_or(0).saturating_sub(idle)
    }

    /// Requests a second while they came; `None` where there are too few to tell.
    pub fn rate_per_s(&self) -> Option<f64> {
        let active_ns = self.active_ns();
        (self.count >= RATE_MIN && active_ns > 0).then(|| self.count as f64 * 1e9 / active_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn of(begins: impl IntoIterator<Item = i64>, length: i64) -> Activity {
        let mut out = Activity::default();
        begins.into_iter().for_each(|at| out.add(CommonNs(at), CommonNs(at + length)));
        out
    }

    #[test]
    fn a_burst_has_the_rate_of_the_burst() {
        // a thousand in a second, then nothing for 13 s, and a thousand again
        let bursts = (0..1000).map(|n| n * MS).chain((0..1000).map(|n| 14_000 * MS + n * MS));
        let a = of(bursts, MS / 2);
        assert!((950.0..1050.0).contains(&a.rate_per_s().expect("a rate")), "{a:?}");
        assert!((1_990_000_000..2_010_000_000).contains(&a.active_ns()), "{}", a.active_ns());
    }

    #[test]
    fn what_comes_once_a_minute_is_not_idle_in_between() {
        let a = of((0..11).map(|n| n * 60_000 * MS), 5 * MS);
        assert_eq!(a.active_ns(), 600_005_000_000);
        assert!((a.rate_per_s().expect("a rate") - 11.0 / 600.005).abs() < 1e-9);
    }

    #[test]
    fn few_have_no_rate_and_order_hardly_matters() {
        assert_eq!(of([0, MS], MS).rate_per_s(), None);
        assert_eq!(of(std::iter::empty(), MS).rate_per_s(), None);
        let (forth, back) = (of((0..50).map(|n| n * MS), 2 * MS), of((0..50).rev().map(|n| n * MS), 2 * MS));
        assert_eq!(forth.active_ns(), back.active_ns());
    }
}
