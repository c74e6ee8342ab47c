//! A host's monotonic time on other time lines: the one place that converts it.
//!
//! [`WallClock`] reads a host's own wall clock off its anchors. [`Timeline`] is one line for all hosts of a folder: by
//! the result of `wakepath sync` where the folder has one, by the wall clocks elsewhere.

use crate::ids::{CommonNs, HostId, MonoNs};
use crate::rows::AnchorRow;

/// The wall clock of one host, read off its anchors.
#[derive(Clone, Debug, Default)]
pub struct WallClock {
    anchors: Vec<(u64, u64)>,
}

impl WallClock {
    /// From the host's anchors, in any order.
    pub fn new(anchors: impl IntoIterator<Item = AnchorRow>) -> WallClock {
        let mut anchors: Vec<(u64, u64)> = anchors.into_iter().map(|a| (a.at.0, a.real_ns)).collect();
        anchors.sort_unstable();
        anchors.dedup_by_key(|a| a.0);
        WallClock { anchors }
    }

    /// Nanoseconds since 1970 at a monotonic time: between two anchors on the line through them, outside at the
    /// nearest anchor's distance. `None` where there is no anchor or the result is not a time.
    pub fn wall_ns(&self, at: MonoNs) -> Option<i64> {
        let after = self.anchors.partition_point(|a| a.0 <= at.0);
        let exact = match (after.checked_sub(1).map(|i| self.anchors[i]), self.anchors.get(after)) {
            (None, None) => return None,
            (Some((mono, real)), None) | (None, Some(&(mono, real))) => {
                i128::from(real) + (i128::from(at.0) - i128::from(mono))
            }
            (Some((m0, r0)), Some(&(m1, r1))) => {
                let run = i128::from(m1) - i128::from(m0);
                let rise = i128::from(r1) - i128::from(r0);
                // `at - m0 < run < 2^64` and `|rise| < 2^64`: the product fits but for its sign.
                let part = i128::from(at.0 - m0).checked_mul(rise)?;
                i128::from(r0) + part / run
            }
        };
        i64::try_from(exact).ok()
    }

    /// The monotonic time of a wall-clock time; the inverse of [`WallClock::wall_ns`] but for rounding.
    pub fn mono(&self, wall_ns: i64) -> Option<MonoNs> {
        let wall = i128::from(wall_ns);
        let after = self.anchors.partition_point(|a| i128::from(a.1) <= wall);
        let exact = match (after.checked_sub(1).map(|i| self.anchors[i]), self.anchors.get(after)) {
            (None, None) => return None,
            (Some((mono, real)), None) | (None, Some(&(mono, real))) => i128::from(mono) + (wall - i128::from(real)),
            (Some((m0, r0)), Some(&(m1, r1))) => {
                let rise = i128::from(r1) - i128::from(r0);
                if rise == 0 {
                    i128::from(m0)
                } else {
                    let run = i128::from(m1) - i128::from(m0);
                    i128::from(m0) + (wall - i128::from(r0)).checked_mul(run)? / rise
                }
            }
        };
        u64::try_from(exact).ok().map(MonoNs)
    }

    /// The first anchor, as a point of both clocks.
    fn first(&self) -> Option<(u64, i64)> {
        self.anchors.first().and_then(|a| Some((a.0, i64::try_from(a.1).ok()?)))
    }

    /// As a transform that never goes back: with `keep_durations`, or where the wall clock was stepped during the
    /// recording, only the first anchor counts.
    fn transform(&self, keep_durations: bool) -> Transform {
        let first = self.first().unwrap_or((0, 0));
        let all = || self.anchors.iter().map(|a| Some((a.0, i64::try_from(a.1).ok()?))).collect::<Option<Vec<_>>>();
        let by_all = if keep_durations { None } else { all().and_then(|knots| Transform::new(&knots)) };
        by_all.unwrap_or_else(|| Transform::through(first))
    }
}

/// One clock's time to another line: continuous, piecewise linear, never going back, the same whatever was asked before.
///
/// The wait paper's Algorithm 3 with a fixed origin for each piece instead of one that moves with the calls, and one
/// product of 64 by 64 bits instead of a rescaled one of 32 by 32: no floating point, no overflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    from: u64,
    to: i64,
    /// In units of 2^-62.
    slope: i128,
}

