//! The network vantage: packets in, flows and exchanges out.
//!
//! ```text
//! Packet ─► link, VLANs, tunnels ─► IP fragments ─► TCP in order, or datagrams ─► protocols ─► exchanges
//! ```

mod datagrams;
mod exchanges;
mod flows;
mod fragments;
mod link;
mod row;
mod talk;
mod tcp;
mod trail;
mod unsure;

use crate::RowSink;
use flows::Flows;
use link::{Counts, Link};
use wakepath_model::ids::MonoNs;
use wakepath_wire::packet::Packet;

/// Bounds of a sniffer's memory, and how often it tells of what goes on.
#[derive(Clone, Copy, Debug)]
pub struct SnifferOptions {
    /// Flows remembered at once; the one that was silent longest makes room.
    pub flows_max: usize,
    /// Bytes of segments and fragments held, of all flows together, until what lies before them comes.
    pub held_bytes_max: usize,
    /// How often a flow that goes on, and an exchange that stays open, are written again, ns.
    pub update_ns: u64,
    /// After how long a silent flow is forgotten, ns.
    pub idle_ns: u64,
}

impl Default for SnifferOptions {
    fn default() -> SnifferOptions {
        SnifferOptions {
            flows_max: 1 << 17,
            held_bytes_max: 64 << 20,
            update_ns: 5_000_000_000,
            idle_ns: 120_000_000_000,
        }
    }
}

/// What a sniffer has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sniffed {
    /// Packets given.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of them those that carry no IP: ARP, LLDP, spanning tree…
    pub not_ip: u64,
    /// Of them IP fragments.
    pub fragments: u64,
    /// Flows begun.
    pub flows: u64,
    /// Exchanges ended.
    pub exchanges: u64,
    /// Time of the first packet.
    pub first: MonoNs,
    /// Time of the latest packet.
    pub last: MonoNs,
}

/// Makes flows and exchanges of one capture's packets.
pub struct Sniffer<S> {
    out: S,
    done: Sniffed,
    link: Link,
    counts: Counts,
    flows: Flows,
}

impl<S: RowSink> Sniffer<S> {
    /// A sniffer that pushes its rows into `out`.
    pub fn new(out: S, options: SnifferOptions) -> Sniffer<S> {
        Sniffer {
            out,
            done: Sniffed::default(),
            link: Link::new(options.held_bytes_max),
            counts: Counts::default(),
            flows: Flows::new(options),
        }
    }

    /// Where the rows go.
    pub fn out(&mut self) -> &mut S {
        &mut self.out
    }

    /// What was seen so far.
    pub fn so_far(&self) -> Sniffed {
        self.done
    }

    /// Takes the next packet. Times may go back a little, as between the queues of a device.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let Sniffer { out, done, link, counts, flows } = self;
        let at = MonoNs(packet.at_ns);
        done.packets += 1;
        done.bytes += u64::from(packet.length);
        done.first = if done.packets == 1 { at } else { done.first.min(at) };
        done.last = done.last.max(at);
        link.take(packet, &mut |inner| flows.take(inner, out, done), counts);
        (done.not_ip, done.fragments) = (counts.not_ip, counts.fragments);
        counts.take().for_each(|(defect, at)| out.count(defect, at));
    }

    /// The source lost `count` packets between `from` and `at`: what spans that time is no longer certain. The numbers of
    /// TCP tell what is missing; of a datagram's question nobody knows any more that it had no answer.
    pub fn lost(&mut self, _from: MonoNs, at: MonoNs, _count: u64) {
        self.flows.lost(at);
    }

    /// It is `now`, and no packet came: what has been silent for long is forgotten, what is open is told.
    pub fn idle(&mut self, now: MonoNs) {
        let Sniffer { out, done, link, counts, flows } = self;
        link.idle(now, &mut |inner| flows.take(inner, out, done), counts);
        counts.take().for_each(|(defect, at)| out.count(defect, at));
        flows.idle(now, out, done);
    }

    /// The capture ended: tells of all that is open.
    pub fn finish(&mut self) {
        let Sniffer { out, done, link, counts, flows } = self;
        link.finish(&mut |inner| flows.take(inner, out, done), counts);
        counts.take().for_each(|(defect, at)| out.count(defect, at));
        flows.finish(out, done);
    }
}
