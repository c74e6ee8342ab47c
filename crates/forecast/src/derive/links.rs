//! What is between hosts: how long a packet is on its way, and how long connecting took.
//!
//! Both are read off handshakes. The SYN-ACK reaches the client and its answer, sent at once, the server: the time between
//! the two is one way, there. From the call of `connect` until the SYN-ACK is both ways, and more where the SYN found no room
//! and was sent again. The least that was seen between two addresses counts, since everything else only adds.

use super::streams::Bulk;
use crate::system::retry_ns;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_analysis::spans::lay_out;
use wakepath_causality::path::Request;
use wakepath_flows::Place;
use wakepath_graph::Index;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{CommonNs, EndpointId, HostId};
use wakepath_model::rows::{EndpointRow, Event, LimitKind, OpKind, SeenHow, Table};

/// An endpoint of a host.
pub type At = (HostId, EndpointId);

/// First time-out after which a client sends its SYN again (RFC 6298, section 2.1; Linux's `TCP_TIMEOUT_INIT`).
pub const SYN_RETRY_NS: u64 = 1_000_000_000;
/// Who connects in order to ask asks at once: within so long (ns) and as long as connecting took.
const AT_ONCE_NS: u64 = 100_000_000;
/// Most connections of which the handshake is kept. Delays are those of all.
const KEPT_MAX: usize = 1 << 17;
/// Most pairs of addresses.
const WAYS_MAX: usize = 1 << 16;

/// How long a packet is on its way between two addresses, without waiting for anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// From the end that connects to the one that listens (ns).
    pub there_ns: u64,
    /// Back (ns).
    pub back_ns: u64,
}

/// How a client got its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// It called `connect`.
    pub at: CommonNs,
    /// It had its connection (ns later).
    pub took_ns: u64,
    /// Times that its SYN was sent again, as far as that can be told from how long it took.
    pub retries: u32,
}

type Addresses = ([u8; 16], [u8; 16]);

/// Least times seen between two addresses.
#[derive(Clone, Copy, Debug)]
struct Least {
    there_ns: Option<u64>,
    both_ns: Option<u64>,
    /// Handshakes of which `both_ns` is the least.
    count: u32,
}

/// What handshakes tell. Memory: some 100 bytes for each of the first 131,072 connections.
#[derive(Debug, Default)]
pub struct Links {
    connects: FxHashMap<At, Connect>,
    least: FxHashMap<Addresses, Least>,
    /// Of hosts that say, or whose kernel is known: see [`Links::syn_linear`].
    linear: FxHashMap<HostId, u8>,
    /// Connections whose handshake is not kept.
    more: u64,
}

/// A handshake's moments, each as far as it was seen.
#[derive(Clone, Copy, Default)]
struct Shake {
    called: Option<CommonNs>,
    connected: Option<CommonNs>,
    addresses: Addresses,
}

impl Links {
    /// Reads the handshakes of a folder.
    pub fn read(folder: &Folder, index: &Index) -> Links {
        let mut links = Links::default();
        let mut shakes: FxHashMap<At, Shake> = FxHashMap::default();
        let mut accepted: FxHashMap<At, CommonNs> = FxHashMap::default();
        for host in folder.hosts() {
            let id = host.id();
            links.linear.insert(id, usual_linear(&host.info().kernel_release));
            for event in host.events(TableSet::of(&[Table::Endpoint, Table::Op, Table::Limit]), ..) {
                match event {
                    Event::Limit(l) if l.kind == LimitKind::SynLinear => {
                        links.linear.insert(id, u8::try_from(l.value).unwrap_or(u8::MAX));
                    }
                    Event::Endpoint(r) => match r.how {
                        SeenHow::Connected if shakes.len() < KEPT_MAX || shakes.contains_key(&(id, r.flow)) => {
                            let shake = shakes.entry((id, r.flow)).or_default();
                            shake.connected = Some(index.common(id, r.at));
                            shake.addresses = addresses(&r);
                        }
                        SeenHow::Accepted if accepted.len() < KEPT_MAX => {
                            accepted.entry((id, r.flow)).or_insert_with(|| index.common(id, r.at));
                        }
                        SeenHow::Connected | SeenHow::Accepted => links.more += 1,
                        _ => {}
                    },
                    // of a call that did not wait, the row may come before the endpoint's
                    Event::Op(o)
                        if o.kind == OpKind::Connect
                            && (shakes.len() < KEPT_MAX || shakes.contains_key(&(id, o.flow))) =>
                    {
                        shakes.entry((id, o.flow)).or_default().called.get_or_insert(index.common(id, o.entry));
                    }
                    _ => {}
                }
            }
        }
        for (at, shake) in shakes {
            links.add(index, at, shake, &accepted);
        }
        links
    }

