//! OTLP over HTTP, in JSON: one exchange on a connection of its own.

use super::{ANSWER_MAX, Answer, TIME_OUT};
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};

/// Port of OTLP over HTTP.
pub const PORT: u16 = 4318;

/// Sends a document; `address` is `HOST:PORT`.
pub fn exchange(address: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
    for to in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&to, TIME_OUT) {
            Ok(stream) => return exchange_on(stream, address, path, body),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn exchange_on(mut stream: TcpStream, address: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
    stream.set_read_timeout(Some(TIME_OUT))?;
    stream.set_write_timeout(Some(TIME_OUT))?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: {}/{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        crate::SCOPE,
        env!("CARGO_PKG_VERSION"),
        body.len(),
    )?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX as u64).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.strip_prefix("HTTP/1.").and_then(|a| a.get(2..5)).and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP's"))?;
    let text = answer.split_once("\r\n\r\n").map_or("", |(_, text)| text);
    Ok(match status {
        200..=299 => Answer::Taken(rejected(text)),
        _ => Answer::of_http(status, text.to_owned()),
    })
}

/// How many spans the collector says that it did not take. Its answer may come in chunks: what matters is between its braces.
fn rejected(text: &str) -> u64 {
    let within = text.find('{').zip(text.rfind('}')).and_then(|(a, b)| text.get(a..=b)).unwrap_or("{}");
    let answer: Value = serde_json::from_str(within).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    rejected.as_u64().or_else(|| rejected.as_str().and_then(|s| s.parse().ok())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rejected_is_read() {
        assert_eq!(rejected(""), 0);
        assert_eq!(rejected("{}"), 0);
        assert_eq!(rejected(r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"no"}}"#), 7);
        assert_eq!(rejected("2f\r\n{\"partialSuccess\":{\"rejectedSpans\":3}}\r\n0\r\n"), 3);
    }
}
