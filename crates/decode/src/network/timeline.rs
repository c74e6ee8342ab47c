//! Which packet brought which bytes of a direction: what messages get their times from.

use wakepath_model::ids::MonoNs;

/// Pieces remembered apart; a head in more of them loses the borders between those in its middle, never its own.
const CHUNKS_MAX: usize = 24;

/// Bytes that one packet brought, or that none did.
#[derive(Clone, Copy)]
struct Chunk {
    end: u64,
    /// When its packet passed, 0 = never captured.
    at: MonoNs,
    /// The latest of the packets that are one chunk here.
    latest: MonoNs,
    /// How far the packet acknowledged the other direction.
    ack: u64,
    /// Packets up to and with this.
    packets: u32,
    /// Bytes up to and with this that were not captured.
    missing: u64,
}

/// The last chunks of a direction, in the order of its bytes.
pub(super) struct ByteTimeline {
    /// What lies before the first chunk: its end is where that begins.
    before: Chunk,
    chunks: Vec<Chunk>,
    /// The latest packet so far, and the end of what it brought.
    latest: (MonoNs, u64),
}

impl ByteTimeline {
    /// Of a direction of which nothing came.
    pub fn new() -> ByteTimeline {
        let before = Chunk { end: 0, at: MonoNs(0), latest: MonoNs(0), ack: 0, packets: 0, missing: 0 };
        ByteTimeline { before, chunks: Vec::new(), latest: (MonoNs(0), 0) }
    }

    /// The next byte is the one at `pos`: bytes before it that nobody told of do not count.
    pub fn goes_on(&mut self, pos: u64) {
        if self.end() < pos {
            self.before = *self.chunks.last().unwrap_or(&self.before);
            self.before.end = pos;
            self.chunks.clear();
        }
    }

    /// One past the last byte so far.
    pub fn end(&self) -> u64 {
        self.chunks.last().unwrap_or(&self.before).end
    }

    /// `len` bytes were brought by the packet of `at`.
    pub fn brought(&mut self, len: u64, at: MonoNs, ack: u64) {
        let last = *self.chunks.last().unwrap_or(&self.before);
        let end = last.end.saturating_add(len);
        if at >= self.latest.0 {
            self.latest = (at, end);
        }
        self.push(Chunk { end, at, latest: at, ack, packets: last.packets.wrapping_add(1), missing: last.missing });
    }

    /// `len` bytes were not captured; `at` is the time of their packet if that was seen, else 0.
    pub fn missed(&mut self, len: u64, at: MonoNs) {
        let last = *self.chunks.last().unwrap_or(&self.before);
        let end = last.end.saturating_add(len);
        let missing = last.missing.saturating_add(len);
        self.push(Chunk { end, at, latest: at, ack: 0, packets: last.packets, missing });
    }

    /// No message begins before `pos` any more.
    pub fn forget(&mut self, pos: u64) {
        // The last one stays: a message that ends with it may be told to end later.
        let behind = self.chunks.len().saturating_sub(1);
        let gone = self.chunks[..behind].iter().take_while(|c| c.end <= pos).count();
        if gone > 0 {
            self.before = self.chunks[gone - 1];
            self.chunks.drain(..gone);
        }
    }

    /// When the packet with the byte at `pos` passed.
    pub fn first(&self, pos: u64) -> MonoNs {
        self.at(pos).map_or(MonoNs(0), |i| self.chunks[i].at)
    }

    /// How far the packet with the byte at `pos` acknowledged the other direction, 0 = not known.
    pub fn ack(&self, pos: u64) -> u64 {
        self.at(pos).map_or(0, |i| self.chunks[i].ack)
    }

    /// The latest packet with bytes from `start` up to `end`.
    pub fn latest(&self, start: u64, end: u64) -> MonoNs {
        let (Some(first), Some(last)) = (self.at(start), self.at(end.saturating_sub(1).max(start))) else {
            return MonoNs(0);
        };
        let chunks = self.chunks[first..=last].iter().map(|c| c.latest);
        // Of a long message the first chunks are forgotten, but their latest packet is not.
        let long = (self.latest.1 > start && self.latest.1 <= self.chunks[last].end).then_some(self.latest.0);
        chunks.chain(long).max().unwrap_or_default()
    }

