//! AMQP 0-9-1 (the specification at rabbitmq.com): methods, and the contents after some of them.
//!
//! ```text
//! > Queue.Declare on channel 1                     request, verb queue.declare, target the queue, witness the channel
//! < Queue.DeclareOk                                reply, ok
//! > Basic.Publish, its header, its body            one way, verb basic.publish, target the exchange, queued
//! < Basic.Deliver, its header, its body            unsolicited, witness channel and delivery tag
//! > Basic.Ack                                      unsolicited, the same witness
//! ```
//!
//! A channel answers one method at a time; one that is closed by the server while it owes an answer answers with the
//! reason: an error with its number. Of contents the ends of 8 channels in each direction are followed (of more, counted).
//! Heartbeats are passed over. Not handled: publisher confirms as replies (an ack's tag is its witness), AMQP 1.0.

use crate::bytes::{be16, be32, be64};
use crate::duplex::{BAD, Duplex, Fit, Framer, NONE, Stop, Unit, Wire};
use crate::registry::{About, Docs, RunsOn};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Defect, Dir, EndHow, Message, Outcome, Role, Status, Text, Witness, mask};

/// Bytes kept of a frame in each direction.
pub const HEAD: usize = 288;

/// The AMQP processor.
pub type Amqp = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.amqp",
    ports: &[5672],
    recognise,
    vocabulary: Vocabulary { verb: Grammar::Constant, target: Grammar::Path(List::NONE), class: Grammar::Constant },
    runs_on: RunsOn::Plainly,
    bytes_max: 1200,
    docs: Docs {
        what: "AMQP 0-9-1",
        request: "a method that is answered; one way: a message published",
        kept: "method, exchange or queue (published to the nameless exchange: the routing key), reply code",
        pairs: "channel",
    },
    ..About::NEW
};

/// What of AMQP is remembered between units.
pub struct Framing {
    contents: [Content; 16],
    /// The channels that are owed an answer: a bit for each below 64.
    owed: u64,
}

/// A message whose content is still to come.
#[derive(Clone, Copy)]
struct Content {
    start: u64,
    dir: Dir,
    channel: u16,
    /// Bytes of body that are left; `None` before the content's header.
    left: Option<u64>,
}

impl Content {
    const FREE: Content = Content { start: NONE, dir: Dir::ToServer, channel: 0, left: None };
}

const METHOD: u8 = 1;
const HEADER: u8 = 2;
/// Class and number of Basic.Publish.
const PUBLISH: [u8; 4] = [0, 60, 0, 40];
/// Up to where a content's header says which properties it has (bytes), and the one that names where the answer is to go.
const PROPERTIES: usize = 21;
const REPLY_TO: u16 = 1 << 9;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// A method: class, number, name, whether it is answered, and where its no-wait bit and its subject stand: the number
/// of short strings before each. No bit: 0.
struct Method {
    id: (u16, u16),
    name: &'static str,
    kind: Kind,
    strings: u8,
    bit: u8,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Answered, unless its no-wait bit says otherwise.
    Asks,
    Answers,
    Alone,
    /// With a content after it.
    Carries,
    /// The answer to Basic.Get, with a content.
    AnswersWith,
}

use Kind::{Alone, Answers, AnswersWith, Asks, Carries};

impl Method {
    /// Who sends it, where only one side does.
    fn sender(&self) -> Option<Dir> {
        match self.id {
            // Close and flow, and what confirms: either side.
            (10, 50 | 51) | (20, 20..=41) | (60, 30 | 31 | 80 | 120) => None,
            (10, 31) | (60, 40 | 90 | 100) => Some(Dir::ToServer),
            _ if self.kind == Asks => Some(Dir::ToServer),
            _ => Some(Dir::ToClient),
        }
    }
}

const fn method(class: u16, number: u16, name: &'static str, kind: Kind, strings: u8, bit: u8) -> Method {
    Method { id: (class, number), name, kind, strings, bit }
}

