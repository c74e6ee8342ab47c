//! A single thread with io_uring: accept, connect, receive, send, close and timers all go through the ring.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::ptr;
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};

use super::evented::{self, Driver, Event, Machine, Queued};
use crate::job::Context;
use crate::net::{self, Style};
use crate::wire::Frame;

// What an entry was, in the low bits of its user data; the rest is the id.
const ACCEPT: u64 = 0;
const CONNECT: u64 = 1;
const RECEIVE: u64 = 2;
const SEND: u64 = 3;
const TIMER: u64 = 4;
const CLOSE: u64 = 5;
const KIND_BITS: u32 = 3;

/// A socket, and the memory that the kernel uses for it: it stays until nothing is pending.
struct Socket {
    stream: TcpStream,
    buffer: Box<[u8]>,
    address: Box<libc::sockaddr_in>,
    out: Option<Out>,
    pending: u32,
    closing: bool,
}

/// A frame being sent.
struct Out {
    frame: Frame,
    sent: usize,
    before_ns: u64,
}

struct RingDriver {
    style: Style,
    ring: IoUring,
    listener: RawFd,
    sockets: HashMap<u64, Socket>,
    timers: HashMap<u64, Box<types::Timespec>>,
    next_id: u64,
    queued: Queued,
}

/// Serves for ever.
pub fn serve(context: &Arc<Context>, listener: &TcpListener) -> io::Result<()> {
    let mut machine = Machine::new(context);
    let mut driver = RingDriver {
        style: context.style,
        ring: IoUring::new(1024)?,
        listener: listener.as_raw_fd(),
        sockets: HashMap::new(),
        timers: HashMap::new(),
        next_id: 1,
        queued: Queued::new(),
    };
    driver.accept();
    let mut bytes = Vec::new();
    loop {
        match driver.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
            Err(error) => return Err(error),
        }
        while let Some((data, result)) = driver.next_completion() {
            let id = data >> KIND_BITS;
            match data & ((1 << KIND_BITS) - 1) {
                RECEIVE => {
                    if let Some(event) = driver.received(id, result, &mut bytes) {
                        machine.handle(id, event, &mut driver);
                    }
                }
                kind => driver.completed(kind, id, result),
            }
            evented::drain(&mut machine, &mut driver, |driver| &mut driver.queued);
        }
    }
}

fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

impl RingDriver {
    fn next_completion(&mut self) -> Option<(u64, i32)> {
        self.ring.completion().next().map(|entry| (entry.user_data(), entry.result()))
    }

