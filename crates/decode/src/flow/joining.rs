//! One direction of a connection in clear: which plaintext lies in which records.

mod records;

use records::{Record, Records};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::MessageEndRow;

/// Bytes that encryption adds to a record: TLS 1.3 (with a tag of 16 bytes, or of 8), and TLS 1.2 with GCM, or ChaCha20, or CCM_8.
const OVERHEADS: [u64; 4] = [17, 24, 16, 9];
/// The same with CBC: a vector, padding, and a hash.
const OVERHEADS_CBC: std::ops::RangeInclusive<u64> = 37..=336;
/// Most plaintext of a record.
const PLAIN_MAX: u64 = 1 << 14;
/// Most places of plaintext that are kept.
const PLACES_MAX: usize = 1024;
/// Most messages of a direction whose ends are open.
const OPEN_MAX: usize = 4096;
/// Plaintext that waits for its records is given up when so many more bytes of records passed.
const PATIENCE: u64 = 1 << 16;

/// Plaintext of one call of a TLS library.
#[derive(Clone, Debug, Default)]
pub struct Plaintext {
    /// When the call returned.
    pub at: MonoNs,
    /// When it began: what is sent is in no record that had moved by then. 0 where that is not known.
    pub began: MonoNs,
    /// It was sent.
    pub sent: bool,
    /// How many bytes.
    pub bytes: u64,
    /// Whoever reads had room for no more.
    pub is_filled: bool,
    /// Where the library told it amid its call: of what was received, how many bytes its record has, with the header; what is sent is in
    /// records that come later.
    pub record: Option<u64>,
    /// The first of them.
    pub head: Vec<u8>,
    /// More of them come with [`Flow::more_clear`].
    pub goes_on: bool,
}

/// A piece of it: where it begins, counted from the first byte, and whether it is the last.
pub type Piece = (u64, Vec<u8>, bool);

/// What encryption adds to each record of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Overhead {
    #[default]
    Unknown,
    Fixed(u64),
    /// It pads.
    Varied,
}

impl Overhead {
    /// With a record of this length that has `plain` bytes of plaintext; `None` where that cannot be.
    fn learn(self, length: u64, plain: u64) -> Option<Overhead> {
        let over = length.checked_sub(plain)?;
        match self {
            Overhead::Fixed(known) => (known == over).then_some(self),
            Overhead::Varied => OVERHEADS_CBC.contains(&over).then_some(self),
            Overhead::Unknown if OVERHEADS.contains(&over) => Some(Overhead::Fixed(over)),
            Overhead::Unknown => OVERHEADS_CBC.contains(&over).then_some(Overhead::Varied),
        }
    }
}

/// Where plaintext ends in its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    /// With the record.
    With,
    /// More of the record follows.
    Amid,
    /// What comes next tells.
    Unknown,
}

/// Plaintext, and where it is in the ciphertext.
#[derive(Clone, Copy, Debug)]
struct Place {
    plain: u64,
    bytes: u64,
    cipher: u64,
    /// The end of its record.
    record_end: u64,
    ends: Ends,
}

/// A record of which some plaintext was read.
#[derive(Clone, Copy)]
struct Current {
    record: Record,
    /// The number that its first byte of plaintext has in the ciphertext.
    base: u64,
    taken: u64,
}

/// Whether plaintext fits its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Yes,
    /// Its records are to come.
    Later,
    No,
}

/// One direction.
#[derive(Default)]
pub(super) struct Direction {
    records: Records,
    /// Where the next plaintext begins, in plaintext.
    pub plain: u64,
    /// Where the last record of plaintext ended.
    reached: Option<u64>,
    /// When that record had moved. Plaintext that is written to memory is told before.
    pub reached_at: MonoNs,
    current: Option<Current>,
    places: VecDeque<Place>,
    /// Messages whose end was not told: where each begins, in plaintext and in ciphertext.
    open: FxHashMap<u64, u64>,
    /// Ends of messages that were told and did not come yet, by their numbers in plaintext.
    due: Vec<MessageEndRow>,
}

impl Direction {
    /// An operation moved ciphertext, whose first bytes were captured.
    pub fn moved(&mut self, moved: &Range<u64>, head: &[u8], at: MonoNs) {
        self.records.captured(moved.start, head);
        self.records.moved_to(moved.end, at);
    }

    /// All of it moved, also what was not captured.
    pub fn moved_to(&mut self, end: u64, at: MonoNs) {
        self.records.moved_to(end, at);
    }

    /// Whether records were missed since this was last asked.
    pub fn takes_loss(&mut self) -> bool {
        std::mem::take(&mut self.records.is_lost)
    }

    /// Whether some plaintext was.
    pub fn is_joined(&self) -> bool {
        self.reached.is_some()
    }

