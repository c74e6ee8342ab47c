//! Interpreters that run one thread at a time (CPython, Ruby), known by how their threads behave.
//!
//! Who has an interpreter's lock gives it away before it sleeps: while another waits, it never sleeps with it. And who
//! comes back from a sleep of its own while another runs has to ask for its turn at once, wherever in its program it is.

use super::super::visits::{Visit, Visits, is_futex, waits};
use super::{Group, Interpreter, Wait};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use wakepath_graph::Index;
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::EndedBy;

/// Least hand-overs that tell.
const HANDED_OVER_MIN: u64 = 30;
/// Least hand-overs that tell whether a lock is given away before sleeping.
const GIVEN_MIN: u64 = 4;
/// Most of them in which who had the lock slept while another waited for it.
const SLEPT_SHARE: f64 = 0.05;
/// Who comes back from a sleep asks for its turn within this time (ns).
const SOON_NS: u64 = 50_000;
/// Least such returns beside another that runs on.
const RETURNS_MIN: u64 = 20;
/// Least of them that had to ask for their turn.
const ASKED_SHARE: f64 = 0.5;

/// Most runs looked at before a return.
const NEAR: usize = 256;

/// Where a wait begins.
type Turn = (HostId, TaskId, MonoNs);

/// The interpreters; the waits for their turn; and the groups of waits that are for something else.
pub(super) fn find(index: &Index, visits: &Visits, groups: Vec<Group>) -> (Vec<Interpreter>, Vec<Turn>, Vec<Group>) {
    let process = |g: &Group| g.0.first().map(|w| (w.host, w.tgid)).filter(|p| p.1 != 0);
    let begins = |g: &Group| g.0.iter().map(|w| (w.host, w.task, w.asked)).collect::<Vec<Turn>>();
    let mut found: BTreeSet<(HostId, u32)> = BTreeSet::new();
    let is_given_first: Vec<bool> = groups
        .iter()
        .map(|g| {
            let (slept, all) = slept(index, &g.0);
            let passes = all > 0 && slept as f64 <= SLEPT_SHARE * all as f64;
            if let Some(process) = process(g).filter(|_| passes && all >= HANDED_OVER_MIN) {
                let (asked, returned) = asked(index, visits, process, &begins(g).into_iter().collect());
                if returned >= RETURNS_MIN && asked as f64 >= ASKED_SHARE * returned as f64 {
                    found.insert(process);
                }
            }
            passes
        })
        .collect();
    let (mut turns, mut others) = (Vec::new(), Vec::new());
    for (g, passes) in groups.into_iter().zip(is_given_first) {
        // its short inner locks are part of running
        if passes && process(&g).is_some_and(|p| found.contains(&p)) {
            turns.extend(begins(&g));
        } else {
            others.push(g);
        }
    }
    let with_use = |(host, tgid)| Interpreter { host, tgid, at_a_time: at_a_time(index, visits, (host, tgid)) };
    (found.into_iter().map(with_use).collect(), turns, others)
}

/// Whether who has it gives it away before sleeping, as an interpreter's lock is: while another waits, it never sleeps with it;
/// and where too few hand-overs tell that, most of those who let go sleep at once.
pub(super) fn is_given_first(index: &Index, group: &[Wait]) -> bool {
    let (slept, all) = slept(index, group);
    if slept as f64 > SLEPT_SHARE * all as f64 {
        return false;
    }
    let sleeps_soon = |w: &&Wait| {
        let soon = MonoNs(w.woken.0.saturating_add(SOON_NS));
        waits(index, w.host, w.by, w.woken, soon).any(|l| l.blocked >= w.woken && !is_futex(&l))
    };
    all >= GIVEN_MIN || 2 * group.iter().filter(sleeps_soon).count() >= group.len()
}

/// In how many hand-overs who had it slept while the next one waited, and of how many that is known.
fn slept(index: &Index, group: &[Wait]) -> (u64, u64) {
    let mut given: FxHashMap<TaskId, Vec<usize>> = FxHashMap::default();
    for (i, w) in group.iter().enumerate() {
        given.entry(w.by).or_default().push(i);
    }
    let (mut slept, mut all) = (0, 0);
    for w in group {
        let Some(of) = given.get(&w.task) else { continue };
        let Some(next) = of.get(of.partition_point(|&i| group[i].woken <= w.ran)).map(|&i| &group[i]) else { continue };
        let from = w.ran.max(next.asked);
        // another was faster than who was woken; or it was given and had again, with nobody waiting
        let mut later = waits(index, w.host, w.task, w.ran, next.woken);
        if later.any(|l| l.blocked < from || is_futex(&l)) {
            continue;
        }
        all += 1;
        slept += u64::from(waits(index, w.host, w.task, from, next.woken).next().is_some());
    }
    (slept, all)
}

