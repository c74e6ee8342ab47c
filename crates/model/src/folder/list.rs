//! The list of a recording's segments: what there is to find, so that what is missing can be told.
//!
//! One small file for each recording, rewritten in place by its writer alone, which holds a lock on it for as long as it
//! lives. Every entry has a checksum of its own.

use super::error::FolderError;
use super::files;
use super::info::segment_name;
use super::layout::{FORMAT_VERSION, HEADER_BYTES, is_sealed, sealed, u32_at, u64_at};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// First bytes of a list.
const LIST_MAGIC: [u8; 8] = *b"WAKELST1";
/// First bytes of its entries, by what they are of.
const SEGMENT: [u8; 4] = *b"WkSg";
const DELETED: [u8; 4] = *b"WkDl";
const UNWRITTEN: [u8; 4] = *b"WkUn";
/// Header flag: the writer closed the recording.
const ENDED: u32 = 1;
/// How a list's file name ends.
pub(super) const LIST_EXTENSION: &str = "list";
/// A longer file is no list: a million segments.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// Entries before those of segments.
const FIXED: usize = 2;

/// What is known of some rows of a recording: those of one segment, those that the flight recorder deleted, or those that
/// could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Entry {
    /// Number of the segment; of deleted ones the number after the last.
    pub number: u32,
    /// Frames in the segment; of deleted ones how many segments.
    pub frames: u32,
    /// Bytes of the segment or segments.
    pub bytes: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Times of the first and last row, ns; both 0 where there are no rows.
    pub first: u64,
    pub last: u64,
}

impl Entry {
    /// Adds rows from one time to another.
    pub fn add(&mut self, rows: u64, first: u64, last: u64) {
        if rows == 0 || first > last {
            return;
        }
        self.first = if self.rows == 0 { first } else { self.first.min(first) };
        self.last = self.last.max(last);
        self.rows += rows;
    }

    /// Both of what was deleted, of which `later` came later.
    pub fn and(self, later: Entry) -> Entry {
        let (frames, bytes) = (self.frames + later.frames, self.bytes + later.bytes);
        let mut both = Entry { number: later.number, frames, bytes, ..self };
        both.add(later.rows, later.first, later.last);
        both
    }

    fn write(&self, kind: [u8; 4], recording: u64) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        b[..4].copy_from_slice(&kind);
        b[4..8].copy_from_slice(&self.number.to_le_bytes());
        b[8..12].copy_from_slice(&self.frames.to_le_bytes());
        for (i, word) in [self.bytes, self.rows, self.first, self.last, recording].into_iter().enumerate() {
            b[16 + i * 8..24 + i * 8].copy_from_slice(&word.to_le_bytes());
        }
        sealed(b)
    }

    /// Reads an entry: what it is of, of which recording.
    fn read(b: &[u8; HEADER_BYTES]) -> Option<([u8; 4], u64, Entry)> {
        let entry = Entry {
            number: u32_at(b, 4),
            frames: u32_at(b, 8),
            bytes: u64_at(b, 16),
            rows: u64_at(b, 24),
            first: u64_at(b, 32),
            last: u64_at(b, 40),
        };
        is_sealed(b).then(|| ([b[0], b[1], b[2], b[3]], u64_at(b, 48), entry))
    }
}

/// What a recording's list says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct List {
    pub recording: u64,
    pub host: u64,
    /// Counts rewritings: of two copies the one with more is the newer.
    pub updates: u32,
    /// The writer closed the recording.
    pub is_ended: bool,
    /// What the flight recorder deleted, as it was asked to.
    pub deleted: Entry,
    /// What the disk did not take, and no loss row tells of.
    pub unwritten: Entry,
    /// The segments that are to be found, by number.
    pub segments: Vec<Entry>,
}

impl List {
    fn header(&self, count: u32) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        b[..8].copy_from_slice(&LIST_MAGIC);
        b[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        b[12..16].copy_from_slice(&(if self.is_ended { ENDED } else { 0 }).to_le_bytes());
        b[16..24].copy_from_slice(&self.recording.to_le_bytes());
        b[24..32].copy_from_slice(&self.host.to_le_bytes());
        b[32..36].copy_from_slice(&self.updates.to_le_bytes());
        b[36..40].copy_from_slice(&count.to_le_bytes());
        sealed(b)
    }

    /// Takes the oldest segment off the list; with it, what is to be counted as deleted. There is one.
    pub fn take_oldest(&mut self) -> (Entry, Entry) {
        let oldest = self.segments.remove(0);
        let of_one = Entry { number: oldest.number + 1, frames: 1, ..oldest };
        self.deleted = self.deleted.and(of_one);
        (oldest, of_one)
    }

