//! A single thread with epoll and non-blocking sockets; think time by a heap of timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::evented::{self, Driver, Event, Machine, Queued};
use crate::job::Context;
use crate::net::{self, Epoll, READ, Style, WRITE};
use crate::wire::Frame;

const LISTENER: u64 = 0;

struct Socket {
    stream: TcpStream,
    connecting: bool,
    out: Option<Out>,
}

/// A frame being written.
struct Out {
    frame: Frame,
    written: usize,
    before_ns: u64,
    /// The socket was full once.
    armed: bool,
}

struct EpollDriver {
    style: Style,
    epoll: Epoll,
    sockets: HashMap<u64, Socket>,
    next_id: u64,
    timers: BinaryHeap<Reverse<(u64, u64)>>,
    queued: Queued,
}

/// Serves for ever.
pub fn serve(context: &Arc<Context>, listener: &TcpListener) -> io::Result<()> {
    let mut machine = Machine::new(context);
    let mut driver = EpollDriver {
        style: context.style,
        epoll: Epoll::new()?,
        sockets: HashMap::new(),
        next_id: LISTENER + 1,
        timers: BinaryHeap::new(),
        queued: Queued::new(),
    };
    listener.set_nonblocking(true)?;
    driver.epoll.add(listener.as_raw_fd(), LISTENER, READ)?;
    let mut events = Vec::new();
    let mut buffer = vec![0; context.style.read_size()];
    loop {
        let next_timer = driver.timers.peek().map(|Reverse((at_ns, _))| *at_ns);
        driver.epoll.wait(next_timer, &mut events)?;
        for &(id, ready) in &events {
            if id == LISTENER {
                driver.accept(listener)?;
            } else {
                driver.connect_or_write(id, ready);
                evented::drain(&mut machine, &mut driver, |driver| &mut driver.queued);
                if ready & !WRITE != 0
                    && let Some(event) = driver.read(id, &mut buffer)
                {
                    machine.handle(id, event, &mut driver);
                }
            }
            evented::drain(&mut machine, &mut driver, |driver| &mut driver.queued);
        }
        while let Some(Reverse((at_ns, id))) = driver.timers.peek().copied()
            && at_ns <= net::now_ns()
        {
            driver.timers.pop();
            machine.handle(id, Event::Timer, &mut driver);
            evented::drain(&mut machine, &mut driver, |driver| &mut driver.queued);
        }
    }
}

impl EpollDriver {
    fn insert(&mut self, stream: TcpStream, connecting: bool) -> io::Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        self.epoll.add(stream.as_raw_fd(), id, if connecting { READ | WRITE } else { READ })?;
        self.sockets.insert(id, Socket { stream, connecting, out: None });
        Ok(id)
    }

    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        while let Ok((stream, _)) = listener.accept() {
            if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok() {
                let id = self.insert(stream, false)?;
                self.queued.push_back((id, Event::Accepted));
            }
        }
        Ok(())
    }

    fn connect_or_write(&mut self, id: u64, ready: u32) {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        if socket.connecting {
            socket.connecting = false;
            let outcome = match socket.stream.take_error() {
                Ok(None) => evented::connected(&socket.stream),
                Ok(Some(error)) | Err(error) => Err(error),
            };
            let _ = self.epoll.modify(socket.stream.as_raw_fd(), id, READ);
            self.queued.push_back((id, Event::Connected(outcome)));
        } else if ready & WRITE != 0 {
            self.write(id);
        }
    }

    fn read<'a>(&mut self, id: u64, buffer: &'a mut [u8]) -> Option<Event<'a>> {
        let socket = self.sockets.get_mut(&id)?;
        match socket.stream.read(buffer) {
            Ok(count) if count > 0 => Some(Event::Received(&buffer[..count])),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => None,
            Ok(_) | Err(_) => {
                let _ = self.epoll.remove(socket.stream.as_raw_fd());
                Some(Event::Closed)
            }
        }
    }

    /// Writes as much as goes.
    fn write(&mut self, id: u64) {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        let Some(out) = &mut socket.out else { return };
        let outcome = loop {
            let border =
                if self.style.split && out.written < out.frame.head { out.frame.head } else { out.frame.bytes.len() };
            if out.written == out.frame.bytes.len() {
                break Ok([out.before_ns, net::now_ns()]);
            }
            match socket.stream.write(&out.frame.bytes[out.written..border]) {
                Ok(count) => out.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    out.armed = true;
                    match self.epoll.modify(socket.stream.as_raw_fd(), id, READ | WRITE) {
                        Ok(()) => return,
                        Err(error) => break Err(error), // the peer has closed, and the socket is watched no more
                    }
                }
                Err(error) => break Err(error),
            }
        };
        if out.armed {
            let _ = self.epoll.modify(socket.stream.as_raw_fd(), id, READ);
        }
        socket.out = None;
        self.queued.push_back((id, Event::Sent(outcome)));
    }

    fn begin_connect(&mut self, to: SocketAddrV4) -> io::Result<u64> {
        let stream = evented::socket(libc::SOCK_NONBLOCK)?;
        let address = evented::sockaddr(to);
        // SAFETY: `address` is a valid sockaddr_in of the length given.
        let result = unsafe {
            libc::connect(stream.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        let error = io::Error::last_os_error();
        if result < 0 && error.raw_os_error() != Some(libc::EINPROGRESS) {
            return Err(error);
        }
        self.insert(stream, true) // if it is connected already, epoll says so at once
    }
}

impl Driver for EpollDriver {
    fn connect(&mut self, to: SocketAddrV4) -> u64 {
        self.begin_connect(to).unwrap_or_else(|error| {
            let id = self.next_id;
            self.next_id += 1;
            self.queued.push_back((id, Event::Connected(Err(error))));
            id
        })
    }

    fn send(&mut self, id: u64, frame: Frame) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.out = Some(Out { frame, written: 0, before_ns: net::now_ns(), armed: false });
            self.write(id);
        }
    }

    fn close(&mut self, id: u64) {
        self.sockets.remove(&id);
    }

    fn timer(&mut self, id: u64, after_ns: u64) {
        self.timers.push(Reverse((net::now_ns() + after_ns, id)));
    }
}
