//! `wakepath requests --over-time`: rate, errors and durations, a column of time each.

use crate::losses::{Loss, losses_or_none};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, wrap};
use crate::units;
use serde::Serialize;
use wakepath_analysis::over_time::OverTime;
use wakepath_model::defects::Answer;

/// The requests that began in one column.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnView {
    /// Its begin on the common time line (ns since 1970).
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// How many.
    pub requests: u64,
    /// As many a second of the time in which anybody recorded; null where nobody did.
    pub rate_per_s: Option<f64>,
    /// Time in which nobody recorded (ns).
    pub paused_ns: u64,
    /// Of them, failed by their reply, reset, cut, or left by their client.
    pub errors: u64,
    /// Of them, those whose end was not recorded.
    pub unfinished: u64,
    /// Durations of the others (ns): null where there are none.
    pub p50_ns: Option<u64>,
    /// Of fewer than 100 the longest.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
}

/// The requests of one column that took so long.
#[derive(Clone, Debug, Serialize)]
pub struct CellView {
    /// Which column, from 0.
    pub column: usize,
    /// The least duration (ns).
    pub least_ns: u64,
    /// Durations are below (ns).
    pub below_ns: u64,
    /// How many.
    pub requests: u64,
    /// Of them, those that went wrong.
    pub errors: u64,
}

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct OverTimeView {
    /// When the recording began, which `+12.5s` counts from (ns since 1970).
    pub from_ns: i64,
    /// When it ended.
    pub to_ns: i64,
    /// Requests in the selection.
    pub requests: u64,
    /// Of them, those that went wrong.
    pub errors: u64,
    /// Length of a column (ns); the last may be shorter.
    pub column_ns: u64,
    /// From the first to the last, empty ones too.
    pub columns: Vec<ColumnView>,
    /// Where rows of durations begin and where the last ends (ns), in ascending order: equal steps of the logarithm, from the
    /// row of the shortest duration to that of the longest.
    pub bounds_ns: Vec<u64>,
    /// How many of a column took how long; empty ones are left out.
    pub cells: Vec<CellView>,
}

/// Where a row of durations begins (ns).
fn bound(over: &OverTime, row: usize) -> u64 {
    over.bounds.get(row).copied().unwrap_or(u64::MAX)
}

impl OverTimeView {
    /// Of what was found; `recorded`: when anything was, in order and without overlap; `time`: of the columns (ns since 1970).
    pub fn new(over: &OverTime, recorded: &[(i64, i64)], time: (i64, i64)) -> OverTimeView {
        let ends = recorded.first().map(|r| r.0).zip(recorded.last().map(|r| r.1));
        let span = ends.unwrap_or(time);
        let paused_within = |from: i64, to: i64| -> u64 {
            let pauses = recorded.windows(2).map(|w| (w[0].1.max(from), w[1].0.min(to)));
            pauses.filter(|(from, to)| from < to).map(|(from, to)| from.abs_diff(to)).sum()
        };
        let column = |(n, c): (usize, &wakepath_analysis::over_time::Column)| {
            let from_ns = over.from_ns.saturating_add((n as u64 * over.column_ns) as i64);
            let to_ns = from_ns.saturating_add(over.column_ns as i64).min(time.1.max(from_ns + 1));
            let known = (c.durations.count() > 0).then_some(&c.durations);
            let paused_ns = paused_within(from_ns, to_ns);
            let recorded_ns = from_ns.abs_diff(to_ns).saturating_sub(paused_ns);
            ColumnView {
                from_ns,
                to_ns,
                requests: c.requests,
                rate_per_s: (recorded_ns > 0).then(|| c.requests as f64 * 1e9 / recorded_ns as f64),
                paused_ns,
                errors: c.errors,
                unfinished: c.unfinished,
                p50_ns: known.map(|d| d.quantile(0.5)),
                p99_ns: known.map(|d| d.quantile(0.99)),
                max_ns: known.map(|d| d.max()),
            }
        };
        let columns: Vec<ColumnView> = over.columns.iter().enumerate().map(column).collect();
        let rows = over.cells.keys().map(|&(_, row)| row);
        let bounds_ns = match (rows.clone().min(), rows.max()) {
            (Some(first), Some(last)) => (first..=last + 1).map(|row| bound(over, row)).collect(),
            _ => Vec::new(),
        };
        let cells = over.cells.iter().map(|(&(column, row), cell)| CellView {
            column,
            least_ns: bound(over, row),
            below_ns: bound(over, row + 1),
            requests: cell.requests,
            errors: cell.errors,
        });
        OverTimeView {
            from_ns: span.0,
            to_ns: span.1,
            requests: over.requests(),
            errors: columns.iter().map(|c| c.errors).sum(),
            column_ns: over.column_ns,
            bounds_ns,
            cells: cells.collect(),
            columns,
        }
    }

    /// As text for a terminal.
    pub fn render(&self, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        if self.requests == 0 {
            out.push_str("No request is selected. `wakepath requests` shows which kinds there are.\n");
        } else {
            let mut t = Table::new(&[
                Column::number("begun from"),
                Column::number("requests"),
                Column::number("rate"),
                Column::number("errors"),
                Column::number("p50"),
                Column::number("p99"),
                Column::number("longest"),
            ]);
            let took = |ns: Option<u64>| ns.map_or_else(Cell::default, |ns| Cell::from(units::duration(ns)));
            for c in &self.columns {
                t.row([
                    Cell::from(format!("+{:.6}s", c.from_ns.saturating_sub(self.from_ns) as f64 / 1e9)),
                    Cell::from(units::count(c.requests)),
                    Cell::from(units::rate(c.requests, c.from_ns.abs_diff(c.to_ns).saturating_sub(c.paused_ns))),
                    if c.errors == 0 { Cell::default() } else { Cell::tinted(units::count(c.errors), Tint::Bad) },
                    took(c.p50_ns),
                    took(c.p99_ns),
                    took(c.max_ns),
                ]);
            }
            out.push_str(&t.render(style));
            let mut which = format!(
                "{} in columns of {}. Of fewer than 100 requests, p99 is the longest.",
                units::counted(self.requests, "request", "requests"),
                units::duration(self.column_ns)
            );
            let paused: u64 = self.columns.iter().map(|c| c.paused_ns).sum();
            if paused > 0 {
                which +=
                    &format!(" No recorder ran for {} of this time; rates leave that out.", units::duration(paused));
            }
            out.push_str(&wrap(&which, "", style.prose()));
        }
        out.push_str(&losses_or_none(losses, &[Answer::Requests], style));
        out
    }
}
