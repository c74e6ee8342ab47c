//! What a program found of an event.

use super::program::Found;

/// Fields of an event that were asked for.
pub struct Fields<'a> {
    found: &'a Found,
    data: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(found: &'a Found, data: &'a [u8]) -> Fields<'a> {
        Fields { found, data }
    }

    /// An integer, a signed one as the bits of an `i64`.
    #[inline]
    pub fn int(&self, output: u8) -> Option<u64> {
        self.found.int(output)
    }

    /// Bytes, or a text with whatever is behind its NUL; empty where it is not there.
    #[inline]
    pub fn bytes(&self, output: u8) -> &'a [u8] {
        self.found.bytes(output, self.data).unwrap_or_default()
    }

    /// A text up to its NUL.
    #[inline]
    pub fn name(&self, output: u8) -> &'a [u8] {
        let bytes = self.bytes(output);
        &bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())]
    }
}
