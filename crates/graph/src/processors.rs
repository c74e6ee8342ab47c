//! Who had a processor, from one switch to the next.

use super::Index;
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::gaps;

/// Stays on a processor that are looked at around a moment.
const STAYS_NEAR: u64 = 4;
/// Most that lies between two times of one switch.
const SWITCH_NS: u64 = 1_000;

/// An interval in which a task had a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Who.
    pub task: TaskId,
    /// From when.
    pub from: MonoNs,
    /// Until when.
    pub to: MonoNs,
    /// Whether it was recorded when it left; else it is given until whoever came next.
    pub is_end_known: bool,
}

/// Who had a processor between two moments, last first. Where nobody is known to have had it nothing is given: it was
/// idle, or its task's coming was not recorded (the first time that a new task runs, a lost record).
pub struct Holders<'a> {
    index: &'a Index,
    host: HostId,
    cpu: u16,
    /// Place of the next one to be given, one past.
    place: u64,
    from: MonoNs,
    until: MonoNs,
}

impl Index {
    /// Who had processor `cpu` between two moments, last first.
    pub fn holders(&self, host: HostId, cpu: u16, from: MonoNs, to: MonoNs) -> Holders<'_> {
        let key = (u64::from(cpu), to.0, 0);
        let place = self.rows(host).map_or(0, |h| self.store.lower_bound(&h.cpus, key));
        Holders { index: self, host, cpu, place, from, until: to }
    }

    /// The processors of a host that tasks are known to have had, in order.
    pub fn processors(&self, host: HostId) -> Vec<u16> {
        let mut out = Vec::new();
        let Some(h) = self.rows(host) else { return out };
        let mut place = 0;
        while let Some(came) = self.store.get(&h.cpus, place) {
            out.extend(u16::try_from(came.cpu));
            place = self.store.lower_bound(&h.cpus, (u64::from(came.cpu) + 1, 0, 0));
        }
        out
    }

    /// When `task`, which came onto a processor at `at`, left it: where its next wait began, as far as that was recorded. One that
    /// ends goes on for a while, and leaves to whoever comes next.
    pub fn left(&self, host: HostId, task: TaskId, at: MonoNs) -> Option<MonoNs> {
        let next = self.waits_from(host, task, at);
        self.wait(host, task, next).filter(|w| w.gaps & gaps::BEFORE == 0).map(|w| w.blocked)
    }

    /// When `task`, which took processor `cpu` at `at`, left it, where it was told of as one that is not selected.
    pub fn stayed_until(&self, host: HostId, cpu: u16, task: TaskId, at: MonoNs) -> Option<MonoNs> {
        let h = self.rows(host)?;
        // its stay may begin a moment before the wait of who made room for it
        let after = self.store.lower_bound(&h.cpus, (u64::from(cpu), at.0.saturating_add(1), 0));
        let stays =
            (after.saturating_sub(STAYS_NEAR)..after + STAYS_NEAR).rev().filter_map(|i| self.store.get(&h.cpus, i));
        let mut its =
            stays.filter(|c| c.cpu == u32::from(cpu) && c.task == task && c.left > at && c.at.0 <= at.0 + SWITCH_NS);
        its.next().map(|c| c.left)
    }
}

impl Iterator for Holders<'_> {
    type Item = Held;

    fn next(&mut self) -> Option<Held> {
        let h = self.index.rows(self.host)?;
        while self.until > self.from {
            let next = self.place.checked_sub(1).and_then(|p| self.index.store.get(&h.cpus, p));
            let Some(came) = next.filter(|c| c.cpu == u32::from(self.cpu)) else { break };
            self.place -= 1;
            // it may have gone before the next one came
            let left = match came.left {
                MonoNs(0) => self.index.left(self.host, came.task, came.at),
                left => Some(left),
            };
            let to = left.map_or(self.until, |t| t.min(self.until));
            let from = came.at.max(self.from);
            self.until = came.at;
            if to > from {
                return Some(Held { task: came.task, from, to, is_end_known: left.is_some() });
            }
        }
        self.until = self.from;
        None
    }
}
