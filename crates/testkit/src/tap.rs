//! Rows of a sniffer that never was.

use crate::recording::{HostRows, PROTOCOL};
use std::ops::Range;
use wakepath_model::ids::{MonoNs, SniffedFlowId, StrId};
use wakepath_model::rows::{ExchangeKind, FlowRowKind, OPEN, SideHow, SniffedExchangeRow, SniffedFlowRow};

/// An exchange as it passes a sniffer.
#[derive(Clone, Debug)]
pub struct Passing {
    /// The flow.
    pub flow: u64,
    /// The client's address and port.
    pub client: ([u8; 4], u16),
    /// The server's address and port.
    pub server: ([u8; 4], u16),
    /// True times of the request's first and last packet.
    pub request_at: (u64, u64),
    /// True times of the reply's; zero: none was seen.
    pub reply_at: (u64, u64),
    /// True time of its end, or of the row, where no reply was seen; 0: its last packet's.
    pub ended_at: u64,
    /// Bytes of the request.
    pub request: Range<u64>,
    /// Bytes of the reply.
    pub reply: Range<u64>,
    /// What its `x-request-id` hashes to, 0 = none.
    pub request_id: u64,
    /// What its trace id hashes to, 0 = none, and the span.
    pub trace: (u64, u64),
    /// One of `exchange_row`.
    pub what: ExchangeKind,
    /// Path.
    pub target: String,
}

fn wide(a: [u8; 4]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&a);
    out
}

impl HostRows {
    /// A row of a passing's flow. `is_new`: its handshake was seen.
    pub fn sniffed_flow(&mut self, t: u64, p: &Passing, what: FlowRowKind, is_new: bool) {
        let at = self.at(t);
        let protocol = self.text(PROTOCOL);
        let seen = if is_new { at } else { MonoNs(0) };
        self.rows.push(
            SniffedFlowRow {
                at,
                flow: SniffedFlowId(p.flow),
                syn: seen,
                syn_ack: seen,
                ack: seen,
                origin: [p.request.start, p.reply.start],
                client: wide(p.client.0),
                server: wide(p.server.0),
                protocol,
                client_port: p.client.1,
                server_port: p.server.1,
                family: 2,
                ip_protocol: 6,
                what,
                side: SideHow::Handshake,
                ..Default::default()
            }
            .into(),
        );
    }

    /// An exchange's row. A flow's row has to stand before.
    pub fn sniffed(&mut self, p: &Passing) {
        let [request, reply] = [p.request_at, p.reply_at].map(|(first, last)| match last {
            0 => (MonoNs(0), MonoNs(0)),
            _ => (self.at(first), self.at(last)),
        });
        let (protocol, verb, target) = (self.text(PROTOCOL), self.text("GET"), self.text(&p.target));
        let has_reply = p.reply_at.1 != 0;
        let only_reply = p.what == ExchangeKind::ReplyOnly;
        let known = |is: bool, at: u64| if is { at } else { OPEN };
        self.rows.push(
            SniffedExchangeRow {
                at: request.1.max(reply.1).max(if p.ended_at == 0 { MonoNs(0) } else { self.at(p.ended_at) }),
                flow: SniffedFlowId(p.flow),
                request_start: known(!only_reply, p.request.start),
                request_end: known(!only_reply, p.request.end),
                reply_start: known(has_reply, p.reply.start),
                reply_end: known(has_reply, p.reply.end),
                request_first: request.0,
                request_head: request.1,
                request_last: request.1,
                reply_first: reply.0,
                reply_head: reply.0,
                reply_last: reply.1,
                trace: p.trace.0,
                span: p.trace.1,
                request_id: p.request_id,
                request_packets: 1,
                reply_packets: u32::from(has_reply),
                protocol,
                verb: if only_reply { StrId::EMPTY } else { verb },
                target: if only_reply { StrId::EMPTY } else { target },
                status: if has_reply { 200 } else { 0 },
                what: p.what,
                ..Default::default()
            }
            .into(),
        );
    }
}
