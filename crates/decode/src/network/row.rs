//! One flow, and its row.

use super::datagrams::Datagrams;
use super::exchanges::Ending;
use super::link::{Inner, is_to_all};
use super::piece::Piece;
use super::protocol_state::{About, ProtocolState, Side};
use super::servers::{End, NONE, Servers, rank};
use super::tcp::{self, Segment, StreamSink, Taken, Tcp};
use crate::RowSink;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{MonoNs, SniffedFlowId};
use wakepath_model::rows::{FlowRowKind, ResetBy, SideHow, SniffedFlowRow};
use wakepath_protocols::{Protocol, Transport};

/// For how long a connection that was closed is still known: what is sent again then is its own.
const LINGER_NS: u64 = 2_000_000_000;

/// Tunnels in which one flow is seen.
pub(super) const TUNNELS_MAX: u8 = 4;

/// Two ends, in an order of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    ends: [([u64; 2], u16); 2],
    family: u16,
    ip_protocol: u8,
}

impl Key {
    /// The key of a packet, and which of the two ends sent it.
    pub fn of(inner: &Inner<'_>, ports: (u16, u16)) -> (Key, usize) {
        let (src, dst) = ((words(&inner.src), ports.0), (words(&inner.dst), ports.1));
        let direction = usize::from(src > dst);
        let ends = if direction == 0 { [src, dst] } else { [dst, src] };
        (Key { ends, family: inner.family, ip_protocol: inner.ip_protocol }, direction)
    }

    fn address(&self, direction: usize) -> [u8; 16] {
        let [high, low] = self.ends[direction].0;
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }

    fn addresses(&self) -> [[u64; 2]; 2] {
        self.ends.map(|end| end.0)
    }

    /// One of its ends is a group, or all that are near.
    fn is_to_all(&self) -> bool {
        (0..2).any(|direction| is_to_all(self.family, &self.address(direction)))
    }

    fn port(&self, direction: usize) -> u16 {
        self.ends[direction].1
    }
}

fn words(address: &[u8; 16]) -> [u64; 2] {
    let all = u128::from_be_bytes(*address);
    [(all >> 64) as u64, all as u64]
}

/// What carries a flow.
pub(super) enum Carrier {
    Tcp(Tcp),
    Datagrams(Datagrams),
}

/// A flow.
pub(super) struct Flow {
    pub key: Key,
    pub id: SniffedFlowId,
    pub live: bool,
    pub generation: u32,
    /// The next one of the same ends.
    pub next_same: u32,
    pub tunnels_count: u8,
    tunnels: [u64; TUNNELS_MAX as usize],
    pub last: MonoNs,
    side: Side,
    syn: MonoNs,
    syn_ack: MonoNs,
    ack: MonoNs,
    /// How it ended.
    pub ended: Option<FlowRowKind>,
    reset_by: Option<usize>,
    /// A reset that is not acted on yet: who sent it, its time, and until when what it follows may still be read.
    reset: Option<(usize, MonoNs, MonoNs)>,
    /// Something of it was told of as cut, or urgent.
    told_cut: bool,
    told_urgent: bool,
    /// Packets when its row was last written.
    told_packets: u64,
    /// The client's direction as it was told.
    told_client: usize,
    /// When it began, where its begin was not told because it is not sure who the server is.
    untold: Option<MonoNs>,
    /// When it is looked at next for what it waits for, 0 = it does not wait.
    pub wake: u64,
    pub carrier: Carrier,
    pub protocol_state: ProtocolState,
}

