//! JSON-RPC 2.0 on a stream of bytes: a message a line (MCP over stdio), or after headers (language servers).
//!
//! ```text
//! > {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}\n    request, witness the id, verb the method
//! < {"jsonrpc":"2.0","method":"notifications/progress"}\n           unsolicited
//! < {"jsonrpc":"2.0","id":1,"result":{}}\n                          reply, witness the id
//! > Content-Length: 40\r\n\r\n{"jsonrpc":"2.0","method":"initialized"}        one way
//! < {"jsonrpc":"2.0","id":7,"method":"roots/list"}\n                unsolicited; so is the client's answer to it
//! > [{…},{…}]\n                                                     each of them is a message
//! ```
//!
//! Members come in any order. Where what is at hand of a message does not say what it is, it is unsolicited, and its border counts as lost:
//! it may have been a request. Parameters and results are never kept.

use crate::bytes::{decimal, line};
use crate::duplex::{BAD, Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::envelope::Envelope;
use crate::registry::{About, Docs, RunsOn};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, Text, Witness, mask};

/// Bytes of a message that are looked at: many write what it is behind what it holds.
pub const HEAD: usize = 2048;
/// Most bytes of headers.
const HEADERS_MAX: usize = 200;
/// The header that all messages have, in lower case.
const LENGTH: &[u8] = b"content-length:";

/// The JSON-RPC processor.
pub type JsonRpc = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.jsonrpc",
    ports: &[],
    recognise,
    vocabulary: Vocabulary {
        verb: Grammar::Path(List::of(WORDS)),
        target: Grammar::Path(List::of(WORDS)),
        class: Grammar::Constant,
    },
    runs_on: RunsOn::Plainly,
    bytes_max: 4224,
    docs: Docs {
        what: "JSON-RPC 2.0 on lines or after `Content-Length`: MCP, language servers",
        request: "a method with an `id`; one way: a method without",
        kept: "method, whether it failed",
        pairs: "`id`",
    },
    ..About::NEW
};

/// Segments of methods of MCP and of language servers. Sorted.
const WORDS: &[&str] = &[
    "$",
    "?",
    "call",
    "cancelRequest",
    "cancelled",
    "codeAction",
    "codeLens",
    "complete",
    "completion",
    "completionItem",
    "configuration",
    "create",
    "createMessage",
    "declaration",
    "definition",
    "diagnostic",
    "didChange",
    "didClose",
    "didOpen",
    "didSave",
    "documentHighlight",
    "documentSymbol",
    "elicitation",
    "executeCommand",
    "exit",
    "foldingRange",
    "formatting",
    "get",
    "hover",
    "implementation",
    "initialize",
    "initialized",
    "list",
    "logging",
    "message",
    "notifications",
    "ping",
    "progress",
    "prompts",
    "publishDiagnostics",
    "read",
    "references",
    "registerCapability",
    "rename",
    "resolve",
    "resources",
    "roots",
    "sampling",
    "setLevel",
    "shutdown",
    "signatureHelp",
    "subscribe",
    "symbol",
    "textDocument",
    "tools",
    "typeDefinition",
    "unsubscribe",
    "window",
    "workspace",
];

/// What of JSON-RPC is remembered between units.
pub struct Framing {
    /// Inside a line that is longer than a head.
    long: [bool; 2],
}

/// How a message begins.
enum Begin {
    /// With a line that holds it.
    Line,
    /// With headers of so many bytes, before so many of its own.
    Headers(usize, u64),
    /// With the end of a line.
    Blank,
}

fn begin(bytes: &[u8]) -> Result<Begin, Stop> {
    match bytes.first() {
        Some(b'{' | b'[') => return Ok(Begin::Line),
        Some(b'\r' | b'\n') => return Ok(Begin::Blank),
        _ => {}
    }
    let (mut at, mut length) = (0, None);
    loop {
        let rest = &bytes[at..];
        let Some(end) = rest.iter().position(|&b| b == b'\n') else {
            let is_begun = |name: &[u8]| rest.iter().zip(name).all(|(a, b)| a.eq_ignore_ascii_case(b));
            let may_be = (is_begun(LENGTH) || is_begun(b"content-type:")) && bytes.len() < HEADERS_MAX;
            return Err(if may_be || rest == b"\r" { Stop::Need } else { BAD });
        };
        let header = rest[..end].strip_suffix(b"\r").ok_or(BAD)?;
        at += end + 1;
        match header.split_at_checked(LENGTH.len()) {
            _ if header.is_empty() => return length.map(|length| Begin::Headers(at, length)).ok_or(BAD),
            Some((name, value)) if name.eq_ignore_ascii_case(LENGTH) => {
                length = Some(decimal(value.trim_ascii()).ok_or(BAD)?);
            }
            _ if header.len() >= 13 && header[..13].eq_ignore_ascii_case(b"content-type:") => {}
            _ => return Err(BAD),
        }
    }
}

/// Whether a method gets no reply by the words of MCP or of language servers, such as one that holds a whole document.
fn is_notice(method: &[u8]) -> bool {
    let (first, rest) = method.split_at(method.iter().position(|&b| b == b'/').unwrap_or(0));
    matches!(first, b"notifications" | b"$") || rest.starts_with(b"/did")
}

