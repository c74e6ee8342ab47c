//! Which tasks were selected to be watched. Wakers beside them are recorded too, or active paths would break; answers about
//! what hangs or idles are of the selected ones.

use rustc_hash::{FxHashMap, FxHashSet};
use wakepath_model::folder::{Folder, Host, TableSet};
use wakepath_model::ids::{HostId, TaskId};
use wakepath_model::rows::{Event, Life, Table};

/// The selected processes of each host that was not recorded whole.
#[derive(Debug, Default)]
pub struct Selected(FxHashMap<HostId, FxHashSet<u32>>);

impl Selected {
    /// Reads who was selected. Recordings that do not say it have everybody selected.
    pub fn read(folder: &Folder) -> Selected {
        Selected(folder.hosts().iter().filter_map(|h| Some((h.id(), of_host(h)?))).collect())
    }

    /// Whether a process was selected.
    pub fn has(&self, host: HostId, tgid: u32) -> bool {
        self.0.get(&host).is_none_or(|processes| processes.contains(&tgid))
    }
}

/// Those that the recorder named, and the processes that these and theirs made. `None` where it named nobody.
fn of_host(host: &Host) -> Option<FxHashSet<u32>> {
    let mut selected: FxHashSet<u32> = FxHashSet::default();
    let mut process_of: FxHashMap<TaskId, u32> = FxHashMap::default();
    let mut is_said = false;
    for event in host.events(TableSet::of(&[Table::Task]), ..) {
        let Event::Task(r) = event else { continue };
        process_of.insert(r.task, r.tgid);
        let leads = r.tgid == r.tid;
        match r.what {
            Life::Watched => {
                is_said = true;
                selected.insert(r.tgid);
            }
            // a number may be another's by now
            Life::Fork if leads => {
                let by_selected = process_of.get(&r.parent).is_some_and(|parent| selected.contains(parent));
                if by_selected {
                    selected.insert(r.tgid)
                } else {
                    selected.remove(&r.tgid)
                };
            }
            _ => {}
        }
    }
    is_said.then_some(selected)
}