#[rustfmt::skip]
const METHODS: &[Method] = &[
    method(10, 10, "connection.start", Answers, 0, 0), method(10, 11, "connection.start-ok", Asks, 0, 0),
    method(10, 20, "connection.secure", Answers, 0, 0), method(10, 21, "connection.secure-ok", Asks, 0, 0),
    method(10, 30, "connection.tune", Answers, 0, 0), method(10, 31, "connection.tune-ok", Alone, 0, 0),
    method(10, 40, "connection.open", Asks, 0, 0), method(10, 41, "connection.open-ok", Answers, 0, 0),
    method(10, 50, "connection.close", Asks, 0, 0), method(10, 51, "connection.close-ok", Answers, 0, 0),
    method(10, 60, "connection.blocked", Alone, 0, 0), method(10, 61, "connection.unblocked", Alone, 0, 0),
    method(10, 70, "connection.update-secret", Asks, 0, 0),
    method(10, 71, "connection.update-secret-ok", Answers, 0, 0), method(20, 10, "channel.open", Asks, 0, 0),
    method(20, 11, "channel.open-ok", Answers, 0, 0), method(20, 20, "channel.flow", Asks, 0, 0),
    method(20, 21, "channel.flow-ok", Answers, 0, 0), method(20, 40, "channel.close", Asks, 0, 0),
    method(20, 41, "channel.close-ok", Answers, 0, 0), method(40, 10, "exchange.declare", Asks, 2, 16),
    method(40, 11, "exchange.declare-ok", Answers, 0, 0), method(40, 20, "exchange.delete", Asks, 1, 2),
    method(40, 21, "exchange.delete-ok", Answers, 0, 0), method(40, 30, "exchange.bind", Asks, 3, 1),
    method(40, 31, "exchange.bind-ok", Answers, 0, 0), method(40, 40, "exchange.unbind", Asks, 3, 1),
    method(40, 51, "exchange.unbind-ok", Answers, 0, 0), method(50, 10, "queue.declare", Asks, 1, 16),
    method(50, 11, "queue.declare-ok", Answers, 0, 0), method(50, 20, "queue.bind", Asks, 3, 1),
    method(50, 21, "queue.bind-ok", Answers, 0, 0), method(50, 30, "queue.purge", Asks, 1, 1),
    method(50, 31, "queue.purge-ok", Answers, 0, 0), method(50, 40, "queue.delete", Asks, 1, 4),
    method(50, 41, "queue.delete-ok", Answers, 0, 0), method(50, 50, "queue.unbind", Asks, 3, 0),
    method(50, 51, "queue.unbind-ok", Answers, 0, 0), method(60, 10, "basic.qos", Asks, 0, 0),
    method(60, 11, "basic.qos-ok", Answers, 0, 0), method(60, 20, "basic.consume", Asks, 2, 8),
    method(60, 21, "basic.consume-ok", Answers, 0, 0), method(60, 30, "basic.cancel", Asks, 0, 0),
    method(60, 31, "basic.cancel-ok", Answers, 0, 0), method(60, 40, "basic.publish", Carries, 2, 0),
    method(60, 50, "basic.return", Carries, 0, 0), method(60, 60, "basic.deliver", Carries, 0, 0),
    method(60, 70, "basic.get", Asks, 1, 0), method(60, 71, "basic.get-ok", AnswersWith, 0, 0),
    method(60, 72, "basic.get-empty", Answers, 0, 0), method(60, 80, "basic.ack", Alone, 0, 0),
    method(60, 90, "basic.reject", Alone, 0, 0), method(60, 100, "basic.recover-async", Alone, 0, 0),
    method(60, 110, "basic.recover", Asks, 0, 0), method(60, 111, "basic.recover-ok", Answers, 0, 0),
    method(60, 120, "basic.nack", Alone, 0, 0), method(85, 10, "confirm.select", Asks, 0, 0),
    method(85, 11, "confirm.select-ok", Answers, 0, 0), method(90, 10, "tx.select", Asks, 0, 0),
    method(90, 11, "tx.select-ok", Answers, 0, 0), method(90, 20, "tx.commit", Asks, 0, 0),
    method(90, 21, "tx.commit-ok", Answers, 0, 0), method(90, 30, "tx.rollback", Asks, 0, 0),
    method(90, 31, "tx.rollback-ok", Answers, 0, 0),
];

