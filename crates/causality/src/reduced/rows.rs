//! What rows of `reduced` hold: exchanges, and words.

use crate::exchange::{Answered, Asked, ByClient, Content, Exchange, Side};
use crate::flags::Flags;
use crate::process::ProcessId;
use wakepath_model::ids::StrId;
use wakepath_model::rows::{self, ReducedRow, Table, reduced_trait};

/// Tables that who joins hosts reads, or who answers about requests: they are copied. Of the others only the steps stay.
pub(super) const COPIED: [Table; 10] = [
    Table::Anchor,
    Table::Task,
    Table::Placement,
    Table::Endpoint,
    Table::Loss,
    Table::Limit,
    Table::Resent,
    Table::Fault,
    Table::SniffedFlow,
    Table::SniffedExchange,
];

/// The classes of calls, in the order of the fields of [`crate::finished::Calls`].
pub(super) const CLASSES: [&str; 5] = ["begun", "linked", "open", "own", "beyond"];

/// The bits of [`ReducedRow::traits`] that are an exchange's flags.
const FLAGS: u32 = 0xffff;

/// A row of an exchange, of which `string` gives the strings. How its connection came about is not in it.
pub(super) fn of_exchange(e: &Exchange, mut string: impl FnMut(StrId) -> StrId) -> ReducedRow {
    let Exchange { number, flow, side, process, by, flags, request, reply, content, client } = e;
    let is_unknown = if client.is_work_unknown { reduced_trait::WORK_UNKNOWN } else { 0 };
    ReducedRow {
        flow: *flow,
        number: *number,
        request_start: request.start,
        request_end: request.end,
        received_to: request.received_to,
        arrived: request.arrived,
        read: request.read,
        began: request.began,
        taken: request.taken,
        reply_start: reply.start,
        reply_end: reply.end,
        reply_began: reply.began,
        reply_ended: reply.ended,
        witness: content.witness.1,
        identifier: content.identifier,
        reply_fingerprint: content.reply,
        unsent_ns: client.unsent_ns,
        head_unsent_ns: request.unsent_ns,
        unread_ns: client.unread_ns,
        left: client.left,
        task: request.task,
        actor: request.actor,
        reply_task: reply.task,
        reply_actor: reply.actor,
        process: process.leader(),
        protocol: string(content.protocol),
        verb: string(content.verb),
        target: string(content.target),
        detail: string(content.detail),
        traits: flags.bits() & FLAGS | is_unknown,
        status: content.status,
        side: match side {
            Side::Server => rows::Side::Server,
            Side::Client => rows::Side::Client,
        },
        answered_by: *by,
        queued: content.queued,
        asked_for: content.wanted,
        witness_kind: content.witness.0,
        ..ReducedRow::default()
    }
}

/// The exchange of a row; `None` where the row does not say which side it is.
pub(super) fn exchange(r: &ReducedRow) -> Option<Exchange> {
    Some(Exchange {
        number: r.number,
        flow: r.flow,
        side: Side::of(r.side)?,
        process: ProcessId::led_by(r.process),
        by: r.answered_by,
        flags: Flags::of_bits(r.traits & FLAGS),
        request: Asked {
            start: r.request_start,
            end: r.request_end,
            received_to: r.received_to,
            arrived: r.arrived,
            read: r.read,
            began: r.began,
            taken: r.taken,
            unsent_ns: r.head_unsent_ns,
            task: r.task,
            actor: r.actor,
        },
        reply: Answered {
            start: r.reply_start,
            end: r.reply_end,
            began: r.reply_began,
            ended: r.reply_ended,
            task: r.reply_task,
            actor: r.reply_actor,
        },
        content: Content {
            protocol: r.protocol,
            verb: r.verb,
            target: r.target,
            detail: r.detail,
            status: r.status,
            queued: r.queued,
            wanted: r.asked_for,
            witness: (r.witness_kind, r.witness),
            identifier: r.identifier,
            reply: r.reply_fingerprint,
        },
        client: ByClient {
            unsent_ns: r.unsent_ns,
            unread_ns: r.unread_ns,
            left: r.left,
            is_work_unknown: r.traits & reduced_trait::WORK_UNKNOWN != 0,
            opening: None,
        },
    })
}