/// Bits behind the point of a slope: with slopes below 2 and times of 64 bits the product stays below 2^127.
const SLOPE_BITS: u32 = 62;
/// Clocks in nanoseconds differ in speed by parts per million; what is outside this is no pair of clocks.
const SLOPE_OFF_MAX: i128 = (1 << SLOPE_BITS) / 100;

impl Transform {
    /// Through points of both clocks, continued outside at the slopes of the outermost; one point alone keeps
    /// durations. `None` where there is no point, times do not increase, or a slope is off 1 by more than 1 %.
    pub fn new(points: &[(u64, i64)]) -> Option<Transform> {
        let one = 1 << SLOPE_BITS;
        let mut pieces = Vec::with_capacity(points.len());
        for pair in points.windows(2) {
            let ((t0, x0), (t1, x1)) = (pair[0], pair[1]);
            let (run, rise) = (i128::from(t1) - i128::from(t0), i128::from(x1) - i128::from(x0));
            if run <= 0 || rise <= 0 {
                return None;
            }
            let slope = (rise << SLOPE_BITS) / run;
            if (slope - one).abs() > SLOPE_OFF_MAX {
                return None;
            }
            pieces.push(Piece { from: t0, to: x0, slope });
        }
        let last = points.last()?;
        let slope = pieces.last().map_or(one, |p: &Piece| p.slope);
        pieces.push(Piece { from: last.0, to: last.1, slope });
        Some(Transform { pieces })
    }

    /// Durations kept, through one point.
    pub fn through(point: (u64, i64)) -> Transform {
        Transform { pieces: vec![Piece { from: point.0, to: point.1, slope: 1 << SLOPE_BITS }] }
    }

    /// The points that it was made of.
    pub fn points(&self) -> Vec<(u64, i64)> {
        self.pieces.iter().map(|p| (p.from, p.to)).collect()
    }

    /// The line that is `by` later.
    fn later(&self, by: i64) -> Transform {
        let pieces = self.pieces.iter().map(|p| Piece { to: p.to.saturating_add(by), ..*p }).collect();
        Transform { pieces }
    }

    fn exact(&self, t: u64) -> i128 {
        let p = &self.pieces[self.pieces.partition_point(|p| p.from <= t).saturating_sub(1)];
        let run = i128::from(t) - i128::from(p.from);
        // a right shift rounds down on both sides of the origin: that keeps the order
        i128::from(p.to) + ((run * p.slope) >> SLOPE_BITS)
    }

    /// The time on the other line, clamped to what it can say.
    pub fn at(&self, t: u64) -> i64 {
        let x = self.exact(t);
        i64::try_from(x).unwrap_or(if x < 0 { i64::MIN } else { i64::MAX })
    }

    /// The earliest time at which the other line shows `x` or more, clamped to what the clock can say.
    pub fn inverse(&self, x: i64) -> u64 {
        let p = &self.pieces[self.pieces.partition_point(|p| p.to <= x).saturating_sub(1)];
        let near = i128::from(p.from) + ((i128::from(x) - i128::from(p.to)) << SLOPE_BITS) / p.slope;
        let mut t = u64::try_from(near).unwrap_or(if near < 0 { 0 } else { u64::MAX });
        // off by rounding alone: a step or two
        while t < u64::MAX && self.exact(t) < i128::from(x) {
            t += 1;
        }
        while t > 0 && self.exact(t - 1) >= i128::from(x) {
            t -= 1;
        }
        t
    }
}

/// Hosts whose clocks were synchronised with each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockGroup {
    /// Each host's clock to the group's line, which is the reference's clock. The first host's wall clock says what
    /// time that is: the reference's own, where it is there.
    pub clocks: Vec<(HostId, Transform)>,
    /// For two hosts, the most by which the offset between their clocks may be off (ns), over what was recorded.
    pub uncertainty: Vec<(HostId, HostId, u64)>,
}

/// One time line for all hosts of a folder. Never goes back on any host.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    hosts: Vec<Transform>,
    /// Index into `groups`.
    group_of: Vec<Option<usize>>,
    groups: Vec<ClockGroup>,
}

