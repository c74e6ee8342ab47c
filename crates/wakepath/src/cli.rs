//! The command line.

mod against;
mod agent;
mod attach;
mod bundle;
mod export;
mod flame;
mod forecast;
mod guest;
mod help;
mod helper;
mod library;
mod metrics;
mod mirror;
mod network;
mod record;
mod reduce;
mod requests;
mod runtimes;
mod timeline;
mod top;
mod triage;
mod ui;
mod values;

pub use against::Against;
pub use agent::{AgentArgs, AskAgents};
pub use attach::{AttachArgs, DetachArgs};
pub use bundle::BundleArgs;
pub use export::{ExportArgs, Form};
pub use flame::FlameArgs;
pub use forecast::{BottleneckArgs, Edge, ForecastArgs, PartArgs};
pub use guest::GuestArgs;
pub use help::{command, matches, matches_from, usage_error};
pub use helper::{HelperArgs, HelperFor};
pub use library::{AttachEnvArgs, Isolation, LibraryArgs, OffArgs, OnArgs, RecorderArgs, RunArgs, Whom};
pub use metrics::MetricsArgs;
pub use mirror::{CleanArgs, MirrorArgs, MirrorCommand, Place, Ports, SelectionArgs, ShowMirrorsArgs, SwitchArgs};
pub use network::{CollectArgs, ForwardBy, IntoFolder, Listen, SniffArgs};
pub use record::RecordArgs;
pub use reduce::ReduceArgs;
pub use requests::{PartOfRequests, RequestsArgs};
pub use runtimes::RuntimesFlag;
pub use timeline::{TimelineArgs, WhichTasks};
pub use top::TopArgs;
pub use triage::TriageArgs;
pub use ui::UiArgs;
pub use values::{BackendFlag, Collector, NamedSource, PayloadFlag, PriorityFlag, Share, Size, Time, With, WordsFlag};

use crate::complete;
use crate::moment::Moment;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;
use std::str::FromStr;
use wakepath_present::text::ColourChoice;

/// Request paths of unmodified systems: which path a request took, where its time went, what it waited for.
///
/// Record on each host, then ask. Recording by the kernel needs root or capabilities. `run`, and commands that read a trace
/// folder, need neither.
#[derive(Parser, Debug)]
#[command(name = "wakepath", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  wakepath doctor                           can this host be recorded, and if not, what to do
  wakepath record -o shop --duration 30s    record everything for 30 seconds into the folder shop
  wakepath triage shop                      what is slow, fails, hangs and limits: where to begin
  wakepath run -o shop -- ./server          a command and its children, without any rights
  wakepath import lttng-traces/web -o web   a trace by LTTng, perf or trace-cmd
  wakepath merge web db -o both             folders of two hosts into one
  wakepath forecast shop --next 3           what limits, what comes after it, and the gain of each
  wakepath tables shop                      Parquet tables for DuckDB, Polars, pandas

Exit codes: 0 answered; 1 failed; 2 wrong usage; 3 answered, but data loss affects it (--strict).
`record -- CMD` and `run -- CMD` end as CMD did (128 + a signal), or 126 and 127 if it cannot start.
Answers go to standard output, everything else to standard error.
`wakepath COMMAND --help` has examples.")]
pub struct Cli {
    /// When to use color: on a terminal (auto, which obeys NO_COLOR and CLICOLOR_FORCE), always or never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub color: ColourFlag,
    /// Do not page long answers (default on a terminal: $WAKEPATH_PAGER, $PAGER or less)
    #[arg(long, global = true, help_heading = "Output")]
    pub no_pager: bool,
    /// `shown`: ignore links that rest on a habit. With `show`: print the evidence of each link, or of one span
    #[arg(
        long,
        global = true,
        value_name = "shown|SPAN",
        num_args = 0..=1,
        default_missing_value = "all",
        help_heading = "Output"
    )]
    pub evidence: Option<EvidenceFlag>,
    /// Ignore what services pass on: identifiers in their calls (`traceparent`, `x-request-id`), and whole answers
    #[arg(long, global = true, help_heading = "Output")]
    pub no_witness: bool,
    #[command(flatten)]
    pub agents: AskAgents,
    #[command(subcommand)]
    pub command: Command,
}

