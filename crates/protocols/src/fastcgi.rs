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

use crate::duplex::{Duplex, Fit, Framer, NONE, Step, Wire};
use crate::http1::traceparent;
use crate::{Attrs, Border, Defect, Dir, EndHow, Message, Outcome, Role, Status, Text};
use crate::{Witness, mask};

/// Bytes kept in each direction: of a parameter, or of the head in the first STDOUT record.
pub const HEAD: usize = 512;

/// The FastCGI processor.
pub type FastCgi = Duplex<Framing, HEAD>;

impl FastCgi {
    /// For a flow at its start or joined in mid-stream.
    pub const fn new() -> Self {
        Duplex::with(Framing { params: None, slots: [const { Slot::FREE }; 8] })
    }
}

impl Default for FastCgi {
    fn default() -> Self {
        Self::new()
    }
}

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
    cut: bool,
    verb: Text<16>,
    target: Text<128>,
    witnesses: [Option<Witness>; 2],
}

impl Slot {
    const FREE: Slot = Slot {
        id: 0,
        start: [NONE; 2],
        told: [false; 2],
        cut: false,
        verb: Text::new(),
        target: Text::new(),
        witnesses: [None; 2],
    };

    /// Emits the request or reply of this slot, unless that was done.
    fn tell(&mut self, wire: &mut Wire<'_>, dir: Dir, head_end: u64, status: Status<'_>) {
        let start = self.start[dir.index()];
        if start == NONE || core::mem::replace(&mut self.told[dir.index()], true) {
            return;
        }
        let attrs = match dir {
            Dir::ToServer => Attrs {
                verb: self.verb.as_str(),
                target: self.target.as_str(),
                cut: self.cut || self.target.is_cut(),
                ..Attrs::default()
            },
            Dir::ToClient => Attrs { status, cut: status.outcome == Outcome::Unknown, ..Attrs::default() },
        };
        let mut witnesses = [Witness::FastCgi(self.id); 3];
        let mut count = 1;
        if dir == Dir::ToServer {
            for &witness in self.witnesses.iter().flatten() {
                witnesses[count] = witness;
                count += 1;
            }
        }
        let role = match dir {
            Dir::ToServer => Role::Request,
            Dir::ToClient => Role::Reply,
        };
        wire.sink.message(&Message {
            dir,
            role,
            start,
            end: Border::Open,
            head_end,
            attrs,
            witnesses: &witnesses[..count],
        });
    }

    fn end(&mut self, wire: &mut Wire<'_>, dir: Dir, end: u64, how: EndHow) {
        self.tell(wire, dir, end, Status::default());
        let start = core::mem::replace(&mut self.start[dir.index()], NONE);
        if start != NONE {
            wire.sink.end(dir, start, end, how);
        }
    }
}

const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

