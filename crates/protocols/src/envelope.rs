//! What a JSON object says of itself, as JSON-RPC and much that is like it do: members of its outermost level.

use crate::mask;

/// What of a JSON object says whom it is for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Envelope<'t> {
    /// Hash of the identifier.
    pub id: Option<u64>,
    pub is_json_rpc: bool,
    pub method: Option<&'t [u8]>,
    pub has_method: bool,
    pub has_outcome: bool,
    /// Its outcome is an error.
    pub has_failed: bool,
    /// Bytes of the object, where its end is there.
    pub length: Option<usize>,
}

impl<'t> Envelope<'t> {
    /// Reads the members of the object at the start of a text, as far as it is there.
    pub fn read(text: &'t [u8]) -> Envelope<'t> {
        let mut found = Envelope::default();
        let (mut depth, mut at, mut key): (u32, usize, Option<&[u8]>) = (0, 0, None);
        while let Some(&byte) = text.get(at) {
            match byte {
                b'"' => {
                    let Some(end) = end_of_string(text, at) else { break };
                    let word = &text[at + 1..end];
                    match key {
                        None if depth == 1 => key = Some(word),
                        Some(name) if depth == 1 => found.says(name, word),
                        _ => {}
                    }
                    at = end;
                }
                b'{' | b'[' => {
                    if depth == 0 && byte == b'[' {
                        break;
                    }
                    depth += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        found.length = Some(at + 1);
                        break;
                    }
                }
                b',' if depth == 1 => key = None,
                b':' if depth == 1 => {
                    let name = key.unwrap_or_default();
                    found.has_method |= name == b"method";
                    found.has_outcome |= matches!(name, b"result" | b"error");
                    found.has_failed |= name == b"error";
                }
                // of those that fail, some say that they have no result, and of the others some that they have no error
                b'n' if depth == 1 && key == Some(b"error") => found.has_failed = false,
                b'0'..=b'9' | b'-' if depth == 1 && key == Some(b"id") => {
                    let rest = &text[at..];
                    let Some(length) = rest.iter().position(|b| !b.is_ascii_alphanumeric() && !b"+-.".contains(b))
                    else {
                        break;
                    };
                    found.id = Some(mask::fnv1a(&rest[..length]));
                    at += length - 1;
                }
                _ if depth == 0 && !byte.is_ascii_whitespace() => break,
                _ => {}
            }
            at += 1;
        }
        found
    }

    /// A member whose value is a string.
    fn says(&mut self, name: &[u8], word: &'t [u8]) {
        match name {
            b"id" => self.id = Some(mask::fnv1a(word)),
            b"method" => self.method = Some(word),
            b"jsonrpc" => self.is_json_rpc = word == b"2.0",
            _ => {}
        }
    }
}

/// Where the string that begins at `at` ends: its closing quotation mark.
fn end_of_string(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    loop {
        match text.get(end)? {
            b'"' => return Some(end),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
}