impl Framer for Framing {
    const NEW: Framing = Framing { contents: [Content::FREE; 16], owed: 0 };
    const REJOINS: bool = true;

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        match bytes {
            [b'A', b'M', b'Q', b'P', 0, 0, 9, 1, ..] if dir == Dir::ToServer => Fit::Yes,
            [b'A', ..] if bytes.len() < 8 => Fit::More,
            _ => begins_method(dir, bytes, HEAD),
        }
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        if bytes[0] == b'A' {
            let head = bytes.get(..8).ok_or(Stop::Need)?;
            if wire.dir == Dir::ToClient || !head.starts_with(b"AMQP") {
                return Err(BAD);
            }
            self.owed |= 1;
            wire.whole(Role::Request, wire.behind(8u64), 8, Attrs::alone("connect"), &[Witness::AmqpChannel(0)]);
            return Ok(8);
        }
        let size = be32(bytes, 3).ok_or(Stop::Need)?;
        let (kind, channel) = (bytes[0], be16(bytes, 1).unwrap_or(0));
        let total = u64::from(size) + 8;
        // what is published says in the next frame whether somebody is to answer it
        let behind = if wire.dir == Dir::ToServer && bytes.get(7..11) == Some(&PUBLISH) { PROPERTIES } else { 0 };
        let (least, wanted) = match kind {
            METHOD if bytes.len() < 11 && total >= 11 => (4, 11),
            METHOD => (4, HEAD.min(total as usize + behind)),
            HEADER => (14, 19),
            BODY | HEARTBEAT => (0, 7),
            _ => return Err(BAD),
        };
        if size < least {
            return Err(BAD);
        }
        if bytes.len() < wanted && !last {
            return Err(Stop::Need);
        }
        let end = wire.behind(total);
        match kind {
            METHOD => {
                // After the frame's head: class and number, and then arguments up to the frame's last byte.
                let view = &bytes[7..bytes.len().min(total as usize - 1)];
                let id = (be16(view, 0).ok_or(Stop::Need)?, be16(view, 2).ok_or(Stop::Need)?);
                let method = METHODS.iter().find(|method| method.id == id).ok_or(BAD)?;
                let header = bytes.get(total as usize..).filter(|next| behind > 0 && next.first() == Some(&HEADER));
                let names_reply = header.and_then(|next| be16(next, PROPERTIES - 2)).is_some_and(|f| f & REPLY_TO != 0);
                self.method(wire, channel, method, (&view[4..], names_reply), end);
            }
            HEADER => self.content(wire, channel, Some(be64(bytes, 11).ok_or(Stop::Need)?), 0, end),
            BODY => self.content(wire, channel, None, size.into(), end),
            _ => {}
        }
        Ok(total)
    }

    fn found(&mut self, wire: &mut Wire<'_>) {
        self.end(wire, wire.dir, None, wire.at, EndHow::Lost);
    }

    fn turned(&mut self, wire: &mut Wire<'_>, lost: bool) {
        if lost {
            let dir = wire.dir.other();
            self.end(wire, dir, None, wire.next[dir.index()], EndHow::Turn);
            self.owed = if dir == Dir::ToServer { u64::MAX } else { 0 };
        }
    }

    fn closed(&mut self, wire: &mut Wire<'_>) {
        self.end(wire, wire.dir, None, wire.at, EndHow::Close);
    }
}

impl Framing {
    fn method(
        &mut self,
        wire: &mut Wire<'_>,
        channel: u16,
        method: &Method,
        (arguments, names_reply): (&[u8], bool),
        end: u64,
    ) {
        let owes = 1u64.checked_shl(channel.into()).unwrap_or(0);
        let owed = channel > 63 || self.owed & owes != 0;
        let closes = matches!(method.name, "connection.close" | "channel.close");
        // A connection that is closed answers what any channel asked.
        let (owed, owes) = if method.id == (10, 50) { (self.owed != 0, u64::MAX) } else { (owed, owes) };
        let silent = method.bit > 0 && flags(method, arguments).is_some_and(|flags| flags & method.bit != 0);
        let role = match (wire.dir, method.kind) {
            (Dir::ToServer, Asks) if !silent => Role::Request,
            (Dir::ToClient, Answers | AnswersWith) => Role::Reply,
            (Dir::ToClient, Asks) if closes && owed => Role::Reply,
            (Dir::ToServer, Carries) => Role::OneWay,
            _ => Role::Unsolicited,
        };
        match role {
            Role::Request => self.owed |= owes,
            Role::Reply => self.owed &= !owes,
            _ => {}
        }
        let status = match role {
            Role::Reply if closes => Status { outcome: Outcome::Error, code: be16(arguments, 0), class: "" },
            Role::Reply => Status::OK,
            _ => Status::default(),
        };
        let mut target = Text::<64>::new();
        if method.strings > 0 {
            // After a reserved number the exchange or queue; a server's own names for them are ids.
            // Published to the nameless exchange, the routing key after it is the queue.
            let at = if role == Role::OneWay && arguments.get(2) == Some(&0) { 3 } else { 2 };
            mask::path(string(arguments, at).unwrap_or(&[]), false, &mut target);
        }
        let tag = match method.name {
            "basic.ack" | "basic.nack" | "basic.reject" | "basic.get-ok" => be64(arguments, 0),
            "basic.deliver" => string(arguments, 0).and_then(|consumer| be64(arguments, 1 + consumer.len())),
            _ => None,
        };
        let mut witnesses = [Witness::AmqpChannel(channel); 2];
        let mut range = 0..1;
        if let Some(tag) = tag {
            witnesses[1] = Witness::AmqpDelivery { channel, tag };
            range = if role == Role::Unsolicited { 1..2 } else { 0..2 };
        } else if role == Role::Unsolicited {
            range = 0..0;
        }
        let verb = if role == Role::Reply { "" } else { method.name };
        let (cut, queued) = (target.is_cut(), role == Role::OneWay);
        let relayed = queued && names_reply;
        let subscribes = matches!(method.name, "basic.consume" | "basic.cancel");
        let attrs =
            Attrs { verb, target: target.as_str(), status, cut, queued, relayed, subscribes, ..Attrs::default() };
        let carries = matches!(method.kind, Carries | AnswersWith);
        let (dir, start) = (wire.dir, wire.at);
        let border = if carries { Border::Open } else { Border::Known(end) };
        let witnesses = &witnesses[range];
        wire.sink.message(&Message { dir, role, start, end: border, head_end: end, attrs, witnesses });
        if !carries {
            return wire.sink.end(dir, start, end, EndHow::Framed);
        }
        self.end(wire, dir, Some(channel), start, EndHow::Lost); // its content was not seen to its end
        match self.contents.iter_mut().find(|content| content.start == NONE) {
            Some(content) => *content = Content { start, dir, channel, left: None },
            None => {
                wire.sink.end(dir, start, end, EndHow::Lost);
                wire.sink.defect(Defect::QueueOverflow, dir, start);
            }
        }
    }

