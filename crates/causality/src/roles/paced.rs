//! Tasks that call at a pace of their own: refreshers, health checks, heartbeats, exporters that send whether they have something or not.
//!
//! Such a task also calls though its process had no request at any time since its last call: nobody can have asked it then. And it never
//! calls sooner than its pace: who takes work from a queue goes on when a request puts something there, at whatever time that is. One that
//! empties a queue at a pace of its own has nothing to send while there is no request. What one step calls for in turn follows at once.

use super::habits::CASES_MIN;
use crate::conditions::holds;
use rustc_hash::FxHashMap;
use wakepath_model::ids::{MonoNs, TaskId};

/// Most tasks told apart; those beyond have no pace.
const TASKS_MAX: usize = 10_000;
/// How often a task must call by itself.
const ALONE_MIN: u32 = 3;
/// Pauses are counted by powers of two, from this power (ns) on: 65 µs. Shorter ones count as the first.
const POWER_MIN: u32 = 16;
const POWERS: usize = 24;
/// A pace is no shorter than this power: in less, a loop that has much to do comes to nothing else.
const PACE_MIN: usize = 5;
/// So many powers below the pace there must be no pause: what follows in the same step is sooner than an eighth of it.
const EMPTY: usize = 3;
/// One pause in so many may be longer: the task lacked a processor, or its loop was busy.
const LATE_PART: u32 = 4;

/// What one task did.
#[derive(Default)]
struct Pace {
    /// Its calls without an answer.
    under_way: u32,
    /// When the last of them was answered.
    answered: MonoNs,
    /// Its pauses from an answer to the next call.
    pauses: [u32; POWERS],
    /// Those in which its process had no request.
    alone: u32,
}

/// Such tasks.
#[derive(Default)]
pub(super) struct Paced(FxHashMap<TaskId, Pace>);

impl Paced {
    /// A task that takes no requests calls. `idle_since`: since when its process has had no request; none where it has one.
    pub(super) fn called(&mut self, task: TaskId, at: MonoNs, idle_since: Option<MonoNs>) {
        if self.0.len() >= TASKS_MAX && !self.0.contains_key(&task) {
            return;
        }
        let of = self.0.entry(task).or_default();
        of.under_way += 1;
        if of.under_way > 1 || of.answered.0 == 0 {
            return;
        }
        let power = at.0.saturating_sub(of.answered.0).max(1).ilog2().saturating_sub(POWER_MIN) as usize;
        let pauses = &mut of.pauses[power.min(POWERS - 1)];
        *pauses = pauses.saturating_add(1);
        of.alone += u32::from(power >= PACE_MIN && idle_since.is_some_and(|since| since <= of.answered));
    }

    /// A call of a task is over.
    pub(super) fn answered(&mut self, task: TaskId, at: MonoNs) {
        if let Some(of) = self.0.get_mut(&task) {
            of.under_way = of.under_way.saturating_sub(1);
            of.answered = of.answered.max(at);
        }
    }

    /// How often a task paused for its pace, where it has one; else 0.
    pub(super) fn rounds(&self, task: TaskId) -> u32 {
        let Some(of) = self.0.get(&task) else { return 0 };
        let at_pace = |power: usize| of.pauses[power..power + 2].iter().sum::<u32>();
        let Some(power) = (PACE_MIN..POWERS - 1).max_by_key(|&power| at_pace(power)) else { return 0 };
        let rounds = at_pace(power);
        // one that hardly paused looks like nothing
        if rounds < CASES_MIN / 2 {
            return 0;
        }
        let sooner: u32 = of.pauses[power - EMPTY..power].iter().sum();
        let later: u32 = of.pauses[power + 2..].iter().sum();
        let has_pace = holds("paced.by_itself", of.alone >= ALONE_MIN)
            && holds("paced.never_sooner", sooner == 0)
            && holds("paced.often", rounds >= CASES_MIN && later <= rounds / LATE_PART);
        if has_pace { rounds } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A task that calls after each of these pauses (ms), while its process has no request where so, and has its answers after 1 ms.
    fn rounds(pauses: impl IntoIterator<Item = (u64, bool)>) -> u32 {
        let (mut paced, task, mut at) = (Paced::default(), TaskId(7), 1_000 * MS);
        paced.called(task, MonoNs(at), None);
        for (pause, is_alone) in pauses {
            let answered = at + MS;
            paced.answered(task, MonoNs(answered));
            at = answered + pause * MS;
            paced.called(task, MonoNs(at), is_alone.then_some(MonoNs(answered)));
        }
        paced.rounds(task)
    }

    #[test]
    fn who_calls_at_a_pace_also_without_requests_calls_by_itself() {
        assert_eq!(rounds((0..12).map(|i| (50 + i % 4, i < 3))), 12);
        assert_eq!(rounds((0..12).map(|i| (50, i < 2))), 0, "it hardly called while there was no request");
        assert_eq!(rounds((0..7).map(|i| (50, i < 3))), 0, "too few");
        assert_eq!(rounds((0..12).map(|i| (if i == 9 { 12 } else { 50 }, i < 3))), 0, "once somebody asked it");
        // two calls a step, and a step that was late
        let steps = (0..24).map(|i| (if i % 2 == 0 { 50 } else { 0 }, i < 6));
        assert_eq!(rounds(steps.chain([(900, false)])), 12);
        // work that comes at random
        assert_eq!(rounds((0..40).map(|i| (i * 37 % 90, i < 6))), 0);
    }
}
