//! TLS 1.0 to 1.3 (RFC 5246, RFC 8446): what is its handshake, and when its two sides speak after it.
//!
//! ```text
//! > ClientHello … Finished               interim
//! < ServerHello … Finished, tickets      interim; tickets unsolicited
//! > application data                     request, until the server answers
//! < application data                     reply, until the client speaks again
//! ```
//!
//! What is asked is not to be seen, nor where one request ends and the next begins where the client does not wait: they are told by
//! the turn alone. That is wrong for HTTP/2, whose sides speak at once. So where HTTP/2 may have been agreed on, all after the
//! handshake is opaque. TLS 1.3 hides what was agreed on, but not how long the server's answer to it is: that tells HTTP/1.1 and
//! HTTP/2 apart. A client's Finished is known by its length too. Not handled: joining in mid-stream, DTLS, a hello that is split
//! over records (then HTTP/2 may have been offered).

use crate::bytes::be16;
use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::registry::{About, Docs};
use crate::{Attrs, Dir, EndHow, Role};

/// Bytes kept of a hello's field in each direction.
pub const HEAD: usize = 96;

/// The TLS processor.
pub type Tls = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.tls",
    ports: &[443, 8443],
    recognise,
    opaque: Some("encrypted (TLS)"),
    docs: Docs {
        what: "TLS from its handshake on; what is inside is not read",
        request: "what the client sends until the server answers, behind the handshake; nothing where HTTP/2 may be inside",
        kept: "nothing",
        pairs: "turn of direction",
    },
    ..About::NEW
};

/// What of TLS is remembered between units.
pub struct Framing {
    sides: [Side; 2],
    /// The client may have offered HTTP/2; it was read whole, so that this is sure.
    offers: Offers,
    /// The server's hello was read: whether it is TLS 1.3.
    modern: Option<bool>,
    /// Bytes that encryption adds to a record, and those of its hash (TLS 1.3).
    tag: u16,
    hash: u16,
    /// HTTP/2 may have been agreed on.
    perhaps_h2: bool,
    /// The server's first encrypted record (TLS 1.3) came; the client's last of the handshake did.
    agreed: bool,
    finished: bool,
    /// A request has no reply yet.
    asked: bool,
}

#[derive(Clone, Copy)]
struct Offers {
    h2: bool,
    record_limit: bool,
    whole: bool,
}

/// One direction.
#[derive(Clone, Copy)]
struct Side {
    part: Part,
    /// Bytes of the hello's record that are left.
    left: u64,
    /// Its hello began.
    met: bool,
    /// The open message is application data.
    speaks: bool,
    /// It changed its cipher.
    ciphered: bool,
    /// It sent encrypted records of the handshake since the flow turned to it.
    encrypted: bool,
}

/// What the next unit of a direction is: a record, or a part of a hello.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Record,
    Begin,
    Ciphers,
    Compressions,
    Chosen,
    Length,
    Extension,
}

const CIPHER: u8 = 20;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
const ALPN: u16 = 16;
const RECORD_LIMIT: u16 = 28;
const VERSIONS: u16 = 43;

impl Framer for Framing {
    const NEW: Framing = Framing {
        sides: [Side { part: Part::Record, left: 0, met: false, speaks: false, ciphered: false, encrypted: false }; 2],
        offers: Offers { h2: false, record_limit: false, whole: false },
        modern: None,
        tag: 16,
        hash: 32,
        perhaps_h2: true,
        agreed: false,
        finished: false,
        asked: false,
    };

    fn fit(&self, _: Dir, bytes: &[u8]) -> Fit {
        record_fits(bytes)
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let d = wire.dir.index();
        let side = &mut self.sides[d];
        if side.part != Part::Record {
            return self.hello(wire.dir, bytes, last);
        }
        match record_fits(bytes) {
            Fit::More => return Err(Stop::Need),
            Fit::No => return Err(BAD),
            Fit::Yes | Fit::Sure => {}
        }
        let (kind, length) = (bytes[0], be16(bytes, 3).unwrap_or(0));
        let total = u64::from(length) + 5;
        if kind == DATA {
            return self.data(wire, length, total);
        }
        // After a change of the cipher there is one message, Finished; then data may follow, and perhaps an alert.
        let side = &mut self.sides[d];
        side.ciphered |= kind == CIPHER;
        let ends = side.ciphered && kind != CIPHER;
        Self::emit(side, wire, Role::Interim, total, ends);
        if kind == HANDSHAKE && !core::mem::replace(&mut side.met, true) {
            (side.part, side.left) = (Part::Begin, length.into());
            return Ok(5);
        }
        Ok(total)
    }

