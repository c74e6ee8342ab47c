//! `wakepath-skew`: a trace of one host as two hosts with clocks of their own. For measuring clock synchronisation where
//! the truth is known: connections between two network namespaces (or two addresses) of one host become connections
//! between two hosts, the second of which has a known offset and drift.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use wakepath_model::folder::{Folder, FolderWriter, Host, HostInfo, Options, Overwrite, SYNC_FILE, TableSet};
use wakepath_model::ids::{EndpointId, MonoNs, StrId};
use wakepath_model::rows::{EndedBy, EndpointRow, Event, Side, Table};

/// Splits a host in two, the second with a clock of its own
#[derive(Parser)]
#[command(name = "wakepath-skew")]
struct Args {
    /// Trace folder with one host
    trace: PathBuf,
    /// Folder to make
    out: PathBuf,
    /// What the second clock is ahead at the begin (ns)
    #[arg(long, default_value_t = 7_000_000_000, allow_negative_numbers = true)]
    offset_ns: i64,
    /// What it gains, in parts per million
    #[arg(long, default_value_t = 120.0, allow_negative_numbers = true)]
    drift_ppm: f64,
    /// How the wall clock of the second host is off (ns)
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    wall_ns: i64,
    /// Check `sync.json` of the folder that was made instead, and print the largest error and uncertainty as JSON
    #[arg(long)]
    check: bool,
}

/// The second clock.
#[derive(Clone, Copy)]
struct Clock {
    begin: u64,
    offset_ns: i64,
    drift: f64,
}

impl Clock {
    fn shows(self, t: u64) -> u64 {
        let gained = (t as f64 - self.begin as f64) * self.drift;
        t.saturating_add_signed(self.offset_ns).saturating_add_signed(gained as i64)
    }

    fn time(self, t: &mut MonoNs) {
        if t.0 != 0 {
            t.0 = self.shows(t.0);
        }
    }
}

/// Which half an endpoint belongs to: the end that listens (or is the server's side) goes to the second host.
fn is_second(r: &EndpointRow) -> bool {
    r.side == Side::Server
}

fn endpoint_of(event: &Event) -> Option<EndpointId> {
    match event {
        Event::Op(r) => Some(r.flow),
        Event::Message(r) => Some(r.flow),
        Event::MessageEnd(r) => Some(r.flow),
        Event::FlowState(r) => Some(r.flow),
        Event::FlowNote(r) => Some(r.flow),
        Event::Endpoint(r) => Some(r.flow),
        _ => None,
    }
}

/// A loopback address as one of a network that two hosts share.
fn apart(a: &mut [u8; 16], family: u16) {
    if family == 2 && a[0] == 127 {
        a[0] = 10;
    } else if family == 10 && a[..15] == [0; 15] && a[15] == 1 {
        a[0] = 0xfd;
    } else if family == 10 && a[10..13] == [0xff, 0xff, 127] {
        a[12] = 10;
    }
}

fn write_half(
    args: &Args,
    host: &Host,
    info: HostInfo,
    halves: &FxHashMap<EndpointId, bool>,
    second: bool,
    clock: Clock,
) -> Result<u64> {
    let overwrite = if second { Overwrite::Append } else { Overwrite::Force };
    let mut writer = FolderWriter::create(&args.out, info, Options { overwrite, ..Options::default() })?;
    let names: Vec<StrId> =
        (0..host.strings().id_end()).map(|id| writer.intern(host.text(StrId(id)).as_bytes())).collect();
    for event in host.events(TableSet::ALL, ..) {
        let half = endpoint_of(&event).and_then(|e| halves.get(&e));
        if half.is_some_and(|h| *h != second) {
            continue;
        }
        let mut bytes = event.bytes().to_vec();
        for &at in event.table().strings() {
            let field: &mut [u8] = &mut bytes[at..at + 4];
            let old = u32::from_ne_bytes(field.try_into().context("four bytes")?);
            field.copy_from_slice(&names.get(old as usize).copied().unwrap_or(StrId::EMPTY).0.to_ne_bytes());
        }
        let mut event = Event::read(event.table(), &bytes).context("a row of its table")?;
        if let Event::Endpoint(r) = &mut event {
            apart(&mut r.laddr, r.family);
            apart(&mut r.raddr, r.family);
        }
        if second {
            skew(&mut event, clock, args.wall_ns);
        }
        writer.push_event(&event);
    }
    Ok(writer.close()?.rows)
}

/// Those times that are times: 0 is none.
fn seen(times: [&mut MonoNs; 3]) -> [Option<&mut MonoNs>; 3] {
    times.map(|t| (t.0 != 0).then_some(t))
}

