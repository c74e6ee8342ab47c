//! `wakepath requests`: the kinds of request, where each spends its time, and what went wrong.

mod call_errors;
mod full_queues;

pub use call_errors::CallErrorView;
pub use full_queues::FullQueueView;

use crate::losses::{Loss, losses_or_none};
use crate::refusals;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::BuildHasher;
use wakepath_analysis::requests::{Kind, Kinds};
use wakepath_causality::Report;
use wakepath_causality::evidence::{Class, Missing};
use wakepath_causality::finished::Calls;
use wakepath_model::defects::Answer;

/// A tier of a kind.
#[derive(Serialize)]
pub struct TierView {
    /// Service.
    pub service: String,
    /// Spans in it for each request, on average.
    pub spans_per_request: f64,
    /// Time of its own for each request (ns).
    pub self_ns: u64,
    /// Waited there before a task took it, for each request (ns).
    pub queued_ns: u64,
    /// Time in which its replies found no room, since its clients had not read what came before (ns, average a request).
    pub unread_ns: u64,
    /// Between its callers and it, for each request (ns).
    pub between_ns: u64,
    /// Share of the mean duration that is its own time.
    pub share: f64,
    /// Nobody watches there.
    pub unwatched: bool,
}

/// A kind of request.
#[derive(Serialize)]
pub struct KindView {
    /// Entry service.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// Requests.
    pub count: u64,
    /// Requests a second over the recording.
    pub rate_per_s: f64,
    /// Mean duration (ns).
    pub mean_ns: u64,
    /// Median (ns).
    pub p50_ns: u64,
    /// 95th percentile (ns).
    pub p95_ns: u64,
    /// 99th percentile (ns).
    pub p99_ns: u64,
    /// Longest (ns).
    pub max_ns: u64,
    /// Failed by their reply.
    pub failed: u64,
    /// Answered, but the reply says neither success nor failure, or was not readable.
    pub outcome_unknown: u64,
    /// Reset.
    pub reset: u64,
    /// Cut short.
    pub cut: u64,
    /// Still in progress when the recording ended.
    pub unfinished: u64,
    /// With a path known to be incomplete.
    pub incomplete: u64,
    /// Why, with how often.
    pub why_incomplete: Vec<(String, u64)>,
    /// Statuses with how often; 0 = none.
    pub statuses: Vec<(u16, u64)>,
    /// Tiers in the order of depth.
    pub tiers: Vec<TierView>,
    /// Ids of the slowest.
    pub slowest: Vec<String>,
}

/// Connections that did not come about.
#[derive(Serialize)]
pub struct RefusedView {
    /// Who tried.
    pub process: String,
    /// Where.
    pub remote: String,
    /// Why.
    pub why: String,
    /// The same as a number of Linux's, 0 = not known.
    pub error: i32,
    /// How often.
    pub count: u64,
}

/// Messages without a request.
#[derive(Serialize)]
pub struct OrphanView {
    /// Who served them.
    pub service: String,
    /// How many.
    pub count: u64,
    /// Why, with how often.
    pub why: Vec<(String, u64)>,
}

/// Messages that put something where others take it up later.
#[derive(Serialize)]
pub struct QueuedView {
    /// Who took them in.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// How many.
    pub count: u64,
}

/// A rule with how many links it made.
#[derive(Serialize)]
pub struct RuleView {
    /// Rule.
    pub rule: &'static str,
    /// Class.
    pub class: &'static str,
    /// Links.
    pub links: u64,
}

/// What became of the exchanges that sniffers saw.
#[derive(Serialize)]
pub struct OnWireView {
    /// Each counted once, however often it was captured.
    pub exchanges: u64,
    /// Several requests of the same identifier could have made them.
    pub ambiguous: u64,
    /// They bore no identifier, and came from where requests were being worked on.
    pub unwitnessed: u64,
    /// Told of after the request that they belong to was given.
    pub late: u64,
    /// Decided before their time, for want of memory.
    pub given_up: u64,
    /// Without a row that tells of their flow.
    pub without_flow: u64,
}

