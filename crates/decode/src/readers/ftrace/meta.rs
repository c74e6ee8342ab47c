//! What a trace.dat says before its events: layouts, options, and where each processor's data are.

use super::pack::{Packing, unpack};
use crate::readers::facts::{Counts, HostFacts};
use crate::readers::source::{ReadAt, Unclaimed};
use crate::readers::tracefs::{self, Format, Order, PageLayout, Scan, fill};
use crate::readers::tracepoints::{Numbers, Tracepoints};
use wakepath_model::defects::id as defect;

/// Most bytes of a section that describes, processors of a buffer, sections and streams that are believed.
const SECTION_MAX: u64 = 64 << 20;
const CPUS_MAX: u64 = 4096;
const SECTIONS_MAX: usize = 1024;
const STREAMS_MAX: usize = 8192;
/// Bytes of a page of the ring buffer that are believed.
const PAGES: std::ops::RangeInclusive<u32> = 512..=1 << 20;

mod option {
    pub const DONE: u64 = 0;
    pub const DATE: u64 = 1;
    pub const BUFFER: u64 = 3;
    pub const TRACECLOCK: u64 = 4;
    pub const UNAME: u64 = 5;
    pub const OFFSET: u64 = 7;
    pub const CPUCOUNT: u64 = 8;
    pub const TSC2NSEC: u64 = 14;
    pub const HEADER_INFO: u64 = 16;
    pub const FTRACE_EVENTS: u64 = 17;
    pub const EVENT_FORMATS: u64 = 18;
    pub const BUFFER_TEXT: u64 = 22;
}

/// One processor's data of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    pub cpu: u16,
    /// Where in the file, in bytes.
    pub at: u64,
    pub bytes: u64,
    pub page_bytes: u32,
    pub is_packed: bool,
}

/// How the processor's cycles become nanoseconds (TSC2NSEC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles {
    mult: u32,
    shift: u32,
    offset: u64,
}

impl Cycles {
    pub fn ns(self, cycles: u64) -> u64 {
        let ns = (u128::from(cycles) * u128::from(self.mult)) >> self.shift;
        (ns as u64).saturating_sub(self.offset)
    }
}

/// All that is known before the events.
pub struct Meta {
    pub order: Order,
    pub layout: PageLayout,
    pub points: Tracepoints,
    pub packing: Packing,
    pub data: Vec<CpuData>,
    pub cycles: Option<Cycles>,
    pub facts: HostFacts,
    pub counts: Counts,
    page_bytes: u32,
    /// Wall-clock time minus the clock's, and what the user had added to each time, in ns.
    date: Option<i64>,
    shift: i64,
    unclaimed: Unclaimed,
}

impl Meta {
    /// Reads it. What cannot be read is a fault.
    pub fn read<R: ReadAt>(source: &R) -> Meta {
        let mut meta = Meta {
            order: Order::Little,
            layout: PageLayout::parse(""),
            points: Tracepoints::new(Order::Little),
            packing: Packing::None,
            data: Vec::new(),
            cycles: None,
            facts: HostFacts { clock: "local".to_owned(), ..HostFacts::default() },
            counts: Counts::default(),
            page_bytes: 4096,
            date: None,
            shift: 0,
            unclaimed: Unclaimed::of(source),
        };
        let mut scan = Scan::new(source, 0, u64::MAX, Order::Little);
        let read = tracefs::head(&mut scan).and_then(|head| {
            meta.order = head.order;
            meta.points = Tracepoints::new(head.order);
            meta.page_bytes = head.page_bytes;
            match head.version.as_str() {
                "6" => meta.version_6(source, &mut scan),
                "7" => meta.version_7(source, &mut scan),
                other => {
                    let what = format!("trace.dat of version {other}: only 6 and 7 are known");
                    meta.counts.fault(defect::IMPORT_DAMAGED, "", 10, what);
                    Some(())
                }
            }
        });
        if read.is_none() {
            let what = "the file ends, or is damaged, before it says where its events are";
            meta.counts.fault(defect::IMPORT_CUT, "", scan.at.min(source.size()), what);
        }
        meta.facts.wall_offset_ns = meta.date.and_then(|d| d.checked_add(meta.shift));
        // older files do not say
        if !meta.facts.arch.is_empty() {
            meta.points.numbers = Numbers::of(&meta.facts.arch);
        }
        let counts_ns = match meta.facts.clock.as_str() {
            // of no time at all, and of hundredths of a second
            "counter" | "uptime" => false,
            "x86-tsc" => meta.cycles.is_some(),
            _ => true,
        };
        if !counts_ns {
            let what = format!("times are of the clock {}", meta.facts.clock);
            meta.counts.fault(defect::IMPORT_NO_TIME, "", 0, what);
        }
        meta
    }

