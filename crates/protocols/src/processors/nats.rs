//! NATS' client protocol (docs.nats.io, "Client Protocol"), JetStream's subjects among it.
//!
//! ```text
//! < INFO {…}                               unsolicited
//! > PUB orders.new 5 / hello               one way, queued: target the subject
//! > PUB svc.add _INBOX.k2 5 / hello        request, witness the inbox; queued too: who takes it up nothing says
//! < MSG _INBOX.k2 1 3 / sum                reply
//! < MSG orders.new 2 5 / hello             unsolicited: pushed to who subscribed
//! > PUB _INBOX.k2 3 / sum                  unsolicited: the answer of who was pushed a request
//! > PING, < PONG                           request, reply
//! ```
//!
//! An inbox is what clients call `_INBOX.…` unless they are told otherwise; messages to be answered elsewhere are one way.
//! A second message to one inbox is unsolicited. So is what fetches from or acknowledges to JetStream: the messages that
//! are fetched come under their own subjects. Payloads and headers are never kept, but for the number of a status.

use crate::bytes::{decimal, line, payload_fits};
use crate::duplex::{BAD, Duplex, Fit, Framer, Unit, Wire};
use crate::registry::{About, Docs, RunsOn};
use crate::vocabulary::{Grammar, List, Vocabulary};
use crate::{Attrs, Border, Defect, Dir, EndHow, Outcome, Role, Status, Text, Witness, mask};

/// Bytes kept of a line in each direction; the documents allow lines of 4,096, and only INFO and CONNECT are that long.
pub const HEAD: usize = 384;
/// Length of the longest name of an operation (CONNECT).
const NAME_MAX: usize = 7;
/// Requests of a connection that are remembered until they are answered.
const INBOXES: usize = 64;

/// The NATS processor.
pub type Nats = Duplex<Framing, HEAD>;

/// What the registry says of it.
pub const ABOUT: About = About {
    id: "proto.nats",
    ports: &[4222],
    recognise,
    vocabulary: Vocabulary {
        verb: Grammar::Constant,
        target: Grammar::Labels(List::of(WORDS)),
        class: Grammar::Constant,
    },
    runs_on: RunsOn::Plainly,
    bytes_max: 1536,
    docs: Docs {
        what: "NATS",
        request: "a message published with an inbox for its answer, a PING; one way: any other message published",
        kept: "operation, subject, number of a status",
        pairs: "the inbox",
    },
    ..About::NEW
};

/// Tokens of subjects that are the protocol's own. Sorted.
const WORDS: &[&str] = &[
    "$JS", "$SYS", "*", ">", "ACK", "API", "CONSUMER", "CREATE", "DELETE", "INFO", "LIST", "MSG", "NAMES", "NEXT",
    "STREAM", "UPDATE", "_INBOX", "{id}", "{n}",
];

/// What of NATS is remembered between units.
pub struct Framing {
    /// Inside a line that is longer than a head.
    long: [bool; 2],
    /// Hashes of the inboxes that are owed an answer; 0: free.
    inboxes: [u64; INBOXES],
    /// PINGs of the client, and their answers.
    pings: [u64; 2],
}

/// The blank-separated words of a line; at most six count.
struct Words<'b> {
    of: [&'b [u8]; 6],
    count: usize,
}

impl<'b> Words<'b> {
    fn new(line: &'b [u8]) -> Words<'b> {
        let mut words = Words { of: [&[]; 6], count: 0 };
        for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            if let Some(place) = words.of.get_mut(words.count) {
                *place = word;
            }
            words.count += 1;
        }
        words
    }
}

/// An operation: its name, who sends it, and of one with a payload how many words its line has at least; one more is the
/// subject for answers.
struct Operation {
    name: &'static str,
    sender: Option<Dir>,
    payload: Option<usize>,
}

const fn operation(name: &'static str, sender: Option<Dir>, payload: Option<usize>) -> Operation {
    Operation { name, sender, payload }
}

const OPERATIONS: &[Operation] = &[
    operation("INFO", Some(Dir::ToClient), None),
    operation("CONNECT", Some(Dir::ToServer), None),
    operation("PUB", Some(Dir::ToServer), Some(3)),
    operation("HPUB", Some(Dir::ToServer), Some(4)),
    operation("SUB", Some(Dir::ToServer), None),
    operation("UNSUB", Some(Dir::ToServer), None),
    operation("MSG", Some(Dir::ToClient), Some(4)),
    operation("HMSG", Some(Dir::ToClient), Some(5)),
    operation("PING", None, None),
    operation("PONG", None, None),
    operation("+OK", Some(Dir::ToClient), None),
    operation("-ERR", Some(Dir::ToClient), None),
];

