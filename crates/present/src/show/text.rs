//! A request as text for a terminal.

use super::{FaultView, OpenCallView, ShowView, SpanView};
use crate::own_time::{AT_MOST, own_time};
use crate::proofs;
use crate::refusals;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, WIDTH_MAX, cut, sanitise, wrap};
use crate::units;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;
use wakepath_causality::evidence::Gap;

/// Columns of what a span was answered; a longer error stands below the table, in full.
const REPLY_MAX: usize = 12;
/// How a rule ends that is no proof.
const BY_HABIT: &str = "(by-habit)";
/// What the mark of such a rule means.
const HABITS: &str = "*: by habit, which is not proof: right only if the service keeps doing what it always did. --evidence has the cases.";
/// The waterfall's place among the columns.
const WATERFALL: usize = 4;
/// Ends of two spans that are told by different operations of one task may be so far apart (ns).
const SAME_NS: u64 = 100_000;
/// From so many on, repeats of the same call share a row.
const REPEATS_MIN: usize = 4;
/// The place of what was asked, after it.
const ASKED: usize = WATERFALL + 1;

impl SpanView {
    /// Of its own time, what may be time of calls that are missing (ns).
    fn unsure_ns(&self) -> u64 {
        let lacks_calls = !self.hole.is_empty() && self.hole != Gap::AfterRecording.name();
        if lacks_calls { self.self_ns } else { 0 }
    }

    /// When it ends, after the root's begin (ns).
    fn ends_at(&self) -> i64 {
        self.offset_ns.saturating_add_unsigned(self.duration_ns)
    }
}

impl ShowView {
    /// As text for a terminal.
    pub fn render(&self, style: Style) -> String {
        let mut out = String::new();
        let when = self.wall_ns.map_or(String::new(), |w| format!(", {}", units::wall(w)));
        let at_least = if self.spans.first().is_some_and(|root| root.arrival_unseen) { "at least " } else { "" };
        let _ = writeln!(
            out,
            "{} at {}: {at_least}{}{}{when}\nrequest {}, {}",
            sanitise(&self.asked),
            sanitise(&self.service),
            units::duration(self.duration_ns),
            if self.in_progress { ", its end was not recorded" } else { "" },
            self.request,
            if self.complete { "path complete" } else { "path INCOMPLETE (see below)" },
        );
        out.push('\n');
        // where there is little room, who was asked for what is worth more than a picture of the two columns before
        let pictured = self.table(true);
        let has_bars = style.width >= WIDTH_MAX && pictured.cut_rows(ASKED, style).is_empty();
        let table = if has_bars { pictured } else { self.table(false) };
        out.push_str(&table.render(style));
        if self.spans.iter().any(|s| s.unsure_ns() > 0) {
            out.push_str(&wrap(AT_MOST, "", style.prose()));
        }
        if self.spans.iter().any(|s| s.evidence.contains(BY_HABIT)) {
            out.push_str(&wrap(HABITS, "", style.prose()));
        }
        self.in_full(&mut out, &table.cut_rows(if has_bars { ASKED } else { ASKED - 1 }, style), style);
        self.openings(&mut out, style);
        self.unseen_arrivals(&mut out, style);
        self.clients_left(&mut out, style);
        self.outlasting(&mut out, style);
        self.displaced(&mut out, style);
        self.on_the_wire(&mut out);
        self.page_faults(&mut out);
        self.refusals(&mut out, style);
        self.incomplete(&mut out, style);
        if let Some(proofs) = &self.proofs {
            out.push_str(&proofs::render(proofs, style));
        }
        out
    }

