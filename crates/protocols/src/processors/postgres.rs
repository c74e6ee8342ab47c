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
//! CopyDone. Authentication messages are interim and never read; Terminate and CancelRequest are unsolicited. After
//! an accepted SSLRequest everything is opaque. Not handled: protocol 2, replication, direct TLS.

use crate::bytes::{be32, is_typed, until_nul};
use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::registry::{About, Docs};
use crate::shapes::{self, Cache, Shape, sqlstate};
use crate::{Attrs, Border, Dir, EndHow, Outcome, Role, Status, mask};

/// Bytes kept of a message in each direction: of a statement a little less.
pub const HEAD: usize = 512;

/// The PostgreSQL processor.
pub type Postgres = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.postgres",
    ports: &[5432, 6432],
    recognise,
    vocabulary: shapes::VOCABULARY,
    bytes_max: 2560,
    docs: Docs {
        what: "PostgreSQL, protocol 3",
        request: "a Query; what a Sync (or an answered Flush) ends",
        kept: "verb, statement's shape, SQLSTATE",
        pairs: "order on the connection",
    },
    ..About::NEW
};

/// What of PostgreSQL is remembered between units.
pub struct Framing {
    /// An SSLRequest or GSSENCRequest waits for its answer of one byte.
    handshake: bool,
    /// Requests that are complete and wait for their ReadyForQuery.
    pending: u32,
    /// Where the extended-query messages since the last Sync begin, or `NONE`.
    batch: u64,
    /// Offset after a Flush that ended them so far, or `NONE`.
    flushed: u64,
    /// Where the reply at hand begins, or `NONE`.
    reply: u64,
    /// It answers a Flush.
    flush: bool,
    /// The server takes the data of a COPY: all that the client says until the answer is that.
    takes: bool,
    copy: Option<CopyIn>,
    cache: Cache,
}

/// A `COPY … FROM STDIN` that was sent by a Query.
struct CopyIn {
    /// Where the Query begins and ends.
    start: u64,
    end: u64,
    /// The server takes the data.
    running: bool,
}

impl Framer for Framing {
    const NEW: Framing = Framing {
        handshake: false,
        pending: 0,
        batch: NONE,
        flushed: NONE,
        reply: NONE,
        flush: false,
        takes: false,
        copy: None,
        cache: Cache::NEW,
    };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match dir {
            Dir::ToClient if self.handshake => b"SNGE".contains(&bytes[0]).into(),
            // Only after a request a message is sure not to be the middle of a reply.
            Dir::ToClient if self.pending == 0 && self.batch == NONE && !b"NAS".contains(&bytes[0]) => Fit::No,
            Dir::ToServer if bytes[0] == 0 => startup(bytes).into(),
            _ => length(dir, bytes, 1 << 26).into(),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let tag = bytes[0];
        match wire.dir {
            Dir::ToClient if self.handshake && b"SNG".contains(&tag) => return self.answer(wire, tag),
            Dir::ToServer if tag == 0 => return self.startup(wire, bytes),
            _ => {}
        }
        let total = length(wire.dir, bytes, 1 << 30)?;
        // Of these the content is read, as much as is kept; of the others not even that.
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
        if wire.dir == Dir::ToServer {
            self.request(wire, wire.at, Attrs { verb: "?", cut: true, ..Attrs::default() });
            (self.batch, self.flushed) = (NONE, NONE);
        } else {
            wire.answer(core::mem::replace(&mut self.reply, NONE), Status::default());
        }
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if lost && wire.dir == Dir::ToServer {
            (self.pending, self.handshake, self.copy) = (0, false, None);
        } else if lost {
            self.pending = self.pending.max(1); // what the client sent is answered, though its end was not seen
        }
    }

    fn alone(&self, wire: &Wire<'_>) -> bool {
        let last = self.pending <= 1 && self.batch == NONE;
        wire.is_open(wire.dir) && if wire.dir == Dir::ToClient { last } else { self.takes && self.pending <= 1 }
    }
}

impl Framing {
    fn startup(&mut self, wire: &mut Wire<'_>, bytes: &[u8]) -> Unit {
        let (verb, length) = startup(bytes)?;
        let cancels = verb == "CANCEL";
        self.pending = self.pending.saturating_add(u32::from(!cancels));
        self.handshake = matches!(verb, "SSLREQUEST" | "GSSENCREQUEST");
        let role = if cancels { Role::Unsolicited } else { Role::Request };
        wire.whole(role, wire.behind(length), 8, Attrs::alone(verb), &[]);
        Ok(length)
    }

