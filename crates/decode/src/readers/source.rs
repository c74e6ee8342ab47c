//! What a reader is given: files of a trace, opened by the caller.

/// A file, or anything else of a known size that can be read at any offset.
pub trait ReadAt {
    /// Bytes in all, as far as is known now.
    fn size(&self) -> u64;

    /// Reads bytes from offset `at` on; how many were read, 0 at the end.
    ///
    /// # Errors
    /// What the system says; the reader counts it as the end of the file.
    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize>;
}

/// Any file.
pub type File = Box<dyn ReadAt + Send>;

/// One file of a trace, or one folder of them.
pub struct Part {
    /// What to call it in messages: its path.
    pub name: String,
    /// Name (without folders) and bytes of each file, in order of the names.
    pub files: Vec<(String, File)>,
}

impl Part {
    /// The first part's first file; an empty one where there is none.
    pub(super) fn file(parts: Vec<Part>) -> File {
        let first = parts.into_iter().next().and_then(|part| part.files.into_iter().next());
        first.map_or_else(|| Box::new(Vec::new()) as File, |(_, file)| file)
    }

    /// All bytes of a file of this part, at most `max`; `None` where there is no such file, or it is longer.
    pub(super) fn read(&self, name: &str, max: u64) -> Option<Vec<u8>> {
        let (_, file) = self.files.iter().find(|(n, _)| n == name)?;
        let len = usize::try_from(file.size()).ok().filter(|_| file.size() <= max)?;
        let mut bytes = vec![0; len];
        let mut have = 0;
        while have < len {
            match file.read_at(have as u64, &mut bytes[have..]) {
                Ok(count) if count > 0 => have += count.min(len - have),
                _ => break,
            }
        }
        bytes.truncate(have);
        Some(bytes)
    }
}

/// The bytes of a file that no part of it has claimed yet. No byte belongs to two parts: where parts lie over one another,
/// the file is damaged, or made so that reading it takes time with the square of its size.
pub(super) struct Unclaimed {
    size: u64,
    left: u64,
}

impl Unclaimed {
    /// All of a file.
    pub(super) fn of(source: &impl ReadAt) -> Unclaimed {
        Unclaimed { size: source.size(), left: source.size() }
    }

    /// Claims bytes from offset `at` on, as far as the file goes; `None` where fewer are left than that.
    pub(super) fn claim(&mut self, at: u64, bytes: u64) -> Option<()> {
        let there = bytes.min(self.size.saturating_sub(at));
        self.left = self.left.checked_sub(there)?;
        Some(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl ReadAt for File {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        (**self).read_at(at, buf)
    }
}