    /// A row a span, with its bar in the waterfall where `has_bars`.
    fn table(&self, has_bars: bool) -> Table {
        let total = self.duration_ns.max(1);
        let mut columns = vec![
            Column::number("start"),
            Column::number("length"),
            Column::number("own"),
            Column::number("delivery"),
            // like a number, which is never cut
            Column::number("|waterfall     |"),
            Column::wrapped("service and request"),
            Column::number("reply"),
            Column::text("evidence"),
        ];
        if !has_bars {
            columns.remove(WATERFALL);
        }
        let mut t = Table::new(&columns);
        for row in self.rows() {
            let s = &self.spans[row.start];
            let times = if row.len() > 1 { format!(" × {}", units::count(row.len() as u64)) } else { String::new() };
            let late = if self.is_late(s) { " (after the reply)" } else { "" };
            let asked = format!("{}{}{times} {}{late}", "  ".repeat(s.depth.min(12) as usize), s.service, s.asked);
            let tint = if s.failed == Some(true) || s.reset { Tint::Bad } else { Tint::Plain };
            let all = &self.spans[row.clone()];
            let sum = |of: fn(&SpanView) -> u64| all.iter().map(of).sum::<u64>();
            let between = s.between_ns.map(|_| sum(|s| s.between_ns.unwrap_or(0)));
            let mut cells = vec![
                Cell::from(units::duration(s.offset_ns.max(0) as u64)),
                Cell::from(units::duration(sum(|s| s.duration_ns))),
                Cell::from(own_time(sum(|s| s.self_ns), sum(SpanView::unsure_ns))),
                Cell::from(between.map_or_else(String::new, units::duration)),
                Cell::tinted(&asked, tint),
                Cell::tinted(s.reply(), tint),
                Cell::tinted(short(&s.evidence), Tint::Dim),
            ];
            if has_bars {
                let from = s.offset_ns.max(0) as u64;
                let to = all.iter().map(|s| s.offset_ns.max(0) as u64 + s.duration_ns).max().unwrap_or(from);
                cells.insert(WATERFALL, Cell::from(bar(from, to - from, total)));
            }
            t.row(cells);
        }
        t
    }

    /// The spans of each row: one, or repeats of the same call that follow each other and of which nothing else is to be told.
    fn rows(&self) -> Vec<Range<usize>> {
        let has_calls: HashSet<u32> = self.spans.iter().filter_map(|s| s.parent).collect();
        let is_plain = |s: &SpanView| {
            !has_calls.contains(&s.span)
                && s.failed != Some(true)
                && !s.reset
                && !s.queued
                && s.hole.is_empty()
                && s.refused.is_empty()
                && s.faults.is_none()
        };
        let is_again = |a: &SpanView, b: &SpanView| {
            let what = |s: &SpanView| (s.parent, s.status, s.watched, self.is_late(s));
            let names = |s: &SpanView| (s.service.clone(), s.asked.clone(), s.evidence.clone());
            is_plain(a) && is_plain(b) && what(a) == what(b) && names(a) == names(b)
        };
        let mut rows: Vec<Range<usize>> = Vec::new();
        for (i, s) in self.spans.iter().enumerate() {
            match rows.last_mut() {
                Some(row) if is_again(&self.spans[row.start], s) => row.end = i + 1,
                _ => rows.push(i..i + 1),
            }
        }
        // a few are told one by one
        rows.into_iter()
            .flat_map(|r| if r.len() < REPEATS_MIN { r.map(|i| i..i + 1).collect() } else { vec![r] })
            .collect()
    }

    /// What the table cuts: what was asked in the spans of these rows, and long errors.
    fn in_full(&self, out: &mut String, cut: &[usize], style: Style) {
        let rows = self.rows();
        for (i, s) in cut.iter().filter_map(|&row| Some(&self.spans[rows.get(row)?.start])).enumerate() {
            let head = if i == 0 { "\nIn full:\n" } else { "" };
            numbered(out, head, s, &format!("{} {}", s.service, s.asked), Tint::Plain, style);
        }
        let failed: Vec<&SpanView> =
            self.spans.iter().filter(|s| s.failed == Some(true) && s.error.len() > REPLY_MAX).collect();
        for (i, s) in failed.iter().enumerate() {
            let head = if i == 0 { "\nErrors in full:\n" } else { "" };
            numbered(out, head, s, &format!("{}: {}", s.service, s.error), Tint::Bad, style);
        }
    }

