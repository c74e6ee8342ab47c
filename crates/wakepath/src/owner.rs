//! For whom root writes: of a new folder that is who called sudo, of a folder that is there its owner.
//!
//! Root makes no files for others to give them away afterwards: where these files are, the other may have put a link or another
//! folder meanwhile, and would be given what only root may have. Root becomes the other instead, for files alone: with
//! that user's file system ids, which are this thread's and those of threads that it starts afterwards. Then the kernel
//! refuses what the user may not do, wherever a path leads. All else that root may do stays as it is.

use crate::output::tell;
use crate::rights;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchown, fstat, mkdirat, openat, unlinkat};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use wakepath_model::folder::Overwrite;

/// A ready file is not longer: the number of a process, or an address.
const READY_BYTES_MAX: usize = 64;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Who called sudo, where root runs this for somebody else.
    fn caller() -> Option<Owner> {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        let caller = Owner { uid: number("SUDO_UID")?, gid: number("SUDO_GID")? };
        (is_root() && caller.uid != 0).then_some(caller)
    }

    /// Whose something is, where root runs this and it is another's.
    fn of(about: &Metadata) -> Option<Owner> {
        (is_root() && about.uid() != 0).then_some(Owner { uid: about.uid(), gid: about.gid() })
    }

    /// For whom root writes into a folder, which need not be there yet.
    fn of_folder(folder: &Path) -> Option<Owner> {
        let Ok(about) = std::fs::metadata(folder) else { return Owner::caller() };
        Owner::of(&about).or_else(|| Owner::caller().filter(|_| !is_kept_by_root(folder)))
    }

    /// Makes this thread's files from here on.
    fn makes_files(self) {
        rights::write_as(self.uid, self.gid);
    }

    /// Makes a new thing where this user may not, as root, and hands over just what was made: nothing that is there already, and
    /// nothing that was put in its place. Where the right to give away is given up already, it stays root's.
    fn is_given(self, path: &Path, make: impl FnOnce(&File, &OsStr) -> io::Result<File>) -> io::Result<File> {
        rights::write_as_self();
        let made = (|| {
            let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
            let around = openat(CWD, around(path), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let made = make(&File::from(around), name)?;
            let _ = fchown(&made, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)));
            Ok(made)
        })();
        self.makes_files();
        made
    }
}

/// The folder that something is in.
fn around(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Whether nobody but root can put something else where a folder is that is root's: neither on the way that was named nor on that
/// to which links in it lead.
fn is_kept_by_root(folder: &Path) -> bool {
    let is_roots = |path: &Path| {
        path.symlink_metadata().is_ok_and(|about| {
            about.uid() == 0 && (about.is_symlink() || about.mode() & 0o022 == 0 || about.mode() & 0o1000 != 0)
        })
    };
    let ways = [std::path::absolute(folder), std::fs::canonicalize(folder)];
    ways.iter().all(|way| way.as_ref().is_ok_and(|way| way.ancestors().all(is_roots)))
}

/// What is made in a trace folder, or a folder of tables, from here on is made by whom it is for. Makes the folder where it is not
/// there; then it is to be filled, which is what it gives.
pub fn claim(folder: &Path, overwrite: Overwrite) -> io::Result<Overwrite> {
    let owner = writes_for(folder);
    if overwrite == Overwrite::Force {
        tell_foreign(folder);
    }
    let Some(owner) = owner else { return Ok(overwrite) };
    if folder.symlink_metadata().is_ok() {
        return Ok(overwrite);
    }
    let made = DirBuilder::new().recursive(true).create(around(folder));
    let made = made.and_then(|()| DirBuilder::new().mode(0o700).create(folder));
    match made {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            rights::write_as_self();
            let made = DirBuilder::new().recursive(true).create(around(folder));
            owner.makes_files();
            made?;
            owner.is_given(folder, new_folder)?;
        }
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(overwrite),
        made => made?,
    }
    Ok(Overwrite::Append)
}

