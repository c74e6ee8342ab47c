//! What moves in one direction of a flow, and which messages explain it.

use smallvec::SmallVec;
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{OPEN, OpRow};

/// Bytes that moved in one direction and are not yet part of a finished exchange.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) task: TaskId,
    pub(super) actor: TaskId,
    pub(super) entry: MonoNs,
    pub(super) at: MonoNs,
    pub(super) arrived: MonoNs,
    /// By which system call the first of them.
    pub(super) syscall: u16,
}

impl Span {
    pub(super) fn of(r: &OpRow) -> Span {
        Span {
            start: r.start,
            end: r.end,
            task: r.task,
            actor: r.actor(),
            entry: r.entry,
            at: r.at,
            arrived: r.arrived,
            syscall: r.syscall,
        }
    }
}

/// How long (ns) a reader that had read up to `read` waited until its peer had sent what it reads next.
pub(super) fn unsent_ns(read: MonoNs, next: &OpRow) -> u64 {
    let (sent, since) = match next.arrived {
        MonoNs(0) => (next.at, read.max(next.entry)),
        arrived => (arrived, read),
    };
    sent.0.saturating_sub(since.0)
}

/// Most spans kept a direction: a head of more pieces loses the times of the oldest.
const SPANS: usize = 32;

/// What moves in one direction.
#[derive(Default)]
pub(super) struct Direction {
    pub(super) spans: SmallVec<[Span; 1]>,
    /// How far bytes moved, and how far messages explain them.
    pub(super) moved_to: u64,
    pub(super) explained_to: u64,
    /// Messages whose ends are not told yet, though the next one began: what was found at once is told heads first.
    pub(super) due: SmallVec<[Due; 1]>,
}

/// A message whose end must be told.
pub(super) struct Due {
    pub(super) start: u64,
    /// Where the next one began: it must end there.
    pub(super) end: u64,
    /// When that was found. Its end was found before.
    pub(super) at: MonoNs,
}

/// Most messages of a flow whose ends are waited for.
const DUE_MAX: usize = 1024;

impl Direction {
    /// A message began after the last one, of which `is_open` says whether its end is not told yet: whether it may still be told that
    /// nothing lies between them.
    pub(super) fn may_end_at(&mut self, start: u64, at: MonoNs, is_open: bool) -> bool {
        let may = is_open && self.due.len() < DUE_MAX;
        if may {
            self.due.push(Due { start: self.explained_to, end: start, at });
        }
        may
    }

    /// Whether something lies behind a message that ends here, before the next one.
    pub(super) fn leaves_gap(&mut self, start: u64, end: u64) -> bool {
        let due = self.due.iter().position(|due| due.start == start).map(|i| self.due.remove(i));
        due.is_some_and(|due| due.end != end)
    }

    /// Whether an end that should have been told before this time was not.
    pub(super) fn is_overdue(&self, at: MonoNs) -> bool {
        self.due.first().is_some_and(|due| due.at < at)
    }

    /// An operation that moved bytes; `goes_on`: with those of the one before it, if that was the same task's.
    pub(super) fn push(&mut self, r: &OpRow, goes_on: bool) {
        // consecutive operations of one task are one (Algorithm 1, line 5)
        match self.spans.last_mut() {
            Some(b) if b.end == r.start && b.actor == r.actor() && goes_on => {
                b.end = r.end;
                b.at = r.at;
            }
            _ => {
                if self.spans.len() == SPANS {
                    self.spans.remove(0);
                }
                self.spans.push(Span::of(r));
            }
        }
    }

    /// How long (ns) those who read what begins at `start` waited until the peer had sent the rest of it.
    pub(super) fn unsent_since(&self, start: u64) -> u64 {
        let parts = || self.spans.iter().filter(|s| s.end > start);
        let between = parts().zip(parts().skip(1)).map(|(a, b)| b.arrived.0.saturating_sub(a.at.0));
        between.fold(0, u64::saturating_add)
    }

    /// Forgets what moved bytes that messages explain: a message that is told of later begins behind them.
    pub(super) fn forget_explained(&mut self) {
        if self.explained_to != OPEN && self.spans.last().is_some_and(|s| s.end <= self.explained_to) {
            self.spans.clear();
        }
    }

    /// Forgets what moved bytes before this one.
    pub(super) fn forget_before(&mut self, start: u64) {
        let count = self.spans.iter().take_while(|s| s.end <= start).count();
        self.spans.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(task: u32, at: u64, arrived: u64, bytes: std::ops::Range<u64>) -> OpRow {
        let (at, arrived) = (MonoNs(at), MonoNs(arrived));
        OpRow { at, entry: at, arrived, start: bytes.start, end: bytes.end, task: TaskId(task), ..OpRow::default() }
    }

    #[test]
    fn what_the_client_sent_late_is_not_the_readers_time() {
        let mut d = Direction::default();
        // one task reads three parts, of which the third had come before it asked, and another the fourth
        for r in [read(1, 100, 90, 10..20), read(1, 600, 590, 20..30), read(1, 700, 595, 30..40)] {
            d.push(&r, false);
        }
        assert_eq!(d.unsent_since(10), 490);
        d.push(&read(2, 1_000, 900, 40..50), false);
        assert_eq!(d.unsent_since(10), 690);
        assert_eq!((d.unsent_since(25), d.unsent_since(40)), (200, 0));
    }
}
