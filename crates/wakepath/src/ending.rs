//! When a recording ends: with its command, by a signal, when its time is over, or its folder is gone.

use crate::output::tell;
use anyhow::{Context as _, Result, bail};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wakepath_capture::monotonic_ns;

/// How long a command that was asked to end is waited for.
const END_WAIT_NS: u64 = 3_000_000_000;

/// A flag that SIGINT and SIGTERM set.
pub fn on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for s in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
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
}

impl Ending {
    /// Ends with `child` where there is one, when `stop` is set, and after `duration_ns`.
    pub fn new(child: Option<Child>, stop: Arc<AtomicBool>, duration_ns: Option<u64>) -> Ending {
        let end_ns = duration_ns.map_or(u64::MAX, |d| monotonic_ns().saturating_add(d));
        Ending { child, stop, end_ns, is_asked: false, folder: None }
    }

    /// Ends also when its folder is no longer there: nobody could ask for its end by that, nor read what is written.
    pub fn with_folder(self, folder: PathBuf) -> Ending {
        Ending { folder: Some(folder), ..self }
    }

    /// The exit code, where it is over.
    pub fn status(&mut self, now_ns: u64) -> Result<Option<i32>> {
        if let Some(c) = &mut self.child
            && let Some(status) = c.try_wait().context("waiting for the command")?
        {
            return Ok(Some(match (self.is_asked, status.code()) {
                (true, code) => code.unwrap_or(0),
                (false, code) => code.unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            }));
        }
        if let Some(folder) = self.folder.as_ref().filter(|f| !f.exists()) {
            bail!("{} was removed: the recorder ends, `wakepath on` starts another", folder.display());
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
                tell!("wakepath: the command (process {}) does not end; it goes on without being recorded", c.id());
                Ok(Some(0))
            }
            None => Ok(Some(0)),
        }
    }
}
