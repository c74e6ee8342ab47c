//! How long tasks waited in each system call, and their intervals in order of time.

use super::Stay;
use crate::histogram::Histogram;
use crate::slices::State;
use std::collections::{BTreeMap, BinaryHeap};
use wakepath_model::ids::{HostId, TaskId};

/// Waits in one system call.
#[derive(Clone, Debug, Default)]
pub struct WaitsInCall {
    /// How long each took (ns). One call may wait several times.
    pub lengths: Histogram,
    /// What was waited for, each with how long in all (ns).
    pub by_state: BTreeMap<State, u64>,
    /// The longest one.
    pub longest: Option<Interval>,
}

/// Waits by the number of their system call; of none: page faults, and tasks of the kernel.
#[derive(Clone, Debug, Default)]
pub struct ByCall(pub BTreeMap<Option<u16>, WaitsInCall>);

impl ByCall {
    /// Counts an interval, if it is a wait. What lies outside of the time that is asked about is not in its length.
    pub fn add(&mut self, of: Interval) {
        if matches!(of.stay.state, State::Running | State::Preempted) {
            return;
        }
        let sum = self.0.entry(of.stay.syscall).or_default();
        let ns = of.stay.duration_ns();
        sum.lengths.add(ns);
        *sum.by_state.entry(of.stay.state).or_default() += ns;
        if sum.longest.as_ref().is_none_or(|longest| longest.stay.duration_ns() < ns) {
            sum.longest = Some(of);
        }
    }
}

/// An interval of a task's time. In order of time, then of tasks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// What it did.
    pub stay: Stay,
    /// Its host.
    pub host: HostId,
    /// The task.
    pub task: TaskId,
}

/// The first intervals of many tasks, in bounded memory.
#[derive(Clone, Debug)]
pub struct First {
    max: usize,
    /// The last one is on top.
    kept: BinaryHeap<Interval>,
    count: u64,
}

impl First {
    /// None yet; at most so many are kept.
    pub fn new(max: usize) -> First {
        First { max, kept: BinaryHeap::new(), count: 0 }
    }

    /// Looks at one more.
    pub fn add(&mut self, of: Interval) {
        self.count += 1;
        if self.kept.len() < self.max {
            self.kept.push(of);
        } else if let Some(mut last) = self.kept.peek_mut().filter(|last| of < **last) {
            *last = of;
        }
    }

    /// Those that are kept, in order, and how many more there were.
    pub fn finish(self) -> (Vec<Interval>, u64) {
        let more = self.count - self.kept.len() as u64;
        (self.kept.into_sorted_vec(), more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_model::ids::CommonNs;

    fn wait(from: i64, to: i64, syscall: Option<u16>) -> Interval {
        let stay = Stay { from: CommonNs(from), to: CommonNs(to), state: State::Timer, by: None, syscall };
        Interval { stay, host: HostId(0), task: TaskId(1) }
    }

    #[test]
    fn the_first_are_kept_whatever_the_order() {
        let mut first = First::new(3);
        for from in [50, 10, 40, 20, 30] {
            first.add(wait(from, from + 5, None));
        }
        let (kept, more) = first.finish();
        assert_eq!((kept.iter().map(|k| k.stay.from.0).collect::<Vec<_>>(), more), (vec![10, 20, 30], 2));
        assert_eq!(First::new(0).finish(), (vec![], 0));
    }

    #[test]
    fn waits_count_by_their_call_and_running_does_not() {
        let mut calls = ByCall::default();
        calls.add(wait(0, 10, Some(7)));
        calls.add(wait(20, 50, Some(7)));
        calls.add(wait(0, 5, None));
        let ran = wait(0, 1000, None);
        calls.add(Interval { stay: Stay { state: State::Running, ..ran.stay.clone() }, ..ran });
        let of = |call| (calls.0[&call].lengths.count(), calls.0[&call].lengths.sum(), calls.0[&call].lengths.max());
        assert_eq!((of(Some(7)), of(None)), ((2, 40, 30), (1, 5, 5)));
        assert_eq!(calls.0[&Some(7)].longest.as_ref().map(|l| l.stay.from.0), Some(20));
    }
}
