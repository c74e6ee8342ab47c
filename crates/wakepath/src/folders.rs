//! Opening the folders that a question names.

use anyhow::{Result, bail};
use std::io::ErrorKind;
use std::path::PathBuf;
use wakepath_model::folder::Folder;

/// Opens them. Folders are their owner's only: a user who may not enter one is told so, and not that it is none.
pub fn open(dirs: &[PathBuf]) -> Result<Folder> {
    check(dirs)?;
    Ok(Folder::open(dirs)?)
}

/// Whether this user may enter them.
pub fn check(dirs: &[PathBuf]) -> Result<()> {
    for dir in dirs {
        match std::fs::metadata(dir.join("wakepath.json")) {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => bail!(
                "{}: this user may not read it, a recording is its owner's only; run it with sudo, or hand the folder \
                 over (sudo chown -R $USER {})",
                dir.display(),
                dir.display()
            ),
            _ => {}
        }
    }
    Ok(())
}
