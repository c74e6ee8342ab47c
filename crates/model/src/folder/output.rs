//! Where a recording goes: the folder and the host's part of it, made, appended to or replaced.

use super::error::FolderError;
use super::files;
use super::info::{self, CACHE, EarlierRecording, HOST_FILE, HOSTS, HostInfo, SEGMENT_EXTENSION};
use super::list::{self, LIST_EXTENSION};
use super::options::Overwrite;
use super::reader::{host_dirs, segment_header};
use super::remove;
use crate::defects::{Ledger, id};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Makes the host's folder within `dir`, and returns it and the first free segment number.
pub(super) fn prepare(dir: &Path, mut host: HostInfo, overwrite: Overwrite) -> Result<(PathBuf, u32), FolderError> {
    let exists = dir.symlink_metadata().is_ok();
    match overwrite {
        Overwrite::Refuse if exists => return Err(FolderError::Exists(dir.to_owned())),
        Overwrite::Append if exists => {
            if is_empty(dir) {
                info::make_folder(dir)?;
            } else {
                let ledger = Ledger::default();
                info::read_folder(dir, &ledger)?;
                if ledger.count(id::FOLDER_INFO) > 0 {
                    info::describe_folder(dir)?;
                }
            }
        }
        Overwrite::Force if exists => {
            remove(dir)?;
            info::make_folder(dir)?;
        }
        Overwrite::Refuse | Overwrite::Append | Overwrite::Force => info::make_folder(dir)?,
    }
    info::make_dir_inside(&dir.join(CACHE))?;
    info::make_dir_inside(&dir.join(HOSTS))?;

    let host_dir = host_dir(&dir.join(HOSTS), &mut host)?;
    info::make_dir_inside(&host_dir)?;
    if host.clock.is_empty() {
        info::MONOTONIC.clone_into(&mut host.clock);
    }
    info::write_json(&host_dir.join(HOST_FILE), &host)?;
    let last = |extension| {
        let files = files::numbered(&host_dir, extension).map_err(FolderError::io(&host_dir, "list", 0))?;
        Ok(files.last().map_or(0, |f| f.0.saturating_add(1)))
    };
    let number = last(SEGMENT_EXTENSION)?.max(last(LIST_EXTENSION)?);
    Ok((host_dir, number))
}

/// Empties a trace folder into which nobody writes, of what Wakepath wrote there.
fn remove(dir: &Path) -> Result<(), FolderError> {
    if !is_empty(dir) && !info::is_folder(dir) {
        return Err(FolderError::NotOurs(dir.to_owned()));
    }
    if host_dirs(dir)?.iter().any(|host| list::is_in_use(host)) {
        return Err(FolderError::InUse(dir.to_owned()));
    }
    remove::remove_own(dir)
}

/// Makes the names in a folder durable, as far as the file system does that.
pub(super) fn sync_dir(dir: &Path) {
    let _ = File::open(dir).and_then(|d| d.sync_all());
}

/// Whether it is a folder that has nothing yet.
pub(super) fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn has_rows(host_dir: &Path) -> bool {
    let any = |extension, of: fn(&Path) -> bool| {
        files::numbered(host_dir, extension).is_ok_and(|found| found.iter().any(|(_, path)| of(path)))
    };
    any(SEGMENT_EXTENSION, |path| segment_header(path).is_some()) || any(LIST_EXTENSION, |_| true)
}

/// The folder of a host: one that is there for its boot, or a free name. Takes over what its description says of
/// earlier recordings.
fn host_dir(hosts: &Path, host: &mut HostInfo) -> Result<PathBuf, FolderError> {
    let name = host.folder_name();
    for n in 1.. {
        let dir = hosts.join(if n == 1 { name.clone() } else { format!("{name}-{n}") });
        // one in which only somebody else's files were left is free
        if !dir.exists() || !dir.join(HOST_FILE).exists() && !has_rows(&dir) {
            return Ok(dir);
        }
        // A host whose description is damaged is still a host: take another name.
        let Ok(there) = info::read_json::<HostInfo>(&dir.join(HOST_FILE)) else {
            continue;
        };
        if there.boot_id == host.boot_id && (!host.boot_id.is_empty() || there.hostname == host.hostname) {
            host.earlier = there.earlier;
            host.earlier.push(EarlierRecording {
                selection: there.selection,
                flags: there.flags,
                agent_version: there.agent_version,
            });
            return Ok(dir);
        }
    }
    Err(FolderError::Usage("no free name for the host's folder"))
}
