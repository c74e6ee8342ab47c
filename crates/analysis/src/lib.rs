//! The `analysis` room; see ARCHITECTURE.md.