impl Flow {
    /// One whose first packet is `inner`, sent by `direction`.
    pub fn new(
        key: Key,
        inner: &Inner<'_>,
        direction: usize,
        segment: Option<&Segment<'_>>,
        generation: u32,
        next_same: u32,
        servers: &Servers,
    ) -> Flow {
        let stream = segment.is_some();
        let protocol_state = match inner.ip_protocol {
            6 | 17 => ProtocolState::new(),
            _ if inner.reason.is_empty() => ProtocolState::opaque("neither TCP nor UDP"),
            _ => ProtocolState::opaque(inner.reason),
        };
        let side = match segment.and_then(|segment| opener(direction, segment)) {
            Some(client) => Side { client, how: SideHow::Handshake },
            None if key.family == 0 => Side { client: direction, how: SideHow::Port },
            None => by_port(&key, direction, stream, servers),
        };
        // The client's first number where it is known: both the SYN and its answer say it.
        let epoch = match segment {
            Some(s) if s.has(tcp::SYN) && s.has(tcp::ACK) => u64::from(s.ack.wrapping_sub(1)) | 1 << 32,
            Some(s) if s.has(tcp::SYN) => u64::from(s.seq) | 1 << 32,
            Some(s) => u64::from(s.seq) | 2 << 32,
            None => inner.at.0,
        };
        Flow {
            key,
            id: identity(&key, inner.tunnel, epoch),
            live: true,
            generation,
            next_same,
            tunnels_count: 1,
            tunnels: [inner.tunnel; TUNNELS_MAX as usize],
            last: inner.at,
            side,
            syn: MonoNs(0),
            syn_ack: MonoNs(0),
            ack: MonoNs(0),
            ended: None,
            reset_by: None,
            reset: None,
            told_cut: false,
            told_urgent: false,
            told_packets: 0,
            told_client: 0,
            untold: Some(inner.at),
            wake: 0,
            carrier: if stream { Carrier::Tcp(Tcp::new()) } else { Carrier::Datagrams(Datagrams::new()) },
            protocol_state,
        }
    }

    /// It was seen in this tunnel.
    pub fn is_in(&self, tunnel: u64) -> bool {
        self.tunnels[..usize::from(self.tunnels_count)].contains(&tunnel)
    }

    /// It is seen in this tunnel too.
    pub fn add_tunnel(&mut self, tunnel: u64) {
        if self.tunnels_count < TUNNELS_MAX {
            self.tunnels[usize::from(self.tunnels_count)] = tunnel;
            self.tunnels_count += 1;
        }
    }

    /// What its held segments cost.
    pub fn held_bytes(&self) -> usize {
        let segments = if let Carrier::Tcp(tcp) = &self.carrier { tcp.held_bytes } else { 0 };
        segments + self.protocol_state.held_bytes()
    }

    /// Takes a segment that `direction` sent. What became of it, and when the flow is to be looked at again (0: never).
    pub fn segment<S: RowSink>(
        &mut self,
        direction: usize,
        segment: &Segment<'_>,
        now: MonoNs,
        out: &mut S,
    ) -> (Taken, MonoNs) {
        let before = self.ended;
        if let Some(client) = opener(direction, segment)
            && self.side.how != SideHow::Handshake
            && self.protocol_state.protocol().is_none()
        {
            self.side = Side { client, how: SideHow::Handshake };
        }
        self.note(segment, out);
        let (tcp, mut listener) = self.parts(out);
        let Some(tcp) = tcp else { return (Taken::OutOfWindow, MonoNs(0)) };
        let taken = tcp.take(direction, segment, now, &mut listener);
        let deadline = tcp.deadline();
        if taken == Taken::Duplicate {
            return (taken, deadline);
        }
        self.last = self.last.max(segment.at);
        match taken {
            Taken::Reset if self.ended.is_none() && self.reset.is_none() => {
                self.reset = Some((direction, segment.at, MonoNs(now.0.saturating_add(tcp::GRACE_NS))));
            }
            Taken::Yes => self.handshake(direction, segment),
            _ => {}
        }
        self.close_if_done();
        if self.ended.is_some() {
            return (taken, if before.is_none() { linger(now) } else { MonoNs(0) });
        }
        (taken, self.or_reset(deadline))
    }

    /// Counts once what is unusual about the flow's segments.
    fn note<S: RowSink>(&mut self, segment: &Segment<'_>, out: &mut S) {
        let cut = (segment.payload.len() as u64) < u64::from(segment.length);
        if cut && !std::mem::replace(&mut self.told_cut, true) {
            out.count(defect::NET_PAYLOAD_CUT, segment.at);
        }
        if segment.has(tcp::URG) && !std::mem::replace(&mut self.told_urgent, true) {
            out.count(defect::NET_URGENT, segment.at);
        }
    }

