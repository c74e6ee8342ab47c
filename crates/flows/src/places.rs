//! Values that stay where they are while others come and go.

use std::ops::{Index, IndexMut};

/// Values of a chunk: a power of two.
const CHUNK: usize = 256;

/// Values by place, in chunks: growing moves none of them, and takes memory for those that come alone.
pub struct Places<T> {
    chunks: Vec<Vec<T>>,
    count: u32,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Places { chunks: Vec::new(), count: 0 }
    }
}

impl<T> Places<T> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Adds a value after the others; gives its place.
    pub fn push(&mut self, value: T) -> u32 {
        let place = self.count;
        if self.chunks.last().is_none_or(|c| c.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(value);
        }
        self.count += 1;
        place
    }

    /// The value at a place, where there is one.
    pub fn get(&self, place: u32) -> Option<&T> {
        self.chunks.get(place as usize / CHUNK)?.get(place as usize % CHUNK)
    }

    /// The value at a place, to be changed.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.chunks.get_mut(place as usize / CHUNK)?.get_mut(place as usize % CHUNK)
    }

    /// All of them, in order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// All of them, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }
}

impl<T> Index<u32> for Places<T> {
    type Output = T;

    fn index(&self, place: u32) -> &T {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Places<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}
