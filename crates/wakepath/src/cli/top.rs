//! Flags of `wakepath top`.

use clap::Args;
use std::path::PathBuf;

/// A recording on the terminal, also live: requests in flight, kinds, why, losses
///
/// Reads the folder again when it has grown, at most 10 % of the time. Enter, w and y show what `wakepath show`, `waits` and
/// `why` print for the chosen line; ? lists the keys. If the recording is longer than a minute, kinds and why cover its last
/// minute.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath record -o shop &  wakepath top shop     watch it while it is being recorded
  wakepath top shop                                a recording that has ended
  wakepath top                                     the folder here that was written to last")]
pub struct TopArgs {
    /// Trace folders; by default the one in this directory that was written to last
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub folders: Vec<PathBuf>,
}