    fn blind(&mut self, wire: &mut Wire<'_>) -> Option<u64> {
        let side = &self.sides[wire.dir.index()];
        // The rest of a hello was not captured.
        (side.part != Part::Record).then(|| self.skip(wire.dir))
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.sides[wire.dir.index()].part = Part::Record;
    }

    fn turned(&mut self, wire: &mut Wire<'_>, _: bool) {
        let other = wire.dir.other();
        let side = &mut self.sides[other.index()];
        side.speaks = false;
        // Its Finished was in a record with others.
        self.finished |= core::mem::replace(&mut side.encrypted, false) && other == Dir::ToServer;
        wire.end_open(other, wire.next[other.index()], EndHow::Turn);
    }

    fn alone(&self, wire: &Wire<'_>) -> bool {
        // Data is one message until the turn. So is the server's part of the handshake, as long as it owes no reply.
        let speaks = self.sides[wire.dir.index()].speaks;
        wire.is_open(wire.dir) && (speaks || (wire.dir == Dir::ToClient && !self.asked))
    }
}

impl Framing {
    /// A message goes on with this record of `total` bytes, or another begins with it. `ends`: it ends with the record.
    fn emit(side: &mut Side, wire: &mut Wire<'_>, role: Role, total: u64, ends: bool) {
        // What comes amid application data, as an alert after it, is part of that.
        let speaks = role != Role::Interim;
        if !wire.is_open(wire.dir) || (speaks && !side.speaks) {
            side.speaks = speaks;
            wire.begin(role, 5, Attrs::default(), &[]);
        }
        if ends && !side.speaks {
            wire.end_open(wire.dir, wire.behind(total), EndHow::Framed);
        }
    }

    /// A record of application data, or, in TLS 1.3, of the handshake.
    fn data(&mut self, wire: &mut Wire<'_>, length: u16, total: u64) -> Unit {
        let side = &mut self.sides[wire.dir.index()];
        let modern = self.modern == Some(true);
        let handshake = modern && !self.finished;
        // An alert, as a rule that the client goes.
        let alert = modern && !side.speaks && length == 2 + 1 + self.tag;
        if handshake || alert {
            if wire.dir == Dir::ToServer && handshake {
                side.encrypted = true;
                self.finished = length == 4 + self.hash + 1 + self.tag;
            }
            if wire.dir == Dir::ToClient && !core::mem::replace(&mut self.agreed, true) {
                self.perhaps_h2 = self.offers.may_be_h2(length.saturating_sub(7 + self.tag));
            }
            let ends = alert || (self.finished && wire.dir == Dir::ToServer);
            Self::emit(&mut self.sides[wire.dir.index()], wire, Role::Interim, total, ends);
            return Ok(total);
        }
        // Before the server's hello it is early data, of what was agreed on before.
        let unknown = if self.modern.is_none() { self.offers.h2 || !self.offers.whole } else { self.perhaps_h2 };
        if unknown && (wire.dir == Dir::ToServer || self.asked) {
            return Err(Stop::Opaque(total));
        }
        let role = match wire.dir {
            Dir::ToServer => Role::Request,
            Dir::ToClient if core::mem::take(&mut self.asked) => Role::Reply,
            Dir::ToClient => Role::Unsolicited,
        };
        self.asked |= wire.dir == Dir::ToServer;
        Self::emit(side, wire, role, total, false);
        Ok(total)
    }

