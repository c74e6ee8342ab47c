//! Flags of `wakepath triage`.

use super::{Answering, Folders, Time};
use clap::Args;

/// Start here: what is slow, fails, hangs or limits, and how far to trust it
///
/// Prints one screen with the findings of `requests`, `why`, `open`, `bottleneck` and `info`, each with the command that says
/// more. It lists what is not known, with the reason. If a part takes longer than --within, it is left out and named. The
/// first question about a folder builds an index and takes longest.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath triage shop                    the first command for a recording
  wakepath triage web db                  of two hosts, recorded at the same time
  wakepath triage shop --within 5s        at most about five seconds
  wakepath triage shop --json | jq '.findings[] | {section, sentence, next}'")]
pub struct TriageArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// Approximate time limit; parts that are not ready by then are left out
    #[arg(long, default_value = "60s", value_name = "TIME")]
    pub within: Time,
    #[command(flatten)]
    pub answering: Answering,
}
