//! DNS (RFC 1035): datagrams, and TCP with a length of two bytes before each message.
//!
//! ```text
//! > id 0x3199, question example.org A       request, verb A, target example.org, witness 0x3199
//! < id 0x3199, NXDOMAIN                     reply, code 3, error, class NXDOMAIN
//! ```
//!
//! Replies may come in any order: the witness pairs them. The name is in lower case. For another opcode than QUERY the
//! verb is the opcode's name. A response without a question (multicast DNS) is unsolicited. Not handled: the answers,
//! questions after the first, DNS over TLS or HTTPS.

use crate::bytes::be16;
use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::registry::{About, Askers, Docs, Transport};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Defect, Dir, EndHow, Message, Outcome, Processor, Role, Sink};
use crate::{Status, Text, Witness};

/// Bytes kept of a message in each direction (TCP): a header and the longest question.
pub const HEAD: usize = 288;

/// The processor of DNS over TCP.
pub type DnsTcp = Duplex<Framing, HEAD>;

/// What the registry says of it over TCP.
pub const TCP: About = About {
    id: "proto.dns",
    ports: &[53],
    recognise: |dir, bytes, usual| match bytes.len() {
        _ if !usual => Fit::No, // two bytes of length and a few flags are too little to go by
        ..14 => Fit::More,
        _ => (fits(dir, &bytes[2..]) && be16(bytes, 0).is_some_and(|length| usize::from(length) >= 12)).into(),
    },
    vocabulary: Vocabulary {
        verb: Grammar::Constant,
        target: Grammar::Labels(List::folding(LABELS)),
        class: Grammar::Constant,
    },
    askers: Askers::People,
    docs: Docs {
        what: "DNS over UDP and TCP",
        request: "a query",
        kept: "type, name, response code",
        pairs: "message id",
    },
    ..About::NEW
};

/// What the registry says of it over UDP.
pub const UDP: About = About {
    transport: Transport::Datagram,
    ports: &[53, 5353],
    recognise: |dir, bytes, usual| (usual && fits(dir, bytes)).into(),
    ..TCP
};

/// Labels that name no one. Sorted.
#[rustfmt::skip]
const LABELS: &[&str] = &[
    "_dmarc", "_domainkey", "_http", "_https", "_srv", "_tcp", "_udp", "app", "arpa", "cloud", "cluster", "co", "com",
    "de", "dev", "edu", "eu", "example", "fr", "gov", "home", "in-addr", "int", "internal", "intra", "invalid", "io",
    "ip6", "lan", "local", "localdomain", "localhost", "mil", "net", "org", "svc", "test", "uk", "us", "www",
];

/// The framing over TCP; it remembers nothing.
pub struct Framing;

impl Framer for Framing {
    const NEW: Framing = Framing;

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        if bytes.len() < 14 {
            return Fit::More;
        }
        fits(dir, &bytes[2..]).into()
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let Some(length) = bytes.first_chunk().map(|len| u16::from_be_bytes(*len)) else {
            return Err(Stop::Need);
        };
        let total = 2 + usize::from(length);
        if bytes.len() < total && !last {
            return Err(Stop::Need);
        }
        let body = &bytes[2..total.min(bytes.len())];
        let end = wire.at.saturating_add(total as u64);
        match Parsed::of(body, bytes.len() < total) {
            Some(parsed) => {
                let head_end = wire.at.saturating_add(2 + parsed.head as u64);
                parsed.tell(wire.dir, (wire.at, end), head_end, wire.sink);
            }
            None if length < 12 => return Err(BAD),
            None => wire.sink.defect(Defect::BorderLost, wire.dir, wire.at),
        }
        Ok(total as u64)
    }
}

/// The processor of DNS datagrams. One call of `data` is one datagram, or its captured prefix; the end reported is
/// that of the bytes given. `gap` is ignored: the end of a datagram is known to the caller.
#[derive(Default)]
pub struct DnsUdp;

impl DnsUdp {
    /// It remembers nothing.
    pub const fn new() -> Self {
        DnsUdp
    }
}

impl Processor for DnsUdp {
    fn data(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) {
        match Parsed::of(bytes, false).filter(|_| fits(dir, bytes)) {
            Some(parsed) => {
                let end = pos.saturating_add(bytes.len() as u64);
                let head_end = pos.saturating_add(parsed.head as u64);
                parsed.tell(dir, (pos, end), head_end, sink);
            }
            None => sink.defect(Defect::BadHead, dir, pos),
        }
    }

    fn gap(&mut self, _: Dir, _: u64, _: u64, _: &mut dyn Sink) {}
    fn turn(&mut self, _: Dir, _: u64, _: &mut dyn Sink) {}
    fn shutdown(&mut self, _: Dir, _: u64, _: &mut dyn Sink) {}
}

/// Whether `bytes` begin like a DNS header of this direction: the flags that must be, few questions.
fn fits(dir: Dir, bytes: &[u8]) -> bool {
    let &[_, _, flags, more, q1, q0, ..] = bytes else {
        return false;
    };
    let reply = flags & 0x80 != 0;
    let opcode = flags >> 3 & 15;
    bytes.len() >= 12
        && reply == (dir == Dir::ToClient)
        && matches!(opcode, 0 | 4 | 5)
        && more & 0x40 == 0
        && (u16::from(!reply)..=u16::from(!reply) * 7 + 1).contains(&u16::from_be_bytes([q1, q0]))
        && (reply || more & 15 == 0)
}

