//! HTTP/2 (RFC 9113) with prior knowledge, and gRPC on it.
//!
//! ```text
//! > HEADERS(1) :method POST, :path /pkg.Greeter/SayHello; DATA(1)   request, verb POST, target the path's template
//! < HEADERS(1) :status 200; DATA(1); HEADERS(1) grpc-status 5       reply, code 200, amended to error NOT_FOUND
//! ```
//!
//! A message lasts from its HEADERS to the frame that ends its stream's direction; those of several streams may overlap.
//! Both are witnessed by the stream's id. A reset by the server is a reply, or amends one, with the error's name. One by the client takes the
//! request back, unless the reply has begun: then that ends there. What a
//! server pushes is unsolicited, and so is what a client sends on a stream that is answered already, or that began unseen. Joined in
//! mid-stream, or after a loss, fields that stand in the compression's lost
//! table are unknown: such heads are marked as cut, their frames are bordered all the same. Where the last head of a
//! reply has such a field, which may be a gRPC status, its outcome is unknown. After a loss, frames are found again where bytes
//! begin with a frame that may follow. Of 512 messages that are open at a time the ends are followed, of more they are not
//! (counted). A field may go on in the next frame: of one that is wanted the value is then unknown, and where not even its length
//! is known, so is the rest of its head. Not handled: an upgrade from HTTP/1.

use crate::bytes::be32;
use crate::codes::{error, grpc};
use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::frames::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PADDED, PREFACE, PRIORITY, PUSH, RESET, preface,
};
use crate::hpack::{self, Known, Name, Table};
use crate::http::{self, Heading};
use crate::registry::{About, Askers, Docs, RunsOn};
use crate::streams::{Open, Streams};
use crate::{Attrs, Border, Defect, Dir, EndHow, Message, Outcome, Role, Status, Text, Witness};

/// Bytes kept of a field in each direction.
pub const HEAD: usize = 256;

/// The HTTP/2 processor.
pub type Http2 = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.http2",
    ports: &[50051],
    recognise: frames::recognise,
    vocabulary: http::VOCABULARY,
    askers: Askers::People,
    runs_on: RunsOn::InFrames,
    bytes_max: 17 * 1024,
    docs: Docs {
        what: "HTTP/2 with prior knowledge, and gRPC",
        request: "a stream's HEADERS to its end",
        kept: "method, path template, status, gRPC status",
        pairs: "stream id",
    },
    ..About::NEW
};

/// What of HTTP/2 is remembered between units.
pub struct Framing {
    sides: [Side; 2],
    open: Streams,
    /// The highest stream so far.
    top: u32,
    /// The first stream of which a client's head was seen; 0: none. Later ones have higher numbers.
    first: u32,
}

/// Frames after a place where framing was found again that are looked at closely.
const CLOSELY: u8 = 8;

/// One direction.
struct Side {
    table: Table,
    heading: Heading<96>,
    status: Option<u16>,
    grpc: Option<u16>,
    /// A field of the head stands in a table that was lost: it may be any.
    blind: bool,
    /// Frames that are yet to be looked at closely, since framing was found again.
    doubted: u8,
    block: Block,
}

/// The header block at hand.
#[derive(Clone, Copy)]
struct Block {
    /// Its stream; 0: there is none.
    stream: u32,
    start: u64,
    /// Bytes of fields and of padding that are left in the frame.
    left: u32,
    padding: u32,
    /// The stream's direction ends with it.
    last: bool,
    /// No CONTINUATION follows.
    whole: bool,
    pushes: bool,
    /// The field whose value comes next, and whether it goes into the table.
    field: Option<(Name, bool)>,
    /// Bytes of a name or a value that go on in the next frame.
    carried: u64,
    /// Where its next field begins is not known: nothing more of it is read.
    astray: bool,
}

impl Side {
    const NEW: Side = Side {
        table: Table::NEW,
        heading: Heading::NEW,
        status: None,
        grpc: None,
        blind: false,
        doubted: 0,
        block: Block::NONE,
    };
}

impl Block {
    const NONE: Block = Block {
        stream: 0,
        start: NONE,
        left: 0,
        padding: 0,
        last: false,
        whole: false,
        pushes: false,
        field: None,
        carried: 0,
        astray: false,
    };
}

