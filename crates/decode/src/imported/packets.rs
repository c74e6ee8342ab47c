//! Packets of an imported trace: one row for each packet and direction, with a key that both hosts agree on.

use super::cpu::Cpu;
use super::received::{FLAGS, TCP, Taken, Waiting, protocol, same};
use crate::raw::Packet;
use fnv::FnvHasher;
use std::hash::Hasher as _;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::PacketRow;

const UDP: u8 = 17;
/// The packets of one host.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// Rows made.
    pub count: u64,
}

impl Packets {
    /// Takes a packet event, and gives up to two rows.
    pub fn packet(&mut self, at: MonoNs, cpu: u16, task: TaskId, c: &mut Cpu, p: &Packet) -> [Option<PacketRow>; 2] {
        if p.sent { self.sent(at, cpu, task, c, p) } else { [self.taken(at, cpu, task, c, p), None] }
    }

    fn taken(&mut self, at: MonoNs, cpu: u16, task: TaskId, c: &mut Cpu, p: &Packet) -> Option<PacketRow> {
        if c.received.again(p) {
            return None;
        }
        let row = self.row(at, cpu, task, c, p);
        let id = row.map_or(0, |r| r.id);
        c.received.add(Taken { id, flow: flow(p), packet: *p, claimed: false });
        row
    }

    fn sent(&mut self, at: MonoNs, cpu: u16, task: TaskId, c: &mut Cpu, p: &Packet) -> [Option<PacketRow>; 2] {
        let waiting = c.leaving.take();
        if let Some(w) = waiting
            && !p.at_socket
            && same(&w.packet, p)
        {
            let (id, trigger) = (w.row.id, w.row.trigger);
            let row = PacketRow { id, trigger, ..fill(at, cpu, task, c, p) };
            return [Some(row), None];
        }
        let mut row = self.row(at, cpu, task, c, p);
        if let Some(r) = &mut row
            && c.receives()
        {
            r.trigger = c.received.trigger(r.flow, p);
        }
        let earlier = waiting.map(|w| w.row);
        match row {
            Some(row) if p.at_socket => {
                c.leaving = Some(Waiting { row, packet: *p });
                [earlier, None]
            }
            row => [earlier, row],
        }
    }

    fn row(&mut self, at: MonoNs, cpu: u16, task: TaskId, c: &Cpu, p: &Packet) -> Option<PacketRow> {
        // nothing to tell it by (ARP and the like): it would be taken for any other of its kind
        if p.ip == 0 && p.seq == 0 && p.ack == 0 && p.sport == 0 && p.dport == 0 {
            return None;
        }
        self.count += 1;
        Some(PacketRow { id: self.count, ..fill(at, cpu, task, c, p) })
    }
}

/// Whether a row is a datagram's whose ports the tracer did not write down.
pub(super) fn lacks_ports(row: &PacketRow) -> bool {
    row.protocol == UDP && (row.sport, row.dport) == (0, 0)
}

/// A packet that will not be seen at the device any more.
pub(super) fn left(c: &mut Cpu) -> Option<PacketRow> {
    c.leaving.take().map(|w| w.row)
}

fn fill(at: MonoNs, cpu: u16, task: TaskId, c: &Cpu, p: &Packet) -> PacketRow {
    PacketRow {
        at,
        id: 0,
        key: key(p),
        trigger: 0,
        flow: flow(p),
        saddr: p.saddr,
        daddr: p.daddr,
        seq: p.seq,
        ack: p.ack,
        payload: p.payload.unwrap_or(u32::MAX),
        task,
        sport: p.sport,
        dport: p.dport,
        cpu,
        flags: p.flags & 0x1ff,
        sent: p.sent.into(),
        context: c.packet_context(p.sent),
        protocol: protocol(p),
        ip: p.ip,
        ..Default::default()
    }
}

/// FNV-1a with a last mixing: stable, since keys of folders made at different times are compared.
struct Hash(FnvHasher);

impl Hash {
    fn new() -> Hash {
        Hash(FnvHasher::default())
    }
    fn add(mut self, bytes: &[u8]) -> Hash {
        self.0.write(bytes);
        self
    }
    fn end(self) -> u64 {
        let hash = self.0.finish();
        let x = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        // 0 means none
        (x ^ x >> 32).max(1)
    }
}

fn has_addresses(p: &Packet) -> bool {
    p.ip != 0
}

/// The same for both directions of a flow; 0 where neither addresses nor ports are known.
fn flow(p: &Packet) -> u64 {
    if !has_addresses(p) && p.sport == 0 && p.dport == 0 {
        return 0;
    }
    let (a, b) = ((p.saddr, p.sport), (p.daddr, p.dport));
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    let h = Hash::new().add(&[protocol(p), p.ip]);
    h.add(&a.0).add(&a.1.to_le_bytes()).add(&b.0).add(&b.1.to_le_bytes()).end()
}

