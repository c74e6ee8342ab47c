//! How far off a forecast may be.
//!
//! Five things widen the bar. How much equally long recordings of the same system differ, and how the pace of processors
//! differs between hours, are chance, each for itself: the square root of their squares' sum counts. By how much the
//! unchanged model misses what was measured, how far the change goes from what was recorded, and what losses may have
//! touched are added to that, since none is known to go against another.

use crate::derived::Block;

/// What is not known of a change that doubles or halves a figure, as a part of it: what is served at another load takes
/// another time (caches, memory, the scheduler), and no recording of one load shows by how much. The paper's forecasts of
/// changes that double a speed and more were off by 1 to 17 % (section 5).
const OF_DOUBLING: f64 = 0.1;

/// By what part processors may do the same work slower or faster at another time than while they were recorded: other
/// programs in their caches, other guests of the same machine, their clock. A recording tells how much that was while it
/// lasted (`variation`) and cannot tell of other times. Measured (docs/forecast.md): processor time of one request of the
/// same server, alone on a virtual machine, varied by 7 to 9 % (standard deviation) between measurements of 2.5 s.
pub const PACE: f64 = 0.1;

/// Most that neighbouring blocks are taken to correlate: of what only rises or falls, no number of blocks is enough.
const ALIKE_MAX: f64 = 0.9;

/// Two-sided 95 % points of Student's t by degrees of freedom, from 1 on.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// What a bar is made of: parts of the forecast value, each at least 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// How much two recordings of this length differ; `None` where the recording is too short to tell.
    pub variation: Option<f64>,
    /// What becomes of it where processors do their work slower by [`PACE`] than while they were recorded.
    pub pace: f64,
    /// By how much the replay of the unchanged model misses what was measured.
    pub calibration: f64,
    /// What is not known of the change.
    pub change: f64,
    /// What data loss may have affected.
    pub losses: f64,
}

impl Bar {
    /// Of a figure. `ratio` is what the replays make of it, `slower` that with processors slower by [`PACE`]; `replayed`
    /// and `measured` are what it is unchanged.
    pub fn new(variation: Option<f64>, replayed: f64, measured: f64, ratio: f64, slower: f64, lossy: f64) -> Bar {
        let far = |a: f64, b: f64| if a > 0.0 && b > 0.0 { (a / b).ln().abs().exp_m1() } else { 0.0 };
        Bar {
            variation,
            pace: far(slower, ratio),
            calibration: far(replayed, measured),
            change: if ratio > 0.0 { OF_DOUBLING * ratio.log2().abs() } else { 0.0 },
            losses: lossy.clamp(0.0, 1.0),
        }
    }

    /// All of it.
    pub fn whole(&self) -> f64 {
        self.variation.unwrap_or(0.0).hypot(self.pace) + self.calibration + self.change + self.losses
    }

    /// From where to where a value may be: as many times less as more.
    pub fn around(&self, value: f64) -> (f64, f64) {
        (value / (1.0 + self.whole()), value * (1.0 + self.whole()))
    }
}

/// By what part of it the mean of a recording like this one differs from that of another: 95 of 100 differ by less. Blocks
/// that are like those before them tell less than as many independent ones: of a series whose neighbours correlate by r,
/// n count as n (1 - r) / (1 + r). `None` with fewer than two blocks, or where all are 0.
pub fn variation(of: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let n = of.clone().count();
    let mean = of.clone().sum::<f64>() / n.max(1) as f64;
    if n < 2 || mean <= 0.0 {
        return None;
    }
    let far = of.map(|v| v - mean);
    let squares: f64 = far.clone().map(|d| d * d).sum();
    let beside: f64 = far.clone().zip(far.skip(1)).map(|(a, b)| a * b).sum();
    let alike = if squares > 0.0 { (beside / squares).clamp(0.0, ALIKE_MAX) } else { 0.0 };
    let count = n as f64 * (1.0 - alike) / (1.0 + alike);
    let t = STUDENT.get(n - 2).copied().unwrap_or(1.96);
    // both recordings vary
    Some(t * (2.0 * squares / (n - 1) as f64 / count).sqrt() / mean)
}

/// Of throughput.
pub fn of_throughput(blocks: &[Block]) -> Option<f64> {
    variation(blocks.iter().filter(|b| b.elapsed_ns > 0).map(|b| b.count as f64 / b.elapsed_ns as f64))
}

/// Of mean latency.
pub fn of_mean(blocks: &[Block]) -> Option<f64> {
    variation(blocks.iter().map(|b| b.mean_ns).filter(|&m| m > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_that_vary_widen_the_bar() {
        let v = |of: &[f64]| variation(of.iter().copied());
        assert_eq!(v(&[5.0, 5.0, 5.0, 5.0]), Some(0.0));
        assert_eq!((v(&[]), v(&[1.0]), v(&[0.0, 0.0])), (None, None, None));
        // t(3) × sqrt(2 × 1/4 × 2/3)
        let four = v(&[9.0, 10.0, 10.0, 11.0]).expect("blocks");
        assert!((four - 3.182 * (2.0 * (2.0 / 3.0) / 4.0_f64).sqrt() / 10.0).abs() < 1e-12, "{four}");
        // the same in order: neighbours are alike, by half: (1 + 1) / 4
        let drifting = v(&[9.0, 9.0, 10.0, 10.0, 11.0, 11.0]).expect("blocks");
        let independent = v(&[9.0, 11.0, 10.0, 10.0, 9.0, 11.0]).expect("blocks");
        assert!((drifting / independent - 3.0_f64.sqrt()).abs() < 1e-12, "{drifting} {independent}");
        // the same blocks oftener: more is known
        assert!(v(&[9.0, 10.0, 10.0, 11.0].repeat(20)).expect("blocks") < four / 4.0);
    }

    #[test]
    fn a_perfect_model_of_an_unchanged_steady_system_has_no_bar() {
        let bar = Bar::new(Some(0.0), 7.0, 7.0, 1.0, 1.0, 0.0);
        assert_eq!((bar.whole(), bar.around(3.0)), (0.0, (3.0, 3.0)));
    }

    proptest! {
        #[test]
        fn whatever_is_worse_widens(
            replayed in 1e-3..1e3f64, measured in 1e-3..1e3f64, ratio in 1e-3..1e3f64, slower in 1e-3..1e3f64,
            lossy in 0.0..0.5f64, v in 0.0..1.0f64,
        ) {
            let of = |v, slower, lossy| Bar::new(Some(v), replayed, measured, ratio, slower, lossy);
            let bar = of(v, slower, lossy);
            prop_assert!(of(v, slower, lossy + 0.1).whole() > bar.whole());
            prop_assert!(of(v + 0.1, slower, lossy).whole() > bar.whole());
            prop_assert!(of(v, ratio, lossy).whole() <= bar.whole());
            let (low, high) = bar.around(10.0);
            prop_assert!(low > 0.0 && low <= 10.0 && high >= 10.0 && high.is_finite());
            // missing it upwards or downwards is the same
            let mirrored = Bar::new(Some(v), measured, replayed, 1.0 / ratio, 1.0 / slower, lossy);
            prop_assert!((mirrored.whole() - bar.whole()).abs() < 1e-9 * bar.whole());
        }
    }
}