impl Framer for Framing {
    const NEW: Framing = Framing { sides: [Side::NEW, Side::NEW], open: Streams::NEW, top: 0, first: 0 };
    const REJOINS: bool = true;

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match preface(dir, bytes) {
            Fit::No => frames::goes_on(dir, bytes, self.top),
            fit => fit,
        }
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.sides[wire.dir.index()].doubted = CLOSELY;
    }

    fn blind(&mut self, wire: &mut Wire<'_>) -> Option<u64> {
        let side = &mut self.sides[wire.dir.index()];
        let left = core::mem::replace(&mut side.block.left, 0);
        if left == 0 {
            return None;
        }
        // the rest of a head: where its frame ends is known
        side.go_astray();
        Some(self.fragment(wire, left.into()))
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let block = &mut self.sides[wire.dir.index()].block;
        if block.left > 0 {
            return self.field(wire, bytes, last);
        }
        match preface(wire.dir, bytes) {
            Fit::Yes | Fit::Sure => {
                wire.whole(Role::Unsolicited, wire.behind(24u64), 24, Attrs::alone("PRI"), &[Witness::Http2(0)]);
                return Ok(PREFACE.len() as u64);
            }
            Fit::More => return Err(Stop::Need),
            Fit::No => {}
        }
        let frame = Frame::of(bytes).ok_or(Stop::Need)?;
        let end = wire.behind(frame.total());
        if (block.stream != 0) != (frame.kind == CONTINUATION) || (block.stream != 0 && block.stream != frame.stream) {
            return Err(BAD);
        }
        let doubted = &mut self.sides[wire.dir.index()].doubted;
        if *doubted > 0 && frame.kind != CONTINUATION && !frame.plausible() {
            return Err(BAD);
        }
        *doubted = doubted.saturating_sub(1);
        match frame.kind {
            DATA => self.data(wire, &frame, end),
            HEADERS | PUSH if frame.stream == 0 => return Err(BAD),
            HEADERS | PUSH | CONTINUATION => {
                let has = |flag, bytes| if frame.flags & flag != 0 { bytes } else { 0 };
                let (mut before, mut padding) = (0, 0);
                if frame.kind == CONTINUATION {
                    block.whole = frame.flags & END_HEADERS != 0;
                } else {
                    let pushes = frame.kind == PUSH;
                    before = has(PADDED, 1) + if pushes { 4 } else { has(PRIORITY, 5) };
                    if frame.flags & PADDED != 0 {
                        padding = u32::from(*bytes.get(9).ok_or(Stop::Need)?);
                    }
                    *block = Block { stream: frame.stream, start: wire.at, pushes, ..Block::NONE };
                    block.last = !pushes && frame.flags & END_STREAM != 0;
                    block.whole = frame.flags & END_HEADERS != 0;
                    let side = &mut self.sides[wire.dir.index()];
                    (side.heading, side.status, side.grpc, side.blind) = (Heading::NEW, None, None, false);
                }
                let block = &mut self.sides[wire.dir.index()].block;
                block.padding = padding;
                block.left = frame.length.checked_sub(before + padding).ok_or(BAD)?;
                let length = 9 + u64::from(before);
                return Ok(if block.left == 0 { self.fragment(wire, length) } else { length });
            }
            RESET => {
                let code = be32(bytes, 9).ok_or(Stop::Need)?;
                self.reset(wire, frame.stream, code, end);
            }
            _ => {}
        }
        Ok(frame.total())
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        self.end_head(wire);
        if wire.dir == Dir::ToServer {
            // what follows is of others too; a reply's end shows at the next turn
            self.end_all(wire, wire.dir, wire.at, EndHow::Lost);
        }
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if lost {
            let dir = wire.dir.other();
            self.end_all(wire, dir, wire.next[dir.index()], EndHow::Turn);
        }
    }

    fn closed(&mut self, wire: &mut Wire<'_>) {
        self.end_head(wire);
        self.end_all(wire, wire.dir, wire.at, EndHow::Close);
    }
}

impl Framing {
    /// One half of a field: an index or a name, or a value; or what a frame has of it.
    fn field(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let side = &mut self.sides[wire.dir.index()];
        let room = u64::from(side.block.left);
        let length = if side.block.astray {
            room
        } else if side.block.carried > 0 {
            side.block.carried
        } else {
            let view = &bytes[..bytes.len().min(room as usize)];
            let is_rest = view.len() as u64 == room;
            match side.half(view, last || is_rest) {
                Some(length) => length,
                None if is_rest => {
                    side.go_astray();
                    room
                }
                None => return Err(Stop::Need),
            }
        };
        let used = length.min(room);
        side.block.carried = length - used;
        side.block.left -= used as u32;
        Ok(if side.block.left == 0 { self.fragment(wire, used) } else { used })
    }

    /// The frame's fields are over after `length` bytes; the length with its padding.
    fn fragment(&mut self, wire: &mut Wire<'_>, length: u64) -> u64 {
        let side = &mut self.sides[wire.dir.index()];
        let length = length + u64::from(side.block.padding);
        if side.block.whole {
            if side.block.carried > 0 || side.block.field.is_some() {
                side.go_astray(); // it ends inside a field: that is none
            }
            self.head(wire, wire.behind(length));
        }
        length
    }

