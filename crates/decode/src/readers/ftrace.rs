//! Reader of `trace.dat`, as trace-cmd writes it, versions 6 and 7 (`trace-cmd.dat.v6(5)`, `trace-cmd.dat.v7(5)`).
//!
//! Each processor has a stream of its own, which is in order of time; they are merged by a heap, with a few pages of
//! each in memory.

mod meta;
mod pack;
mod stream;

use super::facts::{Counts, HostFacts, Progress};
use super::reader::{About, Content, Layout, Reader, TraceReader, Unreadable};
use super::source::{File, Part, ReadAt};
use super::tracefs::MAGIC;
use super::tracepoints::{Context, Tracepoints};
use crate::raw::RawSink;
use meta::{Cycles, Meta};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use stream::{Shared, Stream};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::MonoNs;

/// Events after which [`TraceReader::next`] returns.
const STEP: usize = 1 << 14;
/// Bytes that all streams hold together, and bounds of what one does.
const HELD_MAX: usize = 128 << 20;
const STREAM_HELD: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;

/// Reads one `trace.dat`.
pub struct FtraceReader {
    shared: Shared<File>,
    points: Tracepoints,
    streams: Vec<Stream>,
    /// Streams with an event, the oldest first.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    cycles: Option<Cycles>,
    facts: HostFacts,
    lost: u64,
    total: u64,
    unknown: u64,
}

impl Reader for FtraceReader {
    const ABOUT: About = About {
        id: "read.ftrace",
        name: "trace.dat",
        reads: "`trace.dat` of trace-cmd, versions 6 and 7",
        content: Content::KernelEvents,
        layout: Layout::File,
        refused: None,
    };

    fn fits(head: &[u8]) -> bool {
        head.starts_with(MAGIC)
    }
}

impl FtraceReader {
    /// Reads what stands before the first event. What cannot be read is a fault in [`TraceReader::counts`].
    pub fn new(source: impl ReadAt + Send + 'static) -> FtraceReader {
        let source = Box::new(source) as File;
        let meta = Meta::read(&source);
        let held_max = (HELD_MAX / meta.data.len().max(1)).clamp(*STREAM_HELD.start(), *STREAM_HELD.end());
        let mut shared = Shared {
            source,
            order: meta.order,
            layout: meta.layout,
            packing: meta.packing,
            held_max,
            counts: meta.counts,
            done: 0,
        };
        // without a clock that counts nanoseconds no event has a time that could be told
        let timed = !shared.counts.faults.iter().any(|f| f.defect == defect::IMPORT_NO_TIME && f.offset == 0);
        let total = meta.data.iter().map(|d| d.bytes).fold(0, u64::saturating_add);
        let mut streams: Vec<Stream> = meta.data.into_iter().filter(|_| timed).map(Stream::new).collect();
        let mut order = BinaryHeap::with_capacity(streams.len());
        for (number, stream) in streams.iter_mut().enumerate() {
            if stream.advance(&mut shared) {
                order.push(Reverse((stream.time, number as u32)));
            }
        }
        let (points, cycles, facts) = (meta.points, meta.cycles, meta.facts);
        FtraceReader { shared, points, streams, order, cycles, facts, lost: 0, total, unknown: 0 }
    }
}

impl TraceReader for FtraceReader {
    fn open(parts: Vec<Part>) -> Result<FtraceReader, Unreadable> {
        Ok(FtraceReader::new(Part::file(parts)))
    }

    fn next<S: RawSink>(&mut self, sink: &mut S) -> bool {
        let mut left = STEP;
        while let Some(Reverse((_, number))) = self.order.pop() {
            let stream = &mut self.streams[number as usize];
            let until = self.order.peek().map_or(u64::MAX, |next| next.0.0);
            // while this stream has the oldest event, the heap need not be asked
            loop {
                let ns = |time| MonoNs(self.cycles.map_or(time, |c| c.ns(time)));
                let at = ns(stream.time);
                if let Some(lost) = stream.lost.take() {
                    self.lost = self.lost.saturating_add(lost.count);
                    sink.lost(Some(stream.cpu), ns(lost.from).min(at), at, lost.count);
                }
                if !self.points.event(at, stream.cpu, Context::default(), stream.event(), sink) {
                    if self.unknown == 0 {
                        let what = "events that the file does not lay out";
                        self.shared.counts.fault(defect::IMPORT_NO_FORMATS, "", 0, what);
                        sink.count(defect::IMPORT_NO_FORMATS, at);
                    }
                    self.unknown += 1;
                }
                left = left.saturating_sub(1);
                if !stream.advance(&mut self.shared) {
                    break;
                }
                if stream.time > until || left == 0 {
                    self.order.push(Reverse((stream.time, number)));
                    break;
                }
            }
            if left == 0 {
                return !self.order.is_empty();
            }
        }
        false
    }

    fn facts(&self) -> &HostFacts {
        &self.facts
    }

    fn counts(&self) -> Counts {
        let mut counts = self.shared.counts.clone();
        counts.within(self.shared.source.size());
        Counts { events: self.points.counts(), lost: self.lost, ..counts }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.shared.done.min(self.total), total: self.total }
    }
}
