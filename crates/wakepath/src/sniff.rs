//! `wakepath sniff`: packets to rows to a folder, a collector, figures.
//!
//! Two threads: one takes packets off their source and makes rows of them, the other writes, sends and counts, so that
//! capturing goes on while a disk, a terminal or a scraper is slow. To hand a row over in a batch costs 8 ns more than to use it
//! in the same thread; the dozen packets after the row cost 4 µs.

mod rows;
mod source;

use crate::cli::SniffArgs;
use crate::ending;
use crate::forward::{Forwarded, Forwarder};
use crate::import::{made_id, name_of};
use crate::live::{self, LiveView};
use crate::outlets::{Outlets, Totals};
use crate::output::{self, tell};
use crate::owner;
use crate::progress;
use crate::rights;
use crate::sink::{self, anchor, host_info};
use anyhow::{Context as _, Result, anyhow};
use rows::{Batch, Rows};
use source::{Source, Taken};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::{Duration, Instant};
use wakepath_capture::monotonic_ns;
use wakepath_decode::Payload;
use wakepath_decode::network::{Sniffed, Sniffer, SnifferOptions};
use wakepath_model::defects::{self, id as defect};
use wakepath_model::folder::{HostInfo, WriteCounts};
use wakepath_model::ids::MonoNs;
use wakepath_model::intern::Interner;
use wakepath_model::rows::{AnchorRow, Event};
use wakepath_present::losses::{self, Loss};
use wakepath_present::metrics::CaptureView;
use wakepath_present::sniff::{ForwardView, SNIFF_SCHEMA, SniffView};
use wakepath_present::text::Style;
use wakepath_present::{json, units};

/// Batches between the threads, at most.
const BATCHES: usize = 32;
/// How long rows wait for their batch to be full.
const SEND_NS: u64 = 40_000_000;
/// How often drops are asked for and losses are told.
const LOOK_NS: u64 = 100_000_000;
/// How often the two clocks are compared.
const ANCHOR_NS: u64 = 10_000_000_000;
/// The clock of a capture file.
const FILE_CLOCK: &str = "wall clock of the capture";

/// Sniffs until the files end, the time is over, or a signal comes. Returns the exit code.
pub fn run(args: &SniffArgs) -> Result<i32> {
    let mut source = Source::open(args)?;
    let is_file = matches!(source, Source::Files(_));
    let scrape = args.metrics.as_ref().map(live::listen).transpose()?;
    let host = host_of(args);
    let mut outlets = Outlets::default();
    if let Some(dir) = &args.into.output {
        let mut options = args.into.options();
        options.overwrite = owner::claim(dir, options.overwrite).with_context(|| format!("{dir:?}"))?;
        outlets.write_folder(dir, host.clone(), options)?;
    }
    if let Some(to) = &args.forward {
        let session = RandomState::new().hash_one((monotonic_ns(), std::process::id()));
        let buffer = usize::try_from(args.forward_buffer.0).unwrap_or(usize::MAX);
        // what another program captures must not be held up by us: nobody would count what it drops
        let may_wait = is_file && args.pcap.iter().all(|p| p.as_os_str() != "-");
        outlets.forward(Forwarder::open(to, args.forward_by, buffer, may_wait, host, session)?);
    }
    let is_shown = args.into.output.is_none() && args.forward.is_none() && scrape.is_none() && !args.answering.json;
    let (figures, every) = if is_shown { live::figures(args.every) } else { (live::figures_over_all(), Duration::MAX) };
    if is_shown || scrape.is_some() {
        outlets.figures(figures.clone(), 0);
    }
    let recurring = sink::recurring(args.words, Payload::Attributes)?;
    let stop = ending::on_signals()?;
    if !is_file {
        rights::go_first();
        rights::keep_only_paths(args.into.output.is_some(), false);
    }

    let bar = progress::of_bytes("reading", source.bytes().filter(|_| is_file))?;
    let packets = Arc::new(AtomicU64::new(0));
    if let Some(scrape) = scrape {
        live::answer(scrape, figures.clone(), Some(Arc::clone(&packets)))?;
    }
    outlets.start_forwarding()?;
    let (out, batches) = sync_channel(BATCHES);
    let (back, empty) = channel();
    let end_ns = args.duration.map_or(u64::MAX, |d| monotonic_ns().saturating_add(d.0));
    let capturing = {
        let stop = Arc::clone(&stop);
        let rows = Rows::new(out, empty, recurring);
        let run = move || capture(&mut source, rows, &stop, end_ns).map(|()| faults(&source));
        std::thread::Builder::new().name("capture".into()).spawn(run).context("starting the thread that captures")?
    };
    match &args.ready_file {
        Some(f) => owner::write_ready_file(f, &format!("{}\n", std::process::id()))
            .with_context(|| format!("writing {f:?}"))?,
        None if !is_file => tell!("sniffing on {}{} (Ctrl-C ends it)", sources(args).join(", "), destinations(args)),
        None => {}
    }

    let mut view = (is_shown && !is_file).then(|| LiveView::new(figures.clone(), every));
    let mut pump = Pump { batches, back, texts: Interner::new(), sniffed: Sniffed::default(), packets };
    let pumped = pump.run(&mut outlets, &mut view, |done| bar.set_position(done));
    if pumped.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    let Pump { sniffed, batches, .. } = pump;
    // where nobody takes batches any more, the other thread ends
    drop(batches);
    let captured = capturing.join().unwrap_or_else(|_| Err(anyhow!("the thread that captures failed")));
    bar.finish_and_clear();
    let closed = outlets.close(&stop);
    pumped?;
    let (totals, written, sent) = closed?;
    let (faults, failure) = match captured {
        Ok(faults) => (faults, None),
        Err(e) => (Vec::new(), Some(e)),
    };
    let losses = losses_of(&totals, &faults);
    let answer = Answer { args, sniffed, totals, written, sent, losses };
    let place = view.as_mut().map(LiveView::back).unwrap_or_default();
    let shown = is_shown.then_some(&figures);
    let code = answer.give(shown, &place)?;
    match failure {
        Some(e) => Err(e.context("capturing stopped; what came before it is kept")),
        None => Ok(code),
    }
}

