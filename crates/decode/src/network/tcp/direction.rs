//! What one end sends, and what of it waits.

use super::segment::Segment;
use super::stream_sink::StreamSink;
use crate::network::piece::Piece;
use std::collections::VecDeque;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::OPEN;

/// Packets remembered of each direction, to know them again.
const RECENT: usize = 8;

/// For how long a packet may be captured again where it would look otherwise if it were sent again: less than the shortest
/// time-out after which that happens.
pub(super) const AGAIN_NS: u64 = 150_000_000;

/// The same where it would look the same.
const AGAIN_ALIKE_NS: u64 = 2_000_000;

/// A segment that waits for what lies before it.
pub(super) struct Held {
    pub pos: u64,
    pub length: u64,
    pub at: MonoNs,
    pub ack: u64,
    /// It waits for bytes before it, and not for the other direction alone.
    pub behind: bool,
    pub bytes: Box<[u8]>,
}

impl Held {
    pub fn end(&self) -> u64 {
        self.pos + self.length
    }
}

/// What one end sends.
pub(crate) struct Direction {
    pub packets: u64,
    pub wire_bytes: u64,
    pub missing: u64,
    pub retransmitted: u32,
    pub reordered: u32,
    pub zero_windows: u32,
    /// Numbers are known.
    pub started: bool,
    /// The first byte is that after the SYN.
    pub exact: bool,
    /// When its SYN passed last, 0 = never.
    pub(super) opened: MonoNs,
    pub isn: u32,
    /// Number of the first byte.
    pub origin: u64,
    /// Number of the next byte to be passed on.
    pub next: u64,
    /// The other end got all bytes before this one.
    pub(super) acked: u64,
    /// One past the last byte that was seen on its way.
    pub(super) top: u64,
    /// Where the stream ends, [`OPEN`] = not known.
    pub fin: u64,
    /// The end was passed on.
    pub shut: bool,
    /// The window that this end offers is closed.
    pub(super) closed_window: bool,
    pub(super) last_at: MonoNs,
    /// Bytes before this were acknowledged and not passed on, since when; 0 = there are none.
    pub(super) owed: (u64, MonoNs),
    /// Where segments that fit nothing would go on, and how many there were.
    pub(super) stray: (u64, u8),
    /// When the first segment of those held came.
    pub(super) held_since: MonoNs,
    pub(super) held: VecDeque<Held>,
    /// The latest IP identification, and when it came.
    pub(super) ip_id: (u32, MonoNs),
    /// Several of its packets have one identification, so that one that is sent again has it too.
    pub(super) ids_alike: bool,
    pub(super) recent: [(u32, u32); RECENT],
    pub(super) recent_next: u8,
}

impl Direction {
    pub fn new() -> Direction {
        Direction {
            packets: 0,
            wire_bytes: 0,
            missing: 0,
            retransmitted: 0,
            reordered: 0,
            zero_windows: 0,
            started: false,
            exact: false,
            opened: MonoNs(0),
            isn: 0,
            origin: 1 << 32,
            next: 1 << 32,
            acked: 0,
            top: 0,
            fin: OPEN,
            shut: false,
            closed_window: false,
            last_at: MonoNs(0),
            owed: (0, MonoNs(0)),
            stray: (0, 0),
            held_since: MonoNs(0),
            held: VecDeque::new(),
            ip_id: (u32::MAX, MonoNs(0)),
            ids_alike: false,
            recent: [(0, 0); RECENT],
            recent_next: 0,
        }
    }

    pub fn start(&mut self, seq: u32) {
        let first = (1 << 32) + u64::from(seq);
        (self.started, self.origin, self.next, self.acked, self.top) = (true, first, first, first, first);
    }

    /// Joined in the middle a moment ago: the stream may begin earlier than was thought, if that is no keep-alive.
    pub fn join(&mut self, seq: u32, data: bool) {
        let pos = self.unwrap(seq);
        if data && self.next == self.origin && pos < self.next && self.next - pos <= 1 << 20 && !self.exact {
            (self.origin, self.next) = (pos, pos);
        }
    }

    pub fn unwrap(&self, seq: u32) -> u64 {
        self.next.wrapping_add_signed(i64::from(seq.wrapping_sub(self.next as u32) as i32))
    }

