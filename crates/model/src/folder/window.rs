//! A time's part of a folder as a folder of its own. Full segments are linked and not copied, so what a flight recorder
//! deletes afterwards stays there. Segments stand alone, so whole ones are taken: the part begins and ends at their borders.

use super::error::FolderError;
use super::files;
use super::info::{self, CACHE, HOST_FILE, HOSTS};
use super::layout::{FrameHeader, HEADER_BYTES};
use super::list::{self, Entry, FoundList, LIST_EXTENSION, List};
use super::reader::{host_dirs, segment_header};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A segment's rows are of at most so long before it was made, and it was written last at most so long after them (ns).
const SLACK_NS: u64 = 500_000_000;

/// What a window has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Makes `out`, which must not exist, a folder with the segments of `dir` that have rows of a time (ns since 1970, by the
/// recorded hosts' wall clocks then). Of segments that are being written it has what is written whole. A host without such a
/// segment is left out.
///
/// # Errors
/// If `out` exists, or a file cannot be read or made.
pub fn window(dir: &Path, time: RangeInclusive<u64>, out: &Path) -> Result<Window, FolderError> {
    if out.symlink_metadata().is_ok() {
        return Err(FolderError::Exists(out.to_owned()));
    }
    info::make_folder(out)?;
    info::make_dir(&out.join(CACHE))?;
    let mut all = Window::default();
    for host_dir in host_dirs(dir)? {
        let Some(name) = host_dir.file_name() else { continue };
        let to = out.join(HOSTS).join(name);
        let of_host = of_host(&host_dir, &time, &to)?;
        all.segments += of_host.segments;
        all.bytes += of_host.bytes;
    }
    Ok(all)
}

/// Bytes of all segments of a folder.
///
/// # Errors
/// If a folder of it cannot be listed.
pub fn segment_bytes(dir: &Path) -> Result<Window, FolderError> {
    let mut all = Window::default();
    for host_dir in host_dirs(dir)? {
        for (_, path) in info::segment_files(&host_dir).map_err(FolderError::io(&host_dir, "list", 0))? {
            let Ok(about) = fs::metadata(&path) else { continue };
            all.segments += 1;
            all.bytes += about.len();
        }
    }
    Ok(all)
}

/// Moves the hosts of a folder into another one on the same file system; a name that is taken there gets a number.
///
/// # Errors
/// If a folder cannot be moved.
pub fn adopt(from: &Path, into: &Path) -> Result<(), FolderError> {
    for host_dir in host_dirs(from)? {
        let name = host_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hosts = into.join(HOSTS);
        let to = (1..)
            .map(|n| hosts.join(if n == 1 { name.clone() } else { format!("{name}-{n}") }))
            .find(|to| to.symlink_metadata().is_err())
            .unwrap_or_default();
        fs::rename(&host_dir, &to).map_err(FolderError::io(&to, "move the host's folder", 0))?;
    }
    Ok(())
}

/// Whether a segment has rows of a time, by when it was made and when it was written last.
fn is_of(time: &RangeInclusive<u64>, made: u64, written: u64) -> bool {
    let (first, last) = (made.min(written).saturating_sub(SLACK_NS), made.max(written).saturating_add(SLACK_NS));
    first <= *time.end() && last >= *time.start()
}

/// When a file was written last, ns since 1970.
pub(super) fn written_real_ns(about: &fs::Metadata) -> u64 {
    u64::try_from(about.mtime()).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec() as u64)
}

/// What a window takes of a recording.
#[derive(Default)]
struct Taken {
    entries: Vec<Entry>,
    /// The recording's last segment is among them.
    has_last: bool,
}

