//! What every reader says of itself, and what every reader of a kernel's trace does.

use super::facts::{Counts, HostFacts, Progress};
use super::source::Part;
use crate::raw::RawSink;

/// What a reader's files hold, and so what is made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Events of a kernel: the reader is a [`TraceReader`].
    KernelEvents,
    /// Annotations of state machines: [`super::marks::MarksReader`].
    Marks,
    /// Packets: [`super::pcap::PcapReader`].
    Packets,
}

/// How a trace lies on the disk.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// One file.
    File,
    /// A folder.
    Folder {
        /// The file in it by whose first bytes the format is known.
        marker: &'static str,
        /// Whether another file of the folder belongs to the trace, by its name (without folders).
        holds: fn(&str) -> bool,
    },
}

/// A folder that looks like one of the format's traces and cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// A file in it that begins as the format does.
    pub file: &'static str,
    /// What the folder is, and what to do then.
    pub why: &'static str,
}

/// What a reader says of itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The id used in documents and golden folders.
    pub id: &'static str,
    /// What the format is called, as answers print it.
    pub name: &'static str,
    /// What it reads, as `docs/imports.md` says it (Markdown).
    pub reads: &'static str,
    /// What the files hold.
    pub content: Content,
    /// How a trace lies on the disk.
    pub layout: Layout,
    /// A folder of the same tracer that is not read.
    pub refused: Option<Refused>,
}

/// A reader of other programs' files.
pub trait Reader {
    /// What it says of itself.
    const ABOUT: About;

    /// Whether a file that begins so (512 bytes, or all that there are) is one for this reader: the file itself, or the
    /// [`Layout::Folder`]'s marker.
    fn fits(head: &[u8]) -> bool;
}

/// A trace that says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which.
    pub name: String,
    /// What is wrong with it, and what to do.
    pub why: String,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.why)
    }
}

impl std::error::Error for Unreadable {}

/// A reader of a kernel's trace: [raw events](crate::raw) out, in order of time.
pub trait TraceReader: Reader + Sized {
    /// Reads what stands before the first event. `parts` are of one trace ([`TraceReader::trace_id`]); of a format whose
    /// traces have no parts, only the first is read. What cannot be read is a fault in [`TraceReader::counts`].
    ///
    /// # Errors
    /// Nothing says how the events are laid out.
    fn open(parts: Vec<Part>) -> Result<Self, Unreadable>;

    /// What the trace says of its host; complete when all was read, mostly so before.
    fn facts(&self) -> &HostFacts;

    /// An id that all parts of one trace share. `None`: the trace has no other parts.
    fn trace_id(&self) -> Option<String> {
        None
    }

    /// Whether it is a trace of a kernel, and not of a program.
    fn is_of_kernel(&self) -> bool {
        true
    }

    /// Reads on for some thousand events. `false` at the end.
    fn next<S: RawSink>(&mut self, sink: &mut S) -> bool;

    /// Reads all.
    fn run<S: RawSink>(&mut self, sink: &mut S) {
        while self.next(sink) {}
    }

    /// What was read so far.
    fn counts(&self) -> Counts;

    /// How far it is.
    fn progress(&self) -> Progress;
}