/// The same row on the second clock.
fn skew(event: &mut Event, clock: Clock, wall_ns: i64) {
    let times: [Option<&mut MonoNs>; 3] = match event {
        Event::Op(r) => [Some(&mut r.at), Some(&mut r.entry), Some(&mut r.arrived)],
        Event::Message(r) => [Some(&mut r.at), None, None],
        Event::MessageEnd(r) => [Some(&mut r.at), None, None],
        Event::Endpoint(r) => [Some(&mut r.at), None, None],
        Event::FlowState(r) => [Some(&mut r.at), None, None],
        Event::Wait(r) => [Some(&mut r.at), Some(&mut r.blocked), (r.cause != EndedBy::Open).then_some(&mut r.woken)],
        Event::Poll(r) => [Some(&mut r.at), Some(&mut r.entry), None],
        Event::Task(r) => [Some(&mut r.at), Some(&mut r.start), None],
        Event::Loss(r) => [Some(&mut r.at), Some(&mut r.from), None],
        Event::FlowNote(r) => [Some(&mut r.at), None, None],
        Event::Packet(r) => [Some(&mut r.at), None, None],
        Event::Stack(r) => [Some(&mut r.at), Some(&mut r.blocked), None],
        Event::Fault(r) => [Some(&mut r.at), Some(&mut r.began), None],
        Event::Input(r) => [Some(&mut r.at), None, None],
        Event::Limit(r) => [Some(&mut r.at), None, None],
        Event::Descriptor(r) => seen([&mut r.at, &mut r.received, &mut r.sent]),
        Event::Resent(r) => [Some(&mut r.at), None, None],
        Event::Placement(r) => [Some(&mut r.at), None, None],
        Event::Handover(r) => seen([&mut r.at, &mut r.sent, &mut r.first_sent]),
        Event::Stream(r) => [Some(&mut r.at), None, None],
        Event::Ran(r) => [Some(&mut r.at), None, None],
        Event::Stay(r) => [Some(&mut r.at), Some(&mut r.from), Some(&mut r.to)],
        Event::Park(r) => [Some(&mut r.at), Some(&mut r.blocked), Some(&mut r.woken)],
        Event::Mark(r) => [Some(&mut r.at), None, None],
        Event::SniffedFlow(r) => {
            clock.time(&mut r.at);
            seen([&mut r.syn, &mut r.syn_ack, &mut r.ack])
        }
        Event::SniffedExchange(r) => {
            clock.time(&mut r.at);
            seen([&mut r.reply_first, &mut r.reply_head, &mut r.reply_last])
                .into_iter()
                .flatten()
                .for_each(|t| clock.time(t));
            seen([&mut r.request_first, &mut r.request_head, &mut r.request_last])
        }
        // a reduced host is no recording
        Event::Reduced(_) => [None, None, None],
        Event::Anchor(r) => {
            r.real_ns = r.real_ns.saturating_add_signed(wall_ns);
            [Some(&mut r.at), None, None]
        }
    };
    times.into_iter().flatten().for_each(|t| clock.time(t));
}

/// How far the folder's time line is from the truth.
fn check(args: &Args, clock: Clock, (first, last): (u64, u64)) -> Result<()> {
    ensure!(args.out.join(SYNC_FILE).is_file(), "{}: not synchronised", args.out.display());
    let folder = Folder::open(&[&args.out])?;
    let line = folder.timeline();
    let [a, b] = folder.hosts() else { anyhow::bail!("{}: not two hosts", args.out.display()) };
    // the first half keeps its boot id
    let (a, b) = if a.info().boot_id.ends_with(SECOND) { (b, a) } else { (a, b) };
    let mut worst = 0;
    for step in 0..=100u64 {
        let t = first + (last - first) / 100 * step;
        let (x, y) = (line.common(a.id(), MonoNs(t)), line.common(b.id(), MonoNs(clock.shows(t))));
        worst = worst.max(x.0.abs_diff(y.0));
    }
    let uncertainty = line.uncertainty_ns(a.id(), b.id()).context("the two hosts are not synchronised")?;
    println!("{}", serde_json::json!({ "error_ns": worst, "uncertainty_ns": uncertainty }));
    Ok(())
}

/// How the second host's boot id differs.
const SECOND: &str = "-second";

fn main() -> Result<()> {
    let args = Args::parse();
    let folder = Folder::open(&[&args.trace])?;
    let [host] = folder.hosts() else { anyhow::bail!("{}: not a trace of one host", args.trace.display()) };
    let (first, last) = host.span().context("the trace is empty")?;
    let clock = Clock { begin: first.0, offset_ns: args.offset_ns, drift: args.drift_ppm * 1e-6 };
    if args.check {
        return check(&args, clock, (first.0, last.0));
    }
    let mut halves: FxHashMap<EndpointId, bool> = FxHashMap::default();
    for event in host.events(TableSet::of(&[Table::Endpoint]), ..) {
        if let Event::Endpoint(r) = event {
            halves.insert(r.flow, is_second(&r));
        }
    }
    let info = host.info().clone();
    let second = HostInfo {
        hostname: format!("{}-second", info.hostname),
        // the folder is named after its begin
        boot_id: format!("2{}{SECOND}", info.boot_id),
        ..info.clone()
    };
    let one = write_half(&args, host, info, &halves, false, clock)?;
    let two = write_half(&args, host, second, &halves, true, clock)?;
    eprintln!("{one} and {two} rows");
    Ok(())
}
