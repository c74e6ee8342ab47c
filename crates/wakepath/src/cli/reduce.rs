//! Flags of `wakepath reduce`.

use super::Folders;
use clap::Args;
use std::path::PathBuf;

/// Link one host by itself, into a folder that can be joined with those of other hosts
///
/// The new folder has what links the host's requests, without its operations, messages and waits. `requests` and `show` answer
/// about such folders as about the recordings. All other questions need the recordings. Each host can be reduced at the
/// same time, on any machine. If the hosts' clocks are not synchronized, run `wakepath sync` first: it needs the recordings.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath reduce fleet --host web -o web.reduced   one host of a folder
  wakepath requests web.reduced db.reduced          the answer of both hosts")]
pub struct ReduceArgs {
    #[command(flatten)]
    pub folders: Folders,
    /// The host: its name, its boot id, or the name of its folder in DIR/hosts (may be omitted if there is only one)
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// The folder to create; it must not exist
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}
