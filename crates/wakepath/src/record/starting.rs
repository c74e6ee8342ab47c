//! The time until a recording begins: it is said what takes long, and a signal ends it at once.

use crate::output::tell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After so long it is said what is being waited for.
const SILENT: Duration = Duration::from_secs(1);
/// How often it is looked whether a signal came.
const TICK: Duration = Duration::from_millis(20);

/// What is done before a recording begins, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The kernel verifies the programs.
    Loading,
    /// Which processes fit the selection.
    Selecting,
    /// Which tasks, sockets and waits are there already, and what the selected programs are.
    Reading,
}

impl Phase {
    const ALL: [Phase; 3] = [Phase::Loading, Phase::Selecting, Phase::Reading];

    fn words(self) -> &'static str {
        match self {
            Phase::Loading => "the kernel is checking the programs",
            Phase::Selecting => "looking up the selected processes",
            Phase::Reading => "reading which tasks and connections exist, and looking into the selected programs",
        }
    }
}

/// A thread that waits with whoever started the recorder. Nothing is kept of a recording that did not begin, and what was
/// loaded goes with the process: so a signal need not wait for the kernel.
pub struct Starting {
    phase: Arc<AtomicU8>,
    /// Dropped when the recording has begun.
    over: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Starting {
    /// Begins with [`Phase::Loading`]. `stop`: set by signals.
    pub fn begin(stop: &Arc<AtomicBool>) -> Starting {
        let phase = Arc::new(AtomicU8::new(Phase::Loading as u8));
        let (over, is_over) = mpsc::channel();
        let (shown, stop) = (Arc::clone(&phase), Arc::clone(stop));
        let thread = std::thread::spawn(move || wait(&shown, &stop, &is_over));
        Starting { phase, over: Some(over), thread: Some(thread) }
    }

    /// The next phase begins.
    pub fn reached(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn wait(phase: &AtomicU8, stop: &AtomicBool, is_over: &mpsc::Receiver<()>) {
    if is_stopped(phase, stop, is_over, |line| tell!("{line}")) {
        tell!("wakepath: stopped before the recording began; nothing was recorded");
        // SAFETY: ends the process. Its other thread may be inside a library or the kernel, which no destructor of ours may disturb.
        unsafe { libc::_exit(0) };
    }
}

/// Waits until the recording has begun, or is stopped before that, whatever phase it is in.
fn is_stopped(phase: &AtomicU8, stop: &AtomicBool, is_over: &mpsc::Receiver<()>, mut say: impl FnMut(&str)) -> bool {
    let began = Instant::now();
    let mut is_said = false;
    while is_over.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
        if stop.load(Ordering::Relaxed) {
            return true;
        }
        if !is_said && began.elapsed() >= SILENT {
            let now = Phase::ALL[usize::from(phase.load(Ordering::Relaxed))];
            say(&format!("wakepath: starting takes longer than usual: {} (Ctrl-C stops it)", now.words()));
            is_said = true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a start that stays in a phase says, when, and whether it is stopped. `stop_after`: a signal comes then, else it begins.
    fn started(phase: Phase, is_to_stop: bool, stop_after: Duration) -> (bool, Vec<(Duration, String)>, Duration) {
        let (phase, stop) = (AtomicU8::new(phase as u8), AtomicBool::new(false));
        let (over, is_over) = mpsc::channel::<()>();
        let mut over = Some(over);
        let (began, mut said) = (Instant::now(), Vec::new());
        let (is_stopped, asked) = std::thread::scope(|s| {
            let asks = s.spawn(|| {
                std::thread::sleep(stop_after);
                let now = Instant::now();
                if is_to_stop {
                    stop.store(true, Ordering::Relaxed)
                } else {
                    over = None
                }
                now
            });
            let say = |line: &str| said.push((began.elapsed(), line.to_owned()));
            (is_stopped(&phase, &stop, &is_over, say), asks.join().expect("it asks"))
        });
        (is_stopped, said, asked.elapsed())
    }

    #[test]
    fn in_each_phase_one_line_is_said_after_a_second_and_a_stop_is_obeyed_at_once() {
        std::thread::scope(|s| {
            for phase in Phase::ALL {
                s.spawn(move || {
                    let (is_stopped, said, took) = started(phase, true, SILENT * 5 / 2);
                    assert!(is_stopped && took < SILENT, "{phase:?}: {took:?}");
                    let [(at, line)] = &said[..] else { panic!("{phase:?}: {said:?}") };
                    assert!(*at >= SILENT && line.contains(phase.words()) && line.contains("Ctrl-C"), "{at:?}: {line}");
                });
                s.spawn(move || {
                    let (is_stopped, said, took) = started(phase, true, SILENT / 10);
                    assert!(is_stopped && said.is_empty() && took < SILENT, "{phase:?}: {said:?} {took:?}");
                    let (is_stopped, said, _) = started(phase, false, SILENT / 10);
                    assert!(!is_stopped && said.is_empty(), "{phase:?}: it begins in time, {said:?}");
                });
            }
        });
    }
}
