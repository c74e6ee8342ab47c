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
//! After a change to TLS, and after the login of a compressed connection, everything is opaque. Joined in mid-stream,
//! a reply to COM_STMT_PREPARE ends at the next turn until a result has shown which end of lists is in use. Not
//! handled: what COM_BINLOG_DUMP sends (one reply), query attributes with values (such statements have no shape).

use crate::asked::Asked;
use crate::bytes::{is_typed, le16, le32, lenenc};
use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::registry::{About, Docs};
use crate::shapes::{self, Cache, Shape, sqlstate};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, mask, sql_words};

/// Bytes kept of a packet in each direction: of a statement a little less.
pub const HEAD: usize = 512;

/// The MySQL processor.
pub type MySql = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.mysql",
    ports: &[3306],
    recognise,
    vocabulary: shapes::VOCABULARY,
    bytes_max: 2560,
    docs: Docs {
        what: "MySQL and MariaDB",
        request: "a command",
        kept: "verb, statement's shape, error number, SQLSTATE",
        pairs: "order on the connection",
    },
    ..About::NEW
};

/// What of MySQL is remembered between units.
pub struct Framing {
    /// The login is over, or was not seen.
    commands: bool,
    /// Lists of definitions end with an EOF packet (no CLIENT_DEPRECATE_EOF), if known.
    eofs: Option<bool>,
    /// What the client said at its login that it can do (CLIENT_…).
    client: u32,
    /// In strings a backslash is only a backslash (NO_BACKSLASH_ESCAPES).
    plain: bool,
    /// The packet at hand goes on in the next one.
    more: [bool; 2],
    /// Commands that wait for their replies.
    asked: Asked<8>,
    reply: Part,
    /// By id; the last COM_STMT_PREPARE without a name until it is answered.
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
    /// So many packets of definitions after the answer to a COM_STMT_PREPARE.
    Prepared(u32),
    /// Whatever comes, until the client speaks.
    Tail,
}

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
/// Of our own.
const LOGIN: u8 = 0x20;
const BULK_EXECUTE: u8 = 0xfa;

#[rustfmt::skip]
const NAMES: [&str; 33] = [
    "SLEEP", "QUIT", "USE", "QUERY", "FIELD LIST", "CREATE DB", "DROP DB", "REFRESH", "SHUTDOWN", "STATISTICS",
    "PROCESS INFO", "CONNECT", "PROCESS KILL", "DEBUG", "PING", "TIME", "DELAYED INSERT", "CHANGE USER",
    "BINLOG DUMP", "TABLE DUMP", "CONNECT OUT", "REGISTER REPLICA", "PREPARE", "EXECUTE", "LONG DATA", "CLOSE",
    "RESET STATEMENT", "SET OPTION", "FETCH", "DAEMON", "BINLOG DUMP", "RESET", "LOGIN",
];

impl Framer for Framing {
    const NEW: Framing = Framing {
        commands: true,
        eofs: None,
        client: 0,
        plain: false,
        more: [false; 2],
        asked: Asked::NEW,
        reply: Part::First,
        cache: Cache::NEW,
    };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match (dir, bytes) {
            (_, [0, 0, 0, _, ..]) => Fit::No,
            _ if bytes.len() < 5 => Fit::More,
            // whether it is a greeting shows at the end of its version
            (Dir::ToClient, [2..=255, 0, 0, 0, 10, v @ ..]) if v.len() < VERSION_MAX && !v.contains(&0) => Fit::More,
            (Dir::ToClient, _) => (greets(bytes) || (self.asked.len() > 0 && bytes[3] == 1)).into(),
            // A login, or a command.
            (Dir::ToServer, [_, _, 0, 1, ..]) => true.into(),
            (Dir::ToServer, _) => (bytes[3] == 0 && is_command(bytes[4])).into(),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let head = le32(bytes, 0).ok_or(Stop::Need)?;
        let (length, sequence) = (head & 0xff_ffff, head >> 24);
        let (total, more, d) = (u64::from(length) + 4, length == 0xff_ffff, wire.dir.index());
        if self.more[d] {
            self.more[d] = more;
            if !more && (wire.dir == Dir::ToServer || self.reply == Part::First) {
                wire.end_open(wire.dir, wire.behind(total), EndHow::Framed);
            }
            return Ok(total);
        }
        // Of a statement all that is kept is wanted, of others the first fields.
        let statement = wire.dir == Dir::ToServer && matches!(bytes.get(4), Some(&(QUERY | PREPARE)));
        let wanted = if statement { HEAD } else { 40 }.min(total as usize);
        if bytes.len() < wanted && !last {
            return Err(Stop::Need);
        }
        self.more[d] = more;
        let body = &bytes[4..bytes.len().min(wanted).max(4)];
        match wire.dir {
            Dir::ToServer => self.client(wire, sequence == 0, body, total),
            Dir::ToClient => self.server(wire, sequence == 0, body, total),
        }
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        self.more[wire.dir.index()] = false;
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if lost && wire.dir == Dir::ToServer {
            (self.asked, self.reply) = (Asked::NEW, Part::First);
        } else if lost {
            self.asked.push(QUERY); // what the client sent is answered, though its end was not seen
        }
    }

