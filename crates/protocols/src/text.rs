//! A string of bounded length that holds printable ASCII only.

/// At most `N` bytes of printable ASCII. What does not fit is left out, and [`Text::is_cut`] says so.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    len: u16,
    cut: bool,
    buf: [u8; N],
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Text<N> {
    /// An empty text.
    pub const fn new() -> Self {
        assert!(N <= u16::MAX as usize);
        Text { len: 0, cut: false, buf: [0; N] }
    }

    /// `bytes`, escaped; as much as fits.
    pub fn of(bytes: &[u8]) -> Self {
        let mut text = Self::new();
        text.push_all(bytes);
        text
    }

    /// `bytes` in upper case, escaped; as much as fits.
    pub fn upper(bytes: &[u8]) -> Self {
        let mut text = Self::of(bytes);
        text.buf[..usize::from(text.len)].make_ascii_uppercase();
        text
    }

    /// Appends one byte, escaped as `\xNN` unless it is printable ASCII. After the first byte that does not fit
    /// nothing is taken any more, so that the text stays a prefix.
    pub fn push(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        if (b' '..=b'~').contains(&byte) {
            self.raw(&[byte]);
        } else {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            self.raw(&[b'\\', b'x', high, low]);
        }
    }

    /// Appends bytes, each as [`Text::push`] does.
    pub fn push_all(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.push(byte);
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        let len = usize::from(self.len);
        match self.buf.get_mut(len..len + bytes.len()) {
            Some(room) if !self.cut => {
                room.copy_from_slice(bytes);
                self.len += bytes.len() as u16;
            }
            _ => self.cut = true,
        }
    }

    /// Removes the last `count` bytes.
    pub fn pop(&mut self, count: usize) {
        self.len = self.len.saturating_sub(count as u16);
    }

    /// Marks the text as incomplete; nothing is appended any more.
    pub fn mark_cut(&mut self) {
        self.cut = true;
    }

    /// Whether something was left out.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buf[..usize::from(self.len)]
    }

    /// The text so far.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.bytes()).unwrap_or("")
    }
}

impl<const N: usize> core::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}
