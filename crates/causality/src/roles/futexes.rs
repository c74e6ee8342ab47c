//! Who waits at which futex: a wait where one task alone ever waits was for that task, a wait at a lock for none in particular.

use super::{FUTEX, Roles};
use crate::process::ProcessId;
use crate::process::known::Does;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow};

/// Most futexes told apart; those beyond count as shared.
const FUTEXES_MAX: usize = 200_000;

/// What two words of one object have in common: a condition variable of glibc has two, of which its waiters use one and then the other.
const WORDS: u64 = !7;

impl Roles {
    fn futex_of(&self, r: &WaitRow) -> (ProcessId, u64) {
        (self.process_of(r.task), r.arg0 & WORDS)
    }

    /// A task waited at a futex.
    pub fn futex(&mut self, r: &WaitRow) {
        let key = self.futex_of(r);
        if self.futexes.len() < FUTEXES_MAX || self.futexes.contains_key(&key) {
            let takes = self.role(r.task).has(Does::Take);
            let (who, kinds) = self.futexes.entry(key).or_insert((r.task, [false; 2]));
            if *who != r.task {
                *who = TaskId::UNKNOWN;
            }
            kinds[usize::from(takes)] = true;
        }
    }

    /// A wait ended, once all else was seen: who is given work, or gives any.
    pub(crate) fn waited(&mut self, r: &WaitRow) {
        // locks within the kernel, as of a process's memory, hand over no work
        if self.consumers.are_none()
            || r.is_uninterruptible()
            || matches!(r.cause, EndedBy::Preempted | EndedBy::Open | EndedBy::Timer)
        {
            return;
        }
        let is_of_one = r.by == TaskId::UNKNOWN || self.process_of(r.by) == self.process_of(r.task);
        let is_own = matches!(r.cause, EndedBy::Task | EndedBy::Unknown) && is_of_one;
        self.consumers.waited(r, r.syscall == FUTEX, is_own);
    }

    /// Since when a thread has been in a loop in which it asks for work; none where it has none, or may be given work otherwise.
    pub(crate) fn consumes_since(&self, task: TaskId) -> Option<MonoNs> {
        let (process, role) = (self.process_of(task), self.role(task));
        self.consumers
            .since(task, role.has(Does::Take) || role.has(Does::ReplyForOthers), |at| self.is_lock_at(process, at))
    }

    /// Whether a wait can only have been for this task: not at a futex where others wait too, as at a lock's.
    pub fn is_private(&self, r: &WaitRow) -> bool {
        r.syscall != FUTEX || self.futexes.get(&self.futex_of(r)).is_some_and(|f| f.0 == r.task)
    }

    /// Whether a wait was for a lock: who takes requests waits there too, and so does who takes none. (Where a task waits for
    /// work, only such wait that take up the same work.)
    pub fn is_lock(&self, r: &WaitRow) -> bool {
        r.syscall == FUTEX && self.is_lock_at(self.process_of(r.task), r.arg0)
    }

    /// The same of a futex of a process.
    pub(super) fn is_lock_at(&self, process: ProcessId, futex: u64) -> bool {
        self.futexes.get(&(process, futex & WORDS)).is_some_and(|f| f.1 == [true; 2])
    }
}
