//! Waits for futexes: which of them are known to be for a lock.

use super::records::{Interpreter, is_futex};
use super::{HostRows, Index};
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow};

/// Most waits of a task that are looked at for whether it had taken a futex.
const TAKEN_MAX: u64 = 256;
impl Index {
    /// Whether a wait was for a futex on which tasks wait as CPython's do for its interpreter lock.
    pub fn is_on_an_interpreter(&self, host: HostId, w: &WaitRow) -> bool {
        let is = |h: &HostRows| {
            let it = Interpreter::of(w);
            let place = self.store.lower_bound(&h.besides.interpreters, (it.futex, 0, 0));
            self.store.get(&h.besides.interpreters, place) == Some(it)
        };
        is_futex(w) && self.rows(host).is_some_and(is)
    }

    /// Whether `task` had last waited for this futex too until another task let it have it, before a moment: what it let go of
    /// then, it had taken.
    pub fn had_taken(&self, host: HostId, task: TaskId, futex: u64, at: MonoNs) -> bool {
        let after = self.waits_from(host, task, at);
        let before = (after.saturating_sub(TAKEN_MAX)..after).rev().map_while(|place| self.wait(host, task, place));
        let last = before.into_iter().find(|w| is_futex(w) && w.arg0 == futex && w.cause != EndedBy::Preempted);
        last.is_some_and(|w| w.cause == EndedBy::Task && w.at <= at)
    }
}
