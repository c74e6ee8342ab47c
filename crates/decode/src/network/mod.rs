//! The network vantage: packets in, flows and exchanges out.
//!
//! ```text
//! Packet ─► link, VLANs, tunnels ─► IP fragments ─► TCP in order, or datagrams ─► protocols ─► exchanges
//! ```

mod datagrams;
mod ends;
mod exchanges;
mod flows;
mod fragments;
mod link;
mod piece;
mod protocol_state;
mod row;
mod servers;
mod sniffed;
mod tcp;
mod timeline;
mod undecided;
mod unsure;

pub use ends::{Ends, EndsReader};
pub use sniffed::{Sniffed, SnifferOptions};

use crate::RowSink;
use flows::Flows;
pub(crate) use link::is_to_all;
use link::{Counts, Link};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::MonoNs;
use wakepath_wire::packet::Packet;

/// A packet whose time is further than this from those before it may be alone with that time, ns.
const JUMP_NS: u64 = 3600 * 1_000_000_000;

/// Later times (after 2262) are none.
const TIME_MAX_NS: u64 = i64::MAX as u64;

/// A packet whose time is far from those before it. The one behind it tells whether time goes on there.
struct Ahead {
    packet: Packet<'static>,
    bytes: Vec<u8>,
}

/// Makes flows and exchanges of one capture's packets.
pub struct Sniffer<S> {
    out: S,
    done: Sniffed,
    link: Link,
    counts: Counts,
    flows: Flows,
    ahead: Option<Box<Ahead>>,
    /// Time of the packet before.
    at: Option<u64>,
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
            ahead: None,
            at: None,
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

    /// Takes the next packet. Times may go back a little, as between the queues of a device, and jump: captures are put
    /// together, clocks are set, and bytes get damaged.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let packet = Packet { at_ns: packet.at_ns.min(TIME_MAX_NS), ..*packet };
        if let Some(ahead) = self.ahead.take() {
            let goes_on = packet.at_ns.abs_diff(ahead.packet.at_ns) <= JUMP_NS;
            self.arrive(&ahead, goes_on);
        }
        if self.at.is_some_and(|at| packet.at_ns.abs_diff(at) > JUMP_NS) {
            self.ahead = Some(Box::new(Ahead { packet: packet_about(&packet), bytes: packet.bytes.to_vec() }));
        } else {
            self.take(&packet);
        }
    }

    /// Takes a packet whose time was far from those before it. `goes_on`: it is near that of the packet after it.
    fn arrive(&mut self, ahead: &Ahead, goes_on: bool) {
        let before = self.at.unwrap_or(ahead.packet.at_ns);
        let mut packet = Packet { bytes: &ahead.bytes, ..ahead.packet };
        if !goes_on {
            self.out.count(defect::NET_TIME, MonoNs(before));
            packet.at_ns = before;
        } else if packet.at_ns < before {
            // Another capture, or the clock was set back: what was open then does not go on now.
            let Sniffer { out, done, link, counts, flows, .. } = self;
            link.finish(&mut |inner| flows.take(inner, out, done), counts);
            flows.restart(MonoNs(packet.at_ns), out, done);
        }
        self.take(&packet);
    }

    fn take(&mut self, packet: &Packet<'_>) {
        let Sniffer { out, done, link, counts, flows, .. } = self;
        let at = MonoNs(packet.at_ns);
        self.at = Some(packet.at_ns);
        done.packets += 1;
        done.bytes += u64::from(packet.length);
        done.first = if done.packets == 1 { at } else { done.first.min(at) };
        done.last = done.last.max(at);
        link.take(packet, &mut |inner| flows.take(inner, out, done), counts);
        (done.not_ip, done.fragments) = (counts.not_ip, counts.fragments);
        counts.take().for_each(|(defect, at)| out.count(defect, at));
        counts.take_unread().for_each(|unread| flows.unread(unread, out, done));
    }

    /// The source lost `count` packets between `from` and `at`: what spans that time is no longer certain. The numbers of
    /// TCP tell what is missing; of a datagram's question nobody knows any more that it had no answer.
    pub fn lost(&mut self, _from: MonoNs, at: MonoNs, _count: u64) {
        self.flows.lost(at);
    }

    /// It is `now`, and no packet came: what has been silent for long is forgotten, what is open is told.
    pub fn idle(&mut self, now: MonoNs) {
        if let Some(ahead) = self.ahead.take() {
            self.arrive(&ahead, now.0.abs_diff(ahead.packet.at_ns) <= JUMP_NS);
        }
        let now = MonoNs(now.0.min(TIME_MAX_NS));
        self.at = self.at.map(|at| at.max(now.0));
        let Sniffer { out, done, link, counts, flows, .. } = self;
        link.idle(now, &mut |inner| flows.take(inner, out, done), counts);
        counts.take().for_each(|(defect, at)| out.count(defect, at));
        counts.take_unread().for_each(|unread| flows.unread(unread, out, done));
        flows.idle(now, out, done);
    }

    /// The capture ended: tells of all that is open.
    pub fn finish(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            let is_later = self.at.is_none_or(|at| ahead.packet.at_ns > at);
            self.arrive(&ahead, is_later);
        }
        let Sniffer { out, done, link, counts, flows, .. } = self;
        link.finish(&mut |inner| flows.take(inner, out, done), counts);
        counts.take().for_each(|(defect, at)| out.count(defect, at));
        counts.take_unread().for_each(|unread| flows.unread(unread, out, done));
        flows.finish(out, done);
    }
}

/// A packet without its bytes.
fn packet_about(packet: &Packet<'_>) -> Packet<'static> {
    let Packet { at_ns, link, interface, length, .. } = *packet;
    Packet { at_ns, link, interface, length, bytes: &[] }
}
