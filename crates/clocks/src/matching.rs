//! Finds what one host sent and another received, in one go over all hosts' sightings side by side.
//!
//! What is not matched is forgotten after a window (wait paper, section 3.6): after a coarse synchronisation a partner
//! that has not come by then will not come. What comes several times within the window under one name is matched in order where
//! one host sent it as often as one other received it. Otherwise the name is ambiguous and says nothing, so a retransmission is never
//! paired with an original that was lost; therefore a match is told when its window is over.

use super::connections::{Connections, Piece, Stream};
use super::sighting::{Evidence, Sighting};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Something sent by one host and received by another, with the hosts' own times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Sender and time.
    pub sent: (usize, u64),
    /// Receiver and time.
    pub received: (usize, u64),
    /// How it was recognised.
    pub evidence: Evidence,
    /// A further bound of a message that was told already.
    pub again: bool,
}

#[derive(Clone, Copy)]
struct Unit {
    sent: Seen,
    received: Seen,
    evidence: Evidence,
    carries: Option<(u64, u32, u32)>,
}

/// Most times that one name is matched: more often it is no name.
const TIMES_MAX: usize = 4;

/// How often and when something of one name was sent, or received.
#[derive(Clone, Copy, Default)]
struct Seen {
    host: usize,
    count: u32,
    /// The first ones, in order.
    at: [u64; TIMES_MAX],
    /// Several hosts saw it.
    is_of_several: bool,
}

impl Seen {
    fn add(&mut self, host: usize, at: u64) {
        self.is_of_several |= self.count > 0 && host != self.host;
        self.host = host;
        if let Some(place) = self.at.get_mut(self.count as usize) {
            *place = at;
        }
        self.count = self.count.saturating_add(1);
    }

    fn first(&self) -> Option<(usize, u64)> {
        (self.count > 0).then_some((self.host, self.at[0]))
    }

    /// Where it was sent as often as it was received: the times of both, in order.
    fn with(&self, received: &Seen) -> Option<impl Iterator<Item = (u64, u64)>> {
        let n = self.count as usize;
        let is_sure = self.count == received.count && n <= TIMES_MAX && !self.is_of_several && !received.is_of_several;
        is_sure.then(|| self.at.into_iter().zip(received.at).take(n))
    }
}

/// The matcher. Times by which things are forgotten are of the coarse line.
pub struct Matcher {
    /// How long things are kept; `None` keeps them until their partner comes, however long (one pass).
    window: Option<i64>,
    now: i64,
    units: FxHashMap<u64, Unit>,
    units_until: VecDeque<(i64, u64)>,
    connections: Connections,
    streams_until: VecDeque<(i64, u64)>,
    closed_until: VecDeque<(i64, u64)>,
    /// Packets that no other packet equals: by direction, matched by their bytes.
    packets: FxHashMap<u64, Stream>,
    packets_until: VecDeque<(i64, u64)>,
    pieces: usize,
    held_max: usize,
    /// Names that came twice, by sender and receiver.
    pub ambiguous: FxHashMap<(usize, usize), u64>,
}

impl Matcher {
    /// With a window (ns), or without one.
    pub fn new(window: Option<i64>) -> Matcher {
        Matcher {
            window,
            now: i64::MIN,
            units: FxHashMap::default(),
            units_until: VecDeque::new(),
            connections: Connections::default(),
            streams_until: VecDeque::new(),
            closed_until: VecDeque::new(),
            packets: FxHashMap::default(),
            packets_until: VecDeque::new(),
            pieces: 0,
            held_max: 0,
            ambiguous: FxHashMap::default(),
        }
    }

    /// Most entries held at once: unmatched things and open connections.
    pub fn held_max(&self) -> usize {
        self.held_max
    }

    /// A host saw something at a time of the coarse line.
    pub fn see(&mut self, host: usize, now: i64, sighting: &Sighting, out: &mut impl FnMut(Match)) {
        self.now = self.now.max(now);
        if self.window.is_some() {
            self.expire(self.now, out);
        }
        match *sighting {
            Sighting::Opened(number, end) => self.pieces -= self.connections.opened(host, number, &end),
            Sighting::Closed(number) => self.closed(host, number),
            Sighting::Bytes { end, sent, start, len, first, last } => {
                let piece = Piece { host, start, len, first, last, until: self.until(), told: false };
                self.bytes(end, sent, piece, out);
            }
            Sighting::Unit { key, sent, at, evidence, carries } => {
                self.unit(host, key, sent, at, evidence, carries, out);
            }
        }
        self.held_max = self.held_max.max(self.units.len() + self.pieces + self.connections.all.len());
    }

    /// Nothing more comes.
    pub fn finish(&mut self, out: &mut impl FnMut(Match)) {
        if self.window.is_some() {
            // twice: unmatched packets go on to be matched by their bytes
            self.expire(i64::MAX, out);
            self.expire(i64::MAX, out);
        }
    }

