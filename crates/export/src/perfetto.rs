//! A trace for Perfetto: for each host a track of its requests' spans by service, and tracks of its tasks' states by program, with
//! arrows from callers to servers and from who woke to who was woken.
//!
//! Tracks have no numbers of processes or threads, since those of two hosts may be the same. Every span has a track of its own
//! of its service's name; the page draws those of one name together, below each other where they overlap.

pub mod tasks;

use crate::SCOPE;
use crate::protobuf::Message;
use crate::trace::{Attribute, Trace, TraceSpan, Value};
use fnv::FnvHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;
use std::io::{self, Write};
use wakepath_analysis::names::Names;
use wakepath_analysis::slices::State;
use wakepath_analysis::timeline::Stay;
use wakepath_model::ids::{CommonNs, HostId, TaskId};
use wakepath_model::syscalls;
use wakepath_present::text::escaped;

/// The one sequence of packets that there is.
const SEQUENCE: u64 = 1;
/// On the first packet: nothing before is referred to.
const STATE_CLEARED: u64 = 1;
/// Clocks that Perfetto knows.
const CLOCKS: [u64; 2] = [1, 6];
/// Fields of `TracePacket`.
mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const EVENT: u32 = 11;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TRACK: u32 = 60;
}

/// Kinds of event.
#[derive(Clone, Copy)]
enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Spans of requests.
    pub spans: u64,
    /// Intervals of tasks.
    pub stays: u64,
    /// Arrows.
    pub arrows: u64,
}

/// Writes a trace, packet by packet.
pub struct Writer<'a, 'f> {
    names: &'a Names<'f>,
    /// Tracks that were announced.
    tracks: BTreeSet<u64>,
    /// Tasks that have a track: only from and to these are arrows drawn.
    tasks: BTreeSet<(HostId, TaskId)>,
    /// What was written so far.
    pub written: Written,
}

/// What an event says besides its time and track.
#[derive(Default)]
struct Said<'t> {
    name: &'t str,
    begins_arrow: Option<u64>,
    ends_arrow: Option<u64>,
    attributes: &'t [Attribute],
}

fn id(words: impl std::hash::Hash) -> u64 {
    let mut f = FnvHasher::default(); // the same in every version and on every machine
    words.hash(&mut f);
    f.finish().max(1)
}

impl<'a, 'f> Writer<'a, 'f> {
    /// A trace that begins at a moment (ns since 1970), with tracks for these tasks.
    pub fn new(
        names: &'a Names<'f>,
        begin: i64,
        tasks: impl IntoIterator<Item = (HostId, TaskId)>,
        out: &mut dyn Write,
    ) -> io::Result<Writer<'a, 'f>> {
        let tasks = tasks.into_iter().collect();
        let writer = Writer { names, tracks: BTreeSet::new(), tasks, written: Written::default() };
        writer.packet(out, |p| {
            p.put_uint(packet::SEQUENCE_FLAGS, STATE_CLEARED);
            // wall-clock time is the only one that there is: it stands for the one that Perfetto counts from the boot
            p.put(packet::CLOCK_SNAPSHOT, |snapshot| {
                for clock in CLOCKS {
                    snapshot.put(1, |c| {
                        c.put_uint(1, clock);
                        c.put_uint(2, unsigned(begin));
                    });
                }
            });
        })?;
        Ok(writer)
    }

    /// Adds the spans of a request, with arrows from each call to who served it.
    pub fn trace(&mut self, trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
        let spans: BTreeMap<u64, &TraceSpan> = trace.spans.iter().map(|s| (s.id, s)).collect();
        for s in &trace.spans {
            let host = self.track(&s.host, 0, &s.host, out)?;
            let requests = self.track((host, "requests"), host, "Requests", out)?;
            // met once, so not remembered
            let track = |span: u64| id((&trace.id, span));
            self.announce(track(s.id), requests, &s.service, out)?;
            let caller = s.parent.and_then(|p| spans.get(&p));
            let arrow = caller.map(|_| id((&trace.id, s.id, "call")));
            if let Some(caller) = caller {
                // from where the call was made, within its caller's span
                let at = s.from_ns.clamp(caller.from_ns, caller.to_ns);
                let said = Said { name: "calls", begins_arrow: arrow, ..Said::default() };
                self.event(Kind::Instant, track(caller.id), at, &said, out)?;
                self.written.arrows += 1;
            }
            let said = Said { name: &s.name, ends_arrow: arrow, attributes: &s.attributes, ..Said::default() };
            self.event(Kind::Begin, track(s.id), s.from_ns, &said, out)?;
            for h in &s.happened {
                let said = Said { name: h.name, attributes: &h.attributes, ..Said::default() };
                self.event(Kind::Instant, track(s.id), h.at_ns.clamp(s.from_ns, s.to_ns), &said, out)?;
            }
            self.event(Kind::End, track(s.id), s.to_ns, &Said::default(), out)?;
            self.written.spans += 1;
        }
        Ok(())
    }