/// The whole answer.
#[derive(Serialize)]
pub struct RequestsView {
    /// Time recorded: what rates are over (ns). Where recordings do not overlap, their sum; gaps between them are not counted.
    pub span_ns: u64,
    /// Recordings that do not overlap in time, of which `span_ns` is the sum.
    pub recordings: u64,
    /// Requests.
    pub requests: u64,
    /// Kinds, most requests first.
    pub kinds: Vec<KindView>,
    /// Errors that calls of requests were answered with, most frequent first.
    pub call_errors: Vec<CallErrorView>,
    /// Connections that did not come about.
    pub refused: Vec<RefusedView>,
    /// Listeners whose accept queue filled up.
    pub full_queues: Vec<FullQueueView>,
    /// Messages whose caller is watched but whose request could not be told.
    pub orphans: Vec<OrphanView>,
    /// Messages put into queues, lists and topics. What is done about them later is not linked to these requests.
    pub queued: Vec<QueuedView>,
    /// Evidence: links by rule.
    pub rules: Vec<RuleView>,
    /// What came of the calls that watched services made.
    pub calls: CallsView,
    /// Where a stronger rule overruled a weaker one.
    pub disagreements: u64,
    /// What sniffers saw; `None` where there was none.
    pub on_wire: Option<OnWireView>,
}

/// What came of calls: each is in one class.
#[derive(Serialize)]
pub struct CallsView {
    /// Seen to begin.
    pub begun: u64,
    /// In the path of the request that made them.
    pub linked: u64,
    /// Open: several requests could have made them, or something is missing.
    pub open: u64,
    /// Made when no request that could have was in progress: by the program itself, or behind a reply.
    pub own: u64,
    /// In no class: a defect of this program.
    pub unaccounted: u64,
    /// What would have told whose the open ones are, most calls first.
    pub missing: Vec<MissingView>,
}

/// A fact that was not recorded and leaves calls open.
#[derive(Serialize)]
pub struct MissingView {
    /// The fact.
    pub what: &'static str,
    /// Calls that are open for want of it.
    pub calls: u64,
    /// What to do.
    pub remedy: &'static str,
}

impl CallsView {
    fn new(c: &Calls, missing: &HashMap<Missing, u64, impl BuildHasher>) -> CallsView {
        // those beyond what is kept of one request are left open
        let open = c.open + c.beyond;
        let unaccounted = c.begun.abs_diff(c.linked + open + c.own);
        let view =
            |(what, calls): (&Missing, &u64)| MissingView { what: what.name(), calls: *calls, remedy: what.remedy() };
        let mut missing: Vec<MissingView> = missing.iter().map(view).collect();
        missing.sort_by(|a, b| b.calls.cmp(&a.calls).then(a.what.cmp(b.what)));
        CallsView { begun: c.begun, linked: c.linked, open, own: c.own, unaccounted, missing }
    }

    fn render(&self, out: &mut String, style: Style) {
        let classes = [(self.linked, "in paths"), (self.open, "open"), (self.own, "made for no request in progress")];
        let told: Vec<String> =
            classes.iter().filter(|c| c.0 > 0).map(|(n, what)| format!("{} {what}", units::count(*n))).collect();
        if !told.is_empty() {
            below(out, &format!("Calls of watched services: {}.", told.join(", ")), Tint::Plain, style);
        }
        if let Some(most) = self.missing.first() {
            let line = format!(
                "{} of the open calls lack one fact: {}. To have it: {}.",
                units::count(most.calls),
                most.what,
                most.remedy
            );
            below(out, &line, Tint::Warn, style);
        }
        if self.unaccounted > 0 {
            let line = format!("{} calls are in none of these: a defect of wakepath.", units::count(self.unaccounted));
            below(out, &line, Tint::Bad, style);
        }
    }
}

