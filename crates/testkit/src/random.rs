//! Seeded randomness: the same numbers on every machine.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `from..=to`.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.any() % (to - from + 1)
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: f64) -> bool {
        (self.any() >> 11) as f64 / (1u64 << 53) as f64 * 100.0 < percent
    }
}
