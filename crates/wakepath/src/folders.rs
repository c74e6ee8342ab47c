//! Opening the folders that a question names, and the index of their waits.

use crate::owner;
use crate::progress::{self, Reading};
use anyhow::{Result, bail};
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, Metadata};
use std::hash::{Hash as _, Hasher as _};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use wakepath_analysis::selection::Selection;
use wakepath_causality::reduced::is_reduced;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, Part};
use wakepath_model::rows::Table;

/// Folders within a trace folder are not deeper.
const DEPTH_MAX: u8 = 4;

/// Answers use no link that rests on a habit (`--evidence=shown`).
static REFUSES_HABITS: AtomicBool = AtomicBool::new(false);

/// From here on answers use no link that rests on a habit.
pub fn refuse_habits() {
    REFUSES_HABITS.store(true, Ordering::Relaxed);
}

/// Answers use no link that rests on an identifier which a service handed on, or on an answer that it passed on (`--no-witness`).
static REFUSES_WITNESS: AtomicBool = AtomicBool::new(false);

/// From here on answers use no link that rests on an identifier which a service handed on, or on an answer that it passed on.
pub fn refuse_witness() {
    REFUSES_WITNESS.store(true, Ordering::Relaxed);
}

/// The same of a part of them.
pub fn open_part(dirs: &[PathBuf], part: Part) -> Result<Folder> {
    check(dirs)?;
    let folder = as_asked(Folder::open_part(dirs, part)?);
    match folder.hosts().iter().find(|h| is_reduced(h)) {
        Some(host) => bail!(
            "{} was reduced: only `info`, `requests` and `show` answer about it; ask the folder of its recording",
            host.info().hostname
        ),
        None => Ok(folder),
    }
}

/// Opens them. Folders are their owner's only: a user who may not enter one is told so, and not that it is none.
pub fn open(dirs: &[PathBuf]) -> Result<Folder> {
    open_part(dirs, Part::All)
}

/// The same, for questions that also reduced hosts answer.
pub fn open_reduced(dirs: &[PathBuf]) -> Result<Folder> {
    check(dirs)?;
    let folder = as_asked(Folder::open(dirs)?);
    for host in folder.hosts().iter().filter(|h| is_reduced(h)) {
        let name = &host.info().hostname;
        if host.row_count(Table::Op) > 0 {
            bail!("{name} is given twice, as its recording and reduced: give one of these folders");
        }
        if folder.refuses_habits() || folder.refuses_witness() {
            bail!("{name} was reduced with all evidence; to use less of it, ask the folder of its recording");
        }
    }
    Ok(folder)
}

/// Opens one host of them.
pub fn open_host(dirs: &[PathBuf], host: Option<&str>) -> Result<Folder> {
    check(dirs)?;
    Ok(Folder::open_host(dirs, host)?)
}

/// With the evidence that answers may use.
fn as_asked(mut folder: Folder) -> Folder {
    if REFUSES_HABITS.load(Ordering::Relaxed) {
        folder.refuse_habits();
    }
    if REFUSES_WITNESS.load(Ordering::Relaxed) {
        folder.refuse_witness();
    }
    folder
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

/// The index of a folder's waits; made where it is not there.
pub fn index(folder: &Folder, dirs: &[PathBuf]) -> Result<Index> {
    match index_if_any(folder, dirs)? {
        Some(index) => Ok(index),
        None if folder.hosts().iter().all(|h| h.row_count(Table::Op) + h.row_count(Table::Message) == 0) => {
            bail!("{}: nothing was recorded of any process: none matched the selection", dirs[0].display())
        }
        None => bail!(
            "{}: no waits were recorded; record again without --no-waits, or import a trace that has sched_switch",
            dirs[0].display()
        ),
    }
}

/// The same; `None` where no waits were recorded.
pub fn index_if_any(folder: &Folder, dirs: &[PathBuf]) -> Result<Option<Index>> {
    owner::makes_caches(dirs);
    let bytes = Index::bytes_to_read(folder);
    let bar = Reading::of(folder, "indexing waits", bytes);
    progress::reads(folder, bytes);
    let index = Index::open(folder, dirs)?;
    progress::reads(folder, 0);
    drop(bar);
    // what sniffers alone saw has no waits, and requests all the same
    let is_sniffed = || folder.hosts().iter().any(|h| h.row_count(Table::SniffedExchange) > 0);
    Ok((index.wait_count() > 0 || is_sniffed()).then_some(index))
}

/// The index where a selection asks for causes.
pub fn index_for(folder: &Folder, dirs: &[PathBuf], selection: &Selection) -> Result<Option<Index>> {
    match selection.asks_for_causes() {
        true => index(folder, dirs).map(Some),
        false => Ok(None),
    }
}

/// Refuses an answer for which the index could not be read in part: what could not be read would look like nothing.
pub fn whole(index: &Index, dirs: &[PathBuf]) -> Result<()> {
    match index.failed_reads() {
        0 => Ok(()),
        n => bail!(
            "{0}/cache: {n} reads of the index failed, so the answer would have gaps; check the disk, remove {0}/cache \
             and ask again",
            dirs[0].display()
        ),
    }
}

/// Tells states of folders apart: another one once anything was written into one of them, caches aside.
pub fn stamp(dirs: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    each_file(dirs, &mut |path, about| {
        path.hash(&mut hasher);
        about.len().hash(&mut hasher);
        about.modified().ok().hash(&mut hasher);
    });
    hasher.finish()
}

/// The same, so that also a file that was replaced by another of the same length and time makes it another one: of each file
/// its inode, and when that changed last, which nobody can set. Other things than writing change that, too.
pub fn content(dirs: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    each_file(dirs, &mut |path, about| {
        path.hash(&mut hasher);
        (about.dev(), about.ino(), about.len()).hash(&mut hasher);
        (about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()).hash(&mut hasher);
    });
    hasher.finish()
}

/// Gives all files of folders that hold what was recorded, in the order of their names.
fn each_file(dirs: &[PathBuf], take: &mut dyn FnMut(&Path, &Metadata)) {
    for dir in dirs {
        each_below(&dir.join("hosts"), DEPTH_MAX, take);
        give(&dir.join("sync.json"), take);
        give(&dir.join("wakepath.json"), take);
    }
}

fn each_below(dir: &Path, depth: u8, take: &mut dyn FnMut(&Path, &Metadata)) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && depth > 0 {
            each_below(&path, depth - 1, take);
        } else {
            give(&path, take);
        }
    }
}

fn give(path: &Path, take: &mut dyn FnMut(&Path, &Metadata)) {
    if let Ok(about) = fs::metadata(path) {
        take(path, &about);
    }
}

/// When anything was written into a folder last, caches aside.
pub fn written(dir: &Path) -> Option<SystemTime> {
    let mut newest = None;
    let mut below = vec![(dir.join("hosts"), DEPTH_MAX)];
    while let Some((path, depth)) = below.pop() {
        newest = newest.max(fs::metadata(&path).and_then(|m| m.modified()).ok());
        let entries = (path.is_dir() && depth > 0).then(|| fs::read_dir(&path).ok()).flatten();
        below.extend(entries.into_iter().flatten().flatten().map(|e| (e.path(), depth - 1)));
    }
    newest
}
