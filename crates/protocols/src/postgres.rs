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

use crate::duplex::{Duplex, Fit, Framer, NONE, Step, Wire};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, Text, mask};

/// Bytes kept of a message in each direction: of a statement a little less.
pub const HEAD: usize = 512;

/// The PostgreSQL processor.
pub type Postgres = Duplex<Framing, HEAD>;

impl Postgres {
    /// For a flow at its start or joined in mid-stream.
    pub const fn new() -> Self {
        Duplex::with(Framing {
            tagged: false,
            handshake: false,
            pending: 0,
            batch: Batch::NONE,
            copy: Copy::NONE,
            named: false,
            failed: false,
            cache: Cache { slots: [const { (0, Text::new()) }; 8], next: 0 },
        })
    }
}

impl Default for Postgres {
    fn default() -> Self {
        Self::new()
    }
}

/// What of PostgreSQL is remembered between units.
pub struct Framing {
    /// The start-up is over: every client message has a tag.
    tagged: bool,
    /// An SSLRequest or GSSENCRequest waits for its answer of one byte.
    handshake: bool,
    /// Requests that are complete and wait for their ReadyForQuery.
    pending: u32,
    batch: Batch,
    copy: Copy,
    /// The open reply was emitted; before, only its start is known.
    named: bool,
    /// The open reply was emitted as an error, or amended to one.
    failed: bool,
    cache: Cache,
}

/// The extended-query messages since the last Sync.
struct Batch {
    /// Offset of the first, or `NONE`.
    start: u64,
    named: bool,
    /// Offset behind a Flush that ended them so far, or `NONE`.
    flushed: u64,
    /// Start of the open reply, or `NONE`.
    reply: u64,
    /// The open reply answers a Flush.
    answered: bool,
}

impl Batch {
    const NONE: Batch = Batch { start: NONE, named: false, flushed: NONE, reply: NONE, answered: false };
}

/// A `COPY … FROM STDIN` that was sent by a Query.
struct Copy {
    /// Where the Query begins and ends; `NONE`: there is no such COPY.
    start: u64,
    end: u64,
    /// The server takes the data.
    running: bool,
}

impl Copy {
    const NONE: Copy = Copy { start: NONE, end: NONE, running: false };
}

