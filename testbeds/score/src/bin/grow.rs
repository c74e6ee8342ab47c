//! `wakepath-grow`: a trace N times as long, each repetition later and with flows and tasks of its own. For measuring
//! how time and memory of the reconstruction grow.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::path::PathBuf;
use wakepath_model::fields::{str_fields, task_fields};
use wakepath_model::folder::{Durability, Folder, FolderWriter, Host, Options, Overwrite, TableSet};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{Event, cause};

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

    fn flow(self, f: &mut EndpointId) {
        if f.0 != 0 {
            f.0 = f.0.wrapping_add(self.flow);
        }
    }
}

/// The same row in another repetition; names are ids of the writer's.
fn shifted(event: &Event, s: Shift, text: impl Fn(StrId) -> StrId) -> Option<Event> {
    let mut bytes = event.bytes().to_vec();
    let table = event.table();
    let mut change = |at: usize, to: &dyn Fn(u32) -> u32| {
        let field: &mut [u8] = &mut bytes[at..at + 4];
        let old = u32::from_ne_bytes(field.try_into().expect("four bytes"));
        field.copy_from_slice(&to(old).to_ne_bytes());
    };
    for &at in str_fields(table) {
        change(at, &|id| text(StrId(id)).0);
    }
    for &at in task_fields(table) {
        change(at, &|id| if id == 0 { 0 } else { id + s.task });
    }
    let mut event = Event::read(table, &bytes)?;
    match &mut event {
        Event::Op(r) => {
            s.times([&mut r.at, &mut r.entry, &mut r.arrived]);
            s.flow(&mut r.flow);
        }
        Event::Message(r) => {
            s.time(&mut r.at);
            s.flow(&mut r.flow);
        }
        Event::MessageEnd(r) => {
            s.time(&mut r.at);
            s.flow(&mut r.flow);
        }
        Event::Endpoint(r) => {
            s.time(&mut r.at);
            s.flow(&mut r.flow);
            s.flow(&mut r.peer);
        }
        Event::FlowState(r) => {
            s.time(&mut r.at);
            s.flow(&mut r.flow);
        }
        Event::Wait(r) => {
            s.times([&mut r.at, &mut r.blocked, &mut r.woken]);
            if r.cause == cause::SOCKET && r.object != 0 {
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
        Event::FlowNote(r) => {
            s.time(&mut r.at);
            s.flow(&mut r.flow);
        } // of imported traces only; copies keep their packets' numbers
        Event::Packet(r) => s.time(&mut r.at),
        Event::Stack(r) => s.times([&mut r.at, &mut r.blocked]),
        Event::Input(r) => {
            s.time(&mut r.at);
            s.flow(&mut r.flow);
        }
    }
    Some(event)
}

fn task_max(host: &Host) -> u32 {
    let most = |event: Event| {
        let bytes = event.bytes();
        let field = |&at: &usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        task_fields(event.table()).iter().map(field).max().unwrap_or(0)
    };
    host.events(TableSet::ALL, ..).map(most).max().unwrap_or(0)
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
    for i in 0..args.times {
        let shift = Shift { time: i * length, flow: i * COOKIES, task: i as u32 * tasks };
        for event in host.events(TableSet::ALL, ..) {
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
