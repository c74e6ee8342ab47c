//! One growing segment: whole frames are appended, a torn one is cut off again.

use super::error::FolderError;
use super::info::{created_real_ns, segment_name};
use super::layout::{FORMAT_VERSION, HEADER_BYTES, SegmentHeader};
use super::list::Entry;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A segment that is being written.
pub(super) struct Segment {
    file: File,
    pub path: PathBuf,
    /// What the recording's list is to say of it.
    pub entry: Entry,
}

impl Segment {
    /// Makes the next free segment, at least number `number`.
    pub fn create(host_dir: &Path, mut number: u32, recording: u64, host: u64) -> Result<Segment, FolderError> {
        let (mut file, path) = loop {
            let path = host_dir.join(segment_name(number));
            match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => break (file, path),
                Err(e) if e.kind() == ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                Err(e) => return Err(FolderError::io(&path, "make the segment", 0)(e)),
            }
        };
        let created_real_ns = created_real_ns();
        let header =
            SegmentHeader { version: FORMAT_VERSION, number, recording, host, created_real_ns, is_listed: true };
        if let Err(e) = file.write_all(&header.write()) {
            let _ = std::fs::remove_file(&path);
            return Err(FolderError::io(&path, "write", 0)(e));
        }
        Ok(Segment { file, path, entry: Entry { number, bytes: HEADER_BYTES as u64, ..Entry::default() } })
    }

    /// Appends whole frames; on failure what was written of them is taken away again.
    pub fn append(&mut self, frames: &[u8]) -> Result<(), FolderError> {
        if let Err(e) = self.file.write_all(frames) {
            let _ = self.file.set_len(self.entry.bytes);
            return Err(FolderError::io(&self.path, "write", self.entry.bytes)(e));
        }
        self.entry.bytes += frames.len() as u64;
        Ok(())
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<(), FolderError> {
        self.file.sync_data().map_err(FolderError::io(&self.path, "sync", self.entry.bytes))
    }

    /// Puts another file under the segment, so that a test can make writing fail.
    #[cfg(test)]
    pub fn swap_file(&mut self, file: File) -> File {
        std::mem::replace(&mut self.file, file)
    }

    /// Whether the file is still where it was made: nobody finds rows in one that was removed.
    pub fn is_there(&self) -> bool {
        let id = |m: std::io::Result<std::fs::Metadata>| m.map(|m| (m.dev(), m.ino())).ok();
        // a file that cannot be looked at is none that was removed
        id(self.file.metadata()).is_none_or(|own| id(std::fs::metadata(&self.path)) == Some(own))
    }
}
