//! Plaintext of TLS as the recorder joins it to records, where the kernel programs took what they take of a connection.

use crate::records::{HEADER, Moved, check_connection};
use crate::{Taken, Way};
use wakepath_decode::recurring::Said;
use wakepath_decode::{KernelDecoder, Payload, RowSink, TaskFacts};
use wakepath_model::defects::id::TLS_UNFIT;
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{Event, MessageRole, OPEN, OpKind, Row};
use wakepath_wire as w;

/// What TLS 1.3 adds to a record.
const OVERHEAD: usize = 17;
/// Of whose plaintext is told here.
const FLOW: u64 = 9;
/// The kind of a record with application data.
const DATA: u8 = 23;

/// Joins a request for each record with data that a connection receives, told when the record has come; holds that each is found, in the
/// record that it is in.
///
/// # Panics
/// Where it is not so.
pub fn check_told(operations: &[Moved]) {
    let taken = check_connection(operations);
    let (mut decoder, mut found) = (KernelDecoder::new(Payload::Attributes), Found::default());
    let (mut records, mut expected, mut at) = (Unread::default(), Vec::new(), 1);
    decoder.frame(framed(&op(w::KIND_CLEAR, at, Way::Received, 0, &[])), &mut found);
    for (moved, taken) in operations.iter().zip(&taken) {
        at += 1;
        operation(&mut decoder, &mut found, at, moved, taken);
        if moved.way == Way::Sent {
            continue;
        }
        for record in records.moved(&moved.bytes()) {
            let Some(text) = request(record.length) else { continue };
            at += 1;
            let head = &text[..text.len().min(w::HEAD_MAX as usize)];
            decoder.frame(framed(&op(w::KIND_CLEAR, at, Way::Received, text.len(), head)), &mut found);
            // what is between two is the later one's
            let from = expected.last().map_or(record.from, |&(_, end)| end);
            expected.push((from, record.to));
        }
    }
    let base = found.first.unwrap_or(0);
    let places: Vec<_> = found.requests.iter().map(|(from, to)| (from - base, to - base)).collect();
    assert_eq!(places, expected);
    // that many requests wait for replies may be counted too
    assert!(!found.defects.contains(&TLS_UNFIT), "{:?}", found.defects);
}

/// A request of HTTP/1.1 that fills a record of so many bytes after its header; `None` where there is no room for one.
fn request(length: usize) -> Option<Vec<u8>> {
    const LEAST: &str = "GET / HTTP/1.1\r\n\r\n";
    const WITH_BODY: &str = "GET / HTTP/1.1\r\nContent-Length: 00000\r\n\r\n";
    let more = length.checked_sub(OVERHEAD + LEAST.len())?;
    let Some(body) = length.checked_sub(OVERHEAD + WITH_BODY.len()) else {
        return Some(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(more)).into_bytes());
    };
    let mut out = format!("GET / HTTP/1.1\r\nContent-Length: {body:05}\r\n\r\n").into_bytes();
    out.resize(out.len() + body, b'b');
    Some(out)
}

/// Least bytes after the header of a record that is told here; a shorter one could be mistaken for another's overhead.
pub(crate) fn is_told(length: usize) -> bool {
    request(length).is_some()
}

/// A record that has come: its place, and the bytes after its header.
struct Come {
    from: u64,
    to: u64,
    length: usize,
}

/// Bytes of no whole record yet.
#[derive(Default)]
struct Unread {
    bytes: Vec<u8>,
    from: u64,
}

impl Unread {
    /// The records with data that end in these bytes.
    fn moved(&mut self, bytes: &[u8]) -> Vec<Come> {
        self.bytes.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let [kind, _, _, high, low, rest @ ..] = &self.bytes[..] {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if rest.len() < length {
                break;
            }
            let to = self.from + (HEADER + length) as u64;
            if *kind == DATA {
                out.push(Come { from: self.from, to, length });
            }
            self.bytes.drain(..HEADER + length);
            self.from = to;
        }
        out
    }
}

/// The records that the programs write of an operation.
fn operation(decoder: &mut KernelDecoder, found: &mut Found, at: u64, moved: &Moved, taken: &Taken) {
    let bytes = moved.bytes();
    let mut whole = op(w::KIND_OP, at, moved.way, bytes.len(), &bytes[..taken.head]);
    if taken.is_closed {
        whole[std::mem::offset_of!(w::Head, sub)] |= w::SUB_GOES_ON;
    }
    decoder.frame(framed(&whole), found);
    for (i, (from, piece)) in taken.pieces.iter().enumerate() {
        let last = if i + 1 == taken.pieces.len() { w::MORE_LAST } else { 0 };
        let fields = [
            &at.to_ne_bytes()[..],
            &FLOW.to_ne_bytes(),
            &(*from as u32).to_ne_bytes(),
            &(piece.len() as u32).to_ne_bytes(),
            piece,
        ];
        decoder.frame(framed(&record(w::KIND_MORE, moved.way.code() as u8 | last, &fields)), found);
    }
}

/// An operation of the connection, or plaintext of it.
fn op(kind: u8, at: u64, way: Way, bytes: usize, head: &[u8]) -> Vec<u8> {
    let mut op: w::Op = w::view(&[0; size_of::<w::Op>()]).expect("long enough");
    (op.ts_ns, op.flow, op.tgid, op.tid) = (at, FLOW, 5, 5);
    (op.bytes, op.flags, op.head_bytes) = (bytes as i32, w::OPF_UNNUMBERED, head.len() as u16);
    record(kind, way.code() as u8, &[&w::bytes_of(&op)[size_of::<w::Head>()..], head])
}

fn record(kind: u8, sub: u8, fields: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; size_of::<w::Head>()];
    out.extend(fields.concat());
    out.resize(out.len().next_multiple_of(8), 0);
    let bytes = (out.len() as u16).to_ne_bytes();
    out[4..8].copy_from_slice(&[bytes[0], bytes[1], kind, sub]);
    out
}

fn framed(bytes: &[u8]) -> w::Frame<'_> {
    w::Frame { origin: 0, bytes }
}

/// What the recorder makes of it.
#[derive(Default)]
struct Found {
    /// The number of the first byte that was received.
    first: Option<u64>,
    /// Where each request is.
    requests: Vec<(u64, u64)>,
    defects: Vec<&'static str>,
}

impl RowSink for Found {
    fn push<R: Row>(&mut self, row: &R) {
        match Event::read(R::TABLE, bytemuck::bytes_of(row)) {
            Some(Event::Op(row)) if row.kind == OpKind::Recv => {
                self.first.get_or_insert(row.start);
            }
            // of the handshake, which is told too, nothing is asked
            Some(Event::Message(row)) if row.role == MessageRole::Request && row.verb == StrId(2) => {
                self.requests.push((row.start, row.end));
            }
            Some(Event::MessageEnd(row)) => {
                self.requests.iter_mut().filter(|r| **r == (row.start, OPEN)).for_each(|r| r.1 = row.end);
            }
            _ => {}
        }
    }
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        self.defects.push(defect);
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        StrId(if text == b"GET" { 2 } else { 3 })
    }
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}
