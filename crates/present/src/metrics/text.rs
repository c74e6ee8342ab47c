//! Metrics for the terminal: what was lost, services, their kinds, windows, the network where it has something to say.

use super::{FiguresView, KindView, MetricsView, NetworkView, Seen, ServiceView, SpreadView};
use crate::losses::{Loss, losses_or_none};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use std::fmt::Write as _;
use wakepath_model::defects::Answer;

/// A share as people read it: never rounded up to 100 %.
pub(super) fn percent(share: f64) -> String {
    let hundredths = (share.clamp(0.0, 1.0) * 10_000.0).floor();
    match hundredths as u32 {
        10_000 => "100 %".into(),
        h if h >= 9_000 => format!("{}.{:02} %", h / 100, h % 100),
        h => format!("{}.{} %", h / 100, h % 100 / 10),
    }
}

/// A count where zero says nothing.
fn few(n: u64, tint: Tint) -> Cell {
    if n == 0 { Cell::tinted("-", Tint::Dim) } else { Cell::tinted(units::count(n), tint) }
}

fn few_bytes(n: u64, tint: Tint) -> Cell {
    if n == 0 { Cell::tinted("-", Tint::Dim) } else { Cell::tinted(units::bytes(n), tint) }
}

fn success(f: &FiguresView) -> Cell {
    match f.success_rate {
        None => Cell::tinted("-", Tint::Dim),
        Some(share) if f.bad() > 0 => Cell::tinted(percent(share), Tint::Bad),
        Some(share) => Cell::from(percent(share)),
    }
}

fn time(count: u64, ns: u64) -> Cell {
    if count == 0 { Cell::tinted("-", Tint::Dim) } else { Cell::from(units::duration(ns)) }
}

/// Whether times are known of some of `all` and not of all of them.
fn is_of_few(t: &SpreadView, all: u64) -> bool {
    (1..all).contains(&t.count)
}

/// A percentile, with the number of times that it is made of where those are fewer than `all`.
fn percentile(t: &SpreadView, all: u64, ns: u64, tint: Tint) -> Cell {
    match t.count {
        0 => Cell::tinted("-", Tint::Dim),
        n if is_of_few(t, all) => Cell::tinted(format!("{} ({})", units::duration(ns), units::count(n)), tint),
        _ => Cell::tinted(units::duration(ns), tint),
    }
}

const COLUMNS: [Column; 9] = [
    Column::text("service"),
    Column::number("requests"),
    Column::number("rate"),
    Column::number("success"),
    Column::number("4xx"),
    Column::number("failed"),
    Column::number("p50"),
    Column::number("p99"),
    Column::number("max"),
];

/// A row of a table of [`COLUMNS`].
fn figures(name: Cell, f: &FiguresView, rate: String, slow: bool) -> [Cell; 9] {
    let t = &f.service_time;
    [
        name,
        Cell::from(units::count(f.requests)),
        Cell::from(rate),
        success(f),
        few(f.rejected, Tint::Warn),
        few(f.bad(), Tint::Bad),
        percentile(t, f.requests, t.p50_ns, Tint::Plain),
        percentile(t, f.requests, t.p99_ns, if slow { Tint::Warn } else { Tint::Plain }),
        time(t.count, t.max_ns),
    ]
}

/// The service with its protocol.
fn name(s: &ServiceView) -> String {
    let mut out = s.service.clone();
    if let Some(process) = &s.process {
        let _ = write!(out, " {process}");
    }
    match (s.protocol.trim_start_matches("proto."), &s.opaque) {
        ("", Some(_)) => out.push_str(" opaque"),
        ("", None) => {}
        (protocol, _) => {
            let _ = write!(out, " {protocol}");
        }
    }
    out
}

/// The services in one table, the first `rows` of those with requests.
pub(super) fn services(view: &MetricsView, span_ns: u64, rows: usize, width: usize) -> Table {
    let mut table = Table::new(&COLUMNS).within(width);
    for s in view.services.iter().filter(|s| s.figures.requests + s.figures.open > 0).take(rows) {
        let rate = units::rate(s.figures.requests, span_ns);
        table.row(figures(Cell::tinted(name(s), Tint::Strong), &s.figures, rate, false));
    }
    table
}

