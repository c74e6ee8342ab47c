//! HTTP/1.0 and HTTP/1.1 (RFC 9112), read line by line, so that a head may be of any length.
//!
//! ```text
//! > GET /users/17?full=1 HTTP/1.1        request, verb GET, target /users/{n}, ends with its head
//! < HTTP/1.1 404 Not Found               reply, code 404, error
//! < Content-Length: 5 …                  ends 5 bytes after the head, whether they are captured or not
//! ```
//!
//! Of a line [`LINE`] bytes are read: a longer target is cut, of longer fields none matters but those that are
//! handed on, which are then left out. After `101` and after a successful CONNECT the flow speaks another protocol ([`Sink::upgraded`](crate::Sink)); this
//! processor takes each direction for one opaque unsolicited message then. A 101 to `h2c` is interim: the reply comes by HTTP/2. A
//! reply to a request that was not seen may be the reply to a HEAD, so its end is found at the next turn. Not handled:
//! HTTP/0.9, several witnesses of one kind (the first counts), trailers' fields.

use crate::asked::Asked;
use crate::bytes::line;
use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::http::{self, HandedOn, Heading};
use crate::registry::{About, Askers, Docs};
use crate::{Border, Defect, Dir, EndHow, Role, Text, Upgrade};

/// Bytes read of a line.
pub const LINE: usize = 224;

/// The HTTP/1 processor.
pub type Http1 = Duplex<Framing, LINE>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.http1",
    ports: &[80, 3000, 5000, 8000, 8080],
    recognise,
    vocabulary: http::VOCABULARY,
    askers: Askers::People,
    bytes_max: 1040,
    docs: Docs {
        what: "HTTP/1.0 and 1.1",
        request: "a head",
        kept: "method, path template, status",
        pairs: "order on the connection",
    },
    ..About::NEW
};

/// What of HTTP/1 is remembered between units.
pub struct Framing {
    sides: [Side; 2],
    /// Methods of the requests that wait for their replies.
    asked: Asked<32>,
}

/// One direction.
struct Side {
    part: Part,
    /// Inside a line that is longer than [`LINE`].
    long: bool,
    /// Where the head at hand begins, or `NONE`.
    start: u64,
    body: Option<Body>,
    /// The status of a reply.
    code: Option<u16>,
    /// What the flow is to speak after it.
    upgrade: Upgrade,
    heading: Heading<112>,
}

/// What the next unit of a direction is.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Start,
    Fields,
    Chunk,
    Trailer,
}

/// What the head says of the body.
#[derive(Clone, Copy)]
enum Body {
    Length(u64),
    Chunked,
    UntilClose,
    Bad,
}

impl Side {
    const NEW: Side = Side {
        part: Part::Start,
        long: false,
        start: NONE,
        body: None,
        code: None,
        upgrade: Upgrade::Other,
        heading: Heading::NEW,
    };
}

impl Framer for Framing {
    const NEW: Framing = Framing { sides: [Side::NEW, Side::NEW], asked: Asked::NEW };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        if dir == Dir::ToServer { fit_request(bytes) } else { fit_reply(bytes) }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let (length, cut) = line(bytes, last)?;
        let line = bytes[..length].strip_suffix(b"\n").unwrap_or(bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let side = &mut self.sides[wire.dir.index()];
        if core::mem::replace(&mut side.long, cut) {
            return Ok(length as u64); // of no use: the rest of a long line
        }
        match side.part {
            Part::Start if line.is_empty() => {} // RFC 9112, 2.2
            Part::Start => {
                let code = line.get(9..).and_then(http::code);
                *side = Side { start: wire.at, part: Part::Fields, long: cut, code, ..Side::NEW };
                let reply = cut || (fit_reply(line).is_fit() && code.is_some());
                let begins = if wire.dir == Dir::ToClient { reply } else { side.request(line, cut) };
                if !begins {
                    *side = Side::NEW;
                    return Err(BAD);
                }
            }
            Part::Fields if line.is_empty() && !cut => return self.head(wire, length as u64, true),
            Part::Fields => side.field(line, cut).then_some(()).ok_or(BAD)?,
            Part::Chunk if cut => return Err(Stop::Need),
            Part::Chunk => {
                let size = chunk(line).ok_or(BAD)?;
                if size > 0 {
                    return Ok(size.saturating_add(length as u64 + 2).min(u64::MAX - 1));
                }
                side.part = Part::Trailer;
            }
            Part::Trailer if line.is_empty() && !cut => {
                side.part = Part::Start;
                wire.end_open(wire.dir, wire.behind(length), EndHow::Framed);
            }
            Part::Trailer => {}
        }
        Ok(length as u64)
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        let alone = self.alone(wire);
        let _ = self.head(wire, 0, false);
        if wire.dir == Dir::ToServer && !alone {
            self.asked.missed();
        }
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.sides[wire.dir.index()] = Side::NEW;
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if wire.dir == Dir::ToServer && (lost || self.asked.first().is_none()) {
            self.asked = Asked::NEW; // every earlier request has had its reply
        }
    }

