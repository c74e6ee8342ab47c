//! FastCGI (specification 1.0, at fastcgi-archives.github.io).
//!
//! ```text
//! > BEGIN_REQUEST(1) PARAMS(1) … STDIN(1)     request, verb from REQUEST_METHOD, target from REQUEST_URI
//! < STDOUT(1) "Status: 404 …" END_REQUEST(1)  reply, code 404, error
//! ```
//!
//! Both are witnessed by the request id; requests of several ids may be interleaved (8 at a time), so that messages
//! of one direction may overlap. A reply without `Status` is a 200 (RFC 3875, 6.2.1). A parameter that is split over
//! two records ends the reading of parameters: the attributes are cut. Management records (id 0) are passed over.

use crate::bytes::be16;
use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::http::{self, HandedOn, Heading};
use crate::registry::{About, Askers, Docs};
use crate::{Attrs, Border, Defect, Dir, EndHow, Message, Outcome, Role, Status, Text, Witness};

/// Bytes kept in each direction: of a parameter, or of the head in the first STDOUT record.
pub const HEAD: usize = 512;

/// The FastCGI processor.
pub type FastCgi = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.fastcgi",
    ports: &[9000],
    recognise,
    vocabulary: http::VOCABULARY,
    askers: Askers::People,
    bytes_max: 3328,
    docs: Docs {
        what: "FastCGI 1.0",
        request: "BEGIN_REQUEST to the end of STDIN",
        kept: "method, path template, status",
        pairs: "request id",
    },
    ..About::NEW
};

/// What of FastCGI is remembered between units.
pub struct Framing {
    /// Inside a PARAMS record.
    params: Option<Params>,
    slots: [Slot; 8],
}

#[derive(Clone, Copy)]
struct Params {
    id: u16,
    left: u32,
    padding: u8,
}

/// An open request.
struct Slot {
    /// 0: free.
    id: u16,
    /// Starts of request and reply, `NONE` if not open.
    start: [u64; 2],
    /// Which of them were emitted.
    told: [bool; 2],
    /// The connection is closed after its reply: there is no other request (no FCGI_KEEP_CONN).
    is_only: bool,
    heading: Heading<128>,
}

impl Slot {
    const FREE: Slot = Slot { id: 0, start: [NONE; 2], told: [false; 2], is_only: false, heading: Heading::NEW };

    /// Emits the request or reply of this slot, unless that was done.
    fn tell(&mut self, wire: &mut Wire<'_>, dir: Dir, head_end: u64, status: Status<'_>) {
        let start = self.start[dir.index()];
        if start == NONE || core::mem::replace(&mut self.told[dir.index()], true) {
            return;
        }
        let (witnesses, count) = self.heading.witnesses(Some(Witness::FastCgi(self.id)));
        let (role, attrs, count) = match dir {
            Dir::ToServer => (Role::Request, self.heading.attrs(), count),
            Dir::ToClient => {
                let cut = status.outcome == Outcome::Unknown;
                (Role::Reply, Attrs { status, cut, ..Attrs::default() }, 1)
            }
        };
        let witnesses = &witnesses[..count];
        wire.sink.message(&Message { dir, role, start, end: Border::Open, head_end, attrs, witnesses });
    }

    fn end(&mut self, wire: &mut Wire<'_>, dir: Dir, end: u64, how: EndHow) {
        self.tell(wire, dir, end, Status::default());
        let start = core::mem::replace(&mut self.start[dir.index()], NONE);
        if start != NONE {
            wire.sink.end(dir, start, end, how);
        }
    }

    fn learn(&mut self, key: &[u8], value: &[u8], cut: bool) {
        self.heading.cut |= cut;
        match key {
            b"REQUEST_METHOD" => self.heading.verb = Text::of(value),
            b"REQUEST_URI" => self.heading.target(value, cut),
            b"SCRIPT_NAME" if self.heading.target.bytes().is_empty() => self.heading.target(value, cut),
            _ => self.heading.handed_on(HandedOn::of_parameter(key), value, cut),
        }
    }
}

const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
/// Of a BEGIN_REQUEST's flags: the application keeps the connection (specification, 5.1).
const KEEP_CONNECTION: u8 = 1;

