//! Puts IP fragments together (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! They may come in any order, twice, and overlap as long as they agree. Those that do not agree take their datagram with them:
//! a host might have believed either.

use super::link::{Ip, Piece, Walk};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wakepath_model::ids::MonoNs;

/// After so long the missing fragments are not waited for any more, ns. On the way they are milliseconds apart; identifications
/// of 16 bits come again within seconds.
const TIME_MAX_NS: u64 = 2_000_000_000;
/// Bytes of a datagram, at most.
const DATAGRAM_MAX: u32 = 65_535;
/// What a datagram costs besides its bytes, about.
const OVERHEAD: usize = 256;
/// Holes in a datagram at once, at most.
const HOLES_MAX: usize = 128;
/// Buffers kept for datagrams to come.
const SPARE_MAX: usize = 16;

/// What fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    tunnel: u64,
    src: [u8; 16],
    dst: [u8; 16],
    id: u32,
    family: u16,
    /// 0 in IPv6, where it is no part of the identification.
    protocol: u8,
}

impl Key {
    fn of(walk: &Walk<'_>, piece: Piece) -> Key {
        let Ip { family, src, dst, protocol, .. } = walk.ip;
        let protocol = if family == super::link::FAMILY_IP4 { protocol } else { 0 };
        Key { tunnel: walk.tunnel, src, dst, id: piece.id, family, protocol }
    }
}

/// A datagram that is not whole yet.
struct Pending {
    serial: u64,
    /// What its first fragment said, when that has come.
    first: Option<First>,
    /// Its bytes, as far as any fragment reached.
    bytes: Vec<u8>,
    /// Which of them came: apart from each other and in order.
    ranges: Vec<(u32, u32)>,
    /// Where it ends, when its last fragment has come.
    end: Option<u32>,
    /// From here on not everything that came was captured.
    captured: u32,
    /// Bytes of its IP packets.
    wire_bytes: u32,
}

/// What a datagram's first fragment says of all.
#[derive(Clone, Copy)]
struct First {
    at: MonoNs,
    ip: Ip,
    headers: u32,
}

/// What became of a fragment.
pub(super) enum Added {
    /// Others are missing.
    Waits,
    /// It was the last that was missing.
    Whole(Datagram),
    /// It contradicts itself or others, which are forgotten with it.
    Contradicts,
}

/// A datagram that is whole, or given up.
pub(super) struct Datagram {
    /// When its last fragment came; of one given up, the first.
    at: MonoNs,
    bytes: Vec<u8>,
    length: u32,
    tunnel: u64,
    ip: Ip,
    headers: u32,
}

impl Datagram {
    pub(super) fn at(&self) -> MonoNs {
        self.at
    }

    /// What the fragments carried, as far as it is known from the begin on.
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk {
            reason: "",
            // what comes in fragments is no question to all
            to_all: false,
            bytes: &self.bytes,
            wire: self.length,
            at: self.at,
            tunnel: self.tunnel,
            ip: self.ip,
            headers: self.headers,
        }
    }
}

/// Fragments of datagrams that are not whole yet.
pub(super) struct Fragments {
    pending: FxHashMap<Key, Pending>,
    /// When each began, the oldest first; some are over already.
    begun: VecDeque<(MonoNs, u64, Key)>,
    serial: u64,
    held_bytes: usize,
    held_bytes_max: usize,
    spare: Vec<Vec<u8>>,
}

impl Fragments {
    /// Holds about `held_bytes_max` bytes at most, if [`Fragments::overdue`] is asked before each fragment.
    pub(super) fn new(held_bytes_max: usize) -> Fragments {
        Fragments {
            pending: FxHashMap::default(),
            begun: VecDeque::new(),
            serial: 0,
            held_bytes: 0,
            held_bytes_max,
            spare: Vec::new(),
        }
    }

    /// Takes a fragment: `walk` is at what it carries.
    pub(super) fn add(&mut self, walk: &Walk<'_>, piece: Piece) -> Added {
        let key = Key::of(walk, piece);
        let Fragments { pending, begun, serial, spare, .. } = self;
        let datagram = pending.entry(key).or_insert_with(|| {
            *serial += 1;
            begun.push_back((walk.at, *serial, key));
            self.held_bytes += OVERHEAD;
            Pending {
                serial: *serial,
                first: None,
                bytes: spare.pop().unwrap_or_default(),
                ranges: Vec::new(),
                end: None,
                captured: u32::MAX,
                wire_bytes: 0,
            }
        });
        let before = datagram.bytes.len();
        let agrees = datagram.add(walk, piece);
        self.held_bytes += datagram.bytes.len() - before;
        if agrees && !datagram.is_whole() {
            return Added::Waits;
        }
        match self.remove(&key) {
            Some(mut datagram) if agrees => match datagram.first {
                Some(First { ip, headers, .. }) => {
                    let length = datagram.end.unwrap_or_default();
                    datagram.bytes.truncate(length.min(datagram.captured) as usize);
                    let ip = Ip { wire_bytes: datagram.wire_bytes, ..ip };
                    Added::Whole(Datagram {
                        at: walk.at,
                        bytes: datagram.bytes,
                        length,
                        tunnel: key.tunnel,
                        ip,
                        headers,
                    })
                }
                None => Added::Contradicts,
            },
            Some(datagram) => {
                self.keep(datagram.bytes);
                Added::Contradicts
            }
            None => Added::Contradicts,
        }
    }

