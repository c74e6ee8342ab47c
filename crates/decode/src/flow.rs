//! One endpoint as the decoder follows it: byte numbers unwrapped and chained, messages found.

mod clear;
mod content;
mod joining;
mod lanes;
mod numbers;
mod pieces;
mod replies;
mod upgrades;
mod whose;

use crate::RowSink;
use crate::recurring::Asker;
use crate::words::{self, Boxed, Speech};
use content::Reply;
use joining::{Direction, Overhead};
pub use joining::{Piece, Plaintext};
pub use numbers::Numbers;
use std::borrow::Cow;
use std::collections::VecDeque;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{
    FlowNoteRow, MessageEndHow, MessageEndRow, MessageRole, MessageRow, OPEN, Side, UNFRAMED, WitnessKind, message_flag,
};
use wakepath_protocols::{
    Border, Dir, EndHow, Likely, Message, Processor, Protocol, Role, RunsOn, Sink, Status, Transport, Upgrade, Verdict,
    begins_anywhere, recognise,
};

/// The family of UNIX sockets.
const AF_UNIX: u16 = 1;

/// What is known of what a flow says.
enum ProtocolState {
    /// Not yet.
    Listening(Listening),
    Known(Box<dyn Processor + Send>),
    Opaque,
}

/// A flow of which nothing was recognised yet.
struct Listening {
    /// Turns left until it is called opaque.
    tries: u8,
    /// The beginning of what was said last, which alone could be several protocols; empty if there is none. Many read a
    /// message's header first, and the rest by a call of its own.
    begun: Vec<u8>,
    /// Number of its first byte.
    begun_at: u64,
    likely: Likely,
    /// Writes to a pipe that were looked at.
    writes: u8,
}

impl Listening {
    fn new() -> Listening {
        Listening { tries: TRIES, begun: Vec::new(), begun_at: 0, likely: Likely::default(), writes: 0 }
    }

    /// What was kept goes on with these bytes.
    fn goes_on(&self, start: u64) -> bool {
        !self.begun.is_empty() && self.begun_at + self.begun.len() as u64 == start
    }
}

/// An endpoint.
pub struct Flow {
    /// Bytes sent.
    pub snd: Numbers,
    /// Bytes received.
    pub rcv: Numbers,
    /// Which end it is.
    pub side: Side,
    /// Local and remote port.
    pub ports: (u16, u16),
    /// Datagrams.
    pub datagram: bool,
    /// A way for messages, whatever they are: see `lanes.rs`.
    is_lane: bool,
    last_sent: Option<bool>,
    /// Plaintext of a TLS session was seen: received, sent.
    plain: [bool; 2],
    state: ProtocolState,
    is_tls: bool,
    /// It was counted as TLS whose plaintext was not read; and nobody asked for that yet.
    is_unread: bool,
    is_news_unread: bool,
    known: Option<(Protocol, StrId)>,
    rest: Option<Rest>,
    /// Numbers for the local and the remote address.
    addresses: [u64; 2],
    asker: Option<Asker>,
    /// One of its ends is a group of hosts.
    to_all: bool,
    /// Where the plaintext of its TLS is told.
    clear: Option<Box<Clear>>,
    /// The last reply, where more of its body is to be seen.
    reply: Option<Box<Reply>>,
}

/// What is known of a connection in clear.
struct Clear {
    /// What the plaintext says, with numbers of plaintext.
    inner: Flow,
    /// Received, sent.
    directions: [Direction; 2],
    over: Overhead,
    /// Sent, with records to come.
    waiting: VecDeque<(Plaintext, Vec<Piece>)>,
    /// The last plaintext was joined: its pieces go on there.
    is_at_joined: bool,
    /// Some of its ciphertext was seen.
    is_met: bool,
    /// Its handshake is over, or was before the recording.
    is_begun: bool,
    /// Whoever takes the rows takes plaintext as it is, too.
    keeps_heads: bool,
}

impl Clear {
    fn new(of: &Flow, keeps_heads: bool) -> Clear {
        let mut directions = [Direction::default(), Direction::default()];
        directions.iter_mut().for_each(|d| d.plain = 1 << 32);
        let inner = Flow::new(of.side, of.ports, false);
        let (waiting, over) = (VecDeque::new(), Overhead::Unknown);
        Clear { inner, directions, over, waiting, is_at_joined: false, is_met: false, is_begun: false, keeps_heads }
    }
}

