//! Redis: RESP2 and RESP3 (redis.io, "Redis serialization protocol specification"), and inline commands.
//!
//! ```text
//! > *3 $3 SET $4 key1 $5 value         request, verb SET, target SET, 2 arguments; keys and values are never read
//! < +OK                                reply, ok
//! < -WRONGTYPE Operation against …     reply, error, class WRONGTYPE
//! < >3 $7 message …                    unsolicited, verb MESSAGE
//! ```
//!
//! The target names the subcommand of containers (`CONFIG GET`). A (UN)SUBSCRIBE is answered by its first
//! confirmation, further ones are unsolicited; so are a MONITOR's lines and everything behind `CLIENT REPLY OFF`.
//! Not handled: streamed strings and aggregates (`$?`, `*?`), which no server sends.

use crate::duplex::{Duplex, Fit, Framer, Step, Wire};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, Text};

/// Bytes kept of a line in each direction.
pub const HEAD: usize = 128;

/// The Redis processor.
pub type Redis = Duplex<Framing, HEAD>;

impl Redis {
    /// For a flow at its start or joined in mid-stream.
    pub const fn new() -> Self {
        Duplex::with(Framing {
            left: [0; 2],
            long: [false; 2],
            listens: false,
            pending: 0,
            unsure: false,
            confirms: 0,
            monitor: false,
            silence: Silence::None,
        })
    }
}

impl Default for Redis {
    fn default() -> Self {
        Self::new()
    }
}

/// What of Redis is remembered between units.
pub struct Framing {
    /// Values that are still to come of the message of each direction.
    left: [u64; 2],
    /// Inside a line of text that is longer than a head.
    long: [bool; 2],
    /// Arrays may be messages of a subscription (RESP2; in RESP3 they are pushed).
    listens: bool,
    /// Requests without a reply, as far as known.
    pending: u32,
    /// Requests may have been missed.
    unsure: bool,
    /// (Un)subscriptions that wait for their first confirmation.
    confirms: u32,
    monitor: bool,
    silence: Silence,
}

/// What `CLIENT REPLY` asked for.
#[derive(PartialEq)]
enum Silence {
    None,
    Off,
    Next,
}

