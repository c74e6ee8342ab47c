//! perf's records, one by one: what they say of the host, of tasks, of losses, and the tracepoints in samples.

use super::attrs::{Attr, Stamp, TYPE_TRACEPOINT};
use crate::raw::{Raw, RawSink, Task};
use crate::readers::facts::{Counts, HostFacts};
use crate::readers::source::ReadAt;
use crate::readers::tracefs::{self, Order, Scan};
use crate::readers::tracepoints::{Context, Numbers, Tracepoints};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::MonoNs;

/// Most attributes and ids believed.
const ATTRS_MAX: usize = 1 << 16;
const IDS_MAX: usize = 1 << 22;
/// Most processors whose latest time is remembered, for the interval of a loss.
const CPUS_MAX: usize = 1 << 14;

/// Kinds of record, below 64 the kernel's (`perf_event_open(2)`), from there perf's own.
pub mod kind {
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const LOST_SAMPLES: u32 = 13;
    pub const FIRST_OF_PERF: u32 = 64;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// In a COMM record's `misc`: the name is that of a new program.
const MISC_COMM_EXEC: u16 = 1 << 13;
/// In a LOST_SAMPLES record's `misc`: a BPF filter dropped them, as asked for.
const MISC_LOST_BY_FILTER: u16 = 1 << 15;

/// Feature sections (`tools/perf/Documentation/perf.data-file-format.txt`).
mod feature {
    pub const TRACING_DATA: u64 = 1;
    pub const HOSTNAME: u64 = 3;
    pub const OSRELEASE: u64 = 4;
    pub const ARCH: u64 = 6;
    pub const NRCPUS: u64 = 7;
    pub const EVENT_DESC: u64 = 12;
    pub const CLOCK_DATA: u64 = 29;
}

/// A record's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: u32,
    pub misc: u16,
    pub size: usize,
}

impl Head {
    /// Bytes of the head.
    pub const BYTES: usize = 8;

    /// Of a record's first bytes.
    pub fn read(order: Order, bytes: &[u8]) -> Option<Head> {
        let (kind, misc, size) = (order.u32(bytes, 0)?, order.u16(bytes, 4)?, order.u16(bytes, 6)?);
        Some(Head { kind, misc, size: size.into() })
    }
}

/// All that is known beside the records themselves.
pub struct Records {
    pub order: Order,
    pub facts: HostFacts,
    pub counts: Counts,
    points: Tracepoints,
    attrs: Vec<Attr>,
    ids: FxHashMap<u64, u32>,
    /// Samples that are no tracepoint, by attribute.
    plain: Vec<u64>,
    /// Parent of the task that perf described last, for the name that follows.
    described: (u32, u32),
    /// Latest time of each processor.
    latest: Vec<u64>,
    /// Lost by LOST records, and by perf's own sum at the end, which counts the same again.
    lost: u64,
    lost_in_sum: u64,
    complained: bool,
}

impl Records {
    pub fn new(order: Order) -> Records {
        Records {
            order,
            facts: HostFacts { clock: "perf".to_owned(), ..HostFacts::default() },
            counts: Counts::default(),
            points: Tracepoints::new(order),
            attrs: Vec::new(),
            ids: FxHashMap::default(),
            plain: Vec::new(),
            described: (0, 0),
            latest: Vec::new(),
            lost: 0,
            lost_in_sum: 0,
            complained: false,
        }
    }

    /// Adds an attribute; its number.
    pub fn add_attr(&mut self, attr: Attr) -> Option<u32> {
        if self.attrs.len() >= ATTRS_MAX {
            return None;
        }
        if let Some(clock) = attr.clock {
            self.facts.clock = clock_name(clock);
        }
        self.attrs.push(attr);
        self.plain.push(0);
        Some(self.attrs.len() as u32 - 1)
    }

    /// Notes that the id is of that attribute.
    pub fn add_id(&mut self, id: u64, attr: u32) {
        if self.ids.len() < IDS_MAX {
            self.ids.insert(id, attr);
        }
    }

    /// A HEADER_ATTR record of a recording into a pipe: an attribute, then its ids.
    pub fn header_attr(&mut self, record: &Vec<u8>) -> Option<()> {
        let mut scan = Scan::new(record, Head::BYTES as u64, record.len() as u64, self.order);
        let size = u64::from(self.order.u32(record, Head::BYTES + 4)?);
        let size = Some(size).filter(|s| super::attrs::ATTR_BYTES.contains(s))?;
        let attr = Attr::read(&mut scan, size)?;
        let number = self.add_attr(attr)?;
        while let Some(id) = scan.u64() {
            self.add_id(id, number);
        }
        Some(())
    }

