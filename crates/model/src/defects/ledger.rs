//! Counting defects.

use super::{Defect, find};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where a defect was met first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub file: Arc<Path>,
    /// Byte offset in it.
    pub offset: u64,
    /// What there, in words for people; empty where the place says it all.
    pub what: String,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.file.display(), self.offset)?;
        if self.what.is_empty() { Ok(()) } else { write!(f, " ({})", self.what) }
    }
}

/// A defect and how often it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefectCount {
    /// Which.
    pub defect: &'static Defect,
    /// How often.
    pub count: u64,
    /// Where first, if it has a place.
    pub first: Option<Location>,
}

/// Counts defects; shared by all that read one folder.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<&'static str, DefectCount>>>);

impl Ledger {
    /// Counts `count` of the defect `id`; an id that is not in [`ALL`] is a fault of ours and is not counted.
    pub fn add(&self, id: &str, count: u64, place: Option<(&Path, u64)>) {
        self.add_what(id, count, place, String::new);
    }

    /// The same; `what` says what was met at the place, and is asked only where that is the first.
    pub fn add_what(&self, id: &str, count: u64, place: Option<(&Path, u64)>, what: impl FnOnce() -> String) {
        debug_assert!(find(id).is_some(), "{id} is not in the list of defects");
        let Some(defect) = find(id) else { return };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = counts.entry(defect.id).or_insert_with(|| DefectCount {
            defect,
            count: 0,
            first: place.map(|(file, offset)| Location { file: Arc::from(PathBuf::from(file)), offset, what: what() }),
        });
        entry.count = entry.count.saturating_add(count);
    }

    /// What was counted so far, by id.
    pub fn counts(&self) -> Vec<DefectCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// How often one defect was met.
    pub fn count(&self, id: &str) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).map_or(0, |c| c.count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::id;
    use super::*;

    #[test]
    fn ledger_counts_and_keeps_the_first_place() {
        let ledger = Ledger::default();
        ledger.add(id::FOLDER_CRC, 1, Some((Path::new("a.seg"), 64)));
        ledger.add(id::FOLDER_CRC, 2, Some((Path::new("b.seg"), 128)));
        let counts = ledger.counts();
        assert_eq!(counts.len(), 1);
        assert_eq!(counts[0].count, 3);
        assert_eq!(counts[0].first.as_ref().map(ToString::to_string).as_deref(), Some("a.seg at byte 64"));
    }
}
