//! What was seen lately: a map that forgets what came first.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// How many are remembered.
const MOST: usize = 1 << 14;

/// The last 16,384 different keys, in the order in which they were first seen.
pub(crate) struct Remembered<K, V> {
    of: FxHashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Remembered { of: FxHashMap::default(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Remembered<K, V> {
    /// What is remembered of a key.
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.of.get(&key)
    }

    /// The same, to be changed; the oldest makes room for a new one.
    pub(crate) fn at(&mut self, key: K) -> &mut V {
        if !self.of.contains_key(&key) {
            if self.order.len() == MOST
                && let Some(oldest) = self.order.pop_front()
            {
                self.of.remove(&oldest);
            }
            self.order.push_back(key);
        }
        self.of.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let mut seen: Remembered<usize, u32> = Remembered::default();
        for key in 0..=MOST {
            *seen.at(key) += 1;
            *seen.at(key) += 1;
        }
        assert_eq!((seen.get(0), seen.get(1), seen.get(MOST)), (None, Some(&2), Some(&2)));
        assert_eq!((seen.of.len(), seen.order.len()), (MOST, MOST));
    }
}