impl Framer for Framing {
    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match (dir, bytes) {
            (Dir::ToServer, [b'*', digit, ..]) => digit.is_ascii_digit().into(),
            (Dir::ToServer, [b'*']) => Fit::More,
            (Dir::ToServer, [byte, ..]) => byte.is_ascii_alphabetic().into(),
            // A value may be an element of something that began before; only behind a request it is a reply.
            (Dir::ToClient, [b'>', ..]) => Fit::Yes,
            (Dir::ToClient, [byte, ..]) => (self.pending > 0 && TYPES.contains(byte)).into(),
            _ => Fit::More,
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step {
        let line = bytes.iter().position(|&b| b == b'\n').map(|at| at + 1);
        let step = match wire.dir {
            Dir::ToServer => self.request(wire, bytes, line, last),
            Dir::ToClient => self.reply(wire, bytes, line, last),
        };
        match step {
            Ok(length) => Step::Take(length),
            Err(step) => step,
        }
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        self.unsure |= wire.dir == Dir::ToServer;
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.left[wire.dir.index()] = 0;
        self.long[wire.dir.index()] = false;
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if wire.dir == Dir::ToServer && lost {
            (self.pending, self.confirms, self.unsure) = (0, 0, false);
        }
    }
}

type Length = Result<u64, Step>;

impl Framing {
    fn request(&mut self, wire: &mut Wire<'_>, bytes: &[u8], line: Option<usize>, last: bool) -> Length {
        let left = self.left[0];
        if left == 0 && (self.long[0] || bytes[0] != b'*') {
            return self.inline(wire, bytes, line, last);
        }
        let line = line.ok_or(short(last))?;
        if left > 0 {
            // An argument, of which nothing is wanted but its length.
            let length = bulk(bytes, line)?;
            self.left[0] = left - 1;
            if left == 1 {
                wire.end_open(wire.dir, wire.at.saturating_add(length), EndHow::Framed);
            }
            return Ok(length);
        }
        let count = number(bytes, line)?;
        if count <= 0 {
            return Ok(line as u64); // an empty command gets no reply
        }
        let name_line = next_line(bytes, line, last)?;
        let name_end = line as u64 + bulk(&bytes[line..], name_line - line)?;
        let name = word(bytes, name_line, name_end, last)?;
        let verb = verb(name);
        let mut target = Text::<40>::of(verb.bytes());
        let (mut end, mut left) = (name_end, count as u64 - 1);
        let mut sub = Text::<16>::new();
        if left > 0 && CONTAINERS.contains(&verb.as_str()) {
            let at = name_end as usize;
            let sub_line = next_line(bytes, at, last)?;
            end = name_end + bulk(&bytes[at..], sub_line - at)?;
            sub = self::verb(word(bytes, sub_line, end, last)?);
            target.push(b' ');
            target.push_all(sub.bytes());
            left -= 1;
        }
        let end_at = wire.at.saturating_add(end);
        let border = if left == 0 { Border::Known(end_at) } else { Border::Open };
        let attrs = Attrs {
            verb: verb.as_str(),
            target: target.as_str(),
            args: Some(u32::try_from(left).unwrap_or(u32::MAX)),
            ..Attrs::default()
        };
        // What CLIENT REPLY is given stands in its argument, the only one that is looked at.
        let mut silence = None;
        if (verb.as_str(), sub.as_str()) == ("CLIENT", "REPLY") && left == 1 {
            let at = end as usize;
            let arg_line = next_line(bytes, at, last)?;
            let arg_end = end + bulk(&bytes[at..], arg_line - at)?;
            silence = Some(self::verb(word(bytes, arg_line, arg_end, last)?));
        }
        let role = self.asked(verb.as_str(), silence.as_ref().map(Text::as_str));
        self.left[0] = left;
        wire.message(role, (wire.at, border), end_at, attrs, &[]);
        Ok(end)
    }

    fn inline(&mut self, wire: &mut Wire<'_>, bytes: &[u8], line: Option<usize>, last: bool) -> Length {
        if line.is_none() && !last {
            return Err(Step::Need);
        }
        let length = line.unwrap_or(bytes.len());
        let end = wire.at.saturating_add(length as u64);
        if core::mem::replace(&mut self.long[0], line.is_none()) {
            if line.is_some() {
                wire.end_open(wire.dir, end, EndHow::Framed);
            }
            return Ok(length as u64);
        }
        let mut words = bytes[..length].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(name) = words.next() else {
            return Ok(length as u64); // an empty line gets no reply
        };
        let verb = verb(name);
        let attrs = Attrs {
            verb: verb.as_str(),
            target: verb.as_str(),
            args: Some(words.count() as u32),
            cut: line.is_none(),
            ..Attrs::default()
        };
        let role = self.asked(verb.as_str(), None);
        let border = line.map_or(Border::Open, |_| Border::Known(end));
        wire.message(role, (wire.at, border), end, attrs, &[]);
        Ok(length as u64)
    }

    /// Remembers what the client asked for; the role of the request.
    fn asked(&mut self, verb: &str, silence: Option<&str>) -> Role {
        match silence {
            Some("ON") => self.silence = Silence::None,
            Some("OFF") => self.silence = Silence::Off,
            Some("SKIP") if self.silence == Silence::None => self.silence = Silence::Next,
            _ => match self.silence {
                Silence::None => {}
                Silence::Off => return Role::Unsolicited,
                Silence::Next => {
                    self.silence = Silence::None;
                    return Role::Unsolicited;
                }
            },
        }
        if matches!(silence, Some("OFF" | "SKIP")) {
            return Role::Unsolicited;
        }
        self.pending = self.pending.saturating_add(1);
        if verb.ends_with("SUBSCRIBE") {
            self.confirms = self.confirms.saturating_add(1);
            self.listens = true;
        }
        self.monitor |= verb == "MONITOR";
        self.monitor &= !matches!(verb, "RESET" | "QUIT");
        Role::Request
    }

