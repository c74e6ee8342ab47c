//! Readers of other tracers' files: bytes in, [raw events](crate::raw) out. They open no file: the caller hands them
//! files that it opened. Of a packet capture packets go out, for [`crate::network`].
//!
//! This is the list of them: a reader has a file (or folder) of its own, a `mod` and a line below, and golden cases in
//! `tests/golden/ID/`. `cargo xtask tidy` holds it against these and against `docs/imports.md`.

pub mod ctf;
pub mod ftrace;
pub mod marks;
pub mod pcap;
pub mod perf;

mod facts;
mod lttng;
mod reader;
mod registry;
mod source;
mod tracefs;
mod tracepoints;
mod window;

pub use facts::{Counts, Fault, HostFacts, Progress};
pub use reader::{About, Content, Layout, Reader, Refused, TraceReader, Unreadable};
pub use source::{File, Part, ReadAt};

use crate::raw::RawSink;

registry::registry! {
    KernelEvents {
        Perf(perf::PerfReader),
        Ftrace(ftrace::FtraceReader),
        Ctf(ctf::CtfReader),
    }
    Other {
        Marks(marks::MarksReader),
        Pcap(pcap::PcapReader),
    }
}
