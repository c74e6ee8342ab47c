//! Waits as text for a terminal.

use super::*;

/// Columns of the timeline.
pub(super) const WIDTH: usize = 64;

/// Tasks that get a line of their own in the timeline.
pub(super) const LANES_MAX: usize = 12;

/// Columns of a lane's name, and what a narrow terminal leaves of them.
pub(super) const LANE: usize = 26;

pub(super) const LANE_MIN: usize = 12;

/// A slice in words.
pub fn what(s: &SliceView) -> String {
    let is_run = s.state == "running";
    // it could run, and nobody is known to have kept it from that
    let mut out = if s.state == "preempted" && s.by.is_none() { "ready" } else { s.state }.to_owned();
    if let Some(object) = &s.object {
        // of a file, what tells it from its neighbours
        let _ = match object.rsplit_once('/').filter(|_| s.state == State::PageFault.name()) {
            Some((folder, file)) if !folder.is_empty() => write!(out, " …/{file}"),
            _ => write!(out, " {object}"),
        };
    }
    if let Some(by) = &s.by {
        let _ = match s.state {
            "network" => write!(out, " from {by}"),
            _ => write!(out, " by {by}"),
        };
    }
    if let Some(call) = &s.syscall
        && !is_run
    {
        let _ = write!(out, " in {call}");
    }
    if let Some(reason) = s.reason {
        let _ = write!(out, ": {reason}");
    }
    out
}

impl WaitsView {
    /// As text for a terminal.
    pub fn render(&self, style: Style) -> String {
        let mut out = String::new();
        out.push_str(&wrap(&format!("{}:", sanitise(&self.title)), "", style.prose()));
        let _ = writeln!(
            out,
            "{} from {}, in {} slices",
            units::duration(self.elapsed_ns),
            units::wall(self.from_ns),
            units::count(self.slice_count),
        );
        out.push('\n');
        self.timeline(&mut out, style);
        self.sums(&mut out, style);
        out.push('\n');
        self.table(&mut out, style);
        out
    }

    pub(super) fn timeline(&self, out: &mut String, style: Style) {
        let mut used: Vec<State> = Vec::new();
        let names = style.width.saturating_sub(WIDTH + 2).clamp(LANE_MIN, LANE);
        for lane in &self.lanes {
            let _ = write!(out, "{:<names$} ", cut(&sanitise(&lane.name), names));
            for column in &lane.columns {
                match column.iter().max_by_key(|(_, ns)| **ns).map(|(s, _)| *s) {
                    Some(state) => {
                        if !used.contains(&state) {
                            used.push(state);
                        }
                        out.push_str(&style.paint(&state.mark().to_string(), tint(state)));
                    }
                    None => out.push('·'),
                }
            }
            out.push('\n');
        }
        used.sort_unstable();
        let legend: Vec<String> = used.iter().map(|s| format!("{} {}", s.mark(), s.name())).collect();
        let (line, indent) = (legend.join("  "), " ".repeat(names + 1));
        if names + 1 + columns(&line) <= style.width {
            let _ = writeln!(out, "{indent}{}", style.paint(&line, Tint::Dim));
        } else {
            for line in wrap(&line, &indent, style.width).lines() {
                let _ = writeln!(out, "{}", style.paint(line, Tint::Dim));
            }
        }
    }

    pub(super) fn sums(&self, out: &mut String, style: Style) {
        const SHOWN: usize = 10;
        let mut tables = vec![("cause", &self.by_cause), ("task", &self.by_task)];
        if self.has_hosts {
            tables.push(("host", &self.by_host));
        }
        for (title, sums) in tables {
            out.push('\n');
            let mut t = Table::new(&[
                Column::text(if title == "cause" { "where the time went" } else { title }),
                Column::number("time"),
                Column::number("share"),
                Column::number("slices"),
            ]);
            let line = |name: &str, ns: u64, slices: u64| {
                let share = 100.0 * ns as f64 / self.elapsed_ns.max(1) as f64;
                [
                    Cell::from(name),
                    Cell::from(units::duration(ns)),
                    Cell::from(format!("{share:.1} %")),
                    Cell::from(units::count(slices)),
                ]
            };
            for s in sums.iter().take(SHOWN) {
                t.row(line(&s.name, s.duration_ns, s.slices));
            }
            let rest = sums.get(SHOWN..).unwrap_or_default();
            if !rest.is_empty() {
                let (ns, slices) = rest.iter().fold((0, 0), |a, s| (a.0 + s.duration_ns, a.1 + s.slices));
                t.row(line(&format!("({} more)", rest.len()), ns, slices));
            }
            t.row(line("elapsed", self.elapsed_ns, self.slice_count));
            out.push_str(&t.render(style));
        }
        if !self.by_reason.is_empty() {
            out.push_str("\nNot followed or not known, and why:\n");
            for s in &self.by_reason {
                let _ = writeln!(out, "  {:>8}  {}", units::duration(s.duration_ns), s.name);
            }
        }
    }

    pub(super) fn table(&self, out: &mut String, style: Style) {
        let mut t = Table::new(&[
            Column::number("start"),
            Column::number("length"),
            Column::text("task"),
            Column::wrapped("what it did or waited for"),
            Column::text("evidence"),
        ]);
        for row in &self.rows {
            let first = &row.first;
            let start = units::duration(u64::try_from(first.from_ns.saturating_sub(self.from_ns)).unwrap_or(0));
            if row.slices == 1 {
                let tint = if first.state == State::Unknown.name() { Tint::Bad } else { Tint::Plain };
                let at = if self.has_hosts { format!(" on {}", first.host) } else { String::new() };
                t.row([
                    Cell::from(start),
                    Cell::from(units::duration(first.duration_ns)),
                    Cell::from(format!("{}{}{at}", "  ".repeat(usize::from(first.depth.min(8))), first.task)),
                    Cell::tinted(what(first), tint),
                    Cell::tinted(first.evidence.split(" (").next().unwrap_or_default(), Tint::Dim),
                ]);
            } else {
                t.row([
                    Cell::from(start),
                    Cell::from(units::duration(row.duration_ns)),
                    Cell::tinted("…", Tint::Dim),
                    Cell::tinted(
                        format!("{} slices of at most {}", units::count(row.slices), units::duration(row.longest_ns)),
                        Tint::Dim,
                    ),
                ]);
            }
        }
        out.push_str(&t.render(style));
        let told = self.rows.iter().map(|r| r.slices).sum::<u64>();
        if told < self.slice_count {
            let _ = writeln!(
                out,
                "The first {} slices of {}; the totals above cover all. --from and --to select a part.",
                units::count(told),
                units::count(self.slice_count),
            );
        }
    }
}