/// Which evidence is used, or printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceFlag {
    /// No habits.
    Shown,
    /// Print that of all links of a request.
    All,
    /// Print that of one span and of the calls that may be its.
    Span(u32),
}

impl FromStr for EvidenceFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "shown" => Ok(Self::Shown),
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::Span).map_err(|_| {
                "give `shown` (no habits), or with `show` a span's number, or nothing for all of them".to_owned()
            }),
        }
    }
}

/// When colour is used.
#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum ColourFlag {
    Auto,
    Always,
    Never,
}

impl From<ColourFlag> for ColourChoice {
    fn from(flag: ColourFlag) -> Self {
        match flag {
            ColourFlag::Auto => Self::Auto,
            ColourFlag::Always => Self::Always,
            ColourFlag::Never => Self::Never,
        }
    }
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Doctor(DoctorArgs),
    Record(RecordArgs),
    Agent(AgentArgs),
    Run(RunArgs),
    Guest(GuestArgs),
    AttachEnv(AttachEnvArgs),
    On(OnArgs),
    Off(OffArgs),
    #[command(hide = true)]
    Recorder(RecorderArgs),
    Sniff(SniffArgs),
    Collect(CollectArgs),
    Mirror(MirrorArgs),
    Import(ImportArgs),
    Helper(HelperArgs),
    Attach(AttachArgs),
    Detach(DetachArgs),
    Triage(TriageArgs),
    Top(TopArgs),
    Ui(UiArgs),
    Info(InfoArgs),
    Requests(RequestsArgs),
    Show(ShowArgs),
    Waits(WaitsArgs),
    Why(WhyArgs),
    Flame(FlameArgs),
    Timeline(TimelineArgs),
    #[command(aliases = ["hang", "hangs"])]
    Open(OpenArgs),
    Bottleneck(BottleneckArgs),
    Forecast(ForecastArgs),
    Metrics(MetricsArgs),
    // further questions of a folder stand here: their arguments flatten `Folders` and `Answering`
    Merge(MergeArgs),
    Reduce(ReduceArgs),
    Bundle(BundleArgs),
    Sync(SyncArgs),
    Tables(TablesArgs),
    Export(ExportArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// The folders that a question is about.
#[derive(Args, Debug)]
pub struct Folders {
    /// Trace folders; hosts with the same boot id are one host, whichever folder they come from
    #[arg(required = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub folders: Vec<PathBuf>,
}

/// One request as a waterfall: its calls, statements and where the time went, with the evidence of each link
#[derive(Args, Debug)]
#[command(override_usage = "wakepath show [OPTIONS] <DIR>... <REQUEST>")]
#[command(after_help = "\
Examples:
  wakepath show shop slowest                           the slowest request of all
  wakepath show shop slowest --kind 'GET /vote/{n}'    the slowest of a kind
  wakepath show shop 8d27630726a6                      one that `wakepath requests` named")]
pub struct ShowArgs {
    /// Trace folders; then REQUEST: a request's id or its first digits, or `slowest`
    #[arg(value_name = "DIR", num_args = 1.., add = ArgValueCompleter::new(complete::folders_or_requests))]
    pub what: Vec<PathBuf>,
    /// With `slowest`: of this kind, as `wakepath requests` prints it
    #[arg(long, value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    #[command(flatten)]
    pub answering: Answering,
}

/// Why it took so long: the time of a task or a request, with each wait replaced by what it waited for
///
/// The active path of a task replaces each of its waits by what ended it: the task that woke it, the sender of the message,
/// the disk, or a timer; and that task's own waits in turn, also on other hosts. The critical path of a request goes from its
/// arrival to the last byte of its reply in the same way. The slices add up to the elapsed time exactly. A slice that is not
/// known says why. The first question about a folder leaves an index in its cache.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath waits shop --task postgres/4711              what that process did and waited for
  wakepath waits shop --task nginx --from +2s --to +3s  one second of it
  wakepath waits shop --request slowest                 the slowest request
  wakepath waits shop --task app --stacks               where in its program it blocked
  wakepath waits web db --request 8d27630726a6 --json   one request over two hosts, for scripts")]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub struct WaitsArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// The task: NAME, TID or NAME/TID
    #[arg(long, value_name = "TASK", group = "what")]
    pub task: Option<String>,
    /// With --task: on this host
    #[arg(long, value_name = "HOST", requires = "task")]
    pub host: Option<String>,
    /// With --task: from this time on: RFC 3339, +12.5s from the task's start, or nanoseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "task")]
    pub from: Option<Moment>,
    /// With --task: until this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "task")]
    pub to: Option<Moment>,
    /// With --task: where in its program the task blocked, and how long; needs a recording with --stacks
    ///
    /// Prints stacks of waits, longest first. Names come from the program's files on this machine, if their build id is the
    /// same; other frames are FILE+OFFSET.
    #[arg(long, requires = "task", conflicts_with = "request")]
    pub stacks: bool,
    /// With --stacks: one line for each stack, as flame graph tools read it: `FRAME;FRAME NANOSECONDS`
    #[arg(long, requires = "stacks", conflicts_with = "json")]
    pub folded: bool,
    /// The request: its id or first digits, or `slowest`
    #[arg(long, value_name = "ID", group = "what", add = ArgValueCompleter::new(complete::request_ids))]
    pub request: Option<String>,
    /// With --request slowest: of this kind, as `wakepath requests` prints it
    #[arg(long, value_name = "KIND", requires = "request", add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    /// Approximate maximum number of rows; 0 shows every slice
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub limit: usize,
    #[command(flatten)]
    pub answering: Answering,
}

/// Why slow requests are slow: where their time goes compared with typical ones, largest difference first
///
/// Compares the slowest requests of each kind with the middle half by duration; or a selection by time, duration and service
/// with all others; or a kind in one recording or period with the same kind in another (two folders, --against, or
/// --against-from). The time is that of critical paths, grouped by cause: computing, waiting for a processor, a lock, network,
/// name server, disk, timer, queue. Figures are averages, and the differences add up. Requests with an incomplete path are
/// left out and counted. In folders without requests, such as imported traces, --task compares the active path of a task in
/// two recordings.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath why shop                              the kinds that lose most time in their slowest 1 %
  wakepath why shop --kind 'GET /vote/{n}'       one kind, as `wakepath requests` prints it
  wakepath why shop --slowest 5%                 the slowest twentieth
  wakepath why shop --from +10s --to +12s        requests of two seconds, against all others
  wakepath why shop --service store              those through a service, against all others
  wakepath why monday tuesday                    what takes longer in the second recording
  wakepath why shop --from +60s --against-to +60s   what takes longer than in the first minute
  wakepath why fast slow --task wget             a task in two recordings, from its start to its end
  wakepath why shop --json | jq '.kinds[0].differences[0] | {cause, service, more_ns, examples}'")]
pub struct WhyArgs {
    /// A trace folder; or two, before and after
    #[arg(required = true, value_name = "DIR", num_args = 1..=2)]
    pub folders: Vec<PathBuf>,
    /// With one folder: the share of a kind's requests that count as slow
    #[arg(long, default_value = "1%", value_name = "SHARE", conflicts_with_all = ["from", "to", "longer_than", "shorter_than", "service", "against", "against_from", "against_to"])]
    pub slowest: Share,
    #[command(flatten)]
    pub part: PartOfRequests,
    #[command(flatten)]
    pub against: Against,
    /// Only this kind, as `wakepath requests` prints it
    #[arg(long, value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    /// Maximum number of kinds; 0 compares all
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub kinds: usize,
    /// With two folders: the tasks of this NAME, TID or NAME/TID instead of requests
    #[arg(long, value_name = "TASK", conflicts_with_all = ["kind", "from", "to", "longer_than", "shorter_than", "service", "against", "against_from", "against_to"])]
    pub task: Option<String>,
    /// With --task: on this host
    #[arg(long, value_name = "HOST", requires = "task")]
    pub host: Option<String>,
    /// Maximum number of differences of each kind; 0 shows all
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub limit: usize,
    #[command(flatten)]
    pub answering: Answering,
}

/// Still in progress when recording stopped: requests without an answer, waits, and deadlocks
///
/// For a system that hangs: record it for a few seconds, then run this. Requests and waits are listed oldest first, each with
/// what it waits for. Idle tasks are only counted. Tasks that wait for each other in a circle are named. What hung before
/// recording began shows only if it did something since.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath record -o hang --duration 10s; wakepath open hang   what hangs now
  wakepath open hang --limit 0                                 every wait
  wakepath open hang --json | jq '.circles'                    deadlocks, for scripts")]
pub struct OpenArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Maximum number of requests and waits; 0 shows all
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    #[command(flatten)]
    pub answering: Answering,
}

