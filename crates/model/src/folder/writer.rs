//! Writing a folder: rows are gathered in a batch and written as frames, one table each.

use super::error::FolderError;
use super::info::{self, HostInfo, segment_name};
use super::layout::FrameHeader;
use super::list::{Entry, ListFile};
use super::options::{Durability, Options, WriteCounts};
use super::output;
use super::pending::{Pending, word32};
use super::segment::Segment;
use crate::defects;
use crate::ids::{EndpointId, MonoNs, StrId};
use crate::intern::Interner;
use crate::rows::{Event, LossRow, Row};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A batch of this many bytes is written without being asked.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// A raw head is never longer.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// How often the list of segments is brought up to date: a killed recorder's last rows beyond that are not missed.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// A flight recorder keeps about so many segments, so that deleting one loses a small part.
const FLIGHT_PARTS: u64 = 8;

/// Writes one host's recording into a folder.
pub struct FolderWriter {
    host_dir: PathBuf,
    host: u64,
    recording: u64,
    options: Options,
    segment: Segment,
    list: ListFile,
    listed: Instant,
    needs_state: bool,
    interner: Interner,
    overflow_reported: u64,
    /// By string: the era in which it was defined last.
    defined: Vec<u32>,
    /// Counts segments and failures of this writer: definitions of an earlier era are due again.
    era: u32,
    pending: Pending,
    out: Vec<u8>,
    /// Failure of a flush that nobody asked for.
    failure: Option<FolderError>,
    /// Rows that were lost and not yet told in a loss row.
    unreported: Entry,
    counts: WriteCounts,
}

impl FolderWriter {
    /// Makes the folder or opens it for appending, and begins a recording of `host`.
    pub fn create(dir: impl AsRef<Path>, host: HostInfo, options: Options) -> Result<FolderWriter, FolderError> {
        let host_hash = host.host_hash();
        let (host_dir, number) = output::prepare(dir.as_ref(), host, options.overwrite)?;
        let recording = RandomState::new().hash_one((info::created_real_ns(), std::process::id()));
        let segment = Segment::create(&host_dir, number, recording, host_hash)?;
        let mut list = ListFile::create(&host_dir, segment.entry.number, recording, host_hash)?;
        list.list.segments.push(segment.entry);
        list.write()?;
        output::sync_dir(&host_dir);
        Ok(FolderWriter {
            host_dir,
            host: host_hash,
            recording,
            options,
            segment,
            list,
            listed: Instant::now(),
            needs_state: false,
            interner: Interner::new(),
            overflow_reported: 0,
            defined: Vec::new(),
            era: 1,
            pending: Pending::default(),
            out: Vec::new(),
            failure: None,
            unreported: Entry::default(),
            counts: WriteCounts::default(),
        })
    }

    /// The id of a string, for rows of this writer.
    pub fn intern(&mut self, text: impl AsRef<[u8]>) -> StrId {
        self.interner.intern(text)
    }

    /// The strings of this recording.
    pub fn interner(&self) -> &Interner {
        &self.interner
    }

    /// Adds a row to the batch. A full batch is written; the next [`FolderWriter::flush`] tells whether that failed.
    #[inline]
    pub fn push<R: Row>(&mut self, row: &R) {
        self.add(row);
        if self.pending.bytes >= BATCH_BYTES_MAX {
            self.flush_unasked();
        }
    }

