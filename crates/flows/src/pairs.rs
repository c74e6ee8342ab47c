//! The two ends of a flow: by addresses and sequence numbers, by the numbers of the first bytes alone where addresses are
//! translated, by the kernel's own naming of UNIX peers.

use crate::per_end::End;
use crate::per_end::PerEnd;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wakepath_model::ids::{HostId, StrId};
use wakepath_model::rows::{EndpointRow, SeenHow, Side, TcpState};

/// What is needed of an endpoint after its row is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Local address.
    pub laddr: [u8; 16],
    /// Remote address.
    pub raddr: [u8; 16],
    /// Local port.
    pub lport: u16,
    /// Remote port.
    pub rport: u16,
    /// Address family.
    pub family: u16,
    /// IP protocol.
    pub protocol: u16,
    /// Network namespace.
    pub netns: u32,
    /// Of a UNIX socket's client, the path that it connects to (an abstract name begins with `@`), empty where none.
    pub path: StrId,
}

/// The socket API's number of multipath TCP.
const IPPROTO_MPTCP: u16 = 262;

impl Place {
    /// Whether it is a multipath connection: packets of its paths have addresses of their own, so its ends are not paired.
    pub fn is_multipath(&self) -> bool {
        self.protocol == IPPROTO_MPTCP
    }

    /// Whether it is a UNIX socket.
    pub fn is_unix(&self) -> bool {
        self.family == AF_UNIX
    }

    /// Whether no address of the other end was recorded, and the connection is no UNIX socket's.
    pub fn is_peer_unknown(&self) -> bool {
        !self.is_unix() && self.rport == 0 && self.raddr == [0; 16]
    }

    /// Of an announcement; IPv4 addresses mapped into IPv6 are IPv4.
    pub fn of(r: &EndpointRow) -> Place {
        Place {
            laddr: plain(r.family, r.laddr),
            raddr: plain(r.family, r.raddr),
            lport: r.lport,
            rport: r.rport,
            family: if r.family == AF_INET6 && is_mapped(&r.laddr) { AF_INET } else { r.family },
            protocol: r.protocol,
            netns: r.netns,
            // of what is no client's, the path is its own
            path: if r.family == AF_UNIX && r.side == Side::Client { r.path } else { StrId::EMPTY },
        }
    }

    fn key(&self) -> Key {
        (self.laddr, self.lport, self.raddr, self.rport, self.protocol)
    }

    fn mirrored(&self) -> Key {
        (self.raddr, self.rport, self.laddr, self.lport, self.protocol)
    }
}

type Key = ([u8; 16], u16, [u8; 16], u16, u16);

/// How two ends were found to be one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Same addresses, mirrored; sequence numbers agree.
    Addresses,
    /// The first bytes' sequence numbers in both directions alone: 64 bits that both hosts drew by lot.
    Translated,
    /// UNIX peers.
    Peers,
}

/// What shows that the task at an end is watched.
#[derive(Default)]
struct Watched {
    /// A call was seen to begin on it.
    calls: bool,
    /// A request was seen to be served on it.
    serves: bool,
    /// Calls seen on it that nobody's request made, and calls that one did.
    root_calls: bool,
    made_calls: bool,
}

#[derive(Default)]
struct Known<W> {
    /// It was announced, and not forgotten since; else only what is at work on it is known.
    is_announced: bool,
    place: Place,
    snd: u32,
    /// `None` where the other end had not answered yet.
    rcv: Option<u32>,
    /// The first numbers of both directions, of one that is older than its announcement.
    first: Option<(u32, u32)>,
    fresh: bool,
    /// Only its peer was announced.
    is_named: bool,
    peer: Option<(End, How)>,
    /// Where all that it ever sent ends, once it is over.
    sent_to: Option<u32>,
    watched: Watched,
    /// Several requests use it at once, and nobody knows its protocol.
    is_shared: bool,
    at_work: W,
}

impl<W> Known<W> {
    /// The first numbers of both directions, where they are known.
    fn numbers(&self) -> Option<(u32, u32)> {
        if self.fresh { Some((self.snd, self.rcv?)) } else { self.first }
    }
}

/// What is at work on an endpoint, of whoever pairs endpoints: kept beside what is known of it, also before it is announced and after it is
/// gone.
pub trait Working: Default {
    /// Whether nothing is.
    fn is_none(&self) -> bool;
}

impl Working for () {
    fn is_none(&self) -> bool {
        true
    }
}

