//! Memcached: the text protocol with its meta commands (doc/protocol.txt of the project), and the binary one.
//!
//! ```text
//! > set key 0 0 5 / hello         request, verb SET, target SET; keys and values are never kept
//! < STORED                        reply, ok; error for ERROR, CLIENT_ERROR and SERVER_ERROR
//! > binary GET                    the same, with the number that the client chose as witness
//! ```
//!
//! A `noreply` command and a quiet one are unsolicited; the NOOP after quiet ones of the binary protocol bears their
//! name. All replies behind quiet meta commands up to that of the `mn` behind them are unsolicited, too: nothing says
//! whose they are. The replies to STAT, and to a `get` of several keys, are one.

use crate::bytes::{be16, be32, decimal, is_shown, payload_fits};
use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::registry::{About, Docs};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, Text, Witness};

/// Bytes kept of a line in each direction; keys are at most 250 bytes long.
pub const HEAD: usize = 320;

/// Commands of the text protocol.
const COMMANDS: &[u8] =
    b"get gets gat gats set add replace append prepend cas delete incr decr touch mg ms md ma me mn \
stats flush_all version verbosity quit shutdown slabs lru lru_crawler watch cache_memlimit";

/// The Memcached processor.
pub type Memcached = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.memcached",
    ports: &[11211],
    recognise,
    vocabulary: Vocabulary {
        verb: Grammar::Words(List::of(WORDS)),
        target: Grammar::Words(List::of(WORDS)),
        class: Grammar::Words(List::of(WORDS)),
    },
    bytes_max: 768,
    docs: Docs {
        what: "Memcached, text, meta and binary",
        request: "a command",
        kept: "command, error word; no keys, no values",
        pairs: "order; `opaque`",
    },
    ..About::NEW
};

/// Commands and errors. Sorted.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "?", "ADD", "ADDQ", "APPEND", "APPENDQ", "AUTH", "AUTH_ERROR", "CACHE_MEMLIMIT", "CAS", "CLIENT_ERROR", "DECR",
    "DECREMENT", "DECREMENTQ", "DELETE", "DELETEQ", "ERROR", "EXISTS", "FLUSH", "FLUSHQ", "FLUSH_ALL", "GAT", "GATK",
    "GATKQ", "GATQ", "GATS", "GET", "GETK", "GETKQ", "GETQ", "GETS", "INCR", "INCREMENT", "INCREMENTQ", "INVALID",
    "LIST", "LRU", "LRU_CRAWLER", "MA", "MD", "ME", "MG", "MN", "MS", "NON_NUMERIC", "NOOP", "NOT_FOUND",
    "NOT_STORED", "OTHER", "OUT_OF_MEMORY", "PREPEND", "PREPENDQ", "QUIT", "QUITQ", "REPLACE", "REPLACEQ", "SASL",
    "SERVER_ERROR", "SET", "SETQ", "SHUTDOWN", "SLABS", "STAT", "STATS", "STEP", "TOO_LARGE", "TOUCH",
    "UNKNOWN_COMMAND", "VERBOSITY", "VERSION", "WATCH",
];

/// What of Memcached is remembered between units.
pub struct Framing {
    /// Inside a line that is longer than a head.
    long: [bool; 2],
    /// The long line at hand is the last of its reply.
    ends: bool,
    /// Quiet meta commands since the last `mn`.
    quiet: bool,
    /// The last quiet command of the binary protocol since the last one that is answered; empty: none.
    quietly: &'static str,
    /// Commands without a reply, as far as known.
    pending: u32,
}

