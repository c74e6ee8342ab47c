//! `wakepath helper`.

use clap::{Args, ValueEnum};

/// Print what a program must load so that its requests are told apart.
///
/// Node.js keeps nothing in its memory that tells for which request it writes. With the helper it does, and `record` reads it
/// from outside: the helper writes no file, opens no connection, and starts no thread. It takes some processor time of each
/// request. docs/runtimes.md says what it does, and what stays open.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wakepath helper node > wakepath.cjs
  node --require ./wakepath.cjs server.js                  or, where the command cannot be changed:
  NODE_OPTIONS=\"--require $PWD/wakepath.cjs\" npm start")]
pub struct HelperArgs {
    /// For which runtime
    pub runtime: HelperFor,
}

/// A runtime that there is a helper for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HelperFor {
    /// Node.js 18.19 and later: to be loaded with `--require`
    Node,
}