    fn alone(&self, wire: &Wire<'_>) -> bool {
        wire.is_open(wire.dir) && self.asked.len() <= u32::from(wire.dir == Dir::ToServer)
    }
}

impl Side {
    /// Keeps the first line of a request, if it is one.
    fn request(&mut self, line: &[u8], cut: bool) -> bool {
        let mut words = line.splitn(3, |&b| b == b' ');
        let (method, target, version) = (words.next().unwrap_or(&[]), words.next().unwrap_or(&[]), words.next());
        self.heading.verb = Text::of(method);
        self.heading.target(target, cut && version.is_none());
        // A line that is cut may end in its method, or be only the start of one.
        let known = cut || version.is_some_and(|version| version.starts_with(b"HTTP/1."));
        known && method.iter().all(|b| b.is_ascii_uppercase() || *b == b'-')
    }

    /// Keeps what a field says; `false`: it is none.
    fn field(&mut self, line: &[u8], cut: bool) -> bool {
        let Some(colon) = line.iter().position(|&b| b == b':') else {
            // The line before goes on (RFC 9112, 5.2), or this one ends in its name.
            return cut || matches!(line[0], b' ' | b'\t');
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name.len() {
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.body = Some(if http::chunked(value) { Body::Chunked } else { Body::UntilClose });
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = core::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                self.body = match (length, self.body) {
                    (_, coded @ Some(Body::Chunked | Body::UntilClose)) => coded, // RFC 9112, 6.3
                    (Some(length), None) => Some(Body::Length(length)),
                    (Some(length), Some(Body::Length(same))) if length == same => self.body,
                    _ => Some(Body::Bad),
                };
            }
            6 if name.eq_ignore_ascii_case(b"accept") && !cut => self.heading.accepts(value),
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.upgrade = match value {
                    v if v.eq_ignore_ascii_case(b"websocket") => Upgrade::WebSocket,
                    v if v.eq_ignore_ascii_case(b"h2c") => Upgrade::Http2,
                    _ => Upgrade::Other,
                };
            }
            _ => self.heading.handed_on(HandedOn::of_any_case(name, b'-'), value, cut),
        }
        !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
    }
}

impl Framing {
    /// The head ends with this unit of `length` bytes; or is not `whole`: it was lost from here on.
    fn head(&mut self, wire: &mut Wire<'_>, length: u64, whole: bool) -> Unit {
        let d = wire.dir.index();
        let Side { start, body, code, upgrade, mut heading, .. } = core::mem::replace(&mut self.sides[d], Side::NEW);
        let reply = wire.dir == Dir::ToClient;
        if start == NONE {
            return Ok(length);
        }
        let to_http2 = upgrade == Upgrade::Http2 && code == Some(101);
        let interim = reply && (to_http2 || matches!(code, Some(100 | 102..=199)));
        let method = if reply && !interim { self.asked.pop() } else { None };
        let connected = method == Some(CONNECT) && matches!(code, Some(200..=299));
        let upgraded = connected || (reply && code == Some(101));
        let body = match (wire.dir, method) {
            _ if !whole => None,
            // A request until close does not exist (RFC 9112, 6.3): its border is unknown.
            (Dir::ToServer, _) if matches!(body, Some(Body::UntilClose)) => Some(Body::Bad),
            (Dir::ToServer, _) => Some(body.unwrap_or(Body::Length(0))),
            _ if interim || upgraded || method == Some(HEAD) || matches!(code, Some(204 | 304)) => {
                Some(Body::Length(0))
            }
            (_, Some(_)) => Some(body.unwrap_or(Body::UntilClose)),
            // The request was not seen. If it was a HEAD, there is no body.
            (_, None) => body.filter(|body| matches!(body, Body::Length(0))),
        };
        if matches!(body, Some(Body::Chunked)) {
            self.sides[d].part = Part::Chunk;
        }
        let unit = match body {
            Some(Body::Length(body)) => Ok(length.saturating_add(body).min(u64::MAX - 1)),
            Some(Body::Chunked) => Ok(length),
            Some(Body::UntilClose) => Ok(u64::MAX),
            Some(Body::Bad) => Err(BAD),
            None => Err(Stop::Lost(None)), // all was captured, and still the border is not to be known: no defect
        };
        let end = match (body, &unit) {
            (Some(Body::Length(_)), Ok(total)) => Border::Known(wire.behind(*total)),
            _ => Border::Open,
        };
        heading.cut |= !whole;
        let (witnesses, count) = heading.witnesses(None);
        let mut attrs = heading.attrs();
        let role = if interim { Role::Interim } else { Role::Reply };
        let role = if reply { role } else { Role::Request };
        if reply {
            attrs.status = http::status(code);
        } else if !self.asked.push(kind(attrs.verb)) {
            wire.sink.defect(Defect::QueueOverflow, Dir::ToServer, start);
        }
        wire.message(role, (start, end), wire.behind(length), attrs, &witnesses[..count]);
        if !upgraded || !whole {
            return unit;
        }
        wire.sink.upgraded(if connected { Upgrade::Tunnel } else { upgrade }, wire.dir, wire.behind(length));
        Err(Stop::Opaque(length))
    }
}