/// The thread that writes.
struct Pump {
    batches: Receiver<Batch>,
    back: Sender<Batch>,
    texts: Interner,
    sniffed: Sniffed,
    packets: Arc<AtomicU64>,
}

impl Pump {
    /// Takes batches until the other thread ends. Errors: the disk takes no more; nobody reads the table.
    fn run(&mut self, outlets: &mut Outlets, view: &mut Option<LiveView>, progress: impl Fn(u64)) -> Result<()> {
        loop {
            match self.batches.recv_timeout(Duration::from_millis(50)) {
                Ok(batch) => {
                    batch.learn(&mut self.texts);
                    outlets.take(&batch.events, &self.texts);
                    self.sniffed = batch.sniffed;
                    self.packets.store(batch.sniffed.packets, Ordering::Relaxed);
                    progress(batch.done_bytes);
                    // that thread may have ended
                    let _ = self.back.send(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let now = Instant::now();
            outlets.tick(now)?;
            if let Some(view) = view {
                view.tick(now, self.sniffed.packets, outlets.totals().count(defect::PACKET_DROP))?;
            }
        }
    }
}

/// The thread that captures.
fn capture(source: &mut Source, rows: Rows, stop: &AtomicBool, end_ns: u64) -> Result<()> {
    let is_file = matches!(source, Source::Files(_));
    let mut sniffer = Sniffer::new(rows, SnifferOptions::default());
    let mut is_anchored = !is_file;
    let begin = monotonic_ns();
    let (mut sent, mut looked, mut anchored) = (begin, begin, begin);
    if !is_file {
        sniffer.out().event(Event::Anchor(anchor()));
    }
    let mut result = Ok(());
    loop {
        let more = source.next(&mut |taken| match taken {
            // who asks for the end does not wait for the rest of a chunk
            Taken::Packet(_) if stop.load(Ordering::Relaxed) => {}
            Taken::Packet(packet) => {
                if !is_anchored {
                    // a file's times are those of the wall clock
                    is_anchored = true;
                    let at = MonoNs(packet.at_ns);
                    sniffer.out().event(Event::Anchor(AnchorRow {
                        at,
                        real_ns: at.0,
                        error_ns: 0,
                        ..Default::default()
                    }));
                }
                sniffer.packet(packet);
            }
            Taken::Lost(from, at, count) => {
                sniffer.out().lost(defect::PACKET_DROP, count, from, at);
                sniffer.lost(from, at, count);
            }
        });
        let now = monotonic_ns();
        if now - looked >= LOOK_NS {
            let drops = source.drops();
            if drops > 0 {
                sniffer.out().lost(defect::PACKET_DROP, drops, MonoNs(looked), MonoNs(now));
                sniffer.lost(MonoNs(looked), MonoNs(now), drops);
            }
            if !is_file {
                sniffer.idle(MonoNs(now));
            }
            let at = if is_file { sniffer.so_far().last } else { MonoNs(now) };
            sniffer.out().report(at);
            for notice in source.take_notices() {
                tell!("wakepath: {notice}");
            }
            looked = now;
        }
        if !is_file && now - anchored >= ANCHOR_NS {
            sniffer.out().event(Event::Anchor(anchor()));
            anchored = now;
        }
        if now - sent >= SEND_NS {
            sent = now;
            let seen = sniffer.so_far();
            if sniffer.out().send(seen, source.done()).is_err() {
                return Ok(());
            }
        }
        match more {
            Ok(true) if !stop.load(Ordering::Relaxed) && now < end_ns => {}
            Ok(_) => break,
            Err(e) => {
                result = Err(e);
                break;
            }
        }
    }
    close(sniffer, source, MonoNs(looked));
    result
}

/// Writes what is left, and what was lost since it was `looked` at last.
fn close(mut sniffer: Sniffer<Rows>, source: &mut Source, looked: MonoNs) {
    let is_file = matches!(source, Source::Files(_));
    sniffer.finish();
    let seen = sniffer.so_far();
    let at = if is_file { seen.last } else { MonoNs(monotonic_ns()) };
    for (id, count) in faults(source).iter().fold(BTreeMap::new(), |mut sum: BTreeMap<_, u64>, f| {
        *sum.entry(f.0).or_default() += f.1;
        sum
    }) {
        sniffer.out().lost(id, count, at, at);
    }
    let drops = source.drops();
    if drops > 0 {
        sniffer.out().lost(defect::PACKET_DROP, drops, looked, at);
    }
    sniffer.out().report(at);
    if !is_file {
        sniffer.out().event(Event::Anchor(anchor()));
    }
    // where the other thread is gone, it says why
    let _ = sniffer.out().send(seen, source.done());
}

/// What was wrong with capture files: defect, how often, and where first.
fn faults(source: &Source) -> Vec<(&'static str, u64, String)> {
    let Source::Files(files) = source else { return Vec::new() };
    let mut all: Vec<(&'static str, u64, String)> = Vec::new();
    for capture in files.captures() {
        let counts = capture.counts();
        let untold = counts.fault_count.saturating_sub(counts.faults.len() as u64);
        let begin = all.len();
        for fault in &counts.faults {
            match all[begin..].iter_mut().find(|a| a.0 == fault.defect) {
                Some(known) => known.1 += 1,
                None => {
                    all.push((fault.defect, 1, format!("{} at byte {}: {}", capture.name, fault.offset, fault.what)))
                }
            }
        }
        if let Some(last) = all[begin..].last_mut() {
            last.1 += untold;
        }
    }
    all
}

/// The losses, with the places in files where they were met first.
fn losses_of(totals: &Totals, faults: &[(&'static str, u64, String)]) -> Vec<Loss> {
    let mut losses = totals.losses(None);
    for loss in &mut losses {
        loss.place = faults.iter().find(|f| f.0 == loss.id).map(|f| f.2.clone());
    }
    losses
}

/// What is said at the end.
struct Answer<'a> {
    args: &'a SniffArgs,
    sniffed: Sniffed,
    totals: Totals,
    written: Option<WriteCounts>,
    sent: Option<Forwarded>,
    losses: Vec<Loss>,
}

impl Answer<'_> {
    fn give(&self, shown: Option<&crate::outlets::Figures>, place: &str) -> Result<i32> {
        let Answer { args, sniffed, totals, losses, .. } = self;
        if args.answering.json {
            output::answer(json::document(SNIFF_SCHEMA, losses, &self.view())?.as_bytes())?;
        } else if let Some(figures) = shown {
            let lost = totals.count(defect::PACKET_DROP);
            let capture = CaptureView { packets: sniffed.packets, bytes: sniffed.bytes, lost };
            let text = live::over_all(figures, Some(capture), losses);
            output::answer(format!("{place}{text}").as_bytes())?;
        } else {
            self.tell();
        }
        Ok(output::exit_code(&args.answering, losses::touch_any(losses)))
    }

    fn tell(&self) {
        let Answer { args, sniffed, totals, .. } = self;
        let into = args.into.output.as_ref().map_or(String::new(), |o| format!(", into {}", o.display()));
        tell!(
            "{} packets, {}: {} flows, {} exchanges; {} rows{}{into}",
            units::count(sniffed.packets),
            units::bytes(sniffed.bytes),
            units::count(totals.flows),
            units::count(totals.exchanges),
            units::count(totals.rows),
            self.written.map_or(String::new(), |w| format!(", {}", units::bytes(w.bytes))),
        );
        if let (Some(sent), Some(to)) = (self.sent, &args.forward) {
            tell!(
                "forwarded to {to}: {} rows in {} frames, {}{}",
                units::count(sent.rows - sent.rows_lost.min(sent.rows)),
                units::count(sent.frames),
                units::bytes(sent.bytes),
                match sent.rows_lost {
                    0 => String::new(),
                    n => format!("; LOST {} rows, which found no room or were not acknowledged", units::count(n)),
                }
            );
        }
        if !self.losses.is_empty() {
            output::say(losses::render(&self.losses, Style::default()).trim_end());
        }
    }

    fn view(&self) -> SniffView {
        let Answer { args, sniffed, totals, .. } = self;
        let is_any = sniffed.packets > 0;
        SniffView {
            sources: sources(args),
            from_ns: is_any.then_some(sniffed.first.0),
            to_ns: is_any.then_some(sniffed.last.0),
            packets: sniffed.packets,
            bytes: sniffed.bytes,
            packets_lost: totals.count(defect::PACKET_DROP),
            flows: totals.flows,
            exchanges: totals.exchanges,
            rows: totals.rows,
            output: args.into.output.as_ref().map(|o| o.display().to_string()),
            forwarded: self.sent.zip(args.forward.clone()).map(|(sent, to)| ForwardView {
                to,
                by: match args.forward_by {
                    crate::cli::ForwardBy::Udp => "udp",
                    crate::cli::ForwardBy::Tcp => "tcp",
                },
                rows: sent.rows,
                frames: sent.frames,
                bytes: sent.bytes,
                rows_lost: sent.rows_lost,
                resumed: sent.resumed,
            }),
        }
    }
}

impl Totals {
    /// As losses of an answer, of `host`.
    pub fn losses(&self, host: Option<&str>) -> Vec<Loss> {
        let loss = |(id, (count, from, at)): (&String, &(u64, MonoNs, MonoNs))| Loss {
            host: host.map(str::to_owned),
            from_ns: Some(from.0),
            to_ns: Some(at.0),
            ..losses::loss(id, *count)
        };
        self.lost.iter().filter(|l| defects::find(l.0).is_some()).map(loss).collect()
    }
}

/// What was asked to be sniffed.
fn sources(args: &SniffArgs) -> Vec<String> {
    let files = args.pcap.iter().map(|p| p.display().to_string());
    args.iface.iter().chain(&args.listen).cloned().chain(files).collect()
}

fn destinations(args: &SniffArgs) -> String {
    let mut text = String::new();
    if let Some(o) = &args.into.output {
        text += &format!(" into {}", o.display());
    }
    if let Some(to) = &args.forward {
        text += &format!(", forwarded to {to}");
    }
    text
}

/// The host that the packets are of: this one, or one that stands for the files.
fn host_of(args: &SniffArgs) -> HostInfo {
    let flag = |name: &str, values: &[String]| values.iter().map(|v| format!("{name} {v}")).collect::<Vec<_>>();
    let mut selection = [flag("--iface", &args.iface), flag("--listen", &args.listen)].concat();
    selection.extend(args.pcap.iter().map(|p| format!("--pcap {}", p.display())));
    let mut flags = vec![args.words.setting()];
    if let Some(filter) = &args.filter {
        flags.push(format!("--filter '{filter}'"));
    }
    let selection = format!("sniff {}", selection.join(" "));
    let Some(first) = args.pcap.first() else { return host_info(selection, flags) };
    let place = |p: &PathBuf| match p.as_os_str() == "-" {
        // every time it is another
        true => PathBuf::from(format!("-{}", wakepath_capture::realtime_ns())),
        false => std::fs::canonicalize(p).unwrap_or_else(|_| p.clone()),
    };
    let all: Vec<String> = args.pcap.iter().map(|p| place(p).display().to_string()).collect();
    HostInfo {
        hostname: if first.as_os_str() == "-" { "capture".into() } else { name_of(Path::new(first)) },
        boot_id: made_id(Path::new(&all.join("\n"))),
        selection,
        flags,
        agent_version: env!("CARGO_PKG_VERSION").into(),
        clock: FILE_CLOCK.into(),
        ..HostInfo::default()
    }
}
