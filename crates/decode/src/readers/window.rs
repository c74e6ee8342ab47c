//! A piece of a file in memory, moved along as reading goes on.

use super::source::ReadAt;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// Hands out a file's bytes from one buffer.
pub(super) struct Window<R> {
    /// Where the bytes come from.
    pub source: R,
    buf: Vec<u8>,
    at: u64,
}

impl<R: ReadAt> Window<R> {
    /// Empty yet.
    pub fn new(source: R) -> Window<R> {
        Window { source, buf: Vec::new(), at: 0 }
    }

    /// `len` bytes from offset `at` on, or `None` where the file does not have them all.
    pub fn get(&mut self, at: u64, len: usize) -> Option<&[u8]> {
        let begin = at.checked_sub(self.at).and_then(|b| usize::try_from(b).ok());
        let begin = match begin.filter(|b| b.checked_add(len).is_some_and(|end| end <= self.buf.len())) {
            Some(begin) => begin,
            None => {
                self.refill(at, len);
                0
            }
        };
        self.buf.get(begin..begin.checked_add(len)?)
    }

    fn refill(&mut self, at: u64, len: usize) {
        let rest = usize::try_from(self.source.size().saturating_sub(at)).unwrap_or(usize::MAX);
        self.buf.resize(len.max(CHUNK).min(rest), 0);
        self.at = at;
        let mut have = 0;
        while have < self.buf.len() {
            match self.source.read_at(at + have as u64, &mut self.buf[have..]) {
                Ok(count) if count > 0 => have = (have + count).min(self.buf.len()),
                _ => break,
            }
        }
        self.buf.truncate(have);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_what_is_there_and_no_more() {
        let bytes: Vec<u8> = (0..3 * CHUNK).map(|i| (i % 251) as u8).collect();
        let mut window = Window::new(bytes.clone());
        for (at, len) in [(0, 8), (CHUNK - 3, 9), (2 * CHUNK - 1, CHUNK + 1), (5, 1), (3 * CHUNK - 4, 4)] {
            assert_eq!(window.get(at as u64, len), Some(&bytes[at..at + len]));
        }
        assert_eq!(window.get(3 * CHUNK as u64 - 4, 5), None);
        assert_eq!(window.get(u64::MAX, usize::MAX), None);
    }
}
