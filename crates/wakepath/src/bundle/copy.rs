//! The rows of a part of a recording, without names, as a folder.

use crate::owner;
use anyhow::Result;
use std::collections::HashSet;
use std::path::Path;
use wakepath_model::anonymous::Anonymous;
use wakepath_model::folder::{Durability, Folder, FolderWriter, Host, Options, Overwrite, SyncFile, TableSet};
use wakepath_model::ids::TaskId;
use wakepath_model::rows::{Event, Table, TcpState};

/// What stays true until it is said anew: of these the rows before are kept too, where they are of what is kept.
const STATES: [Table; 8] = [
    Table::Task,
    Table::Placement,
    Table::Endpoint,
    Table::FlowState,
    Table::FlowNote,
    Table::SniffedFlow,
    Table::Anchor,
    Table::Limit,
];

/// A time, on the line that all hosts share (ns since 1970).
#[derive(Clone, Copy, Debug)]
pub struct Around {
    pub from: i64,
    pub to: i64,
}

/// What did anything in the time.
#[derive(Default)]
struct Met {
    tasks: HashSet<u32>,
    flows: HashSet<u64>,
    /// Thread groups of the tasks, and of those that they descend from.
    groups: HashSet<u32>,
}

/// Copies all rows of a time, and what they need of before. Gives how many there are.
pub fn copy(folder: &Folder, around: Around, out: &Path) -> Result<u64> {
    let line = folder.timeline();
    let mut anonymous = Anonymous::new();
    let mut rows = 0;
    for (number, host) in folder.hosts().iter().enumerate() {
        let at = |e: &Event| line.common(host.id(), e.at()).0;
        let met = met(host, |e| (around.from..=around.to).contains(&at(e)));
        let overwrite = if number == 0 { owner::claim(out, Overwrite::Refuse)? } else { Overwrite::Append };
        let info = anonymous.host(host.info(), number + 1);
        let mut writer = FolderWriter::create(out, info, Options { overwrite, ..Options::default() })?;
        for event in host.events(TableSet::of(Table::ALL), ..) {
            let when = at(&event);
            let is_state = when < around.from && STATES.contains(&event.table()) && met.has(&event);
            if !is_state && !(around.from..=around.to).contains(&when) {
                continue;
            }
            let event = anonymous.event(&event, |id| host.text(id), |name| writer.intern(name));
            writer.push_event(&event);
            rows += 1;
        }
        writer.flush(Durability::Write)?;
        writer.close()?;
    }
    if !folder.clock_groups().is_empty() {
        // hosts have the same order, since they are named by it
        let made = Folder::open(&[out])?;
        SyncFile::new(folder.clock_groups(), made.hosts()).write(out)?;
    }
    Ok(rows)
}

/// What the rows that `is_in` are of.
fn met(host: &Host, is_in: impl Fn(&Event) -> bool) -> Met {
    let mut met = Met::default();
    for event in host.events(TableSet::of(Table::ALL), ..).filter(is_in) {
        met.tasks.extend(tasks(&event));
        met.flows.extend(flows(&event));
    }
    let lives: Vec<(TaskId, TaskId, u32)> = host
        .events(Table::Task.into(), ..)
        .filter_map(|e| match e {
            Event::Task(t) => Some((t.task, t.parent, t.tgid)),
            _ => None,
        })
        .collect();
    // later rows are of children: from the last to the first, each has its parents found after it
    for (task, parent, group) in lives.iter().rev() {
        if met.tasks.contains(&task.0) || met.groups.contains(group) {
            met.groups.insert(*group);
            met.tasks.extend([task.0, parent.0]);
        }
    }
    met
}

impl Met {
    /// Whether a row of a state says anything of what was met.
    fn has(&self, event: &Event) -> bool {
        match event {
            Event::Task(t) => self.groups.contains(&t.tgid) || self.tasks.contains(&t.task.0),
            // whoever connects does so to a listener
            Event::Endpoint(e) if e.state == TcpState::Listen => true,
            Event::Anchor(_) => true,
            _ => {
                let mut flows = flows(event).peekable();
                let mut tasks = tasks(event).peekable();
                let is_of_none = flows.peek().is_none() && tasks.peek().is_none();
                is_of_none || flows.any(|f| self.flows.contains(&f)) || tasks.any(|t| self.tasks.contains(&t))
            }
        }
    }
}

/// Tasks that a row names.
fn tasks(event: &Event) -> impl Iterator<Item = u32> {
    let bytes = event.bytes();
    let ids = event
        .table()
        .tasks()
        .iter()
        .filter_map(|&at| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)));
    ids.filter(|id| *id != 0)
}

/// Flows and their ends that a row names.
fn flows(event: &Event) -> impl Iterator<Item = u64> {
    let bytes = event.bytes();
    let fields = event.table().layout().into_iter().filter(|f| matches!(f.stored, "EndpointId" | "SniffedFlowId"));
    let ids = fields.filter_map(|f| Some(u64::from_le_bytes(bytes.get(f.at..f.at + 8)?.try_into().ok()?)));
    ids.filter(|id| *id != 0)
}