impl Framer for Framing {
    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match (bytes, dir) {
            ([1, BEGIN..=11, _, _, _, _, _, 0, ..], Dir::ToServer) => Fit::Yes,
            ([1, END | STDOUT | STDERR | 10 | 11, _, _, _, _, _, 0, ..], _) => Fit::Yes,
            ([1, ..] | [], _) if bytes.len() < 8 => Fit::More,
            _ => Fit::No,
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step {
        if let (Dir::ToServer, Some(params)) = (wire.dir, self.params) {
            return self.param(params, bytes, last);
        }
        let Some(&[version, kind, id1, id0, len1, len0, padding, _]) = bytes.first_chunk() else {
            return Step::Need;
        };
        if version != 1 || !(BEGIN..=11).contains(&kind) {
            return Step::Lost(Some(Defect::BadHead));
        }
        let id = u16::from_be_bytes([id1, id0]);
        let length = u16::from_be_bytes([len1, len0]);
        let total = 8 + u64::from(length) + u64::from(padding);
        let end = wire.at.saturating_add(total);
        match (wire.dir, kind) {
            (Dir::ToServer, BEGIN) if id != 0 => self.begin(wire, id),
            (Dir::ToServer, PARAMS) if length > 0 => {
                self.params = Some(Params { id, left: length.into(), padding });
                return Step::Take(8);
            }
            (Dir::ToServer, PARAMS) => {
                if let Some(slot) = self.slot(id) {
                    slot.tell(wire, Dir::ToServer, end, Status::default());
                }
            }
            (Dir::ToServer, STDIN) if length == 0 => {
                if let Some(slot) = self.slot(id) {
                    slot.end(wire, Dir::ToServer, end, EndHow::Framed);
                }
            }
            (Dir::ToClient, STDOUT | STDERR | END) => {
                let head = 8 + usize::from(length);
                if kind != STDERR && bytes.len() < head && !last {
                    return Step::Need;
                }
                let content = &bytes[8..bytes.len().min(head)];
                self.answer(wire, (kind, id), content, end);
            }
            _ => {}
        }
        Step::Take(total)
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        let (dir, at) = (wire.dir, wire.at);
        for slot in &mut self.slots {
            slot.cut |= dir == Dir::ToServer;
            slot.tell(wire, dir, at, Status::default());
        }
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        if wire.dir == Dir::ToServer {
            self.params = None;
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
}

impl Framing {
    fn slot(&mut self, id: u16) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.id == id && id != 0)
    }

    fn end_all(&mut self, wire: &mut Wire<'_>, dir: Dir, end: u64, how: EndHow) {
        for slot in &mut self.slots {
            slot.end(wire, dir, end, how);
            if dir == Dir::ToClient && slot.told[1] {
                *slot = Slot::FREE;
            }
        }
    }

    fn begin(&mut self, wire: &mut Wire<'_>, id: u16) {
        let at = wire.at;
        if let Some(slot) = self.slot(id) {
            // Its end was not seen, or the id would not be used again.
            slot.end(wire, Dir::ToServer, at, EndHow::Lost);
            slot.end(wire, Dir::ToClient, wire.next[1], EndHow::Lost);
            *slot = Slot::FREE;
        }
        match self.slots.iter_mut().find(|slot| slot.id == 0) {
            Some(slot) => {
                *slot = Slot::FREE;
                slot.id = id;
                slot.start[0] = at;
            }
            None => wire.sink.defect(Defect::QueueOverflow, wire.dir, at),
        }
    }

    /// One name-value pair of a PARAMS record (specification, 3.4).
    fn param(&mut self, params: Params, bytes: &[u8], last: bool) -> Step {
        let Params { id, left, padding } = params;
        let all = &bytes[..bytes.len().min(left as usize)];
        let rest = u64::from(left) + u64::from(padding);
        let pair = pair(all);
        let whole = pair.is_some_and(|(name, value)| value.1 <= left as usize && name <= value.0);
        let Some((name, value)) = pair.filter(|_| whole) else {
            if all.len() < left as usize && pair.is_none() && !last {
                return Step::Need;
            }
            if pair.is_none() && all.len() < left.min(8) as usize {
                return Step::Lost(Some(Defect::BorderLost));
            }
            // The pair goes on in the next record, or is no pair.
            self.params = None;
            if let Some(slot) = self.slot(id) {
                slot.cut = true;
            }
            return Step::Take(rest);
        };
        if value.0 - name <= 20 && all.len() < value.0 && !last {
            return Step::Need;
        }
        if let Some(key) = all.get(name..value.0).filter(|key| wanted(key)) {
            if all.len() < value.1 && !last {
                return Step::Need;
            }
            let text = &all[value.0..value.1.min(all.len())];
            let text_cut = all.len() < value.1;
            if let Some(slot) = self.slot(id) {
                slot.learn(key, text, text_cut);
            }
        }
        let length = value.1 as u64;
        if length == u64::from(left) {
            self.params = None;
            return Step::Take(rest);
        }
        self.params = Some(Params { left: left - value.1 as u32, ..params });
        Step::Take(length)
    }

    fn answer(&mut self, wire: &mut Wire<'_>, what: (u8, u16), content: &[u8], end: u64) {
        let (kind, id) = what;
        let at = wire.at;
        let Some(slot) = self.slot(id) else {
            return; // its request was not seen, so neither was the start of this
        };
        if slot.start[1] == NONE {
            slot.start[1] = at;
        }
        let head_end = at.saturating_add(8 + content.len() as u64);
        if kind == STDOUT && !content.is_empty() {
            slot.tell(wire, Dir::ToClient, head_end, cgi_status(content));
        }
        if kind == END {
            let failed = content.get(..5).is_some_and(|status| status != [0; 5].as_slice());
            let outcome = match (content.len(), failed) {
                (_, true) => Outcome::Error,
                (5.., false) => Outcome::Ok,
                _ => Outcome::Unknown,
            };
            let status = Status { outcome, ..Status::default() };
            if slot.told[1] && failed {
                wire.sink.amend(Dir::ToClient, slot.start[1], status);
            }
            slot.tell(wire, Dir::ToClient, head_end, status);
            slot.end(wire, Dir::ToClient, end, EndHow::Framed);
            slot.end(wire, Dir::ToServer, wire.next[0], EndHow::Turn);
            *slot = Slot::FREE;
        }
    }
}

impl Slot {
    fn learn(&mut self, key: &[u8], value: &[u8], cut: bool) {
        self.cut |= cut;
        match key {
            b"REQUEST_METHOD" => self.verb = Text::of(value),
            b"REQUEST_URI" => {
                self.target = Text::new();
                mask::path(value, cut, &mut self.target);
            }
            b"SCRIPT_NAME" if self.target.bytes().is_empty() => {
                mask::path(value, cut, &mut self.target);
            }
            b"HTTP_TRACEPARENT" => self.witnesses[0] = traceparent(value),
            b"HTTP_X_REQUEST_ID" if !cut => {
                self.witnesses[1] = Some(Witness::XRequestId(mask::fnv1a(value.trim_ascii())));
            }
            _ => {}
        }
    }
}

fn wanted(key: &[u8]) -> bool {
    [&b"REQUEST_METHOD"[..], b"REQUEST_URI", b"SCRIPT_NAME", b"HTTP_TRACEPARENT", b"HTTP_X_REQUEST_ID"].contains(&key)
}

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
        _ => {
            let long = u32::from_be_bytes(*bytes.first_chunk()?) & 0x7fff_ffff;
            Some((long as usize, 4))
        }
    }
}