impl RequestsView {
    /// From what the analysis found.
    /// `spans`: when anything was recorded, without overlap (ns).
    pub fn new(kinds: &Kinds, report: &Report, spans: &[(i64, i64)]) -> RequestsView {
        let span_ns = spans.iter().map(|(a, b)| b.saturating_sub(*a).max(0) as u64).sum();
        let mut list: Vec<KindView> = kinds.kinds.iter().map(|((s, a), k)| kind_view(s, a, k, span_ns)).collect();
        list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.asked.cmp(&b.asked)));
        let mut rules: Vec<RuleView> = report
            .made
            .iter()
            .chain(&report.linked.joined)
            .map(|(r, n)| RuleView { rule: r.name(), class: r.class().name(), links: *n })
            .collect();
        rules.sort_by(|a, b| b.links.cmp(&a.links).then(a.rule.cmp(b.rule)));
        RequestsView {
            span_ns,
            recordings: spans.len() as u64,
            requests: kinds.requests,
            kinds: list,
            call_errors: call_errors::call_errors(kinds),
            refused: kinds
                .refused
                .iter()
                .map(|((process, remote, error), &count)| RefusedView {
                    process: process.clone(),
                    remote: remote.clone(),
                    why: refusals::why(*error),
                    error: *error,
                    count,
                })
                .collect(),
            full_queues: kinds.full_queues.iter().map(|(listener, f)| FullQueueView::new(listener, f)).collect(),
            orphans: kinds
                .orphans
                .iter()
                .map(|(s, (n, why))| OrphanView {
                    service: s.clone(),
                    count: *n,
                    why: why.iter().map(|(h, n)| (h.name().to_owned(), *n)).collect(),
                })
                .collect(),
            queued: kinds
                .queued
                .iter()
                .map(|((service, asked), &count)| QueuedView { service: service.clone(), asked: asked.clone(), count })
                .collect(),
            rules,
            calls: CallsView::new(&report.calls, &report.missing),
            disagreements: report.disagreements,
            on_wire: Some(&report.on_wire).filter(|w| w.exchanges > 0).map(|w| OnWireView {
                exchanges: w.exchanges,
                ambiguous: w.ambiguous,
                unwitnessed: w.unwitnessed,
                late: w.late,
                given_up: w.given_up,
                without_flow: w.without_flow,
            }),
        }
    }

    /// Whether every path is whole.
    pub fn is_complete(&self) -> bool {
        self.orphans.is_empty() && self.kinds.iter().all(|k| k.incomplete == 0)
    }

    /// As text for a terminal; at most `limit` kinds, 0 for all.
    pub fn render(&self, limit: usize, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        if self.requests == 0 {
            out.push_str(
                "No requests. Was there traffic while it was recorded? `wakepath info` shows what is there.\n",
            );
        }
        let shown = if limit == 0 { self.kinds.len() } else { limit.min(self.kinds.len()) };
        if shown > 0 {
            let mut t = Table::new(&[
                Column::text("kind of request"),
                Column::text("entry"),
                Column::number("count"),
                Column::number("rate"),
                Column::number("p50"),
                Column::number("p95"),
                Column::number("p99"),
                Column::number("errors"),
            ]);
            for k in &self.kinds[..shown] {
                let errors = k.failed + k.reset + k.cut;
                t.row([
                    Cell::from(&k.asked),
                    Cell::from(&k.service),
                    Cell::from(units::count(k.count)),
                    Cell::from(units::rate(k.count, self.span_ns)),
                    Cell::from(units::duration(k.p50_ns)),
                    Cell::from(units::duration(k.p95_ns)),
                    Cell::from(units::duration(k.p99_ns)),
                    match errors {
                        0 if k.outcome_unknown > 0 => Cell::from("?"),
                        0 => Cell::from("-"),
                        n => Cell::tinted(units::count(n), Tint::Bad),
                    },
                ]);
            }
            out.push_str(&t.render(style));
            if shown < self.kinds.len() {
                let _ = writeln!(out, "… and {} more kinds (--limit 0 shows all)", self.kinds.len() - shown);
            }
            if self.recordings > 1 {
                let text = format!(
                    "Counts, rates and times are of {} recordings together, {} without the gaps between them. To compare \
                     two, ask `wakepath why A B`, or ask of each alone.",
                    self.recordings,
                    units::duration(self.span_ns)
                );
                out.push_str(&wrap(&text, "", style.prose()));
            }
            out.push_str("\nWhere their time goes, for one request on average:\n");
            for k in &self.kinds[..shown.min(if limit == 0 { usize::MAX } else { 6 })] {
                render_tiers(k, &mut out, style);
            }
        }
        self.render_errors(&mut out, style);
        for q in &self.full_queues {
            let _ = write!(out, "\n{}", wrap(&sanitise(&q.sentence), "", style.prose()));
        }
        self.render_unfinished(&mut out, style);
        self.render_evidence(&mut out, style);
        out.push_str(&losses_or_none(losses, &[Answer::Requests], style));
        out
    }

    fn render_errors(&self, out: &mut String, style: Style) {
        let bad: Vec<&KindView> = self.kinds.iter().filter(|k| k.failed + k.reset + k.cut > 0).collect();
        if bad.is_empty() && self.refused.is_empty() && self.call_errors.is_empty() {
            match self.outcomes_unknown() {
                Some(text) => out.push_str(&wrap(&format!("\nErrors: none seen. {text}"), "", style.prose())),
                None => out.push_str("\nErrors: none seen.\n"),
            }
            return;
        }
        out.push_str("\nErrors:\n");
        for k in bad {
            let statuses: Vec<String> = k
                .statuses
                .iter()
                .filter(|(s, _)| *s >= 500)
                .map(|(s, n)| format!("{s} × {}", units::count(*n)))
                .collect();
            let mut parts = statuses;
            if k.failed > 0 && parts.is_empty() {
                parts.push(format!("{} failed", units::count(k.failed)));
            }
            if k.reset > 0 {
                parts.push(format!("{} reset before the reply was complete", units::count(k.reset)));
            }
            if k.cut > 0 {
                parts.push(format!("{} without a complete reply", units::count(k.cut)));
            }
            let line = format!("  {} at {}: {}", k.asked, k.service, parts.join(", "));
            error(out, line.trim_start(), style);
        }
        call_errors::render(&self.call_errors, out, style);
        for r in &self.refused {
            let times = if r.count == 1 { "once".to_owned() } else { format!("{} times", units::count(r.count)) };
            error(out, &format!("{} {} {}: {times}", r.process, refusals::met(r.error), r.remote), style);
        }
        if let Some(text) = self.outcomes_unknown() {
            below(out, &text, Tint::Warn, style);
        }
    }

    /// Of which requests the reply does not show whether they failed; `None` where there are none.
    fn outcomes_unknown(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let kinds: Vec<&KindView> = self.kinds.iter().filter(|k| k.outcome_unknown > 0).collect();
        let count = kinds.iter().map(|k| k.outcome_unknown).sum();
        let mut named: Vec<String> = kinds
            .iter()
            .take(SHOWN)
            .map(|k| format!("{} at {} × {}", k.asked, k.service, units::count(k.outcome_unknown)))
            .collect();
        if kinds.len() > SHOWN {
            named.push(format!("{} other kinds", kinds.len() - SHOWN));
        }
        (count > 0).then(|| format!("{}: {}.", replies_unknown(count), named.join(", ")))
    }

    fn render_unfinished(&self, out: &mut String, style: Style) {
        let what: Vec<String> = self
            .kinds
            .iter()
            .filter(|k| k.unfinished > 0)
            .map(|k| format!("{} at {} × {}", k.asked, k.service, units::count(k.unfinished)))
            .collect();
        if !what.is_empty() {
            out.push('\n');
            let line = format!("Still in progress when recording stopped: {}.", what.join(", "));
            for line in wrap(&sanitise(&line), "  ", style.prose()).lines() {
                let _ = writeln!(out, "{line}");
            }
        }
    }

    fn render_evidence(&self, out: &mut String, style: Style) {
        let incomplete: u64 = self.kinds.iter().map(|k| k.incomplete).sum();
        let rules: Vec<String> = self.rules.iter().map(|r| format!("{} {}", r.rule, units::count(r.links))).collect();
        let line = format!(
            "Paths: {} of {} whole. Links by rule: {}.",
            units::count(self.requests.saturating_sub(incomplete)),
            units::count(self.requests),
            if rules.is_empty() { "none".into() } else { rules.join(", ") }
        );
        let _ = write!(out, "\n{}", wrap(&line, "", style.prose()));
        let by_habit: u64 = self.rules.iter().filter(|r| r.class == Class::ByHabit.name()).map(|r| r.links).sum();
        if by_habit > 0 {
            let line = format!(
                "{} of these links are by habit: right as long as a service does nothing that it was never seen to do. That is no proof.",
                units::count(by_habit)
            );
            below(out, &line, Tint::Warn, style);
        }
        self.calls.render(out, style);
        self.render_queued(out, style);
        for k in self.kinds.iter().filter(|k| k.incomplete > 0) {
            let why: Vec<String> =
                k.why_incomplete.iter().map(|(w, n)| format!("{} × {w}", units::count(*n))).collect();
            let line = format!("{} of {} are incomplete: {}", units::count(k.incomplete), k.asked, why.join("; "));
            below(out, &line, Tint::Warn, style);
        }
        for o in &self.orphans {
            let why: Vec<String> = o.why.iter().map(|(w, n)| format!("{} × {w}", units::count(*n))).collect();
            let line = format!(
                "{} messages at {} belong to requests that could not be told: {}",
                units::count(o.count),
                o.service,
                why.join("; ")
            );
            below(out, &line, Tint::Warn, style);
        }
        if let Some(w) = &self.on_wire {
            let all = [
                (w.ambiguous, "could be several requests'"),
                (w.unwitnessed, "bear no identifier"),
                (w.late, "came after their request was given"),
                (w.given_up, "were decided early for want of memory"),
                (w.without_flow, "have no flow"),
            ];
            let some: Vec<String> =
                all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", units::count(*n))).collect();
            if !some.is_empty() {
                warn(out, &format!("Of {} sniffed exchanges {}", units::count(w.exchanges), some.join(", ")), style);
            }
        }
    }
}

