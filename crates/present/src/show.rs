//! `wakepath show`: one request as a waterfall, with the evidence of each link.

use crate::own_time::{AT_MOST, own_time};
use crate::proofs::{self, ProofView};
use crate::refusals;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, WIDTH_MAX, cut, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use wakepath_analysis::faults::{FileRead, SpanFaults};
use wakepath_analysis::names::Names;
use wakepath_analysis::spans::{Timed, evidence, lay_out};
use wakepath_causality::evidence::Hole;
use wakepath_causality::finished::Refusal;
use wakepath_causality::path::{OpenCall, Request, Span};
use wakepath_model::ids::{CommonNs, HostId, MonoNs};

/// Columns of what a span was answered; a longer error stands below the table, in full.
const REPLY_MAX: usize = 12;
/// The waterfall's place among the columns.
const WATERFALL: usize = 4;
/// The place of what was asked, behind it.
const ASKED: usize = WATERFALL + 1;

/// A span.
#[derive(Default, Serialize)]
pub struct SpanView {
    /// Number in the request.
    pub span: u32,
    /// Number of the span that asked for it; none for the root.
    pub parent: Option<u32>,
    /// Depth below the root.
    pub depth: u32,
    /// Host whose clock the times are of.
    pub host: String,
    /// Service.
    pub service: String,
    /// Task that took it (that asked, where the server is not watched).
    pub task: String,
    /// Client and server address.
    pub flow: String,
    /// What was asked.
    pub asked: String,
    /// Status code, 0 = none.
    pub status: u16,
    /// Error class, empty where none.
    pub error: String,
    /// The reply says that it failed; `None` where no reply that says so was read.
    pub failed: Option<bool>,
    /// Reset before the reply was complete.
    pub reset: bool,
    /// Begin (host's monotonic ns).
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Begin after the root's, ns.
    pub offset_ns: i64,
    /// Length, ns.
    pub duration_ns: u64,
    /// Own time, ns.
    pub self_ns: u64,
    /// Waited before a task took it, ns.
    pub queued_ns: u64,
    /// Between the two sides, ns.
    pub between_ns: Option<u64>,
    /// How it is known.
    pub evidence: String,
    /// What is missing, empty where nothing.
    pub hole: String,
    /// Both sides watched.
    pub watched: bool,
    /// It puts something where others take it up later: a queue, a list, a topic.
    pub queued: bool,
    /// What a sniffer tells of its time, where one saw its reply.
    pub wire: Option<WireView>,
    /// Connections that were tried while it was served and did not come about, the first 16.
    pub refused: Vec<RefusalView>,
    /// Calls that may belong to it and could not be determined, the first 8.
    pub open_calls: Vec<OpenCallView>,
    /// Page faults of the task that served it, while it did; none where none were recorded.
    pub faults: Option<FaultView>,
}

/// A call that several requests could have made.
#[derive(Serialize)]
pub struct OpenCallView {
    /// What it asks.
    pub asked: String,
    /// Whom.
    pub remote: String,
    /// Task that made it.
    pub task: String,
    /// When it began, after the root's begin, ns.
    pub offset_ns: i64,
    /// How many other requests could have made it; 0: the program itself, if not this one.
    pub others: u32,
}

/// Page faults of a span.
#[derive(Serialize)]
pub struct FaultView {
    /// Without a read.
    pub minor: u64,
    /// With one.
    pub major: u64,
    /// Counted by the kernel as neither.
    pub neither: u64,
    /// How long the task was held up in those with a read, ns.
    pub major_ns: u64,
    /// What was read, longest first.
    pub files: Vec<FileView>,
}

/// A file that page faults read.
#[derive(Serialize)]
pub struct FileView {
    /// Its path, else its device and inode.
    pub file: String,
    /// How many faults read of it.
    pub faults: u64,
    /// How long the task was held up in them, ns.
    pub duration_ns: u64,
}

/// A connection that did not come about.
#[derive(Serialize)]
pub struct RefusalView {
    /// Task that tried.
    pub task: String,
    /// Where.
    pub remote: String,
    /// Why.
    pub why: String,
    /// The same as a number of Linux's, 0 = not known.
    pub error: i32,
    /// When that was known, after the root's begin, ns.
    pub offset_ns: i64,
}

/// A span's time as a sniffer divides it.
#[derive(Serialize)]
pub struct WireView {
    /// The sniffer's host.
    pub host: String,
    /// From the caller's sending to the request's last packet, ns; null where the caller or the clocks are not known.
    pub out_ns: Option<u64>,
    /// From there to the reply's first packet, ns.
    pub server_ns: u64,
    /// From there until the caller had the complete reply, ns.
    pub back_ns: Option<u64>,
}

