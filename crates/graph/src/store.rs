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
const BLOCK_BYTES: usize = 8 << 10;
/// Blocks held: 2 MiB at most, whatever the size of the files; what falls out is still in the kernel's cache.
const SLOTS: usize = 256;

/// A longer list of an index's files is none.
const LENGTHS_BYTES_MAX: u64 = 16 << 20;

/// Sorted files, opened for reading.
pub struct Store {
    /// How long each file was made, by name.
    lengths: FxHashMap<String, u64>,
    files: Vec<File>,
    slots: RefCell<Vec<Slot>>,
    failed: Cell<u64>,
}

#[derive(Clone, Default)]
struct Slot {
    file: u32,
    block: u64,
    bytes: Vec<u8>,
}

/// The rows of one sorted file.
pub struct Rows<R> {
    file: u32,
    count: u64,
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
        let slots = RefCell::new(vec![Slot::default(); SLOTS]);
        Ok(Store { lengths: lengths.collect(), files: Vec::new(), slots, failed: Cell::new(0) })
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
        // 0 marks an empty slot
        Ok(Rows { file: self.files.len() as u32, count, of: PhantomData })
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
        let per_block = (BLOCK_BYTES / size_of::<R>()).max(1) as u64;
        let (block, within) = (index / per_block, (index % per_block) as usize);
        let place = (block.wrapping_mul(31).wrapping_add(u64::from(rows.file).wrapping_mul(977)) as usize) % SLOTS;
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[place];
        if slot.file != rows.file || slot.block != block {
            let count = per_block.min(rows.count - block * per_block) as usize;
            slot.bytes.resize(count * size_of::<R>(), 0);
            let at = block * per_block * size_of::<R>() as u64;
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
        let (mut low, mut high) = (0, rows.count);
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
}
