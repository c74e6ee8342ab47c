//! Analyses: pure functions from a folder and its paths to tables. Nothing here writes or formats.
#![deny(missing_docs)]

pub mod active_path;
pub mod activity;
pub mod attributes;
mod backwards;
pub mod causes;
pub mod command_line;
pub mod common;
pub mod connections;
pub mod critical_path;
pub mod each;
pub mod ended;
pub mod faults;
pub mod flame;
pub mod histogram;
pub mod listeners;
pub mod metrics;
pub mod names;
pub mod open;
pub mod over_time;
pub mod pattern;
pub mod reasons;
pub mod reduce;
pub mod requests;
pub mod selected;
pub mod selection;
mod served_at;
pub mod service_map;
pub mod slices;
pub mod spans;
pub mod stacks;
pub mod throttled;
pub mod timeline;
pub mod why;
