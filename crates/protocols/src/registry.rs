//! What the registry knows of a protocol, and what is made of the list of them (`processors.rs`).

use crate::Dir;
use crate::duplex::Fit;
use crate::processors::Protocol;
use crate::proxy::{self, Header};
use crate::vocabulary::Vocabulary;

/// What carries the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A byte stream: TCP, UNIX stream sockets, pipes.
    Stream,
    /// Datagrams: UDP, UNIX datagram sockets.
    Datagram,
}

/// Who asks in a protocol, as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Askers {
    /// People, each for something of their own.
    People,
    /// Programs: what they ask is the same for all their users.
    Programs,
}

/// Where messages of one side begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// Where the flow turns, as a rule.
    Never,
    /// Wherever bytes are moved: one side's follow each other without a turn.
    Plainly,
    /// The same, in frames of HTTP/2, of which some hold nothing but data.
    InFrames,
}

/// A protocol's row in `docs/protocols.md` (Markdown).
#[derive(Clone, Copy, Debug)]
pub struct Docs {
    /// What it is.
    pub what: &'static str,
    /// What counts as a request.
    pub request: &'static str,
    /// What is kept of a message.
    pub kept: &'static str,
    /// By what replies are paired with requests.
    pub pairs: &'static str,
}

/// What a processor's file says of its protocol.
#[derive(Clone, Copy)]
pub struct About {
    /// The id used in commands, counters, documents and golden folders.
    pub id: &'static str,
    /// What it runs on.
    pub transport: Transport,
    /// Ports on which it is usual.
    pub ports: &'static [u16],
    /// Whether bytes that travel in this direction begin like it; `true`: on a usual port. [`recognise`] says what follows of that.
    pub(crate) recognise: fn(Dir, &[u8], bool) -> Fit,
    /// Whether its direction may be told by bytes that are only sure on a usual port.
    pub(crate) direction_by_port: bool,
    /// How the attributes of its messages are divided, and which words in them are the protocol's own.
    pub vocabulary: Vocabulary,
    /// Who asks in it.
    pub askers: Askers,
    /// Why nobody can read what it carries, where nobody can.
    pub opaque: Option<&'static str>,
    /// Where messages of one side begin.
    pub runs_on: RunsOn,
    /// How large a processor may be, in bytes: there is one for each flow.
    pub bytes_max: usize,
    /// Its row in the documents.
    pub docs: Docs,
}

impl About {
    /// What most protocols have in common; they set the rest. It is never recognised.
    pub(crate) const NEW: About = About {
        id: "",
        transport: Transport::Stream,
        ports: &[],
        recognise: |_, _, _| Fit::No,
        direction_by_port: true,
        vocabulary: Vocabulary::CONSTANT,
        askers: Askers::Programs,
        opaque: None,
        runs_on: RunsOn::Never,
        bytes_max: 1024,
        docs: Docs { what: "", request: "", kept: "", pairs: "" },
    };
}

/// What the first bytes of a flow say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is this protocol, and the bytes travel in this direction.
    Protocol(Protocol, Dir),
    /// It may be known when more bytes of the same direction are shown from the start.
    NeedMore,
    /// No protocol of the list, as far as these bytes show. Bytes after a later turn may show more.
    Unknown,
}

/// What is done with a new processor, whatever its type: boxed, as a rule, by a caller that may allocate.
pub trait Maker {
    /// What becomes of it.
    type Made;
    /// Takes it.
    fn take<P: crate::Processor + Send + 'static>(self, processor: P) -> Self::Made;
}

/// Makes `Protocol` and `AnyProcessor` of the list.
macro_rules! registry {
    ($($variant:ident($type:ty) = $about:path;)+) => {
        /// A protocol on its transport.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // what it is, its processor says
        pub enum Protocol { $($variant),+ }

        impl Protocol {
            /// All protocols, in the order in which they are tried.
            pub const ALL: &[Protocol] = &[$(Protocol::$variant),+];

            /// What its processor says of it.
            pub fn about(self) -> &'static About {
                match self { $(Protocol::$variant => const { &$about }),+ }
            }

            /// The id used in commands, counters, documents and golden folders. A protocol that exists on both
            /// transports has one id.
            pub fn id(self) -> &'static str {
                self.about().id
            }

            /// What it runs on.
            pub fn transport(self) -> Transport {
                self.about().transport
            }

            /// Ports on which it is usual: they decide only where the bytes alone do not.
            pub fn ports(self) -> &'static [u16] {
                self.about().ports
            }

            /// Hands a new processor of exactly this protocol to `maker`: with many flows [`AnyProcessor`] is too large.
            pub fn make<M: Maker>(self, maker: M) -> M::Made {
                match self { $(Protocol::$variant => maker.take(<$type>::new())),+ }
            }
        }

        /// A processor of any protocol. As large as the largest of them, HTTP/2; a test prints the sizes. Where flows of
        /// one protocol are many, keep its own type instead.
        #[allow(missing_docs, clippy::large_enum_variant)] // no allocation, so no box
        pub enum AnyProcessor { $($variant($type)),+ }

        impl AnyProcessor {
            /// A processor for a new flow.
            pub fn new(protocol: Protocol) -> Self {
                match protocol { $(Protocol::$variant => AnyProcessor::$variant(<$type>::new())),+ }
            }

            /// The protocol.
            pub fn protocol(&self) -> Protocol {
                match self { $(AnyProcessor::$variant(_) => Protocol::$variant),+ }
            }
        }

        impl Processor for AnyProcessor {
            fn data(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) {
                match self { $(AnyProcessor::$variant(p) => p.data(dir, pos, bytes, sink)),+ }
            }
            fn data_to_border(&mut self, dir: Dir, pos: u64, bytes: &[u8], sink: &mut dyn Sink) -> usize {
                match self { $(AnyProcessor::$variant(p) => p.data_to_border(dir, pos, bytes, sink)),+ }
            }
            fn ahead(&self, dir: Dir) -> u64 {
                match self { $(AnyProcessor::$variant(p) => p.ahead(dir)),+ }
            }
            fn gap(&mut self, dir: Dir, pos: u64, len: u64, sink: &mut dyn Sink) {
                match self { $(AnyProcessor::$variant(p) => p.gap(dir, pos, len, sink)),+ }
            }
            fn turn(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) {
                match self { $(AnyProcessor::$variant(p) => p.turn(dir, pos, sink)),+ }
            }
            fn shutdown(&mut self, dir: Dir, pos: u64, sink: &mut dyn Sink) {
                match self { $(AnyProcessor::$variant(p) => p.shutdown(dir, pos, sink)),+ }
            }
        }
    };
}

