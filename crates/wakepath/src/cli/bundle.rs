//! Flags of `wakepath bundle`.

use crate::complete;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

/// One request as a small folder without names, for a bug report or a colleague
///
/// The bundle has the rows of the time around the request, of all tasks and flows that acted then, so every command gives the
/// same answer about the request. Names of programs, hosts, files and what was asked are replaced consistently (`program-3`),
/// and so are addresses except loopback, and identifiers that clients gave. Times, sizes, statuses, ports and process numbers
/// stay. If the request or its critical path would differ in the bundle, it is not created.
#[derive(Args, Debug)]
#[command(override_usage = "wakepath bundle [OPTIONS] <DIR>... <REQUEST> -o <OUT>")]
#[command(after_help = "\
Examples:
  wakepath bundle shop slowest -o slow             the slowest request
  wakepath bundle shop 8d27630726a6 -o odd         one that `wakepath requests` named
  wakepath bundle web db slowest --kind 'GET /vote/{n}' -o slow && tar czf slow.tgz slow")]
pub struct BundleArgs {
    /// Trace folders; then REQUEST: a request's id or its first digits, or `slowest`
    #[arg(value_name = "DIR", num_args = 1.., add = ArgValueCompleter::new(complete::folders_or_requests))]
    pub what: Vec<PathBuf>,
    /// With `slowest`: of this kind, as `wakepath requests` prints it
    #[arg(long, value_name = "KIND", add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    /// The folder to create; it must not exist
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}