    /// How long connections took to open, where that is a part of the request's time that counts.
    fn openings(&self, out: &mut String, style: Style) {
        const SHARE: f64 = 0.01;
        let counts = |s: &&SpanView| (s.connect_ns + s.handshake_ns) as f64 >= SHARE * self.duration_ns as f64;
        for (i, s) in self.spans.iter().filter(|s| s.connect_ns > 0).filter(counts).enumerate() {
            let head = if i == 0 { "\nConnections opened for these calls, before they began:\n" } else { "" };
            let text = format!(
                "{}: connecting took {}{}",
                s.service,
                units::duration(s.connect_ns),
                match s.handshake_ns {
                    0 => String::new(),
                    ns => format!(", and waiting for its part of the handshake {}", units::duration(ns)),
                }
            );
            numbered(out, head, s, &text, Tint::Plain, style);
        }
    }

    /// What may have waited before its begin, where that counts: of the request itself nobody knows how long.
    fn unseen_arrivals(&self, out: &mut String, style: Style) {
        const SHARE: f64 = 0.01;
        let counts = |s: &&SpanView| s.between_ns.is_none_or(|ns| ns as f64 >= SHARE * self.duration_ns as f64);
        let mut head = "\nNot seen to arrive:\n";
        for s in self.spans.iter().filter(|s| s.arrival_unseen).filter(counts) {
            let text = match s.between_ns {
                None => format!(
                    "{}: it may have waited there before it was read, so it took at least this long.",
                    s.service
                ),
                Some(_) => format!("{}: its delivery may be time for which it waited there to be read.", s.service),
            };
            numbered(out, head, s, &text, Tint::Plain, style);
            head = "";
        }
    }

    /// Whose clients did not wait for the reply.
    fn clients_left(&self, out: &mut String, style: Style) {
        let left = self.spans.iter().filter_map(|s| Some((s, s.left_ns?)));
        for (i, (s, after)) in left.enumerate() {
            let head = if i == 0 { "\nClients that left:\n" } else { "" };
            let text = format!(
                "{}: its client left after {}, before the reply was complete. It would have waited at least that long.",
                s.service,
                units::duration(after)
            );
            numbered(out, head, s, &text, Tint::Bad, style);
        }
    }

    /// What ends after the reply of who asked for it: it lies beyond the request's bar, and nobody waited for it. By when
    /// its caller had the answer: a server that lost its processor right after it had sent that has a later end, which says nothing.
    fn outlasting(&self, out: &mut String, style: Style) {
        let mut head = "\nGoing on after the reply of who asked:\n";
        for s in self.spans.iter().filter(|s| s.left_ns.is_none()) {
            let asker = s.parent.and_then(|p| self.spans.iter().find(|a| a.span == p));
            let (Some(asker), Some(heard)) = (asker.filter(|a| a.has_replied), s.heard_ns) else { continue };
            let after = heard.saturating_sub(asker.ends_at()).max(0) as u64;
            if after <= SAME_NS {
                continue;
            }
            let text = format!(
                "{}: it ended {} after {} had replied, which did not wait for it.",
                s.service,
                units::duration(after),
                asker.service
            );
            numbered(out, head, s, &text, Tint::Plain, style);
            head = "";
        }
    }

    /// Whether a call was made after the reply: not where its caller had the answer before, by whatever another host's clock says.
    fn is_late(&self, s: &SpanView) -> bool {
        let reply = self.duration_ns as i64;
        s.parent.is_some() && s.offset_ns >= reply && s.heard_ns.is_none_or(|heard| heard >= reply)
    }

