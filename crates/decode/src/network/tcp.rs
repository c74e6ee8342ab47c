//! TCP as somebody between its ends sees it: both directions put in order, and told as one conversation.
//!
//! A segment is passed on when all bytes before it are, and all bytes of the other direction that it acknowledges: so a
//! reply never comes before its request, in whatever order the capture has them. Bytes that were acknowledged and do not
//! come within [`GRACE_NS`] were never captured: they are a gap. Bytes that were not acknowledged will be sent again, and
//! are waited for. Selective acknowledgements say nothing more: what they name was passed on or will be acknowledged.

mod direction;
mod segment;
mod stream_sink;

pub(super) use segment::{ACK, RST, SYN, Segment, URG};
pub(super) use stream_sink::StreamSink;

use direction::{AGAIN_NS, Direction, Held, differs};
use segment::FIN;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::OPEN;

/// For how long after their acknowledgement bytes may still come: queues of a device are read one after another.
pub(super) const GRACE_NS: u64 = 20_000_000;

/// After how long bytes that nobody acknowledged are given up, where the other direction is not captured.
const HOLE_NS: u64 = 1_000_000_000;

/// Numbers so far from what was expected are of another connection, or of none; no window is larger.
const FAR: u64 = 1 << 28;

/// Segments of one direction held.
const HELD_MAX: usize = 4096;

/// What one held segment costs besides its bytes.
const HELD_COST: usize = 96;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Taken.
    Yes,
    /// It was captured before.
    Duplicate,
    /// Its numbers fit nothing; its bytes were left out.
    OutOfWindow,
    /// It resets the connection.
    Reset,
}

/// A connection.
pub(super) struct Tcp {
    pub directions: [Direction; 2],
    /// Bytes that its held segments cost.
    pub held_bytes: usize,
    /// It is not known where a direction begins: until then what came first may be behind what comes next. 0 = settled.
    settles: MonoNs,
}

impl Tcp {
    /// Of which nothing is known.
    pub fn new() -> Tcp {
        Tcp { directions: [Direction::new(), Direction::new()], held_bytes: 0, settles: MonoNs(0) }
    }

    /// Whether `segment`, sent by `direction`, belongs to another connection of the same ends.
    pub fn is_another(&self, direction: usize, segment: &Segment<'_>) -> bool {
        let (own, other) = (&self.directions[direction], &self.directions[1 - direction]);
        if segment.has(RST) {
            return false;
        }
        if segment.has(SYN) {
            let known = own.exact && own.isn != segment.seq;
            // Joined in the middle: a new SYN is of a new connection, unless its answer fits.
            let late = own.started && !own.exact && own.unwrap(segment.seq.wrapping_add(1)).abs_diff(own.origin) > FAR;
            return known || late;
        }
        // Numbers of both directions that are far from all seen before.
        segment.has(ACK)
            && own.started
            && other.started
            && own.unwrap(segment.seq).abs_diff(own.top.max(own.next)) > FAR
            && other.unwrap(segment.ack).abs_diff(other.top.max(other.next)) > FAR
    }

    /// How well the numbers of `segment` fit: both of them, as far as known. For telling whether a flow in a tunnel is
    /// the one outside it.
    pub fn fits(&self, direction: usize, segment: &Segment<'_>) -> bool {
        const NEAR: u64 = 1 << 20;
        let (own, other) = (&self.directions[direction], &self.directions[1 - direction]);
        let seq = segment.seq.wrapping_add(u32::from(segment.has(SYN)));
        let near = |direction: &Direction, number: u32| {
            direction.unwrap(number).abs_diff(direction.next.max(direction.top)) <= NEAR
        };
        if segment.has(SYN) && own.exact {
            return own.isn == segment.seq;
        }
        match (own.started, other.started && segment.has(ACK)) {
            (true, true) => near(own, seq) && near(other, segment.ack),
            (true, false) => own.unwrap(seq).abs_diff(own.next) <= 1 << 16,
            (false, true) => other.unwrap(segment.ack).abs_diff(other.next) <= 1 << 16,
            (false, false) => false,
        }
    }

