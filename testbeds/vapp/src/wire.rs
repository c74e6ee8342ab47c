//! Framing on the wire, without I/O: how a body becomes a message, and bytes become messages again.

use std::fmt;

/// How messages are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wire {
    /// HTTP/1.1 with Content-Length; replies in parts are chunked.
    Http,
    /// A length of four bytes (big endian, it counts what follows), a kind byte, the body.
    Raw,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Http => "http",
            Wire::Raw => "raw",
        })
    }
}

const KIND_REQUEST: u8 = 0;
const KIND_REPLY: u8 = 1;
const KIND_PART: u8 = 2;

/// A body or a header larger than this is a defect, not a message.
const LIMIT: usize = 64 << 20;

/// Bytes ready to be sent, with the border where `--split-writes` cuts them.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Everything to send.
    pub bytes: Vec<u8>,
    /// Length of the header.
    pub head: usize,
}

impl Frame {
    fn new(head: &[u8], rest: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(head.len() + rest.iter().map(|r| r.len()).sum::<usize>());
        bytes.extend_from_slice(head);
        for part in rest {
            bytes.extend_from_slice(part);
        }
        Self { bytes, head: head.len() }
    }

    /// The pieces to write: one, or header and body.
    pub fn pieces(&self, split: bool) -> [&[u8]; 2] {
        let border = if split { self.head } else { self.bytes.len() };
        let (first, second) = self.bytes.split_at(border);
        [first, second]
    }
}

fn raw(kind: u8, body: &[u8]) -> Frame {
    let length = (body.len() as u32 + 1).to_be_bytes();
    Frame::new(&[length[0], length[1], length[2], length[3], kind], &[body])
}

impl Wire {
    /// A request to a server of `tier`.
    pub fn request(self, tier: usize, body: &[u8]) -> Frame {
        match self {
            Wire::Raw => raw(KIND_REQUEST, body),
            Wire::Http => Frame::new(
                format!(
                    "POST /v/{tier} HTTP/1.1\r\nHost: vapp\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                )
                .as_bytes(),
                &[body],
            ),
        }
    }

    /// A reply in one piece.
    pub fn reply(self, body: &[u8]) -> Frame {
        match self {
            Wire::Raw => raw(KIND_REPLY, body),
            Wire::Http => Frame::new(
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len())
                    .as_bytes(),
                &[body],
            ),
        }
    }

    /// The first part of a reply; `body` must not be empty.
    pub fn first_part(self, body: &[u8]) -> Frame {
        debug_assert!(!body.is_empty());
        match self {
            Wire::Raw => raw(KIND_PART, body),
            Wire::Http => Frame::new(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
                &[format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"],
            ),
        }
    }

    /// The last part of a reply of which a first part was sent; `body` must not be empty.
    pub fn last_part(self, body: &[u8]) -> Frame {
        debug_assert!(!body.is_empty());
        match self {
            Wire::Raw => raw(KIND_REPLY, body),
            Wire::Http => Frame::new(format!("{:x}\r\n", body.len()).as_bytes(), &[body, b"\r\n0\r\n\r\n"]),
        }
    }
}

/// A complete message as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The body, parts joined.
    pub body: Vec<u8>,
    /// Bytes on the wire, framing included.
    pub len: u64,
    /// In how many parts the sender framed it.
    pub parts: u32,
}

/// Bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError(&'static str);

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for WireError {}

impl From<WireError> for std::io::Error {
    fn from(error: WireError) -> Self {
        std::io::Error::new(std::io::ErrorKind::InvalidData, error)
    }
}

/// Turns a byte stream, cut anywhere, into messages.
#[derive(Debug)]
pub struct Decoder {
    wire: Wire,
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new(wire: Wire) -> Self {
        Self { wire, buffer: Vec::new(), start: 0 }
    }

    /// Takes bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message, if there is one.
    pub fn next(&mut self) -> Result<Option<Message>, WireError> {
        let bytes = &self.buffer[self.start..];
        let message = match self.wire {
            Wire::Http => parse_http(bytes)?,
            Wire::Raw => parse_raw(bytes)?,
        };
        if let Some(message) = &message {
            self.start += message.len as usize;
        }
        Ok(message)
    }

    /// Whether bytes are waiting that were not yet given out.
    pub fn has_rest(&self) -> bool {
        self.start < self.buffer.len()
    }
}