/// Says what --force leaves where it was.
fn tell_foreign(folder: &Path) {
    let foreign = wakepath_model::folder::foreign(folder);
    if let Some(first) = foreign.first() {
        let more = if foreign.len() > 1 { format!(", and {} more", foreign.len() - 1) } else { String::new() };
        tell!("wakepath: {}{more} stays: Wakepath did not write it", first.display());
    }
}

/// Makes a folder that nobody else has had in hand.
fn new_folder(around: &File, name: &OsStr) -> io::Result<File> {
    mkdirat(around, name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = File::from(openat(around, name, flags, Mode::empty())?);
    let is_empty = rustix::fs::Dir::read_from(&made)?
        .all(|e| e.is_ok_and(|e| e.file_name().to_bytes().iter().all(|b| *b == b'.')));
    let about = fstat(&made)?;
    if about.st_uid != 0 || about.st_mode & 0o077 != 0 || !is_empty {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "somebody put another folder in its place"));
    }
    Ok(made)
}

/// What is written into these folders is written by whom the first is for, as the cache is in that one.
pub fn makes_caches(dirs: &[PathBuf]) {
    if let Some(dir) = dirs.first() {
        writes_in(dir);
    }
}

/// What is made or removed in a folder from here on is so by whom it is for.
pub fn writes_in(folder: &Path) {
    let _ = writes_for(folder);
}

fn writes_for(folder: &Path) -> Option<Owner> {
    let owner = Owner::of_folder(folder);
    match owner {
        Some(owner) => owner.makes_files(),
        // a folder before this may have been another's
        None if is_root() => rights::write_as_self(),
        None => {}
    }
    owner
}

/// Opens a file to be written from its beginning: an answer's, or the one by which a caller knows that recording has begun. Root
/// follows no link there, and writes into no file that another name may be of.
pub fn create(file: &Path) -> io::Result<File> {
    let before = rights::file_ids();
    let caller = Owner::caller();
    match caller {
        Some(owner) => owner.makes_files(),
        // what was read before may be another's, and its cache is made as theirs
        None if is_root() => rights::write_as_self(),
        None => {}
    }
    let opened = match (open_to_write(file, caller.is_none() && is_root()), caller) {
        (Err(e), Some(owner)) if e.kind() == ErrorKind::PermissionDenied => owner
            .is_given(file, new_file)
            .map_err(|again| if again.kind() == ErrorKind::AlreadyExists { e } else { again }),
        (opened, _) => opened,
    };
    if is_root() {
        rights::write_as(before.0, before.1);
    }
    opened
}

/// Makes a file. One that is there is root's, or a third's, and stays as it is, unless it is a ready file of before.
fn new_file(around: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let there = match openat(around, name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
        Err(Errno::EXIST) => File::from(openat(around, name, flags, Mode::empty())?),
        made => return Ok(File::from(made?)),
    };
    let about = there.metadata()?;
    let mut text = [0; READY_BYTES_MAX + 1];
    let is_ready_file = about.is_file() && about.nlink() == 1 && about.uid() == 0 && {
        let n = there.read_at(&mut text, 0)?;
        n > 0 && n <= READY_BYTES_MAX && text[..n].iter().all(|b| b.is_ascii_hexdigit() || b".:[]\n".contains(b))
    };
    if !is_ready_file {
        return Err(ErrorKind::AlreadyExists.into());
    }
    there.set_len(0)?;
    Ok(there)
}

