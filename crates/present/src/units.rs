//! Numbers as people read them. Scripts get integers in JSON instead.

/// Three significant digits: `12.3`, `123`, `1.23`.
fn three(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The largest unit in which the value is at least one, after rounding to three digits.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let chosen = units.iter().rev().find(|(size, _)| value.abs() >= size * 0.9995).or(units.first());
    match chosen {
        Some((size, name)) => format!("{} {name}", three(value / size)),
        None => three(value),
    }
}

/// A span of time: `12.3 ms`, `4.05 s`, `2m 05s`, `3h 12m`, `2d 03h`.
pub fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000 + u64::from(ns % 1_000_000_000 >= 500_000_000);
    match ns {
        0 => "0 s".into(),
        1..1_000 => format!("{ns} ns"),
        1_000..99_950_000_000 => scaled(ns as f64, &[(1e3, "µs"), (1e6, "ms"), (1e9, "s")]),
        _ if seconds < 3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Bytes in decimal units: `512 B`, `1.23 MB`.
pub fn bytes(n: u64) -> String {
    if n < 1000 {
        return format!("{n} B");
    }
    scaled(n as f64, &[(1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")])
}

/// A count, digit for digit: `1 234 567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(d);
    }
    out
}

/// A count with what it counts: `1 kind`, `12 kinds`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// So many in a span of time: `12.3 k/s`; a dash where there is no span.
pub fn rate(n: u64, span_ns: u64) -> String {
    if span_ns == 0 {
        return "-".into();
    }
    if n == 0 {
        return "0 /s".into();
    }
    let per_second = n as f64 * 1e9 / span_ns as f64;
    if per_second < 999.5 {
        return format!("{} /s", three(per_second));
    }
    let text = scaled(per_second, &[(1e3, "k"), (1e6, "M"), (1e9, "G")]);
    format!("{text}/s")
}

/// A wall-clock time in UTC with milliseconds, as RFC 3339: `2026-11-21T04:55:12.345Z`.
pub fn wall(ns: i64) -> String {
    // all that an i64 counts from 1970 (1677 to 2262) is within what jiff knows
    format!("{:.3}", jiff::Timestamp::from_nanosecond(ns.into()).unwrap_or_default())
}

/// The same with nanoseconds: `2026-11-21T04:55:12.345678901Z`.
pub fn wall_ns(ns: i64) -> String {
    format!("{:.9}", jiff::Timestamp::from_nanosecond(ns.into()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (ns, text) in [
            (0, "0 s"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345_678, "12.3 ms"),
            (999_960, "1.00 ms"),
            (123_456_789, "123 ms"),
            (4_050_000_000, "4.05 s"),
            (99_949_999_999, "99.9 s"),
            (125_000_000_000, "2m 05s"),
            (3_599_600_000_000, "1h 00m"),
            (11_520_000_000_000, "3h 12m"),
            (183_600_000_000_000, "2d 03h"),
            (u64::MAX, "213503d 23h"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn sizes_counts_and_rates() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.00 kB");
        assert_eq!(bytes(999_999), "1.00 MB");
        assert_eq!(bytes(8 << 20), "8.39 MB");
        assert_eq!(bytes(u64::MAX), "18447 PB");
        assert_eq!(count(0), "0");
        assert_eq!(count(123), "123");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(rate(5, 0), "-");
        assert_eq!(rate(0, 5), "0 /s");
        assert_eq!(rate(5, 2_000_000_000), "2.50 /s");
        assert_eq!(rate(24_600, 2_000_000_000), "12.3 k/s");
    }

    #[test]
    fn wall_times() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1_000_000, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123Z"),
            (i64::MIN, "1677-09-21T00:12:43.145Z"),
        ] {
            assert_eq!(wall(ns), text);
        }
        assert_eq!(wall_ns(1_700_000_000_123_456_789), "2023-11-14T22:13:20.123456789Z");
        assert_eq!(wall_ns(1), "1970-01-01T00:00:00.000000001Z");
    }
}
