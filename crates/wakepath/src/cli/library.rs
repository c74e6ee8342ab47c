//! The commands of the library vantage.

use super::{Collector, PayloadFlag, Size, Time, WordsFlag};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Run a command under the preload library and record it; needs no rights.
///
/// The library sits between the programs and the C library. It hands an event loop one ready input at a time, so what the
/// program does next belongs to that input (--isolate); or it only watches (--observe). Static, privileged and Go programs
/// are not recorded, and are counted. The exit status is the command's, even if recording fails.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath run -o shop -- ./server --port 8080      a server and all that it starts, until it ends
  wakepath run --observe -- make test               only recorded, nothing is changed
  sudo wakepath run --kernel -o shop -- ./server    and what the kernel sees: waits, exact bytes

For services that are started by others: wakepath attach-env --help")]
pub struct RunArgs {
    /// Trace folder to create
    #[arg(short, long, default_value = "wakepath-trace", value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    pub isolation: Isolation,
    /// Add to an existing folder
    #[arg(long, conflicts_with = "force")]
    pub append: bool,
    /// Replace an existing trace folder
    #[arg(long)]
    pub force: bool,
    /// Also record by the kernel vantage, which needs its rights
    #[arg(long)]
    pub kernel: bool,
    /// With --kernel: also record page faults
    #[arg(long, requires = "kernel")]
    pub faults: bool,
    /// Stop after this time (30s, 5m, 1h)
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// Send requests to a collector while recording: http://HOST (port 4318 unless it says another), or grpc://HOST (4317)
    #[arg(long, value_name = "URL")]
    pub otlp: Option<Collector>,
    #[command(flatten)]
    pub library: LibraryArgs,
    /// Write this file when recording has begun
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Command to run, watched with its descendants
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// How events are handed to the programs.
#[derive(Args, Clone, Copy, Debug)]
pub struct Isolation {
    /// Hand over one ready input at a time, and end each read with its message (the default). =process: only when the whole
    /// process is idle, for programs whose threads hand requests to each other; requests then run one after the other
    #[arg(
        long,
        conflicts_with = "observe",
        value_enum,
        value_name = "WHOSE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "thread"
    )]
    pub isolate: Option<Whose>,
    /// Change nothing; report what could not be separated
    #[arg(long)]
    pub observe: bool,
}

/// Who is given one input at a time.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Each thread
    Thread,
    /// Each process: only when all of its threads are idle
    Process,
}

impl Isolation {
    /// As it is written on a command line.
    pub fn flag(self) -> &'static str {
        match self.isolate {
            _ if self.observe => "--observe",
            Some(Whose::Process) => "--isolate=process",
            _ => "--isolate",
        }
    }

    /// Switches recording on in this way.
    pub fn switch_on(self, arena: &wakepath_capture::Arena) {
        if self.isolate == Some(Whose::Process) {
            arena.switch_on_at_rest();
        } else {
            arena.switch_on(!self.observe);
        }
    }
}

/// How the library vantage records.
#[derive(Args, Clone, Debug)]
pub struct LibraryArgs {
    /// What to keep of messages: nothing, masked attributes, or also their raw first bytes
    #[arg(long, value_enum, default_value = "attributes")]
    pub payload: PayloadFlag,
    /// Which words of paths, statements and names to write: those that several clients sent, or all (docs/privacy.md)
    #[arg(long, value_enum, default_value = "recurring", env = "WAKEPATH_WORDS", value_name = "WHICH")]
    pub words: WordsFlag,
    /// Maximum number of bytes examined of each message
    #[arg(long, default_value_t = 2048, value_name = "BYTES")]
    pub head_bytes: u32,
    /// Size of each process's ring buffer (a power of two)
    #[arg(long, default_value = "2M", value_name = "BYTES")]
    pub ring_bytes: Size,
    /// Maximum number of processes at once
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub slots: u32,
    /// Write without compression: larger files, less processor time
    #[arg(long)]
    pub no_compress: bool,
}

/// Print the environment that puts a service or a container under the preload library.
///
/// Start programs with this environment: they run at nearly no cost until `wakepath on DIR` starts recording. Run it, and
/// `on`, as the user of these programs (root's programs may change to another user later). docs/library.md has complete
/// examples.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath attach-env -o shop                       # export lines
  eval \"$(wakepath attach-env -o shop)\"; ./server & wakepath on shop; sleep 60; wakepath off shop
  wakepath attach-env -o shop --for systemd > /etc/systemd/system/shop.service.d/wakepath.conf
  docker run $(wakepath attach-env -o shop --for docker) shop-image")]
pub struct AttachEnvArgs {
    /// Trace folder to record into later
    #[arg(short, long, default_value = "wakepath-trace", value_name = "DIR")]
    pub output: PathBuf,
    /// Where the environment will be used
    #[arg(long = "for", value_enum, default_value = "shell", value_name = "WHOM")]
    pub whom: Whom,
    #[command(flatten)]
    pub library: LibraryArgs,
}

/// Who reads the environment.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// A shell: export lines
    Shell,
    /// A unit file of systemd: a drop-in
    Systemd,
    /// docker run, podman run: flags
    Docker,
}

/// Start recording programs that run with `attach-env`'s environment.
///
/// Starts a background recorder if none is running. If you run it again later, recording continues in the same folder.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath on shop                 record
  wakepath on shop --observe       record, changing nothing
  wakepath off shop                and end")]
pub struct OnArgs {
    /// The trace folder that `attach-env` was given
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    #[command(flatten)]
    pub isolation: Isolation,
    #[command(flatten)]
    pub library: LibraryArgs,
}

/// Stop recording, and end the background recorder.
///
/// The programs keep running, and can be recorded again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath off shop                when this returns, the recording is complete
  wakepath off shop --forget       and give the shared memory back

After --forget, programs must be restarted to be recorded again.")]
pub struct OffArgs {
    /// The trace folder that `on` was given
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Also remove the shared memory
    #[arg(long)]
    pub forget: bool,
}

/// The recorder in the background, which `wakepath on` starts.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath recorder -o shop        as `wakepath on shop` does it, in the foreground: for units")]
pub struct RecorderArgs {
    /// Trace folder
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    pub isolation: Isolation,
    #[command(flatten)]
    pub library: LibraryArgs,
}

impl LibraryArgs {
    /// Settings that matter to a reader.
    pub fn flags(&self, isolation: Isolation, kernel: bool) -> Vec<String> {
        let mut f = vec![
            isolation.flag().to_owned(),
            format!("--payload {}", self.payload.to_possible_value().map_or(String::new(), |v| v.get_name().into())),
            self.words.setting(),
            format!("--ring-bytes {}", self.ring_bytes.0),
        ];
        if kernel {
            f.push("--kernel".into());
        }
        f
    }
}
