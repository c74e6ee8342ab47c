//! Flags of `wakepath flame`.

use super::{Against, Answering, Folders, PartOfRequests, Share};
use crate::complete;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;

/// Where the time of many requests went: their critical paths, by host, service, program and cause
///
/// At each moment, the critical path of a request is the one thing that the request was waiting for. Summed over the selected
/// requests, it shows what would have to be faster. Requests with an incomplete path, or without a complete reply, are left
/// out and counted. --difference adds the time of the other requests; --against that of another recording, by the same names;
/// --against-from and --against-to that of another period.
/// `wakepath export --to folded` gives the same to flame graph tools.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath flame shop                                    all requests
  wakepath flame shop --kind 'GET /vote'                 one kind, as `wakepath requests` prints it
  wakepath flame shop --longer-than 50ms --difference    what the slow ones have more of
  wakepath flame shop --against before                   what takes longer than in another recording
  wakepath flame shop --from +60s --against-to +60s      what takes longer than in the first minute
  wakepath flame shop --json | jq '.stacks[] | [.cause, .duration_ns]'")]
pub struct FlameArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Only this kind, as `wakepath requests` prints it
    #[arg(long, value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    #[command(flatten)]
    pub part: PartOfRequests,
    /// Compare with all requests that are not selected
    #[arg(long, conflicts_with_all = ["against", "against_from", "against_to"])]
    pub difference: bool,
    #[command(flatten)]
    pub against: Against,
    /// Leave out parts below this share of the total
    #[arg(long, default_value = "1%", value_name = "SHARE")]
    pub least: Share,
    #[command(flatten)]
    pub answering: Answering,
}