    /// The one byte that answers an SSLRequest or GSSENCRequest.
    fn answer(&mut self, wire: &mut Wire<'_>, byte: u8) -> Unit {
        self.handshake = false;
        self.pending = self.pending.saturating_sub(1);
        wire.whole(Role::Reply, wire.behind(1u64), 1, Attrs::status("", Status::OK), &[]);
        if byte == b'N' { Ok(1) } else { Err(Stop::Opaque(1)) }
    }

    fn client(&mut self, wire: &mut Wire<'_>, tag: u8, content: &[u8], end: u64) {
        self.flushed = NONE; // that Flush was not answered: the batch goes on
        if core::mem::take(&mut self.flush) && self.reply != NONE {
            // The reply to a Flush has no end of its own.
            wire.answer(core::mem::replace(&mut self.reply, NONE), Status::OK);
            wire.end_open(Dir::ToClient, wire.next[1], EndHow::Turn);
            self.pending = self.pending.saturating_sub(1);
        }
        let loose = self.batch == NONE;
        if loose && b"PBDECHS".contains(&tag) {
            self.batch = wire.at;
        }
        self.pending = self.pending.saturating_add(u32::from(b"QF".contains(&tag)));
        let head_end = wire.behind(5 + content.len());
        match tag {
            b'Q' => {
                let shape = statement(content);
                self.copy = shape.copies().then_some(CopyIn { start: wire.at, end, running: false });
                let border = if self.copy.is_some() { Border::Open } else { Border::Known(end) };
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
                    self.copy = None;
                }
            }
            b'P' => {
                let (name, cut) = until_nul(content);
                let shape = statement(content.get(name.len() + 1..).unwrap_or(&[]));
                if !cut {
                    self.cache.put(name, &shape);
                }
                self.request(wire, head_end, shape.attrs());
            }
            // Of a Describe only the one of a statement says something.
            b'B' | b'D' if tag == b'B' || content.first() == Some(&b'S') => {
                let portal = if tag == b'B' { until_nul(content).0.len() + 1 } else { 1 };
                let (name, cut) = until_nul(content.get(portal..).unwrap_or(&[]));
                let shape = if cut { Shape::unknown() } else { self.cache.get(name) };
                self.request(wire, head_end, shape.attrs());
            }
            b'C' if content.first() == Some(&b'S') => self.cache.forget(until_nul(&content[1..]).0),
            b'H' => self.flushed = end,
            b'S' => self.end_batch(wire, end, "SYNC"),
            _ => {}
        }
    }

    /// Emits the request of the batch, unless that was done.
    fn request(&mut self, wire: &mut Wire<'_>, head_end: u64, attrs: Attrs<'_>) {
        if self.batch != NONE && wire.open[0] != self.batch {
            wire.begun(Dir::ToServer, Role::Request, self.batch, head_end, attrs);
        }
    }

    fn end_batch(&mut self, wire: &mut Wire<'_>, end: u64, verb: &str) {
        self.request(wire, end, Attrs::alone(verb));
        wire.end_open(Dir::ToServer, end, EndHow::Framed);
        (self.batch, self.flushed) = (NONE, NONE);
        self.pending = self.pending.saturating_add(1);
    }

    fn server(&mut self, wire: &mut Wire<'_>, tag: u8, content: &[u8], end: u64) {
        if self.reply == NONE {
            if self.flushed != NONE && self.pending == 0 {
                self.end_batch(wire, self.flushed, "FLUSH");
                self.flush = true;
            }
            let pushed = match tag {
                b'A' => Some("NOTIFY"),
                b'N' if self.pending == 0 => Some("NOTICE"),
                b'S' if self.pending == 0 => Some("PARAMETER"),
                _ => None,
            };
            if let Some(verb) = pushed {
                return wire.whole(Role::Unsolicited, end, 5, Attrs::status(verb, Status::default()), &[]);
            }
            self.reply = wire.at;
        }
        self.takes = tag == b'G' || (self.takes && b"ANS".contains(&tag));
        match tag {
            b'E' => {
                // The field C.
                let class = sqlstate(content.split(|&b| b == 0).find_map(|f| f.strip_prefix(b"C")).unwrap_or(&[]));
                self.end_copy(wire);
                wire.answer(self.reply, Status { outcome: Outcome::Error, code: None, class: class.as_str() });
            }
            b'G' | b'C' | b'I' | b's' | b'D' | b'd' | b'H' | b'W' | b'V' => {
                self.copy = self.copy.take().map(|copy| CopyIn { running: copy.running || tag == b'G', ..copy });
                wire.answer(self.reply, Status::OK);
            }
            b'Z' => {
                self.end_copy(wire);
                wire.answer(self.reply, Status::OK);
                wire.end_open(Dir::ToClient, end, EndHow::Framed);
                (self.reply, self.flush) = (NONE, false);
                self.pending = self.pending.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// A COPY from the client that the server did not begin, or ended by an error, is over.
    fn end_copy(&mut self, wire: &mut Wire<'_>) {
        // Where it is not what is open, it has ended.
        if let Some(CopyIn { end, running, .. }) = self.copy.take().filter(|copy| wire.open[0] == copy.start) {
            let (end, how) = if running { (wire.next[0], EndHow::Turn) } else { (end, EndHow::Framed) };
            wire.end_open(Dir::ToServer, end, how);
        }
    }
}

/// The length of the tagged message at the start of `bytes`, of at most `most` bytes after its tag.
fn length(dir: Dir, bytes: &[u8], most: u32) -> Result<u64, Stop> {
    let tags: &[u8] = if dir == Dir::ToServer { b"QPBDECHSFXpdcf" } else { b"RKS123TtnDCIsZENAGHWdcVv" };
    let known = tags.contains(&bytes[0]);
    let length = be32(bytes, 1).ok_or(if known { Stop::Need } else { BAD })?;
    if known && (4..=most).contains(&length) { Ok(u64::from(length) + 1) } else { Err(BAD) }
}

/// What the first, untagged message of a flow is, and its length: after that a version or a code that is none.
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

/// Whether a flow of which these are the first bytes is PostgreSQL: by its start-up message; on its usual port also
/// by a message from the middle.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    match dir {
        Dir::ToServer if bytes[0] == 0 => Fit::from(startup(bytes)).and_sure(),
        _ if sure(dir, bytes) => Fit::Sure,
        _ if usual => match length(dir, bytes, 1 << 20) {
            Err(Stop::Need) => Fit::More,
            Err(_) => Fit::No,
            // A chain of messages, or one that goes on beyond what is at hand.
            Ok(total) => (total as usize > bytes.len() || last_of_chain(dir, bytes).is_some()).into(),
        },
        _ => Fit::No,
    }
}

