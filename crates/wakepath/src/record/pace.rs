//! How long the recorder sleeps between two looks at the rings.

use std::time::Duration;

/// Bytes that a processor may begin to write in a second, at any moment: a ring must bear that until the next look.
const BURST_BYTES_PER_S: u64 = 400_000_000;
const SHORTEST: Duration = Duration::from_millis(1);
/// Each look finds caches and branch predictors taken by the watched programs, and takes theirs: better few and long than many and
/// short. But what waits for a record (annotations of new programs, an end) waits as long.
const LONGEST: Duration = Duration::from_millis(20);

/// Sleeps as long as the rings stay nearly empty.
pub struct Pace {
    sleep: Duration,
    longest: Duration,
}

impl Pace {
    /// For rings of so many bytes each.
    pub fn new(ring_bytes: u64) -> Pace {
        let burst = Duration::from_nanos(ring_bytes.saturating_mul(1_000_000_000) / BURST_BYTES_PER_S);
        Pace { sleep: SHORTEST, longest: burst.clamp(SHORTEST, LONGEST) }
    }

    /// How long to sleep after a look that found so many bytes in the fullest ring of `ring_bytes`: so long that it is a
    /// sixteenth full the next time, but at most twice as long as before.
    pub fn after(&mut self, found: u64, ring_bytes: u64) -> Duration {
        let wanted = self.sleep.as_nanos() as u64 * (ring_bytes / 16) / found.max(1);
        self.sleep = Duration::from_nanos(wanted).clamp(SHORTEST, (self.sleep * 2).min(self.longest));
        self.sleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: u64 = 8 << 20;

    #[test]
    fn an_idle_ring_is_looked_at_rarely_and_a_filling_one_often() {
        let mut pace = Pace::new(RING);
        let idle: Vec<u64> = (0..8).map(|_| pace.after(0, RING).as_millis() as u64).collect();
        assert_eq!(idle, [2, 4, 8, 16, 20, 20, 20, 20]);
        assert_eq!(pace.after(RING / 16, RING), LONGEST, "just as full as it should be");
        assert_eq!(pace.after(RING / 4, RING).as_millis(), 5);
        assert_eq!(pace.after(RING, RING), SHORTEST);
    }

    #[test]
    fn a_small_ring_is_never_left_alone_for_long() {
        let mut pace = Pace::new(1 << 16);
        assert!((0..8).all(|_| pace.after(0, 1 << 16) == SHORTEST));
    }
}
