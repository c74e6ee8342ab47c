//! `wakepath collect`: what sniffers elsewhere send on, into a folder, a host for each, or as figures.
//!
//! One thread waits for all sockets. What a frame says is believed only after its checksum, and everything that a sender
//! may fill is bounded.

mod ended;
mod sender;
mod sockets;

use crate::cli::{CollectArgs, IntoFolder};
use crate::ending;
use crate::live::{self, LiveView};
use crate::outlets::Figures;
use crate::output::{self, tell};
use crate::owner;
use crate::rights;
use anyhow::{Context as _, Result};
use ended::Ended;
use sender::Sender;
use sockets::{Came, Sockets};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wakepath_capture::monotonic_ns;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{Options, Overwrite};
use wakepath_model::forward::{Bad, Frame, FrameKind};
use wakepath_present::losses::{self, Loss};
use wakepath_present::sniff::{COLLECT_SCHEMA, CollectView};
use wakepath_present::text::Style;
use wakepath_present::{json, units};

/// Senders at once: each may fill the strings of a host.
const SENDERS_MAX: usize = 256;
/// Those of one address.
const SENDERS_OF_ONE_MAX: usize = 64;
/// Those of which no row came yet: of more, the one that was silent for longest goes.
const NEWCOMERS_MAX: usize = 64;
/// Only who was silent for so long gives way to another.
const GIVES_WAY_NS: u64 = 5_000_000_000;
/// Folders of hosts in all.
const FOLDERS_MAX: usize = 10_000;
/// Bytes of all hosts together, where the user does not say.
const BYTES_MAX: u64 = 16 << 30;
/// Between two looks at everything else, where nothing comes.
const TICK: Duration = Duration::from_millis(20);
/// At the end no more turns than these are taken of what has come.
const LAST_TURNS: usize = 1000;
/// How often rows are written.
const FLUSH_NS: u64 = 100_000_000;

/// Collects until the time is over or a signal comes. Returns the exit code.
pub fn run(args: &CollectArgs) -> Result<i32> {
    let mut sockets = Sockets::open(&args.listen)?;
    let scrape = args.metrics.as_ref().map(live::listen).transpose()?;
    let mut options = options(&args.into);
    if let Some(dir) = &args.into.output {
        sender::check_output(&args.into)?;
        // now: the rights to do so are given up below
        options.overwrite = owner::claim(dir, options.overwrite).with_context(|| format!("{dir:?}"))?;
    }
    let is_shown = args.into.output.is_none() && scrape.is_none() && !args.answering.json;
    let (figures, every) = if is_shown { live::figures(args.every) } else { (live::figures_over_all(), Duration::MAX) };
    let is_made = options.overwrite != args.into.options().overwrite;
    let stop = ending::on_signals()?;
    rights::keep_only_paths(args.into.output.is_some(), false);
    let is_counted = is_shown || scrape.is_some();
    if let Some(scrape) = scrape {
        live::answer(scrape, figures.clone(), None)?;
    }
    let address = sockets.address()?;
    match &args.ready_file {
        Some(f) => owner::write_ready_file(f, &format!("{address}\n")).with_context(|| format!("writing {f:?}"))?,
        None => tell!("collecting at {address} (Ctrl-C ends it); at a sniffer: --forward HOST:{}", address.port()),
    }

    let mut collector = Collector {
        args,
        options,
        has_folder: false,
        figures: is_counted.then(|| figures.clone()),
        senders: Vec::new(),
        ended: Ended::default(),
        numbers: 0,
        bad: 0,
        is_bad_told: false,
        refused: 0,
    };
    let mut view = is_shown.then(|| LiveView::new(figures.clone(), every));
    let end_ns = args.duration.map_or(u64::MAX, |d| monotonic_ns().saturating_add(d.0));
    let result = collector.pump(&mut sockets, &mut view, || stop.load(Ordering::Relaxed) || monotonic_ns() >= end_ns);
    // what stands in the sockets' queues was sent in time
    let result = result.and_then(|()| collector.take_rest(&mut sockets));
    let result = result.and_then(|()| collector.acknowledge(&mut sockets));
    drop(sockets);
    let place = view.as_mut().map(LiveView::back).unwrap_or_default();
    if let Some(dir) = args.into.output.as_ref().filter(|_| is_made && !collector.has_folder) {
        let _ = std::fs::remove_dir(dir);
    }
    let code = collector.finish(is_shown.then_some(&figures), &place)?;
    result.map(|()| code)
}

/// How a frame came: `udp` or `tcp`, and whether it was the first of its connection.
type Way = (&'static str, bool);

/// What is collected.
struct Collector<'a> {
    args: &'a CollectArgs,
    /// How a sender's part of the folder is written, once the first has made the folder.
    options: Options,
    has_folder: bool,
    figures: Option<Figures>,
    senders: Vec<Sender>,
    ended: Ended,
    /// Senders so far.
    numbers: u16,
    bad: u64,
    is_bad_told: bool,
    /// Frames for which there was no room.
    refused: u64,
}

