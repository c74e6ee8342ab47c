//! Answers Prometheus: a thread and one request a connection, several at once, everything bounded.

use crate::cli::Listen;
use anyhow::{Context as _, Result};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request's head is never longer.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Clients that are answered at once; more are told to come again.
const CLIENTS_MAX: usize = 16;
/// A client that takes longer to ask, or to take its answer, is left.
const PATIENCE: Duration = Duration::from_secs(2);
/// The type of the answer, as Prometheus names version 0.0.4 of its text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A socket that is open and not answered yet.
pub struct Scrape {
    listener: TcpListener,
}

impl Scrape {
    /// Listens; without a host on 127.0.0.1, since the figures name what is asked of services.
    pub fn open(at: &Listen) -> Result<Scrape> {
        let host = at.host.as_deref().unwrap_or("127.0.0.1");
        let listener = (host, at.port)
            .to_socket_addrs()
            .and_then(|a| TcpListener::bind(a.collect::<Vec<SocketAddr>>().as_slice()))
            .with_context(|| format!("--metrics {host}:{}: cannot listen there; choose another port", at.port))?;
        Ok(Scrape { listener })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context("the port of --metrics")
    }

    /// Answers with what `figures` gives, until the process ends. A client that is slow holds up no other.
    pub fn start(self, figures: impl Fn() -> String + Send + Sync + 'static) -> Result<()> {
        let (figures, clients) = (Arc::new(figures), Arc::new(()));
        let answer_all = move || {
            for stream in self.listener.incoming() {
                let Ok(stream) = stream else {
                    // no descriptors left, say: they come back
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                // each thread has one, and this one
                if Arc::strong_count(&clients) > CLIENTS_MAX {
                    refuse(&stream);
                    continue;
                }
                let (figures, client) = (Arc::clone(&figures), Arc::clone(&clients));
                let answer_one = move || {
                    // what goes wrong with one client is its own affair
                    drop(answer(&stream, &*figures));
                    drop(client);
                };
                let _ = std::thread::Builder::new().name("metrics-client".into()).spawn(answer_one);
            }
        };
        std::thread::Builder::new().name("metrics".into()).spawn(answer_all).context("starting the metrics server")?;
        Ok(())
    }
}

/// Tells a client that too many are there, without waiting for it.
fn refuse(mut stream: &TcpStream) {
    let busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(busy));
}

fn answer(stream: &TcpStream, figures: &impl Fn() -> String) -> std::io::Result<()> {
    let head = head(stream)?;
    let (status, kind, body) = match reply(&head) {
        Reply::Figures => ("200 OK", TEXT, figures()),
        Reply::Hint => ("200 OK", "text/plain", "The figures are at /metrics.\n".into()),
        Reply::NotFound => ("404 Not Found", "text/plain", "There is only /metrics.\n".into()),
        Reply::NotAllowed => ("405 Method Not Allowed", "text/plain", "Ask by GET.\n".into()),
        Reply::Bad => ("400 Bad Request", "text/plain", "This is not an HTTP/1 request.\n".into()),
    };
    let length = body.len();
    let head_only = head.starts_with(b"HEAD ");
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{}",
        if head_only { "" } else { &body }
    );
    write_all(stream, text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// Writes an answer, and no longer than [`PATIENCE`] in all.
fn write_all(mut stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes)? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

/// Reads until the head's end, and no longer than [`PATIENCE`] in all.
fn head(mut stream: &TcpStream) -> std::io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            n => head.extend_from_slice(&part[..n]),
        }
    }
    Ok(head)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Figures,
    Hint,
    NotFound,
    NotAllowed,
    Bad,
}

/// What is asked for by the first line of a request.
fn reply(head: &[u8]) -> Reply {
    let line = head.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|b| *b == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if words.next().is_some() || !version.is_some_and(|v| v.starts_with(b"HTTP/1.")) {
        return Reply::Bad;
    }
    let path = target.unwrap_or_default().split(|b| *b == b'?').next().unwrap_or_default();
    match (method, path) {
        (Some(b"GET" | b"HEAD"), b"/metrics") => Reply::Figures,
        (Some(b"GET" | b"HEAD"), b"/") => Reply::Hint,
        (Some(b"GET" | b"HEAD"), _) => Reply::NotFound,
        _ => Reply::NotAllowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request).expect("it reads");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn it_answers_what_is_asked_and_survives_what_is_not() {
        let scrape = Scrape::open(&Listen { host: None, port: 0 }).expect("a free port");
        let address = scrape.address().expect("it has one");
        assert!(address.ip().is_loopback());
        scrape.start(|| "wakepath_up 1\n".into()).expect("a thread");
        for (request, wanted) in [
            (&b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"[..], "HTTP/1.1 200 OK\r\n"),
            (b"\x16\x03\x01\x02\x00\x01", "HTTP/1.1 400"),
            (b"", "HTTP/1.1 400"),
            (b"GET /secret HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
            (b"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(wanted), "{request:?}: {answer}");
        }
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 100_000]].concat();
        ask(address, &long);
        let answer = ask(address, b"GET /metrics?x=1 HTTP/1.1\r\n\r\n");
        assert!(answer.contains(TEXT) && answer.contains("Content-Length: 14\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nwakepath_up 1\n"), "{answer}");
        assert!(ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    }

    #[test]
    fn a_silent_client_holds_up_no_other_and_too_many_are_told() {
        let scrape = Scrape::open(&Listen { host: None, port: 0 }).expect("a free port");
        let address = scrape.address().expect("it has one");
        scrape.start(|| "wakepath_up 1\n".into()).expect("a thread");
        let begin = Instant::now();
        // each that is answered may still have its place when the next one comes
        const ASKS: usize = 3;
        let silent: Vec<TcpStream> =
            (0..CLIENTS_MAX - ASKS).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        for _ in 0..ASKS {
            assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("wakepath_up 1\n"));
        }
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
        let more: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        let mut told = String::new();
        more.last().expect("four").read_to_string(&mut told).expect("it is told");
        assert!(told.starts_with("HTTP/1.1 503"), "{told}");
        drop((silent, more));
    }
}
