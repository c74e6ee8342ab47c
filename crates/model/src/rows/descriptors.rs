//! How sockets and pipes stood at a moment, and what TCP had to do again: what no operation tells.

use super::TcpState;
use crate::ids::{EndpointId, MonoNs, TaskId};
use crate::table;
use crate::table::{Kind, Value, computed};

/// Bits of [`DescriptorRow::marks`].
pub mod descriptor {
    /// It has sent data.
    pub const SENT: u8 = 1;
    /// It has received data.
    pub const RECEIVED: u8 = 2;
    /// Operations of its process are recorded.
    pub const WATCHED: u8 = 4;
    /// TCP: the other end had acknowledged all that this one sent when it sent its last data.
    pub const LAST_IN: u8 = 8;
    /// TCP: the other end acknowledged within a second all that this one sent, and sent no data behind it.
    pub const LAST_OUT: u8 = 16;
}

/// For what TCP kept bytes of a send back, in [`super::OpRow::flags`]; 0 where all had left when the call returned, or where
/// that was not looked at.
pub mod held {
    /// The bits.
    pub const BITS: u16 = 0xe000;
    /// For an acknowledgement of earlier bytes (Nagle's algorithm).
    pub const NAGLE: u16 = 0x2000;
    /// For room in the receiver's window.
    pub const WINDOW: u16 = 0x4000;
    /// For something else: the congestion window, pacing, TCP_CORK.
    pub const OTHER: u16 = 0x6000;
}

/// Which end of a connection spoke last, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWord {
    /// No data moved.
    Nobody,
    /// The other end.
    Peer(MonoNs),
    /// This end.
    Own(MonoNs),
    /// The socket does not show it, or was not looked at.
    NotKnown,
}

table! {
    /// A descriptor of a process, and how its socket or pipe stood: when the recording (or one of its segments) began, and when
    /// it ended.
    DescriptorRow {
        /// When it was looked at.
        at: MonoNs,
        /// The endpoint.
        flow: EndpointId,
        /// TCP: when data came last, to some milliseconds (the kernel's tick); where none ever did, when the connection began.
        /// 0 = not known.
        received: MonoNs => named("received_ns").none(0),
        /// TCP: when data was sent last, so too.
        sent: MonoNs => named("sent_ns").none(0),
        /// The task that leads the process.
        task: TaskId,
        /// The descriptor's number.
        fd: u32,
        /// TCP: bytes that came and were not read. UNIX: pieces. Pipe: buffers in use.
        unread: u32,
        /// TCP: bytes that were written and that the other end had not acknowledged.
        unacked: u32,
        /// TCP: bytes that the other end has room for. Pipe: buffers that it has in all.
        window: u32,
        /// TCP's state (10 = listening).
        state: TcpState,
        /// Bits of [`descriptor`].
        marks: u8 => hidden().also(&[
            computed("has_sent", Kind::Bool, " It has sent data.", |r| Value::Bool(r.has(descriptor::SENT))),
            computed("has_received", Kind::Bool, " It has received data.", |r| Value::Bool(r.has(descriptor::RECEIVED))),
            computed("watched", Kind::Bool, " Operations of its process are recorded.", |r| Value::Bool(r.has(descriptor::WATCHED))),
            computed("last_in", Kind::Bool, " TCP: the other end had acknowledged all that this one sent when it sent its last data.", |r| Value::Bool(r.has(descriptor::LAST_IN))),
            computed("last_out", Kind::Bool, " TCP: the other end acknowledged within a second all that this one sent, and sent no data behind it.", |r| Value::Bool(r.has(descriptor::LAST_OUT)))
        ]),
        /// Which look at all descriptors it is of: the same number in all its rows, another in the next look's.
        look: u16,
    }
}

impl DescriptorRow {
    fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Which end of a TCP connection spoke last, as its socket shows.
    ///
    /// Moments have the kernel's tick. Where the last data of both directions fall into one, what the other end had
    /// acknowledged when it spoke last decides; where that was not seen either, nobody knows.
    pub fn last_word(&self) -> LastWord {
        if self.received.0 == 0 || self.sent.0 == 0 {
            return LastWord::NotKnown;
        }
        let peer = LastWord::Peer(self.received);
        let own = LastWord::Own(self.sent);
        match (self.has(descriptor::RECEIVED), self.has(descriptor::SENT)) {
            (false, false) => LastWord::Nobody,
            (true, false) => peer,
            (false, true) => own,
            (true, true) if self.received > self.sent => peer,
            (true, true) if self.sent > self.received => own,
            (true, true) if self.has(descriptor::LAST_IN) => peer,
            (true, true) if self.has(descriptor::LAST_OUT) => own,
            (true, true) => LastWord::NotKnown,
        }
    }

    /// Since when the other end had the last word: it sent data, and nothing was sent after that. `None` where that is not
    /// so, or not known.
    pub fn asked_since(&self) -> Option<MonoNs> {
        if let LastWord::Peer(at) = self.last_word() { Some(at) } else { None }
    }

    /// Since when this end had the last word, so too.
    pub fn asks_since(&self) -> Option<MonoNs> {
        if let LastWord::Own(at) = self.last_word() { Some(at) } else { None }
    }
}

table! {
    /// TCP sent a segment once more: it, or its acknowledgement, was lost or late.
    ResentRow {
        /// When.
        at: MonoNs,
        /// The endpoint that sent it.
        flow: EndpointId,
        /// Its first byte, the low 32 bits.
        seq: u32,
        /// One past its last byte, so too; a SYN and a FIN count as a byte.
        seq_end: u32,
        /// Least round-trip time that was measured lately (µs), all ones where none was.
        rtt_us: u32 => none(0xffff_ffff),
        /// TCP's state: 2 = the connection was being asked for.
        state: TcpState,
        /// Zero.
        pad: [u8; 3],
    }
}