    fn version_6<R: ReadAt>(&mut self, source: &R, scan: &mut Scan<'_, R>) -> Option<()> {
        self.layout = tracefs::header_info(scan)?;
        let mut add = |format: Format| self.points.add(&format);
        tracefs::ftrace_formats(scan, &mut add)?;
        tracefs::event_formats(scan, &mut add)?;
        for _ in ["kallsyms", "printk"] {
            let size = scan.u32()?;
            scan.skip(size.into());
        }
        let size = scan.u64()?; // saved command lines
        scan.skip(size);
        let cpus = scan.u32()?;
        self.facts.cpus = cpus;
        loop {
            let mut tag = [0; 10];
            scan.bytes(&mut tag)?;
            match &tag {
                b"options  \0" => loop {
                    let id = scan.number::<2>()?;
                    if id == option::DONE {
                        break;
                    }
                    let size = scan.u32()?;
                    let data = scan.data(size.into())?;
                    if id == option::BUFFER {
                        let at = self.order.u64(&data, 0)?;
                        self.unclaimed.claim(at, 16 * u64::from(cpus).min(CPUS_MAX))?;
                        let mut buffer = Scan::new(source, at, u64::MAX, self.order);
                        let mut tag = [0; 10];
                        buffer.bytes(&mut tag)?;
                        if &tag == b"flyrecord\0" {
                            self.table_6(&mut buffer, cpus)?;
                        }
                    } else {
                        self.option(source, id, &data)?;
                    }
                },
                b"flyrecord\0" => return self.table_6(scan, cpus),
                _ => {
                    let what = "a kind of trace data that is no ring buffer";
                    self.counts.fault(defect::IMPORT_DAMAGED, "", scan.at, what);
                    return Some(());
                }
            }
        }
    }

    /// Offset and size for each processor.
    fn table_6<R: ReadAt>(&mut self, scan: &mut Scan<'_, R>, cpus: u32) -> Option<()> {
        for cpu in 0..u64::from(cpus).min(CPUS_MAX) {
            let (at, bytes) = (scan.u64()?, scan.u64()?);
            self.stream(cpu as u16, at, bytes, self.page_bytes, false);
        }
        Some(())
    }

    fn stream(&mut self, cpu: u16, at: u64, bytes: u64, page_bytes: u32, is_packed: bool) {
        if !PAGES.contains(&page_bytes) {
            self.counts.fault(defect::IMPORT_DAMAGED, "", at, format!("pages of {page_bytes} bytes"));
        } else if self.unclaimed.claim(at, bytes).is_none() {
            let what = format!("the data of processor {cpu} lie over other parts of the file");
            self.counts.fault(defect::IMPORT_DAMAGED, "", at, what);
        } else if bytes > 0 && self.data.len() < STREAMS_MAX {
            self.data.push(CpuData { cpu, at, bytes, page_bytes, is_packed });
        }
    }

    fn version_7<R: ReadAt>(&mut self, source: &R, scan: &mut Scan<'_, R>) -> Option<()> {
        let name = scan.name()?;
        scan.name()?; // the compressing library's version
        let Some(packing) = Packing::named(&name) else {
            self.counts.fault(defect::IMPORT_DAMAGED, "", scan.at, format!("compressed by {name}, which is not known"));
            return Some(());
        };
        self.packing = packing;
        let mut next = scan.u64()?;
        for _ in 0..SECTIONS_MAX {
            if next == 0 {
                return Some(());
            }
            let here = next;
            scan.at = here;
            let Some(options) = self.section(source, here) else {
                self.counts.fault(defect::IMPORT_CUT, "", here, "a section with options cannot be read");
                return Some(());
            };
            let mut at = 0;
            next = 0;
            while let (Some(id), Some(size)) = (self.order.u16(&options, at), self.order.u32(&options, at + 2)) {
                let Some(data) = options.get(at + 6..).and_then(|d| d.get(..size as usize)) else { break };
                at += 6 + size as usize;
                if u64::from(id) == option::DONE {
                    next = self.order.u64(data, 0).unwrap_or(0);
                    break;
                }
                if self.option(source, id.into(), data).is_none() {
                    self.counts.fault(defect::IMPORT_DAMAGED, "", here, format!("option {id} cannot be read"));
                }
            }
        }
        Some(())
    }

    /// A section's bytes, unpacked.
    fn section<R: ReadAt>(&mut self, source: &R, at: u64) -> Option<Vec<u8>> {
        let mut scan = Scan::new(source, at, u64::MAX, self.order);
        scan.skip(2); // its kind: the option says it too
        let flags = scan.number::<2>()?;
        scan.skip(4); // a description
        let mut size = scan.u64()?;
        let mut unpacked = None;
        if flags & 1 == 1 {
            size = scan.u32()?.into();
            unpacked = Some(scan.u32()?);
        }
        if size > SECTION_MAX.min(source.size()) {
            return None;
        }
        self.unclaimed.claim(scan.at, size)?;
        let mut bytes = vec![0; size as usize];
        if !fill(source, scan.at, &mut bytes) {
            return None;
        }
        match unpacked {
            None => Some(bytes),
            Some(size) if u64::from(size) <= SECTION_MAX => {
                let mut out = Vec::new();
                unpack(self.packing, &bytes, size as usize, &mut out).then_some(out)
            }
            Some(_) => None,
        }
    }

