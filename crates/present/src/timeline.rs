//! `wakepath timeline`: what tasks did over time, thinned to a number of columns, with sums that are exact.

mod calls;
mod processors;

pub use calls::{CallView, EventView, EventsView, by_call};
pub use processors::{HeldView, HolderView, ProcessorView};

use crate::losses::{Loss, losses_or_none};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, cut, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_analysis::names::Names;
use wakepath_analysis::slices::State;
use wakepath_analysis::timeline::{Part, Stay, Sums};
use wakepath_model::defects::Answer;
use wakepath_model::ids::{CommonNs, HostId, TaskId};
use wakepath_model::syscalls;

/// Columns of a task's name.
const NAME: usize = 26;

/// How long a state took.
#[derive(Clone, Debug, Serialize)]
pub struct StateView {
    /// As `wakepath waits` names states.
    pub state: &'static str,
    /// How long (ns).
    pub duration_ns: u64,
    /// In how many intervals.
    pub count: u64,
}

/// A part of a drawing.
#[derive(Clone, Debug, Serialize)]
pub struct PartView {
    /// Begin (ns since 1970).
    pub from_ns: i64,
    /// End, one past.
    pub to_ns: i64,
    /// What most of it was; all of it where `count` is 1.
    pub state: &'static str,
    /// How much of it was that (ns).
    pub duration_ns: u64,
    /// How many intervals it stands for.
    pub count: u64,
    /// Of one interval: who ended the wait, or came next on the processor.
    pub by: Option<String>,
    /// Of one interval: the system call of the wait.
    pub syscall: Option<String>,
}

/// A task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskView {
    /// Host.
    pub host: String,
    /// `NAME/TID`.
    pub task: String,
    /// Its process's name.
    pub program: String,
    /// Waits of it that were recorded, over all the time.
    pub waits: u64,
    /// Its program serves connections that were recorded.
    pub serves: bool,
    /// Its time by state, largest first. What is not known is in none.
    pub by_state: Vec<StateView>,
    /// Its time, thinned.
    pub parts: Vec<PartView>,
}

/// A part of an active path.
#[derive(Clone, Debug, Serialize)]
pub struct PathPartView {
    /// Begin (ns since 1970).
    pub from_ns: i64,
    /// End, one past.
    pub to_ns: i64,
    /// Host of the task whose time most of it was.
    pub host: String,
    /// That task: `NAME/TID`.
    pub task: String,
    /// What it did.
    pub state: &'static str,
    /// How much of it was that (ns).
    pub duration_ns: u64,
    /// How many slices it stands for.
    pub count: u64,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct TimelineView {
    /// When the recording began, which `+12.5s` counts from (ns since 1970).
    pub begin_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// Begin of what is shown.
    pub from_ns: i64,
    /// Its end, one past.
    pub to_ns: i64,
    /// Intervals shorter than this (ns) are told together.
    pub column_ns: u64,
    /// Tasks that fit the question and are not shown: they come later in this order.
    pub more_tasks: u64,
    /// All shown tasks together, by state, largest first.
    pub by_state: Vec<StateView>,
    /// Those of programs that serve first, then those with most waits.
    pub tasks: Vec<TaskView>,
    /// What was asked for besides.
    #[serde(flatten)]
    pub more: MoreView,
}

/// What is shown where it was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct MoreView {
    /// The active path of the one task.
    pub path: Option<Vec<PathPartView>>,
    /// The processors of all hosts.
    pub processors: Option<Vec<ProcessorView>>,
    /// Waits of all tasks that fit the question, by system call.
    pub syscalls: Option<Vec<CallView>>,
    /// Intervals of all tasks that fit the question, in order of time.
    pub events: Option<EventsView>,
}

/// The name of a system call.
fn call_name(nr: u16) -> String {
    syscalls::name(nr).map_or_else(|| format!("syscall {nr}"), str::to_owned)
}

/// Sums, largest first.
pub fn by_state(sums: &Sums) -> Vec<StateView> {
    let mut out: Vec<StateView> = sums
        .iter()
        .map(|(state, &(duration_ns, count))| StateView { state: state.name(), duration_ns, count })
        .collect();
    out.sort_by_key(|s| std::cmp::Reverse(s.duration_ns));
    out
}

impl PartView {
    /// A part of a task's time.
    pub fn new(names: &Names<'_>, host: HostId, p: &Part<State, Stay>) -> PartView {
        PartView {
            from_ns: p.from.0,
            to_ns: p.to.0,
            state: p.what.name(),
            duration_ns: p.ns,
            count: p.count,
            by: p.detail.as_ref().and_then(|d| d.by).map(|by| names.task(host, by)),
            syscall: p.detail.as_ref().and_then(|d| d.syscall).map(call_name),
        }
    }
}

