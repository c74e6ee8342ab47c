//! What may be larger than the limits of `limits.rs` and why: the one list, which `cargo xtask tidy` prints.

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Lines of code of a function.
    Function,
    /// Lines of a file.
    File,
    /// Fields of a struct.
    Struct,
    /// Files of a folder that need each other in a circle.
    Circle,
}

/// A place that may pass a limit.
pub struct Exception {
    pub limit: Limit,
    /// The file; with `Limit::Circle` a folder.
    pub path: &'static str,
    /// Name of the function or struct; empty for a file or folder.
    pub name: &'static str,
    /// It may be this large and no larger.
    pub most: usize,
    /// Why it is better whole.
    pub reason: &'static str,
}

/// There may be this many exceptions in the whole tree.
pub const EXCEPTIONS_MAX: usize = 10;

/// Exceptions that stay.
pub const EXCEPTIONS: &[Exception] = &[];

/// Ceilings of what is about to be cut, so that nothing grows until then. What a cut makes needless here is deleted with it.
pub const TEMPORARY: &[(Limit, &str, &str, usize)] = &[
    // the linker's, until a process has one model
    (Limit::Circle, "crates/causality/src", "", 2),
    (Limit::Struct, "crates/graph/src/records.rs", "End", 14),
    (Limit::Function, "crates/testkit/src/script/steps.rs", "step", 85),
    // what else grew with this round's first statements
    (Limit::File, "crates/decode/src/command_line.rs", "", 670),
    // the systems of three benches
    (Limit::File, "bench/parts/coverage.py", "", 610),
    (
        Limit::Function,
        "crates/wakepath/tests/first_contact.rs",
        "what_root_writes_for_somebody_goes_through_no_link",
        90,
    ),
];