    /// The rest of what there is of a head is not to be had, and what it put into the table is unknown.
    fn end_head(&mut self, wire: &mut Wire<'_>) {
        let side = &mut self.sides[wire.dir.index()];
        side.table.forget();
        if side.block.stream != 0 {
            side.go_astray();
            (side.block.last, side.block.whole) = (false, true);
            self.head(wire, wire.at);
        }
    }

    /// The head is over at `end`: a message begins, or the trailers of one end it.
    fn head(&mut self, wire: &mut Wire<'_>, end: u64) {
        let side = &mut self.sides[wire.dir.index()];
        let block = core::mem::replace(&mut side.block, Block::NONE);
        let failure = side.grpc.filter(|code| *code != 0).map(grpc);
        // what a field that was lost may say: a gRPC status stands in the last head
        let untold = side.blind && side.grpc.is_none() && block.last && wire.dir == Dir::ToClient;
        let interim = matches!(side.status, Some(100..=199));
        self.top = self.top.max(block.stream);
        if self.first == 0 && wire.dir == Dir::ToServer {
            self.first = block.stream;
        }
        if let (Some(open), false) = (self.open.get(block.stream, wire.dir), block.pushes) {
            if let (Some(class), false) = (failure, open.failed) {
                open.failed = true;
                wire.sink.amend(wire.dir, open.start, Status { outcome: Outcome::Error, code: side.status, class });
            } else if untold && !open.failed {
                wire.sink.amend(wire.dir, open.start, Status { code: side.status, ..Status::default() });
            }
            if block.last {
                self.end(wire, wire.dir, block.stream, (end, EndHow::Framed));
            }
            return;
        }
        let mut status = http::status(side.status);
        if let Some(class) = failure {
            status = Status { outcome: Outcome::Error, class, ..status };
        } else if untold && status.code == Some(200) {
            status.outcome = Outcome::Unknown;
        }
        let role = match wire.dir {
            _ if block.pushes || block.stream.is_multiple_of(2) => Role::Unsolicited,
            Dir::ToServer => Role::Request,
            Dir::ToClient if interim => Role::Interim,
            Dir::ToClient => Role::Reply,
        };
        let mut attrs = side.heading.attrs();
        attrs.cut |= match wire.dir {
            Dir::ToServer => attrs.verb.is_empty() || attrs.target.is_empty(),
            Dir::ToClient => status.outcome == Outcome::Unknown && !block.pushes,
        };
        attrs.status = if wire.dir == Dir::ToClient { status } else { Status::default() };
        let (dir, start, stream, over) = (wire.dir, block.start, block.stream, block.last || block.pushes || interim);
        let border = if over { Border::Known(end) } else { Border::Open };
        let (witnesses, count) = side.heading.witnesses(Some(Witness::Http2(stream)));
        let witnesses = &witnesses[..count];
        wire.sink.message(&Message { dir, role, start, end: border, head_end: end, attrs, witnesses });
        if over {
            return wire.sink.end(dir, start, end, EndHow::Framed);
        }
        if !self.open.add(Open { stream, dir, failed: failure.is_some(), start }) {
            wire.sink.end(dir, start, end, EndHow::Lost);
            wire.sink.defect(Defect::QueueOverflow, dir, start);
        }
    }

    /// A frame of a message's body. A client's is more than that where its stream is answered already, or is older than what was seen: on
    /// such a stream both sides send messages as long as they like.
    fn data(&mut self, wire: &mut Wire<'_>, frame: &Frame, end: u64) {
        let is_clients = wire.dir == Dir::ToServer && frame.length > 0 && !frame.stream.is_multiple_of(2);
        let is_older = self.first == 0 || frame.stream < self.first;
        if is_clients && (is_older || self.open.get(frame.stream, Dir::ToClient).is_some()) {
            wire.whole(Role::Unsolicited, end, 9, Attrs::alone("DATA"), &[Witness::Http2(frame.stream)]);
        }
        if frame.flags & END_STREAM != 0 {
            self.end(wire, wire.dir, frame.stream, (end, EndHow::Framed));
        }
    }

    /// Ends what is open of a stream in a direction; where that began.
    fn end(&mut self, wire: &mut Wire<'_>, dir: Dir, stream: u32, (end, how): (u64, EndHow)) {
        if let Some(start) = self.open.take(stream, dir) {
            wire.sink.end(dir, start, end.max(start), how);
        }
    }

    fn end_all(&mut self, wire: &mut Wire<'_>, dir: Dir, end: u64, how: EndHow) {
        while let Some(stream) = self.open.any(dir) {
            self.end(wire, dir, stream, (end, how));
        }
    }

