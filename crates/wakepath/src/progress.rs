//! How far something is: bars on standard error where that is a terminal, a line now and then where it is none, and what the page is
//! told.

use crate::output::tell;
use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wakepath_model::folder::Folder;
use wakepath_present::units;
use wakepath_ui::Progress;

/// What takes less time needs no bar.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often a bar is drawn again.
const EVERY: Duration = Duration::from_millis(125);

/// What takes longer is told in lines where there is no terminal, and how often. Each line is one more in somebody's log.
const LINES_AFTER: Duration = Duration::from_secs(5);
const LINES_EVERY: Duration = Duration::from_secs(30);

/// Whether somebody else draws on the terminal.
static IS_HIDDEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Who is told what is read for the answer that this thread makes.
    static TOLD: RefCell<Option<Arc<Progress>>> = const { RefCell::new(None) };
}

/// Makes an answer, and tells `progress` what is read for it.
pub fn told_to<T>(progress: &Arc<Progress>, make: impl FnOnce() -> T) -> T {
    TOLD.set(Some(Arc::clone(progress)));
    let made = make();
    TOLD.set(None);
    made
}

/// From here on so many bytes of a folder are read, about; 0: how many is not known.
pub fn reads(folder: &Folder, bytes: u64) {
    TOLD.with_borrow(|told| {
        if let Some(progress) = told {
            progress.follow(folder.bytes_read(), bytes);
        }
    });
}

/// From here on no bar is drawn.
pub fn hide() {
    IS_HIDDEN.store(true, Relaxed);
}

fn target() -> ProgressDrawTarget {
    let is_shown = std::io::stderr().is_terminal() && !IS_HIDDEN.load(Relaxed);
    if is_shown { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() }
}

/// A bar over so many bytes, where it is known how many.
pub fn of_bytes(what: &'static str, bytes: Option<u64>) -> Result<ProgressBar> {
    let target = if bytes.is_some() { target() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %  {bytes} of {total_bytes}, {eta} left");
    let style = style.context("the progress bar's template")?;
    Ok(ProgressBar::with_draw_target(bytes, target).with_style(style).with_message(what))
}

/// A bar over rows, of a number that is still to be set.
pub fn of_rows() -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{msg:14} {bar:40} {percent:>3} %  {pos} of {len} rows, {eta} left");
    let style = style.context("the progress bar's template")?;
    Ok(ProgressBar::with_draw_target(Some(0), target()).with_style(style))
}

/// A bar that follows how much of a folder was read, until it is dropped. What is quick has none.
pub struct Reading {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    /// Of passes over a folder of so many bytes each; where there is more than one, the bar says which and begins again.
    pub fn of(folder: &Folder, what: &'static str, pass_bytes: u64) -> Reading {
        let none = Reading { stop: None, thread: None };
        let is_told_elsewhere = IS_HIDDEN.load(Relaxed) || TOLD.with_borrow(Option::is_some);
        if is_told_elsewhere || pass_bytes == 0 {
            return none;
        }
        let Ok(bar) = of_bytes(what, Some(pass_bytes)) else { return none };
        let (read, before) = (folder.bytes_read(), folder.bytes_read().load(Relaxed));
        let (stop, stopped) = mpsc::channel();
        let is_drawn = !target().is_hidden();
        let draw = move || match is_drawn {
            true => follow(&bar, what, &read, before, pass_bytes, &stopped),
            false => tell_lines(what, &read, before, pass_bytes, &stopped),
        };
        let thread = thread::Builder::new().name("progress".into()).spawn(draw).ok();
        Reading { stop: Some(stop), thread }
    }
}

fn follow(
    bar: &ProgressBar,
    what: &str,
    read: &Arc<AtomicU64>,
    before: u64,
    pass_bytes: u64,
    stopped: &mpsc::Receiver<()>,
) {
    let mut wait = PATIENCE;
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = EVERY;
        let (pass, done) = place(read.load(Relaxed) - before, pass_bytes);
        if pass > 1 {
            bar.set_message(format!("{what}, pass {pass}"));
        }
        bar.set_position(done);
    }
    bar.finish_and_clear();
}

/// The same in lines.
fn tell_lines(what: &str, read: &Arc<AtomicU64>, before: u64, pass_bytes: u64, stopped: &mpsc::Receiver<()>) {
    let mut wait = LINES_AFTER;
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = LINES_EVERY;
        tell!("{}", line(what, read.load(Relaxed) - before, pass_bytes));
    }
}

fn line(what: &str, read: u64, pass_bytes: u64) -> String {
    let (pass, done) = place(read, pass_bytes);
    let of = if pass > 1 { format!(", pass {pass}") } else { String::new() };
    format!("wakepath: {what}{of}: {} % of {}", done * 100 / pass_bytes, units::bytes(pass_bytes))
}

/// In which pass a reader is, and how far in it.
fn place(read: u64, pass_bytes: u64) -> (u64, u64) {
    (read / pass_bytes + 1, read % pass_bytes)
}

impl Drop for Reading {
    fn drop(&mut self) {
        drop(self.stop.take());
        // the line is free again before anything else is written
        self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pass_begins_again() {
        assert_eq!(line("indexing waits", 5, 10), "wakepath: indexing waits: 50 % of 10 B");
        assert_eq!(line("indexing waits", 12, 10), "wakepath: indexing waits, pass 2: 20 % of 10 B");
        assert_eq!([0, 9, 10, 25].map(|read| place(read, 10)), [(1, 0), (1, 9), (2, 0), (3, 5)]);
    }
}