    fn option<R: ReadAt>(&mut self, source: &R, id: u64, data: &[u8]) -> Option<()> {
        let text = || String::from_utf8_lossy(data.split(|b| *b == 0).next().unwrap_or_default());
        match id {
            // microseconds
            option::DATE => self.date = number(&text())?.checked_mul(1000),
            option::OFFSET => self.shift = number(&text())?,
            option::TRACECLOCK => {
                let text = text();
                let chosen = text.split_once('[').and_then(|t| t.1.split_once(']')).map_or("local", |t| t.0);
                self.facts.clock = clock_name(chosen);
            }
            option::UNAME => {
                let text = text();
                let words: Vec<&str> = text.split_whitespace().collect();
                if let [_system, host, release, .., machine] = words[..] {
                    self.facts.hostname = host.to_owned();
                    self.facts.kernel_release = release.to_owned();
                    self.facts.arch = machine.to_owned();
                }
            }
            option::CPUCOUNT => self.facts.cpus = self.order.u32(data, 0)?,
            option::TSC2NSEC => {
                let (mult, shift) = (self.order.u32(data, 0)?, self.order.u32(data, 4)?);
                self.cycles = Some(Cycles { mult, shift: shift.min(127), offset: self.order.u64(data, 8)? });
            }
            option::HEADER_INFO | option::FTRACE_EVENTS | option::EVENT_FORMATS => {
                let bytes = self.section(source, self.order.u64(data, 0)?)?;
                let mut scan = Scan::new(&bytes, 0, bytes.len() as u64, self.order);
                let mut add = |format: Format| self.points.add(&format);
                match id {
                    option::HEADER_INFO => self.layout = tracefs::header_info(&mut scan)?,
                    option::FTRACE_EVENTS => tracefs::ftrace_formats(&mut scan, &mut add)?,
                    _ => tracefs::event_formats(&mut scan, &mut add)?,
                }
            }
            option::BUFFER => self.buffer(source, data)?,
            option::BUFFER_TEXT => {
                let what = "a buffer printed as text (latency trace), which has no events to read";
                self.counts.fault(defect::IMPORT_DAMAGED, "", self.order.u64(data, 0).unwrap_or(0), what);
            }
            _ => {}
        }
        Some(())
    }

    fn buffer<R: ReadAt>(&mut self, source: &R, data: &[u8]) -> Option<()> {
        let section = self.order.u64(data, 0)?;
        let mut texts = data.get(8..)?.splitn(3, |b| *b == 0);
        let (name, clock, rest) = (texts.next()?, texts.next()?, texts.next()?);
        let clock = clock_name(&String::from_utf8_lossy(clock));
        if !name.is_empty() && clock != self.facts.clock && !clock.is_empty() {
            let what = format!("the buffer {} has another clock, {clock}", String::from_utf8_lossy(name));
            self.counts.fault(defect::IMPORT_NO_TIME, "", section, what);
            return Some(());
        }
        if !clock.is_empty() {
            self.facts.clock = clock;
        }
        // later versions put the buffer's page size before the count of processors, 20 bytes each
        let has_page_size = rest.len() % 20 == 8;
        let page_bytes = if has_page_size { self.order.u32(rest, 0)? } else { self.page_bytes };
        let table = rest.get(if has_page_size { 8 } else { 4 }..)?;
        let mut flags = [0; 4];
        let is_packed = fill(source, section, &mut flags) && self.order.u16(&flags, 2)? & 1 == 1;
        for entry in table.chunks_exact(20).take(CPUS_MAX as usize) {
            let (cpu, at, bytes) = (self.order.u32(entry, 0)?, self.order.u64(entry, 4)?, self.order.u64(entry, 12)?);
            self.stream(u16::try_from(cpu).ok()?, at, bytes, page_bytes, is_packed);
        }
        Some(())
    }
}

/// `0x660c14dbaa850` or `-12`.
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(sign * value)
}

/// ftrace's name of a clock as other tracers call it.
fn clock_name(ftrace: &str) -> String {
    match ftrace {
        "mono" => "monotonic",
        "mono_raw" => "monotonic_raw",
        "boot" => "boottime",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_cycles_without_overflow() {
        let cycles = Cycles { mult: 1 << 31, shift: 32, offset: 10 };
        assert_eq!(cycles.ns(u64::MAX), (u64::MAX >> 1) - 10);
        assert_eq!(cycles.ns(2), 0);
    }

    #[test]
    fn reads_numbers_as_trace_cmd_writes_them() {
        assert_eq!(number("0x660c14dbaa850"), Some(0x6_60c1_4dba_a850));
        assert_eq!(number("-12\n"), Some(-12));
        assert_eq!(number("x"), None);
        assert_eq!(number("-"), None);
    }
}
