//! Moments as people give them: RFC 3339, seconds from the start (`+12.5s`), or raw nanoseconds.

use std::str::FromStr;

/// A moment of a recording's common time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds from the start of what is asked for.
    After(i64),
    /// Nanoseconds of the common time line (since 1970 by the wall clock).
    At(i64),
}

impl Moment {
    /// On the common time line, where `start` is the start.
    pub fn common_ns(self, start: i64) -> i64 {
        match self {
            Moment::After(ns) => start.saturating_add(ns),
            Moment::At(ns) => ns,
        }
    }
}

const HOW: &str = "give 2026-11-21T04:55:12.5Z, +12.5s or nanoseconds";

impl FromStr for Moment {
    type Err = String;

    fn from_str(s: &str) -> Result<Moment, String> {
        if let Some(rest) = s.strip_prefix('+') {
            let ns = rest.parse::<crate::cli::Time>()?.0;
            return i64::try_from(ns).map(Moment::After).map_err(|_| format!("{s}: too long"));
        }
        if let Ok(ns) = s.parse::<i64>() {
            return Ok(Moment::At(ns));
        }
        rfc3339(s).map(Moment::At).ok_or_else(|| format!("{s}: no moment; {HOW}"))
    }
}

/// Nanoseconds since 1970 of an RFC 3339 time.
fn rfc3339(s: &str) -> Option<i64> {
    let (date, time) = s.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let mut number = |digits: usize| parts.next().filter(|p| p.len() == digits).and_then(|p| p.parse::<i64>().ok());
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let offset_s = match time[zone..].split_at(1) {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), rest) => {
            let (h, m) = rest.split_once(':')?;
            let s = h.parse::<i64>().ok()? * 3600 + m.parse::<i64>().ok()? * 60;
            if sign == "-" { -s } else { s }
        }
        _ => return None,
    };
    let (clock, fraction) = time[..zone].split_once('.').unwrap_or((&time[..zone], ""));
    let mut parts = clock.splitn(3, ':').map(|p| p.parse::<i64>().ok().filter(|_| p.len() == 2));
    let (h, m, sec) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || h > 23 || m > 59 || sec > 60 {
        return None;
    }
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ns = format!("{fraction:0<9}").parse::<i64>().ok()?;
    // days since 1970 by the proleptic Gregorian calendar, years beginning in March
    let y = if month <= 2 { year - 1 } else { year };
    let (era, in_era) = (y.div_euclid(400), y.rem_euclid(400));
    let in_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719_468;
    let seconds = days * 86_400 + h * 3600 + m * 60 + sec - offset_s;
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_all_kinds() {
        for (text, moment) in [
            ("+12.5s", Moment::After(12_500_000_000)),
            ("+3ms", Moment::After(3_000_000)),
            ("1700000000000000000", Moment::At(1_700_000_000_000_000_000)),
            ("1970-01-01T00:00:00Z", Moment::At(0)),
            ("2000-02-29T00:00:00.000Z", Moment::At(951_782_400_000_000_000)),
            ("2023-11-14T22:13:20.123456789Z", Moment::At(1_700_000_000_123_456_789)),
            ("2023-11-15T00:13:20+02:00", Moment::At(1_700_000_000_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(moment), "{text}");
        }
        for text in ["", "soon", "2023-11-14", "2023-13-14T22:13:20Z", "2023-11-14T22:13Z", "+x", "2023-11-14T22:13:20"]
        {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
