//! Answers Prometheus with figures, at `/metrics`, on the page's own server: everything is bounded there.

use crate::server::{Limits, accept};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

/// The type of the answer, as Prometheus names version 0.0.4 of its text format.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// A client that takes longer to ask is left, and one that takes twice as long for all.
const PATIENCE: Duration = Duration::from_secs(2);
/// Clients at the same time; more wait until one of these is done or left.
const LIMITS: Limits =
    Limits { connections: 16, head: PATIENCE, all: Some(PATIENCE.saturating_mul(2)), half_close: true };

/// Answers with what `figures` gives, in a thread of its own, until the process ends.
///
/// # Errors
/// Where the listener cannot be used, or there is no thread.
pub fn serve(listener: TcpListener, figures: impl Fn() -> String + Clone + Send + Sync + 'static) -> io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(move || async move { ([(CONTENT_TYPE, TEXT)], figures()) }))
        .route("/", get(|| async { "The figures are at /metrics.\n" }))
        .fallback(|| async { (StatusCode::NOT_FOUND, "There is only /metrics.\n") });
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(async { tokio::net::TcpListener::from_std(listener) })?;
    let work = move || runtime.block_on(accept(listener, router, LIMITS));
    std::thread::Builder::new().name("metrics".into()).spawn(work)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Instant;

    fn started() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has one");
        serve(listener, || "wakepath_up 1\n".into()).expect("a thread");
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // a server that has refused the head may be gone before the rest of it is written
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn it_answers_what_is_asked_and_survives_what_is_not() {
        let address = started();
        for (request, wanted) in [
            (&b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"[..], "HTTP/1.1 200 OK\r\n"),
            (b"\x16\x03\x01\x02\x00\x01", "HTTP/1.1 400"),
            (b"", ""),
            (b"GET /secret HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
            (b"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK\r\n"),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(wanted), "{request:?}: {answer}");
        }
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 1_000_000]].concat();
        ask(address, &long);
        let answer = ask(address, b"GET /metrics?x=1 HTTP/1.1\r\nConnection: close\r\n\r\n");
        assert!(answer.contains(TEXT) && answer.contains("content-length: 14\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nwakepath_up 1\n"), "{answer}");
        assert!(ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    }

    #[test]
    fn silent_clients_and_ones_that_read_nothing_hold_up_others_for_seconds_at_most() {
        let address = started();
        let held: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        let begin = Instant::now();
        for (i, mut stream) in held.iter().enumerate() {
            // every second one asks, reads nothing, and keeps its connection
            if i % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is open");
            }
        }
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n");
        assert!(answer.ends_with("wakepath_up 1\n"), "{answer}");
        // those ahead of it are left in turns of 16
        assert!(begin.elapsed() < 64 / 16 * 2 * PATIENCE + PATIENCE, "{:?}", begin.elapsed());
    }
}
