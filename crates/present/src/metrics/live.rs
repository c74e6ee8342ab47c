//! The live view: the window that was closed last, as large as the terminal is.

use super::{FiguresView, KindView, MetricsView, Part, Seen, ServiceView, Wanted, row_view, text};
use crate::text::{Style, Tint, cut};
use crate::units;
use std::fmt::Write as _;
use wakepath_analysis::metrics::{Metrics, Window};

/// A terminal's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns; of more than 100 the rest stays empty.
    pub columns: usize,
    /// Lines.
    pub lines: usize,
}

/// What the view says besides the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// Packets captured since the begin.
    pub packets: u64,
    /// Packets lost since the begin.
    pub lost: u64,
    /// How long it has been running, ns.
    pub running_ns: u64,
}

/// Renders a window for a terminal: at most `size.lines` lines of at most `size.columns` columns (40 at least). What was lost
/// comes first, then the services, then the kinds of each as far as there is room, most requests first. Without a window it
/// says that none is over.
pub fn render(metrics: &Metrics, window: Option<&Window>, status: Status, size: Size, style: Style) -> String {
    let width = size.columns.max(40);
    let mut lines: Vec<String> = Vec::new();
    let head = format!(
        "{} packets in {}{}",
        units::count(status.packets),
        units::duration(status.running_ns),
        window.map_or(String::new(), |w| {
            let (from, to) = (units::wall(w.from.0), units::wall(w.to.0));
            format!("; {} to {} UTC", clock(&from), clock(&to))
        })
    );
    lines.push(cut(&head, width).into_owned());
    if status.lost > 0 {
        let all = (status.packets + status.lost) as f64;
        let lost = format!(
            "LOST {} packets ({}): what follows is too low",
            units::count(status.lost),
            text::percent(status.lost as f64 / all)
        );
        lines.push(style.paint(&cut(&lost, width), Tint::Bad));
    }
    match window {
        None => lines.push(cut("No window is complete yet, or nothing happened.", width).into_owned()),
        Some(w) => body(metrics, w, width, size.lines, style, &mut lines),
    }
    lines.truncate(size.lines);
    let mut out = String::new();
    for line in &lines {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// `04:55:10` of an RFC 3339 time.
fn clock(wall: &str) -> &str {
    wall.get(11..19).unwrap_or(wall)
}

fn body(metrics: &Metrics, w: &Window, width: usize, lines_max: usize, style: Style, lines: &mut Vec<String>) {
    let view = view_of(metrics, w);
    let busy: Vec<&ServiceView> = view.services.iter().filter(|s| s.figures.requests + s.figures.open > 0).collect();
    lines.extend(text::services(&view, w.covered_ns, usize::MAX, width).render(style).lines().map(str::to_owned));
    for s in busy.iter().filter(|s| s.kinds.len() > 1) {
        // a heading, a line of titles and a kind, or nothing
        let room = lines_max.saturating_sub(lines.len());
        if room < 4 {
            break;
        }
        lines.push(String::new());
        lines.push(style.paint(&cut(&s.service, width), Tint::Strong));
        let shown = s.kinds.len().min(room - 3);
        let table = text::kinds(&s.kinds[..shown], w.covered_ns, width);
        lines.extend(table.render(style).lines().map(str::to_owned));
    }
}

/// The window as if it were the whole answer.
fn view_of(metrics: &Metrics, w: &Window) -> MetricsView {
    let part = Part { seen: Seen::Packets, metrics, windows: &[] };
    let wanted = Wanted { service: None, kinds: 0, rows: 0, window_ns: None, map: false };
    let mut view = MetricsView::new(&[], None, wanted);
    // a service's row stands before those of its kinds
    for row in &w.rows {
        let seen = row_view(&part, row, w.covered_ns);
        match row.kind {
            None => view.services.push(service_of(metrics, row.service, seen.figures)),
            Some(k) => {
                let kind =
                    KindView { protocol: String::new(), asked: metrics.kind(k).asked.clone(), figures: seen.figures };
                if let Some(s) = view.services.last_mut() {
                    s.kinds.push(kind);
                }
            }
        }
    }
    let by_requests = |f: &FiguresView| std::cmp::Reverse(f.requests);
    view.services.sort_by_key(|s| by_requests(&s.figures));
    view.services.iter_mut().for_each(|s| s.kinds.sort_by_key(|k| by_requests(&k.figures)));
    view
}

fn service_of(metrics: &Metrics, number: u32, figures: FiguresView) -> ServiceView {
    let s = metrics.service(number);
    ServiceView {
        service: s.place.label(),
        process: None,
        protocol: s.protocol.clone(),
        opaque: (!s.opaque.is_empty()).then(|| s.opaque.clone()),
        seen: Seen::Packets,
        flows_open: s.flows_open,
        figures,
        network: None,
        kinds: Vec::new(),
        kinds_left_out: 0,
    }
}