/// The status in the head of a CGI response (RFC 3875, 6).
fn cgi_status(head: &[u8]) -> Status<'static> {
    let mut code = None;
    let mut whole = false;
    for line in head.split(|&b| b == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() {
            whole = true;
            break;
        }
        let (name, value) = line.split_at(line.len().min(7));
        if name.eq_ignore_ascii_case(b"status:") {
            let digits = value.trim_ascii_start().first_chunk::<3>();
            let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
            code = digits.map(|digits| digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0')));
        }
    }
    if code.is_none() && whole {
        code = Some(200);
    }
    Status {
        outcome: match code {
            None => Outcome::Unknown,
            Some(..=399) => Outcome::Ok,
            Some(_) => Outcome::Error,
        },
        code,
        class: "",
    }
}

/// Whether a flow of which these are the first bytes is FastCGI: by a BEGIN_REQUEST with its fixed length.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    const HEADER: [Option<u8>; 8] = [Some(1), Some(BEGIN), None, None, Some(0), Some(8), None, Some(0)];
    let begins = bytes.iter().zip(HEADER).all(|(&byte, want)| want.is_none_or(|want| want == byte));
    match (dir, bytes) {
        (Dir::ToServer, _) if begins && bytes.len() < 8 => Fit::More,
        (Dir::ToServer, _) => begins.into(),
        (Dir::ToClient, [1, STDOUT | STDERR | END, _, _, _, _, _, 0, ..]) => usual.into(),
        (Dir::ToClient, [1, ..]) if bytes.len() < 8 && usual => Fit::More,
        _ => Fit::No,
    }
}
