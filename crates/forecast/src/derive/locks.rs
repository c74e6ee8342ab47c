//! Locks between the tasks that serve requests, and interpreters that let one thread run at a time.
//!
//! The kernel sees a lock only where it has to wait for it: a task sleeps at an address until another wakes it. Where
//! the other was serving a request then, it let go of something. What it had since it was woken itself, or since it
//! took it unseen, is its hold. Takes that waited for nobody and that nobody waited for are not to be seen: they are
//! put where the seen ones are, and the assumptions say so.

mod interpreter;
mod latches;
mod place;

use super::holds::{Hold, Tokens};
use super::visits::{Visit, Visits, is_futex, waits as slept};
use crate::jobs::Pool;
use place::Typical;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_analysis::names::Names;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::ids::{HostId, MonoNs, TaskId};
use wakepath_model::rows::EndedBy;

/// Least waits that make a lock: fewer may be chance.
const WAITS_MIN: usize = 8;
/// And least share of a service's visits.
const WAITS_SHARE: f64 = 0.01;
/// Words of one lock lie at most so far apart (bytes): a condition has several.
const APART_MAX: u64 = 64;
/// What so many have at the same time, on average while anybody has it, is no lock.
const AT_ONCE_MAX: f64 = 2.0;
/// Who is woken and finds the lock taken again sleeps again within this time (ns); who lets go wakes all that waited.
const AGAIN_NS: u64 = 100_000;

/// A process of which one thread runs at a time: an interpreter's lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interpreter {
    /// On which host.
    pub host: HostId,
    /// The process's number.
    pub tgid: u32,
    /// How many processors its threads can use at the same time, since they need no turn in system calls: 1 where they
    /// run in none, 2 where they run there half of their time. What it computes is served by a station of so many servers.
    pub at_a_time: f64,
}

/// A wait for what another task let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    /// Index of the visit in which it was.
    visit: usize,
    host: HostId,
    task: TaskId,
    /// The process, where the one that let go is of it too; else 0.
    tgid: u32,
    address: u64,
    by: TaskId,
    asked: MonoNs,
    woken: MonoNs,
    ran: MonoNs,
}

/// Waits of all visits for other tasks' letting go of something, by what it is; those for an interpreter's turn are told
/// apart.
pub fn waits(index: &Index, names: &Names<'_>, visits: &Visits) -> (Vec<Interpreter>, Tokens, Vec<Group>) {
    let groups = by_address(names, visits, futex_waits(index, names, visits));
    let (interpreters, turns, groups) = interpreter::find(index, visits, groups);
    let mut out = Tokens::new(Vec::new(), Vec::new(), turns);
    for i in &interpreters {
        let of = visits.all().iter().find(|v| (v.host, v.tgid) == (i.host, i.tgid));
        let name = of.map_or("?", |v| names.program(v.host, v.task));
        out.assumptions.push(format!(
            "process {name}/{} runs one of its threads at a time (an interpreter's lock), besides what they run in system \
             calls: at most {:.2} processors",
            i.tgid, i.at_a_time
        ));
    }
    (interpreters, out, groups)
}

/// The locks that services of `requests` held: `groups` are what [`waits`] left. Waits for `pools` are not for a lock.
pub fn find(
    index: &Index,
    names: &Names<'_>,
    requests: &[Request],
    visits: &Visits,
    pools: &Tokens,
    groups: Vec<Group>,
) -> Tokens {
    let (out, holds, turns) = (Tokens::default(), Vec::new(), Vec::new());
    let mut found = Finder { index, names, requests, visits, out, holds, turns };
    for mut group in groups {
        group.0.retain(|w| !pools.is_turn(w.host, w.task, w.asked));
        found.lock(group);
    }
    let kept = latches::kept(index, names, visits, WAITS_MIN, |visit| found.calls(visit));
    found.out.assumptions.extend(kept);
    let mut out = Tokens::new(found.out.pools, found.holds, found.turns);
    (out.assumptions, out.unseen) = (found.out.assumptions, found.out.unseen);
    out
}

