//! `wakepath merge`: several folders into one.

use super::error::FolderError;
use super::info::{self, CACHE, EarlierRecording, HOST_FILE, HOSTS, HostInfo};
use super::layout::{HEADER_BYTES, SegmentHeader};
use super::reader::{host_dirs, read_host};
use crate::defects::{DefectCount, Ledger};
use rustc_hash::FxHashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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

struct Input {
    path: PathBuf,
    bytes: u64,
    header: Option<SegmentHeader>,
}

/// Copies the segments of all `inputs` into the new folder `out`. Hosts with the same boot id become one, their
/// segments in the order in which they were recorded; a segment that is a part of another is left out.
pub fn merge<P: AsRef<Path>>(inputs: &[P], out: impl AsRef<Path>) -> Result<Merged, FolderError> {
    let out = out.as_ref();
    if inputs.is_empty() {
        return Err(FolderError::Usage("merge needs at least one folder"));
    }
    if out.symlink_metadata().is_ok() {
        return Err(FolderError::Exists(out.to_owned()));
    }
    let ledger = Ledger::default();
    let mut index: FxHashMap<u64, usize> = FxHashMap::default();
    let mut hosts: Vec<(HostInfo, Vec<Input>)> = Vec::new();
    for dir in inputs {
        let dir = dir.as_ref();
        info::read_folder(dir)?;
        for host_dir in host_dirs(dir)? {
            let host = read_host(&host_dir, &ledger);
            let i = *index.entry(host.host_hash()).or_insert(hosts.len());
            if i == hosts.len() {
                hosts.push((host, Vec::new()));
            } else {
                add_recordings(&mut hosts[i].0, host);
            }
            for (_, path) in info::segment_files(&host_dir).map_err(FolderError::io(&host_dir, "list", 0))? {
                hosts[i].1.push(read_input(path)?);
            }
        }
    }

    let mut merged = Merged { hosts: hosts.len(), ..Merged::default() };
    info::make_folder(out)?;
    info::make_dir(&out.join(CACHE))?;
    for (host, mut segments) in hosts {
        segments.sort_by_key(|s| {
            let key = s.header.map(|h| (h.created_real_ns, h.recording, h.number));
            (key.is_none(), key, u64::MAX - s.bytes)
        });
        let host_dir = free_dir(&out.join(HOSTS), &host.folder_name());
        info::make_dir(&host_dir)?;
        info::write_json(&host_dir.join(HOST_FILE), &host)?;
        let mut copied: Vec<&Input> = Vec::new();
        for segment in &segments {
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

fn read_input(path: PathBuf) -> Result<Input, FolderError> {
    let mut bytes = [0; HEADER_BYTES];
    let mut file = File::open(&path).map_err(FolderError::io(&path, "open", 0))?;
    let header = match file.read_exact(&mut bytes) {
        Ok(()) => SegmentHeader::read(&bytes),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => None,
        Err(e) => return Err(FolderError::io(&path, "read", 0)(e)),
    };
    let bytes = file.metadata().map_err(FolderError::io(&path, "read", 0))?.len();
    Ok(Input { path, bytes, header })
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

fn copy(from: &Path, to: &Path) -> Result<(), FolderError> {
    let mut input = File::open(from).map_err(FolderError::io(from, "open", 0))?;
    let mut output = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(FolderError::io(
        to,
        "make the segment",
        0,
    ))?;
    io::copy(&mut input, &mut output).map_err(FolderError::io(to, "write", 0))?;
    output.sync_data().map_err(FolderError::io(to, "sync", 0))?;
    fs::metadata(to).map(|_| ()).map_err(FolderError::io(to, "read", 0))
}
