//! A folder on its way to another host: its files as a tar archive (POSIX ustar), as `tar` writes and reads it.
//!
//! A reader takes the files of a trace folder by their exact names and nothing else, and no archive without its end.

use super::error::FolderError;
use super::files;
use super::info::{self, CACHE, FOLDER_FILE, HOST_FILE, HOSTS, SEGMENT_EXTENSION};
use super::list::LIST_EXTENSION;
use super::reader::host_dirs;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// An archive is made of blocks of this many bytes.
const BLOCK: usize = 512;
/// Longest name that is taken; the format has room for 100 bytes.
const NAME_MAX: usize = 99;
/// Bytes that are copied at a time.
const COPY_BYTES: usize = 64 << 10;

/// Writes a folder: its description, and each host's description, lists and segments.
///
/// # Errors
/// If a file cannot be read, or `out` takes no more.
pub fn write_archive(dir: &Path, out: &mut dyn Write) -> io::Result<()> {
    let hosts = host_dirs(dir).map_err(io::Error::other)?;
    entry(&dir.join(FOLDER_FILE), FOLDER_FILE, out)?;
    for host_dir in hosts {
        let host = host_dir.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        entry(&host_dir.join(HOST_FILE), &format!("{HOSTS}/{host}/{HOST_FILE}"), out)?;
        for extension in [LIST_EXTENSION, SEGMENT_EXTENSION] {
            for (number, path) in files::numbered(&host_dir, extension)? {
                entry(&path, &format!("{HOSTS}/{host}/{number:08}.{extension}"), out)?;
            }
        }
    }
    out.write_all(&[0; 2 * BLOCK])?;
    out.flush()
}

/// A file that is not there is left out.
fn entry(path: &Path, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let (file, length) = match files::open_regular(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    if place(name).is_none() {
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("{name}: a name that no trace folder has")));
    }
    out.write_all(&header(name, length))?;
    let copied = io::copy(&mut file.take(length), out)?;
    if copied < length {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the file got shorter while it was read"));
    }
    out.write_all(&vec![0; padding(length)])
}

fn padding(length: u64) -> usize {
    (BLOCK - (length % BLOCK as u64) as usize) % BLOCK
}

fn header(name: &str, length: u64) -> [u8; BLOCK] {
    let mut b = [0; BLOCK];
    let mut put = |at: usize, text: &str| b[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000600");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{length:011o}"));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = b.iter().map(|b| u32::from(*b)).sum();
    b[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    b
}

/// Makes `out`, which must not exist, the folder of an archive of at most `bytes_max` bytes of files. `told` how many bytes have
/// come. Gives how many there were.
///
/// # Errors
/// If the archive is damaged, too large, has no end or something that no trace folder has; or a file cannot be made. What was
/// made by then stays.
pub fn read_archive(
    from: &mut dyn Read,
    out: &Path,
    bytes_max: u64,
    told: &mut dyn FnMut(u64),
) -> Result<u64, FolderError> {
    if out.symlink_metadata().is_ok() {
        return Err(FolderError::Exists(out.to_owned()));
    }
    for dir in [out.to_owned(), out.join(CACHE), out.join(HOSTS)] {
        info::make_dir(&dir)?;
    }
    let mut came = 0;
    let mut read = || -> io::Result<bool> {
        let mut block = [0; BLOCK];
        from.read_exact(&mut block)?;
        let Some((name, length)) = parse(&block)? else { return Ok(false) };
        came += length;
        if came > bytes_max {
            return Err(bad(format!("it has more than {bytes_max} bytes")));
        }
        let Some((dir, file)) = place(&name) else { return Err(bad(format!("{name:?}: no trace folder has it"))) };
        let dir = out.join(dir);
        info::make_dir(&dir).map_err(io::Error::other)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(file))?;
        copy(from, file, length)?;
        from.read_exact(&mut vec![0; padding(length)])?;
        told(came);
        Ok(true)
    };
    loop {
        match read() {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) => return Err(FolderError::io(out, "read the archive of", came)(e)),
        }
    }
    // without it, a stream that was cut between two files would look whole
    let mut second = [1; BLOCK];
    match from.read_exact(&mut second) {
        Ok(()) if second == [0; BLOCK] => Ok(came),
        Ok(()) => Err(FolderError::io(out, "read the archive of", came)(bad("it goes on after its end"))),
        Err(e) => Err(FolderError::io(out, "read the archive of", came)(e)),
    }
}

fn bad(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.into())
}

fn copy(from: &mut dyn Read, mut file: File, length: u64) -> io::Result<()> {
    let mut left = length;
    let mut bytes = vec![0; COPY_BYTES];
    while left > 0 {
        let n = left.min(COPY_BYTES as u64) as usize;
        from.read_exact(&mut bytes[..n])?;
        file.write_all(&bytes[..n])?;
        left -= n as u64;
    }
    Ok(())
}

/// Name and length of a file by its header; `None` at the archive's end.
fn parse(b: &[u8; BLOCK]) -> io::Result<Option<(String, u64)>> {
    if *b == [0; BLOCK] {
        return Ok(None);
    }
    let octal = |field: &[u8]| {
        let text = field.split(|c| *c == 0 || *c == b' ').find(|t| !t.is_empty()).unwrap_or_default();
        u64::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok()
    };
    let blanked = b[..148].iter().chain(&[b' '; 8]).chain(&b[156..]);
    let sum: u64 = blanked.map(|b| u64::from(*b)).sum();
    let is_ours = &b[257..262] == b"ustar" && octal(&b[148..156]) == Some(sum) && b[156] == b'0';
    let name = b[..100].split(|c| *c == 0).next().and_then(|n| std::str::from_utf8(n).ok());
    match (is_ours, name, octal(&b[124..136])) {
        (true, Some(name), Some(length)) => Ok(Some((name.to_owned(), length))),
        _ => Err(bad("it is no archive, or damaged")),
    }
}

/// The folder and name of a file within a trace folder; `None` for any other name.
fn place(name: &str) -> Option<(PathBuf, &str)> {
    if name == FOLDER_FILE {
        return Some((PathBuf::new(), name));
    }
    let mut parts = name.strip_prefix(HOSTS)?.strip_prefix('/')?.split('/');
    let (host, file, None) = (parts.next()?, parts.next()?, parts.next()) else { return None };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_numbered = || {
        let (number, extension) = file.split_once('.')?;
        let is_number = number.len() >= 8 && number.len() <= 10 && number.bytes().all(|b| b.is_ascii_digit());
        (is_number && [SEGMENT_EXTENSION, LIST_EXTENSION].contains(&extension)).then_some(())
    };
    let is_host = !host.is_empty() && !host.starts_with('.') && host.chars().all(is_plain) && name.len() <= NAME_MAX;
    (is_host && (file == HOST_FILE || is_numbered().is_some())).then(|| (Path::new(HOSTS).join(host), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_trace_folder_have_a_place() {
        for name in
            ["wakepath.json", "hosts/web-1234abcd/host.json", "hosts/w.x_y-1/00000007.seg", "hosts/a/00000000.list"]
        {
            assert!(place(name).is_some(), "{name}");
        }
        for name in [
            "",
            "/etc/passwd",
            "../wakepath.json",
            "hosts/../../x/host.json",
            "hosts/../host.json",
            "hosts//host.json",
            "hosts/a/b/host.json",
            "hosts/a/1.seg",
            "hosts/a/0000000a.seg",
            "hosts/a/00000001.sh",
            "sync.json",
            "cache/x",
        ] {
            assert!(place(name).is_none(), "{name}");
        }
    }
}
