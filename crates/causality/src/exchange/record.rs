//! One exchange.

use super::direction::unsent_ns;
use super::opening::Opening;
use crate::flags::{Flags, flags};
use crate::process::ProcessId;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{self, AnsweredBy, AskedFor, OPEN, OpRow, QueuedHow, WitnessKind};

/// Which side of an exchange an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Takes the request, sends the reply.
    Server,
    /// Sends the request, takes the reply.
    Client,
}

impl Side {
    /// The side that a row names; none where that is not known.
    pub(crate) fn of(side: rows::Side) -> Option<Side> {
        match side {
            rows::Side::Server => Some(Side::Server),
            rows::Side::Client => Some(Side::Client),
            rows::Side::Unknown => None,
        }
    }
}

/// What the client did: of a server's exchange its client, of a client's itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByClient {
    /// The time in which the server had read all that had come of the request, and the rest had not (ns).
    pub unsent_ns: u64,
    /// The time of the reply in which bytes found no room, since the client had not read those before (ns).
    pub unread_ns: u64,
    /// When it closed or reset the connection before the reply was complete, or took the request back; 0: it did not.
    pub left: MonoNs,
    /// When the server was done with the request is not known: the client left, or (where `left` is 0) nothing but a turn pairs messages,
    /// and that is not to be believed.
    pub is_work_unknown: bool,
    /// Of a client, with its first call on a connection that it called for: how that came about.
    pub opening: Option<Box<Opening>>,
}

/// The request of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Its first byte.
    pub start: u64,
    /// One past its last byte, as far as known.
    pub end: u64,
    /// How far it was read (server).
    pub received_to: u64,
    /// When its first byte reached the host (server; 0 where not known).
    pub arrived: MonoNs,
    /// When a part of it was read last (server; 0 where that was not more than its head's part).
    pub read: MonoNs,
    /// When its first byte was taken or sent (entry of the call where sent).
    pub began: MonoNs,
    /// When the head was complete at the endpoint's task.
    pub taken: MonoNs,
    /// How long before that the server waited until its client had sent the rest of the head (ns).
    pub unsent_ns: u64,
    /// The thread that took or sent it.
    pub task: TaskId,
    /// In whose name: the logical task where it is known, else the thread.
    pub actor: TaskId,
}

/// The reply of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its first byte; [`OPEN`] where none was seen.
    pub start: u64,
    /// One past its last byte, as far as known.
    pub end: u64,
    /// When its first byte moved.
    pub began: MonoNs,
    /// When its last byte did (return of the call where received).
    pub ended: MonoNs,
    /// The thread that sent or took its last byte.
    pub task: TaskId,
    /// In whose name; who tried to send it to a client that had left.
    pub actor: TaskId,
}

impl Answered {
    /// Whether nobody was seen to reply, nor to try.
    pub(crate) fn is_none(&self) -> bool {
        self.start == OPEN && self.actor == TaskId::UNKNOWN
    }
}

impl Default for Answered {
    fn default() -> Answered {
        let (began, ended, task, actor) = (MonoNs(0), MonoNs(0), TaskId::UNKNOWN, TaskId::UNKNOWN);
        Answered { start: OPEN, end: OPEN, began, ended, task, actor }
    }
}

/// What the messages of an exchange say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Protocol id, empty where not known.
    pub protocol: StrId,
    /// Verb.
    pub verb: StrId,
    /// Template or shape.
    pub target: StrId,
    /// Error class.
    pub detail: StrId,
    /// Status code.
    pub status: u16,
    /// Whether the request puts something where others take it up later: a queue, a list, a topic.
    pub queued: QueuedHow,
    /// What the request asks for.
    pub wanted: AskedFor,
    /// Witness kind and value.
    pub witness: (WitnessKind, u64),
    /// Hash of an identifier that services hand on; 0 = none.
    pub identifier: u64,
    /// Fingerprint of the reply's first bytes, as in `MessageRow::fingerprint`.
    pub reply: u64,
}

impl Content {
    /// The request asks to wait until something happens elsewhere.
    pub fn awaits(&self) -> bool {
        self.wanted == AskedFor::Event
    }

    /// The request puts something where others take it up later.
    pub fn is_queued(&self) -> bool {
        self.queued != QueuedHow::No
    }
}

/// What a reply says.
#[derive(Clone, Copy)]
pub struct Said {
    /// Fingerprint of the first bytes of its body.
    pub fingerprint: u64,
    /// Its status, where its protocol has one.
    pub status: u16,
}

flags! {
    /// What is so of an exchange.
    pub enum ExchangeFlag {
        /// The reply says that it failed.
        Failed,
        /// No reply that says success or failure was read: none, or of no known protocol, or not the part that says so.
        OutcomeUnknown,
        /// The flow was reset before the reply was complete.
        Reset,
        /// The flow, or the recording, ended before the reply was complete.
        Cut,
        /// It was the recording that ended.
        Unfinished,
        /// The reply is complete.
        Replied,
        /// The end of the reply shows only when something else begins.
        OpenEnded,
        /// The request gets no reply: the exchange is over when the request is.
        OneWay,
        /// Which reply is whose is not known: messages of its flow were missed, or several requests use it and its protocol is not known.
        UnclearBorders,
        /// Its process has both ends: by such a pair of sockets threads wake each other, or a loop itself. It is no request's.
        Internal,
    }
}

