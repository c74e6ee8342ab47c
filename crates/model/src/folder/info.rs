//! What a folder and its hosts say of themselves: `wakepath.json` and `host.json`.

use super::error::FolderError;
use super::files;
use super::layout::FORMAT_VERSION;
use super::list::LIST_EXTENSION;
use crate::defects::{Ledger, id};
use fnv::FnvHasher;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::Hasher as _;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The folder's description.
pub(super) const FOLDER_FILE: &str = "wakepath.json";
/// A host's description.
pub(super) const HOST_FILE: &str = "host.json";
/// Where the hosts are.
pub(super) const HOSTS: &str = "hosts";
/// Where derived things are kept.
pub(super) const CACHE: &str = "cache";
/// How a segment's file name ends.
pub(super) const SEGMENT_EXTENSION: &str = "seg";
/// The clock that times are of.
pub const MONOTONIC: &str = "monotonic";

const FORMAT: &str = "wakepath-folder";
/// A larger file is no description.
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// What `wakepath.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderInfo {
    /// Always `wakepath-folder`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// When the folder was made, ns since 1970.
    pub created_real_ns: u64,
    /// What made it.
    #[serde(default)]
    pub tool: String,
    /// Why an agent kept it, and what came of each host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// What an agent says of a time that it kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// Who or what asked for it.
    pub reason: String,
    /// The time that was asked for, ns since 1970.
    pub from_real_ns: u64,
    /// Its end.
    pub to_real_ns: u64,
    /// The agents that were asked, the one that kept it first.
    pub parts: Vec<KeptPart>,
}

/// What one agent gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptPart {
    /// Its address; empty for the agent that kept it.
    pub agent: String,
    /// Whether its part is here.
    pub state: PartState,
    /// Why it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Bytes of its segments.
    pub bytes: u64,
}

/// Whether an agent's part of a kept time is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// It was asked for and is not here yet.
    #[default]
    Asked,
    /// All of it is here.
    Here,
    /// The agent has nothing of that time.
    Empty,
    /// It did not come in time.
    Late,
    /// The agent did not give it.
    Missing,
}

/// What `host.json` says of a host, and of how it was recorded last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostInfo {
    /// Host name.
    pub hostname: String,
    /// The kernel's boot id: two recordings with the same one are of the same host and clock.
    pub boot_id: String,
    /// Kernel release.
    pub kernel_release: String,
    /// Architecture.
    pub arch: String,
    /// Processors.
    pub cpus: u32,
    /// What was selected, as given on the command line.
    pub selection: String,
    /// Other flags of the recording.
    pub flags: Vec<String>,
    /// Version of the agent or importer.
    pub agent_version: String,
    /// The clock that times are of: [`MONOTONIC`], or what an importer found.
    pub clock: String,
    /// Recordings of this host that were made into the same folder before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierRecording>,
}

/// How a host was recorded before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EarlierRecording {
    /// What was selected.
    pub selection: String,
    /// Other flags.
    pub flags: Vec<String>,
    /// Version of the agent or importer.
    pub agent_version: String,
}

impl HostInfo {
    /// The name of the host's folder: `NAME-BOOTID8`.
    pub fn folder_name(&self) -> String {
        let name: String = self
            .hostname
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
            .take(64)
            .collect();
        let name = name.trim_start_matches('.');
        let boot: String = self.boot_id.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        format!("{}-{}", if name.is_empty() { "host" } else { name }, if boot.is_empty() { "00000000" } else { &boot })
    }

    /// Hash of the boot id (FNV-1a), as it stands in segments.
    pub(super) fn host_hash(&self) -> u64 {
        let id = if self.boot_id.is_empty() { &self.hostname } else { &self.boot_id };
        let mut hash = FnvHasher::default();
        hash.write(id.as_bytes());
        hash.finish()
    }
}

/// Now, ns since 1970: only for descriptions, never for rows.
pub(super) fn created_real_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// Makes a folder that only its owner may enter, inside a trace folder, where it is not there yet.
pub(super) fn make_dir_inside(path: &Path) -> Result<(), FolderError> {
    if path.symlink_metadata().is_ok_and(|about| about.is_symlink()) {
        return Err(FolderError::Link(path.to_owned()));
    }
    make_dir(path)
}

/// Makes a folder that only its owner may enter.
pub(super) fn make_dir(path: &Path) -> Result<(), FolderError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(FolderError::io(path, "make the folder", 0))
}

