//! Rows on their way from the thread that captures to the one that writes: in batches, with the strings they name.

use std::sync::mpsc::{Receiver, SyncSender};
use wakepath_decode::network::Sniffed;
use wakepath_decode::recurring::{Recurring, Said};
use wakepath_decode::{RowSink, TaskFacts};
use wakepath_model::defects::{self, Severity, id as defect};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::intern::Interner;
use wakepath_model::rows::{Event, LossRow, Row};

/// Rows of a batch: enough that handing it over costs nothing beside them.
const BATCH_ROWS: usize = 512;

/// Rows, and the strings that were not told before, in the order of their numbers.
#[derive(Default)]
pub struct Batch {
    pub events: Vec<Event>,
    strings: Vec<u8>,
    ends: Vec<usize>,
    /// What the sniffer had seen when the batch was sent.
    pub sniffed: Sniffed,
    /// Bytes of files read, for a progress bar.
    pub done_bytes: u64,
}

impl Batch {
    /// Adds the new strings to the receiver's: in the same order they get the same numbers.
    pub fn learn(&self, texts: &mut Interner) {
        let mut from = 0;
        for end in &self.ends {
            texts.intern(&self.strings[from..*end]);
            from = *end;
        }
    }

    fn clear(&mut self) {
        self.events.clear();
        self.strings.clear();
        self.ends.clear();
    }
}

/// The other thread is gone.
pub struct Gone;

/// Where the sniffer's rows go.
pub struct Rows {
    interner: Interner,
    recurring: Recurring,
    /// Strings that were told.
    told: usize,
    batch: Batch,
    out: SyncSender<Batch>,
    empty: Receiver<Batch>,
    counts: Vec<(&'static str, u64)>,
    /// Losses were told until then.
    reported: MonoNs,
    overflow: u64,
    is_gone: bool,
}

impl Rows {
    /// Sends batches into `out` and takes those that were used from `empty`.
    pub fn new(out: SyncSender<Batch>, empty: Receiver<Batch>, recurring: Recurring) -> Rows {
        let interner = Interner::new();
        let told = interner.count();
        Rows {
            interner,
            recurring,
            told,
            batch: Batch::default(),
            out,
            empty,
            counts: Vec::new(),
            reported: MonoNs(0),
            overflow: 0,
            is_gone: false,
        }
    }

    /// Adds a row.
    pub fn event(&mut self, event: Event) {
        self.batch.events.push(event);
        if self.batch.events.len() >= BATCH_ROWS {
            self.send_now();
        }
    }

    /// Adds a loss between two times.
    pub fn lost(&mut self, defect: &'static str, count: u64, from: MonoNs, at: MonoNs) {
        debug_assert!(defects::find(defect).is_some(), "{defect} is not in the list of defects");
        let what = self.interner.intern(defect);
        self.event(Event::Loss(LossRow { at, from: from.min(at), count, what, ..Default::default() }));
    }

    /// Writes down what was counted until `now`. What makes rows wrong or missing may have done so anywhere since the last
    /// time; all else is marked in the rows themselves and covers no time.
    pub fn report(&mut self, now: MonoNs) {
        let overflow = self.interner.overflow_count();
        if overflow > self.overflow {
            self.lost(defect::INTERNER, overflow - self.overflow, self.reported, now);
            self.overflow = overflow;
        }
        for (id, count) in std::mem::take(&mut self.counts) {
            let is_hole = defects::find(id).is_some_and(|d| d.severity == Severity::Error);
            let from = if is_hole && self.reported.0 > 0 { self.reported } else { now };
            self.lost(id, count, from, now);
        }
        self.reported = now;
    }

    /// Hands over what there is. Waits while the other thread is behind: then packets wait in the kernel's ring, and what
    /// does not fit there is counted there.
    pub fn send(&mut self, sniffed: Sniffed, done_bytes: u64) -> Result<(), Gone> {
        self.batch.sniffed = sniffed;
        self.batch.done_bytes = done_bytes;
        self.send_now();
        if self.is_gone { Err(Gone) } else { Ok(()) }
    }

    fn send_now(&mut self) {
        while self.told < self.interner.count() {
            let text = self.interner.get(StrId(self.told as u32)).unwrap_or_default();
            self.batch.strings.extend_from_slice(text);
            self.batch.ends.push(self.batch.strings.len());
            self.told += 1;
        }
        let mut next = self.empty.try_recv().unwrap_or_default();
        next.clear();
        (next.sniffed, next.done_bytes) = (self.batch.sniffed, self.batch.done_bytes);
        self.is_gone |= self.out.send(std::mem::replace(&mut self.batch, next)).is_err();
    }
}

impl RowSink for Rows {
    fn push<R: Row>(&mut self, row: &R) {
        if let Some(event) = Event::read(R::TABLE, bytemuck::bytes_of(row)) {
            self.event(event);
        }
    }
    /// The network vantage keeps no payload.
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        match self.counts.iter_mut().find(|(d, _)| *d == defect) {
            Some((_, n)) => *n += 1,
            None => self.counts.push((defect, 1)),
        }
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.interner.intern(text)
    }
    fn said(&mut self, text: &str, said: &Said) -> StrId {
        let Rows { interner, recurring, .. } = self;
        let (id, lost) = recurring.take(text, said, |text| interner.intern(text));
        if let Some(defect) = lost {
            self.count(defect, MonoNs(0));
        }
        id
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{channel, sync_channel};

    #[test]
    fn strings_have_the_same_numbers_on_both_sides() {
        let (out, batches) = sync_channel(64);
        let (_back, empty) = channel();
        let mut rows = Rows::new(out, empty, Recurring::all_words());
        let mut sent = Vec::new();
        for i in 0..3000u32 {
            let text = format!("/path/{}", i % 700);
            sent.push((rows.intern(text.as_bytes()), text));
            rows.lost(defect::PACKET_DROP, u64::from(i), MonoNs(5), MonoNs(7));
        }
        rows.count(defect::FOLDER_IO, MonoNs(3));
        rows.report(MonoNs(9));
        assert!(rows.send(Sniffed::default(), 77).is_ok());
        let (mut texts, mut count, mut last) = (Interner::new(), 0, None);
        for batch in batches.try_iter() {
            batch.learn(&mut texts);
            count += batch.events.len();
            last = batch.events.last().copied();
        }
        assert_eq!(count, 3001);
        for (id, text) in sent {
            assert_eq!(texts.get(id), Some(text.as_bytes()));
        }
        let Some(Event::Loss(l)) = last else { panic!("{last:?}") };
        assert_eq!((texts.get(l.what), l.count, l.at), (Some(defect::FOLDER_IO.as_bytes()), 1, MonoNs(9)));
    }

    #[test]
    fn where_nobody_takes_rows_the_sender_learns_it() {
        let (out, batches) = sync_channel(1);
        let (_back, empty) = channel();
        let mut rows = Rows::new(out, empty, Recurring::all_words());
        drop(batches);
        assert!(rows.send(Sniffed::default(), 0).is_err());
    }
}