/// All waits in visits that another task's letting go ended, as far as their records say.
fn futex_waits(index: &Index, names: &Names<'_>, visits: &Visits) -> Vec<Wait> {
    let mut all: Vec<Wait> = Vec::new();
    // a thread of logical tasks (goroutines) sleeps where none of them goes on: what these wait for is not that
    for (i, v) in visits.all().iter().enumerate().filter(|(_, v)| v.actor == v.task) {
        for w in slept(index, v.host, v.task, v.from, v.to) {
            let is_one = is_futex(&w) && w.cause == EndedBy::Task && w.by != TaskId::UNKNOWN && w.by != w.task;
            if !is_one {
                continue;
            }
            let tgid = if names.tgid(v.host, w.by) == v.tgid { v.tgid } else { 0 };
            let woken = w.woken.clamp(w.blocked, w.at);
            all.push(Wait {
                visit: i,
                host: v.host,
                task: w.task,
                tgid,
                address: w.arg0,
                by: w.by,
                asked: w.blocked,
                woken,
                ran: w.at,
            });
        }
    }
    // an event loop's visits share its waits
    all.sort_by_key(|w| (w.host, w.task, w.asked));
    all.dedup_by_key(|w| (w.host, w.task, w.asked));
    all
}

/// Waits for one thing, by time of being woken.
pub struct Group(Vec<Wait>);

/// Which waits are for the same thing: those at one address of a process. Where each task has an address of its own to
/// sleep at (semaphores of processes that share memory), the service's are taken together.
fn by_address(names: &Names<'_>, visits: &Visits, mut all: Vec<Wait>) -> Vec<Group> {
    let mut waiters: FxHashMap<(HostId, u32, u64), Option<TaskId>> = FxHashMap::default();
    for w in &all {
        let at = waiters.entry((w.host, w.tgid, w.address)).or_insert(Some(w.task));
        *at = at.filter(|t| *t == w.task);
    }
    let is_own = |w: &Wait| waiters.get(&(w.host, w.tgid, w.address)).is_some_and(Option::is_some);
    let process = |w: &Wait| names.program(w.host, visits.all()[w.visit].task);
    all.sort_by_key(|w| (w.host, is_own(w), process(w), w.tgid, w.address, w.woken));
    let mut groups: Vec<Group> = Vec::new();
    for w in all {
        let is_same = |l: &Wait| {
            let is_near = is_own(&w) || w.address.abs_diff(l.address) <= APART_MAX;
            (l.host, is_own(l), process(l), l.tgid) == (w.host, is_own(&w), process(&w), w.tgid) && is_near
        };
        match groups.last_mut() {
            Some(g) if g.0.last().is_some_and(is_same) => g.0.push(w),
            _ => groups.push(Group(vec![w])),
        }
    }
    groups.iter_mut().for_each(|g| g.0.sort_by_key(|w| (w.woken, w.task)));
    groups
}

/// How many had it at the same time, on average while anybody had it, by the holds of which both ends were seen.
fn at_once(seen: &[Seen]) -> f64 {
    let whole = seen.iter().filter_map(|s| Some((s.handed?.1.0, s.given?.0)));
    let mut holds: Vec<(u64, u64)> = whole.filter(|(taken, given)| given > taken).collect();
    holds.sort_unstable();
    let (mut any, mut until, mut sum) = (0u64, 0u64, 0u64);
    for (taken, given) in holds {
        sum += given - taken;
        any += given.saturating_sub(until.max(taken));
        until = until.max(given);
    }
    sum as f64 / any.max(1) as f64
}

/// How many different addresses were slept at.
fn addresses(group: &[Wait]) -> usize {
    group.iter().map(|w| w.address).collect::<FxHashSet<_>>().len()
}

struct Finder<'a> {
    index: &'a Index,
    names: &'a Names<'a>,
    requests: &'a [Request],
    visits: &'a Visits,
    out: Tokens,
    holds: Vec<Hold>,
    turns: Vec<(HostId, TaskId, MonoNs)>,
}

/// A hold of which a part may not be known.
#[derive(Clone, Copy, Debug)]
struct Seen {
    visit: usize,
    /// When it was wanted and had, where that waited.
    handed: Option<(MonoNs, MonoNs)>,
    /// When it was let go, where somebody waited for that.
    given: Option<MonoNs>,
}

