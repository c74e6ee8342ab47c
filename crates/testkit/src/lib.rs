//! The `testkit` room; see ARCHITECTURE.md.
