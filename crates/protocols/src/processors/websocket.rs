//! WebSocket (RFC 6455), after the handshake: frames with a length, of whose payload an `id` is read.
//!
//! ```text
//! > 81 85 key payload            request: a message of the client, of one frame or several; its verb is text or binary
//! < 81 02 payload                reply, where the client's last message has none yet; else unsolicited
//! > 81 8c key {"id":1,"a":2}     request with an identifier; the reply is a message of the server that has it too
//! > 81 8c key {"jsonrpc":"2.0","method":"a"}     request without a reply; from the server: unsolicited
//! > 89 80 key                    a ping, a pong or a close: unsolicited
//! ```
//!
//! A JSON object's member `id` says what it answers (JSON-RPC, and much that is like it). Of other messages nothing does. So those are
//! paired by turns: a client's message is answered by the next message of the server, and one that another follows before is not
//! answered at all. What the server says besides is unsolicited.

use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::envelope::Envelope;
use crate::registry::{About, Askers, Docs, RunsOn};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Dir, EndHow, Role, Status, Witness};

/// Bytes of the longest frame's head.
const FRAME_HEAD: usize = 14;
/// So much of a text is looked at for an identifier.
const TEXT_SEEN: usize = 512;
/// Bytes of a frame that are looked at.
pub const HEAD: usize = FRAME_HEAD + TEXT_SEEN;
/// Most identifiers of a connection that are waited for.
const ASKED_MAX: usize = 32;

/// The WebSocket processor.
pub type WebSocket = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.websocket",
    ports: &[],
    vocabulary: Vocabulary {
        verb: Grammar::Words(List::of(&["binary", "text"])),
        target: Grammar::Words(List::of(&["binary", "text"])),
        class: Grammar::Words(List::of(&["?"])),
    },
    askers: Askers::People,
    runs_on: RunsOn::Plainly,
    bytes_max: 1536,
    docs: Docs {
        what: "WebSocket, after its handshake in HTTP/1",
        request: "a message of the client",
        kept: "whether it is text or binary",
        pairs: "`id` of JSON objects, else turn of direction",
    },
    ..About::NEW
};

/// What of WebSocket is remembered between units.
pub struct Framing {
    /// A message of the client waits for an answer, and turns alone tell it.
    owed: bool,
    /// Identifiers (hashes, 0: none) of those that wait for an answer with the same one, newest first.
    asked: [u64; ASKED_MAX],
}

/// A message's part in its exchange.
struct Part {
    role: Role,
    by_turn: bool,
    id: Option<u64>,
}

