//! HTTP/1.0 and HTTP/1.1 (RFC 9112), heads by `httparse`.
//!
//! ```text
//! > GET /users/17?full=1 HTTP/1.1        request, verb GET, target /users/{n}, ends with its head
//! < HTTP/1.1 404 Not Found               reply, code 404, error
//! < Content-Length: 5 …                  ends 5 bytes behind the head, whether they are captured or not
//! ```
//!
//! A status of 400 and above is an error. Heads longer than [`HEAD`] bytes have cut attributes and an unknown border.
//! After `101` and after a successful CONNECT each direction is one opaque unsolicited message. A reply to a request
//! that was not seen may be the reply to a HEAD, so its end is found at the next turn. Not handled: HTTP/0.9,
//! several witnesses of one kind (the first counts), trailers' fields.

use crate::duplex::{Duplex, Fit, Framer, Step, Wire};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, Text, Witness, mask};
use core::mem::MaybeUninit;
use httparse::Header;

/// Bytes kept of a head in each direction; the processor is a little larger than twice this.
pub const HEAD: usize = 4096;
/// Header fields in one head; more are a head that is too long.
const FIELDS: usize = 96;

/// The HTTP/1 processor.
pub type Http1 = Duplex<Framing, HEAD>;

impl Http1 {
    /// For a flow at its start or joined in mid-stream.
    pub const fn new() -> Self {
        Duplex::with(Framing { parts: [Part::Head; 2], methods: Methods { ring: 0, len: 0, unsure: 0 } })
    }
}

impl Default for Http1 {
    fn default() -> Self {
        Self::new()
    }
}

/// What of HTTP/1 is remembered between units.
pub struct Framing {
    parts: [Part; 2],
    methods: Methods,
}

/// What the next unit of a direction is.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Head,
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

impl Framer for Framing {
    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match dir {
            Dir::ToServer => fit_request(bytes),
            Dir::ToClient => fit_reply(bytes),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step {
        match (self.parts[wire.dir.index()], wire.dir) {
            (Part::Head, _) if matches!(bytes[0], b'\r' | b'\n') => Step::Take(1), // RFC 9112, 2.2
            (Part::Head, Dir::ToServer) => self.request(wire, bytes, last),
            (Part::Head, Dir::ToClient) => self.reply(wire, bytes, last),
            (Part::Chunk, _) => self.chunk(wire, bytes, last),
            (Part::Trailer, _) => self.trailer(wire, bytes, last),
        }
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        if wire.dir == Dir::ToServer {
            self.methods.unsure = self.methods.unsure.saturating_add(1);
        }
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.parts[wire.dir.index()] = Part::Head;
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if wire.dir == Dir::ToServer && (lost || self.methods.len == 0) {
            self.methods = Methods::default(); // every earlier request has had its reply
        }
    }
}

impl Framing {
    fn request(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
        let mut head = httparse::Request::new(&mut []);
        let parsed = head.parse_with_uninit_headers(bytes, &mut fields);
        let (length, whole) = match parsed {
            Ok(httparse::Status::Complete(length)) => (length, true),
            Ok(httparse::Status::Partial) if !last => return Step::Need,
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => (bytes.len(), false),
            Err(_) => return Step::Lost(Some(Defect::BadHead)),
        };
        let mut words = bytes.splitn(3, |&b| b == b' ');
        let (method, target) = (words.next().unwrap_or(&[]), words.next().unwrap_or(&[]));
        let target_cut = !whole && words.next().is_none();
        let (verb, mut template) = (Text::<16>::of(method), Text::<256>::new());
        mask::path(target, target_cut, &mut template);
        let attrs = Attrs {
            verb: verb.as_str(),
            target: template.as_str(),
            cut: !whole || template.is_cut(),
            ..Attrs::default()
        };
        if !self.methods.push(Method::of(method)) {
            wire.sink.defect(Defect::QueueOverflow, Dir::ToServer, wire.at);
        }
        let body = match (whole, body(head.headers)) {
            (false, _) => None,
            (_, Some(body)) => Some(body),
            _ => Some(Body::Length(0)),
        };
        // A request until close does not exist (RFC 9112, 6.3): its border is unknown.
        let body = match body {
            Some(Body::UntilClose) => Some(Body::Bad),
            body => body,
        };
        self.emit(wire, Role::Request, length, body, attrs, head.headers)
    }

