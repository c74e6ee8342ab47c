//! One processor's pages of the kernel's ring buffer, event after event (`Documentation/trace/ring-buffer-design.rst`,
//! `include/linux/ring_buffer.h`).

use super::meta::CpuData;
use super::pack::{Packing, unpack};
use crate::readers::facts::Counts;
use crate::readers::source::ReadAt;
use crate::readers::tracefs::{Order, PageLayout, fill};
use std::ops::Range;
use wakepath_model::defects::id as defect;

/// Kinds of entry that are no event of up to 112 bytes.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of an entry's time, and of an absolute time; the rest is the time's before.
const DELTA_BITS: u32 = 27;
const STAMP_BITS: u32 = 59;
/// In a page's count of used bytes: that count, and what it says of events lost before the page.
const USED: u64 = (1 << DELTA_BITS) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_COUNTED: u64 = 1 << 30;

/// What all streams of a file share.
pub struct Shared<R> {
    pub source: R,
    pub order: Order,
    pub layout: PageLayout,
    pub packing: Packing,
    /// Most bytes that a stream holds.
    pub held_max: usize,
    pub counts: Counts,
    /// Bytes of the file read so far.
    pub done: u64,
}

/// Events lost before an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Time of the last event before, in the clock's unit.
    pub from: u64,
    /// How many; at least one where the kernel does not say.
    pub count: u64,
}

/// Reads one processor's data.
pub struct Stream {
    pub cpu: u16,
    /// Time of the current event, in the clock's unit.
    pub time: u64,
    /// What was lost before it.
    pub lost: Option<Lost>,
    event: Range<usize>,
    /// Where the file is read next, and where the processor's data end.
    at: u64,
    end: u64,
    page_bytes: usize,
    is_packed: bool,
    /// Compressed chunks left; `None` before their count was read.
    chunks: Option<u32>,
    packed: Vec<u8>,
    /// Some pages, and where the next begins.
    held: Vec<u8>,
    next_page: usize,
    /// The next entry, and the end of the page's entries.
    entry: usize,
    page_end: usize,
}

impl Stream {
    pub fn new(data: CpuData) -> Stream {
        Stream {
            cpu: data.cpu,
            time: 0,
            lost: None,
            event: 0..0,
            at: data.at,
            end: data.at.saturating_add(data.bytes),
            page_bytes: data.page_bytes as usize,
            is_packed: data.is_packed,
            chunks: None,
            packed: Vec::new(),
            held: Vec::new(),
            next_page: 0,
            entry: 0,
            page_end: 0,
        }
    }

    /// The current event's bytes.
    pub fn event(&self) -> &[u8] {
        &self.held[self.event.clone()]
    }

    /// Goes to the next event; `false` where there is none.
    pub fn advance<R: ReadAt>(&mut self, shared: &mut Shared<R>) -> bool {
        loop {
            let order = shared.order;
            let word = |at: usize| order.u32(&self.held[..self.page_end], at);
            let Some(header) = word(self.entry) else {
                if !self.next_page(shared) {
                    return false;
                }
                continue;
            };
            let (kind, delta) = match order {
                Order::Little => (header & 31, header >> 5),
                Order::Big => (header >> DELTA_BITS, header & USED as u32),
            };
            let delta = u64::from(delta);
            let array = word(self.entry + 4);
            let (data, next) = match kind {
                // nothing more on this page
                PADDING if delta == 0 => (None, self.page_end),
                PADDING => (None, self.entry + 4 + array.map_or(0, |a| a as usize)),
                TIME_EXTEND => {
                    self.time = self.time.wrapping_add(u64::from(array.unwrap_or(0)) << DELTA_BITS);
                    (None, self.entry + 8)
                }
                TIME_STAMP => {
                    let low = u64::from(array.unwrap_or(0)) << DELTA_BITS | delta;
                    let mut time = self.time >> STAMP_BITS << STAMP_BITS | low & ((1 << STAMP_BITS) - 1);
                    if time < self.time && self.time - time > 1 << (STAMP_BITS - 1) {
                        time = time.wrapping_add(1 << STAMP_BITS);
                    }
                    self.time = time;
                    (None, self.entry + 8)
                }
                0 => {
                    let bytes = array.map_or(0, |a| a as usize);
                    (Some(self.entry + 8), self.entry + 4 + ((bytes + 3) & !3))
                }
                words => (Some(self.entry + 4), self.entry + 4 + 4 * words as usize),
            };
            if kind != TIME_STAMP {
                self.time = self.time.wrapping_add(delta);
            }
            if next <= self.entry || next > self.page_end || data.is_some_and(|d| d > next) {
                let what = format!("an entry of processor {} reaches beyond its page", self.cpu);
                let at = if self.is_packed { self.at } else { self.at - (self.held.len() - self.entry) as u64 };
                shared.counts.fault(defect::IMPORT_CUT, "", at, what);
                self.entry = self.page_end;
                continue;
            }
            self.entry = next;
            if let Some(data) = data {
                self.event = data..next;
                return true;
            }
        }
    }

