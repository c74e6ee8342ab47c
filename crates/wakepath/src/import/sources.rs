//! What a user names as a source, and the traces that it holds: found by their first bytes, never by their names.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use wakepath_decode::readers::{Content, File as SourceFile, Format, Layout, Part, ReadAt};

/// Folders are looked into this deep.
const DEPTH_MAX: usize = 24;
/// Traces of one source, at most: a wrong folder (`/`) is noticed before the disk has been walked through.
const TRACES_MAX: usize = 4096;

/// One trace.
#[derive(Clone, Debug)]
pub struct Found {
    pub format: Format,
    /// The file, or the folder that holds the metadata.
    pub path: PathBuf,
    /// What the user calls its host, with `--host`.
    pub host: Option<String>,
}

/// The format of a file that begins so, where it is one for import.
fn importable(head: &[u8]) -> Option<Format> {
    Format::of(head).filter(|format| format.about().content != Content::Packets)
}

/// What a file is that is no trace, and what to do then.
fn not_a_trace(head: &[u8]) -> &'static str {
    const PACKED: [&[u8]; 5] = [b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh", b"PK\x03\x04"];
    match head {
        [] => "it is empty: the tracer was stopped before it wrote, or still runs",
        h if PACKED.iter().any(|m| h.starts_with(m)) => "it is packed: unpack it first (tar -xf, gunzip)",
        h if h.get(257..262) == Some(b"ustar") => "it is packed: unpack it first (tar -xf)",
        h if Format::of(h).is_some() => "it is a packet capture: wakepath sniff --pcap reads it",
        h if h.starts_with(b"WAKESEG1") => "it is a segment of a trace folder: give the folder itself (wakepath info)",
        _ => {
            "import reads CTF traces (the folder of an LTTng session), perf.data (perf record), trace.dat \
             (trace-cmd record) and marks (docs/formats/marks.md), not printed text of tracers"
        }
    }
}

/// The traces of a source.
pub fn find(source: &Path, host: Option<&str>) -> Result<Vec<Found>> {
    let about = match fs::metadata(source) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            bail!("{}: there is no such file or folder; give a trace, or the folder that holds it", source.display())
        }
        other => other.with_context(|| format!("{}: cannot look at it{}", source.display(), REMEDY))?,
    };
    let host = host.map(str::to_owned);
    if !about.is_dir() {
        let head = head_of(source)?;
        let Some(format) = importable(&head) else {
            bail!("{}: not a trace: {}", source.display(), not_a_trace(&head));
        };
        let path = match (format.about().layout, source.parent()) {
            // somebody named the metadata itself
            (Layout::Folder { .. }, Some(folder)) if folder.as_os_str().is_empty() => PathBuf::from("."),
            (Layout::Folder { .. }, Some(folder)) => folder.to_owned(),
            _ => source.to_owned(),
        };
        return Ok(vec![Found { format, path, host }]);
    }
    if source.join("wakepath.json").is_file() {
        bail!(
            "{}: is a trace folder already; read it (wakepath info), or merge it with others (wakepath merge)",
            source.display()
        );
    }
    for refused in Format::ALL.iter().filter_map(|format| Some((format, format.about().refused?))) {
        let (format, refused) = refused;
        if head_of(&source.join(refused.file)).is_ok_and(|head| Format::of(&head) == Some(*format)) {
            bail!("{}: {}", source.display(), refused.why);
        }
    }
    let mut found = Vec::new();
    walk(source, 0, &mut found)?;
    if found.is_empty() {
        bail!(
            "{}: holds no CTF trace: no file `metadata` of one in it or below. Name an LTTng session's folder, or a \
             perf.data or trace.dat file itself",
            source.display()
        );
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(found.into_iter().map(|(format, path)| Found { format, path, host: host.clone() }).collect())
}

const REMEDY: &str = "; run it with sudo, or copy the trace to where this user may read it";