struct Parsed {
    id: u16,
    reply: bool,
    opcode: u8,
    code: u16,
    questions: u16,
    name: Text<256>,
    kind: Option<u16>,
    cut: bool,
    /// Length of header and first question.
    head: usize,
}

impl Parsed {
    fn of(bytes: &[u8], cut: bool) -> Option<Parsed> {
        let &[i1, i0, flags, more, q1, q0] = bytes.first_chunk()?;
        if bytes.len() < 12 {
            return None;
        }
        let questions = u16::from_be_bytes([q1, q0]);
        let mut parsed = Parsed {
            id: u16::from_be_bytes([i1, i0]),
            reply: flags & 0x80 != 0,
            opcode: flags >> 3 & 15,
            code: u16::from(more & 15),
            questions,
            name: Text::new(),
            kind: None,
            cut,
            head: 12,
        };
        if questions > 0 {
            match name(bytes, &mut parsed.name) {
                Some(behind) => {
                    let kind = bytes.get(behind..).and_then(|rest| rest.first_chunk());
                    parsed.kind = kind.map(|kind| u16::from_be_bytes(*kind));
                    parsed.head = (behind + 4).min(bytes.len());
                    parsed.cut = parsed.kind.is_none();
                }
                None => {
                    parsed.head = bytes.len();
                    parsed.cut = true;
                }
            }
        }
        Some(parsed)
    }

    fn tell(&self, dir: Dir, span: (u64, u64), head_end: u64, sink: &mut dyn Sink) {
        let (start, end) = span;
        let class = match (self.reply, self.code) {
            (false, _) | (_, 0) => "",
            (_, 1) => "FORMERR",
            (_, 2) => "SERVFAIL",
            (_, 3) => "NXDOMAIN",
            (_, 4) => "NOTIMP",
            (_, 5) => "REFUSED",
            _ => "OTHER",
        };
        let mut verb = Text::<16>::new();
        match (self.opcode, self.kind) {
            (0, Some(kind)) => type_name(kind, &mut verb),
            (0, None) => verb.push_all(b"?"),
            (4, _) => verb.push_all(b"NOTIFY"),
            (5, _) => verb.push_all(b"UPDATE"),
            _ => verb.push_all(b"OTHER"),
        }
        let attrs = Attrs {
            verb: verb.as_str(),
            target: self.name.as_str(),
            status: match self.reply {
                true => Status {
                    outcome: if self.code == 0 { Outcome::Ok } else { Outcome::Error },
                    code: Some(self.code),
                    class,
                },
                false => Status::default(),
            },
            cut: self.cut,
            ..Attrs::default()
        };
        let role = match (self.reply, self.questions) {
            (false, _) => Role::Request,
            (true, 0) if self.code == 0 => Role::Unsolicited,
            (true, _) => Role::Reply,
        };
        sink.message(&Message {
            dir,
            role,
            start,
            end: Border::Known(end),
            head_end: head_end.min(end),
            attrs,
            witnesses: &[Witness::Dns(self.id)],
        });
        sink.end(dir, start, end, EndHow::Framed);
    }
}

/// The name of the first question into `out`, lower case with dots; where the question goes on after it. `None` if
/// it is cut or malformed. Compression (RFC 1035, 4.1.4) may point anywhere, so the labels are counted.
fn name(bytes: &[u8], out: &mut Text<256>) -> Option<usize> {
    let (mut at, mut behind) = (12, None);
    for _ in 0..128 {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => {
                if out.bytes().is_empty() {
                    out.push(b'.');
                }
                return Some(behind.unwrap_or(at + 1));
            }
            1..=63 => {
                let label = bytes.get(at + 1..at + 1 + length)?;
                if !out.bytes().is_empty() {
                    out.push(b'.');
                }
                for &byte in label {
                    // A dot or a blank inside a label is not what it looks like.
                    let byte = byte.to_ascii_lowercase();
                    out.push(if matches!(byte, b'.' | b' ') { 0 } else { byte });
                }
                at += 1 + length;
            }
            0xc0.. => {
                let low = usize::from(*bytes.get(at + 1)?);
                behind.get_or_insert(at + 2);
                at = (length & 0x3f) << 8 | low;
            }
            _ => return None,
        }
    }
    None
}

fn type_name(kind: u16, out: &mut Text<16>) {
    let known = match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        12 => "PTR",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        33 => "SRV",
        35 => "NAPTR",
        43 => "DS",
        48 => "DNSKEY",
        64 => "SVCB",
        65 => "HTTPS",
        251 => "IXFR",
        252 => "AXFR",
        255 => "ANY",
        _ => "",
    };
    out.push_all(known.as_bytes());
    if known.is_empty() {
        // As RFC 3597, 5 writes types without a name.
        out.push_all(b"TYPE");
        let mut divisor = 10_000;
        while divisor > 0 {
            if kind >= divisor || divisor == 1 {
                out.push(b'0' + (kind / divisor % 10) as u8);
            }
            divisor /= 10;
        }
    }
}
