//! What the tests of the network vantage share: packets as made by hand, and a sink that keeps all rows.
#![allow(dead_code)] // each test uses a part

use std::collections::BTreeMap;
use wakepath_decode::network::{Sniffer, SnifferOptions};
use wakepath_decode::recurring::Said;
use wakepath_decode::{RowSink, TaskFacts};
use wakepath_model::ids::{EndpointId, MonoNs, SniffedFlowId, StrId};
use wakepath_model::rows::{Event, ExchangeKind, Row, SniffedExchangeRow, SniffedFlowRow};
use wakepath_wire::packet::{Packet, link};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;

/// Keeps all rows.
#[derive(Default)]
pub struct Rows {
    texts: Vec<String>,
    pub flows: Vec<SniffedFlowRow>,
    pub exchanges: Vec<SniffedExchangeRow>,
    pub defects: BTreeMap<&'static str, u64>,
}

impl RowSink for Rows {
    fn push<R: Row>(&mut self, row: &R) {
        match Event::read(R::TABLE, bytemuck::bytes_of(row)) {
            Some(Event::SniffedFlow(row)) => self.flows.push(row),
            Some(Event::SniffedExchange(row)) => self.exchanges.push(row),
            other => panic!("{other:?}"),
        }
    }
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        *self.defects.entry(defect).or_default() += 1;
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        let text = String::from_utf8(text.to_vec()).unwrap();
        let known = self.texts.iter().position(|t| *t == text);
        let i = known.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        StrId(i as u32 + 1)
    }
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

impl Rows {
    pub fn text(&self, id: StrId) -> &str {
        if id == StrId::EMPTY { "" } else { &self.texts[id.0 as usize - 1] }
    }

    /// Exchanges that ended in that way.
    pub fn of(&self, what: ExchangeKind) -> Vec<SniffedExchangeRow> {
        self.exchanges.iter().filter(|row| row.what == what).copied().collect()
    }

    /// What each flow's last row says.
    pub fn last_flows(&self) -> Vec<SniffedFlowRow> {
        let mut last: BTreeMap<SniffedFlowId, SniffedFlowRow> = BTreeMap::new();
        last.extend(self.flows.iter().map(|row| (row.flow, *row)));
        let mut rows: Vec<_> = last.into_values().collect();
        rows.sort_by_key(|row| self.flows.iter().position(|r| r.flow == row.flow));
        rows
    }

    /// The one flow's last row.
    pub fn flow(&self) -> SniffedFlowRow {
        let flows = self.last_flows();
        assert_eq!(flows.len(), 1, "{:?}", flows.iter().map(|f| (f.what, f.client_port)).collect::<Vec<_>>());
        flows[0]
    }

    /// Exchanges in short, for messages that can be read.
    pub fn lines(&self) -> Vec<String> {
        let word = |what| match what {
            ExchangeKind::Answered => "answered",
            ExchangeKind::Unanswered => "unanswered",
            ExchangeKind::Open => "open",
            ExchangeKind::NoReply => "no reply",
            ExchangeKind::Unsolicited => "unsolicited",
            ExchangeKind::ReplyOnly => "reply only",
            ExchangeKind::ReplyMissed => "reply missed",
        };
        let line = |row: &SniffedExchangeRow| {
            let (verb, target) = (self.text(row.verb), self.text(row.target));
            let line = format!("{} {verb} {target} {}", word(row.what), row.status);
            line.split_whitespace().filter(|w| *w != "0").collect::<Vec<_>>().join(" ")
        };
        self.exchanges.iter().map(line).collect()
    }

    pub fn count_of(&self, defect: &str) -> u64 {
        self.defects.get(defect).copied().unwrap_or(0)
    }
}

/// A packet as captured.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub at: u64,
    pub bytes: Vec<u8>,
    /// Bytes on the wire.
    pub length: u32,
}

impl Frame {
    pub fn packet(&self) -> Packet<'_> {
        Packet { at_ns: self.at, link: link::RAW, interface: 0, length: self.length, bytes: &self.bytes }
    }

    /// The same packet a moment later.
    pub fn later(&self, by: u64) -> Frame {
        Frame { at: self.at + by, ..self.clone() }
    }

    /// As a capture keeps it that cuts packets.
    pub fn cut(mut self, bytes: usize) -> Frame {
        self.bytes.truncate(bytes);
        self
    }

    /// The same in a VXLAN of that number.
    pub fn in_vxlan(&self, vni: u32) -> Frame {
        let mut inner = vec![0; 12];
        inner.extend([8, 0]);
        inner.extend(&self.bytes);
        let mut payload = vec![8, 0, 0, 0];
        payload.extend((vni << 8).to_be_bytes());
        payload.extend(inner);
        let mut frame = udp(self.at, ([10, 9, 9, 1], 40000), ([10, 9, 9, 2], 4789), &payload, 7);
        frame.length += self.length - self.bytes.len() as u32;
        frame
    }
}

