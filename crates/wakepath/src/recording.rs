//! The recording loop of `record`, `run` and the recorder in the background: what a vantage has gathered goes into the
//! folder, until the command ends, the time is over or a signal comes.

use crate::ending::Ending;
use crate::sink::{Sink, anchor};
use anyhow::Result;
use std::time::Duration;
use wakepath_capture::monotonic_ns;
use wakepath_decode::RowSink as _;
use wakepath_model::folder::Durability;
use wakepath_model::ids::MonoNs;

/// How long the newest records are left in the rings, so that those of other processors and threads can come in between.
const SETTLE_NS: u64 = 2_000_000;
/// How often a batch is written.
const FLUSH_NS: u64 = 100_000_000;
/// How often the two clocks are compared.
const ANCHOR_NS: u64 = 10_000_000_000;

/// A vantage that records into a folder.
pub trait Vantage {
    /// Where the rows go.
    fn sink(&mut self) -> &mut Sink;

    /// Decodes what has come up to a time, in order of time.
    fn drain(&mut self, until_ns: u64) -> Result<()>;

    /// Whatever else is due, `since_begin_ns` after the loop began.
    fn look(&mut self, now_ns: u64, since_begin_ns: u64) -> Result<()>;

    /// Before a batch is written: what was lost, and what was met for the first time.
    fn report(&mut self) -> Result<()>;

    /// Writes down again what a segment needs to stand alone.
    fn restate(&mut self, at: MonoNs) -> Result<()>;

    /// Bytes in the fullest ring, and the size of a ring.
    fn backlog(&self) -> (u64, u64);

    /// How long to sleep after a look that found so many bytes in the fullest ring of `size`.
    fn pause(&mut self, found: u64, size: u64) -> Duration;
}

/// Pause where the rings are no emptier after a look.
const HELD_PAUSE: Duration = Duration::from_millis(1);

/// Records until the end; gives the exit code.
pub fn pump(vantage: &mut impl Vantage, ending: &mut Ending) -> Result<i32> {
    let begin = monotonic_ns();
    let (mut flushed, mut anchored) = (begin, begin);
    loop {
        let now = monotonic_ns();
        let (found, size) = vantage.backlog();
        vantage.drain(now.saturating_sub(SETTLE_NS))?;
        if now - anchored > ANCHOR_NS {
            vantage.sink().push(&anchor());
            anchored = now;
        }
        vantage.look(now, now - begin)?;
        if now - flushed > FLUSH_NS {
            vantage.report()?;
            vantage.sink().folder.flush(Durability::Write)?;
            if vantage.sink().folder.needs_state() {
                vantage.sink().push(&anchor());
                vantage.restate(MonoNs(now))?;
            }
            flushed = now;
        }
        if let Some(status) = ending.status(now)? {
            return Ok(status);
        }
        let pause = vantage.pause(found, size);
        let left = vantage.backlog().0;
        if left < size / 8 {
            std::thread::sleep(pause);
        } else if left >= found {
            // a record that is being written may hold back the rest, and who writes it may need this processor
            std::thread::sleep(pause.min(HELD_PAUSE));
        }
    }
}
