//! What a flow says: which protocol it is, and its bytes on to that.

use super::exchanges::{Ending, ExchangeTracker, MessageSink};
use super::piece::Piece;
use super::undecided::Undecided;
use crate::RowSink;
use crate::recurring::{Asker, address_number};
use crate::words::{Boxed, Speech};
use wakepath_model::ids::{MonoNs, SniffedFlowId};
use wakepath_model::rows::SideHow;
use wakepath_protocols::{Dir, Likely, Processor, Protocol, Transport, Verdict, recognise};

/// After how many turns without a recognised message a flow is called opaque.
const TRIES: u8 = 6;

/// So many messages more than fit show that a side which nothing had shown before is the wrong one.
const REVERSED: u8 = 3;

/// Bytes of a flow's first message that are kept until its protocol is known.
const FIRST_MAX: usize = 1024;

/// Who of a flow's two ends is the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// The client's direction.
    pub client: usize,
    /// How it is known.
    pub how: SideHow,
}

impl Side {
    /// The direction of what `direction` sends.
    pub fn dir(self, direction: usize) -> Dir {
        if direction == self.client { Dir::ToServer } else { Dir::ToClient }
    }
}

/// The flow of a [`ProtocolState`], as far as that needs to know it.
pub(super) struct About<'a> {
    pub flow: SniffedFlowId,
    pub transport: Transport,
    pub ports: (u16, u16),
    pub addresses: [[u64; 2]; 2],
    pub side: &'a mut Side,
    /// The first byte of each direction is known to be that of its stream.
    pub whole: bool,
    /// One end is an address of all, or of a group.
    pub to_all: bool,
}

impl About<'_> {
    fn asker(&self) -> Asker {
        let ports = [self.ports.0, self.ports.1];
        let end = |direction: usize| (address_number(self.addresses[direction]), ports[direction]);
        Asker::of(end(1 - self.side.client), end(self.side.client))
    }
}

/// The first bytes of a message that may be known when there are more of them.
struct First {
    direction: usize,
    pos: u64,
    bytes: Vec<u8>,
    /// Length, time and acknowledgement of each piece.
    pieces: Vec<(usize, MonoNs, u64)>,
}

struct Known {
    protocol: Protocol,
    processor: Box<dyn Processor + Send>,
    tracker: ExchangeTracker,
    /// Bytes of each direction were captured.
    begun: [bool; 2],
}

enum State {
    /// Not known yet.
    Listening {
        /// Turns that may still bring it.
        tries: u8,
        first: Option<Box<First>>,
        likely: Likely,
    },
    Known(Box<Known>),
    Opaque(&'static str),
    /// All is told: what was known, and why no more was.
    Over(Option<Protocol>, &'static str),
}

/// What a flow says.
pub(super) struct ProtocolState {
    state: State,
    /// Who spoke last.
    last: Option<usize>,
    /// Something was said that was not understood.
    is_unrecognised: bool,
    /// It is not decided who the server is.
    undecided: Option<Box<Undecided>>,
    /// Messages that do not fit the side that was decided by ports, less those that do.
    against: u8,
}

impl ProtocolState {
    /// Of a flow that has said nothing yet.
    pub fn new() -> ProtocolState {
        ProtocolState {
            state: State::Listening { tries: TRIES, first: None, likely: Likely::default() },
            last: None,
            is_unrecognised: false,
            undecided: None,
            against: 0,
        }
    }

    /// Of a flow that nobody here understands.
    pub fn opaque(reason: &'static str) -> ProtocolState {
        ProtocolState { state: State::Opaque(reason), last: None, is_unrecognised: true, undecided: None, against: 0 }
    }

    /// Its bytes are of use.
    pub fn listens(&self) -> bool {
        matches!(self.state, State::Listening { .. } | State::Known(_))
    }

    /// The protocol, where it is known.
    pub fn protocol(&self) -> Option<Protocol> {
        match &self.state {
            State::Known(known) => Some(known.protocol),
            State::Over(protocol, _) => *protocol,
            _ => None,
        }
    }

    /// Why it is not understood.
    pub fn reason(&self) -> &'static str {
        match &self.state {
            State::Opaque(reason) | State::Over(_, reason) => reason,
            State::Known(known) if known.tracker.opaque => "encrypted, or another protocol, after an upgrade",
            _ => "",
        }
    }

    /// All is told.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over(..))
    }

    /// Exchanges that ended since the last call.
    pub fn take_ended(&mut self) -> u64 {
        match &mut self.state {
            State::Known(known) if self.undecided.is_none() => std::mem::take(&mut known.tracker.ended),
            _ => 0,
        }
    }

    /// What it holds until it is decided who the server is, bytes.
    pub fn held_bytes(&self) -> usize {
        self.undecided.as_ref().map_or(0, |undecided| undecided.cost())
    }

    /// Something waits to be told until it is decided who the server is, and that is not known yet.
    pub fn is_undecided(&self) -> bool {
        self.undecided.as_ref().is_some_and(|undecided| !undecided.is_over())
    }