    /// A feature section; `None` where it cannot be read.
    pub fn feature<R: ReadAt>(&mut self, number: u64, scan: &mut Scan<'_, R>) -> Option<()> {
        let text = |scan: &mut Scan<'_, R>| {
            let len = scan.u32()?;
            let text = scan.text(len.into())?;
            Some(text.split('\0').next().unwrap_or_default().to_owned())
        };
        match number {
            feature::TRACING_DATA => self.tracing_data(scan)?,
            feature::HOSTNAME => self.facts.hostname = text(scan)?,
            feature::OSRELEASE => self.facts.kernel_release = text(scan)?,
            feature::ARCH => {
                self.facts.arch = text(scan)?;
                self.points.numbers = Numbers::of(&self.facts.arch);
            }
            feature::NRCPUS => {
                scan.skip(4); // those that could be there; the next are online
                self.facts.cpus = scan.u32()?;
            }
            feature::EVENT_DESC => {
                let (count, size) = (scan.u32()?, scan.u32()?);
                for _ in 0..count {
                    scan.skip(size.into());
                    let ids = scan.u32()?;
                    let name = text(scan)?;
                    for _ in 0..ids {
                        let attr = self.ids.get(&scan.u64()?).and_then(|a| self.attrs.get_mut(*a as usize));
                        if let Some(attr) = attr {
                            attr.name.clone_from(&name);
                        }
                    }
                }
            }
            feature::CLOCK_DATA => {
                scan.skip(4); // version
                self.facts.clock = clock_name(scan.u32()?);
                let (wall, clock) = (scan.u64()?, scan.u64()?);
                self.facts.wall_offset_ns = i64::try_from(i128::from(wall) - i128::from(clock)).ok();
            }
            _ => {}
        }
        Some(())
    }

    /// The tracepoints' layouts. What stands before a cut counts.
    pub fn tracing_data<R: ReadAt>(&mut self, scan: &mut Scan<'_, R>) -> Option<()> {
        let head = tracefs::head(scan)?;
        if head.order != self.order {
            return None;
        }
        tracefs::header_info(scan)?;
        let mut add = |format| self.points.add(&format);
        tracefs::ftrace_formats(scan, &mut add)?;
        tracefs::event_formats(scan, &mut add)
    }

    /// Whose record it is, and its time, 0 where it has none.
    pub fn time(&self, record: &[u8], is_sample: bool) -> u64 {
        self.attr_of(record, is_sample).and_then(|a| self.attrs[a].time(self.order, is_sample, record)).unwrap_or(0)
    }

    fn attr_of(&self, record: &[u8], is_sample: bool) -> Option<usize> {
        let first = self.attrs.first()?;
        if self.attrs.len() == 1 {
            return Some(0);
        }
        // all attributes have the id at the same place, or perf could not tell them apart either
        let id = first.id(self.order, is_sample, record);
        match id.and_then(|id| self.ids.get(&id)) {
            Some(attr) => Some(*attr as usize),
            // what perf describes by itself has the id 0
            None => (!is_sample).then_some(0),
        }
    }

    /// A record of the kernel, in its turn; `time` is its own, or that of its surroundings where it has none.
    pub fn record(&mut self, time: u64, record: &[u8], sink: &mut impl RawSink) {
        let Some(head) = Head::read(self.order, record) else { return };
        let is_sample = head.kind == kind::SAMPLE;
        let Some(attr) = self.attr_of(record, is_sample) else {
            if is_sample {
                self.complain("a sample of an event that the file does not describe");
            }
            return;
        };
        let at = MonoNs(time);
        let stamp = self.attrs[attr].stamp(self.order, is_sample, record);
        if is_sample {
            self.sample(at, attr, stamp, record, sink);
        } else {
            // what perf made up itself has no time of its own
            let made_up = self.attrs[attr].time(self.order, false, record).unwrap_or(0) == 0;
            self.other(at, head, stamp, made_up, record, sink);
        }
        if let Some(cpu) = stamp.cpu.map(usize::from) {
            if cpu >= self.latest.len() && cpu < CPUS_MAX {
                self.latest.resize(cpu + 1, 0);
            }
            if let Some(latest) = self.latest.get_mut(cpu) {
                *latest = time;
            }
        }
    }

    fn sample(&mut self, at: MonoNs, attr: usize, stamp: Stamp, record: &[u8], sink: &mut impl RawSink) {
        let described = &self.attrs[attr];
        if described.kind != TYPE_TRACEPOINT {
            self.plain[attr] += 1;
            return;
        }
        let Some(raw) = described.raw(self.order, record) else {
            self.plain[attr] += 1;
            self.complain("a tracepoint's sample without its fields (PERF_SAMPLE_RAW)");
            return;
        };
        if stamp.cpu.is_none() {
            self.complain("a sample that does not name its processor");
        }
        let current = Context { tid: stamp.tid, tgid: stamp.tgid };
        if !self.points.event(at, stamp.cpu.unwrap_or(0), current, raw, sink) && !self.complained {
            self.complained = true;
            let what = match self.points.is_empty() {
                true => "the file has no tracing data: perf was killed, or the file was cut",
                false => "a tracepoint that the tracing data do not lay out",
            };
            self.counts.fault(defect::IMPORT_NO_FORMATS, "", 0, what);
            sink.count(defect::IMPORT_NO_FORMATS, at);
        }
    }

    fn complain(&mut self, what: &str) {
        if !self.complained {
            self.complained = true;
            self.counts.fault(defect::IMPORT_DAMAGED, "", 0, what);
        }
    }

    fn other(&mut self, at: MonoNs, head: Head, stamp: Stamp, made_up: bool, record: &[u8], sink: &mut impl RawSink) {
        let order = self.order;
        let word = |n: usize| order.u32(record, Head::BYTES + 4 * n).unwrap_or(0);
        let cpu = stamp.cpu.unwrap_or(0);
        match head.kind {
            kind::COMM => {
                let comm = record.get(Head::BYTES + 8..).unwrap_or_default();
                let comm = &comm[..comm.iter().position(|b| *b == 0).unwrap_or(comm.len())];
                let task = Task { tid: word(1), tgid: word(0), comm };
                if made_up {
                    let ppid = if self.described.0 == task.tid && task.tid == task.tgid { self.described.1 } else { 0 };
                    sink.event(at, cpu, &Raw::Alive { task, ppid, kernel: None });
                    return;
                }
                if head.misc & MISC_COMM_EXEC != 0 && !self.points.execs {
                    sink.event(at, cpu, &Raw::Exec { task, old_tid: task.tid, filename: &[] });
                }
                sink.event(at, cpu, &Raw::Name { task });
            }
            kind::FORK | kind::EXIT => {
                let (tgid, parent_tgid, tid, parent_tid) = (word(0), word(1), word(2), word(3));
                let task = Task { tid, tgid, comm: &[] };
                if made_up {
                    self.described = (tid, parent_tgid);
                } else if head.kind == kind::EXIT {
                    if !self.points.exits {
                        sink.event(at, cpu, &Raw::Exit { task });
                    }
                } else if self.points.forks {
                    // the tracepoint follows and has the names
                    self.points.born(tid, tgid);
                } else {
                    let parent = Task { tid: parent_tid, tgid: parent_tgid, comm: &[] };
                    sink.event(at, cpu, &Raw::Fork { parent, child: task });
                }
            }
            kind::LOST => {
                let count = order.u64(record, Head::BYTES + 8).unwrap_or(0);
                self.lost = self.lost.saturating_add(count);
                let from = stamp.cpu.and_then(|c| self.latest.get(usize::from(c))).copied().unwrap_or(at.0);
                sink.lost(stamp.cpu, MonoNs(from.min(at.0)), at, count);
            }
            kind::LOST_SAMPLES if head.misc & MISC_LOST_BY_FILTER == 0 => {
                let count = order.u64(record, Head::BYTES).unwrap_or(0);
                if made_up {
                    self.lost_in_sum = self.lost_in_sum.saturating_add(count);
                } else {
                    self.lost = self.lost.saturating_add(count);
                    sink.lost(stamp.cpu, at, at, count);
                }
            }
            _ => {}
        }
    }

    /// Everything was read: what perf's own sum of losses has beyond those that had a place.
    pub fn end(&mut self, sink: &mut impl RawSink) {
        if let Some(more) = self.lost_in_sum.checked_sub(self.lost).filter(|m| *m > 0) {
            let latest = self.latest.iter().copied().max().unwrap_or(0);
            sink.lost(None, MonoNs(0), MonoNs(latest), more);
            self.lost = self.lost_in_sum;
        }
    }

    /// What was read so far.
    pub fn counts(&self) -> Counts {
        let mut events: BTreeMap<String, u64> = self.points.counts();
        for (attr, count) in self.attrs.iter().zip(&self.plain).filter(|p| *p.1 > 0) {
            *events.entry(attr.plain_name()).or_default() += count;
        }
        Counts { events, lost: self.lost, ..self.counts.clone() }
    }
}

fn clock_name(number: u32) -> String {
    match number {
        0 => "realtime".to_owned(),
        1 => "monotonic".to_owned(),
        4 => "monotonic_raw".to_owned(),
        7 => "boottime".to_owned(),
        11 => "tai".to_owned(),
        other => format!("clock {other}"),
    }
}
