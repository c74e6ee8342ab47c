//! Which machine, queue, state and kind of transaction a mark is about, over all processes and hosts.

use crate::system::State;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wakepath_model::folder::{Events, Folder, Host, TableSet};
use wakepath_model::ids::{CommonNs, StrId, TaskId};
use wakepath_model::rows::{Event, MarkKind, MarkRow, Table, TaskRow};

/// More items than anything has; larger counts are cut to it, so that sums fit.
pub(super) const COUNT_MAX: u64 = 1 << 40;
/// What a machine is in before it says so.
const FIRST_STATE: &str = "running";
/// The state of a machine that has ended.
pub(super) const GONE: &str = "-";

/// A mark, with numbers for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    State(u32),
    Enqueue { queue: u32, count: u64 },
    Dequeue { queue: u32, count: u64 },
    WaitEmpty { queue: u32, count: u64 },
    WaitFull { queue: u32, count: u64 },
    Begin(u32),
    End(u32),
}

/// An instance of a state machine.
#[derive(Clone, Debug)]
pub(super) struct MachineName {
    /// For people: `HOST/MACHINE[KEY]`.
    pub shown: String,
    /// The state in which it begins.
    pub first_state: u32,
    host: String,
    machine: String,
    key: u64,
}

impl MachineName {
    /// Whether somebody means this machine by `MACHINE`, `HOST/MACHINE` or either with `[KEY]`.
    pub fn is_meant(&self, by: &str) -> bool {
        let (name, key) = match by.strip_suffix(']').and_then(|b| b.rsplit_once('[')) {
            Some((name, key)) => (name, Some(key)),
            None => (by, None),
        };
        let name_fits = name == self.machine
            || name.strip_prefix(self.host.as_str()).and_then(|n| n.strip_prefix('/')) == Some(self.machine.as_str());
        name_fits && key.is_none_or(|k| k == self.key.to_string())
    }
}

/// Whose a queue's name is.
type Scope = (u32, u32);
const EVERYBODY: Scope = (u32::MAX, 0);
const NO_PROCESS: u32 = 0;

/// The names met so far, in order of meeting.
#[derive(Default)]
pub(super) struct Names {
    pub machines: Vec<MachineName>,
    pub queues: Vec<String>,
    pub states: Vec<State>,
    pub kinds: Vec<String>,
    machine_ids: FxHashMap<(u32, u32, StrId, u64), u32>,
    queue_ids: FxHashMap<(Scope, u32, u64), u32>,
    /// Of a host's string as a queue's name: its scope and its number among such texts.
    queue_texts: FxHashMap<(u32, StrId), (u8, u32)>,
    texts: FxHashMap<String, u32>,
    state_ids: FxHashMap<(u32, StrId, StrId), u32>,
    kind_ids: FxHashMap<(u32, StrId), u32>,
    kinds_by_text: FxHashMap<String, u32>,
    /// The process of a task.
    processes: FxHashMap<(u32, TaskId), u32>,
    hosts: usize,
}

impl Names {
    pub fn new(folder: &Folder) -> Names {
        let mut names = Names { hosts: folder.hosts().len(), ..Names::default() };
        for (h, host) in folder.hosts().iter().enumerate() {
            // only annotated programs have tasks
            if host.row_count(Table::Mark) == 0 {
                continue;
            }
            for batch in host.batches(Table::Task.into(), ..) {
                for row in batch.rows::<TaskRow>() {
                    names.processes.insert((h as u32, row.task), row.tgid);
                }
            }
        }
        names
    }

    fn machine(&mut self, host: &Host, h: u32, row: &MarkRow) -> u32 {
        let process = match row.task.0 {
            0 => NO_PROCESS,
            _ => self.processes.get(&(h, row.task)).copied().unwrap_or(NO_PROCESS),
        };
        let next = self.machines.len() as u32;
        let id = *self.machine_ids.entry((h, process, row.machine, row.key)).or_insert(next);
        if id == next {
            let (hostname, machine) = (host.info().hostname.clone(), host.text(row.machine).to_owned());
            let first_state = self.state(host, h, row.machine, None);
            let key = if row.key == 0 { String::new() } else { format!("[{}]", row.key) };
            let shown = format!("{hostname}/{machine}{key}");
            self.machines.push(MachineName { shown, first_state, host: hostname, machine, key: row.key });
        }
        id
    }

    fn state(&mut self, host: &Host, h: u32, machine: StrId, name: Option<StrId>) -> u32 {
        let next = self.states.len() as u32;
        let id = *self.state_ids.entry((h, machine, name.unwrap_or(StrId::EMPTY))).or_insert(next);
        if id == next {
            self.states.push(State {
                host: host.info().hostname.clone(),
                process: host.text(machine).to_owned(),
                state: name.map_or(FIRST_STATE, |n| host.text(n)).to_owned(),
                station: None,
            });
        }
        id
    }