/// Pairs endpoints as they come. Bounded: endpoints whose flow is gone are forgotten, oldest first.
#[derive(Default)]
pub struct Pairs<W = ()> {
    known: PerEnd<Known<W>>,
    /// Ends whose other end is not known.
    by_key: FxHashMap<Key, SmallVec<[End; 1]>>,
    by_numbers: FxHashMap<(u32, u32), End>,
    /// Socket of a per-peer datagram endpoint, and UNIX ends that wait for their peer.
    unix: FxHashMap<End, End>,
}

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const TCP: u16 = 6;
const UDP: u16 = 17;
/// Ends of one flow are first seen at moments between which at most this many bytes move.
const NEAR: u32 = 64 << 20;

fn is_mapped(a: &[u8; 16]) -> bool {
    a[..10] == [0; 10] && a[10..12] == [0xff, 0xff]
}

/// IPv4 in the first four bytes, also where a socket of the other family carries it.
fn plain(family: u16, a: [u8; 16]) -> [u8; 16] {
    let mut out = a;
    if family == AF_INET6 && is_mapped(&a) {
        out = [0; 16];
        out[..4].copy_from_slice(&a[12..]);
    }
    out
}

fn distance(a: u32, b: u32) -> u32 {
    (a.wrapping_sub(b) as i32).unsigned_abs()
}

fn is_ahead(a: u32, of: u32) -> bool {
    a.wrapping_sub(of) as i32 > 0
}

impl<W: Working> Pairs<W> {
    /// An endpoint was announced.
    pub fn add(&mut self, host: HostId, r: &EndpointRow) {
        let end = (host, r.flow);
        if r.state == TcpState::Listen {
            return;
        }
        if let Some(k) = self.known.get_mut(end).filter(|k| k.peer.is_some()) {
            k.is_named = false;
            return;
        }
        let place = Place::of(r);
        let fresh = r.how == SeenHow::Connected || r.how == SeenHow::Accepted;
        let (snd, rcv) = (r.snd as u32, (r.state != TcpState::SynSent).then_some(r.rcv as u32));
        let told = (r.snd_first != 0 && r.rcv_first != 0).then_some((r.snd_first as u32, r.rcv_first as u32));
        // of one that is told again, the first numbers are still those
        let first = self.known.get(end).and_then(|k| k.first).or(told);
        let announced = Known { is_announced: true, place, snd, rcv, first, fresh, ..Known::default() };
        let numbers = announced.numbers().filter(|_| r.protocol == TCP);
        if self.announce(end, announced) && r.family != AF_UNIX {
            self.by_key.entry(place.key()).or_default().push(end);
        }
        if r.family == AF_UNIX {
            if r.peer.0 != 0 {
                let other = (host, r.peer);
                self.unix.insert(end, other);
                self.unix.insert(other, end);
                if self.announced(other).is_none() {
                    let named =
                        Known { is_announced: true, place, snd, rcv, fresh, is_named: true, ..Known::default() };
                    self.announce(other, named);
                }
                self.join(end, other, How::Peers);
            } else if let Some(&other) = self.unix.get(&end) {
                self.join(end, other, How::Peers);
            }
            return;
        }
        let candidates = self.by_key.get(&place.mirrored()).map_or(&[][..], |v| &v[..]);
        let best = candidates
            .iter()
            .filter(|&&c| c != end)
            .filter_map(|&c| {
                let k = self.announced(c).filter(|k| k.peer.is_none())?;
                let apart = |rcv: Option<u32>, snd| rcv.map_or(0, |rcv| distance(rcv, snd));
                let far = if r.protocol == UDP { 0 } else { apart(k.rcv, snd).max(apart(rcv, k.snd)) };
                // one that only begins to connect here was met by nobody on this host before, and numbers of a connection
                // that had the same ports until shortly are near: the kernel goes on from them (RFC 6191)
                let begins = rcv.is_none() && c.0 == host;
                let limit = if fresh && k.fresh || begins { 0 } else { NEAR };
                let is_older = rcv.zip(k.sent_to).is_some_and(|(received, sent)| is_ahead(received, sent));
                // the same loopback addresses exist in every namespace
                (far <= limit
                    && !is_older
                    && (r.protocol != UDP || k.place.netns == place.netns || !is_loopback(&place)))
                .then_some((far, c))
            })
            .min();
        if let Some((_, other)) = best {
            self.join(end, other, How::Addresses);
            return;
        }
        let Some((snd, rcv)) = numbers else { return };
        match self.translated(end, snd, rcv) {
            Some(other) => self.join(end, other, How::Translated),
            None => _ = self.by_numbers.insert((snd, rcv), end),
        }
    }

