//! `wakepath timeline --syscalls` and `--events`: waits by system call, and intervals in order of time.

use super::{TimelineView, call_name};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::cmp::Reverse;
use wakepath_analysis::names::Names;
use wakepath_analysis::timeline::{ByCall, Interval};

/// An interval of a task's time.
#[derive(Clone, Debug, Serialize)]
pub struct EventView {
    /// Begin (ns since 1970).
    pub from_ns: i64,
    /// How long (ns), within the time that is shown.
    pub duration_ns: u64,
    /// Its host.
    pub host: String,
    /// `NAME/TID`.
    pub task: String,
    /// What it did, as `wakepath waits` names states.
    pub state: &'static str,
    /// Of a wait: the system call.
    pub syscall: Option<String>,
    /// Who ended the wait, or came next on the processor.
    pub by: Option<String>,
}

/// Intervals in order of time.
#[derive(Clone, Debug, Serialize)]
pub struct EventsView {
    /// The first ones.
    pub events: Vec<EventView>,
    /// How many more match.
    pub more: u64,
}

/// Waits in a system call.
#[derive(Clone, Debug, Serialize)]
pub struct CallView {
    /// Its name; null: of none, as for page faults and tasks of the kernel.
    pub syscall: Option<String>,
    /// How many waits. One call may wait several times.
    pub count: u64,
    /// How long in all (ns), within the time that is shown.
    pub duration_ns: u64,
    /// Median length (ns, at most 1.6 % off).
    pub p50_ns: u64,
    /// The length below which 99 % of them are (ns, at most 1.6 % off).
    pub p99_ns: u64,
    /// What most of the time was waited for.
    pub state: &'static str,
    /// The longest one.
    pub longest: EventView,
}

impl EventView {
    /// An interval.
    pub fn new(names: &Names<'_>, of: &Interval) -> EventView {
        let name = |task| names.task(of.host, task);
        EventView {
            from_ns: of.stay.from.0,
            duration_ns: of.stay.duration_ns(),
            host: names.host(of.host).to_owned(),
            task: name(of.task),
            state: of.stay.state.name(),
            syscall: of.stay.syscall.map(call_name),
            by: of.stay.by.map(name),
        }
    }

    /// Whether its state or its system call has this in its name, in small letters.
    pub fn has(of: &Interval, what: &str) -> bool {
        let call = || of.stay.syscall.is_some_and(|nr| call_name(nr).to_lowercase().contains(what));
        of.stay.state.name().contains(what) || call()
    }
}

/// Waits by system call, those with most time first.
pub fn by_call(names: &Names<'_>, calls: &ByCall) -> Vec<CallView> {
    let view = |(nr, waits): (&Option<u16>, &wakepath_analysis::timeline::WaitsInCall)| {
        let (most, _) = waits.by_state.iter().max_by_key(|(_, ns)| **ns)?;
        let lengths = &waits.lengths;
        Some(CallView {
            syscall: nr.map(call_name),
            count: lengths.count(),
            duration_ns: u64::try_from(lengths.sum()).unwrap_or(u64::MAX),
            p50_ns: lengths.quantile(0.5),
            p99_ns: lengths.quantile(0.99),
            state: most.name(),
            longest: EventView::new(names, waits.longest.as_ref()?),
        })
    };
    let mut out: Vec<CallView> = calls.0.iter().filter_map(view).collect();
    out.sort_by_key(|c| Reverse(c.duration_ns));
    out
}

impl TimelineView {
    /// Waits by system call, as text.
    pub(super) fn render_calls(&self, calls: &[CallView], style: Style) -> String {
        let names = ["waits", "time", "p50", "p99", "longest"];
        let mut columns = vec![Column::text("system call")];
        columns.extend(names.map(Column::number));
        columns.extend(["mostly", "the longest"].map(Column::text));
        let mut table = Table::new(&columns);
        for c in calls {
            table.row([
                Cell::from(c.syscall.clone().unwrap_or_else(|| "none".to_owned())),
                Cell::from(units::count(c.count)),
                Cell::from(units::duration(c.duration_ns)),
                Cell::from(units::duration(c.p50_ns)),
                Cell::from(units::duration(c.p99_ns)),
                Cell::from(units::duration(c.longest.duration_ns)),
                Cell::from(c.state),
                Cell::from(format!("{} at {}", sanitise(&c.longest.task), self.at(c.longest.from_ns))),
            ]);
        }
        let note = "Waits of the tasks that match, in the time that is shown. One call may wait several times. \"none\": page \
                    faults, and tasks of the kernel.";
        format!("{}{}\n", table.render(style), wrap(note, "", style.prose()))
    }

    /// A time as `--from` takes it.
    fn at(&self, ns: i64) -> String {
        format!("+{:.6}s", ns.saturating_sub(self.begin_ns) as f64 / 1e9)
    }

    /// Intervals in order of time, as text.
    pub(super) fn render_events(&self, of: &EventsView, style: Style) -> String {
        let mut table = Table::new(&[
            Column::number("at"),
            Column::number("length"),
            Column::text("task"),
            Column::text("state"),
            Column::text("system call"),
            Column::text("ended by"),
        ]);
        for e in &of.events {
            table.row([
                Cell::from(self.at(e.from_ns)),
                Cell::from(units::duration(e.duration_ns)),
                Cell::from(sanitise(&e.task)),
                Cell::from(e.state),
                Cell::from(e.syscall.clone().unwrap_or_default()),
                Cell::from(sanitise(e.by.as_deref().unwrap_or_default())),
            ]);
        }
        let more = match of.more {
            0 => "These are all.".to_owned(),
            n => format!("{} more: continue with --from, or ask for more with --events.", units::count(n)),
        };
        format!("{}{}\n", table.render(style), wrap(&more, "", style.prose()))
    }
}
