//! Something large about some tasks, found by their ids alone.

use crate::dense::PerTask;
use wakepath_flows::places::Places;
use wakepath_model::ids::TaskId;

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
    use rustc_hash::FxHashMap;

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
}