impl PathPartView {
    /// A part of an active path.
    pub fn new(names: &Names<'_>, p: &Part<(HostId, TaskId, State), ()>) -> PathPartView {
        let (host, task, state) = p.what;
        PathPartView {
            from_ns: p.from.0,
            to_ns: p.to.0,
            host: names.host(host).to_owned(),
            task: names.task(host, task),
            state: state.name(),
            duration_ns: p.ns,
            count: p.count,
        }
    }
}

impl TimelineView {
    /// As text for a terminal.
    pub fn render(&self, columns: usize, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        let span = |ns: i64| units::duration(u64::try_from(ns).unwrap_or(0));
        let _ = writeln!(
            out,
            "{} from {} (+{})\n",
            span(self.to_ns - self.from_ns),
            units::wall(self.from_ns),
            span(self.from_ns - self.begin_ns)
        );
        let has_hosts = self.tasks.iter().any(|t| t.host != self.tasks[0].host);
        for t in &self.tasks {
            let name = if has_hosts { format!("{} on {}", t.task, t.host) } else { t.task.clone() };
            let _ = writeln!(
                out,
                "{:<NAME$} {}",
                cut(&sanitise(&name), NAME),
                self.lane(t.parts.iter().map(marked), columns)
            );
        }
        if let Some(path) = &self.more.path {
            let parts = path.iter().map(|p| (p.from_ns, p.to_ns, mark(p.state)));
            let _ = writeln!(out, "{:<NAME$} {}", "active path", self.lane(parts, columns));
        }
        if let Some(processors) = &self.more.processors {
            let _ = write!(out, "\n{}", self.render_processors(processors, columns, style));
        }
        for part in [
            self.more.syscalls.as_ref().map(|calls| self.render_calls(calls, style)),
            self.more.events.as_ref().map(|events| self.render_events(events, style)),
        ] {
            part.into_iter().for_each(|text| out.push_str(&format!("\n{text}")));
        }
        let marks: Vec<String> = State::ALL
            .iter()
            .filter(|s| self.by_state.iter().any(|b| b.state == s.name()))
            .map(|s| format!("{} {}", s.mark(), s.name()))
            .collect();
        out.push_str(&wrap(&format!("Marks of tasks: {}; · not known.", marks.join(", ")), "", style.prose()));
        out.push('\n');
        let mut table = Table::new(&[Column::number("time"), Column::number("intervals"), Column::text("state")]);
        for s in &self.by_state {
            table.row([
                Cell::from(units::duration(s.duration_ns)),
                Cell::from(units::count(s.count)),
                Cell::from(s.state),
            ]);
        }
        out.push_str(&table.render(style));
        let more = match self.more_tasks {
            0 => String::new(),
            n => format!(
                " {} have fewer waits and are not shown (--limit 0 shows all).",
                units::counted(n, "more task", "more tasks")
            ),
        };
        let shown = units::counted(self.tasks.len() as u64, "task", "tasks");
        out.push_str(&wrap(&format!("Sums over {shown}.{more}"), "", style.prose()));
        out.push_str(&losses_or_none(losses, &[Answer::Waits], style));
        out
    }

    /// Time as characters: of each column what most of it was. `parts`: begin, end (ns since 1970) and mark of each.
    fn lane(&self, parts: impl Iterator<Item = (i64, i64, char)>, columns: usize) -> String {
        let length = i128::from(self.to_ns - self.from_ns).max(1);
        let mut most = vec![(0_i128, '·'); columns];
        for (from_ns, to_ns, mark) in parts {
            let at = |ns: i64| i128::from(ns - self.from_ns) * columns as i128;
            let (from, to) = (at(from_ns), at(to_ns));
            let (first, last) = (from / length, (to - 1) / length);
            for column in first.max(0)..=last.min(columns as i128 - 1) {
                let part = to.min((column + 1) * length) - from.max(column * length);
                let held = &mut most[column as usize];
                if part > held.0 {
                    *held = (part, mark);
                }
            }
        }
        most.into_iter().map(|(_, mark)| mark).collect()
    }
}

/// What stands for a state.
fn mark(state: &str) -> char {
    State::ALL.iter().find(|s| s.name() == state).map_or('?', |s| s.mark())
}

fn marked(p: &PartView) -> (i64, i64, char) {
    (p.from_ns, p.to_ns, mark(p.state))
}

/// The time that is shown, and how long a column of it is (ns).
pub fn column_ns(from: CommonNs, to: CommonNs, columns: usize) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0) / columns.max(1) as u64
}