fn parse_raw(bytes: &[u8]) -> Result<Option<Message>, WireError> {
    let mut message = Message { body: Vec::new(), len: 0, parts: 0 };
    loop {
        let rest = &bytes[message.len as usize..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 || length > LIMIT {
            return Err(WireError("frame length out of range"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        message.body.extend_from_slice(&rest[1..length]);
        message.len += 4 + length as u64;
        message.parts += 1;
        match rest[0] {
            KIND_REQUEST | KIND_REPLY => return Ok(Some(message)),
            KIND_PART => {}
            _ => return Err(WireError("unknown frame kind")),
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn parse_http(bytes: &[u8]) -> Result<Option<Message>, WireError> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > 8192 { Err(WireError("header too long")) } else { Ok(None) };
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| WireError("header is not text"))?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    if !(first.starts_with("POST /v/") && first.ends_with(" HTTP/1.1") || first == "HTTP/1.1 200 OK") {
        return Err(WireError("unexpected first line"));
    }
    let (mut length, mut chunked) = (None, false);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(WireError("header line without a colon"))?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>().map_err(|_| WireError("bad content length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let body_at = end + 4;
    if chunked {
        return parse_chunks(bytes, body_at);
    }
    let length = length.ok_or(WireError("neither length nor chunks"))?;
    if length > LIMIT {
        return Err(WireError("body too long"));
    }
    Ok(bytes.get(body_at..body_at + length).map(|body| Message {
        body: body.to_vec(),
        len: (body_at + length) as u64,
        parts: 1,
    }))
}

fn parse_chunks(bytes: &[u8], mut at: usize) -> Result<Option<Message>, WireError> {
    let mut message = Message { body: Vec::new(), len: 0, parts: 0 };
    loop {
        let Some(line) = find(&bytes[at..], b"\r\n") else {
            return if bytes.len() - at > 16 { Err(WireError("bad chunk length")) } else { Ok(None) };
        };
        let length = std::str::from_utf8(&bytes[at..at + line])
            .ok()
            .and_then(|text| usize::from_str_radix(text, 16).ok())
            .filter(|length| *length <= LIMIT)
            .ok_or(WireError("bad chunk length"))?;
        let body_at = at + line + 2;
        let Some(chunk) = bytes.get(body_at..body_at + length + 2) else {
            return Ok(None);
        };
        if &chunk[length..] != b"\r\n" {
            return Err(WireError("chunk without an end"));
        }
        at = body_at + length + 2;
        if length == 0 {
            message.len = at as u64;
            return Ok(Some(message));
        }
        message.body.extend_from_slice(&chunk[..length]);
        message.parts += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three messages on one stream: plain, in parts, plain.
    fn stream(wire: Wire) -> (Vec<u8>, Vec<Message>) {
        let mut bytes = Vec::new();
        let mut messages = Vec::new();
        let mut add = |frames: &[Frame], body: &[u8]| {
            let len = frames.iter().map(|f| f.bytes.len() as u64).sum();
            messages.push(Message { body: body.to_vec(), len, parts: frames.len() as u32 });
            frames.iter().for_each(|f| bytes.extend_from_slice(&f.bytes));
        };
        add(&[wire.request(2, b"Q 1 2\n")], b"Q 1 2\n");
        add(&[wire.first_part(b"H one\r\n\r\n0\r\n"), wire.last_part(b"R two\n")], b"H one\r\n\r\n0\r\nR two\n");
        add(&[wire.reply(b"")], b"");
        (bytes, messages)
    }

    fn drain(decoder: &mut Decoder, into: &mut Vec<Message>) {
        while let Some(message) = decoder.next().unwrap() {
            into.push(message);
        }
    }

    #[test]
    fn messages_survive_every_cut() {
        for wire in [Wire::Http, Wire::Raw] {
            let (bytes, messages) = stream(wire);
            for first in 0..=bytes.len() {
                for second in [first, (first + 1).min(bytes.len()), bytes.len().min(first + 37)] {
                    let mut decoder = Decoder::new(wire);
                    let mut got = Vec::new();
                    for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                        decoder.push(piece);
                        drain(&mut decoder, &mut got);
                    }
                    assert_eq!(got, messages, "{wire} cut at {first} and {second}");
                    assert!(!decoder.has_rest());
                }
            }
        }
    }

    #[test]
    fn messages_survive_single_bytes_and_one_big_read() {
        for wire in [Wire::Http, Wire::Raw] {
            let (bytes, messages) = stream(wire);
            for size in [1, 2, 3, 1000] {
                let mut decoder = Decoder::new(wire);
                let mut got = Vec::new();
                for piece in bytes.chunks(size) {
                    decoder.push(piece);
                    drain(&mut decoder, &mut got);
                }
                assert_eq!(got, messages, "{wire} in pieces of {size}");
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"POST /v/1 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        ] {
            let mut decoder = Decoder::new(Wire::Http);
            decoder.push(bytes);
            assert!(decoder.next().is_err(), "{}", String::from_utf8_lossy(bytes));
        }
        for bytes in [&[0, 0, 0, 0][..], &[255, 0, 0, 0, 1], &[0, 0, 0, 1, 9]] {
            let mut decoder = Decoder::new(Wire::Raw);
            decoder.push(bytes);
            assert!(decoder.next().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn split_writes_cut_after_the_header() {
        let frame = Wire::Http.request(1, b"body");
        assert_eq!(frame.pieces(true)[1], b"body");
        assert_eq!(frame.pieces(false)[0], &frame.bytes[..]);
        assert_eq!(frame.pieces(false)[1], b"");
    }
}