impl Framer for Framing {
    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        if dir == Dir::ToClient && self.handshake {
            return matches!(bytes[0], b'S' | b'N' | b'G' | b'E').into();
        }
        let tag_fits = match dir {
            Dir::ToServer if bytes[0] == 0 => !self.tagged,
            Dir::ToServer => CLIENT_TAGS.contains(&bytes[0]),
            // Only behind a request a message is sure not to be the middle of a reply.
            Dir::ToClient => {
                SERVER_TAGS.contains(&bytes[0])
                    && (self.pending > 0 || self.batch.start != NONE || b"NAS".contains(&bytes[0]))
            }
        };
        match (tag_fits, length(bytes)) {
            (false, _) => Fit::No,
            (true, None) => Fit::More,
            (true, Some(_)) if bytes[0] == 0 && bytes.len() < 8 => Fit::More,
            (true, Some(_)) if bytes[0] == 0 => startup_verb(bytes).is_some().into(),
            (true, Some(length)) => (4..1 << 26).contains(&length).into(),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step {
        if wire.dir == Dir::ToClient && self.handshake && bytes[0] != b'E' {
            return self.answer(wire, bytes[0]);
        }
        if bytes.len() < 8 && bytes[0] == 0 && !last {
            return Step::Need;
        }
        let Some(length) = length(bytes) else {
            return if last { Step::Lost(Some(Defect::BorderLost)) } else { Step::Need };
        };
        if wire.dir == Dir::ToServer && bytes[0] == 0 && !self.tagged {
            return self.startup(wire, bytes);
        }
        let (tag, total) = (bytes[0], u64::from(length) + 1);
        let known = match wire.dir {
            Dir::ToServer => CLIENT_TAGS.contains(&tag),
            Dir::ToClient => SERVER_TAGS.contains(&tag),
        };
        if !known || length < 4 || length > i32::MAX as u32 {
            return Step::Lost(Some(Defect::BadHead));
        }
        // Of these the content is read, as much as is kept; of the others not even that.
        let content = match wire.dir {
            Dir::ToServer => matches!(tag, b'Q' | b'P' | b'B' | b'D' | b'C'),
            Dir::ToClient => tag == b'E',
        };
        if content && (bytes.len() as u64) < total && !last {
            return Step::Need;
        }
        let have = bytes.len().min(usize::try_from(total).unwrap_or(usize::MAX));
        let content = &bytes[5.min(have)..have];
        let end = wire.at.saturating_add(total);
        match wire.dir {
            Dir::ToServer => {
                self.tagged = true;
                self.client(wire, tag, content, end);
            }
            Dir::ToClient => self.server(wire, tag, content, end),
        }
        Step::Take(total)
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        match wire.dir {
            Dir::ToServer => {
                self.name_batch(wire, wire.at, ("?", "", true));
                (self.batch.start, self.batch.flushed) = (NONE, NONE);
            }
            Dir::ToClient => self.name_reply(wire, Status::default()),
        }
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        match wire.dir {
            Dir::ToServer => self.batch.start = NONE,
            Dir::ToClient => self.batch.reply = NONE,
        }
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        match wire.dir {
            Dir::ToServer if lost => {
                (self.pending, self.handshake, self.batch.reply) = (0, false, NONE);
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
    fn startup(&mut self, wire: &mut Wire<'_>, bytes: &[u8]) -> Step {
        let (Some(verb), Some(head)) = (startup_verb(bytes), bytes.first_chunk()) else {
            return Step::Lost(Some(Defect::BadHead));
        };
        let length = u32::from_be_bytes(*head);
        let end = wire.at.saturating_add(u64::from(length));
        let attrs = Attrs { verb, target: verb, ..Attrs::default() };
        let role = if verb == "CANCEL" {
            Role::Unsolicited
        } else {
            self.pending = self.pending.saturating_add(1);
            Role::Request
        };
        self.handshake = matches!(verb, "SSLREQUEST" | "GSSENCREQUEST");
        self.tagged = verb == "STARTUP";
        let span = (wire.at, Border::Known(end));
        wire.message(role, span, wire.at.saturating_add(8), attrs, &[]);
        Step::Take(u64::from(length))
    }

    /// The one byte that answers an SSLRequest or GSSENCRequest.
    fn answer(&mut self, wire: &mut Wire<'_>, byte: u8) -> Step {
        if !matches!(byte, b'S' | b'N' | b'G') {
            return Step::Lost(Some(Defect::BadHead));
        }
        self.handshake = false;
        self.pending = self.pending.saturating_sub(1);
        let end = wire.at.saturating_add(1);
        let attrs = Attrs { status: Status::OK, ..Attrs::default() };
        wire.message(Role::Reply, (wire.at, Border::Known(end)), end, attrs, &[]);
        match byte {
            b'N' => Step::Take(1),
            _ => Step::Opaque(1),
        }
    }

    fn client(&mut self, wire: &mut Wire<'_>, tag: u8, content: &[u8], end: u64) {
        self.batch.flushed = NONE; // that Flush was not answered: the batch goes on
        if core::mem::take(&mut self.batch.answered) && self.batch.reply != NONE {
            // The reply to a Flush has no end of its own.
            wire.dir = Dir::ToClient;
            self.name_reply(wire, Status::OK);
            wire.dir = Dir::ToServer;
            wire.end_open(Dir::ToClient, wire.next[1], EndHow::Turn);
            self.batch.reply = NONE;
            self.pending = self.pending.saturating_sub(1);
        }
        let at = wire.at;
        let alone = |verb| Attrs { verb, target: verb, ..Attrs::default() };
        match tag {
            b'Q' => {
                let (text, cut) = until_nul(content);
                let mut shape = Text::<256>::new();
                mask::statement(text, cut, &mut shape);
                let verb = mask::verb(shape.as_str());
                let attrs =
                    Attrs { verb: verb.as_str(), target: shape.as_str(), cut: shape.is_cut(), ..Attrs::default() };
                self.pending = self.pending.saturating_add(1);
                let from = shape.as_str().split(' ').any(|word| word.eq_ignore_ascii_case("stdin"));
                let copy = verb.as_str() == "COPY" && (from || shape.is_cut());
                self.copy = Copy { start: if copy { at } else { NONE }, end, running: false };
                let border = if copy { Border::Open } else { Border::Known(end) };
                let head_end = at.saturating_add(5 + content.len() as u64);
                wire.message(Role::Request, (at, border), head_end, attrs, &[]);
            }
            b'F' => {
                self.pending = self.pending.saturating_add(1);
                let span = (at, Border::Known(end));
                wire.message(Role::Request, span, at.saturating_add(5), alone("FUNCTION CALL"), &[]);
            }
            b'X' => {
                let span = (at, Border::Known(end));
                wire.message(Role::Unsolicited, span, end, alone("TERMINATE"), &[]);
            }
            b'p' => {
                let span = (at, Border::Known(end));
                wire.message(Role::Interim, span, at.saturating_add(5), alone("AUTH"), &[]);
            }
            b'd' | b'c' | b'f' => {
                if self.batch.start == NONE && !wire.is_open(Dir::ToServer) {
                    // The data of a COPY whose own request has ended (by a Sync).
                    let span = (at, Border::Open);
                    wire.message(Role::Interim, span, at.saturating_add(5), alone("COPY"), &[]);
                }
                if self.batch.start == NONE && tag != b'd' {
                    wire.end_open(Dir::ToServer, end, EndHow::Framed);
                    self.copy = Copy::NONE;
                }
            }
            _ => self.extended(wire, tag, content, end),
        }
    }

    /// Parse, Bind, Describe, Execute, Close, Flush and Sync.
    fn extended(&mut self, wire: &mut Wire<'_>, tag: u8, content: &[u8], end: u64) {
        if self.batch.start == NONE {
            (self.batch.start, self.batch.named) = (wire.at, false);
        }
        let head_end = wire.at.saturating_add(5 + content.len() as u64);
        match tag {
            b'P' => {
                let (name, name_cut) = until_nul(content);
                let rest = content.get(name.len() + 1..).unwrap_or(&[]);
                let (text, cut) = until_nul(rest);
                let mut shape = Text::<256>::new();
                mask::statement(text, cut, &mut shape);
                if !name_cut {
                    self.cache.put(name, &shape);
                }
                let verb = mask::verb(shape.as_str());
                let name = (verb.as_str(), shape.as_str(), shape.is_cut());
                self.name_batch(wire, head_end, name);
            }
            b'B' | b'D' => {
                let portal = match tag {
                    b'B' => until_nul(content).0.len() + 1,
                    // Of a Describe only the one of a statement says something.
                    _ if content.first() == Some(&b'S') => 1,
                    _ => return,
                };
                let (name, cut) = until_nul(content.get(portal..).unwrap_or(&[]));
                let shape = self.cache.get(name).copied().filter(|_| !cut);
                match shape {
                    Some(shape) => {
                        let verb = mask::verb(shape.as_str());
                        let name = (verb.as_str(), shape.as_str(), shape.is_cut());
                        self.name_batch(wire, head_end, name);
                    }
                    None => {
                        self.name_batch(wire, head_end, ("EXECUTE", "EXECUTE <prepared>", false));
                    }
                }
            }
            b'C' => {
                if let [b'S', name @ ..] = content {
                    self.cache.forget(until_nul(name).0);
                }
            }
            b'H' => self.batch.flushed = end,
            b'S' => {
                self.name_batch(wire, end, ("SYNC", "SYNC", false));
                self.end_batch(wire, end);
            }
            _ => {}
        }
    }

    /// Emits the request of the batch, unless that was done.
    fn name_batch(&mut self, wire: &mut Wire<'_>, head_end: u64, name: (&str, &str, bool)) {
        if self.batch.start == NONE || core::mem::replace(&mut self.batch.named, true) {
            return;
        }
        let (verb, target, cut) = name;
        let attrs = Attrs { verb, target, cut, ..Attrs::default() };
        let span = (self.batch.start, Border::Open);
        let turned = core::mem::replace(&mut wire.dir, Dir::ToServer);
        wire.message(Role::Request, span, head_end, attrs, &[]);
        wire.dir = turned;
    }

    fn end_batch(&mut self, wire: &mut Wire<'_>, end: u64) {
        wire.end_open(Dir::ToServer, end, EndHow::Framed);
        (self.batch.start, self.batch.flushed) = (NONE, NONE);
        self.pending = self.pending.saturating_add(1);
    }

    fn server(&mut self, wire: &mut Wire<'_>, tag: u8, content: &[u8], end: u64) {
        if self.batch.reply == NONE {
            if self.batch.flushed != NONE && self.pending == 0 {
                let flushed = self.batch.flushed;
                self.name_batch(wire, flushed, ("FLUSH", "FLUSH", false));
                self.end_batch(wire, flushed);
                self.batch.answered = true;
            }
            if tag == b'A' || (matches!(tag, b'N' | b'S') && self.pending == 0) {
                let verb = match tag {
                    b'A' => "NOTIFY",
                    b'N' => "NOTICE",
                    _ => "PARAMETER",
                };
                let attrs = Attrs { verb, ..Attrs::default() };
                let span = (wire.at, Border::Known(end));
                return wire.message(Role::Unsolicited, span, wire.at.saturating_add(5), attrs, &[]);
            }
            self.batch.reply = wire.at;
            (self.named, self.failed) = (false, false);
        }
        match tag {
            b'E' => {
                let class = sqlstate(content);
                let status = Status { outcome: Outcome::Error, code: None, class: class.as_str() };
                self.end_copy(wire);
                if !self.named {
                    self.name_reply(wire, status);
                } else if !self.failed {
                    wire.sink.amend(wire.dir, self.batch.reply, status);
                }
                self.failed = true;
            }
            b'G' => {
                self.copy.running = true;
                self.name_reply(wire, Status::OK);
            }
            b'C' | b'I' | b's' | b'D' | b'd' | b'H' | b'W' | b'V' => {
                self.name_reply(wire, Status::OK);
            }
            b'Z' => {
                self.end_copy(wire);
                self.name_reply(wire, Status::OK);
                wire.end_open(Dir::ToClient, end, EndHow::Framed);
                (self.batch.reply, self.batch.answered) = (NONE, false);
                self.pending = self.pending.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// A COPY from the client that the server did not begin, or ended by an error, is over.
    fn end_copy(&mut self, wire: &mut Wire<'_>) {
        let copy = core::mem::replace(&mut self.copy, Copy::NONE);
        if copy.start == NONE || wire.open[0] != copy.start {
            return; // it has ended, and what is open is another message
        }
        if copy.running {
            wire.end_open(Dir::ToServer, wire.next[0], EndHow::Turn);
        } else {
            wire.end_open(Dir::ToServer, copy.end, EndHow::Framed);
        }
    }

    /// Emits the reply, unless that was done.
    fn name_reply(&mut self, wire: &mut Wire<'_>, status: Status<'_>) {
        if self.batch.reply == NONE || core::mem::replace(&mut self.named, true) {
            return;
        }
        let attrs = Attrs { status, ..Attrs::default() };
        let span = (self.batch.reply, Border::Open);
        let head_end = wire.at.saturating_add(5);
        wire.message(Role::Reply, span, head_end, attrs, &[]);
    }
}

const CLIENT_TAGS: &[u8] = b"QPBDECHSFXpdcf";
const SERVER_TAGS: &[u8] = b"RKS123TtnDCIsZENAGHWdcVv";

/// The length field of a message, which counts itself but not the tag; `None`: not all there.
fn length(bytes: &[u8]) -> Option<u32> {
    bytes.get(1..)?.first_chunk().map(|field| u32::from_be_bytes(*field))
}

/// What the first, untagged message of a flow is: length, then a version or a code that is none.
fn startup_verb(bytes: &[u8]) -> Option<&'static str> {
    let length = u32::from_be_bytes(*bytes.first_chunk()?);
    let code = u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?);
    match (code, length) {
        (80_877_102, 16..=272) => Some("CANCEL"),
        (80_877_103, 8) => Some("SSLREQUEST"),
        (80_877_104, 8) => Some("GSSENCREQUEST"),
        (0x3_0000..=0x3_ffff, 8..=10_000) => Some("STARTUP"),
        _ => None,
    }
}

/// The bytes before the first NUL; and whether there is none, so that they are cut.
fn until_nul(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.iter().position(|&b| b == 0) {
        Some(nul) => (&bytes[..nul], false),
        None => (bytes, true),
    }
}

/// The field `C` of an ErrorResponse: five capitals and digits.
fn sqlstate(content: &[u8]) -> Text<5> {
    let mut fields = content.split(|&b| b == 0);
    let state = fields.find_map(|field| field.strip_prefix(b"C"));
    let plain = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    match state {
        Some(state) if state.len() == 5 && state.iter().all(plain) => Text::of(state),
        _ => Text::new(),
    }
}

/// Shapes of prepared statements by the hash of their names; the oldest goes first.
struct Cache {
    slots: [(u64, Text<128>); 8],
    next: u8,
}

impl Cache {
    fn get(&self, name: &[u8]) -> Option<&Text<128>> {
        let hash = mask::fnv1a(name);
        self.slots.iter().find(|(key, _)| *key == hash).map(|(_, shape)| shape)
    }

    fn put(&mut self, name: &[u8], shape: &Text<256>) {
        self.forget(name);
        let mut kept = Text::of(shape.bytes());
        if shape.is_cut() {
            kept.mark_cut();
        }
        self.slots[usize::from(self.next)] = (mask::fnv1a(name), kept);
        self.next = (self.next + 1) % 8;
    }

    fn forget(&mut self, name: &[u8]) {
        let hash = mask::fnv1a(name);
        for slot in &mut self.slots {
            if slot.0 == hash {
                slot.0 = 0;
            }
        }
    }
}

/// Whether a flow of which these are the first bytes is PostgreSQL: by its start-up message; on its usual port also
/// by a message from the middle.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    match (dir, bytes[0]) {
        (Dir::ToServer, 0) if bytes.len() < 8 => Fit::More,
        (Dir::ToServer, 0) => startup_verb(bytes).is_some().into(),
        (Dir::ToServer, tag) if !CLIENT_TAGS.contains(&tag) => Fit::No,
        (Dir::ToClient, tag) if !SERVER_TAGS.contains(&tag) => Fit::No,
        _ if usual => plausible(bytes),
        (Dir::ToServer, _) => asks(bytes).into(),
        (Dir::ToClient, _) => answers(bytes).into(),
    }
}

/// Joined in mid-stream on any port: a chain of messages that asks for something and ends where the bytes end, or one
/// statement in plain text that goes beyond them. Nothing else looks like that.
fn asks(bytes: &[u8]) -> bool {
    if let (b'Q', Some(length)) = (bytes[0], length(bytes))
        && (bytes.len()..1 << 24).contains(&(length as usize))
    {
        let text = &bytes[5.min(bytes.len())..];
        return text.len() >= 16
            && text[0].is_ascii_alphabetic()
            && text.iter().all(|b| !b.is_ascii_control() || b.is_ascii_whitespace());
    }
    match last_of_chain(bytes, CLIENT_TAGS) {
        Some((b'Q', body)) => body.len() > 1 && body.ends_with(&[0]) && !body[0].is_ascii_control(),
        Some((b'S', body)) => body.is_empty() && bytes[0] != b'S',
        _ => false,
    }
}

/// The same for replies: a chain that ends in ReadyForQuery.
fn answers(bytes: &[u8]) -> bool {
    matches!(last_of_chain(bytes, SERVER_TAGS), Some((b'Z', [b'I' | b'T' | b'E'])))
}

/// Tag and body of the last of a chain of whole messages that ends exactly where the bytes end.
fn last_of_chain<'a>(mut bytes: &'a [u8], tags: &[u8]) -> Option<(u8, &'a [u8])> {
    loop {
        let (tag, length) = (*bytes.first()?, length(bytes)? as usize);
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

fn plausible(bytes: &[u8]) -> Fit {
    match length(bytes) {
        None => Fit::More,
        Some(length) => (4..1 << 24).contains(&length).into(),
    }
}
