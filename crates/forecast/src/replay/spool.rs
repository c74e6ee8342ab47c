//! Steps on disk, for recordings that are larger than memory.
//!
//! Recordings are in order of time, scripts are read each at its own pace. Steps are gathered, sorted by script and
//! written a batch at a time; each script then knows its runs in the file and reads them piece by piece.

use super::{Latencies, Source, Usual};
use crate::system::{KindId, QueueId, ScriptId, StateId, Step};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Steps that are sorted at a time: 16 MiB.
const BATCH: usize = 1 << 19;
/// Steps that a script reads at a time.
const PIECE: u64 = 256;
/// Bytes of a step in the file.
const WIDTH: usize = 24;

/// Takes steps in any order of scripts.
pub struct SpoolWriter {
    file: BufWriter<File>,
    batch: Vec<(ScriptId, Step)>,
    batch_max: usize,
    written: u64,
    runs: Vec<Vec<Run>>,
    latencies: Latencies,
    /// Of each state: how often, and for how long altogether (ns).
    work: Vec<(u64, u64)>,
}

/// Steps of a script, one after the other in the file.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    count: u64,
}

impl SpoolWriter {
    /// Writes to a file without a name in a directory, which should not be in memory. Fails where it cannot be made.
    pub fn new(directory: &Path) -> io::Result<SpoolWriter> {
        Ok(SpoolWriter {
            file: BufWriter::new(tempfile::tempfile_in(directory)?),
            batch: Vec::new(),
            batch_max: BATCH,
            written: 0,
            runs: Vec::new(),
            latencies: Latencies::default(),
            work: Vec::new(),
        })
    }

