//! Flows: which two endpoints are the two ends of one connection, and what is kept of each end.
#![deny(missing_docs)]

mod pairs;
pub mod per_end;
pub mod places;

pub use pairs::{How, Pairs, Place, Working, is_loopback};
pub use per_end::End;
