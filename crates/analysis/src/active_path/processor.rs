//! Running, and ready to run: which other tasks had the processor meanwhile.

use super::*;

impl Walk<'_> {
    /// The task ran from `from` to the cursor.
    pub(super) fn running(&mut self, f: &Frame, from: CommonNs, after: Option<&WaitRow>) {
        let index = self.index;
        let local = |t| index.timeline().local(f.host, t);
        if from >= self.at {
            return;
        }
        let (a, b) = (local(from), local(self.at));
        if index.lost_between(f.host, a, b) {
            let displaced = after.and_then(|w| index.displaced(f.host, f.task, w.cpu, w.at, b));
            if let Some(left) = displaced {
                let left = index.common(f.host, left);
                self.tell(f, left.max(from), State::Unknown, because(reasons::LOST));
            }
            self.tell(f, from, State::Running, because(reasons::MAYBE_LOST));
            return;
        }
        let is_busy = b.0.saturating_sub(a.0) >= BUSY_FROM_NS && index.polls_busily(f.host, f.task, a, b, BUSY_NS);
        match () {
            () if is_busy => self.tell(f, from, State::Running, because(reasons::BUSY)),
            // it may as well have waited
            () if index.is_by_library(f.host) => self.tell(f, from, State::Unknown, because(reasons::NO_KERNEL)),
            () => {
                self.ran_amid_others(f, from);
                self.tell(f, from, State::Running, What::default());
            }
        }
    }

    /// The task was ready from `woken` to the cursor, and another had the processor.
    pub(super) fn ready(&mut self, f: &Frame, woken: CommonNs, w: &WaitRow) {
        self.held_up(f, woken.max(f.floor), &[w.cpu], &What::default());
    }

    /// The task lost its processor at the frame's floor, and could have run since.
    pub(super) fn preempted(&mut self, f: &Frame, w: &WaitRow, what: What) {
        let index = self.index;
        if w.object == QUOTA {
            // who had the processor meanwhile did not keep it from this one
            self.tell(f, f.floor, State::Preempted, What { reason: Some(reasons::QUOTA), ..what });
            return;
        }
        // it waited where it had run, and may have been moved to where it ran next
        let before = f.place.checked_sub(1).and_then(|p| index.wait(f.host, f.task, p));
        let was_on = before.filter(|b| b.cause != EndedBy::Open && b.at <= w.blocked).map_or(w.cpu, |b| b.cpu);
        let cpus = [was_on, w.cpu];
        // the record names who came next, also where that one's own records do not
        let first = (w.by != TaskId::UNKNOWN && w.by != f.task).then_some(w.by);
        let until = first.map_or(w.blocked, |by| {
            let end = index.timeline().local(f.host, self.at);
            let left = index.left(f.host, by, w.blocked);
            let left = left.or_else(|| index.stayed_until(f.host, was_on, by, w.blocked));
            left.or_else(|| index.displaced(f.host, by, was_on, w.blocked, end)).unwrap_or(end)
        });
        let cpus = if was_on == w.cpu { &cpus[..1] } else { &cpus[..] };
        self.held_up(f, index.common(f.host, until).max(f.floor), cpus, &what);
        let by = first.map(|t| (f.host, t));
        self.tell(f, f.floor, State::Preempted, What { by, ..what });
    }

    /// Others had the processor from a moment to the cursor: who it was, switch by switch. Where nobody is known to have
    /// had the first of `cpus`, who had the next.
    pub(super) fn held_up(&mut self, f: &Frame, from: CommonNs, cpus: &[u16], what: &What) {
        let index = self.index;
        let Some((&cpu, others)) = cpus.split_first() else {
            self.tell(f, from, State::Preempted, What { reason: Some(reasons::LATENCY), ..what.clone() });
            return;
        };
        if from >= self.at {
            return;
        }
        let local = |t| index.timeline().local(f.host, t);
        for (count, held) in index.holders(f.host, cpu, local(from), local(self.at)).enumerate() {
            if count >= SWITCHES_MAX {
                self.tell(f, from, State::Preempted, What { reason: Some(reasons::SWITCHES), ..what.clone() });
                return;
            }
            // rows that contradict each other: who waits has no processor
            if held.task == f.task {
                continue;
            }
            let (began, ended) = (index.common(f.host, held.from), index.common(f.host, held.to));
            if ended < self.at {
                self.held_up(f, ended.max(from), others, what);
            }
            let by = Some((f.host, held.task));
            self.tell(f, began.max(from), State::Preempted, What { by, ..what.clone() });
        }
        if from < self.at {
            self.held_up(f, from, others, what);
        }
    }
}
