//! Flags of `wakepath top`.

use clap::Args;
use std::path::PathBuf;

/// A recording on the terminal, also while it is being made: requests in flight, kinds, why, losses
///
/// Reads the folder again when it has grown, at most a tenth of the time. Enter, w and y show what `wakepath show`, `waits`
/// and `why` print of the chosen line; ? lists the keys. Of a recording longer than a minute, kinds and why are of its last
/// minute.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath record -o shop &  wakepath top shop     watch it while it is being recorded
  wakepath top shop                                a recording that has ended
  wakepath top                                     the folder here that was written to last")]
pub struct TopArgs {
    /// Trace folders; else the one in this directory that was written to last
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub folders: Vec<PathBuf>,
}