impl Timeline {
    /// From each host's wall clock, in the order of host ids.
    pub fn by_wall_clocks(hosts: Vec<WallClock>) -> Timeline {
        Timeline::new(&hosts, Vec::new())
    }

    /// From each host's wall clock, in the order of host ids, and the groups that were synchronised. A group's line is
    /// its reference's clock, set to a wall clock once: durations on the reference stay what they are.
    pub fn new(walls: &[WallClock], groups: Vec<ClockGroup>) -> Timeline {
        let mut hosts: Vec<Transform> = walls.iter().map(|w| w.transform(walls.len() == 1)).collect();
        let mut group_of = vec![None; hosts.len()];
        for (index, group) in groups.iter().enumerate() {
            let wall = |h: &HostId| walls.get(usize::from(h.0)).and_then(WallClock::first);
            let set = group.clocks.first().and_then(|(host, clock)| wall(host).map(|(t, real)| (clock.at(t), real)));
            let shift = set.and_then(|(x, real)| real.checked_sub(x)).unwrap_or(0);
            for (host, clock) in &group.clocks {
                if let Some(slot) = hosts.get_mut(usize::from(host.0)) {
                    *slot = clock.later(shift);
                    group_of[usize::from(host.0)] = Some(index);
                }
            }
        }
        Timeline { hosts, group_of, groups }
    }

    /// A host's time on the common line: ns since 1970, or what the host's clock says where it has no anchor.
    pub fn common(&self, host: HostId, at: MonoNs) -> CommonNs {
        let clock = self.hosts.get(usize::from(host.0));
        CommonNs(clock.map_or_else(|| i64::try_from(at.0).unwrap_or(i64::MAX), |c| c.at(at.0)))
    }

    /// The first moment of the host's own time that is not before `at` on the common line, clamped to what a host's
    /// clock can say.
    pub fn local(&self, host: HostId, at: CommonNs) -> MonoNs {
        let clock = self.hosts.get(usize::from(host.0));
        MonoNs(clock.map_or_else(|| u64::try_from(at.0).unwrap_or(0), |c| c.inverse(at.0)))
    }

    /// Whether messages bound the two hosts' clocks against each other, so that their times may be compared closely.
    /// Elsewhere only their wall clocks relate them.
    pub fn is_synchronised(&self, a: HostId, b: HostId) -> bool {
        let group = |h: HostId| self.group_of.get(usize::from(h.0)).copied().flatten();
        a == b || group(a).is_some_and(|g| group(b) == Some(g))
    }

