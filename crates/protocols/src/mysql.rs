//! MySQL and MariaDB, client/server protocol 4.1 (MySQL internals manual; mariadb.com/kb, "Clients & Utilities").
//!
//! ```text
//! < greeting                                  unsolicited, verb GREETING
//! > handshake response; < OK or ERR           request, verb LOGIN; its reply; what is between them is interim
//! > COM_QUERY "SELECT * FROM t WHERE id = 7"  request, verb SELECT, target SELECT * FROM t WHERE id = ?
//! < count, definitions, rows, EOF             one reply over all results; ok, or error with number and SQLSTATE
//! ```
//!
//! Of 8 prepared statements the shape is remembered, else the target is `EXECUTE <prepared>`. COM_STMT_CLOSE,
//! COM_STMT_SEND_LONG_DATA and COM_QUIT get no reply: they are unsolicited. The data of LOAD DATA LOCAL is interim.
//! Behind a change to TLS, and behind the login of a compressed connection, everything is opaque. Joined in mid-stream,
//! a reply to COM_STMT_PREPARE ends at the next turn until a result has shown which end of lists is in use. Not
//! handled: what COM_BINLOG_DUMP sends (one reply), query attributes with values (such statements have no shape).

use crate::bytes::{le16, le32};
use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::shapes::{Cache, Shape};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, Text, mask};

/// Bytes kept of a packet in each direction: of a statement a little less.
pub const HEAD: usize = 512;

/// The MySQL processor.
pub type MySql = Duplex<Framing, HEAD>;

/// What of MySQL is remembered between units.
pub struct Framing {
    /// The login is over, or was not seen.
    commands: bool,
    /// Lists of definitions end with an EOF packet (no CLIENT_DEPRECATE_EOF), if known.
    eofs: Option<bool>,
    /// Statements carry attributes (CLIENT_QUERY_ATTRIBUTES).
    attributes: bool,
    /// Behind the login everything is compressed.
    compressed: bool,
    /// In strings a backslash is only a backslash (NO_BACKSLASH_ESCAPES).
    plain: bool,
    /// The packet at hand goes on in the next one.
    more: [bool; 2],
    /// Commands that wait for their replies.
    asked: [u8; 8],
    pending: u8,
    reply: Part,
    /// The reply at hand was emitted.
    told: bool,
    /// The shape of the last COM_STMT_PREPARE.
    preparing: Option<Text<128>>,
    cache: Cache,
}

/// What the next packet of a reply is.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    First,
    /// So many definitions, and then rows.
    Columns(u64),
    /// Rows; the EOF packet between definitions and rows has passed.
    Rows(bool),
    /// The definitions of parameters and of columns behind the answer to a COM_STMT_PREPARE.
    Prepared(u16, u16),
    /// Whatever comes, until the client speaks.
    Tail,
}

const QUIT: u8 = 0x01;
const QUERY: u8 = 0x03;
const FIELD_LIST: u8 = 0x04;
const STATISTICS: u8 = 0x09;
const CHANGE_USER: u8 = 0x11;
const BINLOG_DUMP: u8 = 0x12;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const LONG_DATA: u8 = 0x18;
const CLOSE: u8 = 0x19;
const FETCH: u8 = 0x1c;
const BINLOG_DUMP_GTID: u8 = 0x1e;
const BULK_EXECUTE: u8 = 0xfa;
/// Of our own: the login.
const LOGIN: u8 = 0xff;

#[rustfmt::skip]
const NAMES: [&str; 32] = [
    "SLEEP", "QUIT", "USE", "QUERY", "FIELD LIST", "CREATE DB", "DROP DB", "REFRESH", "SHUTDOWN", "STATISTICS",
    "PROCESS INFO", "CONNECT", "PROCESS KILL", "DEBUG", "PING", "TIME", "DELAYED INSERT", "CHANGE USER",
    "BINLOG DUMP", "TABLE DUMP", "CONNECT OUT", "REGISTER REPLICA", "PREPARE", "EXECUTE", "LONG DATA", "CLOSE",
    "RESET STATEMENT", "SET OPTION", "FETCH", "DAEMON", "BINLOG DUMP", "RESET",
];

