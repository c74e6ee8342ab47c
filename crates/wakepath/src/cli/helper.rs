//! `wakepath helper`.

use clap::{Args, ValueEnum};

/// Print the helper that a program on Node.js loads so that its requests can be told apart.
///
/// Node.js does not keep in its memory which request it works on. The helper does, and `record` reads that from outside. The
/// helper writes no file, opens no connection, and starts no thread. Each request takes a little more processor time.
/// `wakepath attach` loads it into a running process. docs/runtimes.md says what the helper does, and which calls stay open with it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath helper node > wakepath.cjs
  node --require ./wakepath.cjs server.js                  or, where the command cannot be changed:
  NODE_OPTIONS=\"--require $PWD/wakepath.cjs\" npm start")]
pub struct HelperArgs {
    /// The runtime
    pub runtime: HelperFor,
}

/// A runtime that there is a helper for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HelperFor {
    /// Node.js 18.19 and later: load it with `--require`
    Node,
}
