//! Sends rows on to a collector: as datagrams that may be lost, or over a connection that is resumed.
//!
//! The bytes are those of [`wakepath_model::forward`], the same in both ways. Capturing is never held up: what finds no
//! room is left out, and since frames are numbered the collector counts what it did not get.

mod resumed;

use crate::cli::ForwardBy;
use crate::output::tell;
use anyhow::{Context as _, Result, bail};
use resumed::Resumed;
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wakepath_model::folder::HostInfo;
use wakepath_model::forward::Encoder;
use wakepath_model::ids::StrId;
use wakepath_model::rows::Event;

/// Bytes of a datagram, so that with IP and UDP before it fits a link of 1500 bytes, in a tunnel too.
const DATAGRAM_BYTES: usize = 1400;
/// Bytes of a frame on a connection: strings are told again in each.
const FRAME_BYTES: usize = 8 << 10;
/// A row waits no longer for its frame to be full.
const FLUSH: Duration = Duration::from_millis(90);
/// How often the sender says who it is and how much it has sent.
const HELLO: Duration = Duration::from_secs(1);
/// Times that the end is told, since datagrams get lost.
const LAST_TOLD: u32 = 3;

/// What a forwarder did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forwarded {
    /// Rows given to it.
    pub rows: u64,
    /// Frames sent, each of them once.
    pub frames: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Frames that found no room, or were not acknowledged at the end.
    pub frames_lost: u64,
    /// Rows of those.
    pub rows_lost: u64,
    /// Times that a connection was resumed.
    pub resumed: u64,
}

/// Sends rows on.
pub struct Forwarder {
    encoder: Encoder,
    host: HostInfo,
    way: Way,
    flushed: Instant,
    told: Instant,
    sent: Forwarded,
}

enum Way {
    Datagrams { socket: UdpSocket, to: SocketAddr, is_refused: bool },
    Connection(Resumed),
}

impl Forwarder {
    /// Sends to `to` (`HOST:PORT`). `may_wait`: what gives rows is a file, so it may be held up where room is short.
    ///
    /// Errors: the address is none or its name is not known. That nobody listens there is none: it may come later.
    pub fn open(
        to: &str,
        by: ForwardBy,
        buffer_bytes: usize,
        may_wait: bool,
        host: HostInfo,
        session: u64,
    ) -> Result<Forwarder> {
        let address = to
            .to_socket_addrs()
            .with_context(|| format!("--forward {to}: give the collector's address as HOST:PORT"))?
            .next();
        let Some(address) = address else { bail!("--forward {to}: the name has no address") };
        let (way, frame_bytes) = match by {
            ForwardBy::Udp => {
                let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any).context("making a socket to send on")?;
                socket.connect(address).with_context(|| format!("--forward {to}: no route to it"))?;
                socket.set_nonblocking(true).context("making the socket not wait")?;
                (Way::Datagrams { socket, to: address, is_refused: false }, DATAGRAM_BYTES)
            }
            ForwardBy::Tcp => (Way::Connection(Resumed::new(address, buffer_bytes, may_wait)), FRAME_BYTES),
        };
        let now = Instant::now();
        let mut forwarder = Forwarder {
            encoder: Encoder::new(session, frame_bytes),
            host,
            way,
            flushed: now,
            told: now,
            sent: Forwarded::default(),
        };
        forwarder.hello(false);
        Ok(forwarder)
    }

    /// Begins to send: call it when rights are given up, since it may start a thread.
    pub fn start(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Datagrams { .. } => Ok(()),
            Way::Connection(resumed) => resumed.start(),
        }
    }

    /// Takes a row.
    pub fn push<'t>(&mut self, event: &Event, text: &impl Fn(StrId) -> &'t [u8]) {
        let Forwarder { encoder, way, sent, .. } = self;
        if encoder.push(event, text, &mut |frame| way.send(frame, sent)) {
            sent.rows += 1;
        }
    }

    /// Sends what has waited for long enough; to be called every now and then.
    pub fn tick(&mut self, now: Instant) {
        if now.duration_since(self.told) >= HELLO {
            self.flush();
            self.hello(false);
            self.told = now;
        } else if now.duration_since(self.flushed) >= FLUSH {
            self.flush();
        }
    }

    /// Sends what is left and says that this was all. Over a connection, waits until the collector has it, until nothing
    /// has gone on for ten seconds, or until `stop` is set again.
    pub fn finish(mut self, stop: &AtomicBool) -> Forwarded {
        self.flush();
        match &mut self.way {
            Way::Datagrams { .. } => {
                for _ in 0..LAST_TOLD {
                    self.hello(true);
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            Way::Connection(_) => self.hello(true),
        }
        let mut sent = self.sent;
        if let Way::Connection(resumed) = self.way {
            let left = resumed.finish(stop);
            sent.frames_lost += left.frames;
            sent.rows_lost += left.rows;
            sent.resumed = left.resumed;
        }
        sent
    }

    fn flush(&mut self) {
        let Forwarder { encoder, way, sent, .. } = self;
        encoder.flush(&mut |frame| way.send(frame, sent));
        self.flushed = Instant::now();
    }

    fn hello(&mut self, is_last: bool) {
        let frame = self.encoder.hello(&self.host, is_last);
        match &mut self.way {
            Way::Datagrams { .. } => {
                self.way.datagram(frame);
            }
            Way::Connection(resumed) => resumed.hello(frame),
        }
    }
}

impl Way {
    fn send(&mut self, frame: &[u8], sent: &mut Forwarded) {
        let is_sent = match self {
            Way::Datagrams { .. } => self.datagram(frame),
            Way::Connection(resumed) => resumed.push(frame),
        };
        if is_sent {
            sent.frames += 1;
            sent.bytes += frame.len() as u64;
        } else {
            sent.frames_lost += 1;
            sent.rows_lost += wakepath_model::forward::Frame::read(frame).map_or(0, |f| f.rows);
        }
    }

    fn datagram(&mut self, frame: &[u8]) -> bool {
        let Way::Datagrams { socket, to, is_refused } = self else { return false };
        // an error may be of the datagram before: the host there said that nobody listens
        let mut result = socket.send(frame);
        if result.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
            if !std::mem::replace(is_refused, true) {
                tell!(
                    "wakepath: nothing listens at {to} yet: start `wakepath collect` there; rows sent until then are \
                     lost"
                );
            }
            result = socket.send(frame);
        }
        result.is_ok()
    }
}