impl Framer for Framing {
    const NEW: Framing = Framing {
        commands: true,
        eofs: None,
        attributes: false,
        compressed: false,
        plain: false,
        more: [false; 2],
        asked: [0; 8],
        pending: 0,
        reply: Part::First,
        told: false,
        preparing: None,
        cache: Cache::NEW,
    };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match (dir, bytes) {
            (_, [0, 0, 0, _, ..]) => Fit::No,
            _ if bytes.len() < 5 => Fit::More,
            (Dir::ToClient, [2..=255, 0, 0, 0, 10]) => Fit::More,
            (Dir::ToClient, _) => (greets(bytes) || (self.pending > 0 && bytes[3] == 1)).into(),
            // A login, or a command.
            (Dir::ToServer, [_, _, 0, 1, ..]) => true.into(),
            (Dir::ToServer, _) => (bytes[3] == 0 && is_command(bytes[4])).into(),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let head = le32(bytes, 0).ok_or(Stop::Need)?;
        let (length, sequence) = (head & 0xff_ffff, (head >> 24) as u8);
        let total = u64::from(length) + 4;
        let d = wire.dir.index();
        let more = length == 0xff_ffff;
        if core::mem::replace(&mut self.more[d], more) {
            if !more && (wire.dir == Dir::ToServer || self.reply == Part::First) {
                wire.end_open(wire.dir, wire.behind(total), EndHow::Framed);
            }
            return Ok(total);
        }
        // Of a statement all that is kept is wanted, of others the first fields.
        let command = bytes.get(4).copied().unwrap_or(0);
        let wanted = match wire.dir {
            Dir::ToServer if matches!(command, QUERY | PREPARE) => HEAD,
            _ => 40,
        };
        let wanted = wanted.min(usize::try_from(total).unwrap_or(HEAD));
        if bytes.len() < wanted && !last {
            self.more[d] = false;
            return Err(Stop::Need);
        }
        let body = &bytes[4..bytes.len().min(wanted).max(4)];
        match wire.dir {
            Dir::ToServer => self.client(wire, (sequence, command), body, total),
            Dir::ToClient => self.server(wire, sequence, body, total),
        }
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.more[wire.dir.index()] = false;
        if wire.dir == Dir::ToClient {
            (self.reply, self.told) = (Part::First, false);
        }
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if lost && wire.dir == Dir::ToServer {
            (self.pending, self.reply, self.told) = (0, Part::First, false);
        } else if lost {
            self.ask(QUERY); // what the client sent is answered, though its end was not seen
        }
    }
}

impl Framing {
    fn ask(&mut self, command: u8) -> bool {
        let room = self.asked.get_mut(usize::from(self.pending));
        let fits = room.is_some();
        if let Some(slot) = room {
            *slot = command;
            self.pending += 1;
        }
        fits
    }

    fn client(&mut self, wire: &mut Wire<'_>, what: (u8, u8), body: &[u8], total: u64) -> Unit {
        let (sequence, command) = what;
        let end = wire.behind(total);
        let border = if self.more[0] { Border::Open } else { Border::Known(end) };
        let alone = |verb| Attrs { verb, target: verb, ..Attrs::default() };
        let mut say =
            |role, attrs: Attrs<'_>| wire.message(role, (wire.at, border), wire.behind(4 + body.len()), attrs, &[]);
        if !self.commands {
            let flags = le32(body, 0).unwrap_or(0);
            if self.pending > 0 {
                say(Role::Interim, alone("AUTH"));
            } else if total == 36 && flags & 0x800 != 0 {
                say(Role::Unsolicited, alone("SSLREQUEST"));
                return Err(Stop::Opaque(total));
            } else {
                self.eofs = Some(flags & 1 << 24 == 0);
                self.attributes = flags & 1 << 27 != 0;
                self.compressed = flags & (1 << 5 | 1 << 26) != 0;
                self.ask(LOGIN);
                say(Role::Request, alone("LOGIN"));
            }
            return Ok(total);
        }
        if sequence != 0 {
            say(Role::Interim, alone("DATA"));
            return Ok(total);
        }
        if !is_command(command) || body.is_empty() {
            return Err(BAD);
        }
        if self.reply == Part::Tail {
            wire.end_open(Dir::ToClient, wire.next[1], EndHow::Turn);
            (self.reply, self.told, self.pending) = (Part::First, false, 0);
        }
        let mut say =
            |role, attrs: Attrs<'_>| wire.message(role, (wire.at, border), wire.behind(4 + body.len()), attrs, &[]);
        if matches!(command, QUIT | LONG_DATA | CLOSE) {
            if command == CLOSE {
                self.cache.forget(u64::from(le32(body, 1).unwrap_or(0)) + 1);
            }
            say(Role::Unsolicited, alone(name(command)));
            return Ok(total);
        }
        let cut = body.len() as u64 + 4 < total;
        match command {
            QUERY | PREPARE => {
                let dialect = if self.plain { mask::Sql::MySqlPlain } else { mask::Sql::MySql };
                let text = match body {
                    [QUERY, 0, 1, text @ ..] if self.attributes => text,
                    [QUERY, ..] if self.attributes => &[],
                    _ => &body[1..],
                };
                let shape = Shape::of(text, cut, dialect);
                say(Role::Request, shape.attrs());
                if command == PREPARE {
                    self.preparing = Some(shape.kept());
                }
            }
            EXECUTE | BULK_EXECUTE => {
                say(Role::Request, self.cache.get(u64::from(le32(body, 1).unwrap_or(0)) + 1).attrs())
            }
            _ => say(Role::Request, alone(name(command))),
        }
        if !self.ask(command) {
            wire.sink.defect(Defect::QueueOverflow, wire.dir, wire.at);
        }
        Ok(total)
    }

