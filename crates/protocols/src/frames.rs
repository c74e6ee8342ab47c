//! Frames of HTTP/2 (RFC 9113, 4.1 and 6): their headers, and what shows that bytes are such.

use crate::Dir;
use crate::bytes::be32;
use crate::duplex::Fit;
use crate::hpack;

pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const PUSH: u8 = 5;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const PRIORITY: u8 = 0x20;

/// Most bytes of a head that are waited for before a flow is known to be HTTP/2.
const WAITED_MAX: u64 = 247;
/// Most bytes in a frame of data: who receives them may allow more than the 16,384 of the RFC, as net/http's server does.
const DATA_MAX: u32 = 1 << 20;
/// By how much the streams that begin while nothing can be read may raise their number.
const AHEAD_MAX: u32 = 1 << 16;

/// A frame's header.
pub(crate) struct Frame {
    pub length: u32,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    /// A bit that is always 0.
    reserved: bool,
}

impl Frame {
    pub fn of(bytes: &[u8]) -> Option<Frame> {
        let (length, stream) = (be32(bytes, 0)? >> 8, be32(bytes, 5)?);
        let reserved = stream >> 31 != 0;
        Some(Frame { length, kind: bytes[3], flags: bytes[4], stream: stream & 0x7fff_ffff, reserved })
    }

    pub fn total(&self) -> u64 {
        u64::from(self.length) + 9
    }

    /// Whether flags, length and stream are such as the kind may have (RFC 9113, 6).
    pub fn plausible(&self) -> bool {
        let (flags, length, stream) = match self.kind {
            DATA => (END_STREAM | PADDED, 0..=DATA_MAX, true),
            HEADERS => (END_STREAM | END_HEADERS | PADDED | PRIORITY, 1..=16384, true),
            2 => (0, 5..=5, true),
            RESET => (0, 4..=4, true),
            4 => (1, 0..=120, false),
            PUSH => (END_HEADERS | PADDED, 4..=16384, true),
            6 => (1, 8..=8, false),
            7 => (0, 8..=16384, false),
            8 => (0, 4..=4, self.stream != 0),
            _ => return false,
        };
        self.flags & !flags == 0
            && length.contains(&self.length)
            && (self.stream != 0) == stream
            && (self.kind != 4 || self.length.is_multiple_of(6))
            && (self.kind != HEADERS || self.stream % 2 == 1)
            && !self.reserved
    }

    /// Who sent a frame that begins a head, of which `bytes` are at hand: the first of its fields that only requests have, or
    /// only replies, and whose name stands in the static table (RFC 7541, appendix A). `Err`: what it holds are no fields.
    fn sender(&self, bytes: &[u8]) -> Result<Option<Dir>, ()> {
        if self.kind == PUSH {
            return Ok(Some(Dir::ToClient));
        }
        if self.kind != HEADERS {
            return Ok(None);
        }
        let has = |flag, bytes: usize| if self.flags & flag != 0 { bytes } else { 0 };
        let padding = if self.flags & PADDED != 0 { bytes.get(9).map_or(0, |&n| usize::from(n)) } else { 0 };
        let (start, end) = (9 + has(PADDED, 1) + has(PRIORITY, 5), self.total() as usize);
        let end = end.checked_sub(padding).filter(|end| *end >= start).ok_or(())?;
        let is_whole = self.flags & END_HEADERS != 0 && bytes.len() >= end;
        match hpack::first_static(bytes.get(start..end.min(bytes.len())).unwrap_or(&[]), is_whole)? {
            Some(1..=7) => Ok(Some(Dir::ToServer)),
            Some(8..=14) => Ok(Some(Dir::ToClient)),
            _ => Ok(None),
        }
    }
}

/// Whether the client's preface is here.
pub(crate) fn preface(dir: Dir, bytes: &[u8]) -> Fit {
    match dir {
        Dir::ToServer if bytes.starts_with(PREFACE) => Fit::Sure,
        Dir::ToServer if PREFACE.starts_with(bytes) => Fit::More,
        _ => Fit::No,
    }
}

/// Whether a connection that is known as HTTP/2 goes on with a frame here, where its framing was lost. `top`: the highest stream
/// so far. A head that is not long is looked at as a whole.
pub(crate) fn goes_on(dir: Dir, bytes: &[u8], top: u32) -> Fit {
    let Some(frame) = Frame::of(bytes) else { return Fit::More };
    let is_short = frame.kind == HEADERS && frame.total() <= WAITED_MAX;
    let is_near = top == 0 || frame.stream <= top.saturating_add(AHEAD_MAX);
    if !is_near || !frame.plausible() {
        return Fit::No;
    }
    match frame.sender(&bytes[..bytes.len().min(frame.total() as usize)]) {
        _ if !is_short => Fit::Yes,
        _ if (bytes.len() as u64) < frame.total() => Fit::More,
        sender => sender.is_ok_and(|sender| sender.is_none_or(|sender| sender == dir)).into(),
    }
}

/// Whether bytes begin with the header of a frame that holds a whole head.
pub(crate) fn begin_head(bytes: &[u8]) -> bool {
    Frame::of(bytes).is_some_and(|f| f.kind == HEADERS && f.flags & END_HEADERS != 0 && f.plausible())
}

/// Whether a flow of which these are the first bytes is HTTP/2: by the client's preface, by the server's SETTINGS, by a
/// chain of frames with a head, or by one frame that is just the bytes and holds a head as this side sends it.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    match preface(dir, bytes) {
        Fit::No => {}
        fit => return fit,
    }
    let (mut rest, mut heads, mut frames, mut known) = (bytes, false, 0, false);
    while let Some(frame) = Frame::of(rest) {
        let Ok(sender) = frame.sender(rest) else { return Fit::No };
        if !frame.plausible() || sender.is_some_and(|sender| sender != dir) {
            return Fit::No;
        }
        if frames == 0 && dir == Dir::ToClient && frame.kind == 4 && frame.flags == 0 && frame.length > 0 {
            return settings_fit(&rest[9..rest.len().min(frame.total() as usize)]);
        }
        if frames == 0 && begin_head(rest) && frame.total() <= WAITED_MAX && (rest.len() as u64) < frame.total() {
            return Fit::More; // many read a frame's header first, and then the rest
        }
        heads |= frame.kind == HEADERS && frame.flags & END_HEADERS != 0;
        known |= sender.is_some() && rest.len() as u64 == frame.total();
        frames += 1;
        rest = rest.get(frame.total() as usize..).unwrap_or(&[]);
    }
    Fit::from(heads && (frames > 1 || known)).and_sure()
}

/// Whether these are parameters of SETTINGS (RFC 9113, 6.5.2, with those that were added): the first has a number that exists.
fn settings_fit(bytes: &[u8]) -> Fit {
    match bytes {
        [] | [0] => Fit::More,
        [0, 1..=9, ..] | [0xfe, 3, ..] => Fit::Sure, // grpc has one of its own
        _ => Fit::No,
    }
}
