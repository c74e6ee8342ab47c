//! Flags of `wakepath triage`.

use super::{Answering, Folders, Time};
use clap::Args;

/// Where to begin: what is slow, what fails, what hangs, what limits, and how far to believe it
///
/// One screen, made of what `requests`, `why`, `open`, `bottleneck` and `info` find, each with the command that says more.
/// What such a part does not say stands here as not known, with its reason. A part that takes longer than --within is left
/// out, and said; a folder's first question makes an index, and takes longest.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath triage shop                    the first thing to ask of a recording
  wakepath triage web db                  of two hosts, recorded at the same time
  wakepath triage shop --within 5s        at most about five seconds
  wakepath triage shop --json | jq '.findings[] | {section, sentence, next}'")]
pub struct TriageArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Most time taken, about; parts that are not ready by then are left out
    #[arg(long, default_value = "60s", value_name = "TIME")]
    pub within: Time,
    #[command(flatten)]
    pub answering: Answering,
}
