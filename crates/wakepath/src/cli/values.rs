//! What arguments may be: spans of time, shares, sizes, named sources, and choices that several commands have.

use clap::ValueEnum;
use std::path::PathBuf;
use std::str::FromStr;
use wakepath_analysis::attributes::{ALL, Attribute};
use wakepath_analysis::causes::Cause;
use wakepath_export::push::Push;

/// A source and the name of its host, as `NAME=SOURCE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSource {
    pub name: String,
    pub source: PathBuf,
}

impl FromStr for NamedSource {
    type Err = String;
    fn from_str(s: &str) -> Result<NamedSource, String> {
        match s.split_once('=') {
            Some((name, source)) if !name.is_empty() && !source.is_empty() => {
                Ok(NamedSource { name: name.into(), source: source.into() })
            }
            _ => Err(format!("{s}: give the host's name and its trace, as web=traces/web")),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum PayloadFlag {
    /// Operations and byte ranges only
    None,
    /// Method, path template, status, statement shape; literals masked
    Attributes,
    /// The same, and raw message heads: may hold secrets
    Heads,
}

impl From<PayloadFlag> for wakepath_decode::Payload {
    fn from(flag: PayloadFlag) -> Self {
        match flag {
            PayloadFlag::None => Self::None,
            PayloadFlag::Attributes => Self::Attributes,
            PayloadFlag::Heads => Self::Heads,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum WordsFlag {
    /// Words that several clients sent; others become a keyed hash, shown as {value}
    Recurring,
    /// Every word unchanged: only where no message is secret
    All,
}

impl WordsFlag {
    /// The flag with its value, for whom it matters later.
    pub fn setting(self) -> String {
        format!("--words {}", self.to_possible_value().map_or(String::new(), |v| v.get_name().into()))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum BackendFlag {
    /// The best that this kernel has
    Auto,
    /// Socket tracepoints, and tracepoints of single system calls (Linux 6.7, x86-64)
    Calls,
    /// Socket tracepoints (Linux 6.3); every process pays 60 to 100 ns a system call
    SocketHooks,
    /// System call exits (Linux 6.1)
    Syscalls,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum PriorityFlag {
    /// Real-time if permitted, else nice, else normal
    Auto,
    /// Before all normal programs, for at most half of one processor's time (SCHED_RR)
    Realtime,
    /// Niceness -20
    Nice,
    /// As started
    Normal,
}

/// A span of time in nanoseconds, as `1500ms`, `30s`, `10m`, `1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

impl FromStr for Time {
    type Err = String;
    fn from_str(s: &str) -> Result<Time, String> {
        let digits = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
        let number: f64 = s[..digits].parse().map_err(|_| format!("{s}: give a number and a unit, as 30s"))?;
        let unit = match &s[digits..] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" | "" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            u => return Err(format!("{u}: not a unit of time; use ms, s, m or h")),
        };
        let ns = number * unit;
        if ns >= u64::MAX as f64 {
            return Err(format!("{s}: too long"));
        }
        Ok(Time(ns as u64))
    }
}

/// A value that requests have of an attribute, as `reply=500`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct With(pub Attribute, pub String);

impl FromStr for With {
    type Err = String;
    fn from_str(s: &str) -> Result<With, String> {
        let (name, value) = s.split_once('=').unwrap_or((s, ""));
        let known: Vec<&str> = ALL.into_iter().map(Attribute::name).collect();
        // a pattern may be of any cause
        let is_no_cause = |value: &str| {
            let cause = value.split_once(" at ").map_or(value, |(cause, _)| cause);
            !cause.contains('*') && !Cause::ALL.iter().any(|c| c.name() == cause)
        };
        match Attribute::named(name) {
            Some(_) if value.is_empty() => Err(format!("{s}: give {name}=VALUE")),
            Some(Attribute::Cause) if is_no_cause(value) => {
                let causes: Vec<&str> = Cause::ALL.iter().map(|c| c.name()).collect();
                Err(format!("{value}: not a cause; use {}", causes.join(", ")))
            }
            Some(attribute) => Ok(With(attribute, value.into())),
            None => Err(format!("{name}: not an attribute; use {}", known.join(", "))),
        }
    }
}

/// A share, as `1%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;
    fn from_str(s: &str) -> Result<Share, String> {
        let number: Option<f64> = s.strip_suffix('%').and_then(|n| n.trim_end().parse().ok());
        match number.filter(|n| *n > 0.0 && *n <= 50.0) {
            Some(n) => Ok(Share(n / 100.0)),
            None => Err(format!("{s}: give a share above 0 and up to half, as 1% or 0.1%")),
        }
    }
}

/// A number of bytes, as `64K`, `8M`, `2G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;
    fn from_str(s: &str) -> Result<Size, String> {
        let digits = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let number: u64 = s[..digits].parse().map_err(|_| format!("{s}: give a number of bytes, as 8M"))?;
        let shift = match s[digits..].trim_end_matches("iB").trim_end_matches('B') {
            "" => 0,
            "K" | "k" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            u => return Err(format!("{u}: not a unit of size; use K, M or G")),
        };
        number.checked_shl(shift).filter(|n| n >> shift == number).map(Size).ok_or_else(|| format!("{s}: too large"))
    }
}

/// A collector's address, one that we can speak to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector(pub String);

impl FromStr for Collector {
    type Err = String;
    fn from_str(s: &str) -> Result<Collector, String> {
        Push::new(s).map(|_| Collector(s.to_owned())).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_spans_of_time_with_their_units() {
        for (text, ns) in [
            ("0", 0),
            ("1500ms", 1_500_000_000),
            ("30s", 30_000_000_000),
            ("30", 30_000_000_000),
            ("1.5s", 1_500_000_000),
            ("10m", 600_000_000_000),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("7us", 7_000),
            ("7µs", 7_000),
            ("9ns", 9),
        ] {
            assert_eq!(text.parse(), Ok(Time(ns)), "{text}");
        }
        for text in ["", "s", "-1s", "1 s", "1d", "1e3s", "1.2.3s", "99999999999h"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    #[test]
    fn reads_sizes_with_their_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("64KiB", 65_536),
            ("8M", 8 << 20),
            ("8MB", 8 << 20),
            ("2G", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "8X", "99999999999T", "18446744073709551616"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
