//! The `present` room; see ARCHITECTURE.md.

pub mod parquet;
