//! The `present` room: the only one that serialises our types outward. Tables for the terminal, JSON for scripts,
//! Parquet for queries; see ARCHITECTURE.md.

pub mod bottleneck;
pub mod calibration;
pub mod common;
pub mod compared;
pub mod doctor;
pub mod each;
pub mod flame;
pub mod forecast;
pub mod import;
pub mod info;
pub mod json;
pub mod losses;
pub mod metrics;
pub mod mirror;
pub mod open;
pub mod over_time;
mod own_time;
pub mod parquet;
pub mod proofs;
pub mod refusals;
pub mod requests;
pub mod service_map;
pub mod show;
pub mod sniff;
pub mod stacks;
pub mod symbols;
pub mod sync;
pub mod table;
pub mod text;
pub mod timeline;
pub mod triage;
pub mod units;
pub mod waits;
pub mod why;
