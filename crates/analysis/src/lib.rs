//! Analyses: pure functions from a folder and its paths to tables. Nothing here writes or formats.
#![deny(missing_docs)]

pub mod histogram;
pub mod names;
pub mod requests;
pub mod slices;
pub mod spans;