    /// The next step of a script. Fails where the disk does.
    pub fn push(&mut self, script: ScriptId, step: Step) -> io::Result<()> {
        self.latencies.add(step);
        if let Step::Work { state, ns } = step {
            if self.work.len() <= state.index() {
                self.work.resize(state.index() + 1, (0, 0));
            }
            let (count, sum) = &mut self.work[state.index()];
            (*count, *sum) = (*count + 1, sum.saturating_add(ns));
        }
        self.batch.push((script, step));
        if self.batch.len() >= self.batch_max { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> io::Result<()> {
        // steps of a script stay in order
        self.batch.sort_by_key(|&(script, _)| script);
        for run in self.batch.chunk_by(|a, b| a.0 == b.0) {
            let script = run[0].0.index();
            if self.runs.len() <= script {
                self.runs.resize_with(script + 1, Vec::new);
            }
            self.runs[script].push(Run { first: self.written, count: run.len() as u64 });
            self.written += run.len() as u64;
            for &(_, step) in run {
                self.file.write_all(&encode(step))?;
            }
        }
        self.batch.clear();
        Ok(())
    }

    /// All has been said. Fails where the disk does.
    pub fn finish(mut self) -> io::Result<Spool> {
        self.write_batch()?;
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let readers = self.runs.iter().map(|_| Reader::default()).collect();
        let written = Written { file, runs: self.runs, usual: self.latencies.usual(), work: self.work };
        Ok(Spool { written: Arc::new(written), readers, failed: None })
    }
}

/// Where a script is read.
#[derive(Default)]
struct Reader {
    /// The run, and how much of it was read.
    run: usize,
    read: u64,
    /// The position of the first step of `piece`.
    position: u64,
    piece: Vec<Step>,
}

/// What is on disk.
struct Written {
    file: File,
    runs: Vec<Vec<Run>>,
    usual: Vec<Usual>,
    work: Vec<(u64, u64)>,
}

/// Steps as they were written, each script for one actor at a time.
pub struct Spool {
    written: Arc<Written>,
    readers: Vec<Reader>,
    failed: Option<io::Error>,
}

impl Spool {
    /// Why reading stopped where it should not have: then the replay is not that of the whole recording.
    pub fn failed(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Steps of a script.
    pub fn steps(&self, script: ScriptId) -> u64 {
        self.written.runs.get(script.index()).map_or(0, |runs| runs.iter().map(|r| r.count).sum())
    }

    /// How often work is done as a state, and for how long altogether (ns).
    pub fn work(&self, state: StateId) -> (u64, u64) {
        self.written.work.get(state.index()).copied().unwrap_or_default()
    }

    /// The same steps, to be read from the begin.
    pub fn again(&self) -> Spool {
        let readers = self.written.runs.iter().map(|_| Reader::default()).collect();
        Spool { written: Arc::clone(&self.written), readers, failed: None }
    }

    /// Reads a script's next piece; whether there is one.
    fn refill(&mut self, script: usize) -> io::Result<bool> {
        let (reader, runs) = (&mut self.readers[script], &self.written.runs[script]);
        reader.position += reader.piece.len() as u64;
        reader.piece.clear();
        while runs.get(reader.run).is_some_and(|run| reader.read >= run.count) {
            reader.run += 1;
            reader.read = 0;
        }
        let Some(run) = runs.get(reader.run) else {
            // nobody reads on: its memory is for others
            reader.piece = Vec::new();
            return Ok(false);
        };
        let count = (run.count - reader.read).min(PIECE);
        let mut bytes = [0; PIECE as usize * WIDTH];
        let bytes = &mut bytes[..count as usize * WIDTH];
        self.written.file.read_exact_at(bytes, (run.first + reader.read) * WIDTH as u64)?;
        reader.read += count;
        reader.piece.extend(bytes.as_chunks::<WIDTH>().0.iter().map(decode));
        Ok(true)
    }
}

impl Source for Spool {
    fn step(&mut self, script: ScriptId, position: u64) -> Option<Step> {
        let reader = self.readers.get_mut(script.index())?;
        if position < reader.position {
            *reader = Reader::default();
        }
        loop {
            let reader = &self.readers[script.index()];
            if let Some(&step) = reader.piece.get(usize::try_from(position - reader.position).ok()?) {
                return Some(step);
            }
            match self.refill(script.index()) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => {
                    self.failed = Some(e);
                    return None;
                }
            }
        }
    }

    fn usual(&self, queue: QueueId) -> Usual {
        self.written.usual.get(queue.index()).copied().unwrap_or_default()
    }
}

fn encode(step: Step) -> [u8; WIDTH] {
    let (kind, id, a, b) = match step {
        Step::Work { state, ns } => (0u32, state.0, ns, 0),
        Step::Enqueue { queue, count, latency_ns } => (1, queue.0, count, latency_ns),
        Step::Dequeue { queue, count, latency_ns } => (2, queue.0, count, latency_ns),
        Step::Fork { script } => (3, script.0, 0, 0),
        Step::Join => (4, 0, 0, 0),
        Step::Begin { kind } => (5, kind.0, 0, 0),
        Step::End => (6, 0, 0, 0),
    };
    let mut bytes = [0; WIDTH];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..16].copy_from_slice(&a.to_le_bytes());
    bytes[16..].copy_from_slice(&b.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; WIDTH]) -> Step {
    let short = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(short(at)) | u64::from(short(at + 4)) << 32;
    let (id, a, b) = (short(4), long(8), long(16));
    match short(0) {
        0 => Step::Work { state: StateId(id), ns: a },
        1 => Step::Enqueue { queue: QueueId(id), count: a, latency_ns: b },
        2 => Step::Dequeue { queue: QueueId(id), count: a, latency_ns: b },
        3 => Step::Fork { script: ScriptId(id) },
        4 => Step::Join,
        5 => Step::Begin { kind: KindId(id) },
        _ => Step::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some step of each sort.
    fn step(n: u64) -> Step {
        let id = (n / 7) as u32;
        match n % 7 {
            0 => Step::Work { state: StateId(id), ns: n << 33 | 5 },
            1 => Step::Enqueue { queue: QueueId(id % 5), count: n, latency_ns: u64::MAX - n },
            2 => Step::Dequeue { queue: QueueId(id % 5), count: u64::MAX, latency_ns: n },
            3 => Step::Fork { script: ScriptId(id) },
            4 => Step::Join,
            5 => Step::Begin { kind: KindId(u32::MAX - id) },
            _ => Step::End,
        }
    }

    #[test]
    fn steps_come_back_in_the_order_of_their_script() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = SpoolWriter::new(directory.path()).unwrap();
        // many batches, and scripts that are longer than a piece
        writer.batch_max = 1000;
        let mut expected = vec![Vec::new(); 9];
        for n in 0..20_000u64 {
            let script = (n * n / 3 % 9) as usize;
            writer.push(ScriptId(script as u32), step(n)).unwrap();
            expected[script].push(step(n));
        }
        let mut spool = writer.finish().unwrap();
        let longest = expected.iter().map(Vec::len).max().unwrap();
        assert!(longest > 2 * PIECE as usize);
        for position in 0..=longest {
            for (script, steps) in expected.iter().enumerate() {
                let got = spool.step(ScriptId(script as u32), position as u64);
                assert_eq!(got, steps.get(position).copied(), "{script} {position}");
            }
        }
        // and once more from the begin
        for (script, steps) in expected.iter().enumerate() {
            let script = ScriptId(script as u32);
            assert_eq!(spool.step(script, 0), steps.first().copied());
            assert_eq!(spool.steps(script), steps.len() as u64);
        }
        assert_eq!(spool.step(ScriptId(99), 0), None);
        assert_eq!(spool.usual(QueueId(99)), Usual::default());
        assert!(spool.usual(QueueId(0)).items_ns > 0 && spool.failed().is_none());
    }
}
