//! Time namespaces (Linux 5.6): by how much the clocks of this process differ from the host's, which kernel programs read.

use std::path::Path;
use std::sync::OnceLock;

/// What a time namespace adds to the host's clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// To `CLOCK_MONOTONIC`.
    pub monotonic_ns: i64,
    /// To `CLOCK_BOOTTIME`.
    pub boottime_ns: i64,
}

/// Those of this process; zero where the kernel has no time namespaces. Read once: a process never changes its own.
pub(crate) fn own() -> Offsets {
    static OWN: OnceLock<Offsets> = OnceLock::new();
    *OWN.get_or_init(|| {
        let proc = Path::new("/proc/self");
        // the file is about the children's namespace, which is the process's own unless that asked for another one
        let namespace = |name| std::fs::read_link(proc.join("ns").join(name)).ok();
        if namespace("time") != namespace("time_for_children") {
            return Offsets::default();
        }
        std::fs::read_to_string(proc.join("timens_offsets")).map(|text| parse(&text)).unwrap_or_default()
    })
}

/// Reads `/proc/PID/timens_offsets`: lines of a clock, seconds and nanoseconds.
fn parse(text: &str) -> Offsets {
    let mut out = Offsets::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [clock, seconds, ns] = words[..] else { continue };
        let (Ok(seconds), Ok(ns)) = (seconds.parse::<i64>(), ns.parse::<i64>()) else { continue };
        let ns = seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        match clock {
            "monotonic" | "1" => out.monotonic_ns = ns,
            "boottime" | "7" => out.boottime_ns = ns,
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_and_what_is_none_is_left_out() {
        let text = "monotonic      86400         5\nboottime          -2 500000000\nrealtime 1 1\nmonotonic x y\n";
        assert_eq!(parse(text), Offsets { monotonic_ns: 86_400_000_000_005, boottime_ns: -1_500_000_000 });
        assert_eq!(parse(""), Offsets::default());
    }
}