/// The kinds of a service; the slowest by its 99th percentile stands out, where there are several.
pub(super) fn kinds(kinds: &[KindView], span_ns: u64, width: usize) -> Table {
    let slowest = kinds.iter().map(|k| k.figures.service_time.p99_ns).max().filter(|_| kinds.len() > 1);
    let mut columns = COLUMNS;
    columns[0] = Column::text("kind of request");
    let mut table = Table::new(&columns).indented(2).within(width);
    for k in kinds {
        let f = &k.figures;
        let tint = if f.bad() > 0 { Tint::Bad } else { Tint::Plain };
        let rate = units::rate(f.requests, span_ns);
        table.row(figures(Cell::tinted(&k.asked, tint), f, rate, slowest == Some(f.service_time.p99_ns)));
    }
    table
}

impl MetricsView {
    /// As text for a terminal.
    pub fn render(&self, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        self.render_head(losses, &mut out, style);
        let rows = if self.wanted.rows == 0 { usize::MAX } else { self.wanted.rows };
        if self.services.iter().all(|s| s.figures.requests + s.figures.open == 0) {
            out.push_str("No requests.");
            out.push_str(if self.services.is_empty() { " No flows either.\n" } else { "\n" });
        } else {
            out.push_str(&services(self, self.span_ns, rows, style.width).render(style));
            self.render_notes(&mut out, rows, style);
            self.render_kinds(&mut out, rows, style);
        }
        if self.window_ns.is_some() {
            self.render_windows(&mut out, rows, style);
        }
        self.render_network(&mut out, rows, style);
        self.render_opaque(&mut out, rows, style);
        if self.wanted.map {
            self.render_map(&mut out, rows, style);
        }
        out
    }

    fn render_head(&self, losses: &[Loss], out: &mut String, style: Style) {
        if let Some(from) = self.from_ns {
            let _ = write!(out, "{} for {}", units::wall(from), units::duration(self.span_ns));
        }
        if let Some(c) = self.capture {
            let _ = write!(out, ", {} packets, {}", units::count(c.packets), units::bytes(c.bytes));
        }
        if !out.is_empty() {
            out.push('\n');
        }
        for (n, what) in self.limits.told().into_iter().filter(|(n, _)| *n > 0) {
            let line = wrap(&format!("{} {what}.", units::count(n)), "", style.prose());
            out.push_str(&style.paint(line.trim_end(), Tint::Warn));
            out.push('\n');
        }
        out.push_str(&losses_or_none(losses, &[Answer::Metrics], style));
        out.push('\n');
    }

    /// What the table of services does not say.
    fn render_notes(&self, out: &mut String, rows: usize, style: Style) {
        let with: Vec<&ServiceView> =
            self.services.iter().filter(|s| s.figures.requests + s.figures.open > 0).collect();
        if with.len() > rows {
            let _ = writeln!(out, "… and {} more services (--limit 0 shows all)", with.len() - rows);
        }
        let how = match with.iter().map(|s| s.seen).min_by_key(|s| *s as u8) {
            Some(Seen::Packets) => "Times: last packet of the request's header to last packet of the reply's.",
            Some(Seen::Server) => "Times: at the server, from the request's arrival to the call that sent its reply.",
            _ => "Times: at the client, from the call that sent the request to the one that read the reply.",
        };
        out.push_str(&wrap(how, "", style.prose()));
        if with.iter().take(rows).any(|s| is_of_few(&s.figures.service_time, s.figures.requests)) {
            let said = "In parentheses: the number of requests whose time is known, if not all.";
            out.push_str(&wrap(said, "", style.prose()));
        }
        for s in with.iter().take(rows) {
            let f = &s.figures;
            let parts = [
                (f.open, "still open"),
                (f.outcome_unknown, "answered without a readable success or error"),
                (f.reply_unfinished, "whose reply was still coming at the end"),
                (f.unanswered, "never answered"),
                (f.reply_missed, "whose reply was not captured"),
                (f.no_reply, "that get no reply"),
                (f.reply_only, "replies without a captured request"),
            ];
            let said: Vec<String> =
                parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", units::count(*n))).collect();
            if !said.is_empty() {
                let line = format!("{}: {}.", sanitise(&s.service), said.join(", "));
                out.push_str(&wrap(&line, "", style.prose()));
            }
        }
    }

