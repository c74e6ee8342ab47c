//! `wakepath top`: a recording on the terminal, also while it is being made.

mod budget;
mod draw;
mod snapshot;
mod state;

use crate::cli::TopArgs;
use crate::output::{self, reasons};
use crate::{asked, folders, progress};
use anyhow::{Context as _, Result, bail};
use budget::{Budget, LEAST, Share, own_cpu};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use snapshot::Snapshot;
use state::{FOLDERS, Top, Wish};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use wakepath_model::folder::Part;
use wakepath_present::text::Style;

/// How long a key may wait for what else came.
const LOOK: Duration = Duration::from_millis(100);
/// No reading comes sooner after the one before.
const READ_EVERY: Duration = Duration::from_secs(2);
/// Nor before so many times what the one before took: reading takes at most a tenth of a processor. While somebody records,
/// [`Budget`] says how much of the recording is read instead.
const REST: u32 = 9;

/// What the reader has.
enum Came {
    Read(Result<Snapshot, String>),
    /// A command, and what it printed.
    Answer(String, String),
}

/// A command for the reader: as it is typed, and its words.
type Question = (String, Vec<String>);

/// Shows it until somebody quits.
pub fn run(args: &TopArgs) -> Result<i32> {
    let dirs = if args.folders.is_empty() { vec![newest(Path::new("."))?] } else { args.folders.clone() };
    let shown = dirs.iter().map(|d| asked::typed_word(&d.to_string_lossy())).collect::<Vec<_>>().join(" ");
    let term = std::env::var("TERM").unwrap_or_default();
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!("top needs a terminal; for a single answer: wakepath triage {shown}");
    }
    if term.is_empty() || term == "dumb" {
        bail!("top cannot draw on this terminal (TERM={term}); for one answer: wakepath triage {shown}");
    }
    // the screen is ours
    progress::hide();
    // what is no folder is said at once
    folders::open(&dirs)?;
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).context("watching for signals")?;
    }
    let paused = Arc::new(AtomicBool::new(false));
    let (ask, questions) = channel();
    let (tell, came) = channel();
    let reader = (dirs, Arc::clone(&paused));
    thread::spawn(move || read(&reader.0, &reader.1, &questions, &tell));
    // also on a panic, the terminal is given back as it was
    let mut terminal = ratatui::try_init().context("drawing on the terminal")?;
    let watched = watch(&mut terminal, Top::new(shown), &ended, &paused, &ask, &came);
    ratatui::restore();
    watched?;
    Ok(output::ANSWERED)
}

/// Draws what comes and obeys keys, until one of them quits.
fn watch(
    terminal: &mut DefaultTerminal,
    mut top: Top,
    ended: &AtomicBool,
    paused: &AtomicBool,
    ask: &Sender<Question>,
    came: &Receiver<Came>,
) -> Result<()> {
    let colour = Style::for_stdout().colour;
    let mut is_stale = true;
    while !ended.load(Ordering::Relaxed) {
        for came in came.try_iter() {
            is_stale = true;
            match came {
                Came::Read(_) if top.paused && top.snapshot.is_some() => {}
                Came::Read(read) => top.read(read),
                Came::Answer(command, text) => top.answered(&command, &text),
            }
        }
        if is_stale {
            terminal.draw(|frame| draw::draw(&top, colour, frame)).context("drawing on the terminal")?;
        }
        is_stale = event::poll(LOOK).context("reading the terminal")?;
        if !is_stale {
            continue;
        }
        if let Event::Key(key) = event::read().context("reading the terminal")? {
            match top.key(key) {
                Wish::Quit => return Ok(()),
                Wish::Ask(words) => drop(ask.send((top.typed(&words), words))),
                Wish::Nothing => {}
            }
            paused.store(top.paused, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Reads the folders again when they have changed, and answers questions in between, until nobody listens.
fn read(dirs: &[PathBuf], paused: &AtomicBool, questions: &Receiver<Question>, tell: &Sender<Came>) {
    let mut stamp = None;
    let mut due = Instant::now();
    let mut budget = Budget::of(dirs);
    loop {
        match questions.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok((command, words)) => {
                if tell.send(Came::Answer(command, answer(dirs, &words))).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let began = Instant::now();
                let share = budget.share();
                let part = match share {
                    Share::All => Some(Part::All),
                    Share::Bytes(bytes) => Some(Part::Sample(bytes)),
                    // something must be shown
                    Share::Later => stamp.is_none().then_some(Part::Sample(LEAST)),
                };
                let now = part.map(|_| folders::stamp(dirs));
                if let Some(part) = part.filter(|_| now != stamp && !paused.load(Ordering::Relaxed)) {
                    stamp = now;
                    let before = own_cpu();
                    let read = Snapshot::read(dirs, part).map_err(|e| reasons(&e));
                    if let Ok(snapshot) = &read {
                        budget.measured(snapshot.bytes, own_cpu().saturating_sub(before));
                    }
                    if tell.send(Came::Read(read)).is_err() {
                        return;
                    }
                }
                let rest = if share == Share::All { began.elapsed() * REST } else { READ_EVERY };
                due = Instant::now() + READ_EVERY.max(rest);
            }
        }
    }
}

/// What a command prints.
fn answer(dirs: &[PathBuf], words: &[String]) -> String {
    let mut line: Vec<OsString> = vec!["wakepath".into(), "--no-pager".into()];
    for word in words {
        match word == FOLDERS {
            true => line.extend(dirs.iter().map(|d| d.clone().into_os_string())),
            false => line.push(word.into()),
        }
    }
    match asked::answer(line) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(why) => why,
    }
}

/// The trace folder in a directory that was written to last.
fn newest(dir: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("{}", dir.display()))?;
    let found = entries.flatten().filter(|e| e.path().join("wakepath.json").is_file());
    let newest = found.max_by_key(|e| (folders::written(&e.path()), e.file_name()));
    match newest {
        Some(entry) => Ok(entry.file_name().into()),
        None => bail!(
            "there is no trace folder in this directory; give one: wakepath top DIR, or record one: wakepath record -o DIR"
        ),
    }
}

#[cfg(test)]
mod tests;