/// Of the returns of a process's threads from sleeps while another of them ran on for a while, how many asked for their
/// turn soon, and how many there were.
fn asked(index: &Index, visits: &Visits, process: (HostId, u32), turns: &FxHashSet<Turn>) -> (u64, u64) {
    let mut runs: Vec<(MonoNs, MonoNs, TaskId)> = Vec::new();
    let mut returns: Vec<(MonoNs, TaskId, bool)> = Vec::new();
    for v in visits.all().iter().filter(|v| (v.host, v.tgid) == process) {
        let (mut ran, mut cpu, mut returned): (MonoNs, Option<u16>, Option<MonoNs>) = (v.from, None, None);
        let first = index.waits_from(v.host, v.task, v.from);
        for w in (first..).map_while(|p| index.wait(v.host, v.task, p)).take_while(|w| w.blocked < v.to) {
            // of a wait without a record only who ran instead is known
            let left = cpu.and_then(|cpu| index.displaced(v.host, v.task, cpu, ran, w.blocked));
            runs.push((ran, left.unwrap_or(w.blocked), v.task));
            (ran, cpu) = (ran.max(w.at), Some(w.cpu));
            if w.cause == EndedBy::Preempted {
                continue;
            }
            if let Some(at) = returned.take() {
                let is_soon = w.blocked.0 <= at.0.saturating_add(SOON_NS);
                returns.push((at, v.task, is_soon && turns.contains(&(v.host, v.task, w.blocked))));
            }
            returned = (!is_futex(&w)).then_some(w.at);
        }
        runs.push((ran, v.to, v.task));
        returns.extend(returned.map(|at| (at, v.task, false)));
    }
    runs.sort_unstable();
    let longest = runs.iter().map(|r| r.1.0.saturating_sub(r.0.0)).max().unwrap_or(0);
    let (mut asked, mut all) = (0, 0);
    for (at, task, has_asked) in returns {
        let after = runs.partition_point(|r| r.0 <= at);
        let mut near = runs[..after].iter().rev().take_while(|r| r.0.0.saturating_add(longest) >= at.0).take(NEAR);
        if near.any(|r| r.2 != task && r.1.0 >= at.0.saturating_add(SOON_NS)) {
            all += 1;
            asked += u64::from(has_asked);
        }
    }
    (asked, all)
}

/// How many processors a process's threads can use at the same time, if they need turns but in system calls: what they
/// ran in all, by what they ran outside of sends and receives. Other system calls are not seen, and count as outside.
fn at_a_time(index: &Index, visits: &Visits, process: (HostId, u32)) -> f64 {
    let (mut all, mut calls) = (0, 0);
    for v in visits.all().iter().filter(|v| (v.host, v.tgid) == process) {
        all += ran(index, v, v.from, v.to);
        let mut at = v.from;
        while let Some(o) = index.operation_from(v.host, v.task, at).filter(|o| o.entry < v.to) {
            calls += ran(index, v, o.entry.max(at), o.at.min(v.to));
            at = MonoNs(o.at.0 + 1);
        }
    }
    let outside = all.saturating_sub(calls);
    if outside == 0 { 1.0 } else { all as f64 / outside as f64 }
}

/// How long a visit's task ran between two moments (ns).
fn ran(index: &Index, v: &Visit, from: MonoNs, to: MonoNs) -> u64 {
    let first = index.waits_from(v.host, v.task, from);
    let waits = (first..).map_while(|p| index.wait(v.host, v.task, p)).take_while(|w| w.blocked < to);
    // an open wait has a record at each flush
    let (mut ran, mut since) = (0, from);
    for w in waits {
        ran += w.blocked.0.saturating_sub(since.0);
        since = since.max(w.at);
    }
    ran + to.0.saturating_sub(since.0)
}
