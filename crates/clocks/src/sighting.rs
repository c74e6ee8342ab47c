//! What the synchronisation looks at: sends and receives of things that are the same on two hosts.
//!
//! A send counts from its entry, a receive from its arrival or its return: hooks fire after the fact, and only so does
//! every true pair bound the clocks.

use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use wakepath_model::folder::{Host, TableSet};
use wakepath_model::ids::EndpointId;
use wakepath_model::rows::{
    EndpointRow, Event, MessageRow, OpKind, OpRow, PacketRow, RangeHow, SeenHow, Table, TcpState,
};

/// By what a message was recognised on both hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Evidence {
    /// The same bytes of a TCP stream, by sequence numbers.
    Bytes,
    /// The same datagram, by an identifier in it.
    Datagram,
    /// The same packet, by its header.
    Packet,
    /// A packet whose bytes lie within one that was sent (segmentation offload).
    PacketBytes,
}

impl Evidence {
    /// Every one, in the order of [`Evidence::index`].
    pub const ALL: [Evidence; 4] = [Evidence::Bytes, Evidence::Datagram, Evidence::Packet, Evidence::PacketBytes];

    /// As printed.
    pub const fn name(self) -> &'static str {
        match self {
            Evidence::Bytes => "socket bytes",
            Evidence::Datagram => "datagrams",
            Evidence::Packet => "packets",
            Evidence::PacketBytes => "packets' bytes",
        }
    }

    /// Its place in [`Evidence::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A name of one direction of a flow, the same on both hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowName {
    /// The same at both ends.
    pub flow: u64,
    /// This end is the lower of the two, so that directions can be told apart.
    pub low: bool,
}

impl FlowName {
    /// The name of what this end sends, or receives.
    pub fn direction(self, sent: bool) -> u64 {
        mix(self.flow, u64::from(self.low == sent))
    }
}

/// An end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// By its addresses and ports.
    pub by_addresses: FlowName,
    /// By its sequence numbers, where it was seen to be established: holds through address translation too.
    pub by_numbers: Option<FlowName>,
    /// Next byte to be sent and to be read.
    pub numbers: (u32, u32),
}

/// Something that a host saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// A connection's end became known under a number of the host's.
    Opened(u64, End),
    /// It is gone.
    Closed(u64),
    /// Bytes moved on a connection's end.
    Bytes {
        /// The end's number.
        end: u64,
        /// Sent, or received.
        sent: bool,
        /// First byte.
        start: u32,
        /// How many, at least one.
        len: u32,
        /// Sent: the call's entry. Received: when the first byte had arrived.
        first: u64,
        /// Sent: the call's entry. Received: when all had been read.
        last: u64,
    },
    /// A packet or datagram.
    Unit {
        /// The same on both hosts.
        key: u64,
        /// Sent, or received.
        sent: bool,
        /// When.
        at: u64,
        /// What it is recognised by.
        evidence: Evidence,
        /// Bytes of a TCP stream that it carries: the direction's name, the first byte, how many.
        carries: Option<(u64, u32, u32)>,
    },
}

/// A sighting, and the time by which it stands in the host's order.
pub type Seen = (u64, Sighting);

/// Two numbers into one, well mixed.
pub fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn mix_bytes(seed: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(mix(seed, bytes.len() as u64), |h, c| {
        let mut word = [0; 8];
        word[..c.len()].copy_from_slice(c);
        mix(h, u64::from_le_bytes(word))
    })
}

const TCP: u16 = 6;
const UDP: u16 = 17;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// IPv4 in the first four bytes, also where a socket of the other family carries it; `None` for loopback.
fn address(family: u16, a: &[u8; 16]) -> Option<[u8; 16]> {
    let mut out = *a;
    let is_mapped = family == AF_INET6 && a[..10] == [0; 10] && a[10..12] == [0xff, 0xff];
    if is_mapped {
        out = [0; 16];
        out[..4].copy_from_slice(&a[12..]);
    }
    let is_loopback = match family {
        AF_INET => out[0] == 127,
        _ if is_mapped => out[0] == 127,
        _ => out[..15] == [0; 15] && out[15] == 1,
    };
    (!is_loopback).then_some(out)
}

fn end_of(r: &EndpointRow) -> Option<End> {
    if r.protocol != TCP || r.state == TcpState::Listen || r.rport == 0 || !matches!(r.family, AF_INET | AF_INET6) {
        return None;
    }
    let local = (address(r.family, &r.laddr)?, r.lport);
    let remote = (address(r.family, &r.raddr)?, r.rport);
    let order = local.cmp(&remote);
    if order == Ordering::Equal {
        return None;
    }
    let low = order == Ordering::Less;
    let (a, b) = if low { (local, remote) } else { (remote, local) };
    let flow = mix_bytes(mix_bytes(u64::from(a.1) << 16 | u64::from(b.1), &a.0), &b.0);
    let numbers = (r.snd as u32, r.rcv as u32);
    let is_fresh = matches!(r.how, SeenHow::Connected | SeenHow::Accepted) && numbers.0 != numbers.1;
    let by_numbers = is_fresh.then(|| FlowName {
        flow: mix(0x15e9, u64::from(numbers.0.min(numbers.1)) << 32 | u64::from(numbers.0.max(numbers.1))),
        low: numbers.0 < numbers.1,
    });
    Some(End { by_addresses: FlowName { flow, low }, by_numbers, numbers })
}

