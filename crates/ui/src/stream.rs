//! Answers that are too large to be kept: written in one thread, sent in pieces as the client takes them.

use hyper::body::{Bytes, Frame};
use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Bytes that are sent at a time, and how many such pieces wait for a client.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 4;

/// Takes what is written, in a thread of its own; waits for the client.
pub(crate) struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
    piece: Vec<u8>,
    patience: Duration,
}

/// The body of the answer.
pub(crate) struct Streamed {
    /// What was taken to see whether there is an answer at all.
    first: Option<Bytes>,
    is_over: bool,
    receiver: mpsc::Receiver<io::Result<Bytes>>,
}

/// Two ends of an answer. A client that takes nothing for as long as `patience` is left.
pub(crate) fn pieces(runtime: Handle, patience: Duration) -> (Pieces, Streamed) {
    let (sender, receiver) = mpsc::channel(PIECES);
    let piece = Vec::with_capacity(PIECE_BYTES);
    (Pieces { sender, runtime, piece, patience }, Streamed { first: None, is_over: false, receiver })
}

impl Pieces {
    /// Ends the answer: it is whole.
    ///
    /// # Errors
    /// Where the client does not take the rest.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.send(END)
    }

    /// Cuts the answer off, and says why to a client that got nothing yet. What was not sent yet is not sent.
    pub(crate) fn cut(self, why: io::Error) {
        let _ = self.sender.try_send(Err(why));
    }

    fn send(&mut self, piece: Bytes) -> io::Result<()> {
        let sent = self.runtime.block_on(async { self.sender.send_timeout(Ok(piece), self.patience).await });
        sent.map_err(|_| io::Error::new(ErrorKind::TimedOut, "the client went away, or took nothing for long"))
    }
}

/// Stands after the last piece. An answer without it is not whole: who wrote it failed.
const END: Bytes = Bytes::new();

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..n]);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        self.send(piece.into())
    }
}

impl Streamed {
    /// Waits for the first piece, or the end of an answer that has none.
    ///
    /// # Errors
    /// Where it was cut off before.
    pub(crate) async fn begin(&mut self) -> io::Result<()> {
        self.first = Some(self.receiver.recv().await.unwrap_or_else(|| Err(broken()))?);
        Ok(())
    }
}

fn broken() -> io::Error {
    io::Error::other("that part of wakepath failed: a defect of it")
}

impl hyper::body::Body for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match self.first.take() {
            Some(piece) => Ok(piece),
            None if self.is_over => return Poll::Ready(None),
            None => match self.receiver.poll_recv(cx) {
                Poll::Ready(piece) => piece.unwrap_or_else(|| Err(broken())),
                Poll::Pending => return Poll::Pending,
            },
        };
        self.is_over = piece.as_ref().map_or(true, |piece| piece.is_empty());
        match piece {
            Ok(piece) if piece.is_empty() => Poll::Ready(None),
            piece => Poll::Ready(Some(piece.map(Frame::data))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Body as _;
    use std::future::poll_fn;
    use tokio::runtime::{Builder, Runtime};

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    /// All that comes, and whether it is whole.
    fn take(write: impl FnOnce(Pieces) + Send + 'static) -> (io::Result<()>, usize, bool) {
        let runtime = runtime();
        let (out, mut body) = pieces(runtime.handle().clone(), Duration::from_secs(20));
        let writer = std::thread::spawn(move || write(out));
        let mut bytes = 0;
        let (begun, is_whole) = runtime.block_on(async {
            let begun = body.begin().await;
            let is_whole = loop {
                match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                    Some(Ok(frame)) => bytes += frame.into_data().map_or(0, |data| data.len()),
                    Some(Err(_)) => break false,
                    None => break true,
                }
            };
            (begun, is_whole)
        });
        let _ = writer.join();
        (begun, bytes, is_whole)
    }

    #[test]
    fn only_an_answer_that_was_finished_is_whole() {
        const BYTES: usize = 10 * PIECE_BYTES + 7;
        let (begun, bytes, is_whole) = take(|mut out| {
            out.write_all(&[b'x'; BYTES]).expect("it is taken");
            out.finish().expect("it is taken");
        });
        assert!(begun.is_ok() && is_whole && bytes == BYTES, "{bytes}");
        let (begun, bytes, is_whole) = take(|out| out.finish().expect("it is taken"));
        assert!(begun.is_ok() && is_whole && bytes == 0, "an empty one");
        let (begun, _, is_whole) = take(|mut out| out.write_all(&[b'x'; BYTES]).expect("it is taken"));
        assert!(begun.is_ok() && !is_whole, "whoever wrote it was gone");
    }

    #[test]
    fn what_fails_before_its_first_piece_says_why() {
        let (begun, bytes, _) = take(|mut out| {
            out.write_all(b"a head").expect("it has room");
            out.cut(io::Error::other("no request"));
        });
        assert_eq!((begun.expect_err("it was cut").to_string().as_str(), bytes), ("no request", 0));
        let (begun, ..) = take(drop);
        assert!(begun.is_err());
    }

    #[test]
    fn a_client_that_takes_nothing_is_left() {
        let runtime = runtime();
        let (mut out, body) = pieces(runtime.handle().clone(), Duration::from_millis(50));
        let written = std::thread::spawn(move || out.write_all(&[b'x'; (PIECES + 1) * PIECE_BYTES]));
        let written = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(20), tokio::task::spawn_blocking(|| written.join())).await
        });
        let why = written.expect("in time").expect("it ran").expect("it ended").expect_err("nobody took it");
        assert_eq!(why.kind(), ErrorKind::TimedOut);
        drop(body);
    }
}