    /// Adds a row of any table.
    pub fn push_event(&mut self, event: &Event) {
        match event {
            Event::Op(r) => self.push(r),
            Event::Message(r) => self.push(r),
            Event::MessageEnd(r) => self.push(r),
            Event::Endpoint(r) => self.push(r),
            Event::FlowState(r) => self.push(r),
            Event::Wait(r) => self.push(r),
            Event::Poll(r) => self.push(r),
            Event::Task(r) => self.push(r),
            Event::Loss(r) => self.push(r),
            Event::Anchor(r) => self.push(r),
            Event::FlowNote(r) => self.push(r),
            Event::Packet(r) => self.push(r),
            Event::Stack(r) => self.push(r),
            Event::Input(r) => self.push(r),
            Event::SniffedFlow(r) => self.push(r),
            Event::SniffedExchange(r) => self.push(r),
            Event::Mark(r) => self.push(r),
            Event::Limit(r) => self.push(r),
            Event::Fault(r) => self.push(r),
            Event::Descriptor(r) => self.push(r),
            Event::Resent(r) => self.push(r),
            Event::Placement(r) => self.push(r),
            Event::Handover(r) => self.push(r),
            Event::Stream(r) => self.push(r),
            Event::Park(r) => self.push(r),
            Event::Ran(r) => self.push(r),
            Event::Stay(r) => self.push(r),
            Event::Reduced(r) => self.push(r),
        }
    }

    /// Adds a raw head: only where the user asked for payload. What is longer than 1 MiB is cut.
    pub fn push_head(&mut self, at: MonoNs, flow: EndpointId, pos: u64, sent: bool, bytes: &[u8]) {
        self.pending.push_head(at.0, flow.0, pos, sent, &bytes[..bytes.len().min(HEAD_BYTES_MAX)]);
        if self.pending.bytes >= BATCH_BYTES_MAX {
            self.flush_unasked();
        }
    }

    /// Counts something lost, as a row; `defect` is an id of [`crate::defects`].
    pub fn push_loss(&mut self, defect: &str, count: u64, from: MonoNs, at: MonoNs) {
        debug_assert!(defects::find(defect).is_some(), "{defect} is not in the list of defects");
        let what = self.interner.intern(defect);
        self.push(&LossRow { at, from, count, what, ..Default::default() });
    }

    /// True once after a new segment was begun (and after a failure): then live endpoints, tasks and notes are to be
    /// pushed again, so that the segment can be read without those before it.
    pub fn needs_state(&mut self) -> bool {
        std::mem::take(&mut self.needs_state)
    }

    /// Bytes that wait to be written.
    pub fn batch_bytes(&self) -> usize {
        self.pending.bytes
    }

    /// What was written so far.
    pub fn counts(&self) -> WriteCounts {
        self.counts
    }

    /// Bytes of the recording's segments that are on the disk now.
    pub fn kept_bytes(&self) -> u64 {
        let full =
            self.list.list.segments.split_last().map_or(0, |(_, full)| full.iter().map(|s| s.bytes).sum::<u64>());
        full + self.segment.entry.bytes
    }

    /// Deletes the oldest segment, as a flight recorder does, for somebody who bounds several recordings together; false where
    /// only the one is left that is being written.
    pub fn delete_oldest(&mut self) -> Result<bool, FolderError> {
        if self.list.list.segments.len() < 2 {
            return Ok(false);
        }
        let deleted = self.delete_oldest_full()?;
        self.add_loss(defects::id::FLIGHT_SEGMENTS, 1, deleted.first);
        Ok(true)
    }

    /// The file that lists the recording's segments: see [`super::delete_oldest`].
    pub fn list_path(&self) -> &Path {
        self.list.path()
    }

    /// The folder of the host.
    pub fn host_dir(&self) -> &Path {
        &self.host_dir
    }