/// A frame's head.
struct Frame {
    is_last: bool,
    opcode: u8,
    /// Bytes of its head, and of the whole frame.
    head: usize,
    total: u64,
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;

fn frame(dir: Dir, bytes: &[u8]) -> Result<Frame, Stop> {
    let &[first, second, ..] = bytes else { return Err(Stop::Need) };
    let (is_masked, short) = (second & 0x80 != 0, second & 0x7f);
    let opcode = first & 15;
    // only clients mask; numbers between are reserved, control frames are short and whole
    let is_control = opcode >= 8;
    let fits = matches!(opcode, 0..=2 | 8..=10) && first & 0x30 == 0 && is_masked == (dir == Dir::ToServer);
    if !fits || is_control && (first & 0x80 == 0 || short > 125) {
        return Err(BAD);
    }
    let (length, head) = match short {
        126 => (bytes.get(2..4).map(|b| u64::from(u16::from_be_bytes([b[0], b[1]]))).ok_or(Stop::Need)?, 4),
        127 => {
            let long = bytes.get(2..10).and_then(|b| b.try_into().ok()).ok_or(Stop::Need)?;
            (u64::from_be_bytes(long), 10)
        }
        short => (u64::from(short), 2),
    };
    let head = head + if is_masked { 4 } else { 0 };
    if length > u64::MAX / 4 {
        return Err(BAD);
    }
    Ok(Frame { is_last: first & 0x80 != 0, opcode, head, total: length + head as u64 })
}

impl Framing {
    /// What a message of one direction is to its exchange.
    fn part(&mut self, dir: Dir, said: &Envelope<'_>) -> Part {
        let Envelope { id, is_json_rpc, has_method, has_outcome, .. } = *said;
        let by_id = |role| Part { role, by_turn: false, id };
        match dir {
            // the answer to what the server asked
            Dir::ToServer if is_json_rpc && has_outcome && !has_method => by_id(Role::Unsolicited),
            Dir::ToServer if let Some(id) = id => {
                self.asked.rotate_right(1);
                self.asked[0] = id;
                by_id(Role::Request)
            }
            Dir::ToServer if is_json_rpc && has_method => by_id(Role::OneWay),
            Dir::ToClient if is_json_rpc && has_method => by_id(Role::Unsolicited),
            Dir::ToClient if let Some(asked) = self.asked.iter_mut().find(|asked| Some(**asked) == id) => {
                *asked = 0;
                by_id(Role::Reply)
            }
            _ => {
                let role = match dir {
                    Dir::ToServer => Role::Request,
                    Dir::ToClient if self.owed => Role::Reply,
                    Dir::ToClient => Role::Unsolicited,
                };
                self.owed = role == Role::Request;
                Part { role, by_turn: true, id: None }
            }
        }
    }
}

/// The beginning of a frame's payload, as it was before it was masked.
fn unmasked<'t>(bytes: &[u8], head: usize, is_masked: bool, text: &'t mut [u8; TEXT_SEEN]) -> &'t [u8] {
    let payload = bytes.get(head..).unwrap_or_default();
    let key = head.checked_sub(4).filter(|_| is_masked).and_then(|at| bytes.get(at..head)).unwrap_or(&[0]);
    let length = payload.len().min(TEXT_SEEN);
    for (to, (byte, key)) in text.iter_mut().zip(payload.iter().zip(key.iter().cycle())) {
        *to = byte ^ key;
    }
    &text[..length]
}

impl Framer for Framing {
    const NEW: Framing = Framing { owed: false, asked: [0; ASKED_MAX] };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        frame(dir, bytes).map(|_| ()).into()
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let Frame { is_last, opcode, head, total } = frame(wire.dir, bytes)?;
        let end = wire.behind(total);
        match opcode {
            CONTINUATION => {
                if wire.open[wire.dir.index()] == NONE {
                    return Err(BAD);
                }
                if is_last {
                    wire.end_open(wire.dir, end, EndHow::Framed);
                }
            }
            TEXT | BINARY => {
                let seen = total.min((head + TEXT_SEEN) as u64);
                if opcode == TEXT && !last && (bytes.len() as u64) < seen {
                    return Err(Stop::Need);
                }
                let bytes = &bytes[..bytes.len().min(seen as usize)];
                let verb = if opcode == TEXT { "text" } else { "binary" };
                let mut text = [0; TEXT_SEEN];
                let said = match opcode {
                    TEXT => Envelope::read(unmasked(bytes, head, wire.dir == Dir::ToServer, &mut text)),
                    _ => Envelope::default(),
                };
                // of one that is cut before its end and has no identifier nothing is known
                let is_known = said.length.is_some() || said.id.is_some();
                let Part { role, by_turn, id } =
                    self.part(wire.dir, &if is_known { said } else { Envelope::default() });
                let attrs = match role {
                    Role::Reply => Attrs::status("", Status::default()),
                    _ => Attrs::alone(verb),
                };
                let border = if is_last { Border::Known(end) } else { Border::Open };
                let witness = id.map(Witness::Named);
                wire.message(
                    role,
                    (wire.at, border),
                    wire.behind(2u64),
                    Attrs { by_turn, ..attrs },
                    witness.as_slice(),
                );
            }
            _ => {}
        }
        Ok(total)
    }
}
