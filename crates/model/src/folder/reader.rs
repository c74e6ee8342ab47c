//! Opening folders: which hosts there are, where their frames are, and what their strings mean.

mod frames;
mod hosts;

pub(super) use frames::FrameReader;
use hosts::{HostFiles, find_hosts};
pub(super) use hosts::{host_dirs, read_host, segment_header};

use super::error::FolderError;
use super::events::{Batches, Events};
use super::files;
use super::heads::Heads;
use super::info::{FolderInfo, HostInfo};
use super::layout::{FrameHeader, HEADER_BYTES, KIND_HEADS, KIND_STRINGS};
use super::list::{self, FoundList, LIST_EXTENSION};
use super::part::Part;
use super::scan::{Scanned, scan};
use super::strings::{StringMap, Strings};
use super::sync;
use super::table_set::TableSet;
use super::verify::{self, Missing};
use crate::clock::{ClockGroup, Timeline, WallClock};
use crate::defects::{DefectCount, Ledger, id};
use crate::ids::{HostId, MonoNs, StrId};
use crate::rows::{AnchorRow, Event, LossRow, Table};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::ErrorKind;
use std::ops::{RangeBounds, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// One or several trace folders, opened for reading.
#[derive(Debug)]
pub struct Folder {
    infos: Vec<FolderInfo>,
    hosts: Vec<Host>,
    /// Hosts whose clocks were synchronised.
    groups: Vec<ClockGroup>,
    ledger: Ledger,
    refuses_habits: bool,
    refuses_witness: bool,
    /// It may be less than there is.
    is_part: bool,
    /// Bytes of frames that were read since it was opened.
    read: Arc<AtomicU64>,
}

/// A host of a folder: a clock, and all that was recorded under it.
#[derive(Debug)]
pub struct Host {
    id: HostId,
    info: HostInfo,
    files: Vec<SegmentFile>,
    pub(super) frames: Vec<FrameRef>,
    strings: Strings,
    recordings: Vec<Recording>,
    /// What its recordings had and was not found, and the same as rows, by time.
    missing: Vec<Missing>,
    pub(super) missing_rows: Vec<LossRow>,
    /// The string that rows of unreadable frames are lost under.
    unreadable: StrId,
    ledger: Ledger,
    read: Arc<AtomicU64>,
    /// What came later is not read.
    pub(super) until: u64,
}

/// Where a frame is.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRef {
    pub file: u32,
    pub at: u64,
    pub header: FrameHeader,
}

#[derive(Debug)]
struct SegmentFile {
    path: PathBuf,
    recording: usize,
}

/// One run of a writer. Its ids of strings and tasks are its own.
#[derive(Debug, Default)]
struct Recording {
    id: u64,
    strings: StringMap,
    task_max: u32,
    /// What is added to its task ids, so that they differ from those of the host's other recordings.
    task_offset: u32,
}

impl Folder {
    /// Opens folders. Hosts with the same boot id are one host, whichever folders they come from.
    pub fn open<P: AsRef<Path>>(dirs: &[P]) -> Result<Folder, FolderError> {
        Folder::open_part(dirs, Part::All)
    }

    /// The same of a part of each host's recordings.
    pub fn open_part<P: AsRef<Path>>(dirs: &[P], part: Part) -> Result<Folder, FolderError> {
        let ledger = Ledger::default();
        let (infos, found) = find_hosts(dirs, &ledger)?;
        Folder::open_found(dirs, infos, found, part, ledger)
    }

    /// Opens one host of folders, by its name, the name of its folder, or its boot id; without any of these, the only one.
    ///
    /// # Errors
    /// The same, and where no host is called so, or several are.
    pub fn open_host<P: AsRef<Path>>(dirs: &[P], wanted: Option<&str>) -> Result<Folder, FolderError> {
        let ledger = Ledger::default();
        let (infos, mut found) = find_hosts(dirs, &ledger)?;
        let hosts: Vec<String> = found.iter().map(|h| h.dir_name().to_string_lossy().into_owned()).collect();
        let is_wanted = |h: &HostFiles| {
            wanted.is_none_or(|w| h.info.hostname == w || h.info.boot_id == w || h.dir_name().to_string_lossy() == w)
        };
        found.retain(is_wanted);
        if found.len() != 1 {
            return Err(FolderError::WhichHost { wanted: wanted.unwrap_or_default().to_owned(), hosts });
        }
        Folder::open_found(dirs, infos, found, Part::All, ledger)
    }

