//! PostgreSQL, protocol 3 (documentation, chapter "Frontend/Backend Protocol").
//!
//! ```text
//! > Q "SELECT * FROM t WHERE id = 17"    request, verb SELECT, target SELECT * FROM t WHERE id = ?
//! < T D D C Z                            one reply, up to and with ReadyForQuery; ok, or error with its SQLSTATE
//! > P B D E S                            one request for each Sync (or each Flush that is answered)
//! ```
//!
//! A statement's shape comes from Query, from Parse, or from the Parse that a Bind names; of 8 prepared statements the
//! shape (cut at 128 bytes) is remembered, else the target is `EXECUTE <prepared>`. A `COPY … FROM STDIN` lasts until
//! CopyDone. Authentication messages are interim and never read; Terminate and CancelRequest are unsolicited. Behind
//! an accepted SSLRequest everything is opaque. Not handled: protocol 2, replication, direct TLS.

use crate::bytes::{be32, until_nul};
use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::shapes::{Cache, Shape};
use crate::{Attrs, Border, Dir, EndHow, Outcome, Role, Status, Text, mask};

/// Bytes kept of a message in each direction: of a statement a little less.
pub const HEAD: usize = 512;

/// The PostgreSQL processor.
pub type Postgres = Duplex<Framing, HEAD>;

/// What of PostgreSQL is remembered between units.
pub struct Framing {
    /// The start-up is over: every client message has a tag.
    tagged: bool,
    /// An SSLRequest or GSSENCRequest waits for its answer of one byte.
    handshake: bool,
    /// Requests that are complete and wait for their ReadyForQuery.
    pending: u32,
    batch: Batch,
    reply: Reply,
    copy: Copy,
    cache: Cache,
}

/// The extended-query messages since the last Sync.
struct Batch {
    /// Offset of the first, or `NONE`.
    start: u64,
    /// The request was emitted.
    told: bool,
    /// Offset behind a Flush that ended them so far, or `NONE`.
    flushed: u64,
}

/// The reply at hand.
struct Reply {
    /// Where it begins, or `NONE`.
    start: u64,
    /// It was emitted; as an error, or amended to one.
    told: bool,
    failed: bool,
    /// It answers a Flush.
    flush: bool,
}

/// A `COPY … FROM STDIN` that was sent by a Query.
struct Copy {
    /// Where the Query begins and ends; `NONE`: there is no such COPY.
    start: u64,
    end: u64,
    /// The server takes the data.
    running: bool,
}

impl Batch {
    const NONE: Batch = Batch { start: NONE, told: false, flushed: NONE };
}

impl Reply {
    const NONE: Reply = Reply { start: NONE, told: false, failed: false, flush: false };
}

impl Copy {
    const NONE: Copy = Copy { start: NONE, end: NONE, running: false };
}

impl Framer for Framing {
    const NEW: Framing = Framing {
        tagged: false,
        handshake: false,
        pending: 0,
        batch: Batch::NONE,
        reply: Reply::NONE,
        copy: Copy::NONE,
        cache: Cache::NEW,
    };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match dir {
            Dir::ToClient if self.handshake => b"SNGE".contains(&bytes[0]).into(),
            // Only behind a request a message is sure not to be the middle of a reply.
            Dir::ToClient if self.pending == 0 && self.batch.start == NONE && !b"NAS".contains(&bytes[0]) => Fit::No,
            Dir::ToServer if bytes[0] == 0 && !self.tagged => startup_fits(bytes),
            _ => plausible(dir, bytes),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let tag = bytes[0];
        match wire.dir {
            Dir::ToClient if self.handshake && tag != b'E' => return self.answer(wire, tag),
            Dir::ToServer if tag == 0 && !self.tagged => return self.startup(wire, bytes),
            _ => {}
        }
        let length = be32(bytes, 1).ok_or(Stop::Need)?;
        if !tags(wire.dir).contains(&tag) || !(4..1 << 31).contains(&length) {
            return Err(BAD);
        }
        // Of these the content is read, as much as is kept; of the others not even that.
        let total = u64::from(length) + 1;
        let read = if wire.dir == Dir::ToServer { b"QPBDC".contains(&tag) } else { tag == b'E' };
        if read && (bytes.len() as u64) < total && !last {
            return Err(Stop::Need);
        }
        let content = &bytes[5..bytes.len().min(total as usize)];
        match wire.dir {
            Dir::ToServer => self.client(wire, tag, content, wire.behind(total)),
            Dir::ToClient => self.server(wire, tag, content, wire.behind(total)),
        }
        Ok(total)
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        match wire.dir {
            Dir::ToServer => {
                self.request(wire, wire.at, Attrs { verb: "?", cut: true, ..Attrs::default() });
                self.batch = Batch::NONE;
            }
            Dir::ToClient => self.answers(wire, Status::default()),
        }
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        match wire.dir {
            Dir::ToServer => self.batch.start = NONE,
            Dir::ToClient => self.reply.start = NONE,
        }
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        match wire.dir {
            Dir::ToServer if lost => {
                (self.pending, self.handshake, self.reply.start) = (0, false, NONE);
                self.copy = Copy::NONE;
            }
            // What the client sent is answered, though its end was not seen.
            Dir::ToClient if lost => self.pending = self.pending.max(1),
            _ => {}
        }
    }