/// How an answer is given.
#[derive(Args, Debug)]
pub struct Answering {
    /// Print one JSON document instead of text; its schema is in docs/schemas
    #[arg(long)]
    pub json: bool,
    /// Exit with 3 if data loss or incomplete paths affect the answer
    #[arg(long)]
    pub strict: bool,
}

/// Check whether this host can be recorded, and what to do if it cannot.
///
/// Checks the kernel, its hooks and this user's rights, then loads and attaches the kernel programs and removes them
/// again. It writes nothing. Every "NO" is followed by what to do. Without root, it checks everything except the
/// trial.
///
/// Exits with 0 if `record` works (and with --agent, if the agent does), with 1 if it does not.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath doctor                         as this user
  sudo wakepath doctor                    with the trial
  wakepath doctor --json | jq '.vantages[] | {vantage, works, summary}'
  wakepath doctor --agent /etc/wakepath/agent.toml
  WAKEPATH_LIBBPF_LOG=1 wakepath doctor   with what the kernel's verifier says, on standard error")]
pub struct DoctorArgs {
    /// Also check the agent of this configuration: does it answer and record, has it room, do its peers answer
    #[arg(long, value_name = "CONFIG")]
    pub agent: Option<PathBuf>,
    /// Print one JSON document instead of text; its schema is in docs/schemas
    #[arg(long)]
    pub json: bool,
}