    fn until(&self) -> i64 {
        self.window.map_or(i64::MAX, |w| self.now.saturating_add(w))
    }

    fn expire(&mut self, now: i64, out: &mut impl FnMut(Match)) {
        while let Some((_, key)) = pop_if(&mut self.units_until, |e| e.0 < now) {
            if let Some(unit) = self.units.remove(&key) {
                self.tell_unit(&unit, out);
            }
        }
        while let Some((_, id)) = pop_if(&mut self.streams_until, |e| e.0 < now) {
            let Some(c) = self.connections.all.get_mut(&id) else { continue };
            for stream in &mut c.streams {
                for side in [&mut stream.sent, &mut stream.received] {
                    while pop_if(side, |p| p.until < now).is_some() {
                        self.pieces -= 1;
                    }
                }
            }
        }
        while let Some((_, direction)) = pop_if(&mut self.packets_until, |e| e.0 < now) {
            self.tell_packets(direction, now, out);
        }
        while let Some((_, id)) = pop_if(&mut self.closed_until, |e| e.0 < now) {
            self.pieces -= self.connections.forget_closed(id);
        }
    }

    fn closed(&mut self, host: usize, number: u64) {
        if let Some(id) = self.connections.closed(host, number) {
            // the other end's rows may be behind by the window
            self.closed_until.push_back((self.until(), id));
        }
    }

