//! What a server's workers learn of each other: they were forked from one master and run one program, so that what all of them
//! make a habit of is a habit of each. One that got few connections in a short recording has too few cases of its own.
//!
//! What one of them does at times is no habit of the others', but where they show it: then each goes by its own cases.
//! What one leaves for later, and for whom one makes connections, is so rare that it tells against all.

use super::learned::{Accepting, Awaited, BehindReplies, Dialling, Habits, PutsOff};
use super::{CASES_MIN, Roles};
use rustc_hash::FxHashMap;

impl Habits {
    /// What two processes did, as if one had done it.
    fn and(self, o: Habits) -> Habits {
        Habits {
            single: self.single.saturating_add(o.single),
            single_dialled: self.single_dialled.saturating_add(o.single_dialled),
            is_parallel: self.is_parallel || o.is_parallel,
            shares_connections: self.shares_connections || o.shares_connections,
            asked: self.asked.saturating_add(o.asked),
            spontaneous: self.spontaneous.saturating_add(o.spontaneous),
            gaps: self.gaps.saturating_add(o.gaps),
            behind: self.behind.and(o.behind),
            awaited: Awaited {
                alone: self.awaited.alone.saturating_add(o.awaited.alone),
                is_by_others: self.awaited.is_by_others || o.awaited.is_by_others,
                passed_on: self.awaited.passed_on.saturating_add(o.awaited.passed_on),
                is_passed_to_others: self.awaited.is_passed_to_others || o.awaited.is_passed_to_others,
                is_kept: self.awaited.is_kept || o.awaited.is_kept,
            },
            accepting: Accepting {
                waits: self.accepting.waits.saturating_add(o.accepting.waits),
                is_dialling: self.accepting.is_dialling || o.accepting.is_dialling,
            },
            puts_off: PutsOff {
                never: self.puts_off.never.saturating_add(o.puts_off.never),
                calls: self.puts_off.calls.saturating_add(o.puts_off.calls),
            },
            dialling: Dialling {
                beside: self.dialling.beside.saturating_add(o.dialling.beside),
                is_for_whoever: self.dialling.is_for_whoever || o.dialling.is_for_whoever,
            },
        }
    }
}

impl BehindReplies {
    fn and(self, o: BehindReplies) -> BehindReplies {
        BehindReplies {
            replied: self.replied.saturating_add(o.replied),
            after: self.after.saturating_add(o.after),
            after_beside_open: self.after_beside_open.saturating_add(o.after_beside_open),
            replied_dialled: self.replied_dialled.saturating_add(o.replied_dialled),
            after_dialled: self.after_dialled.saturating_add(o.after_dialled),
        }
    }

    fn is_never(&self) -> bool {
        self.after + self.after_beside_open + self.after_dialled == 0
    }
}

/// What all of a crew did.
#[derive(Clone, Copy)]
struct Crew {
    habits: Habits,
    /// One of them made more calls than it had requests, made one when it had none, or uses connections again.
    fans_out: bool,
    calls_of_its_own: bool,
    keeps_connections: bool,
}

impl Crew {
    /// Counts at one of them what all of them were never seen to do.
    fn teach(&self, h: &mut Habits) {
        let all = &self.habits;
        (h.puts_off, h.dialling) = (all.puts_off, all.dialling);
        if !all.is_parallel && !self.fans_out {
            h.single = all.single;
            // each could have been seen alone where connections are not used again
            h.single_dialled = if self.keeps_connections { h.single_dialled } else { all.single_dialled };
        }
        if !self.calls_of_its_own {
            h.gaps = all.gaps;
            h.asked = if all.spontaneous == 0 { all.asked } else { h.asked };
        }
        if all.behind.is_never() {
            h.behind.replied = all.behind.replied;
            h.behind.replied_dialled =
                if self.keeps_connections { h.behind.replied_dialled } else { all.behind.replied_dialled };
        }
        if !all.awaited.is_by_others {
            h.awaited.alone = all.awaited.alone;
            let is_passed_on = !all.awaited.is_passed_to_others && !all.awaited.is_kept;
            h.awaited.passed_on = if is_passed_on { all.awaited.passed_on } else { h.awaited.passed_on };
        }
        if !all.accepting.is_dialling {
            h.accepting.waits = all.accepting.waits;
        }
    }
}

