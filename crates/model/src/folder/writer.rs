//! Writing a folder: rows are gathered in a batch and written as frames, one table each.

use super::error::FolderError;
use super::info::{self, HostInfo};
use super::layout::FrameHeader;
use super::options::{Durability, Options, WriteCounts};
use super::output;
use super::pending::{Pending, word32};
use super::segment::Segment;
use crate::defects;
use crate::fields::str_fields;
use crate::ids::{EndpointId, MonoNs, StrId};
use crate::intern::Interner;
use crate::rows::{Event, LossRow, Row};
use std::collections::VecDeque;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A batch of this many bytes is written without being asked.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// A raw head is never longer.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// A flight recorder keeps about so many segments, so that deleting one loses a small part.
const FLIGHT_PARTS: u64 = 8;

struct Closed {
    path: PathBuf,
    bytes: u64,
    first: u64,
    last: u64,
}

/// Writes one host's recording into a folder.
pub struct FolderWriter {
    host_dir: PathBuf,
    host: u64,
    recording: u64,
    options: Options,
    segment: Segment,
    closed: VecDeque<Closed>,
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
    /// Rows that were lost and not yet told in a loss row, and the first of their times.
    unreported: u64,
    unreported_from: u64,
    counts: WriteCounts,
}

impl FolderWriter {
    /// Makes the folder or opens it for appending, and begins a recording of `host`.
    pub fn create(dir: impl AsRef<Path>, host: HostInfo, options: Options) -> Result<FolderWriter, FolderError> {
        let host_hash = host.host_hash();
        let (host_dir, number) = output::prepare(dir.as_ref(), host, options.overwrite)?;
        let recording = RandomState::new().hash_one((info::created_real_ns(), std::process::id()));
        let segment = Segment::create(&host_dir, number, recording, host_hash)?;
        output::sync_dir(&host_dir);
        Ok(FolderWriter {
            host_dir,
            host: host_hash,
            recording,
            options,
            segment,
            closed: VecDeque::new(),
            needs_state: false,
            interner: Interner::new(),
            overflow_reported: 0,
            defined: Vec::new(),
            era: 1,
            pending: Pending::default(),
            out: Vec::new(),
            failure: None,
            unreported: 0,
            unreported_from: u64::MAX,
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
        self.push(&LossRow { at, from, count, what, pad: 0 });
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
        output::sync_dir(&self.host_dir);
        Ok(self.counts)
    }

    /// Adds a row and the strings that it names.
    #[inline]
    fn add<R: Row>(&mut self, row: &R) {
        for &at in str_fields(R::TABLE) {
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
        self.add(&LossRow { at: MonoNs(newest), from: MonoNs(from.min(newest)), count, what, pad: 0 });
    }

    #[cold]
    fn flush_unasked(&mut self) {
        if let Err(e) = self.write_batch() {
            self.failure.get_or_insert(e);
        }
    }

    fn write_batch(&mut self) -> Result<(), FolderError> {
        if self.unreported > 0 {
            let (count, from) = (self.unreported, self.unreported_from);
            (self.unreported, self.unreported_from) = (0, u64::MAX);
            self.add_loss(defects::id::DISK, count, from);
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
            segment: self.segment.number,
            recording: self.recording,
            sequence: self.segment.frames,
            ..FrameHeader::default()
        };
        self.out.clear();
        let encoded = self.pending.encode(frame, self.options.compress, &mut self.out);
        let written = self.segment.append(&self.out);
        self.pending.clear();
        if let Err(e) = written {
            self.counts.lost_rows += encoded.rows;
            self.unreported += encoded.rows.max(1);
            self.unreported_from = self.unreported_from.min(encoded.first);
            // Definitions and state went with the batch: both are due again.
            self.era += 1;
            self.needs_state = true;
            return Err(e);
        }
        self.counts.rows += encoded.rows;
        self.counts.bytes += self.out.len() as u64;
        self.segment.frames = encoded.sequence;
        self.segment.first = self.segment.first.min(encoded.first);
        self.segment.last = self.segment.last.max(encoded.last);
        if self.is_segment_full() { self.rotate() } else { Ok(()) }
    }

    fn is_segment_full(&self) -> bool {
        let part = self.options.max_bytes.map_or(u64::MAX, |b| b / FLIGHT_PARTS);
        let span = self.segment.last.saturating_sub(self.segment.first);
        self.segment.bytes >= self.options.max_segment_bytes.min(part.max(4096))
            || self.options.keep_ns.is_some_and(|k| self.segment.has_rows() && span >= k / FLIGHT_PARTS)
    }

    /// Begins a new segment and deletes what the flight recorder need not keep.
    fn rotate(&mut self) -> Result<(), FolderError> {
        let next = Segment::create(&self.host_dir, self.segment.number.saturating_add(1), self.recording, self.host)?;
        let done = std::mem::replace(&mut self.segment, next);
        self.era += 1;
        self.needs_state = true;
        self.closed.push_back(Closed { path: done.path, bytes: done.bytes, first: done.first, last: done.last });
        self.forget()
    }

    /// The flight recorder: deletes the oldest segments.
    fn forget(&mut self) -> Result<(), FolderError> {
        let mut kept: u64 = self.closed.iter().map(|c| c.bytes).sum();
        let (mut deleted, mut from) = (0, u64::MAX);
        let mut failed = Ok(());
        while let Some(oldest) = self.closed.front() {
            // Room for the segment that is being written, which may outgrow its part by a batch.
            let too_much = self.options.max_bytes.is_some_and(|max| kept + max / FLIGHT_PARTS > max);
            let horizon = self.options.keep_ns.map(|keep| self.pending.newest.saturating_sub(keep));
            if !too_much && horizon.is_none_or(|h| oldest.last >= h) {
                break;
            }
            match fs::remove_file(&oldest.path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    failed = Err(FolderError::io(&oldest.path, "delete", 0)(e));
                    break;
                }
                _ => {}
            }
            kept -= oldest.bytes;
            from = from.min(oldest.first);
            deleted += 1;
            self.closed.pop_front();
        }
        if deleted > 0 {
            self.counts.deleted_segments += deleted;
            self.add_loss(defects::id::FLIGHT_SEGMENTS, deleted, from);
        }
        failed
    }
}

impl Drop for FolderWriter {
    fn drop(&mut self) {
        // A recorder that ends without closing keeps what it gathered, as far as the disk takes it.
        let _ = self.write_batch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::ids::TaskId;
    use crate::rows::{PollRow, Table};

    fn row(at: u64) -> PollRow {
        PollRow { at: MonoNs(at), entry: MonoNs(at), timeout_ns: 0, task: TaskId(1), ready: 1, fd: 3, pad: 0 }
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
