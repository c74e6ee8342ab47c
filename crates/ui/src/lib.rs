//! The page's server: it answers questions about recordings over HTTP with what the commands answer, and serves the page
//! that shows them. It knows nothing of recordings: who asks is given a command line, and the answer of that command.
#![deny(missing_docs)]

pub mod agent;
pub mod api;
mod cache;
pub mod client;
pub mod downloads;
pub mod figures;
mod guard;
mod page;
mod progress;
pub mod server;
mod stream;

pub use progress::Progress;

use std::io::Write;
use std::sync::Arc;

/// Who answers commands.
pub trait Answering: Send + Sync + 'static {
    /// The answer of a command where it was made before and is still right.
    fn kept(&self, arguments: &[String]) -> Option<Vec<u8>>;

    /// The answer of a command, its arguments without the folders: one JSON document, or why there is none, for people.
    /// `progress` is told what is read for it.
    fn answer(&self, arguments: &[String], progress: &Arc<Progress>) -> Result<Vec<u8>, String>;

    /// Writes the file that a command makes, its arguments without the folders and without where to write, into `out` as it is made.
    /// Gives what was written, or why it is not whole, for people. `progress` is told what is read for it.
    fn download(&self, arguments: &[String], progress: &Arc<Progress>, out: &mut dyn Write) -> Result<String, String>;

    /// The command as one would type it in a shell.
    fn typed(&self, arguments: &[String]) -> String;

    /// What the folders hold now: another value after they changed.
    fn stamp(&self) -> u64;

    /// Whether any of the folders is being recorded now.
    fn is_live(&self) -> bool;

    /// The folders, as they were given.
    fn folders(&self) -> Vec<String>;
}
