//! `wakepath collect`: what sniffers elsewhere send on, into a folder, a host for each, or as figures.
//!
//! One thread waits for all sockets. What a frame says is believed only behind its checksum, and everything that a sender
//! may fill is bounded.

mod sender;
mod sockets;

use crate::cli::CollectArgs;
use crate::ending;
use crate::live::{self, LiveView};
use crate::outlets::Figures;
use crate::output::{self, tell};
use crate::rights;
use crate::scrape::Scrape;
use anyhow::{Context as _, Result};
use sender::Sender;
use sockets::{Came, Sockets};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wakepath_capture::monotonic_ns;
use wakepath_model::defects::id as defect;
use wakepath_model::forward::{Bad, Frame};
use wakepath_present::losses::{self, Loss};
use wakepath_present::sniff::{COLLECT_SCHEMA, CollectView};
use wakepath_present::text::Style;
use wakepath_present::{json, units};

/// Senders at once and in all: each may fill the strings of a host.
const SENDERS_MAX: usize = 256;
/// Between two looks at everything else, where nothing comes.
const TICK: Duration = Duration::from_millis(20);
/// At the end no more turns than these are taken of what has come.
const LAST_TURNS: usize = 1000;
/// How often rows are written.
const FLUSH_NS: u64 = 100_000_000;

/// Collects until the time is over or a signal comes. Returns the exit code.
pub fn run(args: &CollectArgs) -> Result<i32> {
    let mut sockets = Sockets::open(&args.listen)?;
    let scrape = args.metrics.as_ref().map(Scrape::open).transpose()?;
    if args.into.output.is_some() {
        sender::check_output(&args.into)?;
    }
    let is_shown = args.into.output.is_none() && scrape.is_none() && !args.answering.json;
    let (figures, every) = if is_shown { live::figures(args.every) } else { (live::figures_over_all(), Duration::MAX) };
    let stop = ending::on_signals()?;
    rights::keep_only_paths();
    let is_counted = is_shown || scrape.is_some();
    if let Some(scrape) = scrape {
        tell!("figures for Prometheus: http://{}/metrics", scrape.address()?);
        let figures = figures.clone();
        scrape.start(move || live::scraped(&figures, None))?;
    }
    let address = sockets.address()?;
    match &args.ready_file {
        Some(f) => std::fs::write(f, format!("{address}\n")).with_context(|| format!("writing {f:?}"))?,
        None => tell!("collecting at {address} (Ctrl-C ends it); at a sniffer: --forward HOST:{}", address.port()),
    }

    let mut collector = Collector {
        args,
        figures: is_counted.then(|| figures.clone()),
        senders: Vec::new(),
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
    let code = collector.finish(is_shown.then_some(&figures), &place)?;
    result.map(|()| code)
}

/// How a frame came: `udp` or `tcp`, and whether it was the first of its connection.
type Way = (&'static str, bool);

/// What is collected.
struct Collector<'a> {
    args: &'a CollectArgs,
    figures: Option<Figures>,
    senders: Vec<Sender>,
    bad: u64,
    is_bad_told: bool,
    refused: u64,
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
            None if self.senders.len() >= SENDERS_MAX => {
                if self.refused == 0 {
                    tell!("wakepath: more than {SENDERS_MAX} senders: {from} is refused; start another collector");
                }
                self.refused += 1;
                return Ok(None);
            }
            None => {
                let number = self.senders.len() as u16;
                self.senders.push(Sender::new(frame.session, number, self.figures.clone()));
                self.senders.len() - 1
            }
        };
        // the first host of the folder makes it
        let append = self.senders.iter().any(Sender::has_folder);
        match self.senders[i].take(&frame, bytes, from, by, &self.args.into, append) {
            Ok(None) => Ok(Some(frame.session)),
            Ok(Some(e)) => {
                self.bad(from, e);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn bad(&mut self, from: SocketAddr, why: Bad) {
        self.bad += 1;
        if !std::mem::replace(&mut self.is_bad_told, true) {
            tell!("wakepath: {from} sent what is left out and counted: {why}");
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
        let mut view = CollectView {
            output: self.args.into.output.as_ref().map(|o| o.display().to_string()),
            senders: Vec::new(),
            frames_bad: self.bad,
            frames_refused: self.refused,
        };
        let mut losses: Vec<Loss> = Vec::new();
        let mut result = Ok(());
        for sender in self.senders {
            let (told, lost, closed) = sender.close();
            view.senders.push(told);
            losses.extend(lost);
            result = result.and(closed);
        }
        result?;
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
            n => format!("; {} rows did NOT come", units::count(n)),
        };
        tell!(
            "{} ({}, {}): {} rows in {} frames, {}{lost}{}",
            if s.host.is_empty() { "a sender that did not say who it is" } else { &s.host },
            s.address,
            s.by,
            units::count(s.rows),
            units::count(s.frames),
            units::bytes(s.bytes),
            if s.is_over { "" } else { "; it did not say that it ended" },
        );
    }
    if view.senders.is_empty() {
        tell!("no sniffer sent anything");
    }
    if view.frames_bad > 0 {
        tell!("left out: {} datagrams or frames that are no sniffer's, or damaged", units::count(view.frames_bad));
    }
    if !losses.is_empty() {
        output::say(losses::render(losses, Style::default()).trim_end());
    }
}