    fn bytes(&mut self, number: u64, sent: bool, piece: Piece, out: &mut impl FnMut(Match)) {
        let Some(&(id, side)) = self.connections.end_of.get(&(piece.host, number)) else { return };
        let Some(c) = self.connections.all.get_mut(&id) else { return };
        if c.is_local() {
            return;
        }
        let stream = &mut c.streams[if sent { side } else { 1 - side }];
        let before = stream.held();
        if sent {
            stream.sent.push_back(piece)
        } else {
            stream.received.push_back(piece)
        }
        if c.hosts[1].is_some() {
            join(stream, out);
        }
        self.pieces = self.pieces + stream.held() - before;
        if stream.held() > 0 && self.window.is_some() {
            self.streams_until.push_back((piece.until, id));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a sighting, taken apart")]
    fn unit(
        &mut self,
        host: usize,
        key: u64,
        sent: bool,
        at: u64,
        evidence: Evidence,
        carries: Option<(u64, u32, u32)>,
        out: &mut impl FnMut(Match),
    ) {
        let until = self.until();
        let mut is_new = false;
        let unit = self.units.entry(key).or_insert_with(|| {
            is_new = true;
            Unit { sent: Seen::default(), received: Seen::default(), evidence, carries }
        });
        if sent { &mut unit.sent } else { &mut unit.received }.add(host, at);
        if self.window.is_some() {
            if is_new {
                self.units_until.push_back((until, key));
            }
        } else if unit.sent.count > 0 && unit.received.count > 0 {
            let unit = *unit;
            self.units.remove(&key);
            self.tell_unit(&unit, out);
        }
    }

    fn tell_unit(&mut self, unit: &Unit, out: &mut impl FnMut(Match)) {
        match (unit.sent.first(), unit.received.first()) {
            (Some(sent), Some(received)) => {
                if sent.0 == received.0 {
                    return;
                }
                let Some(pairs) = unit.sent.with(&unit.received) else {
                    *self.ambiguous.entry((sent.0, received.0)).or_default() += 1;
                    return;
                };
                for (sent_at, received_at) in pairs {
                    let (sent, received) = ((sent.0, sent_at), (received.0, received_at));
                    out(Match { sent, received, evidence: unit.evidence, again: false });
                }
            }
            (Some((host, at)), None) | (None, Some((host, at))) => {
                let Some((direction, start, len)) = unit.carries else { return };
                if unit.sent.count + unit.received.count > 1 {
                    return;
                }
                let until = self.until();
                let piece = Piece { host, start, len, first: at, last: at, until, told: false };
                let stream = self.packets.entry(direction).or_default();
                if unit.sent.count > 0 {
                    stream.sent.push_back(piece)
                } else {
                    stream.received.push_back(piece)
                }
                self.pieces += 1;
                if !std::mem::replace(&mut stream.is_queued, true) {
                    self.packets_until.push_back((until, direction));
                }
            }
            (None, None) => {}
        }
    }

    /// Packets of a direction whose window is over: a received one bounds the latest of those whose bytes it has, if
    /// none of these bytes was sent or received twice.
    fn tell_packets(&mut self, direction: u64, now: i64, out: &mut impl FnMut(Match)) {
        let Some(stream) = self.packets.get_mut(&direction) else { return };
        while let Some(r) = pop_if(&mut stream.received, |p| p.until < now) {
            self.pieces -= 1;
            let parts: Vec<&Piece> = stream.sent.iter().filter(|s| s.overlaps(&r)).collect();
            let is_once = !stream.received.iter().any(|p| p.overlaps(&r))
                && parts
                    .iter()
                    .enumerate()
                    .all(|(i, p)| p.host == parts[0].host && !parts[..i].iter().any(|q| q.overlaps(p)));
            let last = r.start.wrapping_add(r.len - 1);
            let latest = parts.iter().find(|s| s.contains(last));
            match latest {
                Some(s) if is_once && s.host != r.host => out(Match {
                    sent: (s.host, s.last),
                    received: (r.host, r.last),
                    evidence: Evidence::PacketBytes,
                    again: false,
                }),
                Some(s) if s.host != r.host => *self.ambiguous.entry((s.host, r.host)).or_default() += 1,
                _ => {}
            }
        }
        // what was received may still need what was sent: that stays for as long again
        let keep = self.window.unwrap_or(0);
        while pop_if(&mut stream.sent, |p| p.until.saturating_add(keep) < now).is_some() {
            self.pieces -= 1;
        }
        if stream.held() == 0 {
            self.packets.remove(&direction);
        } else if now < i64::MAX {
            self.packets_until.push_back((now.saturating_add(keep), direction));
        }
    }
}

/// Takes the first one away if it is such a one.
fn pop_if<T>(queue: &mut VecDeque<T>, is_such: impl FnOnce(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(is_such) { queue.pop_front() } else { None }
}

/// Matches what can be matched of a stream: the first byte of a receive bounds by its arrival, the last by the return.
fn join(stream: &mut Stream, out: &mut impl FnMut(Match)) {
    let Stream { sent, received, .. } = stream;
    let mut passed = None;
    received.retain_mut(|r| {
        let last = r.start.wrapping_add(r.len - 1);
        let tell = |s: &Piece, at: u64, again: bool, out: &mut dyn FnMut(Match)| {
            out(Match { sent: (s.host, s.first), received: (r.host, at), evidence: Evidence::Bytes, again });
        };
        if !r.told
            && let Some(s) = sent.iter().find(|s| s.contains(r.start))
        {
            tell(s, r.first, false, out);
            r.told = true;
        }
        let Some(s) = sent.iter().find(|s| s.contains(last)) else { return true };
        if !(r.told && s.contains(r.start)) {
            tell(s, r.last, r.told, out);
        }
        passed = Some(r.start);
        false
    });
    if let Some(start) = passed {
        // what ends before what was read just now has been read before
        let is_before = |p: &Piece| (p.start.wrapping_add(p.len).wrapping_sub(start) as i32) <= 0;
        while pop_if(sent, is_before).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sightings of one name: host, whether it was sent, time.
    fn matched(seen: &[(usize, bool, u64)]) -> (Vec<(u64, u64)>, u64) {
        let mut matcher = Matcher::new(Some(1000));
        let mut found = Vec::new();
        let mut out = |m: Match| found.push((m.sent.1, m.received.1));
        for &(host, sent, at) in seen {
            let sighting = Sighting::Unit { key: 7, sent, at, evidence: Evidence::Packet, carries: None };
            matcher.see(host, at as i64, &sighting, &mut out);
        }
        matcher.finish(&mut out);
        (found, matcher.ambiguous.values().sum())
    }

    #[test]
    fn a_name_that_came_as_often_as_it_was_sent_is_matched_in_order() {
        let (a, b) = (0, 1);
        assert_eq!(matched(&[(a, true, 10), (b, false, 12)]), (vec![(10, 12)], 0));
        let twice = [(a, true, 10), (b, false, 12), (a, true, 200), (b, false, 203)];
        assert_eq!(matched(&twice), (vec![(10, 12), (200, 203)], 0));
        let crossed = [(a, true, 10), (a, true, 200), (b, false, 201), (b, false, 203)];
        assert_eq!(matched(&crossed), (vec![(10, 201), (200, 203)], 0));
    }

    #[test]
    fn a_name_of_which_one_was_lost_or_that_others_sent_says_nothing() {
        let (a, b, c) = (0, 1, 2);
        assert_eq!(matched(&[(a, true, 10), (a, true, 200), (b, false, 203)]), (vec![], 1));
        assert_eq!(matched(&[(a, true, 10), (b, false, 12), (b, false, 14)]), (vec![], 1));
        assert_eq!(matched(&[(a, true, 10), (c, true, 11), (b, false, 12), (b, false, 14)]), (vec![], 1));
        let many: Vec<_> = (0..10).map(|i| (usize::from(i % 2 == 1), i % 2 == 0, 10 * (i + 1))).collect();
        assert_eq!(matched(&many), (vec![], 1));
    }
}
