//! Where a recording goes: the folder and the host's part of it, made, appended to or replaced.

use super::error::FolderError;
use super::files;
use super::info::{self, CACHE, EarlierRecording, HOST_FILE, HOSTS, HostInfo, SEGMENT_EXTENSION};
use super::list::{self, LIST_EXTENSION};
use super::options::Overwrite;
use super::reader::host_dirs;
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
    info::make_dir(&dir.join(CACHE))?;

    let host_dir = host_dir(&dir.join(HOSTS), &mut host)?;
    info::make_dir(&host_dir)?;
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

/// Removes a trace folder into which nobody writes.
fn remove(dir: &Path) -> Result<(), FolderError> {
    if !is_empty(dir) && !info::is_folder(dir) {
        return Err(FolderError::NotOurs(dir.to_owned()));
    }
    if host_dirs(dir)?.iter().any(|host| list::is_in_use(host)) {
        return Err(FolderError::InUse(dir.to_owned()));
    }
    // aside first: of two that replace it at once one finds it gone
    let mut aside = dir.as_os_str().to_owned();
    aside.push(format!(".removing-{}", std::process::id()));
    let aside = PathBuf::from(aside);
    match fs::rename(dir, &aside) {
        Ok(()) => fs::remove_dir_all(&aside).map_err(FolderError::io(&aside, "remove", 0)),
        // where somebody else's folder is around it, or it is a link
        Err(_) => fs::remove_dir_all(dir).map_err(FolderError::io(dir, "remove", 0)),
    }
}

/// Makes the names in a folder durable, as far as the file system does that.
pub(super) fn sync_dir(dir: &Path) {
    let _ = File::open(dir).and_then(|d| d.sync_all());
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// The folder of a host: one that is there for its boot, or a free name. Takes over what its description says of
/// earlier recordings.
fn host_dir(hosts: &Path, host: &mut HostInfo) -> Result<PathBuf, FolderError> {
    let name = host.folder_name();
    for n in 1.. {
        let dir = hosts.join(if n == 1 { name.clone() } else { format!("{name}-{n}") });
        if !dir.exists() {
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
