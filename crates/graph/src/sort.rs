//! Sorting rows that do not fit into memory: sorted runs in a file without a name, merged into one.

use bytemuck::checked::try_pod_read_unaligned;
use bytemuck::{CheckedBitPattern, NoUninit};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What rows are sorted by.
pub type Key = (u64, u64, u64);

/// A row with a key.
pub trait Keyed: NoUninit + CheckedBitPattern {
    /// Its key; rows of one key come in any order.
    fn key(&self) -> Key;
}

/// Bytes of a run: what a sorter holds at most while it takes rows.
const RUN_BYTES: usize = 2 << 20;
/// Most runs merged at once.
const FAN_IN: usize = 128;
/// Bytes read ahead of each run while merging.
const AHEAD_BYTES: usize = 32 << 10;

/// Takes rows in any order, writes them sorted. Memory: one run, whatever the number of rows.
pub struct Sorter<R> {
    rows: Vec<R>,
    rows_max: usize,
    spill: Option<Spill>,
    dir: PathBuf,
}

/// Sorted runs in an unnamed file.
struct Spill {
    file: File,
    bytes: u64,
    /// Offset and rows of each run.
    runs: Vec<(u64, u64)>,
}

impl<R: Keyed> Sorter<R> {
    /// A sorter that spills into a file in `dir`.
    pub fn new(dir: &Path) -> Sorter<R> {
        Sorter::with_run(dir, (RUN_BYTES / size_of::<R>()).max(1))
    }

    /// With runs of so many rows.
    pub(super) fn with_run(dir: &Path, rows_max: usize) -> Sorter<R> {
        Sorter { rows: Vec::new(), rows_max, spill: None, dir: dir.to_owned() }
    }

    /// Takes a row.
    #[inline]
    pub fn push(&mut self, row: R) -> io::Result<()> {
        if self.rows.len() >= self.rows_max {
            self.spill()?;
        }
        self.rows.push(row);
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.rows.sort_unstable_by_key(Keyed::key);
        let spill = match &mut self.spill {
            Some(s) => s,
            None => self.spill.insert(Spill { file: tempfile::tempfile_in(&self.dir)?, bytes: 0, runs: Vec::new() }),
        };
        let bytes: &[u8] = bytemuck::cast_slice(&self.rows);
        spill.file.write_all_at(bytes, spill.bytes)?;
        spill.runs.push((spill.bytes, self.rows.len() as u64));
        spill.bytes += bytes.len() as u64;
        self.rows.clear();
        Ok(())
    }

    /// Writes all rows, sorted.
    pub fn finish(mut self, out: File) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        if self.spill.is_none() {
            self.rows.sort_unstable_by_key(Keyed::key);
            out.write_all(bytemuck::cast_slice(&self.rows))?;
            return out.flush();
        }
        self.spill()?;
        self.rows = Vec::new();
        let Some(mut spill) = self.spill.take() else { return out.flush() };
        while spill.runs.len() > FAN_IN {
            let some: Vec<(u64, u64)> = spill.runs.drain(..FAN_IN).collect();
            let at = spill.bytes;
            let rows = some.iter().map(|r| r.1).sum();
            let mut writer = BufWriter::with_capacity(1 << 20, At { file: spill.file.try_clone()?, at });
            merge::<R>(&spill.file, &some, &mut writer)?;
            writer.flush()?;
            spill.bytes += rows * size_of::<R>() as u64;
            spill.runs.push((at, rows));
        }
        merge::<R>(&spill.file, &spill.runs, &mut out)?;
        out.flush()
    }
}

/// Writes on from an offset.
struct At {
    file: File,
    at: u64,
}

impl Write for At {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write_at(bytes, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One run being read.
struct Run<R> {
    at: u64,
    left: u64,
    rows: Vec<R>,
    bytes: Vec<u8>,
    next: usize,
}

impl<R: Keyed> Run<R> {
    fn peek(&mut self, file: &File) -> io::Result<Option<Key>> {
        if self.next == self.rows.len() {
            let count = self.left.min((AHEAD_BYTES / size_of::<R>()).max(1) as u64);
            self.bytes.resize(count as usize * size_of::<R>(), 0);
            file.read_exact_at(&mut self.bytes, self.at)?;
            self.rows.clear();
            // we wrote them ourselves, so each is a row
            self.rows.extend(self.bytes.chunks_exact(size_of::<R>()).flat_map(try_pod_read_unaligned::<R>));
            self.at += self.bytes.len() as u64;
            self.left -= count;
            self.next = 0;
        }
        Ok(self.rows.get(self.next).map(Keyed::key))
    }
}

fn merge<R: Keyed>(file: &File, runs: &[(u64, u64)], out: &mut impl Write) -> io::Result<()> {
    let mut open: Vec<Run<R>> =
        runs.iter().map(|&(at, left)| Run { at, left, rows: Vec::new(), bytes: Vec::new(), next: 0 }).collect();
    let mut heap = BinaryHeap::with_capacity(open.len());
    for (i, run) in open.iter_mut().enumerate() {
        if let Some(key) = run.peek(file)? {
            heap.push(Reverse((key, i)));
        }
    }
    while let Some(Reverse((_, i))) = heap.pop() {
        let run = &mut open[i];
        let limit = heap.peek().map(|r| r.0.0);
        // as far as this run goes before the next one's turn
        loop {
            out.write_all(bytemuck::bytes_of(&run.rows[run.next]))?;
            run.next += 1;
            match run.peek(file)? {
                None => break,
                Some(key) if limit.is_some_and(|l| key > l) => {
                    heap.push(Reverse((key, i)));
                    break;
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::{Pod, Zeroable};

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    struct Pair(u64, u64);

    impl Keyed for Pair {
        fn key(&self) -> Key {
            (self.0, self.1, 0)
        }
    }

    fn sorted(count: u64, run: usize) -> Result<Vec<Pair>, Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let mut s = Sorter::with_run(dir.path(), run);
        for i in 0..count {
            s.push(Pair(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1000, i))?;
        }
        let path = dir.path().join("out");
        s.finish(File::create(&path)?)?;
        Ok(std::fs::read(&path)?.chunks_exact(16).map(bytemuck::pod_read_unaligned).collect())
    }

    #[test]
    fn runs_of_any_size_give_the_same() -> Result<(), Box<dyn std::error::Error>> {
        let whole = sorted(5000, 10_000)?;
        assert!(whole.len() == 5000 && whole.is_sorted_by_key(Keyed::key));
        // more runs than are merged at once, and runs of one row
        for run in [4999, 5000, 700, 20, 1] {
            assert!(sorted(5000, run)? == whole, "runs of {run}");
        }
        assert!(sorted(0, 3)?.is_empty());
        Ok(())
    }
}
