//! One exchange.

use super::opening::Opening;
use crate::process::ProcessId;
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{OPEN, OpRow, WitnessKind};

/// Which side of an exchange an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Takes the request, sends the reply.
    Server,
    /// Sends the request, takes the reply.
    Client,
}

/// What says which reply answers a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Messages of a known protocol: an identifier, or their order.
    #[default]
    Message,
    /// Messages of a known protocol that have neither: the next message of the other side.
    Turn,
    /// The flow's direction, where no messages are known.
    Direction,
}

/// Whether a request puts something where others take it up later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queued {
    /// It does not.
    #[default]
    No,
    /// It does; who took it says so at most.
    Left,
    /// It does, and names where the answer is to go: whoever takes it up makes that.
    Relayed,
}

impl Queued {
    /// Whether it puts something into a queue.
    pub fn is_queued(self) -> bool {
        self != Queued::No
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// An answer.
    #[default]
    Answer,
    /// To wait until something happens elsewhere, such as an item in a list: late is not slow.
    Event,
    /// That the other side send messages from now on, or not any more.
    Messages,
}

/// What the client did: of a server's exchange its client, of a client's itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByClient {
    /// The time in which the server had read all that had come of the request, and the rest had not (ns).
    pub unsent_ns: u64,
    /// The time of the reply in which bytes found no room, since the client had not read those before (ns).
    pub unread_ns: u64,
    /// When it closed or reset the connection before the reply was complete; 0: it did not.
    pub left: MonoNs,
    /// When the server was done with the request is not known: the client left, or (where `left` is 0) nothing but a turn pairs messages,
    /// and that is not to be believed.
    pub is_work_unknown: bool,
    /// Of a client, with its first call on a connection that it called for: how that came about.
    pub opening: Option<Box<Opening>>,
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
    /// First byte of the request.
    pub request_start: u64,
    /// One past its last byte, as far as known.
    pub request_end: u64,
    /// First byte of the reply; [`OPEN`] where none was seen.
    pub reply_start: u64,
    /// One past the reply's last byte, as far as known.
    pub reply_end: u64,
    /// When the request's first byte reached the host (server; 0 where not known).
    pub arrived: MonoNs,
    /// How far the request was read (server).
    pub received_to: u64,
    /// When a part of it was read last (server; 0 where that was not more than its head's part).
    pub read: MonoNs,
    /// When its first byte was taken or sent (entry of the call where sent).
    pub began: MonoNs,
    /// When the head was complete at the endpoint's task.
    pub taken: MonoNs,
    /// First byte of the reply.
    pub reply_began: MonoNs,
    /// Last byte of the reply (return of the call where received).
    pub ended: MonoNs,
    /// The thread that took or sent the request.
    pub task: TaskId,
    /// In whose name: the logical task where it is known, else the thread.
    pub actor: TaskId,
    /// The thread that sent or took the reply's last byte.
    pub reply_task: TaskId,
    /// In whose name.
    pub reply_actor: TaskId,
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
    /// The reply says that it failed.
    pub failed: bool,
    /// No reply that says success or failure was read: none, or of no known protocol, or not the part that says so.
    pub outcome_unknown: bool,
    /// The flow was reset before the reply was complete.
    pub reset: bool,
    /// The flow, or the recording, ended before the reply was complete.
    pub cut: bool,
    /// It was the recording that ended.
    pub unfinished: bool,
    /// Reply complete.
    pub replied: bool,
    /// The end of the reply shows only when something else begins.
    pub open_ended: bool,
    /// What says which reply answers it.
    pub by: By,
    /// The request gets no reply: the exchange is over when the request is.
    pub one_way: bool,
    /// Whether the request puts something where others take it up later: a queue, a list, a topic.
    pub queued: Queued,
    /// What the request asks for.
    pub wanted: Wanted,
    /// The process of `task`: the number of its leading task.
    pub process: ProcessId,
    /// Witness kind and value.
    pub witness: (WitnessKind, u64),
    /// Which reply is whose is not known: messages of its flow were missed, or several requests use it and nobody knows its protocol.
    pub has_unclear_borders: bool,
    /// What the client did.
    pub client: ByClient,
    /// Its process has both ends: by such a pair of sockets threads wake each other, or a loop itself. It is nobody's request.
    pub is_internal: bool,
}

