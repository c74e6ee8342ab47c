//! Moments as people give them: RFC 3339, seconds from the start (`+12.5s`) or before the end (`-5m`), or raw nanoseconds.

use std::str::FromStr;

/// A moment of a recording's common time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds from the start of what is asked for.
    After(i64),
    /// Nanoseconds before the end of what is asked for.
    Before(i64),
    /// Nanoseconds of the common time line (since 1970 by the wall clock).
    At(i64),
}

impl Moment {
    /// On the common time line, where what is asked for goes from `start` to `end`.
    pub fn common_ns(self, (start, end): (i64, i64)) -> i64 {
        match self {
            Moment::After(ns) => start.saturating_add(ns),
            Moment::Before(ns) => end.saturating_sub(ns),
            Moment::At(ns) => ns,
        }
    }
}

const HOW: &str = "use 2026-11-21T04:55:12.5Z, +12.5s, -5m or nanoseconds";

impl FromStr for Moment {
    type Err = String;

    fn from_str(s: &str) -> Result<Moment, String> {
        for (sign, make) in [('+', Moment::After as fn(i64) -> Moment), ('-', Moment::Before)] {
            if let Some(rest) = s.strip_prefix(sign) {
                let ns = rest.parse::<crate::cli::Time>()?.0;
                return i64::try_from(ns).map(make).map_err(|_| format!("{s}: too long"));
            }
        }
        if let Ok(ns) = s.parse::<i64>() {
            return Ok(Moment::At(ns));
        }
        rfc3339(s).map(Moment::At).ok_or_else(|| format!("{s}: not a valid time; {HOW}"))
    }
}

/// Nanoseconds since 1970 of an RFC 3339 time.
fn rfc3339(s: &str) -> Option<i64> {
    i64::try_from(s.parse::<jiff::Timestamp>().ok()?.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_all_kinds() {
        for (text, moment) in [
            ("+12.5s", Moment::After(12_500_000_000)),
            ("+3ms", Moment::After(3_000_000)),
            ("-5m", Moment::Before(300_000_000_000)),
            ("1700000000000000000", Moment::At(1_700_000_000_000_000_000)),
            ("1970-01-01T00:00:00Z", Moment::At(0)),
            ("2000-02-29T00:00:00.000Z", Moment::At(951_782_400_000_000_000)),
            ("2023-11-14T22:13:20.123456789Z", Moment::At(1_700_000_000_123_456_789)),
            ("2023-11-14T22:13Z", Moment::At(1_699_999_980_000_000_000)),
            ("2023-11-15T00:13:20+02:00", Moment::At(1_700_000_000_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(moment), "{text}");
        }
        for text in ["", "soon", "2023-11-14", "2023-13-14T22:13:20Z", "+x", "-", "-x", "2023-11-14T22:13:20"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