impl SpanView {
    /// Of its own time, what may be time of calls that are missing (ns).
    fn unsure_ns(&self) -> u64 {
        let lacks_calls = !self.hole.is_empty() && self.hole != Hole::AfterRecording.name();
        if lacks_calls { self.self_ns } else { 0 }
    }
}

/// A request.
#[derive(Serialize)]
pub struct ShowView {
    /// Id.
    pub request: String,
    /// Entry service.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// Wall-clock begin, ns since 1970.
    pub wall_ns: Option<i64>,
    /// Length, ns.
    pub duration_ns: u64,
    /// Whether nothing is known to be missing.
    pub complete: bool,
    /// Spans, parents first.
    pub spans: Vec<SpanView>,
    /// How its calls are known; none unless that was asked.
    pub proofs: Option<Vec<ProofView>>,
}

/// What every span of a request needs to be shown.
struct Around<'a, W, C> {
    names: &'a Names<'a>,
    /// A host's time on the wall clock.
    wall: W,
    /// A host's time on the line that all hosts share.
    common: C,
    /// Where the request begins on that line, ns.
    begin: i64,
}

impl<W: Fn(HostId, u64) -> Option<i64>, C: Fn(HostId, MonoNs) -> CommonNs> Around<'_, W, C> {
    /// Time since the request's begin, ns.
    fn offset(&self, host: HostId, at: MonoNs) -> i64 {
        (self.common)(host, at).0.saturating_sub(self.begin)
    }

    /// A span; `hole` says why its request's path is incomplete there.
    fn span(&self, s: &Span, t: &Timed, hole: Option<&str>, faults: Option<&SpanFaults>) -> SpanView {
        let names = self.names;
        let half = s.callee.as_ref().or(s.caller.as_ref()).expect("a span has a side");
        let e = &half.exchange;
        let is_unseen = s.callee.is_none() && s.wire.as_ref().is_some_and(|w| w.is_caller);
        let detail = names.text(half.host, e.detail);
        SpanView {
            span: t.index,
            parent: s.parent,
            depth: t.depth,
            host: names.host(t.host).to_owned(),
            service: names.service(s),
            task: if is_unseen { String::new() } else { names.task(half.host, e.task) },
            flow: flow(s),
            asked: names.asked(half),
            status: e.status,
            error: if e.failed { detail.to_owned() } else { String::new() },
            failed: (e.failed || !e.outcome_unknown).then_some(e.failed),
            reset: e.reset,
            start_ns: t.start.0,
            end_ns: t.end.0,
            offset_ns: self.offset(t.host, t.start),
            duration_ns: t.duration_ns(),
            self_ns: t.self_ns,
            queued_ns: t.queued_ns,
            between_ns: t.between_ns,
            evidence: evidence(s),
            hole: hole.unwrap_or_default().to_owned(),
            watched: s.callee.is_some(),
            queued: e.queued,
            wire: t.wire.zip(s.wire.as_ref()).map(|(legs, w)| WireView {
                host: names.host(w.host).to_owned(),
                out_ns: legs.out_ns,
                server_ns: legs.server_ns,
                back_ns: legs.back_ns,
            }),
            refused: s.refusals.iter().map(|f| self.refusal(half.host, f)).collect(),
            open_calls: s.open_calls.iter().map(|c| self.open_call(c)).collect(),
            faults: faults.filter(|f| !f.is_empty()).map(FaultView::new),
        }
    }

    /// A connection that was refused to a task of the span's `host`.
    fn refusal(&self, host: HostId, f: &Refusal) -> RefusalView {
        RefusalView {
            task: self.names.task(host, f.task),
            remote: self.names.asked_for(host, &f.place),
            why: refusals::why(f.error),
            error: f.error,
            offset_ns: self.offset(host, f.at),
        }
    }

    fn open_call(&self, c: &OpenCall) -> OpenCallView {
        let e = &c.half.exchange;
        OpenCallView {
            asked: self.names.asked(&c.half),
            remote: self.names.asked_for(c.half.host, &c.half.place),
            task: self.names.task(c.half.host, e.task),
            offset_ns: self.offset(c.half.host, e.began),
            others: c.others,
        }
    }
}