impl Framer for Framing {
    const NEW: Framing = Framing { params: None, slots: [const { Slot::FREE }; 8] };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match (bytes, dir) {
            ([1, BEGIN..=11, _, _, _, _, _, 0, ..], Dir::ToServer) => Fit::Yes,
            ([1, END | STDOUT | STDERR | 10 | 11, _, _, _, _, _, 0, ..], _) => Fit::Yes,
            ([1, ..] | [], _) if bytes.len() < 8 => Fit::More,
            _ => Fit::No,
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        if let (Dir::ToServer, Some(params)) = (wire.dir, self.params) {
            return self.param(params, bytes, last);
        }
        let &[version, kind, _, _, _, _, padding, _] = bytes.first_chunk().ok_or(Stop::Need)?;
        if version != 1 || !(BEGIN..=11).contains(&kind) {
            return Err(BAD);
        }
        let (id, length) = (be16(bytes, 2).unwrap_or(0), be16(bytes, 4).unwrap_or(0));
        let total = 8 + u64::from(length) + u64::from(padding);
        let end = wire.behind(total);
        match (wire.dir, kind) {
            (Dir::ToServer, BEGIN) if id != 0 => {
                if bytes.len() < 11 && length == 8 && !last {
                    return Err(Stop::Need);
                }
                // a body of another length has no flags there
                let flags = bytes.get(10).filter(|_| length == 8);
                self.begin(wire, id, flags.is_some_and(|flags| flags & KEEP_CONNECTION == 0));
            }
            (Dir::ToServer, PARAMS) if length > 0 => {
                self.params = Some(Params { id, left: length.into(), padding });
                return Ok(8);
            }
            (Dir::ToServer, PARAMS) => self.with(id, |slot| slot.tell(wire, Dir::ToServer, end, Status::default())),
            (Dir::ToServer, STDIN) if length == 0 => {
                self.with(id, |slot| slot.end(wire, Dir::ToServer, end, EndHow::Framed));
            }
            (Dir::ToClient, STDOUT | STDERR | END) => {
                let head = 8 + usize::from(length);
                if kind != STDERR && bytes.len() < head && !last {
                    return Err(Stop::Need);
                }
                // One whose request was not seen began before this was.
                let content = &bytes[8..bytes.len().min(head)];
                self.with(id, |slot| slot.answer(wire, kind, content, end));
            }
            _ => {}
        }
        Ok(total)
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        self.params = self.params.filter(|_| wire.dir == Dir::ToClient);
        for slot in &mut self.slots {
            slot.heading.cut |= wire.dir == Dir::ToServer;
            slot.tell(wire, wire.dir, wire.at, Status::default());
        }
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if lost {
            let dir = wire.dir.other();
            self.end_all(wire, dir, wire.next[dir.index()], EndHow::Turn);
        }
    }

    fn closed(&mut self, wire: &mut Wire<'_>) {
        self.end_all(wire, wire.dir, wire.at, EndHow::Close);
    }

    fn alone(&self, wire: &Wire<'_>) -> bool {
        let mut open = self.slots.iter().filter(|slot| slot.id != 0);
        let d = wire.dir.index();
        // of a request, parameters are read before the head's end is told, so that nothing else can be missing
        open.next().is_some_and(|slot| if d == 0 { slot.is_only } else { slot.told[1] }) && open.next().is_none()
    }
}

impl Framing {
    fn with(&mut self, id: u16, what: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.id == id && id != 0) {
            what(slot);
        }
    }

    fn end_all(&mut self, wire: &mut Wire<'_>, dir: Dir, end: u64, how: EndHow) {
        for slot in &mut self.slots {
            slot.end(wire, dir, end, how);
            if dir == Dir::ToClient && slot.told[1] {
                *slot = Slot::FREE;
            }
        }
    }

    fn begin(&mut self, wire: &mut Wire<'_>, id: u16, is_only: bool) {
        self.with(id, |slot| {
            // Its end was not seen, or the id would not be used again.
            slot.end(wire, Dir::ToServer, wire.at, EndHow::Lost);
            slot.end(wire, Dir::ToClient, wire.next[1], EndHow::Lost);
            *slot = Slot::FREE;
        });
        match self.slots.iter_mut().find(|slot| slot.id == 0) {
            Some(slot) => *slot = Slot { id, start: [wire.at, NONE], is_only, ..Slot::FREE },
            None => wire.sink.defect(Defect::QueueOverflow, wire.dir, wire.at),
        }
    }

    /// One name-value pair of a PARAMS record (specification, 3.4).
    fn param(&mut self, params: Params, bytes: &[u8], last: bool) -> Unit {
        let Params { id, left, padding } = params;
        let all = &bytes[..bytes.len().min(left as usize)];
        let rest = u64::from(left) + u64::from(padding);
        let pair = pair(all);
        let Some((name, value)) = pair.filter(|(name, value)| value.1 <= left as usize && *name <= value.0) else {
            if pair.is_none() && all.len() < left as usize && (!last || all.len() < 8) {
                return Err(Stop::Need);
            }
            // The pair goes on in the next record, or is no pair.
            self.params = None;
            self.with(id, |slot| slot.heading.cut = true);
            return Ok(rest);
        };
        if value.0 - name <= HandedOn::LONGEST_PARAMETER && all.len() < value.0 && !last {
            return Err(Stop::Need);
        }
        if let Some(key) =
            all.get(name..value.0).filter(|key| WANTED.contains(key) || HandedOn::of_parameter(key).is_some())
        {
            if all.len() < value.1 && !last {
                return Err(Stop::Need);
            }
            let text = &all[value.0..value.1.min(all.len())];
            self.with(id, |slot| slot.learn(key, text, all.len() < value.1));
        }
        let length = value.1 as u64;
        let over = length == u64::from(left);
        self.params = if over { None } else { Some(Params { left: left - value.1 as u32, ..params }) };
        Ok(if over { rest } else { length })
    }
}