    /// A part of a hello.
    fn hello(&mut self, dir: Dir, bytes: &[u8], last: bool) -> Unit {
        let side = &mut self.sides[dir.index()];
        let view = &bytes[..bytes.len().min(usize::try_from(side.left).unwrap_or(usize::MAX))];
        let is_short = view.len() < bytes.len() || view.len() as u64 == side.left || last;
        let need = |count: usize| {
            if view.len() >= count {
                Ok(true)
            } else if is_short {
                Ok(false)
            } else {
                Err(Stop::Need)
            }
        };
        let (wanted, next) = match side.part {
            Part::Begin => (39, if dir == Dir::ToServer { Part::Ciphers } else { Part::Chosen }),
            Part::Ciphers => (2, Part::Compressions),
            Part::Compressions => (1, Part::Length),
            Part::Chosen => (3, Part::Length),
            Part::Length => (2, Part::Extension),
            Part::Extension | Part::Record => (4, Part::Extension),
        };
        if !need(wanted)? {
            return Ok(self.skip(dir));
        }
        let half = |at: usize| be16(view, at).unwrap_or(0);
        let length = match side.part {
            Part::Begin if view[0] != if dir == Dir::ToServer { 1 } else { 2 } => return Ok(self.skip(dir)),
            Part::Begin => 39 + usize::from(view[38]),
            Part::Ciphers => 2 + usize::from(half(0)),
            Part::Compressions => 1 + usize::from(view[0]),
            Part::Chosen => {
                (self.hash, self.tag) =
                    (if half(0) == 0x1302 { 48 } else { 32 }, if half(0) == 0x1305 { 8 } else { 16 });
                (self.modern, self.perhaps_h2) = (Some(false), false);
                3
            }
            Part::Length => 2,
            Part::Extension | Part::Record => 4 + usize::from(half(2)),
        };
        if side.part == Part::Extension {
            let known = length.min(HEAD);
            if half(0) == ALPN && !need(known)? {
                return Ok(self.skip(dir));
            }
            if half(0) == VERSIONS && dir == Dir::ToClient && need(6)? && half(4) == 0x0304 {
                (self.modern, self.perhaps_h2) = (Some(true), true);
            }
            let has_h2 = half(0) == ALPN && (length > HEAD || view[..known].windows(3).any(|name| name == b"\x02h2"));
            match dir {
                Dir::ToServer => {
                    self.offers.h2 |= has_h2;
                    self.offers.record_limit |= half(0) == RECORD_LIMIT;
                    self.offers.whole = length as u64 == side.left;
                }
                Dir::ToClient => self.perhaps_h2 |= has_h2,
            }
        }
        let side = &mut self.sides[dir.index()];
        let length = (length as u64).min(side.left);
        side.left -= length;
        side.part = if side.left == 0 { Part::Record } else { next };
        Ok(length)
    }

    /// The rest of the hello's record is of no use. What the server's would have said is not known.
    fn skip(&mut self, dir: Dir) -> u64 {
        let side = &mut self.sides[dir.index()];
        self.perhaps_h2 |= dir == Dir::ToClient;
        side.part = Part::Record;
        core::mem::take(&mut side.left)
    }
}

impl Offers {
    /// Whether HTTP/2 may have been agreed on, where the extensions in which the server says so have `length` bytes. It
    /// repeats the protocol's name, and may add an empty answer to the server's name that the client asked for.
    fn may_be_h2(self, length: u16) -> bool {
        let offered = self.h2 || !self.whole;
        let answers = |name: u16| length == name || length == name + 4;
        // With a limit for records, which has 6 bytes, HTTP/2 looks like HTTP/1.1.
        let other = answers(0) || (answers(4 + 2 + 1 + 8) && self.whole && !self.record_limit);
        offered && !other
    }
}

fn record_fits(bytes: &[u8]) -> Fit {
    match bytes {
        [20..=24, 3, 0..=4, high, low, ..] => (1..=16_384 + 256).contains(&u16::from_be_bytes([*high, *low])).into(),
        [20..=24, 3, 0..=4, ..] | [20..=24, 3] | [20..=24] => Fit::More,
        _ => Fit::No,
    }
}

/// Whether a flow of which these are the first bytes is TLS: by the hello of this side.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    let hello = if dir == Dir::ToServer { 1 } else { 2 };
    match (record_fits(bytes), bytes.get(5)) {
        (Fit::Yes, Some(kind)) => Fit::from(bytes[0] == HANDSHAKE && *kind == hello).and_sure(),
        (Fit::No, _) => Fit::No,
        _ => {
            if bytes[0] == HANDSHAKE {
                Fit::More
            } else {
                Fit::No
            }
        }
    }
}