/// A request and its reply at one endpoint.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Number in the order of beginning: never reused, while slab places are.
    pub number: u64,
    /// The endpoint.
    pub flow: EndpointId,
    /// Which side it is.
    pub side: Side,
    /// The process of the thread that took or sent the request.
    pub process: ProcessId,
    /// What says which reply answers it.
    pub by: AnsweredBy,
    /// What is so of it.
    pub flags: Flags<ExchangeFlag>,
    /// The request.
    pub request: Asked,
    /// The reply.
    pub reply: Answered,
    /// What they say.
    pub content: Content,
    /// What the client did.
    pub client: ByClient,
}

impl Exchange {
    /// A request of these bytes of which nothing else is known, and nothing of its reply.
    pub fn of_request(flow: EndpointId, side: Side, start: u64, end: u64) -> Exchange {
        Exchange {
            number: 0,
            flow,
            side,
            process: ProcessId::UNKNOWN,
            by: AnsweredBy::Message,
            flags: Flags::of(&[ExchangeFlag::OutcomeUnknown]),
            request: Asked { start, end, ..Asked::default() },
            reply: Answered::default(),
            content: Content::default(),
            client: ByClient::default(),
        }
    }

    /// Whether something is so of it.
    pub fn is(&self, flag: ExchangeFlag) -> bool {
        self.flags.has(flag)
    }

    /// More of the request was read: what the client sent late, the server had to wait for.
    pub(crate) fn reads_more(&mut self, r: &OpRow) {
        let is_part = self.request.start < r.start && r.start < self.request.end && !self.is_by_direction();
        if is_part {
            let read = if self.request.read.0 == 0 { self.request.taken } else { self.request.read };
            self.client.unsent_ns += unsent_ns(read, r);
            self.request.read = r.at;
        }
        self.request.received_to = self.request.received_to.max(r.end);
    }

    /// A request that was begun by direction is this one, of which a message tells: who took it, and when, stands.
    pub(crate) fn identify(&mut self, by: Exchange) {
        let opening = self.client.opening.take();
        let taken = std::mem::take(&mut self.request);
        let received_to = taken.received_to.max(by.request.received_to);
        let is_internal = self.is(ExchangeFlag::Internal);
        *self = Exchange {
            number: self.number,
            process: self.process,
            request: Asked {
                arrived: taken.arrived,
                received_to,
                began: taken.began,
                taken: taken.taken,
                unsent_ns: taken.unsent_ns,
                task: taken.task,
                actor: taken.actor,
                ..by.request
            },
            ..by
        };
        self.flags.set(ExchangeFlag::Internal, is_internal);
        self.client.opening = opening;
    }

    /// From the first byte of the request until the last one of the reply (ns).
    pub fn duration_ns(&self) -> u64 {
        self.reply.ended.0.saturating_sub(self.request.began.0)
    }

    /// Made by direction, not by messages.
    pub fn is_by_direction(&self) -> bool {
        self.by == AnsweredBy::Direction
    }

    /// The request asks to wait until something happens elsewhere.
    pub fn awaits(&self) -> bool {
        self.content.awaits()
    }

    /// Nothing but the turn says which message answers it.
    pub fn is_by_turn(&self) -> bool {
        self.by == AnsweredBy::Turn
    }

    /// The whole request was read.
    pub fn is_received(&self) -> bool {
        self.is_by_direction() || self.request.received_to >= self.request.end
    }

    /// A call on a connection that several requests use at once, in an unknown protocol: its server may have taken
    /// another's bytes for more of it, and another's reply for its own.
    pub fn is_on_shared_connection(&self) -> bool {
        self.side == Side::Client && self.is(ExchangeFlag::UnclearBorders) && self.is_by_direction()
    }

    /// What the server works on after which message is not known, though nobody left.
    pub fn is_unpaired(&self) -> bool {
        self.client.is_work_unknown && self.client.left == MonoNs(0)
    }

    /// An operation moved bytes of its reply.
    pub(super) fn replies_by(&mut self, r: &OpRow) {
        (self.reply.ended, self.reply.task, self.reply.actor) = (r.at, r.task, r.actor());
    }

    /// It is over by then, if its end was not seen before.
    pub(super) fn ended_by(&mut self, at: MonoNs) {
        if self.reply.ended.0 == 0 {
            self.reply.ended = at;
        }
    }

    /// Whether its end was not recorded: the recording ended before; or its reply was lost, or came while nobody recorded, as something that
    /// came later shows. How long it took is not known.
    pub fn is_without_end(&self) -> bool {
        let is_cut = self.is(ExchangeFlag::Cut);
        let was_missed = self.is(ExchangeFlag::UnclearBorders) && self.is_owed() && !self.is_by_direction();
        let has_left = self.is(ExchangeFlag::Reset) || self.client.left.0 != 0;
        (is_cut && self.is(ExchangeFlag::Unfinished)) || (was_missed && !is_cut && !has_left)
    }

    /// A reply is due of which nothing was seen yet.
    pub(super) fn is_owed(&self) -> bool {
        self.reply.start == OPEN && !self.is(ExchangeFlag::OneWay)
    }
}
