//! Records of TLS in a stream of ciphertext: where each begins and ends.

use std::collections::VecDeque;
use wakepath_model::ids::MonoNs;

/// Bytes of a record's header.
const HEADER: u64 = 5;
/// The longest record: what TLS 1.2 allows.
const LENGTH_MAX: u16 = 16_384 + 2048;
/// The kind of a record with application data; TLS 1.3 hides all others in it that are encrypted.
const DATA: u8 = 23;
/// Most records that wait for their plaintext: those of the longest read that programs are known to make.
const QUEUE_MAX: usize = 4096;

/// A record: byte numbers of the ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub start: u64,
    pub end: u64,
    /// It may have application data.
    pub is_data: bool,
    /// When its last byte moved; 0 before.
    pub moved: MonoNs,
}

impl Record {
    /// Bytes that follow its header.
    pub fn length(self) -> u64 {
        self.end - self.start - HEADER
    }
}

/// Finds the records of one direction.
#[derive(Default)]
pub(super) struct Records {
    /// Where the next one begins, where that is known.
    next: Option<u64>,
    /// The beginning of its header.
    part: Vec<u8>,
    /// How far bytes moved.
    moved_to: u64,
    /// Those whose plaintext was not seen yet.
    pub queue: VecDeque<Record>,
    /// Whoever reads does not stop after a header, so it may hold records that it did not decrypt yet.
    pub is_ahead: bool,
    /// Some were missed, since this was last asked.
    pub is_lost: bool,
}

/// Whether bytes may begin a record: as far as there are any.
fn begins_record(bytes: &[u8]) -> bool {
    match bytes {
        [20..=23, 3, 0..=4, high, low, ..] => (1..=LENGTH_MAX).contains(&u16::from_be_bytes([*high, *low])),
        [20..=23, 3, 0..=4, ..] | [20..=23, 3] | [20..=23] => true,
        _ => false,
    }
}

impl Records {
    /// An operation moved bytes, of which those from `start` on were captured.
    pub fn captured(&mut self, start: u64, bytes: &[u8]) {
        if self.next.is_none() && start >= self.moved_to && bytes.len() >= HEADER as usize && begins_record(bytes) {
            self.next = Some(start);
        }
        while let Some(next) = self.next {
            let wanted = next + self.part.len() as u64;
            let Some(at) = wanted.checked_sub(start) else { return self.lose() };
            let Some(here) = bytes.get(at as usize..).filter(|b| !b.is_empty()) else { break };
            let missing = HEADER as usize - self.part.len();
            self.part.extend(&here[..here.len().min(missing)]);
            if !begins_record(&self.part) {
                return self.lose();
            }
            if self.part.len() < HEADER as usize {
                break;
            }
            let end = next + HEADER + u64::from(u16::from_be_bytes([self.part[3], self.part[4]]));
            self.queue.push_back(Record { start: next, end, is_data: self.part[0] == DATA, moved: MonoNs(0) });
            self.next = Some(end);
            self.part.clear();
            self.is_ahead |= start + bytes.len() as u64 > next + HEADER;
        }
        if self.queue.len() > QUEUE_MAX {
            self.lose();
        }
    }

    /// All bytes before this one have moved, the last of them at this time.
    pub fn moved_to(&mut self, end: u64, at: MonoNs) {
        self.moved_to = self.moved_to.max(end);
        let moved = self.moved_to;
        let newest = self.queue.iter_mut().rev().skip_while(|r| r.end > moved);
        newest.take_while(|r| r.moved == MonoNs(0)).for_each(|r| r.moved = at);
        let Some(next) = self.next else { return };
        if next + (self.part.len() as u64) < end {
            self.lose();
        }
    }

    /// Where the next record begins is not known any more, until an operation begins with one.
    fn lose(&mut self) {
        self.is_lost |= self.next.is_some();
        self.next = None;
        self.part.clear();
        self.queue.clear();
    }

    /// How many of the queue have moved whole.
    pub fn whole(&self) -> usize {
        self.queue.iter().take_while(|r| r.end <= self.moved_to).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, length: u16) -> Vec<u8> {
        let mut out = vec![kind, 3, 3];
        out.extend(length.to_be_bytes());
        out.resize(5 + usize::from(length), 0xaa);
        out
    }

    fn places(r: &Records) -> Vec<(u64, u64, bool)> {
        r.queue.iter().map(|r| (r.start, r.end, r.is_data)).collect()
    }

    #[test]
    fn records_are_found_however_operations_cut_them() {
        let stream = [record(22, 100), record(23, 30), record(23, 300)].concat();
        let expected = vec![(1000, 1105, false), (1105, 1140, true), (1140, 1445, true)];
        for cut in 1..stream.len() {
            let mut r = Records::default();
            if cut < 5 {
                continue; // too little to begin with
            }
            r.captured(1000, &stream[..cut]);
            r.moved_to(1000 + cut as u64, MonoNs(1));
            r.captured(1000 + cut as u64, &stream[cut..]);
            r.moved_to(1445, MonoNs(1));
            assert_eq!(places(&r), expected, "cut at {cut}");
            assert_eq!(r.whole(), 3);
        }
    }

    #[test]
    fn a_header_that_was_not_captured_is_not_guessed() {
        let stream = [record(23, 3000), record(23, 30)].concat();
        let mut r = Records::default();
        r.captured(0, &stream[..2048]);
        r.moved_to(stream.len() as u64, MonoNs(1));
        assert!(r.next.is_none() && r.queue.is_empty());
        // what begins the next operation is one
        r.captured(stream.len() as u64, &record(23, 7));
        assert_eq!(places(&r), [(3040, 3052, true)]);
    }

    #[test]
    fn what_is_no_record_is_none() {
        let mut r = Records::default();
        r.captured(0, b"GET / HTTP/1.1\r\n\r\n");
        r.captured(18, &[23, 3, 3, 0xff, 0xff, 1]);
        assert!(r.next.is_none() && r.queue.is_empty());
    }

    #[test]
    fn a_library_that_reads_header_and_body_apart_reads_nothing_ahead() {
        let (a, b) = (record(23, 200), record(23, 30));
        let mut r = Records::default();
        let mut at = 0;
        for piece in [&a[..5], &a[5..], &b[..5], &b[5..]] {
            r.captured(at, piece);
            at += piece.len() as u64;
            r.moved_to(at, MonoNs(1));
        }
        assert!(!r.is_ahead && r.whole() == 2);
        r.captured(at, &a);
        assert!(r.is_ahead);
    }
}
