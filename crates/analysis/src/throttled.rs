//! Processes that the CPU quota of a cgroup held back: a fact of their tasks, whatever is known of requests.

use crate::names::Names;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{HostId, MonoNs, TaskId};
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

/// What is known of a quota.
#[derive(Default)]
struct Held {
    quota_ns: (u64, u64),
    held_ns: u64,
    /// Until when it held threads back, as far as was read.
    until: MonoNs,
    /// By process: the task that leads it, and the time of all its threads together (ns).
    processes: FxHashMap<u32, (TaskId, u64)>,
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
    // rows come in the order in which the waits ended: of each, what lies after the end of the one before it is new
    for event in host.events(TableSet::of(tables), ..) {
        let Event::Wait(w) = event else { continue };
        if w.cause != EndedBy::Preempted || w.object != QUOTA {
            continue;
        }
        let process = names.tgid(host.id(), w.task);
        let Some(h) = cgroup_of.get(&process).and_then(|cgroup| quotas.get_mut(cgroup)) else { continue };
        h.held_ns += w.at.0.saturating_sub(w.blocked.max(h.until).0);
        h.until = h.until.max(w.at);
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