impl Finder<'_> {
    /// One group's lock, where it is one.
    fn lock(&mut self, Group(mut group): Group) {
        // who is no request's works for one, or is not known to hold anything
        group.retain(|w| {
            let by = self.visits.at(w.host, w.by, w.woken);
            by.is_some_and(|b| {
                (b.request, b.span) != (self.visits.all()[w.visit].request, self.visits.all()[w.visit].span)
            })
        });
        let Some(first) = group.first().copied() else { return };
        let process = self.names.program(first.host, first.task);
        let is_its = |v: &Visit| {
            v.host == first.host
                && (v.tgid == first.tgid || (first.tgid == 0 && self.names.program(v.host, v.task) == process))
        };
        let served: Vec<usize> = (0..self.visits.all().len()).filter(|&i| is_its(&self.visits.all()[i])).collect();
        if (group.len() as f64) < (WAITS_SHARE * served.len() as f64).max(WAITS_MIN as f64) {
            return;
        }
        let mut seen = self.seen(&group);
        if interpreter::is_given_first(self.index, &group) {
            seen = self.without_sleep(seen);
        }
        let at_once = at_once(&seen);
        if at_once >= AT_ONCE_MAX {
            self.out.unseen.push(format!(
                "what {process} waits for at {} address(es): {at_once:.1} of its tasks had it at the same time, so that it is no \
                 lock, and who gave it was seen with no connection of a pool. These waits stay as long as they were",
                addresses(&group)
            ));
            return;
        }
        let Some(typical) = Typical::of(self.index, self.visits, &self.children(&seen), &seen) else { return };
        let number = 1 + self.out.pools.iter().filter(|p| p.name.starts_with(&format!("{process}/lock "))).count();
        let name = format!("{process}/lock {number}");
        let pool = self.out.pools.len();
        let mut holds = typical.complete(self.index, self.visits, &seen);
        let mut has: FxHashSet<usize> = seen.iter().map(|s| s.visit).collect();
        let shown = holds.len();
        let takers = self.takers(&served, &has, typical.held_ns);
        for &i in served.iter().filter(|i| takers.contains(&self.kind(**i))) {
            if has.insert(i)
                && let Some(hold) = typical.unseen(self.index, &self.visits.all()[i], &self.calls(i))
            {
                holds.push(hold);
            }
        }
        let put = holds.len() - shown;
        self.out.pools.push(Pool {
            name: name.clone(),
            tokens: 1,
            is_lock: true,
            process: (first.tgid != 0).then_some(first.tgid),
        });
        self.out.assumptions.push(format!(
            "{name} {}; {shown} holds were seen because another task waited; {put} uncontended ones are placed like them",
            typical.sentence()
        ));
        self.holds.extend(holds.into_iter().map(|h| Hold { pool, ..h }));
        self.turns.extend(group.iter().map(|w| (w.host, w.task, w.asked)));
    }

    /// The holds of which a begin or an end was seen, by visit and time.
    fn seen(&self, group: &[Wait]) -> Vec<Seen> {
        let mut releases: FxHashMap<TaskId, Vec<MonoNs>> = FxHashMap::default();
        for w in group {
            let of = releases.entry(w.by).or_default();
            if of.last().is_none_or(|last| w.woken.0 > last.0 + AGAIN_NS) {
                of.push(w.woken);
            }
        }
        let first_in = |task: TaskId, from: MonoNs, to: MonoNs| {
            let of = releases.get(&task)?;
            of.get(of.partition_point(|r| *r <= from)).copied().filter(|r| *r <= to)
        };
        let mut by_visit: Vec<&Wait> = group.iter().collect();
        by_visit.sort_by_key(|w| (w.visit, w.asked));
        let mut seen: Vec<Seen> = Vec::new();
        let mut used: FxHashSet<(TaskId, MonoNs)> = FxHashSet::default();
        let mut last: Option<&Wait> = None;
        for (i, w) in by_visit.iter().enumerate() {
            let again = last.filter(|l| l.visit == w.visit && w.asked.0 <= l.ran.0.saturating_add(AGAIN_NS));
            let is_again = again.is_some_and(|l| first_in(w.task, l.woken, w.asked).is_none());
            last = Some(w);
            let to = match by_visit.get(i + 1).filter(|n| n.visit == w.visit) {
                Some(next) => next.asked,
                None => self.visits.all()[w.visit].to,
            };
            let given = first_in(w.task, w.woken, to);
            used.extend(given.map(|g| (w.task, g)));
            match seen.last_mut() {
                Some(s) if is_again => {
                    s.handed = s.handed.map(|h| (h.0, w.woken));
                    s.given = given;
                }
                _ => seen.push(Seen { visit: w.visit, handed: Some((w.asked, w.woken)), given }),
            }
        }
        let host = group.first().map_or(HostId(0), |w| w.host);
        for (task, of) in &releases {
            for &r in of.iter().filter(|r| !used.contains(&(*task, **r))) {
                if let Some(i) = self.visits.place_at(host, *task, r) {
                    seen.push(Seen { visit: i, handed: None, given: Some(r) });
                }
            }
        }
        let when = |s: &Seen| s.handed.map_or(s.given.unwrap_or_default(), |h| h.1);
        seen.sort_by_key(|s| (s.visit, when(s)));
        seen
    }

    /// Of a lock that is given away before sleeping: who slept between taking it and a later release had let go of it, with
    /// nobody waiting, and taken it anew. A hold ends where its holder goes to sleep.
    fn without_sleep(&self, seen: Vec<Seen>) -> Vec<Seen> {
        let mut out = Vec::with_capacity(seen.len());
        for s in seen {
            let v = &self.visits.all()[s.visit];
            let asleep = s.handed.and_then(|(_, taken)| {
                slept(self.index, v.host, v.task, taken, s.given.unwrap_or(v.to)).find(|w| !is_futex(w))
            });
            match asleep {
                Some(w) => {
                    out.push(Seen { given: Some(w.blocked), ..s });
                    out.extend(s.given.map(|_| Seen { handed: None, ..s }));
                }
                None => out.push(s),
            }
        }
        out
    }

    /// What a visit was asked for: those alike take the same locks.
    fn kind(&self, visit: usize) -> String {
        let v = &self.visits.all()[visit];
        let span = &self.requests[v.request as usize].spans[v.span as usize];
        span.callee.as_ref().map_or_else(String::new, |half| self.names.asked(half))
    }

    /// The kinds of visits all of which take the lock: those of which at least half as many are seen to as would be if
    /// all did. Of a lock that is held a share U of the time, one take in 1 − (1 − U)² waits or is waited for.
    fn takers(&self, served: &[usize], seen: &FxHashSet<usize>, held_ns: u64) -> FxHashSet<String> {
        let mut kinds: FxHashMap<String, (u64, u64)> = FxHashMap::default();
        for &i in served {
            let of = kinds.entry(self.kind(i)).or_default();
            of.0 += 1;
            of.1 += u64::from(seen.contains(&i));
        }
        let spans = served.iter().map(|&i| &self.visits.all()[i]);
        let (from, to) = spans.fold((u64::MAX, 0), |(a, b), v| (a.min(v.from.0), b.max(v.to.0)));
        let taking: u64 = kinds.values().filter(|k| k.1 > 0).map(|k| k.0).sum();
        let used = (taking as f64 * held_ns as f64 / to.saturating_sub(from).max(1) as f64).min(1.0);
        let expected = 1.0 - (1.0 - used) * (1.0 - used);
        let all = kinds.into_iter().filter(|(_, k)| k.1 > 0 && k.1 as f64 >= 0.5 * expected * k.0 as f64);
        all.map(|(kind, _)| kind).collect()
    }

    /// Begin and end of the calls that a visit made, by time.
    fn calls(&self, visit: usize) -> Vec<(MonoNs, MonoNs)> {
        let v = &self.visits.all()[visit];
        let spans = &self.requests[v.request as usize].spans;
        let asked = spans.iter().filter(|s| s.parent == Some(v.span)).filter_map(|s| s.caller.as_ref());
        let mut calls: Vec<_> =
            asked.filter(|c| c.host == v.host).map(|c| (c.exchange.request.began, c.exchange.reply.ended)).collect();
        calls.sort_unstable();
        calls
    }

    /// The calls of each hold's visit.
    fn children(&self, seen: &[Seen]) -> Vec<Vec<(MonoNs, MonoNs)>> {
        seen.iter().map(|s| self.calls(s.visit)).collect()
    }
}