    fn closed(&mut self, wire: &mut Wire<'_>) {
        self.lost(wire);
    }
}

impl Framing {
    fn startup(&mut self, wire: &mut Wire<'_>, bytes: &[u8]) -> Unit {
        let (verb, length) = startup(bytes)?;
        let cancels = verb == "CANCEL";
        self.pending = self.pending.saturating_add(u32::from(!cancels));
        self.handshake = matches!(verb, "SSLREQUEST" | "GSSENCREQUEST");
        self.tagged = verb == "STARTUP";
        let role = if cancels { Role::Unsolicited } else { Role::Request };
        wire.whole(role, wire.behind(length), 8, Attrs::alone(verb), &[]);
        Ok(length)
    }

    /// The one byte that answers an SSLRequest or GSSENCRequest.
    fn answer(&mut self, wire: &mut Wire<'_>, byte: u8) -> Unit {
        if !b"SNG".contains(&byte) {
            return Err(BAD);
        }
        self.handshake = false;
        self.pending = self.pending.saturating_sub(1);
        wire.whole(Role::Reply, wire.behind(1u64), 1, Attrs::status("", Status::OK), &[]);
        if byte == b'N' { Ok(1) } else { Err(Stop::Opaque(1)) }
    }

    fn client(&mut self, wire: &mut Wire<'_>, tag: u8, content: &[u8], end: u64) {
        self.tagged = true;
        self.batch.flushed = NONE; // that Flush was not answered: the batch goes on
        if core::mem::take(&mut self.reply.flush) && self.reply.start != NONE {
            // The reply to a Flush has no end of its own.
            wire.dir = Dir::ToClient;
            self.answers(wire, Status::OK);
            wire.dir = Dir::ToServer;
            wire.end_open(Dir::ToClient, wire.next[1], EndHow::Turn);
            self.reply.start = NONE;
            self.pending = self.pending.saturating_sub(1);
        }
        let loose = self.batch.start == NONE;
        match tag {
            b'Q' | b'F' => self.pending = self.pending.saturating_add(1),
            b'X' | b'p' | b'd' | b'c' | b'f' => {}
            _ if loose => self.batch = Batch { start: wire.at, ..Batch::NONE },
            _ => {}
        }
        let head_end = wire.behind(5 + content.len());
        match tag {
            b'Q' => {
                let shape = statement(content);
                let copies = shape.copies();
                self.copy = Copy { start: if copies { wire.at } else { NONE }, end, running: false };
                let border = if copies { Border::Open } else { Border::Known(end) };
                wire.message(Role::Request, (wire.at, border), head_end, shape.attrs(), &[]);
            }
            b'F' => wire.whole(Role::Request, end, 5, Attrs::alone("FUNCTION CALL"), &[]),
            b'X' => wire.whole(Role::Unsolicited, end, 5, Attrs::alone("TERMINATE"), &[]),
            b'p' => wire.whole(Role::Interim, end, 5, Attrs::alone("AUTH"), &[]),
            b'd' | b'c' | b'f' if loose => {
                if !wire.is_open(Dir::ToServer) {
                    // The data of a COPY whose own request has ended (by a Sync).
                    wire.begin(Role::Interim, 5, Attrs::alone("COPY"), &[]);
                }
                if tag != b'd' {
                    wire.end_open(Dir::ToServer, end, EndHow::Framed);
                    self.copy = Copy::NONE;
                }
            }
            b'P' => {
                let (name, cut) = until_nul(content);
                let shape = statement(content.get(name.len() + 1..).unwrap_or(&[]));
                if !cut {
                    self.cache.put(mask::fnv1a(name), shape.kept());
                }
                self.request(wire, head_end, shape.attrs());
            }
            // Of a Describe only the one of a statement says something.
            b'B' | b'D' if tag == b'B' || content.first() == Some(&b'S') => {
                let portal = if tag == b'B' { until_nul(content).0.len() + 1 } else { 1 };
                let (name, cut) = until_nul(content.get(portal..).unwrap_or(&[]));
                let shape = if cut { Shape::unknown() } else { self.cache.get(mask::fnv1a(name)) };
                self.request(wire, head_end, shape.attrs());
            }
            b'C' if content.first() == Some(&b'S') => self.cache.forget(mask::fnv1a(until_nul(&content[1..]).0)),
            b'H' => self.batch.flushed = end,
            b'S' => self.end_batch(wire, end, "SYNC"),
            _ => {}
        }
    }

