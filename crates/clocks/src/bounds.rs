//! All lines that the messages of one pair of hosts leave possible, and so the bounds of offset and drift.

use super::hull::Point;

/// Two clocks in nanoseconds never differ in speed by more (kernels adjust by at most 500 ppm, crystals by less).
pub const DRIFT_MAX: f64 = 2_000e-6;
/// Offsets beyond this are not looked at: the coarse line is much closer.
const OFFSET_MAX_NS: f64 = 1e13;

/// The convex set of lines that lie between the hulls: each line is its offset at the begin and at the end of an
/// interval. Empty where no line does.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The interval on the first host's coarse time.
    from: f64,
    length: f64,
    /// Corners, in order around.
    corners: Vec<(f64, f64)>,
}

/// The least and the greatest of something.
pub type Range = (f64, f64);

impl Lines {
    /// Every line over an interval.
    pub fn all(from: i64, to: i64) -> Lines {
        let m = OFFSET_MAX_NS;
        let length = ((to - from) as f64).max(1.0);
        let mut lines = Lines { from: from as f64, length, corners: vec![(-m, -m), (m, -m), (m, m), (-m, m)] };
        let rise = DRIFT_MAX * length;
        lines.clip(-1.0, 1.0, rise);
        lines.clip(1.0, -1.0, rise);
        lines
    }

    /// Keeps the lines with `p * begin + q * end <= limit`.
    fn clip(&mut self, p: f64, q: f64, limit: f64) {
        let over = |c: &(f64, f64)| p * c.0 + q * c.1 - limit;
        let mut kept = Vec::with_capacity(self.corners.len() + 1);
        for (i, c) in self.corners.iter().enumerate() {
            let next = &self.corners[(i + 1) % self.corners.len()];
            let (a, b) = (over(c), over(next));
            if a <= 0.0 {
                kept.push(*c);
            }
            if (a < 0.0 && b > 0.0) || (a > 0.0 && b < 0.0) {
                let part = a / (a - b);
                kept.push((c.0 + part * (next.0 - c.0), c.1 + part * (next.1 - c.1)));
            }
        }
        self.corners = kept;
    }

    /// The first host sent to the second: the line lies at or below the delay.
    pub fn below(&mut self, (sent, delay): Point) {
        let part = (sent as f64 - self.from) / self.length;
        self.clip(1.0 - part, part, delay as f64);
    }

    /// The second host sent to the first: the line, at the time of the receive, lies at or above the negative delay.
    pub fn above(&mut self, (sent, delay): Point) {
        let part = ((sent + delay) as f64 - self.from) / self.length;
        self.clip(part - 1.0, -part, delay as f64);
    }

    /// No line is left: the clocks are not linear here, or a pairing is false.
    pub fn is_empty(&self) -> bool {
        self.corners.is_empty()
    }

    /// Offsets at a time of the interval; `None` where nothing bounds them, or no line is left.
    pub fn offset(&self, at: i64) -> Option<Range> {
        let part = (at as f64 - self.from) / self.length;
        let range = self.range(|c| c.0 + part * (c.1 - c.0))?;
        // the edges of what was looked at are no bounds
        (range.0.abs().max(range.1.abs()) < OFFSET_MAX_NS / 2.0).then_some(range)
    }

    /// Slopes: offset gained per time.
    pub fn slope(&self) -> Option<Range> {
        self.range(|c| (c.1 - c.0) / self.length)
    }

    /// Of these lines one in the middle that gains little where the messages leave that open: the offset at the begin
    /// and at the end. Clocks usually drift by `usual` at most.
    pub fn plausible(&self, usual: f64) -> Option<(f64, f64)> {
        let (low, high) = self.slope()?;
        let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0);
        let doubt = half / 2.0;
        let near = middle * usual * usual / (usual * usual + doubt * doubt);
        let slope = near.clamp(low + 0.2 * half, high - 0.2 * half);
        let mut left = self.clone();
        let (rise, play) = (slope * self.length, 0.05 * half * self.length + 1e-3);
        left.clip(-1.0, 1.0, rise + play);
        left.clip(1.0, -1.0, play - rise);
        let (low, high) =
            left.range(|c| (c.0 + c.1) / 2.0).filter(|r| r.0.abs().max(r.1.abs()) < OFFSET_MAX_NS / 2.0)?;
        let offset = (low + high) / 2.0;
        Some((offset - rise / 2.0, offset + rise / 2.0))
    }

    fn range(&self, value: impl Fn(&(f64, f64)) -> f64) -> Option<Range> {
        self.corners
            .iter()
            .map(value)
            .fold(None, |r: Option<Range>, v| Some(r.map_or((v, v), |(low, high)| (low.min(v), high.max(v)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages over a line that begins at 5 µs and gains 1 ppm, each `delay` late.
    fn between(delays: impl Fn(i64) -> i64) -> Lines {
        let mut lines = Lines::all(0, 1_000_000_000);
        for i in 0..=100 {
            let x = i * 10_000_000;
            let line = 5_000 + x / 1_000_000;
            lines.below((x, line + delays(i)));
            let sent = x + line;
            lines.above((sent, x + delays(-i - 1) - sent));
        }
        lines
    }

    #[test]
    fn the_true_line_is_inside_and_the_extremes_touch() {
        let lines = between(|_| 1_000);
        let (low, high) = lines.slope().expect("there are lines");
        assert!((low - (1e-6 - 2e-6)).abs() < 1e-8 && (high - (1e-6 + 2e-6)).abs() < 1e-8, "{low} {high}");
        let (low, high) = lines.offset(500_000_000).expect("bounded");
        assert!((low - 4_500.0).abs() < 1.0 && (high - 6_500.0).abs() < 1.0, "{low} {high}");
    }

    #[test]
    fn one_direction_alone_bounds_no_offset() {
        let mut lines = Lines::all(0, 1_000_000);
        lines.below((0, 100));
        lines.below((1_000_000, 100));
        assert!(!lines.is_empty());
        assert_eq!(lines.offset(0), None);
    }

    #[test]
    fn contradictions_leave_nothing() {
        assert!(between(|_| -10).is_empty());
        assert_eq!(between(|_| -10).slope(), None);
    }
}
