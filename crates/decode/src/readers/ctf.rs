//! LTTng's traces, and others in the Common Trace Format: version 1.8 (metadata in TSDL) and 2 (in JSON).
//!
//! Metadata are made into flat programs (`plan.rs`), one an event class, which step over what nobody wants. Streams are
//! merged by time; of each, a window of one packet is in memory.

mod bits;
mod counts;
mod fields;
mod json;
mod lexer;
mod merge;
mod plan;
mod program;
mod schema;
mod stream_reader;
mod trace;
mod tsdl;
mod value;

pub use counts::Tally;
pub(super) use fields::Fields;
pub use value::{Event, Value};

use super::facts::{Counts, HostFacts, Progress};
use super::lttng;
use super::reader::{About, Content, Layout, Reader, TraceReader, Unreadable};
use super::source::{Part, ReadAt};
use crate::raw::{Raw, RawSink};
use counts::Ledger;
use merge::Merge;
use schema::Schema;
use stream_reader::{File, Place, StreamReader};
use trace::{KERNEL_RELEASE, Trace};
use wakepath_model::defects::id;
use wakepath_model::ids::MonoNs;

/// The file that describes all others of its folder.
const MARKER: &str = "metadata";
/// Events of one step.
const STEP: usize = 1 << 14;
/// Largest metadata that are read, in bytes.
const METADATA_MAX: usize = 256 << 20;
/// Most streams of one reader: each has a window in memory.
const STREAMS_MAX: usize = 1 << 16;

/// One trace: a folder with a file `metadata` and stream files beside it.
pub struct Source {
    /// What to call it in messages: its folder.
    pub name: String,
    /// The file `metadata`.
    pub metadata: Vec<u8>,
    /// Name and bytes of each stream file ([`is_stream`]).
    pub streams: Vec<(String, Box<dyn ReadAt + Send>)>,
}

/// Whether a file of a trace's folder is one of its streams, by its name (without folders).
pub fn is_stream(name: &str) -> bool {
    name != MARKER && !name.starts_with('.') && !name.ends_with(".idx")
}

/// Why metadata say nothing: what is wrong at a byte of their text.
fn unreadable(name: String, at: u64, what: &str) -> Unreadable {
    let why = format!("metadata at byte {at}: {what}; check that this is a CTF trace and its metadata are whole");
    Unreadable { name, why }
}

/// A trace's folder, its files told apart.
fn source(part: Part) -> Result<Source, Unreadable> {
    let Some(metadata) = part.read(MARKER, METADATA_MAX as u64) else {
        let why = format!("its file {MARKER} is missing or too large for metadata; is it a trace?");
        return Err(Unreadable { name: part.name, why });
    };
    let streams = part.files.into_iter().filter(|(name, _)| is_stream(name)).collect();
    Ok(Source { name: part.name, metadata, streams })
}

/// How many processors a host has of which LTTng wrote these files: 1, or 0 where that is not known. LTTng writes one file for
/// each channel and each processor, also for one without events, and calls it by both (`channel0_0`).
fn processors<'n>(files: impl Iterator<Item = &'n str>) -> u32 {
    let is_of_first = |name: &str| {
        // a number after may be the processor's, or that of a part of a rotated file
        let mut numbers = name.split('_').skip(1).filter_map(|n| n.parse::<u32>().ok()).peekable();
        numbers.peek().is_some() && numbers.all(|n| n == 0)
    };
    let mut files = files.peekable();
    (files.peek().is_some() && files.all(is_of_first)).into()
}

/// Reads the streams of one host's traces, merged by time.
pub struct CtfReader {
    traces: Vec<Trace>,
    stream_readers: Vec<StreamReader>,
    /// Time of each stream's next event.
    order: Merge,
    started: bool,
    host: HostFacts,
    env: Vec<(String, String)>,
    ledger: Ledger,
    /// Defects of metadata that no sink was told of yet.
    untold: Vec<&'static str>,
    total: u64,
}

impl Reader for CtfReader {
    const ABOUT: About = About {
        id: "read.ctf",
        name: "CTF",
        reads: "LTTng traces, and others in the Common Trace Format, versions 1.8 and 2",
        content: Content::KernelEvents,
        layout: Layout::Folder { marker: MARKER, holds: is_stream },
        refused: None,
    };