    /// Joins plaintext that is a whole record of so many bytes, with the header.
    pub fn received_record(&mut self, bytes: u64, record: u64, over: &mut Overhead) -> Fit {
        let (whole, queue) = (self.records.whole(), &mut self.records.queue);
        let is_it = |r: &Record| r.is_data && r.end - r.start == record;
        let Some(at) = queue.iter().take(whole).position(is_it) else { return Fit::No };
        // those before it had none
        let Some(record) = queue.drain(..=at).next_back() else { return Fit::No };
        let base = self.reached.unwrap_or(record.start);
        self.take(Current { record, base, taken: 0 }, bytes, false, over)
    }

    /// Leaves out the records that moved: what is sent from now on is in none of them.
    pub fn begins_behind(&mut self) {
        let whole = self.records.whole();
        self.records.queue.drain(..whole);
    }

    /// Joins plaintext that was read. `is_filled`: the reader had room for no more.
    pub fn received(&mut self, bytes: u64, is_filled: bool, over: &mut Overhead) -> Fit {
        // nothing is left of a record that gave so much
        let is_filled = is_filled && bytes < PLAIN_MAX;
        if let Some(current) = self.current {
            let has_newer = self.records.queue.iter().take(self.records.whole()).any(|r| r.is_data);
            let left = match *over {
                Overhead::Fixed(o) => Some((current.record.length() - o).saturating_sub(current.taken)),
                _ => None,
            };
            match left {
                Some(left) if bytes > left || (bytes < left && !is_filled) => return Fit::No,
                None if has_newer && !self.records.is_ahead => {
                    // the reader went on to another record, so that one was over
                    let Some(learned) = over.learn(current.record.length(), current.taken) else { return Fit::No };
                    *over = learned;
                    self.resolve(Ends::With);
                }
                None if has_newer => return Fit::No,
                _ => {
                    self.resolve(Ends::Amid);
                    return self.take(current, bytes, is_filled, over);
                }
            }
        }
        let Some(record) = self.next_record(bytes, is_filled, *over) else { return Fit::No };
        let base = self.reached.unwrap_or(record.start);
        self.take(Current { record, base, taken: 0 }, bytes, is_filled, over)
    }

    /// The record out of which plaintext was read, with those before it left out: they had none.
    fn next_record(&mut self, bytes: u64, is_filled: bool, over: Overhead) -> Option<Record> {
        let whole = self.records.whole();
        let queue = &mut self.records.queue;
        let fits = |r: &Record| {
            let over = match over {
                Overhead::Fixed(o) => Some(o),
                _ => None,
            };
            match (r.length().checked_sub(bytes), over) {
                _ if !r.is_data => false,
                (None, _) => false,
                (Some(more), Some(o)) => more == o || (is_filled && more > o),
                (Some(more), None) => is_filled || OVERHEADS.contains(&more) || OVERHEADS_CBC.contains(&more),
            }
        };
        let at = if self.records.is_ahead {
            let is_unknown = over == Overhead::Unknown;
            let is_sure = |r: &Record| fits(r) && (!is_unknown || !is_filled || whole == 1);
            let with = |o| queue.iter().take(whole).position(|r| r.is_data && r.length().checked_sub(bytes) == Some(o));
            // the usual overhead first: with TLS 1.3 records of the handshake look like data too, and one may be as much longer as another
            // cipher would make it
            let usual = OVERHEADS.into_iter().filter(|_| is_unknown && !is_filled).find_map(with);
            usual.or_else(|| queue.iter().take(whole).position(is_sure))
        } else {
            // who reads no more than one record read the last one
            queue.iter().take(whole).rposition(|r| r.is_data).filter(|&i| fits(&queue[i]))
        }?;
        queue.drain(..at);
        queue.pop_front()
    }

    /// Takes plaintext out of a record.
    fn take(&mut self, mut current: Current, bytes: u64, is_filled: bool, over: &mut Overhead) -> Fit {
        let taken = current.taken + bytes;
        let length = current.record.length();
        let ends = match *over {
            Overhead::Fixed(o) if taken + o == length => Ends::With,
            Overhead::Fixed(o) if taken + o < length && is_filled => Ends::Amid,
            Overhead::Fixed(_) => return Fit::No,
            _ if is_filled && taken < length => Ends::Unknown,
            _ => {
                let Some(learned) = over.learn(length, taken) else { return Fit::No };
                *over = learned;
                Ends::With
            }
        };
        let place = Place {
            plain: self.plain,
            bytes,
            cipher: current.base + current.taken,
            record_end: current.record.end,
            ends,
        };
        current.taken = taken;
        self.current = (ends != Ends::With).then_some(current);
        self.place(place);
        Fit::Yes
    }

