//! Reading the newest part of a folder: what a flight recorder would have left that deleted all segments before it.

use super::info::segment_name;
use super::list::FoundList;
use crate::ids::MonoNs;
use rustc_hash::FxHashSet;
use std::path::{Path, PathBuf};

/// How much of each host's recordings is read. A part begins with a segment, each of which says again what stands alone, so a
/// part is a recording that began there: what was under way before is not known, and nothing is linked to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All.
    #[default]
    All,
    /// From the last segment on that begins at this time or before, on the host's monotonic clock.
    Since(MonoNs),
    /// The same of a time so long (ns) before the host's newest row.
    Last(u64),
    /// About so many bytes, as new as they are: to the end, or where the newest segment is longer its begin, as if the recording
    /// had ended there.
    Sample(u64),
}

impl Part {
    /// Takes the segments of a host that are not read off its lists; gives their files. What no list names is read.
    pub(super) fn leave_out(self, lists: &mut [FoundList]) -> FxHashSet<PathBuf> {
        let mut left_out = FxHashSet::default();
        let ends = |f: &FoundList| f.list.iter().flat_map(|l| &l.segments).map(|s| s.last).max();
        let Some(newest) = lists.iter().filter_map(ends).max() else { return left_out };
        let since = match self {
            Part::All => return left_out,
            Part::Since(at) => at.0,
            Part::Last(ns) => newest.saturating_sub(ns),
            Part::Sample(bytes) => begin_of(lists, bytes),
        };
        for found in lists {
            let is_over = ends(found).is_some_and(|end| end < since && end < newest);
            let Some(list) = &mut found.list else { continue };
            let begins = |s: &super::list::Entry| s.rows > 0 && s.first <= since;
            let first = if is_over { list.segments.len() } else { list.segments.iter().rposition(begins).unwrap_or(0) };
            let dir = found.path.parent().unwrap_or(Path::new(""));
            for _ in 0..first {
                left_out.insert(dir.join(segment_name(list.take_oldest().0.number)));
            }
        }
        left_out
    }
}

/// When the part begins that is about so many bytes: as many of the newest segments as there is room for, where they fill half
/// of it; else the newest one that has more behind its begin.
fn begin_of(lists: &[FoundList], bytes: u64) -> u64 {
    let segments = lists.iter().filter_map(|l| l.list.as_ref()).flat_map(|l| &l.segments).filter(|s| s.rows > 0);
    let mut begins: Vec<(u64, u64)> = segments.map(|s| (s.first, s.bytes)).collect();
    begins.sort_unstable_by(|a, b| b.cmp(a));
    let mut behind = 0;
    let mut fits = (0, 0);
    for (first, of) in begins {
        behind += of;
        if behind > bytes {
            return if fits.0 >= bytes / 2 { fits.1 } else { first };
        }
        fits = (behind, first);
    }
    0
}