    /// The end whose first numbers are these, mirrored. Who connected may be known by its SYN's, which is one less.
    fn translated(&self, end: End, snd: u32, rcv: u32) -> Option<End> {
        let syn_or_byte = [(0, 0), (0, 1), (1, 0), (1, 1)];
        syn_or_byte.into_iter().find_map(|(sent, received)| {
            let mirrored = (rcv.wrapping_sub(sent), snd.wrapping_add(received));
            let other = self.by_numbers.get(&mirrored).copied().filter(|&other| other != end)?;
            self.announced(other).is_some_and(|k| k.peer.is_none()).then_some(other)
        })
    }

    fn announced(&self, end: End) -> Option<&Known<W>> {
        self.known.get(end).filter(|k| k.is_announced)
    }

    /// What is known of an endpoint from here on; true where it was not announced before.
    fn announce(&mut self, end: End, known: Known<W>) -> bool {
        let k = self.known.or_insert_with(end, Known::default);
        let before = std::mem::replace(k, known);
        k.at_work = before.at_work;
        !before.is_announced
    }

    /// Forgets what was announced of an endpoint.
    fn take(&mut self, end: End) -> Option<Known<W>> {
        let mut k = self.known.remove(end)?;
        let at_work = std::mem::take(&mut k.at_work);
        if !at_work.is_none() {
            self.known.or_insert_with(end, Known::default).at_work = at_work;
        }
        Some(k).filter(|k| k.is_announced)
    }

    /// What is at work on an endpoint.
    pub fn at_work(&self, end: End) -> Option<&W> {
        self.known.get(end).map(|k| &k.at_work)
    }

    /// What is at work on an endpoint changes.
    pub fn work<T>(&mut self, end: End, change: impl FnOnce(&mut W) -> T) -> T {
        let k = self.known.or_insert_with(end, Known::default);
        let out = change(&mut k.at_work);
        if !k.is_announced && k.at_work.is_none() {
            self.known.remove(end);
        }
        out
    }

    fn join(&mut self, a: End, b: End, how: How) {
        for (x, y) in [(a, b), (b, a)] {
            if let Some(k) = self.known.get_mut(x) {
                k.peer = Some((y, how));
                let (place, numbers) = (k.place, k.numbers());
                self.unlist(x, &place);
                self.unlist_numbers(x, numbers);
            }
        }
    }

    /// Nobody looks for the end by its addresses any more.
    fn unlist(&mut self, end: End, place: &Place) {
        let key = place.key();
        if let Some(list) = self.by_key.get_mut(&key) {
            list.retain(|e| *e != end);
            if list.is_empty() {
                self.by_key.remove(&key);
            }
        }
    }

    /// Nor by its numbers.
    fn unlist_numbers(&mut self, end: End, numbers: Option<(u32, u32)>) {
        if let Some(numbers) = numbers.filter(|numbers| self.by_numbers.get(numbers) == Some(&end)) {
            self.by_numbers.remove(&numbers);
        }
    }

    /// The other end, where it is watched.
    pub fn peer(&self, end: End) -> Option<(End, How)> {
        self.known.get(end)?.peer
    }

    /// A call of the endpoint was explained: as nobody's request's, or as one's.
    pub fn called(&mut self, end: End, is_root: bool) {
        if let Some(k) = self.known.get_mut(end) {
            k.watched.root_calls |= is_root;
            k.watched.made_calls |= !is_root;
        }
    }

    /// A call began on the endpoint.
    pub fn calling(&mut self, end: End) {
        if let Some(k) = self.known.get_mut(end) {
            k.watched.calls = true;
        }
    }

    /// Several requests use the endpoint at once, and nobody knows its protocol.
    pub fn shared(&mut self, end: End) {
        if let Some(k) = self.known.get_mut(end) {
            k.is_shared = true;
        }
    }

    /// Whether several requests use the endpoint at once, as far as was seen, and nobody knows its protocol.
    pub fn is_shared(&self, end: End) -> bool {
        self.announced(end).is_some_and(|k| k.is_shared)
    }

    /// Whether any call was ever seen on the endpoint: one that is announced may still be outside the selection.
    pub fn is_calling(&self, end: End) -> bool {
        self.announced(end).is_some_and(|k| k.watched.calls)
    }

    /// A request began to be served on the endpoint.
    pub fn serving(&mut self, end: End) {
        if let Some(k) = self.known.get_mut(end) {
            k.watched.serves = true;
        }
    }

    /// Whether any request was ever seen to be served on the endpoint.
    pub fn is_serving(&self, end: End) -> bool {
        self.announced(end).is_some_and(|k| k.watched.serves)
    }