    fn reset(&mut self, wire: &mut Wire<'_>, stream: u32, code: u32, end: u64) {
        let (dir, other) = (wire.dir, wire.dir.other());
        let status = Status { outcome: Outcome::Error, code: None, class: error(code) };
        let open = self.open.get(stream, dir).map(|open| open.start);
        let is_begun = self.open.get(stream, Dir::ToClient).is_some();
        match open {
            Some(start) if dir == Dir::ToClient => wire.sink.amend(dir, start, status),
            None if dir == Dir::ToClient && code != 0 && stream % 2 == 1 => {
                let attrs = Attrs::status("", status);
                wire.whole(Role::Reply, end, 13, attrs, &[Witness::Http2(stream)]);
            }
            _ => {}
        }
        self.end(wire, dir, stream, (end, EndHow::Framed));
        self.end(wire, other, stream, (wire.next[other.index()], EndHow::Turn));
        if dir == Dir::ToServer && !is_begun && stream % 2 == 1 {
            wire.whole(Role::Withdrawal, end, 13, Attrs::alone("RST_STREAM"), &[Witness::Http2(stream)]);
        }
    }
}

impl Side {
    /// The rest of the head is not to be read, and what it puts into the table is unknown.
    fn go_astray(&mut self) {
        self.table.forget();
        (self.heading.cut, self.blind) = (true, true);
        (self.block.field, self.block.carried, self.block.astray) = (None, 0, true);
    }

    /// Reads the half of a field at the start of `view`; `last`: as much of it is there as will be. How long it is, though more than
    /// is there. `None`: that is not known.
    fn half(&mut self, view: &[u8], last: bool) -> Option<u64> {
        let first = *view.first()?;
        let mut room = [0; HEAD];
        if let Some((name, kept)) = self.block.field {
            let (length, used) = hpack::integer(view, 7)?;
            let total = length.saturating_add(used as u64);
            if name != Name::Other && (view.len() as u64) < total && !last {
                return None;
            }
            let cut = (view.len() as u64) < total;
            let raw = &view[used..view.len().min(total as usize)];
            if name != Name::Other {
                self.value(name, hpack::text(raw, first & 0x80 != 0, &mut room), cut);
            }
            if kept {
                self.keep(name, cut);
            }
            self.block.field = None;
            return Some(total);
        }
        let (bits, kept) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, false),
        };
        let (index, used) = hpack::integer(view, bits)?;
        match (first, index) {
            (0x80.., _) => self.indexed(index),
            (0x20..0x40, _) => {} // the table's new size
            (_, 1..) => {
                self.blind |= !self.table.has(index);
                self.block.field = Some((self.table.get(index).0, kept));
            }
            (_, 0) => {
                let head = view.get(used..)?;
                let (length, more) = hpack::integer(head, 7)?;
                let mut name = Name::Other;
                if length <= Name::LONGEST {
                    match head.get(more..more + length as usize) {
                        Some(raw) => name = Name::of(hpack::text(raw, head[0] & 0x80 != 0, &mut room)),
                        None if last => (self.blind, self.heading.cut) = (true, true), // it may be any
                        None => return None,
                    }
                }
                self.block.field = Some((name, kept));
                return Some(length.saturating_add((used + more) as u64));
            }
        }
        Some(used as u64)
    }

    /// A field that stands in the table.
    fn indexed(&mut self, index: u64) {
        match self.table.get(index) {
            (Name::Method, Known::Text(text)) => self.heading.verb = Text::of(text),
            (Name::Path, Known::Text(text)) => self.heading.target = Text::of(text),
            (Name::Status, Known::Number(code)) => self.status = Some(code),
            (Name::Grpc, Known::Number(code)) => self.grpc = Some(code),
            (name, _) => self.blind |= name == Name::Grpc || !self.table.has(index),
        }
    }

    /// A field that is spelled out.
    fn value(&mut self, name: Name, value: &[u8], cut: bool) {
        match name {
            Name::Path => self.heading.target(value, cut),
            _ if cut => (self.blind, self.heading.cut) = (true, true), // its first part may read as another value
            Name::Method => self.heading.verb = Text::of(value),
            Name::Status => self.status = http::code(value),
            Name::Grpc => self.grpc = core::str::from_utf8(value).ok().and_then(|value| value.parse().ok()),
            Name::HandedOn(field) => self.heading.handed_on(Some(field), value, cut),
            Name::Other => {}
        }
    }

    /// Puts the field just read into the table.
    fn keep(&mut self, name: Name, cut: bool) {
        let Side { table, heading, .. } = self;
        let number = |code: Option<u16>| code.map_or(Known::Unknown, Known::Number);
        let value = match name {
            _ if cut => Known::Unknown,
            Name::Method => Known::Text(heading.verb.bytes()),
            Name::Path if !heading.target.is_cut() => Known::Text(heading.target.bytes()),
            Name::Status => number(self.status),
            Name::Grpc => number(self.grpc),
            _ => Known::Unknown,
        };
        table.insert(name, value);
    }
}