    fn place(&mut self, place: Place) {
        self.plain = place.plain + place.bytes;
        self.reached = Some(place.record_end);
        if self.places.len() == PLACES_MAX {
            self.places.pop_front();
        }
        self.places.push_back(place);
    }

    fn resolve(&mut self, ends: Ends) {
        self.current = self.current.filter(|_| ends != Ends::With);
        if let Some(last) = self.places.back_mut().filter(|p| p.ends == Ends::Unknown) {
            last.ends = ends;
        }
    }

    /// Joins plaintext that was sent by a call which began at this time, where all its records were. Records that had moved before have
    /// other plaintext, which was not told.
    pub fn sent(&mut self, bytes: u64, began: MonoNs, over: &mut Overhead) -> Fit {
        let whole = self.records.whole();
        let older = self.records.queue.iter().take(whole).take_while(|r| r.moved < began).count();
        self.records.queue.drain(..older);
        let whole = whole - older;
        let lengths: Vec<(bool, u64)> =
            self.records.queue.iter().take(whole).map(|r| (r.is_data, r.length())).collect();
        let tries: &[u64] = match over {
            Overhead::Fixed(o) => std::slice::from_ref(o),
            Overhead::Unknown => &OVERHEADS,
            Overhead::Varied => &[],
        };
        let found = tries.iter().find_map(|&o| Some((run_of(&lengths, bytes, o)?, Overhead::Fixed(o))));
        let padded = || {
            let last = lengths.len().checked_sub(1)?;
            let learned = lengths[last].0.then(|| over.learn(lengths[last].1, bytes))??;
            Some((last..last + 1, learned))
        };
        let Some((run, learned)) = found.or_else(padded) else {
            let passed: u64 = lengths.iter().map(|(_, length)| length).sum();
            return if passed > bytes + PATIENCE { Fit::No } else { Fit::Later };
        };
        *over = learned;
        self.records.queue.drain(..run.start);
        for record in self.records.queue.drain(..run.len()).collect::<Vec<_>>() {
            let plain = match learned {
                Overhead::Fixed(o) => record.length() - o,
                _ => bytes,
            };
            let cipher = self.reached.unwrap_or(record.start);
            self.reached_at = record.moved;
            self.place(Place { plain: self.plain, bytes: plain, cipher, record_end: record.end, ends: Ends::With });
        }
        Fit::Yes
    }

    /// The number in the ciphertext of a byte of plaintext; `None` where it did not move yet, or that is not known any more.
    pub fn start(&self, plain: u64) -> Option<u64> {
        if let Some(&start) = self.open.get(&plain) {
            return Some(start);
        }
        let p = self.places.iter().rev().find(|p| p.plain <= plain && plain < p.plain + p.bytes)?;
        Some(p.cipher + (plain - p.plain))
    }

    /// The same of the end of a message: what follows the plaintext in its record belongs to it.
    pub fn end(&self, plain: u64) -> Option<u64> {
        let p = self.places.iter().rev().find(|p| p.plain < plain && plain <= p.plain + p.bytes)?;
        match p.ends {
            Ends::With if plain == p.plain + p.bytes => Some(p.record_end),
            Ends::Unknown if plain == p.plain + p.bytes => None,
            _ => Some(p.cipher + (plain - p.plain)),
        }
    }

    /// A message begins that ends later.
    pub fn begins(&mut self, plain: u64, start: u64) {
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        self.open.insert(plain, start);
    }

    /// Its end is told, in plaintext, before it came.
    pub fn owes(&mut self, end: MessageEndRow) {
        if self.due.len() < OPEN_MAX {
            self.due.push(end);
        }
    }

    /// A message that began at this byte of plaintext ended.
    pub fn ended(&mut self, plain: u64) {
        self.open.remove(&plain);
    }

    /// The ends that were due and came, in plaintext still.
    pub fn came(&mut self) -> Vec<MessageEndRow> {
        if self.due.is_empty() {
            return Vec::new();
        }
        let mut due = std::mem::take(&mut self.due);
        let came = due.extract_if(.., |row| self.end(row.end).is_some()).collect();
        self.due = due;
        came
    }
}

/// The first records in a row whose plaintext has so many bytes, with this overhead.
fn run_of(records: &[(bool, u64)], bytes: u64, over: u64) -> Option<Range<usize>> {
    (0..records.len()).find_map(|first| {
        let mut sum = 0;
        for (i, &(is_data, length)) in records.iter().enumerate().skip(first) {
            if !is_data || length < over {
                return None;
            }
            sum += length - over;
            if sum >= bytes {
                return (sum == bytes && length > over).then_some(first..i + 1);
            }
        }
        None
    })
}
