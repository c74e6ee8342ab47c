//! `rpc-server`: computes as long as each request asks for, then replies.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use wakepath_testbed_rpc::{LOOP_MS, MESSAGE_BYTES, Message, Truth, compute, now_ns, poll};

/// Serves remote procedure calls: computes for the time that the client asks for, then sends the result
#[derive(Parser)]
#[command(name = "rpc-server", version)]
struct Args {
    /// Address; port 0 takes a free one. The first line printed is `ready ADDRESS PID`
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Datagrams instead of connections
    #[arg(long)]
    udp: bool,
    /// How it waits for requests
    #[arg(long, value_enum, default_value = "thread")]
    model: Model,
    /// Where one JSON line a request goes (times of CLOCK_MONOTONIC, ns)
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Model {
    /// A thread for each connection, blocked in read (one thread for datagrams)
    Thread,
    /// One thread that polls, 16 ms at most each time
    EventLoop,
}

/// Does what one message asks for, sends the reply by `send`, and writes it down.
fn serve(
    bytes: &[u8],
    received_ns: u64,
    peer: SocketAddr,
    truth: &Truth,
    send: impl FnOnce(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let asked = Message::read(bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a request of rpc-client"))?;
    let (begin, end) = compute(asked.compute_ns);
    let reply = asked.reply(end - begin).bytes();
    let send_ns = now_ns();
    send(&reply)?;
    let sent_ns = now_ns();
    truth.line(
        "server",
        &[("peer", &peer.to_string())],
        &[
            ("id", asked.id),
            ("asked_ns", asked.compute_ns),
            ("received_ns", received_ns),
            ("compute_begin_ns", begin),
            ("compute_end_ns", end),
            ("send_ns", send_ns),
            ("sent_ns", sent_ns),
        ],
    )
}

/// One connection until its end.
fn connection(mut stream: TcpStream, peer: SocketAddr, truth: &Truth) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = [0; MESSAGE_BYTES];
    loop {
        match stream.read_exact(&mut bytes) {
            Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        serve(&bytes, now_ns(), peer, truth, |reply| stream.write_all(reply))?;
    }
}

fn threads(listener: &TcpListener, truth: &Arc<Truth>) -> io::Result<()> {
    loop {
        let (stream, peer) = listener.accept()?;
        let truth = Arc::clone(truth);
        std::thread::spawn(move || {
            if let Err(problem) = connection(stream, peer, &truth) {
                eprintln!("rpc-server: {peer}: {problem}");
            }
        });
    }
}

/// A connection of the event loop, with what of a message has come.
struct Held {
    stream: TcpStream,
    peer: SocketAddr,
    bytes: Vec<u8>,
}

impl Held {
    /// Reads what is there; `false` where the connection is over.
    fn take(&mut self, truth: &Truth) -> io::Result<bool> {
        let mut piece = [0; MESSAGE_BYTES];
        let room = MESSAGE_BYTES - self.bytes.len();
        let count = self.stream.read(&mut piece[..room])?;
        let received_ns = now_ns();
        self.bytes.extend_from_slice(&piece[..count]);
        if self.bytes.len() == MESSAGE_BYTES {
            let stream = &mut self.stream;
            serve(&self.bytes, received_ns, self.peer, truth, |reply| stream.write_all(reply))?;
            self.bytes.clear();
        }
        Ok(count > 0)
    }
}

fn event_loop(listener: &TcpListener, truth: &Truth) -> io::Result<()> {
    let mut held: Vec<Held> = Vec::new();
    loop {
        let fds: Vec<BorrowedFd<'_>> =
            std::iter::once(listener.as_fd()).chain(held.iter().map(|h| h.stream.as_fd())).collect();
        let ready = poll(&fds, LOOP_MS)?;
        let mut at = 0;
        held.retain_mut(|connection| {
            at += 1;
            !ready[at]
                || connection.take(truth).unwrap_or_else(|problem| {
                    eprintln!("rpc-server: {}: {problem}", connection.peer);
                    false
                })
        });
        if ready[0] {
            let (stream, peer) = listener.accept()?;
            stream.set_nodelay(true)?;
            held.push(Held { stream, peer, bytes: Vec::new() });
        }
    }
}

fn datagrams(socket: &UdpSocket, model: Model, truth: &Truth) -> io::Result<()> {
    let mut bytes = [0; MESSAGE_BYTES + 1];
    loop {
        if matches!(model, Model::EventLoop) && !poll(&[socket.as_fd()], LOOP_MS)?[0] {
            continue;
        }
        let (count, peer) = socket.recv_from(&mut bytes)?;
        let done = serve(&bytes[..count], now_ns(), peer, truth, |reply| socket.send_to(reply, peer).map(drop));
        // anybody may send anything: it is said, and the next one is served
        if let Err(problem) = done {
            eprintln!("rpc-server: {peer}: {problem}");
        }
    }
}

fn ready(address: SocketAddr) -> io::Result<()> {
    println!("ready {address} {}", std::process::id());
    io::stdout().flush()
}

fn run(args: &Args) -> io::Result<()> {
    let truth = Arc::new(Truth::create(args.truth.as_deref())?);
    if args.udp {
        let socket = UdpSocket::bind(args.listen)?;
        ready(socket.local_addr()?)?;
        return datagrams(&socket, args.model, &truth);
    }
    let listener = TcpListener::bind(args.listen)?;
    ready(listener.local_addr()?)?;
    match args.model {
        Model::Thread => threads(&listener, &truth),
        Model::EventLoop => event_loop(&listener, &truth),
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("rpc-server: {problem}");
            ExitCode::FAILURE
        }
    }
}
