//! One stream: its files in order of time, of each a window, of that one packet.

use super::bits;
use super::counts::Ledger;
use super::program::{Found, Program, Stop};
use super::schema::role;
use super::trace::{Trace, out};
use crate::raw::RawSink;
use crate::readers::source::ReadAt;
use std::sync::Arc;
use wakepath_model::defects::id;
use wakepath_model::ids::MonoNs;

/// Bytes of all windows together, about: they take turns in the processor's cache.
const WINDOWS: usize = 2048 << 10;
/// Bytes of a packet that are in memory at once, at least and at most.
const WINDOW: std::ops::RangeInclusive<usize> = 2 << 10..=16 << 10;
/// A window grows up to this where one event does not fit.
const WINDOW_MAX: usize = 64 << 20;
/// Windows begin at multiples of this from their packet's begin, so that alignment is the same in both.
const STEP: u64 = super::schema::ALIGN_MAX as u64 / 8;
const MAGIC: u64 = 0xc1fc_1fc1;

/// One file of a stream.
pub(super) struct File {
    pub name: Arc<str>,
    pub data: Box<dyn ReadAt + Send>,
    pub size: u64,
    /// Which trace it belongs to.
    pub trace: usize,
}

/// What an event's header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// Which of its class of streams.
    pub event: u32,
    /// Bit of the packet where its header begins.
    pub header: u64,
    /// And where that ends.
    pub body: u64,
    /// Nanoseconds of the host's clock, and that clock's ticks.
    pub at: u64,
    pub ticks: u64,
}

/// The packet that is being read. Offsets are bytes of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    pub at: u64,
    /// Where the next one begins.
    pub end: u64,
    /// Bits of content that are there, and bits that the packet says to have.
    limit: u64,
    content: u64,
    /// Which trace, and which of its classes of streams.
    pub trace: usize,
    pub class: usize,
    pub cpu: u16,
    /// The tracer did not close it: what lies behind its last event is nobody's.
    open: bool,
    /// Where its context ends, in bits.
    first: u64,
}

/// What packets are counted by.
#[derive(Clone, Copy, Debug)]
struct Passed {
    discarded: Option<u64>,
    sequence: Option<u64>,
    end: u64,
}

/// Which stream a file belongs to, and where in it: files of one stream follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub class: u64,
    /// `None`: the file says nothing of it and is a stream of its own.
    pub stream: Option<u64>,
    pub begin: u64,
}

pub(super) struct StreamReader {
    pub files: Vec<File>,
    pub current: usize,
    window: Vec<u8>,
    /// Bytes to be read at once.
    window_bytes: usize,
    /// Bytes of it that were read.
    filled: usize,
    /// Where in the file the window begins.
    start: u64,
    pub packet: Packet,
    /// Next bit of the packet.
    at: u64,
    pub found: Found,
    pub next: Option<Next>,
    passed: Option<Passed>,
    /// Processor where packets do not say.
    fallback: u16,
    in_packet: bool,
    /// Bytes of files that are done with.
    pub done_bytes: u64,
    pub events: u64,
    pub last: u64,
    /// The task of the last event's context.
    pub tid: u32,
    pub comm: [u8; 16],
}

impl StreamReader {
    /// One of `stream_readers` streams.
    pub fn new(files: Vec<File>, slots: usize, fallback: u16, stream_readers: usize) -> StreamReader {
        StreamReader {
            files,
            current: 0,
            window: Vec::new(),
            window_bytes: (WINDOWS / stream_readers.max(1)).clamp(*WINDOW.start(), *WINDOW.end()),
            filled: 0,
            start: 0,
            packet: Packet::default(),
            at: 0,
            found: Found::new(slots),
            next: None,
            passed: None,
            fallback,
            in_packet: false,
            done_bytes: 0,
            events: 0,
            last: 0,
            // no task's: the first one is a change
            tid: u32::MAX,
            comm: [0; 16],
        }
    }

    /// The trace of the file that is being read.
    pub fn trace(&self) -> Option<usize> {
        self.files.get(self.current).map(|f| f.trace)
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        match self.files.get(self.current) {
            Some(f) => self.done_bytes + (self.packet.at + if self.in_packet { self.at / 8 } else { 0 }).min(f.size),
            None => self.done_bytes,
        }
    }

    /// What the first packet of the (only) file says of its place.
    pub fn place(&mut self, traces: &[Trace]) -> Option<Place> {
        let trace = traces.get(self.trace()?)?;
        self.open(trace).ok()?;
        let class = trace.classes.get(self.packet.class)?;
        let begin = self.found.int(out(role::TIME)).map_or(0, |t| class.ns(t));
        let place = Place { class: class.id, stream: self.stream(), begin };
        (self.packet, self.in_packet, self.at) = (Packet::default(), false, 0);
        Some(place)
    }