/// An operation of which more is to come.
struct Rest {
    at: MonoNs,
    sent: bool,
    moved: std::ops::Range<u64>,
}

/// After how many turns without a recognised message a flow is called opaque.
const TRIES: u8 = 6;
/// Most bytes that are kept of a beginning until more tells the protocol.
const BEGUN_MAX: usize = 256;

impl Flow {
    /// A new endpoint.
    pub fn new(side: Side, ports: (u16, u16), datagram: bool) -> Flow {
        Flow {
            snd: Numbers::default(),
            rcv: Numbers::default(),
            side,
            ports,
            datagram,
            is_lane: false,
            last_sent: None,
            plain: [false; 2],
            state: ProtocolState::Listening(Listening::new()),
            is_tls: false,
            is_unread: false,
            is_news_unread: false,
            known: None,
            rest: None,
            addresses: [0; 2],
            asker: None,
            to_all: false,
            clear: None,
            reply: None,
        }
    }

    /// Gives up on the contents, with the reason, once.
    pub fn opaque<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, reason: &str, sink: &mut S) {
        if !matches!(self.state, ProtocolState::Opaque) {
            self.state = ProtocolState::Opaque;
            sink.quiet(id);
            let reason = sink.intern(reason.as_bytes());
            sink.push(&FlowNoteRow { at, flow: id, protocol: StrId::EMPTY, reason, ..Default::default() });
        }
    }

    /// An operation moves plaintext of a TLS session, whose numbers begin anew: what was seen before was the handshake.
    pub fn plaintext(&mut self, sent: bool) {
        if !self.plain.contains(&true) {
            self.last_sent = None;
            (self.state, self.is_tls) = (ProtocolState::Listening(Listening::new()), false);
        }
        if !std::mem::replace(&mut self.plain[usize::from(sent)], true) {
            *(if sent { &mut self.snd } else { &mut self.rcv }) = Numbers::default();
        }
    }

    fn dir(&self, sent: bool) -> Option<Dir> {
        match (self.side, sent) {
            _ if self.is_lane => sent.then_some(Dir::ToServer),
            (Side::Server, true) | (Side::Client, false) => Some(Dir::ToClient),
            (Side::Server, false) | (Side::Client, true) => Some(Dir::ToServer),
            _ => None,
        }
    }

    /// The bytes `moved` went, of which `head` was captured.
    pub fn bytes<S: RowSink>(
        &mut self,
        id: EndpointId,
        at: MonoNs,
        sent: bool,
        moved: std::ops::Range<u64>,
        head: &[u8],
        sink: &mut S,
    ) {
        self.end_of_operation(id, sink);
        if self.ciphertext((id, at), sent, &moved, head, sink) {
            self.read(id, at, sent, moved, head, sink);
        }
    }

    /// Reads what its bytes say.
    fn read<S: RowSink>(
        &mut self,
        id: EndpointId,
        at: MonoNs,
        sent: bool,
        moved: std::ops::Range<u64>,
        head: &[u8],
        sink: &mut S,
    ) {
        let (start, len, moved_to) = (moved.start, moved.end - moved.start, moved.end);
        let turned = self.last_sent != Some(sent);
        self.last_sent = Some(sent);
        let begun = self.listen(id, at, sent, turned, moved, head, sink);
        let Some(dir) = self.dir(sent) else { return };
        // a client's plaintext may be told only when it reads the server's answer
        let is_answered = self.is_tls && dir == Dir::ToClient && self.clear.is_none();
        if is_answered {
            self.unread(at, sink);
        }
        let asker = self.asker();
        if dir == Dir::ToClient && !head.is_empty() {
            self.more_of_reply(id, at, sent, start, head, sink);
        }
        let ProtocolState::Known(p) = &mut self.state else {
            return;
        };
        let Some(mut out) = Out::new(id, at, self.side, self.known, asker, sink) else { return };
        (out.is_handshake, out.to_all) = (self.is_tls && self.clear.is_some(), self.to_all);
        out.fed = (start, head);
        out.is_lane = self.is_lane;
        if let Some((pos, bytes)) = begun {
            p.turn(dir, pos, &mut out);
            p.data(dir, pos, &bytes, &mut out);
        } else if turned && !self.datagram {
            p.turn(dir, start, &mut out);
        }
        if !head.is_empty() || self.datagram {
            p.data(dir, start, head, &mut out);
        }
        if !self.datagram && (head.len() as u64) < len {
            p.gap(dir, start + head.len() as u64, len - head.len() as u64, &mut out);
        }
        self.reply = out.reply.take().or(self.reply.take());
        if let Some(upgraded) = out.upgraded {
            return self.upgrade(id, at, sent, upgraded, (start..moved_to, head), sink);
        }
        if out.closes && self.is_tls && self.begins_in_clear() {
            return;
        }
        if out.closes && self.is_tls {
            self.opaque(id, at, "encrypted (TLS), perhaps HTTP/2 inside", sink);
            sink.count(defect::PROTOCOL_TLS, at);
        }
    }

    /// Looks for a protocol in bytes that begin a message, or go on with what could begin several. Where these told, what was
    /// kept before them, with the number of its first byte.
    #[allow(clippy::too_many_arguments)] // those of `bytes`
    fn listen<S: RowSink>(
        &mut self,
        id: EndpointId,
        at: MonoNs,
        sent: bool,
        turned: bool,
        moved: std::ops::Range<u64>,
        head: &[u8],
        sink: &mut S,
    ) -> Option<(u64, Vec<u8>)> {
        let dir = self.dir(sent);
        let ProtocolState::Listening(listening) = &mut self.state else { return None };
        let goes_on = !turned && !self.datagram && listening.goes_on(moved.start);
        let mut begun = std::mem::take(&mut listening.begun);
        if goes_on {
            listening.likely.again();
        } else {
            if !turned && !self.datagram && !begins_anywhere(head) {
                return None;
            }
            begun.clear();
        }
        let joined = if begun.is_empty() { Cow::Borrowed(head) } else { Cow::Owned([&begun, head].concat()) };
        let transport = if self.datagram { Transport::Datagram } else { Transport::Stream };
        match recognise(transport, dir, &joined, self.ports, &mut listening.likely) {
            Verdict::Protocol(protocol, dir) => {
                let begun_at = listening.begun_at;
                self.know(id, at, protocol, dir, sent, sink);
                return goes_on.then_some((begun_at, begun));
            }
            Verdict::NeedMore if head.len() as u64 == moved.end - moved.start && joined.len() <= BEGUN_MAX => {
                listening.begun_at = moved.start - begun.len() as u64;
                listening.begun = joined.into_owned();
            }
            _ => {}
        }
        match listening.tries {
            _ if goes_on || !turned => {}
            0 => {
                let why = if head.is_empty() {
                    "its bytes could not be read where they moved"
                } else if looks_encrypted(head) {
                    self.unread(at, sink);
                    "encrypted (TLS)"
                } else {
                    "no known protocol"
                };
                self.opaque(id, at, why, sink);
            }
            tries => listening.tries = if looks_encrypted(head) { 0 } else { tries - 1 },
        }
        None
    }

    fn know<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, protocol: Protocol, dir: Dir, sent: bool, sink: &mut S) {
        self.is_lane |= self.becomes_lane(protocol);
        if self.side == Side::Unknown && !self.is_lane {
            self.side = if (dir == Dir::ToServer) == sent { Side::Client } else { Side::Server };
        }
        self.state = ProtocolState::Known(protocol.make(Boxed));
        self.is_tls = protocol == Protocol::Tls;
        match protocol.about().runs_on {
            RunsOn::Never => {}
            RunsOn::Plainly => sink.runs_on(id, false),
            RunsOn::InFrames => sink.runs_on(id, true),
        }
        let name = sink.intern(protocol.id().as_bytes());
        self.known = Some((protocol, name));
        sink.push(&FlowNoteRow { at, flow: id, protocol: name, reason: StrId::EMPTY, ..Default::default() });
    }

    /// One direction ended.
    pub fn ended<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, sent: bool, sink: &mut S) {
        self.end_of_operation(id, sink);
        self.clear_ended(id, at, sent, sink);
        self.stops(id, at, sent, sink);
    }

    /// What is read of one direction ended.
    fn stops<S: RowSink>(&mut self, id: EndpointId, at: MonoNs, sent: bool, sink: &mut S) {
        self.end_of_reading(id, sink);
        let pos = if sent { self.snd.next() } else { self.rcv.next() };
        let (Some(pos), Some(dir)) = (pos, self.dir(sent)) else {
            return;
        };
        let asker = self.asker();
        let ProtocolState::Known(p) = &mut self.state else {
            return;
        };
        let Some(mut out) = Out::new(id, at, self.side, self.known, asker, sink) else { return };
        p.shutdown(dir, pos, &mut out);
    }
}

