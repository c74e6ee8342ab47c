//! Keeps a recorder running: starts it again when it ends, keeps it within its budget, and deletes what is too old.
//!
//! The recorder is a process of its own. What ends it (a full disk, lack of memory, a defect) neither ends the agent nor what
//! it answers, and its settings change by starting it anew.

use super::config::Detail;
use super::state::{State, real_ns};
use super::usage;
use crate::output::tell;
use crate::record::report::Figures;
use anyhow::{Context as _, Result};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wakepath_model::folder::{oldest_real_ns, prune, segment_bytes};

/// How often it is looked whether anything is to be done.
const TICK: Duration = Duration::from_millis(50);
/// How often the ring is looked through.
const PRUNE_EVERY: Duration = Duration::from_secs(1);
/// A recorder that is asked to end has so long.
const END_WITHIN: Duration = Duration::from_secs(30);
/// How long to wait before a recorder is started again: longer each time, until one has lasted.
const WAIT_FIRST: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_secs(30);
const LASTED: Duration = Duration::from_secs(60);
/// So often in turn it must be over budget before detail goes: a moment's burst is none.
const OVER_TIMES: u32 = 3;
/// With less of the disk left (bytes, and its share), half of what has ended goes.
const DISK_LEFT: (u64, u64) = (64 << 20, 20);

/// Why a recorder is no more.
enum Ended {
    /// It was asked to.
    Stopped,
    /// It is to begin again with less.
    Lowered,
    /// By itself.
    Failed,
}

/// Records until `stop` is set.
pub fn keep_running(state: &Arc<State>, stop: &AtomicBool) {
    let mut wait = WAIT_FIRST;
    let is_stopped = || stop.load(Ordering::Relaxed);
    while !is_stopped() {
        look_after_disk(state);
        let began = Instant::now();
        match start(state).and_then(|mut child| watch(state, &mut child, stop)) {
            Ok(Ended::Stopped) => return,
            Ok(Ended::Lowered) => continue,
            Ok(Ended::Failed) => {}
            Err(e) => tell!("wakepath agent: the recorder: {}", crate::output::reasons(&e)),
        }
        state.now().restarts += 1;
        if began.elapsed() >= LASTED {
            wait = WAIT_FIRST;
        }
        tell!("wakepath agent: the recorder ended; it starts again in {:.1} s", wait.as_secs_f64());
        let until = Instant::now() + wait;
        while Instant::now() < until && !is_stopped() {
            thread::sleep(TICK);
        }
        wait = (wait * 2).min(WAIT_MAX);
    }
}

fn start(state: &Arc<State>) -> Result<Child> {
    let lowered = state.now().lowered.clone();
    let line = state.config.record_line(&state.config.ring_folder(), &lowered);
    let mut child = Command::new("/proc/self/exe")
        .args(line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot be started")?;
    let out = child.stdout.take().context("has no output")?;
    let state = Arc::clone(state);
    let listen = move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let Ok(figures) = line.parse::<Figures>() {
                let mut now = state.now();
                now.recorder = figures;
                now.reported = Some(Instant::now());
            }
        }
    };
    thread::Builder::new().name("report".into()).spawn(listen).context("no thread to listen to it")?;
    Ok(child)
}

/// Waits for the end of a recorder, whatever it is.
fn watch(state: &Arc<State>, child: &mut Child, stop: &AtomicBool) -> Result<Ended> {
    let every = Duration::from_nanos(state.config.budget.every.0);
    let mut budget = Budget { measured: Instant::now(), ran_ns: None, recorded: false, over: 0 };
    let mut pruned = Instant::now();
    let ended = loop {
        if stop.load(Ordering::Relaxed) {
            end(child)?;
            break Ended::Stopped;
        }
        if child.try_wait().context("cannot be waited for")?.is_some() {
            break Ended::Failed;
        }
        if budget.measured.elapsed() >= every || budget.ran_ns.is_none() {
            let lower = budget.measure(state, child.id());
            if let Some(detail) = lower {
                tell!("wakepath agent: over budget; from here on without {}: the recorder begins again", detail.name());
                end(child)?;
                state.now().lowered.push(detail);
                break Ended::Lowered;
            }
        }
        if pruned.elapsed() >= PRUNE_EVERY {
            look_after_disk(state);
            pruned = Instant::now();
        }
        thread::sleep(TICK);
    };
    let mut now = state.now();
    now.recorder_ended();
    now.ran_before_ns += budget.recorder_ran_ns(&mut now.usage);
    Ok(ended)
}