    fn render_kinds(&self, out: &mut String, rows: usize, style: Style) {
        for s in self.services.iter().filter(|s| !s.kinds.is_empty()).take(rows) {
            let _ = writeln!(out, "\n{}", style.paint(&sanitise(&name(s)), Tint::Strong));
            out.push_str(&kinds(&s.kinds, self.span_ns, style.width).render(style));
            if s.kinds_left_out > 0 {
                let _ = writeln!(out, "  … and {} more kinds (--kinds 0 shows all)", units::count(s.kinds_left_out));
            }
            let statuses: Vec<String> = s
                .figures
                .statuses
                .iter()
                .filter(|(code, _)| *code != 0)
                .map(|(code, n)| format!("{code} × {}", units::count(*n)))
                .collect();
            if !statuses.is_empty() {
                out.push_str(&wrap(&format!("Status {}", statuses.join(", ")), "  ", style.prose()));
            }
        }
    }

    fn render_windows(&self, out: &mut String, rows: usize, style: Style) {
        for s in self.services.iter().filter(|s| s.figures.requests > 0).take(rows) {
            let _ = writeln!(out, "\n{} by window", style.paint(&sanitise(&name(s)), Tint::Strong));
            let mut table = Table::new(&[
                Column::text("from (UTC)"),
                Column::number("requests"),
                Column::number("rate"),
                Column::number("success"),
                Column::number("failed"),
                Column::number("min"),
                Column::number("avg"),
                Column::number("p50"),
                Column::number("p99"),
                Column::number("max"),
            ])
            .indented(2);
            let of_service =
                |w: &'_ super::WindowView| w.rows.iter().position(|r| r.asked.is_none() && r.service == s.service);
            let mut left_out = 0;
            for w in &self.windows {
                let Some(i) = of_service(w) else { continue };
                let f = &w.rows[i].figures;
                if f.requests + f.open == 0 {
                    continue;
                }
                if left_out > 0 || table.row_count() >= rows.saturating_mul(3) {
                    left_out += 1;
                    continue;
                }
                let t = &f.service_time;
                let wall = units::wall(w.from_ns);
                let timed =
                    if is_of_few(t, f.requests) { format!(" ({})", units::count(t.count)) } else { String::new() };
                table.row([
                    Cell::from(wall.get(11..wall.len() - 1).unwrap_or(&wall)),
                    Cell::from(units::count(f.requests) + &timed),
                    Cell::from(units::rate(f.requests, w.covered_ns)),
                    success(f),
                    few(f.bad(), Tint::Bad),
                    time(t.count, t.min_ns),
                    time(t.count, t.mean_ns),
                    time(t.count, t.p50_ns),
                    time(t.count, t.p99_ns),
                    time(t.count, t.max_ns),
                ]);
            }
            out.push_str(&table.render(style));
            if left_out > 0 {
                let _ = writeln!(out, "  … and {left_out} more windows (--limit 0 shows all)");
            }
        }
    }

