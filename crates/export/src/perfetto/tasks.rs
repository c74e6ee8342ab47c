//! Tasks and requests in flight, for a trace of Perfetto.

use super::Writer;
use std::collections::BTreeSet;
use std::io::{self, Write};
use wakepath_analysis::critical_path::critical_path;
use wakepath_analysis::selection::{Placed, Selection};
use wakepath_analysis::slices::State;
use wakepath_analysis::spans::lay_out;
use wakepath_analysis::timeline::stays;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{CommonNs, HostId, TaskId};

/// Values of a counter.
const VALUES: usize = 4096;

/// The time that is exported.
pub struct Window {
    /// Begin.
    pub from: CommonNs,
    /// End, one past.
    pub to: CommonNs,
}

impl Window {
    /// That of one request, or of a selection; else of the recording `span` (ns since 1970).
    pub fn of(only: Option<&Request>, selection: &Selection, folder: &Folder, span: (i64, i64)) -> Window {
        let line = folder.timeline();
        match only.and_then(|r| lay_out(r).into_iter().next()) {
            Some(root) => Window { from: line.common(root.host, root.start), to: line.common(root.host, root.end) },
            None => {
                let from = selection.from.map_or(span.0, |f| f.0.max(span.0));
                let to = selection.to.map_or(span.1, |t| t.0.min(span.1)).max(from);
                Window { from: CommonNs(from), to: CommonNs(to) }
            }
        }
    }
}

/// The tasks that had a part in one request, of all of which waits were recorded.
pub fn of_request(folder: &Folder, index: &Index, r: &Request) -> Vec<(HostId, TaskId)> {
    let mut tasks = BTreeSet::new();
    for half in r.spans.iter().flat_map(|s| [&s.caller, &s.callee]).flatten() {
        tasks.extend([half.exchange.request.task, half.exchange.reply.task].map(|t| (half.host, t)));
    }
    critical_path(folder, index, r).each(&mut |s| {
        tasks.insert((s.host, s.task));
        tasks.extend(s.by);
    });
    tasks.into_iter().filter(|(h, t)| index.waits_of(*h, *t) > 0).collect()
}

/// Writes what tasks did.
///
/// # Errors
/// Where nothing can be written.
pub fn write(
    index: &Index,
    tasks: &[(HostId, TaskId)],
    window: &Window,
    to: &mut Writer<'_, '_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for &(host, task) in tasks {
        let (mut woken, mut so_far) = (None, Ok(()));
        stays(index, host, task, window.from, window.to, &mut |s| {
            if so_far.is_ok() {
                so_far = to.stay((host, task), &s, woken.take(), out);
            }
            let is_wait = !matches!(s.state, State::Running | State::Preempted);
            woken = s.by.filter(|_| is_wait).map(|by| (s.to, by));
        });
        so_far?;
    }
    Ok(())
}

/// How many requests were in flight over time: exact at each of its moments.
pub struct InFlight {
    from: i64,
    step: i64,
    changes: Vec<i64>,
}

impl InFlight {
    /// At so many moments of a window.
    pub fn new(window: &Window) -> InFlight {
        let step = (window.to.0.saturating_sub(window.from.0) / VALUES as i64).max(1);
        InFlight { from: window.from.0, step, changes: vec![0; VALUES + 1] }
    }

    /// Adds a request.
    pub fn add(&mut self, placed: &Placed) {
        let ended = placed.began.0.saturating_add_unsigned(placed.duration_ns);
        // in flight at a moment: begun by then, and not ended
        let mut change = |at: i64, by: i64| {
            let ahead = at.saturating_sub(self.from);
            let moment = ahead.div_euclid(self.step) + i64::from(ahead.rem_euclid(self.step) > 0);
            if let Ok(moment) = usize::try_from(moment.max(0))
                && let Some(c) = self.changes.get_mut(moment)
            {
                *c += by;
            }
        };
        change(placed.began.0, 1);
        change(ended, -1);
    }

    /// Writes the counter, where it changes.
    ///
    /// # Errors
    /// Where nothing can be written.
    pub fn write(&self, to: &mut Writer<'_, '_>, out: &mut dyn Write) -> io::Result<()> {
        let (mut value, mut last) = (0, None);
        for (moment, change) in self.changes.iter().enumerate() {
            value += change;
            if last != Some(value) {
                let at = self.from.saturating_add(self.step.saturating_mul(moment as i64));
                to.count("Requests in flight", at, value, out)?;
                last = Some(value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_exact_at_each_moment() {
        let window = Window { from: CommonNs(0), to: CommonNs(VALUES as i64 * 10) };
        let mut in_flight = InFlight::new(&window);
        for (began, duration_ns) in [(-5, 10), (0, 20), (11, 9), (15, 100_000)] {
            let placed = Placed { kind: Default::default(), began: CommonNs(began), duration_ns, timed: Vec::new() };
            in_flight.add(&placed);
        }
        let values: Vec<i64> = in_flight
            .changes
            .iter()
            .scan(0, |v, c| {
                *v += c;
                Some(*v)
            })
            .take(4)
            .collect();
        // at 0: the first two; at 10: the second; at 20: the last, as two ended there
        assert_eq!(values, [2, 1, 1, 1]);
    }
}
