//! How far off a forecast may be.
//!
//! Four things widen the bar, and they are added up, since none is known to go against another:
//! how much equally long recordings of the same system differ, by how much the unchanged model misses what was measured,
//! how far the change goes from what was recorded, and what losses may have touched.

use crate::derived::Block;

/// What is not known of a change that doubles or halves a figure, as a part of it: what is served at another load takes
/// another time (caches, memory, the scheduler), and no recording of one load shows by how much. The paper's forecasts of
/// changes that double a speed and more were off by 1 to 17 % (section 5).
const OF_DOUBLING: f64 = 0.1;

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
    /// By how much the replay of the unchanged model misses what was measured.
    pub calibration: f64,
    /// What is not known of the change.
    pub change: f64,
    /// What losses may have touched.
    pub losses: f64,
}

impl Bar {
    /// Of a figure. `ratio` is what the replays make of it, `replayed` and `measured` are what it is unchanged.
    pub fn new(variation: Option<f64>, replayed: f64, measured: f64, ratio: f64, lossy: f64) -> Bar {
        let far = |a: f64, b: f64| if a > 0.0 && b > 0.0 { (a / b).ln().abs().exp_m1() } else { 0.0 };
        Bar {
            variation,
            calibration: far(replayed, measured),
            change: if ratio > 0.0 { OF_DOUBLING * ratio.log2().abs() } else { 0.0 },
            losses: lossy.clamp(0.0, 1.0),
        }
    }

    /// All of it.
    pub fn whole(&self) -> f64 {
        self.variation.unwrap_or(0.0) + self.calibration + self.change + self.losses
    }

    /// From where to where a value may be: as many times less as more.
    pub fn around(&self, value: f64) -> (f64, f64) {
        (value / (1.0 + self.whole()), value * (1.0 + self.whole()))
    }
}

/// By what part of it the mean of a recording like this one differs from that of another: 95 of 100 differ by less, if
/// blocks are independent. `None` with fewer than two blocks, or where all are 0.
pub fn variation(of: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let n = of.clone().count();
    let mean = of.clone().sum::<f64>() / n.max(1) as f64;
    if n < 2 || mean <= 0.0 {
        return None;
    }
    let variance = of.map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let t = STUDENT.get(n - 2).copied().unwrap_or(1.96);
    // both recordings vary
    Some(t * (2.0 * variance / n as f64).sqrt() / mean)
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
        // the same blocks oftener: more is known
        assert!(v(&[9.0, 10.0, 10.0, 11.0].repeat(20)).expect("blocks") < four / 4.0);
    }

    #[test]
    fn a_perfect_model_of_an_unchanged_steady_system_has_no_bar() {
        let bar = Bar::new(Some(0.0), 7.0, 7.0, 1.0, 0.0);
        assert_eq!((bar.whole(), bar.around(3.0)), (0.0, (3.0, 3.0)));
    }

    proptest! {
        #[test]
        fn whatever_is_worse_widens(
            replayed in 1e-3..1e3f64, measured in 1e-3..1e3f64, ratio in 1e-3..1e3f64, lossy in 0.0..0.5f64, v in 0.0..1.0f64,
        ) {
            let bar = Bar::new(Some(v), replayed, measured, ratio, lossy);
            prop_assert!(Bar::new(Some(v), replayed, measured, ratio, lossy + 0.1).whole() > bar.whole());
            prop_assert!(Bar::new(Some(v + 0.1), replayed, measured, ratio, lossy).whole() > bar.whole());
            let (low, high) = bar.around(10.0);
            prop_assert!(low > 0.0 && low <= 10.0 && high >= 10.0 && high.is_finite());
            // missing it upwards or downwards is the same
            let mirrored = Bar::new(Some(v), measured, replayed, 1.0 / ratio, lossy);
            prop_assert!((mirrored.whole() - bar.whole()).abs() < 1e-9 * bar.whole());
        }
    }
}
