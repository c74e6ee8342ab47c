//! What contradicts itself in marks, with its place (section 3.2).

use super::First;
use super::names::{Names, What};
use crate::derived::Warning;
use std::collections::BTreeMap;
use wakepath_model::defects::id as defect;

/// Fewer dequeues say nothing of how a machine behaves.
const DEQUEUES_MIN: u64 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Met {
    count: u64,
    machine: Option<u32>,
    queue: Option<u32>,
    at: Option<i64>,
}

/// Contradictions while they are met.
#[derive(Clone, Debug, Default)]
pub(super) struct Warnings(BTreeMap<&'static str, Met>);

impl Warnings {
    pub fn add(&mut self, defect: &'static str, machine: Option<u32>, queue: Option<u32>, at: Option<i64>) {
        self.0.entry(defect).or_insert(Met { count: 0, machine, queue, at }).count += 1;
    }

    /// So many more, of no place.
    pub fn count(&mut self, defect: &'static str, count: u64) {
        self.0.entry(defect).or_default().count += count;
    }

    pub fn join(&mut self, other: Warnings) {
        for (defect, first) in other.0 {
            self.0.entry(defect).or_insert(Met { count: 0, ..first }).count += first.count;
        }
    }

    /// How many there are of kinds that make a forecast worse.
    pub fn total(&self) -> u64 {
        self.0.values().map(|w| w.count).sum()
    }

    pub fn list(&self, names: &Names, from: i64) -> Vec<Warning> {
        let one = |(defect, w): (&&'static str, &Met)| Warning {
            defect,
            count: w.count,
            machine: w.machine.map(|m| names.machines[m as usize].shown.clone()),
            queue: w.queue.map(|q| names.queues[q as usize].clone()),
            at_ns: w.at.map(|at| at.abs_diff(from)),
        };
        self.0.iter().map(one).collect()
    }
}

/// What a machine did, over all.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    span: Option<(i64, i64)>,
    waits: u64,
    enqueues: u64,
    dequeues: u64,
    /// Dequeues that left the queue empty.
    left_empty: u64,
    last: Option<What>,
    first_dequeue: Option<(u32, i64)>,
}

impl Life {
    pub fn mark(&mut self, at: i64, what: What) {
        let (from, _) = self.span.unwrap_or((at, at));
        self.span = Some((from, at));
        self.last = Some(what);
        match what {
            What::WaitEmpty { .. } | What::WaitFull { .. } => self.waits += 1,
            What::Enqueue { .. } => self.enqueues += 1,
            What::Dequeue { queue, .. } => {
                self.dequeues += 1;
                self.first_dequeue.get_or_insert((queue, at));
            }
            What::State(_) | What::Begin(_) | What::End(_) => {}
        }
    }

    /// Its last dequeue left nothing in the queue.
    pub fn left_it_empty(&mut self) {
        self.left_empty += 1;
    }

    /// Its first mark.
    pub fn first(&self) -> i64 {
        self.span.map_or(0, |s| s.0)
    }

    /// Its last mark.
    pub fn last(&self) -> i64 {
        self.span.map_or(0, |s| s.1)
    }

    /// It takes items and passes none on.
    pub fn is_sink(&self) -> bool {
        self.dequeues > 0 && self.enqueues == 0
    }
}

/// Looks at what machines and queues did over all.
pub(super) fn lives(first: &First, gone: &[u32], (_, end): (i64, i64), out: &mut Warnings) {
    for (m, life) in (0u32..).zip(&first.lives) {
        let Some((from, last)) = life.span else { continue };
        // a machine that has nothing to do for most of the time and never says so; after a producer that waits for
        // room a queue is empty for a moment only
        if let Some((queue, at)) = life.first_dequeue
            && life.waits == 0
            && life.dequeues >= DEQUEUES_MIN
            && life.left_empty * 2 > life.dequeues
            && !first.queues[queue as usize].was_full()
        {
            out.add(defect::MARKS_NEVER_WAITS, Some(m), Some(queue), Some(at));
        }
        let is_gone = matches!(life.last, Some(What::State(s)) if gone.contains(&s));
        let is_waiting = matches!(life.last, Some(What::WaitEmpty { .. } | What::WaitFull { .. }));
        if !is_gone && !is_waiting && end.abs_diff(last) > last.abs_diff(from) {
            out.add(defect::MARKS_STATE_OPEN, Some(m), None, Some(last));
        }
    }
    for (q, queue) in (0u32..).zip(&first.queues) {
        if queue.enqueued == 0 && queue.is_needed() {
            out.add(defect::MARKS_NEVER_FILLED, None, Some(q), None);
        }
        if queue.enqueued > 0 && queue.dequeued == 0 {
            out.add(defect::MARKS_NEVER_TAKEN, None, Some(q), None);
        }
    }
}