impl Framer for Framing {
    const NEW: Framing = Framing { long: [false; 2], ends: false, quiet: false, quietly: "", pending: 0 };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match (dir, bytes[0]) {
            (Dir::ToServer, 0x80) | (Dir::ToClient, 0x81) => binary_fits(bytes),
            // data may begin like a word too, so it has to be one that is a command
            (Dir::ToServer, first) if first.is_ascii_lowercase() => {
                match bytes.iter().position(|b| b" \r\n".contains(b)) {
                    Some(end) => COMMANDS.split(|b| *b == b' ').any(|command| *command == bytes[..end]).into(),
                    // longer than any
                    None if bytes.len() > 16 => Fit::No,
                    None => Fit::More,
                }
            }
            (Dir::ToServer, _) => Fit::No,
            // joined after a request
            (Dir::ToClient, b'V') if self.pending == 0 => recognise(dir, bytes, false),
            (Dir::ToClient, first) => (self.pending > 0 && first.is_ascii_alphanumeric()).into(),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let d = wire.dir.index();
        if !self.long[d] && bytes[0] == 0x80 + d as u8 {
            return self.binary(wire, bytes);
        }
        let newline = bytes.iter().position(|&b| b == b'\n');
        if newline.is_none() && !last {
            return Err(Stop::Need);
        }
        let length = newline.map_or(bytes.len(), |newline| newline + 1);
        let cut = newline.is_none();
        if core::mem::replace(&mut self.long[d], cut) {
            if !cut && (wire.dir == Dir::ToServer || self.ends) {
                wire.end_open(wire.dir, wire.behind(length), EndHow::Framed);
            }
            return Ok(length as u64);
        }
        let line = bytes[..length].trim_ascii_end();
        match wire.dir {
            Dir::ToServer => self.command(wire, line, length as u64, cut),
            Dir::ToClient => self.answer(wire, line, length as u64, cut),
        }
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.long[wire.dir.index()] = false;
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        match wire.dir {
            Dir::ToServer if lost => (self.pending, self.quiet, self.quietly) = (0, false, ""),
            Dir::ToClient if lost => self.pending = self.pending.max(1),
            _ => {}
        }
    }

    fn alone(&self, wire: &Wire<'_>) -> bool {
        wire.dir == Dir::ToClient && wire.is_open(wire.dir) && self.pending == 0 && !self.quiet
    }
}

impl Framing {
    fn command(&mut self, wire: &mut Wire<'_>, line: &[u8], length: u64, cut: bool) -> Unit {
        let mut words = line.split(|&b| b == b' ').filter(|word| !word.is_empty());
        let Some(name) = words.next() else {
            return Ok(length);
        };
        if !name.iter().all(|b| b.is_ascii_lowercase() || *b == b'_') {
            return Err(BAD);
        }
        let count = words.clone().count();
        let meta = matches!(name, b"mg" | b"ms" | b"md" | b"ma" | b"me");
        // Where the length of the data stands, if data follow.
        let place = match name {
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => Some(3),
            b"ms" => Some(1),
            _ => None,
        };
        // Where it is no number, the server takes no data.
        let data = place.and_then(|nth| words.clone().nth(nth)).and_then(decimal).map_or(0, |size| size + 2);
        let quiet = meta && words.clone().skip(1).any(|flag| flag == b"q");
        let one_way = words.next_back() == Some(b"noreply");
        let silent = quiet || one_way || matches!(name, b"quit" | b"shutdown");
        self.quiet |= quiet;
        if !silent {
            self.pending = self.pending.saturating_add(1);
        }
        let verb = if name.len() <= 16 { Text::<16>::upper(name) } else { Text::of(b"?") };
        let attrs =
            Attrs { verb: verb.as_str(), target: verb.as_str(), args: Some(count as u32), cut, ..Attrs::default() };
        let role = match silent {
            _ if one_way => Role::OneWay,
            true => Role::Unsolicited,
            false => Role::Request,
        };
        let border = if cut { Border::Open } else { Border::Known(wire.behind(length + data)) };
        wire.message(role, (wire.at, border), wire.behind(length), attrs, &[]);
        // Of the number a part may be missing.
        if cut && place.is_some() { Err(Stop::Lost(Some(Defect::BorderLost))) } else { Ok(length + data) }
    }