    /// The server was taken for the client, as what was said since shows.
    pub fn is_reversed(&self) -> bool {
        self.against >= REVERSED
    }

    /// It is decided: tells what waited for that.
    pub fn decide<S: RowSink>(&mut self, out: &mut S) {
        if let Some(undecided) = self.undecided.take() {
            undecided.tell(out);
        }
    }

    /// Takes the next bytes.
    pub fn take<S: RowSink>(&mut self, piece: Piece<'_>, about: &mut About<'_>, out: &mut S) {
        if let State::Listening { .. } = self.state {
            return self.listen(piece, about, out);
        }
        let turned = self.last.replace(piece.direction) != Some(piece.direction);
        self.pass(piece, turned && about.transport == Transport::Stream, true, about, out);
    }

    /// Gives a piece to the protocol. `votes`: it may tell who the server is, if it begins a message.
    fn pass<S: RowSink>(&mut self, piece: Piece<'_>, turned: bool, votes: bool, about: &mut About<'_>, out: &mut S) {
        let State::Known(known) = &mut self.state else { return };
        let dir = about.side.dir(piece.direction);
        if about.to_all {
            // All ask and all answer: each datagram tells what it is.
            let dir = known.protocol.direction(piece.bytes).unwrap_or(dir);
            return known.take(piece, dir, turned, out);
        }
        let begins = votes && (turned || about.transport == Transport::Datagram);
        let Some(undecided) = &mut self.undecided else {
            if begins
                && matches!(about.side.how, SideHow::Port | SideHow::Guessed)
                && let Some(reported) = known.protocol.direction(piece.bytes)
            {
                self.against =
                    if reported == dir { self.against.saturating_sub(1) } else { self.against.saturating_add(1) };
            }
            return known.take(piece, dir, turned, out);
        };
        let reported = known.protocol.direction(piece.bytes).filter(|_| begins);
        undecided.keep(piece, turned, reported.map(|reported| reported == dir));
        if undecided.turns() {
            about.side.client = 1 - about.side.client;
            **known = Known::new(known.protocol, known.tracker.anew());
            let (said, made) = undecided.again();
            let mut out = made.sink(out);
            said.for_each(|(piece, turned)| known.take(piece, about.side.dir(piece.direction), turned, &mut out));
        } else {
            known.take(piece, dir, turned, &mut undecided.again().1.sink(out));
        }
        if undecided.is_likely() {
            about.side.how = SideHow::Protocol;
        }
    }

    fn listen<S: RowSink>(&mut self, piece: Piece<'_>, about: &mut About<'_>, out: &mut S) {
        let State::Listening { tries, first, likely } = &mut self.state else { return };
        let turned = self.last.replace(piece.direction) != Some(piece.direction);
        if turned && first.take().is_some() {
            self.is_unrecognised = true;
            *tries = tries.saturating_sub(1).max(1);
        }
        let begins = turned || about.transport == Transport::Datagram;
        let mut whole = None;
        if let Some(first) = first {
            first.bytes.extend_from_slice(piece.bytes);
            first.pieces.push((piece.bytes.len(), piece.at, piece.ack));
            whole = Some(&first.bytes[..]);
            likely.again();
        } else if !begins || piece.bytes.is_empty() {
            self.is_unrecognised |= piece.length > 0;
            return;
        }
        let bytes = whole.unwrap_or(piece.bytes);
        let side = (about.side.how == SideHow::Handshake).then(|| about.side.dir(piece.direction));
        let all = piece.bytes.len() as u64 == piece.length;
        match recognise(about.transport, side, bytes, about.ports, likely) {
            Verdict::Protocol(protocol, dir) => {
                if let Some(why) = protocol.about().opaque {
                    self.state = State::Opaque(why);
                    return;
                }
                if about.side.how != SideHow::Handshake {
                    // Where either side could have said it, the ports tell more than the order in which sides are tried.
                    let reported = protocol.direction(bytes);
                    let guessed = (about.side.how == SideHow::Guessed).then_some(dir);
                    if let Some(dir) = reported.or(guessed) {
                        about.side.client = if dir == Dir::ToServer { piece.direction } else { 1 - piece.direction };
                    }
                    if reported.is_some() {
                        about.side.how = SideHow::Protocol;
                    }
                    if !about.to_all {
                        self.undecided = Some(Box::new(Undecided::new(i32::from(reported.is_some()))));
                    }
                }
                let first = first.take();
                self.know(protocol, first, piece, about, out);
            }
            Verdict::NeedMore if looks_encrypted(bytes) => self.state = State::Opaque("encrypted (TLS)"),
            Verdict::NeedMore if all && bytes.len() < FIRST_MAX && about.transport == Transport::Stream => {
                if whole.is_none() {
                    *first = Some(Box::new(First {
                        direction: piece.direction,
                        pos: piece.pos,
                        bytes: piece.bytes.to_vec(),
                        pieces: vec![(piece.bytes.len(), piece.at, piece.ack)],
                    }));
                }
            }
            _ => {
                self.is_unrecognised = true;
                let encrypted = looks_encrypted(bytes);
                *first = None;
                *tries -= 1;
                if encrypted {
                    self.state = State::Opaque("encrypted (TLS)");
                } else if *tries == 0 {
                    self.state = State::Opaque("no known protocol");
                }
            }
        }
    }