impl ShowView {
    /// From a request and the page faults of its spans; `wall` and `common` put a host's time on the wall clock and on the line that all hosts share.
    pub fn new(
        r: &Request,
        faults: &[SpanFaults],
        names: &Names<'_>,
        wall: impl Fn(HostId, u64) -> Option<i64>,
        common: impl Fn(HostId, MonoNs) -> CommonNs,
    ) -> ShowView {
        let timed = lay_out(r);
        let holes = r.holes();
        let root = timed.first().map(|t| (t.start.0, t.end.0, t.host));
        let (start, end, host) = root.unwrap_or_default();
        let begin = common(host, MonoNs(start)).0;
        let around = Around { names, wall, common, begin };
        let span = |t: &Timed| {
            let hole = holes.iter().find(|h| h.0 == t.index).map(|h| h.1.name());
            around.span(&r.spans[t.index as usize], t, hole, faults.get(t.index as usize))
        };
        let spans = timed.iter().map(span).collect();
        let (service, asked) = wakepath_analysis::requests::kind_of(r, names);
        ShowView {
            request: format!("{:016x}", r.id),
            service,
            asked,
            wall_ns: (around.wall)(host, start),
            duration_ns: end.saturating_sub(start),
            complete: r.is_complete(),
            spans,
            proofs: None,
        }
    }

    /// As text for a terminal.
    pub fn render(&self, style: Style) -> String {
        let mut out = String::new();
        let when = self.wall_ns.map_or(String::new(), |w| format!(", {}", units::wall(w)));
        let _ = writeln!(
            out,
            "{} at {}: {}{when}\nrequest {}, {}",
            sanitise(&self.asked),
            sanitise(&self.service),
            units::duration(self.duration_ns),
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
        self.in_full(&mut out, &table.cut_rows(if has_bars { ASKED } else { ASKED - 1 }, style), style);
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
            Column::wrapped("service and what it was asked"),
            Column::number("reply"),
            Column::text("evidence"),
        ];
        if !has_bars {
            columns.remove(WATERFALL);
        }
        let mut t = Table::new(&columns);
        for s in &self.spans {
            let asked = format!("{}{} {}", "  ".repeat(s.depth.min(12) as usize), s.service, s.asked);
            let tint = if s.failed == Some(true) || s.reset { Tint::Bad } else { Tint::Plain };
            let short: Vec<&str> = s.evidence.split(", ").map(|e| e.split(" (").next().unwrap_or(e)).collect();
            let mut cells = vec![
                Cell::from(units::duration(s.offset_ns.max(0) as u64)),
                Cell::from(units::duration(s.duration_ns)),
                Cell::from(own_time(s.self_ns, s.unsure_ns())),
                Cell::from(s.between_ns.map_or_else(String::new, units::duration)),
                Cell::tinted(&asked, tint),
                Cell::tinted(s.reply(), tint),
                Cell::tinted(short.join("+"), Tint::Dim),
            ];
            if has_bars {
                cells.insert(WATERFALL, Cell::from(bar(s.offset_ns.max(0) as u64, s.duration_ns, total)));
            }
            t.row(cells);
        }
        t
    }

    /// What the table cuts: what was asked in the spans of these rows, and long errors.
    fn in_full(&self, out: &mut String, cut: &[usize], style: Style) {
        for (i, s) in cut.iter().map(|&row| &self.spans[row]).enumerate() {
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
                    "at {}, span {} ({}): {} {} {}",
                    units::duration(f.offset_ns.max(0) as u64),
                    s.span,
                    s.service,
                    f.task,
                    refusals::met(f.error),
                    f.remote,
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
    fn new(f: &SpanFaults) -> FaultView {
        let file = |r: &FileRead| FileView { file: r.name.clone(), faults: r.faults, duration_ns: r.ns };
        let (minor, major, neither, major_ns) = (f.minor, f.major, f.neither, f.major_ns);
        FaultView { minor, major, neither, major_ns, files: f.files.iter().map(file).collect() }
    }

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

/// A sentence about a span, behind its number; broken where it is longer than prose may be.
fn numbered(out: &mut String, head: &str, s: &SpanView, text: &str, tint: Tint, style: Style) {
    out.push_str(head);
    let text = wrap(&sanitise(text), "       ", style.prose());
    for (i, line) in text.lines().enumerate() {
        let number = if i == 0 { format!("  {:>3}  ", s.span) } else { "       ".to_owned() };
        let _ = writeln!(out, "{number}{}", style.paint(line.trim_start(), tint));
    }
}

fn flow(s: &wakepath_causality::path::Span) -> String {
    use wakepath_analysis::names::remote;
    match (&s.callee, &s.caller) {
        (Some(h), _) => format!("{} -> :{}", remote(&h.place), h.place.lport),
        (None, Some(h)) => format!(":{} -> {}", h.place.lport, remote(&h.place)),
        (None, None) => String::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_bar_is_never_empty_nor_too_long() {
        for (o, l) in [(0, 0), (0, 100), (99, 1), (100, 0), (50, 500)] {
            let b = bar(o, l, 100);
            assert_eq!(b.chars().count(), 16);
            assert!(b.contains('█'));
        }
    }
}
