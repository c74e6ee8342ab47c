//! Connections while their bytes are matched: which ends are whose, and what each sends.

use super::sighting::End;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Bytes of sequence numbers that two ends of one connection, met at different times, may be apart.
const NEAR: u32 = 64 << 20;

/// Bytes of a stream that were sent or received at once.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) host: usize,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) until: i64,
    pub(super) told: bool,
}

impl Piece {
    pub(super) fn contains(&self, byte: u32) -> bool {
        byte.wrapping_sub(self.start) < self.len
    }

    pub(super) fn overlaps(&self, other: &Piece) -> bool {
        self.contains(other.start) || other.contains(self.start)
    }
}

#[derive(Default)]
pub(super) struct Stream {
    pub(super) sent: VecDeque<Piece>,
    pub(super) received: VecDeque<Piece>,
    /// It stands in the queue of what is looked at when its window is over.
    pub(super) is_queued: bool,
}

impl Stream {
    pub(super) fn held(&self) -> usize {
        self.sent.len() + self.received.len()
    }
}

#[derive(Default)]
pub(super) struct Connection {
    /// The ends' hosts, in the order in which they became known.
    pub(super) hosts: [Option<usize>; 2],
    is_open: [bool; 2],
    numbers: (u32, u32),
    by_addresses: u64,
    by_numbers: Option<u64>,
    /// What each end sends.
    pub(super) streams: [Stream; 2],
}

impl Connection {
    pub(super) fn is_local(&self) -> bool {
        self.hosts[0] == self.hosts[1]
    }
}

/// All connections that are known.
#[derive(Default)]
pub(super) struct Connections {
    pub(super) all: FxHashMap<u64, Connection>,
    next: u64,
    /// Which connection, and which of its ends, a host's number is.
    pub(super) end_of: FxHashMap<(usize, u64), (u64, usize)>,
    by_addresses: FxHashMap<u64, u64>,
    by_numbers: FxHashMap<u64, u64>,
}

impl Connections {
    /// An end became known. How many pieces were given up: those of a connection of a host with itself.
    pub(super) fn opened(&mut self, host: usize, number: u64, end: &End) -> usize {
        if self.end_of.contains_key(&(host, number)) {
            return 0;
        }
        let numbers = end.by_numbers.map(|n| n.flow);
        let by_numbers = numbers.and_then(|n| self.by_numbers.get(&n)).copied();
        let by_addresses = self.by_addresses.get(&end.by_addresses.flow).copied();
        let (snd, rcv) = end.numbers;
        let has_room = |c: &&Connection| c.hosts[1].is_none();
        let is_near = |c: &&Connection| {
            let apart = |a: u32, b: u32| (a.wrapping_sub(b) as i32).unsigned_abs();
            let far = apart(c.numbers.0, rcv).max(apart(c.numbers.1, snd));
            far <= if numbers.is_some() && c.by_numbers.is_some() { 0 } else { NEAR }
        };
        let fits = |id: u64| self.all.get(&id).as_ref().filter(|c| has_room(c) && is_near(c)).is_some();
        if let Some(id) = by_numbers.filter(|id| fits(*id)).or(by_addresses.filter(|id| fits(*id)))
            && let Some(c) = self.all.get_mut(&id)
        {
            (c.hosts[1], c.is_open[1]) = (Some(host), true);
            let mut given_up = 0;
            if c.is_local() {
                for s in &mut c.streams {
                    given_up += s.held();
                    *s = Stream::default();
                }
            }
            self.end_of.insert((host, number), (id, 1));
            return given_up;
        }
        let id = self.next;
        self.next += 1;
        let c = Connection {
            hosts: [Some(host), None],
            is_open: [true, false],
            numbers: end.numbers,
            by_addresses: end.by_addresses.flow,
            by_numbers: numbers,
            streams: Default::default(),
        };
        self.all.insert(id, c);
        self.by_addresses.insert(end.by_addresses.flow, id);
        if let Some(n) = numbers {
            self.by_numbers.insert(n, id);
        }
        self.end_of.insert((host, number), (id, 0));
        0
    }

    /// An end is gone: its connection, where it is known.
    pub(super) fn closed(&mut self, host: usize, number: u64) -> Option<u64> {
        let (id, side) = self.end_of.remove(&(host, number))?;
        self.all.get_mut(&id)?.is_open[side] = false;
        Some(id)
    }

    /// Forgets a connection whose two ends are gone. How many pieces were given up.
    pub(super) fn forget_closed(&mut self, id: u64) -> usize {
        if self.all.get(&id).is_none_or(|c| c.is_open != [false; 2]) {
            return 0;
        }
        let Some(c) = self.all.remove(&id) else { return 0 };
        if self.by_addresses.get(&c.by_addresses) == Some(&id) {
            self.by_addresses.remove(&c.by_addresses);
        }
        if let Some(n) = c.by_numbers
            && self.by_numbers.get(&n) == Some(&id)
        {
            self.by_numbers.remove(&n);
        }
        c.streams.iter().map(Stream::held).sum()
    }
}
