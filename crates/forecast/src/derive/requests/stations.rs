//! Who computes for whom: the processors of a host, of a quota, of an affinity.

use super::services::Services;
use crate::derive::demand::Demand;
use crate::jobs::Turns;
use crate::system::{Discipline, Station, StationId};
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_analysis::names::Names;
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::{HostId, TaskId};
use wakepath_model::rows::{Event, LimitKind, LimitRow, Table};

/// What bounds the processors of a service.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Bound {
    Host(HostId),
    Quota(HostId, String),
    /// One by one, the processors on which it may run.
    Affinity(HostId, u64, u64),
    /// Threads of so many processes of this service take turns.
    Turns(usize),
}

/// Stations of services.
pub struct Stations {
    /// All of them.
    pub all: Vec<Station>,
    /// Of each service.
    pub of: Vec<StationId>,
    /// Of each service, how its processes take turns, where that limits it.
    pub turns: Vec<Option<Turns>>,
    /// Of hosts of which nothing tells the number of processors.
    pub assumptions: Vec<String>,
    /// Of hosts whose tasks ran longer than their processors could.
    pub impossible: Vec<String>,
}

/// The bounds that were written down, the last that holds of each.
#[derive(Default)]
struct Limits {
    processors: Option<u64>,
    /// By process: cgroup, quota and period.
    quotas: FxHashMap<u32, (String, u64, u64)>,
    /// By process: how many, which.
    affinities: FxHashMap<u32, (u64, u64)>,
    /// Room of accept queues, by port.
    backlogs: FxHashMap<u16, u64>,
}

fn read(folder: &Folder, names: &Names<'_>, host: HostId) -> Limits {
    let mut out = Limits::default();
    let Some(of) = folder.host(host) else { return out };
    for event in of.events(TableSet::of(&[Table::Limit]), ..) {
        let Event::Limit(LimitRow { kind, value, beside, task, cgroup, port, .. }) = event else { continue };
        let process = names.tgid(host, task);
        match kind {
            LimitKind::Processors => out.processors = Some(value),
            LimitKind::Quota => {
                out.quotas.insert(process, (of.text(cgroup).to_owned(), value, beside));
            }
            LimitKind::Affinity => {
                out.affinities.insert(process, (value, beside));
            }
            LimitKind::Backlog => {
                out.backlogs.insert(port, value.saturating_add(1));
            }
            _ => {}
        }
    }
    out
}

/// What is left of a host's processors at least, whatever others took: what they take when nobody else wants to compute,
/// they would give.
const LEFT_MIN: f64 = 0.25;

/// So many times as much as there is of processors is an error of measurement; more is impossible.
const MEASURED_OVER: f64 = 1.1;

/// Room of the accept queues of services that wait there, and their stations. `turns`: of each service, how many
/// processors it can use where its processes let one of their threads run at a time, 0 = none does.
pub fn find(
    folder: &Folder,
    names: &Names<'_>,
    services: &Services,
    demand: &Demand,
    turns: &[f64],
    elapsed_ns: u64,
) -> (Stations, Vec<Option<u64>>) {
    let mut limits: FxHashMap<HostId, Limits> = FxHashMap::default();
    let mut ids: FxHashMap<Bound, StationId> = FxHashMap::default();
    let mut out = Stations {
        all: Vec::new(),
        of: Vec::new(),
        turns: Vec::new(),
        assumptions: Vec::new(),
        impossible: Vec::new(),
    };
    let mut rooms = Vec::new();
    let mut checked: FxHashSet<HostId> = FxHashSet::default();
    for (id, s) in services.all.iter().enumerate() {
        let known = limits.entry(s.host).or_insert_with(|| read(folder, names, s.host));
        let seen = u64::from(demand.processors.get(&s.host).copied().unwrap_or(0)) + 1;
        let host_servers = known.processors.unwrap_or(seen).min(u64::from(u16::MAX));
        if known.processors.is_none() && !ids.contains_key(&Bound::Host(s.host)) {
            out.assumptions.push(not_said(names.host(s.host), host_servers));
        }
        // who serves none of the requests computed all the same
        let taken = taken_by_others(demand, s.host, elapsed_ns);
        let whole = host_servers as f64;
        if checked.insert(s.host) {
            let own = own_processors(services, demand, s.host, elapsed_ns);
            out.impossible.extend(too_much(names.host(s.host), whole, taken + own, recordings(folder, s.host)));
        }
        let mut servers = (whole - taken).max(LEFT_MIN * whole);
        let mut bound = Bound::Host(s.host);
        let mut discipline = Discipline::Shared;
        let mut name = names.host(s.host).to_owned();
        if let Some((count, which)) = of(names, s.host, &s.tasks, &known.affinities)
            && count < host_servers
        {
            servers = servers.min(count as f64);
            bound = Bound::Affinity(s.host, count, which);
            name = s.name.clone();
        }
        if let Some((cgroup, quota, period)) = of(names, s.host, &s.tasks, &known.quotas)
            && period > 0
            && quota as f64 / (period as f64) < servers
        {
            // a little more than the quota can be had: what was used was there
            let used = demand.used[id].all_ns as f64 / elapsed_ns.max(1) as f64;
            servers = (quota as f64 / period as f64).max(used);
            bound = Bound::Quota(s.host, cgroup);
            let at_once = match turns.get(id) {
                Some(&n) if n > 0.0 => (n.ceil() as u32).min(host_servers as u32),
                _ => host_servers as u32,
            };
            discipline = Discipline::Quota { period_ns: period, at_once };
            name = s.name.clone();
        }
        let at_a_time = turns.get(id).copied().unwrap_or(0.0);
        let each = at_a_time / processes(names, s.host, &s.tasks).len().max(1) as f64;
        let most = if matches!(discipline, Discipline::Quota { .. }) { whole } else { servers };
        out.turns.push((at_a_time > 0.0 && at_a_time < most).then_some(Turns { each, most }));
        if at_a_time > 0.0 && at_a_time < servers {
            servers = at_a_time;
            discipline = Discipline::Shared;
            bound = Bound::Turns(id);
            name = s.name.clone();
        }
        let others = if matches!(bound, Bound::Host(_)) { taken } else { 0.0 };
        let station = *ids.entry(bound.clone()).or_insert_with(|| {
            out.all.push(Station { name, what: "processors", servers, speed: 1.0, others, discipline });
            StationId((out.all.len() - 1) as u32)
        });
        // several services under one quota go by its name
        if let (Bound::Quota(_, cgroup), true) = (&bound, out.of.contains(&station)) {
            out.all[station.index()].name = cgroup.clone();
        }
        out.of.push(station);
        rooms.push(known.backlogs.get(&s.port).copied().filter(|_| s.is_per_connection && s.workers.is_some()));
    }
    (out, rooms)
}