    fn reply(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
        let mut head = httparse::Response::new(&mut []);
        let parsed =
            httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
        let (length, whole) = match parsed {
            Ok(httparse::Status::Complete(length)) => (length, true),
            Ok(httparse::Status::Partial) if !last => return Step::Need,
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => (bytes.len(), false),
            Err(_) => return Step::Lost(Some(Defect::BadHead)),
        };
        let code = head.code;
        let attrs = Attrs {
            status: Status {
                outcome: match code {
                    Some(400..) => Outcome::Error,
                    Some(_) => Outcome::Ok,
                    None => Outcome::Unknown,
                },
                code,
                class: "",
            },
            cut: !whole,
            ..Attrs::default()
        };
        let interim = matches!(code, Some(100..=199)) && code != Some(101);
        let method = if interim { None } else { self.methods.pop() };
        let upgraded = code == Some(101) || (method == Some(Method::Connect) && matches!(code, Some(200..=299)));
        let body = match (whole, method, code) {
            (false, ..) => None,
            _ if interim || upgraded => Some(Body::Length(0)),
            (_, Some(Method::Head), _) | (.., Some(204 | 304)) => Some(Body::Length(0)),
            (_, Some(_), _) => Some(body(head.headers).unwrap_or(Body::UntilClose)),
            // The request was not seen. If it was a HEAD, there is no body.
            (_, None, _) => match body(head.headers) {
                Some(Body::Length(0)) => Some(Body::Length(0)),
                _ => None,
            },
        };
        let role = if interim { Role::Interim } else { Role::Reply };
        let step = self.emit(wire, role, length, body, attrs, head.headers);
        match step {
            Step::Take(length) if upgraded => Step::Opaque(length),
            // Everything was captured, and still the border is not to be known: no defect.
            Step::Lost(_) if whole && body.is_none() => Step::Lost(None),
            step => step,
        }
    }

    /// Emits a message whose head has `length` bytes, and sets what follows. `body`: `None` if not to be known.
    fn emit(
        &mut self,
        wire: &mut Wire<'_>,
        role: Role,
        length: usize,
        body: Option<Body>,
        attrs: Attrs<'_>,
        fields: &[Header<'_>],
    ) -> Step {
        let length = length as u64;
        let head_end = wire.at.saturating_add(length);
        let (end, step) = match body {
            Some(Body::Length(body)) => {
                let total = length.saturating_add(body).min(u64::MAX - 1);
                (Border::Known(wire.at.saturating_add(total)), Step::Take(total))
            }
            Some(Body::Chunked) => {
                self.parts[wire.dir.index()] = Part::Chunk;
                (Border::Open, Step::Take(length))
            }
            Some(Body::UntilClose) => (Border::Open, Step::Take(u64::MAX)),
            Some(Body::Bad) => (Border::Open, Step::Lost(Some(Defect::BadHead))),
            None if (length as usize) < HEAD => (Border::Open, Step::Lost(Some(Defect::BorderLost))),
            None => (Border::Open, Step::Lost(Some(Defect::HeadTooLong))),
        };
        let (witnesses, count) = witnesses(fields);
        wire.message(role, (wire.at, end), head_end, attrs, &witnesses[..count]);
        step
    }

    fn chunk(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step {
        match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete((line, 0))) => {
                self.parts[wire.dir.index()] = Part::Trailer;
                Step::Take(line as u64)
            }
            Ok(httparse::Status::Complete((line, size))) => {
                Step::Take(size.saturating_add(line as u64 + 2).min(u64::MAX - 1))
            }
            Ok(httparse::Status::Partial) if !last => Step::Need,
            Ok(httparse::Status::Partial) => Step::Lost(Some(Defect::BorderLost)),
            Err(_) => Step::Lost(Some(Defect::BadHead)),
        }
    }