/// What a message of one direction is to its exchange; `None`: what is at hand does not say.
fn role(dir: Dir, said: &Envelope<'_>) -> Option<Role> {
    let is_told = said.length.is_some() || said.id.is_some() || said.method.is_some_and(is_notice);
    match dir {
        _ if !said.is_json_rpc || !is_told => None,
        Dir::ToServer if said.has_method && said.method.is_some() => {
            Some(if said.id.is_some() { Role::Request } else { Role::OneWay })
        }
        Dir::ToClient if said.has_outcome && said.id.is_some() && !said.has_method => Some(Role::Reply),
        _ if said.has_method || said.has_outcome => Some(Role::Unsolicited),
        _ => None,
    }
}

impl Framing {
    /// One message, of which this much is at hand.
    fn one(wire: &mut Wire<'_>, (start, border): (u64, Border), said: &Envelope<'_>) {
        let role = role(wire.dir, said);
        let mut verb = Text::<64>::new();
        mask::path(said.method.unwrap_or(b""), false, &mut verb);
        let status = match said.has_outcome {
            true if said.has_failed => Status { outcome: Outcome::Error, code: None, class: "" },
            true => Status::OK,
            false => Status::default(),
        };
        let attrs = Attrs { status, cut: verb.is_cut(), ..Attrs::alone(verb.as_str()) };
        let witness = said.id.filter(|_| role.is_some()).map(Witness::Named);
        let head_end = match border {
            Border::Known(end) => end,
            Border::Open => start,
        };
        wire.message(role.unwrap_or(Role::Unsolicited), (start, border), head_end, attrs, witness.as_slice());
        if role.is_none() {
            wire.sink.defect(Defect::BorderLost, wire.dir, start);
        }
    }

    /// The text of a message, or of several, from `head` of the unit on, as much of it as is at hand.
    fn text(wire: &mut Wire<'_>, head: usize, text: &[u8], border: Border) {
        let Some(rest) = text.strip_prefix(b"[") else {
            return Framing::one(wire, (wire.at, border), &Envelope::read(text));
        };
        // each begins where the one before it ended, so that none of the bytes is nobody's
        let (mut start, mut rest) = (wire.at, rest);
        loop {
            rest = rest.trim_ascii_start();
            let said = Envelope::read(rest);
            let behind = said.length.map_or(&[][..], |length| rest[length..].trim_ascii_start());
            let Some(next) = behind.strip_prefix(b",").filter(|_| said.length.is_some()) else {
                return Framing::one(wire, (start, border), &said);
            };
            let end = wire.behind(head + text.len() - next.len());
            Framing::one(wire, (start, Border::Known(end)), &said);
            (start, rest) = (end, next);
        }
    }
}

impl Framer for Framing {
    const NEW: Framing = Framing { long: [false; 2] };
    const REJOINS: bool = true;

    fn fit(&self, _: Dir, bytes: &[u8]) -> Fit {
        fits(bytes)
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let is_long = &mut self.long[wire.dir.index()];
        if *is_long {
            let (length, cut) = line(bytes, true)?;
            *is_long = cut;
            if !cut {
                wire.end_open(wire.dir, wire.behind(length), EndHow::Framed);
            }
            return Ok(length as u64);
        }
        match begin(bytes)? {
            Begin::Blank => Ok(1),
            Begin::Line => {
                let (length, cut) = line(bytes, last)?;
                *is_long = cut;
                let border = if cut { Border::Open } else { Border::Known(wire.behind(length)) };
                Framing::text(wire, 0, &bytes[..length], border);
                Ok(length as u64)
            }
            Begin::Headers(head, length) => {
                let total = (head as u64).saturating_add(length);
                let seen = total.min(HEAD as u64) as usize;
                if bytes.len() < seen && !last {
                    return Err(Stop::Need);
                }
                let text = &bytes[head.min(bytes.len())..seen.min(bytes.len())];
                Framing::text(wire, head, text, Border::Known(wire.behind(total)));
                Ok(total)
            }
        }
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        self.long[wire.dir.index()] = false;
    }
}

/// Whether bytes begin like a message, whoever sent it.
fn fits(bytes: &[u8]) -> Fit {
    let text = match begin(bytes) {
        Ok(Begin::Line) => bytes,
        Ok(Begin::Headers(head, _)) if bytes.len() == head => return Fit::More,
        Ok(Begin::Headers(head, _)) => &bytes[head..],
        Err(Stop::Need) => return Fit::More,
        _ => return Fit::No,
    };
    let said = Envelope::read(text.strip_prefix(b"[").unwrap_or(text));
    match (said.is_json_rpc, said.has_method || said.has_outcome || said.id.is_some()) {
        (true, true) => Fit::Sure,
        _ if said.length.is_none() && text.len() < HEADERS_MAX && !text.contains(&b'\n') => Fit::More,
        // the rest of it is too far
        (false, true) => (said.length.is_none() && !text.contains(&b'\n')).into(),
        _ => Fit::No,
    }
}

/// Whether bytes begin like a message that cannot be anything else.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(b'{' | b'[' | b'C' | b'c')) && fits(bytes) == Fit::Sure
}

/// Whether a flow of which these are the first bytes is JSON-RPC: by the member `jsonrpc`, or by another one of its, before an answer. What
/// both sides may say tells no direction.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    let fit = fits(bytes);
    if !fit.is_fit() {
        return fit;
    }
    let text = match begin(bytes) {
        Ok(Begin::Headers(head, _)) => &bytes[head..],
        _ => bytes,
    };
    let said = Envelope::read(text.strip_prefix(b"[").unwrap_or(text));
    match dir {
        _ if said.has_method && said.length.is_some() && said.id.is_none() => Fit::No,
        Dir::ToServer if !said.has_method => Fit::No,
        Dir::ToClient if said.has_method && said.id.is_none() => Fit::No,
        _ => fit,
    }
}