    fn open_found<P: AsRef<Path>>(
        dirs: &[P],
        infos: Vec<FolderInfo>,
        found: Vec<HostFiles>,
        part: Part,
        ledger: Ledger,
    ) -> Result<Folder, FolderError> {
        let mut groups: Vec<ClockGroup> = Vec::new();
        for dir in dirs {
            // of several folders that know a host, the first counts
            let is_free = |h: &HostId| !groups.iter().any(|g| g.clocks.iter().any(|c| c.0 == *h));
            let index = |hash: u64| found.iter().position(|f| f.hash == hash);
            let find = |hash: u64| index(hash).map(|i| HostId(i as u16)).filter(is_free);
            let more = sync::read(dir.as_ref(), find, &ledger);
            groups.extend(more);
        }
        let read = Arc::default();
        let hosts = found
            .into_iter()
            .enumerate()
            .map(|(i, files)| Host::open(HostId(i as u16), files, part, ledger.clone(), Arc::clone(&read)))
            .collect::<Result<_, _>>()?;
        Ok(Folder {
            infos,
            hosts,
            groups,
            ledger,
            refuses_habits: false,
            refuses_witness: false,
            is_part: part != Part::All,
            read,
        })
    }

    /// From here on answers about the folder use no link that rests on a habit: what a process was never seen to do.
    pub fn refuse_habits(&mut self) {
        self.refuses_habits = true;
    }

    /// Whether they use none.
    pub fn refuses_habits(&self) -> bool {
        self.refuses_habits
    }

    /// From here on answers about the folder use no link that rests on an identifier which a service handed on with a call, or on an answer
    /// that it passed on.
    pub fn refuse_witness(&mut self) {
        self.refuses_witness = true;
    }

    /// Whether they use none.
    pub fn refuses_witness(&self) -> bool {
        self.refuses_witness
    }

    /// What the folders say of themselves, in the order given.
    pub fn infos(&self) -> &[FolderInfo] {
        &self.infos
    }

    /// The hosts; a [`HostId`] is an index into them.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// One host.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(usize::from(id.0))
    }

    /// One time line for all hosts: as `wakepath sync` found it, where it was run; by the wall clocks elsewhere.
    pub fn timeline(&self) -> Timeline {
        let walls: Vec<WallClock> = self.hosts.iter().map(Host::wall_clock).collect();
        Timeline::new(&walls, self.groups.clone())
    }

    /// How clocks of hosts relate, where `wakepath sync` found it.
    pub fn clock_groups(&self) -> &[ClockGroup] {
        &self.groups
    }

    /// One time line for all hosts, by the wall clocks alone.
    pub fn wall_timeline(&self) -> Timeline {
        Timeline::by_wall_clocks(self.hosts.iter().map(Host::wall_clock).collect())
    }

    /// What was found wrong so far: at opening, and by everything that was read since.
    pub fn defects(&self) -> Vec<DefectCount> {
        self.ledger.counts()
    }

    /// Whether a part of it was asked for: then answers are not those of the whole, and not kept for others.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// How many bytes of frames were read since it was opened, for who shows how far something is.
    pub fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    /// Where defects of this folder are counted; later stages may add theirs.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

