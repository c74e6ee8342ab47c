//! Causality: which operations belong together. Linkers over the model's rows; every edge keeps the rule that made it.
//!
//! Two passes over a folder, both streaming: the first learns how each task works ([`roles`]), the second makes
//! exchanges ([`exchange`]), finds whose doing each call was ([`attribution`]) and joins the components ([`path`]).
#![deny(missing_docs)]

mod at_work;
pub mod attribution;
pub mod conditions;
mod dense;
mod errands;
pub mod evidence;
pub mod exchange;
pub mod finished;
pub mod flags;
mod lineage;
mod numbered;
mod of_tasks;
mod options;
pub mod path;

pub mod process;
pub mod proof;
mod remembered;
pub mod request;
pub mod roles;
mod slab;
pub mod sniffed;
mod tenures;

use attribution::Attribution;
use exchange::{Channels, Engine, Sides};
pub use options::{Explain, Options, TakesProof};
use path::{Assembler, HostOut, Linked, Request};
use roles::Roles;
use rustc_hash::FxHashMap;
use sniffed::{OnWire, Seen, Wires};
use std::cell::RefCell;
use std::rc::Rc;
use wakepath_flows::Place;
use wakepath_model::clock::Timeline;
use wakepath_model::folder::{Events, Folder, Host, TableSet};
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{Event, EventRef, FlowStateRow, PollRow, Reset, Table, TcpState, op_flag};

/// What came of a reconstruction, besides the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Counts of the assembler.
    pub linked: Linked,
    /// What came of calls, as each host's own vantage saw them.
    pub calls: finished::Calls,
    /// What would have told whose the open calls are, and how many of them, by the process that made them (its leading task).
    pub missing: FxHashMap<(evidence::Missing, HostId, TaskId), u64>,
    /// Links inside components, by rule.
    pub made: FxHashMap<evidence::Rule, u64>,
    /// Where a witness on the wire contradicted the rule of another vantage.
    pub disagreements: u64,
    /// Socket operations read in the second pass.
    pub operations: u64,
    /// Most exchanges held at once.
    pub held_max: usize,
    /// What sniffers saw.
    pub on_wire: OnWire,
}

/// Finds the paths of all requests of a folder; `out` gets each as soon as it is whole, `refused` each connection that
/// did not come about, with who tried, where, and why (Linux's error number, 0 = not known). Memory: what is open at once, not
/// the length of the recording.
pub fn reconstruct(
    folder: &Folder,
    out: impl FnMut(Request),
    refused: impl FnMut(HostId, TaskId, Place, i32),
) -> Report {
    reconstruct_with(folder, &Options::default(), out, refused)
}

/// Bytes that [`reconstruct`] reads of a folder in its two passes, about: whether waits are read, too, it learns on the way.
pub fn bytes_to_read(folder: &Folder) -> u64 {
    2 * folder.hosts().iter().map(|h| h.bytes_of(TableSet::of(&BASE))).sum::<u64>()
}

/// The same as [`reconstruct`], as the options say.
pub fn reconstruct_with(
    folder: &Folder,
    options: &Options,
    out: impl FnMut(Request),
    refused: impl FnMut(HostId, TaskId, Place, i32),
) -> Report {
    let Learned { roles, known } = Learned::of(folder);
    link(folder, options, (&roles, known), out, refused)
}

/// What the first pass learns of a folder, for those who find its paths more than once.
pub struct Learned {
    roles: Vec<Roles>,
    known: Vec<Known>,
}

impl Learned {
    /// Reads the folder once.
    pub fn of(folder: &Folder) -> Learned {
        let (roles, known) = folder.hosts().iter().map(learn).unzip();
        Learned { roles, known }
    }

    /// The same as [`reconstruct`], of the folder that this was learned of: reads it once.
    pub fn reconstruct(&self, folder: &Folder, out: impl FnMut(Request)) -> Report {
        link(folder, &Options::default(), (&self.roles, self.known.clone()), out, |_, _, _, _| {})
    }
}