    /// Emits the request of the batch, unless that was done.
    fn request(&mut self, wire: &mut Wire<'_>, head_end: u64, attrs: Attrs<'_>) {
        if self.batch.start != NONE && !core::mem::replace(&mut self.batch.told, true) {
            let dir = core::mem::replace(&mut wire.dir, Dir::ToServer);
            wire.message(Role::Request, (self.batch.start, Border::Open), head_end, attrs, &[]);
            wire.dir = dir;
        }
    }

    fn end_batch(&mut self, wire: &mut Wire<'_>, end: u64, verb: &str) {
        self.request(wire, end, Attrs::alone(verb));
        wire.end_open(Dir::ToServer, end, EndHow::Framed);
        (self.batch.start, self.batch.flushed) = (NONE, NONE);
        self.pending = self.pending.saturating_add(1);
    }

    fn server(&mut self, wire: &mut Wire<'_>, tag: u8, content: &[u8], end: u64) {
        if self.reply.start == NONE {
            let flush = self.batch.flushed != NONE && self.pending == 0;
            if flush {
                self.end_batch(wire, self.batch.flushed, "FLUSH");
            }
            let pushed = match tag {
                b'A' => Some("NOTIFY"),
                b'N' if self.pending == 0 => Some("NOTICE"),
                b'S' if self.pending == 0 => Some("PARAMETER"),
                _ => None,
            };
            self.reply.flush |= flush;
            if let Some(verb) = pushed {
                return wire.whole(Role::Unsolicited, end, 5, Attrs::status(verb, Status::default()), &[]);
            }
            self.reply = Reply { start: wire.at, flush: self.reply.flush, ..Reply::NONE };
        }
        match tag {
            b'E' => {
                let class = sqlstate(content);
                let status = Status { outcome: Outcome::Error, code: None, class: class.as_str() };
                self.end_copy(wire);
                if self.reply.told && !self.reply.failed {
                    wire.sink.amend(wire.dir, self.reply.start, status);
                }
                self.answers(wire, status);
                self.reply.failed = true;
            }
            b'G' | b'C' | b'I' | b's' | b'D' | b'd' | b'H' | b'W' | b'V' => {
                self.copy.running |= tag == b'G';
                self.answers(wire, Status::OK);
            }
            b'Z' => {
                self.end_copy(wire);
                self.answers(wire, Status::OK);
                wire.end_open(Dir::ToClient, end, EndHow::Framed);
                (self.reply.start, self.reply.flush) = (NONE, false);
                self.pending = self.pending.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// A COPY from the client that the server did not begin, or ended by an error, is over.
    fn end_copy(&mut self, wire: &mut Wire<'_>) {
        let Copy { start, end, running } = core::mem::replace(&mut self.copy, Copy::NONE);
        // Where it is not what is open, it has ended.
        if start != NONE && wire.open[0] == start {
            let (end, how) = if running { (wire.next[0], EndHow::Turn) } else { (end, EndHow::Framed) };
            wire.end_open(Dir::ToServer, end, how);
        }
    }

    /// Emits the reply, unless that was done.
    fn answers(&mut self, wire: &mut Wire<'_>, status: Status<'_>) {
        if self.reply.start != NONE && !core::mem::replace(&mut self.reply.told, true) {
            let span = (self.reply.start, Border::Open);
            wire.message(Role::Reply, span, wire.behind(5u64), Attrs::status("", status), &[]);
        }
    }
}

fn tags(dir: Dir) -> &'static [u8] {
    if dir == Dir::ToServer { b"QPBDECHSFXpdcf" } else { b"RKS123TtnDCIsZENAGHWdcVv" }
}

/// What the first, untagged message of a flow is, and its length: behind that a version or a code that is none.
fn startup(bytes: &[u8]) -> Result<(&'static str, u64), Stop> {
    let (code, length) = (be32(bytes, 4).ok_or(Stop::Need)?, be32(bytes, 0).unwrap_or(0));
    let verb = match (code, length) {
        (80_877_102, 16..=272) => "CANCEL",
        (80_877_103, 8) => "SSLREQUEST",
        (80_877_104, 8) => "GSSENCREQUEST",
        (0x3_0000..=0x3_ffff, 8..=10_000) => "STARTUP",
        _ => return Err(BAD),
    };
    Ok((verb, length.into()))
}

/// The shape of the statement up to a NUL.
fn statement(content: &[u8]) -> Shape {
    let (text, cut) = until_nul(content);
    Shape::of(text, cut, mask::Sql::Postgres)
}

/// The field `C` of an ErrorResponse: five capitals and digits.
fn sqlstate(content: &[u8]) -> Text<5> {
    let state = content.split(|&b| b == 0).find_map(|field| field.strip_prefix(b"C")).unwrap_or(&[]);
    let plain = state.len() == 5 && state.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if plain { Text::of(state) } else { Text::new() }
}

fn startup_fits(bytes: &[u8]) -> Fit {
    match startup(bytes) {
        Err(Stop::Need) => Fit::More,
        verb => verb.is_ok().into(),
    }
}

fn plausible(dir: Dir, bytes: &[u8]) -> Fit {
    match be32(bytes, 1) {
        _ if !tags(dir).contains(&bytes[0]) => Fit::No,
        None => Fit::More,
        Some(length) => (4..1 << 26).contains(&length).into(),
    }
}

/// Whether a flow of which these are the first bytes is PostgreSQL: by its start-up message; on its usual port also
/// by a message from the middle.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    match dir {
        Dir::ToServer if bytes[0] == 0 => startup_fits(bytes),
        _ if usual => plausible(dir, bytes),
        _ => sure(dir, bytes).into(),
    }
}

