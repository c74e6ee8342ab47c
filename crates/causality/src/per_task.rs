//! Something about each task, found by its id alone: small values of all, or large ones of some.

use rustc_hash::FxHashMap;
use wakepath_flows::places::Places;
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

/// Values of tasks that come and go.
pub(crate) struct OfTasks<T> {
    /// One more than the place of each task's value; 0: it has none.
    places: PerTask<u32>,
    values: Places<(Option<TaskId>, T)>,
    free: Vec<u32>,
}

impl<T> Default for OfTasks<T> {
    fn default() -> Self {
        OfTasks { places: PerTask::default(), values: Places::default(), free: Vec::new() }
    }
}

impl<T: Default> OfTasks<T> {
    fn place(&self, task: TaskId) -> Option<u32> {
        self.places.get(task).checked_sub(1)
    }

    /// Whether the task has a value.
    pub(crate) fn contains(&self, task: TaskId) -> bool {
        self.place(task).is_some()
    }

    /// The task's value.
    pub(crate) fn get(&self, task: TaskId) -> Option<&T> {
        self.place(task).map(|place| &self.values[place].1)
    }

    /// The task's value, to be changed.
    pub(crate) fn get_mut(&mut self, task: TaskId) -> Option<&mut T> {
        self.place(task).map(|place| &mut self.values[place].1)
    }

    /// The task's value, made where there is none.
    pub(crate) fn or_default(&mut self, task: TaskId) -> &mut T {
        let place = self.place(task).unwrap_or_else(|| self.add(task));
        &mut self.values[place].1
    }

    #[cold]
    fn add(&mut self, task: TaskId) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| self.values.push((None, T::default())));
        self.values[place].0 = Some(task);
        *self.places.entry(task) = place + 1;
        place
    }

    /// Takes the task's value away.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some(place) = self.place(task) {
            *self.places.entry(task) = 0;
            self.values[place] = (None, T::default());
            self.free.push(place);
        }
    }

    /// All values, to be changed, in no order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().filter(|(task, _)| task.is_some()).map(|(_, value)| value)
    }

    /// All tasks that have a value, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TaskId, &T)> {
        self.values.iter().filter_map(|(task, value)| Some(((*task)?, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn says_what_a_table_would(steps in proptest::collection::vec((any::<bool>(), 0u32..300_000, 0u32..4), 0..300)) {
            let (mut of_tasks, mut table) = (OfTasks::<usize>::default(), FxHashMap::default());
            for (i, (is_new, far, near)) in steps.into_iter().enumerate() {
                let task = TaskId(if i % 3 == 0 { far } else { near });
                prop_assert_eq!(of_tasks.get(task), table.get(&task));
                prop_assert_eq!(of_tasks.get_mut(task), table.get_mut(&task));
                if is_new {
                    *of_tasks.or_default(task) += i;
                    *table.entry(task).or_default() += i;
                } else {
                    of_tasks.remove(task);
                    table.remove(&task);
                }
                prop_assert_eq!(of_tasks.contains(task), table.contains_key(&task));
            }
            let mut all: Vec<(TaskId, usize)> = of_tasks.iter().map(|(t, v)| (t, *v)).collect();
            let mut expected: Vec<(TaskId, usize)> = table.into_iter().collect();
            all.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }

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