    fn render_network(&self, out: &mut String, rows: usize, style: Style) {
        let of = |s: &'_ ServiceView| s.network.filter(|n| n.is_troubled || n.handshake_server.count > 0);
        let mut with: Vec<(&ServiceView, NetworkView)> =
            self.services.iter().filter_map(|s| of(s).map(|n| (s, n))).collect();
        if with.is_empty() {
            return;
        }
        with.sort_by_key(|(_, n)| !n.is_troubled);
        out.push_str("\nNetwork: handshakes to the server's and to the client's side, and what went wrong\n");
        let mut table = Table::new(&[
            Column::text("service"),
            Column::number("flows"),
            Column::number("refused"),
            Column::number("reset"),
            Column::number("server p50"),
            Column::number("client p50"),
            Column::number("resent"),
            Column::number("0 window"),
            Column::number("missing"),
        ]);
        for (s, n) in with.iter().take(rows) {
            let packets = n.packets.sum();
            let resent = match n.retransmitted.sum() {
                0 => Cell::tinted("-", Tint::Dim),
                r if packets > 0 => Cell::tinted(percent(r as f64 / packets as f64), Tint::Warn),
                r => Cell::tinted(units::count(r), Tint::Warn),
            };
            table.row([
                Cell::tinted(&s.service, Tint::Strong),
                Cell::from(units::count(n.flows)),
                few(n.refused, Tint::Bad),
                few(n.resets_by_client + n.resets_by_server, Tint::Warn),
                percentile(&n.handshake_server, n.flows, n.handshake_server.p50_ns, Tint::Plain),
                percentile(&n.handshake_client, n.flows, n.handshake_client.p50_ns, Tint::Plain),
                resent,
                few(n.zero_windows.sum(), Tint::Warn),
                few_bytes(n.missing_bytes.sum(), Tint::Warn),
            ]);
        }
        out.push_str(&table.render(style));
        let is_few = |n: &NetworkView| [n.handshake_server, n.handshake_client].iter().any(|h| is_of_few(h, n.flows));
        if with.iter().take(rows).any(|(_, n)| is_few(n)) {
            let said = "In parentheses: the number of flows whose handshake was captured, if not all.";
            out.push_str(&wrap(said, "", style.prose()));
        }
        if with.len() > rows {
            let _ = writeln!(out, "… and {} more services (--limit 0 shows all)", with.len() - rows);
        }
    }

    /// Services of which only packets can be told.
    fn render_opaque(&self, out: &mut String, rows: usize, style: Style) {
        let mute: Vec<&ServiceView> =
            self.services.iter().filter(|s| s.figures.requests + s.figures.open == 0).collect();
        if mute.is_empty() {
            return;
        }
        out.push_str("\nWithout requests:\n");
        for s in mute.iter().take(rows) {
            let n = s.network.as_ref();
            let line = format!(
                "{}: {} flows, {}{}{}",
                sanitise(&s.service),
                units::count(n.map_or(0, |n| n.flows)),
                units::bytes(n.map_or(0, |n| n.stream_bytes.sum())),
                if s.protocol.is_empty() {
                    String::new()
                } else {
                    format!(", {}", s.protocol.trim_start_matches("proto."))
                },
                s.opaque.as_ref().map_or(String::new(), |why| format!(", opaque: {}", sanitise(why))),
            );
            out.push_str(&wrap(&line, "  ", style.prose()));
        }
        if mute.len() > rows {
            let _ = writeln!(out, "  … and {} more (--limit 0 shows all)", mute.len() - rows);
        }
    }

    fn render_map(&self, out: &mut String, rows: usize, style: Style) {
        out.push_str("\nWho calls whom:\n");
        let mut table = Table::new(&[
            Column::text("client"),
            Column::text("service"),
            Column::number("requests"),
            Column::number("rate"),
            Column::number("4xx"),
            Column::number("failed"),
            Column::number("flows"),
            Column::number("to server"),
            Column::number("to client"),
        ])
        .indented(2);
        for c in self.callers.iter().take(rows) {
            table.row([
                Cell::from(&c.client),
                Cell::from(&c.service),
                Cell::from(units::count(c.requests)),
                Cell::from(units::rate(c.requests, self.span_ns)),
                few(c.rejected, Tint::Warn),
                few(c.failed, Tint::Bad),
                few(c.flows, Tint::Plain),
                few_bytes(c.stream_bytes.to_server, Tint::Plain),
                few_bytes(c.stream_bytes.to_client, Tint::Plain),
            ]);
        }
        out.push_str(&table.render(style));
        if self.callers.len() > rows {
            let _ = writeln!(out, "  … and {} more (--limit 0 shows all)", self.callers.len() - rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_share_is_never_rounded_up_to_all() {
        for (share, text) in
            [(1.0, "100 %"), (0.999_999, "99.99 %"), (0.95, "95.00 %"), (0.5, "50.0 %"), (0.0, "0.0 %"), (7.0, "100 %")]
        {
            assert_eq!(percent(share), text, "{share}");
        }
    }
}
