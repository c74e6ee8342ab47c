//! Connections in TLS whose records are known, made of any bytes, and what must be taken of them.

use crate::told::is_told;
use crate::{Flow, RING_ROOM, Taken, Way};
use std::ops::Range;
use wakepath_wire as w;

/// Bytes of a record's header.
pub const HEADER: usize = 5;
/// The longest record that is believed (`RECORD_MAX`).
const LENGTH_MAX: usize = 16_384 + 2048;
/// Most records of an operation here: those that are followed (`RECORDS_A_TURN * RECORD_TURNS`), less the buffers.
const RECORDS_MAX: usize = 512;
/// Most bytes of an operation here.
const OPERATION_MAX: usize = 1 << 17;

/// An operation of a connection.
#[derive(Clone, Debug)]
pub struct Moved {
    /// Which direction it is of.
    pub way: Way,
    /// The buffers out of which, or into which, it moves.
    pub buffers: Vec<Vec<u8>>,
    /// Whether it has an array of buffers, perhaps of one.
    pub is_in_iovec: bool,
    /// Where in it bytes of records' headers are.
    pub headers: Vec<Range<usize>>,
}

impl Moved {
    /// What it moves.
    pub fn bytes(&self) -> Vec<u8> {
        self.buffers.concat()
    }
}

/// One direction: what no operation has moved yet, and where headers are in it.
struct Half {
    way: Way,
    bytes: Vec<u8>,
    headers: Vec<Range<usize>>,
    is_begun: bool,
}

impl Half {
    fn record(&mut self, kind: u8, length: usize, fill: u8) {
        let at = self.bytes.len();
        self.headers.push(at..at + HEADER);
        let kinds = if is_told(length) { 4 } else { 3 };
        self.bytes.extend([20 + kind % kinds, 3, 3]);
        self.bytes.extend((length as u16).to_be_bytes());
        // what is in them must not look like a hello, by which it would be known who asks whom
        self.bytes.resize(at + HEADER + length, fill | 0x80);
    }

    /// All bytes so far but for the last `left` are an operation, in buffers of about so many.
    fn cut(&mut self, left: usize, buffers: usize, out: &mut Vec<Moved>) {
        let end = self.bytes.len().saturating_sub(left);
        // the first must tell that it is TLS, and that whoever reads does not stop after a header
        if end < if self.is_begun { 1 } else { HEADER + 1 } {
            return;
        }
        self.is_begun = true;
        let bytes: Vec<u8> = self.bytes.drain(..end).collect();
        let (mut headers, mut later) = (Vec::new(), Vec::new());
        for place in self.headers.drain(..) {
            if place.start < end {
                headers.push(place.start..place.end.min(end));
            }
            if place.end > end {
                later.push(place.start.saturating_sub(end)..place.end - end);
            }
        }
        self.headers = later;
        let each = if buffers == 0 { end } else { end.div_ceil(buffers) };
        let cut = bytes.chunks(each).map(<[u8]>::to_vec).collect();
        out.push(Moved { way: self.way, buffers: cut, is_in_iovec: buffers != 0, headers });
    }
}

/// A connection of any bytes: four make a record, and say where operations end and in how many buffers they are.
pub fn connection(input: &[u8]) -> Vec<Moved> {
    let half = |way| Half { way, bytes: Vec::new(), headers: Vec::new(), is_begun: false };
    let (mut out, mut halves) = (Vec::new(), [half(Way::Sent), half(Way::Received)]);
    for part in input.chunks_exact(4) {
        let length = usize::from(u16::from_le_bytes([part[1], part[2]]));
        let half = &mut halves[usize::from(part[0] >> 7)];
        // short ones, of which many are in an operation, and long ones
        let length = if part[0] & 0x40 == 0 { length % 60 } else { length % LENGTH_MAX };
        let times = if part[0] & 0x20 == 0 { 1 } else { 1 + usize::from(part[3]) };
        for _ in 0..times {
            half.record(part[0], length + 1, part[3]);
            if half.headers.len() >= RECORDS_MAX || half.bytes.len() >= OPERATION_MAX {
                half.cut(0, 0, &mut out);
            }
        }
        if part[3] & 1 == 0 {
            // amid a record, most of all amid its header
            half.cut(usize::from(part[3] >> 3) % 24, usize::from(part[0] >> 2 & 7), &mut out);
        }
    }
    halves.iter_mut().for_each(|half| half.cut(0, 0, &mut out));
    out
}

/// Holds what is taken of a connection against its bytes: of each record the whole header, in its place; gives what was taken of each
/// operation.
///
/// # Panics
/// Where it is not so.
pub fn check_connection(operations: &[Moved]) -> Vec<Taken> {
    let mut flow = Flow::of_tls();
    let check = |moved: &Moved| {
        let buffers: Vec<&[u8]> = moved.buffers.iter().map(Vec::as_slice).collect();
        let taken = flow.operation_of(moved.way, &buffers, moved.is_in_iovec, RING_ROOM);
        let bytes = moved.bytes();
        check_pieces(&bytes, &taken);
        assert_eq!(taken.is_closed, bytes.len() > w::HEAD_MAX as usize, "who reads must know whether more comes");
        let mut seen = vec![false; bytes.len()];
        seen[..taken.head].fill(true);
        taken.pieces.iter().for_each(|(at, piece)| seen[*at..at + piece.len()].fill(true));
        for place in &moved.headers {
            assert!(seen[place.clone()].iter().all(|s| *s), "a header at {place:?} of {} is not taken", bytes.len());
        }
        taken
    };
    operations.iter().map(check).collect()
}

/// Holds what is taken of any operations against what must be so of all: `input` says in its first byte how each is cut.
///
/// # Panics
/// Where it is not so.
pub fn check_any(input: &[u8]) {
    let Some((&how, mut rest)) = input.split_first() else { return };
    let mut flow = Flow::of_tls();
    while let [length, cut, behind @ ..] = rest {
        let way = if cut & 1 == 0 { Way::Sent } else { Way::Received };
        if cut & 0x70 == 0x70 {
            flow.lose(way);
        }
        // what is said stands several times: operations longer than a head are of interest
        let times = if how & 1 != 0 { 1 + usize::from(*cut) } else { 1 };
        let (said, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        let bytes = said.repeat(times);
        let room = if how & 2 != 0 { usize::from(*cut) << 6 } else { RING_ROOM };
        let buffers: Vec<&[u8]> = bytes.chunks(1 + usize::from(*cut)).collect();
        let is_in_iovec = cut & 2 != 0 && !buffers.is_empty();
        let buffers = if is_in_iovec { &buffers[..] } else { &[&bytes[..]] };
        check_pieces(&bytes, &flow.operation_of(way, buffers, is_in_iovec, room));
    }
}

/// What is so of the pieces of every operation.
fn check_pieces(bytes: &[u8], taken: &Taken) {
    assert_eq!(taken.faults, 0, "memory that is not the operation's is read");
    let mut from = 0;
    for (at, piece) in &taken.pieces {
        let end = at + piece.len();
        assert!(*at >= from && end <= bytes.len() && (piece.is_empty() || end > w::HEAD_MAX as usize));
        assert!(bytes[*at..].starts_with(piece));
        from = end;
    }
}