pub(crate) use registry;

impl Protocol {
    /// In which direction `bytes` travel, as the begin of a message of this protocol: known where only one side
    /// could send them.
    pub fn direction(self, bytes: &[u8]) -> Option<Dir> {
        if bytes.is_empty() {
            return None;
        }
        let About { recognise, direction_by_port, .. } = self.about();
        match [Dir::ToServer, Dir::ToClient].map(|dir| recognise(dir, bytes, *direction_by_port)) {
            [Fit::Yes | Fit::Sure, Fit::No] => Some(Dir::ToServer),
            [Fit::No, Fit::Yes | Fit::Sure] => Some(Dir::ToClient),
            _ => None,
        }
    }
}

/// Whether bytes begin like a message that may follow others of its direction, and like nothing else: they tell the protocol also
/// where the flow did not turn.
pub fn begins_anywhere(bytes: &[u8]) -> bool {
    crate::frames::begin_head(bytes) || crate::processors::jsonrpc::begins(bytes)
}

/// What a flow may speak, by a message that others could have sent too. One for each flow that is listened to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Likely(Option<(Protocol, Dir)>);

impl Likely {
    /// The message last shown is shown again, with more of its bytes: it is no answer to itself.
    pub fn again(&mut self) {
        self.0 = None;
    }
}

/// Which protocol a flow speaks.
///
/// The rule, for all protocols alike: a flow speaks a protocol if
/// - a message cannot be anything else ([`Fit::Sure`]), or
/// - one fits ([`Fit::Yes`]) on a port where the protocol is usual, or
/// - two fit, and the second answers the first: it is the next thing that the other side says.
///
/// `bytes` are the first of a direction, or the first after a turn. `dir`: their direction, if known. `ports`: local
/// and remote, in any order (0: none). A usual port never decides against the bytes. What a proxy says of its client before them is
/// left out. `likely`: what the flow's messages so far
/// have shown.
pub fn recognise(
    transport: Transport,
    dir: Option<Dir>,
    bytes: &[u8],
    ports: (u16, u16),
    likely: &mut Likely,
) -> Verdict {
    if bytes.is_empty() {
        return Verdict::NeedMore;
    }
    if dir != Some(Dir::ToClient) {
        match proxy::header(bytes) {
            // A letter or two say nothing.
            Header::More if bytes.len() > 2 => return Verdict::NeedMore,
            Header::Bytes(length) => {
                let rest = usize::try_from(length).ok().and_then(|length| bytes.get(length..)).unwrap_or(&[]);
                return recognise(transport, Some(Dir::ToServer), rest, ports, likely);
            }
            Header::None | Header::More => {}
        }
    }
    if let Some((protocol, asked)) = likely.0 {
        let answers = asked.other();
        let fit = if dir.is_none_or(|dir| dir == answers) {
            (protocol.about().recognise)(answers, bytes, true)
        } else {
            Fit::No
        };
        match fit {
            Fit::Yes | Fit::Sure => return Verdict::Protocol(protocol, answers),
            Fit::More => return Verdict::NeedMore,
            Fit::No => likely.0 = None,
        }
    }
    // First what the bytes say by themselves; then, on a usual port, what they may be.
    for usual in [false, true] {
        let mut more = false;
        for &protocol in Protocol::ALL {
            let listed = protocol.ports();
            let here = listed.contains(&ports.0) || listed.contains(&ports.1);
            if protocol.transport() != transport || (usual && !here) {
                continue;
            }
            for side in [Dir::ToServer, Dir::ToClient] {
                if dir.is_some_and(|dir| dir != side) {
                    continue;
                }
                match (protocol.about().recognise)(side, bytes, usual) {
                    Fit::Sure => return Verdict::Protocol(protocol, side),
                    Fit::Yes if here => return Verdict::Protocol(protocol, side),
                    Fit::Yes => likely.0 = likely.0.or(Some((protocol, side))),
                    Fit::More => more = true,
                    Fit::No => {}
                }
            }
        }
        if more {
            return Verdict::NeedMore;
        }
    }
    Verdict::Unknown
}