/// Writes a description whole or not at all.
pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), FolderError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| unreadable(path, &e))?;
    text.push(b'\n');
    let temporary = path.with_extension(format!("json.{}", std::process::id()));
    let write = || {
        // one of a process that had our number and was killed
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|e| {
        let _ = fs::remove_file(&temporary);
        FolderError::io(path, "write", 0)(e)
    })
}

/// Reads a description.
pub(super) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, FolderError> {
    let text = files::read(path, DESCRIPTION_BYTES_MAX).map_err(FolderError::io(path, "read", 0))?;
    serde_json::from_slice(&text).map_err(|e| unreadable(path, &e))
}

fn unreadable(path: &Path, e: &serde_json::Error) -> FolderError {
    FolderError::Description { path: path.to_owned(), line: e.line(), column: e.column(), reason: e.to_string() }
}

/// Reads `DIR/wakepath.json`. Where that is gone or damaged and segments are there, these are what counts.
pub(super) fn read_folder(dir: &Path, ledger: &Ledger) -> Result<FolderInfo, FolderError> {
    let path = dir.join(FOLDER_FILE);
    if let Err(e) = fs::metadata(&path)
        && e.kind() == std::io::ErrorKind::PermissionDenied
    {
        // somebody else's may well be one
        return Err(FolderError::io(&path, "read", 0)(e));
    }
    match read_json::<FolderInfo>(&path) {
        Ok(info) if info.format == FORMAT && info.version != FORMAT_VERSION => {
            Err(FolderError::OtherFormat { path: dir.to_owned(), version: info.version })
        }
        Ok(info) if info.format == FORMAT => {
            let parts = info.kept.iter().flat_map(|k| &k.parts);
            let missing = parts.filter(|p| !matches!(p.state, PartState::Here)).count() as u64;
            if missing > 0 {
                ledger.add(id::KEPT_PART, missing, Some((&path, 0)));
            }
            Ok(info)
        }
        _ if has_recordings(dir) => {
            ledger.add(id::FOLDER_INFO, 1, Some((&path, 0)));
            let (format, tool) = (FORMAT.to_owned(), String::new());
            Ok(FolderInfo { format, version: FORMAT_VERSION, created_real_ns: 0, tool, kept: None })
        }
        _ => Err(FolderError::NotAFolder(dir.to_owned())),
    }
}

/// Whether `DIR` is a trace folder, by its description or, where that is gone, by what a recorder made in it.
pub(super) fn is_folder(dir: &Path) -> bool {
    dir.join(FOLDER_FILE).is_file() || has_recordings(dir)
}

/// Whether a recorder made something in `DIR`.
fn has_recordings(dir: &Path) -> bool {
    let hosts = fs::read_dir(dir.join(HOSTS)).into_iter().flatten().flatten();
    let of = |host: &Path, extension| files::numbered(host, extension).is_ok_and(|f| !f.is_empty());
    hosts.map(|h| h.path()).any(|h| of(&h, SEGMENT_EXTENSION) || of(&h, LIST_EXTENSION))
}

/// Makes `DIR` and its description.
pub(super) fn make_folder(dir: &Path) -> Result<(), FolderError> {
    make_dir(dir)?;
    make_dir_inside(&dir.join(HOSTS))?;
    describe_folder(dir)
}

/// Writes `DIR/wakepath.json`.
pub(super) fn describe_folder(dir: &Path) -> Result<(), FolderError> {
    describe(dir, None)
}

/// What an agent says of a time that it kept; `None` of any other folder.
pub fn read_kept(dir: &Path) -> Option<Kept> {
    read_json::<FolderInfo>(&dir.join(FOLDER_FILE)).ok()?.kept
}

/// Writes `DIR/wakepath.json` of a time that an agent kept.
///
/// # Errors
/// If it cannot be written.
pub fn describe_kept(dir: &Path, kept: Kept) -> Result<(), FolderError> {
    describe(dir, Some(kept))
}

fn describe(dir: &Path, kept: Option<Kept>) -> Result<(), FolderError> {
    let info = FolderInfo {
        format: FORMAT.to_owned(),
        version: FORMAT_VERSION,
        created_real_ns: created_real_ns(),
        tool: concat!("wakepath ", env!("CARGO_PKG_VERSION")).to_owned(),
        kept,
    };
    write_json(&dir.join(FOLDER_FILE), &info)
}

/// The segments of a host's folder, by number.
pub(super) fn segment_files(host_dir: &Path) -> std::io::Result<Vec<(u32, PathBuf)>> {
    files::numbered(host_dir, SEGMENT_EXTENSION)
}

/// A segment's file name.
pub(super) fn segment_name(number: u32) -> String {
    format!("{number:08}.{SEGMENT_EXTENSION}")
}
