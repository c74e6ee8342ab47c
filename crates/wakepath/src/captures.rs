//! Capture files: opened, unpacked and read, a chunk at a time.

use anyhow::{Context as _, Result, bail};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wakepath_decode::readers::pcap::{PcapReader, Record};
use wakepath_decode::readers::{Counts, Reader as _};

/// Bytes of a chunk, at most.
const CHUNK: usize = 256 << 10;

/// A capture file, or standard input, being read.
pub struct Capture {
    /// As messages name it.
    pub name: String,
    /// Bytes of the file, packed as they are; `None` where there is no end to be known.
    pub bytes: Option<u64>,
    source: Box<dyn Read + Send>,
    /// The descriptor on which may be nothing for long: standard input, a pipe. `None` of a file on a disk.
    waits_on: Option<RawFd>,
    is_packed: bool,
    /// Chunks asked for.
    reads: u32,
    buf: Vec<u8>,
    reader: PcapReader,
    /// Bytes of the file that were read.
    done: Arc<AtomicU64>,
}

/// Counts what is read of a file before it is unpacked.
struct Counted<R> {
    inner: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buf)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Capture {
    /// Opens a capture file, packed by gzip or zstd or not at all; `-` is standard input.
    ///
    /// # Errors
    /// There is no such file, it may not be read, or it begins with what is no capture; each says what to do then.
    pub fn open(path: &Path) -> Result<Capture> {
        if path.as_os_str() == "-" {
            return Capture::new("standard input".to_owned(), None, Some(0), std::io::stdin());
        }
        let file = match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                bail!("{}: there is no such file; give a capture, or - for standard input", path.display())
            }
            other => other.with_context(|| {
                format!("{}: cannot open it; copy it to where this user may read it", path.display())
            })?,
        };
        let about = file.metadata().with_context(|| format!("{}: cannot look at it", path.display()))?;
        if about.is_dir() {
            bail!("{}: is a folder; give a capture file", path.display());
        }
        let waits_on = (!about.is_file()).then(|| file.as_raw_fd());
        Capture::new(path.display().to_string(), about.is_file().then_some(about.len()), waits_on, file)
    }

    fn new(
        name: String,
        bytes: Option<u64>,
        waits_on: Option<RawFd>,
        file: impl Read + Send + 'static,
    ) -> Result<Capture> {
        let done = Arc::new(AtomicU64::new(0));
        let (head, source) = begin(Box::new(Counted { inner: file, done: done.clone() }), &name)?;
        let (is_packed, source): (bool, Box<dyn Read + Send>) = match head[..] {
            [0x1f, 0x8b, ..] => (true, Box::new(MultiGzDecoder::new(source))),
            [0x28, 0xb5, 0x2f, 0xfd] => {
                (true, Box::new(zstd::Decoder::new(source).with_context(|| format!("{name}: cannot unpack it"))?))
            }
            _ => (false, source),
        };
        let (head, source) = begin(source, &name)?;
        if !PcapReader::fits(&head) {
            bail!("{name}: {}", not_a_capture(&head));
        }
        Ok(Capture {
            name,
            bytes,
            source,
            waits_on,
            is_packed,
            reads: 0,
            buf: vec![0; CHUNK],
            reader: PcapReader::new(),
            done,
        })
    }

    /// Gives the records of the next chunk to `out`. `false` at the end. Of a live source, a chunk is what is there.
    ///
    /// # Errors
    /// It cannot be read any further. That it is cut, or cannot be unpacked any further, is a fault in
    /// [`Capture::counts`] instead.
    pub fn next(&mut self, out: &mut impl FnMut(Record<'_>)) -> Result<bool> {
        self.reads = self.reads.saturating_add(1);
        let count = loop {
            match self.source.read(&mut self.buf) {
                Ok(count) => break count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if self.is_packed => {
                    self.reader.broken(&format!("it cannot be unpacked any further: {e}"));
                    break 0;
                }
                Err(e) => return Err(e).with_context(|| format!("{}: cannot be read to its end", self.name)),
            }
        };
        match count {
            0 => self.reader.finish(),
            _ => self.reader.feed(&self.buf[..count], out),
        }
        Ok(count > 0)
    }

    /// Whether the next chunk, or the end, comes within `wait`. Of a file on a disk, always.
    pub fn is_ready(&self, wait: Duration) -> bool {
        // what was looked at already, to see what file it is, waits for nothing
        let looked_at = 1 + u32::from(self.is_packed);
        let Some(fd) = self.waits_on.filter(|_| self.reads >= looked_at) else { return true };
        let mut fds = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid structure.
        unsafe { libc::poll(&mut fds, 1, wait.as_millis() as i32) != 0 }
    }

    /// What was read so far; places are those in the unpacked file.
    pub fn counts(&self) -> Counts {
        self.reader.counts()
    }

    /// Bytes of the file read so far, packed as they are.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// The first bytes of a source, at most four, and the whole source.
fn begin(mut source: Box<dyn Read + Send>, name: &str) -> Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = Vec::new();
    source.by_ref().take(4).read_to_end(&mut head).with_context(|| format!("{name}: cannot read it"))?;
    Ok((head.clone(), Box::new(Cursor::new(head).chain(source))))
}

