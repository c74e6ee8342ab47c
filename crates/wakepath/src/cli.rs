//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

/// Request paths of unmodified systems: which path a request took, where its time went, who it waited for.
#[derive(Parser, Debug)]
#[command(name = "wakepath", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Record(RecordArgs),
}

/// Record what happens on this host into a trace folder.
///
/// Without a selector and a command, everything is recorded. Wakepath never records itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath record --duration 30s                     everything on this host, for 30 seconds
  wakepath record -o shop --port 443 --port 5432     the processes that hold these ports, and their children
  wakepath record -o build -- make -j2               a command and all that it starts
  wakepath record --keep 10m --max-bytes 2G          a flight recorder: the last ten minutes, at most 2 GB")]
pub struct RecordArgs {
    /// Trace folder to make
    #[arg(short, long, default_value = "wakepath-trace", value_name = "DIR")]
    pub output: PathBuf,
    /// Stop after this time (30s, 5m, 1h)
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// A process, with its descendants (may be repeated, as all selectors)
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Processes of this name
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,
    /// Processes of this cgroup and those below it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// Processes that listen on this port, or hold a connection from it
    #[arg(long, value_name = "PORT")]
    pub port: Vec<u16>,
    /// Every process (the default without a selector and a command)
    #[arg(long)]
    pub all: bool,
    /// Flight recorder: keep only the last part (10m)
    #[arg(long, value_name = "TIME")]
    pub keep: Option<Time>,
    /// Flight recorder: keep at most this many bytes (2G)
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<Size>,
    /// Add to a folder that exists
    #[arg(long, conflicts_with = "force")]
    pub append: bool,
    /// Replace a trace folder that exists
    #[arg(long)]
    pub force: bool,
    /// What is kept of what was said: nothing, masked attributes, or also the first bytes as they were
    #[arg(long, value_enum, default_value = "attributes")]
    pub payload: PayloadFlag,
    /// Most bytes looked at of each message's head
    #[arg(long, default_value_t = 2048, value_name = "BYTES")]
    pub head_bytes: u32,
    /// Do not record waits
    #[arg(long)]
    pub no_waits: bool,
    /// Write without compression: larger files, less processor time
    #[arg(long)]
    pub no_compress: bool,
    /// Bytes of each processor's ring buffer (a power of two)
    #[arg(long, default_value = "8M", value_name = "BYTES")]
    pub ring_bytes: Size,
    /// Way of observing operations; for tests and for kernels where the best way fails
    #[arg(long, value_enum, default_value = "auto")]
    pub backend: BackendFlag,
    /// Write this file when recording has begun
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Command to run while recording; watched with its descendants unless a selector is given
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

impl RecordArgs {
    /// The selection, as it was asked for.
    pub fn selection(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.pid.iter().map(|p| format!("--pid {p}")));
        parts.extend(self.comm.iter().map(|c| format!("--comm {c}")));
        parts.extend(self.cgroup.iter().map(|c| format!("--cgroup {c}")));
        parts.extend(self.port.iter().map(|p| format!("--port {p}")));
        match (parts.is_empty(), self.command.first()) {
            (true, Some(c)) if !self.all => format!("-- {c}"),
            (true, _) => "--all".into(),
            _ => parts.join(" "),
        }
    }

    /// Other settings that matter to a reader.
    pub fn flags(&self) -> Vec<String> {
        let mut f = vec![
            format!("--payload {}", self.payload.to_possible_value().map_or(String::new(), |v| v.get_name().into())),
            format!("--backend {}", self.backend.to_possible_value().map_or(String::new(), |v| v.get_name().into())),
            format!("--ring-bytes {}", self.ring_bytes.0),
        ];
        if self.no_waits {
            f.push("--no-waits".into());
        }
        f
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

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum BackendFlag {
    /// The best that this kernel has
    Auto,
    /// Socket tracepoints (Linux 6.3)
    SocketHooks,
    /// System call exits (Linux 5.11)
    Syscalls,
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
        Ok(Time((number * unit) as u64))
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