/// Made only of what stays as it is on the way: no time to live, no checksum that a card may fill in.
fn key(p: &Packet) -> u64 {
    let protocol = protocol(p);
    let mut h = Hash::new().add(&[protocol, p.ip]).add(&p.saddr).add(&p.daddr);
    h = h.add(&p.sport.to_le_bytes()).add(&p.dport.to_le_bytes()).add(&p.payload.unwrap_or(u32::MAX).to_le_bytes());
    if protocol == TCP {
        h = h.add(&p.seq.to_le_bytes()).add(&p.ack.to_le_bytes()).add(&(p.flags & FLAGS).to_le_bytes());
        // without addresses, the window helps to tell connections apart
        if !has_addresses(p) {
            h = h.add(&p.window.to_le_bytes());
        }
    } else {
        h = h.add(&p.ip_id.to_le_bytes());
        if protocol != UDP {
            h = h.add(&p.seq.to_le_bytes());
        }
    }
    h.end()
}

#[cfg(test)]
mod tests {
    use super::super::cpu::Kind;
    use super::*;

    fn tcp(sent: bool, seq: u32) -> Packet {
        let (a, b) = ([10; 16], [11; 16]);
        Packet {
            sent,
            ip: 4,
            protocol: TCP,
            saddr: if sent { a } else { b },
            daddr: if sent { b } else { a },
            sport: if sent { 4000 } else { 80 },
            dport: if sent { 80 } else { 4000 },
            seq,
            ack: 1,
            flags: 0x5010,
            payload: Some(10),
            object: 0xff00 + u64::from(seq),
            ..Packet::default()
        }
    }

    fn feed(packets: &mut Packets, c: &mut Cpu, p: &Packet) -> Vec<PacketRow> {
        packets.packet(MonoNs(5), 0, TaskId(1), c, p).into_iter().flatten().collect()
    }

    #[test]
    fn both_hosts_give_a_packet_the_same_key_and_flow() {
        let sent = tcp(true, 7);
        let taken = Packet { sent: false, object: 99, window: 3, flags: 0x8010, ..sent };
        assert_eq!(key(&sent), key(&taken));
        assert_ne!(key(&sent), key(&tcp(true, 8)));
        assert_eq!(flow(&sent), flow(&tcp(false, 1)));
        assert_ne!(flow(&sent), flow(&Packet { sport: 4001, ..sent }));
        let bare = Packet { ip: 0, saddr: [0; 16], daddr: [0; 16], sport: 0, dport: 0, ..sent };
        assert_eq!(flow(&bare), 0);
        assert_ne!(key(&bare), key(&Packet { window: 9, ..bare }));
    }

    #[test]
    fn at_the_socket_and_at_the_device_it_is_one_packet() {
        let (mut packets, mut c) = (Packets::default(), Cpu::default());
        let device = tcp(true, 7);
        let socket = Packet { at_socket: true, object: 1, protocol: 0, ip: 0, sport: 0, dport: 0, ..device };
        assert!(feed(&mut packets, &mut c, &socket).is_empty());
        let rows = feed(&mut packets, &mut c, &device);
        assert_eq!((rows.len(), rows[0].id, rows[0].sport), (1, 1, 4000));
        assert!(left(&mut c).is_none());
        // the device does not follow: it is written as it was
        assert!(feed(&mut packets, &mut c, &socket).is_empty());
        assert!(feed(&mut packets, &mut c, &Packet { seq: 8, ..socket }).iter().map(|r| r.id).eq([2]));
        assert!(left(&mut c).map(|r| r.id) == Some(3));
    }

    #[test]
    fn one_packet_wakes_once_and_answers_go_to_their_own_flow() {
        let (mut packets, mut c) = (Packets::default(), Cpu::default());
        c.enter(Kind::Softirq(3));
        let first = tcp(false, 7);
        let other = Packet { dport: 4001, object: 77, ..first };
        assert_eq!(feed(&mut packets, &mut c, &first)[0].id, 1);
        assert_eq!(feed(&mut packets, &mut c, &other)[0].id, 2);
        // the first one goes on to its socket
        assert!(feed(&mut packets, &mut c, &Packet { at_socket: true, object: 5, ..first }).is_empty());
        assert_eq!(c.received.claim(), Some(1));
        assert_eq!(c.received.claim(), None);
        let answer = feed(&mut packets, &mut c, &Packet { sport: 4001, ..tcp(true, 1) });
        assert_eq!(answer[0].trigger, 2);
        let unknown = Packet { seq: 0, ack: 0, sport: 0, dport: 0, ip: 0, object: 6, ..first };
        assert!(feed(&mut packets, &mut c, &unknown).is_empty());
        assert_eq!(c.received.claim(), None);
        c.exit(MonoNs(5), Kind::Softirq(3), false);
        assert_eq!(feed(&mut packets, &mut c, &tcp(true, 2))[0].trigger, 0);
    }
}
