//! Whose files are that root makes for somebody: of a new folder who called sudo, of what is cached in a folder its owner.
//!
//! A recording gives up the rights to change owners once it is attached, and makes files for hours. So it makes them as
//! their owner from the beginning: with that user's file system ids, which are this thread's and those of threads that it
//! starts afterwards. All else that it may do stays as it is.

use crate::cli::Command;
use crate::rights;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::Path;

/// Folders in a trace folder are not deeper.
const DEPTH_MAX: u8 = 6;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Who called sudo, where root runs this for somebody else.
    pub fn caller() -> Option<Owner> {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        let caller = Owner { uid: number("SUDO_UID")?, gid: number("SUDO_GID")? };
        (is_root() && caller.uid != 0).then_some(caller)
    }

    /// Whose a folder is, where root runs this and it is another's.
    fn of(dir: &Path) -> Option<Owner> {
        let of = std::fs::metadata(dir).ok()?;
        (is_root() && of.uid() != 0).then_some(Owner { uid: of.uid(), gid: of.gid() })
    }

    /// Gives it what root has made there. What cannot be given stays root's: nothing else fails for that.
    pub fn give(self, path: &Path) {
        let _ = self.give_below(path, DEPTH_MAX);
    }

    /// No link is followed, and what is given is what was looked at, whatever is put in its place meanwhile: the folder may
    /// be in the hands of a user who is not root.
    fn give_below(self, path: &Path, depth: u8) -> std::io::Result<()> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
        let about = file.metadata()?;
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        if about.uid() == 0 && (about.is_dir() || (about.is_file() && about.nlink() == 1)) {
            chown(&itself, Some(self.uid), Some(self.gid))?;
        }
        if about.is_dir() && depth > 0 {
            for entry in std::fs::read_dir(&itself)? {
                self.give_below(&entry?.path(), depth - 1)?;
            }
        }
        Ok(())
    }

    /// Makes this thread's files from here on.
    pub fn makes_files(self) {
        rights::write_as(self.uid, self.gid);
    }
}

fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// What is written into these folders belongs to the owner of the first, as the cache is in that one.
pub fn makes_caches(dirs: &[std::path::PathBuf]) {
    match dirs.first().and_then(|dir| Some((dir, Owner::of(dir)?))) {
        Some((dir, owner)) => {
            // before: only root may give away
            rights::write_as_self();
            owner.give(&dir.join("cache"));
            owner.makes_files();
        }
        // of several folders, one before this may have been another's
        None if is_root() => rights::write_as_self(),
        None => {}
    }
}

/// Gives what a command made to whom it is for, once it is over. Recordings have done so from their beginning.
pub fn hand_over(command: &Command) {
    let made = match command {
        Command::Import(args) => Some(args.output.clone()),
        Command::Merge(args) => Some(args.output.clone()),
        Command::Bundle(args) => Some(args.output.clone()),
        Command::Sniff(args) => args.into.output.clone(),
        Command::Collect(args) => args.into.output.clone(),
        Command::Export(args) => args.output.clone(),
        Command::Tables(args) => args.output.clone().or_else(|| Some(args.folders.folders.first()?.join("tables"))),
        Command::Sync(args) => {
            let dir = args.folders.folders.first();
            if let Some((dir, owner)) = dir.and_then(|dir| Some((dir, Owner::of(dir)?))) {
                owner.give(&dir.join("sync.json"));
            }
            None
        }
        _ => None,
    };
    if let Some((made, owner)) = made.zip(Owner::caller()) {
        owner.give(&made);
    }
}

/// Writes the file by which a caller knows that recording has begun: as root again, since it may be anywhere.
pub fn write_ready_file(file: &Path, pid: u32) -> std::io::Result<()> {
    let owner = Owner::caller();
    if owner.is_some() {
        rights::write_as_self();
    }
    let written = std::fs::write(file, format!("{pid}\n"));
    if let Some(owner) = owner {
        owner.makes_files();
    }
    written
}