    /// What lies outside who asked for it, and nobody did so: on one host that does not happen, but clocks of two may say so.
    fn displaced(&self, out: &mut String, style: Style) {
        let mut head = "\nOutside who asked:\n";
        for s in &self.spans {
            let Some(asker) = s.parent.and_then(|p| self.spans.iter().find(|a| a.span == p)) else { continue };
            let before = asker.offset_ns.saturating_sub(s.offset_ns);
            // where its caller had the answer earlier
            let heard = s.heard_ns.filter(|_| asker.host != s.host).map_or(i64::MAX, |h| h.max(asker.ends_at()));
            let after = s.ends_at().saturating_sub(heard);
            let (what, by) = if before >= after { ("begin", before) } else { ("end", after) };
            if by <= SAME_NS as i64 {
                continue;
            }
            let why = match (asker.host == s.host, what) {
                (true, _) => "its request was read together with earlier bytes, and when it came itself is not known.",
                (false, "begin") => "the clocks of their hosts differ by at least that, and its place is not exact.",
                (false, _) => {
                    "its caller had the answer before, so the clocks of their hosts differ, and its place is not exact."
                }
            };
            let side = if what == "begin" { "before" } else { "after" };
            let text = format!(
                "{}: it seems to {what} {} {side} {}: {why}",
                s.service,
                units::duration(by as u64),
                asker.service
            );
            numbered(out, head, s, &text, Tint::Plain, style);
            head = "";
        }
    }

    fn on_the_wire(&self, out: &mut String) {
        let divided = self.spans.iter().filter_map(|s| Some((s, s.wire.as_ref().filter(|w| w.out_ns.is_some())?)));
        for (i, (s, w)) in divided.enumerate() {
            let length = |ns: Option<u64>| ns.map_or_else(|| "?".to_owned(), units::duration);
            let _ = writeln!(
                out,
                "{}  {:>3}  {} to the request's last packet, {} to the reply's first, {} back: {}",
                if i == 0 { "\nOn the wire:\n" } else { "" },
                s.span,
                length(w.out_ns),
                units::duration(w.server_ns),
                length(w.back_ns),
                sanitise(&s.service),
            );
        }
    }

    fn page_faults(&self, out: &mut String) {
        let held_up = self.spans.iter().filter_map(|s| Some((s, s.faults.as_ref()?)));
        for (i, (s, f)) in held_up.enumerate() {
            let head = if i == 0 { "\nPage faults:\n" } else { "" };
            let _ = writeln!(out, "{head}  {:>3}  {}: {}", s.span, sanitise(&f.line()), sanitise(&s.service));
        }
    }

    fn refusals(&self, out: &mut String, style: Style) {
        for s in &self.spans {
            for f in &s.refused {
                let line = format!(
                    "at {}, span {} ({}): {} {} {}, after {}",
                    units::duration(f.offset_ns.max(0) as u64),
                    s.span,
                    s.service,
                    f.task,
                    refusals::met(f.error),
                    f.remote,
                    units::duration(f.took_ns),
                );
                out.push_str(&painted(&line, Tint::Bad, style));
            }
        }
    }

    /// Where the path may be missing something, and the calls that could be of it.
    fn incomplete(&self, out: &mut String, style: Style) {
        for s in self.spans.iter().filter(|s| s.queued) {
            let line = format!(
                "span {} ({}) puts work into a queue: what happens to it later is not linked",
                s.span, s.service
            );
            let _ = writeln!(out, "{}", style.paint(&sanitise(&line), Tint::Warn));
        }
        for s in self.spans.iter().filter(|s| !s.hole.is_empty()) {
            let line = format!("incomplete at span {} ({}): {}", s.span, s.service, s.hole);
            out.push_str(&painted(&line, Tint::Warn, style));
            for c in &s.open_calls {
                out.push_str(&painted(&c.line(), Tint::Dim, style));
            }
        }
    }
}

impl FaultView {
    /// In a line.
    fn line(&self) -> String {
        const FILES_SHOWN: usize = 3;
        let mut parts = Vec::new();
        if self.major > 0 {
            let files = self.files.iter().take(FILES_SHOWN);
            let mut files: Vec<String> =
                files.map(|f| format!("{} of {}", units::duration(f.duration_ns), f.file)).collect();
            if self.files.len() > FILES_SHOWN {
                files.push("…".to_owned());
            }
            let of = if files.is_empty() { String::new() } else { format!(": {}", files.join(", ")) };
            parts.push(format!(
                "{} with a read, {} in them{of}",
                units::count(self.major),
                units::duration(self.major_ns)
            ));
        }
        if self.minor > 0 {
            parts.push(format!("{} without a read", units::count(self.minor)));
        }
        if self.neither > 0 {
            parts.push(format!("{} counted as neither", units::count(self.neither)));
        }
        parts.join("; ")
    }
}