/// What a host's rows say, in their order.
pub struct Sightings<'a> {
    host: &'a Host,
    events: wakepath_model::folder::Events<'a>,
    /// Datagram endpoints: their ports, and the last operation's first byte and entry.
    datagrams: FxHashMap<EndpointId, Datagrams>,
}

#[derive(Clone, Copy, Default)]
struct Datagrams {
    ports: (u16, u16),
    start: u64,
    entry: u64,
}

/// What tells of messages.
pub(super) const TABLES: [Table; 5] = [Table::Endpoint, Table::FlowState, Table::Op, Table::Message, Table::Packet];

impl<'a> Sightings<'a> {
    /// Of a host.
    pub fn new(host: &'a Host) -> Sightings<'a> {
        Sightings { host, events: host.events(TableSet::of(&TABLES), ..), datagrams: FxHashMap::default() }
    }

    fn endpoint(&mut self, r: &EndpointRow) -> Option<Sighting> {
        if r.protocol == UDP && r.rport != 0 {
            self.datagrams.entry(r.flow).or_default().ports = (r.lport, r.rport);
        }
        end_of(r).map(|end| Sighting::Opened(r.flow.0, end))
    }

    fn operation(&mut self, r: &OpRow) -> Option<Sighting> {
        let sent = match r.kind {
            OpKind::Send => true,
            OpKind::Recv => false,
            _ => return None,
        };
        if let Some(d) = self.datagrams.get_mut(&r.flow) {
            (d.start, d.entry) = (r.start, r.entry.0);
            return None;
        }
        let len = u32::try_from(r.end.checked_sub(r.start)?).ok().filter(|l| *l > 0 && *l < 1 << 31)?;
        if !matches!(r.range, RangeHow::Exact | RangeHow::Gap) {
            return None;
        }
        // a send whose begin is not known, or only about, bounds nothing
        if sent && (r.entry == r.at || len > wakepath_model::rows::SENT_AT_ONCE) {
            return None;
        }
        let arrived = if r.arrived.0 == 0 { r.at.0 } else { r.arrived.0.min(r.at.0) };
        let (first, last) = if sent { (r.entry.0, r.entry.0) } else { (arrived, r.at.0) };
        Some(Sighting::Bytes { end: r.flow.0, sent, start: r.start as u32, len, first, last })
    }

    fn message(&self, r: &MessageRow) -> Option<Sighting> {
        if !r.witness_kind.stands_for_place() {
            return None;
        }
        let d = self.datagrams.get(&r.flow)?;
        let sent = r.sent != 0;
        // addresses may be unknown at the end that is not connected: ports, identifier and question have to do
        let ports = if sent { d.ports } else { (d.ports.1, d.ports.0) };
        let ports = u64::from(ports.0) << 16 | u64::from(ports.1);
        let key = mix(mix(ports, r.witness), r.role as u64);
        let key = mix_bytes(key, self.host.text(r.target).as_bytes());
        let at = if sent && d.start == r.start { d.entry } else { r.at.0 };
        // a send whose entry is not known bounds nothing
        if sent && d.start != r.start {
            return None;
        }
        Some(Sighting::Unit { key, sent, at, evidence: Evidence::Datagram, carries: None })
    }
}

fn packet(r: &PacketRow) -> Sighting {
    // a hash of the flow is the same in both directions: the sender's port and address tell them apart
    let direction = mix(mix(r.flow, u64::from(r.sport) << 16 | u64::from(r.dport)), u64::from(r.saddr < r.daddr));
    let has_bytes = r.protocol as u16 == TCP && r.flow != 0 && r.payload != 0 && r.payload < 1 << 31;
    Sighting::Unit {
        key: r.key,
        sent: r.sent != 0,
        at: r.at.0,
        evidence: Evidence::Packet,
        carries: has_bytes.then_some((direction, r.seq, r.payload)),
    }
}

impl Iterator for Sightings<'_> {
    type Item = Seen;

    fn next(&mut self) -> Option<Seen> {
        loop {
            let event = self.events.next()?;
            let sighting = match &event {
                Event::Endpoint(r) => self.endpoint(r),
                Event::FlowState(r) if r.new == TcpState::Close => {
                    self.datagrams.remove(&r.flow);
                    Some(Sighting::Closed(r.flow.0))
                }
                Event::Op(r) => self.operation(r),
                Event::Message(r) => self.message(r),
                Event::Packet(r) => Some(packet(r)),
                _ => None,
            };
            if let Some(s) = sighting {
                return Some((event.at().0, s));
            }
        }
    }
}
