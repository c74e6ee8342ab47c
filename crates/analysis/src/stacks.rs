//! Where in its program a task waited: the time of its waits by stack.

use std::collections::HashMap;
use wakepath_model::clock::Timeline;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, HostId, StrId, TaskId};
use wakepath_model::rows::{EndedBy, Event, StackRow, Table};

/// The waits that began at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Text of the stack ([`wakepath_model::stack`]); [`StrId::EMPTY`] for stacks that were lost.
    pub frames: StrId,
    /// System call in which it waited.
    pub syscall: Option<u16>,
    /// How long, ns, inside the interval asked for.
    pub duration_ns: u64,
    /// How many waits.
    pub waits: u64,
}

/// Adds up the waits of one task between two moments, one that goes on up to where it was last seen; longest first.
/// Preemptions are no waits here.
pub fn stacks(folder: &Folder, host: HostId, task: TaskId, from: CommonNs, to: CommonNs) -> Vec<Waited> {
    let line = folder.timeline();
    let mut sums = Sums { line: &line, host, from, to, by: HashMap::new() };
    // a wait that goes on is written again and again, and once more when it ends
    let mut open: Option<StackRow> = None;
    let rows = folder.host(host).into_iter().flat_map(|h| h.events(Table::Stack.into(), line.local(host, from)..));
    for event in rows {
        let Event::Stack(row) = event else { continue };
        if row.task != task {
            continue;
        }
        if let Some(before) = open.take().filter(|o| o.blocked != row.blocked) {
            sums.add(&before);
        }
        if row.cause == EndedBy::Open {
            open = Some(row);
        } else {
            sums.add(&row);
        }
    }
    if let Some(row) = open {
        sums.add(&row);
    }
    let mut out: Vec<Waited> = sums.by.into_values().collect();
    out.sort_by_key(|w| (std::cmp::Reverse(w.duration_ns), w.frames, w.syscall));
    out
}

struct Sums<'a> {
    line: &'a Timeline,
    host: HostId,
    from: CommonNs,
    to: CommonNs,
    by: HashMap<(StrId, u16), Waited>,
}

impl Sums<'_> {
    fn add(&mut self, row: &StackRow) {
        let begin = self.line.common(self.host, row.blocked).max(self.from);
        let end = self.line.common(self.host, row.at).min(self.to);
        if begin >= end {
            return;
        }
        let sum = self.by.entry((row.frames, row.syscall)).or_insert(Waited {
            frames: row.frames,
            syscall: (row.syscall != u16::MAX).then_some(row.syscall),
            duration_ns: 0,
            waits: 0,
        });
        sum.duration_ns = sum.duration_ns.saturating_add(end.0.abs_diff(begin.0));
        sum.waits += 1;
    }
}