    /// Whether all calls seen of an endpoint were nobody's request's.
    pub fn calls_roots_only(&self, end: End) -> bool {
        self.announced(end).is_some_and(|k| k.watched.root_calls && !k.watched.made_calls)
    }

    /// Where an endpoint is.
    pub fn place(&self, end: End) -> Place {
        self.known.get(end).map(|k| k.place).unwrap_or_default()
    }

    /// The endpoint's connection is over; all that it sent ends at `sent_to`, 0 where that was not told. Whoever has received
    /// more is no other end of it.
    pub fn over(&mut self, end: End, sent_to: u64) {
        if let Some(k) = self.known.get_mut(end).filter(|k| k.peer.is_none() && sent_to != 0) {
            k.sent_to = Some(sent_to as u32);
        }
    }

    /// Nothing will be asked of it any more.
    pub fn forget(&mut self, end: End) {
        if let Some(k) = self.take(end) {
            if k.peer.is_none() {
                self.unlist(end, &k.place);
            }
            self.unlist_numbers(end, k.numbers());
        }
        if let Some(other) = self.unix.remove(&end)
            && self.announced(other).is_some_and(|k| k.is_named)
        {
            self.take(other);
            self.unix.remove(&other);
        }
    }

    /// Whether the endpoint was announced, and not forgotten since.
    pub fn knows(&self, end: End) -> bool {
        self.announced(end).is_some()
    }
}