/// The operation of which this is the first word.
fn find(dir: Dir, word: &[u8]) -> Option<&'static Operation> {
    OPERATIONS
        .iter()
        .find(|op| op.name.as_bytes().eq_ignore_ascii_case(word) && op.sender.is_none_or(|sender| sender == dir))
}

/// Of the line of an operation with a payload: its subject, whether one for answers stands in it too, and how many bytes
/// follow.
fn addressed<'b>(least: usize, words: &Words<'b>) -> Option<(&'b [u8], bool, u64)> {
    if !(least..=least + 1).contains(&words.count) {
        return None;
    }
    Some((words.of[1], words.count > least, decimal(words.of[words.count - 1])?))
}

impl Framer for Framing {
    const NEW: Framing = Framing { long: [false; 2], inboxes: [0; INBOXES], pings: [0; 2] };
    const REJOINS: bool = true;

    fn fit(&self, dir: Dir, bytes: &[u8]) -> Fit {
        recognise(dir, bytes, true)
    }

    fn unit(&mut self, wire: &mut Wire<'_>, bytes: &[u8], last: bool) -> Unit {
        let (length, cut) = line(bytes, last)?;
        let end = wire.behind(length);
        if core::mem::replace(&mut self.long[wire.dir.index()], cut) {
            if !cut {
                wire.end_open(wire.dir, end, EndHow::Framed);
            }
            return Ok(length as u64);
        }
        let words = Words::new(&bytes[..length]);
        let op = find(wire.dir, words.of[0]).ok_or(BAD)?;
        let Some(least) = op.payload.filter(|_| !cut) else {
            if op.payload.is_some() {
                self.long[wire.dir.index()] = false;
                return Err(BAD);
            }
            self.plain(wire, op, length, cut);
            return Ok(length as u64);
        };
        let (subject, is_asked, size) = addressed(least, &words).ok_or(BAD)?;
        let total = (length as u64).saturating_add(size).saturating_add(2);
        if wire.dir == Dir::ToServer {
            let answers = words.of[2];
            self.published(wire, op.name, subject, is_asked.then_some(answers), (length, total));
            return Ok(total);
        }
        // the status of an answer stands in its headers: `NATS/1.0 503`
        let wanted = (length + STATUS.len() + 3).min(total as usize);
        if op.name == "HMSG" && bytes.len() < wanted && !last {
            return Err(crate::duplex::Stop::Need);
        }
        let headers = bytes.get(length..).filter(|_| op.name == "HMSG").unwrap_or(&[]);
        self.pushed(wire, subject, headers, (length, total));
        Ok(total)
    }

    fn lost(&mut self, wire: &mut Wire<'_>) {
        self.long[wire.dir.index()] = false;
    }
}

/// What headers begin with.
const STATUS: &[u8] = b"NATS/1.0 ";

impl Framing {
    /// An operation without a payload.
    fn plain(&mut self, wire: &mut Wire<'_>, op: &Operation, length: usize, cut: bool) {
        let [pings, pongs] = &mut self.pings;
        let is_owed = wire.dir == Dir::ToClient && pings > pongs;
        let (role, status, number) = match op.name {
            "PING" if wire.dir == Dir::ToServer => {
                *pings += 1;
                (Role::Request, Status::default(), *pings)
            }
            "PONG" | "-ERR" if is_owed => {
                *pongs += 1;
                let failed = Status { outcome: Outcome::Error, code: None, class: "-ERR" };
                (Role::Reply, if op.name == "PONG" { Status::OK } else { failed }, *pongs)
            }
            _ => (Role::Unsolicited, Status::default(), 0),
        };
        let verb = if role == Role::Reply { "" } else { op.name };
        let witness = [Witness::Named(number)];
        let border = if cut { Border::Open } else { Border::Known(wire.behind(length)) };
        let named = if role == Role::Unsolicited { &[] } else { &witness[..] };
        wire.message(role, (wire.at, border), wire.behind(length), Attrs::status(verb, status), named);
    }