impl OpenCallView {
    /// In a line.
    fn line(&self) -> String {
        let others = match self.others {
            0 => "of this request or of none".to_owned(),
            1 => "of this request or of another one".to_owned(),
            n => format!("of this request or of one of {} others", units::count(u64::from(n))),
        };
        let at = units::duration(self.offset_ns.max(0) as u64);
        format!("  at {at}: {} to {}, by {}: {others}", self.asked, self.remote, self.task)
    }
}

impl SpanView {
    /// What it was answered, in a few characters: a status, the class of an error, or how it ended without an answer.
    fn reply(&self) -> Cow<'_, str> {
        match (self.status, self.failed == Some(true), self.reset) {
            _ if self.left_ns.is_some() => "client left".into(),
            (_, _, true) => "reset".into(),
            (0, true, _) if self.error.is_empty() => "failed".into(),
            (0, true, _) => cut(&self.error, REPLY_MAX),
            (0, false, _) => "".into(),
            (n, true, _) if !self.error.is_empty() && self.error.len() + 4 <= REPLY_MAX => {
                format!("{n} {}", self.error).into()
            }
            (n, _, _) => n.to_string().into(),
        }
    }
}

/// A sentence in a colour, each of its lines.
fn painted(text: &str, tint: Tint, style: Style) -> String {
    wrap(&sanitise(text), "", style.prose()).lines().map(|line| style.paint(line, tint) + "\n").collect()
}

/// A sentence about a span, after its number; broken where it is longer than prose may be.
fn numbered(out: &mut String, head: &str, s: &SpanView, text: &str, tint: Tint, style: Style) {
    out.push_str(head);
    let text = wrap(&sanitise(text), "       ", style.prose());
    for (i, line) in text.lines().enumerate() {
        let number = if i == 0 { format!("  {:>3}  ", s.span) } else { "       ".to_owned() };
        let _ = writeln!(out, "{number}{}", style.paint(line.trim_start(), tint));
    }
}

/// Fourteen columns of the request's length, the span's part of it filled.
fn bar(offset: u64, length: u64, total: u64) -> String {
    const WIDTH: u64 = 14;
    let at = |t: u64| (u128::from(t.min(total)) * u128::from(WIDTH) / u128::from(total)) as u64;
    let from = at(offset).min(WIDTH - 1);
    let to = at(offset + length).clamp(from + 1, WIDTH);
    let mut out = String::from("|");
    for i in 0..WIDTH {
        out.push(if i >= from && i < to { '█' } else { ' ' });
    }
    out.push('|');
    out
}