    fn handshake(&mut self, direction: usize, segment: &Segment<'_>) {
        let (syn, ack) = (segment.has(tcp::SYN), segment.has(tcp::ACK));
        let client = direction == self.side.client;
        match (syn, ack) {
            (true, false) => self.syn = segment.at,
            (true, true) if self.ack == MonoNs(0) => self.syn_ack = segment.at,
            (false, true) if client && self.syn_ack != MonoNs(0) && self.ack == MonoNs(0) => self.ack = segment.at,
            _ => {}
        }
    }

    /// Takes a datagram that `direction` sent: what was captured of it, and its length. `false`: it was captured before.
    pub fn datagram<S: RowSink>(
        &mut self,
        direction: usize,
        inner: &Inner<'_>,
        (bytes, length): (&[u8], u64),
        _now: MonoNs,
        out: &mut S,
    ) -> bool {
        let Carrier::Datagrams(datagrams) = &mut self.carrier else { return false };
        let Some(pos) = datagrams.take(direction, inner, length, bytes.len() as u64) else { return false };
        self.last = self.last.max(inner.at);
        if length == 0 || !self.protocol_state.listens() {
            return true;
        }
        if (bytes.len() as u64) < length && !std::mem::replace(&mut self.told_cut, true) {
            out.count(defect::NET_PAYLOAD_CUT, inner.at);
        }
        let mut about = About {
            flow: self.id,
            transport: Transport::Datagram,
            ports: (self.key.port(0), self.key.port(1)),
            addresses: self.key.addresses(),
            side: &mut self.side,
            whole: true,
            // a subnet's own address of this kind is known by who is near alone, as the frame says
            to_all: inner.to_all || self.key.is_to_all(),
        };
        self.protocol_state.take(Piece { direction, pos, bytes, length, at: inner.at, ack: 0 }, &mut about, out);
        true
    }

