//! The model: ids, tables, clock domains, the ledger of defects, and the trace folder on disk.
#![deny(missing_docs)]

pub mod anonymous;
pub mod cgroup;
pub mod clock;
pub mod defects;
pub mod folder;
pub mod forward;
pub mod ids;
pub mod intern;
pub mod rows;
pub mod stack;
pub mod syscalls;
pub mod table;
pub mod words;