    fn server(&mut self, wire: &mut Wire<'_>, sequence: u8, body: &[u8], total: u64) -> Unit {
        let end = wire.behind(total);
        let kind = body.first().copied().ok_or(BAD)?;
        if self.pending == 0 {
            let greets = sequence == 0 && kind == 10;
            self.commands &= !greets;
            let verb = if greets { "GREETING" } else { "NOTICE" };
            let status = if kind == 0xff { error(body) } else { ERR_NONE };
            let attrs = Attrs { verb, status: status.status(), ..Attrs::default() };
            wire.whole(Role::Unsolicited, end, 4 + body.len(), attrs, &[]);
            return Ok(total);
        }
        let command = self.asked[0];
        let (end_of_list, okay) = (kind == 0xfe && total == 9, kind == 0xfe && (10..1 << 24).contains(&total));
        let flags = if end_of_list { le16(body, 3) } else { ok_flags(body) }.unwrap_or(0);
        // What of the reply is over behind this packet: nothing, one of its results, or all of it.
        let over = match self.reply {
            _ if kind == 0xff && !matches!(self.reply, Part::Columns(_) | Part::Prepared(..)) => {
                let error = error(body);
                if self.told {
                    wire.sink.amend(Dir::ToClient, wire.open[1], error.status());
                } else {
                    self.tell(wire, error.status());
                }
                return self.done(wire, end, total);
            }
            Part::First => match (command, kind) {
                (LOGIN | CHANGE_USER, 1 | 0xfe) | (QUERY, 0xfb) => {
                    let attrs = Attrs { verb: if kind == 0xfb { "INFILE" } else { "AUTH" }, ..Attrs::default() };
                    wire.whole(Role::Interim, end, 5, attrs, &[]);
                    return Ok(total);
                }
                (LOGIN, _) => {
                    self.commands = true;
                    self.tell(wire, Status::OK);
                    self.done(wire, end, total)?;
                    return if self.compressed { Err(Stop::Opaque(total)) } else { Ok(total) };
                }
                (PREPARE, 0) => {
                    let (columns, parameters) = (le16(body, 5).unwrap_or(0), le16(body, 7).unwrap_or(0));
                    if let (Some(shape), Some(id)) = (self.preparing.take(), le32(body, 1)) {
                        self.cache.put(u64::from(id) + 1, shape);
                    }
                    self.reply = match self.eofs {
                        None if columns > 0 || parameters > 0 => Part::Tail,
                        eofs => {
                            let list = |count: u16| if count > 0 { count + u16::from(eofs == Some(true)) } else { 0 };
                            Part::Prepared(list(parameters), list(columns))
                        }
                    };
                    self.reply == Part::Prepared(0, 0)
                }
                (STATISTICS, _) => true,
                (BINLOG_DUMP | BINLOG_DUMP_GTID, _) => {
                    self.reply = Part::Tail;
                    false
                }
                (FIELD_LIST | FETCH, _) => {
                    self.reply = Part::Rows(true);
                    (end_of_list || okay) && flags & MORE == 0
                }
                (_, 0 | 0xfe) => {
                    self.plain = flags & 0x200 != 0;
                    flags & MORE == 0
                }
                _ => {
                    let (count, used) = lenenc(body).ok_or(BAD)?;
                    // MariaDB may leave the definitions out when the client has them.
                    let known = body.get(used) == Some(&0);
                    self.reply = if known || count == 0 { Part::Rows(false) } else { Part::Columns(count) };
                    false
                }
            },
            Part::Columns(left) => {
                self.reply = if left > 1 { Part::Columns(left - 1) } else { Part::Rows(false) };
                false
            }
            Part::Prepared(parameters, columns) => {
                let left = (parameters.saturating_sub(1), columns.saturating_sub(u16::from(parameters == 0)));
                self.reply = Part::Prepared(left.0, left.1);
                left == (0, 0)
            }
            // With a cursor, or where it is the second one, an EOF packet ends the result; else it ends the definitions.
            Part::Rows(passed) if end_of_list && !passed && flags & 0x40 == 0 => {
                self.eofs = Some(true);
                self.reply = Part::Rows(true);
                false
            }
            Part::Rows(passed) if end_of_list || okay => {
                self.eofs = Some(end_of_list || (passed && self.eofs == Some(true)));
                self.reply = Part::First;
                flags & MORE == 0
            }
            Part::Rows(_) | Part::Tail => false,
        };
        self.tell(wire, Status::OK);
        if over { self.done(wire, end, total) } else { Ok(total) }
    }

