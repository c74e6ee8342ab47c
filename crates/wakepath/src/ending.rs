//! When a recording ends: with its command, by a signal, when its time is over, or its folder is gone.

use crate::output::{FAILED, reasons, tell};
use anyhow::{Context as _, Result, bail};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wakepath_capture::monotonic_ns;

/// How long a command that was asked to end is waited for.
const END_WAIT_NS: u64 = 3_000_000_000;

/// How often a command is looked at that goes on without being recorded.
const TICK: Duration = Duration::from_millis(20);

/// A flag that SIGINT and SIGTERM set, and SIGHUP where it is not ignored (as under nohup).
pub fn on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = vec![signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    // SAFETY: asks for a signal's action and changes none
    let hangs_up = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut now);
        now.sa_sigaction != libc::SIG_IGN
    };
    signals.extend(hangs_up.then_some(signal_hook::consts::SIGHUP));
    for s in signals {
        signal_hook::flag::register(s, Arc::clone(&stop)).context("installing signal handlers")?;
    }
    Ok(stop)
}

/// What a recording waits for.
pub struct Ending {
    child: Option<Child>,
    stop: Arc<AtomicBool>,
    end_ns: u64,
    is_asked: bool,
    folder: Option<PathBuf>,
    /// What the command ended with.
    code: Option<i32>,
}

impl Ending {
    /// Ends with `child` where there is one, when `stop` is set, and after `duration_ns`.
    pub fn new(child: Option<Child>, stop: Arc<AtomicBool>, duration_ns: Option<u64>) -> Ending {
        let end_ns = duration_ns.map_or(u64::MAX, |d| monotonic_ns().saturating_add(d));
        Ending { child, stop, end_ns, is_asked: false, folder: None, code: None }
    }

    /// Ends also when its folder is no longer there: nobody could ask for its end by that, nor read what is written.
    pub fn with_folder(mut self, folder: PathBuf) -> Ending {
        self.folder = Some(folder);
        self
    }

    /// The exit code, where it is over.
    pub fn status(&mut self, now_ns: u64) -> Result<Option<i32>> {
        if let Some(c) = &mut self.child
            && let Some(status) = c.try_wait().context("waiting for the command")?
        {
            self.child = None;
            let code = match (self.is_asked, status.code()) {
                (true, code) => code.unwrap_or(0),
                (false, code) => code.unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            };
            self.code = Some(code);
            return Ok(self.code);
        }
        if let Some(folder) = self.folder.as_ref().filter(|f| !f.exists()) {
            bail!("{} was removed: the recorder stops; `wakepath on` starts another", folder.display());
        }
        if !self.stop.load(Ordering::Relaxed) && now_ns < self.end_ns {
            return Ok(None);
        }
        match &self.child {
            // the command is the user's: it is asked to end, waited for while we go on recording, and never killed
            Some(c) if !self.is_asked => {
                // SAFETY: signals a child of ours that was not waited for yet.
                unsafe { libc::kill(c.id() as i32, libc::SIGTERM) };
                self.is_asked = true;
                self.stop.store(false, Ordering::Relaxed);
                self.end_ns = now_ns + END_WAIT_NS;
                Ok(None)
            }
            Some(c) => {
                tell!(
                    "wakepath: the command (process {}) does not end; it keeps running without being recorded",
                    c.id()
                );
                self.child = None;
                Ok(Some(0))
            }
            None => Ok(Some(0)),
        }
    }
}

impl Ending {
    /// The process of the command, while it lives.
    pub fn child(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Recording failed. The command is the user's and goes on: it is waited for, and what it ends with is passed on; a
    /// failure of ours is the exit code where the command had none.
    pub fn outlive(&mut self, failure: anyhow::Error) -> Result<i32> {
        if self.code.is_none_or(|code| code == 0) && self.child.is_none() {
            return Err(failure);
        }
        tell!("wakepath: {}", reasons(&failure));
        let Some(child) = self.child() else { return Ok(self.code.unwrap_or(FAILED)) };
        self.folder = None;
        tell!("wakepath: the command (process {child}) keeps running without being recorded; waiting for it to end");
        loop {
            match self.status(monotonic_ns())? {
                Some(0) => {
                    tell!("wakepath: the command succeeded; the recording failed");
                    return Ok(FAILED);
                }
                Some(code) => return Ok(code),
                None => std::thread::sleep(TICK),
            }
        }
    }
}

impl Drop for Ending {
    /// A fault of ours must not leave the command without anybody who waits for it.
    fn drop(&mut self) {
        if let Some(child) = self.child.as_mut().filter(|_| std::thread::panicking()) {
            let _ = child.wait();
        }
    }
}