    /// Takes a segment that `direction` sent.
    pub fn take(&mut self, direction: usize, segment: &Segment<'_>, now: MonoNs, sink: &mut impl StreamSink) -> Taken {
        let syn = segment.has(SYN);
        let seq = segment.seq.wrapping_add(u32::from(syn));
        self.begin(direction, segment, seq, now);
        if self.settles != MonoNs(0) {
            let least = if self.directions[1 - direction].exact { 1 } else { 2 };
            self.directions[direction].join(seq, segment.length >= least);
        }
        let own = &mut self.directions[direction];
        let pos = own.unwrap(seq);
        let end = pos + u64::from(segment.length);
        let new = pos == own.next && segment.length > 0 && own.held.is_empty();
        if own.again(segment, new) {
            return Taken::Duplicate;
        }
        own.packets += 1;
        own.wire_bytes += u64::from(segment.wire_bytes);
        own.last_at = now;
        if syn && !segment.has(RST) {
            let before = std::mem::replace(&mut own.opened, segment.at);
            let again = before.0 != 0 && segment.at.0.abs_diff(before.0) > AGAIN_NS;
            own.retransmitted = own.retransmitted.saturating_add(u32::from(again));
        }
        if segment.has(RST) {
            let fits = pos.abs_diff(own.next) <= FAR || !own.exact || segment.seq == 0;
            return if fits { Taken::Reset } else { Taken::OutOfWindow };
        }
        // A window of 0 stops the other end.
        let closes = segment.window == 0 && segment.has(ACK) && !syn;
        let closed = std::mem::replace(&mut own.closed_window, closes);
        self.directions[1 - direction].zero_windows += u32::from(closes && !closed);
        let ack = if segment.has(ACK) { self.acknowledge(1 - direction, segment.ack, now) } else { 0 };
        let own = &mut self.directions[direction];
        if pos.abs_diff(own.top.max(own.next)) > FAR {
            let strays = if pos.abs_diff(own.stray.0) <= 1 << 20 { own.stray.1 + 1 } else { 1 };
            own.stray = (end, strays);
            if strays < 3 || pos < own.next {
                return Taken::OutOfWindow;
            }
            // Not a forgery: the capture lost more than any window.
            own.acked = own.acked.max(pos);
            own.top = own.top.max(pos);
            self.skip(direction, pos, now, sink);
        }
        let own = &mut self.directions[direction];
        own.stray.1 = 0;
        if segment.has(FIN) && own.fin == OPEN && end >= own.next {
            own.fin = end;
        }
        // Keep-alives and window probes repeat one byte, or none, before the next.
        let probe = segment.length <= 1 && pos + 1 == own.next;
        if segment.length > 0 && end <= own.fin && !probe {
            own.top = own.top.max(end);
            if end <= own.next {
                own.retransmitted = own.retransmitted.saturating_add(1);
            } else {
                self.bytes(direction, pos, segment, ack, now, sink);
            }
        }
        self.pass_on(now, sink);
        Taken::Yes
    }

    /// Learns the numbers of both directions.
    fn begin(&mut self, direction: usize, segment: &Segment<'_>, seq: u32, now: MonoNs) {
        let syn = segment.has(SYN);
        let known = self.directions.iter().all(|direction| direction.started);
        let own = &mut self.directions[direction];
        if !own.started {
            own.start(seq);
            (own.isn, own.exact) = (segment.seq, syn);
        } else if syn && !own.exact && own.stream_bytes() == 0 {
            // It comes late, but nothing was passed on.
            let first = own.unwrap(seq);
            (own.origin, own.next) = (first, first);
            (own.isn, own.exact) = (segment.seq, true);
        }
        let other = &mut self.directions[1 - direction];
        if segment.has(ACK) && !segment.has(RST) && !other.started {
            other.start(segment.ack);
            // The answer to a SYN acknowledges that and nothing else, but for Fast Open.
            (other.isn, other.exact) = (segment.ack.wrapping_sub(1), syn);
        }
        if self.directions.iter().all(|direction| direction.exact) {
            self.settles = MonoNs(0);
        } else if !known && !syn && !segment.has(RST) {
            self.settles = MonoNs(now.0.saturating_add(GRACE_NS));
        }
    }

    /// `direction`'s other end got all before `ack`. That number, in `direction`'s numbering.
    fn acknowledge(&mut self, direction: usize, ack: u32, now: MonoNs) -> u64 {
        let direction = &mut self.directions[direction];
        let pos = direction.unwrap(ack);
        if pos > direction.top.max(direction.next) + FAR {
            return 0; // of nobody knows what
        }
        if pos == direction.next + 1 && direction.next == direction.origin && !direction.exact && !direction.holds() {
            // Joined with a keep-alive, which has the number before the next byte's.
            (direction.origin, direction.next) = (pos, pos);
        }
        direction.acked = direction.acked.max(pos);
        direction.owe(now);
        pos
    }