    /// Writes the batch. After a failure the writer goes on with what is pushed from then on, and asks for state again;
    /// what was lost is counted and becomes a loss row as soon as the disk takes it.
    pub fn flush(&mut self, durability: Durability) -> Result<(), FolderError> {
        let written = self.write_batch();
        let synced = match durability {
            Durability::Sync if written.is_ok() => self.segment.sync(),
            _ => Ok(()),
        };
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => written.and(synced),
        }
    }

    /// Writes what is left and makes it durable.
    pub fn close(mut self) -> Result<WriteCounts, FolderError> {
        self.flush(Durability::Sync)?;
        if self.pending.bytes > 0 {
            // The flush began a new segment and had something to say in it.
            self.flush(Durability::Sync)?;
        }
        self.list.list.is_ended = true;
        self.update_list()?;
        self.list.sync()?;
        output::sync_dir(&self.host_dir);
        Ok(self.counts)
    }

    /// Adds a row and the strings that it names.
    #[inline]
    fn add<R: Row>(&mut self, row: &R) {
        for &at in R::STRINGS {
            let id = word32(bytemuck::bytes_of(row), at);
            if id != 0 && self.defined.get(id as usize) != Some(&self.era) {
                self.define(id);
            }
        }
        self.pending.push(row);
    }

    /// Adds the definition of a string that this segment does not have yet.
    #[cold]
    fn define(&mut self, id: u32) {
        let Some(text) = self.interner.get(StrId(id)) else {
            return;
        };
        if self.defined.len() <= id as usize {
            self.defined.resize(self.interner.count(), 0);
        }
        self.defined[id as usize] = self.era;
        self.pending.define(id, text);
    }

    /// A loss row that does not set off a flush.
    fn add_loss(&mut self, defect: &str, count: u64, from: u64) {
        let what = self.interner.intern(defect);
        let newest = self.pending.newest;
        self.add(&LossRow { at: MonoNs(newest), from: MonoNs(from.min(newest)), count, what, ..Default::default() });
    }

    #[cold]
    fn flush_unasked(&mut self) {
        if let Err(e) = self.write_batch() {
            self.failure.get_or_insert(e);
        }
    }

    fn write_batch(&mut self) -> Result<(), FolderError> {
        let due = self.unreported;
        if due.rows > 0 {
            self.add_loss(defects::id::DISK, due.rows, due.first);
        }
        let overflow = self.interner.overflow_count();
        if overflow > self.overflow_reported {
            self.add_loss(defects::id::INTERNER, overflow - self.overflow_reported, u64::MAX);
            self.overflow_reported = overflow;
        }
        if self.pending.bytes == 0 {
            return Ok(());
        }
        let frame = FrameHeader {
            segment: self.segment.entry.number,
            recording: self.recording,
            sequence: self.segment.entry.frames,
            ..FrameHeader::default()
        };
        self.out.clear();
        let encoded = self.pending.encode(frame, self.options.compress, &mut self.out);
        let written = self.segment.append(&self.out);
        self.pending.clear();
        if let Err(e) = written {
            // not counting the row that tells of rows lost before
            let lost = (encoded.rows - u64::from(due.rows > 0)).max(1);
            self.counts.lost_rows += lost;
            self.unreported.add(lost, encoded.first.min(encoded.last), encoded.last);
            // Definitions and state went with the batch: both are due again.
            self.era += 1;
            self.needs_state = true;
            // what the disk refuses of the list it refuses of rows too
            let _ = self.update_list();
            return Err(e);
        }
        self.unreported = Entry::default();
        self.counts.rows += encoded.rows;
        self.counts.bytes += self.out.len() as u64;
        let entry = &mut self.segment.entry;
        entry.frames = encoded.sequence;
        entry.add(encoded.rows, encoded.first, encoded.last);
        if self.is_segment_full() {
            self.rotate()
        } else if self.listed.elapsed() >= LIST_EVERY {
            self.update_list()
        } else {
            Ok(())
        }
    }

    /// Writes down which segments there are, and looks whether they are still there.
    fn update_list(&mut self) -> Result<(), FolderError> {
        self.listed = Instant::now();
        let list = &mut self.list.list;
        list.unwritten = self.unreported;
        match list.segments.last_mut() {
            Some(last) if last.number == self.segment.entry.number => *last = self.segment.entry,
            _ => list.segments.push(self.segment.entry),
        }
        if !self.segment.is_there() {
            return Err(FolderError::Gone(self.host_dir.clone()));
        }
        self.list.write()
    }

    fn is_segment_full(&self) -> bool {
        let part = self.options.max_bytes.map_or(u64::MAX, |b| b / FLIGHT_PARTS);
        let entry = &self.segment.entry;
        entry.bytes >= self.options.max_segment_bytes.min(part.max(4096))
            || self.options.keep_ns.is_some_and(|k| entry.rows > 0 && entry.last - entry.first >= k / FLIGHT_PARTS)
            || self.options.part.is_some_and(|(ns, bytes)| entry.bytes >= bytes && entry.last - entry.first >= ns)
    }

    /// Begins a new segment and deletes what the flight recorder need not keep.
    fn rotate(&mut self) -> Result<(), FolderError> {
        // the one that is full stands in the list before another does
        self.update_list()?;
        let number = self.segment.entry.number.saturating_add(1);
        self.segment = Segment::create(&self.host_dir, number, self.recording, self.host)?;
        self.era += 1;
        self.needs_state = true;
        self.update_list()?;
        self.forget()
    }

    /// The flight recorder: deletes the oldest segments.
    fn forget(&mut self) -> Result<(), FolderError> {
        let mut deleted = Entry::default();
        while self.keeps_too_much() {
            deleted = deleted.and(self.delete_oldest_full()?);
        }
        if deleted.frames > 0 {
            self.add_loss(defects::id::FLIGHT_SEGMENTS, deleted.frames.into(), deleted.first);
        }
        Ok(())
    }

    /// Whether the flight recorder need not keep the oldest of the segments that are full.
    fn keeps_too_much(&self) -> bool {
        let Some((_, full)) = self.list.list.segments.split_last() else { return false };
        let Some(oldest) = full.first() else { return false };
        let kept: u64 = full.iter().map(|s| s.bytes).sum();
        // Room for the segment that is being written, which may outgrow its part by a batch.
        let too_much = self.options.max_bytes.is_some_and(|max| kept + max / FLIGHT_PARTS > max);
        let horizon = self.options.keep_ns.map(|keep| self.pending.newest.saturating_sub(keep));
        too_much || horizon.is_some_and(|h| oldest.last < h)
    }

    /// Deletes the oldest segment: first from the list, so that nobody misses it.
    fn delete_oldest_full(&mut self) -> Result<Entry, FolderError> {
        let (oldest, of_one) = self.list.list.take_oldest();
        self.update_list()?;
        let path = self.host_dir.join(segment_name(oldest.number));
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(FolderError::io(&path, "delete", 0)(e)),
            _ => {}
        }
        self.counts.deleted_segments += 1;
        Ok(of_one)
    }
}