    fn queue(&mut self, host: &Host, h: u32, row: &MarkRow) -> u32 {
        let (slashes, text) = match self.queue_texts.get(&(h, row.name)) {
            Some(known) => *known,
            None => {
                let name = host.text(row.name);
                let slashes = name.bytes().take(2).take_while(|b| *b == b'/').count() as u8;
                let next = self.texts.len() as u32;
                let text = *self.texts.entry(name.to_owned()).or_insert(next);
                self.queue_texts.insert((h, row.name), (slashes, text));
                (slashes, text)
            }
        };
        let scope = match slashes {
            0 if row.task.0 != 0 => (h, self.processes.get(&(h, row.task)).copied().unwrap_or(NO_PROCESS)),
            0 | 1 => (h, NO_PROCESS),
            _ => EVERYBODY,
        };
        let next = self.queues.len() as u32;
        let id = *self.queue_ids.entry((scope, text, row.name_key)).or_insert(next);
        if id == next {
            let place =
                if self.hosts > 1 && scope != EVERYBODY { format!("{}/", host.info().hostname) } else { String::new() };
            let key = if row.name_key == 0 { String::new() } else { format!("[{}]", row.name_key) };
            self.queues.push(format!("{place}{}{key}", host.text(row.name).trim_start_matches('/')));
        }
        id
    }

    fn kind(&mut self, host: &Host, h: u32, name: StrId) -> u32 {
        if let Some(known) = self.kind_ids.get(&(h, name)) {
            return *known;
        }
        let text = host.text(name);
        let next = self.kinds.len() as u32;
        let id = *self.kinds_by_text.entry(text.to_owned()).or_insert(next);
        if id == next {
            self.kinds.push(text.to_owned());
        }
        self.kind_ids.insert((h, name), id);
        id
    }

    /// What a row says; `None` for a kind that this version does not know and for no items.
    fn what(&mut self, host: &Host, h: u32, row: &MarkRow) -> Option<(u32, What)> {
        let count = row.count.min(COUNT_MAX);
        let of_queue =
            matches!(row.kind, MarkKind::Enqueue | MarkKind::Dequeue | MarkKind::WaitEmpty | MarkKind::WaitFull);
        if of_queue && count == 0 {
            return None;
        }
        let queue = if of_queue { self.queue(host, h, row) } else { 0 };
        let what = match row.kind {
            MarkKind::State => What::State(self.state(host, h, row.machine, Some(row.name))),
            MarkKind::Enqueue => What::Enqueue { queue, count },
            MarkKind::Dequeue => What::Dequeue { queue, count },
            MarkKind::WaitEmpty => What::WaitEmpty { queue, count },
            MarkKind::WaitFull => What::WaitFull { queue, count },
            MarkKind::Begin => What::Begin(self.kind(host, h, row.name)),
            MarkKind::End => What::End(self.kind(host, h, row.name)),
        };
        Some((self.machine(host, h, row), what))
    }
}

/// States in which machines work for others than are asked for: which one stands for each state, and those that are new.
pub(super) fn others(states: &[State], called: &str) -> (Vec<u32>, Vec<State>) {
    let mut new: Vec<State> = Vec::new();
    let mut of = Vec::with_capacity(states.len());
    for state in states {
        let found = new.iter().position(|n| (&n.host, &n.process) == (&state.host, &state.process));
        let at = found.unwrap_or_else(|| {
            new.push(State { state: called.to_owned(), ..state.clone() });
            new.len() - 1
        });
        of.push((states.len() + at) as u32);
    }
    (of, new)
}

/// Gives all marks of a folder in order of time, those of all hosts on one clock: time (ns), machine, what.
pub(super) fn each(
    folder: &Folder,
    names: &mut Names,
    (from, to): (Option<CommonNs>, Option<CommonNs>),
    mut with: impl FnMut(i64, u32, What),
) {
    let (from, to) = (from.map_or(i64::MIN, |t| t.0), to.map_or(i64::MAX, |t| t.0));
    let timeline = folder.timeline();
    let hosts = folder.hosts();
    let mut events: Vec<Events<'_>> = hosts.iter().map(|h| h.events(TableSet::from(Table::Mark), ..)).collect();
    let mut waiting: Vec<Option<MarkRow>> = vec![None; hosts.len()];
    let mut order = BinaryHeap::new();
    let mut advance = |h: usize, waiting: &mut Vec<Option<MarkRow>>, order: &mut BinaryHeap<_>| {
        waiting[h] = events[h].find_map(|e| if let Event::Mark(row) = e { Some(row) } else { None });
        if let Some(row) = &waiting[h] {
            order.push(Reverse((timeline.common(hosts[h].id(), row.at).0, row.seq, h)));
        }
    };
    for h in 0..hosts.len() {
        advance(h, &mut waiting, &mut order);
    }
    while let Some(Reverse((at, _, h))) = order.pop() {
        if let Some(row) = waiting[h].take()
            && (from..to).contains(&at)
            && let Some((machine, what)) = names.what(&hosts[h], h as u32, &row)
        {
            with(at, machine, what);
        }
        advance(h, &mut waiting, &mut order);
    }
}
