//! Flags of `wakepath requests`.

use super::{Against, Answering, Folders, Time, With};
use crate::complete;
use crate::moment::Moment;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;

/// Kinds of request: how many, how slow, through which tiers, and what failed
///
/// A kind is an entry service with a method and path template, or a statement shape. For each kind, the time is split
/// by tier: its own time, waiting to be picked up, and network and delivery. With --each, requests are listed one by
/// one with the main cause of their time; with --map, services and the calls between them; with --over-time, rate,
/// errors and durations over time; with --common, what sets the selected ones apart. With --against, --against-from or
/// --against-to, kinds or the map are compared with another recording or period, what changed most first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath requests wakepath-trace                   the twenty most frequent kinds
  wakepath requests --limit 0 a b                    all kinds, of two folders read as one
  wakepath requests shop --each --longer-than 50ms   one by one, with what most of each went to
  wakepath requests shop --map --from +10s --to +20s  who calls whom, in ten seconds of it
  wakepath requests shop --over-time --columns 60    rate, errors, p50 and p99, column by column
  wakepath requests shop --common --longer-than 50ms  what sets the slow ones apart
  wakepath requests shop --service store             those that pass through a service
  wakepath requests shop --with outcome=error --with 'call=*orders*'   failed, with such a call
  wakepath requests shop --each --with cause=lock    those that waited mostly for locks
  wakepath requests shop --from +60s --against-to +60s   what changed after the first minute
  wakepath requests tuesday --map --against monday   which services and calls changed
  wakepath requests --json shop | jq '.kinds[0]'     for scripts")]
pub struct RequestsArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Maximum number of kinds, of values with --common, or of requests with --each (then the slowest and an even
    /// sample of the rest); 0 shows all
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// List requests one by one, slowest first
    #[arg(long, group = "by", conflicts_with_all = ["against", "against_from", "against_to"])]
    pub each: bool,
    /// Show which service calls which: rates, times and errors of both
    #[arg(long, group = "by")]
    pub map: bool,
    /// Show rate, errors and durations over time
    #[arg(long, group = "by", conflicts_with_all = ["against", "against_from", "against_to"])]
    pub over_time: bool,
    /// With --over-time: columns that the time is divided into, at most
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), requires = "over_time")]
    pub columns: u32,
    /// Show what sets the selected requests apart from the others: kind, reply, client, services, calls, processes,
    /// hosts, main cause
    #[arg(long, group = "by", conflicts_with_all = ["against", "against_from", "against_to"])]
    pub common: bool,
    /// Only requests of this kind
    #[arg(long, value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    #[command(flatten)]
    pub part: PartOfRequests,
    #[command(flatten)]
    pub against: Against,
    #[command(flatten)]
    pub answering: Answering,
}

/// Which requests are asked about.
#[derive(Args, Clone, Debug)]
pub struct PartOfRequests {
    /// Requests that began at this time or later: RFC 3339, +12.5s from the start, -5m before the end, or nanoseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,
    /// Requests that began before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,
    #[command(flatten)]
    pub such: SuchRequests,
}

/// What selects requests besides when they began.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SuchRequests {
    /// Requests that took this long or longer
    #[arg(long, value_name = "TIME")]
    pub longer_than: Option<Time>,
    /// Requests that took less than this
    #[arg(long, value_name = "TIME")]
    pub shorter_than: Option<Time>,
    /// Requests known to pass through this service, as `wakepath requests --map` prints it, with or without its port;
    /// `*` stands for anything
    #[arg(long, value_name = "SERVICE", add = ArgValueCompleter::new(complete::services))]
    pub service: Option<String>,
    /// Requests in which that service is known to call this one
    #[arg(long, value_name = "SERVICE", requires = "service", add = ArgValueCompleter::new(complete::services))]
    pub calls: Option<String>,
    /// Requests with this value, as `wakepath requests --common` prints it: kind, outcome (error, ok, unknown), reply,
    /// client, service, call, process, host or cause; `*` stands for anything; may be repeated. cause=lock selects requests
    /// of which locks took the largest part of the critical path, `cause=lock at web` those where that was at web
    #[arg(long, value_name = "ATTRIBUTE=VALUE")]
    pub with: Vec<With>,
}

impl PartOfRequests {
    /// Whether nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.such == SuchRequests::default()
    }
}