    /// Metadata of CTF 1.8, packeted in either byte order or plain, or of CTF 2.
    fn fits(head: &[u8]) -> bool {
        const PACKET: [u8; 4] = 0x75d1_1d57_u32.to_le_bytes();
        let mut other = PACKET;
        other.reverse();
        let text = head.trim_ascii_start();
        head.starts_with(&PACKET)
            || head.starts_with(&other)
            || head.starts_with(b"\x1e{")
            || text.starts_with(b"/* CTF 1.8")
            || text.starts_with(b"/* CTF 2")
    }
}

impl CtfReader {
    /// A reader of one host's traces: several folders of one session (per process, per rotation, kernel and user space)
    /// are one time line.
    ///
    /// # Errors
    /// No source's metadata can be read.
    pub fn new(sources: Vec<Source>) -> Result<CtfReader, Unreadable> {
        let mut reader = CtfReader {
            traces: Vec::new(),
            stream_readers: Vec::new(),
            order: Merge::default(),
            started: false,
            host: HostFacts::default(),
            env: Vec::new(),
            ledger: Ledger::default(),
            untold: Vec::new(),
            total: 0,
        };
        let mut first_fault = None;
        let mut files = Vec::new();
        for source in sources {
            let place = if source.name.is_empty() { "metadata".into() } else { format!("{}/metadata", source.name) };
            let (schema, fault) = parse(&source.metadata);
            if let Some((at, why)) = &fault {
                reader.untold.push(id::CTF_METADATA);
                reader.ledger.fault(id::CTF_METADATA, &place, *at, why);
            }
            let (trace, why) = match Trace::new(schema) {
                Ok(trace) => (Some(trace), None),
                Err(why) => (None, Some((0, why))),
            };
            // metadata that were read to their end may describe streams without any event
            let usable = |t: &Trace| t.classes.iter().any(|c| fault.is_none() || !c.events.is_empty());
            let Some(trace) = trace.filter(usable) else {
                let (at, why) = fault.or(why).unwrap_or((0, "no stream is described".into()));
                first_fault.get_or_insert(unreadable(source.name, at, &why));
                continue;
            };
            for (name, data) in source.streams {
                let name = if source.name.is_empty() { name } else { format!("{}/{name}", source.name) };
                let size = data.size();
                reader.total += size;
                if size > 0 && files.len() < STREAMS_MAX {
                    files.push(File { name: name.into(), size, data, trace: reader.traces.len() });
                }
            }
            reader.traces.push(trace);
        }
        match (reader.traces.is_empty(), first_fault) {
            (false, _) => {}
            (true, Some(fault)) => return Err(fault),
            (true, None) => return Err(unreadable(String::new(), 0, "no trace was given")),
        }
        if let Some(trace) = main_trace(&reader.traces) {
            reader.host = host_facts(trace);
            reader.env = trace.schema.env.clone();
        }
        reader.stream_readers = stream_readers(files, &reader.traces);
        Ok(reader)
    }

    /// What the metadata say of their environment (tracer and its version, session, …); empty where they do not.
    fn env(&self, name: &str) -> &str {
        self.env.iter().find(|(k, _)| k == name).map_or("", |(_, v)| v)
    }

    /// What only this format has to be counted.
    pub fn tally(&self) -> &Tally {
        &self.ledger.tally
    }

    /// Each stream's first file, and how many events of it were read so far.
    pub fn counts_by_stream(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stream_readers.iter().filter_map(|l| Some((&*l.files.first()?.name, l.events)))
    }

    /// Time of the next event; `None` at the end. What is found before it goes to the sink.
    pub fn next_at(&mut self, sink: &mut impl RawSink) -> Option<MonoNs> {
        self.start(sink);
        self.order.first_at().map(MonoNs)
    }

    /// Reads at most `events` events, of which those that mean something go to the sink. False when all were read.
    pub fn advance(&mut self, events: usize, sink: &mut impl RawSink) -> bool {
        self.start(sink);
        for _ in 0..events {
            let Some(stream_reader) = self.order.first() else { return false };
            let ledger = &mut self.ledger;
            let Some(stream_reader) = self.stream_readers.get_mut(stream_reader) else { return false };
            step(stream_reader, &mut self.traces, ledger, sink);
            stream_reader.advance(&self.traces, ledger, sink);
            self.order.replace(stream_reader.next.map(|n| n.at));
        }
        self.order.first().is_some()
    }

