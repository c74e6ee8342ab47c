//! Packets of imported traces.

use super::names;
use crate::ids::{MonoNs, TaskId};
use crate::table::{Kind, optional};
use crate::{codes, table};

codes! {
    /// In whose name a packet was handled.
    PacketContext(u8) {
        /// A task's own call.
        Task = 0 => "task",
        /// Network softirq.
        Net = 1 => "net",
        /// Timer: an hrtimer or the timer softirq (retransmission, delayed acknowledgement).
        Timer = 2 => "timer",
        /// Another interrupt.
        Irq = 3 => "irq",
    }
}

table! {
    /// A packet that a host sent or received, as an imported trace saw it. The same packet has the same `key` on both hosts.
    PacketRow {
        /// When it was handed to the device, or taken from it.
        at: MonoNs,
        /// Its number among the packets of this host, from 1.
        id: u64 => named("packet"),
        /// What is the same of this packet on all hosts that see it: a hash of addresses (where known), ports, sequence
        /// number, acknowledgement, flags and length of a TCP segment; of addresses, ports, IP id and length of a datagram.
        key: u64,
        /// The [`PacketRow::id`] of the received packet that was being handled when this one was sent from a softirq
        /// (an acknowledgement, a SYN-ACK); 0 = none.
        trigger: u64 => none(0),
        /// A hash of the flow, the same in both directions and on both hosts; 0 where the trace names neither addresses
        /// nor ports.
        flow: u64 => none(0),
        /// Local or first address (IPv4 in the first four bytes); zero where the trace does not say.
        saddr: [u8; 16] => also(&[optional("saddr", Kind::Text, " The address.", |r| names::address(r.family(), r.saddr))]),
        /// Remote or second address.
        daddr: [u8; 16] => also(&[optional("daddr", Kind::Text, " The address.", |r| names::address(r.family(), r.daddr))]),
        /// TCP sequence number.
        seq: u32,
        /// TCP acknowledgement number.
        ack: u32,
        /// Bytes of payload, all ones where not known.
        payload: u32 => named("payload_bytes").none(0xffff_ffff),
        /// The task that was current. It is the sender only where `context` is [`PacketContext::Task`].
        task: TaskId,
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
        /// Processor.
        cpu: u16,
        /// TCP flags as on the wire (1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK).
        flags: u16 => named("tcp_flags"),
        /// 1 = sent, 0 = received.
        sent: u8 => flag(),
        /// In whose name it was handled.
        context: PacketContext,
        /// IP protocol, 0 where not known.
        protocol: u8 => named("ip_protocol").words_or_none(names::ip_protocol),
        /// 4 or 6, 0 where not known.
        ip: u8 => hidden(),
        /// Zero.
        pad: [u8; 4],
    }
}

impl PacketRow {
    /// The family of its addresses, 0 where it has none.
    pub(crate) fn family(&self) -> u16 {
        match self.ip {
            0 => 0,
            6 => 10,
            _ => 2,
        }
    }
}