/// Joined in mid-stream on any port: a chain of messages that asks for something, or says goodbye, or is a whole reply, and ends where
/// the bytes end; or one statement in plain text that goes beyond them. Nothing else looks like that.
fn sure(dir: Dir, bytes: &[u8]) -> bool {
    let text = bytes.get(5..).unwrap_or(&[]);
    let beyond = be32(bytes, 1).is_some_and(|length| (bytes.len()..1 << 24).contains(&(length as usize)));
    match (dir, last_of_chain(dir, bytes)) {
        (Dir::ToServer, None) if bytes[0] == b'Q' && beyond => text.len() >= 16 && is_typed(text),
        (Dir::ToServer, Some((b'Q', [first, .., 0]))) => !first.is_ascii_control(),
        (Dir::ToServer, Some((b'S', []))) => bytes[0] != b'S',
        (Dir::ToServer, Some((b'H', []))) => bytes[0] == b'P',
        (Dir::ToServer, Some((b'X', []))) => true,
        (Dir::ToClient, Some((b'Z', [b'I' | b'T' | b'E']))) => true,
        _ => false,
    }
}

/// Tag and body of the last of a chain of whole messages that ends exactly where the bytes end.
fn last_of_chain(dir: Dir, mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        let (message, rest) = bytes.split_at_checked(length(dir, bytes, 1 << 30).ok()? as usize)?;
        if rest.is_empty() {
            return Some((message[0], &message[5..]));
        }
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_amid_a_connection_tells_the_protocol_on_any_port() {
        let prepared = b"P\0\0\0\x13s1\0SELECT $1\0\0\0D\0\0\0\x08Ss1\0H\0\0\0\x04";
        assert_eq!(recognise(Dir::ToServer, prepared, false), Fit::Sure);
        // a pool that closes an idle connection says nothing else on it
        assert_eq!(recognise(Dir::ToServer, b"X\0\0\0\x04", false), Fit::Sure);
        assert_eq!(recognise(Dir::ToServer, b"X\0\0\0\x05", false), Fit::No);
        // a Flush alone says nothing, nor does what goes on after it
        assert_eq!(recognise(Dir::ToServer, b"H\0\0\0\x04", false), Fit::No);
        assert_eq!(recognise(Dir::ToServer, &[&prepared[..], b"GET"].concat(), false), Fit::No);
    }
}
