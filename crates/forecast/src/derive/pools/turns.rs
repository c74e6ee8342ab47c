//! Pools of which logical tasks (goroutines, virtual threads) take turns.
//!
//! What such a task waits for is not recorded, nor who wakes it. But where a pool is what it waits for, its use of a connection
//! begins just after another's ended, it had nothing else to do since before, and at that moment all connections were in use.
//! Without a limit the next connection would have been made.

use super::{HANDED_OVER_MIN, Use};
use crate::derive::visits::median;
use wakepath_model::ids::MonoNs;

/// Least part of the uses that begin so.
const TURNS_SHARE: f64 = 0.05;
/// From one use to the next passes at most this part of what the next one waited, in the median: what only happens to come
/// next comes at any time.
const GAP_SHARE: f64 = 0.1;

/// Finds out which uses of one group, by connection and time, waited for the one before to end.
pub fn find(uses: &mut [Use]) {
    let is_after = |w: &[Use]| w[0].flow != w[1].flow || w[0].last <= w[1].first;
    if uses.iter().any(|u| u.logical.is_none()) || !uses.windows(2).all(is_after) {
        return;
    }
    let (steps, most) = steps(uses);
    let in_use = |at: MonoNs| steps[..steps.partition_point(|s| s.0 < at)].last().map_or(0, |s| s.1);
    let is_turn = |w: &[Use]| {
        let [before, next] = w else { return false };
        let is_next = before.flow == next.flow && before.visit != next.visit && before.last > next.wanted;
        is_next && in_use(before.last) == most
    };
    let turns: Vec<usize> = uses.windows(2).enumerate().filter(|(_, w)| is_turn(w)).map(|(i, _)| i).collect();
    let passed = |of: &dyn Fn(&Use, &Use) -> u64| {
        let mut all: Vec<u64> = turns.iter().map(|&i| of(&uses[i], &uses[i + 1])).collect();
        median(&mut all) as f64
    };
    let gap = passed(&|before, next| next.first.0.saturating_sub(before.last.0));
    let wait = passed(&|before, next| before.last.0.saturating_sub(next.wanted.0));
    let is_pool = turns.len() as f64 >= (TURNS_SHARE * uses.len() as f64).max(HANDED_OVER_MIN as f64);
    if !is_pool || gap > GAP_SHARE * wait {
        return;
    }
    for i in turns {
        let had = uses[i].last;
        uses[i].given = Some(had);
        let next = &mut uses[i + 1];
        (next.handed, next.is_same) = (Some((next.wanted, had)), true);
    }
}

/// How many uses there were from each moment on, and the most.
fn steps(uses: &[Use]) -> (Vec<(MonoNs, i32)>, i32) {
    let mut steps: Vec<(MonoNs, i32)> = uses.iter().flat_map(|u| [(u.first, 1), (u.last, -1)]).collect();
    steps.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for step in &mut steps {
        now += step.1;
        step.1 = now;
        most = most.max(now);
    }
    (steps, most)
}

/// What a pool found so takes for granted, to be added in brackets.
pub fn assumption(uses: &[Use]) -> &'static str {
    match uses.iter().any(|u| u.logical.is_some() && u.handed.is_some()) {
        true => {
            ": they began just after another ended, while all were in use; a semaphore around the call would look the same"
        }
        false => "",
    }
}