    fn add(&mut self, index: &Index, at: At, shake: Shake, accepted: &FxHashMap<At, CommonNs>) {
        let Some(connected) = shake.connected else { return };
        let both_ns = shake.called.and_then(|called| between(called, connected));
        let peer = index.end(at.0, at.1).filter(|e| e.peer.0 != 0).map(|e| (HostId(e.peer_host), e.peer));
        let is_comparable = |h: HostId| index.timeline().is_synchronised(at.0, h);
        let arrived = peer.filter(|p| is_comparable(p.0)).and_then(|p| accepted.get(&p));
        let there_ns = arrived.and_then(|&arrived| between(connected, arrived));
        if let (Some(called), Some(took_ns)) = (shake.called, both_ns) {
            let linear = self.linear.get(&at.0).copied().unwrap_or(0);
            self.connects.insert(at, Connect { at: called, took_ns, retries: retries(took_ns, linear) });
        }
        if shake.addresses == Addresses::default()
            || (self.least.len() >= WAYS_MAX && !self.least.contains_key(&shake.addresses))
        {
            return;
        }
        let none = Least { there_ns: None, both_ns: None, count: 0 };
        let least = self.least.entry(shake.addresses).or_insert(none);
        least.there_ns = [least.there_ns, there_ns].into_iter().flatten().min();
        least.both_ns = [least.both_ns, both_ns].into_iter().flatten().min();
        least.count += u32::from(both_ns.is_some());
    }

    /// How a connection was made, by its client's end; `None` where the call was not recorded.
    pub fn connect(&self, client: At) -> Option<Connect> {
        self.connects.get(&client).copied()
    }

    /// Of each request, how its connection was made, where it was made for it: it is the first on it and
    /// came at once. Requests come in order of time.
    pub fn opened(&self, index: &Index, requests: &[Request]) -> Vec<Option<Connect>> {
        let mut known: FxHashSet<At> = FxHashSet::default();
        let one = |r: &Request| {
            let root = r.spans.first()?;
            let client = match (&root.caller, &root.callee) {
                (Some(h), _) => (h.host, h.exchange.flow),
                (None, Some(h)) => {
                    let end = index.end(h.host, h.exchange.flow).filter(|e| e.peer.0 != 0)?;
                    (HostId(end.peer_host), end.peer)
                }
                (None, None) => return None,
            };
            let asked = index.common(root.callee.as_ref()?.host, lay_out(r).first()?.start);
            let is_at_once = |c: &Connect| {
                let late = asked.0.saturating_sub(c.at.0.saturating_add_unsigned(c.took_ns));
                late <= i64::try_from(AT_ONCE_NS + c.took_ns).unwrap_or(i64::MAX)
            };
            self.connect(client).filter(|c| known.insert(client) && is_at_once(c))
        };
        requests.iter().map(one).collect()
    }

    /// How many connections of which the call was seen took as long as those that ask more than once, and of how many.
    pub fn retried(&self) -> (u64, u64) {
        let retried = self.connects.values().filter(|c| c.retries > 0).count();
        (retried as u64, self.connects.len() as u64)
    }

