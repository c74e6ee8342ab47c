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
    let began = Instant::now();
    let mut is_said = false;
    while is_over.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
        if stop.load(Ordering::Relaxed) {
            tell!("wakepath: stopped before the recording began; nothing was recorded");
            // SAFETY: ends the process. Its other thread may be inside a library or the kernel, which no destructor of ours may disturb.
            unsafe { libc::_exit(0) };
        }
        if !is_said && began.elapsed() >= SILENT {
            let now = Phase::ALL[usize::from(phase.load(Ordering::Relaxed))];
            tell!("wakepath: starting takes longer than usual: {} (Ctrl-C stops it)", now.words());
            is_said = true;
        }
    }
}