impl Host {
    fn open(
        id: HostId,
        mut files: HostFiles,
        part: Part,
        ledger: Ledger,
        read: Arc<AtomicU64>,
    ) -> Result<Host, FolderError> {
        let mut host = Host {
            id,
            info: files.info,
            files: vec![],
            frames: vec![],
            strings: Strings::default(),
            recordings: vec![],
            missing: vec![],
            missing_rows: vec![],
            unreadable: StrId::EMPTY,
            ledger,
            read,
            until: u64::MAX,
        };
        // before the segments, which a recorder that lives makes longer; and what it deleted meanwhile is taken off
        let mut lists = host.lists(&files.dirs)?;
        let left_out = part.leave_out(&mut lists);
        files.segments.retain(|(_, path)| !left_out.contains(path));
        let mut scanned = host.scan(files.segments, files.hash);
        for found in lists.iter_mut().filter(|l| l.is_locked) {
            if let (Some(list), Some(now)) = (&mut found.list, list::read(&found.path).list) {
                if now.deleted.number > list.deleted.number {
                    list.deleted = now.deleted;
                }
                list.segments.retain(|s| s.number >= now.deleted.number);
            }
        }
        host.missing = verify::missing(&scanned, &lists, &host.ledger);
        scanned.sort_by_key(|(s, _)| (s.header.created_real_ns, s.header.recording, s.header.number));

        let mut seen = FxHashSet::default();
        let mut copies: FxHashMap<(u64, u32), u32> = FxHashMap::default();
        for (segment, ..) in &scanned {
            *copies.entry((segment.header.recording, segment.header.number)).or_default() += 1;
        }
        let mut read = FrameReader::default();
        for (segment, path) in scanned {
            let header = segment.header;
            let recording = host.recording(header.recording);
            let index = host.files.len() as u32;
            let has_copies = copies.get(&(header.recording, header.number)).is_some_and(|n| *n > 1);
            host.files.push(SegmentFile { path, recording });
            for (at, header) in segment.frames {
                let frame = FrameRef { file: index, at, header };
                if has_copies && !seen.insert(header) {
                    host.ledger.add(id::FOLDER_DUPLICATE, 1, Some((&host.files[index as usize].path, at)));
                    continue;
                }
                if header.kind == KIND_STRINGS {
                    host.define(&mut read, &frame);
                    continue;
                }
                let task_max = &mut host.recordings[recording].task_max;
                *task_max = header.task_max.max(*task_max);
                host.frames.push(frame);
            }
        }
        let mut next = 0u32;
        for recording in &mut host.recordings {
            let overflow = recording.strings.settle(&mut host.strings);
            if overflow > 0 {
                host.ledger.add(id::INTERNER, overflow, None);
            }
            recording.task_offset = next;
            next = next.saturating_add(recording.task_max);
        }
        host.frames.sort_by_key(|f| (f.header.first, f.file, f.at));
        if let Part::Sample(bytes) = part {
            host.end_behind(bytes);
        }
        host.tell_missing();
        Ok(host)
    }

    /// Ends it where so many bytes of frames were read.
    fn end_behind(&mut self, bytes: u64) {
        let mut sum = 0;
        let beyond = self.frames.iter().find(|f| {
            sum += u64::from(f.header.body_bytes);
            sum > bytes
        });
        let Some(until) = beyond.map(|f| f.header.first) else { return };
        self.until = until;
        self.frames.retain(|f| f.header.first <= until);
    }

    /// The lists of segments in a host's folders.
    fn lists(&self, dirs: &[PathBuf]) -> Result<Vec<FoundList>, FolderError> {
        let mut lists = Vec::new();
        for dir in dirs {
            let files = files::numbered(dir, LIST_EXTENSION).map_err(FolderError::io(dir, "list", 0))?;
            lists.extend(files.iter().map(|(_, path)| list::read(path)));
        }
        Ok(lists)
    }

