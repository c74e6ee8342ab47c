//! The list of readers: one line each. `cargo xtask tidy` holds it against `tests/golden/` and `docs/imports.md`.

/// A reader of other programs' files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The id used in documents and golden folders.
    pub id: &'static str,
    /// What it reads, for people.
    pub reads: &'static str,
}

/// All readers.
pub const ALL: &[Reader] = &[
    Reader { id: "read.ctf", reads: "LTTng and other Common Trace Format traces, versions 1.8 and 2" },
    Reader { id: "read.ftrace", reads: "trace.dat of trace-cmd, versions 6 and 7" },
    Reader { id: "read.marks", reads: "marks: annotations of state machines as text, as simulators print them" },
    Reader { id: "read.pcap", reads: "packet captures: pcap and pcapng, also packed by gzip or zstd" },
    Reader { id: "read.perf", reads: "perf.data with tracepoints, from a file or a pipe" },
];
