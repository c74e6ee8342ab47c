//! Sans-IO: frames in, rows out. No file is opened here and no clock is read; what must be looked up (a task's name
//! in `/proc`) is asked of the caller.
#![deny(missing_docs)]

mod command_line;
mod file_name;
mod flow;
pub mod imported;
mod joined;
mod kept;
mod kernel;
mod library;
pub mod network;
mod placed;
pub mod raw;
pub mod readers;
pub mod recurring;
mod sink;
mod tasks;
mod words;

pub use kernel::{KernelDecoder, Payload};
pub use sink::{RowSink, TaskFacts};