    /// Gives up a datagram that has waited too long at `now`, or for whose bytes there is no room: what is known of it, if its
    /// first fragment came. `None`: there is none left.
    pub(super) fn overdue(&mut self, now: MonoNs) -> Option<Option<Datagram>> {
        loop {
            let &(begun, serial, key) = self.begun.front()?;
            let is_pending = self.pending.get(&key).is_some_and(|p| p.serial == serial);
            let is_late = now.0 >= begun.0.saturating_add(TIME_MAX_NS);
            if is_pending && !is_late && self.held_bytes <= self.held_bytes_max {
                return None;
            }
            self.begun.pop_front();
            if !is_pending {
                continue;
            }
            let mut datagram = self.remove(&key)?;
            let Some(First { at, ip, headers }) = datagram.first else {
                self.keep(datagram.bytes);
                return Some(None);
            };
            let length = datagram.ranges.first().map_or(0, |&(_, end)| end);
            datagram.bytes.truncate(length.min(datagram.captured) as usize);
            let ip = Ip { wire_bytes: datagram.wire_bytes, ..ip };
            return Some(Some(Datagram { at, bytes: datagram.bytes, length, tunnel: key.tunnel, ip, headers }));
        }
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes back the memory of a datagram.
    pub(super) fn reuse(&mut self, datagram: Datagram) {
        self.keep(datagram.bytes);
    }

    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Pending> {
        let datagram = self.pending.remove(key)?;
        self.held_bytes -= datagram.bytes.len() + OVERHEAD;
        // What is over stays in the queue until its time has come: not more of that than of what is not over.
        if self.begun.len() > 2 * self.pending.len() + 1024 {
            let pending = &self.pending;
            self.begun.retain(|(_, serial, key)| pending.get(key).is_some_and(|p| p.serial == *serial));
        }
        Some(datagram)
    }
}

impl Pending {
    /// Puts a fragment where it belongs; `false` where it does not fit.
    fn add(&mut self, walk: &Walk<'_>, Piece { offset, last, .. }: Piece) -> bool {
        let Some(end) = offset.checked_add(walk.wire).filter(|&end| end <= DATAGRAM_MAX) else { return false };
        if self.ranges.len() > HOLES_MAX {
            return false;
        }
        // All but the last are of eights of bytes.
        if !last && (walk.wire == 0 || !walk.wire.is_multiple_of(8)) {
            return false;
        }
        let furthest = self.ranges.last().map_or(0, |&(_, end)| end);
        match self.end {
            Some(known) if end > known || last && end != known => return false,
            None if last && end < furthest => return false,
            _ => {}
        }
        if last {
            self.end = Some(end);
        }
        let captured = offset + walk.bytes.len() as u32;
        if self.bytes.len() < captured as usize {
            self.bytes.resize(captured as usize, 0);
        }
        let limit = self.captured.min(captured);
        for &(from, to) in &self.ranges {
            let (from, to) = (from.max(offset), to.min(end).min(limit));
            if from < to
                && self.bytes[from as usize..to as usize]
                    != walk.bytes[(from - offset) as usize..(to - offset) as usize]
            {
                return false;
            }
        }
        if captured < end {
            self.captured = limit;
        }
        self.bytes[offset as usize..captured as usize].copy_from_slice(walk.bytes);
        if offset == 0 && self.first.is_none() {
            self.first = Some(First { at: walk.at, ip: walk.ip, headers: walk.headers });
        }
        if self.insert(offset, end) {
            self.wire_bytes = self.wire_bytes.saturating_add(walk.ip.wire_bytes);
        }
        true
    }

    /// Notes that `from..to` came; whether any of it is new.
    fn insert(&mut self, mut from: u32, mut to: u32) -> bool {
        if self.ranges.iter().any(|&(begin, end)| begin <= from && to <= end) {
            return false;
        }
        self.ranges.retain(|&(begin, end)| {
            let is_apart = end < from || to < begin;
            if !is_apart {
                (from, to) = (from.min(begin), to.max(end));
            }
            is_apart
        });
        let place = self.ranges.partition_point(|&(begin, _)| begin < from);
        self.ranges.insert(place, (from, to));
        true
    }

    fn is_whole(&self) -> bool {
        matches!((&self.ranges[..], self.end), (&[(0, to)], Some(end)) if to == end)
    }
}
