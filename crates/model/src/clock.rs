//! Wall-clock time from a host's monotonic time: the one place that converts it.

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
}

/// One time line for all hosts of a folder.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    hosts: Vec<WallClock>,
}

impl Timeline {
    /// From each host's wall clock, in the order of host ids.
    pub fn by_wall_clocks(hosts: Vec<WallClock>) -> Timeline {
        Timeline { hosts }
    }

    /// A host's time on the common line; a host without anchors stays as it is.
    pub fn common(&self, host: HostId, at: MonoNs) -> CommonNs {
        let wall = self.hosts.get(usize::from(host.0)).and_then(|c| c.wall_ns(at));
        CommonNs(wall.unwrap_or_else(|| i64::try_from(at.0).unwrap_or(i64::MAX)))
    }

    /// The host's own time at a moment of the common line, clamped to what a host's clock can say.
    pub fn local(&self, host: HostId, at: CommonNs) -> MonoNs {
        let mono = self.hosts.get(usize::from(host.0)).and_then(|c| c.mono(at.0));
        mono.unwrap_or_else(|| MonoNs(u64::try_from(at.0).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(at: u64, real_ns: u64) -> AnchorRow {
        AnchorRow { at: MonoNs(at), real_ns, error_ns: 0 }
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
}