    /// Times that the recorded clients send a SYN again after the same time before they double it: of those hosts that
    /// connected, the least.
    pub fn syn_linear(&self) -> u8 {
        let of = |at: &At| self.linear.get(&at.0).copied().unwrap_or(0);
        self.connects.keys().map(of).min().unwrap_or(0)
    }

    /// Connections whose handshake was not kept, since there were too many.
    pub fn more(&self) -> u64 {
        self.more
    }

    /// The way of a stream, from its sender to its reader, whichever of them connected.
    pub fn way_of_stream(&self, index: &Index, stream: &Bulk) -> Option<Way> {
        let [sender, reader] = [&stream.sender, &stream.reader].map(|s| (s.host, s.flow));
        self.way(index, sender, reader).or_else(|| {
            let way = self.way(index, reader, sender)?;
            Some(Way { there_ns: way.back_ns, back_ns: way.there_ns })
        })
    }

    /// The way between the two ends of a flow, from the end that connected; `None` where no handshake between their
    /// addresses was seen.
    pub fn way(&self, index: &Index, client: At, server: At) -> Option<Way> {
        let (c, s) = (index.end(client.0, client.1)?, index.end(server.0, server.1)?);
        self.least.get(&(s.raddr, c.raddr)).and_then(Least::way)
    }
}

impl Least {
    /// The way. The first connection between two hosts also waits until their hardware addresses are known, which no row
    /// tells: where there was but one, it is not believed beyond twice the one way.
    fn way(&self) -> Option<Way> {
        match (self.there_ns, self.both_ns) {
            (Some(there_ns), Some(both)) if self.count > 1 => {
                Some(Way { there_ns, back_ns: both.saturating_sub(there_ns) })
            }
            (Some(there_ns), Some(both)) => {
                Some(Way { there_ns, back_ns: both.saturating_sub(there_ns).min(there_ns) })
            }
            (Some(there_ns), None) => Some(Way { there_ns, back_ns: there_ns }),
            (None, Some(both)) => Some(Way { there_ns: both / 2, back_ns: both - both / 2 }),
            (None, None) => None,
        }
    }
}

fn addresses(r: &EndpointRow) -> Addresses {
    let place = Place::of(r);
    (place.laddr, place.raddr)
}

/// From a moment to a later one (ns); `None` where it is not later.
fn between(from: CommonNs, to: CommonNs) -> Option<u64> {
    u64::try_from(to.0.checked_sub(from.0)?).ok()
}

/// How often a SYN was sent again, if connecting took so long.
fn retries(took_ns: u64, linear: u8) -> u32 {
    const MOST: u32 = 255;
    let mut at = 0.0;
    let is_sent = |n: &u32| {
        at += retry_ns(SYN_RETRY_NS, linear, *n);
        at <= took_ns as f64
    };
    (1..=MOST).take_while(is_sent).count() as u32
}

/// How often a kernel sends a SYN again before it doubles the time, where nobody has set it: `tcp_syn_linear_timeouts`, which
/// came with Linux 6.5 (Documentation/networking/ip-sysctl.rst). Kernels before it, and unknown ones, double at once.
fn usual_linear(release: &str) -> u8 {
    const SINCE: (u32, u32) = (6, 5);
    const USUAL: u8 = 4;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= SINCE { USUAL } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_since_6_5_asks_five_times_a_second_apart() {
        for (release, linear) in
            [("6.5.0-rc1", 4), ("6.18.44", 4), ("7.0", 4), ("6.4.12", 0), ("5.12", 0), ("", 0), ("x", 0)]
        {
            assert_eq!(usual_linear(release), linear, "{release:?}");
        }
        let seconds = |s: u64, linear| retries(s * SYN_RETRY_NS + 7, linear);
        assert_eq!([0, 1, 2, 3, 6, 7, 14, 15].map(|s| seconds(s, 0)), [0, 1, 1, 2, 2, 3, 3, 4]);
        assert_eq!([0, 1, 2, 5, 6, 7, 10, 11].map(|s| seconds(s, 4)), [0, 1, 2, 5, 5, 6, 6, 7]);
    }
}
