//! Figures for the agent that started the recorder: a line each second on a pipe. When the agent is gone, however that came, the
//! recording ends.

use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wakepath_model::folder::WriteCounts;

/// How often a line is written.
const EVERY_NS: u64 = 1_000_000_000;

/// What a line says, since the recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Rows written.
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Events that the rings had no room for, and rows that the disk did not take.
    pub lost: u64,
    /// Segments that the recorder deleted.
    pub deleted: u64,
}

impl FromStr for Figures {
    type Err = ();

    fn from_str(line: &str) -> Result<Figures, ()> {
        let mut words = line.split(' ').map(|w| w.parse().map_err(drop));
        let mut next = || words.next().unwrap_or(Err(()));
        Ok(Figures { rows: next()?, bytes: next()?, lost: next()?, deleted: next()? })
    }
}

/// Who is told.
pub struct Report {
    stop: Arc<AtomicBool>,
    told_ns: u64,
}

impl Report {
    /// Sets `stop` when nobody reads the lines any more.
    pub fn new(stop: &Arc<AtomicBool>) -> Report {
        // an agent that reads nothing for long must not hold up the recorder
        let out = std::io::stdout();
        if let Ok(flags) = rustix::fs::fcntl_getfl(out.as_fd()) {
            let _ = rustix::fs::fcntl_setfl(out.as_fd(), flags | rustix::fs::OFlags::NONBLOCK);
        }
        Report { stop: Arc::clone(stop), told_ns: 0 }
    }

    /// Writes a line where that is due; `counts`: what was written, and what was lost.
    pub fn tell(&mut self, now_ns: u64, counts: impl FnOnce() -> (WriteCounts, u64)) {
        if now_ns.saturating_sub(self.told_ns) < EVERY_NS {
            return;
        }
        self.told_ns = now_ns;
        let (written, lost) = counts();
        let lost = lost + written.lost_rows;
        let line = format!("{} {} {lost} {}\n", written.rows, written.bytes, written.deleted_segments);
        // shorter than what a pipe takes whole or not at all
        let told = rustix::io::write(std::io::stdout().as_fd(), line.as_bytes()).map_err(std::io::Error::from);
        if told.is_err_and(|e| !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back() {
        assert_eq!("7 8 9 1".parse(), Ok(Figures { rows: 7, bytes: 8, lost: 9, deleted: 1 }));
        for line in ["", "7", "7 8 9", "7 8 x 1", "recorded 7 rows"] {
            assert_eq!(line.parse::<Figures>(), Err(()), "{line}");
        }
    }
}
