//! `wakepath sniff` and `wakepath collect`: what was seen, and where it went.

use serde::Serialize;

/// Schema of what `sniff --json` prints.
pub const SNIFF_SCHEMA: &str = "wakepath.sniff/1";
/// Schema of what `collect --json` prints.
pub const COLLECT_SCHEMA: &str = "wakepath.collect/1";

/// What a sniffer saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SniffView {
    /// Interfaces, tunnels or files, as they were given.
    pub sources: Vec<String>,
    /// Time of the first packet, ns: since 1970 of a file, else of the host's monotonic clock; none where none came.
    pub from_ns: Option<u64>,
    /// Time of the last one.
    pub to_ns: Option<u64>,
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that were lost before they could be looked at.
    pub packets_lost: u64,
    /// Flows begun.
    pub flows: u64,
    /// Requests and other exchanges that are over.
    pub exchanges: u64,
    /// Rows made.
    pub rows: u64,
    /// The folder that they were written into.
    pub output: Option<String>,
    /// What was sent on.
    pub forwarded: Option<ForwardView>,
}

/// What was sent on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForwardView {
    /// To where.
    pub to: String,
    /// `udp` or `tcp`.
    pub by: &'static str,
    /// Rows given to the forwarder.
    pub rows: u64,
    /// Datagrams, or frames of the connection.
    pub frames: u64,
    /// Their bytes, without what the network puts around them.
    pub bytes: u64,
    /// Rows that found no room, or that the collector did not acknowledge. Of datagrams only the collector knows more.
    pub rows_lost: u64,
    /// Times that a connection was resumed.
    pub resumed: u64,
}

/// What a collector received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CollectView {
    /// The folder that rows were written into.
    pub output: Option<String>,
    /// Who sent, in the order in which they were heard.
    pub senders: Vec<SenderView>,
    /// Datagrams and frames that are damaged or not from a sniffer; and connections of other protocols.
    pub frames_bad: u64,
    /// Frames of senders for which there was no room.
    pub frames_refused: u64,
}

/// A sniffer that sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SenderView {
    /// Its host, empty where it never said.
    pub host: String,
    /// The boot id that stands for its clock.
    pub boot_id: String,
    /// From where it sent last.
    pub address: String,
    /// `udp` or `tcp`.
    pub by: &'static str,
    /// Frames taken.
    pub frames: u64,
    /// Frames that came again and were left out.
    pub frames_again: u64,
    /// Bytes of the frames taken.
    pub bytes: u64,
    /// Rows taken.
    pub rows: u64,
    /// Rows that did not come.
    pub rows_lost: u64,
    /// Rows sent before the first that came: perhaps nothing was listening then.
    pub rows_before: u64,
    /// Whether it said that it ended.
    pub is_over: bool,
}
