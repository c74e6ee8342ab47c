//! What every reader says of its source beside its events.

use std::collections::BTreeMap;

/// What a trace says of the host that it was taken on; empty or `None` where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Host name.
    pub hostname: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel_release: String,
    /// Machine, as `uname -m` prints it.
    pub arch: String,
    /// Processors, 0 where not known.
    pub cpus: u32,
    /// Random id of the boot, with hyphens.
    pub boot_id: String,
    /// The clock of all times: `monotonic`, `boottime`, `perf`, `local`, or as the tracer calls it.
    pub clock: String,
    /// Wall-clock time (ns since 1970) minus that clock.
    pub wall_offset_ns: Option<i64>,
}

/// A place in a source that could not be read as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Id in the central list of defects.
    pub defect: &'static str,
    /// The file within the source, empty where the source is one file.
    pub file: String,
    /// Offset in that file, in bytes.
    pub offset: u64,
    /// What was met there.
    pub what: String,
}

/// What was read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events by name, known to us or not.
    pub events: BTreeMap<String, u64>,
    /// Events that the tracer lost, as far as it says.
    pub lost: u64,
    /// Places that could not be read, the first [`Counts::FAULTS`] of them.
    pub faults: Vec<Fault>,
    /// How many there are in all.
    pub fault_count: u64,
}

impl Counts {
    /// How many faults are kept with their place.
    pub const FAULTS: usize = 64;

    /// Notes a fault.
    pub fn fault(&mut self, defect: &'static str, file: &str, offset: u64, what: impl Into<String>) {
        self.fault_count += 1;
        if self.faults.len() < Self::FAULTS {
            self.faults.push(Fault { defect, file: file.to_owned(), offset, what: what.into() });
        }
    }

    /// What points beyond the file's end is missing from there on.
    pub(super) fn within(&mut self, file_bytes: u64) {
        self.faults.iter_mut().for_each(|f| f.offset = f.offset.min(file_bytes));
    }

    /// Events in all.
    pub fn total(&self) -> u64 {
        self.events.values().sum()
    }
}

/// How far a reader is, in bytes of its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub done: u64,
    /// Bytes in all, as far as is known now.
    pub total: u64,
}