fn looks_encrypted(head: &[u8]) -> bool {
    head.len() >= 3 && (20..=23).contains(&head[0]) && head[1] == 3 && head[2] <= 4
}

/// Messages of a processor, as rows of the endpoint.
struct Out<'a, S: RowSink> {
    id: EndpointId,
    at: MonoNs,
    sent_dir: Dir,
    protocol: StrId,
    speech: Speech,
    /// Start and end of the last message whose row told both.
    reported: (u64, u64),
    /// After this nothing is to be understood any more.
    closes: bool,
    /// A handshake alone is told: messages after it are told in clear.
    is_handshake: bool,
    is_lane: bool,
    /// Whoever is asked need not answer.
    to_all: bool,
    /// What it speaks from here on, and from where.
    upgraded: Option<(Upgrade, u64)>,
    /// The bytes that are being read, and the number of the first.
    fed: (u64, &'a [u8]),
    /// A reply whose body goes on after them.
    reply: Option<Box<Reply>>,
    sink: &'a mut S,
}

impl<'s, S: RowSink> Out<'s, S> {
    fn new(
        id: EndpointId,
        at: MonoNs,
        side: Side,
        known: Option<(Protocol, StrId)>,
        asker: Asker,
        sink: &'s mut S,
    ) -> Option<Self> {
        let (protocol, name) = known?;
        let sent_dir = if side == Side::Server { Dir::ToClient } else { Dir::ToServer };
        Some(Out {
            id,
            at,
            sent_dir,
            protocol: name,
            speech: Speech { protocol, asker },
            reported: (OPEN, OPEN),
            closes: false,
            is_handshake: false,
            is_lane: false,
            to_all: false,
            upgraded: None,
            fed: (0, &[]),
            reply: None,
            sink,
        })
    }
}

