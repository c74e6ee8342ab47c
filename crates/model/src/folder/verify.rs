//! What a recording had, by the lists of its segments, against what was found.

use super::info::segment_name;
use super::list::{Entry, FoundList, List};
use super::scan::Scanned;
use crate::defects::{Ledger, id};
use crate::ids::MonoNs;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// More losses of one host are told as one.
const MISSING_MAX: usize = 4096;

/// Something that a recording had and that was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The defect's id.
    pub defect: &'static str,
    /// How many segments, frames or rows, as the defect says.
    pub count: u64,
    /// How many rows; none where nothing says so.
    pub rows: Option<u64>,
    /// From when on rows may be missing, on the host's monotonic clock.
    pub from: MonoNs,
    /// Until when.
    pub to: MonoNs,
    /// Where the first of it should be.
    pub path: PathBuf,
}

/// What was found of one segment, in all of its copies.
#[derive(Default)]
struct Found {
    path: PathBuf,
    /// Number, rows, first and last time of each frame.
    frames: Vec<(u32, u64, u64, u64)>,
    left_out: Vec<u32>,
    is_listed: bool,
}

impl Found {
    fn rows(&self) -> u64 {
        self.frames.iter().map(|f| f.1).sum()
    }

    fn first(&self) -> Option<u64> {
        self.frames.iter().map(|f| f.2).min()
    }

    fn last(&self) -> Option<u64> {
        self.frames.iter().map(|f| f.3).max()
    }
}

/// Segments by recording and number.
type Segments = FxHashMap<u64, BTreeMap<u32, Found>>;

fn segments(scanned: &[(Scanned, PathBuf)]) -> Segments {
    let mut all = Segments::default();
    for (s, path) in scanned {
        let found = all.entry(s.header.recording).or_default().entry(s.header.number).or_default();
        found.path.clone_from(path);
        found.is_listed |= s.header.is_listed;
        found.left_out.extend(&s.left_out);
        let rows = |f: &super::layout::FrameHeader| if f.table().is_some() { u64::from(f.rows) } else { 0 };
        found.frames.extend(s.frames.iter().map(|(_, f)| (f.sequence, rows(f), f.first, f.last)));
    }
    for found in all.values_mut().flat_map(|r| r.values_mut()) {
        found.frames.sort_unstable();
        found.frames.dedup_by_key(|f| f.0);
    }
    all
}

/// What is missing of a host's recordings; what is wrong with their lists is counted in `ledger`.
pub(super) fn missing(scanned: &[(Scanned, PathBuf)], lists: &[FoundList], ledger: &Ledger) -> Vec<Missing> {
    let segments = segments(scanned);
    let mut out = Vec::new();
    let mut listed = FxHashSet::default();
    for found in newest(lists, ledger) {
        let Some(list) = &found.list else { continue };
        listed.insert(list.recording);
        let host_dir = found.path.parent().unwrap_or(Path::new(""));
        by_list(list, host_dir, segments.get(&list.recording), &mut out);
        if !found.is_whole {
            by_numbers(list.recording, list.deleted.number, &segments, &mut out);
        } else if found.is_locked {
            ledger.add(id::FOLDER_OPEN, 1, Some((&found.path, 0)));
        } else if !list.is_ended {
            ledger.add(id::FOLDER_NOT_ENDED, 1, Some((&found.path, 0)));
        }
    }
    for (recording, found) in segments.iter().filter(|(r, _)| !listed.contains(*r)) {
        by_numbers(*recording, 0, &segments, &mut out);
        if let Some(first) = found.values().find(|f| f.is_listed) {
            // an unreadable list was counted where it lies
            if lists.iter().all(|l| l.list.is_some()) {
                ledger.add(id::FOLDER_LIST, 1, Some((&first.path.with_extension("list"), 0)));
            }
        }
        for (number, of) in found {
            frames(&Entry { number: *number, ..Entry::default() }, of, &mut out);
        }
    }
    out.sort_by(|a, b| (a.to, &a.path).cmp(&(b.to, &b.path)));
    for m in &out {
        ledger.add(m.defect, m.count, Some((&m.path, 0)));
    }
    fold(&mut out);
    out
}

/// Bounds how many are told apart.
fn fold(all: &mut Vec<Missing>) {
    for last in all.split_off(all.len().min(MISSING_MAX)) {
        let Some(known) = all.iter_mut().rev().find(|m| m.defect == last.defect) else { continue };
        known.count += last.count;
        known.rows = known.rows.zip(last.rows).map(|(a, b)| a + b);
        (known.from, known.to) = (known.from.min(last.from), known.to.max(last.to));
    }
}