/// Show what trace folders contain and which data was lost.
///
/// It lists hosts and how they were recorded, the time they span, and the rows of each table. Flows by protocol follow, with
/// why the others are opaque, then listening services. Every loss comes with what it may affect and what to do. Times are UTC.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath info shop                              one folder
  wakepath info web db                            two hosts, or two recordings of one
  wakepath info shop --verify --strict            read every byte; exit with 3 if anything is wrong
  wakepath info shop --brief                      hosts, times and counts, at once
  wakepath info shop --json | jq '.losses'        losses, for scripts
  wakepath info shop --json | jq '.hosts[].services[] | {command, address, port}'")]
pub struct InfoArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Read every byte and check it, not only what the counts need
    #[arg(long)]
    pub verify: bool,
    /// Read no rows: only hosts, times, rows of each table, and what recordings say that they lost
    #[arg(long, conflicts_with = "verify")]
    pub brief: bool,
    #[command(flatten)]
    pub answering: Answering,
}

/// Copy several trace folders into one new folder.
///
/// Hosts with the same boot id become one host; a segment that is given twice is copied once. The folders that are
/// read are not changed. Merging the result again with one of them changes nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath merge web db -o shop          two hosts into one folder
  wakepath merge monday tuesday -o all   two recordings of the same host

