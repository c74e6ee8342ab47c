//! Endpoints of flows, and what becomes of them.

use super::names;
use crate::ids::{EndpointId, MonoNs, StrId, TaskId};
use crate::table;
use crate::table::{Kind, optional};

/// How an endpoint came to be known.
pub mod seen {
    /// It connected out.
    pub const CONNECTED: u8 = 1;
    /// It came out of a listener.
    pub const ACCEPTED: u8 = 2;
    /// First met by an operation, older than the recording.
    pub const MET: u8 = 3;
    /// Found by the snapshot.
    pub const SNAPSHOT: u8 = 4;
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
        /// One of [`seen`].
        how: u8 => words(names::endpoint_how),
        /// TCP state (10 = listening).
        state: u8 => words_or_none(names::tcp_state),
        /// 1 = it listens' side: server; 2 = client; 0 = not known.
        side: u8 => words_or_none(names::side),
        /// 1 = an upper-layer protocol (kernel TLS, MPTCP) is on it.
        ulp: u8 => flag(),
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
        old: u8 => named("old_state").words_or_none(names::tcp_state),
        /// TCP state after.
        new: u8 => named("new_state").words_or_none(names::tcp_state),
        /// 1 = reset received, 2 = reset sent.
        reset: u8 => words_or_none(names::reset),
        /// 1 = done by the task, 0 = in interrupt context.
        by_task: u8 => flag(),
    }
}

table! {
    /// What is known of a flow's protocol.
    FlowNoteRow {
        /// When.
        at: MonoNs,
        /// The endpoint.
        flow: EndpointId,
        /// Protocol id, empty = opaque.
        protocol: StrId,
        /// Why it is opaque, empty where it is not.
        reason: StrId,
    }
}
