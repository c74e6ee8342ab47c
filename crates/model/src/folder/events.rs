//! Rows in order of time, and typed rows frame by frame.

use super::reader::{FrameReader, Host};
use super::table_set::TableSet;
use crate::defects::id;
use crate::ids::MonoNs;
use crate::rows::{Event, EventRef, LossRow, Row, Table};
use std::ops::{Bound, RangeBounds};

/// Rows of frames that overlap in time are held together, up to so many bytes.
const HELD_BYTES_MAX: usize = 96 << 20;

/// First and last time of a range, both included.
pub(super) fn bounds(times: &impl RangeBounds<MonoNs>) -> (u64, u64) {
    let from = match times.start_bound() {
        Bound::Included(t) => t.0,
        Bound::Excluded(t) => t.0.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match times.end_bound() {
        Bound::Included(t) => t.0,
        Bound::Excluded(t) if t.0 == 0 => return (1, 0),
        Bound::Excluded(t) => t.0 - 1,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

/// Rows `from..=to` of sorted rows, as word offsets.
fn cut(words: &[u64], width: usize, from: u64, to: u64) -> (usize, usize) {
    let count = words.len() / width;
    let find = |is_before: &dyn Fn(u64) -> bool| {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            if is_before(words[middle * width]) { low = middle + 1 } else { high = middle }
        }
        low * width
    };
    let start = if from == 0 { 0 } else { find(&|at| at < from) };
    let end = if to == u64::MAX { count * width } else { find(&|at| at <= to) };
    (start, end.max(start))
}

/// What comes first where times are equal: what others name, before the others.
const fn rank(table: Table) -> u8 {
    match table {
        Table::Anchor => 0,
        Table::Task | Table::Placement => 1,
        Table::Endpoint => 2,
        Table::FlowNote => 3,
        Table::FlowState => 4,
        Table::Wait | Table::Park | Table::Ran | Table::Stay => 5,
        Table::Poll => 6,
        // behind the poll that gave it, before what is done with it
        Table::Input | Table::Handover | Table::Stream => 7,
        Table::Op => 8,
        Table::Message => 9,
        Table::MessageEnd => 10,
        Table::Loss | Table::Reduced => 11,
        Table::Stack | Table::Fault => 6,
        // before the waits that it ended
        Table::Packet => 4,
        Table::SniffedFlow => 2,
        Table::SniffedExchange => 9,
        Table::Limit | Table::Descriptor => 3,
        // before the waits that they prolonged
        Table::Resent => 4,
        Table::Mark => 9,
    }
}

/// A frame's rows, being given.
struct Source {
    words: Vec<u64>,
    at: usize,
    end: usize,
    width: usize,
    table: Table,
    /// What it is compared by where times are equal.
    behind: u64,
}

impl Source {
    /// `order`: the frame's index, in the order of first rows.
    fn new(words: Vec<u64>, rows: (usize, usize), table: Table, order: u32) -> Source {
        let behind = u64::from(rank(table)) << 32 | u64::from(order);
        Source { words, at: rows.0, end: rows.1, width: table.row_bytes() / 8, table, behind }
    }

    /// What it is compared by: the time of its next row, then its table, then its frame, as one number.
    #[inline]
    fn key(&self) -> u128 {
        key(self.words[self.at], self.behind)
    }
}

#[inline]
fn key(at: u64, behind: u64) -> u128 {
    u128::from(at) << 64 | u128::from(behind)
}

/// Rows in order of time: see [`Host::events`].
pub struct Events<'a> {
    host: &'a Host,
    from: u64,
    to: u64,
    read: FrameReader,
    waiting: std::vec::IntoIter<u32>,
    /// When the next of them begins, where there is one.
    next_first: Option<u64>,
    sources: Vec<Source>,
    /// Their keys, and which source each is of, the least last: they are looked at for nearly every row. The current
    /// source's is last, and behind.
    keys: Vec<(u128, usize)>,
    held: usize,
    held_max: usize,
    /// The source whose rows come now, and the key that they must stay below.
    current: usize,
    limit: u128,
    given: u64,
    late: u64,
    spare: Vec<Vec<u64>>,
    tells_losses: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(host: &'a Host, tables: TableSet, times: impl RangeBounds<MonoNs>) -> Events<'a> {
        let (from, to) = bounds(&times);
        let to = to.min(host.until);
        let mut events = Events {
            host,
            from,
            to,
            read: FrameReader::default(),
            waiting: host.select(tables, from, to).into_iter(),
            next_first: None,
            sources: Vec::new(),
            keys: Vec::new(),
            held: 0,
            held_max: HELD_BYTES_MAX,
            current: usize::MAX,
            limit: 0,
            given: 0,
            late: 0,
            spare: Vec::new(),
            tells_losses: tables.contains(Table::Loss),
        };
        events.next_first = events.first_of_next();
        events.add_losses(&host.missing_rows, u32::MAX);
        events
    }

    /// Adds losses that no frame holds.
    fn add_losses(&mut self, rows: &[LossRow], order: u32) {
        let words = bytemuck::cast_slice::<LossRow, u64>(rows).to_vec();
        let width = Table::Loss.row_bytes() / 8;
        let (at, end) = cut(&words, width, self.from, self.to);
        if self.tells_losses && at < end {
            self.held += words.len() * 8;
            self.add(Source::new(words, (at, end), Table::Loss, order));
        }
    }

    fn add(&mut self, source: Source) {
        let key = source.key();
        let place = self.keys.partition_point(|(k, _)| *k > key);
        self.keys.insert(place, (key, self.sources.len()));
        self.sources.push(source);
    }

    /// Puts the current source where the key of its next row belongs: mostly one of the last places.
    fn put_back(&mut self) {
        let Some(source) = self.sources.get(self.current) else { return };
        let key = source.key();
        let mut place = self.keys.len() - 1;
        while place > 0 && self.keys[place - 1].0 < key {
            self.keys[place] = self.keys[place - 1];
            place -= 1;
        }
        self.keys[place] = (key, self.current);
    }

    fn first_of_next(&self) -> Option<u64> {
        self.waiting.as_slice().first().map(|i| self.host.frames[*i as usize].header.first)
    }

    /// Loads the next frame, where it has a row to give.
    fn load(&mut self) {
        let Some(order) = self.waiting.next() else {
            return;
        };
        let frame = self.host.frames[order as usize];
        self.next_first = self.first_of_next();
        let mut words = self.spare.pop().unwrap_or_default();
        if let Some((table, rows)) = self.read.rows(self.host, &frame, &mut words) {
            let width = table.row_bytes() / 8;
            let (at, end) = cut(&words[..rows], width, self.from, self.to);
            if at < end {
                self.held += words.len() * 8;
                self.add(Source::new(words, (at, end), table, order));
                return;
            }
        } else {
            self.add_losses(&[self.host.unreadable(&frame.header)], order);
        }
        self.spare.push(words);
    }

    /// Finds the source that comes next and how far it may go.
    #[cold]
    fn choose(&mut self) -> bool {
        self.put_back();
        loop {
            let may_load = self.next_first.filter(|_| self.held < self.held_max);
            let Some(&(least, current)) = self.keys.last() else {
                if self.next_first.is_none() {
                    return false;
                }
                self.load();
                continue;
            };
            if may_load.is_some_and(|first| first <= (least >> 64) as u64) {
                self.load();
                continue;
            }
            let second = self.keys.len().checked_sub(2).map_or(u128::MAX, |i| self.keys[i].0);
            self.current = current;
            self.limit = second.min(may_load.map_or(u128::MAX, |first| key(first, 0)));
            return true;
        }
    }

    /// Whether there is another row; then the current source has it.
    #[inline]
    fn has_next(&mut self) -> bool {
        match self.sources.get(self.current) {
            Some(s) if s.at >= s.end => self.retire(),
            Some(s) if s.key() < self.limit => return true,
            _ => {}
        }
        self.choose()
    }

    /// When the next row is.
    pub fn next_at(&mut self) -> Option<MonoNs> {
        let source = if self.has_next() { self.sources.get(self.current) } else { None };
        source.map(|s| MonoNs(s.words[s.at]))
    }

    /// The next row, where it was read to.
    #[inline]
    pub fn next_ref(&mut self) -> Option<EventRef<'_>> {
        if !self.has_next() {
            return None;
        }
        let source = self.sources.get_mut(self.current)?;
        let row = &source.words[source.at..source.at + source.width];
        // taken away with the next call: its row is in use until then
        source.at += source.width;
        if row[0] < self.given {
            self.late += 1;
        } else {
            self.given = row[0];
        }
        EventRef::of_words(source.table, row)
    }

    /// Takes an exhausted source away.
    #[cold]
    fn retire(&mut self) {
        let source = self.sources.swap_remove(self.current);
        self.keys.pop();
        if let Some((_, moved)) = self.keys.iter_mut().find(|(_, s)| *s == self.sources.len()) {
            *moved = self.current;
        }
        self.held -= source.words.len() * 8;
        if self.spare.len() < 64 {
            self.spare.push(source.words);
        }
        self.current = usize::MAX;
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        self.next_ref().map(EventRef::owned)
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        if self.late > 0
            && let Some(frame) = self.host.frames.first()
        {
            self.host.defect(id::LATE_ROWS, self.late, frame);
        }
    }
}

/// Rows of one frame.
pub struct Batch {
    table: Table,
    words: Vec<u64>,
    start: usize,
    end: usize,
}

impl Batch {
    /// Their table.
    pub fn table(&self) -> Table {
        self.table
    }

    /// How many.
    pub fn row_count(&self) -> usize {
        (self.end - self.start) * 8 / self.table.row_bytes()
    }

    /// The rows; none where they are of another table.
    pub fn rows<R: Row>(&self) -> &[R] {
        if R::TABLE == self.table {
            // they were looked at when the frame was read
            bytemuck::checked::try_cast_slice(&self.words[self.start..self.end]).unwrap_or_default()
        } else {
            &[]
        }
    }
}

/// Typed rows frame by frame: see [`Host::batches`].
pub struct Batches<'a> {
    host: &'a Host,
    from: u64,
    to: u64,
    read: FrameReader,
    waiting: std::vec::IntoIter<u32>,
    spare: Vec<u64>,
    /// Losses are among the rows; and those that no frame holds are still to be given.
    tells_losses: bool,
    missing_due: bool,
}

