//! Flags of `wakepath requests`.

use super::{Answering, Folders, Time};
use crate::complete;
use crate::moment::Moment;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;

/// Kinds of request: how many, how slow, through which tiers, and what failed
///
/// A kind is an entry service with a method and path template, or a statement shape. For each kind, the time is split
/// by tier: its own time, waiting to be picked up, and network and delivery. With --each, requests are listed one by
/// one with the main cause of their time; with --map, services and the calls between them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath requests wakepath-trace                   the twenty most frequent kinds
  wakepath requests --limit 0 a b                    all kinds, of two folders read as one
  wakepath requests shop --each --longer-than 50ms   one by one, with what most of each went to
  wakepath requests shop --map --from +10s --to +20s  who calls whom, in ten seconds of it
  wakepath requests shop --service store             those that pass through a service
  wakepath requests --json shop | jq '.kinds[0]'     for scripts")]
pub struct RequestsArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Maximum number of kinds, or of requests with --each (then the slowest and an even sample of the rest); 0 shows
    /// all
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// List requests one by one, slowest first
    #[arg(long, group = "by")]
    pub each: bool,
    /// Show which service calls which: rates, times and errors of both
    #[arg(long, group = "by")]
    pub map: bool,
    /// With --each or --map: only of this kind
    #[arg(long, value_name = "KIND", requires = "by", add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    #[command(flatten)]
    pub part: PartOfRequests,
    #[command(flatten)]
    pub answering: Answering,
}

/// Which requests are asked about.
#[derive(Args, Debug)]
pub struct PartOfRequests {
    /// Requests that began here or later; RFC 3339, +12.5s from the start, -5m before the end, or nanoseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,
    /// Requests that began before
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,
    #[command(flatten)]
    pub such: SuchRequests,
}

/// What selects requests besides when they began.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SuchRequests {
    /// Requests that took so long or longer
    #[arg(long, value_name = "TIME")]
    pub longer_than: Option<Time>,
    /// Requests that took less
    #[arg(long, value_name = "TIME")]
    pub shorter_than: Option<Time>,
    /// Requests known to pass through this service, as `wakepath requests --map` prints it, with or without its port;
    /// `*` stands for anything
    #[arg(long, value_name = "SERVICE", add = ArgValueCompleter::new(complete::services))]
    pub service: Option<String>,
    /// Requests in which that service is known to call this one
    #[arg(long, value_name = "SERVICE", requires = "service", add = ArgValueCompleter::new(complete::services))]
    pub calls: Option<String>,
}

impl PartOfRequests {
    /// Whether nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.such == SuchRequests::default()
    }
}
