//! Endpoints of flows, and what becomes of them.

use super::names;
use crate::ids::{EndpointId, MonoNs, StrId, TaskId};
use crate::table::{Kind, optional};
use crate::{codes, table};

codes! {
    /// Which end of its flow an endpoint is.
    Side(u8) {
        /// Not known.
        Unknown = 0 => "",
        /// The server's: it listens, or came out of a listener.
        Server = 1 => "server",
        /// The client's.
        Client = 2 => "client",
    }
}

impl Side {
    /// The side of the flow's other end.
    pub const fn other(self) -> Side {
        match self {
            Side::Unknown => Side::Unknown,
            Side::Server => Side::Client,
            Side::Client => Side::Server,
        }
    }
}

codes! {
    /// States of TCP by the kernel's numbers and names; other sockets have those that mean the same.
    TcpState(u8) {
        /// Not known, or it has none.
        None = 0 => "",
        /// Open in both directions.
        Established = 1 => "ESTABLISHED",
        /// Asked for, not answered yet.
        SynSent = 2 => "SYN_SENT",
        /// Asked for by the other end, and answered.
        SynRecv = 3 => "SYN_RECV",
        /// Closed at this end, not acknowledged yet.
        FinWait1 = 4 => "FIN_WAIT1",
        /// Closed at this end.
        FinWait2 = 5 => "FIN_WAIT2",
        /// Closed at both ends; late segments are waited for.
        TimeWait = 6 => "TIME_WAIT",
        /// Not connected.
        Close = 7 => "CLOSE",
        /// Closed at the other end.
        CloseWait = 8 => "CLOSE_WAIT",
        /// Closed at the other end, then at this, not acknowledged yet.
        LastAck = 9 => "LAST_ACK",
        /// It takes connections.
        Listen = 10 => "LISTEN",
        /// Closed at both ends at once.
        Closing = 11 => "CLOSING",
        /// Asked for by the other end; not a socket yet.
        NewSynRecv = 12 => "NEW_SYN_RECV",
        /// It has a port and is not connected; only told by newer kernels.
        BoundInactive = 13 => "BOUND_INACTIVE",
    }
}

codes! {
    /// How an endpoint came to be known.
    SeenHow(u8) {
        /// Not known.
        Unknown = 0 => "unknown",
        /// It connected out.
        Connected = 1 => "connected",
        /// It came out of a listener.
        Accepted = 2 => "accepted",
        /// First met by an operation, older than the recording.
        Met = 3 => "met",
        /// Found by the snapshot.
        Snapshot = 4 => "snapshot",
    }
}

table! {
    /// One end of a flow.
    EndpointRow {
        /// When.
        at: MonoNs,
        /// Its id.
        flow: EndpointId,
        /// UNIX: the other end's id, else 0.
        peer: EndpointId => none(0),
        /// Next byte to be sent, unwrapped.
        snd: u64 => named("snd_byte"),
        /// Next byte to be read, unwrapped.
        rcv: u64 => named("rcv_byte"),
        /// Local address (IPv4 in the first four bytes).
        laddr: [u8; 16] => also(&[optional("laddr", Kind::Text, " The address.", |r| names::address(r.family, r.laddr))]),
        /// Remote address.
        raddr: [u8; 16] => also(&[optional("raddr", Kind::Text, " The address.", |r| names::address(r.family, r.raddr))]),
        /// Network namespace.
        netns: u32,
        /// A task of the process that holds it, where known.
        task: TaskId,
        /// UNIX path, empty where none.
        path: StrId,
        /// Local port.
        lport: u16,
        /// Remote port.
        rport: u16,
        /// Address family.
        family: u16 => words_or_none(names::family),
        /// IP protocol.
        protocol: u16 => words_or_none(names::ip_protocol),
        /// How it came to be known.
        how: SeenHow,
        /// TCP state (10 = listening).
        state: TcpState,
        /// Whether it is the server's end or the client's.
        side: Side,
        /// 1 = an upper-layer protocol (kernel TLS, MPTCP) is on it.
        ulp: u8 => flag(),
        /// TCP: the sequence number of the first byte sent, or of the SYN before it, + 2³²; 0 = not known.
        snd_first: u64,
        /// TCP: the sequence number of the first byte received, + 2³²; 0 = not known.
        rcv_first: u64,
    }
}

codes! {
    /// By which reset a flow's state changed.
    Reset(u8) {
        /// By none.
        None = 0 => "",
        /// By one that the other end sent.
        Received = 1 => "received",
        /// By one that this end sent.
        Sent = 2 => "sent",
    }
}

table! {
    /// A change of a flow's state.
    FlowStateRow {
        /// When.
        at: MonoNs,
        /// The endpoint.
        flow: EndpointId,
        /// Next byte to be sent, unwrapped.
        snd: u64 => named("snd_byte"),
        /// Next byte expected, unwrapped.
        rcv: u64 => named("rcv_byte"),
        /// The current task where `by_task`.
        task: TaskId,
        /// TCP state before.
        old: TcpState => named("old_state"),
        /// TCP state after.
        new: TcpState => named("new_state"),
        /// Whether a reset did it.
        reset: Reset,
        /// 1 = done by the task, 0 = in interrupt context.
        by_task: u8 => flag(),
    }
}

/// [`FlowNoteRow::reason`] of a protocol that goes on, but the next border between its requests is not known.
pub const UNFRAMED: &str = "framing lost";

table! {
    /// What is known of a flow's protocol.
    FlowNoteRow {
        /// When.
        at: MonoNs,
        /// The endpoint.
        flow: EndpointId,
        /// Protocol id, empty = opaque.
        protocol: StrId,
        /// Why it is opaque, empty where it is not; `framing lost` beside a protocol: where its next message begins is not known.
        reason: StrId,
    }
}