/// Second pass.
fn link(
    folder: &Folder,
    options: &Options,
    (roles, known): (&[Roles], Vec<Known>),
    out: impl FnMut(Request),
    refused: impl FnMut(HostId, TaskId, Place, i32),
) -> Report {
    let options = Options {
        refuses_habits: options.refuses_habits || folder.refuses_habits(),
        refuses_witness: options.refuses_witness || folder.refuses_witness(),
        ..options.clone()
    };
    let hosts = folder.hosts();
    let line = Rc::new(folder.timeline());
    let sniffers = hosts.iter().filter(|h| h.row_count(Table::SniffedExchange) > 0);
    let seen: FxHashMap<HostId, Seen> = sniffers.map(|h| (h.id(), Seen::read(h))).collect();
    let out = Rc::new(RefCell::new(out));
    let given = Rc::clone(&out);
    let wires = (!seen.is_empty()).then(|| {
        let wires = Wires::new(Rc::clone(&line), seen, move |r| (given.borrow_mut())(r));
        Rc::new(RefCell::new(wires))
    });
    let through = wires.clone();
    let given = move |r| match &through {
        Some(wires) => wires.borrow_mut().request(r),
        None => (out.borrow_mut())(r),
    };
    let assembler = Rc::new(RefCell::new(Assembler::new(given, refused)));
    for (host, roles) in hosts.iter().zip(roles) {
        assembler.borrow_mut().lost_on(host.id(), roles.losses());
        if let Some(wires) = wires.as_ref().filter(|_| !roles.losses().is_empty()) {
            wires.borrow_mut().lost_on(host.id());
        }
    }
    let mut report = Report::default();
    let mut streams: Vec<Stream<'_, '_>> = hosts
        .iter()
        .zip(roles.iter().zip(known))
        .map(|(host, (roles, known))| {
            for r in known.channels.announcements() {
                assembler.borrow_mut().endpoint(host.id(), &r);
            }
            let out = HostOut { host: host.id(), shared: Rc::clone(&assembler), wires: wires.clone() };
            let linker = Attribution::new(roles, host.id(), options.clone(), out);
            Stream::new(
                host,
                (hosts.len() > 1).then(|| Rc::clone(&line)),
                Engine::new(linker, known.sides, known.channels),
            )
        })
        .collect();
    if let [only] = &mut streams[..] {
        while only.step(&assembler) {}
    } else {
        // hosts side by side on one line: only for how long things are kept, links go by bytes
        loop {
            let next = (0..streams.len()).filter_map(|i| streams[i].next_at().map(|t| (t, i))).min();
            let Some((_, i)) = next else { break };
            streams[i].step(&assembler);
        }
    }
    for s in &mut streams {
        let last = s.last;
        s.engine.finish(last);
        s.engine.steps.finish(&s.engine.xs);
        report.add_host(s);
    }
    let mut assembler = assembler.borrow_mut();
    assembler.finish();
    report.linked = assembler.linked.clone();
    if let Some(wires) = wires {
        let mut wires = wires.borrow_mut();
        wires.finish();
        report.add(&wires.counts);
    }
    report
}

impl Report {
    /// A host was read to its end.
    fn add_host(&mut self, s: &Stream<'_, '_>) {
        let tally = &s.engine.steps.tally;
        for (rule, n) in &tally.links {
            *self.made.entry(*rule).or_default() += n;
        }
        for ((missing, process), n) in &tally.missing {
            *self.missing.entry((*missing, s.host, process.leader())).or_default() += n;
        }
        self.calls.add(&tally.calls);
        self.operations += s.operations;
        self.held_max = self.held_max.max(s.held_max);
    }

    /// Requests were given by way of what sniffers saw.
    fn add(&mut self, on_wire: &OnWire) {
        (self.linked.requests, self.linked.complete, self.linked.orphans) = on_wire.given;
        for (made, of) in [(&on_wire.made, &mut self.made), (&on_wire.joined, &mut self.linked.joined)] {
            for (rule, n) in made {
                *of.entry(*rule).or_default() += n;
            }
        }
        self.disagreements += on_wire.disagreements;
        self.held_max = self.held_max.max(on_wire.held_max);
        self.on_wire = on_wire.clone();
    }
}

/// What both passes read.
const BASE: [Table; 11] = [
    Table::Op,
    Table::Message,
    Table::MessageEnd,
    Table::Endpoint,
    Table::FlowState,
    Table::Task,
    Table::FlowNote,
    Table::Poll,
    Table::Input,
    Table::Handover,
    Table::Stream,
];

/// How often what is over is looked for.
const CHECK_NS: u64 = 20_000_000;

/// First pass over one host.
fn learn(host: &Host) -> (Roles, Known) {
    let mut engine = Engine::new(Roles::default(), Sides::default(), Channels::default());
    let mut tables = BASE.to_vec();
    tables.push(Table::Loss);
    let mut checked = MonoNs(0);
    let mut events = host.events(TableSet::of(&tables), ..);
    while let Some(event) = events.next_ref() {
        if event.at().0 > checked.0.saturating_add(CHECK_NS) {
            checked = event.at();
            engine.forget(checked);
        }
        match event {
            EventRef::Task(r) => {
                engine.steps.task(&engine.xs, r);
                engine.task(r);
            }
            EventRef::Loss(r) => engine.steps.loss(r, host.text(r.what)),
            EventRef::Poll(r) => engine.steps.poll(&by_actor(r)),
            EventRef::Input(r) => engine.steps.input(r),
            EventRef::Handover(r) => engine.steps.handed_over(r),
            EventRef::Stream(r) if r.calls == 0 => engine.steps.serves_stream(&engine.xs, r),
            EventRef::Op(r) if r.flags & op_flag::IO_URING != 0 => {
                engine.steps.ring(r.task);
                engine.operation(r);
            }
            other => feed(&mut engine, other),
        }
    }
    engine.steps.ended(&engine.xs);
    let mut roles = engine.steps;
    let channels = engine.channels.learned(|process| roles.serves_clients(process));
    let known = Known { sides: engine.sides, channels };
    roles.finish();
    if roles.needs_wakes() {
        for event in host.events(TableSet::of(&[Table::Wait]), ..) {
            if let Event::Wait(r) = event {
                if r.syscall == roles::FUTEX {
                    roles.futex(&r);
                }
                roles.waited(&r);
            }
        }
    }
    (roles, known)
}