fn of_host(host_dir: &Path, time: &RangeInclusive<u64>, to: &Path) -> Result<Window, FolderError> {
    let failed = |what| FolderError::io(host_dir, what, 0);
    // before the segments, which a recorder that lives makes longer
    let lists: Vec<FoundList> = files::numbered(host_dir, LIST_EXTENSION)
        .map_err(failed("list"))?
        .iter()
        .map(|(_, path)| list::read(path))
        .collect();
    let mut last: BTreeMap<u64, u32> = BTreeMap::new();
    let mut wanted: Vec<(u64, u32, PathBuf)> = Vec::new();
    for (_, path) in info::segment_files(host_dir).map_err(failed("list"))? {
        let (Some(header), Ok(about)) = (segment_header(&path), fs::metadata(&path)) else { continue };
        let newest = last.entry(header.recording).or_default();
        *newest = header.number.max(*newest);
        if is_of(time, header.created_real_ns, written_real_ns(&about)) {
            wanted.push((header.recording, header.number, path));
        }
    }
    if wanted.is_empty() {
        return Ok(Window::default());
    }
    info::make_dir(to)?;
    let mut all = Window::default();
    let mut taken: BTreeMap<u64, Taken> = BTreeMap::new();
    for (recording, number, path) in wanted {
        let found = lists.iter().find(|l| l.list.as_ref().is_some_and(|l| l.recording == recording));
        let is_last = last.get(&recording) == Some(&number);
        let target = to.join(path.file_name().unwrap_or_default());
        let bytes = match take(&path, &target, is_last && found.is_some_and(|l| l.is_locked)) {
            Ok(bytes) => bytes,
            // the flight recorder deleted it meanwhile
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Err(FolderError::io(&target, "make the segment", 0)(e)),
        };
        all.segments += 1;
        all.bytes += bytes;
        let listed = found.and_then(|l| l.list.as_ref()?.segments.iter().find(|s| s.number == number));
        let of = taken.entry(recording).or_default();
        of.entries.push(listed.copied().unwrap_or(Entry { number, ..Entry::default() }));
        of.has_last |= is_last;
    }
    for found in &lists {
        let Some(of) = &found.list else { continue };
        let Some(taken) = taken.remove(&of.recording) else { continue };
        let path = to.join(found.path.file_name().unwrap_or_default());
        list::copy(&part_of(of, taken, found.is_locked), &path)?;
    }
    let host_file = host_dir.join(HOST_FILE);
    match files::read(&host_file, 1 << 20) {
        Ok(text) => fs::write(to.join(HOST_FILE), text).map_err(FolderError::io(to, "write", 0))?,
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(FolderError::io(&host_file, "read", 0)(e)),
    }
    Ok(all)
}

/// The list of a part. Where the part ends before the recording does, it ends as asked for.
fn part_of(of: &List, taken: Taken, is_live: bool) -> List {
    let first = taken.entries.first().map_or(0, |e| e.number);
    let mut list = of.clone();
    while list.segments.first().is_some_and(|s| s.number < first) {
        list.take_oldest();
    }
    if !taken.has_last {
        list.unwritten = Entry::default();
    }
    list.is_ended |= is_live || !taken.has_last;
    list.segments = taken.entries;
    list
}

/// Links a segment, or copies it where that is not possible; `is_live`: what is written whole of one that still grows.
fn take(from: &Path, to: &Path, is_live: bool) -> io::Result<u64> {
    if !is_live && fs::hard_link(from, to).is_ok() {
        return Ok(fs::metadata(to)?.len());
    }
    let (mut file, length) = files::open_regular(from)?;
    let length = if is_live { whole_frames(&file, length)? } else { length };
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut (&mut file).take(length), &mut out)
}

/// Where the last frame ends that is there to its end.
fn whole_frames(file: &File, length: u64) -> io::Result<u64> {
    let mut at = HEADER_BYTES as u64;
    while at + HEADER_BYTES as u64 <= length {
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, at)?;
        let Some(frame) = FrameHeader::read(&bytes) else { break };
        let end = at + HEADER_BYTES as u64 + u64::from(frame.body_bytes);
        if end > length {
            break;
        }
        at = end;
    }
    Ok(at.min(length))
}

/// When the oldest segment of a folder was made, ns since 1970; 0 where there is none.
///
/// # Errors
/// If a folder of it cannot be listed.
pub fn oldest_real_ns(dir: &Path) -> Result<u64, FolderError> {
    let mut oldest = None;
    for host_dir in host_dirs(dir)? {
        let files = info::segment_files(&host_dir).map_err(FolderError::io(&host_dir, "list", 0))?;
        let first = files.iter().find_map(|(_, path)| Some(segment_header(path)?.created_real_ns));
        oldest = [oldest, first].into_iter().flatten().min();
    }
    Ok(oldest.unwrap_or(0))
}
