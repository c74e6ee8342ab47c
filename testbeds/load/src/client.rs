//! Just enough of an HTTP/1.1 client: one request at a time on one connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// No header of a sane reply is longer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A reply, read to its last byte.
#[derive(Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    /// All bytes of the reply, head and framing included.
    pub bytes: u64,
    /// Whether the connection may carry another request.
    pub reusable: bool,
}

/// Why there is no reply.
#[derive(Debug)]
pub struct Failure {
    pub problem: io::Error,
    /// Whether any byte of the reply had come; if none had, the server may just have closed an
    /// idle connection in the moment of sending.
    pub bytes: u64,
}

/// A connection and what is known of it.
pub struct Connection {
    stream: TcpStream,
    pub local: SocketAddr,
    /// Requests answered on it.
    pub answered: u64,
}

impl Connection {
    pub fn open(address: SocketAddr, deadline: Instant) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, left(deadline)?)?;
        stream.set_nodelay(true)?;
        let local = stream.local_addr()?;
        Ok(Self { stream, local, answered: 0 })
    }

    /// Sends the request and reads the whole reply.
    pub fn exchange(&mut self, request: &[u8], deadline: Instant) -> Result<Reply, Failure> {
        let mut source = Timed { stream: &self.stream, deadline, bytes: 0 };
        let result = source.send(request).and_then(|()| read_reply(&mut source));
        match result {
            Ok((status, reusable)) => {
                self.answered += 1;
                Ok(Reply { status, bytes: source.bytes, reusable })
            }
            Err(problem) => Err(Failure { problem, bytes: source.bytes }),
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The stream with a deadline over all reads together, counting what it read.
struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
    bytes: u64,
}

impl Timed<'_> {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write_all(request)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        let count = self.stream.read(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// How a body ends.
enum Body {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Bytes that were read and not yet used, before those still to come.
struct Buffered<'a, R> {
    source: &'a mut R,
    held: Vec<u8>,
    used: usize,
}

impl<R: Read> Buffered<'_, R> {
    /// Reads more; false at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        self.held.drain(..self.used);
        self.used = 0;
        let before = self.held.len();
        self.held.resize(before + 16 * 1024, 0);
        let result = loop {
            match self.source.read(&mut self.held[before..]) {
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.held.truncate(before + *result.as_ref().unwrap_or(&0));
        Ok(result? > 0)
    }

    /// Everything up to and including the next occurrence of `end`, used up.
    fn take_until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        let mut from = self.used;
        loop {
            let found = self.held[from..].windows(end.len()).position(|window| window == end);
            if let Some(position) = found {
                let stop = from + position + end.len();
                let taken = self.held[self.used..stop].to_vec();
                self.used = stop;
                return Ok(taken);
            }
            if self.held.len() - self.used > HEAD_BYTES_MAX {
                return Err(broken("a header without end"));
            }
            let looked = (self.held.len() - self.used).saturating_sub(end.len() - 1);
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            from = looked;
        }
    }

    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        loop {
            let step = count.min((self.held.len() - self.used) as u64);
            self.used += step as usize;
            count -= step;
            if count == 0 {
                return Ok(());
            }
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn skip_to_end(&mut self) -> io::Result<()> {
        loop {
            self.used = self.held.len();
            if !self.fill()? {
                return Ok(());
            }
        }
    }

    fn skip_chunks(&mut self) -> io::Result<()> {
        loop {
            let line = self.take_until(b"\r\n")?;
            let text = String::from_utf8_lossy(&line);
            let digits = text.trim_end().split(';').next().unwrap_or_default().trim();
            let length = u64::from_str_radix(digits, 16).map_err(|_| broken("no chunk size"))?;
            if length == 0 {
                break;
            }
            self.skip(length)?;
            if self.take_until(b"\r\n")? != b"\r\n" {
                return Err(broken("a chunk longer than its size"));
            }
        }
        // Trailers, if any, up to the empty line.
        while self.take_until(b"\r\n")? != b"\r\n" {}
        Ok(())
    }
}

/// What the head says: status, body, and whether the connection stays.
fn read_head(head: &[u8]) -> io::Result<(u16, Body, bool)> {
    let text = std::str::from_utf8(head).map_err(|_| broken("a head that is no text"))?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().and_then(|word| word.parse().ok());
    let (true, Some(status)) = (version.starts_with("HTTP/1."), status) else {
        return Err(broken("no HTTP/1 status line"));
    };
    let mut stays = version != "HTTP/1.0";
    let mut body = Body::UntilClose;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            // Chunked wins over a length, in whichever order they come.
            if !matches!(body, Body::Chunked) {
                body = Body::Length(value.parse().map_err(|_| broken("no Content-Length"))?);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if value.to_ascii_lowercase().ends_with("chunked") {
                body = Body::Chunked;
            }
        } else if name.eq_ignore_ascii_case("connection") {
            let value = value.to_ascii_lowercase();
            stays = if stays { !value.contains("close") } else { value.contains("keep-alive") };
        }
    }
    if status < 200 || status == 204 || status == 304 {
        body = Body::Length(0);
    }
    stays &= !matches!(body, Body::UntilClose);
    Ok((status, body, stays))
}

/// Reads one reply to its end: its status, and whether the connection may be used again.
fn read_reply(source: &mut impl Read) -> io::Result<(u16, bool)> {
    let mut buffered = Buffered { source, held: Vec::new(), used: 0 };
    loop {
        let head = buffered.take_until(b"\r\n\r\n")?;
        let (status, body, stays) = read_head(&head)?;
        if (100..200).contains(&status) {
            continue; // interim: the reply is still to come
        }
        match body {
            Body::Length(length) => buffered.skip(length)?,
            Body::Chunked => buffered.skip_chunks()?,
            Body::UntilClose => buffered.skip_to_end()?,
        }
        let unasked = buffered.used < buffered.held.len();
        return Ok((status, stays && !unasked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a text in steps of `step` bytes, then the end.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn read_in_all_steps(text: &str) -> io::Result<(u16, bool)> {
        let whole = read_reply(&mut Drip(text.as_bytes(), usize::MAX));
        for step in 1..text.len() {
            let dripped = read_reply(&mut Drip(text.as_bytes(), step));
            assert_eq!(dripped.as_ref().ok(), whole.as_ref().ok(), "in steps of {step}");
        }
        whole
    }

    #[test]
    fn framings() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", (200, true)),
            ("HTTP/1.1 500 E\r\ncontent-length:0\r\nConnection: close\r\n\r\n", (500, false)),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", (200, false)),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx", (200, true)),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", (200, false)),
            ("HTTP/1.1 204 No\r\n\r\n", (204, true)),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 C\r\nContent-Length: 2\r\n\r\nok", (201, true)),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
                (200, true),
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: t\r\n\r\n", (200, true)),
        ] {
            assert_eq!(read_in_all_steps(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_connection_with_something_left_over_is_not_used_again() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy";
        assert_eq!(read_reply(&mut Drip(text.as_bytes(), 999)).unwrap(), (200, false));
    }

    #[test]
    fn what_breaks_off_or_is_wrong_is_an_error() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        ] {
            assert!(read_in_all_steps(text).is_err(), "{text}");
        }
    }
}
