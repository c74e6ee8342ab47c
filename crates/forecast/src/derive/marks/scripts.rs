//! Marks of one machine into steps: work between marks, and queue operations that wait where the machine waited.

use crate::system::{KindId, NOT_SEEN, QueueId, StateId, Step};
use wakepath_model::defects::id as defect;

/// Steps that are held back between the end of a wait and the operation that it was for.
const HELD_MAX: usize = 64;

/// A queue that a machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    pub queue: u32,
    pub is_full: bool,
    /// The queue was as the wait says.
    pub is_true: bool,
}

/// A queue operation of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub queue: u32,
    /// The queue that stands for it in the system.
    pub through: u32,
    pub is_enqueue: bool,
    /// Items that are of interest; 0 = none.
    pub count: u64,
    /// Since when it could be done: when the items were there, or the room.
    pub possible: Option<i64>,
}

/// A step, with when it was.
#[derive(Clone, Copy, Debug)]
enum Held {
    Work { state: StateId, from: i64, to: i64 },
    Other(Step),
}

/// A wait that has ended, until it is known what for it was.
#[derive(Clone, Debug)]
struct Ended {
    from: i64,
    to: i64,
    state: u32,
    queues: Vec<Awaited>,
    held: Vec<Held>,
}

/// Takes the marks of a machine, in order.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// In which state.
    state: u32,
    /// As which its work counts: another where it works for others than are asked for.
    shown: u32,
    /// The last mark.
    since: i64,
    waits: Vec<Awaited>,
    waits_since: i64,
    ended: Option<Box<Ended>>,
    /// Nothing was said of it before, and no time has passed since.
    is_new: bool,
    /// When it starts: with its first mark, or where it came with its first item, at the begin of all.
    pub starts: i64,
    begin: i64,
    /// Kinds of the transactions that are open, with their begins.
    pub open: Vec<(u32, i64)>,
}

impl Script {
    /// Of a machine whose first mark is at `at`, in a recording whose first is at `begin`.
    pub fn new(state: u32, at: i64, begin: i64) -> Script {
        Script {
            state,
            shown: state,
            since: at,
            waits: Vec::new(),
            waits_since: at,
            ended: None,
            is_new: true,
            starts: at,
            begin,
            open: Vec::new(),
        }
    }

    /// Whether it stalls.
    pub fn is_waiting(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Time goes on to a mark that is no wait.
    fn go(&mut self, at: i64, out: &mut impl FnMut(Step)) {
        self.is_new &= at == self.starts && !self.is_waiting();
        if self.is_waiting() {
            let (from, to, state) = (self.waits_since, at, self.shown);
            let queues = std::mem::take(&mut self.waits);
            self.ended = Some(Box::new(Ended { from, to, state, queues, held: Vec::new() }));
        } else {
            let (from, to) = (self.since, at);
            if to > from {
                self.put(Held::Work { state: StateId(self.shown), from, to }, out);
            }
        }
        self.since = at;
    }

    fn put(&mut self, held: Held, out: &mut impl FnMut(Step)) {
        match &mut self.ended {
            Some(ended) => ended.held.push(held),
            None => out(held.step(i64::MIN)),
        }
    }

    /// Another state.
    pub fn state(&mut self, at: i64, state: u32, shown: u32, out: &mut impl FnMut(Step)) {
        self.go(at, out);
        (self.state, self.shown) = (state, shown);
    }

    /// In which state it is.
    pub fn state_now(&self) -> u32 {
        self.state
    }

    /// Whether it works for others than are asked for.
    pub fn is_for_others(&self) -> bool {
        self.state != self.shown
    }

    /// The same state, shown as another.
    pub fn show(&mut self, as_state: Option<u32>) {
        self.shown = as_state.unwrap_or(self.state);
    }

    /// It begins to wait. Gives a defect where its last wait ended for nothing that can be told.
    pub fn wait(&mut self, at: i64, awaited: Awaited, out: &mut impl FnMut(Step)) -> Option<&'static str> {
        let mut found = None;
        if self.waits.is_empty() {
            self.go(at, out);
            self.waits_since = at;
            if let Some(ended) = self.ended.take() {
                let is_again = ended.queues.iter().any(|q| (q.queue, q.is_full) == (awaited.queue, awaited.is_full));
                let only_looked = ended.held.iter().all(|h| matches!(h, Held::Work { .. }));
                if is_again && only_looked && awaited.is_true {
                    // woken for nothing, it looked and waits again
                    self.waits_since = ended.from;
                } else {
                    found = Some(defect::MARKS_WAIT_UNEXPLAINED);
                    ended.into_work(out);
                }
            }
        }
        self.since = at;
        if self.waits.len() < HELD_MAX {
            self.waits.push(awaited);
        }
        found
    }