    /// Goes to the next page that there is.
    fn next_page<R: ReadAt>(&mut self, shared: &mut Shared<R>) -> bool {
        if self.next_page >= self.held.len() && !self.load(shared) {
            (self.entry, self.page_end) = (0, 0);
            return false;
        }
        let (order, layout) = (shared.order, shared.layout);
        let page = self.next_page..self.held.len().min(self.next_page + self.page_bytes);
        self.next_page = page.end;
        let bytes = &self.held[page.clone()];
        let count = bytes.get(8..8 + usize::from(layout.commit_bytes)).map(|b| order.unsigned(b));
        let (Some(time), Some(count)) = (order.u64(bytes, 0), count) else {
            // cut in the page's head, which `load` noted
            (self.entry, self.page_end) = (0, 0);
            return true;
        };
        let data = usize::from(layout.data);
        let used = (count & USED) as usize;
        if used > self.page_bytes.saturating_sub(data) {
            let what = format!("a page of processor {} claims more bytes than it has", self.cpu);
            shared.counts.fault(defect::IMPORT_DAMAGED, "", self.at, what);
        }
        if count & MISSED != 0 {
            let stored = order.u64(bytes, data + used).filter(|_| count & MISSED_COUNTED != 0);
            let stored = if layout.commit_bytes == 4 {
                stored.and(order.u32(bytes, data + used).map(u64::from))
            } else {
                stored
            };
            let from = if self.time == 0 { time } else { self.time };
            let lost = self.lost.get_or_insert(Lost { from, count: 0 });
            lost.count = lost.count.saturating_add(stored.unwrap_or(1).max(1));
        }
        self.time = time;
        self.entry = page.start + data.min(bytes.len());
        self.page_end = page.start + (data + used).min(bytes.len());
        true
    }

    /// Reads some pages. `false` where there are no more.
    fn load<R: ReadAt>(&mut self, shared: &mut Shared<R>) -> bool {
        self.held.clear();
        self.next_page = 0;
        if self.at >= self.end {
            return false;
        }
        if self.is_packed { self.load_chunk(shared) } else { self.load_pages(shared) }
    }

    fn load_pages<R: ReadAt>(&mut self, shared: &mut Shared<R>) -> bool {
        let room = (shared.held_max / self.page_bytes).max(1) * self.page_bytes;
        let want = (self.end - self.at).min(room as u64);
        let have = shared.source.size().saturating_sub(self.at).min(want);
        self.held.resize(have as usize, 0);
        let read = fill(&shared.source, self.at, &mut self.held);
        if !read {
            self.held.clear();
        }
        self.at += self.held.len() as u64;
        shared.done += self.held.len() as u64;
        if have < want || !read {
            let what = format!("the data of processor {} end early", self.cpu);
            shared.counts.fault(defect::IMPORT_CUT, "", self.at, what);
            self.end = self.at;
        }
        !self.held.is_empty()
    }

    fn load_chunk<R: ReadAt>(&mut self, shared: &mut Shared<R>) -> bool {
        let mut word = [0; 4];
        let left = match self.chunks {
            Some(left) => left,
            None if fill(&shared.source, self.at, &mut word) => {
                self.at += 4;
                shared.order.unsigned(&word) as u32
            }
            None => return self.broken(shared, "end early"),
        };
        if left == 0 {
            return false;
        }
        self.chunks = Some(left - 1);
        let mut sizes = [0; 8];
        if !fill(&shared.source, self.at, &mut sizes) {
            return self.broken(shared, "end early");
        }
        let packed = shared.order.unsigned(&sizes[..4]);
        let unpacked = shared.order.unsigned(&sizes[4..]) as usize;
        if packed > shared.held_max as u64 || unpacked > shared.held_max {
            return self.broken(shared, "have a chunk of no likely size");
        }
        self.packed.resize(packed as usize, 0);
        if !fill(&shared.source, self.at + 8, &mut self.packed) {
            return self.broken(shared, "end early");
        }
        self.at += 8 + packed;
        shared.done += 8 + packed;
        if !unpack(shared.packing, &self.packed, unpacked, &mut self.held) {
            return self.broken(shared, "have a chunk that does not unpack");
        }
        !self.held.is_empty()
    }

    fn broken<R>(&mut self, shared: &mut Shared<R>, what: &str) -> bool {
        let what = format!("the compressed data of processor {} {what}", self.cpu);
        shared.counts.fault(defect::IMPORT_CUT, "", self.at, what);
        self.held.clear();
        self.end = self.at;
        false
    }
}
