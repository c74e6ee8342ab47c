//! OTLP over gRPC: one call on a connection of its own. `h2` speaks HTTP/2; a message of gRPC is its length and its bytes, and how
//! the call ended stands in the trailers (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).

use super::{ANSWER_MAX, Answer, TIME_OUT};
use crate::protobuf;
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use std::future::poll_fn;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Port of OTLP over gRPC.
pub const PORT: u16 = 4317;
/// What is called.
const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Not compressed, and a length of 32 bits.
const PREFIX: usize = 5;
/// How long the other end may take to see that we go.
const FAREWELL: Duration = Duration::from_millis(100);
/// After these, the specification of OTLP says that the same may be sent again.
const LATER: [u16; 6] = [1, 4, 10, 11, 14, 15];

/// Sends a message; `address` is `HOST:PORT`.
pub fn exchange(address: &str, message: &[u8]) -> io::Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        let stream = timeout(TIME_OUT, TcpStream::connect(address)).await.map_err(late)??;
        timeout(TIME_OUT, call(stream, address, message)).await.map_err(late)?
    })
}

async fn call(stream: TcpStream, address: &str, message: &[u8]) -> io::Result<Answer> {
    let (send, connection) = h2::client::handshake(stream).await.map_err(failed)?;
    let driven = tokio::spawn(connection);
    let mut send = send.ready().await.map_err(failed)?;
    let request = Request::post(format!("http://{address}{METHOD}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", concat!("wakepath/", env!("CARGO_PKG_VERSION")))
        .body(())
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
    let (reply, body) = send.send_request(request, false).map_err(failed)?;
    // who is refused may not be let to say all: what matters then is the answer
    let sent = give(body, framed(message)?).await;
    let (head, body) = match reply.await {
        Ok(reply) => reply.into_parts(),
        Err(e) => return Err(sent.err().unwrap_or_else(|| failed(e))),
    };
    let answer = match head.headers.contains_key("grpc-status") {
        true => answer(&head.headers, &[]),
        false if head.status != http::StatusCode::OK => Ok(Answer::of_http(head.status.as_u16(), String::new(), None)),
        false => {
            let (message, trailers) = taken(body).await?;
            answer(&trailers.unwrap_or_default(), &message)
        }
    };
    drop(send);
    let _ = timeout(FAREWELL, driven).await;
    answer
}

fn failed(e: h2::Error) -> io::Error {
    if e.is_io() { e.into_io().unwrap_or_else(|| io::ErrorKind::Other.into()) } else { io::Error::other(e) }
}

/// A message as gRPC frames it.
fn framed(message: &[u8]) -> io::Result<Bytes> {
    let length = u32::try_from(message.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut out = BytesMut::with_capacity(PREFIX + message.len());
    out.put_u8(0);
    out.put_u32(length);
    out.put_slice(message);
    Ok(out.freeze())
}

/// Sends all, as the other end has room for it.
async fn give(mut to: SendStream<Bytes>, mut rest: Bytes) -> io::Result<()> {
    while !rest.is_empty() {
        to.reserve_capacity(rest.len());
        let room = poll_fn(|cx| to.poll_capacity(cx)).await.ok_or(io::ErrorKind::BrokenPipe)?.map_err(failed)?;
        let part = rest.split_to(room.min(rest.len()));
        to.send_data(part, rest.is_empty()).map_err(failed)?;
    }
    Ok(())
}

/// The whole answer and what stands behind it.
async fn taken(mut body: RecvStream) -> io::Result<(Vec<u8>, Option<HeaderMap>)> {
    let mut out = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(failed)?;
        if out.len() + part.len() > ANSWER_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
        }
        body.flow_control().release_capacity(part.len()).map_err(failed)?;
        out.extend_from_slice(&part);
    }
    Ok((out, body.trailers().await.map_err(failed)?))
}

/// What the headers after an answer say of it.
fn answer(headers: &HeaderMap, message: &[u8]) -> io::Result<Answer> {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
    let status: Option<u16> = text("grpc-status").and_then(|s| s.parse().ok());
    match status {
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is not gRPC's")),
        Some(0) => Ok(Answer::Taken(rejected(message.get(PREFIX..).unwrap_or_default()))),
        Some(status) => Ok(Answer::Refused {
            status: format!("gRPC status {status}"),
            text: decoded(text("grpc-message").unwrap_or_default()),
            is_later: LATER.contains(&status),
            after: None,
        }),
    }
}

/// Of an `ExportTraceServiceResponse`: spans that were not taken.
fn rejected(message: &[u8]) -> u64 {
    let partial = protobuf::fields(message).find_map(|(n, v)| (n == 1).then(|| v.bytes()).flatten());
    let spans = partial.and_then(|p| protobuf::fields(p).find_map(|(n, v)| (n == 1).then(|| v.number()).flatten()));
    spans.unwrap_or(0)
}

/// Text in which bytes stand as `%20`.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digit = |at: usize| behind.get(at).and_then(|b| char::from(*b).to_digit(16));
        match digit(0).zip(digit(1)).filter(|_| first == b'%') {
            Some((high, low)) => {
                out.push((high * 16 + low) as u8);
                rest = &behind[2..];
            }
            None => {
                out.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::Message;

    #[test]
    fn what_was_rejected_is_read() {
        let mut message = Message::default();
        message.put(1, |partial| {
            partial.put_bytes(2, b"no");
            partial.put_int(1, 300);
        });
        assert_eq!(rejected(message.bytes()), 300);
        assert_eq!(rejected(&[]), 0);
        for cut in 0..message.bytes().len() {
            assert!(rejected(&message.bytes()[..cut]) <= 300);
        }
    }

    #[test]
    fn a_message_of_a_status_is_decoded() {
        assert_eq!(decoded("a%20b%C3%A4%2"), "a bä%2");
        assert_eq!(decoded("%%41"), "%A");
        assert_eq!(decoded("%+1"), "%+1");
    }
}