    /// Payload with bytes that were not passed on yet.
    fn bytes(
        &mut self,
        direction: usize,
        pos: u64,
        segment: &Segment<'_>,
        ack: u64,
        now: MonoNs,
        sink: &mut impl StreamSink,
    ) {
        let other = &self.directions[1 - direction];
        let ready = self.settles == MonoNs(0) && (ack <= other.passed() || other.shut);
        let own = &mut self.directions[direction];
        let (end, seen) = (pos + u64::from(segment.length), own.next.saturating_sub(pos));
        own.retransmitted = own.retransmitted.saturating_add(u32::from(seen > 0));
        let (start, bytes) = (pos + seen, segment.payload.get(seen as usize..).unwrap_or(&[]));
        if ready && pos <= own.next && own.held.is_empty() {
            own.deliver(direction, (start, end), bytes, segment.at, ack, sink);
            return;
        }
        let keep = sink.listens();
        if own.held.is_empty() {
            own.held_since = now;
        }
        // Held is also what waits for the other direction, or for the stream's begin: that is in order.
        let behind = pos > own.next && !own.has(own.next, pos);
        // Into the holes between what is held: what came first stays.
        let (mut at, mut repeats) = (start, false);
        while at < end {
            let i = own.held.partition_point(|h| h.end() <= at);
            let until = match own.held.get(i) {
                Some(h) if h.pos <= at => {
                    let to = h.end().min(end);
                    repeats = true;
                    if keep && differs(h, at, to, start, bytes) {
                        sink.differs(segment.at);
                    }
                    at = to;
                    continue;
                }
                Some(h) => h.pos.min(end),
                None => end,
            };
            let (from, to) = ((at - start) as usize, (until - start) as usize);
            let part = bytes.get(from.min(bytes.len())..to.min(bytes.len())).unwrap_or(&[]);
            let bytes: Box<[u8]> = if keep { part.into() } else { Box::default() };
            self.held_bytes += bytes.len() + HELD_COST;
            own.held.insert(i, Held { pos: at, length: until - at, at: segment.at, ack, behind, bytes });
            at = until;
        }
        own.retransmitted = own.retransmitted.saturating_add(u32::from(repeats && seen == 0));
        if own.held.len() > HELD_MAX {
            self.give_up(direction, now, sink);
        }
    }

    /// Passes on all that is complete now.
    fn pass_on(&mut self, now: MonoNs, sink: &mut impl StreamSink) {
        let mut moved = self.settles == MonoNs(0);
        while std::mem::take(&mut moved) {
            for direction in 0..2 {
                let (passed, shut) = (self.directions[1 - direction].passed(), self.directions[1 - direction].shut);
                let own = &mut self.directions[direction];
                while own.held.front().is_some_and(|h| h.pos <= own.next && (h.ack <= passed || shut)) {
                    let Some(held) = own.held.pop_front() else { break };
                    self.held_bytes -= held.bytes.len() + HELD_COST;
                    own.reordered = own.reordered.saturating_add(u32::from(held.behind));
                    own.held_since = now;
                    let seen = own.next.saturating_sub(held.pos);
                    if held.end() > own.next {
                        let bytes = held.bytes.get(seen as usize..).unwrap_or(&[]);
                        own.deliver(direction, (held.pos + seen, held.end()), bytes, held.at, held.ack, sink);
                    }
                    moved = true;
                }
                if own.next == own.fin && !own.shut && own.held.is_empty() {
                    own.shut = true;
                    moved = true;
                    sink.shutdown(direction, own.next, now);
                }
                own.owe(now);
            }
        }
    }

    /// When this connection is to be looked at again though nothing comes; 0 = never.
    pub fn deadline(&self) -> MonoNs {
        MonoNs((0..2).filter_map(|direction| self.due(direction)).min().unwrap_or(0))
    }

    fn due(&self, direction: usize) -> Option<u64> {
        if self.settles != MonoNs(0) {
            return Some(self.settles.0);
        }
        let (own, other) = (&self.directions[direction], &self.directions[1 - direction]);
        if own.owed.1 != MonoNs(0) {
            return Some(own.owed.1.0.saturating_add(GRACE_NS));
        }
        // Who else would acknowledge it is not captured.
        let deaf = own.holds() && other.last_at < own.held_since;
        deaf.then_some(own.held_since.0.saturating_add(HOLE_NS))
    }