fn open_to_write(file: &Path, as_root: bool) -> io::Result<File> {
    if !as_root {
        return File::create(file);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(CWD, file, flags, Mode::from_raw_mode(0o666));
    let opened = File::from(open().map_err(|e| match e {
        Errno::LOOP => io::Error::new(
            ErrorKind::InvalidInput,
            "it is a link, and root follows none to write; name the file itself",
        ),
        other => other.into(),
    })?);
    let about = fstat(&opened)?;
    if FileType::from_raw_mode(about.st_mode) == FileType::RegularFile {
        if about.st_nlink != 1 {
            let why = "the file has a second name, and root writes into none such; remove it, or name another";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        opened.set_len(0)?;
    }
    Ok(opened)
}

/// Writes the file by which a caller knows that recording has begun.
pub fn write_ready_file(file: &Path, text: &str) -> io::Result<()> {
    create(file)?.write_all(text.as_bytes())
}

/// Starts a command as ourselves: files that it makes are none of the recording's.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    if !is_root() {
        return command.spawn();
    }
    let before = rights::file_ids();
    rights::write_as_self();
    let child = command.spawn();
    rights::write_as(before.0, before.1);
    child
}

/// Does something with files in a folder of a process, in a thread that is that process's user while it lasts, also of its groups
/// only the first. Whatever that user puts there in the meantime leads to nothing that the user may not do anyway.
pub fn as_user<T: Send>(uid: u32, gid: u32, what: impl FnOnce() -> T + Send) -> io::Result<T> {
    let work = || {
        rights::become_user_of_files(uid, gid)?;
        Ok(what())
    };
    std::thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Removes files of a folder by their names, and the folder, where it has nothing else.
pub fn remove_made(around: &File, name: &str, folder: &File, files: &[&str]) -> io::Result<()> {
    for file in files {
        match unlinkat(folder, *file, AtFlags::empty()) {
            Err(e) if e != Errno::NOENT => return Err(e.into()),
            _ => {}
        }
    }
    Ok(unlinkat(around, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const NOBODY: u32 = 65534;

    /// What attaching does in a process's temporary folder, which has no sticky bit here, so that the user may replace all of it.
    #[test]
    fn as_a_user_root_is_led_to_nothing_that_is_roots() -> io::Result<()> {
        if !is_root() {
            println!("skipped: only root becomes another user");
            return Ok(());
        }
        let dir = tempfile::tempdir()?;
        let (place, secret) = (dir.path().join("tmp"), dir.path().join("secret"));
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))?;
        std::fs::create_dir(&place)?;
        std::fs::set_permissions(&place, PermissionsExt::from_mode(0o777))?;
        std::fs::write(&secret, "root's")?;
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600))?;
        symlink(&secret, place.join("agent.jar"))?;
        let refused = as_user(NOBODY, NOBODY, || {
            [
                std::fs::write(place.join("agent.jar"), "ours").map_err(|e| e.kind()),
                std::fs::read(place.join("agent.jar")).map(drop).map_err(|e| e.kind()),
                std::os::unix::fs::chown(place.join("agent.jar"), Some(NOBODY), None).map_err(|e| e.kind()),
            ]
        })?;
        assert_eq!(refused, [Err(ErrorKind::PermissionDenied); 3]);
        as_user(NOBODY, NOBODY, || std::fs::write(place.join("own"), "a"))??;
        assert_eq!(std::fs::metadata(place.join("own"))?.uid(), NOBODY);
        assert_eq!((std::fs::metadata(&secret)?.uid(), std::fs::read(&secret)?), (0, b"root's".to_vec()));
        // and this thread is still root
        std::fs::write(&secret, "root's again")
    }

    #[test]
    fn a_folder_is_kept_by_root_where_no_part_of_the_way_is_anothers() -> io::Result<()> {
        if !is_root() {
            println!("skipped: only root has folders that are root's");
            return Ok(());
        }
        let dir = tempfile::tempdir()?;
        let (kept, user) = (dir.path().join("kept"), dir.path().join("user"));
        std::fs::create_dir(&kept)?;
        std::fs::create_dir(&user)?;
        assert!(is_kept_by_root(&kept));
        symlink(&kept, user.join("link"))?;
        assert!(is_kept_by_root(&user.join("link")));
        std::os::unix::fs::chown(&user, Some(NOBODY), None)?;
        assert!(!is_kept_by_root(&user.join("link")));
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777))?;
        assert!(!is_kept_by_root(&kept));
        Ok(())
    }
}
