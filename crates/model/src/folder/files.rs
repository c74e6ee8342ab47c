//! Opening files of a folder that somebody else may have made: whatever stands there must not hold a reader up.

use rustix::fs::{OFlags, SeekFrom, seek};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Opens a regular file and tells its length; anything else (a FIFO, a device, a folder) is refused at once.
pub(super) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    // looked at before it is opened, since opening a device may do something
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok((file, about.len()))
}

/// Reads a file from its beginning; one of more than `bytes_max` bytes is refused.
pub(super) fn read_all(file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    use std::io::Seek as _;
    let mut file = file;
    let length = file.metadata()?.len();
    if length > bytes_max {
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("it has {length} bytes, more than it may have")));
    }
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of at most `bytes_max` bytes.
pub(super) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_all(&open_regular(path)?.0, bytes_max)
}

/// Where the next bytes of a sparse file are that somebody wrote, from `at` on; its length where there are none.
pub(super) fn next_data(file: &File, at: u64, length: u64) -> u64 {
    match seek(file, SeekFrom::Data(at)) {
        Ok(next) => next.min(length),
        Err(rustix::io::Errno::NXIO) => length,
        // a file system that does not know
        Err(_) => at,
    }
}

/// The files `NUMBER.EXTENSION` of a folder, by number.
pub(super) fn numbered(dir: &Path, extension: &str) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != extension) {
            continue;
        }
        if let Some(number) = path.file_stem().and_then(|s| s.to_str()).and_then(|s| s.parse().ok()) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}