    /// The bytes before the segments' entries, saying that there are `count` of these.
    fn head(&self, count: usize) -> Vec<u8> {
        [
            self.header(count as u32),
            self.deleted.write(DELETED, self.recording),
            self.unwritten.write(UNWRITTEN, self.recording),
        ]
        .concat()
    }

    fn tail(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|s| s.write(SEGMENT, self.recording)).collect()
    }

    /// Reads a list; with it, whether all of it was there. `None` where nothing says which recording it is of.
    fn parse(bytes: &[u8]) -> Option<(List, bool)> {
        let (blocks, rest) = bytes.as_chunks::<HEADER_BYTES>();
        let header = blocks.first().filter(|b| b[..8] == LIST_MAGIC && is_sealed(b));
        let mut list = List::default();
        let mut is_whole = rest.is_empty() && header.is_some();
        let mut wanted = 0;
        if let Some(b) = header {
            (list.recording, list.host, list.updates) = (u64_at(b, 16), u64_at(b, 24), u32_at(b, 32));
            (list.is_ended, wanted) = (u32_at(b, 12) & ENDED != 0, u32_at(b, 36) as usize);
        }
        for block in blocks.iter().skip(1) {
            let Some((kind, recording, entry)) = Entry::read(block) else {
                is_whole = false;
                continue;
            };
            if list.recording == 0 {
                list.recording = recording;
            }
            match kind {
                _ if recording != list.recording => is_whole = false,
                SEGMENT => list.segments.push(entry),
                DELETED => list.deleted = entry,
                UNWRITTEN => list.unwritten = entry,
                _ => is_whole = false,
            }
        }
        list.segments.sort_unstable_by_key(|s| s.number);
        list.segments.dedup_by_key(|s| s.number);
        is_whole &= list.segments.len() == wanted;
        (list.recording != 0).then_some((list, is_whole))
    }
}

/// A list's file name, for a recording whose first segment has this number.
pub(super) fn list_name(number: u32) -> String {
    format!("{number:08}.{LIST_EXTENSION}")
}

/// A list, and its file under its writer's lock.
pub(super) struct ListFile {
    pub list: List,
    file: File,
    path: PathBuf,
    /// Entries of segments that stand in the file.
    written: usize,
}

impl ListFile {
    /// Makes the list of a recording whose first segment has that number.
    pub fn create(host_dir: &Path, number: u32, recording: u64, host: u64) -> Result<ListFile, FolderError> {
        let path = host_dir.join(list_name(number));
        let failed = |e| FolderError::io(&path, "make the list of segments", 0)(e);
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        // a file system without locks has none to look for either
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let list = List { recording, host, ..List::default() };
        let mut this = ListFile { list, file, path, written: 0 };
        this.write()?;
        Ok(this)
    }

    /// Brings the file up to date. On a full disk what stands in it stays true: only less of it.
    pub fn write(&mut self) -> Result<(), FolderError> {
        self.list.updates = self.list.updates.wrapping_add(1);
        let tail = self.list.tail();
        let at = (HEADER_BYTES * (1 + FIXED)) as u64;
        let grown = self.file.write_all_at(&tail, at);
        let count = if grown.is_ok() { self.list.segments.len() } else { self.written.min(self.list.segments.len()) };
        let written = self.file.write_all_at(&self.list.head(count), 0);
        let sized = self.file.set_len(at + (count * HEADER_BYTES) as u64);
        self.written = count;
        grown.and(written).and(sized).map_err(|e| FolderError::io(&self.path, "write", 0)(e))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<(), FolderError> {
        self.file.sync_data().map_err(|e| FolderError::io(&self.path, "sync", 0)(e))
    }
}

/// A list as it was found.
#[derive(Debug)]
pub(super) struct FoundList {
    pub path: PathBuf,
    /// None where nothing of it could be read.
    pub list: Option<List>,
    /// All of it was there.
    pub is_whole: bool,
    /// Its writer lives.
    pub is_locked: bool,
}

/// Reads a list.
pub(super) fn read(path: &Path) -> FoundList {
    let mut found = FoundList { path: path.to_owned(), list: None, is_whole: false, is_locked: false };
    let Ok((file, _)) = files::open_regular(path) else { return found };
    found.is_locked = is_locked(&file);
    let mut bytes = files::read_all(&file, LIST_BYTES_MAX);
    // its writer may have been in the middle of it: then the next look finds it changed
    for _ in 0..if found.is_locked { 20 } else { 0 } {
        let again = files::read_all(&file, LIST_BYTES_MAX);
        let is_same = matches!((&bytes, &again), (Ok(a), Ok(b)) if a == b);
        bytes = again;
        if is_same {
            break;
        }
    }
    if let Some((list, is_whole)) = bytes.ok().and_then(|b| List::parse(&b)) {
        (found.list, found.is_whole) = (Some(list), is_whole);
    }
    found
}

/// Deletes the oldest segment of a recording that has ended, by the list of its segments, and gives its bytes; `None` where
/// none is left.
pub fn delete_oldest(list: &Path) -> Result<Option<u64>, FolderError> {
    let file = OpenOptions::new().read(true).write(true).open(list).map_err(FolderError::io(list, "open", 0))?;
    let bytes = files::read_all(&file, LIST_BYTES_MAX).map_err(FolderError::io(list, "read", 0))?;
    let Some((of, _)) = List::parse(&bytes).filter(|(of, _)| !of.segments.is_empty()) else { return Ok(None) };
    let mut this = ListFile { written: of.segments.len(), list: of, file, path: list.to_owned() };
    let (oldest, _) = this.list.take_oldest();
    this.write()?;
    let path = list.with_file_name(segment_name(oldest.number));
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(FolderError::io(&path, "delete", 0)(e)),
        _ => Ok(Some(oldest.bytes)),
    }
}