    fn reply(&mut self, wire: &mut Wire<'_>, bytes: &[u8], line: Option<usize>, last: bool) -> Length {
        let kind = bytes[0];
        let is_first = self.left[1] == 0;
        if self.long[1] {
            if line.is_none() && !last {
                return Err(Step::Need);
            }
            let length = line.unwrap_or(bytes.len()) as u64;
            self.long[1] = line.is_none();
            if line.is_some() && is_first {
                wire.end_open(wire.dir, wire.at.saturating_add(length), EndHow::Framed);
            }
            return Ok(length);
        }
        // A line of text may be long: of it only an error's class is wanted.
        let whole = line.is_some();
        let text = matches!(kind, b'+' | b'-' | b'(');
        let line = match line {
            Some(line) => line,
            None if last && text => bytes.len(),
            None => return Err(short(last)),
        };
        let (length, values) = match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => (line as u64, 0),
            b'$' | b'!' | b'=' => (bulk(bytes, line)?, 0),
            b'*' | b'~' | b'>' => (line as u64, number(bytes, line)?.max(0) as u64),
            b'%' => (line as u64, number(bytes, line)?.max(0) as u64 * 2),
            // Attributes stand before the value that they belong to.
            b'|' => (line as u64, number(bytes, line)?.max(0) as u64 * 2 + 1),
            _ => return Err(Step::Lost(Some(Defect::BadHead))),
        };
        let end = wire.at.saturating_add(length);
        self.long[1] = !whole;
        if !is_first {
            self.left[1] = (self.left[1] - 1).saturating_add(values);
            if self.left[1] == 0 && whole {
                wire.end_open(wire.dir, end, EndHow::Framed);
            }
            return Ok(length);
        }
        let mut event = Text::<16>::new();
        let listening = kind == b'>' || (kind == b'*' && (self.listens || self.pending == 0));
        self.listens &= kind != b'>';
        if listening && values > 0 {
            let name_line = next_line(bytes, line, last)?;
            if bytes[line] == b'$' {
                let name_end = line as u64 + bulk(&bytes[line..], name_line - line)?;
                event = verb(word(bytes, name_line, name_end, last)?);
            }
        }
        let role = self.role(kind, event.as_str(), bytes.get(1));
        let class = error_class(kind, &bytes[1..line]);
        let attrs = Attrs {
            verb: if role == Role::Unsolicited { event.as_str() } else { "" },
            status: Status {
                outcome: match kind {
                    b'-' | b'!' => Outcome::Error,
                    _ => Outcome::Ok,
                },
                code: None,
                class: class.as_str(),
            },
            ..Attrs::default()
        };
        let border = if values == 0 && whole { Border::Known(end) } else { Border::Open };
        self.left[1] = values;
        let head_end = wire.at.saturating_add(line as u64);
        wire.message(role, (wire.at, border), head_end, attrs, &[]);
        Ok(length)
    }

    fn role(&mut self, kind: u8, event: &str, second: Option<&u8>) -> Role {
        let confirmation = event.ends_with("SUBSCRIBE");
        let pushed = kind == b'>' || matches!(event, "MESSAGE" | "PMESSAGE" | "SMESSAGE");
        let watched = self.monitor && kind == b'+' && second.is_some_and(u8::is_ascii_digit);
        if confirmation && self.confirms > 0 {
            self.confirms -= 1;
        } else if confirmation || pushed || watched || (self.pending == 0 && !self.unsure) {
            return Role::Unsolicited;
        }
        self.pending = self.pending.saturating_sub(1);
        Role::Reply
    }
}

const TYPES: &[u8] = b"+-:$*_#,(!=%~>|";