/// The size in a chunk's line, before its extensions (RFC 9112, 7.1).
fn chunk(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&b| b == b';').next()?.trim_ascii();
    (1..16).contains(&digits.len()).then_some(())?;
    digits.iter().try_fold(0, |size, &b| Some(size << 4 | u64::from(char::from(b).to_digit(16)?)))
}

/// Whether `bytes` begin like a request: a method in capitals, a blank, and a target.
pub(crate) fn fit_request(bytes: &[u8]) -> Fit {
    let method = bytes.iter().take_while(|b| b.is_ascii_uppercase() || **b == b'-').count();
    match (method, bytes.get(method), bytes.get(method + 1)) {
        (17.., ..) => Fit::No,
        (_, None, _) | (3.., Some(b' '), None) => Fit::More,
        (3.., Some(b' '), Some(target)) => (matches!(target, b'/' | b'*') || target.is_ascii_alphanumeric()).into(),
        _ => Fit::No,
    }
}

/// Whether `bytes` begin like a reply.
pub(crate) fn fit_reply(bytes: &[u8]) -> Fit {
    match b"HTTP/1." {
        version if bytes.starts_with(version) => Fit::Yes,
        version if version.starts_with(bytes) => Fit::More,
        _ => Fit::No,
    }
}

/// What a request's method means for the framing of its reply.
fn kind(method: &str) -> u8 {
    match method {
        "HEAD" => HEAD,
        "CONNECT" => CONNECT,
        _ => 0,
    }
}

const HEAD: u8 = 1;
const CONNECT: u8 = 2;

/// Whether a flow of which these are the first bytes is HTTP/1: by a reply's version; by a usual method and a target that is a path or
/// an address; or by a request's line with its version.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    const METHODS: &str = "GET POST PUT HEAD DELETE OPTIONS PATCH TRACE";
    const ABSOLUTE: &[u8] = b"http://";
    if dir == Dir::ToClient {
        return fit_reply(bytes).and_sure();
    }
    let method = bytes.split(|&b| b == b' ').next().unwrap_or(&[]);
    let known = METHODS.split(' ').any(|m| m.as_bytes() == method);
    match bytes.get(method.len() + 1..).unwrap_or(&[]) {
        [] if known || METHODS.split(' ').any(|m| m.as_bytes().starts_with(bytes)) => Fit::More,
        [b'/', ..] if known => Fit::Sure,
        target if known && target.starts_with(ABSOLUTE) => Fit::Sure,
        target if known && ABSOLUTE.starts_with(target) => Fit::More,
        _ if !fit_request(bytes).is_fit() => fit_request(bytes),
        _ => match bytes.iter().take(LINE).position(|&b| b == b'\n') {
            Some(end) => Fit::from(bytes[..end].windows(8).any(|part| part == b" HTTP/1.")).and_sure(),
            None if bytes.len() < LINE && bytes.iter().all(|b| (b' '..=b'~').contains(b) || *b == b'\r') => Fit::More,
            None => Fit::No,
        },
    }
}