    /// It is `now`: gives up bytes that do not come any more.
    pub fn overdue(&mut self, now: MonoNs, sink: &mut impl StreamSink) {
        self.settle(now, sink);
        for direction in 0..2 {
            if self.due(direction).is_some_and(|due| due <= now.0) {
                match self.directions[direction].owed {
                    (_, MonoNs(0)) => self.give_up(direction, now, sink),
                    (until, _) => self.skip(direction, until, now, sink),
                }
            }
        }
    }

    /// Nothing earlier comes any more: the connection begins with what there is, if it is `now` late enough.
    fn settle(&mut self, now: MonoNs, sink: &mut impl StreamSink) {
        if self.settles != MonoNs(0) && self.settles <= now {
            self.settles = MonoNs(0);
            self.pass_on(now, sink);
        }
    }

    /// The bytes of `direction` before `until` will not come, but for those held.
    fn skip(&mut self, direction: usize, until: u64, now: MonoNs, sink: &mut impl StreamSink) {
        while self.directions[direction].next < until {
            self.step(direction, until, now, sink);
        }
    }

    /// Gives up what `direction` waits for first.
    pub fn give_up(&mut self, direction: usize, now: MonoNs, sink: &mut impl StreamSink) {
        if let Some(held) = self.directions[direction].held.front() {
            let until = held.pos;
            self.step(direction, until, now, sink);
        }
    }

    /// What `direction` waits for, up to the next thing that is held or up to `until`.
    fn step(&mut self, direction: usize, until: u64, now: MonoNs, sink: &mut impl StreamSink) {
        let (own, other) = (&self.directions[direction], &self.directions[1 - direction]);
        // What the other direction had got when it spoke was said before that, the rest after.
        let (front, waiting) = (own.held.front(), other.held.front());
        match (front.filter(|h| h.pos <= own.next), waiting) {
            // It waits for the other direction, which goes first, if that waits for bytes.
            (Some(held), waiting) if waiting.is_none_or(|w| w.pos > other.next) && other.next < held.ack => {
                let to = waiting.map_or(held.ack, |w| w.pos.min(held.ack));
                self.gap(1 - direction, to, now, sink);
            }
            (Some(_), _) => self.gap(direction, own.next, now, sink),
            (None, waiting) => {
                let to = front.map_or(until, |h| h.pos.min(until));
                let to = waiting.map_or(to, |w| if w.ack > own.next { to.min(w.ack) } else { to });
                self.gap(direction, to, now, sink);
            }
        }
    }

    /// The bytes of `direction` up to `to`, if there are any, will not come; what is held behind them waits for nothing else.
    fn gap(&mut self, direction: usize, to: u64, now: MonoNs, sink: &mut impl StreamSink) {
        self.settles = MonoNs(0); // what was given up does not come either
        let own = &mut self.directions[direction];
        if to > own.next {
            sink.gap(now);
            own.held.iter_mut().for_each(|held| held.behind = false);
            own.deliver(direction, (own.next, to), &[], MonoNs(0), 0, sink);
        } else if let Some(held) = own.held.front_mut() {
            // It waits for the other direction, which waits for this one.
            held.ack = 0;
        }
        self.pass_on(now, sink);
    }

    /// Gives up all that is waited for: the connection is over.
    pub fn flush(&mut self, now: MonoNs, sink: &mut impl StreamSink) {
        self.settle(MonoNs(u64::MAX), sink);
        loop {
            // The earliest goes first.
            let waits = |direction: usize| {
                let own = &self.directions[direction];
                let until = own.due().max(own.held.front().map_or(0, |h| h.pos));
                (own.holds() || until > own.next)
                    .then(|| (own.held.front().map_or(MonoNs(u64::MAX), |h| h.at), direction, until))
            };
            match (0..2).filter_map(waits).min() {
                Some((_, direction, until)) => self.step(direction, until, now, sink),
                None => return,
            }
        }
    }

    /// Both directions are at their ends, and the ends were acknowledged.
    pub fn closed(&self) -> bool {
        self.directions.iter().all(|direction| direction.shut && direction.acked > direction.fin)
    }
}