    /// Adds an interval of a task. `woken`: when the wait before it ended, and who ended it.
    pub fn stay(
        &mut self,
        (host, task): (HostId, TaskId),
        s: &Stay,
        woken: Option<(CommonNs, TaskId)>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let track = self.task(host, task, out)?;
        let arrow = woken.filter(|(_, by)| *by != task && self.tasks.contains(&(host, *by)));
        let arrow_id = arrow.map(|(at, by)| id((host.0, task.0, by.0, at.0)));
        if let Some(((at, by), arrow)) = arrow.zip(arrow_id) {
            let name = format!("wakes {}", escaped(&self.names.task(host, task)));
            let waker = self.task(host, by, out)?;
            let said = Said { name: &name, begins_arrow: Some(arrow), ..Said::default() };
            self.event(Kind::Instant, waker, at.0, &said, out)?;
            self.written.arrows += 1;
        }
        let mut attributes: Vec<Attribute> = Vec::new();
        if let Some(by) = s.by {
            let what = if s.state == State::Preempted { "wakepath.next" } else { "wakepath.by" };
            attributes.push((what.into(), Value::Text(escaped(&self.names.task(host, by)).into_owned())));
        }
        if let Some(nr) = s.syscall {
            let name = syscalls::name(nr).map_or_else(|| nr.to_string(), str::to_owned);
            attributes.push(("wakepath.syscall".into(), Value::Text(name)));
        }
        let said = Said { name: s.state.name(), ends_arrow: arrow_id, attributes: &attributes, ..Said::default() };
        self.event(Kind::Begin, track, s.from.0, &said, out)?;
        self.event(Kind::End, track, s.to.0, &Said::default(), out)?;
        self.written.stays += 1;
        Ok(())
    }

    /// Adds a value of a counter.
    pub fn count(&mut self, name: &str, at_ns: i64, value: i64, out: &mut dyn Write) -> io::Result<()> {
        let track = id(("counter", name));
        if self.tracks.insert(track) {
            self.packet(out, |p| {
                p.put(packet::TRACK, |t| {
                    t.put_uint(1, track);
                    t.put_bytes(2, name.as_bytes());
                    t.put_bytes_always(8, b"");
                });
            })?;
        }
        self.packet(out, |p| {
            p.put_uint(packet::TIMESTAMP, unsigned(at_ns));
            p.put(packet::EVENT, |e| {
                e.put_uint(9, Kind::Counter as u64);
                e.put_uint(11, track);
                e.put_int_always(30, value);
            });
        })
    }

    /// The track of a task, below its program and host.
    fn task(&mut self, host: HostId, task: TaskId, out: &mut dyn Write) -> io::Result<u64> {
        let name = escaped(self.names.host(host)).into_owned();
        let of_host = self.track(&name, 0, &name, out)?;
        let program = escaped(self.names.program(host, task)).into_owned();
        let of_program = self.track((of_host, "program", self.names.tgid(host, task)), of_host, &program, out)?;
        let name = escaped(&self.names.task(host, task)).into_owned();
        self.track((of_host, "task", task.0), of_program, &name, out)
    }

    /// A track, announced when it is met first. `parent` 0: it has none.
    fn track(&mut self, key: impl std::hash::Hash, parent: u64, name: &str, out: &mut dyn Write) -> io::Result<u64> {
        let track = id(key);
        if self.tracks.insert(track) {
            self.announce(track, parent, name, out)?;
        }
        Ok(track)
    }

    fn announce(&self, track: u64, parent: u64, name: &str, out: &mut dyn Write) -> io::Result<()> {
        self.packet(out, |p| {
            p.put(packet::TRACK, |t| {
                t.put_uint(1, track);
                t.put_bytes(2, name.as_bytes());
                t.put_uint(5, parent);
            });
        })
    }

    fn event(&self, kind: Kind, track: u64, at_ns: i64, said: &Said<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.packet(out, |p| {
            p.put_uint(packet::TIMESTAMP, unsigned(at_ns));
            p.put(packet::EVENT, |e| {
                for (name, value) in said.attributes {
                    e.put(4, |a| {
                        a.put_bytes(10, name.as_bytes());
                        match value {
                            Value::Text(text) => a.put_bytes_always(6, text.as_bytes()),
                            Value::Number(n) => a.put_int_always(4, *n),
                        }
                    });
                }
                e.put_uint(9, kind as u64);
                e.put_uint(11, track);
                if !matches!(kind, Kind::End) {
                    e.put_bytes(22, SCOPE.as_bytes());
                    e.put_bytes(23, said.name.as_bytes());
                }
                e.put_fixed64(47, said.begins_arrow.unwrap_or(0));
                e.put_fixed64(48, said.ends_arrow.unwrap_or(0));
            });
        })
    }

    fn packet(&self, out: &mut dyn Write, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let mut trace = Message::default();
        trace.put(1, |p| {
            p.put_uint(packet::SEQUENCE, SEQUENCE);
            fill(p);
        });
        out.write_all(trace.bytes())
    }
}

/// Times before 1970 there are none of.
fn unsigned(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}