/// Asks a recorder to end, as Ctrl-C does, so that nothing is lost; and kills one that does not.
fn end(child: &mut Child) -> Result<()> {
    // SAFETY: signals a child of ours that was not waited for yet.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let until = Instant::now() + END_WITHIN;
    while Instant::now() < until {
        if child.try_wait().context("cannot be waited for")?.is_some() {
            return Ok(());
        }
        thread::sleep(TICK);
    }
    tell!("wakepath agent: the recorder does not end within {} s: it is killed", END_WITHIN.as_secs());
    child.kill().and_then(|()| child.wait()).map(drop).context("cannot be ended")
}

/// What was measured of a recorder.
struct Budget {
    measured: Instant,
    /// Processor time of agent and recorder then.
    ran_ns: Option<u64>,
    /// Whether it recorded then.
    recorded: bool,
    /// How often in turn it was over budget.
    over: u32,
}

impl Budget {
    /// Measures; gives the detail that is to go.
    fn measure(&mut self, state: &State, recorder: u32) -> Option<Detail> {
        let usage = usage::of(&[std::process::id(), recorder]);
        let since = self.measured.elapsed().as_nanos() as f64;
        self.measured = Instant::now();
        let before = self.ran_ns.replace(usage.ran_ns);
        let mut now = state.now();
        now.usage = usage;
        // the first measurement is of the start
        let share = usage.ran_ns.saturating_sub(before?) as f64 / since;
        now.share = share;
        let budget = &state.config.budget;
        // a start takes a whole processor, and what it costs is over when it is known
        let has_started = std::mem::replace(&mut self.recorded, now.reported.is_some());
        let is_over = has_started && (usage.memory > budget.memory.0 || share > budget.processor.0 / 100.0);
        self.over = if is_over { self.over + 1 } else { 0 };
        now.is_over &= is_over;
        if self.over < OVER_TIMES {
            return None;
        }
        self.over = 0;
        let next = state.config.next_to_lower(&now.lowered);
        if next.is_none() && !std::mem::replace(&mut now.is_over, true) {
            tell!("wakepath agent: over budget, and only paths are recorded: no detail is left that could go");
        }
        next
    }

    /// Of the recorder alone; what is left in `usage` is the agent's.
    fn recorder_ran_ns(&self, usage: &mut usage::Usage) -> u64 {
        let mine = usage::of(&[std::process::id()]);
        let ran = usage.ran_ns.saturating_sub(mine.ran_ns);
        *usage = mine;
        ran
    }
}

/// Deletes what is too old or too much, and looks how things stand.
fn look_after_disk(state: &State) {
    let config = &state.config;
    let ring = config.ring_folder();
    if !ring.exists() {
        return;
    }
    let disk = usage::disk(&ring).unwrap_or_default();
    let (most, before) = (config.ring.max_bytes.0, real_ns().saturating_sub(config.ring.keep.0));
    let held = segment_bytes(&ring).unwrap_or_default();
    let is_full = disk.0 < DISK_LEFT.0.min(disk.1 / DISK_LEFT.1);
    let pruned = prune(&ring, if is_full { most.min(held.bytes / 2) } else { most }, before);
    match pruned {
        Ok(pruned) => state.now().pruned += pruned.segments,
        Err(e) => tell!("wakepath agent: deleting old segments: {e}"),
    }
    let (held, oldest) = (segment_bytes(&ring).unwrap_or_default(), oldest_real_ns(&ring).unwrap_or_default());
    let mut now = state.now();
    now.ring = held;
    now.oldest_real_ns = oldest;
    now.disk = disk;
}
