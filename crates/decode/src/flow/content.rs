//! What a reply says after its head: a fingerprint of the first bytes of its body.
//!
//! A proxy sends on what it got, so that a reply has the same first bytes on both of its connections. Only whether two are equal can
//! be seen: the hash has a random key, which is kept nowhere.
//!
//! ```text
//! HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"id":17,"name":"…                64 bytes are taken
//! HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n{"id":17,"name":"…  the same: the chunk's size is none of them
//! ```

use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;
use wakepath_model::rows::fingerprint;

/// Bytes of a body that are looked at.
const PREFIX: usize = 64;
/// Bodies shorter than this are too often equal by chance.
const LEAST: u64 = 16;
/// Longest line of a chunk's size that is read.
const SIZE_LINE: usize = 24;

/// A reply of whose body less was seen than is wanted.
pub(super) struct Reply {
    /// First byte of the message.
    pub(super) start: u64,
    /// First byte after its head.
    from: u64,
    /// Bytes of the body, where the head says so.
    length: Option<u64>,
    seen: Vec<u8>,
}

/// How a body begins.
enum Begin<'a> {
    /// Too little of it was seen to tell.
    NotKnown,
    /// With these bytes of so many, where that is known.
    With(&'a [u8], Option<u64>),
    /// With a chunk of so many bytes.
    WithChunk(&'a [u8], u64),
}

impl Reply {
    /// One whose head ends before byte `from`, and whose body has so many bytes, where that is known.
    pub(super) fn new(start: u64, from: u64, length: Option<u64>) -> Reply {
        Reply { start, from, length, seen: Vec::new() }
    }

    /// Bytes of its direction were seen. Its fingerprint, once that is known; 0 where it never will be.
    pub(super) fn sees(&mut self, pos: u64, bytes: &[u8]) -> Option<u64> {
        let next = self.from + self.seen.len() as u64;
        if pos > next {
            return Some(0);
        }
        let new = bytes.get((next - pos) as usize..).unwrap_or(&[]);
        let room = SIZE_LINE + PREFIX - self.seen.len();
        self.seen.extend_from_slice(&new[..new.len().min(room)]);
        match self.begins() {
            Begin::NotKnown => None,
            Begin::With(_, Some(0)) | Begin::WithChunk(_, 0) => Some(fingerprint::NOTHING),
            Begin::With(_, Some(1..LEAST)) => Some(fingerprint::NOTHING),
            // the first of several says little of them
            Begin::WithChunk(_, 1..LEAST) => Some(0),
            Begin::With(body, length) => hash(body, length),
            Begin::WithChunk(body, size) => hash(body, Some(size)),
        }
    }

    fn begins(&self) -> Begin<'_> {
        let seen = &self.seen[..];
        if self.length.is_some() {
            return Begin::With(seen, self.length);
        }
        let digits = seen.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let may_be_size = digits < 16 && matches!(seen.get(digits), None | Some(b'\r' | b';' | b' '));
        let size = || u64::from_str_radix(std::str::from_utf8(&seen[..digits]).ok()?, 16).ok();
        match seen.windows(2).position(|two| two == b"\r\n").filter(|_| may_be_size) {
            Some(end) => size().map_or(Begin::With(seen, None), |size| Begin::WithChunk(&seen[end + 2..], size)),
            None if may_be_size && seen.len() < SIZE_LINE => Begin::NotKnown,
            None => Begin::With(seen, None),
        }
    }
}

/// The fingerprint of a body of so many bytes that begins with these, once enough of them are there.
fn hash(body: &[u8], length: Option<u64>) -> Option<u64> {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let wanted = length.map_or(PREFIX, |length| PREFIX.min(usize::try_from(length).unwrap_or(PREFIX)));
    let prefix = body.get(..wanted)?;
    Some(KEY.get_or_init(RandomState::new).hash_one(prefix).max(fingerprint::NOTHING + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"{\"id\": 17, \"name\": \"a body that is longer than what is looked at of it, by far\"}";

    /// What is known of a body after these pieces, the first of which begins after the head.
    fn known(length: Option<u64>, pieces: &[&[u8]]) -> Option<u64> {
        let (mut reply, mut pos) = (Reply::new(100, 150, length), 150);
        let mut found = None;
        for piece in pieces {
            found = found.or_else(|| reply.sees(pos, piece));
            pos += piece.len() as u64;
        }
        found
    }

    #[test]
    fn the_same_body_has_the_same_fingerprint_however_it_is_sent() {
        let whole = known(Some(BODY.len() as u64), &[BODY]);
        assert!(whole.is_some_and(|hash| hash > fingerprint::NOTHING));
        for cut in [0, 1, 10, 63, 64, 70] {
            let (a, b) = BODY.split_at(cut);
            assert_eq!(known(Some(BODY.len() as u64), &[a, b]), whole, "{cut}");
        }
        let chunked = [b"51\r\n", BODY].concat();
        for cut in [0, 1, 2, 3, 4, 30] {
            let (a, b) = chunked.split_at(cut);
            assert_eq!(known(None, &[a, b]), whole, "{cut}");
        }
        let extended = [b"51;name=value\r\n", BODY].concat();
        assert_eq!(known(None, &[&extended]), whole);
        // until the connection closes
        assert_eq!(known(None, &[BODY]), whole);
    }

    #[test]
    fn another_body_has_another_fingerprint() {
        let other = [b"x", &BODY[1..]].concat();
        assert_ne!(known(Some(BODY.len() as u64), &[BODY]), known(Some(BODY.len() as u64), &[&other]));
        // a shorter one is another, though it begins alike
        assert_ne!(known(Some(BODY.len() as u64), &[BODY]), known(Some(20), &[BODY]));
    }

    #[test]
    fn what_is_short_says_nothing_and_what_is_cut_is_not_known() {
        assert_eq!(known(Some(2), &[b"OK"]), Some(fingerprint::NOTHING));
        assert_eq!(known(Some(0), &[b""]), Some(fingerprint::NOTHING));
        assert_eq!(known(None, &[b"0\r\n\r\n"]), Some(fingerprint::NOTHING));
        assert_eq!(known(None, &[b"5\r\nhello\r\n"]), Some(0));
        assert_eq!(known(Some(1000), &[&BODY[..40]]), None);
        assert_eq!(known(None, &[b"51"]), None);
        let mut reply = Reply::new(100, 150, Some(1000));
        assert_eq!(reply.sees(100, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"), None);
        assert_eq!(reply.sees(160, BODY), Some(0), "bytes before these were not seen");
    }

    #[test]
    fn the_bytes_of_a_head_are_none_of_its_body() {
        let sent = [&b"HTTP/1.1 200 OK\r\nContent-Length: 81\r\nServer: xyz\r\n\r\n"[..], BODY].concat();
        let mut reply = Reply::new(100, 100 + (sent.len() - BODY.len()) as u64, Some(81));
        assert_eq!(reply.sees(100, &sent), known(Some(81), &[BODY]));
    }
}
