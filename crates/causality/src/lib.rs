//! The `causality` room; see ARCHITECTURE.md.
