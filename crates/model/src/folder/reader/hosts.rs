//! Which hosts folders have.

use crate::defects::{Ledger, id};
use crate::folder::error::FolderError;
use crate::folder::files;
use crate::folder::info::{self, FolderInfo, HOST_FILE, HOSTS, HostInfo};
use crate::folder::layout::{HEADER_BYTES, SegmentHeader};
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// What folders have of a host.
pub(super) struct HostFiles {
    pub(super) info: HostInfo,
    pub(super) hash: u64,
    pub(super) segments: Vec<(u32, PathBuf)>,
    pub(super) dirs: Vec<PathBuf>,
}

impl HostFiles {
    /// The name of its folder, of the first where it has several.
    pub(super) fn dir_name(&self) -> &OsStr {
        self.dirs.first().and_then(|dir| dir.file_name()).unwrap_or_default()
    }
}

/// What folders say of themselves, and their hosts, in the order of the names of their folders: in whatever order the folders are
/// given, a host has the same number.
pub(super) fn find_hosts<P: AsRef<Path>>(
    dirs: &[P],
    ledger: &Ledger,
) -> Result<(Vec<FolderInfo>, Vec<HostFiles>), FolderError> {
    let mut infos = Vec::new();
    let mut by_host: FxHashMap<u64, usize> = FxHashMap::default();
    let mut found: Vec<HostFiles> = Vec::new();
    for dir in dirs {
        let dir = dir.as_ref();
        infos.push(info::read_folder(dir, ledger)?);
        for host_dir in host_dirs(dir)? {
            let files = info::segment_files(&host_dir).map_err(FolderError::io(&host_dir, "list", 0))?;
            let (info, hash) = read_host(&host_dir, &files, ledger);
            let index = *by_host.entry(hash).or_insert_with(|| {
                found.push(HostFiles { info, hash, segments: Vec::new(), dirs: Vec::new() });
                found.len() - 1
            });
            found[index].segments.extend(files);
            found[index].dirs.push(host_dir);
        }
    }
    found.sort_by(|a, b| a.dir_name().cmp(b.dir_name()));
    Ok((infos, found))
}

/// The folders of a folder's hosts, by name.
pub(in crate::folder) fn host_dirs(dir: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let hosts = dir.join(HOSTS);
    if !hosts.is_dir() {
        return Ok(Vec::new());
    }
    let mut dirs = Vec::new();
    for entry in fs::read_dir(&hosts).map_err(FolderError::io(&hosts, "list", 0))? {
        let path = entry.map_err(FolderError::io(&hosts, "list", 0))?.path();
        if path.is_dir() {
            dirs.push(path);
        }
    }
    dirs.sort();
    Ok(dirs)
}

/// What a host's folder says of it, or its name where that cannot be read; and which host its segments are of.
pub(in crate::folder) fn read_host(host_dir: &Path, segments: &[(u32, PathBuf)], ledger: &Ledger) -> (HostInfo, u64) {
    let path = host_dir.join(HOST_FILE);
    let of_segments: Vec<u64> = segments.iter().filter_map(|(_, path)| segment_header(path)).map(|h| h.host).collect();
    let described = info::read_json::<HostInfo>(&path);
    if let Ok(info) = described {
        let hash = info.host_hash();
        // a description that agrees with none of its segments is what is wrong
        if of_segments.is_empty() || of_segments.contains(&hash) {
            return (info, hash);
        }
        ledger.add(id::FOLDER_HOST, 1, Some((&path, 0)));
        return (info, of_segments[0]);
    }
    ledger.add(id::FOLDER_HOST, 1, Some((&path, 0)));
    let name = host_dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let info = HostInfo { hostname: name, clock: info::MONOTONIC.to_owned(), ..HostInfo::default() };
    let hash = of_segments.first().copied().unwrap_or_else(|| info.host_hash());
    (info, hash)
}

/// The header of a segment, if it has one.
pub(in crate::folder) fn segment_header(path: &Path) -> Option<SegmentHeader> {
    let mut bytes = [0; HEADER_BYTES];
    files::open_regular(path).ok()?.0.read_exact_at(&mut bytes, 0).ok()?;
    SegmentHeader::read(&bytes)
}
