//! Packets of interfaces, out of rings that the kernel fills (TPACKET_V3, the kernel's Documentation/networking/packet_mmap.rst).

mod ring;

use super::clock::StampClock;
use super::filter::{Filter, kernel_program};
use super::socket;
use crate::CaptureError;
use ring::{Ring, State};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use wakepath_wire::packet::{Packet, link};

/// All interfaces.
const ANY: &str = "any";
/// How often an interface that went is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Largest snap length, as tcpdump has it.
const SNAPLEN_MAX: u32 = 262_144;
/// Link type of a packet that is neither Ethernet nor IP: nobody knows it.
const LINK_UNKNOWN: u32 = u32::MAX;

/// What is captured, and how.
pub struct LiveOptions {
    /// Names of interfaces; `any` alone = all that there are and will be.
    pub interfaces: Vec<String>,
    /// Memory of each interface's ring.
    pub ring_bytes: usize,
    /// Most bytes taken of a packet.
    pub snaplen: u32,
    /// Which packets; none = all.
    pub filter: Option<Filter>,
    /// Take packets for other hosts too, as the port of a mirror gets them.
    pub promiscuous: bool,
}

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        LiveOptions {
            interfaces: vec![ANY.into()],
            ring_bytes: 32 << 20,
            snaplen: SNAPLEN_MAX,
            filter: None,
            promiscuous: true,
        }
    }
}

/// Captures from interfaces. Closes with the process, however that ends; nothing stays behind.
pub struct LiveSource {
    rings: Vec<Ring>,
    /// One of the sockets, for questions about interfaces.
    asker: OwnedFd,
    clock: StampClock,
    filter: Option<Filter>,
    /// Names by the number that packets carry.
    names: Vec<String>,
    /// For the ring of all interfaces: numbers by the kernel's index, and the one that was asked for last.
    numbers: HashMap<i32, u32>,
    last_number: Option<(i32, u32)>,
    /// The ring of all interfaces is the only one.
    any: bool,
    looked_again: Instant,
    notices: Vec<String>,
    drops: u64,
    freezes: u64,
}

impl LiveSource {
    /// Begins to capture. Needs CAP_NET_RAW.
    ///
    /// Errors: no right, no such interface, too little memory for the ring; the message says what to do.
    pub fn open(options: LiveOptions) -> Result<LiveSource, CaptureError> {
        let LiveOptions { interfaces, ring_bytes, snaplen, mut filter, promiscuous } = options;
        let any = interfaces.iter().any(|i| i == ANY);
        if interfaces.is_empty() || (any && interfaces.len() > 1) {
            return Err(CaptureError::Setting("name interfaces, or \"any\" alone for all of them".into()));
        }
        if snaplen == 0 {
            return Err(CaptureError::Setting(
                "a snap length of 0 leaves nothing to look at; 96 has most headers".into(),
            ));
        }
        let program = kernel_program(filter.as_mut(), snaplen.min(SNAPLEN_MAX));
        let mut rings = Vec::new();
        let mut notices = Vec::new();
        for (i, name) in interfaces.iter().enumerate() {
            if interfaces[..i].contains(name) {
                return Err(CaptureError::Setting(format!("interface {name} is named twice")));
            }
            let mut ring = Ring::open((!any).then_some(name.as_str()), ring_bytes, &program, promiscuous)?;
            if !any && !socket::is_up(&ring.socket, name).unwrap_or(true) {
                // binding to it has left an error that says the same
                socket::take_error(&ring.socket);
                ring.state = State::Down;
                notices.push(format!("interface {name} is down: no packet comes before `ip link set {name} up`"));
            }
            rings.push(ring);
        }
        let asker = rings[0].socket.try_clone().map_err(|e| CaptureError::Packets(format!("capturing: {e}")))?;
        Ok(LiveSource {
            rings,
            asker,
            clock: StampClock::new(),
            filter,
            names: if any { Vec::new() } else { interfaces },
            numbers: HashMap::new(),
            last_number: None,
            any,
            looked_again: Instant::now(),
            notices,
            drops: 0,
            freezes: 0,
        })
    }