impl<S: RowSink> Sink for Out<'_, S> {
    fn message(&mut self, m: &Message<'_>) {
        if self.is_handshake && !matches!(m.role, Role::Interim | Role::Unsolicited) {
            self.closes = true;
        }
        if self.is_handshake && self.closes {
            return;
        }
        let (witness_kind, witness) = m.witnesses.first().map_or((WitnessKind::None, 0), |w| words::witness(*w));
        let fingerprint = self.fingerprint(m);
        let s = &mut *self.sink;
        let [verb, target, detail] = self.speech.message(m, s);
        let row = MessageRow {
            at: self.at,
            flow: self.id,
            start: m.start,
            end: match m.end {
                Border::Known(end) => end,
                Border::Open => OPEN,
            },
            witness,
            protocol: self.protocol,
            verb,
            target,
            detail,
            status: m.attrs.status.code.unwrap_or(0),
            role: match m.role {
                Role::Request | Role::OneWay => MessageRole::Request,
                Role::Reply => MessageRole::Reply,
                Role::Interim => MessageRole::Interim,
                Role::Unsolicited if self.is_lane && m.attrs.verb.is_empty() => MessageRole::Reply,
                Role::Unsolicited => MessageRole::Unsolicited,
                Role::Withdrawal => MessageRole::Withdrawal,
            },
            sent: u8::from(m.dir == self.sent_dir),
            witness_kind,
            failed: words::failed(m.role, m.attrs.status.outcome),
            cut: u8::from(m.attrs.cut),
            flags: words::flags(m, self.to_all) | if self.is_lane { message_flag::ON_LANE } else { 0 },
            identifier: words::handed_on(m.witnesses),
            fingerprint,
            ..Default::default()
        };
        s.push(&row);
        self.closes |= m.attrs.verb == "OPAQUE";
        self.reported = (row.start, row.end);
    }

    fn end(&mut self, dir: Dir, start: u64, end: u64, how: EndHow) {
        if (how == EndHow::Framed && (start, end) == self.reported) || (self.is_handshake && self.closes) {
            return;
        }
        let how = words::end(how);
        self.sink.push(&MessageEndRow {
            at: self.at,
            flow: self.id,
            start,
            end,
            sent: u8::from(dir == self.sent_dir),
            how,
            detail: StrId::EMPTY,
            ..Default::default()
        });
    }

    fn upgraded(&mut self, to: Upgrade, _: Dir, pos: u64) {
        self.upgraded = Some((to, pos));
    }

    fn amend(&mut self, dir: Dir, start: u64, status: Status<'_>) {
        let detail = self.speech.class(&status, start, self.sink);
        self.sink.push(&MessageEndRow {
            at: self.at,
            flow: self.id,
            start,
            end: OPEN,
            sent: u8::from(dir == self.sent_dir),
            how: MessageEndHow::NotKnown,
            failed: words::failed(Role::Reply, status.outcome),
            detail,
            ..Default::default()
        });
    }

    fn defect(&mut self, d: wakepath_protocols::Defect, dir: Dir, _: u64) {
        self.sink.count(words::defect(d), self.at);
        if d == wakepath_protocols::Defect::BorderLost && dir == Dir::ToServer {
            let reason = self.sink.intern(UNFRAMED.as_bytes());
            self.sink.push(&FlowNoteRow {
                at: self.at,
                flow: self.id,
                protocol: self.protocol,
                reason,
                ..Default::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::pushed::Pushed;
    use wakepath_model::rows::Table;

    #[test]
    fn only_an_end_that_the_message_did_not_tell_has_a_row() {
        let rows_of = |requests: &[&[u8]]| {
            let (mut flow, mut rows, mut at) = (Flow::new(Side::Server, (8080, 40_000), false), Pushed::default(), 0);
            for head in requests {
                let end = at + head.len() as u64;
                flow.bytes(EndpointId(1), MonoNs(end), false, at..end, head, &mut rows);
                at = end;
            }
            rows.tables()
        };
        let known = rows_of(&[b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n", b"ab"]);
        assert_eq!(known, [Table::FlowNote, Table::Message]);
        let open = rows_of(&[b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"2\r\nab\r\n0\r\n\r\n"]);
        assert_eq!(open, [Table::FlowNote, Table::Message, Table::MessageEnd]);
    }

    #[test]
    fn a_header_that_was_read_alone_tells_the_protocol_with_what_follows() {
        let (mut flow, mut rows) = (Flow::new(Side::Server, (33_061, 40_000), false), Pushed::default());
        let mut read = |at: std::ops::Range<u64>, sent: bool, head: &[u8]| {
            flow.bytes(EndpointId(1), MonoNs(at.end), sent, at, head, &mut rows);
            rows.tables()
        };
        // a ping, which may be anything, and its answer
        assert_eq!(read(0..4, false, b"\x01\0\0\0"), []);
        assert_eq!(read(4..5, false, b"\x0e"), []);
        assert_eq!(read(0..11, true, b"\x07\0\0\x01\0\0\0\x02\0\0\0"), []);
        assert_eq!(read(5..9, false, b"\x09\0\0\0"), []);
        assert_eq!(read(9..18, false, b"\x03select 1"), [Table::FlowNote, Table::Message]);
    }

    #[test]
    fn a_method_that_was_read_alone_begins_its_request() {
        let (mut flow, mut rows) = (Flow::new(Side::Server, (8_080, 40_000), false), Pushed::default());
        flow.bytes(EndpointId(1), MonoNs(1), false, 0..4, b"GET ", &mut rows);
        assert_eq!(rows.tables(), []);
        flow.bytes(EndpointId(1), MonoNs(2), false, 4..30, b"/x HTTP/1.1\r\nHost: host\r\n\r\n", &mut rows);
        assert_eq!(rows.tables(), [Table::FlowNote, Table::Message]);
    }

    #[test]
    fn what_does_not_follow_a_header_is_not_of_its_message() {
        let (mut flow, mut rows) = (Flow::new(Side::Server, (33_061, 40_000), false), Pushed::default());
        flow.bytes(EndpointId(1), MonoNs(1), false, 0..4, b"\x09\0\0\0", &mut rows);
        flow.bytes(EndpointId(1), MonoNs(2), false, 6..15, b"\x03select 1", &mut rows);
        assert_eq!(rows.tables(), []);
    }
}