    fn know<S: RowSink>(
        &mut self,
        protocol: Protocol,
        first: Option<Box<First>>,
        piece: Piece<'_>,
        about: &mut About<'_>,
        out: &mut S,
    ) {
        let name = out.intern(protocol.id().as_bytes());
        let whole = about.whole && !self.is_unrecognised;
        let speech = Speech { protocol, asker: about.asker() };
        let mut tracker =
            ExchangeTracker::new(about.flow, name, speech, whole || about.transport == Transport::Datagram);
        tracker.to_all = about.to_all;
        self.state = State::Known(Box::new(Known::new(protocol, tracker)));
        let stream = about.transport == Transport::Stream;
        let Some(first) = first else {
            return self.pass(piece, stream, false, about, out);
        };
        let (mut pos, mut rest) = (first.pos, &first.bytes[..]);
        for (i, &(length, at, ack)) in first.pieces.iter().enumerate() {
            let (bytes, behind) = rest.split_at(length.min(rest.len()));
            let last = i + 1 == first.pieces.len();
            let length = if last { piece.length } else { length as u64 };
            let part = Piece { direction: first.direction, pos, bytes, length, at, ack };
            self.pass(part, stream && i == 0, false, about, out);
            (pos, rest) = (pos + length, behind);
        }
    }

    /// `direction` ended at `pos`.
    pub fn shutdown<S: RowSink>(&mut self, direction: usize, pos: u64, at: MonoNs, side: Side, out: &mut S) {
        let State::Known(known) = &mut self.state else { return };
        let dir = side.dir(direction);
        match &mut self.undecided {
            Some(undecided) => {
                let mut out = undecided.again().1.sink(out);
                known.processor.shutdown(dir, pos, &mut MessageSink { tracker: &mut known.tracker, at, out: &mut out });
            }
            None => known.processor.shutdown(dir, pos, &mut MessageSink { tracker: &mut known.tracker, at, out }),
        }
    }

    /// See [`ExchangeTracker::visit`].
    pub fn visit<S: RowSink>(&mut self, now: MonoNs, lost: MonoNs, update_ns: u64, wait_ns: u64, out: &mut S) {
        if let State::Known(known) = &mut self.state {
            known.tracker.visit(now, lost, update_ns, wait_ns, out);
        }
    }

    /// The flow ended, or is not followed any longer: tells all that is open, and forgets the rest. The number of
    /// exchanges that ended since [`ProtocolState::take_ended`].
    pub fn finish<S: RowSink>(&mut self, ending: Ending, transport: Transport, lost: MonoNs, out: &mut S) -> u64 {
        if let State::Known(known) = &mut self.state {
            known.tracker.finish(ending, transport == Transport::Datagram, lost, out);
        }
        let ended = self.take_ended();
        self.state = State::Over(self.protocol(), self.reason());
        ended
    }
}

impl Known {
    /// Nothing was said yet.
    fn new(protocol: Protocol, tracker: ExchangeTracker) -> Known {
        Known { protocol, processor: protocol.make(Boxed), tracker, begun: [false; 2] }
    }

    fn take<S: RowSink>(&mut self, piece: Piece<'_>, dir: Dir, turned: bool, out: &mut S) {
        let Known { processor, tracker, begun, .. } = self;
        let captured = piece.bytes.len() as u64;
        let rest = piece.length - captured;
        let timeline = &mut tracker.timelines[dir.index()];
        timeline.goes_on(piece.pos);
        if captured > 0 {
            timeline.brought(captured, piece.at, piece.ack);
        }
        if rest > 0 {
            timeline.missed(rest, piece.at);
        }
        if turned {
            tracker.turn(dir);
        }
        if captured == 0 && !begun[dir.index()] {
            // It will look for a message where its first bytes are, as in every stream that is joined in the middle.
            return tracker.hidden(dir, out);
        }
        begun[dir.index()] = true;
        if turned {
            processor.turn(dir, piece.pos, &mut MessageSink { tracker, at: piece.at, out });
        }
        if captured > 0 {
            processor.data(dir, piece.pos, piece.bytes, &mut MessageSink { tracker, at: piece.at, out });
        }
        if rest > 0 {
            processor.gap(dir, piece.pos + captured, rest, &mut MessageSink { tracker, at: piece.at, out });
        }
        let ahead = processor.ahead(dir);
        tracker.moved(dir, ahead, piece.at, out);
    }
}

fn looks_encrypted(head: &[u8]) -> bool {
    head.len() >= 3 && (20..=23).contains(&head[0]) && head[1] == 3 && head[2] <= 4
}
