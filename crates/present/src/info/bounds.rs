//! What was written down of what bounds a host, what annotated programs said, and page faults.

use crate::units;
use rustc_hash::FxHashSet;
use serde::Serialize;
use wakepath_model::folder::Host;
use wakepath_model::rows::{FaultKind, FaultRow, LimitKind, LimitRow, MarkKind, MarkRow, Table};

/// Names told apart.
const NAMES_MAX: usize = 1 << 16;

/// Bounds of a host; the last that was written down of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitFacts {
    /// Processors that were online; none where the recording does not say.
    pub processors: Option<u64>,
    /// Cgroups with a quota of processor time.
    pub quotas: u64,
    /// Processes that may not run on all processors.
    pub affinities: u64,
    /// Listeners whose backlog is known.
    pub backlogs: u64,
    /// Connections whose buffers are known.
    pub buffers: u64,
}

/// What annotated programs said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnnotationFacts {
    /// Machines, told apart by name, key and task.
    pub machines: u64,
    /// Queues, by name and key.
    pub queues: u64,
}

/// Page faults of watched tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultFacts {
    /// Without a read.
    pub minor: u64,
    /// With one.
    pub major: u64,
    /// Counted by the kernel as neither: mostly a signal followed.
    pub neither: u64,
    /// How long programs were held up in those with a read, ns.
    pub major_ns: u64,
}

/// Reads a host's bounds; `None` where it has none.
pub(super) fn limits(host: &Host) -> Option<LimitFacts> {
    let mut found = LimitFacts::default();
    let mut seen: FxHashSet<(LimitKind, u64)> = FxHashSet::default();
    for batch in host.batches(Table::Limit.into(), ..) {
        for row in batch.rows::<LimitRow>() {
            let (whose, sum) = match row.kind {
                LimitKind::Processors => {
                    found.processors = Some(row.value);
                    continue;
                }
                LimitKind::Quota => (u64::from(row.cgroup.0), &mut found.quotas),
                LimitKind::Affinity => (u64::from(row.task.0), &mut found.affinities),
                LimitKind::Backlog => (row.flow.0, &mut found.backlogs),
                LimitKind::Buffers => (row.flow.0, &mut found.buffers),
                LimitKind::SynLinear | LimitKind::Descriptors => continue,
            };
            *sum += u64::from(seen.len() < NAMES_MAX && seen.insert((row.kind, whose)));
        }
    }
    (host.row_count(Table::Limit) > 0).then_some(found)
}

/// Reads who said something; `None` where nobody did.
pub(super) fn annotations(host: &Host) -> Option<AnnotationFacts> {
    let mut machines: FxHashSet<(u32, u64, u32)> = FxHashSet::default();
    let mut queues: FxHashSet<(u32, u64)> = FxHashSet::default();
    for batch in host.batches(Table::Mark.into(), ..) {
        for row in batch.rows::<MarkRow>() {
            if machines.len() < NAMES_MAX {
                machines.insert((row.machine.0, row.key, row.task.0));
            }
            let is_of_queue = !matches!(row.kind, MarkKind::State | MarkKind::Begin | MarkKind::End);
            if is_of_queue && queues.len() < NAMES_MAX {
                queues.insert((row.name.0, row.name_key));
            }
        }
    }
    let facts = AnnotationFacts { machines: machines.len() as u64, queues: queues.len() as u64 };
    (facts.machines > 0).then_some(facts)
}

/// Counts page faults; `None` where there are none.
pub(super) fn faults(host: &Host) -> Option<FaultFacts> {
    let mut found = FaultFacts::default();
    for batch in host.batches(Table::Fault.into(), ..) {
        for row in batch.rows::<FaultRow>() {
            match row.kind {
                FaultKind::Minor => found.minor += 1,
                FaultKind::Major => {
                    found.major += 1;
                    found.major_ns = found.major_ns.saturating_add(row.duration_ns().unwrap_or(0));
                }
                _ => found.neither += 1,
            }
        }
    }
    (found != FaultFacts::default()).then_some(found)
}

impl LimitFacts {
    /// In a line.
    pub(super) fn line(&self) -> String {
        let processors = self.processors.map(|n| several(n, "processor", "processors"));
        let others = [
            (self.quotas, "cgroup with a quota", "cgroups with a quota"),
            (self.affinities, "process bound to processors", "processes bound to processors"),
            (self.backlogs, "listener's backlog", "listeners' backlogs"),
            (self.buffers, "connection's buffers", "connections' buffers"),
        ];
        let others = others.iter().filter(|o| o.0 > 0).map(|&(n, one, more)| several(n, one, more));
        processors.into_iter().chain(others).collect::<Vec<_>>().join(", ")
    }
}

impl FaultFacts {
    /// In a line.
    pub(super) fn line(&self) -> String {
        let major = match self.major {
            0 => "0 major".to_owned(),
            n => format!("{} major ({} in them)", units::count(n), units::duration(self.major_ns)),
        };
        let neither = match self.neither {
            0 => String::new(),
            n => format!(", {} neither", units::count(n)),
        };
        format!("{} minor, {major}{neither}", units::count(self.minor))
    }
}

impl AnnotationFacts {
    /// In a line.
    pub(super) fn line(&self) -> String {
        format!("{}, {}", several(self.machines, "machine", "machines"), several(self.queues, "queue", "queues"))
    }
}

fn several(n: u64, one: &str, more: &str) -> String {
    format!("{} {}", units::count(n), if n == 1 { one } else { more })
}
