//! The network vantage's tables.

use super::{Failed, MessageEndHow, OPEN, WitnessKind, names};
use crate::ids::{MonoNs, SniffedFlowId, StrId};
use crate::table::{Kind, Value, optional};
use crate::{codes, table};

codes! {
    /// Why a row of `sniffed_flows` was written: [`super::SniffedFlowRow::what`].
    FlowRowKind(u8) {
        /// The flow's first packet was seen.
        Begin = 1 => "begin",
        /// It goes on; counts are those so far.
        Update = 2 => "update",
        /// Both directions were closed in order.
        Fin = 3 => "fin",
        /// It was reset.
        Reset = 4 => "reset",
        /// Nothing was seen of it for long, or its room was needed.
        Forgotten = 5 => "forgotten",
        /// The capture ended.
        CaptureEnd = 6 => "capture_end",
    }
}

codes! {
    /// How it is known which side of a sniffed flow is the server: [`super::SniffedFlowRow::side`].
    SideHow(u8) {
        /// Not known: neither what was said nor the ports tell, and the server is a guess.
        Guessed = 0 => "guess",
        /// By its SYN or SYN-ACK.
        Handshake = 1 => "handshake",
        /// By what was said: one side asks, the other replies.
        Protocol = 2 => "protocol",
        /// By its port: one of a known protocol, one that serves other flows, or one that clients do not get.
        Port = 3 => "port",
    }
}

codes! {
    /// Who reset a sniffed flow.
    ResetBy(u8) {
        /// Nobody.
        Nobody = 0 => "",
        /// The client.
        Client = 1 => "client",
        /// The server.
        Server = 2 => "server",
    }
}

table! {
    /// A flow between a client and a server as seen on the wire. Each flow has one row at its begin, more while it
    /// lasts, and one at its end. Counts are since the begin, so the last row covers the whole flow. Pairs are by
    /// direction: to the server, to the client.
    SniffedFlowRow {
        /// When.
        at: MonoNs,
        /// The flow.
        flow: SniffedFlowId,
        /// When the (last) SYN passed, 0 = not seen.
        syn: MonoNs => near().named("syn_ns").none(0),
        /// When the SYN-ACK passed, 0 = not seen.
        syn_ack: MonoNs => near().named("syn_ack_ns").none(0),
        /// When the handshake's last ACK passed, 0 = not seen.
        ack: MonoNs => near().named("ack_ns").none(0),
        /// Number of the first payload byte, in the numbering of operations: the sequence number + 2^32.
        origin: [u64; 2] => by_direction("origin_byte_to_server", "origin_byte_to_client"),
        /// Packets.
        packets: [u64; 2],
        /// Bytes of these packets as on the wire, without the tunnels around them.
        wire_bytes: [u64; 2],
        /// Bytes of the streams (datagrams: of payload), each counted once, those that were never captured included.
        stream_bytes: [u64; 2],
        /// Bytes of the streams that were never captured.
        missing_bytes: [u64; 2],
        /// Hash of the VLANs and tunnels around the flow, 0 = none.
        tunnel: u64 => none(0),
        /// The client's address (IPv4 in the first four bytes).
        client: [u8; 16] => also(&[optional("client", Kind::Text, " The address.", |r| names::address(r.family, r.client))]),
        /// The server's address.
        server: [u8; 16] => also(&[optional("server", Kind::Text, " The address.", |r| names::address(r.family, r.server))]),
        /// Segments that repeated bytes already seen.
        retransmitted: [u32; 2],
        /// Segments that came before bytes in front of them.
        reordered: [u32; 2],
        /// Times that this direction's *sender* was told a window of 0.
        zero_windows: [u32; 2],
        /// Protocol id, empty = opaque or not known yet.
        protocol: StrId,
        /// Why it is opaque, empty where it is not.
        reason: StrId,
        /// The client's port.
        client_port: u16,
        /// The server's port.
        server_port: u16,
        /// Address family: 2 or 10.
        family: u16 => hidden(),
        /// IP protocol.
        ip_protocol: u8 => words_or_none(names::ip_protocol),
        /// Why this row was written.
        what: FlowRowKind,
        /// How it is known who is the server.
        side: SideHow => named("side_by"),
        /// Who reset it.
        reset_by: ResetBy,
        /// Zero.
        pad: [u8; 6],
    }
}

