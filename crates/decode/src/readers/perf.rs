//! Reader of `perf.data`, as `perf record` writes it into a file or a pipe
//! (`tools/perf/Documentation/perf.data-file-format.txt`).
//!
//! The container is read here and not by a library because those at hand take a file as a whole or not at all, do not
//! step over the tracing data of a recording into a pipe, and believe every length that the file claims.

mod attrs;
mod records;
mod rounds;

use super::facts::{Counts, HostFacts, Progress};
use super::reader::{About, Content, Layout, Reader, Refused, TraceReader, Unreadable};
use super::source::{File, Part, ReadAt, Unclaimed};
use super::tracefs::{Order, Scan};
use super::window::Window;
use crate::raw::RawSink;
use attrs::{ATTR_BYTES, Attr};
use records::{Head, Records, kind};
use rounds::Rounds;
use wakepath_model::defects::id as defect;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Bytes of input after which [`TraceReader::next`] returns.
const STEP: u64 = 1 << 20;
/// Bytes decompressed at once.
const DECOMPRESSED: usize = 256 << 10;
/// Bytes of the header of a recording into a pipe; anything longer is a file's.
const PIPE_HEADER: u64 = 16;
/// Bytes of a file's header.
const FILE_HEADER: u64 = 104;
/// Features are bits of 256.
const FEATURES: u64 = 256;
/// Longest tracing data and feature believed.
const SECTION_MAX: u64 = 64 << 20;

/// Reads one `perf.data`.
pub struct PerfReader {
    window: Window<File>,
    order: Order,
    at: u64,
    end: u64,
    rounds: Rounds,
    records: Records,
    unpacker: Unpacker,
    is_done: bool,
}

impl Reader for PerfReader {
    const ABOUT: About = About {
        id: "read.perf",
        name: "perf.data",
        reads: "`perf.data` with tracepoints, from a file or a pipe",
        content: Content::KernelEvents,
        layout: Layout::File,
        refused: Some(Refused {
            file: "data",
            why: "is a folder of perf record --threads, which is not read; record again without --threads",
        }),
    };

    fn fits(head: &[u8]) -> bool {
        head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP")
    }
}

impl PerfReader {
    /// Reads what stands before the first event. What cannot be read is a fault in [`TraceReader::counts`].
    pub fn new(source: impl ReadAt + Send + 'static) -> PerfReader {
        let mut window = Window::new(Box::new(source) as File);
        let order = match window.get(0, 8) {
            Some(b"2ELIFREP") => Order::Big,
            _ => Order::Little,
        };
        let header = window.get(8, 8).map(|b| order.unsigned(b));
        let size = window.source.size();
        let mut reader = PerfReader {
            window,
            order,
            at: size,
            end: size,
            rounds: Rounds::default(),
            records: Records::new(order),
            unpacker: Unpacker::default(),
            is_done: false,
        };
        match header {
            Some(PIPE_HEADER) => {
                reader.at = PIPE_HEADER;
                reader.read_ahead();
            }
            Some(FILE_HEADER..) if reader.file_header().is_some() => {}
            _ => reader.records.counts.fault(defect::IMPORT_CUT, "", size, "the file ends in its header"),
        }
        reader
    }

