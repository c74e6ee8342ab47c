//! Threads that leave something in memory for a loop of their process to take up: what came of an answer that they read, or of a job that
//! a task gave them that takes requests. Until when they may.

use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow};

/// A thread may take so many times as long as any of its process was seen to take.
const MARGIN: u64 = 4;
/// Most threads of a process that are told apart; those beyond are done when they have the answer.
const THREADS_MAX: usize = 4096;

/// Those of one process. A thread has left what it got when it sleeps or calls next; that it sleeps shows only when it wakes. Until then
/// it may still be at it, for a few times as long as any was before.
#[derive(Default)]
pub(super) struct Carriers {
    /// Who has an answer or a job, and since when.
    at_it: FxHashMap<TaskId, MonoNs>,
    /// Who was ever given a job.
    workers: FxHashSet<TaskId>,
    /// When one had left what it got, last.
    left: MonoNs,
    /// How long one took at most (ns).
    longest: u64,
    /// Sleeps are recorded.
    sees_sleeps: bool,
}

impl Carriers {
    /// A thread reads an answer.
    pub(super) fn heard(&mut self, thread: TaskId, at: MonoNs) {
        self.left = self.left.max(at);
        self.begins(thread, at);
    }

    fn begins(&mut self, thread: TaskId, at: MonoNs) {
        if self.at_it.len() < THREADS_MAX || self.at_it.contains_key(&thread) {
            self.at_it.insert(thread, at);
        }
    }

    /// A thread calls, or slept: it has left what it got.
    pub(super) fn is_done(&mut self, thread: TaskId, at: MonoNs) {
        if let Some(heard) = self.at_it.remove(&thread).filter(|_| self.sees_sleeps) {
            self.left = self.left.max(at);
            self.longest = self.longest.max(at.0.saturating_sub(heard.0));
        }
    }

    /// A wait of a thread is over. `is_given`: a task that takes requests let it go on, and it takes none itself.
    pub(super) fn waited(&mut self, r: &WaitRow, is_given: bool) {
        self.sees_sleeps = true;
        match self.at_it.get(&r.task).copied().filter(|&heard| r.blocked >= heard) {
            // meanwhile it was at nothing
            Some(heard) if r.cause == EndedBy::Preempted => self.begins(r.task, heard.max(r.at)),
            Some(_) => self.is_done(r.task, r.blocked),
            None => {}
        }
        if is_given && self.workers.len() < THREADS_MAX {
            self.workers.insert(r.task);
        }
        // it goes on with the job, whatever ended a wait amid that
        if r.cause != EndedBy::Preempted && self.workers.contains(&r.task) {
            self.begins(r.task, r.at);
        }
    }

    /// Until when one may have left something, as far as is known at a moment; 0 where none did.
    pub(super) fn until(&self, at: MonoNs) -> MonoNs {
        if !self.sees_sleeps {
            return self.left;
        }
        let may_take = if self.longest == 0 { u64::MAX } else { self.longest.saturating_mul(MARGIN) };
        // of all that are at it, the one that began last may leave something last
        let at_it =
            self.at_it.values().max().map(|heard| MonoNs(heard.0.saturating_add(may_take).min(at.0.max(heard.0))));
        at_it.unwrap_or_default().max(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(task: u32, blocked: u64, at: u64, cause: EndedBy) -> WaitRow {
        WaitRow { task: TaskId(task), blocked: MonoNs(blocked), at: MonoNs(at), cause, ..WaitRow::default() }
    }

    #[test]
    fn who_has_an_answer_may_leave_it_until_it_sleeps_or_a_few_times_as_long_as_ever() {
        let mut c = Carriers::default();
        let until = |c: &Carriers, at| c.until(MonoNs(at)).0;
        assert_eq!(until(&c, 5), 0);
        c.heard(TaskId(1), MonoNs(100));
        // nobody sees sleeps: as soon as it has it
        assert_eq!(until(&c, 500), 100);
        c.waited(&wait(9, 10, 20, EndedBy::Task), false);
        assert_eq!(until(&c, 500), 500);
        c.waited(&wait(1, 150, 900, EndedBy::Task), false);
        assert_eq!(until(&c, 1000), 150);
        // it took 50: another is at it for four times as long at most
        c.heard(TaskId(2), MonoNs(2000));
        assert_eq!((until(&c, 2100), until(&c, 9000)), (2100, 2200));
        // without a processor it is not at it
        c.waited(&wait(2, 2010, 5000, EndedBy::Preempted), false);
        assert_eq!(until(&c, 9000), 5200);
        c.is_done(TaskId(2), MonoNs(5010));
        assert_eq!(until(&c, 9000), 5010);
    }

    #[test]
    fn who_was_given_a_job_may_leave_what_came_of_it_whenever_it_runs() {
        let mut c = Carriers::default();
        let until = |c: &Carriers, at| c.until(MonoNs(at)).0;
        // nobody gave it any
        c.waited(&wait(1, 10, 50, EndedBy::Timer), false);
        assert_eq!(until(&c, 60), 0);
        c.waited(&wait(1, 70, 100, EndedBy::Task), true);
        assert_eq!(until(&c, 140), 140);
        // it sleeps amid the job, and has the result after that
        c.waited(&wait(1, 150, 300, EndedBy::Timer), false);
        assert_eq!((until(&c, 310), until(&c, 9000)), (310, 500));
        c.waited(&wait(1, 320, 400, EndedBy::Task), false);
        assert_eq!(until(&c, 400), 400);
    }
}