    /// The most by which times of two hosts may be off against each other (ns), over what was recorded; 0 for one
    /// host, `None` where they are not synchronised.
    pub fn uncertainty_ns(&self, a: HostId, b: HostId) -> Option<u64> {
        if a == b {
            return Some(0);
        }
        if !self.is_synchronised(a, b) {
            return None;
        }
        let group = &self.groups[self.group_of[usize::from(a.0)]?];
        let of = group.uncertainty.iter().find(|u| (u.0, u.1) == (a, b) || (u.1, u.0) == (a, b));
        of.map(|u| u.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn anchor(at: u64, real_ns: u64) -> AnchorRow {
        AnchorRow { at: MonoNs(at), real_ns, error_ns: 0, ..Default::default() }
    }

    #[test]
    fn interpolates_between_and_extends_outside() {
        let clock = WallClock::new([anchor(2_000, 1_000_010), anchor(1_000, 1_000_000 - 1_000)]);
        assert_eq!(clock.wall_ns(MonoNs(1_000)), Some(999_000));
        assert_eq!(clock.wall_ns(MonoNs(1_500)), Some(999_505));
        assert_eq!(clock.wall_ns(MonoNs(900)), Some(998_900));
        assert_eq!(clock.wall_ns(MonoNs(2_100)), Some(1_000_110));
        assert_eq!(clock.mono(999_505), Some(MonoNs(1_500)));
        assert_eq!(clock.mono(1_000_110), Some(MonoNs(2_100)));
    }

    #[test]
    fn says_so_where_it_does_not_know() {
        assert_eq!(WallClock::default().wall_ns(MonoNs(5)), None);
        let clock = WallClock::new([anchor(0, u64::MAX), anchor(u64::MAX, 0)]);
        assert_eq!(clock.wall_ns(MonoNs(1)), None);
        assert_eq!(clock.mono(i64::MIN), None);
    }

    #[test]
    fn what_is_no_clock_makes_no_transform() {
        for points in [&[][..], &[(5, 1), (5, 2)], &[(5, 1), (4, 2)], &[(0, 0), (100, 90)], &[(0, 100), (100, 0)]] {
            assert_eq!(Transform::new(points), None, "{points:?}");
        }
        assert!(Transform::new(&[(0, i64::MIN), (u64::MAX, i64::MAX)]).is_some());
    }

    #[test]
    fn a_wall_clock_that_was_stepped_does_not_step_the_line() {
        let stepped = WallClock::new([anchor(0, 1_000_000), anchor(1_000, 900_000), anchor(2_000, 901_000)]);
        let other = WallClock::new([anchor(0, 1_000_000)]);
        let line = Timeline::by_wall_clocks(vec![stepped, other]);
        assert_eq!(line.common(HostId(0), MonoNs(2_000)), CommonNs(1_002_000));
        assert_eq!(line.uncertainty_ns(HostId(0), HostId(1)), None);
        assert!(!line.is_synchronised(HostId(0), HostId(1)) && line.is_synchronised(HostId(1), HostId(1)));
    }

    #[test]
    fn a_group_lies_on_its_references_clock() -> Result<(), Box<dyn std::error::Error>> {
        let walls = [WallClock::new([anchor(100, 5_000)]), WallClock::new([anchor(0, 77)]), WallClock::default()];
        let clock = Transform::new(&[(1_000, 100), (2_001_000, 2_000_200)]).ok_or("no transform")?;
        let group = ClockGroup {
            clocks: vec![(HostId(0), Transform::through((0, 0))), (HostId(1), clock)],
            uncertainty: vec![(HostId(1), HostId(0), 33)],
        };
        let line = Timeline::new(&walls, vec![group]);
        assert_eq!(line.common(HostId(0), MonoNs(100)), CommonNs(5_000));
        assert_eq!(line.common(HostId(1), MonoNs(1_000)), CommonNs(5_000));
        assert_eq!(line.common(HostId(1), MonoNs(2_001_000)), CommonNs(2_005_100));
        assert_eq!(line.local(HostId(1), CommonNs(2_005_100)), MonoNs(2_001_000));
        assert_eq!(line.common(HostId(2), MonoNs(9)), CommonNs(9));
        assert_eq!(line.uncertainty_ns(HostId(0), HostId(1)), Some(33));
        assert_eq!(line.uncertainty_ns(HostId(0), HostId(2)), None);
        Ok(())
    }

    fn transforms() -> impl Strategy<Value = Transform> {
        let steps = prop::collection::vec((1_000u64..1 << 50, -9_000i64..9_000), 0..6);
        (any::<u64>(), any::<i64>(), steps).prop_map(|(t, x, steps)| {
            let mut points = vec![(t >> 2, x >> 2)];
            for (run, ppm) in steps {
                let (t, x) = points[points.len() - 1];
                let rise = i128::from(run) * (1_000_000 + i128::from(ppm)) / 1_000_000;
                points.push((t + run, x + rise as i64));
            }
            Transform::new(&points).expect("its slopes are near 1")
        })
    }

    proptest! {
        #[test]
        fn never_goes_back_and_inverts(f in transforms(), times in prop::collection::vec(any::<u64>(), 2..40), near in 0u64..5) {
            let mut times = times;
            times.extend(f.points().iter().flat_map(|p| [p.0.saturating_sub(near), p.0, p.0 + near]));
            times.sort_unstable();
            for pair in times.windows(2) {
                prop_assert!(f.at(pair[0]) <= f.at(pair[1]));
            }
            for &t in &times {
                let x = f.at(t);
                if x != i64::MIN && x != i64::MAX {
                    let back = f.inverse(x);
                    prop_assert!(back <= t && t - back <= 1, "{t} {back}");
                    prop_assert!(f.at(back) >= x && (back == 0 || f.at(back - 1) < x));
                }
            }
        }

        #[test]
        fn goes_through_its_points(f in transforms()) {
            for (t, x) in f.points() {
                prop_assert_eq!(f.at(t), x);
            }
        }
    }
}
