//! `wakepath timeline --processors`: who had each processor.

use super::TimelineView;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, cut, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wakepath_analysis::names::Names;
use wakepath_analysis::timeline::{Part, Processor};
use wakepath_model::ids::{HostId, TaskId};

/// Most tasks of a processor that are told, those that had it longest first.
const TASKS_TOLD: usize = 50;
/// Marks of the tasks that had processors longest, in text.
const MARKS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
/// The mark of all others.
const OTHER: char = '+';

/// A task that had a processor.
#[derive(Clone, Debug, Serialize)]
pub struct HolderView {
    /// `NAME/TID`.
    pub task: String,
    /// Its process's name.
    pub program: String,
    /// How long it had the processor in all (ns).
    pub duration_ns: u64,
    /// How often.
    pub count: u64,
}

/// A part of a drawing.
#[derive(Clone, Debug, Serialize)]
pub struct HeldView {
    /// Begin (ns since 1970).
    pub from_ns: i64,
    /// End, one past.
    pub to_ns: i64,
    /// Who had it for most of that time, or for all of it where `count` is 1: `NAME/TID`.
    pub task: String,
    /// That task's process.
    pub program: String,
    /// How much of it was that (ns).
    pub duration_ns: u64,
    /// How many intervals it stands for, those too in which nobody is known to have had it.
    pub count: u64,
}

/// A processor.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessorView {
    /// Its host.
    pub host: String,
    /// Its number there.
    pub cpu: u16,
    /// How long recorded tasks had it (ns). The rest of the time it was idle, or a task had it that was not recorded.
    pub held_ns: u64,
    /// Who had it, longest first.
    pub by_task: Vec<HolderView>,
    /// Further tasks that had it.
    pub more_tasks: u64,
    /// Its time, thinned; what is not known is in no part.
    pub parts: Vec<HeldView>,
}

impl ProcessorView {
    /// A processor of a host.
    pub fn new(names: &Names<'_>, host: HostId, p: &Processor) -> ProcessorView {
        let name = |task: TaskId| (names.task(host, task), names.program(host, task).to_owned());
        let mut by_task: Vec<HolderView> = p
            .by_task
            .iter()
            .map(|(&task, &(duration_ns, count))| {
                let (task, program) = name(task);
                HolderView { task, program, duration_ns, count }
            })
            .collect();
        by_task.sort_by_key(|h| Reverse(h.duration_ns));
        let held_ns = by_task.iter().map(|h| h.duration_ns).sum();
        let more_tasks = by_task.len().saturating_sub(TASKS_TOLD) as u64;
        by_task.truncate(TASKS_TOLD);
        let part = |p: &Part<TaskId, ()>| {
            let (task, program) = name(p.what);
            HeldView { from_ns: p.from.0, to_ns: p.to.0, task, program, duration_ns: p.ns, count: p.count }
        };
        let parts = p.parts.iter().map(part).collect();
        ProcessorView { host: names.host(host).to_owned(), cpu: p.cpu, held_ns, by_task, more_tasks, parts }
    }
}

impl TimelineView {
    /// The processors as text: a line each, and who the marks are.
    pub(super) fn render_processors(&self, processors: &[ProcessorView], columns: usize, style: Style) -> String {
        if processors.is_empty() {
            return wrap("On which processor tasks ran was not recorded.", "", style.prose());
        }
        let mut times: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (p, h) in processors.iter().flat_map(|p| p.by_task.iter().map(move |h| (p, h))) {
            *times.entry((&p.host, &h.task)).or_default() += h.duration_ns;
        }
        let mut ranked: Vec<((&str, &str), u64)> = times.into_iter().collect();
        ranked.sort_by_key(|(_, ns)| Reverse(*ns));
        ranked.truncate(MARKS.len());
        let mark = |host: &str, task: &str| {
            let at = ranked.iter().position(|(of, _)| *of == (host, task));
            at.map_or(OTHER, |at| char::from(MARKS[at]))
        };
        let has_hosts = processors.iter().any(|p| p.host != processors[0].host);
        let mut out = String::new();
        for p in processors {
            let name =
                if has_hosts { format!("processor {} of {}", p.cpu, p.host) } else { format!("processor {}", p.cpu) };
            let lane = self.lane(p.parts.iter().map(|h| (h.from_ns, h.to_ns, mark(&p.host, &h.task))), columns);
            let _ = writeln!(out, "{:<width$} {lane}", cut(&sanitise(&name), super::NAME), width = super::NAME);
        }
        out.push('\n');
        let mut table = Table::new(&[Column::text("mark"), Column::number("time"), Column::text("task")]);
        for ((host, task), ns) in &ranked {
            let name = if has_hosts { format!("{task} on {host}") } else { (*task).to_owned() };
            table.row([Cell::from(mark(host, task).to_string()), Cell::from(units::duration(*ns)), Cell::from(name)]);
        }
        out.push_str(&table.render(style));
        let note =
            "Other tasks: +. Where there is a ·, the processor was idle, or a task had it that was not recorded.";
        out.push_str(&wrap(note, "", style.prose()));
        out.push('\n');
        out
    }
}