/// Writes a list beside copied segments.
pub(super) fn copy(list: &List, path: &Path) -> Result<(), FolderError> {
    let write = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all_at(&[list.head(list.segments.len()), list.tail()].concat(), 0)?;
        file.sync_data()
    };
    write().map_err(FolderError::io(path, "write", 0))
}

/// A child that a writer just made has its lock until it runs its own program.
const CHILD_BEGINS: Duration = Duration::from_millis(20);

/// Whether the writer of a list lives.
fn is_locked(file: &File) -> bool {
    is_locked_now(file) && {
        std::thread::sleep(CHILD_BEGINS);
        is_locked_now(file)
    }
}

fn is_locked_now(file: &File) -> bool {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        Err(e) => io::Error::from(e).kind() == ErrorKind::WouldBlock,
    }
}

/// Whether a recorder writes into a host's folder now.
pub(super) fn is_in_use(host_dir: &Path) -> bool {
    let Ok(lists) = files::numbered(host_dir, LIST_EXTENSION) else { return false };
    lists.iter().any(|(_, path)| files::open_regular(path).is_ok_and(|(file, _)| is_locked(&file)))
}

/// Whether a recorder writes into a trace folder now.
pub fn is_being_written(dir: &Path) -> bool {
    super::reader::host_dirs(dir).is_ok_and(|hosts| hosts.iter().any(|host| is_in_use(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> List {
        let segment = |number| Entry { number, frames: 3, bytes: 500, rows: 20, first: 10, last: 90 };
        List {
            recording: 7,
            host: 9,
            updates: 5,
            is_ended: true,
            deleted: Entry { number: 2, frames: 2, bytes: 1, rows: 4, first: 1, last: 9 },
            unwritten: Entry { rows: 3, first: 80, last: 95, ..Entry::default() },
            segments: vec![segment(2), segment(3)],
        }
    }

    #[test]
    fn a_list_reads_back_and_every_flipped_bit_costs_one_entry_at_most() {
        let list = list();
        let bytes = [list.head(2), list.tail()].concat();
        assert_eq!(List::parse(&bytes), Some((list.clone(), true)));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (read, is_whole) = List::parse(&damaged).expect("the other entries name the recording");
            assert!(!is_whole && read.recording == 7, "bit {bit}");
            assert!(read.segments.iter().all(|s| list.segments.contains(s)) && !read.segments.is_empty(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(List::parse(&bytes[..cut]).is_none_or(|(_, is_whole)| !is_whole), "cut at {cut}");
        }
    }

    #[test]
    fn the_newest_state_stands_in_the_file_and_the_lock_goes_with_its_writer() -> Result<(), FolderError> {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = ListFile::create(dir.path(), 3, 7, 9)?;
        file.list.segments = list().segments;
        file.write()?;
        file.list.segments.remove(0);
        file.write()?;
        let path = dir.path().join("00000003.list");
        let found = read(&path);
        assert!(found.is_locked && found.is_whole && is_in_use(dir.path()));
        assert_eq!(found.list.as_ref(), Some(&file.list));
        drop(file);
        assert!(!read(&path).is_locked && !is_in_use(dir.path()));
        Ok(())
    }
}