    fn alone(&self, wire: &Wire<'_>) -> bool {
        wire.dir == Dir::ToClient && wire.is_open(wire.dir) && self.asked.len() <= 1
    }
}

impl Framing {
    fn client(&mut self, wire: &mut Wire<'_>, first: bool, body: &[u8], total: u64) -> Unit {
        let command = body.first().copied().unwrap_or(0);
        if self.commands && first && !is_command(command) {
            return Err(BAD);
        }
        if self.commands && first && self.reply == Part::Tail {
            wire.end_open(Dir::ToClient, wire.next[1], EndHow::Turn);
            (self.reply, self.asked) = (Part::First, Asked::NEW);
        }
        let command = if self.commands { command } else { LOGIN };
        let tls = command == LOGIN && total == 36 && le32(body, 0).is_some_and(|flags| flags & TLS != 0);
        let shape = self.statement(command, body, total);
        let (role, attrs) = match name(command) {
            "LOGIN" if self.asked.len() > 0 => (Role::Interim, Attrs::alone("AUTH")),
            "LOGIN" if tls => (Role::Unsolicited, Attrs::alone("SSLREQUEST")),
            "LOGIN" => (Role::Request, Attrs::alone("LOGIN")),
            _ if !first => (Role::Interim, Attrs::alone("DATA")),
            "QUERY" | "PREPARE" | "EXECUTE" => (Role::Request, shape.attrs()),
            verb @ ("QUIT" | "LONG DATA" | "CLOSE") => (Role::Unsolicited, Attrs::alone(verb)),
            verb => (Role::Request, Attrs::alone(verb)),
        };
        let border = if self.more[0] { Border::Open } else { Border::Known(wire.behind(total)) };
        wire.message(role, (wire.at, border), wire.behind(4 + body.len()), attrs, &[]);
        if role == Role::Request && !self.asked.push(command) {
            wire.sink.defect(Defect::QueueOverflow, wire.dir, wire.at);
        }
        match (name(command), role) {
            _ if tls => return Err(Stop::Opaque(total)),
            ("LOGIN", Role::Request) => {
                self.client = le32(body, 0).unwrap_or(0);
                self.eofs = Some(self.client & NO_EOFS == 0);
            }
            ("PREPARE", Role::Request) => self.cache.put(&[], &shape),
            ("CLOSE", Role::Unsolicited) => self.cache.forget(id(body)),
            _ => {}
        }
        Ok(total)
    }

    /// The shape of the statement in a command, or of the one that it names.
    fn statement(&self, command: u8, body: &[u8], total: u64) -> Shape {
        let text = match body {
            _ if command == LOGIN => &[],
            [QUERY, 0, 1, text @ ..] if self.client & ATTRIBUTES != 0 => text,
            [QUERY, ..] if self.client & ATTRIBUTES != 0 => &[],
            [QUERY | PREPARE, text @ ..] => text,
            _ => return self.cache.get(id(body)),
        };
        let dialect = if self.plain { mask::Sql::MySqlPlain } else { mask::Sql::MySql };
        Shape::of(text, body.len() as u64 + 4 < total, dialect)
    }

