//! The tokio runtime with several threads, a task per connection.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::job::{Action, Call, Context, Job};
use crate::net::{self, Style};
use crate::options::Policy;
use crate::plan;
use crate::truth::Hop;
use crate::wire::{Decoder, Frame, Message};

/// A connection to downstream.
struct Conn {
    stream: TcpStream,
    local: SocketAddrV4,
    peer: SocketAddrV4,
    written: u64,
    decoder: Decoder,
}

/// Shared connections of one server: permits bound their number.
struct Shelf {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Conn>>,
}

/// Serves for ever.
pub fn serve(context: &Arc<Context>, listener: std::net::TcpListener) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(context.workers(2))
        .thread_name(plan::component(context.tier, context.server))
        .enable_io()
        .enable_time()
        .build()?;
    let shelf = |limit| Shelf { permits: Arc::new(Semaphore::new(limit)), idle: Mutex::default() };
    let shelves: Arc<Vec<Shelf>> = Arc::new(match context.policy {
        Policy::Pooled(limit) => (0..context.behaviour.servers).map(|_| shelf(limit)).collect(),
        _ => Vec::new(),
    });
    listener.set_nonblocking(true)?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let caller = Caller { context: Arc::clone(context), shelves: Arc::clone(&shelves), kept: HashMap::new() };
            tokio::spawn(caller.serve(stream));
        }
    })
}

/// Reads once. `Ok(false)` is the end of the stream.
async fn read_some(stream: &mut TcpStream, decoder: &mut Decoder, style: Style) -> io::Result<bool> {
    let mut buffer = [0; 4 << 10];
    let size = style.read_size().min(buffer.len());
    let count = stream.read(&mut buffer[..size]).await?;
    decoder.push(&buffer[..count]);
    Ok(count > 0)
}

async fn write_frame(stream: &mut TcpStream, frame: &Frame, style: Style) -> io::Result<()> {
    for piece in frame.pieces(style.split) {
        if !piece.is_empty() {
            stream.write_all(piece).await?;
        }
    }
    Ok(())
}

impl Conn {
    async fn open(to: SocketAddrV4, style: Style) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let local = net::v4(stream.local_addr()?);
        Ok(Self { stream, local, peer: to, written: 0, decoder: Decoder::new(style.wire) })
    }

    async fn call(&mut self, frame: &Frame, hop: &mut Hop, style: Style) -> io::Result<Message> {
        (hop.client, hop.server, hop.conn_bytes) = (self.local, self.peer, self.written);
        hop.send_ns[0] = net::now_ns();
        let sent = write_frame(&mut self.stream, frame, style).await;
        hop.send_ns[1] = net::now_ns();
        sent?;
        self.written += frame.bytes.len() as u64;
        loop {
            if let Some(reply) = self.decoder.next()? {
                hop.replied(&reply);
                return Ok(reply);
            }
            if !read_some(&mut self.stream, &mut self.decoder, style).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Serves one connection; it keeps connections of its own to downstream.
struct Caller {
    context: Arc<Context>,
    shelves: Arc<Vec<Shelf>>,
    kept: HashMap<usize, Conn>,
}

impl Caller {
    async fn serve(mut self, mut stream: TcpStream) {
        // An error here is the peer's doing: it sees the connection end.
        let _ = self.serve_requests(&mut stream).await;
    }

    async fn serve_requests(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let context = Arc::clone(&self.context);
        stream.set_nodelay(true)?;
        let mut decoder = Decoder::new(context.style.wire);
        loop {
            while let Some(message) = decoder.next()? {
                let mut job = Job::new(&context, &message).ok_or(io::ErrorKind::InvalidData)?;
                loop {
                    match job.next() {
                        Action::Think(time) => tokio::time::sleep(time).await,
                        Action::Call(call) => {
                            let (hop, reply) = self.call(call).await;
                            job.answered(hop, reply.as_ref());
                        }
                        Action::Part(frame) => write_frame(stream, &frame, context.style).await?,
                        Action::Reply(frame) => {
                            write_frame(stream, &frame, context.style).await?;
                            break;
                        }
                    }
                }
            }
            if !read_some(stream, &mut decoder, context.style).await? {
                return Ok(());
            }
        }
    }

    /// Makes a call; without a reply it failed.
    async fn call(&mut self, call: Call) -> (Hop, Option<Message>) {
        let Call { server, frame, mut hop } = call;
        let permit = self.permit(server).await;
        let kept = match self.shelves.get(server) {
            Some(shelf) => shelf.idle.lock().unwrap().pop(),
            None => self.kept.remove(&server),
        };
        let style = self.context.style;
        let attempt = async {
            let mut conn = match kept {
                Some(conn) => conn,
                None => Conn::open(self.context.shape.address(self.context.tier + 1, server), style).await?,
            };
            let reply = conn.call(&frame, &mut hop, style).await?;
            Ok::<_, io::Error>((conn, reply))
        };
        let reply = match attempt.await {
            Err(_) => None,
            Ok((conn, reply)) => {
                match (self.shelves.get(server), self.context.policy) {
                    (Some(shelf), _) => shelf.idle.lock().unwrap().push(conn),
                    (None, Policy::New) => drop(conn),
                    (None, _) => drop(self.kept.insert(server, conn)),
                }
                Some(reply)
            }
        };
        drop(permit);
        (hop, reply)
    }

    async fn permit(&self, server: usize) -> Option<OwnedSemaphorePermit> {
        let permits = Arc::clone(&self.shelves.get(server)?.permits);
        permits.acquire_owned().await.ok()
    }
}