fn ip(at: u64, protocol: u8, src: [u8; 4], dst: [u8; 4], id: u16, payload: &[u8]) -> Frame {
    let length = 20 + payload.len();
    let mut bytes = vec![0x45, 0];
    bytes.extend((length as u16).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes.extend([0x40, 0, 64, protocol, 0, 0]);
    bytes.extend(src);
    bytes.extend(dst);
    bytes.extend(payload);
    Frame { at, length: length as u32, bytes }
}

pub fn udp(at: u64, from: ([u8; 4], u16), to: ([u8; 4], u16), payload: &[u8], id: u16) -> Frame {
    let mut bytes = Vec::new();
    bytes.extend(from.1.to_be_bytes());
    bytes.extend(to.1.to_be_bytes());
    bytes.extend((payload.len() as u16 + 8).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    ip(at, 17, from.0, to.0, id, &bytes)
}

/// The same by IPv6.
pub fn udp6(at: u64, from: ([u16; 8], u16), to: ([u16; 8], u16), payload: &[u8]) -> Frame {
    let length = payload.len() as u16 + 8;
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([17, 64]);
    bytes.extend(from.0.iter().chain(&to.0).flat_map(|word| word.to_be_bytes()));
    bytes.extend([from.1, to.1, length, 0].iter().flat_map(|word| word.to_be_bytes()));
    bytes.extend(payload);
    Frame { at, length: bytes.len() as u32, bytes }
}

/// The two ends of a connection, numbering what they send. `true` is the client.
#[derive(Clone, Debug)]
pub struct Tcp {
    pub ends: [([u8; 4], u16); 2],
    /// The next byte of each end.
    pub seq: [u32; 2],
    pub ids: [u16; 2],
    pub window: [u16; 2],
    pub options: Vec<u8>,
}

impl Tcp {
    pub fn new(client_port: u16, server_port: u16) -> Tcp {
        Tcp {
            ends: [([10, 0, 0, 1], client_port), ([10, 0, 0, 2], server_port)],
            seq: [1000, 5000],
            ids: [100, 9000],
            window: [1000; 2],
            options: Vec::new(),
        }
    }

    /// A segment of these numbers, with a new identification.
    pub fn raw(&mut self, at: u64, client: bool, flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Frame {
        let own = usize::from(!client);
        let (from, to) = (self.ends[own], self.ends[1 - own]);
        let mut bytes = Vec::new();
        bytes.extend(from.1.to_be_bytes());
        bytes.extend(to.1.to_be_bytes());
        bytes.extend(seq.to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([(((20 + self.options.len()) / 4) << 4) as u8, flags]);
        bytes.extend(self.window[own].to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.options);
        bytes.extend(payload);
        self.ids[own] = self.ids[own].wrapping_add(1);
        ip(at, 6, from.0, to.0, self.ids[own], &bytes)
    }

    /// The next bytes.
    pub fn data(&mut self, at: u64, client: bool, payload: &[u8]) -> Frame {
        let own = usize::from(!client);
        let (seq, ack) = (self.seq[own], self.seq[1 - own]);
        self.seq[own] = seq.wrapping_add(payload.len() as u32);
        self.raw(at, client, ACK | PSH, seq, ack, payload)
    }

    /// What has come is acknowledged.
    pub fn ack(&mut self, at: u64, client: bool) -> Frame {
        let own = usize::from(!client);
        self.raw(at, client, ACK, self.seq[own], self.seq[1 - own], &[])
    }

    pub fn fin(&mut self, at: u64, client: bool) -> Frame {
        let own = usize::from(!client);
        let seq = self.seq[own];
        self.seq[own] = seq.wrapping_add(1);
        self.raw(at, client, ACK | FIN, seq, self.seq[1 - own], &[])
    }

    /// SYN, SYN and ACK, ACK: at `at`, one and two microseconds later.
    pub fn open(&mut self, at: u64) -> Vec<Frame> {
        let [client, server] = self.seq;
        let frames = [
            self.raw(at, true, SYN, client, 0, &[]),
            self.raw(at + 1000, false, SYN | ACK, server, client.wrapping_add(1), &[]),
            self.raw(at + 2000, true, ACK, client.wrapping_add(1), server.wrapping_add(1), &[]),
        ];
        self.seq = self.seq.map(|seq| seq.wrapping_add(1));
        frames.into()
    }

    /// FIN of the client, of the server, ACK.
    pub fn close(&mut self, at: u64) -> Vec<Frame> {
        vec![self.fin(at, true), self.fin(at + 1000, false), self.ack(at + 2000, true)]
    }
}

/// Runs a sniffer over the frames, and ends it.
pub fn sniff(frames: &[Frame]) -> Rows {
    sniff_with(frames, SnifferOptions::default())
}

pub fn sniff_with(frames: &[Frame], options: SnifferOptions) -> Rows {
    let mut sniffer = Sniffer::new(Rows::default(), options);
    frames.iter().for_each(|frame| sniffer.packet(&frame.packet()));
    sniffer.finish();
    std::mem::take(sniffer.out())
}

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;

/// A request.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// Its reply, with a body of so many bytes.
pub fn ok(length: usize) -> Vec<u8> {
    let mut reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    reply.extend(vec![b'x'; length]);
    reply
}

/// Handshake at 1 ms, one exchange at 2 ms and 5 ms, end at 8 ms.
pub fn simple() -> (Tcp, Vec<Frame>) {
    let mut tcp = Tcp::new(40000, 80);
    let mut frames = tcp.open(MS);
    frames.push(tcp.data(2 * MS, true, &get("/a")));
    frames.push(tcp.data(5 * MS, false, &ok(10)));
    (tcp, frames)
}