The other commands also take several folders, without merging: wakepath info web db")]
pub struct MergeArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// The folder to make; it must not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// Align the clocks of several hosts, using the messages between them.
///
/// A message is received after it was sent. In both directions between two hosts, this bounds the offset and the drift of
/// their clocks. For each pair of hosts the answer has the messages found at both ends, and offset and drift with their
/// bounds. It lists what contradicts all else and was left out, and what could not be synchronised and why. The result
/// is written into the folder (sync.json) and used by every other command. Without it, hosts are compared by their wall clocks.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath merge web db -o shop && wakepath sync shop   two hosts, one line
  wakepath sync shop --reference db                     on the clock of db
  wakepath sync shop --dry-run                          only print, write nothing
  wakepath sync shop --json | jq '.pairs[] | {a, b, uncertainty_ns, inversions}'")]
pub struct SyncArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// The host whose clock the line is; by default the one with the most messages
    #[arg(long, value_name = "HOST")]
    pub reference: Option<String>,
    /// Write nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub answering: Answering,
}

/// Write the tables of trace folders as Parquet files, for DuckDB, Polars, pandas and Spark.
///
/// The files are derived: remove them and write them again at will. docs/queries.md has the columns and queries.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath tables shop                   into shop/tables
  wakepath tables web db -o tables       both hosts, into tables
  duckdb -c \"SELECT what, sum(count) FROM 'shop/tables/losses.parquet' GROUP BY what\"")]
pub struct TablesArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Where the files go; by default DIR/tables, with several folders it must be given
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// Print the completions of a shell.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath completions bash > /etc/bash_completion.d/wakepath
  wakepath completions zsh > ~/.zfunc/_wakepath
  wakepath completions fish > ~/.config/fish/completions/wakepath.fish")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Write the manual pages.
///
/// Without a folder, the page of wakepath itself is printed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath man | man -l -                   read wakepath(1)
  wakepath man /usr/local/share/man/man1    install wakepath.1 and a page for each command")]
pub struct ManArgs {
    /// Where the pages go; made if it does not exist
    #[arg(value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Turn traces of LTTng, perf or trace-cmd, or annotations of a simulator, into a trace folder.
///
/// Reads CTF 1.8 and CTF 2 traces of the kernel (a folder with their metadata in it or anywhere below), perf.data and
/// trace.dat, or marks, a text form for annotations of state machines (docs/formats/marks.md); which it is, it sees by
/// itself. Each host becomes a host of the folder; hosts with the same boot id are one.
/// docs/formats/import.md says which events are used, and for what.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath import ~/lttng-traces/auto-20260101 -o shop     an LTTng session, with all its hosts
  wakepath import --host web=w/trace.dat --host db=d/trace.dat -o shop
  wakepath import perf.data -o shop --force                replacing what was there
  wakepath import simulated.marks -o sim                   what a simulator printed, event by event
  wakepath import traces -o shop --json | jq '.hosts[] | {host, events, events_lost}'

How such traces are made:
  lttng create s && lttng enable-event -k 'sched_*,irq_*,timer_hrtimer_expire_*,net_*,block_rq_*' &&
      lttng enable-event -k --syscall -a && lttng start; sleep 10; lttng destroy
  perf record -a \\
      -e 'sched:*,irq:*,timer:hrtimer_expire_*,net:*,block:block_rq_*,raw_syscalls:*' sleep 10
  trace-cmd record -e sched -e irq -e timer -e net -e block -e raw_syscalls sleep 10")]
pub struct ImportArgs {
    /// A folder with CTF traces, a perf.data, a trace.dat, or a file of marks
    #[arg(required_unless_present = "host", value_name = "SOURCE")]
    pub sources: Vec<PathBuf>,
    /// The folder to make
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// A source of one host, and the host's name (may be repeated)
    #[arg(long, value_name = "NAME=SOURCE")]
    pub host: Vec<NamedSource>,
    /// Add to a folder that exists
    #[arg(long, conflicts_with = "force")]
    pub append: bool,
    /// Replace a trace folder that exists
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub answering: Answering,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds() {
        command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_examples() {
        let mut cli = command();
        cli.build();
        for command in cli.get_subcommands_mut().filter(|c| c.get_name() != "help") {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:\n  wakepath "), "{help}");
            assert!(help.lines().all(|l| l.chars().count() <= 120), "{help}");
        }
    }
}

#[cfg(test)]
mod examples;