codes! {
    /// What became of a sniffed exchange: [`super::SniffedExchangeRow::what`].
    ExchangeKind(u8) {
        /// Request and reply.
        Answered = 1 => "answered",
        /// The flow ended, or was reset, before a reply.
        Unanswered = 2 => "unanswered",
        /// Still without its whole reply when this row was written; a later row of the same request says more, if there is one.
        Open = 3 => "open",
        /// A request that gets no reply.
        NoReply = 4 => "no_reply",
        /// A message that answers nothing and asks nothing (its times and bytes are those of the reply where the server sent it).
        Unsolicited = 5 => "unsolicited",
        /// A reply whose request was not captured or could not be told.
        ReplyOnly = 6 => "reply_only",
        /// A request whose reply was not captured or could not be told.
        ReplyMissed = 7 => "reply_missed",
    }
}

table! {
    /// A request and its reply as seen on the wire. Times are those of the packets; 0 = not seen. Byte numbers are as in
    /// operations: sequence number + 2^32, unwrapped (datagrams: counted).
    SniffedExchangeRow {
        /// When its last packet passed; of an open one, when this was written.
        at: MonoNs,
        /// The flow.
        flow: SniffedFlowId,
        /// First byte of the request, [`super::OPEN`] = not seen.
        request_start: u64 => named("request_start_byte").none(OPEN),
        /// One past its last byte, [`super::OPEN`] = not known.
        request_end: u64 => named("request_end_byte").none(OPEN),
        /// First byte of the reply, [`super::OPEN`] = not seen.
        reply_start: u64 => named("reply_start_byte").none(OPEN),
        /// One past its last byte, [`super::OPEN`] = not known.
        reply_end: u64 => named("reply_end_byte").none(OPEN),
        /// First packet of the request.
        request_first: MonoNs => near().named("request_first_ns").none(0),
        /// Last packet of the request's header.
        request_head: MonoNs => near().named("request_head_ns").none(0),
        /// Last packet of the request.
        request_last: MonoNs => near().named("request_last_ns").none(0),
        /// First packet of the reply (not of an interim one).
        reply_first: MonoNs => near().named("reply_first_ns").none(0),
        /// Last packet of the reply's header. Service time runs from `request_head` to here (SDN paper, section 4).
        reply_head: MonoNs => near().named("reply_head_ns").none(0).also(&[optional(
            "service_ns",
            Kind::Ns,
            " From the request's header to the reply's.",
            |r| match r.reply_head.0.checked_sub(r.request_head.0) {
                Some(ns) if r.request_head.0 != 0 => Value::Ns(ns),
                _ => Value::None,
            }
        )]),
        /// Last packet of the reply.
        reply_last: MonoNs => near().named("reply_last_ns").none(0),
        /// Identifier of the exchange in its flow.
        witness: u64,
        /// Fingerprint of what the request says beside its head: a hash under a key of the recording, 0 = none. No recorder
        /// of this version makes one.
        request_fingerprint: u64 => none(0),
        /// The same of the reply.
        reply_fingerprint: u64 => none(0),
        /// FNV-1a (64 bit) of the 16 bytes of the W3C trace id in the request, 0 = none.
        trace: u64 => none(0),
        /// The W3C parent span id in the request, its 8 bytes as a big-endian number, 0 = none.
        span: u64 => none(0),
        /// Hash of the request's `x-request-id`, or where it has none, of its reply's; 0 = none.
        request_id: u64 => none(0),
        /// Packets with bytes of the request.
        request_packets: u32,
        /// Packets with bytes of the reply.
        reply_packets: u32,
        /// Bytes of either that were never captured.
        missing_bytes: u32,
        /// Protocol id.
        protocol: StrId,
        /// Method, command or verb.
        verb: StrId,
        /// Path template, statement shape, question.
        target: StrId,
        /// Error class, empty where none.
        detail: StrId,
        /// Status code where the protocol has one, else 0.
        status: u16,
        /// What became of it.
        what: ExchangeKind,
        /// What kind of identifier the witness is.
        witness_kind: WitnessKind,
        /// Whether the reply says failure.
        failed: Failed => hidden().also(&[optional("failed", Kind::Bool, " The reply says failure; none where it was not read.", |r| {
            r.failed.value(r.what == ExchangeKind::Answered)
        })]),
        /// 1 = attributes were cut by the end of what was captured.
        cut: u8 => flag(),
        /// How the request's end became known.
        request_how: MessageEndHow => named("request_end_how"),
        /// How the reply's end became known.
        reply_how: MessageEndHow => named("reply_end_how"),
        /// Interim replies before the reply, 255 = as many or more.
        interim: u8,
        /// Zero.
        pad: [u8; 3],
    }
}
