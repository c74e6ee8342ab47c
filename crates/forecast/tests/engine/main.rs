//! The replay: the paper's figures, closed forms, and laws that hold for any system.

mod build;
mod figures;
mod forms;
mod laws;
mod meaning;
mod memory;
