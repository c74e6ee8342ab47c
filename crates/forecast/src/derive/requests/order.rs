//! Locks that are taken in contradictory orders: not all of them are what they seem.
//!
//! A system that takes A while it holds B, and B while it holds A, stands still sooner or later. What was recorded did not. So
//! where the model has such a circle, one in it is no lock of its own: the guard of a pool, which is let go while waiting; or
//! the same lock, seen at two addresses. The one that is held least is left out.

use crate::jobs::{Job, Jobs, Part, PoolId, Visit};
use rustc_hash::FxHashSet;

/// Leaves out locks until none is taken in a contradictory order; gives what was left out, a sentence each.
pub fn settle(jobs: &mut Jobs) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        let mut seen = Orders::default();
        seen.held_ns.resize(jobs.pools.len(), 0);
        jobs.jobs.iter().for_each(|j| seen.visit(&j.root, &mut Vec::new()));
        let contradictory = seen.circle(jobs.pools.len());
        let locks = contradictory.iter().copied().filter(|&p| jobs.pools[p].is_lock);
        let Some(least) = locks.min_by_key(|&p| (seen.held_ns[p], p)) else { return said };
        let names: Vec<&str> =
            contradictory.iter().filter(|&&p| p != least).map(|&p| jobs.pools[p].name.as_str()).collect();
        said.push(format!(
            "{} is left out: it and {} seem to be taken in contradictory orders, which would stand still and did not",
            jobs.pools[least].name,
            names.join(", ")
        ));
        leave_out(jobs, least);
    }
}

/// Which were taken while which were held.
#[derive(Default)]
struct Orders {
    pairs: FxHashSet<(PoolId, PoolId)>,
    /// Work done while each was held (ns).
    held_ns: Vec<u64>,
}

impl Orders {
    fn visit(&mut self, v: &Visit, held: &mut Vec<PoolId>) {
        let before = held.len();
        for part in &v.parts {
            match part {
                Part::Take(p) => {
                    self.pairs.extend(held.iter().filter(|h| *h != p).map(|&h| (h, *p)));
                    held.push(*p);
                }
                Part::Give(p) => {
                    if let Some(at) = held[before..].iter().rposition(|h| h == p) {
                        held.remove(before + at);
                    }
                }
                Part::Work { ns, .. } => held.iter().for_each(|&h| self.held_ns[h] += ns),
                Part::Calls(calls) => calls.iter().for_each(|c| self.visit(c, held)),
                Part::Reply => {}
            }
        }
        held.truncate(before);
    }

    /// All that can be reached from themselves.
    fn circle(&self, pools: usize) -> Vec<PoolId> {
        let reaches = |from: PoolId| {
            let (mut found, mut next): (FxHashSet<PoolId>, Vec<PoolId>) = (FxHashSet::default(), vec![from]);
            while let Some(at) = next.pop() {
                next.extend(self.pairs.iter().filter(|p| p.0 == at).map(|p| p.1).filter(|p| found.insert(*p)));
            }
            found.contains(&from)
        };
        (0..pools).filter(|&p| reaches(p)).collect()
    }
}

/// Takes a pool out of the model, wherever it is taken and given back.
fn leave_out(jobs: &mut Jobs, pool: PoolId) {
    fn walk(v: &mut Visit, pool: PoolId) {
        v.parts.retain(|p| !matches!(p, Part::Take(p) | Part::Give(p) if *p == pool));
        for part in &mut v.parts {
            match part {
                Part::Take(p) | Part::Give(p) if *p > pool => *p -= 1,
                Part::Calls(calls) => calls.iter_mut().for_each(|c| walk(c, pool)),
                _ => {}
            }
        }
    }
    jobs.pools.remove(pool);
    jobs.jobs.iter_mut().for_each(|Job { root, .. }| walk(root, pool));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{Pool, WorkState};

    fn jobs(visits: Vec<Vec<Part>>, locks: &[bool]) -> Jobs {
        let pool = |(i, &is_lock): (usize, &bool)| Pool { name: format!("p{i}"), tokens: 1, is_lock, process: None };
        let root = |parts| Visit { service: None, asked: 0, there_ns: 0, back_ns: 0, parts };
        let job = |parts| Job { at_ns: 0, think_ns: 0, took_ns: 0, root: root(parts) };
        let pools = locks.iter().enumerate().map(pool).collect();
        Jobs { pools, jobs: visits.into_iter().map(job).collect(), ..Jobs::default() }
    }

    fn work(ns: u64) -> Part {
        Part::Work { state: WorkState::Cpu, ns }
    }

    fn names(jobs: &Jobs) -> Vec<&str> {
        jobs.pools.iter().map(|p| p.name.as_str()).collect()
    }

    #[test]
    fn the_guard_of_a_pool_is_no_lock_beside_it() {
        use Part::{Give, Take};
        // a connection is asked for under the guard, and given back under it
        let asks = vec![Take(1), Take(0), work(9), Give(1), work(50), Give(0)];
        let gives = vec![Take(0), work(50), Take(1), work(1), Give(0), Give(1)];
        let mut found = jobs(vec![asks, gives], &[false, true]);
        let said = settle(&mut found);
        assert_eq!((names(&found), said.len()), (vec!["p0"], 1), "{said:?}");
        assert_eq!(found.jobs[0].root.parts, [Take(0), work(9), work(50), Give(0)]);
    }

    #[test]
    fn of_two_locks_the_one_held_less_goes_and_others_stay() {
        use Part::{Give, Take};
        let one = vec![Take(0), work(5), Take(1), work(90), Give(1), Give(0)];
        let other = vec![Take(1), work(200), Take(0), work(5), Give(0), Give(1)];
        let nested = vec![Take(1), Take(2), work(1), Give(2), Give(1)];
        let mut found = jobs(vec![one, other, nested], &[true, true, true]);
        assert_eq!(settle(&mut found).len(), 1);
        assert_eq!(names(&found), ["p1", "p2"], "taken in one order, both stay");
        assert_eq!(found.jobs[2].root.parts, [Take(0), Take(1), work(1), Give(1), Give(0)]);
    }
}
