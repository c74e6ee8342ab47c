//! Packets that a processor has just received, and one that it is about to send.

use crate::raw::Packet;
use wakepath_model::rows::PacketRow;

pub(super) const TCP: u8 = 6;
/// FIN, SYN, RST, PSH, ACK, URG: the flags that stay as they are under way.
pub(super) const FLAGS: u16 = 0x3f;
/// Received packets remembered in one softirq.
const RECEIVED_MAX: usize = 8;

/// A packet that the current softirq, or the current thread, received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Its row's id, 0 = it has none: nothing tells it from others.
    pub id: u64,
    pub flow: u64,
    pub packet: Packet,
    /// Whether it woke somebody.
    pub claimed: bool,
}

/// The latest packets that a softirq received, in order.
#[derive(Debug, Default)]
pub(super) struct Received {
    taken: [Taken; RECEIVED_MAX],
    count: usize,
}

impl Received {
    pub fn clear(&mut self) {
        self.count = 0;
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn add(&mut self, taken: Taken) {
        if self.count == RECEIVED_MAX {
            self.taken.rotate_left(1);
            self.count -= 1;
        }
        self.taken[self.count] = taken;
        self.count += 1;
    }

    /// The last packet, if it woke nobody yet and has a row.
    pub fn claim(&mut self) -> Option<u64> {
        let last = self.taken[..self.count].last_mut()?;
        let fresh = !std::mem::replace(&mut last.claimed, true);
        (fresh && last.id != 0).then_some(last.id)
    }

    /// If `packet` is one of these, seen again on its way up, makes it the last.
    pub fn again(&mut self, packet: &Packet) -> bool {
        let Some(i) = self.taken[..self.count].iter().rposition(|t| same(&t.packet, packet)) else {
            return false;
        };
        self.taken[i..self.count].rotate_left(1);
        true
    }

    /// The packet that one sent now answers: the last one of its flow.
    pub fn trigger(&self, flow: u64, packet: &Packet) -> u64 {
        let of_flow = |t: &&Taken| match (t.flow, flow) {
            (0, _) | (_, 0) => t.packet.object == packet.object || !(t.packet.at_socket && packet.at_socket),
            (a, b) => a == b,
        };
        self.taken[..self.count].iter().rev().find(of_flow).map_or(0, |t| t.id)
    }
}

/// A packet that was seen at its socket; the device comes next on the same processor, if the trace has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub row: PacketRow,
    pub packet: Packet,
}

/// Whether two events of one host and direction are of the same packet. One may say less than the other.
pub(super) fn same(a: &Packet, b: &Packet) -> bool {
    let either = |x: u16, y: u16| x == y || x == 0 || y == 0;
    match (a.at_socket, b.at_socket) {
        // once at its socket
        (true, true) => return false,
        (false, false) if a.object != b.object || a.object == 0 => return false,
        _ => {}
    }
    a.sent == b.sent
        && (a.seq, a.ack, a.flags & FLAGS) == (b.seq, b.ack, b.flags & FLAGS)
        && either(a.sport, b.sport)
        && either(a.dport, b.dport)
        && either(a.ip_id, b.ip_id)
        && (protocol(a) == protocol(b) || a.protocol == 0 || b.protocol == 0)
}

/// `inet_sock_local_*` do not name the protocol: they are TCP's.
pub(super) fn protocol(p: &Packet) -> u8 {
    if p.protocol == 0 && p.at_socket { TCP } else { p.protocol }
}