    /// The header of a file that perf could go back in.
    fn file_header(&mut self) -> Option<()> {
        let source = &self.window.source;
        let mut scan = Scan::new(source, 16, FILE_HEADER, self.order);
        let attr_size = scan.u64()?;
        let (attrs_at, attrs_size, data_at, data_size) = (scan.u64()?, scan.u64()?, scan.u64()?, scan.u64()?);
        scan.skip(16); // names of events, as old kernels have them
        let mut features = [0; FEATURES as usize / 8];
        scan.bytes(&mut features)?;

        let room = attr_size.checked_sub(16).filter(|size| ATTR_BYTES.contains(size));
        let Some(room) = room else {
            self.records.counts.fault(defect::IMPORT_DAMAGED, "", 16, "attributes of no possible size");
            return Some(());
        };
        let mut unclaimed = Unclaimed::of(source);
        let mut scan = Scan::new(source, attrs_at, attrs_at.saturating_add(attrs_size), self.order);
        for _ in 0..attrs_size / attr_size {
            let here = scan.at;
            let described = Attr::read(&mut scan, room).and_then(|attr| Some((attr, scan.u64()?, scan.u64()?)));
            let Some((attr, ids_at, ids_size)) = described else {
                self.records.counts.fault(defect::IMPORT_CUT, "", here, "the file ends in its attributes");
                break;
            };
            let Some(number) = self.records.add_attr(attr) else { break };
            if unclaimed.claim(ids_at, ids_size).is_none() {
                let what = "the ids of an attribute lie over other parts of the file";
                self.records.counts.fault(defect::IMPORT_DAMAGED, "", here, what);
                break;
            }
            let mut ids = Scan::new(source, ids_at, ids_at.saturating_add(ids_size), self.order);
            while let Some(id) = ids.u64() {
                self.records.add_id(id, number);
            }
        }

        self.at = data_at;
        let data_end = data_at.saturating_add(data_size);
        if data_size == 0 || data_end > self.end {
            // perf writes the size, and the sections after it, when it ends
            self.records.counts.fault(defect::IMPORT_CUT, "", self.end, "the file ends before its feature sections");
            return Some(());
        }
        self.end = data_end;
        let mut table = Scan::new(source, data_end, u64::MAX, self.order);
        for number in (0..FEATURES).filter(|n| feature_is_set(self.order, &features, *n)) {
            let here = table.at;
            let read = table.u64().zip(table.u64()).and_then(|(at, size)| {
                let mut scan = Scan::new(source, at, at.saturating_add(size), self.order);
                self.records.feature(number, &mut scan)
            });
            if read.is_none() {
                let what = format!("feature section {number} cannot be read");
                self.records.counts.fault(defect::IMPORT_CUT, "", here, what);
            }
        }
        Some(())
    }

    /// Takes what a recording into a pipe has at its begin, so that the facts are known before the first event.
    fn read_ahead(&mut self) {
        while let Some(head) = self.window.get(self.at, Head::BYTES).and_then(|b| Head::read(self.order, b)) {
            let describes = match head.kind {
                kind::FINISHED_ROUND | kind::AUXTRACE | kind::COMPRESSED | kind::COMPRESSED2 => false,
                other => other >= kind::FIRST_OF_PERF,
            };
            if !describes || !self.described(head) {
                return;
            }
        }
    }

    /// Takes one record that describes the others. Whether it was there.
    fn described(&mut self, head: Head) -> bool {
        let Some(record) = self.window.get(self.at, head.size).filter(|_| head.size >= Head::BYTES) else {
            return false;
        };
        let here = self.at;
        let mut next = here + head.size as u64;
        let understood = match head.kind {
            kind::HEADER_ATTR => {
                let record = record.to_vec();
                self.records.header_attr(&record)
            }
            kind::HEADER_FEATURE => {
                let record = record.to_vec();
                let mut scan = Scan::new(&record, Head::BYTES as u64, record.len() as u64, self.order);
                scan.u64().and_then(|number| self.records.feature(number, &mut scan))
            }
            kind::HEADER_TRACING_DATA => {
                // the data stand behind the record and do not count for its size
                let size = u64::from(self.order.u32(record, Head::BYTES).unwrap_or(0));
                let data = next;
                next = next.saturating_add(size);
                let mut scan = Scan::new(&self.window.source, data, next, self.order);
                (size <= SECTION_MAX).then(|| self.records.tracing_data(&mut scan)).flatten()
            }
            kind::AUXTRACE => {
                next = next.saturating_add(self.order.u64(record, Head::BYTES).unwrap_or(0));
                Some(())
            }
            _ => Some(()),
        };
        if understood.is_none() {
            let what = format!("a record of kind {} cannot be read", head.kind);
            self.records.counts.fault(defect::IMPORT_DAMAGED, "", here, what);
        }
        self.at = next;
        true
    }

    /// Takes one record; `false` where there is no next.
    fn step(&mut self, sink: &mut impl RawSink) -> bool {
        let head = self.window.get(self.at, Head::BYTES).and_then(|b| Head::read(self.order, b));
        let Some(head) = head.filter(|h| h.size <= (self.end - self.at) as usize) else {
            self.records.counts.fault(defect::IMPORT_CUT, "", self.at, "the file ends in a record");
            return false;
        };
        if head.size < Head::BYTES {
            self.records.counts.fault(defect::IMPORT_DAMAGED, "", self.at, "a record of no size");
            return false;
        }
        match head.kind {
            kind::FINISHED_ROUND => {
                let PerfReader { rounds, records, .. } = self;
                rounds.finish(|time, record| records.record(time, record, sink));
            }
            kind::COMPRESSED | kind::COMPRESSED2 => {
                let PerfReader { window, order, at, rounds, records, unpacker, .. } = self;
                let Some(record) = window.get(*at, head.size) else { return false };
                let packed = match head.kind {
                    kind::COMPRESSED => Some(&record[Head::BYTES..]),
                    // the newer kind is padded, and says how long it is
                    _ => order.u64(record, Head::BYTES).and_then(|n| record.get(16..)?.get(..usize::try_from(n).ok()?)),
                };
                let take = |record: &[u8]| hold(rounds, records, record, sink);
                if let Err(what) = packed.ok_or("its size is wrong").and_then(|p| unpacker.unpack(*order, p, take)) {
                    let what = format!("a compressed record: {what}");
                    records.counts.fault(defect::IMPORT_DAMAGED, "", *at, what);
                }
            }
            other if other >= kind::FIRST_OF_PERF => return self.described(head),
            _ => {
                let PerfReader { window, at, rounds, records, .. } = self;
                let Some(record) = window.get(*at, head.size) else { return false };
                hold(rounds, records, record, sink);
            }
        }
        self.at += head.size as u64;
        true
    }
}

