//! Request ids in the raw heads of a recording: the truth of stacks whose messages carry `rid=ID` or `rid:ID`.

use crate::marked::is_at;
use rustc_hash::{FxHashMap, FxHashSet};
use std::net::SocketAddr;
use wakepath_causality::exchange::ExchangeFlag;
use wakepath_causality::exchange::Side;
use wakepath_causality::path::Half;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{EndpointId, HostId};
use wakepath_model::rows::{self, Event, OPEN, Table, WitnessKind};

/// One direction at one endpoint.
type Way = (HostId, EndpointId, bool);

/// A request id by its index in the truth.
pub type Rid = u32;

/// What of a head's end is kept, for an id that the next head goes on with.
const TAIL: usize = 80;

/// Where which id stands.
#[derive(Default)]
pub struct Marks {
    ways: FxHashMap<Way, Vec<(u64, Rid)>>,
    /// By id: how many messages carried it, but for the first caller's own.
    below: Vec<u32>,
    /// By id: how often the first caller sent it.
    sent: Vec<u32>,
    heads: u64,
    /// Where messages end whose ends came after their heads, by where they begin: one may be over, with its reply, before that.
    ends: FxHashMap<(Way, u64), u64>,
}

/// The direction in which a half's request went.
fn way(h: &Half) -> Way {
    (h.host, h.exchange.flow, h.exchange.side == Side::Client)
}

/// Ids in some bytes, with their places.
fn ids<'a>(bytes: &'a [u8], rids: &'a FxHashMap<Vec<u8>, Rid>) -> impl Iterator<Item = (usize, Rid)> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at + 4 <= bytes.len() {
            let here = at;
            at += 1;
            if &bytes[here..here + 3] != b"rid" || !matches!(bytes[here + 3], b'=' | b':') {
                continue;
            }
            let id = &bytes[here + 4..];
            let end = id.iter().position(|b| !(b.is_ascii_alphanumeric() || b"_.-".contains(b)));
            // without its end, it may be the beginning of a longer one
            let Some(end) = end else { continue };
            if let Some(&rid) = rids.get(&id[..end]) {
                return Some((here, rid));
            }
        }
        None
    })
}

impl Marks {
    /// Reads the heads of a folder; `front` is where the first callers' requests go.
    pub fn read(folder: &Folder, rids: &FxHashMap<Vec<u8>, Rid>, front: &SocketAddr) -> Marks {
        let mut m = Marks { below: vec![0; rids.len()], sent: vec![0; rids.len()], ..Marks::default() };
        // an end that is older than the recording may be of neither side; replies carry no ids
        let mut servers: FxHashSet<(HostId, EndpointId)> = FxHashSet::default();
        let mut firsts: FxHashSet<(HostId, EndpointId)> = FxHashSet::default();
        for host in folder.hosts() {
            for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
                let Event::Endpoint(r) = event else { continue };
                if r.side == rows::Side::Server {
                    servers.insert((host.id(), r.flow));
                } else if is_at(r.raddr, r.rport, front) {
                    firsts.insert((host.id(), r.flow));
                }
            }
        }
        for host in folder.hosts() {
            for event in host.events(TableSet::of(&[Table::MessageEnd]), ..) {
                if let Event::MessageEnd(r) = event
                    && r.end != OPEN
                {
                    m.ends.entry(((host.id(), r.flow, r.sent == 1), r.start)).or_insert(r.end);
                }
            }
        }
        let mut tails: FxHashMap<Way, (u64, Vec<u8>)> = FxHashMap::default();
        for host in folder.hosts() {
            for head in host.heads(..) {
                m.heads += 1;
                let way = (host.id(), head.flow, head.sent);
                let (end, tail) = tails.entry(way).or_default();
                if *end != head.pos {
                    tail.clear();
                }
                let first = head.pos - tail.len() as u64;
                *end = head.pos + head.bytes.len() as u64;
                tail.extend_from_slice(&head.bytes);
                let list = m.ways.entry(way).or_default();
                for (at, rid) in ids(tail, rids) {
                    let pos = first + at as u64;
                    if list.last().is_some_and(|&(p, _)| p >= pos) {
                        continue;
                    }
                    list.push((pos, rid));
                    let end = (host.id(), head.flow);
                    if head.sent && firsts.contains(&end) {
                        m.sent[rid as usize] += 1;
                    } else if head.sent && !servers.contains(&end) {
                        m.below[rid as usize] += 1;
                    }
                }
                tail.drain(..tail.len().saturating_sub(TAIL));
            }
        }
        m.ways.retain(|_, list| !list.is_empty());
        for list in m.ways.values_mut() {
            list.sort_unstable();
        }
        m
    }

    /// How many heads there were.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// How many messages with this id were sent, but for the first caller's.
    pub fn below(&self, rid: Rid) -> u32 {
        self.below[rid as usize]
    }

    /// The id that a half's request carries.
    pub fn of(&self, h: &Half) -> Option<Rid> {
        let list = self.list(h)?;
        let (from, mut to) = (h.exchange.request.start, h.exchange.request.end);
        if to == OPEN {
            to = self.ends.get(&(way(h), from)).copied().unwrap_or(from + 1);
        }
        let i = list.partition_point(|&(p, _)| p < from);
        list.get(i).filter(|&&(p, _)| p < to).map(|&(_, rid)| rid)
    }

    /// Whose a request without an id is, on a connection that one caller at a time uses: the one's before it, or of
    /// the first, which opened the connection; or else [`Marks::next`].
    pub fn near(&self, h: &Half) -> Option<Rid> {
        let list = self.list_of_turns(h)?;
        let i = list.partition_point(|&(p, _)| p < h.exchange.request.start);
        list.get(i.saturating_sub(1)).map(|&(_, rid)| rid)
    }

    /// Whose it is otherwise: the one's after it, as a transaction's begin is the one's that goes on.
    pub fn next(&self, h: &Half) -> Option<Rid> {
        let list = self.list_of_turns(h)?;
        list.get(list.partition_point(|&(p, _)| p < h.exchange.request.start)).map(|&(_, rid)| rid)
    }

    /// What was said on a connection that callers use in turns. Where several use it at once, who is before or after a request says
    /// nothing of it.
    fn list_of_turns(&self, h: &Half) -> Option<&Vec<(u64, Rid)>> {
        let has_streams = h.exchange.content.witness.0 == WitnessKind::Http2;
        self.list(h).filter(|_| !h.exchange.flags.has(ExchangeFlag::UnclearBorders) && !has_streams)
    }

    fn list(&self, h: &Half) -> Option<&Vec<(u64, Rid)>> {
        self.ways.get(&way(h))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_whole_ids_only() {
        let rids: FxHashMap<Vec<u8>, Rid> = [(b"1-1".to_vec(), 0), (b"1-12".to_vec(), 1)].into_iter().collect();
        let found = |b: &[u8]| ids(b, &rids).collect::<Vec<_>>();
        assert_eq!(found(b"GET /x?rid=1-12 HTTP/1.1"), [(7, 1)]);
        assert_eq!(found(b"SELECT 1 /* rid=1-1 */"), [(12, 0)]);
        assert_eq!(found(b"rid:1-1\r\nrid=1-12\0"), [(0, 0), (9, 1)]);
        assert_eq!(found(b"GET /x?rid=1-1"), []);
        assert_eq!(found(b"GET /x?rid=9-9 "), []);
        assert_eq!(found(b"rid"), []);
    }
}
