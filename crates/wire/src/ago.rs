//! How long before a record something was, in 32 bits.

/// The highest bits that say the unit; below 2 s it is 1 ns and needs both.
const LONG: u32 = 1 << 31;
const VERY_LONG: u32 = 1 << 30;
const UNIT: u32 = 10;

/// A time (ns) as [`crate::Op`] has it: exact below 2^31 ns, in units of 1,024 ns up to 18 minutes, else of 1,048,576 ns up to 13 days,
/// always rounded down. `ago` of probes/bpf/ops.h does the same.
pub const fn short_ago(ns: u64) -> u32 {
    let most = (VERY_LONG - 1) as u64;
    if ns < LONG as u64 {
        ns as u32
    } else if ns >> UNIT <= most {
        LONG | (ns >> UNIT) as u32
    } else {
        let units = ns >> (2 * UNIT);
        LONG | VERY_LONG | (if units < most { units } else { most }) as u32
    }
}

/// The time (ns) that [`short_ago`] made such a value of.
pub const fn ago_ns(short: u32) -> u64 {
    let units = (short & (VERY_LONG - 1)) as u64;
    match (short & LONG, short & VERY_LONG) {
        (0, _) => short as u64,
        (_, 0) => units << UNIT,
        _ => units << (2 * UNIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_long_ago_is_told_to_a_thousandth_and_never_longer() {
        let second = 1_000_000_000;
        for ns in [0, 1, second, (1 << 31) - 1, 1 << 31, 5_930_000_000, 1099 * second, 1100 * second, 86_400 * second] {
            let told = ago_ns(short_ago(ns));
            assert!(told <= ns && ns - told <= ns / 1000, "{ns} is told as {told}");
            assert!(ns >= 1 << 31 || told == ns);
        }
        // thirteen days, and no more
        assert_eq!(short_ago(u64::MAX), u32::MAX);
        let mut last = 0;
        for ns in (0..3_000_000).map(|i| i * 1_000_003) {
            assert!(ago_ns(short_ago(ns)) >= last);
            last = ago_ns(short_ago(ns));
        }
    }
}
