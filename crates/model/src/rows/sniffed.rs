//! The network vantage's tables.

use crate::ids::{MonoNs, SniffedFlowId, StrId};
use bytemuck::{Pod, Zeroable};

/// Why a row of `sniffed_flows` was written: [`super::SniffedFlowRow::what`].
pub mod flow_row {
    /// The flow's first packet was seen.
    pub const BEGIN: u8 = 1;
    /// It goes on; counts are those so far.
    pub const UPDATE: u8 = 2;
    /// Both directions were closed in order.
    pub const FIN: u8 = 3;
    /// It was reset.
    pub const RESET: u8 = 4;
    /// Nothing was seen of it for long, or its room was needed.
    pub const FORGOTTEN: u8 = 5;
    /// The capture ended.
    pub const CAPTURE_END: u8 = 6;
}

/// How it is known which side of a sniffed flow is the server: [`super::SniffedFlowRow::side`].
pub mod side_how {
    /// Not known: neither what was said nor the ports tell, and the server is a guess.
    pub const GUESSED: u8 = 0;
    /// By its SYN or SYN-ACK.
    pub const HANDSHAKE: u8 = 1;
    /// By what was said: one side asks, the other replies.
    pub const PROTOCOL: u8 = 2;
    /// By its port: one of a known protocol, one that serves other flows, or one that clients do not get.
    pub const PORT: u8 = 3;
}

/// A flow between a client and a server as seen on the wire. Of each flow one row at its begin, further ones while it
/// lasts, and one at its end; counts are since the begin, so that the last row stands for the whole flow. Pairs are by
/// direction: to the server, to the client.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct SniffedFlowRow {
    /// When.
    pub at: MonoNs,
    /// The flow.
    pub flow: SniffedFlowId,
    /// When the (last) SYN passed, 0 = not seen.
    pub syn: MonoNs,
    /// When the SYN-ACK passed, 0 = not seen.
    pub syn_ack: MonoNs,
    /// When the handshake's last ACK passed, 0 = not seen.
    pub ack: MonoNs,
    /// Number of the first payload byte, in the numbering of operations: the sequence number + 2^32.
    pub origin: [u64; 2],
    /// Packets.
    pub packets: [u64; 2],
    /// Bytes of these packets as on the wire, without the tunnels around them.
    pub wire_bytes: [u64; 2],
    /// Bytes of the streams (datagrams: of payload), each counted once, those that were never captured included.
    pub stream_bytes: [u64; 2],
    /// Bytes of the streams that were never captured.
    pub missing_bytes: [u64; 2],
    /// Hash of the VLANs and tunnels around the flow, 0 = none.
    pub tunnel: u64,
    /// The client's address (IPv4 in the first four bytes).
    pub client: [u8; 16],
    /// The server's address.
    pub server: [u8; 16],
    /// Segments that repeated bytes already seen.
    pub retransmitted: [u32; 2],
    /// Segments that came before bytes in front of them.
    pub reordered: [u32; 2],
    /// Times that this direction's *sender* was told a window of 0.
    pub zero_windows: [u32; 2],
    /// Protocol id, empty = opaque or not known yet.
    pub protocol: StrId,
    /// Why it is opaque, empty where it is not.
    pub reason: StrId,
    /// The client's port.
    pub client_port: u16,
    /// The server's port.
    pub server_port: u16,
    /// Address family: 2 or 10.
    pub family: u16,
    /// IP protocol.
    pub ip_protocol: u8,
    /// One of [`flow_row`].
    pub what: u8,
    /// One of [`side_how`].
    pub side: u8,
    /// Who reset it: 1 = the client, 2 = the server, 0 = nobody.
    pub reset_by: u8,
    /// Zero.
    pub pad: [u8; 6],
}

/// What became of a sniffed exchange: [`super::SniffedExchangeRow::what`].
pub mod exchange_row {
    /// Request and reply.
    pub const ANSWERED: u8 = 1;
    /// The flow ended, or was reset, before a reply.
    pub const UNANSWERED: u8 = 2;
    /// Still without its whole reply when this row was written; a later row of the same request says more, if there is one.
    pub const OPEN: u8 = 3;
    /// A request that gets no reply.
    pub const NO_REPLY: u8 = 4;
    /// A message that answers nothing and asks nothing (its times and bytes are those of the reply where the server sent it).
    pub const UNSOLICITED: u8 = 5;
    /// A reply whose request was not captured or could not be told.
    pub const REPLY_ONLY: u8 = 6;
    /// A request whose reply was not captured or could not be told.
    pub const REPLY_MISSED: u8 = 7;
}

/// A request and its reply as seen on the wire. Times are those of the packets; 0 = not seen. Byte numbers are as in
/// operations: sequence number + 2^32, unwrapped (datagrams: counted).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct SniffedExchangeRow {
    /// When its last packet passed; of an open one, when this was written.
    pub at: MonoNs,
    /// The flow.
    pub flow: SniffedFlowId,
    /// First byte of the request, [`super::OPEN`] = not seen.
    pub request_start: u64,
    /// One past its last byte, [`super::OPEN`] = not known.
    pub request_end: u64,
    /// First byte of the reply, [`super::OPEN`] = not seen.
    pub reply_start: u64,
    /// One past its last byte, [`super::OPEN`] = not known.
    pub reply_end: u64,
    /// First packet of the request.
    pub request_first: MonoNs,
    /// Last packet of the request's header.
    pub request_head: MonoNs,
    /// Last packet of the request.
    pub request_last: MonoNs,
    /// First packet of the reply (not of an interim one).
    pub reply_first: MonoNs,
    /// Last packet of the reply's header. Service time runs from `request_head` to here (SDN paper, section 4).
    pub reply_head: MonoNs,
    /// Last packet of the reply.
    pub reply_last: MonoNs,
    /// Identifier of the exchange in its flow.
    pub witness: u64,
    /// FNV-1a (64 bit) of the 16 bytes of the W3C trace id in the request, 0 = none.
    pub trace: u64,
    /// The W3C parent span id in the request, its 8 bytes as a big-endian number, 0 = none.
    pub span: u64,
    /// Hash of the request's `x-request-id`, or where it has none, of its reply's; 0 = none.
    pub request_id: u64,
    /// Packets with bytes of the request.
    pub request_packets: u32,
    /// Packets with bytes of the reply.
    pub reply_packets: u32,
    /// Bytes of either that were never captured.
    pub missing_bytes: u32,
    /// Protocol id.
    pub protocol: StrId,
    /// Method, command or verb.
    pub verb: StrId,
    /// Path template, statement shape, question.
    pub target: StrId,
    /// Error class, empty where none.
    pub detail: StrId,
    /// Status code where the protocol has one, else 0.
    pub status: u16,
    /// One of [`exchange_row`].
    pub what: u8,
    /// One of [`super::witness`].
    pub witness_kind: u8,
    /// One of [`super::failed`]: what the reply says.
    pub failed: u8,
    /// 1 = attributes were cut by the end of what was captured.
    pub cut: u8,
    /// One of [`super::end_how`]: the request's end; 0 = not known.
    pub request_how: u8,
    /// One of [`super::end_how`]: the reply's end; 0 = not known.
    pub reply_how: u8,
    /// Interim replies before the reply, 255 = as many or more.
    pub interim: u8,
    /// Zero.
    pub pad: [u8; 3],
}