fn walk(folder: &Path, depth: usize, out: &mut Vec<(Format, PathBuf)>) -> Result<()> {
    if out.len() >= TRACES_MAX {
        bail!("{}: more than {TRACES_MAX} traces in or below it; name a folder further down", folder.display());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("{}: cannot list it{REMEDY}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("{}: cannot list it", folder.display()))?;
        let (path, kind) = (entry.path(), entry.file_type());
        // a link to a folder would be a trace twice, or a circle
        match kind {
            Ok(k) if k.is_dir() && depth < DEPTH_MAX => walk(&path, depth + 1, out)?,
            Ok(k) if !k.is_dir() && is_marker(&path) && path.is_file() => {
                let format = importable(&head_of(&path)?).filter(|f| marker(*f).is_some());
                out.extend(format.map(|format| (format, folder.to_owned())));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The file by which a format's folders are known.
fn marker(format: Format) -> Option<&'static str> {
    match format.about().layout {
        Layout::Folder { marker, .. } => Some(marker),
        Layout::File => None,
    }
}

fn is_marker(path: &Path) -> bool {
    Format::ALL.iter().filter_map(|format| marker(*format)).any(|marker| path.file_name() == Some(OsStr::new(marker)))
}

fn head_of(path: &Path) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(512).read_to_end(&mut head));
    read.with_context(|| format!("{}: cannot read it{REMEDY}", path.display()))?;
    Ok(head)
}

/// A trace's files, opened for its reader.
pub fn part(format: Format, path: &Path) -> Result<Part> {
    let files = match format.about().layout {
        Layout::File => vec![path.to_owned()],
        Layout::Folder { marker, holds } => files(path, |name| name == marker || holds(name))?,
    };
    let open = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, Box::new(Opened::new(file)?) as SourceFile))
    };
    Ok(Part { name: path.display().to_string(), files: files.iter().map(open).collect::<Result<_>>()? })
}

/// The files of a folder that belong to a trace, in order of their names.
fn files(folder: &Path, belongs: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}: cannot list it{REMEDY}", folder.display()))? {
        let path = entry.with_context(|| format!("{}: cannot list it", folder.display()))?.path();
        if path.file_name().and_then(OsStr::to_str).is_some_and(&belongs) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A file to be read at any offset.
#[derive(Debug)]
pub struct Opened {
    file: File,
    size: u64,
}

impl Opened {
    /// Opens a file.
    pub fn new(path: &Path) -> Result<Opened> {
        let file = File::open(path).with_context(|| format!("{}: cannot open it{}", path.display(), REMEDY))?;
        let size = file.metadata().with_context(|| format!("{}: cannot look at it", path.display()))?.len();
        Ok(Opened { file, size })
    }
}

impl ReadAt for Opened {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.file.read_at(buf, at) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_go_by_their_first_bytes() {
        for (head, format) in [
            (&b"PERFILE2\x68\0\0\0\0\0\0\0"[..], Some(Format::Perf)),
            (b"2ELIFREP\0\0\0\0\0\0\0\x10", Some(Format::Perf)),
            (b"\x17\x08\x44tracing6\0", Some(Format::Ftrace)),
            (b"\x57\x1d\xd1\x75", Some(Format::Ctf)),
            (b"\x75\xd1\x1d\x57", Some(Format::Ctf)),
            (b"/* CTF 1.8 */\n", Some(Format::Ctf)),
            (b"\x1e{\"type\"", Some(Format::Ctf)),
            (b"wakepath-marks 1 unit=us\n", Some(Format::Marks)),
            (b"PERFFILE", None),
            (b"", None),
            (b"perf script's text", None),
        ] {
            assert_eq!(importable(head), format, "{head:?}");
        }
    }

    #[test]
    fn what_is_no_trace_is_told_with_what_to_do() {
        for (head, says) in [
            (&b""[..], "empty"),
            (b"\x1f\x8b\x08", "unpack"),
            (b"\xd4\xc3\xb2\xa1", "capture"),
            (b"WAKESEG1", "trace folder"),
            (b"     wget  100 [000]", "perf.data"),
        ] {
            assert!(not_a_trace(head).contains(says), "{head:?}");
        }
    }
}
