//! Taking a trace folder away: what Wakepath wrote there, by its exact names, and nothing that somebody else put beside it.

use super::error::FolderError;
use super::info::{CACHE, FOLDER_FILE, HOST_FILE, HOSTS, SEGMENT_EXTENSION};
use super::list::{self, LIST_EXTENSION};
use super::reader::segment_header;
use super::sync::SYNC_FILE;
use crate::rows::Table;
use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Where tables are written that nobody said a place for.
const TABLES: &str = "tables";
/// Tables of what was made of the rows.
const DERIVED: [&str; 2] = ["requests", "spans"];

/// What is in a trace folder.
#[derive(Debug, Default)]
struct Found {
    /// What Wakepath wrote.
    own: Vec<PathBuf>,
    /// Folders, each behind those inside it.
    dirs: Vec<PathBuf>,
    /// Anything else.
    foreign: Vec<PathBuf>,
}

/// What in a folder Wakepath did not write: what [`Overwrite::Force`](super::Overwrite) leaves there.
pub fn foreign(dir: &Path) -> Vec<PathBuf> {
    let mut found = Found::default();
    // what cannot be read is told when it is to be removed
    let _ = found.look(dir, Place::Top);
    found.foreign.sort();
    found.foreign
}

/// Removes what Wakepath wrote, and folders that are empty then. The folder itself stays, to be written again.
pub(super) fn remove_own(dir: &Path) -> Result<(), FolderError> {
    let mut found = Found::default();
    found.look(dir, Place::Top).map_err(FolderError::io(dir, "list", 0))?;
    for path in &found.own {
        match fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(FolderError::io(path, "remove", 0)(e)),
            _ => {}
        }
    }
    // those that are not empty stay
    found.dirs.iter().for_each(|path| drop(fs::remove_dir(path)));
    Ok(())
}

/// Which names are Wakepath's, and which folders are looked into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Hosts,
    Host,
    Cache,
    Index,
    Answers,
    Tables,
}

impl Found {
    fn look(&mut self, dir: &Path, place: Place) -> io::Result<()> {
        let listed = if place == Place::Host { listed(dir) } else { Vec::new() };
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_str().unwrap_or_default();
            // a link is what it is itself, wherever it leads
            if entry.file_type()?.is_dir() {
                match place.inside(name) {
                    Some(inside) => {
                        self.look(&path, inside)?;
                        self.dirs.push(path);
                    }
                    None => self.foreign.push(path),
                }
            } else if place.is_own(name, &entry, &listed) {
                self.own.push(path);
            } else {
                self.foreign.push(path);
            }
        }
        Ok(())
    }
}

impl Place {
    /// What a folder of that name is.
    fn inside(self, name: &str) -> Option<Place> {
        match (self, name) {
            (Place::Top, HOSTS) => Some(Place::Hosts),
            (Place::Top, CACHE) => Some(Place::Cache),
            (Place::Top, TABLES) => Some(Place::Tables),
            (Place::Hosts, _) => Some(Place::Host),
            (Place::Cache, "answers") => Some(Place::Answers),
            (Place::Cache, _) => {
                let index = name.strip_prefix("graph-").is_some_and(is_hexadecimal);
                // of a process that has not moved it to its place
                let unfinished = name.strip_prefix(".graph-").and_then(|n| n.split_once('-'));
                (index || unfinished.is_some_and(|(pid, _)| is_number(pid))).then_some(Place::Index)
            }
            _ => None,
        }
    }

    fn is_own(self, name: &str, entry: &DirEntry, listed: &[u32]) -> bool {
        // a description that was not moved to its place
        let is_description =
            |of: &str| name == of || name.strip_prefix(of).and_then(|n| n.strip_prefix('.')).is_some_and(is_number);
        match self {
            Place::Top => is_description(FOLDER_FILE) || is_description(SYNC_FILE),
            Place::Host => match numbered(name) {
                Some((_, LIST_EXTENSION)) => true,
                Some((number, SEGMENT_EXTENSION)) => {
                    listed.contains(&number) || segment_header(&entry.path()).is_some()
                }
                _ => is_description(HOST_FILE),
            },
            Place::Index => {
                let is_table =
                    |(table, host): (&str, &str)| table.bytes().all(|b| b.is_ascii_lowercase()) && is_number(host);
                name == "lengths" || name.rsplit_once('-').is_some_and(is_table)
            }
            Place::Answers => {
                let unfinished = name.strip_prefix('.').and_then(|n| n.split_once('-'));
                name.strip_suffix(".answer").is_some_and(is_hexadecimal)
                    || unfinished.is_some_and(|(pid, sum)| is_number(pid) && is_hexadecimal(sum))
            }
            Place::Tables => {
                let unfinished =
                    name.strip_prefix('.').and_then(|n| n.rsplit_once('.')).filter(|(_, pid)| is_number(pid));
                let table = unfinished.map_or(name, |(table, _)| table).strip_suffix(".parquet");
                table.is_some_and(|t| DERIVED.contains(&t) || Table::ALL.iter().any(|known| known.name() == t))
            }
            Place::Hosts | Place::Cache => false,
        }
    }
}

/// The segments that the lists of a host's folder name.
fn listed(host_dir: &Path) -> Vec<u32> {
    let lists = super::files::numbered(host_dir, LIST_EXTENSION).unwrap_or_default();
    let lists = lists.iter().filter_map(|(_, path)| list::read(path).list);
    lists.flat_map(|list| list.segments.into_iter().map(|segment| segment.number)).collect()
}

/// The number and extension of a segment or a list.
fn numbered(name: &str) -> Option<(u32, &str)> {
    let (number, extension) = name.split_once('.')?;
    (number.len() >= 8 && is_number(number)).then(|| Some((number.parse().ok()?, extension)))?
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}
