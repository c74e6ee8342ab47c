//! Something small about each task: a vector, since task ids are counted up from 1.

use rustc_hash::FxHashMap;
use wakepath_model::ids::TaskId;

/// How far an id may be ahead of all before it and still be counted up.
const STRIDE: usize = 1 << 16;

/// A value for each task; the default for those never named. Ids come from a file: one that is far from all others
/// takes the place of one entry, not of all between.
#[derive(Debug, Default)]
pub struct PerTask<T> {
    dense: Vec<T>,
    far: FxHashMap<u32, T>,
}

impl<T: Copy + Default> PerTask<T> {
    /// The task's value.
    pub fn get(&self, task: TaskId) -> T {
        match self.dense.get(task.0 as usize) {
            Some(v) => *v,
            None => self.far.get(&task.0).copied().unwrap_or_default(),
        }
    }

    /// The task's value, to be changed.
    pub fn entry(&mut self, task: TaskId) -> &mut T {
        let at = task.0 as usize;
        if at >= self.dense.len() {
            if at >= self.dense.len() + STRIDE {
                return self.far.entry(task.0).or_default();
            }
            let end = self.dense.len();
            self.dense.resize(at + 1, T::default());
            if !self.far.is_empty() {
                // what was far is among the others now
                self.far.retain(|&id, v| match self.dense.get_mut(id as usize).filter(|_| id as usize >= end) {
                    Some(slot) => {
                        *slot = *v;
                        false
                    }
                    None => true,
                });
            }
        }
        &mut self.dense[at]
    }

    /// Every task up to the largest, and its value.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, T)> + '_ {
        let dense = self.dense.iter().enumerate().map(|(i, v)| (TaskId(i as u32), *v));
        dense.chain(self.far.iter().map(|(i, v)| (TaskId(*i), *v)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn says_what_a_map_would(steps in proptest::collection::vec((0u32..400_000, 1u8..), 0..200)) {
            let mut map = FxHashMap::default();
            let mut dense = PerTask::default();
            for &(id, v) in &steps {
                map.insert(id, v);
                *dense.entry(TaskId(id)) = v;
            }
            for &(id, _) in &steps {
                prop_assert_eq!(dense.get(TaskId(id)), map[&id]);
                prop_assert_eq!(dense.get(TaskId(id + 1)), map.get(&(id + 1)).copied().unwrap_or(0));
            }
            prop_assert_eq!(dense.iter().filter(|(_, v)| *v != 0).count(), map.len());
        }
    }

    #[test]
    fn an_absurd_id_costs_one_entry() {
        let mut dense = PerTask::<u64>::default();
        *dense.entry(TaskId(u32::MAX)) = 7;
        *dense.entry(TaskId(1)) = 3;
        assert_eq!((dense.get(TaskId(u32::MAX)), dense.get(TaskId(1)), dense.get(TaskId(2))), (7, 3, 0));
        assert!(dense.dense.len() <= STRIDE);
    }
}
