//! What files are called that processes have mapped: looked up once a file, while somebody maps it.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use wakepath_capture::procfs;
use wakepath_model::ids::StrId;

/// Files that are remembered at once; beyond, all are looked up again.
const KNOWN_MAX: usize = 1 << 16;
/// A process's memory is looked at again for a file that was not in it, but not more often than this.
const AGAIN: Duration = Duration::from_secs(1);

/// A file: its device (major << 20 | minor), its inode's number, and which of the files that had that number.
pub type Inode = (u32, u64, u32);

/// The mapped files of a recording.
#[derive(Default)]
pub struct Files {
    known: HashMap<Inode, StrId>,
    /// Files that a process's memory did not name, and when it was looked at for them last.
    missed: HashMap<(u32, Inode), Instant>,
}

impl Files {
    /// The path of a file as process `tgid` maps it; [`StrId::EMPTY`] where nobody who was asked maps it any more.
    pub fn path(&mut self, tgid: u32, file: Inode, intern: impl FnOnce(&[u8]) -> StrId) -> StrId {
        if let Some(&known) = self.known.get(&file) {
            return known;
        }
        if self.missed.get(&(tgid, file)).is_some_and(|at| at.elapsed() < AGAIN) {
            return StrId::EMPTY;
        }
        if self.known.len() + self.missed.len() >= KNOWN_MAX {
            self.known.clear();
            self.missed.clear();
        }
        let path = procfs::mapped_files(tgid).into_iter().find(|m| (m.device, m.inode) == (file.0, file.1));
        match path {
            Some(m) => {
                let path = intern(m.path.as_bytes());
                self.missed.remove(&(tgid, file));
                self.known.insert(file, path);
                path
            }
            None => {
                self.missed.insert((tgid, file), Instant::now());
                StrId::EMPTY
            }
        }
    }
}