/// How many processors the services of a host took, on average.
fn own_processors(services: &Services, demand: &Demand, host: HostId, elapsed_ns: u64) -> f64 {
    let of_host = services.all.iter().zip(&demand.used).filter(|(s, _)| s.host == host);
    of_host.map(|(_, used)| used.all_ns).sum::<u64>() as f64 / elapsed_ns.max(1) as f64
}

/// How many of a host's processors tasks took that serve none of the requests, on average.
fn taken_by_others(demand: &Demand, host: HostId, elapsed_ns: u64) -> f64 {
    let others = demand.strangers.iter().filter(|((h, _), _)| *h == host).map(|(_, ns)| *ns).sum::<u64>();
    others as f64 / elapsed_ns.max(1) as f64
}

/// What is taken for granted of a host whose number of processors is not recorded.
fn not_said(host: &str, processors: u64) -> String {
    format!("{host} has {processors} processors, the highest that was seen, and no quota: the recording does not say.")
}

/// How many recordings of a host there may be at a time: one after a pause is none of those.
fn recordings(folder: &Folder, host: HostId) -> usize {
    folder.host(host).map_or(1, |host| (1 + host.info().earlier.len()).saturating_sub(host.pauses().len()))
}

/// What is wrong where tasks ran on more processors than a host has.
fn too_much(host: &str, processors: f64, busy: f64, recordings: usize) -> Option<String> {
    (busy > MEASURED_OVER * processors).then(|| {
        let why = match recordings {
            0 | 1 => "records of when they stopped are missing".to_owned(),
            n => format!(
                "its {n} recordings may overlap, which counts tasks twice, or records of when they stopped are missing"
            ),
        };
        format!("tasks seem to have run on {busy:.1} processors at a time, and {host} has {processors}: {why}")
    })
}

/// The processes of these tasks, by number.
pub fn processes(names: &Names<'_>, host: HostId, tasks: &[TaskId]) -> Vec<u32> {
    let mut all: Vec<u32> = tasks.iter().map(|&t| names.tgid(host, t)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The bound of the processes of these tasks, where one has one.
fn of<T: Clone>(names: &Names<'_>, host: HostId, tasks: &[TaskId], by_process: &FxHashMap<u32, T>) -> Option<T> {
    tasks.iter().find_map(|&t| by_process.get(&names.tgid(host, t))).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_all_processors_is_impossible() {
        assert_eq!(too_much("web", 2.0, 2.1, 1), None);
        let told = too_much("web", 2.0, 78.7, 1).expect("it is impossible");
        assert!(
            told.starts_with("tasks seem to have run on 78.7 processors at a time, and web has 2: records of"),
            "{told}"
        );
        let told = too_much("web", 2.0, 4.0, 2).expect("it is impossible");
        assert!(told.contains("its 2 recordings may overlap"), "{told}");
    }
}
