//! Deletes what ended recordings of a folder have beyond a size and an age, as the flight recorder does in its own recording.

use super::error::FolderError;
use super::files;
use super::info::{self, HOST_FILE};
use super::list::{self, FoundList, LIST_EXTENSION};
use super::reader::{host_dirs, segment_header};
use super::window::written_real_ns;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A segment of a recording that has ended.
struct Old {
    written_real_ns: u64,
    path: PathBuf,
    bytes: u64,
    /// The list of its recording, if there is one.
    list: Option<PathBuf>,
}

/// Deletes the oldest segments of ended recordings while all segments of the folder have more than `bytes_max` bytes, and those
/// that were written last before `before_real_ns` (ns since 1970). What is being written counts, and stays. Hosts that have
/// nothing left go, with their descriptions.
///
/// # Errors
/// If a folder cannot be listed or a file cannot be deleted.
pub fn prune(dir: &Path, bytes_max: u64, before_real_ns: u64) -> Result<Pruned, FolderError> {
    let (mut all, mut old) = (0, Vec::new());
    let hosts = host_dirs(dir)?;
    for host_dir in &hosts {
        let lists = lists(host_dir)?;
        for (_, path) in info::segment_files(host_dir).map_err(FolderError::io(host_dir, "list", 0))? {
            let (Some(header), Ok(about)) = (segment_header(&path), fs::metadata(&path)) else { continue };
            all += about.len();
            let of = lists.iter().find(|l| l.list.as_ref().is_some_and(|l| l.recording == header.recording));
            // a recorder that has begun makes its first segment before its list
            let is_new = of.is_none() && lists.iter().any(|l| l.is_locked);
            if is_new || of.is_some_and(|l| l.is_locked) {
                continue;
            }
            let list = of.map(|l| l.path.clone());
            old.push(Old { written_real_ns: written_real_ns(&about), path, bytes: about.len(), list });
        }
    }
    old.sort_by(|a, b| (a.written_real_ns, &a.path).cmp(&(b.written_real_ns, &b.path)));
    let mut pruned = Pruned::default();
    for segment in old {
        if all <= bytes_max && segment.written_real_ns >= before_real_ns {
            break;
        }
        delete(&segment)?;
        all -= segment.bytes;
        pruned.segments += 1;
        pruned.bytes += segment.bytes;
    }
    if pruned.segments > 0 {
        for host_dir in &hosts {
            remove_empty(host_dir)?;
        }
    }
    Ok(pruned)
}

fn lists(host_dir: &Path) -> Result<Vec<FoundList>, FolderError> {
    let files = files::numbered(host_dir, LIST_EXTENSION).map_err(FolderError::io(host_dir, "list", 0))?;
    Ok(files.iter().map(|(_, path)| list::read(path)).collect())
}

/// Deletes a segment: first from its list, so that nobody misses it.
fn delete(segment: &Old) -> Result<(), FolderError> {
    if let Some(list) = &segment.list {
        list::delete_oldest(list)?;
    }
    match fs::remove_file(&segment.path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(FolderError::io(&segment.path, "delete", 0)(e)),
        _ => Ok(()),
    }
}

/// Removes lists that have no segment left, and the folder of a host that has none.
fn remove_empty(host_dir: &Path) -> Result<(), FolderError> {
    let found = lists(host_dir)?;
    let is_over = |l: &&FoundList| !l.is_locked && l.list.as_ref().is_some_and(|l| l.segments.is_empty());
    for list in found.iter().filter(is_over) {
        let _ = fs::remove_file(&list.path);
    }
    let is_used = found.iter().any(|l| !is_over(&l));
    let segments = info::segment_files(host_dir).map_err(FolderError::io(host_dir, "list", 0))?;
    if !is_used && segments.is_empty() {
        let _ = fs::remove_file(host_dir.join(HOST_FILE));
        let _ = fs::remove_dir(host_dir);
    }
    Ok(())
}
