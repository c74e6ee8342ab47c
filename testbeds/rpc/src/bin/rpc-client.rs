//! `rpc-client`: asks a server to compute, goes on computing itself if told to, then reads the reply.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use wakepath_testbed_rpc::{LOOP_MS, MESSAGE_BYTES, Message, Truth, compute, now_ns, poll};

/// What takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends remote procedure calls, one after the other
#[derive(Parser)]
#[command(name = "rpc-client", version)]
struct Args {
    /// The server
    server: SocketAddr,
    /// Datagrams instead of a connection
    #[arg(long)]
    udp: bool,
    /// How many calls
    #[arg(long, default_value_t = 10)]
    requests: u64,
    /// How long the server shall compute, each time (µs of processor time)
    #[arg(long, default_value_t = 10_000)]
    compute_us: u64,
    /// How much of that time the client goes on computing before it reads the reply (percent)
    #[arg(long = "async", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000))]
    asynchronous: u64,
    /// Wait for the reply in an event loop with a 16 ms time-out instead of a blocking read
    #[arg(long)]
    event_loop: bool,
    /// Pause between calls (µs)
    #[arg(long, default_value_t = 0)]
    think_us: u64,
    /// Where one JSON line a call goes (times of CLOCK_MONOTONIC, ns)
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
}

/// The way to the server.
enum Channel {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Channel {
    fn open(args: &Args) -> io::Result<Channel> {
        if args.udp {
            let any: SocketAddr = match args.server {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(args.server)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            return Ok(Channel::Udp(socket));
        }
        let stream = TcpStream::connect_timeout(&args.server, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Channel::Tcp(stream))
    }

    fn local(&self) -> io::Result<SocketAddr> {
        match self {
            Channel::Tcp(stream) => stream.local_addr(),
            Channel::Udp(socket) => socket.local_addr(),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Channel::Tcp(stream) => stream.as_fd(),
            Channel::Udp(socket) => socket.as_fd(),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Channel::Tcp(stream) => stream.write_all(bytes),
            Channel::Udp(socket) => socket.send(bytes).map(drop),
        }
    }

    fn read(&mut self, bytes: &mut [u8; MESSAGE_BYTES]) -> io::Result<()> {
        match self {
            Channel::Tcp(stream) => stream.read_exact(bytes),
            Channel::Udp(socket) => match socket.recv(bytes)? {
                MESSAGE_BYTES => Ok(()),
                count => Err(io::Error::new(io::ErrorKind::InvalidData, format!("a reply of {count} bytes"))),
            },
        }
    }
}

/// Polls until the reply is there; gives how often the time-out came first, and when the last turn began.
fn wait_in_loop(channel: &Channel, since_ns: u64) -> io::Result<(u64, u64)> {
    let (mut timeouts, mut turn_ns) = (0, since_ns);
    while !poll(&[channel.fd()], LOOP_MS)?[0] {
        timeouts += 1;
        turn_ns = now_ns();
        if turn_ns - since_ns > PATIENCE.as_nanos() as u64 {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok((timeouts, turn_ns))
}

fn call(args: &Args, channel: &mut Channel, local: &str, id: u64, truth: &Truth) -> io::Result<()> {
    let compute_ns = args.compute_us * 1000;
    let send_ns = now_ns();
    channel.send(&Message { id, compute_ns, result: 0 }.bytes())?;
    let sent_ns = now_ns();
    let (begin, end) = match compute_ns * args.asynchronous / 100 {
        0 => (sent_ns, sent_ns),
        own_ns => compute(own_ns),
    };
    let read_ns = now_ns();
    let (timeouts, turn_ns) = if args.event_loop { wait_in_loop(channel, read_ns)? } else { (0, read_ns) };
    let mut bytes = [0; MESSAGE_BYTES];
    channel.read(&mut bytes)?;
    let received_ns = now_ns();
    let reply = Message::read(&bytes);
    if reply.is_none_or(|r| r.id != id || r.result != !id) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("call {id}: the reply is of another call")));
    }
    truth.line(
        "client",
        &[("local", local), ("server", &args.server.to_string())],
        &[
            ("id", id),
            ("asked_ns", compute_ns),
            ("send_ns", send_ns),
            ("sent_ns", sent_ns),
            ("compute_begin_ns", begin),
            ("compute_end_ns", end),
            ("read_ns", read_ns),
            ("turn_ns", turn_ns),
            ("received_ns", received_ns),
            ("timeouts", timeouts),
        ],
    )
}

fn run(args: &Args) -> io::Result<()> {
    let truth = Truth::create(args.truth.as_deref())?;
    let mut channel = Channel::open(args)?;
    let local = channel.local()?.to_string();
    for id in 1..=args.requests {
        call(args, &mut channel, &local, id, &truth)?;
        if args.think_us > 0 {
            std::thread::sleep(Duration::from_micros(args.think_us));
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("rpc-client: {problem}");
            ExitCode::FAILURE
        }
    }
}
