//! `wakepath import`: what was read of each host and what became of it.

use serde::Serialize;

/// Schema of the JSON answer.
pub const SCHEMA: &str = "wakepath.import/1";

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportView {
    /// The folder that was made or added to.
    pub output: String,
    /// The hosts of the sources, in the order in which they were named.
    pub hosts: Vec<HostView>,
    /// Traces of programs (user space) among the sources, which were left out.
    pub traces_left_out: u64,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostView {
    /// Its name, told apart from others of the same name in the folder.
    pub host: String,
    /// Boot id, or what stands in for it.
    pub boot_id: String,
    /// The traces that were read, in order of reading.
    pub sources: Vec<SourceView>,
    /// Time of the first event, on the host's own clock; none where no event was of use.
    pub from_ns: Option<u64>,
    /// Time of the last one.
    pub to_ns: Option<u64>,
    /// Events read.
    pub events: u64,
    /// Events that the tracer lost, as far as it says.
    pub events_lost: u64,
    /// Rows written.
    pub rows: u64,
    /// Wait rows among them, those that went on at the end included.
    pub waits: u64,
    /// Waits still going on at the end.
    pub open_waits: u64,
    /// Packet rows.
    pub packets: u64,
    /// Every name of an event and how often it was read, by name.
    pub names: Vec<NameView>,
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceView {
    /// The file, or the folder with its metadata.
    pub path: String,
    /// `CTF`, `perf.data` or `trace.dat`.
    pub format: &'static str,
    /// Bytes that hold events, without metadata.
    pub bytes: u64,
}

/// Events of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NameView {
    /// As the tracer calls it.
    pub name: String,
    /// How many.
    pub count: u64,
}