    /// Finds the frames of segments that are this host's.
    fn scan(&self, files: Vec<(u32, PathBuf)>, hash: u64) -> Vec<(Scanned, PathBuf)> {
        let mut scanned = Vec::new();
        let defect = |what: &str, path: &Path| self.ledger.add(what, 1, Some((path, 0)));
        for (number, path) in files {
            let opened = files::open_regular(&path);
            match opened.and_then(|(file, length)| scan(&file, length, &path, number, &self.ledger)) {
                Ok(Some(s)) if s.header.host != 0 && s.header.host != hash => defect(id::FOLDER_FOREIGN, &path),
                Ok(Some(s)) => scanned.push((s, path)),
                Ok(None) => {}
                Err(e) if e.kind() == ErrorKind::InvalidInput => defect(id::FOLDER_FILE, &path),
                // a flight recorder took it away meanwhile
                Err(e) if e.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => {}
                Err(_) => defect(id::FOLDER_IO, &path),
            }
        }
        scanned
    }

    /// Puts what is missing among the rows, so that nobody links across it.
    fn tell_missing(&mut self) {
        self.unreadable = self.strings.add(id::FOLDER_CRC);
        let pauses = self.pauses();
        let strings = &mut self.strings;
        let row = |m: &Missing| LossRow {
            at: m.to,
            from: m.from,
            count: m.count,
            what: strings.add(m.defect),
            ..Default::default()
        };
        self.missing_rows = self.missing.iter().map(row).collect();
        for (from, at) in pauses {
            let what = self.strings.add(id::FOLDER_PAUSED);
            self.missing_rows.push(LossRow { at, from, count: 1, what, ..Default::default() });
        }
        self.missing_rows.sort_by_key(|r| r.at);
    }

    /// Which recording of the host this is.
    fn recording(&mut self, id: u64) -> usize {
        self.recordings.iter().position(|r| r.id == id).unwrap_or_else(|| {
            self.recordings.push(Recording { id, ..Recording::default() });
            self.recordings.len() - 1
        })
    }

    fn define(&mut self, read: &mut FrameReader, frame: &FrameRef) {
        let Some(bytes) = read.bytes(self, frame) else {
            return;
        };
        let file = &self.files[frame.file as usize];
        let map = &mut self.recordings[file.recording].strings;
        let (whole, overflow) = map.define_all(&mut self.strings, bytes);
        if !whole {
            self.ledger.add(id::FOLDER_FRAME, 1, Some((&file.path, frame.at)));
        }
        if overflow > 0 {
            self.ledger.add(id::INTERNER, overflow, Some((&file.path, frame.at)));
        }
    }

    /// Its index in the folder.
    pub fn id(&self) -> HostId {
        self.id
    }

    /// What is known of it.
    pub fn info(&self) -> &HostInfo {
        &self.info
    }

    /// The strings that its rows name.
    pub fn strings(&self) -> &Strings {
        &self.strings
    }

    /// The text of a string id of its rows.
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    /// Rows of a table, as the frames say.
    pub fn row_count(&self, table: Table) -> u64 {
        self.frames.iter().filter(|f| f.header.table() == Some(table)).map(|f| u64::from(f.header.rows)).sum()
    }

    /// Times of its first and last row.
    pub fn span(&self) -> Option<(MonoNs, MonoNs)> {
        let first = self.frames.iter().map(|f| f.header.first).min()?;
        let last = self.frames.iter().map(|f| f.header.last).max()?.min(self.until);
        Some((MonoNs(first), MonoNs(last)))
    }

    /// Its recordings: the tasks that each names, and the times of its first and last row. A task is of one recording.
    pub fn recordings(&self) -> Vec<(RangeInclusive<u32>, MonoNs, MonoNs)> {
        let mut out: Vec<_> = self
            .recordings
            .iter()
            .map(|r| {
                (
                    r.task_offset.saturating_add(1)..=r.task_offset.saturating_add(r.task_max),
                    MonoNs(u64::MAX),
                    MonoNs(0),
                )
            })
            .collect();
        for f in &self.frames {
            let of = &mut out[self.files[f.file as usize].recording];
            let last = f.header.last.min(self.until);
            (of.1, of.2) = (of.1.min(MonoNs(f.header.first)), of.2.max(MonoNs(last)));
        }
        out.retain(|of| of.1 <= of.2);
        out
    }