/// Joined in mid-stream on any port: a chain of messages that asks for something, or is a whole reply, and ends where the
/// bytes end; or one statement in plain text that goes beyond them. Nothing else looks like that.
fn sure(dir: Dir, bytes: &[u8]) -> bool {
    let text = bytes.get(5..).unwrap_or(&[]);
    let beyond = be32(bytes, 1).is_some_and(|length| (bytes.len()..1 << 24).contains(&(length as usize)));
    if dir == Dir::ToServer && bytes[0] == b'Q' && beyond {
        let shown = text.iter().all(|b| !b.is_ascii_control() || b.is_ascii_whitespace());
        return text.len() >= 16 && text[0].is_ascii_alphabetic() && shown;
    }
    match (dir, last_of_chain(bytes, tags(dir))) {
        (Dir::ToServer, Some((b'Q', [first, .., 0]))) => !first.is_ascii_control(),
        (Dir::ToServer, Some((b'S', []))) => bytes[0] != b'S',
        (Dir::ToClient, Some((b'Z', [b'I' | b'T' | b'E']))) => true,
        _ => false,
    }
}

/// Tag and body of the last of a chain of whole messages that ends exactly where the bytes end.
fn last_of_chain<'a>(mut bytes: &'a [u8], tags: &[u8]) -> Option<(u8, &'a [u8])> {
    loop {
        let (tag, length) = (*bytes.first()?, be32(bytes, 1)? as usize);
        if !tags.contains(&tag) || length < 4 || length >= bytes.len() {
            return None;
        }
        let (message, rest) = bytes.split_at(1 + length);
        if rest.is_empty() {
            return Some((tag, &message[5..]));
        }
        bytes = rest;
    }
}
