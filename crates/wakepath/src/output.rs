//! Where answers go (standard output) and everything else (standard error).

use crate::cli::Answering;
use crate::pager;
use anyhow::{Context as _, Result};
use std::io::{ErrorKind, Write};

/// The reader of standard output left (`| head`): not a failure.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub struct Closed;

/// Answered.
pub const ANSWERED: i32 = 0;
/// Failed.
pub const FAILED: i32 = 1;
/// Answered, but losses or incompleteness touch the answer, and `--strict` minds.
pub const ANSWERED_WITH_LOSSES: i32 = 3;

/// Where a command's answer goes.
pub enum Answers {
    /// To standard output.
    Stdout,
    /// Kept, for who asks within this process.
    Kept(Vec<u8>),
}

impl Answers {
    /// Gives an answer that is whole.
    pub fn give(&mut self, text: &[u8]) -> Result<()> {
        match self {
            Answers::Stdout => answer(text),
            Answers::Kept(kept) => {
                kept.extend_from_slice(text);
                Ok(())
            }
        }
    }

    /// Gives an answer that is written as it is made.
    pub fn give_with(&mut self, write: impl FnOnce(&mut dyn Write) -> serde_json::Result<()>) -> Result<()> {
        match self {
            Answers::Stdout => answer_with(write),
            Answers::Kept(kept) => write(kept).context("making the answer"),
        }
    }
}

/// Prints an answer that is whole; by a pager where a terminal is too small for it.
pub fn answer(text: &[u8]) -> Result<()> {
    if pager::show(text) { Ok(()) } else { print(text) }
}

/// Prints text.
pub fn print(text: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(Closed.into()),
        other => other.context("writing the answer to standard output"),
    }
}

/// Prints an answer that is written as it is made.
fn answer_with(write: impl FnOnce(&mut dyn Write) -> serde_json::Result<()>) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match write(&mut out).map_err(std::io::Error::from).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(Closed.into()),
        other => other.context("writing the answer to standard output"),
    }
}

/// Says something beside the answer. That nobody listens is no failure.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// An error with its causes after it. Many of ours have their cause in their own sentence: it is not said again.
pub fn reasons(e: &anyhow::Error) -> String {
    wakepath_present::text::reasons(e.as_ref())
}

/// [`say`] with a format.
macro_rules! tell {
    ($($arg:tt)*) => { $crate::output::say(&format!($($arg)*)) };
}
pub(crate) use tell;

/// The exit code of an answer that `touched` says losses touch.
pub fn exit_code(answering: &Answering, touched: bool) -> i32 {
    if answering.strict && touched { ANSWERED_WITH_LOSSES } else { ANSWERED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("a.parquet: cannot write: {source}; free space")]
    struct Full {
        source: std::io::Error,
    }

    #[test]
    fn a_cause_is_said_once() {
        let full = || Full { source: std::io::Error::other("no space left") };
        let said = reasons(&anyhow::Error::new(full()).context("making tables"));
        assert_eq!(said, "making tables: a.parquet: cannot write: no space left; free space");
        let told = reasons(&anyhow::Error::new(std::io::Error::other("no space left")).context("writing the answer"));
        assert_eq!(told, "writing the answer: no space left");
    }
}