/// What a file is that begins so, and what to do then.
fn not_a_capture(head: &[u8]) -> &'static str {
    const PACKED: [&[u8]; 4] = [b"\xfd7zX", b"\x04\x22\x4d\x18", b"BZh", b"PK\x03\x04"];
    match head {
        [] => "it is empty: the capture was stopped before it wrote, or still runs",
        h if PACKED.iter().any(|m| h.starts_with(m)) => {
            "its compression is not supported: unpack it first, or pipe it in (xz -dc FILE | … -)"
        }
        _ => "not a packet capture: pcap and pcapng are supported, also compressed by gzip or zstd",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// A capture of `count` packets of ten bytes.
    fn pcap(count: u32) -> Vec<u8> {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
        for number in 0..count {
            [number, 0, 10, 10].iter().for_each(|field: &u32| file.extend(field.to_le_bytes()));
            file.extend([number as u8; 10]);
        }
        file
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn open(bytes: &[u8]) -> Result<Capture> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        Capture::open(file.path())
    }

    /// Packets and faults of a file, and how much of it was read.
    fn read(bytes: &[u8]) -> (u64, u64, u64) {
        let mut capture = open(bytes).unwrap();
        assert_eq!(capture.bytes, Some(bytes.len() as u64));
        let mut packets = 0;
        while capture.next(&mut |_| packets += 1).unwrap() {}
        assert!(!capture.next(&mut |_| packets += 1).unwrap());
        (packets, capture.counts().fault_count, capture.done())
    }

    #[test]
    fn packed_captures_give_what_they_gave_before() {
        let plain = pcap(50_000);
        assert_eq!(read(&plain), (50_000, 0, plain.len() as u64));
        let packed = gzip(&plain);
        assert_eq!(read(&packed), (50_000, 0, packed.len() as u64));
        // As pigz and mergers of files write it.
        let (begin, end) = plain.split_at(70_001);
        let members = [gzip(begin), gzip(end)].concat();
        assert_eq!(read(&members), (50_000, 0, members.len() as u64));
        let packed = zstd::encode_all(&plain[..], 1).unwrap();
        assert_eq!(read(&packed), (50_000, 0, packed.len() as u64));
    }

    #[test]
    fn what_is_cut_or_damaged_is_read_up_to_there() {
        let plain = pcap(50_000);
        let mut checked = zstd::Encoder::new(Vec::new(), 1).unwrap();
        checked.include_checksum(true).unwrap();
        checked.write_all(&plain).unwrap();
        for mut packed in [gzip(&plain), checked.finish().unwrap()] {
            let (packets, faults, _) = read(&packed[..packed.len() / 2]);
            assert!(packets > 1000 && packets < 50_000 && faults == 1, "{packets} {faults}");
            let middle = packed.len() / 2;
            packed[middle..middle + 200].fill(0xff);
            let (packets, faults, _) = read(&packed);
            assert!(packets > 1000 && faults == 1, "{packets} {faults}");
        }
        assert_eq!(read(&plain[..plain.len() - 1]), (49_999, 1, plain.len() as u64 - 1));
    }

    #[test]
    fn what_is_no_capture_is_told_with_what_to_do() {
        for (bytes, says) in [
            (&b""[..], "empty"),
            (b"\xfd7zXZ\0", "unpack it first"),
            (b"hello, world", "pcap and pcapng"),
            (&gzip(b"hello, world"), "pcap and pcapng"),
        ] {
            let error = format!("{:#}", open(bytes).err().expect("no capture"));
            assert!(error.contains(says), "{error}");
        }
        assert!(format!("{:#}", Capture::open(Path::new("/nowhere")).err().unwrap()).contains("no such file"));
        assert!(format!("{:#}", Capture::open(Path::new("/tmp")).err().unwrap()).contains("folder"));
    }
}
