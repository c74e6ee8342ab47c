//! How a folder is written, and what came of it.

/// What to do where the output exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Refuse.
    #[default]
    Refuse,
    /// Add a recording to the folder.
    Append,
    /// Remove first what Wakepath wrote there, if it is a trace folder. What somebody else put there stays.
    Force,
}

/// How to write.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to do where the output exists.
    pub overwrite: Overwrite,
    /// A segment is closed at this size.
    pub max_segment_bytes: u64,
    /// For those who read along: a segment is closed when it has this much time (ns) and at least this many bytes. Each costs the
    /// state that it begins with.
    pub part: Option<(u64, u64)>,
    /// Flight recorder: bytes of segments to keep.
    pub max_bytes: Option<u64>,
    /// Flight recorder: time to keep.
    pub keep_ns: Option<u64>,
    /// Whether to compress.
    pub compress: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            overwrite: Overwrite::Refuse,
            max_segment_bytes: 64 << 20,
            part: None,
            max_bytes: None,
            keep_ns: None,
            compress: true,
        }
    }
}

/// What a flush must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The kernel: survives our own end.
    Write,
    /// The disk: survives the machine's.
    Sync,
}

/// What a writer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteCounts {
    /// Rows written.
    pub rows: u64,
    /// Bytes written, flight recorder's deletions not taken off.
    pub bytes: u64,
    /// Rows that could not be written.
    pub lost_rows: u64,
    /// Segments that the flight recorder deleted.
    pub deleted_segments: u64,
}