/// Whether both ends are on one host for certain.
pub fn is_loopback(p: &Place) -> bool {
    match p.family {
        AF_INET => p.laddr[0] == 127,
        _ => p.laddr[..15] == [0; 15] && p.laddr[15] == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_model::ids::{EndpointId, MonoNs};

    #[test]
    fn of_a_unix_client_it_is_kept_where_it_connects_to() {
        let row = EndpointRow { family: AF_UNIX, path: StrId(7), side: Side::Client, ..Default::default() };
        assert_eq!(Place::of(&row).path, StrId(7));
        assert_eq!(Place::of(&EndpointRow { side: Side::Server, ..row }).path, StrId::EMPTY, "its own name");
        assert_eq!(Place::of(&EndpointRow { side: Side::Unknown, ..row }).path, StrId::EMPTY);
        assert_eq!(Place::of(&EndpointRow { family: AF_INET, ..row }).path, StrId::EMPTY);
    }

    /// A recording that begins amid a handshake knows the client's number alone; the server's end comes with both.
    #[test]
    fn a_connection_that_was_not_answered_yet_finds_its_other_end() {
        let place = |lport, rport| EndpointRow { family: AF_INET, protocol: 6, lport, rport, ..Default::default() };
        let asking = EndpointRow { flow: EndpointId(1), snd: 70, state: TcpState::SynSent, ..place(4000, 80) };
        let accepted =
            EndpointRow { flow: EndpointId(2), snd: 3 << 30, rcv: 70, how: SeenHow::Accepted, ..place(80, 4000) };
        for (first, then) in [(&asking, &accepted), (&accepted, &asking)] {
            let mut pairs: Pairs = Pairs::default();
            pairs.add(HostId(0), first);
            pairs.add(HostId(0), then);
            let found = pairs.peer((HostId(0), asking.flow));
            assert_eq!(found, Some(((HostId(0), accepted.flow), How::Addresses)));
        }
        // the ports may be another connection's, of before
        let mut pairs: Pairs = Pairs::default();
        pairs.add(HostId(0), &EndpointRow { snd: 1 << 30, ..asking });
        pairs.add(HostId(0), &accepted);
        assert_eq!(pairs.peer((HostId(0), asking.flow)), None);
    }

    /// The other end of a connection was lost, and its ports are used again before what is left of it is forgotten.
    #[test]
    fn what_is_left_of_a_connection_takes_no_end_of_the_next_one() {
        let place = |lport, rport| EndpointRow { family: AF_INET, protocol: 6, lport, rport, ..Default::default() };
        // numbers of a run: the kernel goes on 65,537 after what was sent before
        let left = EndpointRow { flow: EndpointId(1), snd: 5000, rcv: 7000, how: SeenHow::Met, ..place(80, 4000) };
        let asking =
            EndpointRow { flow: EndpointId(2), snd: 7091 + 65_537, how: SeenHow::Connected, ..place(4000, 80) };
        let asking = EndpointRow { state: TcpState::SynSent, ..asking };
        let accepted = EndpointRow { flow: EndpointId(3), snd: 90_000, rcv: asking.snd, ..left };
        let accepted = EndpointRow { how: SeenHow::Accepted, ..accepted };
        let host = HostId(0);
        let mut pairs: Pairs = Pairs::default();
        [&left, &asking, &accepted].iter().for_each(|r| pairs.add(host, r));
        assert_eq!(pairs.peer((host, asking.flow)), Some(((host, accepted.flow), How::Addresses)));
        assert_eq!(pairs.peer((host, left.flow)), None);
        // the same of one that was met later: what is left of the old one had sent all that it ever would
        let met = |snd| EndpointRow { snd, rcv: 5100, how: SeenHow::Met, state: TcpState::Established, ..asking };
        for (sent_to, expected) in [(5100, true), (5099, false), (5000 + 65_537, true), (0, true)] {
            let mut pairs: Pairs = Pairs::default();
            pairs.add(host, &left);
            pairs.over((host, left.flow), sent_to);
            pairs.add(host, &met(7091));
            assert_eq!(pairs.peer((host, left.flow)).is_some(), expected, "{sent_to}");
        }
        // one that another host met may be ahead by its clock
        let mut pairs: Pairs = Pairs::default();
        pairs.add(HostId(1), &left);
        pairs.add(host, &EndpointRow { snd: 6990, ..asking });
        assert!(pairs.peer((host, asking.flow)).is_some());
    }

    /// A pool behind a translated address that is older than the recording: its ends share no address, and bytes moved between
    /// their snapshots.
    #[test]
    fn a_translated_connection_that_is_older_than_the_recording_finds_its_other_end() {
        let met = EndpointRow { family: AF_INET, protocol: 6, how: SeenHow::Snapshot, ..Default::default() };
        let first = |seq: u64| (1 << 32) + seq;
        let asks = EndpointRow { flow: EndpointId(1), lport: 4000, rport: 50, snd: 900, rcv: 400, ..met };
        let asks = EndpointRow { snd_first: first(99), rcv_first: first(u64::from(u32::MAX)), ..asks };
        let answers = EndpointRow { flow: EndpointId(2), lport: 80, rport: 7, snd: 500, rcv: 920, ..met };
        let answers = EndpointRow { snd_first: first(u64::from(u32::MAX)), rcv_first: first(100), ..answers };
        let host = HostId(0);
        let peer = |rows: &[&EndpointRow]| {
            let mut pairs: Pairs = Pairs::default();
            rows.iter().for_each(|r| pairs.add(host, r));
            pairs.peer((host, EndpointId(1)))
        };
        let expected = Some(((host, answers.flow), How::Translated));
        assert_eq!(peer(&[&asks, &answers]), expected);
        assert_eq!(peer(&[&answers, &asks]), expected);
        // both by their first bytes, or either seen when it was made
        assert_eq!(peer(&[&EndpointRow { snd_first: first(100), ..asks }, &answers]), expected);
        let accepted = EndpointRow { how: SeenHow::Accepted, snd: u64::from(u32::MAX), rcv: 100, ..answers };
        assert_eq!(peer(&[&asks, &accepted]), expected);
        assert_eq!(peer(&[&accepted, &asks]), expected);
        // one number off in either direction, or not known
        assert_eq!(peer(&[&EndpointRow { snd_first: first(98), ..asks }, &answers]), None);
        assert_eq!(peer(&[&EndpointRow { snd_first: first(101), ..asks }, &answers]), None);
        assert_eq!(peer(&[&EndpointRow { rcv_first: first(1), ..asks }, &answers]), None);
        assert_eq!(peer(&[&EndpointRow { rcv_first: 0, ..asks }, &answers]), None);
    }

    #[test]
    fn pairs_of_unix_sockets_leave_nothing_behind() {
        let mut pairs: Pairs = Pairs::default();
        for i in 0..1000u64 {
            let (a, b) = (EndpointId(2 * i + 1), EndpointId(2 * i + 2));
            let row = EndpointRow { at: MonoNs(1), flow: a, peer: b, family: AF_UNIX, ..Default::default() };
            pairs.add(HostId(0), &row);
            assert_eq!(pairs.peer((HostId(0), b)), Some(((HostId(0), a), How::Peers)));
            if i % 2 == 0 {
                // both ends are told of, else only that there is another
                pairs.add(HostId(0), &EndpointRow { flow: b, peer: a, ..row });
                pairs.forget((HostId(0), b));
            }
            pairs.forget((HostId(0), a));
            assert!(!pairs.knows((HostId(0), a)) && !pairs.knows((HostId(0), b)));
        }
        assert!(pairs.known.count() == 0 && pairs.unix.is_empty() && pairs.by_key.is_empty());
    }
}