    /// A content's header, which tells its size, or some of its body.
    fn content(&mut self, wire: &mut Wire<'_>, channel: u16, size: Option<u64>, passed: u64, end: u64) {
        let mut contents = self.contents.iter_mut();
        let Some(content) = contents.find(|c| c.start != NONE && c.dir == wire.dir && c.channel == channel) else {
            return;
        };
        content.left = size.or(content.left.map(|left| left.saturating_sub(passed)));
        if content.left == Some(0) {
            self.end(wire, wire.dir, Some(channel), end, EndHow::Framed);
        }
    }

    /// Ends what is open in a direction; of one channel, or of all.
    fn end(&mut self, wire: &mut Wire<'_>, dir: Dir, channel: Option<u16>, end: u64, how: EndHow) {
        let open = |c: &&mut Content| c.start != NONE && c.dir == dir && channel.is_none_or(|ch| ch == c.channel);
        for content in self.contents.iter_mut().filter(open) {
            wire.sink.end(dir, content.start, end.max(content.start), how);
            *content = Content::FREE;
        }
    }
}

/// The byte of bits after a reserved number and the method's short strings.
fn flags(method: &Method, arguments: &[u8]) -> Option<u8> {
    let mut at = 2;
    for _ in 0..method.strings {
        at += 1 + string(arguments, at)?.len();
    }
    arguments.get(at).copied()
}

/// The short string at `at`.
fn string(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let length = usize::from(*bytes.get(at)?);
    bytes.get(at + 1..at + 1 + length)
}

/// Whether a flow of which these are the first bytes is AMQP: by the protocol's header, by Connection.Start, or by
/// another method in a whole frame that this side sends.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], _: bool) -> Fit {
    const HEADER: &[u8; 8] = b"AMQP\0\0\x09\x01";
    if dir == Dir::ToServer && bytes[0] == b'A' {
        return if bytes.starts_with(HEADER) {
            Fit::Sure
        } else if HEADER.starts_with(bytes) {
            Fit::More
        } else {
            Fit::No
        };
    }
    begins_method(dir, bytes, usize::MAX).and_sure() // length, class, method and end of the frame fit
}

/// Whether a method of this side begins here, in a whole frame, as far as the frame can be shown: in `most` bytes.
fn begins_method(dir: Dir, bytes: &[u8], most: usize) -> Fit {
    let (Some(size), METHOD) = (be32(bytes, 3), bytes[0]) else {
        return if bytes[0] == METHOD && bytes.len() < 7 { Fit::More } else { Fit::No };
    };
    let (class, number) = (be16(bytes, 7), be16(bytes, 9));
    let method = METHODS.iter().find(|method| (Some(method.id.0), Some(method.id.1)) == (class, number));
    let fits = method.is_some_and(|method| method.sender().is_none_or(|sender| sender == dir));
    match bytes.get(7 + size as usize) {
        _ if bytes.len() < 11 && size < 1 << 20 => Fit::More,
        _ if !fits || size >= 1 << 20 => Fit::No,
        Some(end) => (*end == 0xce).into(),
        None => {
            if bytes.len() < most {
                Fit::More
            } else {
                Fit::Yes
            }
        }
    }
}
