//! What the linker of one host found, for who joins hosts later: only in folders that `wakepath reduce` made.

use super::{Side, WitnessKind};
use crate::ids::{EndpointId, MonoNs, StrId, TaskId};
use crate::{codes, table};

codes! {
    /// What a row of `reduced` says: [`super::ReducedRow::what`]. Rows of a host begin with [`StepKind::Recorded`], [`StepKind::Left`],
    /// [`StepKind::Lost`] and [`StepKind::Channel`]; then come steps in the order in which the linker made them, then
    /// [`StepKind::ReadAll`], what the linker gave at the end, and counts.
    StepKind(u8) {
        /// A recording of the host went from `began` to `reply_ended`.
        Recorded = 1 => "recorded",
        /// `number` rows of the table `text` were left out of the folder.
        Left = 2 => "left",
        /// Operations were lost from `began` to `reply_ended`.
        Lost = 3 => "lost",
        /// One end of a pipe or pair of sockets on which processes talk; `number` is the other end.
        Channel = 4 => "channel",
        /// The next row of `endpoints` was read.
        Endpoint = 5 => "endpoint",
        /// The next row of `sniffed_flows` was read.
        SniffedFlow = 6 => "sniffed_flow",
        /// The next row of `sniffed_exchanges` was read.
        SniffedExchange = 7 => "sniffed_exchange",
        /// The flow is over; all that it sent ends at byte `request_start`.
        Over = 8 => "over",
        /// Nothing more can come on the flow since `began`.
        Gone = 9 => "gone",
        /// Time went on to `began`.
        Tick = 10 => "tick",
        /// An exchange began; `count` is 1 where its process never serves anybody.
        Began = 11 => "began",
        /// A connection did not come about, with Linux's error number `count`; `number` counts those that a request waited for.
        Refused = 12 => "refused",
        /// How the connection of the next exchange came about: from the call for it (`began`) until it was there (`reply_ended`).
        Opening = 13 => "opening",
        /// A wait for the peer's answer in a handshake on it, from `began` to `reply_ended`.
        Handshake = 14 => "handshake",
        /// A call of the next finished exchange, by the rule `text`.
        Call = 15 => "call",
        /// A call that may be of the next finished exchange; `count` other requests could have made it.
        OpenCall = 16 => "open_call",
        /// The next finished exchange waited for the refused connection `number`.
        Tried = 17 => "tried",
        /// An exchange is finished; `count` calls may be its. `text` is what is missing of it, `orphan` why its caller is not known.
        Done = 18 => "done",
        /// All rows of the host were read; what comes now the linker gave at the recording's end.
        ReadAll = 19 => "read_all",
        /// `number` links were made by the rule `text`.
        Made = 20 => "made",
        /// `number` calls of the process are open for lack of `text`.
        Missing = 21 => "missing",
        /// `number` calls were `text`: begun, linked, open, own or beyond what is kept.
        Calls = 22 => "calls",
        /// `number` socket operations were read, and at most `count` exchanges held at once.
        Operations = 23 => "operations",
        /// TCP held back `count` of `number` replies of the service at port `status`.
        HeldReplies = 24 => "held_replies",
        /// The service at port `status` closed `count` of `number` connections without reading what came.
        ClosedUnread = 25 => "closed_unread",
        /// The last row: nothing was cut off.
        End = 26 => "end",
    }
}

codes! {
    /// What says which reply answers a request.
    AnsweredBy(u8) {
        /// Messages of a known protocol: an identifier, or their order.
        Message = 0 => "message",
        /// Messages of a known protocol that have neither: the next message of the other side.
        Turn = 1 => "turn",
        /// The flow's direction, where no messages are known.
        Direction = 2 => "direction",
    }
}

codes! {
    /// Whether a request puts something where others take it up later.
    QueuedHow(u8) {
        /// It does not.
        No = 0 => "",
        /// It does; who took it says so at most.
        Left = 1 => "left",
        /// It does, and names where the answer is to go.
        Relayed = 2 => "relayed",
    }
}

codes! {
    /// What a request asks for.
    AskedFor(u8) {
        /// An answer.
        Answer = 0 => "",
        /// To wait until something happens elsewhere.
        Event = 1 => "event",
        /// That the other side send messages from now on, or not any more.
        Messages = 2 => "messages",
    }
}

