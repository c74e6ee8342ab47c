//! Connections with streams whose truth is known, made of any bytes, and what must be so of everything that is taken of them.

use crate::{Flow, Taken, Way};
use wakepath_protocols::{AnyProcessor, Defect, Dir, EndHow, Message, Processor, Protocol, Sink, Status};
use wakepath_wire as w;

/// What begins the client's bytes.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// GET of a path, and its reply's 200, as HPACK writes them (RFC 7541, C.3.1 and C.5).
const REQUEST: &[u8] = b"\x82\x86\x84\x41\x0fwww.example.com";
const REPLY: &[u8] = b"\x88";
/// Most frames of an operation that are followed (`FRAMES_A_TURN * FRAME_TURNS`).
const FRAMES_MAX: usize = 1024;
/// Most bytes of an operation here: no run of wanted ones is longer than what is taken of one (`PIECES_MAX * HEAD_MAX`).
const OPERATION_MAX: usize = 7 * w::HEAD_MAX as usize;

/// An operation of a connection.
#[derive(Clone, Debug)]
pub struct Moved {
    /// Which direction it is of.
    pub way: Way,
    /// What it moves.
    pub bytes: Vec<u8>,
    /// For each byte whether it must be taken: it is of no body.
    pub wanted: Vec<bool>,
}

/// The bytes of one direction so far, and where they are cut.
struct Half {
    way: Way,
    bytes: Vec<u8>,
    wanted: Vec<bool>,
    streams: u32,
    frames: usize,
}

impl Half {
    fn push(&mut self, bytes: &[u8], is_wanted: bool) {
        self.bytes.extend_from_slice(bytes);
        self.wanted.extend(bytes.iter().map(|_| is_wanted));
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, body: &[u8]) {
        let length = (body.len() as u32).to_be_bytes();
        self.push(&length[1..], true);
        self.push(&[kind, flags], true);
        self.push(&stream.to_be_bytes(), true);
        self.push(body, kind != 0);
        self.frames += 1;
    }

    /// All bytes so far but for the last `left` are an operation.
    fn cut(&mut self, left: usize, out: &mut Vec<Moved>) {
        let end = self.bytes.len().saturating_sub(left);
        // where frames begin is only known from eight bytes on
        if end < 8 {
            return;
        }
        let (bytes, wanted) =
            (self.bytes.drain(..end).collect::<Vec<_>>(), self.wanted.drain(..end).collect::<Vec<_>>());
        for (bytes, wanted) in bytes.chunks(OPERATION_MAX).zip(wanted.chunks(OPERATION_MAX)) {
            out.push(Moved { way: self.way, bytes: bytes.to_vec(), wanted: wanted.to_vec() });
        }
        self.frames = 1;
    }
}

/// A connection of HTTP/2 between a client here and its server, of any bytes: four make a frame, and say where operations end.
pub fn connection(input: &[u8]) -> Vec<Moved> {
    let half = |way| Half { way, bytes: Vec::new(), wanted: Vec::new(), streams: 0, frames: 0 };
    let (mut out, mut halves) = (Vec::new(), [half(Way::Sent), half(Way::Received)]);
    halves[0].push(PREFACE, true);
    for half in &mut halves {
        // a frame of SETTINGS alone would not do: what looks like one may be something else
        half.frame(8, 0, 0, &[0, 0, 1, 0]);
        half.frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]);
        half.cut(0, &mut out);
    }
    for part in input.chunks_exact(4) {
        let length = usize::from(u16::from_le_bytes([part[1], part[2]]));
        let half = &mut halves[usize::from(part[0] >> 7)];
        let stream = 2 * half.streams.max(1) - 1;
        match part[0] & 15 {
            0..4 => {
                half.streams += 1;
                let block = if half.way == Way::Sent { REQUEST } else { REPLY };
                half.frame(1, 4 | part[0] >> 4 & 1, 2 * half.streams - 1, block);
            }
            4..10 => half.frame(0, part[0] >> 4 & 1, stream, &vec![part[3]; length % 20_000]),
            10 => half.frame(0, 0, stream, &vec![part[3]; length % 80]),
            11 => half.frame(3, 0, stream, &[0, 0, 0, 8]),
            12 => half.frame(6, 0, 0, &[7; 8]),
            13 => half.frame(8, 0, stream, &[0, 0, 1, 0]),
            14 => half.frame(2, 0, stream, &[0, 0, 0, 0, 16]),
            _ => half.frame(4, 0, 0, &[0, 4, 0, 1, 0, 0]),
        }
        if part[3] & 3 == 0 || half.frames >= FRAMES_MAX / 2 {
            // amid a frame, most of all amid its header
            half.cut(usize::from(part[3] >> 2) % 24, &mut out);
        }
    }
    halves.iter_mut().for_each(|half| half.cut(0, &mut out));
    out
}

