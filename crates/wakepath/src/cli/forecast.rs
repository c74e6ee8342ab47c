//! Flags of `wakepath bottleneck` and `wakepath forecast`.

use super::{Answering, Folders};
use crate::complete;
use crate::moment::Moment;
use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use std::str::FromStr;
use wakepath_forecast::change::Change;
use wakepath_forecast::derive::ArrivalModel;

/// How requests come in the replay.
#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum ArrivalsFlag {
    /// A fixed number of clients; each sends its next request after a reply
    Closed,
    /// At the recorded times, whatever happens to earlier ones
    Open,
}

impl From<ArrivalsFlag> for ArrivalModel {
    fn from(flag: ArrivalsFlag) -> Self {
        match flag {
            ArrivalsFlag::Closed => Self::Closed,
            ArrivalsFlag::Open => Self::Open,
        }
    }
}

/// Where a part begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edge {
    /// At a moment.
    Moment(Moment),
    /// At an annotated machine.
    Machine(String),
}

impl FromStr for Edge {
    type Err = String;

    fn from_str(s: &str) -> Result<Edge, String> {
        match s.parse() {
            Ok(moment) => Ok(Edge::Moment(moment)),
            // what begins like a moment is meant to be one
            Err(e) if s.is_empty() || s.starts_with(|c: char| c == '+' || c.is_ascii_digit()) => Err(e),
            Err(_) => Ok(Edge::Machine(s.to_owned())),
        }
    }
}

/// The part of a recording that is replayed.
#[derive(Args, Debug, Default)]
pub struct PartArgs {
    /// Requests of this kind, as `wakepath requests` prints it; the others still use processors and workers
    #[arg(long, value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    pub request: Option<String>,
    /// Start time: RFC 3339, +12.5s from the start of the recording, -5m before its end, or nanoseconds; with annotations, a machine
    ///
    /// With two annotated machines (`MACHINE`, `HOST/MACHINE`, either with `[KEY]`), only items that one of the two
    /// handled are followed: the path of one connection through machines that serve many.
    #[arg(long, value_name = "TIME|MACHINE", allow_hyphen_values = true)]
    pub from: Option<Edge>,
    /// End time; with annotations, a machine
    #[arg(long, value_name = "TIME|MACHINE", allow_hyphen_values = true)]
    pub to: Option<Edge>,
    /// How requests arrive; without this it is inferred, and the answer says so
    ///
    /// With closed arrivals, clients that get a reply sooner send sooner: throughput rises as latency falls. With open
    /// arrivals, throughput stays as offered and only latency changes.
    #[arg(long, value_enum, value_name = "MODEL")]
    pub arrivals: Option<ArrivalsFlag>,
}

/// What limits the system: the critical path, its loops, and the limit whose removal gains most
///
/// Wakepath replays the recording as a network of queues: processors, disks, workers, pools, locks, links, buffers. The
/// critical path shows where the time of the run, or of a kind of request, went. Only a replay shows what a change would gain:
/// it removes each limit in turn, and the one that gains most is the bottleneck. The answer also has the loops that limit
/// throughput, the queue that closes each, and how much of the bottleneck to remove.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath bottleneck shop                              of the whole run
  wakepath bottleneck shop --request 'GET /vote/{n}'    of a kind of request
  wakepath bottleneck shop --from +10s --to +20s        of a part
  wakepath bottleneck shop --json | jq '.bottleneck | {limits, gain, enough, changes}'")]
pub struct BottleneckArgs {
    #[command(flatten)]
    pub folders: Folders,
    #[command(flatten)]
    pub part: PartArgs,
    #[command(flatten)]
    pub answering: Answering,
}

/// What would happen if: latency and throughput after a change, with an error bar and the next bottleneck
///
/// Wakepath replays the recording unchanged and under the changes, and applies the ratio of the two to the measurements. The
/// error of the unchanged replay is shown, and widens the error bar. Changes use the names that `bottleneck` and `requests`
/// print; * stands for anything. docs/changes.md has the full grammar.
///
/// If the recording cannot support a change, it is refused, with the reason and the names that exist.
#[derive(Args, Debug)]
#[command(after_help = "\
Changes:
  scale HOST/PROCESS/STATE=0.5    work takes half the time; states: cpu, disk, timer, lock, outside,
                                  annotated ones
  cpu HOST=+1                     one more processor (also 4, 2x, unbounded), of a host or a service
  speed HOST=2x                   processors or a disk, or a service's computing, twice as fast
  link A-B bandwidth=10x delay=-50%   a link between hosts or services, both ways
  queue Q=+64K                    room of a buffer or an accept queue (also unbounded)
  workers SERVICE=+2              worker processes or threads
  pool P=+6                       connections of a pool
  drop CALL [keep=1|share=90%]    a call is left out; keep=1 leaves the first of each request
  parallel CALL,CALL              calls of one request at once; of one name: its repeats
  cache CALL hit=90%              nine of ten calls are answered at once

Examples:
  wakepath forecast shop --change 'workers gunicorn:8000=+2'
  wakepath forecast shop --change 'cpu web=+1' --change 'workers nginx:80=+1'     both together
  wakepath forecast shop --change 'drop postgres:5432 SELECT*' --request 'GET /'  one kind alone
  wakepath forecast shop --next 3    three bottlenecks, one after the other
  wakepath forecast shop --change 'speed db=2x' --json | jq '.forecast.mean_ns'")]
pub struct ForecastArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// A change; repeat it to make several changes together
    #[arg(long, value_name = "CHANGE")]
    pub change: Vec<Change>,
    /// Remove this many bottlenecks, one after the other, and show what each gains
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=20))]
    pub next: u8,
    #[command(flatten)]
    pub part: PartArgs,
    #[command(flatten)]
    pub answering: Answering,
}
