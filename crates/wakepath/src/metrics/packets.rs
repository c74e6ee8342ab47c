//! Capture files, read straight through the sniffer: no folder, nothing written.

use super::{Counted, options};
use crate::captures::Capture;
use crate::cli::MetricsArgs;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use wakepath_analysis::metrics::Metrics;
use wakepath_decode::network::{Sniffer, SnifferOptions};
use wakepath_decode::readers::pcap::Record;
use wakepath_decode::recurring::Said;
use wakepath_decode::{RowSink, TaskFacts};
use wakepath_model::defects::id as defect;
use wakepath_model::ids::{CommonNs, EndpointId, MonoNs, StrId};
use wakepath_model::intern::Interner;
use wakepath_model::rows::{Row, SniffedExchangeRow, SniffedFlowRow};
use wakepath_present::losses::{Loss, loss};
use wakepath_present::metrics::{CaptureView, Seen};

/// Rows held until they are counted in order of time, as a folder's are: about 20 MB of them.
const HELD_MAX: usize = 1 << 16;

/// A row on its way.
enum Held {
    Flow(SniffedFlowRow),
    Exchange(SniffedExchangeRow),
}

/// Rows that are counted in order of time, and forgotten. A capture's times are wall-clock times.
struct Sink {
    metrics: Metrics,
    /// By time, table and number: the order in which a folder gives them. An exchange may become known long after it ended.
    held: BTreeMap<(MonoNs, u8, u64), Held>,
    pushed: u64,
    texts: Interner,
    counts: Vec<(&'static str, u64)>,
}

impl Sink {
    /// Counts the oldest rows until at most `keep` are held.
    fn count_held(&mut self, keep: usize) {
        while self.held.len() > keep
            && let Some(((at, _, _), row)) = self.held.pop_first()
        {
            let at = CommonNs(at.0 as i64);
            match row {
                Held::Flow(row) => self.metrics.flow(0, at, &row, &self.texts),
                Held::Exchange(row) => self.metrics.exchange(0, at, &row, &self.texts),
            }
        }
    }
}

impl RowSink for Sink {
    fn push<R: Row>(&mut self, row: &R) {
        let bytes = bytemuck::bytes_of(row);
        let held = match R::TABLE {
            SniffedFlowRow::TABLE => bytemuck::checked::try_pod_read_unaligned(bytes).map(Held::Flow),
            SniffedExchangeRow::TABLE => bytemuck::checked::try_pod_read_unaligned(bytes).map(Held::Exchange),
            _ => return,
        };
        let Ok(held) = held else { return };
        self.pushed += 1;
        self.held.insert((row.at(), R::TABLE as u8, self.pushed), held);
        self.count_held(HELD_MAX);
    }
    fn push_head(&mut self, _: MonoNs, _: EndpointId, _: u64, _: bool, _: &[u8]) {}
    fn count(&mut self, defect: &'static str, _: MonoNs) {
        add(&mut self.counts, defect, 1);
    }
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.texts.intern(text)
    }
    /// Nothing is written, and who asks has the capture itself: words are shown as they are.
    fn said(&mut self, text: &str, _: &Said) -> StrId {
        self.texts.intern(text.as_bytes())
    }
    fn describe(&mut self, _: u32, _: u32) -> TaskFacts {
        TaskFacts::default()
    }
}

fn add(counts: &mut Vec<(&'static str, u64)>, defect: &'static str, count: u64) {
    match counts.iter_mut().find(|(d, _)| *d == defect) {
        Some((_, n)) => *n += count,
        None => counts.push((defect, count)),
    }
}

/// The sniffer, and what concerns all files.
struct Reading<'a> {
    args: &'a MetricsArgs,
    sniffer: Sniffer<Sink>,
    /// Times are counted from here; known with the first packet.
    start: Option<u64>,
    /// Nothing before is asked for, and nothing from `to` on.
    from: u64,
    to: u64,
    lost: u64,
}

