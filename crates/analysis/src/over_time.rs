//! Requests over time: how many began, went wrong and how long they took, a column of time each, and how many of a column took
//! how long. Memory is that of the columns, however many requests there are.

use crate::histogram::Histogram;
use crate::names::Names;
use crate::requests::{awaits, opens, went_wrong};
use crate::selection::{Known, Placed, Selection};
use std::collections::BTreeMap;
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;

/// Rows of durations in each power of ten.
const ROWS_A_DECADE: u32 = 16;
/// Powers of ten that a duration (ns, 64 bits) may have.
const DECADES: u32 = 19;

/// The requests that began in one column of time.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// How many.
    pub requests: u64,
    /// Of them, failed by their reply, reset, cut, or left by their client.
    pub errors: u64,
    /// Of them, those whose end was not recorded: how long they take is not known.
    pub unfinished: u64,
    /// Durations of the others (ns).
    pub durations: Histogram,
}

/// Requests of one column whose durations lie in one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// How many.
    pub requests: u64,
    /// Of them, those that went wrong.
    pub errors: u64,
}

/// What was found of a selection.
#[derive(Clone, Debug)]
pub struct OverTime {
    /// Begin of the first column (ns since 1970).
    pub from_ns: i64,
    /// Length of a column (ns); the last may be shorter.
    pub column_ns: u64,
    /// From the first to the last, empty ones too.
    pub columns: Vec<Column>,
    /// By column, and by row of [`OverTime::bounds`]; empty ones are left out.
    pub cells: BTreeMap<(usize, usize), Cell>,
    /// Where each row begins (ns), in ascending order: equal steps of the logarithm.
    pub bounds: Vec<u64>,
}

impl OverTime {
    /// Columns of a time (ns since 1970), at most `columns`, at least one.
    fn new((from, to): (i64, i64), columns: usize) -> OverTime {
        let length = from.abs_diff(to).max(1);
        let column_ns = length.div_ceil(columns.max(1) as u64);
        let count = length.div_ceil(column_ns) as usize;
        OverTime {
            from_ns: from,
            column_ns,
            columns: vec![Column::default(); count],
            cells: BTreeMap::new(),
            bounds: bounds(),
        }
    }

    /// Adds a request that began at `began` (ns since 1970) and took so long (ns), `None` where that is not known.
    fn add(&mut self, began: i64, took: Option<u64>, is_wrong: bool) {
        // clocks of hosts may differ a little from those of the recording's ends
        let at = (began.saturating_sub(self.from_ns).max(0) as u64 / self.column_ns) as usize;
        let at = at.min(self.columns.len() - 1);
        let column = &mut self.columns[at];
        column.requests += 1;
        column.errors += u64::from(is_wrong);
        let Some(ns) = took else {
            column.unfinished += 1;
            return;
        };
        column.durations.add(ns);
        let row = self.bounds.partition_point(|&least| least <= ns).saturating_sub(1);
        let cell = self.cells.entry((at, row)).or_default();
        cell.requests += 1;
        cell.errors += u64::from(is_wrong);
    }

    /// Requests in all columns.
    pub fn requests(&self) -> u64 {
        self.columns.iter().map(|c| c.requests).sum()
    }
}

/// Where rows begin (ns): 0, then equal steps of the logarithm in whole nanoseconds.
fn bounds() -> Vec<u64> {
    let step = |n: u32| 10f64.powf(f64::from(n % ROWS_A_DECADE) / f64::from(ROWS_A_DECADE));
    let mut bounds: Vec<u64> =
        (0..ROWS_A_DECADE * DECADES).map(|n| (step(n) * 10u64.pow(n / ROWS_A_DECADE) as f64).round() as u64).collect();
    bounds[0] = 0;
    bounds.dedup();
    bounds
}

/// The requests of a selection over a time (ns since 1970), in at most `columns`. As `requests` does, it leaves out those that
/// only wait for something to happen, and those that only open a connection.
pub fn over_time(
    folder: &Folder,
    names: &Names<'_>,
    index: Option<&Index>,
    selection: &Selection,
    time: (i64, i64),
    columns: usize,
) -> OverTime {
    let line = folder.timeline();
    let known = Known::new(folder, names, index, selection.asks_for_causes());
    let mut found = OverTime::new(time, columns);
    let take = |r: Request| {
        let Some(placed) = Placed::new(&r, names, &line).filter(|p| selection.has(&r, p, &known)) else { return };
        if awaits(&r) || opens(&r, &placed.kind.1) {
            return;
        }
        let root = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref());
        let is_wrong = root.is_some_and(|h| went_wrong(&h.exchange));
        found.add(placed.began.0, (!r.is_in_progress()).then_some(placed.duration_ns), is_wrong);
    };
    wakepath_causality::reconstruct(folder, take, |_, _, _, _| {});
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_steps_of_the_logarithm() {
        let bounds = bounds();
        assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        for power in [1_000, 1_000_000, 10_000_000_000] {
            assert!(bounds.contains(&power), "{power}");
        }
        let steps: Vec<f64> = bounds.iter().filter(|&&b| b >= 1_000).map(|&b| b as f64).collect();
        assert!(steps.windows(2).all(|w| (1.14..1.17).contains(&(w[1] / w[0]))), "{bounds:?}");
    }

    #[test]
    fn columns_cover_the_time_and_count_each_once() {
        for (length, columns) in [(1000, 7), (1, 60), (0, 1), (59, 60), (61, 60), (1000, 1)] {
            let mut over = OverTime::new((5_000, 5_000 + length), columns);
            assert!(over.columns.len() <= columns && !over.columns.is_empty(), "{length} {columns}");
            assert!(over.column_ns * over.columns.len() as u64 >= length as u64, "{length} {columns}");
            // the first and the last moment, one before and one after
            for (n, at) in [4_999, 5_000, 5_000 + length - 1, 5_000 + length].into_iter().enumerate() {
                over.add(at, Some(1_500_000), n == 1);
            }
            over.add(5_000, None, false);
            assert_eq!(over.requests(), 5);
            assert_eq!(
                over.columns.iter().map(|c| (c.errors, c.unfinished)).fold((0, 0), |s, c| (s.0 + c.0, s.1 + c.1)),
                (1, 1)
            );
            let cells = over.cells.values().fold((0, 0), |s, c| (s.0 + c.requests, s.1 + c.errors));
            assert_eq!(cells, (4, 1), "what is in progress has no duration");
            let rows: Vec<u64> = over.cells.keys().map(|&(_, row)| over.bounds[row]).collect();
            assert!(rows.iter().all(|&least| (1_290_000..=1_500_000).contains(&least)), "{rows:?}");
        }
    }
}