    fn stream(&self) -> Option<u64> {
        // outputs of the header are still there after the context's program
        self.found.int(out(role::STREAM))
    }

    /// Reads a window that begins at or before bit `from` of the packet. False where there is no more to be had.
    fn refill(&mut self, from: u64) -> bool {
        let Some(file) = self.files.get(self.current) else { return false };
        let start = self.packet.at + from / 8 / STEP * STEP;
        let had = if start == self.start { self.filled } else { 0 };
        let end = file.size.min(self.packet.at.saturating_add(self.packet.limit.div_ceil(8)));
        if had > 0 && start + had as u64 >= end || had >= WINDOW_MAX {
            return false;
        }
        // a header is short, and a packet may be
        let least = if self.in_packet { self.window_bytes } else { STEP as usize };
        let want = end.saturating_sub(start).min(least.max(had * 2) as u64) as usize;
        self.start = start;
        if had == 0 && self.window.len() > self.window_bytes {
            self.window.truncate(self.window_bytes);
            self.window.shrink_to_fit();
        }
        if self.window.len() < want {
            self.window.resize(want, 0);
        }
        let mut got = had;
        while got < want {
            match file.data.read_at(start + got as u64, &mut self.window[got..want]) {
                Ok(0) => break,
                Ok(n) => got += n.min(want - got),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.filled = got;
        got > had
    }

    /// The window, and the bit of the packet at which it begins.
    pub fn window(&self) -> (&[u8], u64) {
        (self.window.get(..self.filled).unwrap_or_default(), self.start.saturating_sub(self.packet.at) * 8)
    }

    /// The next bit of the packet.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The packet's header and context, read anew.
    pub fn head(&self) -> Vec<u8> {
        let mut out = vec![0; self.packet.first.div_ceil(8).min(WINDOW_MAX as u64) as usize];
        let read = self.files.get(self.current).map(|f| f.data.read_at(self.packet.at, &mut out));
        out.truncate(read.and_then(Result::ok).unwrap_or(0));
        out
    }

    /// Runs a program from bit `at` of the packet on; a retry begins to read at `from`.
    #[inline]
    fn run(&mut self, program: &Program, from: u64, at: u64) -> Result<u64, Stop> {
        let clock = self.found.clock;
        loop {
            let base = self.start.saturating_sub(self.packet.at) * 8;
            let limit = self.packet.limit.saturating_sub(base);
            // bit `at` may lie behind the window, or the window be of another packet
            let there = at >= base && self.start >= self.packet.at && self.filled > 0;
            let result = match there {
                true => {
                    program.run(self.window.get(..self.filled).unwrap_or_default(), at - base, limit, &mut self.found)
                }
                false => Err(Stop::More),
            };
            match result {
                Ok(end) => return Ok(end + base),
                Err(Stop::More) if self.refill(from) => self.found.clock = clock,
                Err(stop) => return Err(stop),
            }
        }
    }

    /// Reads the header and context of the packet at `self.packet.at`.
    fn open(&mut self, trace: &Trace) -> Result<(), Fault> {
        let Some(file) = self.files.get(self.current) else { return Err(Fault::Cut) };
        let at = self.packet.at;
        let rest = file.size.saturating_sub(at).saturating_mul(8);
        let trace_number = file.trace;
        self.packet =
            Packet { at, limit: rest, content: rest, trace: trace_number, cpu: self.fallback, ..Packet::default() };
        (self.start, self.at, self.in_packet) = (at, 0, false);
        self.filled = 0;
        self.found.clear();
        let program = |i: usize| trace.programs.get(i).ok_or(UNREADABLE);
        let behind = self.run(program(trace.header)?, 0, 0)?;
        let int = |stream_reader: &StreamReader, role: u16| stream_reader.found.int(out(role));
        if int(self, role::MAGIC).is_some_and(|m| m != MAGIC) {
            return Err(Fault::Bad("no packet begins here"));
        }
        let (window, _) = self.window();
        if let (Some(has), Some(uuid)) = (self.found.bytes(out(role::UUID), window), trace.schema.uuid)
            && has != uuid
        {
            return Err(Fault::Bad("a packet of another trace"));
        }
        let index = trace.class(int(self, role::STREAM_CLASS)).ok_or(UNREADABLE)?;
        let class = trace.classes.get(index).ok_or(UNREADABLE)?;
        let first = self.run(program(class.context)?, 0, behind)?;
        let packet = &mut self.packet;
        packet.class = index;
        packet.first = first;
        if let Some(cpu) = self.found.int(out(role::CPU)) {
            packet.cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
        }
        // sizes that the tracer writes when it closes a packet
        let unset = |size: &u64| *size == 0 || *size == u64::MAX;
        let (content, total) = (self.found.int(out(role::CONTENT)), self.found.int(out(role::TOTAL)));
        packet.open = content.as_ref().is_some_and(unset) || total.as_ref().is_some_and(unset);
        let total = total.filter(|t| !unset(t));
        let content = content.filter(|c| !unset(c));
        let (content, total) = match (content, total) {
            (Some(content), Some(total)) => (content, total),
            (Some(content), None) => (content, content),
            (None, Some(total)) => (total, total),
            (None, None) => (rest, rest),
        };
        if total < content || content < first {
            return Err(Fault::Bad("a packet smaller than what it holds"));
        }
        packet.content = content;
        packet.limit = content.min(rest);
        packet.end = at.saturating_add(total.div_ceil(8).max(1));
        self.at = first;
        self.in_packet = true;
        Ok(())
    }

    /// Goes to the next packet; false where the stream ends.
    fn next_packet(&mut self, traces: &[Trace], ledger: &mut Ledger, sink: &mut impl RawSink) -> bool {
        loop {
            let Some(file) = self.files.get(self.current) else { return false };
            let (size, trace) = (file.size, file.trace);
            if self.in_packet {
                self.packet.at = self.packet.end;
                self.in_packet = false;
            }
            let at = self.packet.at;
            let opened = if at < size { traces.get(trace).map(|t| self.open(t)) } else { None };
            match opened {
                Some(Ok(())) => {
                    if let Some(trace) = traces.get(trace) {
                        self.account(trace, ledger, sink);
                    }
                    return true;
                }
                Some(Err(fault)) => {
                    let (defect, what) = match fault {
                        Fault::Cut => (id::CTF_CUT, "the file ends in a packet's header"),
                        Fault::Bad(what) => (id::CTF_PACKET, what),
                    };
                    self.fault(defect, self.packet.at, what, ledger, sink);
                }
                None => {}
            }
            self.done_bytes += size;
            self.current += 1;
            self.packet = Packet::default();
            self.in_packet = false;
        }
    }

    /// Losses that the packet's counters tell of, and whether all of it is there.
    fn account(&mut self, trace: &Trace, ledger: &mut Ledger, sink: &mut impl RawSink) {
        let Some(class) = trace.classes.get(self.packet.class) else { return };
        let ns = |role: u16| self.found.int(out(role)).map(|t| class.ns(t));
        let begin = ns(role::TIME).unwrap_or(self.last);
        let end = ns(role::TIME_END).unwrap_or(begin).max(begin);
        let discarded = self.found.int(out(role::DISCARDED));
        let sequence = self.found.int(out(role::SEQUENCE));
        let cpu = Some(self.packet.cpu);
        match (&self.passed, discarded) {
            (Some(Passed { discarded: Some(before), end: from, .. }), Some(now)) if now != *before => {
                // counters of 32 bits wrap; one that goes back otherwise says nothing
                let wrapped =
                    || (now + (1 << 32)).checked_sub(*before).filter(|_| *before >> 32 == 0 && now >> 32 == 0);
                if let Some(lost) = now.checked_sub(*before).or_else(wrapped) {
                    ledger.tally.lost_events = ledger.tally.lost_events.saturating_add(lost);
                    sink.lost(cpu, MonoNs(*from), MonoNs(end.max(*from)), lost);
                }
            }
            (None, Some(now)) => ledger.tally.lost_before = ledger.tally.lost_before.saturating_add(now),
            _ => {}
        }
        if let (Some(Passed { sequence: Some(before), end: from, .. }), Some(now)) = (&self.passed, sequence)
            && let Some(lost) = now.checked_sub(*before).and_then(|n| n.checked_sub(1)).filter(|n| *n > 0)
        {
            ledger.tally.lost_packets = ledger.tally.lost_packets.saturating_add(lost);
            let from = *from;
            // how many events they held is not known
            sink.lost(cpu, MonoNs(from), MonoNs(begin.max(from)), 0);
            let what = format!("{lost} packets are missing before this one");
            self.fault(id::CTF_PACKETS_LOST, self.packet.at, &what, ledger, sink);
        }
        let before = self.passed;
        self.passed = Some(Passed {
            discarded: discarded.or(before.and_then(|b| b.discarded)),
            sequence: sequence.or(before.and_then(|b| b.sequence)),
            end,
        });
        ledger.tally.packets += 1;
        if self.packet.open {
            self.fault(id::CTF_OPEN, self.packet.at, "the packet's sizes were never written", ledger, sink);
        } else if self.packet.limit < self.packet.content {
            self.fault(id::CTF_CUT, self.packet.at, "the packet is longer than the rest of its file", ledger, sink);
        }
    }

    fn fault(&self, defect: &'static str, at: u64, what: &str, ledger: &mut Ledger, sink: &mut impl RawSink) {
        sink.count(defect, MonoNs(self.last));
        if let Some(file) = self.files.get(self.current) {
            ledger.fault(defect, &file.name, at, what);
        }
    }

    /// Reads the header of the next event, in this packet or a later one. False where the stream ends.
    pub fn advance(&mut self, traces: &[Trace], ledger: &mut Ledger, sink: &mut impl RawSink) -> bool {
        self.next = None;
        loop {
            if !self.in_packet && !self.next_packet(traces, ledger, sink) {
                return false;
            }
            let class = traces.get(self.packet.trace).and_then(|t| Some((t, t.classes.get(self.packet.class)?)));
            let Some((trace, class)) = class else { return false };
            let header = bits::align(self.at, class.align);
            let program = trace.programs.get(class.event_header);
            let (true, Some(program)) = (header < self.packet.limit, program) else {
                self.leave();
                continue;
            };
            self.found.clear();
            let ran = self.run(program, header, header);
            let Ok(body) = ran else {
                self.stop(
                    matches!(ran, Err(Stop::More)),
                    header,
                    "an event's header that cannot be read",
                    ledger,
                    sink,
                );
                continue;
            };
            // memory that no event was written to yet
            if self.packet.open && self.is_blank(header, body) {
                self.leave();
                continue;
            }
            let event = match (self.found.int(out(role::EVENT_CLASS)), class.events.len()) {
                (None, 1) => Some(0),
                (id, _) => class.event(id.unwrap_or(0)),
            };
            let Some(event) = event else {
                self.stop(false, header, "an event that the metadata do not describe", ledger, sink);
                continue;
            };
            let at = class.ns(self.found.clock);
            self.next = Some(Next { event, header, body, at, ticks: self.found.clock });
            return true;
        }
    }

    /// Reads the body of the event whose header was read. False where it cannot be read: nothing of it is to be used.
    #[inline]
    pub fn body(
        &mut self,
        program: Option<&Program>,
        next: Next,
        ledger: &mut Ledger,
        sink: &mut impl RawSink,
    ) -> bool {
        self.found.clear();
        let ran = match program {
            Some(program) => self.run(program, next.header, next.body),
            None => Err(Stop::Bad),
        };
        match ran {
            // an event of no size would be there without end
            Ok(end) if end > self.at => {
                self.at = end;
                true
            }
            Ok(_) => {
                self.stop(false, next.header, "an event without a size", ledger, sink);
                false
            }
            Err(stop) => {
                self.stop(stop == Stop::More, next.header, "fields that cannot be read", ledger, sink);
                false
            }
        }
    }

    fn is_blank(&self, from: u64, to: u64) -> bool {
        let (window, base) = self.window();
        let byte = |bit: u64| (bit.saturating_sub(base) / 8) as usize;
        window.get(byte(from)..byte(to)).is_some_and(|bytes| !bytes.is_empty() && bytes.iter().all(|b| *b == 0))
    }

    /// Leaves the packet.
    fn leave(&mut self) {
        self.packet.at = self.packet.end;
        self.in_packet = false;
        self.at = 0;
    }

    /// Leaves the packet at an event that cannot be read.
    fn stop(&mut self, is_end: bool, event: u64, what: &str, ledger: &mut Ledger, sink: &mut impl RawSink) {
        // where the packet is open or cut, the last event is expected to be half
        let expected = self.packet.open || is_end && self.packet.limit < self.packet.content;
        if !expected {
            self.fault(id::CTF_EVENT, self.packet.at + event / 8, what, ledger, sink);
        }
        self.leave();
    }
}

const UNREADABLE: Fault = Fault::Bad("a stream that the metadata do not describe");

/// Why a packet cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Cut,
    Bad(&'static str),
}

impl From<Stop> for Fault {
    fn from(stop: Stop) -> Fault {
        if stop == Stop::More { Fault::Cut } else { Fault::Bad("a header that contradicts itself") }
    }
}
