//! The state machine of the single-threaded models, without I/O. A [`Driver`] does what it asks for and tells what
//! happened: with epoll in [`super::eventloop`], with io_uring in [`super::iouring`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use crate::job::{Action, Call, Context, Job};
use crate::net;
use crate::options::Policy;
use crate::truth::Hop;
use crate::wire::{Decoder, Frame, Message};

/// Does I/O for the machine. Every socket has an id that is never used again. Nothing here calls the machine back; what
/// happened comes as an [`Event`] later. All open sockets are read all the time.
pub trait Driver {
    /// Begins to connect; [`Event::Connected`] follows.
    fn connect(&mut self, to: SocketAddrV4) -> u64;
    /// Begins to send; [`Event::Sent`] follows. At most one send is under way on a socket.
    fn send(&mut self, id: u64, frame: Frame);
    /// Closes; no event follows.
    fn close(&mut self, id: u64);
    /// [`Event::Timer`] follows in so many nanoseconds; at most one at a time for an id.
    fn timer(&mut self, id: u64, after_ns: u64);
}

/// What happened to a socket, or to the session with the socket's id.
#[derive(Debug)]
pub enum Event<'a> {
    /// A new connection from upstream.
    Accepted,
    /// The outcome of connecting, with the own address.
    Connected(io::Result<SocketAddrV4>),
    /// The outcome of sending, with the times before and after.
    Sent(io::Result<[u64; 2]>),
    /// Bytes came.
    Received(&'a [u8]),
    /// The peer has ended the stream, or it broke.
    Closed,
    /// The time is over.
    Timer,
}

/// A connection from upstream with the request that is under way on it.
struct Session {
    decoder: Decoder,
    job: Option<Job>,
    /// The final reply is being sent.
    replying: bool,
    /// A call that waits for a pooled connection.
    waiting: Option<Call>,
    gone: bool,
    kept: HashMap<usize, u64>,
}

/// A connection to downstream.
struct Down {
    server: usize,
    local: SocketAddrV4,
    connected: bool,
    written: u64,
    decoder: Decoder,
    flight: Option<Flight>,
}

/// A call under way.
struct Flight {
    session: u64,
    hop: Hop,
    frame: Option<Frame>,
    sent: bool,
    reply: Option<Message>,
}

/// The pooled connections of one server.
#[derive(Default)]
struct Shelf {
    idle: Vec<u64>,
    open: usize,
    waiting: VecDeque<u64>,
}

/// All sessions of a server.
pub struct Machine {
    context: Arc<Context>,
    sessions: HashMap<u64, Session>,
    downs: HashMap<u64, Down>,
    shelves: Vec<Shelf>,
}

impl Machine {
    /// No sessions yet.
    pub fn new(context: &Arc<Context>) -> Self {
        let shelves = (0..context.behaviour.servers).map(|_| Shelf::default()).collect();
        Self { context: Arc::clone(context), sessions: HashMap::new(), downs: HashMap::new(), shelves }
    }

    /// Takes an event and asks for what follows from it.
    pub fn handle(&mut self, id: u64, event: Event<'_>, driver: &mut impl Driver) {
        if matches!(event, Event::Accepted) {
            let session = Session {
                decoder: Decoder::new(self.context.style.wire),
                job: None,
                replying: false,
                waiting: None,
                gone: false,
                kept: HashMap::new(),
            };
            self.sessions.insert(id, session);
        } else if self.sessions.contains_key(&id) {
            self.session_event(id, event, driver);
        } else if self.downs.contains_key(&id) {
            self.down_event(id, event, driver);
        }
    }

    fn session_event(&mut self, id: u64, event: Event<'_>, driver: &mut impl Driver) {
        let session = self.sessions.get_mut(&id).expect("asked before");
        match event {
            Event::Received(bytes) => {
                session.decoder.push(bytes);
                self.next_request(id, driver);
            }
            Event::Closed => {
                session.gone = true;
                self.next_request(id, driver);
            }
            Event::Sent(outcome) => {
                session.gone |= outcome.is_err();
                if session.replying {
                    (session.replying, session.job) = (false, None);
                    self.next_request(id, driver);
                } else {
                    self.go_on(id, driver);
                }
            }
            Event::Timer => self.go_on(id, driver),
            Event::Accepted | Event::Connected(_) => unreachable!("not for a session"),
        }
    }