impl RequestsView {
    /// A path ends at a queue, whole or not, and says so.
    fn render_queued(&self, out: &mut String, style: Style) {
        if self.queued.is_empty() {
            return;
        }
        let what: Vec<String> =
            self.queued.iter().map(|q| format!("{} at {} × {}", q.asked, q.service, units::count(q.count))).collect();
        let line = format!("Put into queues, lists or topics: {}.", what.join(", "));
        below(out, &line, Tint::Warn, style);
        below(out, "What others do with these later is not linked: paths end there.", Tint::Warn, style);
    }
}

fn kind_view(service: &str, asked: &str, k: &Kind, span_ns: u64) -> KindView {
    let n = k.durations.count().max(1);
    let mean = k.durations.mean().max(1);
    let mut tiers: Vec<(u32, TierView)> = k
        .tiers
        .iter()
        .map(|(name, t)| {
            let view = TierView {
                service: name.clone(),
                spans_per_request: t.spans as f64 / n as f64,
                self_ns: t.self_ns / n,
                queued_ns: t.queued_ns / n,
                unread_ns: t.unread_ns / n,
                between_ns: t.between_ns / n,
                share: (t.self_ns / n) as f64 / mean as f64,
                unwatched: t.unwatched,
            };
            (t.depth, view)
        })
        .collect();
    tiers.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.self_ns.cmp(&a.1.self_ns)));
    KindView {
        service: service.to_owned(),
        asked: asked.to_owned(),
        count: k.durations.count(),
        rate_per_s: k.durations.count() as f64 * 1e9 / span_ns.max(1) as f64,
        mean_ns: k.durations.mean(),
        p50_ns: k.durations.quantile(0.5),
        p95_ns: k.durations.quantile(0.95),
        p99_ns: k.durations.quantile(0.99),
        max_ns: k.durations.max(),
        failed: k.failed,
        outcome_unknown: k.outcome_unknown,
        reset: k.reset,
        cut: k.cut,
        unfinished: k.unfinished,
        incomplete: k.incomplete,
        why_incomplete: k.holes.iter().map(|(h, n)| (h.name().to_owned(), *n)).collect(),
        statuses: k.statuses.iter().map(|(s, n)| (*s, *n)).collect(),
        tiers: tiers.into_iter().map(|t| t.1).collect(),
        slowest: k.slowest.iter().map(|(_, id)| format!("{id:016x}")).collect(),
    }
}