    fn answer(&mut self, wire: &mut Wire<'_>, line: &[u8], length: u64, cut: bool) -> Unit {
        let mut words = line.split(|&b| b == b' ');
        let name = words.next().unwrap_or(&[]);
        let (data, goes_on) = match name {
            b"VALUE" | b"VA" if cut => return Err(Stop::Need), // a part of a number may be missing
            b"VALUE" => (words.nth(2).and_then(decimal).ok_or(BAD)? + 2, true),
            b"VA" => (words.next().and_then(decimal).ok_or(BAD)? + 2, false),
            b"STAT" | b"ITEM" | b"CONFIG" => (0, true),
            _ => (0, !name.is_empty() && name.contains(&b'=')), // lines of lru_crawler metadump
        };
        let total = length + data;
        let end = wire.behind(total);
        if !wire.is_open(Dir::ToClient) {
            let failed = matches!(name, b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR");
            let class = if failed { Text::<16>::of(name) } else { Text::new() };
            let outcome = if failed { Outcome::Error } else { Outcome::Ok };
            let status = Status { outcome, code: None, class: class.as_str() };
            self.quiet &= name != b"MN";
            let role = if self.quiet || self.pending == 0 { Role::Unsolicited } else { Role::Reply };
            if role == Role::Reply {
                self.pending -= 1;
            }
            let attrs = Attrs { status, ..Attrs::default() };
            wire.message(role, (wire.at, Border::Open), wire.behind(length), attrs, &[]);
        }
        self.ends = !goes_on;
        if !goes_on && !cut {
            wire.end_open(Dir::ToClient, end, EndHow::Framed);
        }
        Ok(total)
    }

    fn binary(&mut self, wire: &mut Wire<'_>, bytes: &[u8]) -> Unit {
        let opaque = be32(bytes, 12).ok_or(Stop::Need)?;
        let (code, status) = (bytes[1], be16(bytes, 6).unwrap_or(0));
        let body = be32(bytes, 8).unwrap_or(0);
        let total = 24 + u64::from(body);
        if be16(bytes, 2).is_some_and(|key| u32::from(key) > body) {
            return Err(BAD);
        }
        let quiet = matches!(code, 0x09 | 0x0d | 0x11..=0x1a | 0x1e | 0x24);
        let end = wire.behind(total);
        let witness = [Witness::Memcached(opaque)];
        if wire.dir == Dir::ToServer {
            let own = BINARY.get(usize::from(code)).copied().unwrap_or("OTHER");
            // what a NOOP ends, its answer is waited for
            let before = core::mem::replace(&mut self.quietly, if quiet { own } else { "" });
            let verb = if own == "NOOP" && !before.is_empty() { before } else { own };
            let attrs = Attrs::alone(verb);
            let role = if quiet { Role::Unsolicited } else { Role::Request };
            self.pending = self.pending.saturating_add(u32::from(!quiet));
            wire.whole(role, end, 24, attrs, &witness);
            return Ok(total);
        }
        let class = match status {
            0 => "",
            1 => "NOT_FOUND",
            2 => "EXISTS",
            3 => "TOO_LARGE",
            4 => "INVALID",
            5 => "NOT_STORED",
            6 => "NON_NUMERIC",
            0x20 => "AUTH_ERROR",
            0x81 => "UNKNOWN_COMMAND",
            0x82 => "OUT_OF_MEMORY",
            _ => "OTHER",
        };
        let outcome = if status == 0 { Outcome::Ok } else { Outcome::Error };
        let attrs = Attrs { status: Status { outcome, code: Some(status), class }, ..Attrs::default() };
        let stat = code == 0x10 && status == 0;
        if !wire.is_open(Dir::ToClient) {
            let role = if quiet { Role::Unsolicited } else { Role::Reply };
            self.pending = self.pending.saturating_sub(u32::from(!quiet));
            wire.begin(role, 24, attrs, &witness);
        }
        // Statistics end with one that is empty.
        if !stat || body == 0 {
            wire.end_open(Dir::ToClient, end, EndHow::Framed);
        }
        Ok(total)
    }
}

#[rustfmt::skip]
const BINARY: [&str; 0x25] = [
    "GET", "SET", "ADD", "REPLACE", "DELETE", "INCREMENT", "DECREMENT", "QUIT", "FLUSH", "GETQ", "NOOP", "VERSION",
    "GETK", "GETKQ", "APPEND", "PREPEND", "STAT", "SETQ", "ADDQ", "REPLACEQ", "DELETEQ", "INCREMENTQ", "DECREMENTQ",
    "QUITQ", "FLUSHQ", "APPENDQ", "PREPENDQ", "VERBOSITY", "TOUCH", "GAT", "GATQ", "OTHER", "SASL LIST", "SASL AUTH",
    "SASL STEP", "GATK", "GATKQ",
];

/// Whether these are the begin of a message of the binary protocol, whose lengths fit to each other and to what its command needs.
fn binary_fits(bytes: &[u8]) -> Fit {
    let &[magic, code, k1, k0, extras, kind, s1, s0, b3, b2, b1, b0, ..] = bytes else { return Fit::More };
    let (key, body) = (u32::from(u16::from_be_bytes([k1, k0])), u32::from_be_bytes([b3, b2, b1, b0]));
    let is_request = magic == 0x80;
    let needs_key = is_request && matches!(code, 0..=6 | 9 | 0x0c..=0x0f | 0x11..=0x16 | 0x19..=0x1e | 0x21..=0x24);
    let fits = code < 0x25
        && kind == 0
        && extras <= 24
        && key <= 250
        && (!needs_key || key > 0)
        && (is_request || u16::from_be_bytes([s1, s0]) < 0x100)
        && (key + u32::from(extras)..1 << 27).contains(&body);
    fits.into()
}

/// Whether these are the begin of such a message with a key that is one.
fn binary_key_fits(bytes: &[u8]) -> Fit {
    let (fit, Some(key), Some(extras)) = (binary_fits(bytes), be16(bytes, 2), bytes.get(4)) else { return Fit::More };
    let (start, key) = (24 + usize::from(*extras), usize::from(key));
    match bytes.get(start..start + key) {
        _ if fit != Fit::Yes || key == 0 => fit,
        Some(key) if key.iter().all(u8::is_ascii_graphic) => Fit::Sure,
        Some(_) => Fit::Yes,
        None => Fit::More,
    }
}

/// Whether a flow of which these are the first bytes is Memcached: by a whole message with a key, or a command or a value with its data;
/// on its usual port, or before an answer, by any command.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    let (line, data) = match bytes.iter().position(|&b| b == b'\n') {
        Some(end) => (&bytes[..end], Some(&bytes[end + 1..])),
        None => (bytes, None),
    };
    let mut words = line.trim_ascii_end().split(|&b| b == b' ');
    let name = words.next().unwrap_or(&[]);
    match dir {
        Dir::ToServer if bytes[0] == 0x80 => binary_key_fits(bytes),
        Dir::ToServer => {
            let stores = [&b"set"[..], b"add", b"replace", b"append", b"prepend", b"cas"].contains(&name);
            let is_command = COMMANDS.split(|b| *b == b' ').any(|command| command == name);
            let mut numbers = words.skip(1).map(decimal);
            match data {
                Some(data) if stores => match [numbers.next(), numbers.next(), numbers.next()] {
                    [Some(Some(_)), Some(Some(_)), Some(Some(count))] => payload_fits(data, count),
                    _ => Fit::No,
                },
                None if stores && is_shown(line) => Fit::More,
                Some(_) => (usual && is_command && line.ends_with(b"\r") && is_shown(line)).into(),
                None if !usual || !is_shown(line) => Fit::No,
                None if is_command && line.len() > name.len() => Fit::Yes,
                None if name.len() <= 16 && name.len() == line.len() => Fit::More,
                None => Fit::No,
            }
        }
        Dir::ToClient if name == b"VALUE" && bytes.len() > 6 => {
            let Some(data) = data else { return Fit::More };
            let mut numbers = words.skip(1).map(decimal);
            match (numbers.next(), numbers.next(), numbers.all(|n| n.is_some())) {
                (Some(Some(_)), Some(Some(count)), true) => payload_fits(data, count),
                _ => Fit::No,
            }
        }
        Dir::ToClient if b"VALUE ".starts_with(bytes) => Fit::More,
        Dir::ToClient if usual && bytes[0] == 0x81 => binary_fits(bytes),
        Dir::ToClient if usual => {
            let known =
                [&b"STORED"[..], b"NOT_STORED", b"EXISTS", b"NOT_FOUND", b"END", b"DELETED", b"TOUCHED", b"ERROR"];
            (data.is_some() && known.contains(&line.trim_ascii_end())).into()
        }
        Dir::ToClient => Fit::No,
    }
}