/// The names of the rules of a span, with a mark where one is no proof.
fn short(evidence: &str) -> String {
    let name = |e: &str| {
        let mark = if e.ends_with(BY_HABIT) { "*" } else { "" };
        format!("{}{mark}", e.split(" (").next().unwrap_or(e))
    };
    evidence.split(", ").map(name).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_are_no_proof_are_marked() {
        assert_eq!(short("turn (by-habit), bytes (translated address) (observed)"), "turn*+bytes");
        assert_eq!(short("fragment (by-rule), bytes (observed)"), "fragment+bytes");
        assert_eq!(short("root"), "root");
    }

    #[test]
    fn replies_and_errors_stand_unshortened_at_any_width() {
        let statement = "UPDATE candidates SET votes = votes + ? WHERE id = ? ".repeat(5);
        let span = |n: u32, status, failed, error: &str, reset| SpanView {
            span: n,
            depth: n,
            service: "postgres:5432".into(),
            asked: statement.clone(),
            evidence: "fragment (by-rule), bytes (observed)".into(),
            status,
            failed: Some(failed),
            error: error.into(),
            reset,
            ..SpanView::default()
        };
        let long = "an error that says much more than a column of a table has room for";
        let view = ShowView {
            request: "0123456789abcdef".into(),
            service: "nginx:80".into(),
            asked: "GET /".into(),
            wall_ns: None,
            duration_ns: 1_000_000,
            in_progress: false,
            complete: true,
            spans: vec![
                span(0, 500, true, "", false),
                span(1, 0, true, "40P01", false),
                span(2, 0, true, long, false),
                span(3, 0, false, "", true),
            ],
            proofs: None,
        };
        for width in [80, 100, 200] {
            let text = view.render(Style { width, ..Style::default() });
            for whole in ["500", "40P01", "reset"] {
                assert!(text.lines().any(|l| l.split_whitespace().any(|w| w == whole)), "{whole} at {width}:\n{text}");
            }
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(long), "in full, below the table:\n{text}");
            // each statement goes on in the lines below, or stands in full below the table
            let said = words.matches("candidates").count();
            assert!(said >= 5 * view.spans.len(), "{said} at {width}:\n{text}");
            assert!(text.lines().all(|l| crate::text::columns(l) <= width), "{width}:\n{text}");
        }
    }

    #[test]
    fn repeats_of_a_call_share_a_row() {
        let span = |n: u32, parent, asked: &str, failed| SpanView {
            span: n,
            parent,
            depth: u32::from(parent.is_some()),
            service: if parent.is_some() { "postgres:5432".into() } else { "app:80".into() },
            asked: asked.into(),
            evidence: "fragment (by-rule)".into(),
            failed: Some(failed),
            offset_ns: i64::from(n) * 1_000_000,
            duration_ns: if n == 0 { 200_000_000 } else { 500_000 },
            ..SpanView::default()
        };
        let mut spans = vec![span(0, None, "GET /list", false), span(1, Some(0), "SELECT a", false)];
        spans.extend((2..122).map(|n| span(n, Some(0), "SELECT b", n == 50)));
        let view = ShowView {
            request: "0123456789abcdef".into(),
            service: "app:80".into(),
            asked: "GET /list".into(),
            wall_ns: None,
            duration_ns: 200_000_000,
            in_progress: false,
            complete: true,
            spans,
            proofs: None,
        };
        let text = view.render(Style { width: 200, ..Style::default() });
        // the one that failed stands alone
        assert!(text.contains("postgres:5432 × 48 SELECT b") && text.contains("postgres:5432 × 71 SELECT b"), "{text}");
        assert!(text.lines().filter(|l| l.contains("SELECT")).count() == 4, "{text}");
        assert!(text.contains("24.0 ms"), "48 of half a millisecond: {text}");
    }

    /// It lost its processor right after it had sent its reply: its end is late, and its caller had the answer before.
    #[test]
    fn a_server_that_returns_late_from_its_reply_was_waited_for() {
        let span = |n: u32, parent, duration_ns, heard_ns| SpanView {
            span: n,
            parent,
            service: format!("service{n}"),
            duration_ns,
            heard_ns,
            has_replied: true,
            ..SpanView::default()
        };
        let said = |heard_ns| {
            let spans = vec![span(0, None, 1_000_000, None), span(1, Some(0), 9_000_000, heard_ns)];
            let view = ShowView {
                request: "0123456789abcdef".into(),
                service: "service0".into(),
                asked: "GET /".into(),
                wall_ns: None,
                duration_ns: 1_000_000,
                in_progress: false,
                complete: true,
                spans,
                proofs: None,
            };
            let mut out = String::new();
            view.outlasting(&mut out, Style::default());
            out
        };
        assert_eq!([Some(900_000), None].map(said), ["", ""]);
        assert!(said(Some(9_000_000)).contains("it ended 8.00 ms after service0 had replied"));
    }

    #[test]
    fn a_bar_is_never_empty_nor_too_long() {
        for (o, l) in [(0, 0), (0, 100), (99, 1), (100, 0), (50, 500)] {
            let b = bar(o, l, 100);
            assert_eq!(b.chars().count(), 16);
            assert!(b.contains('█'));
        }
    }
}