    fn push(&mut self, entry: squeue::Entry, kind: u64, id: u64) {
        let entry = entry.user_data(id << KIND_BITS | kind);
        // SAFETY: what the entry points to belongs to a socket or timer that is kept until its completion.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            let _ = self.ring.submit(); // the queue is full
        }
    }

    fn accept(&mut self) {
        let entry = opcode::Accept::new(types::Fd(self.listener), ptr::null_mut(), ptr::null_mut());
        self.push(entry.flags(libc::SOCK_CLOEXEC).build(), ACCEPT, 0);
    }

    fn insert(&mut self, stream: TcpStream, to: SocketAddrV4) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let socket = Socket {
            stream,
            buffer: vec![0; self.style.read_size()].into(),
            address: Box::new(evented::sockaddr(to)),
            out: None,
            pending: 0,
            closing: false,
        };
        self.sockets.insert(id, socket);
        id
    }

    fn receive(&mut self, id: u64) {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        socket.pending += 1;
        let fd = types::Fd(socket.stream.as_raw_fd());
        let entry = opcode::Recv::new(fd, socket.buffer.as_mut_ptr(), socket.buffer.len() as u32).build();
        self.push(entry, RECEIVE, id);
    }

    /// Sends the next piece of the frame: all, or with split writes up to the end of the header.
    fn send_rest(&mut self, id: u64) {
        let split = self.style.split;
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        let Some(out) = &socket.out else { return };
        let end = if split && out.sent < out.frame.head { out.frame.head } else { out.frame.bytes.len() };
        let piece = &out.frame.bytes[out.sent..end];
        let entry = opcode::Send::new(types::Fd(socket.stream.as_raw_fd()), piece.as_ptr(), piece.len() as u32)
            .flags(libc::MSG_NOSIGNAL)
            .build();
        socket.pending += 1;
        self.push(entry, SEND, id);
    }

    /// Counts a completion. `None`: the socket is being closed, and what happened to it is of no interest.
    fn settle(&mut self, id: u64) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(&id)?;
        socket.pending -= 1;
        if !socket.closing {
            return self.sockets.get_mut(&id);
        }
        self.close_if_settled(id);
        None
    }

    fn close_if_settled(&mut self, id: u64) {
        if self.sockets.get(&id).is_some_and(|socket| socket.pending == 0)
            && let Some(socket) = self.sockets.remove(&id)
        {
            let fd = socket.stream.into_raw_fd();
            self.push(opcode::Close::new(types::Fd(fd)).build(), CLOSE, id);
        }
    }

    fn received<'a>(&mut self, id: u64, result: i32, bytes: &'a mut Vec<u8>) -> Option<Event<'a>> {
        let socket = self.settle(id)?;
        match outcome(result) {
            Ok(count) if count > 0 => {
                bytes.clear();
                bytes.extend_from_slice(&socket.buffer[..count]);
                self.receive(id);
                Some(Event::Received(bytes))
            }
            _ => Some(Event::Closed),
        }
    }

    fn completed(&mut self, kind: u64, id: u64, result: i32) {
        match kind {
            ACCEPT => {
                if let Ok(fd) = outcome(result) {
                    // SAFETY: a new descriptor that the kernel has just given to us.
                    let stream = unsafe { TcpStream::from_raw_fd(fd as RawFd) };
                    let _ = stream.set_nodelay(true);
                    let id = self.insert(stream, SocketAddrV4::new([0; 4].into(), 0));
                    self.queued.push_back((id, Event::Accepted));
                    self.receive(id);
                }
                self.accept();
            }
            CONNECT => {
                let Some(socket) = self.settle(id) else {
                    return;
                };
                let local = outcome(result).and_then(|_| evented::connected(&socket.stream));
                if local.is_ok() {
                    self.receive(id);
                }
                self.queued.push_back((id, Event::Connected(local)));
            }
            SEND => self.sent(id, result),
            TIMER => {
                self.timers.remove(&id);
                self.queued.push_back((id, Event::Timer));
            }
            _ => {}
        }
    }

    fn sent(&mut self, id: u64, result: i32) {
        let Some(socket) = self.settle(id) else {
            return;
        };
        let Some(out) = &mut socket.out else { return };
        let done = match outcome(result) {
            Ok(count) => {
                out.sent += count;
                if out.sent < out.frame.bytes.len() {
                    return self.send_rest(id);
                }
                Ok([out.before_ns, net::now_ns()])
            }
            Err(error) => Err(error),
        };
        socket.out = None;
        self.queued.push_back((id, Event::Sent(done)));
    }
}

impl Driver for RingDriver {
    fn connect(&mut self, to: SocketAddrV4) -> u64 {
        let stream = match evented::socket(0) {
            // blocking: on a non-blocking socket the kernel would not wait, but say EAGAIN
            Ok(stream) => stream,
            Err(error) => {
                let id = self.next_id;
                self.next_id += 1;
                self.queued.push_back((id, Event::Connected(Err(error))));
                return id;
            }
        };
        let fd = types::Fd(stream.as_raw_fd());
        let id = self.insert(stream, to);
        let socket = self.sockets.get_mut(&id).expect("just inserted");
        socket.pending += 1;
        let address = &raw const *socket.address;
        let entry = opcode::Connect::new(fd, address.cast(), size_of::<libc::sockaddr_in>() as libc::socklen_t);
        self.push(entry.build(), CONNECT, id);
        id
    }

    fn send(&mut self, id: u64, frame: Frame) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.out = Some(Out { frame, sent: 0, before_ns: net::now_ns() });
            self.send_rest(id);
        }
    }

    fn close(&mut self, id: u64) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.closing = true;
            if socket.pending > 0 {
                let _ = socket.stream.shutdown(Shutdown::Both); // completes what is pending
            }
            self.close_if_settled(id);
        }
    }

    fn timer(&mut self, id: u64, after_ns: u64) {
        let time =
            Box::new(types::Timespec::new().sec(after_ns / 1_000_000_000).nsec((after_ns % 1_000_000_000) as u32));
        let entry = opcode::Timeout::new(&raw const *time).build();
        self.timers.insert(id, time);
        self.push(entry, TIMER, id);
    }
}