    /// Gives every event with all its fields, instead of [`TraceReader::run`]: slow, for tests and for looking at traces.
    pub fn each(&mut self, take: &mut dyn FnMut(&Event<'_>)) {
        let sink = &mut Nobody;
        self.start(sink);
        while let Some(stream_reader) = self.order.first() {
            let Some(stream_reader) = self.stream_readers.get_mut(stream_reader) else { return };
            let before = self.ledger.tally.events;
            let next = stream_reader.next;
            step(stream_reader, &mut self.traces, &mut self.ledger, sink);
            if self.ledger.tally.events > before
                && let Some(next) = next
                && let Some(trace) = stream_reader.trace().and_then(|t| self.traces.get(t))
            {
                value::event(trace, stream_reader, next, take);
            }
            stream_reader.advance(&self.traces, &mut self.ledger, sink);
            self.order.replace(stream_reader.next.map(|n| n.at));
        }
    }

    fn start(&mut self, sink: &mut impl RawSink) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        for defect in self.untold.drain(..) {
            sink.count(defect, MonoNs(0));
        }
        let mut firsts = Vec::with_capacity(self.stream_readers.len());
        for stream_reader in &mut self.stream_readers {
            stream_reader.advance(&self.traces, &mut self.ledger, sink);
            firsts.push(stream_reader.next.map(|n| n.at));
        }
        self.order = Merge::new(&firsts);
    }
}

impl TraceReader for CtfReader {
    fn open(parts: Vec<Part>) -> Result<CtfReader, Unreadable> {
        let names: Vec<String> = parts.iter().flat_map(|p| &p.files).map(|(name, _)| name.clone()).collect();
        let mut reader = CtfReader::new(parts.into_iter().map(source).collect::<Result<_, _>>()?)?;
        if reader.env("tracer_name") == "lttng-modules" {
            reader.host.cpus = processors(names.iter().map(String::as_str).filter(|n| is_stream(n)));
        }
        Ok(reader)
    }

    fn facts(&self) -> &HostFacts {
        &self.host
    }

    /// Rotated parts of one session have the same id.
    fn trace_id(&self) -> Option<String> {
        self.traces.first().and_then(|t| t.schema.uuid).map(|uuid| format!("{uuid:02x?}"))
    }

    fn is_of_kernel(&self) -> bool {
        matches!(self.env("domain"), "" | "kernel")
    }

    fn next<S: RawSink>(&mut self, sink: &mut S) -> bool {
        self.advance(STEP, sink)
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts {
            lost: self.ledger.tally.lost_events,
            faults: self.ledger.faults.clone(),
            fault_count: self.ledger.fault_count,
            ..Counts::default()
        };
        for event in self.traces.iter().flat_map(|t| &t.classes).flat_map(|c| &c.events).filter(|e| e.count > 0) {
            *counts.events.entry(event.name.to_string()).or_default() += event.count;
        }
        counts
    }

    fn progress(&self) -> Progress {
        Progress { done: self.stream_readers.iter().map(StreamReader::bytes_read).sum(), total: self.total }
    }
}

/// Reads the body of a stream's next event and gives it to the sink.
#[inline]
fn step(stream_reader: &mut StreamReader, traces: &mut [Trace], ledger: &mut Ledger, sink: &mut impl RawSink) {
    let Some(next) = stream_reader.next else { return };
    let Some(trace) = traces.get_mut(stream_reader.packet.trace) else { return };
    let Some(event) =
        trace.classes.get_mut(stream_reader.packet.class).and_then(|c| c.events.get_mut(next.event as usize))
    else {
        return;
    };
    let program = event.body.and_then(|b| trace.programs.get(b));
    let cpu = stream_reader.packet.cpu;
    if !stream_reader.body(program, next, ledger, sink) {
        return;
    }
    event.count += 1;
    ledger.tally.events += 1;
    stream_reader.events += 1;
    ledger.tally.steps_back += u64::from(next.at < stream_reader.last);
    stream_reader.last = next.at;
    let (data, _) = stream_reader.window();
    let fields = Fields::new(&stream_reader.found, data);
    let at = MonoNs(next.at);
    if let Some(task) = lttng::current(&fields) {
        let mut comm = [0; 16];
        let len = task.comm.len().min(16);
        comm[..len].copy_from_slice(&task.comm[..len]);
        if (task.tid, comm) != (stream_reader.tid, stream_reader.comm) {
            sink.event(at, cpu, &Raw::Current { task });
        }
        if let Some(mapped) = event.mapped {
            lttng::emit(mapped, &fields, at, cpu, sink);
        }
        (stream_reader.tid, stream_reader.comm) = (task.tid, comm);
    } else if let Some(mapped) = event.mapped {
        lttng::emit(mapped, &fields, at, cpu, sink);
    }
}

