//! Logical tasks: what they waited for inside their program, and which of them threads ran.

use super::Index;
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{ParkRow, RuntimeKind};

impl Index {
    /// The last wait of a logical task inside its program that had ended at a moment.
    pub fn park_before(&self, host: HostId, task: TaskId, at: MonoNs) -> Option<ParkRow> {
        let h = self.rows(host)?;
        let place = self.store.lower_bound(&h.besides.parks, (u64::from(task.0), at.0.saturating_add(1), 0));
        self.store.get(&h.besides.parks, place.checked_sub(1)?).filter(|p| p.task == task)
    }

    /// Since when a thread worked for one logical task alone until a moment, as far as samples tell; `None` where none does after `from`.
    pub fn ran_for_since(
        &self,
        host: HostId,
        task: TaskId,
        logical: TaskId,
        from: MonoNs,
        to: MonoNs,
    ) -> Option<MonoNs> {
        let h = self.rows(host)?;
        let named = self.store.get(&h.tasks, self.store.lower_bound(&h.tasks, (u64::from(logical.0), 0, 0)))?;
        let key = (named.task == logical && named.runtime != RuntimeKind::None).then_some(named.key)?;
        let mut place = self.store.lower_bound(&h.besides.ran, (u64::from(task.0), to.0, 0));
        let mut before = || {
            place = place.checked_sub(1)?;
            let ran = self.store.get(&h.besides.ran, place)?;
            (ran.task == task && ran.key == key && ran.at >= from).then_some(ran.at)
        };
        std::iter::from_fn(&mut before).last()
    }
}