    /// It does something with a queue.
    pub fn operate(&mut self, at: i64, op: Operation, out: &mut impl FnMut(Step)) -> Option<&'static str> {
        self.go(at, out);
        if std::mem::take(&mut self.is_new)
            && !op.is_enqueue
            && op.count > 0
            && let Some(possible) = op.possible.filter(|p| *p > self.begin)
        {
            // a context that its first item makes (a connection's) was there for it, whenever that comes
            self.starts = self.begin;
            out(op.step(at.saturating_sub(possible).max(0) as u64));
            return None;
        }
        let awaited = |e: &Ended| e.queues.iter().find(|q| (q.queue, q.is_full) == (op.queue, op.is_enqueue)).copied();
        let Some(found) = self.ended.as_deref().and_then(awaited) else {
            if op.count > 0 {
                self.put(Held::Other(op.step(NOT_SEEN)), out);
            }
            return self.overflow(out);
        };
        let ended = self.ended.take()?;
        let possible = op.possible.filter(|p| found.is_true && *p >= ended.from);
        let Some(possible) = possible else {
            // what was not as it said has been told already
            let told = found.is_true && op.count > 0;
            ended.into_work(out);
            if op.count > 0 {
                out(op.step(NOT_SEEN));
            }
            return told.then_some(defect::MARKS_WAIT_UNEXPLAINED);
        };
        if op.count > 0 {
            out(op.step(ended.to.saturating_sub(possible).max(0) as u64));
        }
        // what it did before that could be done was looking whether it could
        let from = if possible > ended.to { possible } else { i64::MIN };
        for held in ended.held {
            match held {
                Held::Work { to, .. } if to <= from => {}
                _ => out(held.step(from)),
            }
        }
        None
    }

    /// A transaction begins or ends.
    pub fn other(&mut self, at: i64, step: Option<Step>, out: &mut impl FnMut(Step)) -> Option<&'static str> {
        self.go(at, out);
        self.is_new = false;
        if let Some(step) = step {
            self.put(Held::Other(step), out);
        }
        self.overflow(out)
    }

    fn overflow(&mut self, out: &mut impl FnMut(Step)) -> Option<&'static str> {
        self.ended.take_if(|e| e.held.len() >= HELD_MAX).map(|ended| {
            ended.into_work(out);
            defect::MARKS_WAIT_UNEXPLAINED
        })
    }

    /// The recording is over: whatever its last wait was for, it had not happened.
    pub fn finish(&mut self, out: &mut impl FnMut(Step)) {
        if let Some(ended) = self.ended.take() {
            ended.held.iter().for_each(|held| out(held.step(i64::MIN)));
        }
    }
}

impl Ended {
    /// It was no wait that could be explained: the time is the machine's own.
    fn into_work(self, out: &mut impl FnMut(Step)) {
        if self.to > self.from {
            out(Step::Work { state: StateId(self.state), ns: (self.to - self.from) as u64 });
        }
        self.held.iter().for_each(|held| out(held.step(i64::MIN)));
    }
}

impl Held {
    /// As a step, of work only what came after `from`.
    fn step(self, earliest: i64) -> Step {
        match self {
            Held::Work { state, from, to } => {
                Step::Work { state, ns: to.saturating_sub(from.max(earliest)).max(0) as u64 }
            }
            Held::Other(step) => step,
        }
    }
}

