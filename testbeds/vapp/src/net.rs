//! Clock, sockets and epoll: the thin layer over the operating system.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::options::Shape;
use crate::truth::Hop;
use crate::wire::{Decoder, Frame, Message, Wire};

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Uses the processor for so many microseconds.
pub fn work(us: u64) {
    let end = now_ns() + us * 1000;
    while now_ns() < end {
        std::hint::spin_loop();
    }
}

/// Names the calling thread; on the main thread this is the command name of the process. Threads inherit it.
pub fn set_comm(name: &str) {
    let name = std::ffi::CString::new(name).expect("no NUL in a name");
    // SAFETY: a NUL-terminated string; the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Asks the kernel to kill this process when its parent ends; leaves at once if `parent` is gone already.
pub fn die_with(parent: u32) {
    // SAFETY: plain system calls without pointers.
    let alive = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid() as u32 == parent
    };
    if !alive {
        std::process::exit(1);
    }
}

/// Listens with a long queue, so that bursts of connections are not dropped.
pub fn listen(address: SocketAddrV4) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // SAFETY: a valid listening socket; a second listen() only changes the length of the queue.
    if unsafe { libc::listen(listener.as_raw_fd(), 4096) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(listener)
}

/// Accepts, waiting out what may pass (aborted connections, too few descriptors).
pub fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept() {
            Ok((stream, _)) => return stream,
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                eprintln!("vapp: accept: {error}");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(_) => {}
        }
    }
}

/// An address known to be IPv4.
pub fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => unreachable!("only 127.0.0.1 is used"),
    }
}

/// How bytes are written and read.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Framing.
    pub wire: Wire,
    /// Header and body written separately, small reads.
    pub split: bool,
}

impl Style {
    /// The style of a run.
    pub fn of(shape: &Shape) -> Self {
        Self { wire: shape.wire, split: shape.split_writes }
    }

    /// The size of a read.
    pub fn read_size(self) -> usize {
        if self.split { 1000 } else { 16 << 10 }
    }
}

/// Reads once. `Ok(false)` is the end of the stream.
pub fn read_some(mut stream: &TcpStream, decoder: &mut Decoder, style: Style) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer[..style.read_size()]) {
            Ok(0) => return Ok(false),
            Ok(n) => {
                decoder.push(&buffer[..n]);
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes a whole frame on a blocking socket.
pub fn write_frame(mut stream: &TcpStream, frame: &Frame, style: Style) -> io::Result<()> {
    for piece in frame.pieces(style.split) {
        if !piece.is_empty() {
            stream.write_all(piece)?;
        }
    }
    Ok(())
}

/// A blocking connection as the calling side has it: it counts what was written.
#[derive(Debug)]
pub struct Conn {
    /// The socket.
    pub stream: TcpStream,
    /// Own address.
    pub local: SocketAddrV4,
    /// The server's address.
    pub peer: SocketAddrV4,
    /// Bytes written so far.
    pub written: u64,
    /// What was read.
    pub decoder: Decoder,
    style: Style,
}

impl Conn {
    /// Connects.
    pub fn open(to: SocketAddrV4, style: Style) -> io::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            local: v4(stream.local_addr()?),
            peer: to,
            stream,
            written: 0,
            decoder: Decoder::new(style.wire),
            style,
        })
    }

    /// Sends a request and notes it in its hop.
    pub fn send(&mut self, frame: &Frame, hop: &mut Hop) -> io::Result<()> {
        (hop.client, hop.server, hop.conn_bytes) = (self.local, self.peer, self.written);
        hop.send_ns[0] = now_ns();
        let result = write_frame(&self.stream, frame, self.style);
        hop.send_ns[1] = now_ns();
        result?;
        self.written += frame.bytes.len() as u64;
        Ok(())
    }

    /// Waits for the next message; the end of the stream is an error here.
    pub fn receive(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = self.decoder.next()? {
                return Ok(message);
            }
            if !read_some(&self.stream, &mut self.decoder, self.style)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits for the reply to `hop` and notes it there.
    pub fn receive_reply(&mut self, hop: &mut Hop) -> io::Result<Message> {
        let message = self.receive()?;
        hop.replied(&message);
        Ok(message)
    }
}

impl Hop {
    /// Notes that the complete reply has just been read.
    pub fn replied(&mut self, reply: &Message) {
        self.reply_ns = now_ns();
        (self.reply_len, self.reply_parts) = (reply.len, reply.parts);
    }
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// Interest in reading.
pub const READ: u32 = libc::EPOLLIN as u32;
/// Interest in writing.
pub const WRITE: u32 = libc::EPOLLOUT as u32;
/// Disarmed after one event.
pub const ONE_SHOT: u32 = libc::EPOLLONESHOT as u32;

impl Epoll {
    /// A new instance.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor is owned by nobody else.
        unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Self(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    fn control(&self, operation: i32, fd: RawFd, token: u64, interest: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest, u64: token };
        // SAFETY: `event` is valid for the call.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Watches a descriptor; its events carry `token`.
    pub fn add(&self, fd: RawFd, token: u64, interest: u32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes the interest.
    pub fn modify(&self, fd: RawFd, token: u64, interest: u32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Stops watching.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// Waits until something is ready or CLOCK_MONOTONIC has reached `until_ns`; fills `events` with tokens and events.
    pub fn wait(&self, until_ns: Option<u64>, events: &mut Vec<(u64, u32)>) -> io::Result<()> {
        let timeout = match until_ns {
            None => -1,
            Some(until) => until.saturating_sub(now_ns()).div_ceil(1_000_000) as i32,
        };
        let mut ready = [libc::epoll_event { events: 0, u64: 0 }; 64];
        events.clear();
        // SAFETY: `ready` has room for the number of events given.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), ready.as_mut_ptr(), ready.len() as i32, timeout) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        events.extend(ready[..count as usize].iter().map(|event| (event.u64, event.events)));
        Ok(())
    }
}
