//! Reading sorted files: rows by number and binary search, through a small cache of blocks.

use super::build::{LENGTHS, LENGTHS_END};
use super::sort::{Key, Keyed};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a block, about: a whole number of rows.
const BLOCK_BYTES: usize = 4 << 10;
/// Blocks held: 16 MiB at most, whatever the size of the files; what falls out is still in the kernel's cache. A question goes from task
/// to task and from table to table, and comes back to each soon.
const SETS: usize = 1024;
/// In so many places a block can be held.
const WAYS: usize = 4;
/// Keys of a file that are held, evenly apart: a search begins among them.
const FENCES_MAX: u64 = 1024;

/// A longer list of an index's files is none.
const LENGTHS_BYTES_MAX: u64 = 16 << 20;

/// Sorted files, opened for reading.
pub struct Store {
    /// How long each file was made, by name.
    lengths: FxHashMap<String, u64>,
    files: Vec<File>,
    sets: RefCell<Vec<Set>>,
    failed: Cell<u64>,
}

#[derive(Clone, Default)]
struct Slot {
    file: u32,
    block: u64,
    bytes: Vec<u8>,
}

/// Blocks whose places are the same.
#[derive(Clone, Default)]
struct Set {
    ways: [Slot; WAYS],
    /// The one that is given up next.
    next: usize,
}

/// The rows of one sorted file.
pub struct Rows<R> {
    file: u32,
    count: u64,
    /// Keys of the rows `apart`, twice `apart` …, where they were read already.
    fences: RefCell<Vec<Option<Key>>>,
    apart: u64,
    of: PhantomData<R>,
}

impl<R> Rows<R> {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl Store {
    /// For the files of an index, which must be as long as they were made.
    pub fn of(dir: &Path) -> io::Result<Store> {
        let path = dir.join(LENGTHS);
        let about = fs::metadata(&path)?;
        if !about.is_file() || about.len() > LENGTHS_BYTES_MAX {
            return Err(io::Error::other("no list of an index's files"));
        }
        let text = fs::read_to_string(&path)?;
        let Some(lines) = text.strip_suffix(LENGTHS_END) else { return Err(io::Error::other("the list is cut")) };
        let pairs = lines.lines().filter_map(|line| line.split_once(' '));
        let lengths = pairs.filter_map(|(name, length)| Some((name.to_owned(), length.parse().ok()?)));
        let sets = RefCell::new(vec![Set::default(); SETS]);
        Ok(Store { lengths: lengths.collect(), files: Vec::new(), sets, failed: Cell::new(0) })
    }

    /// Opens a file of rows.
    pub fn open<R: Keyed>(&mut self, path: &Path) -> io::Result<Rows<R>> {
        // opening something else might wait
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if self.lengths.get(name) != Some(&length) {
            return Err(io::Error::other("not as long as it was made"));
        }
        let count = length / size_of::<R>() as u64;
        self.files.push(file);
        let blocks = count.div_ceil(per_block::<R>());
        let apart = blocks.div_ceil(FENCES_MAX + 1).max(1) * per_block::<R>();
        let fences = vec![None; (count.saturating_sub(1) / apart) as usize];
        // 0 marks an empty slot
        let file = self.files.len() as u32;
        Ok(Rows { file, count, fences: RefCell::new(fences), apart, of: PhantomData })
    }

    /// Reads that failed so far: their rows count as absent.
    pub fn failed(&self) -> u64 {
        self.failed.get()
    }