impl Drop for FolderWriter {
    fn drop(&mut self) {
        if self.list.list.is_ended {
            return;
        }
        // A recorder that ends without closing keeps what it gathered, as far as the disk takes it.
        let _ = self.write_batch();
        let _ = self.update_list();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::ids::TaskId;
    use crate::rows::{PollRow, Table};

    fn row(at: u64) -> PollRow {
        PollRow {
            at: MonoNs(at),
            entry: MonoNs(at),
            timeout_ns: 0,
            task: TaskId(1),
            ready: 1,
            fd: 3,
            ..Default::default()
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_then_a_loss() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("t");
        let mut w = FolderWriter::create(&path, HostInfo::default(), Options::default())?;
        w.push(&row(1));
        w.flush(Durability::Write)?;
        // A segment that cannot be written: replaced by the device that is always full.
        let full = std::fs::OpenOptions::new().append(true).open("/dev/full")?;
        let real = w.segment.swap_file(full);
        w.push(&row(2));
        w.push(&row(3));
        let error = w.flush(Durability::Write).expect_err("the disk is full");
        assert!(error.is_disk_full());
        let text = error.to_string();
        assert!(text.contains("00000000.seg") && text.contains("free space"), "{text}");
        assert!(w.needs_state());
        w.segment.swap_file(real);
        w.push(&row(4));
        assert_eq!(w.close()?.lost_rows, 2);
        let folder = Folder::open(&[&path])?;
        let host = &folder.hosts()[0];
        let lost: Vec<_> = host
            .events(Table::Loss.into(), ..)
            .filter_map(|e| if let Event::Loss(l) = e { Some((host.text(l.what), l.count, l.from.0)) } else { None })
            .collect();
        assert_eq!(lost, [(defects::id::DISK, 2, 2)]);
        assert_eq!(host.row_count(Table::Poll), 2);
        Ok(())
    }
}