    /// Begins the next request of a session that has none under way, or ends the session.
    fn next_request(&mut self, id: u64, driver: &mut impl Driver) {
        let session = self.sessions.get_mut(&id).expect("the caller has it");
        if session.job.is_some() {
            return;
        }
        if !session.gone {
            match session.decoder.next().map(|message| message.map(|m| Job::new(&self.context, &m))) {
                Ok(None) => return,
                Ok(Some(Some(job))) => {
                    session.job = Some(job);
                    return self.go_on(id, driver);
                }
                Ok(Some(None)) | Err(_) => {}
            }
        }
        let session = self.sessions.remove(&id).expect("had above");
        for down in session.kept.into_values() {
            self.downs.remove(&down);
            driver.close(down);
        }
        driver.close(id);
    }

    /// Lets the request that is under way take its next step.
    fn go_on(&mut self, id: u64, driver: &mut impl Driver) {
        let session = self.sessions.get_mut(&id).expect("only ended without a request");
        match session.job.as_mut().expect("a request is under way").next() {
            Action::Think(time) => driver.timer(id, time.as_nanos() as u64),
            Action::Part(frame) => driver.send(id, frame),
            Action::Reply(frame) => {
                session.replying = true;
                driver.send(id, frame);
            }
            Action::Call(call) => self.place(id, call, driver),
        }
    }

    /// Finds or opens a connection for a call, or lets it wait for one.
    fn place(&mut self, id: u64, call: Call, driver: &mut impl Driver) {
        let session = self.sessions.get_mut(&id).expect("the caller has it");
        let shelf = &mut self.shelves[call.server];
        let ready = match self.context.policy {
            Policy::New => None,
            Policy::KeepAlive | Policy::Pipelined(_) => session.kept.get(&call.server).copied(),
            Policy::Pooled(limit) => match shelf.idle.pop() {
                Some(down) => Some(down),
                None if shelf.open < limit => {
                    shelf.open += 1;
                    None
                }
                None => {
                    shelf.waiting.push_back(id);
                    session.waiting = Some(call);
                    return;
                }
            },
        };
        match ready {
            Some(down) => self.fly(down, id, call, driver),
            None => self.open(id, call, driver),
        }
    }

    fn open(&mut self, id: u64, call: Call, driver: &mut impl Driver) {
        let server = call.server;
        let down = driver.connect(self.context.shape.address(self.context.tier + 1, server));
        if matches!(self.context.policy, Policy::KeepAlive | Policy::Pipelined(_)) {
            self.sessions.get_mut(&id).expect("the caller has it").kept.insert(server, down);
        }
        let state = Down {
            server,
            local: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            connected: false,
            written: 0,
            decoder: Decoder::new(self.context.style.wire),
            flight: None,
        };
        self.downs.insert(down, state);
        self.fly(down, id, call, driver);
    }

    /// Puts a call on a connection; it is sent once the connection is there.
    fn fly(&mut self, down_id: u64, session: u64, call: Call, driver: &mut impl Driver) {
        let down = self.downs.get_mut(&down_id).expect("opened and not closed");
        debug_assert!(down.flight.is_none());
        down.flight = Some(Flight { session, hop: call.hop, frame: Some(call.frame), sent: false, reply: None });
        if down.connected {
            self.transmit(down_id, driver);
        }
    }

    fn transmit(&mut self, down_id: u64, driver: &mut impl Driver) {
        let down = self.downs.get_mut(&down_id).expect("the caller has it");
        let Some(flight) = &mut down.flight else {
            return;
        };
        let Some(frame) = flight.frame.take() else {
            return;
        };
        let hop = &mut flight.hop;
        (hop.client, hop.conn_bytes) = (down.local, down.written);
        hop.server = self.context.shape.address(self.context.tier + 1, down.server);
        down.written += frame.bytes.len() as u64;
        driver.send(down_id, frame);
    }