/// That so many replies do not show whether their requests failed.
pub(crate) fn replies_unknown(count: u64) -> String {
    let which = if count == 1 { "1 reply says".to_owned() } else { format!("{} replies say", units::count(count)) };
    format!("{which} neither success nor error, or could not be read (encrypted, or of no known protocol)")
}

/// A line of prose below a heading, broken where it is longer than that may be.
fn below(out: &mut String, line: &str, tint: Tint, style: Style) {
    let mut indent = "  ";
    for line in wrap(&sanitise(line), "", style.prose() - 4).lines() {
        let _ = writeln!(out, "{indent}{}", style.paint(line, tint));
        indent = "    ";
    }
}

fn warn(out: &mut String, line: &str, style: Style) {
    below(out, line, Tint::Warn, style);
}

fn error(out: &mut String, line: &str, style: Style) {
    below(out, line, Tint::Bad, style);
}

fn render_tiers(k: &KindView, out: &mut String, style: Style) {
    let title = format!("{}  (mean {})", k.asked, units::duration(k.mean_ns));
    let _ = write!(out, "\n{}", wrap(&sanitise(&title), "", style.prose()));
    let mut t = Table::new(&[
        Column::text("tier"),
        Column::number("spans"),
        Column::number("own time"),
        Column::number("share"),
        Column::number("queued there"),
        Column::number("on the way"),
    ])
    .indented(2);
    for tier in &k.tiers {
        let name = if tier.unwatched { format!("{} (not watched)", tier.service) } else { tier.service.clone() };
        t.row([
            Cell::from(name),
            Cell::from(format!("{:.1}", tier.spans_per_request)),
            Cell::from(units::duration(tier.self_ns)),
            Cell::from(format!("{:.0} %", tier.share * 100.0)),
            Cell::from(units::duration(tier.queued_ns)),
            Cell::from(units::duration(tier.between_ns)),
        ]);
    }
    out.push_str(&t.render(style));
    for tier in k.tiers.iter().filter(|t| t.unread_ns > 0) {
        let line = format!(
            "{} waited {} for clients that read slowly (their windows were full): that is not in its own time.",
            tier.service,
            units::duration(tier.unread_ns),
        );
        out.push_str(&wrap(&sanitise(&line), "  ", style.prose()));
    }
    if let Some(id) = k.slowest.first() {
        let _ = writeln!(out, "  slowest: {} ({})", id, units::duration(k.max_ns));
    }
}