impl Operation {
    fn step(self, latency_ns: u64) -> Step {
        let (queue, count) = (QueueId(self.through), self.count);
        match self.is_enqueue {
            true => Step::Enqueue { queue, count, latency_ns },
            false => Step::Dequeue { queue, count, latency_ns },
        }
    }
}

/// A transaction's begin.
pub(super) fn begin(kind: u32) -> Step {
    Step::Begin { kind: KindId(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Awaited = Awaited { queue: 0, is_full: false, is_true: true };

    fn taken(possible: Option<i64>) -> Operation {
        Operation { queue: 0, through: 0, is_enqueue: false, count: 1, possible }
    }

    fn work(state: u32, ns: u64) -> Step {
        Step::Work { state: StateId(state), ns }
    }

    fn took(latency_ns: u64) -> Step {
        Step::Dequeue { queue: QueueId(0), count: 1, latency_ns }
    }

    #[test]
    fn time_in_a_wait_counts_nothing_and_the_way_from_the_giver_does() {
        let (mut s, mut steps) = (Script::new(0, 0, -1), Vec::new());
        let mut out = |step| steps.push(step);
        s.state(5, 1, 1, &mut out);
        assert_eq!(s.wait(7, EMPTY, &mut out), None);
        // the state changes first, and the item is taken in the new one
        s.state(20, 2, 2, &mut out);
        assert_eq!(s.operate(23, taken(Some(18)), &mut out), None);
        s.state(24, 0, 0, &mut out);
        assert_eq!(steps, [work(0, 5), work(1, 2), took(2), work(2, 3), work(2, 1)]);
    }

    #[test]
    fn woken_for_nothing_it_waits_on() {
        let (mut s, mut steps) = (Script::new(0, 0, -1), Vec::new());
        let mut out = |step| steps.push(step);
        s.wait(1, EMPTY, &mut out);
        s.state(4, 1, 1, &mut out);
        assert_eq!(s.wait(6, EMPTY, &mut out), None);
        s.state(10, 1, 1, &mut out);
        // it looks too early, and then the item comes
        assert_eq!(s.operate(15, taken(Some(12)), &mut out), None);
        assert_eq!(steps, [work(0, 1), took(0), work(1, 3)]);
    }

    #[test]
    fn a_wait_that_nothing_explains_is_work() {
        for (possible, is_true, told) in [(None, true, true), (Some(0), true, true), (Some(3), false, false)] {
            let (mut s, mut steps) = (Script::new(0, 0, -1), Vec::new());
            let mut out = |step| steps.push(step);
            s.wait(1, Awaited { is_true, ..EMPTY }, &mut out);
            let found = s.operate(5, taken(possible), &mut out);
            assert_eq!(found.is_some(), told);
            assert_eq!(steps, [work(0, 1), work(0, 4), took(NOT_SEEN)]);
        }
        let (mut s, mut steps) = (Script::new(0, 0, -1), Vec::new());
        let mut out = |step| steps.push(step);
        s.wait(1, EMPTY, &mut out);
        s.state(2, 1, 1, &mut out);
        let found = s.wait(5, Awaited { queue: 7, ..EMPTY }, &mut out);
        assert_eq!(found, Some(defect::MARKS_WAIT_UNEXPLAINED));
        assert_eq!(steps, [work(0, 1), work(0, 1), work(1, 3)]);
    }

    #[test]
    fn of_several_queues_that_it_waits_for_the_first_that_it_uses_ended_the_wait() {
        let (mut s, mut steps) = (Script::new(0, 0, -1), Vec::new());
        let mut out = |step| steps.push(step);
        s.wait(1, Awaited { queue: 7, ..EMPTY }, &mut out);
        s.wait(1, EMPTY, &mut out);
        assert_eq!(s.operate(9, taken(Some(8)), &mut out), None);
        assert_eq!(steps, [work(0, 1), took(1)]);
    }
}