    /// Hands over what has come, waiting for it no longer than `timeout`; the number of packets handed over.
    ///
    /// A packet is handed over at most about 10 ms after it passed, or when its part of the ring is full. Packets of several
    /// interfaces come in order of time, as far as they are there already.
    ///
    /// Errors: every interface is gone; the kernel refuses to go on.
    pub fn poll(&mut self, timeout: Duration, sink: &mut impl FnMut(&Packet<'_>)) -> Result<usize, CaptureError> {
        if !self.rings.iter_mut().any(Ring::is_ready) {
            self.wait(timeout)?;
        }
        self.clock.look();
        let mut count = 0;
        for ring in &mut self.rings {
            ring.begin_round();
        }
        while let Some(i) = self.earliest() {
            count += usize::from(self.hand_over(i, sink));
        }
        if count == 0 && self.rings.iter().all(|r| r.state == State::Gone) {
            let names = self.names.join(", ");
            return Err(CaptureError::Packets(format!(
                "{names}: gone while capturing. `ip link` lists the interfaces; `--iface any` captures from all, also later ones"
            )));
        }
        Ok(count)
    }

    /// The ring whose next packet passed first.
    fn earliest(&mut self) -> Option<usize> {
        let stamps = self.rings.iter_mut().enumerate().filter_map(|(i, r)| Some((r.next_stamp()?, i)));
        stamps.min().map(|(_, i)| i)
    }

    /// Takes the next packet off a ring; whether it was wanted.
    fn hand_over(&mut self, i: usize, sink: &mut impl FnMut(&Packet<'_>)) -> bool {
        let ring = &mut self.rings[i];
        let Some(mut frame) = ring.take() else { return false };
        // on loopback each packet is seen as it leaves and as it comes in
        if frame.hardware == libc::ARPHRD_LOOPBACK && frame.kind == libc::PACKET_OUTGOING {
            return false;
        }
        let interface = match self.last_number {
            _ if !self.any => i as u32,
            Some((index, n)) if index == frame.interface => n,
            _ => {
                let n = *self.numbers.entry(frame.interface).or_insert_with(|| {
                    let name = socket::name_of(&self.asker, frame.interface);
                    self.names.push(name.unwrap_or_else(|_| format!("interface {}", frame.interface)));
                    self.names.len() as u32 - 1
                });
                self.last_number = Some((frame.interface, n));
                n
            }
        };
        let link = match frame.hardware {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => link::ETHERNET,
            _ if [libc::ETH_P_IP, libc::ETH_P_IPV6].contains(&frame.protocol.into()) => link::RAW,
            _ => LINK_UNKNOWN,
        };
        let at_ns = self.clock.monotonic(frame.stamp);
        let (bytes, length) = match link {
            link::ETHERNET => frame.with_tag(),
            // what the device puts before IP is its own affair
            _ => frame.without_link_layer(),
        };
        let packet = Packet { at_ns, link, interface, length, bytes };
        if let Some(filter) = &mut self.filter
            && filter.is_for_user_space(link)
            && !filter.matches(&packet)
        {
            return false;
        }
        sink(&packet);
        true
    }

    /// Packets that the kernel dropped since the last call, because a ring was full.
    pub fn drops(&mut self) -> u64 {
        let mut drops = 0;
        for ring in &self.rings {
            // reading sets it to zero
            let counts = socket::get::<libc::tpacket_stats_v3>(&ring.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS);
            if let Ok(c) = counts {
                drops += u64::from(c.tp_drops);
                self.freezes += u64::from(c.tp_freeze_q_cnt);
            }
        }
        self.drops += drops;
        drops
    }

    /// How often a ring was full so far, as of the last call of [`Self::drops`].
    pub fn freezes(&self) -> u64 {
        self.freezes
    }

    /// Names of the interfaces, by the number that packets carry. Of all interfaces, those that had a packet so far.
    pub fn interfaces(&self) -> &[String] {
        &self.names
    }

    /// Takes what there is to tell: interfaces that went down or came back, in sentences.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), CaptureError> {
        let mut fds: Vec<libc::pollfd> = self
            .rings
            .iter()
            .map(|r| libc::pollfd { fd: r.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        socket::wait(&mut fds, timeout).map_err(|e| CaptureError::Packets(format!("waiting for packets: {e}")))?;
        for (i, fd) in fds.iter().enumerate() {
            if fd.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0
                && let Some(e) = socket::take_error(&self.rings[i].socket)
            {
                self.went(i, e)?;
            }
        }
        if self.rings.iter().any(|r| r.state != State::Up) && self.looked_again.elapsed() >= LOOK_AGAIN {
            self.look_again();
        }
        Ok(())
    }

    /// An interface went down or away; others go on.
    fn went(&mut self, i: usize, e: io::Error) -> Result<(), CaptureError> {
        let ring = &mut self.rings[i];
        if e.raw_os_error() != Some(libc::ENETDOWN) || self.any {
            let of = self.names.get(i).map_or(ANY, String::as_str);
            return Err(CaptureError::Packets(format!("capturing on {of}: {e}")));
        }
        ring.state = State::Down;
        let name = &self.names[i];
        if ring.has_interface(name) {
            self.notices.push(format!(
                "interface {name} went down; capturing continues when it is up (`ip link set {name} up`)"
            ));
        }
        self.look_again();
        Ok(())
    }

    /// What goes while it is down is told by nobody, and what comes back neither.
    fn look_again(&mut self) {
        self.looked_again = Instant::now();
        for (ring, name) in self.rings.iter_mut().zip(&self.names) {
            let is_up = socket::is_up(&ring.socket, name).unwrap_or(false);
            let is_back = ring.state == State::Gone && ring.bind(Some(name)).is_ok();
            if is_back {
                socket::take_error(&ring.socket);
                self.notices.push(format!("interface {name} is back"));
            }
            match ring.state {
                State::Down if !ring.has_interface(name) => {
                    ring.state = State::Gone;
                    self.notices.push(format!(
                        "interface {name} is gone; capturing continues if an interface of that name appears"
                    ));
                }
                // once it is up, the kernel begins again by itself
                State::Down if is_up => ring.state = State::Up,
                State::Gone if is_back => ring.state = if is_up { State::Up } else { State::Down },
                _ => {}
            }
        }
    }
}
