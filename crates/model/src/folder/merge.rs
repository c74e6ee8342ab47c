//! `wakepath merge`: several folders into one.

use super::error::FolderError;
use super::files;
use super::info::{self, CACHE, EarlierRecording, HOST_FILE, HOSTS, HostInfo};
use super::layout::SegmentHeader;
use super::list::{self, FoundList, LIST_EXTENSION};
use super::output;
use super::reader::{host_dirs, read_host, segment_header};
use super::verify;
use crate::defects::{DefectCount, Ledger, id};
use rustc_hash::FxHashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// What a merge did.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Hosts in the new folder.
    pub hosts: usize,
    /// Segments copied.
    pub segments: usize,
    /// Segments that were given twice and copied once.
    pub duplicates: usize,
    /// What was found wrong on the way.
    pub defects: Vec<DefectCount>,
}

/// What the inputs have of a host.
struct HostInput {
    info: HostInfo,
    segments: Vec<Input>,
    lists: Vec<FoundList>,
}

struct Input {
    path: PathBuf,
    bytes: u64,
    header: Option<SegmentHeader>,
}

/// Copies the segments of all `inputs` into the new folder `out`. Hosts with the same boot id become one, their
/// segments in the order in which they were recorded; a segment that is a part of another is left out.
pub fn merge<P: AsRef<Path>>(inputs: &[P], out: impl AsRef<Path>) -> Result<Merged, FolderError> {
    merge_told(inputs, out, |_, _| {})
}

/// The same; `told` how many bytes of how many are done.
pub fn merge_told<P: AsRef<Path>>(
    inputs: &[P],
    out: impl AsRef<Path>,
    told: impl Fn(u64, u64),
) -> Result<Merged, FolderError> {
    let out = out.as_ref();
    if inputs.is_empty() {
        return Err(FolderError::Usage("merge needs at least one folder"));
    }
    if out.symlink_metadata().is_ok() && !output::is_empty(out) {
        return Err(FolderError::Exists(out.to_owned()));
    }
    let ledger = Ledger::default();
    let mut index: FxHashMap<u64, usize> = FxHashMap::default();
    let mut hosts: Vec<HostInput> = Vec::new();
    for dir in inputs {
        let dir = dir.as_ref();
        info::read_folder(dir, &ledger)?;
        for host_dir in host_dirs(dir)? {
            let files = info::segment_files(&host_dir).map_err(FolderError::io(&host_dir, "list", 0))?;
            let (host, hash) = read_host(&host_dir, &files, &ledger);
            let i = *index.entry(hash).or_insert(hosts.len());
            if i == hosts.len() {
                hosts.push(HostInput { info: host, segments: Vec::new(), lists: Vec::new() });
            } else {
                add_recordings(&mut hosts[i].info, host);
            }
            for (_, path) in files {
                match read_input(path) {
                    Ok(input) => hosts[i].segments.push(input),
                    Err((path, e)) if e.kind() == io::ErrorKind::InvalidInput => {
                        ledger.add(id::FOLDER_FILE, 1, Some((&path, 0)));
                    }
                    Err((path, e)) => return Err(FolderError::io(&path, "read", 0)(e)),
                }
            }
            let lists = files::numbered(&host_dir, LIST_EXTENSION).map_err(FolderError::io(&host_dir, "list", 0))?;
            hosts[i].lists.extend(lists.iter().map(|(_, path)| list::read(path)));
        }
    }

    let mut merged = Merged { hosts: hosts.len(), ..Merged::default() };
    let all = hosts.iter().flat_map(|h| &h.segments).map(|s| s.bytes).sum();
    let mut done = 0;
    info::make_folder(out)?;
    info::make_dir(&out.join(CACHE))?;
    for HostInput { info: host, mut segments, lists } in hosts {
        segments.sort_by_key(|s| {
            let key = s.header.map(|h| (h.created_real_ns, h.recording, h.number));
            (key.is_none(), key, u64::MAX - s.bytes)
        });
        let host_dir = free_dir(&out.join(HOSTS), &host.folder_name());
        info::make_dir(&host_dir)?;
        info::write_json(&host_dir.join(HOST_FILE), &host)?;
        let mut copied: Vec<&Input> = Vec::new();
        for segment in &segments {
            told(done, all);
            done += segment.bytes;
            // Copies of one segment stand next to each other, the longest first.
            let is_part = segment.header.is_some()
                && copied.iter().rev().take_while(|c| c.header == segment.header).any(|c| is_prefix(segment, c));
            if is_part {
                merged.duplicates += 1;
                continue;
            }
            let to = host_dir.join(info::segment_name(copied.len() as u32));
            copy(&segment.path, &to)?;
            copied.push(segment);
            merged.segments += 1;
        }
        for (number, found) in verify::newest(&lists, &ledger).iter().enumerate() {
            if let Some(of) = &found.list {
                list::copy(of, &host_dir.join(list::list_name(number as u32)))?;
            }
        }
    }
    merged.defects = ledger.counts();
    Ok(merged)
}

/// Takes over how a host was recorded into the other folder.
fn add_recordings(host: &mut HostInfo, other: HostInfo) {
    let last = EarlierRecording { selection: other.selection, flags: other.flags, agent_version: other.agent_version };
    let own = EarlierRecording {
        selection: host.selection.clone(),
        flags: host.flags.clone(),
        agent_version: host.agent_version.clone(),
    };
    for recording in other.earlier.into_iter().chain([last]) {
        if recording != own && !host.earlier.contains(&recording) {
            host.earlier.push(recording);
        }
    }
}

fn read_input(path: PathBuf) -> Result<Input, (PathBuf, io::Error)> {
    match files::open_regular(&path) {
        Ok((_, bytes)) => Ok(Input { header: segment_header(&path), path, bytes }),
        Err(e) => Err((path, e)),
    }
}

/// Whether a segment is the beginning of another, byte by byte; false where that cannot be found out.
fn is_prefix(part: &Input, whole: &Input) -> bool {
    let compare = || -> io::Result<bool> {
        let (mut a, mut b) = (File::open(&part.path)?, File::open(&whole.path)?);
        let (mut x, mut y) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut left = part.bytes;
        while left > 0 {
            let n = left.min(x.len() as u64) as usize;
            a.read_exact(&mut x[..n])?;
            b.read_exact(&mut y[..n])?;
            if x[..n] != y[..n] {
                return Ok(false);
            }
            left -= n as u64;
        }
        Ok(true)
    };
    part.bytes <= whole.bytes && compare().unwrap_or(false)
}

fn free_dir(hosts: &Path, name: &str) -> PathBuf {
    let mut dir = hosts.join(name);
    let mut n = 1;
    while dir.exists() {
        n += 1;
        dir = hosts.join(format!("{name}-{n}"));
    }
    dir
}

/// Copies a segment; holes in it stay holes.
fn copy(from: &Path, to: &Path) -> Result<(), FolderError> {
    let (input, length) = files::open_regular(from).map_err(FolderError::io(from, "open", 0))?;
    let create = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let output = create.map_err(FolderError::io(to, "make the segment", 0))?;
    let mut bytes = vec![0; COPY_BYTES];
    let mut at = files::next_data(&input, 0, length);
    while at < length {
        let n = match input.read_at(&mut bytes, at) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(FolderError::io(from, "read", at)(e)),
        };
        output.write_all_at(&bytes[..n], at).map_err(FolderError::io(to, "write", at))?;
        at = files::next_data(&input, at + n as u64, length);
    }
    output.set_len(length.min(at)).and_then(|()| output.sync_data()).map_err(FolderError::io(to, "write", 0))
}
