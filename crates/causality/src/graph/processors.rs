//! Who had a processor, from one switch to the next.

use super::Index;
use wakepath_model::ids::{HostId, MonoNs, TaskId};

/// An interval in which a task had a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Who.
    pub task: TaskId,
    /// From when.
    pub from: MonoNs,
    /// Until when.
    pub to: MonoNs,
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

    /// When `task`, which came onto a processor at `at`, left it: where its next wait began. One that ends goes on for a
    /// while, and leaves to whoever comes next.
    pub fn left(&self, host: HostId, task: TaskId, at: MonoNs) -> Option<MonoNs> {
        let next = self.waits_from(host, task, at);
        self.wait(host, task, next).map(|w| w.blocked)
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
            let to = self.index.left(self.host, came.task, came.at).map_or(self.until, |t| t.min(self.until));
            let from = came.at.max(self.from);
            self.until = came.at;
            if to > from {
                return Some(Held { task: came.task, from, to });
            }
        }
        self.until = self.from;
        None
    }
}
