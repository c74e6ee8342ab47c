//! Flags of `wakepath timeline`.

use super::{Answering, Folders};
use crate::moment::Moment;
use clap::Args;
use wakepath_analysis::timeline::Wanted;

/// What tasks did over time: when each ran, was runnable, or waited, and for what
///
/// Prints a line for each task, and how long all tasks together were in each state. Intervals shorter than a column are drawn
/// together, as their most frequent state; the sums count every interval. Unlike `waits`, it does not follow waits to
/// other tasks; --path adds the active path of one task below it, --processors who had each processor, --syscalls how long waits in each
/// system call took, and --events the intervals themselves.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath timeline shop                                   the twenty tasks with most waits
  wakepath timeline shop --search postgres --from +2s --to +2.5s
  wakepath timeline shop --task nginx/812 --path           and who it waited for
  wakepath timeline shop --processors                      and which task had which processor
  wakepath timeline shop --syscalls                        p50, p99, and the longest wait of each system call
  wakepath timeline shop --events 50 --what futex --from +2s
  wakepath timeline web db --columns 1000 --json           for drawing")]
pub struct TimelineArgs {
    #[command(flatten)]
    pub folders: Folders,
    #[command(flatten)]
    pub which: WhichTasks,
    /// From this time on: RFC 3339, +12.5s from the start, -5m before the end, or nanoseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,
    /// Until this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,
    /// Columns that the time is divided into
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub columns: u32,
    /// Maximum number of tasks; 0 shows all
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// Add the active path of the one task that is shown
    #[arg(long)]
    pub path: bool,
    /// Add a row for each processor: which task had it
    #[arg(long)]
    pub processors: bool,
    /// Add a table of system calls: how many waits, how long, and the longest one
    #[arg(long)]
    pub syscalls: bool,
    /// Add the first N intervals that begin after --from, in order: when, how long, which task, what it did, who ended a wait
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub events: Option<u32>,
    /// With --events: only those whose state or system call contains this
    #[arg(long, value_name = "TEXT", requires = "events")]
    pub what: Option<String>,
    #[command(flatten)]
    pub answering: Answering,
}

/// Which tasks are asked about.
#[derive(Args, Debug)]
pub struct WhichTasks {
    /// Only these tasks: NAME, TID or NAME/TID (may be repeated)
    #[arg(long, value_name = "TASK")]
    pub task: Vec<String>,
    /// Only tasks whose name, or whose process's name, contains this
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only tasks on this host
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
}

impl WhichTasks {
    /// Whether it leaves out any.
    pub fn is_all(&self) -> bool {
        self.task.is_empty() && self.search.is_none() && self.host.is_none()
    }

    /// As the analysis takes it.
    pub fn wanted(&self) -> Wanted {
        Wanted { tasks: self.task.clone(), host: self.host.clone(), search: self.search.clone() }
    }
}