impl Slot {
    fn answer(&mut self, wire: &mut Wire<'_>, kind: u8, content: &[u8], end: u64) {
        if self.start[1] == NONE {
            self.start[1] = wire.at;
        }
        let head_end = wire.behind(8 + content.len());
        if kind == STDOUT && !content.is_empty() {
            self.tell(wire, Dir::ToClient, head_end, cgi_status(content));
        }
        if kind == END {
            let outcome = match content.first_chunk() {
                Some([0, 0, 0, 0, 0]) => Outcome::Ok,
                Some(_) => Outcome::Error,
                None => Outcome::Unknown,
            };
            let status = Status { outcome, ..Status::default() };
            if self.told[1] && outcome == Outcome::Error {
                wire.sink.amend(Dir::ToClient, self.start[1], status);
            }
            self.tell(wire, Dir::ToClient, head_end, status);
            self.end(wire, Dir::ToClient, end, EndHow::Framed);
            self.end(wire, Dir::ToServer, wire.next[0], EndHow::Turn);
            *self = Slot::FREE;
        }
    }
}

const WANTED: [&[u8]; 3] = [b"REQUEST_METHOD", b"REQUEST_URI", b"SCRIPT_NAME"];

/// Where the name of a pair begins, and where its value begins and ends.
fn pair(bytes: &[u8]) -> Option<(usize, (usize, usize))> {
    let (name, used) = size(bytes)?;
    let (value, more) = size(bytes.get(used..)?)?;
    let start = used + more;
    let middle = start.checked_add(name)?;
    Some((start, (middle, middle.checked_add(value)?)))
}

/// A length of one byte, or of four with the top bit set; and how many bytes that took.
fn size(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes.first()? {
        short @ 0..=127 => Some((short.into(), 1)),
        _ => Some(((u32::from_be_bytes(*bytes.first_chunk()?) & 0x7fff_ffff) as usize, 4)),
    }
}

/// The status in the head of a CGI response (RFC 3875, 6).
fn cgi_status(head: &[u8]) -> Status<'static> {
    let mut code = None;
    for line in head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii) {
        if line.is_empty() {
            return http::status(code.or(Some(200)));
        }
        let (name, value) = line.split_at(line.len().min(7));
        if name.eq_ignore_ascii_case(b"status:") {
            code = http::code(value.trim_ascii_start());
        }
    }
    http::status(code)
}

/// Whether a flow of which these are the first bytes is FastCGI: by a BEGIN_REQUEST with its fixed length, or by the empty
/// STDIN that ends a request, which a server that answered before may read first after its reply.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    // kind and content length; the id and the padding may be any
    let same = |(i, (a, b)): (usize, (&u8, u8))| matches!(i, 2 | 3 | 6) || *a == b;
    let is = |kind, length| bytes.iter().zip([1, kind, 0, 0, 0, length, 0, 0]).enumerate().all(same);
    match (dir, bytes) {
        (Dir::ToServer, _) if is(BEGIN, 8) => match bytes.get(8..16) {
            Some([0, 1..=3, 0 | 1, 0, 0, 0, 0, 0]) => Fit::Sure, // role and flags, and what is reserved
            other => other.map_or(Fit::More, |_| Fit::No),
        },
        (Dir::ToServer, _) if is(STDIN, 0) => [Fit::More, Fit::Yes][usize::from(bytes.len() >= 8)],
        (Dir::ToClient, [1, STDOUT | STDERR | END, _, _, _, _, _, 0, ..]) => usual.into(),
        (Dir::ToClient, [1, ..]) if bytes.len() < 8 && usual => Fit::More,
        _ => Fit::No,
    }
}