    /// The row of a number; `None` past the end, or where it cannot be read.
    pub fn get<R: Keyed>(&self, rows: &Rows<R>, index: u64) -> Option<R> {
        if index >= rows.count {
            return None;
        }
        let (block, within) = (index / per_block::<R>(), (index % per_block::<R>()) as usize);
        let place = (block.wrapping_mul(31).wrapping_add(u64::from(rows.file).wrapping_mul(977)) as usize) % SETS;
        let mut sets = self.sets.borrow_mut();
        let Set { ways, next } = &mut sets[place];
        let held = ways.iter().position(|slot| slot.file == rows.file && slot.block == block);
        let way = held.unwrap_or(*next);
        let slot = &mut ways[way];
        if held.is_none() {
            *next = (*next + 1) % WAYS;
            let count = per_block::<R>().min(rows.count - block * per_block::<R>()) as usize;
            slot.bytes.resize(count * size_of::<R>(), 0);
            let at = block * per_block::<R>() * size_of::<R>() as u64;
            if self.files[rows.file as usize - 1].read_exact_at(&mut slot.bytes, at).is_err() {
                slot.file = 0;
                self.failed.set(self.failed.get() + 1);
                return None;
            }
            (slot.file, slot.block) = (rows.file, block);
        }
        let at = within * size_of::<R>();
        bytemuck::checked::try_pod_read_unaligned(&slot.bytes[at..at + size_of::<R>()]).ok()
    }

    /// The number of the first row whose key is not below `key`.
    pub fn lower_bound<R: Keyed>(&self, rows: &Rows<R>, key: Key) -> u64 {
        let Some((mut low, mut high)) = self.between_fences(rows, key) else { return rows.count };
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(rows, middle) {
                Some(r) if r.key() < key => low = middle + 1,
                Some(_) => high = middle,
                None => return rows.count,
            }
        }
        low
    }

    /// The rows among which that is the first whose key is not below `key`, or it is the one after them; `None` where one cannot be read.
    fn between_fences<R: Keyed>(&self, rows: &Rows<R>, key: Key) -> Option<(u64, u64)> {
        let mut fences = rows.fences.borrow_mut();
        let (mut low, mut high) = (0, fences.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let fence = match fences[middle] {
                Some(fence) => fence,
                None => *fences[middle].insert(self.get(rows, (middle as u64 + 1) * rows.apart)?.key()),
            };
            if fence < key { low = middle + 1 } else { high = middle }
        }
        let (from, to) = (low as u64 * rows.apart, (low as u64 + 1) * rows.apart);
        Some((from, to.min(rows.count)))
    }
}

/// How many rows a block has.
const fn per_block<R>() -> u64 {
    let rows = BLOCK_BYTES / size_of::<R>();
    if rows == 0 { 1 } else { rows as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Got;
    use wakepath_model::ids::{MonoNs, TaskId};

    /// Rows of which every third has the key of the one before.
    fn row(i: u64) -> Got {
        Got { futex: (i - u64::from(i % 3 == 2)) * 2, at: MonoNs(7), task: TaskId(i as u32), pad: 0 }
    }

    #[test]
    fn a_search_among_fences_finds_what_a_plain_one_does() -> Result<(), Box<dyn std::error::Error>> {
        // none, one block and a part of one, as many blocks as fences, and more
        let full = per_block::<Got>() * (FENCES_MAX + 1);
        for count in [0, 1, per_block::<Got>() + 1, full, full + 1, 5 * full + 77] {
            let dir = tempfile::tempdir()?;
            let (path, all) = (dir.path().join("gets"), (0..count).map(row).collect::<Vec<Got>>());
            fs::write(&path, bytemuck::cast_slice::<Got, u8>(&all))?;
            fs::write(dir.path().join(LENGTHS), format!("gets {}\n{LENGTHS_END}", fs::metadata(&path)?.len()))?;
            let mut store = Store::of(dir.path())?;
            let rows = store.open::<Got>(&path)?;
            assert!(rows.fences.borrow().len() as u64 <= FENCES_MAX);
            for i in (0..1000).map(|i| i * (count + 1) / 1000).chain([0, count.saturating_sub(1), count]) {
                for key in [(i * 2, 7, 0), (i * 2, 6, 0), (i * 2, 8, 0), (i * 2 + 1, 0, 0)] {
                    let plain = all.partition_point(|r| r.key() < key) as u64;
                    assert_eq!(store.lower_bound(&rows, key), plain, "{key:?} of {count}");
                    assert_eq!(store.get(&rows, plain), all.get(plain as usize).copied());
                }
            }
            assert_eq!(store.failed(), 0);
        }
        Ok(())
    }
}