    fn parts<'a, S: RowSink>(&'a mut self, out: &'a mut S) -> (Option<&'a mut Tcp>, Listener<'a, S>) {
        let Flow { carrier, protocol_state, side, id, key, .. } = self;
        let tcp = if let Carrier::Tcp(tcp) = carrier { Some(tcp) } else { None };
        let whole = tcp
            .as_ref()
            .is_some_and(|tcp| tcp.directions.iter().all(|direction| direction.exact || !direction.started));
        let about = About {
            flow: *id,
            transport: Transport::Stream,
            ports: (key.port(0), key.port(1)),
            addresses: key.addresses(),
            side,
            whole,
            to_all: false,
        };
        (tcp, Listener { protocol_state, about, out })
    }

    /// Gives up what did not come in time. When it is to be looked at again.
    pub fn overdue<S: RowSink>(&mut self, now: MonoNs, out: &mut S) -> MonoNs {
        if let (Some(tcp), mut listener) = self.parts(out) {
            tcp.overdue(now, &mut listener);
            let deadline = tcp.deadline();
            if self.reset.is_some_and(|(_, _, due)| due <= now) {
                self.obey_reset(now, out);
            }
            self.close_if_done();
            return if self.ended.is_none() { self.or_reset(deadline) } else { linger(now) };
        }
        MonoNs(0)
    }

    /// The earlier of a deadline (0: there is none) and that of the reset.
    fn or_reset(&self, deadline: MonoNs) -> MonoNs {
        match self.reset {
            Some((_, _, due)) if deadline == MonoNs(0) => due,
            Some((_, _, due)) => due.min(deadline),
            None => deadline,
        }
    }

    /// Ends it by the reset that came, if one did.
    pub fn obey_reset<S: RowSink>(&mut self, now: MonoNs, out: &mut S) {
        let Some((by, at, _)) = self.reset.take().filter(|_| self.ended.is_none()) else { return };
        let (Some(tcp), mut listener) = self.parts(out) else { return };
        tcp.flush(now, &mut listener);
        for direction in 0..2 {
            if !std::mem::replace(&mut tcp.directions[direction].shut, true) {
                listener.shutdown(direction, tcp.directions[direction].next, at);
            }
        }
        (self.ended, self.reset_by) = (Some(FlowRowKind::Reset), Some(by));
    }

    /// Gives up all that is waited for.
    pub fn flush<S: RowSink>(&mut self, now: MonoNs, out: &mut S) {
        if let (Some(tcp), mut listener) = self.parts(out) {
            tcp.flush(now, &mut listener);
        }
        self.decide(out);
    }

    /// Notes that both ends are closed.
    pub fn close_if_done(&mut self) {
        if let Carrier::Tcp(tcp) = &self.carrier
            && self.ended.is_none()
            && tcp.closed()
        {
            self.ended = Some(FlowRowKind::Fin);
        }
    }

    /// Tells of the exchanges that are open. How many ended.
    pub fn finish<S: RowSink>(&mut self, ending: Ending, lost: MonoNs, out: &mut S) -> u64 {
        self.decide(out);
        let stream = matches!(self.carrier, Carrier::Tcp(_));
        self.protocol_state.finish(ending, if stream { Transport::Stream } else { Transport::Datagram }, lost, out)
    }

    fn packets(&self) -> u64 {
        match &self.carrier {
            Carrier::Tcp(tcp) => tcp.directions.iter().map(|direction| direction.packets).sum(),
            Carrier::Datagrams(flow) => flow.directions.iter().map(|direction| direction.packets).sum(),
        }
    }

    /// Packets came since its row was last written.
    pub fn is_news(&self) -> bool {
        self.packets() != self.told_packets
    }

    /// The ends of its addresses and ports.
    pub fn ends(&self) -> [End; 2] {
        self.key.ends
    }

    /// Which end is known to be the server.
    pub fn server(&self) -> Option<usize> {
        matches!(self.side.how, SideHow::Handshake | SideHow::Protocol).then_some(1 - self.side.client)
    }

    /// Other flows say that `server` is the server. Its own messages, where it has some, say more.
    pub fn turn_to(&mut self, server: usize) {
        if self.side.how == SideHow::Guessed && self.protocol_state.protocol().is_none() {
            self.side.client = 1 - server;
        }
    }

    /// Tells what waited until it is known who the server is, if it is: the flow first, since exchanges are read by it.
    pub fn tell_decided<S: RowSink>(&mut self, at: MonoNs, out: &mut S) {
        if self.protocol_state.is_undecided() {
            return;
        }
        let is_known = self.protocol_state.held_bytes() > 0 || self.side.how == SideHow::Handshake;
        match self.untold {
            Some(_) if is_known => self.tell_begin(out),
            None if self.told_client != self.side.client => self.tell(FlowRowKind::Update, at, out),
            _ => {}
        }
        self.protocol_state.decide(out);
    }

    /// It is decided who the server is, as far as it is known.
    pub fn decide<S: RowSink>(&mut self, out: &mut S) {
        self.tell_begin(out);
        self.protocol_state.decide(out);
    }

    fn tell_begin<S: RowSink>(&mut self, out: &mut S) {
        if let Some(begun) = self.untold.take() {
            self.write(FlowRowKind::Begin, begun, out);
        }
    }

    /// Writes its row, after that of its begin.
    pub fn tell<S: RowSink>(&mut self, what: FlowRowKind, at: MonoNs, out: &mut S) {
        self.tell_begin(out);
        self.write(what, at, out);
    }

    fn write<S: RowSink>(&mut self, what: FlowRowKind, at: MonoNs, out: &mut S) {
        (self.told_packets, self.told_client) = (self.packets(), self.side.client);
        let mut text = |text: &str| crate::words::text(out, text);
        let protocol = text(self.protocol_state.protocol().map_or("", Protocol::id));
        let reason = text(self.protocol_state.reason());
        let Side { client, how } = self.side;
        let mut row: SniffedFlowRow = Default::default();
        (row.at, row.flow, row.what) = (at, self.id, what);
        (row.syn, row.syn_ack, row.ack) = (self.syn, self.syn_ack, self.ack);
        for (dir, direction) in [client, 1 - client].into_iter().enumerate() {
            match &self.carrier {
                Carrier::Tcp(tcp) => {
                    let direction = &tcp.directions[direction];
                    row.origin[dir] = if direction.started { direction.origin } else { 0 };
                    (row.packets[dir], row.wire_bytes[dir]) = (direction.packets, direction.wire_bytes);
                    (row.stream_bytes[dir], row.missing_bytes[dir]) = (direction.stream_bytes(), direction.missing);
                    (row.retransmitted[dir], row.reordered[dir]) = (direction.retransmitted, direction.reordered);
                    row.zero_windows[dir] = direction.zero_windows;
                }
                Carrier::Datagrams(flow) => {
                    let direction = &flow.directions[direction];
                    row.origin[dir] = 1 << 32;
                    (row.packets[dir], row.wire_bytes[dir]) = (direction.packets, direction.wire_bytes);
                    (row.stream_bytes[dir], row.missing_bytes[dir]) = (direction.next - (1 << 32), direction.missing);
                }
            }
        }
        row.tunnel = self.tunnels[0];
        (row.client, row.server) = (self.key.address(client), self.key.address(1 - client));
        (row.client_port, row.server_port) = (self.key.port(client), self.key.port(1 - client));
        (row.protocol, row.reason) = (protocol, reason);
        (row.family, row.ip_protocol, row.side) = (self.key.family, self.key.ip_protocol, how);
        row.reset_by = match self.reset_by {
            None => ResetBy::Nobody,
            Some(direction) if direction == client => ResetBy::Client,
            Some(_) => ResetBy::Server,
        };
        out.push(&row);
    }
}

