//! UDP and TCP at one port: frames come out, acknowledgements go in.

use crate::cli::Listen;
use anyhow::{Context as _, Result};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;
use wakepath_capture::monotonic_ns;
use wakepath_model::forward::FRAME_BYTES_MAX;

/// Connections at once.
const CONNECTIONS_MAX: usize = 256;
/// Connections at once from one address.
const CONNECTIONS_OF_ONE_MAX: usize = 64;
/// A connection that has not said who sends within this time is closed.
const GREETING_NS: u64 = 5_000_000_000;
/// Datagrams or reads of one socket before the others have their turn.
const TURN: usize = 256;
/// Memory asked for datagrams that wait.
const QUEUE_BYTES: libc::c_int = 16 << 20;
/// How often a sender is told the same again.
const AGAIN_NS: u64 = 1_000_000_000;
/// A connection on which nothing came for so long is closed; a sniffer speaks every second.
const SILENCE_NS: u64 = 60_000_000_000;

/// What came.
pub enum Came<'a> {
    /// Bytes that should be a frame.
    Frame(&'a [u8]),
    /// The first frame of a connection: says who will send, and how much it had sent before it connected.
    First(&'a [u8]),
    /// A connection spoke something else, and is closed.
    Nonsense,
}

struct Connection {
    stream: TcpStream,
    from: SocketAddr,
    /// Bytes of a frame whose rest has not come.
    bytes: Vec<u8>,
    /// Who sends on it, once a frame said so.
    session: Option<u64>,
    /// Acknowledged until there, and when.
    told: Option<(u64, u64)>,
    /// Bytes of an acknowledgement that found no room.
    unsent: Vec<u8>,
    /// When something came last.
    heard_ns: u64,
    /// When it was made.
    since_ns: u64,
    is_broken: bool,
}

/// All sockets.
pub struct Sockets {
    udp: UdpSocket,
    tcp: TcpListener,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

impl Sockets {
    /// Opens both sockets.
    pub fn open(at: &Listen) -> Result<Sockets> {
        let host = at.host.as_deref().unwrap_or("::");
        let bind = |host: &str| -> std::io::Result<(TcpListener, UdpSocket)> {
            let addresses: Vec<SocketAddr> = (host, at.port).to_socket_addrs()?.collect();
            let tcp = TcpListener::bind(addresses.as_slice())?;
            let udp = UdpSocket::bind(tcp.local_addr()?)?;
            Ok((tcp, udp))
        };
        let bound = match bind(host) {
            // a host without IPv6
            Err(_) if at.host.is_none() => bind("0.0.0.0"),
            other => other,
        };
        let (tcp, udp) = bound.with_context(|| {
            format!("--listen {host}:{}: cannot listen there; choose another address or port", at.port)
        })?;
        tcp.set_nonblocking(true).context("making the socket not wait")?;
        udp.set_nonblocking(true).context("making the socket not wait")?;
        ask_for_room(&udp);
        Ok(Sockets { udp, tcp, connections: Vec::new(), buffer: vec![0; 1 << 16] })
    }

    /// Where they listen.
    pub fn address(&self) -> Result<SocketAddr> {
        self.tcp.local_addr().context("the port of --listen")
    }

    /// Gives what has come to `take`, with whom it is from and how it came, waiting no longer than `timeout`; no more than
    /// a turn's worth of each. `take` gives the session whose acknowledgements are to go to that connection. Whether there
    /// may be more.
    pub fn poll(
        &mut self,
        timeout: Duration,
        mut take: impl FnMut(Came<'_>, SocketAddr, &'static str) -> Option<u64>,
    ) -> Result<bool> {
        let wanted =
            |fd, out| libc::pollfd { fd, events: libc::POLLIN | if out { libc::POLLOUT } else { 0 }, revents: 0 };
        let mut fds = vec![wanted(self.udp.as_raw_fd(), false), wanted(self.tcp.as_raw_fd(), false)];
        fds.extend(self.connections.iter().map(|c| wanted(c.stream.as_raw_fd(), !c.unsent.is_empty())));
        // SAFETY: a valid slice of structures.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout.as_millis() as i32) };
        if ready < 0 {
            let e = std::io::Error::last_os_error();
            return if e.kind() == ErrorKind::Interrupted { Ok(true) } else { Err(e).context("waiting for sniffers") };
        }
        if fds[0].revents != 0 {
            for _ in 0..TURN {
                match self.udp.recv_from(&mut self.buffer) {
                    Ok((n, from)) => drop(take(Came::Frame(&self.buffer[..n]), from, "udp")),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    // an ICMP message about something sent before: nothing is ever sent
                    Err(_) => {}
                }
            }
        }
        let now = monotonic_ns();
        for (connection, fd) in self.connections.iter_mut().zip(&fds[2..]) {
            if fd.revents != 0 {
                connection.heard_ns = now;
                connection.read(&mut self.buffer, &mut take);
                connection.write();
            }
            let silent = now.saturating_sub(connection.heard_ns);
            connection.is_broken |= silent > SILENCE_NS;
            connection.is_broken |= connection.session.is_none() && now - connection.since_ns > GREETING_NS;
        }
        self.connections.retain(|c| !c.is_broken);
        if fds[1].revents != 0 {
            while let Ok((stream, from)) = self.tcp.accept() {
                let of_one = self.connections.iter().filter(|c| c.from.ip() == from.ip()).count();
                let has_room = self.connections.len() < CONNECTIONS_MAX && of_one < CONNECTIONS_OF_ONE_MAX;
                if has_room && stream.set_nonblocking(true).is_ok() {
                    let _ = stream.set_nodelay(true);
                    self.connections.push(Connection {
                        stream,
                        from,
                        bytes: Vec::new(),
                        session: None,
                        told: None,
                        unsent: Vec::new(),
                        heard_ns: now,
                        since_ns: now,
                        is_broken: false,
                    });
                }
            }
        }
        Ok(ready > 0)
    }

    /// Says to whoever sends as `session` that all frames before `next` are written. Says it again where nothing is new:
    /// so the sender knows that someone is there.
    pub fn acknowledge(&mut self, session: u64, next: u64) {
        let now = monotonic_ns();
        let is_due = |c: &Connection| c.told.is_none_or(|(n, at)| n != next || now.saturating_sub(at) > AGAIN_NS);
        let its = |c: &&mut Connection| c.session == Some(session) && c.unsent.is_empty() && is_due(c);
        for c in self.connections.iter_mut().filter(its) {
            c.unsent.extend_from_slice(b"WfA\x01");
            c.unsent.extend_from_slice(&next.to_le_bytes());
            c.told = Some((next, now));
            c.write();
        }
    }
}

impl Connection {
    fn read(&mut self, buffer: &mut [u8], take: &mut impl FnMut(Came<'_>, SocketAddr, &'static str) -> Option<u64>) {
        for _ in 0..TURN {
            match self.stream.read(buffer) {
                Ok(0) => {
                    self.is_broken = true;
                    return;
                }
                Ok(n) => self.bytes.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_broken = true;
                    return;
                }
            }
            let mut at = 0;
            while let Some(head) = self.bytes[at..].first_chunk::<4>() {
                let length = u32::from_le_bytes(*head) as usize;
                if length > FRAME_BYTES_MAX {
                    take(Came::Nonsense, self.from, "tcp");
                    self.is_broken = true;
                    return;
                }
                let Some(frame) = self.bytes.get(at + 4..at + 4 + length) else { break };
                let came = if self.session.is_none() { Came::First(frame) } else { Came::Frame(frame) };
                let session = take(came, self.from, "tcp");
                if session.is_none() {
                    // what is damaged here is sent again on the next connection
                    self.is_broken = true;
                    return;
                }
                self.session = session;
                at += 4 + length;
            }
            self.bytes.drain(..at);
        }
    }

    fn write(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(n) if n > 0 => drop(self.unsent.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => {
                    self.is_broken = true;
                    return;
                }
            }
        }
    }
}

/// Datagrams come in bursts: asks for a queue that holds them. What does not fit is seen by its number.
fn ask_for_room(udp: &UdpSocket) {
    let bytes = QUEUE_BYTES;
    for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
        // SAFETY: a valid integer of the size that goes with it; a refusal leaves the queue as it is.
        unsafe {
            libc::setsockopt(
                udp.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
    }
}
