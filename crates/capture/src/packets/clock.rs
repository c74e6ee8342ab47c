//! The kernel stamps packets by the wall clock; everything else of Wakepath is on the monotonic one.

use crate::{monotonic_ns, realtime_ns};

/// How far back from the last look at the clocks a packet that is read now may have been stamped, ns.
const LATE_NS: u64 = 1_000_000_000;
/// A stamp is not from the future; what two readings of one clock may differ by, ns.
const EARLY_NS: u64 = 1_000_000;

/// Turns wall-clock stamps into monotonic time by looking at both clocks often.
pub struct StampClock {
    /// Monotonic minus wall clock, ns, at the last look and at the one before.
    offset: i64,
    offset_before: i64,
    /// Monotonic time of the last look.
    looked_ns: u64,
}

impl StampClock {
    pub fn new() -> StampClock {
        let mut clock = StampClock { offset: 0, offset_before: 0, looked_ns: 0 };
        clock.look();
        clock.offset_before = clock.offset;
        clock
    }

    /// Looks at both clocks, before the packets of some milliseconds are read.
    pub fn look(&mut self) {
        // of three looks the one that was interrupted least
        let (_, at, offset) = (0..3)
            .map(|_| {
                let (before, real, after) = (monotonic_ns(), realtime_ns(), monotonic_ns());
                (after - before, after, (before + (after - before) / 2) as i64 - real as i64)
            })
            .min()
            .unwrap_or_default();
        self.set(at, offset);
    }

    fn set(&mut self, at_ns: u64, offset: i64) {
        self.offset_before = self.offset;
        self.offset = offset;
        self.looked_ns = at_ns;
    }

    /// The monotonic time of a wall-clock stamp. Where the wall clock was set since, the offset before that counts for stamps
    /// that make no sense with the one after.
    pub fn monotonic(&self, real_ns: u64) -> u64 {
        let by = |offset: i64| real_ns.saturating_add_signed(offset);
        let fits = |at: u64| at <= self.looked_ns + EARLY_NS && at + LATE_NS >= self.looked_ns;
        let at = by(self.offset);
        if fits(at) {
            return at;
        }
        let before = by(self.offset_before);
        // a stamp that fits neither is old (the ring stood still) or its clock was set twice
        if fits(before) { before } else { at.min(self.looked_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    #[test]
    fn a_stamp_of_now_is_now() {
        let clock = StampClock::new();
        let (before, at, after) = (monotonic_ns(), clock.monotonic(realtime_ns()), monotonic_ns());
        assert!(at + 1_000_000 > before && at < after + 1_000_000, "{before} {at} {after}");
    }

    #[test]
    fn a_wall_clock_that_was_set_moves_no_packet() {
        let now = 10 * HOUR as u64;
        let mut clock = StampClock { offset: -HOUR, offset_before: -HOUR, looked_ns: now - 10_000_000 };
        for step in [HOUR, -HOUR / 2] {
            // stamped before the wall clock was set forward, and after
            clock.set(now - 10_000_000, -HOUR);
            clock.set(now, -HOUR - step);
            let (early, late) = (now - 5_000_000, now - 1_000_000);
            assert_eq!(clock.monotonic(early + HOUR as u64), early);
            assert_eq!(clock.monotonic((late as i64 + HOUR + step) as u64), late);
        }
    }

    #[test]
    fn no_packet_comes_from_the_future() {
        let now = 10 * HOUR as u64;
        let clock = StampClock { offset: 0, offset_before: 0, looked_ns: now };
        assert_eq!(clock.monotonic(now + 5_000_000_000), now);
        assert_eq!(clock.monotonic(now - 5_000_000_000), now - 5_000_000_000, "read late is no defect");
        assert_eq!(clock.monotonic(u64::MAX), now);
    }
}
