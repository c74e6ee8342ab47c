//! `wakepath-grow`: a trace N times as long, each repetition later and with flows and tasks of its own. For measuring
//! how time and memory of the reconstruction grow.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use wakepath_model::folder::{Durability, Folder, FolderWriter, Host, Options, Overwrite, TableSet};
use wakepath_model::ids::{EndpointId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{
    EndedBy, Event, FlowStateRow, Life, OpKind, OpRow, RangeHow, Reset, Table, TaskRow, TcpState,
};

/// Writes a trace N times as long
#[derive(Parser)]
#[command(name = "wakepath-grow")]
struct Args {
    /// Trace folder with one host
    trace: PathBuf,
    /// Folder to make
    out: PathBuf,
    /// How many times as long
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    times: u64,
    /// Milliseconds between two repetitions
    #[arg(long, default_value_t = 1)]
    pause_ms: u64,
}

/// Socket cookies are counted from 1; repetitions begin this far apart.
const COOKIES: u64 = 1 << 40;

/// What is added to a repetition's ids and times.
#[derive(Clone, Copy)]
struct Shift {
    time: u64,
    flow: u64,
    task: u32,
}

impl Shift {
    fn time(self, t: &mut MonoNs) {
        if t.0 != 0 {
            t.0 += self.time;
        }
    }

    fn times<const N: usize>(self, all: [&mut MonoNs; N]) {
        all.into_iter().for_each(|t| self.time(t));
    }

    fn on_flow(self, at: &mut MonoNs, flow: &mut EndpointId) {
        self.time(at);
        self.flow(flow);
    }

    fn flow(self, f: &mut EndpointId) {
        if f.0 != 0 {
            f.0 = f.0.wrapping_add(self.flow);
        }
    }
}

/// The same row with its tasks in another repetition; names are ids of the writer's.
fn with_ids(event: &Event, s: Shift, text: impl Fn(StrId) -> StrId) -> Option<Event> {
    let mut bytes = event.bytes().to_vec();
    let table = event.table();
    let mut change = |at: usize, to: &dyn Fn(u32) -> u32| {
        let field: &mut [u8] = &mut bytes[at..at + 4];
        let old = u32::from_ne_bytes(field.try_into().expect("four bytes"));
        field.copy_from_slice(&to(old).to_ne_bytes());
    };
    for &at in table.strings() {
        change(at, &|id| text(StrId(id)).0);
    }
    for &at in table.tasks() {
        change(at, &|id| if id == 0 { 0 } else { id + s.task });
    }
    Event::read(table, &bytes)
}

/// The same row in another repetition; names are ids of the writer's.
fn shifted(event: &Event, s: Shift, text: impl Fn(StrId) -> StrId) -> Option<Event> {
    let mut event = with_ids(event, s, text)?;
    match &mut event {
        Event::Op(r) => {
            s.times([&mut r.at, &mut r.entry, &mut r.arrived]);
            s.flow(&mut r.flow);
        }
        Event::Message(r) => s.on_flow(&mut r.at, &mut r.flow),
        Event::MessageEnd(r) => s.on_flow(&mut r.at, &mut r.flow),
        Event::Endpoint(r) => {
            s.time(&mut r.at);
            s.flow(&mut r.flow);
            s.flow(&mut r.peer);
        }
        Event::FlowState(r) => s.on_flow(&mut r.at, &mut r.flow),
        Event::Wait(r) => {
            s.times([&mut r.at, &mut r.blocked, &mut r.woken]);
            if r.cause == EndedBy::Socket && r.object != 0 {
                r.object = r.object.wrapping_add(s.flow);
            }
        }
        Event::Poll(r) => s.times([&mut r.at, &mut r.entry]),
        Event::Task(r) => s.times([&mut r.at, &mut r.start]),
        Event::Loss(r) => s.times([&mut r.at, &mut r.from]),
        Event::Anchor(r) => {
            s.time(&mut r.at);
            r.real_ns += s.time;
        }
        Event::FlowNote(r) => s.on_flow(&mut r.at, &mut r.flow), // of imported traces only; copies keep their packets' numbers
        Event::Packet(r) => s.time(&mut r.at),
        Event::Placement(r) => s.time(&mut r.at),
        Event::Handover(r) => s.times([&mut r.at, &mut r.sent, &mut r.first_sent]),
        Event::Stream(r) => s.time(&mut r.at),
        Event::Ran(r) => s.time(&mut r.at),
        Event::Stay(r) => s.times([&mut r.at, &mut r.from, &mut r.to]),
        Event::Park(r) => s.times([&mut r.at, &mut r.blocked, &mut r.woken]),
        Event::Stack(r) => s.times([&mut r.at, &mut r.blocked]),
        Event::Fault(r) => s.times([&mut r.at, &mut r.began]),
        Event::Input(r) => s.on_flow(&mut r.at, &mut r.flow),
        Event::SniffedFlow(r) => {
            s.times([&mut r.at, &mut r.syn, &mut r.syn_ack, &mut r.ack]);
            r.flow.0 = r.flow.0.wrapping_add(s.flow);
        }
        Event::Limit(r) => s.on_flow(&mut r.at, &mut r.flow),
        Event::Descriptor(r) => {
            // 0 is no time
            s.time(&mut r.at);
            [&mut r.received, &mut r.sent].into_iter().filter(|t| t.0 != 0).for_each(|t| s.time(t));
            s.flow(&mut r.flow);
        }
        Event::Resent(r) => s.on_flow(&mut r.at, &mut r.flow),
        // a reduced host is no recording
        Event::Reduced(_) => return None,
        // of one import: repetitions would need numbers of their own
        Event::Mark(r) => {
            s.time(&mut r.at);
            r.seq = 0;
        }
        Event::SniffedExchange(r) => {
            s.times([&mut r.at, &mut r.request_first, &mut r.request_head, &mut r.request_last]);
            s.times([&mut r.reply_first, &mut r.reply_head, &mut r.reply_last]);
            r.flow.0 = r.flow.0.wrapping_add(s.flow);
        }
    }
    Some(event)
}

fn task_max(host: &Host) -> u32 {
    let most = |event: Event| {
        let bytes = event.bytes();
        let field = |&at: &usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        event.table().tasks().iter().map(field).max().unwrap_or(0)
    };
    host.events(TableSet::ALL, ..).map(most).max().unwrap_or(0)
}

const TCP: u16 = 6;

/// What a repetition must end with: the ends and tasks that were there until the recording's end, as those of the
/// snapshot. Without that each repetition would leave them after for ever.
fn endings(host: &Host, at: MonoNs) -> Vec<Event> {
    let (mut ends, mut tasks): (FxHashMap<EndpointId, Option<Event>>, FxHashMap<TaskId, Option<Event>>) =
        Default::default();
    let state = FlowStateRow {
        at,
        flow: EndpointId(0),
        snd: 0,
        rcv: 0,
        task: TaskId::UNKNOWN,
        old: TcpState::None,
        new: TcpState::Close,
        reset: Reset::None,
        by_task: 0,
        ..Default::default()
    };
    let close = OpRow {
        at,
        entry: at,
        arrived: MonoNs(0),
        flow: EndpointId(0),
        start: 0,
        end: 0,
        task: TaskId::UNKNOWN,
        result: 0,
        kind: OpKind::Close,
        range: RangeHow::None,
        flags: 0,
        syscall: 0,
        cpu: 0,
        ..Default::default()
    };
    for event in host.events(TableSet::of(&[Table::Endpoint, Table::FlowState, Table::Op, Table::Task]), ..) {
        match event {
            Event::Endpoint(r) if r.protocol == TCP => {
                ends.insert(r.flow, Some(Event::FlowState(FlowStateRow { flow: r.flow, ..state })));
            }
            Event::Endpoint(r) => {
                ends.insert(r.flow, Some(Event::Op(OpRow { flow: r.flow, task: r.task, ..close })));
            }
            Event::FlowState(r) if r.new == TcpState::Close => _ = ends.insert(r.flow, None),
            Event::Op(r) if r.kind == OpKind::Close => {
                if let Some(end) = ends.get_mut(&r.flow).filter(|e| matches!(e, Some(Event::Op(_)))) {
                    *end = None;
                }
            }
            Event::Task(r) if r.what == Life::Exit => _ = tasks.insert(r.task, None),
            Event::Task(r) => _ = tasks.insert(r.task, Some(Event::Task(TaskRow { at, what: Life::Exit, ..r }))),
            _ => {}
        }
    }
    let mut out: Vec<Event> = ends.into_values().chain(tasks.into_values()).flatten().collect();
    out.sort_by_key(|e| e.bytes().to_vec());
    out
}

fn main() -> Result<()> {
    let args = Args::parse();
    let folder = Folder::open(&[&args.trace])?;
    let [host] = folder.hosts() else {
        ensure!(false, "{}: not a trace of one host", args.trace.display());
        return Ok(());
    };
    let (first, last) = host.span().context("the trace is empty")?;
    let (length, tasks) = (last.0 - first.0 + args.pause_ms * 1_000_000, task_max(host) + 1);
    let options = Options { overwrite: Overwrite::Force, ..Options::default() };
    let mut writer = FolderWriter::create(&args.out, host.info().clone(), options)?;
    let names: Vec<StrId> =
        (0..host.strings().id_end()).map(|id| writer.intern(host.text(StrId(id)).as_bytes())).collect();
    let text = |id: StrId| names.get(id.0 as usize).copied().unwrap_or(StrId::EMPTY);
    let ends = endings(host, last);
    for i in 0..args.times {
        let shift = Shift { time: i * length, flow: i * COOKIES, task: i as u32 * tasks };
        for event in host.events(TableSet::ALL, ..).chain(ends.iter().copied()) {
            if let Some(e) = shifted(&event, shift, text) {
                writer.push_event(&e);
            }
        }
        writer.flush(Durability::Write)?;
    }
    let counts = writer.close()?;
    eprintln!("{} rows, {:.1} MB", counts.rows, counts.bytes as f64 / 1e6);
    Ok(())
}