/// What a connection's bytes and ends go to.
struct Listener<'a, S> {
    protocol_state: &'a mut ProtocolState,
    about: About<'a>,
    out: &'a mut S,
}

impl<S: RowSink> StreamSink for Listener<'_, S> {
    fn piece(&mut self, piece: Piece<'_>) {
        self.protocol_state.take(piece, &mut self.about, self.out);
    }

    fn shutdown(&mut self, direction: usize, pos: u64, at: MonoNs) {
        self.protocol_state.shutdown(direction, pos, at, *self.about.side, self.out);
    }

    fn differs(&mut self, at: MonoNs) {
        self.out.count(defect::NET_OVERLAP, at);
    }

    fn gap(&mut self, at: MonoNs) {
        self.out.count(defect::NET_GAP, at);
    }

    fn listens(&self) -> bool {
        self.protocol_state.listens()
    }
}

/// Who is the server of a flow whose begin was not seen: the end with a port of a known protocol, or that serves other flows, or
/// whose port looks like one that programs listen on.
fn by_port(key: &Key, direction: usize, stream: bool, servers: &Servers) -> Side {
    let transport = if stream { Transport::Stream } else { Transport::Datagram };
    let usual = |port: u16| Protocol::ALL.iter().any(|p| p.transport() == transport && p.ports().contains(&port));
    let ports = [key.port(0), key.port(1)];
    let [a, b] = ports.map(rank);
    let side = |server: usize, how: SideHow| Side { client: 1 - server, how };
    match (usual(ports[0]), usual(ports[1]), servers.of(key.ends)) {
        (true, false, _) => side(0, SideHow::Port),
        (false, true, _) => side(1, SideHow::Port),
        (_, _, Some(server)) => side(server, SideHow::Port),
        _ if a != b => side(usize::from(b > a), if a.max(b) > 1 { SideHow::Port } else { SideHow::Guessed }),
        _ if ports[0] == ports[1] => side(1 - direction, SideHow::Guessed),
        _ => side(usize::from(ports[1] < ports[0]), SideHow::Guessed),
    }
}

/// The flow's number: the same in every run and version.
fn identity(key: &Key, tunnel: u64, epoch: u64) -> SniffedFlowId {
    let rest = u64::from(key.family) << 16 | u64::from(key.ip_protocol);
    let ports = u64::from(key.port(0)) << 16 | u64::from(key.port(1));
    let words = [key.ends[0].0[0], key.ends[0].0[1], key.ends[1].0[0], key.ends[1].0[1], ports, rest, tunnel, epoch];
    SniffedFlowId(words.iter().fold(0, |h, &w| super::link::mixed(h ^ w)).max(1))
}

const _: () = assert!(NONE == u32::MAX);

/// When a connection that ended is forgotten.
fn linger(now: MonoNs) -> MonoNs {
    MonoNs(now.0.saturating_add(LINGER_NS))
}

/// Whether a segment says who opened the connection: its client's direction.
pub(super) fn opener(direction: usize, segment: &Segment<'_>) -> Option<usize> {
    let ack = segment.has(tcp::ACK);
    (segment.has(tcp::SYN) && !segment.has(tcp::RST)).then_some(if ack { 1 - direction } else { direction })
}
