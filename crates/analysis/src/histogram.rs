//! Durations in bounded memory.

/// Counts by logarithmic buckets with 64 steps an octave: a quantile is at most 1.6 % off.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// From bucket `base` on.
    counts: Vec<u32>,
    base: usize,
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
        Histogram { counts: Vec::new(), base: 0, total: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, v: u64) {
        let n = self.place(bucket(v));
        *n = n.saturating_add(1);
        self.total += 1;
        self.sum += u128::from(v);
        self.min = self.min.min(v);
        self.max = self.max.max(v);
    }

    /// A bucket's count; room is made on either side, so that memory is that of the values' range.
    fn place(&mut self, b: usize) -> &mut u32 {
        if self.counts.is_empty() {
            self.base = b;
        } else if b < self.base {
            self.counts.splice(0..0, std::iter::repeat_n(0, self.base - b));
            self.base = b;
        }
        if self.counts.len() <= b - self.base {
            self.counts.resize(b - self.base + 1, 0);
        }
        &mut self.counts[b - self.base]
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Histogram) {
        if other.total == 0 {
            return;
        }
        self.place(other.base + other.counts.len() - 1);
        self.place(other.base);
        let from = other.base - self.base;
        for (n, more) in self.counts[from..].iter_mut().zip(&other.counts) {
            *n = n.saturating_add(*more);
        }
        self.total += other.total;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.clear();
        (self.total, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// How many values are at most `v`; those in the bucket of `v` count where its middle is.
    pub fn at_most(&self, v: u64) -> u64 {
        self.buckets().take_while(|&(b, _)| value(b) <= v).map(|(_, n)| u64::from(n)).sum()
    }

    /// Buckets with their counts, from the least value up.
    fn buckets(&self) -> impl DoubleEndedIterator<Item = (usize, u32)> + ExactSizeIterator + '_ {
        self.counts.iter().enumerate().map(|(i, &n)| (self.base + i, n))
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Their mean, 0 where there are none.
    pub fn mean(&self) -> u64 {
        if self.total == 0 { 0 } else { (self.sum / u128::from(self.total)) as u64 }
    }

    /// Their sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The least, exactly; 0 where there are none.
    pub fn min(&self) -> u64 {
        if self.total == 0 { 0 } else { self.min }
    }

    /// The largest, exactly.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// How to tell the `count` largest values when they are met again: all from the first number on, and of those between
    /// the second and the first as many as the third says.
    pub fn top(&self, count: u64) -> (u64, u64, u64) {
        let mut above = 0;
        for (b, n) in self.buckets().rev() {
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
        let over = self.buckets().filter(|&(b, _)| b >= bucket(from));
        over.map(|(b, n)| u128::from(n) * u128::from(value(b).saturating_sub(usual))).sum()
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
        for (b, n) in self.buckets() {
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
        let none = Histogram::default();
        assert_eq!((none.quantile(0.5), none.min(), none.max(), none.mean(), none.at_most(u64::MAX)), (0, 0, 0, 0, 0));
    }

    #[test]
    fn merging_is_adding_in_any_order() {
        let values: Vec<u64> = (0..3000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 60)).collect();
        let of = |values: &[u64]| {
            let mut h = Histogram::default();
            values.iter().for_each(|&v| h.add(v));
            h
        };
        let all = of(&values);
        let mut parts = Histogram::default();
        for part in values.rchunks(170) {
            parts.merge(&of(part));
            parts.merge(&Histogram::default());
        }
        assert_eq!((all.count(), all.sum(), all.min(), all.max()), (3000, parts.sum(), parts.min(), parts.max()));
        for q in [0.0, 0.01, 0.5, 0.9, 0.999, 1.0] {
            assert_eq!(all.quantile(q), parts.quantile(q), "{q}");
        }
        for v in [0, 63, 64, 1000, 1 << 30, u64::MAX] {
            let exact = values.iter().filter(|&&x| x <= v).count() as u64;
            let near = values.iter().filter(|&&x| x.abs_diff(v) <= v / 60).count() as u64;
            assert_eq!(all.at_most(v), parts.at_most(v));
            assert!(all.at_most(v).abs_diff(exact) <= near, "{v}");
        }
        parts.clear();
        assert_eq!((parts.count(), parts.quantile(0.5)), (0, 0));
        parts.add(7);
        assert_eq!((parts.min(), parts.quantile(0.5), parts.max()), (7, 7, 7));
    }
}
