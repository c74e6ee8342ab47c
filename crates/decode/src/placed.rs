//! Which cgroups were met, and who runs there.

use crate::sink::RowSink;
use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::ids::{MonoNs, StrId};
use wakepath_model::rows::PlacementRow;

/// How often a cgroup without a name is looked up: those who make a container may write its files when it is in its cgroup already.
const LOOKS_MAX: u8 = 8;

/// What is known of a cgroup.
#[derive(Clone, Copy, Default)]
struct Met {
    row: Option<PlacementRow>,
    looks: u8,
}

impl Met {
    /// Whether a name may still come to be known.
    fn is_open(&self) -> bool {
        let has_name =
            |r: &PlacementRow| r.container == StrId::EMPTY || r.name != StrId::EMPTY || r.pod != StrId::EMPTY;
        self.looks < LOOKS_MAX && !self.row.as_ref().is_some_and(has_name)
    }
}

/// The cgroups that tasks were in. Memory: 100 bytes a cgroup; those without a living task go when a segment begins.
#[derive(Default)]
pub struct Placed {
    met: FxHashMap<StrId, Met>,
}

impl Placed {
    /// A cgroup's path as the folder knows it, for a task that was met there or begins a program; who runs there is looked up and
    /// written down where it is new.
    pub fn cgroup<S: RowSink>(&mut self, path: &[u8], at: MonoNs, sink: &mut S) -> StrId {
        let cgroup = sink.intern(path);
        let met = self.met.entry(cgroup).or_default();
        if cgroup != StrId::EMPTY && met.is_open() {
            met.looks += 1;
            let found = sink.placement(path).map(|row| PlacementRow { at, cgroup, ..row });
            let is_same = found.map(|row| PlacementRow { at: MonoNs(0), ..row })
                == met.row.map(|row| PlacementRow { at: MonoNs(0), ..row });
            if let Some(row) = found.filter(|_| !is_same) {
                sink.push(&row);
                met.row = Some(row);
            }
        }
        cgroup
    }

    /// Who runs in the cgroups that have living tasks again, for a segment that must stand alone.
    pub fn restate<S: RowSink>(&mut self, living: &FxHashSet<StrId>, at: MonoNs, sink: &mut S) {
        self.met.retain(|cgroup, _| living.contains(cgroup));
        self.met.values().filter_map(|m| m.row).for_each(|row| sink.push(&PlacementRow { at, ..row }));
    }
}
