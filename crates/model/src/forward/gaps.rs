//! Which frames of a sender did not come, and how many rows they had.

use crate::ids::MonoNs;
use std::collections::VecDeque;

/// Gaps that are kept open for frames that come late; then the oldest is given up.
const OPEN_MAX: usize = 256;

/// Rows that did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub rows: u64,
    /// The sender's time before them.
    pub from: MonoNs,
    /// The sender's time after them.
    pub at: MonoNs,
    /// They were sent before the first frame that came: perhaps nothing was listening then.
    pub is_before: bool,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    /// First frame, and one past the last.
    frames: (u64, u64),
    /// Rows in all frames before the gap.
    rows_before: u64,
    rows: u64,
    from: MonoNs,
    at: MonoNs,
    /// When it was noticed, on the receiver's clock.
    noticed_ns: u64,
    is_before: bool,
}

/// The frames of one sender, in whatever order they come.
#[derive(Debug, Default)]
pub struct Gaps {
    next: u64,
    rows_before: u64,
    newest: MonoNs,
    /// Something came of this sender.
    is_heard: bool,
    open: VecDeque<Gap>,
    given_up: VecDeque<Gap>,
}

impl Gaps {
    /// The number of the frame after the last one that came.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A frame with `rows` rows came at `now_ns` of the receiver's clock. Says whether it is a new one; another is to be left out.
    pub fn frame(&mut self, sequence: u64, rows_before: u64, rows: u64, base: MonoNs, now_ns: u64) -> bool {
        if sequence >= self.next {
            self.total(sequence, rows_before, base, now_ns);
            self.next = sequence.saturating_add(1);
            self.rows_before = rows_before.saturating_add(rows);
            return true;
        }
        let Some(i) = self.open.iter().position(|g| (g.frames.0..g.frames.1).contains(&sequence)) else {
            return false;
        };
        let Some(gap) = self.open.remove(i) else { return false };
        // what is left of the gap before and behind the frame; a sender's wrong numbers must not make rows of nothing
        let rows_end = gap.rows_before.saturating_add(gap.rows);
        let start = rows_before.clamp(gap.rows_before, rows_end);
        let end = rows_before.saturating_add(rows).clamp(start, rows_end);
        let behind = Gap {
            frames: (sequence + 1, gap.frames.1),
            rows_before: end,
            rows: rows_end - end,
            from: base.clamp(gap.from, gap.at.max(gap.from)),
            is_before: false,
            ..gap
        };
        let before = Gap { frames: (gap.frames.0, sequence), rows: start - gap.rows_before, at: behind.from, ..gap };
        for left in [behind, before] {
            if left.frames.0 < left.frames.1 {
                self.open.insert(i, left);
            }
        }
        self.bound();
        true
    }

    /// The sender says that its next frame is `sequence` and that it has sent so many rows, the last of them at `at`.
    pub fn total(&mut self, sequence: u64, rows: u64, at: MonoNs, now_ns: u64) {
        if sequence > self.next {
            self.open.push_back(Gap {
                frames: (self.next, sequence),
                rows_before: self.rows_before,
                rows: rows.saturating_sub(self.rows_before),
                from: self.newest,
                at: at.max(self.newest),
                noticed_ns: now_ns,
                is_before: !self.is_heard,
            });
            self.next = sequence;
            self.rows_before = rows.max(self.rows_before);
            self.bound();
        }
        self.newest = self.newest.max(at);
        self.is_heard = true;
    }

    /// The next rows to be counted as lost: those of gaps noticed before `before_ns` of the receiver's clock.
    pub fn settle(&mut self, before_ns: u64) -> Option<Lost> {
        loop {
            let gap = match self.given_up.pop_front() {
                Some(gap) => gap,
                None if self.open.front()?.noticed_ns < before_ns => self.open.pop_front()?,
                None => return None,
            };
            // from when on the sender had sent is not known
            let from = if gap.is_before { gap.at } else { gap.from };
            if gap.rows > 0 {
                return Some(Lost { rows: gap.rows, from, at: gap.at, is_before: gap.is_before });
            }
        }
    }

    fn bound(&mut self) {
        while self.open.len() > OPEN_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            self.given_up.push_back(oldest);
        }
    }
}