    fn down_event(&mut self, id: u64, event: Event<'_>, driver: &mut impl Driver) {
        let down = self.downs.get_mut(&id).expect("asked before");
        match event {
            Event::Connected(Ok(local)) => {
                (down.local, down.connected) = (local, true);
                return self.transmit(id, driver);
            }
            Event::Sent(Ok(send_ns)) => {
                let Some(flight) = &mut down.flight else {
                    return;
                };
                (flight.hop.send_ns, flight.sent) = (send_ns, true);
            }
            Event::Received(bytes) => {
                down.decoder.push(bytes);
                match (down.decoder.next(), &mut down.flight) {
                    (Ok(None), _) => return,
                    (Ok(Some(reply)), Some(flight)) => {
                        flight.hop.replied(&reply);
                        flight.reply = Some(reply);
                    }
                    _ => return self.land(id, false, driver),
                }
            }
            Event::Connected(Err(_)) | Event::Sent(Err(_)) | Event::Closed => {
                return self.land(id, false, driver);
            }
            Event::Accepted | Event::Timer => unreachable!("not for a downstream connection"),
        }
        // a reply may be reported before the end of the send that caused it
        if down.flight.as_ref().is_some_and(|flight| flight.sent && flight.reply.is_some()) {
            self.land(id, true, driver);
        }
    }

    /// Ends a call: gives the connection on, then lets its session go on.
    fn land(&mut self, id: u64, usable: bool, driver: &mut impl Driver) {
        let down = self.downs.get_mut(&id).expect("the caller has it");
        let (flight, server) = (down.flight.take(), down.server);
        if !usable || self.context.policy == Policy::New {
            self.downs.remove(&id);
            driver.close(id);
            if let Some(session) = flight.as_ref().and_then(|flight| self.sessions.get_mut(&flight.session)) {
                session.kept.remove(&server);
            }
            for session in self.sessions.values_mut().filter(|_| flight.is_none()) {
                session.kept.retain(|_, kept| *kept != id); // it ended while idle, which is rare
            }
        }
        if matches!(self.context.policy, Policy::Pooled(_)) {
            self.hand_on(id, server, usable, flight.is_some(), driver);
        }
        let Some(mut flight) = flight else { return };
        if !usable {
            flight.reply = None;
        }
        let session = self.sessions.get_mut(&flight.session).expect("a session with a request stays");
        session.job.as_mut().expect("the call was its own").answered(flight.hop, flight.reply.as_ref());
        self.go_on(flight.session, driver);
    }

    /// What happens to a pooled connection after use: a waiting call gets it, or a new one in place of a broken one.
    fn hand_on(&mut self, id: u64, server: usize, usable: bool, was_used: bool, driver: &mut impl Driver) {
        let shelf = &mut self.shelves[server];
        if !was_used {
            shelf.idle.retain(|idle| *idle != id);
        }
        let Some(waiting) = shelf.waiting.pop_front() else {
            if usable {
                shelf.idle.push(id);
            } else {
                shelf.open -= 1;
            }
            return;
        };
        let session = self.sessions.get_mut(&waiting).expect("a session with a request stays");
        let call = session.waiting.take().expect("it waits");
        if usable {
            self.fly(id, waiting, call, driver);
        } else {
            self.open(waiting, call, driver);
        }
    }
}

/// An event that waits in a driver for its turn.
pub type Queued = VecDeque<(u64, Event<'static>)>;

/// Gives all waiting events, and those that follow from them, to the machine.
pub fn drain<D: Driver>(machine: &mut Machine, driver: &mut D, queued: impl Fn(&mut D) -> &mut Queued) {
    while let Some((id, event)) = queued(driver).pop_front() {
        machine.handle(id, event, driver);
    }
}

/// A socket, not yet connected; `flags` may be SOCK_NONBLOCK.
pub fn socket(flags: i32) -> io::Result<std::net::TcpStream> {
    use std::os::fd::FromRawFd;
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
    // SAFETY: no pointers; the descriptor is owned by nobody else.
    unsafe {
        match libc::socket(libc::AF_INET, kind, 0) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(std::net::TcpStream::from_raw_fd(fd)),
        }
    }
}

/// An address as the kernel wants it.
pub fn sockaddr(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

/// The own address of a socket that has just been connected.
pub fn connected(stream: &std::net::TcpStream) -> io::Result<SocketAddrV4> {
    stream.set_nodelay(true)?;
    Ok(net::v4(stream.local_addr()?))
}