/// Holds what is taken of a connection against its bytes: everything that is wanted, in its place; and the messages that are found in
/// what was taken against those in all bytes.
///
/// # Panics
/// Where it is not so.
pub fn check_connection(operations: &[Moved]) {
    let mut flow = Flow::new(true);
    let (mut all, mut some) = (Reader::default(), Reader::default());
    for moved in operations {
        let taken = flow.operation(moved.way, &moved.bytes);
        check_pieces(&moved.bytes, &taken);
        let seen = places(&moved.bytes, &taken);
        for (at, wanted) in moved.wanted.iter().enumerate() {
            assert!(!wanted || seen[at], "byte {at} of {} is not taken: {:?}", moved.bytes.len(), shape(&taken));
        }
        all.read(moved.way, &moved.bytes, &vec![true; moved.bytes.len()]);
        some.read(moved.way, &moved.bytes, &seen);
    }
    assert_eq!(all.found, some.found);
}

/// Holds what is taken of any operations against what must be so of all: `input` says in its first byte how each is cut.
///
/// # Panics
/// Where it is not so.
pub fn check_any(input: &[u8]) {
    let Some((&how, mut rest)) = input.split_first() else { return };
    let mut flow = Flow::new(how & 1 != 0);
    while let [length, cut, behind @ ..] = rest {
        let way = if cut & 1 == 0 { Way::Sent } else { Way::Received };
        if cut & 0x70 == 0x70 {
            flow.lose(way);
        }
        // what is said stands several times: operations longer than a head are of interest
        let times = if how & 2 != 0 { 1 + usize::from(*cut) } else { 1 };
        let (said, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        let bytes = said.repeat(times);
        let room = if how & 4 != 0 { usize::from(*cut) << 6 } else { 1 << 20 };
        check_pieces(&bytes, &flow.operation_in(way, &bytes, cut & 2 != 0, room));
    }
}

/// What is so of the pieces of every operation.
fn check_pieces(bytes: &[u8], taken: &Taken) {
    assert_eq!(taken.faults, 0, "memory that is not the operation's is read");
    let mut behind = taken.head;
    for (at, piece) in &taken.pieces {
        assert!(*at >= behind && at + piece.len() <= bytes.len().max(behind), "{:?}", shape(taken));
        assert!(bytes[(*at).min(bytes.len())..].starts_with(piece));
        behind = at + piece.len();
    }
}

/// Heads and pieces without their bytes, for whoever reads of a failure.
fn shape(taken: &Taken) -> (usize, Vec<(usize, usize)>) {
    (taken.head, taken.pieces.iter().map(|(at, piece)| (*at, piece.len())).collect())
}

/// Which bytes of an operation were taken.
fn places(bytes: &[u8], taken: &Taken) -> Vec<bool> {
    let mut seen = vec![false; bytes.len()];
    seen[..taken.head].fill(true);
    for (at, piece) in &taken.pieces {
        seen[*at..at + piece.len()].fill(true);
    }
    seen
}

/// The messages that the recorder finds.
struct Reader {
    processor: AnyProcessor,
    /// Where each direction is.
    at: [u64; 2],
    found: Found,
}

#[derive(Default, Debug, PartialEq)]
struct Found(Vec<String>);

impl Default for Reader {
    fn default() -> Reader {
        Reader { processor: AnyProcessor::new(Protocol::Http2), at: [0; 2], found: Found::default() }
    }
}

impl Reader {
    /// Reads an operation, of which some bytes were seen.
    fn read(&mut self, way: Way, bytes: &[u8], seen: &[bool]) {
        let dir = if way == Way::Sent { Dir::ToServer } else { Dir::ToClient };
        let at = &mut self.at[dir.index()];
        let mut rest = bytes;
        for run in seen.chunk_by(|a, b| a == b) {
            let (bytes, behind) = rest.split_at(run.len());
            rest = behind;
            if run[0] {
                self.processor.data(dir, *at, bytes, &mut self.found);
            } else {
                self.processor.gap(dir, *at, bytes.len() as u64, &mut self.found);
            }
            *at += bytes.len() as u64;
        }
    }
}

impl Sink for Found {
    fn message(&mut self, m: &Message<'_>) {
        self.0.push(format!("{m:?}"));
    }
    fn end(&mut self, dir: Dir, start: u64, end: u64, how: EndHow) {
        self.0.push(format!("{dir:?} {start}..{end} {how:?}"));
    }
    fn amend(&mut self, dir: Dir, start: u64, status: Status<'_>) {
        self.0.push(format!("{dir:?} {start} {status:?}"));
    }
    fn defect(&mut self, defect: Defect, dir: Dir, pos: u64) {
        self.0.push(format!("{defect:?} {dir:?} {pos}"));
    }
}