    fn tell(&mut self, wire: &mut Wire<'_>, status: Status<'_>) {
        if !core::mem::replace(&mut self.told, true) {
            let attrs = Attrs { status, ..Attrs::default() };
            wire.message(Role::Reply, (wire.at, Border::Open), wire.behind(5u64), attrs, &[]);
        }
    }

    /// The reply ends with this packet.
    fn done(&mut self, wire: &mut Wire<'_>, end: u64, total: u64) -> Unit {
        if !self.more[1] {
            wire.end_open(Dir::ToClient, end, EndHow::Framed);
        }
        self.asked.rotate_left(1);
        self.pending = self.pending.saturating_sub(1);
        (self.reply, self.told) = (Part::First, false);
        Ok(total)
    }
}

/// More results follow (SERVER_MORE_RESULTS_EXISTS).
const MORE: u16 = 8;

struct Failure {
    outcome: Outcome,
    code: Option<u16>,
    state: Text<5>,
}

const ERR_NONE: Failure = Failure { outcome: Outcome::Unknown, code: None, state: Text::new() };

impl Failure {
    fn status(&self) -> Status<'_> {
        Status { outcome: self.outcome, code: self.code, class: self.state.as_str() }
    }
}

/// Number and SQLSTATE of an ERR packet; before the login it has no SQLSTATE.
fn error(body: &[u8]) -> Failure {
    let state = body.get(3..9).filter(|state| state[0] == b'#' && state[1..].iter().all(u8::is_ascii_alphanumeric));
    let state = state.map_or(Text::new(), |state| Text::of(&state[1..]));
    Failure { outcome: Outcome::Error, code: le16(body, 1), state }
}

/// The server's status in an OK packet.
fn ok_flags(body: &[u8]) -> Option<u16> {
    let (_, rows) = lenenc(body.get(1..)?)?;
    let (_, id) = lenenc(body.get(1 + rows..)?)?;
    le16(body, 1 + rows + id)
}

/// A length-encoded integer, and how many bytes it takes.
fn lenenc(bytes: &[u8]) -> Option<(u64, usize)> {
    let wide = |count: usize| {
        let field = bytes.get(1..1 + count)?;
        Some((field.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)), 1 + count))
    };
    match *bytes.first()? {
        short @ 0..=0xfa => Some((short.into(), 1)),
        0xfc => wide(2),
        0xfd => wide(3),
        0xfe => wide(8),
        _ => None,
    }
}

fn is_command(byte: u8) -> bool {
    matches!(byte, 1..=0x1f | BULK_EXECUTE)
}

fn name(command: u8) -> &'static str {
    NAMES.get(usize::from(command)).copied().unwrap_or("EXECUTE")
}

/// Whether this is a greeting: protocol 10, and a version that begins with a number.
fn greets(bytes: &[u8]) -> bool {
    matches!(bytes, [_, 0, 0, 0, 10, b'0'..=b'9', ..])
}

/// Whether a flow of which these are the first bytes is MySQL: by the greeting, or one statement in plain text; on its
/// usual port also by another command.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    match (dir, bytes) {
        (Dir::ToClient, [_] | [_, 0] | [_, 0, 0] | [_, 0, 0, 0] | [_, 0, 0, 0, 10]) => Fit::More,
        (Dir::ToServer, [_] | [_, _] | [_, _, _] | [_, _, _, 0]) => Fit::More,
        (Dir::ToServer, [_, _, _, 0, QUERY | PREPARE, ..]) if bytes.len() < 11 => {
            if le32(bytes, 0).unwrap_or(0) < 6 {
                Fit::No
            } else {
                Fit::More
            }
        }
        (Dir::ToClient, _) => greets(bytes).into(),
        (Dir::ToServer, [_, _, _, 0, QUERY | PREPARE, text @ ..]) => {
            let length = le32(bytes, 0).unwrap_or(0) as usize;
            let text = text.strip_prefix(&[0, 1]).unwrap_or(text);
            let shown = text.iter().all(|b| !b.is_ascii_control() || b.is_ascii_whitespace());
            (length + 4 >= bytes.len() && text.len() >= 4 && text[0].is_ascii_alphabetic() && shown).into()
        }
        (Dir::ToServer, [_, _, 0, 0, command, ..]) => (usual && is_command(*command)).into(),
        _ => Fit::No,
    }
}