    fn server(&mut self, wire: &mut Wire<'_>, first: bool, body: &[u8], total: u64) -> Unit {
        let end = wire.behind(total);
        let kind = body.first().copied().ok_or(if total > 4 { Stop::Need } else { BAD })?;
        // Number and SQLSTATE of an ERR packet; before the login it has no SQLSTATE.
        let state = sqlstate(body.get(3..9).and_then(|state| state.strip_prefix(b"#")).unwrap_or(&[]));
        let failed = Status { outcome: Outcome::Error, code: le16(body, 1), class: state.as_str() };
        if self.asked.len() == 0 {
            let greets = first && kind == 10;
            self.commands &= !greets;
            let status = if kind == 0xff { failed } else { Status::default() };
            let attrs = Attrs::status(if greets { "GREETING" } else { "NOTICE" }, status);
            wire.whole(Role::Unsolicited, end, 4 + body.len(), attrs, &[]);
            return Ok(total);
        }
        let (end_of_list, okay) = (kind == 0xfe && total == 9, kind == 0xfe && (10..1 << 24).contains(&total));
        let flags = if end_of_list { le16(body, 3) } else { ok_flags(body) }.unwrap_or(0);
        let more = flags & 8 != 0; // SERVER_MORE_RESULTS_EXISTS
        // What comes next, and whether the reply is over after this packet.
        let (next, over) = match (self.reply, name(self.asked.first().unwrap_or(QUERY)), kind) {
            (Part::Columns(left), ..) => (if left > 1 { Part::Columns(left - 1) } else { Part::Rows(false) }, false),
            (Part::Prepared(left), ..) => (Part::Prepared(left - 1), left == 1),
            (_, _, 0xff) => {
                wire.answer(wire.at, failed);
                (Part::First, true)
            }
            (Part::Rows(passed), ..) if end_of_list || okay => {
                self.eofs = Some(end_of_list || (passed && self.eofs == Some(true)));
                // With a cursor, or where it is the second one, an EOF packet ends the result; else the definitions.
                let definitions = end_of_list && !passed && flags & 0x40 == 0;
                if definitions { (Part::Rows(true), false) } else { (Part::First, !more) }
            }
            (Part::Rows(_) | Part::Tail, ..) => (self.reply, false),
            (_, "LOGIN" | "CHANGE USER", 1 | 0xfe) | (_, "QUERY", 0xfb) => {
                let verb = if kind == 0xfb { "INFILE" } else { "AUTH" };
                wire.whole(Role::Interim, end, 5, Attrs::status(verb, Status::default()), &[]);
                return Ok(total);
            }
            (_, "PREPARE", 0) => {
                self.cache.rename(&[], id(body));
                let list = |count| u32::from(count) + u32::from(count > 0 && self.eofs == Some(true));
                match list(le16(body, 5).unwrap_or(0)) + list(le16(body, 7).unwrap_or(0)) {
                    0 => (Part::First, true),
                    _ if self.eofs.is_none() => (Part::Tail, false),
                    left => (Part::Prepared(left), false),
                }
            }
            (_, "LOGIN" | "STATISTICS", _) => (Part::First, true),
            (_, "BINLOG DUMP", _) => (Part::Tail, false),
            (_, "FIELD LIST" | "FETCH", _) => (Part::Rows(true), (end_of_list || okay) && !more),
            (_, _, 0 | 0xfe) => {
                self.plain = flags & 0x200 != 0;
                (Part::First, !more)
            }
            _ => {
                let (count, used) = lenenc(body).ok_or(BAD)?;
                // MariaDB may leave the definitions out when the client has them.
                let known = body.get(used) == Some(&0);
                (if known || count == 0 { Part::Rows(false) } else { Part::Columns(count) }, false)
            }
        };
        wire.answer(wire.at, Status::OK);
        self.reply = if over { Part::First } else { next };
        if over && !self.more[1] {
            wire.end_open(Dir::ToClient, end, EndHow::Framed);
        }
        if over && self.asked.pop() == Some(LOGIN) && kind != 0xff {
            self.commands = true;
            if self.client & COMPRESS != 0 {
                return Err(Stop::Opaque(total));
            }
        }
        Ok(total)
    }
}