    /// When the last byte before `end` passed; 0 where that was not captured.
    pub fn last(&self, start: u64, end: u64) -> MonoNs {
        let at = self.first(end.saturating_sub(1).max(start));
        if at == MonoNs(0) { at } else { self.latest(start, end) }
    }

    /// Packets before the one with the byte at `pos`.
    pub fn packets_before(&self, pos: u64) -> u32 {
        match self.at(pos) {
            Some(0) | None => self.before.packets,
            Some(i) => self.chunks[i - 1].packets,
        }
    }

    /// Packets up to and with the one that has the byte before `end`.
    pub fn packets_until(&self, end: u64) -> u32 {
        self.at(end.saturating_sub(1)).map_or(self.before.packets, |i| self.chunks[i].packets)
    }

    /// Bytes before `pos` that were not captured.
    pub fn missing_before(&self, pos: u64) -> u64 {
        let Some(i) = self.at(pos) else { return self.chunks.last().unwrap_or(&self.before).missing };
        let before = if i == 0 { self.before } else { self.chunks[i - 1] };
        let missing = self.chunks[i].missing - before.missing;
        before.missing + missing.min(pos.saturating_sub(before.end))
    }

    /// Which chunk has the byte at `pos`: the first where it was forgotten, none where it has not come.
    fn at(&self, pos: u64) -> Option<usize> {
        let i = self.chunks.iter().take_while(|c| c.end <= pos).count();
        (i < self.chunks.len()).then_some(i)
    }

    fn push(&mut self, chunk: Chunk) {
        if self.chunks.len() >= CHUNKS_MAX {
            // The oldest stays: a message may begin in it.
            let gone = self.chunks.remove(1);
            let into = &mut self.chunks[1];
            into.latest = into.latest.max(gone.latest);
        }
        self.chunks.push(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_packets_and_not_of_their_order() {
        let mut timeline = ByteTimeline::new();
        timeline.goes_on(100);
        timeline.brought(10, MonoNs(50), 7); // sent again: later than what lies behind
        timeline.brought(10, MonoNs(20), 8);
        timeline.missed(5, MonoNs(0));
        timeline.brought(5, MonoNs(60), 9);
        assert_eq!(timeline.end(), 130);
        assert_eq!(
            (timeline.first(100), timeline.first(110), timeline.first(121)),
            (MonoNs(50), MonoNs(20), MonoNs(0))
        );
        assert_eq!(timeline.latest(100, 120), MonoNs(50));
        assert_eq!(timeline.latest(110, 120), MonoNs(20));
        assert_eq!((timeline.last(100, 125), timeline.last(100, 130)), (MonoNs(0), MonoNs(60)));
        assert_eq!(timeline.missing_before(123) - timeline.missing_before(100), 3);
        assert_eq!(timeline.packets_until(130) - timeline.packets_before(105), 3);
        assert_eq!(timeline.ack(111), 8);
        timeline.forget(121);
        assert_eq!(timeline.missing_before(130), 5);
        assert_eq!(timeline.first(126), MonoNs(60));
    }

    #[test]
    fn a_head_in_many_pieces_keeps_its_begin_and_its_latest_packet() {
        let mut timeline = ByteTimeline::new();
        for i in 1..=200 {
            timeline.brought(1, MonoNs(if i == 50 { 1000 } else { i }), 0);
        }
        assert_eq!(timeline.first(0), MonoNs(1));
        assert_eq!(timeline.latest(0, 200), MonoNs(1000));
        assert_eq!(timeline.latest(199, 200), MonoNs(200));
        assert_eq!(timeline.packets_until(200) - timeline.packets_before(0), 200);
        assert!(timeline.chunks.len() <= CHUNKS_MAX);
    }
}