/// Commands whose first argument is part of the command.
const CONTAINERS: &[&str] = &[
    "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG", "FUNCTION", "LATENCY", "MEMORY", "MODULE", "OBJECT",
    "PUBSUB", "SCRIPT", "SLOWLOG", "XGROUP", "XINFO",
];

fn short(last: bool) -> Step {
    if last { Step::Lost(Some(Defect::BorderLost)) } else { Step::Need }
}

/// Where the line that starts at `at` ends.
fn next_line(bytes: &[u8], at: usize, last: bool) -> Result<usize, Step> {
    let rest = bytes.get(at..).ok_or(short(last))?;
    let newline = rest.iter().position(|&b| b == b'\n').ok_or(short(last))?;
    Ok(at + newline + 1)
}

/// The number in the line `bytes[..line]`, behind its type.
fn number(bytes: &[u8], line: usize) -> Result<i64, Step> {
    const BAD: Step = Step::Lost(Some(Defect::BadHead));
    let text = bytes[1..line].strip_suffix(b"\r\n").ok_or(BAD)?;
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits == b"?" {
        return Err(Step::Lost(Some(Defect::Unsupported)));
    }
    if digits.is_empty() || digits.len() > 12 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BAD);
    }
    let value = digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    Ok(if negative { -value } else { value })
}

/// Length of the bulk string whose first line is `bytes[..line]`, with that line and the closing CRLF.
fn bulk(bytes: &[u8], line: usize) -> Result<u64, Step> {
    if !matches!(bytes[0], b'$' | b'!' | b'=') {
        return Err(Step::Lost(Some(Defect::BadHead)));
    }
    Ok(match number(bytes, line)? {
        length @ 0.. => line as u64 + length as u64 + 2,
        _ => line as u64, // the null string of RESP2
    })
}

/// The content of a bulk string that lies in `start..end` with its CRLF; empty if it is too long to be a name.
fn word(bytes: &[u8], start: usize, end: u64, last: bool) -> Result<&[u8], Step> {
    if end.saturating_sub(start as u64) > 34 {
        return Ok(&[]);
    }
    let end = end as usize;
    match bytes.get(start..end.saturating_sub(2).max(start)) {
        Some(word) if bytes.len() >= end => Ok(word),
        _ => Err(short(last)),
    }
}

/// A command's name in capitals; `?` for what does not look like one, since it may be data.
fn verb(name: &[u8]) -> Text<16> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let begins = name.first().is_some_and(u8::is_ascii_alphabetic);
    if begins && name.len() <= 16 && name.iter().all(plain) { Text::upper(name) } else { Text::of(b"?") }
}

/// The first word of an error; for a bulk error (`!`) the line holds only its length.
fn error_class(kind: u8, line: &[u8]) -> Text<16> {
    let capitals = line.iter().take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b'_');
    match (kind, capitals.count()) {
        (b'-', count @ 1..) if line.get(count).is_some_and(u8::is_ascii_whitespace) => Text::of(&line[..count]),
        _ => Text::new(),
    }
}

/// Whether a flow of which these are the first bytes is Redis: by a command as an array; on its usual port also by
/// an inline command or a reply.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    match (dir, bytes) {
        (Dir::ToServer, [b'*', ..]) => {
            let count = digits(1);
            let behind = bytes.get(1 + count..).unwrap_or(&[]);
            let whole = behind.len().min(3);
            match (count, behind[..whole] == b"\r\n$"[..whole]) {
                (0, true) if bytes.len() == 1 => Fit::More,
                (1..=9, true) if whole < 3 => Fit::More,
                (1..=9, true) => Fit::Yes,
                _ => Fit::No,
            }
        }
        (Dir::ToServer, [byte, ..]) => (usual && byte.is_ascii_alphabetic()).into(),
        (Dir::ToClient, [byte, ..]) => (usual && TYPES.contains(byte)).into(),
        _ => Fit::More,
    }
}