impl TraceReader for PerfReader {
    fn open(parts: Vec<Part>) -> Result<PerfReader, Unreadable> {
        Ok(PerfReader::new(Part::file(parts)))
    }

    fn next<S: RawSink>(&mut self, sink: &mut S) -> bool {
        if self.is_done {
            return false;
        }
        let pause = self.at.saturating_add(STEP).min(self.end);
        while self.at < pause {
            if !self.step(sink) {
                self.at = self.end;
            }
        }
        if self.at >= self.end {
            self.is_done = true;
            if self.at > self.end {
                let what = "the file ends in a record";
                self.records.counts.fault(defect::IMPORT_CUT, "", self.end, what);
            }
            let PerfReader { rounds, records, .. } = self;
            rounds.end(|time, record| records.record(time, record, sink));
            self.records.end(sink);
        }
        !self.is_done
    }

    fn facts(&self) -> &HostFacts {
        &self.records.facts
    }

    fn counts(&self) -> Counts {
        let mut counts = self.records.counts();
        counts.within(self.window.source.size());
        counts
    }

    fn progress(&self) -> Progress {
        Progress { done: self.at.min(self.end), total: self.end }
    }
}

/// Puts a kernel's record in its place in time.
fn hold(rounds: &mut Rounds, records: &mut Records, record: &[u8], sink: &mut impl RawSink) {
    let Some(head) = Head::read(records.order, record) else { return };
    let takes = [kind::SAMPLE, kind::COMM, kind::FORK, kind::EXIT, kind::LOST, kind::LOST_SAMPLES];
    if takes.contains(&head.kind) && rounds.push(records.time(record, head.kind == kind::SAMPLE), record) {
        rounds.relieve(|time, record| records.record(time, record, sink));
    }
}

fn feature_is_set(order: Order, features: &[u8], number: u64) -> bool {
    let word = features.chunks(8).nth(number as usize / 64).map_or(0, |w| order.unsigned(w));
    word >> (number % 64) & 1 == 1
}

/// Decompresses the records of `perf record -z`: one stream, cut into records anywhere.
#[derive(Default)]
struct Unpacker {
    decoder: Option<Decoder<'static>>,
    /// Decompressed bytes that are no whole record yet.
    rest: Vec<u8>,
    out: Vec<u8>,
    is_broken: bool,
}

impl Unpacker {
    fn unpack(&mut self, order: Order, packed: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), &'static str> {
        if self.is_broken {
            return Err("it follows a damaged one");
        }
        // whatever goes wrong, the stream cannot be joined again
        self.is_broken = true;
        if self.decoder.is_none() {
            self.decoder = Decoder::new().ok();
            self.out.resize(DECOMPRESSED, 0);
        }
        let decoder = self.decoder.as_mut().ok_or("no decoder")?;
        let mut input = InBuffer::around(packed);
        loop {
            let mut output = OutBuffer::around(&mut self.out[..]);
            decoder.run(&mut input, &mut output).map_err(|_| "it does not decompress")?;
            let count = output.pos();
            self.rest.extend_from_slice(&self.out[..count]);
            let mut at = 0;
            while let Some(head) = Head::read(order, &self.rest[at..]) {
                if head.size < Head::BYTES {
                    return Err("a record of no size in it");
                }
                let Some(record) = self.rest.get(at..at + head.size) else { break };
                take(record);
                at += head.size;
            }
            self.rest.drain(..at);
            if input.pos() == packed.len() && count < DECOMPRESSED {
                break;
            }
        }
        self.is_broken = false;
        Ok(())
    }
}
