//! Arguments of `wakepath record`.

use super::RuntimesFlag;
use super::{BackendFlag, Collector, PayloadFlag, PriorityFlag, Size, Time, WordsFlag};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Record what happens on this host into a trace folder.
///
/// Without a selector or a command, it records everything, but never itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath record --duration 30s                     everything on this host, for 30 seconds
  wakepath record -o shop --port 443,5432            what holds these ports, and its children
  wakepath record -o build -- make -j2               a command and all that it starts
  wakepath record --faults -- ./server               with its page faults, and the files read
  wakepath record --keep 10m --max-bytes 2G          a flight recorder: the last ten minutes
  wakepath record --port 443 --otlp grpc://otel      sent to a collector meanwhile")]
pub struct RecordArgs {
    /// Trace folder to create
    #[arg(short, long, default_value = "wakepath-trace", value_name = "DIR")]
    pub output: PathBuf,
    /// Stop after this time (30s, 5m, 1h)
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// This process and its descendants (repeat any selector for more, or list them: 4711,4712)
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Processes of this name, also those that start later
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,
    /// Processes of this cgroup (its name, or its folder below /sys/fs/cgroup) and those below it, also those that join later
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// Processes that serve this port, also those that start to do so later, such as after a restart (or list ports: 80,443)
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = port)]
    pub port: Vec<u16>,
    /// Every process (the default without a selector or a command)
    #[arg(long)]
    pub all: bool,
    /// Flight recorder: keep only the last part, for example 10m
    #[arg(long, value_name = "TIME")]
    pub keep: Option<Time>,
    /// Flight recorder: keep at most this many bytes (2G)
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<Size>,
    /// Send requests to a collector while recording: http://HOST (port 4318 unless it says another), or grpc://HOST (4317)
    ///
    /// A thread of low priority sends each request some seconds after its end, without links that rest on a habit. Requests
    /// that are not sent are counted, at the end and by `wakepath info`. docs/export.md has the details.
    #[arg(long, value_name = "URL")]
    pub otlp: Option<Collector>,
    /// Add to an existing folder
    #[arg(long, conflicts_with = "force")]
    pub append: bool,
    /// Replace an existing trace folder
    #[arg(long)]
    pub force: bool,
    /// What to keep of messages: nothing, masked attributes, or also their raw first bytes
    #[arg(long, value_enum, default_value = "attributes")]
    pub payload: PayloadFlag,
    /// Which words of paths, statements and names to write: those that several clients sent, or all (docs/privacy.md)
    #[arg(long, value_enum, default_value = "recurring", env = "WAKEPATH_WORDS", value_name = "WHICH")]
    pub words: WordsFlag,
    /// Maximum number of bytes examined of each message
    #[arg(long, default_value_t = 2048, value_name = "BYTES")]
    pub head_bytes: u32,
    /// Do not record waits
    #[arg(long)]
    pub no_waits: bool,
    /// Also record where in its program a watched task blocked; `wakepath waits --stacks` shows it
    ///
    /// Stacks need frame pointers. If code is built without them (the default of most C compilers and of Rust), callers
    /// are missing: the function that called the C library, or all before it. Go has frame pointers.
    #[arg(long, conflicts_with = "no_waits")]
    pub stacks: bool,
    /// Also record page faults of watched tasks: where, how long, and which file was read
    ///
    /// A program that starts or grows has thousands a second, so select processes. `wakepath run` records page faults only
    /// with --kernel.
    #[arg(long)]
    pub faults: bool,
    /// Place probes in programs of these runtimes, if memory alone does not show which request they serve
    ///
    /// With a selection the default is `auto`, without one `services`. Wakepath prints which programs are probed. It removes the
    /// probes when the recording ends, however it ends. docs/runtimes.md gives the cost of each.
    #[arg(long, value_name = "RUNTIME", value_delimiter = ',')]
    pub runtimes: Vec<RuntimesFlag>,
    /// Read plaintext of TLS, by probes in OpenSSL, in GnuTLS, and in recorded programs in Go
    ///
    /// Methods, paths, statements and statuses are then written as without TLS, with the same masking. Wakepath prints which
    /// files are probed. Go is read on x86-64, from version 1.18 on. It removes the probes when the recording ends, however it ends.
    #[arg(long)]
    pub tls: bool,
    /// Write without compression: larger files, less processor time
    #[arg(long)]
    pub no_compress: bool,
    /// Scheduling priority of the recorder; with `normal`, a busy host may delay it so much that events are lost
    #[arg(long, value_enum, default_value = "auto")]
    pub priority: PriorityFlag,
    /// Size of each processor's ring buffer (a power of two, from 64K to 256M)
    #[arg(long, default_value = "8M", value_name = "BYTES")]
    pub ring_bytes: Size,
    /// How to observe operations; for tests, and for kernels on which the default fails
    #[arg(long, value_enum, default_value = "auto")]
    pub backend: BackendFlag,
    /// Write this file when recording has begun
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// For `wakepath agent`: once a second a line of figures on standard output; ends when nobody reads them
    #[arg(long, hide = true)]
    pub report: bool,
    /// For `wakepath agent`: what it leaves out of its configuration to stay within its budget
    #[arg(long, hide = true, value_name = "DETAIL")]
    pub lowered: Vec<String>,
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
            self.words.setting(),
            format!("--backend {}", self.backend.to_possible_value().map_or(String::new(), |v| v.get_name().into())),
            format!("--ring-bytes {}", self.ring_bytes.0),
        ];
        if self.no_waits {
            f.push("--no-waits".into());
        }
        if self.stacks {
            f.push("--stacks".into());
        }
        if self.faults {
            f.push("--faults".into());
        }
        if self.tls {
            f.push("--tls".into());
        }
        f.extend(self.lowered.iter().map(|detail| format!("without {detail}, to stay in budget")));
        f
    }
}

/// A port as somebody types it.
fn port(text: &str) -> Result<u16, &'static str> {
    text.parse().ok().filter(|port| *port != 0).ok_or("give a port from 1 to 65535")
}