/// Bits of [`ReducedRow::traits`] beside those of the exchange itself, which are the lower 16.
pub mod reduced_trait {
    /// No request made the call.
    pub const ROOT_CALL: u32 = 1 << 16;
    /// Announcements of flows were lost before it ended.
    pub const FLOWS_LOST: u32 = 1 << 17;
    /// When the server was done with it is not known.
    pub const WORK_UNKNOWN: u32 = 1 << 18;
    /// A request waited for the refused connection.
    pub const WAITED_FOR: u32 = 1 << 19;
}

table! {
    /// What the linker of one host found, in its order. `what` says which columns a row has and what they mean; only in folders that
    /// `wakepath reduce` made.
    ReducedRow {
        /// When the row was read that the linker made it of, or any before it, the latest.
        at: MonoNs,
        /// The endpoint.
        flow: EndpointId,
        /// Its number among the host's exchanges, in the order in which they began; or as `what` says.
        number: u64,
        /// First byte of the request.
        request_start: u64 => named("request_start_byte"),
        /// One past its last byte, as far as known.
        request_end: u64 => named("request_end_byte").beyond(),
        /// How far it was read (server).
        received_to: u64 => named("received_to_byte"),
        /// When its first byte reached the host, 0 = not known.
        arrived: MonoNs => near().named("arrived_ns").none(0),
        /// When a part of it was read last, 0 = not known, or it came in one part.
        read: MonoNs => near().named("read_ns").none(0),
        /// When its first byte was taken or sent.
        began: MonoNs => near().named("began_ns"),
        /// When its head was complete at the endpoint's task.
        taken: MonoNs => near().named("taken_ns"),
        /// First byte of the reply, [`super::OPEN`] = none was seen.
        reply_start: u64 => named("reply_start_byte").next(),
        /// One past its last byte, [`super::OPEN`] = not known.
        reply_end: u64 => named("reply_end_byte").next(),
        /// When the reply's first byte moved.
        reply_began: MonoNs => near().named("reply_began_ns"),
        /// When its last byte did.
        reply_ended: MonoNs => near().named("reply_ended_ns"),
        /// Identifier of the exchange in its flow.
        witness: u64,
        /// Hash of an identifier that services hand on, 0 = none.
        identifier: u64 => none(0),
        /// Fingerprint of the reply's first bytes.
        reply_fingerprint: u64 => none(0),
        /// The time in which the server had read all that had come of the request, and the rest had not (ns).
        unsent_ns: u64,
        /// The time of the reply in which bytes found no room (ns).
        unread_ns: u64,
        /// When the client closed or reset the connection before the reply was complete, 0 = it did not.
        left: MonoNs => near().named("left_ns").none(0),
        /// The thread that took or sent the request; or as `what` says.
        task: TaskId,
        /// In whose name: the logical task where it is known, else the thread.
        actor: TaskId,
        /// The thread that sent or took the reply's last byte.
        reply_task: TaskId,
        /// In whose name.
        reply_actor: TaskId,
        /// The leading task of the process.
        process: TaskId,
        /// Protocol id.
        protocol: StrId,
        /// Verb.
        verb: StrId,
        /// Template or shape.
        target: StrId,
        /// Error class.
        detail: StrId,
        /// A rule, what is missing, or a table: as `what` says.
        text: StrId,
        /// Why the caller is not known.
        orphan: StrId,
        /// As `what` says.
        count: u32,
        /// The row's number among the host's, from 0, modulo 2^32: what is missing shows.
        sequence: u32 => hidden(),
        /// What is so of the exchange: bit 0 it failed, 1 its outcome is not known, 2 reset, 3 cut, 4 the recording ended, 5 replied,
        /// 6 its reply's end shows only when something else begins, 7 it gets no reply, 8 which reply is whose is not known, 9 its
        /// process has both ends; 16 no request made the call, 17 announcements of flows were lost before, 18 when the server was done
        /// with it is not known, 19 a request waited for the refused connection.
        traits: u32,
        /// Status code; or a port.
        status: u16,
        /// What the row says.
        what: StepKind,
        /// Which side of the exchange the endpoint is.
        side: Side,
        /// What says which reply answers it.
        answered_by: AnsweredBy,
        /// Whether the request puts something where others take it up later.
        queued: QueuedHow,
        /// What the request asks for.
        asked_for: AskedFor,
        /// What kind of identifier the witness is.
        witness_kind: WitnessKind,
        /// The part of the time to `taken` in which the server waited until its client had sent the rest of the head (ns).
        head_unsent_ns: u64,
    }
}