/// What a first pass learned of flows.
#[derive(Clone)]
struct Known {
    sides: Sides,
    channels: Channels,
}

fn feed<S: exchange::Steps>(engine: &mut Engine<S>, event: EventRef<'_>) {
    match event {
        EventRef::Op(r) => engine.operation(r),
        EventRef::Message(r) => engine.message(r),
        EventRef::MessageEnd(r) => engine.message_end(r),
        EventRef::Endpoint(r) => engine.endpoint(r),
        EventRef::FlowState(r) => engine.state(r),
        EventRef::FlowNote(r) => engine.note(r),
        EventRef::Stream(r) => engine.asks_by_stream(r),
        _ => {}
    }
}

/// One host's second pass.
struct Stream<'f, 'o> {
    host: HostId,
    /// The common line, where there are several hosts.
    line: Option<Rc<Timeline>>,
    events: Events<'f>,
    wires: Option<Rc<RefCell<Wires<'o>>>>,
    engine: Engine<Attribution<'f, HostOut<'o>>>,
    last: MonoNs,
    checked: MonoNs,
    held_max: usize,
    operations: u64,
}

impl<'f, 'o> Stream<'f, 'o> {
    fn new(host: &'f Host, line: Option<Rc<Timeline>>, engine: Engine<Attribution<'f, HostOut<'o>>>) -> Self {
        let mut tables = BASE.to_vec();
        if engine.steps.needs_wakes() {
            tables.push(Table::Wait);
        }
        let wires = engine.steps.out.wires.clone();
        if wires.is_some() {
            tables.extend([Table::SniffedFlow, Table::SniffedExchange]);
        }
        Stream {
            host: host.id(),
            line,
            events: host.events(TableSet::of(&tables), ..),
            wires,
            engine,
            last: MonoNs(0),
            checked: MonoNs(0),
            held_max: 0,
            operations: 0,
        }
    }

    fn common(&self, at: MonoNs) -> i64 {
        self.line.as_ref().map_or(at.0 as i64, |l| l.common(self.host, at).0)
    }

    /// When its next row is.
    fn next_at(&mut self) -> Option<i64> {
        let at = self.events.next_at()?;
        Some(self.common(at))
    }

    fn step(&mut self, assembler: &Rc<RefCell<Assembler<'o>>>) -> bool {
        let Some(event) = self.events.next_ref() else { return false };
        let at = event.at();
        self.last = self.last.max(at);
        match event {
            EventRef::Endpoint(r) => assembler.borrow_mut().endpoint(self.host, r),
            EventRef::Wait(r) => self.engine.steps.wait(&self.engine.xs, r),
            EventRef::Poll(r) => self.engine.steps.poll(&by_actor(r)),
            EventRef::Input(r) => self.engine.steps.input(&self.engine.xs, r),
            EventRef::Handover(r) => self.engine.steps.handed_over(&self.engine.xs, r),
            EventRef::Stream(r) if r.calls == 0 => self.engine.steps.serves_stream(&self.engine.xs, r),
            EventRef::Task(r) => {
                self.engine.steps.task(&self.engine.xs, r);
                self.engine.task(r);
            }
            EventRef::Op(_) => self.operations += 1,
            EventRef::SniffedFlow(r) => {
                self.wires.iter().for_each(|w| w.borrow_mut().flow(self.host, r));
            }
            EventRef::SniffedExchange(r) => {
                self.wires.iter().for_each(|w| w.borrow_mut().exchange(self.host, r));
            }
            _ => {}
        }
        feed(&mut self.engine, event);
        if let EventRef::FlowState(&FlowStateRow { flow, new: TcpState::Close, reset, snd, .. }) = event {
            assembler.borrow_mut().flow_over(self.host, flow, snd);
            if reset == Reset::None {
                // one clock for all hosts, or those of the host that is ahead would be forgotten at once
                let common = MonoNs(self.common(at) as u64);
                assembler.borrow_mut().flow_gone(self.host, flow, common);
            }
        }
        if at.0 > self.checked.0.saturating_add(CHECK_NS) {
            self.checked = at;
            self.wires.iter().for_each(|w| w.borrow_mut().tick(self.host, at));
            let gone = self.engine.forget(at);
            if !gone.is_empty() {
                let common = MonoNs(self.common(at) as u64);
                gone.into_iter().for_each(|flow| assembler.borrow_mut().flow_gone(self.host, flow, common));
            }
            let done = self.engine.steps.advance(&self.engine.xs, at);
            for x in done {
                if self.engine.xs.is_live(x) {
                    self.engine.xs.release(x);
                }
            }
            self.held_max = self.held_max.max(self.engine.xs.in_use());
        }
        true
    }
}

/// What is waited for is waited for in a logical task's name, where one is known.
fn by_actor(r: &PollRow) -> PollRow {
    PollRow { task: r.actor(), ..*r }
}
