//! Asks an agent. One question on a connection of its own, in HTTP/1.0, so the answer ends with the connection.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// Longest head of an answer.
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// Most bytes of an answer that is read whole.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// An agent, and how it is asked.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address, as HOST:PORT.
    pub address: String,
    /// What it is asked with, if it asks for that.
    pub token: Option<String>,
    /// How long to wait for a connection, and for each next part of an answer.
    pub patience: Duration,
    /// How long all of an answer may take.
    pub limit: Duration,
}

/// An answer: its status, and its body to be read.
#[derive(Debug)]
pub struct Answer {
    /// As HTTP says it.
    pub status: u16,
    body: BufReader<Timed>,
}

impl Client {
    /// Asks for something.
    ///
    /// # Errors
    /// If there is no connection, or what answers speaks no HTTP.
    pub fn get(&self, path: &str) -> io::Result<Answer> {
        self.exchange("GET", path, None)
    }

    /// Sends a document.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post(&self, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.exchange("POST", path, Some(body))
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&[u8]>) -> io::Result<Answer> {
        let until = Instant::now() + self.limit;
        let stream = self.connect()?;
        stream.set_write_timeout(Some(self.patience))?;
        let mut head = format!("{method} {path} HTTP/1.0\r\nHost: {}\r\n", self.address);
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        if let Some(body) = body {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        (&stream).write_all(&[head.as_bytes(), body.unwrap_or_default()].concat())?;
        let mut body = BufReader::new(Timed { stream, patience: self.patience, until });
        let status = status(&mut body)?;
        Ok(Answer { status, body })
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "no such host");
        for at in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&at, self.patience) {
                Ok(stream) => return Ok(stream),
                Err(e) => failed = e,
            }
        }
        Err(failed)
    }
}

impl Answer {
    /// All of a short answer.
    ///
    /// # Errors
    /// If it does not come whole, or has more than 1 MiB.
    pub fn text(self) -> io::Result<String> {
        let mut text = String::new();
        self.body.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > TEXT_BYTES_MAX {
            return Err(bad("the answer is too long"));
        }
        Ok(text)
    }

    /// What comes, as it comes.
    pub fn body(&mut self) -> &mut impl Read {
        &mut self.body
    }
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads the head of an answer.
fn status(body: &mut BufReader<Timed>) -> io::Result<u16> {
    let mut head = body.by_ref().take(HEAD_BYTES_MAX);
    let line = |head: &mut io::Take<&mut BufReader<Timed>>| -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        head.read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\n") {
            Some(text) => Ok(text.strip_suffix(b"\r").unwrap_or(text).to_vec()),
            None => Err(bad("no agent answers there: the answer is not HTTP's, or cut off")),
        }
    };
    let first = line(&mut head)?;
    let text = String::from_utf8_lossy(&first);
    let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    let status = status.ok_or_else(|| bad("no agent answers there: the answer is not HTTP's"))?;
    while !line(&mut head)?.is_empty() {}
    Ok(status)
}

/// A connection whose reads end in time.
#[derive(Debug)]
struct Timed {
    stream: TcpStream,
    patience: Duration,
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now()).min(self.patience);
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into).map_err(|e| if e.kind() == io::ErrorKind::WouldBlock { late() } else { e })
    }
}