    /// One past what was passed on, the end included.
    pub fn passed(&self) -> u64 {
        self.next + u64::from(self.shut)
    }

    /// Bytes of the stream so far, those that were never captured included.
    pub fn stream_bytes(&self) -> u64 {
        self.next.saturating_sub(self.origin)
    }

    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes before this were acknowledged.
    pub fn due(&self) -> u64 {
        self.acked.min(self.fin)
    }

    /// Notes whether acknowledged bytes are missed. Those that were noted before are waited for no longer.
    pub fn owe(&mut self, now: MonoNs) {
        if self.due() <= self.next {
            self.owed = (0, MonoNs(0));
        } else if self.owed.0 <= self.next {
            self.owed = (self.due(), now);
        }
    }

    /// All bytes from `pos` to `end` were captured, or given up.
    pub fn has(&self, pos: u64, end: u64) -> bool {
        let from = pos.max(self.next);
        let runs = self.held.iter().take_while(|h| h.pos < end);
        end <= self.next || runs.fold(from, |at, h| if h.pos <= at { at.max(h.end()) } else { at }) >= end
    }

    /// Whether this packet was captured before.
    pub fn again(&mut self, segment: &Segment<'_>, new: bool) -> bool {
        let mark = segment.mark().max(1);
        let time = (segment.at.0 >> 10) as u32;
        let known = segment.known_id() && !self.ids_alike;
        // Who sends a segment again gives it a new identification and a new time stamp, if it has such.
        let limit = (if known || segment.stamp != 0 { AGAIN_NS } else { AGAIN_ALIKE_NS } >> 10) as u32;
        let near = |then: u32| time.wrapping_sub(then).min(then.wrapping_sub(time)) <= limit;
        if !new && self.recent.iter().any(|&(m, then)| m == mark && near(then)) {
            return true;
        }
        // One that was cut into segments, or made of several: its numbers were seen, and its identification is no newer.
        // Whoever sends bytes again gives the packet a new one.
        let (id, at) = self.ip_id;
        let behind = id.wrapping_sub(segment.ip_id) & 0xffff;
        if !new && segment.length > 0 && known && id != u32::MAX && behind < 128 {
            let age = segment.at.0.abs_diff(at.0);
            let pos = self.unwrap(segment.seq);
            if age <= AGAIN_NS && self.has(pos, pos + u64::from(segment.length)) {
                return true;
            }
        }
        self.recent[usize::from(self.recent_next) % RECENT] = (mark, time);
        self.recent_next = self.recent_next.wrapping_add(1);
        if segment.known_id() && (id == u32::MAX || segment.ip_id.wrapping_sub(id) & 0xffff < 0x8000) {
            self.ids_alike |= new && id == segment.ip_id;
            self.ip_id = (segment.ip_id, segment.at);
        }
        false
    }

    /// Passes on the bytes of `range`, of which `bytes` were captured.
    pub fn deliver(
        &mut self,
        direction: usize,
        range: (u64, u64),
        bytes: &[u8],
        at: MonoNs,
        ack: u64,
        sink: &mut impl StreamSink,
    ) {
        let length = range.1 - range.0;
        let bytes = &bytes[..bytes.len().min(length as usize)];
        self.next = range.1;
        self.top = self.top.max(range.1);
        if sink.listens() {
            self.missing += length - bytes.len() as u64;
            sink.piece(Piece { direction, pos: range.0, bytes, length, at, ack });
        } else if at == MonoNs(0) {
            // Of what nobody reads only the packets are looked at.
            self.missing += length;
        }
    }
}

/// Whether the bytes from `at` to `to` differ from those held; `bytes` begin at `start`.
pub(super) fn differs(held: &Held, at: u64, to: u64, start: u64, bytes: &[u8]) -> bool {
    let of = |bytes: &[u8], start: u64| -> Option<(usize, usize)> {
        let from = usize::try_from(at - start).ok()?;
        let until = usize::try_from(to - start).ok()?.min(bytes.len());
        (from <= until).then_some((from, until))
    };
    let (Some(ours), Some(theirs)) = (of(&held.bytes, held.pos), of(bytes, start)) else { return false };
    let common = (ours.1 - ours.0).min(theirs.1 - theirs.0);
    held.bytes[ours.0..ours.0 + common] != bytes[theirs.0..theirs.0 + common]
}
