//! Durations in bounded memory.

/// Counts by logarithmic buckets with 64 steps an octave: a quantile is at most 1.6 % off.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u32>,
    total: u64,
    sum: u128,
    min: u64,
    max: u64,
}

const STEPS: u32 = 6;

fn bucket(v: u64) -> usize {
    if v < 1 << STEPS {
        return v as usize;
    }
    let exponent = 63 - v.leading_zeros();
    let step = (v >> (exponent - STEPS)) & ((1 << STEPS) - 1);
    (((exponent - STEPS + 1) << STEPS) as u64 + step) as usize
}

/// The least value of a bucket.
fn least(b: usize) -> u64 {
    if b < 1 << STEPS {
        return b as u64;
    }
    let (octave, step) = ((b >> STEPS) as u32, (b & ((1 << STEPS) - 1)) as u64);
    // beyond the last bucket there is no value
    ((1 << STEPS) + step)
        .checked_shl(octave - 1)
        .filter(|v| v >> (octave - 1) == (1 << STEPS) + step)
        .unwrap_or(u64::MAX)
}

/// The middle of a bucket.
fn value(b: usize) -> u64 {
    if b < 1 << STEPS {
        return b as u64;
    }
    let (octave, step) = ((b >> STEPS) as u32, (b & ((1 << STEPS) - 1)) as u64);
    let width = 1u64 << (octave - 1);
    ((1 << STEPS) + step) * width + width / 2
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Vec::new(), total: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, v: u64) {
        let b = bucket(v);
        if self.counts.len() <= b {
            self.counts.resize(b + 1, 0);
        }
        self.counts[b] = self.counts[b].saturating_add(1);
        self.total += 1;
        self.sum += u128::from(v);
        self.min = self.min.min(v);
        self.max = self.max.max(v);
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Their mean, 0 where there are none.
    pub fn mean(&self) -> u64 {
        if self.total == 0 { 0 } else { (self.sum / u128::from(self.total)) as u64 }
    }

    /// The largest, exactly.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// How to tell the `count` largest values when they are met again: all from the first number on, and of those between
    /// the second and the first as many as the third says.
    pub fn top(&self, count: u64) -> (u64, u64, u64) {
        let mut above = 0;
        for (b, &n) in self.counts.iter().enumerate().rev() {
            if above + u64::from(n) >= count {
                return (least(b + 1), least(b), count - above);
            }
            above += u64::from(n);
        }
        (0, 0, 0)
    }

    /// The values from one quantile to another, both included: as wide as the buckets that they lie in.
    pub fn between(&self, low: f64, high: f64) -> std::ops::Range<u64> {
        least(bucket(self.quantile(low)))..least(bucket(self.quantile(high)) + 1)
    }

    /// By how much the values from `from` on are above `usual`, all together, as far as buckets tell.
    pub fn excess(&self, from: u64, usual: u64) -> u128 {
        let over = self.counts.iter().enumerate().skip(bucket(from));
        over.map(|(b, &n)| u128::from(n) * u128::from(value(b).saturating_sub(usual))).sum()
    }

    /// The value below which a share `q` (0 to 1) of the values lies; exact at both ends.
    pub fn quantile(&self, q: f64) -> u64 {
        if self.total == 0 {
            return 0;
        }
        let rank = ((q * self.total as f64).ceil() as u64).clamp(1, self.total);
        if rank == self.total {
            return self.max;
        }
        let mut seen = 0;
        for (b, &n) in self.counts.iter().enumerate() {
            seen += u64::from(n);
            if seen >= rank {
                return value(b).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close() {
        let mut h = Histogram::default();
        for v in 1..=100_000u64 {
            h.add(v * 37);
        }
        for q in [0.5, 0.95, 0.99] {
            let exact = q * 100_000.0 * 37.0;
            assert!((h.quantile(q) as f64 - exact).abs() / exact < 0.016, "{q}");
        }
        assert_eq!((h.quantile(1.0), h.max()), (3_700_000, 3_700_000));
    }

    #[test]
    fn buckets_are_ordered_and_hold_their_values() {
        let mut last = 0;
        for shift in 0..63 {
            for v in [1u64 << shift, (1u64 << shift) + (1u64 << shift) / 3] {
                let b = bucket(v);
                assert!(b >= last);
                last = b;
                assert!((value(b) as f64 / v as f64 - 1.0).abs() < 0.02 || v < 64);
            }
        }
    }

    #[test]
    fn the_largest_are_told_exactly() {
        let mut h = Histogram::default();
        let values: Vec<u64> = (1..=1000u64).map(|v| v * v * 7 % 100_003).collect();
        values.iter().for_each(|&v| h.add(v));
        for count in [1, 3, 10, 250, 999, 1000] {
            let (all, from, some) = h.top(count);
            let above = values.iter().filter(|&&v| v >= all).count() as u64;
            let between = values.iter().filter(|&&v| (from..all).contains(&v)).count() as u64;
            assert_eq!(above + some, count);
            assert!(some <= between, "{count}");
        }
        let middle = h.between(0.25, 0.75);
        let inside = values.iter().filter(|v| middle.contains(v)).count();
        assert!((480..=540).contains(&inside), "{inside}");
        let (_, from, _) = h.top(10);
        assert!(h.excess(from, 0) > 0 && h.excess(from, u64::MAX) == 0);
        let mut edge = Histogram::default();
        edge.add(u64::MAX);
        assert_eq!(edge.top(1).2, 1);
    }

    #[test]
    fn nothing_gives_zero() {
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