impl<'a> Batches<'a> {
    pub(super) fn new(host: &'a Host, tables: TableSet, times: impl RangeBounds<MonoNs>) -> Batches<'a> {
        let (from, to) = bounds(&times);
        let to = to.min(host.until);
        let waiting = host.select(tables, from, to).into_iter();
        let tells_losses = tables.contains(Table::Loss);
        let (read, spare) = (FrameReader::default(), Vec::new());
        Batches { host, from, to, read, waiting, spare, tells_losses, missing_due: tells_losses }
    }

    /// A batch of losses that no frame holds, where they are asked for.
    fn losses(&self, rows: &[LossRow]) -> Option<Batch> {
        let words = bytemuck::cast_slice::<LossRow, u64>(rows).to_vec();
        let (start, end) = cut(&words, Table::Loss.row_bytes() / 8, self.from, self.to);
        (self.tells_losses && start < end).then_some(Batch { table: Table::Loss, words, start, end })
    }

    /// Gives a batch's memory back for the next one.
    pub fn recycle(&mut self, batch: Batch) {
        self.spare = batch.words;
    }
}

impl Iterator for Batches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        if std::mem::take(&mut self.missing_due)
            && let Some(losses) = self.losses(&self.host.missing_rows)
        {
            return Some(losses);
        }
        loop {
            let frame = self.host.frames[self.waiting.next()? as usize];
            let mut words = std::mem::take(&mut self.spare);
            if let Some((table, rows)) = self.read.rows(self.host, &frame, &mut words) {
                let (start, end) = cut(&words[..rows], table.row_bytes() / 8, self.from, self.to);
                if start < end {
                    return Some(Batch { table, words, start, end });
                }
            } else if let Some(losses) = self.losses(&[self.host.unreadable(&frame.header)]) {
                return Some(losses);
            }
            self.spare = words;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{Durability, Folder, FolderWriter, HostInfo, Options};
    use crate::rows::AnchorRow;

    #[test]
    fn what_the_bound_cannot_bear_is_late_and_counted() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("t");
        let mut w = FolderWriter::create(&path, HostInfo::default(), Options::default())?;
        for batch in 0..3u64 {
            for i in 0..100u64 {
                // The batches interleave throughout.
                w.push(&AnchorRow { at: MonoNs(i * 10 + batch), real_ns: 0, error_ns: 0, ..Default::default() });
            }
            w.flush(Durability::Write)?;
        }
        w.close()?;
        let folder = Folder::open(&[&path])?;
        let host = &folder.hosts()[0];
        let whole: Vec<Event> = host.events(TableSet::ALL, ..).collect();
        assert!(whole.len() == 300 && whole.is_sorted_by_key(Event::at));
        assert!(folder.defects().is_empty());

        let mut bounded = host.events(TableSet::ALL, ..);
        bounded.held_max = 1;
        assert_eq!(bounded.by_ref().count(), 300);
        drop(bounded);
        assert!(folder.ledger().count(id::LATE_ROWS) > 0);
        Ok(())
    }

    #[test]
    fn bounds_of_ranges() {
        assert_eq!(bounds(&(..)), (0, u64::MAX));
        assert_eq!(bounds(&(MonoNs(3)..MonoNs(5))), (3, 4));
        assert_eq!(bounds(&(MonoNs(3)..=MonoNs(5))), (3, 5));
        assert_eq!(bounds(&(..MonoNs(0))), (1, 0));
    }
}