impl Exchange {
    /// A request of these bytes of which nothing else is known, and nothing of its reply.
    pub(crate) fn of_request(flow: EndpointId, side: Side, start: u64, end: u64) -> Exchange {
        Exchange {
            number: 0,
            flow,
            side,
            request_start: start,
            request_end: end,
            reply_start: OPEN,
            reply_end: OPEN,
            arrived: MonoNs(0),
            received_to: 0,
            read: MonoNs(0),
            began: MonoNs(0),
            taken: MonoNs(0),
            reply_began: MonoNs(0),
            ended: MonoNs(0),
            task: TaskId::UNKNOWN,
            actor: TaskId::UNKNOWN,
            reply_task: TaskId::UNKNOWN,
            reply_actor: TaskId::UNKNOWN,
            protocol: StrId::EMPTY,
            verb: StrId::EMPTY,
            target: StrId::EMPTY,
            detail: StrId::EMPTY,
            status: 0,
            failed: false,
            outcome_unknown: true,
            reset: false,
            cut: false,
            unfinished: false,
            replied: false,
            open_ended: false,
            by: By::Message,
            one_way: false,
            queued: Queued::No,
            wanted: Wanted::Answer,
            process: ProcessId::UNKNOWN,
            witness: (WitnessKind::None, 0),
            has_unclear_borders: false,
            client: ByClient::default(),
            is_internal: false,
        }
    }

    /// More of the request was read: what the client sent late, the server had to wait for.
    pub(crate) fn reads_more(&mut self, r: &OpRow) {
        let is_part = self.request_start < r.start && r.start < self.request_end && !self.is_by_direction();
        if is_part {
            let read = if self.read.0 == 0 { self.taken } else { self.read };
            let came = if r.arrived.0 == 0 { r.at } else { r.arrived };
            let since = if r.arrived.0 == 0 { read.max(r.entry) } else { read };
            self.client.unsent_ns += came.0.saturating_sub(since.0);
            self.read = r.at;
        }
        self.received_to = self.received_to.max(r.end);
    }

    /// A request that was begun by direction is this one, of which a message tells: who took it, and when, stands.
    pub(crate) fn is_told(&mut self, by: Exchange) {
        let opening = self.client.opening.take();
        *self = Exchange {
            number: self.number,
            arrived: self.arrived,
            received_to: self.received_to.max(by.received_to),
            began: self.began,
            taken: self.taken,
            task: self.task,
            actor: self.actor,
            process: self.process,
            is_internal: self.is_internal,
            ..by
        };
        self.client.opening = opening;
    }

    /// Made by direction, not by messages.
    pub fn is_by_direction(&self) -> bool {
        self.by == By::Direction
    }

    /// The request asks to wait until something happens elsewhere.
    pub fn awaits(&self) -> bool {
        self.wanted == Wanted::Event
    }

    /// Nothing but the turn says which message answers it.
    pub fn is_by_turn(&self) -> bool {
        self.by == By::Turn
    }

    /// The whole request was read.
    pub fn is_received(&self) -> bool {
        self.is_by_direction() || self.received_to >= self.request_end
    }

    /// A call on a connection that several requests use at once, in a protocol that nobody knows: its server may have taken
    /// another's bytes for more of it, and another's reply for its own.
    pub fn is_on_shared_connection(&self) -> bool {
        self.side == Side::Client && self.has_unclear_borders && self.is_by_direction()
    }

    /// What the server works on after which message is not known, though nobody left.
    pub fn is_unpaired(&self) -> bool {
        self.client.is_work_unknown && self.client.left == MonoNs(0)
    }

    /// A reply is due of which nothing was seen yet.
    pub(super) fn is_owed(&self) -> bool {
        self.reply_start == OPEN && !self.one_way
    }
}
