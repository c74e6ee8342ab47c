//! OTLP over HTTP, in JSON: one exchange on a connection of its own. `hyper` speaks HTTP, and so knows where a reply ends.

use super::{ANSWER_MAX, Answer, TIME_OUT};
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Port of OTLP over HTTP.
pub const PORT: u16 = 4318;

/// Sends a document; `address` is `HOST:PORT`. An error is one after which the same may be sent again: nothing was answered.
pub fn exchange(address: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
    exchange_within(TIME_OUT, address, path, body)
}

/// The same; so long may each of these take: to connect, to answer, and to end the answer.
fn exchange_within(limit: Duration, address: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        let stream = timeout(limit, TcpStream::connect(address)).await.map_err(late)??;
        let (mut send, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // ends with this runtime at the latest
        tokio::spawn(connection);
        let request = Request::post(path)
            .header(header::HOST, address)
            .header(header::USER_AGENT, concat!("wakepath/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::copy_from_slice(body)))
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let reply = timeout(limit, send.send_request(request)).await.map_err(late)?.map_err(failed)?;
        let (head, body) = reply.into_parts();
        let text = match timeout(limit, Limited::new(body, ANSWER_MAX).collect()).await {
            Ok(Ok(text)) => Ok(text.to_bytes()),
            Ok(Err(e)) => Err(format!("the reply was cut off: {e}")),
            Err(_) => Err(format!("the reply did not end within {} s", limit.as_secs_f64())),
        };
        Ok(match (head.status.as_u16(), text) {
            (200..=299, Ok(text)) => Answer::Taken(rejected(&text)),
            // what became of it is not known; but it must not be taken twice
            (status @ 200..=299, Err(why)) => {
                Answer::Refused { status: status.to_string(), text: why, is_later: false, after: None }
            }
            (status, text) => {
                let text = text.map_or_else(|why| why, |text| String::from_utf8_lossy(&text).into_owned());
                Answer::of_http(status, text, retry_after(&head.headers))
            }
        })
    })
}

fn failed(e: hyper::Error) -> io::Error {
    if e.is_parse() {
        io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP's")
    } else {
        io::Error::other(e)
    }
}

/// How long the collector asks to wait, in seconds; a date is not read.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// How many spans the collector says that it did not take.
fn rejected(text: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(text).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    rejected.as_u64().or_else(|| rejected.as_str().and_then(|s| s.parse().ok())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// Answers each connection with these bytes in turn, and keeps it open; counts posts.
    fn collector(answers: Vec<&'static [u8]>) -> (String, std::thread::JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one").to_string();
        let served = std::thread::spawn(move || {
            let mut kept = Vec::new();
            for answer in &answers {
                let (mut stream, _) = listener.accept().expect("somebody connects");
                let (mut got, mut part) = (Vec::new(), [0; 4096]);
                while !got.ends_with(b"[]") {
                    let n = stream.read(&mut part).expect("the request comes");
                    got.extend_from_slice(&part[..n]);
                }
                stream.write_all(answer).expect("it is still there");
                kept.push(stream);
            }
            // whatever else comes is one too many
            listener.set_nonblocking(true).expect("it can be");
            std::thread::sleep(HOLDS);
            kept.len() + usize::from(listener.accept().is_ok())
        });
        (address, served)
    }

    /// Shorter than connections stay open: who waits for their end is late.
    const LIMIT: Duration = Duration::from_millis(1000);
    const HOLDS: Duration = Duration::from_millis(2500);

    fn exchanged(answer: &'static [u8]) -> io::Result<Answer> {
        let (address, served) = collector(vec![answer]);
        let came = exchange_within(LIMIT, &address, "/v1/traces", b"[]");
        assert_eq!(served.join().expect("it ends"), 1);
        came
    }

    #[test]
    fn a_reply_ends_where_it_says_and_not_with_the_connection() {
        let came = exchanged(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        assert!(matches!(came, Ok(Answer::Taken(0))));
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n27\r\n{\"partialSuccess\":{\"rejectedSpans\":3}}\n\r\n0\r\n\r\n";
        let came = exchanged(chunks);
        assert!(matches!(came, Ok(Answer::Taken(3))));
    }

    #[test]
    fn a_reply_that_does_not_end_is_neither_taken_nor_sent_again() {
        for endless in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            let came = exchanged(endless);
            assert!(
                matches!(&came, Ok(Answer::Refused { is_later: false, text, .. }) if text.contains("did not end")),
                "{:?}",
                String::from_utf8_lossy(endless)
            );
        }
        // nothing was answered
        assert!(exchanged(b"HTTP/1.1 200").is_err());
    }

    #[test]
    fn who_asks_for_patience_says_how_long() {
        for (head, later) in
            [("429 Busy", true), ("503 Busy", true), ("502 B", true), ("504 B", true), ("400 No", false)]
        {
            let answer = format!("HTTP/1.1 {head}\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy").leak();
            let came = exchanged(answer.as_bytes());
            let Ok(Answer::Refused { is_later, after, text, .. }) = came else { panic!("{head}") };
            assert_eq!((is_later, after, text.as_str()), (later, Some(Duration::from_secs(7)), "busy"), "{head}");
        }
    }

    #[test]
    fn what_was_rejected_is_read() {
        assert_eq!(rejected(b""), 0);
        assert_eq!(rejected(b"{}"), 0);
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"no"}}"#), 7);
    }
}
