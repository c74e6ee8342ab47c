//! What only a trace in this format has to be counted.

use crate::readers::facts::Fault;

/// What was met besides events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that were read.
    pub events: u64,
    /// Packets.
    pub packets: u64,
    /// Events that the tracer says it lost between packets of the recording.
    pub lost_events: u64,
    /// Events that the tracer had lost when it closed the first packets: nobody knows how many of them belong to this
    /// recording.
    pub lost_before: u64,
    /// Packets whose numbers are missing.
    pub lost_packets: u64,
    /// Events earlier than the one before them in the same stream.
    pub steps_back: u64,
}

/// Counts, and the places where something was wrong.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub tally: Tally,
    pub faults: Vec<Fault>,
    pub fault_count: u64,
}

impl Ledger {
    pub fn fault(&mut self, defect: &'static str, file: &str, offset: u64, what: &str) {
        self.fault_count = self.fault_count.saturating_add(1);
        if self.faults.len() < crate::readers::facts::Counts::FAULTS {
            self.faults.push(Fault { defect, file: file.to_owned(), offset, what: what.to_owned() });
        }
    }
}
