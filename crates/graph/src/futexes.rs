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

    /// Whether `task` had last waited for the futex of `w` too until another task let it have it, before a moment, and nobody of its
    /// process had got it since: what it let go of then, it had taken. At a condition, several may go on before one of them signals.
    pub fn had_taken(&self, host: HostId, task: TaskId, w: &WaitRow, at: MonoNs) -> bool {
        let futex = w.arg0;
        let after = self.waits_from(host, task, at);
        let before = (after.saturating_sub(TAKEN_MAX)..after).rev().map_while(|place| self.wait(host, task, place));
        let last = before.into_iter().find(|w| is_futex(w) && w.arg0 == futex && w.cause != EndedBy::Preempted);
        let got = last.filter(|w| w.cause == EndedBy::Task && w.at <= at);
        got.is_some_and(|got| !self.is_got_between(host, w, got.at, at))
    }

    /// Whether a task of a process went on from the futex of `w` after one moment and before another.
    fn is_got_between(&self, host: HostId, w: &WaitRow, from: MonoNs, to: MonoNs) -> bool {
        let Some(h) = self.rows(host) else { return true };
        let process = |task| self.program(host, task).map(|p| p.0);
        let (futex, own) = (Interpreter::of(w).futex, process(w.task));
        let first = self.store.lower_bound(&h.besides.gets, (futex, from.0.saturating_add(1), 0));
        let mut gets = (first..first.saturating_add(TAKEN_MAX))
            .map_while(|place| self.store.get(&h.besides.gets, place).filter(|g| g.futex == futex && g.at < to));
        gets.any(|g| process(g.task) == own)
    }
}
