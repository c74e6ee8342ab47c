//! Line-oriented protocols of which nothing else is known.
//!
//! ```text
//! > GET 17 42\n            request, verb GET, 2 arguments; the arguments are not kept
//! < VALUE …\n … END\n      one reply: all lines until the client sends its next line
//! ```
//!
//! A request is one line (`\n`, with or without `\r`); a reply is everything until the next request, so its end is
//! found by the turn. Requests that are pipelined have one reply together. The verb is the first word if it looks
//! like a command (letters, at most 16), else `?`. What the server sends before any request is unsolicited.

use crate::duplex::{Duplex, Fit, Framer, Stop, Unit, Wire};
use crate::registry::{About, Askers, Docs};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Dir, EndHow, Role, Text};

/// Bytes kept of a line in each direction; longer lines have cut attributes, but a known end.
pub const HEAD: usize = 256;

/// The processor of lines.
pub type Line = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.line",
    ports: &[],
    vocabulary: Vocabulary {
        verb: Grammar::Words(List::of(&["?"])),
        target: Grammar::Words(List::of(&["?"])),
        class: Grammar::Words(List::of(&["?"])),
    },
    askers: Askers::People,
    docs: Docs {
        what: "lines of which nothing else is known; only where asked for",
        request: "a line",
        kept: "its first word, if it looks like a command",
        pairs: "turn of direction",
    },
    ..About::NEW
};

/// What of the lines is remembered between units.
pub struct Framing {
    /// Inside a line that is longer than a head.
    long: [bool; 2],
    /// A request has been seen.
    asked: bool,
}

impl Framer for Framing {
    const NEW: Framing = Framing { long: [false; 2], asked: false };

    fn fit(&self, _: Dir, bytes: &[u8]) -> Fit {
        (bytes[0].is_ascii_graphic() || bytes[0].is_ascii_whitespace()).into()
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let line = bytes.iter().position(|&b| b == b'\n').map(|at| at + 1);
        if line.is_none() && !last {
            return Err(Stop::Need);
        }
        let length = line.unwrap_or(bytes.len());
        let end = wire.at.saturating_add(length as u64);
        let inside = core::mem::replace(&mut self.long[wire.dir.index()], line.is_none());
        match wire.dir {
            Dir::ToServer if inside => {
                if line.is_some() {
                    wire.end_open(wire.dir, end, EndHow::Framed);
                }
            }
            Dir::ToServer => {
                self.asked = true;
                wire.end_open(Dir::ToClient, wire.next[1], EndHow::Turn);
                let mut words = bytes[..length].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                let verb = verb(words.next().unwrap_or(&[]));
                let attrs = Attrs {
                    verb: verb.as_str(),
                    args: Some(words.count() as u32),
                    cut: line.is_none(),
                    ..Attrs::default()
                };
                let border = line.map_or(Border::Open, |_| Border::Known(end));
                wire.message(Role::Request, (wire.at, border), end, attrs, &[]);
            }
            Dir::ToClient if wire.is_open(Dir::ToClient) => {}
            Dir::ToClient => {
                let role = if self.asked { Role::Reply } else { Role::Unsolicited };
                let span = (wire.at, Border::Open);
                wire.message(role, span, end, Attrs::default(), &[]);
            }
        }
        Ok(length as u64)
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.long[wire.dir.index()] = false;
    }
}

fn verb(word: &[u8]) -> Text<16> {
    if (1..=16).contains(&word.len()) && word.iter().all(u8::is_ascii_alphabetic) {
        Text::upper(word)
    } else {
        Text::of(b"?")
    }
}