impl Roles {
    /// Whether a process that keeps connections makes each for one request, as far as was seen of it and its siblings: they
    /// often made several at once, and never had more than requests when one was answered.
    pub fn dials_for_one(&self, process: u32) -> bool {
        let dialling = self.loops.habits.get(&process).map(|h| h.dialling).unwrap_or_default();
        dialling.beside >= CASES_MIN && !dialling.is_for_whoever
    }

    /// Counts at each worker of a crew what its siblings were never seen to do either.
    pub(super) fn learn_from_crews(&mut self) {
        let mut crews = FxHashMap::default();
        for (&process, habits) in &self.loops.habits {
            let Some(crew) = self.processes.crew_of(process) else { continue };
            let one = Crew {
                habits: *habits,
                fans_out: self.fans_out(process),
                calls_of_its_own: self.calls_of_its_own(process) || self.calls_unasked(process),
                keeps_connections: self.keeps_connections(process),
            };
            let together = |c: &mut Crew| {
                *c = Crew {
                    habits: c.habits.and(one.habits),
                    fans_out: c.fans_out || one.fans_out,
                    calls_of_its_own: c.calls_of_its_own || one.calls_of_its_own,
                    keeps_connections: c.keeps_connections || one.keeps_connections,
                }
            };
            crews.entry(crew).and_modify(together).or_insert(one);
        }
        for (&process, habits) in &mut self.loops.habits {
            if let Some(all) = self.processes.crew_of(process).and_then(|crew| crews.get(&crew)) {
                all.teach(habits);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a sibling does, and which of the counts stay one's own then.
    type Case = (fn(&mut Crew), &'static [usize]);

    /// What is taught to one who was seen three times of each, beside one who was seen ten times and did this besides.
    fn taught(besides: impl Fn(&mut Crew)) -> Habits {
        let seen = |n: u32| Habits {
            single: n,
            single_dialled: n,
            asked: n,
            gaps: n,
            behind: BehindReplies { replied: n, replied_dialled: n, ..BehindReplies::default() },
            awaited: Awaited { alone: n, passed_on: n, ..Awaited::default() },
            accepting: Accepting { waits: n, ..Accepting::default() },
            ..Habits::default()
        };
        let mut one = seen(3);
        let none =
            Crew { habits: one.and(seen(10)), fans_out: false, calls_of_its_own: false, keeps_connections: false };
        let mut all = none;
        besides(&mut all);
        all.teach(&mut one);
        one
    }

    #[test]
    fn nobody_learns_what_a_sibling_does_not_keep_to() {
        let cases = |h: Habits| {
            let Habits { single, single_dialled, asked, gaps, behind, awaited, accepting, .. } = h;
            let all = [single, single_dialled, asked, gaps, behind.replied, behind.replied_dialled];
            [&all[..], &[awaited.alone, awaited.passed_on, accepting.waits]].concat()
        };
        let own = |which: &[usize]| -> Vec<u32> { (0..9).map(|i| if which.contains(&i) { 3 } else { 13 }).collect() };
        let some: [Case; 12] = [
            (|_| (), &[]),
            (|c| c.fans_out = true, &[0, 1]),
            (|c| c.habits.is_parallel = true, &[0, 1]),
            (|c| c.keeps_connections = true, &[1, 5]),
            (|c| c.calls_of_its_own = true, &[2, 3]),
            (|c| c.habits.spontaneous = 1, &[2]),
            (|c| c.habits.behind.after = 1, &[4, 5]),
            (|c| c.habits.behind.after_beside_open = 1, &[4, 5]),
            (|c| c.habits.awaited.is_by_others = true, &[6, 7]),
            (|c| c.habits.awaited.is_passed_to_others = true, &[7]),
            (|c| c.habits.awaited.is_kept = true, &[7]),
            (|c| c.habits.accepting.is_dialling = true, &[8]),
        ];
        for (i, (besides, which)) in some.into_iter().enumerate() {
            assert_eq!(cases(taught(besides)), own(which), "case {i}");
        }
        let puts_off = |c: &mut Crew| c.habits.puts_off.calls = 1;
        assert_eq!(taught(puts_off).puts_off.calls, 1);
        assert!(taught(|c| c.habits.dialling.is_for_whoever = true).dialling.is_for_whoever);
    }
}