/// A schema of metadata in either language, as far as they can be read, and where they cannot.
fn parse(metadata: &[u8]) -> (Schema, Option<(u64, String)>) {
    if metadata.len() > METADATA_MAX {
        return (Schema::default(), Some((METADATA_MAX as u64, "metadata of an absurd size".into())));
    }
    let (text, cut) = lexer::unpacked(metadata);
    let mut schema = if json::is_json(&text) { json::parse(&text) } else { tsdl::parse(&text) };
    let fault = cut.map(|c| (c.at, c.why)).or(schema.cut.take());
    (schema, fault)
}

fn env<'t>(trace: &'t Trace, key: &str) -> &'t str {
    trace.schema.env_of(&[key])
}

/// The kernel's trace, where there are several.
fn main_trace(traces: &[Trace]) -> Option<&Trace> {
    traces.iter().find(|t| env(t, "domain") == "kernel").or(traces.first())
}

fn host_facts(trace: &Trace) -> HostFacts {
    let mut facts = HostFacts {
        hostname: trace.schema.env_of(&["hostname", "host"]).to_owned(),
        kernel_release: trace.schema.env_of(KERNEL_RELEASE).to_owned(),
        arch: env(trace, "machine").to_owned(),
        ..HostFacts::default()
    };
    if let Some(clock) = trace.clock() {
        let ticks = i128::from(clock.offset) * 1_000_000_000 / i128::from(clock.frequency.max(1));
        let ns = i128::from(clock.offset_s) * 1_000_000_000 + ticks;
        facts.clock.clone_from(&clock.name);
        facts.wall_offset_ns = i64::try_from(ns).ok();
        // LTTng calls its clock by the kernel's boot id, in either domain
        if env(trace, "tracer_name").starts_with("lttng") {
            facts.boot_id = clock.uuid.map(schema::hyphens).unwrap_or_default();
        }
    }
    facts
}

/// Files that say that they are of the same stream follow each other; the others are a stream each.
fn stream_readers(files: Vec<File>, traces: &[Trace]) -> Vec<StreamReader> {
    let slots = traces.iter().map(|t| t.slots).max().unwrap_or(0);
    type Key = ([u8; 16], Place);
    let mut keyed: Vec<(Option<Key>, File)> = Vec::new();
    for file in files {
        let uuid = traces.get(file.trace).and_then(|t| t.schema.uuid);
        let mut stream_reader = StreamReader::new(vec![file], slots, 0, 1);
        let key = uuid.zip(stream_reader.place(traces).filter(|p| p.stream.is_some()));
        keyed.extend(stream_reader.files.pop().map(|f| (key, f)));
    }
    // a stable sort: files that say nothing stay in the order in which they were given
    keyed.sort_by_key(|(key, _)| *key);
    let mut out: Vec<Vec<File>> = Vec::new();
    let mut last = None;
    for (key, file) in keyed {
        let stream = key.map(|(uuid, place)| (uuid, place.class, place.stream));
        match out.last_mut() {
            Some(files) if stream.is_some() && stream == last => files.push(file),
            _ => out.push(vec![file]),
        }
        last = stream;
    }
    let stream_readers = out.len();
    out.into_iter().zip(0u16..).map(|(files, at)| StreamReader::new(files, slots, at, stream_readers)).collect()
}

/// Takes nothing.
struct Nobody;

impl RawSink for Nobody {
    fn event(&mut self, _: MonoNs, _: u16, _: &Raw<'_>) {}
    fn lost(&mut self, _: Option<u16>, _: MonoNs, _: MonoNs, _: u64) {}
    fn count(&mut self, _: &'static str, _: MonoNs) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_one_processor_by_the_names_of_files() {
        let count = |names: &[&str]| processors(names.iter().copied());
        assert_eq!(count(&["channel0_0"]), 1);
        assert_eq!(count(&["net_0", "my_sched_0"]), 1);
        assert_eq!(count(&["net_0", "net_1"]), 0);
        assert_eq!(count(&["channel0_0", "stream"]), 0);
        assert_eq!(count(&[]), 0);
    }
}