    /// A message of the client.
    fn published(
        &mut self,
        wire: &mut Wire<'_>,
        verb: &'static str,
        subject: &[u8],
        answers: Option<&[u8]>,
        (head, total): (usize, u64),
    ) {
        let fetches = subject.starts_with(b"$JS.API.CONSUMER.MSG.NEXT.") || subject.starts_with(b"$JS.ACK.");
        let mut target = Text::<64>::new();
        mask::labels(inbox(subject).unwrap_or(subject), &mut target);
        let attrs = Attrs { verb, target: target.as_str(), cut: target.is_cut(), ..Attrs::default() };
        let queued = Attrs { queued: true, ..attrs };
        let end = wire.behind(total);
        if fetches || inbox(subject).is_some() {
            return wire.whole(Role::Unsolicited, end, head, attrs, &[]);
        }
        let Some(answers) = answers.filter(|answers| inbox(answers).is_some()) else {
            return wire.whole(Role::OneWay, end, head, queued, &[]);
        };
        let hash = mask::fnv1a(answers).max(1);
        match self.inboxes.iter_mut().find(|owed| **owed == 0) {
            Some(free) => *free = hash,
            // of the oldest no answer may ever come; where one does, it is not known for one
            None => {
                self.inboxes.rotate_left(1);
                self.inboxes[INBOXES - 1] = hash;
                wire.sink.defect(Defect::QueueOverflow, wire.dir, wire.at);
            }
        }
        let queued = Attrs { relayed: true, ..queued };
        wire.whole(Role::Request, end, head, queued, &[Witness::Named(hash)]);
    }

    /// A message of the server.
    fn pushed(&mut self, wire: &mut Wire<'_>, subject: &[u8], headers: &[u8], (head, total): (usize, u64)) {
        let hash = mask::fnv1a(subject).max(1);
        let owed = inbox(subject).and_then(|_| self.inboxes.iter().position(|owed| *owed == hash));
        let Some(owed) = owed else {
            return wire.whole(
                Role::Unsolicited,
                wire.behind(total),
                head,
                Attrs::status("MSG", Status::default()),
                &[],
            );
        };
        // the rest stays in order of age
        self.inboxes[owed] = 0;
        self.inboxes[owed..].rotate_left(1);
        let code = headers.strip_prefix(STATUS).and_then(|rest| decimal(rest.get(..3)?));
        let status = match code {
            Some(code @ 400..) => Status { outcome: Outcome::Error, code: Some(code as u16), class: "" },
            _ => Status::OK,
        };
        wire.whole(Role::Reply, wire.behind(total), head, Attrs::status("", status), &[Witness::Named(hash)]);
    }
}

/// What the subjects of clients' inboxes have in common, where this is one.
fn inbox(subject: &[u8]) -> Option<&[u8]> {
    subject.starts_with(b"_INBOX.").then(|| &subject[..6])
}

/// Whether a flow of which these are the first bytes is NATS: by INFO or CONNECT, by a whole message, and on the usual port, or
/// before an answer, by what is shorter.
pub(crate) fn recognise(dir: Dir, bytes: &[u8], usual: bool) -> Fit {
    let opening: &[u8] = if dir == Dir::ToClient { b"INFO {" } else { b"CONNECT {" };
    let common = opening.iter().zip(bytes).take_while(|(a, b)| a == b).count();
    if common == opening.len() {
        return Fit::Sure;
    }
    if common == bytes.len() {
        return Fit::More;
    }
    let Some(newline) = bytes.iter().position(|&b| b == b'\n') else {
        let end = bytes.iter().position(u8::is_ascii_whitespace);
        let fits = end.map(|end| find(dir, &bytes[..end]).is_some_and(|op| op.payload.is_some() || usual));
        return if fits.unwrap_or(usual && bytes.len() <= NAME_MAX) && bytes.len() < HEAD {
            Fit::More
        } else {
            Fit::No
        };
    };
    let words = Words::new(&bytes[..newline]);
    let Some(op) = find(dir, words.of[0]) else { return Fit::No };
    match op.payload {
        // Others have such lines too: what follows tells. All clients number their subscriptions.
        Some(least) if bytes[..newline].ends_with(b"\r") => match addressed(least, &words) {
            Some((_, _, count)) => match payload_fits(&bytes[newline + 1..], count) {
                Fit::Yes => (dir == Dir::ToServer || decimal(words.of[2]).is_some()).into(),
                fit => fit,
            },
            None => Fit::No,
        },
        Some(_) => Fit::No,
        None => usual.into(),
    }
}
