//! One exchange for each connection: everything to the server is the request, everything back until close the reply.
//!
//! ```text
//! > any bytes      request, until the server answers or the client shuts down its side
//! < any bytes      reply, until close
//! ```
//!
//! Nothing is read, so nothing is lost by a gap. Client bytes after the first byte of the reply belong to
//! nothing. Of a server that speaks first, everything is one unsolicited message.

use crate::duplex::{Duplex, Fit, Framer, Unit, Wire};
use crate::registry::{About, Docs};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Dir, EndHow, Role};

/// The processor of one-shot connections.
pub type Oneshot = Duplex<Framing, 1>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.oneshot",
    ports: &[],
    vocabulary: Vocabulary {
        verb: Grammar::Words(List::of(&["?"])),
        target: Grammar::Words(List::of(&["?"])),
        class: Grammar::Words(List::of(&["?"])),
    },
    docs: Docs {
        what: "one exchange a connection; only where asked for",
        request: "all bytes to the server",
        kept: "nothing",
        pairs: "the connection",
    },
    ..About::NEW
};

/// Whether each direction has spoken.
pub struct Framing {
    asked: bool,
    answered: bool,
}

impl Framer for Framing {
    const NEW: Framing = Framing { asked: false, answered: false };

    fn fit(&self, _: Dir, _: &[u8]) -> Fit {
        Fit::Yes
    }

    fn unit(&mut self, wire: &mut Wire<'_>, _: &[u8], _: bool) -> Unit {
        Ok(self.blind(wire).unwrap_or(u64::MAX))
    }

    fn blind(&mut self, wire: &mut Wire<'_>) -> Option<u64> {
        let role = match wire.dir {
            Dir::ToServer if self.answered => Role::Unsolicited,
            Dir::ToServer => Role::Request,
            Dir::ToClient if self.asked => Role::Reply,
            Dir::ToClient => Role::Unsolicited,
        };
        match wire.dir {
            Dir::ToServer => self.asked = true,
            Dir::ToClient => {
                self.answered = true;
                wire.end_open(Dir::ToServer, wire.next[0], EndHow::Turn);
            }
        }
        let span = (wire.at, Border::Open);
        wire.message(role, span, wire.at, Attrs::default(), &[]);
        Some(u64::MAX)
    }
}
