//! What tasks themselves did over time: ran, were ready, or waited, and by what each wait ended. Nothing is followed to others,
//! unlike on an active path.

mod calls;
mod processors;
mod thin;

pub use calls::{ByCall, First, Interval, WaitsInCall};
pub use processors::{Processor, processors};
pub use thin::{Part, Thin};

use crate::active_path::{lifetime, own_wait};
use crate::names::Names;
use crate::slices::State;
use std::collections::BTreeMap;
use wakepath_graph::Index;
use wakepath_model::ids::{CommonNs, HostId, MonoNs, TaskId};
use wakepath_model::rows::{EndedBy, WaitRow, gaps};

/// No system call.
const NO_SYSCALL: u16 = 0xffff;

/// An interval of a task's own time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stay {
    /// Begin.
    pub from: CommonNs,
    /// End, one past.
    pub to: CommonNs,
    /// What it did.
    pub state: State,
    /// Of a wait, who ended it; of a lost processor, who came next.
    pub by: Option<TaskId>,
    /// Of a wait, the system call.
    pub syscall: Option<u16>,
}

impl Stay {
    /// Its length (ns).
    pub fn duration_ns(&self) -> u64 {
        u64::try_from(self.to.0.saturating_sub(self.from.0)).unwrap_or(0)
    }
}

/// What `task` did between two moments, in order of time. What is not known is left out: before it was first seen, and after
/// the last that was recorded of it.
pub fn stays(index: &Index, host: HostId, task: TaskId, from: CommonNs, to: CommonNs, out: &mut dyn FnMut(Stay)) {
    let Some((born, died)) = lifetime(index, host, task) else { return };
    let (from, to) = (from.max(born), to.min(died));
    if from >= to {
        return;
    }
    let common = |at: MonoNs| index.common(host, at);
    let mut put = |a: CommonNs, b: CommonNs, state, by: TaskId, syscall: u16| {
        let (a, b) = (a.max(from), b.min(to));
        if a < b {
            let by = (by != TaskId::UNKNOWN).then_some(by);
            out(Stay { from: a, to: b, state, by, syscall: (syscall != NO_SYSCALL).then_some(syscall) });
        }
    };
    let mut place = first_place(index, host, task, from);
    // until its first wait it ran, from when it was made or seen to act
    let mut ran_from = match index.wait(host, task, place) {
        Some(w) if common(w.blocked) > from => Some(ran_since(index, host, task).max(from)),
        Some(_) => None,
        None => Some(ran_since(index, host, task).max(from)),
    };
    while let Some(w) = index.wait(host, task, place) {
        place += 1;
        // an open wait has a record at each flush: the last says how it went on
        if index.wait(host, task, place).is_some_and(|next| next.blocked == w.blocked) {
            continue;
        }
        let (blocked, ran) = (common(w.blocked), common(w.at));
        if blocked >= to {
            break;
        }
        if let Some(since) = ran_from.filter(|_| w.gaps & gaps::BEFORE == 0) {
            put(since, blocked, State::Running, TaskId::UNKNOWN, NO_SYSCALL);
        }
        let woken = match w.cause {
            EndedBy::Preempted | EndedBy::Open => ran,
            _ => common(w.woken.min(w.at).max(w.blocked)),
        };
        put(blocked, woken, own_wait(index, host, &w), w.by, w.syscall);
        put(woken, ran, State::Preempted, TaskId::UNKNOWN, NO_SYSCALL);
        ran_from = (w.cause != EndedBy::Open && w.runs_until(index.wait(host, task, place).as_ref())).then_some(ran);
    }
    if let Some(since) = ran_from {
        put(since, to, State::Running, TaskId::UNKNOWN, NO_SYSCALL);
    }
}

/// Place of the wait in which a moment lies, else of the first that began after it.
fn first_place(index: &Index, host: HostId, task: TaskId, from: CommonNs) -> u64 {
    let at = index.waits_from(host, task, index.timeline().local(host, from));
    let before = |place: u64| place.checked_sub(1).and_then(|p| index.wait(host, task, p));
    // all records of the wait before, where it was open at several flushes
    before(at).map_or(at, |w: WaitRow| index.waits_from(host, task, w.blocked))
}

/// From when on a task whose first wait has not begun is known to have run.
fn ran_since(index: &Index, host: HostId, task: TaskId) -> CommonNs {
    let made = index.fork(host, task).map(|(at, _)| at);
    let seen = made.or_else(|| index.first_seen(host, task)).unwrap_or(MonoNs(u64::MAX));
    if seen.0 == u64::MAX { CommonNs(i64::MAX) } else { index.common(host, seen) }
}

/// Which tasks are asked about.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Names, numbers or `NAME/TID`; empty = all.
    pub tasks: Vec<String>,
    /// On this host.
    pub host: Option<String>,
    /// Whose name or whose process's name has this in it.
    pub search: Option<String>,
}

/// A task of which waits were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// How many waits.
    pub waits: u64,
    /// Its host.
    pub host: HostId,
    /// The task.
    pub task: TaskId,
    /// Its program serves connections that were recorded: it is one of those that are watched.
    pub serves: bool,
}

/// The tasks that are wanted and of which waits were recorded: those of programs that serve first, then those with most waits.
pub fn tasks(index: &Index, names: &Names<'_>, wanted: &Wanted) -> Vec<Counted> {
    let mut found: Vec<(HostId, TaskId)> = match wanted.tasks.as_slice() {
        [] => names.tasks().collect(),
        some => some.iter().flat_map(|t| names.find_all(t)).collect(),
    };
    found.sort_unstable();
    found.dedup();
    let search = wanted.search.as_ref().map(|s| s.to_lowercase());
    let serving = names.serving();
    let mut counted: Vec<Counted> = found
        .into_iter()
        .filter(|(h, _)| wanted.host.as_ref().is_none_or(|host| names.host(*h) == host))
        .filter(|(h, t)| {
            let has = |name: &str, s: &str| name.to_lowercase().contains(s);
            search.as_ref().is_none_or(|s| has(&names.task(*h, *t), s) || has(names.program(*h, *t), s))
        })
        .map(|(host, task)| {
            let serves = serving.contains(&(host, names.program(host, task).to_owned()));
            Counted { waits: index.waits_of(host, task), host, task, serves }
        })
        .filter(|c| c.waits > 0)
        .collect();
    counted.sort_unstable_by_key(|c| (!c.serves, std::cmp::Reverse(c.waits), c.host, c.task));
    counted
}

/// How long a task was in each state, and how often.
pub type Sums = BTreeMap<State, (u64, u64)>;

/// Adds an interval to the sums.
pub fn add(sums: &mut Sums, s: &Stay) {
    let sum = sums.entry(s.state).or_default();
    sum.0 += s.duration_ns();
    sum.1 += 1;
}