    fn trailer(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Step {
        let Some(newline) = bytes.iter().position(|&b| b == b'\n') else {
            return if last { Step::Lost(Some(Defect::BorderLost)) } else { Step::Need };
        };
        let length = newline as u64 + 1;
        if matches!(&bytes[..newline], b"" | b"\r") {
            self.parts[wire.dir.index()] = Part::Head;
            wire.end_open(wire.dir, wire.at.saturating_add(length), EndHow::Framed);
        }
        Step::Take(length)
    }
}

/// What the fields say of the body (RFC 9112, 6.3); `None`: nothing.
fn body(fields: &[Header<'_>]) -> Option<Body> {
    let mut length = None;
    for field in fields {
        match field.name.len() {
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                let coding = field.value.rsplit(|&b| b == b',').next().unwrap_or(&[]);
                let chunked = coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
                return Some(if chunked { Body::Chunked } else { Body::UntilClose });
            }
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let value = core::str::from_utf8(field.value).ok().and_then(|v| v.trim().parse().ok());
                length = match (value, length) {
                    (Some(value), None) => Some(Body::Length(value)),
                    (Some(value), Some(Body::Length(same))) if value == same => length,
                    _ => Some(Body::Bad),
                };
            }
            _ => {}
        }
    }
    length
}

fn witnesses(fields: &[Header<'_>]) -> ([Witness; 2], usize) {
    let (mut found, mut count) = ([Witness::XRequestId(0); 2], 0);
    let (mut trace, mut id) = (false, false);
    for field in fields {
        let witness = match field.name.len() {
            11 if !trace && field.name.eq_ignore_ascii_case("traceparent") => traceparent(field.value),
            12 if !id && field.name.eq_ignore_ascii_case("x-request-id") => {
                Some(Witness::XRequestId(mask::fnv1a(field.value.trim_ascii())))
            }
            _ => None,
        };
        if let Some(witness) = witness {
            trace |= matches!(witness, Witness::TraceParent { .. });
            id |= matches!(witness, Witness::XRequestId(_));
            found[count] = witness;
            count += 1;
        }
    }
    (found, count)
}

/// `00-<32 hex>-<16 hex>-<2 hex>` (W3C Trace Context, 3.2); ids of zeros are invalid there.
pub(crate) fn traceparent(value: &[u8]) -> Option<Witness> {
    let mut parts = value.trim_ascii().split(|&b| b == b'-').skip(1);
    let trace = hex::<16>(parts.next()?)?;
    let span = hex::<8>(parts.next()?)?;
    (trace != [0; 16] && span != [0; 8]).then_some(Witness::TraceParent { trace, span })
}

fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(bytes)
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
    const VERSION: &[u8] = b"HTTP/1.";
    match (bytes.starts_with(VERSION), VERSION.starts_with(bytes)) {
        (true, _) => Fit::Yes,
        (_, true) => Fit::More,
        _ => Fit::No,
    }
}

/// What a request's method means for the framing of its reply.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    Plain,
    Head,
    Connect,
}

impl Method {
    fn of(method: &[u8]) -> Method {
        match method {
            b"HEAD" => Method::Head,
            b"CONNECT" => Method::Connect,
            _ => Method::Plain,
        }
    }
}

/// The requests that wait for replies: 32 with their methods, 2 bits each, behind them some of which no more is
/// known than that they are there.
#[derive(Default)]
struct Methods {
    ring: u64,
    len: u8,
    unsure: u32,
}

impl Methods {
    /// `false`: no room; the method will be unknown.
    fn push(&mut self, method: Method) -> bool {
        if self.unsure > 0 {
            self.unsure = self.unsure.saturating_add(1);
        } else if self.len == 32 {
            self.unsure = 1;
            return false;
        } else {
            self.ring |= (method as u64) << (2 * self.len);
            self.len += 1;
        }
        true
    }

    fn pop(&mut self) -> Option<Method> {
        if self.len == 0 {
            self.unsure = self.unsure.saturating_sub(1);
            return None;
        }
        let method = match self.ring & 3 {
            1 => Method::Head,
            2 => Method::Connect,
            _ => Method::Plain,
        };
        self.ring >>= 2;
        self.len -= 1;
        Some(method)
    }
}

/// Whether a flow of which these are the first bytes is HTTP/1: by a reply's version, or a request whose target is a
/// path, or has another form that its method allows.
pub(crate) fn recognise(dir: Dir, bytes: &[u8]) -> Fit {
    const METHODS: [&str; 9] =
        ["GET ", "POST ", "PUT ", "HEAD ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT ", "TRACE "];
    if dir == Dir::ToClient {
        return fit_reply(bytes);
    }
    let known = METHODS.iter().any(|m| bytes.starts_with(m.as_bytes()));
    if METHODS.iter().any(|m| m.as_bytes().starts_with(bytes)) {
        return Fit::More;
    }
    let Some(blank) = bytes.iter().position(|&b| b == b' ') else {
        return Fit::No;
    };
    const ABSOLUTE: &[u8] = b"http://";
    match &bytes[blank + 1..] {
        [b'/', ..] => fit_request(bytes),
        [b'*', ..] => known.into(),
        _ if bytes.starts_with(b"CONNECT ") => fit_request(bytes),
        target if known && target.starts_with(ABSOLUTE) => Fit::Yes,
        target if known && ABSOLUTE.starts_with(target) => Fit::More,
        _ => Fit::No,
    }
}