impl Reading<'_> {
    /// Takes a record; breaks where no later one is asked for.
    fn record(&mut self, record: Record<'_>) -> ControlFlow<()> {
        match record {
            Record::Packet(packet) => {
                if self.start.is_none() {
                    self.begin(packet.at_ns);
                }
                if packet.at_ns >= self.to {
                    return ControlFlow::Break(());
                }
                self.sniffer.packet(&packet);
            }
            Record::Lost { from_ns, at_ns, count, .. } => {
                self.lost += count;
                self.sniffer.lost(MonoNs(from_ns), MonoNs(at_ns), count);
                if at_ns >= self.from {
                    self.sniffer.out().metrics.lost(count);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn begin(&mut self, first: u64) {
        self.start = Some(first);
        let at = |m: Option<crate::moment::Moment>| m.map(|m| m.common_ns((first as i64, i64::MAX)));
        let (from, to) = (at(self.args.from).unwrap_or(i64::MIN), at(self.args.to).unwrap_or(i64::MAX));
        self.sniffer.out().metrics.only(CommonNs(from), CommonNs(to));
        self.sniffer.out().metrics.watched(CommonNs(first as i64), CommonNs(first as i64));
        self.from = u64::try_from(from).unwrap_or(0);
        self.to = u64::try_from(to).unwrap_or(0);
    }
}

/// Reads the files one after the other.
pub fn read(args: &MetricsArgs) -> Result<Counted> {
    if [args.from, args.to].iter().flatten().any(|m| matches!(m, crate::moment::Moment::Before(_))) {
        bail!("where a capture ends shows only at its end: give --from and --to by its start, as +12.5s");
    }
    let sink = Sink {
        metrics: Metrics::new(options(args)?),
        held: BTreeMap::new(),
        pushed: 0,
        texts: Interner::new(),
        counts: Vec::new(),
    };
    let sniffer = Sniffer::new(sink, SnifferOptions::default());
    let mut reading = Reading { args, sniffer, start: None, from: 0, to: u64::MAX, lost: 0 };
    let mut losses: Vec<Loss> = Vec::new();
    let mut captures = args.sources.iter().map(|s| Capture::open(s)).collect::<Result<Vec<_>>>()?;
    let all = captures.iter().map(|c| c.bytes).sum::<Option<u64>>();
    let bar = crate::progress::of_bytes("reading", all)?;
    let mut before = 0;
    for capture in &mut captures {
        let last = reading.sniffer.so_far().last;
        let (mut first, mut is_over) = (None, false);
        loop {
            let goes_on = capture.next(&mut |record| {
                if let (None, Record::Packet(p)) = (first, record) {
                    first = Some(p.at_ns);
                }
                is_over = is_over || reading.record(record).is_break();
            })?;
            if let Some(first) = first.filter(|&f| f < last.0) {
                bail!(
                    "{}: begins {} before the file named before it ends; give captures in order of time, and those of one \
                     time one by one",
                    capture.name,
                    wakepath_present::units::duration(last.0 - first)
                );
            }
            bar.set_position(before + capture.done());
            if !goes_on || is_over {
                break;
            }
        }
        before += capture.done();
        faults(capture, &mut losses);
    }
    bar.finish_and_clear();
    Ok(finish(reading, losses))
}

/// What could not be read of a file.
fn faults(capture: &Capture, losses: &mut Vec<Loss>) {
    for fault in capture.counts().faults {
        match losses.iter_mut().find(|l| l.id == fault.defect) {
            Some(known) => known.count += 1,
            None => {
                let place = format!("{} at byte {}: {}", capture.name, fault.offset, fault.what);
                losses.push(Loss { place: Some(place), ..loss(fault.defect, 1) });
            }
        }
    }
}

fn finish(mut reading: Reading<'_>, mut losses: Vec<Loss>) -> Counted {
    reading.sniffer.finish();
    let seen = reading.sniffer.so_far();
    let sink = reading.sniffer.out();
    if seen.packets > 0 {
        sink.metrics.watched(CommonNs(seen.first.0 as i64), CommonNs(seen.last.0 as i64));
    }
    sink.count_held(0);
    sink.metrics.finish();
    if sink.texts.overflow_count() > 0 {
        add(&mut sink.counts, defect::INTERNER, sink.texts.overflow_count());
    }
    if reading.lost > 0 {
        // the sniffer may have counted how often, which is not how many
        sink.counts.retain(|(d, _)| *d != defect::PACKET_DROP);
        sink.counts.push((defect::PACKET_DROP, reading.lost));
    }
    losses.extend(sink.counts.iter().map(|&(id, n)| loss(id, n)));
    let metrics = std::mem::replace(&mut sink.metrics, Metrics::new(Default::default()));
    let capture = CaptureView { packets: seen.packets, bytes: seen.bytes, lost: reading.lost };
    Counted { parts: vec![(Seen::Packets, metrics)], capture: Some(capture), losses }
}
