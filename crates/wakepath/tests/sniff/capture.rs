//! Capture files with known conversations.

use std::net::Ipv4Addr;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// When captures begin, ns since 1970.
pub const BEGIN: u64 = 1_700_000_000_000_000_000;

/// A capture being made: nanosecond pcap of Ethernet.
pub struct Pcap {
    bytes: Vec<u8>,
    /// The time of the next packet.
    pub now: u64,
}

/// A connection in it.
pub struct Connection {
    port: u16,
    sent: [u32; 2],
}

impl Default for Pcap {
    fn default() -> Pcap {
        let mut bytes = Vec::new();
        for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 262_144, 1] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Pcap { bytes, now: BEGIN }
    }
}

impl Pcap {
    /// The file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The file of a sniffer that kept at most so many bytes of each packet.
    pub fn cut_to(&self, kept_max: usize) -> Vec<u8> {
        let (head, mut rest) = self.bytes.split_at(24);
        let mut out = head.to_vec();
        while let Some((record, data)) = rest.split_at_checked(16) {
            let length = u32::from_le_bytes(record[8..12].try_into().expect("four bytes")) as usize;
            let kept = length.min(kept_max);
            out.extend_from_slice(&record[..8]);
            out.extend_from_slice(&(kept as u32).to_le_bytes());
            out.extend_from_slice(&record[12..]);
            out.extend_from_slice(&data[..kept]);
            rest = &data[length..];
        }
        out
    }

    /// A client's connection to port 80.
    pub fn connect(&mut self, port: u16) -> Connection {
        let mut c = Connection { port, sent: [1000 * u32::from(port), 77] };
        self.segment(&c, true, 0x02, b"");
        c.sent[0] += 1;
        self.segment(&c, false, 0x12, b"");
        c.sent[1] += 1;
        self.segment(&c, true, 0x10, b"");
        c
    }

    /// A request and its reply, `took_ns` later.
    pub fn exchange(&mut self, c: &mut Connection, path: &str, status: u16, took_ns: u64, body_bytes: usize) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n");
        self.data(c, true, request.as_bytes());
        self.now += took_ns;
        let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: {body_bytes}\r\n\r\n{}", "x".repeat(body_bytes));
        for part in reply.as_bytes().chunks(1448) {
            self.data(c, false, part);
        }
        self.segment(c, true, 0x10, b"");
    }

    /// The client closes.
    pub fn close(&mut self, mut c: Connection) {
        self.segment(&c, true, 0x11, b"");
        c.sent[0] += 1;
        self.segment(&c, false, 0x11, b"");
        c.sent[1] += 1;
        self.segment(&c, true, 0x10, b"");
    }

    fn data(&mut self, c: &mut Connection, to_server: bool, payload: &[u8]) {
        self.segment(c, to_server, 0x18, payload);
        c.sent[usize::from(!to_server)] += payload.len() as u32;
    }

    fn segment(&mut self, c: &Connection, to_server: bool, flags: u8, payload: &[u8]) {
        let (from, to) = if to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let ports = if to_server { [c.port, 80] } else { [80, c.port] };
        let (sequence, acknowledged) = if to_server { (c.sent[0], c.sent[1]) } else { (c.sent[1], c.sent[0]) };
        let length = 14 + 20 + 20 + payload.len();
        for word in [(self.now / 1_000_000_000) as u32, (self.now % 1_000_000_000) as u32, length as u32, length as u32]
        {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.now += 10_000;
        let b = &mut self.bytes;
        b.extend_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        b.extend_from_slice(&[0x45, 0]);
        b.extend_from_slice(&((length - 14) as u16).to_be_bytes());
        b.extend_from_slice(&[0, 1, 0x40, 0, 64, 6, 0, 0]);
        b.extend_from_slice(&from.octets());
        b.extend_from_slice(&to.octets());
        b.extend_from_slice(&ports[0].to_be_bytes());
        b.extend_from_slice(&ports[1].to_be_bytes());
        b.extend_from_slice(&sequence.to_be_bytes());
        b.extend_from_slice(&acknowledged.to_be_bytes());
        b.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        b.extend_from_slice(payload);
    }
}

/// `connections` with `each` exchanges of some paths, statuses and times; one after the other, so that in each part of the file
/// some are over.
pub fn shop(connections: u16, each: u32) -> Pcap {
    let mut pcap = Pcap::default();
    for c in 0..connections {
        let mut connection = pcap.connect(20_000 + c);
        for i in 0..each {
            let path = ["/", "/cart/4711", "/item/17?x=1", "/long/path/of/many/parts"][(i % 4) as usize];
            let status = if i % 10 == 9 { 503 } else { 200 };
            pcap.exchange(
                &mut connection,
                path,
                status,
                1_000_000 + u64::from(i) * 1000,
                500 + 3000 * (i as usize % 3),
            );
        }
        pcap.close(connection);
    }
    pcap
}
