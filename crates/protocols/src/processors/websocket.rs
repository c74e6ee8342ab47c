//! WebSocket (RFC 6455), after the handshake: frames with a length, of which no payload is read.
//!
//! ```text
//! > 81 85 key payload            request: a message of the client, of one frame or several; its verb is text or binary
//! < 81 02 payload                reply, where the client's last message has none yet; else unsolicited
//! > 89 80 key                    a ping, a pong or a close: unsolicited
//! ```
//!
//! Nothing in a message says what it answers. So messages are paired by turns: a client's message is answered by the next message of
//! the server, and one that another follows before is not answered at all. What the server says besides is unsolicited.

use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::registry::{About, Askers, Docs, RunsOn};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Dir, EndHow, Role, Status};

/// Bytes of the longest frame's head.
pub const HEAD: usize = 14;

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
    docs: Docs {
        what: "WebSocket, after its handshake in HTTP/1",
        request: "a message of the client",
        kept: "whether it is text or binary",
        pairs: "turn of direction",
    },
    ..About::NEW
};

/// What of WebSocket is remembered between units.
pub struct Framing {
    /// A message of the client waits for an answer.
    owed: bool,
}

/// A frame's head.
struct Frame {
    is_last: bool,
    opcode: u8,
    /// Bytes of the whole frame.
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
    Ok(Frame { is_last: first & 0x80 != 0, opcode, total: length + head })
}

impl Framer for Framing {
    const NEW: Framing = Framing { owed: false };

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        frame(dir, bytes).map(|_| ()).into()
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], _: bool) -> Unit {
        let Frame { is_last, opcode, total } = frame(wire.dir, bytes)?;
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
                let verb = if opcode == TEXT { "text" } else { "binary" };
                let role = match wire.dir {
                    Dir::ToServer => Role::Request,
                    Dir::ToClient if self.owed => Role::Reply,
                    Dir::ToClient => Role::Unsolicited,
                };
                self.owed = role == Role::Request;
                let attrs = match role {
                    Role::Request => Attrs { by_turn: true, ..Attrs::alone(verb) },
                    Role::Reply => Attrs::status("", Status::default()),
                    _ => Attrs::alone(verb),
                };
                let border = if is_last { Border::Known(end) } else { Border::Open };
                wire.message(role, (wire.at, border), wire.behind(2u64), attrs, &[]);
            }
            _ => {}
        }
        Ok(total)
    }
}
