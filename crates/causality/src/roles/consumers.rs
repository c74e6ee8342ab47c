//! Threads that ask a queue for work, do it, and ask again: `BRPOP`, Kafka's fetches, in a loop of their own. What they ask for, and what
//! they do with what they get, is for no request of their process.
//!
//! A pool's thread may ask such a thing for a request, too. But somebody hands it that job, and is told when it is done: it is woken by a
//! task of its own process, or wakes one that has slept since before the answer, elsewhere than at a lock. A loop of its own does neither.

use super::habits::CASES_MIN;
use crate::conditions::holds;
use crate::flags::{Flags, flags};
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{MonoNs, TaskId};
use wakepath_model::rows::{WaitRow, gaps};

/// Most tasks told apart; those beyond are no consumers.
const TASKS_MAX: usize = 10_000;
/// Most futexes of one task; one that has more is no consumer.
const FUTEXES_MAX: usize = 256;

flags! {
    /// What is so of a consumer.
    enum ConsumerFlag {
        /// It has no answer to what it asked last.
        Asking,
        /// A task of its process let it go on, or may have, elsewhere than at a futex.
        Handed,
        /// It let one that had slept since before its answer go on, elsewhere than at a futex.
        HandsOn,
    }
}

/// What a task did since it first asked to wait for something that happens elsewhere.
#[derive(Default)]
struct Consumer {
    flags: Flags<ConsumerFlag>,
    since: MonoNs,
    /// How often it asked after it had the answer to what it had asked before.
    rounds: u32,
    /// How often it slept, and none of its process let it go on; when it did last, and before.
    slept: u32,
    answered: [MonoNs; 2],
    /// Tasks of its process let it go on, or may have; and it let those that had slept since before its answer. At these futexes, and
    /// elsewhere.
    woken_at: FxHashSet<u64>,
    wakes_at: FxHashSet<u64>,
}

/// Tasks that may be such.
#[derive(Default)]
pub(crate) struct Consumers {
    tasks: FxHashMap<TaskId, Consumer>,
    /// Waits were lost: what let a task go on may be among them.
    are_lossy: bool,
}

impl Consumers {
    /// A thread asks to wait until something happens elsewhere.
    pub(super) fn asked(&mut self, task: TaskId, at: MonoNs) {
        if self.tasks.len() >= TASKS_MAX && !self.tasks.contains_key(&task) {
            return;
        }
        let of = self.tasks.entry(task).or_insert_with(|| Consumer {
            since: at,
            flags: Flags::of(&[ConsumerFlag::Asking]),
            ..Default::default()
        });
        of.rounds += u32::from(of.flags.insert(ConsumerFlag::Asking));
    }

    /// That was answered.
    pub(super) fn answered(&mut self, task: TaskId) {
        if let Some(of) = self.tasks.get_mut(&task) {
            of.flags.set(ConsumerFlag::Asking, false);
        }
    }

    /// Waits were lost.
    pub(super) fn lost_waits(&mut self) {
        self.are_lossy = true;
    }

    pub(super) fn are_none(&self) -> bool {
        self.tasks.is_empty()
    }

    /// A wait of whomever ended, once all else was seen: at a futex, and by a task of the same process where `is_own`, or nobody knows by
    /// whom.
    pub(super) fn waited(&mut self, r: &WaitRow, is_futex: bool, is_own: bool) {
        if let Some(of) = self.tasks.get_mut(&r.task).filter(|of| r.at > of.since) {
            of.waited(r, is_futex, is_own);
        }
        if is_own && let Some(of) = self.tasks.get_mut(&r.by).filter(|of| r.woken > of.since) {
            of.woke(r, is_futex);
        }
    }

    /// Since when a task has been in a loop in which it asks for work; none where it has none, or may be given work otherwise. `serves`: it
    /// takes requests, or replies.
    pub(super) fn since(&self, task: TaskId, serves: bool, is_lock: impl Fn(u64) -> bool) -> Option<MonoNs> {
        let of = self.tasks.get(&task)?;
        let are_locks = |at: &FxHashSet<u64>| at.iter().all(|&at| is_lock(at));
        let is_one = holds("consumer.all_was_seen", !self.are_lossy)
            && holds("consumer.takes_no_requests", !serves)
            && holds("consumer.often", self.rounds(task) >= CASES_MIN)
            && holds("consumer.is_handed_nothing", !of.flags.has(ConsumerFlag::Handed) && are_locks(&of.woken_at))
            && holds("consumer.hands_nothing_on", !of.flags.has(ConsumerFlag::HandsOn) && are_locks(&of.wakes_at));
        is_one.then_some(of.since)
    }

    /// In how many rounds of its loop a task could have been seen to be given work otherwise.
    pub(crate) fn rounds(&self, task: TaskId) -> u32 {
        self.tasks.get(&task).map_or(0, |of| of.rounds.min(of.slept))
    }
}

impl Consumer {
    /// A wait of its own ended.
    fn waited(&mut self, r: &WaitRow, is_futex: bool, is_own: bool) {
        self.flags.add_if(ConsumerFlag::Handed, r.gaps & (gaps::BEFORE | gaps::AFTER) != 0);
        match (is_own, is_futex) {
            (false, _) => {
                self.slept += 1;
                self.answered = [r.at, self.answered[0]];
            }
            (true, true) => {
                self.woken_at.insert(r.arg0);
                self.flags.add_if(ConsumerFlag::Handed, self.woken_at.len() > FUTEXES_MAX);
            }
            (true, false) => self.flags.add(ConsumerFlag::Handed),
        }
    }

    /// It ended another task's wait.
    fn woke(&mut self, r: &WaitRow, is_futex: bool) {
        // who began to wait when it had the answer waits for what it does with that, which a lock guards; who ran late is told late
        if self.answered.iter().find(|&&at| at <= r.woken).is_some_and(|&at| at.0 != 0 && at <= r.blocked) {
            return;
        }
        if is_futex {
            self.wakes_at.insert(r.arg0);
        }
        self.flags.add_if(ConsumerFlag::HandsOn, !is_futex || self.wakes_at.len() > FUTEXES_MAX);
    }
}