/// How each sender's part of the folder is written: all of them together are bounded, in small steps.
fn options(into: &IntoFolder) -> Options {
    let bytes = into.max_bytes.map_or(BYTES_MAX, |b| b.0);
    Options { max_bytes: None, max_segment_bytes: (bytes / 64).clamp(64 << 10, 64 << 20), ..into.options() }
}

impl Collector<'_> {
    fn pump(&mut self, sockets: &mut Sockets, view: &mut Option<LiveView>, is_over: impl Fn() -> bool) -> Result<()> {
        let mut flushed = monotonic_ns();
        while !is_over() {
            self.take_all(sockets, TICK)?;
            let now = monotonic_ns();
            if now - flushed >= FLUSH_NS {
                flushed = now;
                self.settle(now);
                self.acknowledge(sockets)?;
                self.end_silent(now)?;
                self.bound_disk()?;
            }
            if let Some(view) = view {
                let lost = self.senders.iter().map(|s| s.totals().count(defect::PACKET_DROP)).sum();
                view.tick(Instant::now(), 0, lost)?;
            }
        }
        Ok(())
    }

    /// Takes all that has come, turn by turn, from senders that may go on for ever.
    fn take_rest(&mut self, sockets: &mut Sockets) -> Result<()> {
        for _ in 0..LAST_TURNS {
            if !self.take_all(sockets, Duration::ZERO)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes a turn's worth of what has come, waiting for it no longer than `timeout`; whether there was any.
    fn take_all(&mut self, sockets: &mut Sockets, timeout: Duration) -> Result<bool> {
        let mut result = Ok(());
        let was_any = sockets.poll(timeout, |came, from, by| match came {
            Came::Nonsense => {
                self.bad += 1;
                None
            }
            Came::Frame(bytes) | Came::First(bytes) => {
                match self.frame(bytes, from, (by, matches!(came, Came::First(_)))) {
                    Ok(session) => session,
                    Err(e) => {
                        result = Err(e);
                        None
                    }
                }
            }
        })?;
        result.map(|()| was_any)
    }

    /// Takes a frame; gives the session of its sender.
    fn frame(&mut self, bytes: &[u8], from: SocketAddr, by: Way) -> Result<Option<u64>> {
        let frame = match Frame::read(bytes) {
            Ok(frame) => frame,
            Err(e) => {
                self.bad(from, e);
                return Ok(None);
            }
        };
        let i = match self.senders.iter().position(|s| s.session() == frame.session) {
            Some(i) => i,
            // it says once more that it ended
            None if frame.kind == FrameKind::Last && self.ended.knows(frame.session) => return Ok(Some(frame.session)),
            None => match self.admit(frame.session, from)? {
                Some(i) => i,
                None => return Ok(None),
            },
        };
        // the first host of the folder makes it
        let overwrite = if self.has_folder { Overwrite::Append } else { self.options.overwrite };
        let options = Options { overwrite, ..self.options.clone() };
        let taken = self.senders[i].take(&frame, bytes, from, by, (&self.args.into.output, &options))?;
        self.has_folder |= self.senders[i].has_folder();
        match taken {
            None => Ok(Some(frame.session)),
            Some(e) => {
                self.bad(from, e);
                Ok(None)
            }
        }
    }

    /// Makes room for a sender that was not heard of, or has ended before: at the cost of one that is silent, if at all.
    fn admit(&mut self, session: u64, from: SocketAddr) -> Result<Option<usize>> {
        let now = monotonic_ns();
        let of_one = |s: &&Sender| s.from() == from.ip();
        let newcomers = self.senders.iter().filter(|s| s.is_newcomer()).count();
        let is_full = self.senders.len() - newcomers >= SENDERS_MAX;
        let is_one_full = self.senders.iter().filter(of_one).count() >= SENDERS_OF_ONE_MAX;
        let is_silent = |s: &Sender| now.saturating_sub(s.heard_ns()) > GIVES_WAY_NS;
        let gives_way = |s: &Sender| match (is_one_full, is_full) {
            (true, _) => s.from() == from.ip() && (s.is_newcomer() || is_silent(s)),
            (false, true) => !s.is_newcomer() && is_silent(s),
            (false, false) => s.is_newcomer(),
        };
        if is_full || is_one_full || newcomers >= NEWCOMERS_MAX {
            let able = self.senders.iter().enumerate().filter(|(_, s)| gives_way(s));
            match able.min_by_key(|(_, s)| (!s.is_newcomer(), s.heard_ns())).map(|(i, _)| i) {
                Some(i) => self.end(i)?,
                None => return Ok(self.refuse(from, "too many senders at once")),
            }
        }
        if self.ended.folder_count() + self.senders.len() >= FOLDERS_MAX {
            return Ok(self.refuse(from, "more hosts than a folder can hold: start another collector"));
        }
        let gaps = self.ended.take_gaps(session);
        self.senders.push(Sender::new(session, self.numbers, self.figures.clone(), from.ip(), gaps));
        self.numbers = self.numbers.wrapping_add(1);
        Ok(Some(self.senders.len() - 1))
    }

    fn refuse(&mut self, from: SocketAddr, why: &str) -> Option<usize> {
        if self.refused == 0 {
            tell!("wakepath: data from {from} is refused and counted: {why}");
        }
        self.refused += 1;
        None
    }

    /// Ends a sender. Of one that sent no row nothing is left but the count of what it may have meant to send.
    fn end(&mut self, i: usize) -> Result<()> {
        let mut sender = self.senders.swap_remove(i);
        if sender.is_newcomer() && !sender.is_over() {
            self.refused += sender.held();
            return Ok(());
        }
        sender.settle(u64::MAX);
        self.ended.add(sender.close())
    }

    /// Ends those that said that they did, and those that have been silent for long.
    fn end_silent(&mut self, now: u64) -> Result<()> {
        while let Some(i) = self.senders.iter().position(|s| s.has_ended(now)) {
            self.end(i)?;
        }
        Ok(())
    }

    /// Keeps what all of them have on the disk within its bound: the one that has most gives.
    fn bound_disk(&mut self) -> Result<()> {
        let bytes_max = self.args.into.max_bytes.map_or(BYTES_MAX, |b| b.0);
        loop {
            let (ended, most_ended) = self.ended.kept_bytes();
            let live: Vec<u64> = self.senders.iter_mut().map(Sender::kept_bytes).collect();
            if live.iter().sum::<u64>() + ended <= bytes_max {
                return Ok(());
            }
            let most = (0..live.len()).max_by_key(|i| live[*i]).filter(|i| live[*i] >= most_ended);
            match most {
                Some(i) if self.senders[i].delete_oldest()? => {}
                _ if most_ended > 0 => self.ended.delete_oldest()?,
                // what is left is being written
                _ => return Ok(()),
            }
        }
    }

    fn bad(&mut self, from: SocketAddr, why: Bad) {
        self.bad += 1;
        if !std::mem::replace(&mut self.is_bad_told, true) {
            tell!("wakepath: data from {from} was ignored and counted: {why}");
        }
    }

    /// Counts as lost what did not come in time.
    fn settle(&mut self, now: u64) {
        for sender in &mut self.senders {
            sender.settle(now);
        }
    }

    /// Writes all that came, and says so to those who wait for it.
    fn acknowledge(&mut self, sockets: &mut Sockets) -> Result<()> {
        for sender in &mut self.senders {
            sender.flush()?;
        }
        for sender in &self.senders {
            sockets.acknowledge(sender.session(), sender.next());
        }
        Ok(())
    }

    /// Ends all, and tells what came.
    fn finish(mut self, shown: Option<&Figures>, place: &str) -> Result<i32> {
        self.settle(u64::MAX);
        let mut result = Ok(());
        for sender in std::mem::take(&mut self.senders) {
            self.refused += sender.held();
            result = result.and(self.ended.add(sender.close()));
        }
        result?;
        let view = CollectView {
            output: self.args.into.output.as_ref().map(|o| o.display().to_string()),
            senders: self.ended.views,
            frames_bad: self.bad,
            frames_refused: self.refused,
        };
        let mut losses = self.ended.losses;
        if self.refused > 0 {
            losses.push(losses::loss(defect::FORWARD_REFUSED, self.refused));
        }
        let answering = &self.args.answering;
        if answering.json {
            output::answer(json::document(COLLECT_SCHEMA, &losses, &view)?.as_bytes())?;
        } else if let Some(figures) = shown {
            output::answer(format!("{place}{}", live::over_all(figures, None, &losses)).as_bytes())?;
        } else {
            tell_all(&view, &losses);
        }
        Ok(output::exit_code(answering, losses::touch_any(&losses)))
    }
}

fn tell_all(view: &CollectView, losses: &[Loss]) {
    for s in &view.senders {
        let lost = match s.rows_lost {
            0 => String::new(),
            n => format!("; {} rows did NOT arrive", units::count(n)),
        };
        tell!(
            "{} ({}, {}): {} rows in {} frames, {}{lost}{}",
            if s.host.is_empty() { "a sender that did not identify itself" } else { &s.host },
            s.address,
            s.by,
            units::count(s.rows),
            units::count(s.frames),
            units::bytes(s.bytes),
            if s.is_over { "" } else { "; it did not announce its end" },
        );
    }
    if view.senders.is_empty() {
        tell!("no sniffer sent any data");
    }
    if view.frames_bad > 0 {
        tell!("left out: {} datagrams or frames that are damaged or not from a sniffer", units::count(view.frames_bad));
    }
    if view.frames_refused > 0 {
        tell!("REFUSED: {} frames, for lack of room", units::count(view.frames_refused));
    }
    if !losses.is_empty() {
        output::say(losses::render(losses, Style::default()).trim_end());
    }
}