/// Of each recording the newest of its lists; damaged ones are counted.
pub(super) fn newest<'a>(lists: &'a [FoundList], ledger: &Ledger) -> Vec<&'a FoundList> {
    let mut newest: Vec<&FoundList> = Vec::new();
    for found in lists {
        if !found.is_whole {
            ledger.add(id::FOLDER_LIST, 1, Some((&found.path, 0)));
        }
        let Some(list) = &found.list else { continue };
        let rank = |f: &FoundList| (f.is_whole, f.list.as_ref().map(|l| l.updates));
        match newest.iter_mut().find(|n| n.list.as_ref().is_some_and(|l| l.recording == list.recording)) {
            Some(known) if rank(known) < rank(found) => *known = found,
            Some(_) => {}
            None => newest.push(found),
        }
    }
    newest
}

/// What a list names and what was not found.
fn by_list(list: &List, host_dir: &Path, found: Option<&BTreeMap<u32, Found>>, out: &mut Vec<Missing>) {
    let mut run: Option<(u32, Missing)> = None;
    for entry in &list.segments {
        if let Some(of) = found.and_then(|f| f.get(&entry.number)) {
            frames(entry, of, out);
            continue;
        }
        let (from, to) = (MonoNs(entry.first), MonoNs(entry.last));
        match &mut run {
            Some((next, m)) if *next == entry.number => {
                *next += 1;
                m.count += 1;
                m.rows = m.rows.map(|r| r + entry.rows);
                if entry.rows > 0 {
                    (m.from, m.to) = (if m.to.0 == 0 { from } else { m.from.min(from) }, m.to.max(to));
                }
            }
            _ => {
                let path = host_dir.join(segment_name(entry.number));
                let m = Missing { defect: id::FOLDER_SEGMENT, count: 1, rows: Some(entry.rows), from, to, path };
                out.extend(run.replace((entry.number + 1, m)).map(|r| r.1));
            }
        }
    }
    out.extend(run.map(|r| r.1));
    let lost = &list.unwritten;
    if lost.rows > 0 {
        out.push(Missing {
            defect: id::DISK,
            count: lost.rows,
            rows: Some(lost.rows),
            from: MonoNs(lost.first),
            to: MonoNs(lost.last),
            path: host_dir.to_owned(),
        });
    }
}

/// Segments whose numbers are missing between others, where no list says what there was.
fn by_numbers(recording: u64, kept_from: u32, segments: &Segments, out: &mut Vec<Missing>) {
    let Some(found) = segments.get(&recording) else { return };
    // two recorders at once take numbers in turns
    let of_others: FxHashSet<u32> =
        segments.iter().filter(|(r, _)| **r != recording).flat_map(|(_, s)| s.keys().copied()).collect();
    for ((a, before), (b, after)) in found.iter().zip(found.iter().skip(1)) {
        let known = out.iter().any(|m| m.path == before.path.with_file_name(segment_name(a + 1)));
        let between = (a + 1).max(kept_from)..*b;
        let others = of_others.iter().filter(|n| between.contains(n)).count();
        let count = between.len().saturating_sub(others) as u64;
        if count > 0 && !known {
            let (from, to) = (before.last().unwrap_or(0), after.first().unwrap_or(0));
            let path = before.path.with_file_name(segment_name(between.start));
            let (from, to) = (MonoNs(from.min(to)), MonoNs(from.max(to)));
            out.push(Missing { defect: id::FOLDER_SEGMENT, count, rows: None, from, to, path });
        }
    }
}

/// Frames of a segment that are missing by their numbers, or by what its list says. An entry without frames says nothing.
fn frames(entry: &Entry, found: &Found, out: &mut Vec<Missing>) {
    let mut numbers: Vec<u32> = found.frames.iter().map(|f| f.0).chain(found.left_out.iter().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let end = numbers.last().map_or(0, |n| n + 1).max(entry.frames);
    let count = u64::from(end) - numbers.len() as u64;
    if count == 0 {
        return;
    }
    let times = |next: u32| {
        let i = found.frames.partition_point(|f| f.0 < next);
        let before = i.checked_sub(1).map(|i| found.frames[i].2);
        let after = found.frames.get(i).map(|f| f.3);
        (before, after)
    };
    let (mut from, mut to) = (u64::MAX, 0);
    let mut next = 0;
    for number in numbers.iter().copied().chain([end]) {
        if number > next {
            let (before, after) = times(next);
            // rows of one flush are in several frames, one for each table: what is beside the hole has its times
            from = from.min(before.or((entry.rows > 0).then_some(entry.first)).or(after).unwrap_or(0));
            to = to.max(after.or((entry.rows > 0).then_some(entry.last)).or(before).unwrap_or(0));
        }
        next = number.saturating_add(1);
    }
    let rows = (entry.frames > 0).then(|| entry.rows.saturating_sub(found.rows()));
    let (from, to) = (MonoNs(from.min(to)), MonoNs(to));
    out.push(Missing { defect: id::FOLDER_GAP, count, rows, from, to, path: found.path.clone() });
}