    /// Times in which nobody recorded, in order: from the last row of one recording to the first row of the next.
    pub fn pauses(&self) -> Vec<(MonoNs, MonoNs)> {
        let mut recorded: Vec<_> = self.recordings().into_iter().map(|(_, from, to)| (from, to)).collect();
        recorded.sort_unstable();
        let mut pauses = Vec::new();
        let mut until = recorded.first().map_or(MonoNs(0), |r| r.0);
        for (from, to) in recorded {
            if from > until {
                pauses.push((until, from));
            }
            until = until.max(to);
        }
        pauses
    }

    /// Bytes of the frames that hold rows of these tables: what one pass over them reads.
    pub fn bytes_of(&self, tables: TableSet) -> u64 {
        let wanted = |f: &&FrameRef| f.header.table().is_some_and(|t| tables.contains(t));
        self.frames.iter().filter(wanted).map(|f| u64::from(f.header.body_bytes)).sum()
    }

    /// Bytes of its segments that are frames.
    pub fn bytes(&self) -> u64 {
        self.frames.iter().map(|f| u64::from(f.header.body_bytes) + HEADER_BYTES as u64).sum()
    }

    /// What its recordings had, by the lists of their segments, and was not found. It stands among the losses too.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The rows of a frame that cannot be read, as a loss.
    pub(super) fn unreadable(&self, header: &FrameHeader) -> LossRow {
        let (from, at) = (MonoNs(header.first), MonoNs(header.last));
        LossRow { at, from, count: header.rows.into(), what: self.unreadable, ..Default::default() }
    }

    /// Rows of some tables and times, in order of time. Rows of the same time come by table (anchors, tasks and
    /// endpoints before what names them), then as they were written. Memory is bounded whatever the trace's size:
    /// what comes later than the bound bears is given late and counted.
    pub fn events(&self, tables: TableSet, times: impl RangeBounds<MonoNs>) -> Events<'_> {
        Events::new(self, tables, times)
    }

    /// Typed rows, a frame at a time, in the order of the frames' first rows: within a frame sorted by time.
    pub fn batches(&self, tables: TableSet, times: impl RangeBounds<MonoNs>) -> Batches<'_> {
        Batches::new(self, tables, times)
    }

    /// Raw heads, where the recording kept them.
    pub fn heads(&self, times: impl RangeBounds<MonoNs>) -> Heads<'_> {
        Heads::new(self, times)
    }

    /// The host's wall clock, from its anchors.
    pub fn wall_clock(&self) -> WallClock {
        WallClock::new(self.events(Table::Anchor.into(), ..).filter_map(|e| match e {
            Event::Anchor(a) => Some(a),
            _ => None::<AnchorRow>,
        }))
    }

    /// Frames that may hold rows of these tables and times, in order of their first rows.
    pub(super) fn select(&self, tables: TableSet, from: u64, to: u64) -> Vec<u32> {
        let wanted = |f: &FrameRef| {
            f.header.table().is_some_and(|t| tables.contains(t)) && f.header.first <= to && f.header.last >= from
        };
        (0..self.frames.len() as u32).filter(|i| wanted(&self.frames[*i as usize])).collect()
    }

    /// Frames of raw heads.
    pub(super) fn select_heads(&self, from: u64, to: u64) -> Vec<u32> {
        let wanted = |h: &FrameHeader| h.kind == KIND_HEADS && h.first <= to && h.last >= from;
        (0..self.frames.len() as u32).filter(|i| wanted(&self.frames[*i as usize].header)).collect()
    }

    /// Counts a frame with a number that no code has; `what` says which.
    pub(super) fn unknown_code(&self, frame: &FrameRef, what: impl FnOnce() -> String) {
        let place = (&*self.files[frame.file as usize].path, frame.at);
        self.ledger.add_what(id::FOLDER_CODE, 1, Some(place), what);
    }

    /// Counts a defect at a frame.
    pub(super) fn defect(&self, what: &str, count: u64, frame: &FrameRef) {
        self.ledger.add(what, count, Some((&self.files[frame.file as usize].path, frame.at)));
    }
}