/// What a client can do: no EOF packets, TLS, compression, statements with attributes (CLIENT_…).
const NO_EOFS: u32 = 1 << 24;
const TLS: u32 = 1 << 11;
const COMPRESS: u32 = 1 << 5 | 1 << 26;
const ATTRIBUTES: u32 = 1 << 27;

/// The id of a statement, where it stands in a command and in the answer to COM_STMT_PREPARE.
fn id(body: &[u8]) -> &[u8] {
    body.get(1..5).unwrap_or(&[])
}

/// The server's status in an OK packet.
fn ok_flags(body: &[u8]) -> Option<u16> {
    let (_, rows) = lenenc(body.get(1..)?)?;
    let (_, id) = lenenc(body.get(1 + rows..)?)?;
    le16(body, 1 + rows + id)
}

fn is_command(byte: u8) -> bool {
    matches!(byte, 1..=0x1f | BULK_EXECUTE)
}

/// Whether a command that is no statement has a packet's length (count of bytes) and `body` as it must have.
fn command_fits(command: u8, length: usize, body: &[u8]) -> bool {
    match command {
        1 | 9 | 14 | 31 => length == 1, // QUIT, STATISTICS, PING, RESET CONNECTION
        2 => length >= 2 && is_typed(body),
        0x17 => length >= 10 && body.get(5..9).is_none_or(|iterations| iterations == [1, 0, 0, 0]),
        0x19 | 0x1a | 0x1c => length == if command == 0x1c { 9 } else { 5 }, // CLOSE, RESET, FETCH
        BULK_EXECUTE => length >= 7,
        _ => false,
    }
}

fn name(command: u8) -> &'static str {
    NAMES.get(usize::from(command)).copied().unwrap_or("EXECUTE")
}

/// Most bytes of a server's version, with the zero that ends it (SERVER_VERSION_LENGTH is 60).
const VERSION_MAX: usize = 64;

/// Whether this is a greeting: protocol 10, and in the same packet a version that begins with a number.
fn greets(bytes: &[u8]) -> bool {
    let [2..=255, 0, 0, 0, 10, b'0'..=b'9', version @ ..] = bytes else { return false };
    let shown = version.iter().take_while(|b| (b' '..=b'~').contains(b)).count();
    version.get(shown).is_none_or(|end| *end == 0 && shown >= 2)
}

/// Whether a flow of which these are the first bytes is MySQL: by the greeting, or one statement in plain text; on its
/// usual port also by another command.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    let length = le32(bytes, 0).unwrap_or(0) as usize;
    match (dir, bytes) {
        (Dir::ToClient, [_] | [_, 0] | [_, 0, 0] | [_, 0, 0, 0] | [_, 0, 0, 0, 10]) => Fit::More,
        (Dir::ToServer, [_] | [_, _] | [_, _, _] | [_, _, _, 0]) => Fit::More,
        (Dir::ToServer, [_, _, _, 0, QUERY | PREPARE, ..]) if bytes.len() < 11 && length >= 6 => Fit::More,
        (Dir::ToServer, [_, _, _, 0, QUERY | PREPARE, text @ ..]) => {
            let text = text.strip_prefix(&[0, 1]).unwrap_or(text);
            let fits = length >= 6 && length + 4 >= bytes.len() && text.len() >= 4 && is_typed(text);
            let is_text = usual && text.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
            let is_whole = length + 4 == bytes.len() && (fits || is_text);
            if fits && sql_words::begins(text) { Fit::Sure } else { is_whole.into() }
        }
        (Dir::ToServer, [_, _, 0, 0, command, body @ ..]) => (usual && command_fits(*command, length, body)).into(),
        (Dir::ToClient, _) if greets(bytes) => [Fit::More, Fit::Sure][usize::from(bytes.len() >= 8)],
        // an OK, an error or a count of columns
        (Dir::ToClient, [_, _, 0, 1, ..]) => (usual && length > 0).into(),
        _ => Fit::No,
    }
}
