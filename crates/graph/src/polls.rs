//! When tasks polled: for what they were ready, and whether they waited for it.

use super::{Index, NEAR};
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::{OpKind, PollRow, WaitRow};

impl Index {
    /// Whether `task` polled or received without waiting, at least `least` times between two moments, and did so all the
    /// time: on average once in `every_ns`.
    pub fn polls_busily(&self, host: HostId, task: TaskId, from: MonoNs, to: MonoNs, every_ns: u64) -> bool {
        const LEAST: u64 = 8;
        let wanted = (to.0.saturating_sub(from.0) / every_ns).max(LEAST);
        let Some(h) = self.rows(host) else { return false };
        let key = |at: MonoNs| (u64::from(task.0), at.0, 0);
        let (a, b) = (self.store.lower_bound(&h.polls, key(from)), self.store.lower_bound(&h.polls, key(to)));
        if b - a >= wanted {
            // the rows between are all of the task; a sample tells whether they found nothing
            let step = ((b - a) / NEAR).max(1);
            let sample = (a..b).step_by(step as usize).filter_map(|i| self.store.get(&h.polls, i));
            let (mut empty, mut all) = (0u32, 0u32);
            for p in sample {
                all += 1;
                empty += u32::from(p.ready == 0 && p.timeout_ns < every_ns);
            }
            // a loop with callbacks to run polls without waiting, too; but it moves bytes meanwhile
            let ops = [from, to].map(|at| self.store.lower_bound(&h.ops, key(at)));
            if empty * 4 >= all * 3 && (ops[1] - ops[0]) * 4 < b - a {
                return true;
            }
        }
        let (a, b) = (self.store.lower_bound(&h.ops, key(from)), self.store.lower_bound(&h.ops, key(to)));
        if b - a < wanted {
            return false;
        }
        const EAGAIN: i32 = -11;
        let step = ((b - a) / NEAR).max(1);
        let sample = (a..b).step_by(step as usize).filter_map(|i| self.store.get(&h.ops, i));
        let (mut empty, mut all) = (0u32, 0u32);
        for o in sample {
            all += 1;
            empty += u32::from(o.kind == OpKind::Recv && o.result == EAGAIN);
        }
        empty * 4 >= all * 3
    }

    /// Whether the call to poll in which a task waited had no time-out of its own; `false` where its record is not there.
    pub fn polls_without_time_out(&self, host: HostId, w: &WaitRow) -> bool {
        let Some(h) = self.rows(host) else { return false };
        let place = self.store.lower_bound(&h.polls, (u64::from(w.task.0), w.at.0, 0));
        let poll = self.store.get(&h.polls, place).filter(|p| p.task == w.task && p.entry <= w.blocked);
        poll.is_some_and(|p| p.timeout_ns == u64::MAX)
    }

    /// Whether `task` began and ended a call to poll between two moments.
    pub fn polls_within(&self, host: HostId, task: TaskId, from: MonoNs, to: MonoNs) -> bool {
        let Some(h) = self.rows(host) else { return false };
        let first = self.store.lower_bound(&h.polls, (u64::from(task.0), from.0, 0));
        // one that was under way has ended by the next
        (first..first.saturating_add(2)).any(|place| {
            let poll = self.store.get(&h.polls, place).filter(|p| p.task == task && p.at <= to);
            poll.is_some_and(|p| p.entry >= from)
        })
    }

    /// The last poll of `task` that had returned at a moment.
    pub fn poll_before(&self, host: HostId, task: TaskId, at: MonoNs) -> Option<PollRow> {
        let h = self.rows(host)?;
        let place = self.store.lower_bound(&h.polls, (u64::from(task.0), at.0.saturating_add(1), 0));
        self.store.get(&h.polls, place.checked_sub(1)?).filter(|p| p.task == task)
    }
}
