//! Processes that the CPU quota of a cgroup held back: a fact of their tasks, whatever is known of requests.

use crate::names::Names;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{HostId, TaskId};
use wakepath_model::rows::{EndedBy, Event, LimitKind, LimitRow, Table};

/// `object` of a wait that a quota made: [`EndedBy::Preempted`].
const QUOTA: u64 = 1;

/// A cgroup whose CPU quota held processes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// Its host.
    pub host: HostId,
    /// Its path in the hierarchy of the processors.
    pub cgroup: String,
    /// The task that leads the process whose threads it held back longest.
    pub task: TaskId,
    /// How many processes it held back.
    pub processes: u64,
    /// Processor time that it gets in each period, and the period (ns).
    pub quota_ns: (u64, u64),
    /// For how long one or more threads were ready to run, and the quota was used up (ns).
    pub held_ns: u64,
    /// How long the host was recorded (ns).
    pub recorded_ns: u64,
}

/// The cgroups whose quotas held processes back, longest first. Memory: the processes with a quota.
pub fn throttled(folder: &Folder, names: &Names<'_>) -> Vec<Throttled> {
    let mut out: Vec<Throttled> = folder.hosts().iter().flat_map(|h| of_host(h, names)).collect();
    out.sort_by(|a, b| b.held_ns.cmp(&a.held_ns).then_with(|| (a.host, &a.cgroup).cmp(&(b.host, &b.cgroup))));
    out
}

/// Most times of a quota that are kept apart. One that reaches back further than these is counted from there on.
const SPANS_MAX: usize = 4096;

/// What is known of a quota.
#[derive(Default)]
struct Held {
    quota_ns: (u64, u64),
    held_ns: u64,
    /// When it held threads back: apart from each other and in order; those before `settled` are counted and forgotten.
    spans: VecDeque<(u64, u64)>,
    settled: u64,
    /// By process: the task that leads it, and the time of all its threads together (ns).
    processes: FxHashMap<u32, (TaskId, u64)>,
}

impl Held {
    /// It held a thread back from a moment to another one, which is not before those of calls before.
    fn holds(&mut self, mut from: u64, to: u64) {
        from = from.max(self.settled);
        while let Some(&(f, t)) = self.spans.back().filter(|(_, t)| *t >= from) {
            from = from.min(f);
            self.held_ns -= t - f;
            self.spans.pop_back();
        }
        if from < to {
            self.spans.push_back((from, to));
            self.held_ns += to - from;
        }
        if self.spans.len() > SPANS_MAX
            && let Some((_, t)) = self.spans.pop_front()
        {
            self.settled = t;
        }
    }
}

fn of_host(host: &Host, names: &Names<'_>) -> Vec<Throttled> {
    let mut quotas: BTreeMap<String, Held> = BTreeMap::new();
    let mut cgroup_of: FxHashMap<u32, String> = FxHashMap::default();
    for event in host.events(TableSet::of(&[Table::Limit]), ..) {
        let Event::Limit(LimitRow { kind: LimitKind::Quota, task, cgroup, value, beside, .. }) = event else {
            continue;
        };
        let (process, cgroup) = (names.tgid(host.id(), task), host.text(cgroup).to_owned());
        let held = quotas.entry(cgroup.clone()).or_default();
        held.quota_ns = (value, beside);
        held.processes.entry(process).or_insert((task, 0));
        cgroup_of.insert(process, cgroup);
    }
    // a host without a quota needs no pass over its waits
    let tables: &[Table] = if quotas.is_empty() { &[] } else { &[Table::Wait] };
    // rows come in the order in which the waits ended
    for event in host.events(TableSet::of(tables), ..) {
        let Event::Wait(w) = event else { continue };
        if w.cause != EndedBy::Preempted || w.object != QUOTA {
            continue;
        }
        let process = names.tgid(host.id(), w.task);
        let Some(h) = cgroup_of.get(&process).and_then(|cgroup| quotas.get_mut(cgroup)) else { continue };
        h.holds(w.blocked.0, w.at.0);
        if let Some((_, all_ns)) = h.processes.get_mut(&process) {
            *all_ns += w.at.0.saturating_sub(w.blocked.0);
        }
    }
    let (began, ended) = host.span().unwrap_or_default();
    let of_quota = |(cgroup, h): (String, Held)| {
        let most = h.processes.values().max_by_key(|(task, ns)| (*ns, std::cmp::Reverse(*task)))?;
        (h.held_ns > 0).then(|| Throttled {
            host: host.id(),
            cgroup,
            task: most.0,
            processes: h.processes.values().filter(|(_, ns)| *ns > 0).count() as u64,
            quota_ns: h.quota_ns,
            held_ns: h.held_ns,
            recorded_ns: ended.0.saturating_sub(began.0),
        })
    };
    quotas.into_iter().filter_map(of_quota).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_several_threads_are_held_back_counts_once() {
        let held = |all: &[(u64, u64)]| {
            let mut held = Held::default();
            all.iter().for_each(|&(from, to)| held.holds(from, to));
            held.held_ns
        };
        assert_eq!(held(&[(50, 200), (100, 300)]), 250);
        // the one that began first need not end first
        assert_eq!(held(&[(100, 200), (50, 300)]), 250);
        assert_eq!(held(&[(10, 20), (30, 40), (60, 70), (25, 80)]), 65);
        assert_eq!(held(&[(10, 20), (10, 20), (15, 20)]), 10);
        let many: Vec<(u64, u64)> = (0..2 * SPANS_MAX as u64).map(|i| (10 * i, 10 * i + 5)).collect();
        assert_eq!(held(&many), 10 * SPANS_MAX as u64);
    }
}
