//! The answer of `wakepath requests` as text for a terminal.

use super::{AwaitedView, CallsView, KindView, MASKED, MASKED_WORDS, QueuedView, RequestsView, TierView, call_errors};
use crate::losses::{Loss, losses_or_none};
use crate::own_time::{AT_MOST, at_most, is_unsure, own_time};
use crate::refusals;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use std::fmt::Write as _;
use wakepath_analysis::names::OPAQUE;
use wakepath_causality::evidence::Class;
use wakepath_model::defects::Answer;

impl RequestsView {
    /// As text for a terminal; at most `limit` kinds, 0 for all.
    pub fn render(&self, limit: usize, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        if self.requests == 0 {
            out.push_str(&wrap(&self.nothing(), "", style.prose()));
        }
        let shown = if limit == 0 { self.kinds.len() } else { limit.min(self.kinds.len()) };
        if shown > 0 {
            let mut t = Table::new(&[
                Column::text("kind of request"),
                Column::text("entry"),
                Column::number("count"),
                Column::number("rate"),
                Column::number("over"),
                Column::number("p50"),
                Column::number("p95"),
                Column::number("p99"),
                Column::number("errors"),
            ]);
            for k in &self.kinds[..shown] {
                let errors = k.without_success();
                t.row([
                    Cell::from(&k.asked),
                    Cell::from(&k.service),
                    Cell::from(units::count(k.count)),
                    Cell::from(k.rate()),
                    Cell::from(units::duration(k.active_ns)),
                    Cell::from(k.time(k.p50_ns)),
                    Cell::from(k.time(k.p95_ns)),
                    Cell::from(k.time(k.p99_ns)),
                    match errors {
                        0 if k.outcome_unknown + k.unreplied > 0 => Cell::from("?"),
                        0 => Cell::from("-"),
                        n => Cell::tinted(units::count(n), Tint::Bad),
                    },
                ]);
            }
            out.push_str(&t.render(style));
            if shown < self.kinds.len() {
                let _ = writeln!(out, "… and {} more kinds (--limit 0 shows all)", self.kinds.len() - shown);
            }
            if self.kinds[..shown].iter().any(|k| k.asked.contains(MASKED)) {
                out.push_str(&wrap(MASKED_WORDS, "", style.prose()));
            }
            for known in &self.known_as {
                let line = format!("{} is {}.", known.service, known.name);
                out.push_str(&wrap(&sanitise(&line), "", style.prose()));
            }
            if self.recordings > 1 {
                let text = format!(
                    "Counts and times cover {} recordings together, {} without the gaps between them. To \
                     compare two, use `wakepath why A B`, or ask about each one alone.",
                    self.recordings,
                    units::duration(self.span_ns)
                );
                out.push_str(&wrap(&text, "", style.prose()));
            }
            out.push_str("\nWhere the time goes, per request on average:\n");
            for k in &self.kinds[..shown.min(if limit == 0 { usize::MAX } else { 6 })] {
                render_tiers(k, &mut out, style);
            }
        }
        self.render_errors(&mut out, style);
        let starved = self.starved.iter().map(|s| &s.sentence);
        let full = self.full_queues.iter().map(|q| &q.sentence);
        let throttled = self.throttled.iter().filter(|t| t.is_worth_a_sentence()).map(|t| &t.sentence);
        for sentence in starved.chain(throttled).chain(full).chain(self.held_replies.iter().map(|h| &h.sentence)) {
            let _ = write!(out, "\n{}", wrap(&sanitise(sentence), "", style.prose()));
        }
        self.render_unfinished(&mut out, style);
        self.render_evidence(&mut out, style);
        out.push_str(&losses_or_none(losses, &[Answer::Requests], style));
        out
    }

    /// What is said where no request was found: how many were seen and left out, and why.
    fn nothing(&self) -> String {
        let orphans: u64 = self.orphans.iter().map(|o| o.count).sum();
        let sniffed = self.on_wire.as_ref().map_or(0, |w| w.exchanges);
        match () {
            () if orphans > 0 => format!(
                "No complete request. {} seen and left out: a watched process sent {}, and the request in which it did is \
                 not known (the reasons are below).",
                units::counted(orphans, "message was", "messages were"),
                if orphans == 1 { "it" } else { "them" },
            ),
            () if sniffed > 0 => format!(
                "No complete request. {} seen on the wire and left out: none could be put together with others.",
                units::counted(sniffed, "exchange was", "exchanges were"),
            ),
            () if self.messages > 0 => format!(
                "No complete request. {} seen and left out: no watched process is known to have taken one of them as a request. \
                 Where the recording began amid a connection, or events were lost, the next message on it is the first \
                 that counts.",
                units::counted(self.messages, "message was", "messages were"),
            ),
            () => {
                "No requests. Was there traffic while it was recorded? `wakepath info` shows what is there.".to_owned()
            }
        }
    }

    fn render_errors(&self, out: &mut String, style: Style) {
        let bad: Vec<(&KindView, String)> = self.kinds.iter().filter_map(|k| Some((k, k.went_wrong()?))).collect();
        let is_none = bad.is_empty() && self.refused.is_empty() && self.call_errors.is_empty();
        if is_none && self.closed_unread.is_empty() && self.ended.is_empty() {
            match self.outcomes_unknown() {
                Some(text) => out.push_str(&wrap(&format!("\nErrors: none seen. {text}"), "", style.prose())),
                None => out.push_str("\nErrors: none seen.\n"),
            }
            return;
        }
        out.push_str("\nErrors:\n");
        for (k, how) in bad {
            let tint = if k.without_success() > 0 { Tint::Bad } else { Tint::Warn };
            below(out, &format!("{} at {}: {how}", k.asked, k.service), tint, style);
        }
        call_errors::render(&self.call_errors, out, style);
        for r in &self.refused {
            let times = if r.count == 1 { "once".to_owned() } else { format!("{} times", units::count(r.count)) };
            error(out, &format!("{} {} {}: {times}", r.process, refusals::met(r.error), r.remote), style);
        }
        for c in &self.closed_unread {
            error(out, &c.sentence, style);
        }
        for e in &self.ended {
            error(out, &e.dated(), style);
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
        let unreplied: u64 = self.kinds.iter().map(|k| k.unreplied).sum();
        let mut said = Vec::new();
        if count > 0 {
            said.push(format!("{}: {}.", replies_unknown(count), named.join(", ")));
        }
        if unreplied > 0 {
            said.push(format!("{}.", never_replied(unreplied)));
        }
        let calls: u64 = self.unread_replies.iter().map(|r| r.count).sum();
        if calls > 0 {
            let what = listed(&self.unread_replies[..self.unread_replies.len().min(SHOWN)]);
            let more = if self.unread_replies.len() > SHOWN { ", and others" } else { "" };
            let replies = units::counted(calls, "reply to a call does", "replies to calls do");
            said.push(format!("{replies} not show whether the call failed: {what}{more}."));
        }
        (!said.is_empty()).then(|| said.join(" "))
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
            let mut line = format!(
                "Their end was not recorded (in progress when recording stopped, or lost): {}.",
                what.join(", ")
            );
            if self.kinds.iter().any(|k| k.timed().is_some_and(|ended| ended > 0)) {
                line += " In parentheses: the number of requests whose duration is known.";
            }
            for line in wrap(&sanitise(&line), "  ", style.prose()).lines() {
                let _ = writeln!(out, "{line}");
            }
        }
    }

    /// How many paths lack nothing but what came after the recording, where there are any.
    pub(crate) fn cut_off(&self) -> Option<String> {
        let cut_off: u64 = self.kinds.iter().map(|k| k.cut_off).sum();
        let lack = if cut_off == 1 { "lacks" } else { "lack" };
        (cut_off > 0).then(|| format!("{} {lack} only what came after the recording ended", units::count(cut_off)))
    }

    /// How many paths end at services that nobody watches, and at which.
    pub(crate) fn leaving(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let leaving: u64 = self.kinds.iter().map(|k| k.leaving).sum();
        let mut there: Vec<String> = self
            .unwatched
            .iter()
            .take(SHOWN)
            .map(|u| format!("{} ({})", u.service, units::counted(u.calls, "call", "calls")))
            .collect();
        if self.unwatched.len() > SHOWN {
            there.push(format!("{} more", self.unwatched.len() - SHOWN));
        }
        (leaving > 0 && !there.is_empty()).then(|| {
            format!(
                "{} called what is not watched: {}. What happened there is in no path, complete or not.",
                units::counted(leaving, "request", "requests"),
                there.join(", ")
            )
        })
    }

    fn render_evidence(&self, out: &mut String, style: Style) {
        let incomplete: u64 = self.kinds.iter().map(|k| k.incomplete).sum();
        let rules: Vec<String> = self.rules.iter().map(|r| format!("{} {}", r.rule, units::count(r.links))).collect();
        let line = format!(
            "Paths: {} of {} complete{}. Links by rule: {}.",
            units::count(self.requests.saturating_sub(incomplete)),
            units::count(self.requests),
            self.cut_off().map_or_else(String::new, |text| format!(" ({text})")),
            if rules.is_empty() { "none".into() } else { rules.join(", ") }
        );
        let _ = write!(out, "\n{}", wrap(&line, "", style.prose()));
        if let Some(line) = self.leaving() {
            below(out, &line, Tint::Warn, style);
        }
        let by_habit: u64 = self.rules.iter().filter(|r| r.class == Class::ByHabit.name()).map(|r| r.links).sum();
        if by_habit > 0 {
            let line = format!(
                "{} of these links rest on habit: they are right only if the service keeps doing what it always did. \
                 That is not proof.",
                units::count(by_habit)
            );
            below(out, &line, Tint::Warn, style);
        }
        self.calls.render(out, style);
        let opaque: u64 = self.kinds.iter().filter(|k| k.asked == OPAQUE).map(|k| k.count).sum();
        if opaque > 0 {
            let line = format!(
                "{} {OPAQUE}: their bytes could not be read, so a request is what was sent between two replies. Where a \
                 server also pushes messages unasked, some of these requests do not exist.",
                units::counted(opaque, "request is", "requests are")
            );
            below(out, &line, Tint::Warn, style);
        }
        self.render_queued(out, style);
        self.render_awaited(out, style);
        for k in self.kinds.iter().filter(|k| k.incomplete > 0) {
            let why: Vec<String> =
                k.why_incomplete.iter().map(|(w, n)| format!("{} × {w}", units::count(*n))).collect();
            let count = units::count(k.incomplete);
            let line = format!(
                "{count} of {} {}: {}",
                k.asked,
                if k.incomplete == 1 { "is incomplete" } else { "are incomplete" },
                why.join("; ")
            );
            below(out, &line, Tint::Warn, style);
        }
        for o in &self.orphans {
            let why: Vec<String> = o.why.iter().map(|(w, n)| format!("{} × {w}", units::count(*n))).collect();
            let line = format!(
                "{} at {} could not be assigned to a request: {}",
                units::counted(o.count, "message", "messages"),
                o.service,
                why.join("; ")
            );
            below(out, &line, Tint::Warn, style);
        }
        if let Some(w) = &self.on_wire {
            let all = [
                (w.ambiguous, "could belong to several requests"),
                (w.unwitnessed, "carry no identifier"),
                (w.late, "arrived after their request was reported"),
                (w.given_up, "were decided early for lack of memory"),
                (w.without_flow, "have no flow"),
            ];
            let some: Vec<String> =
                all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", units::count(*n))).collect();
            if !some.is_empty() {
                warn(out, &format!("Of {} sniffed exchanges {}", units::count(w.exchanges), some.join(", ")), style);
            }
        }
    }

    /// A path ends at a queue, whole or not, and says so.
    fn render_queued(&self, out: &mut String, style: Style) {
        if self.queued.is_empty() {
            return;
        }
        let line = format!("Put into queues, lists or topics: {}.", listed(&self.queued));
        below(out, &line, Tint::Warn, style);
        below(out, "What happens to these later is not linked: paths end there.", Tint::Warn, style);
    }

    /// What waits for work is no request that could be slow, and neither is what makes a connection ready.
    fn render_awaited(&self, out: &mut String, style: Style) {
        if !self.opened.is_empty() {
            let what = listed(&self.opened);
            let line = format!("Not counted as requests, because they only open connections or subscriptions: {what}.");
            below(out, &line, Tint::Plain, style);
        }
        if self.awaited.is_empty() {
            return;
        }
        let what = |a: &AwaitedView| {
            let (count, answered) = (units::count(a.count), units::count(a.answered));
            format!(
                "{} at {} × {count} ({answered} came to an end, the longest after {})",
                a.asked,
                a.service,
                units::duration(a.longest_ns)
            )
        };
        let what: Vec<String> = self.awaited.iter().map(what).collect();
        let line =
            format!("Not counted as requests, because they ask to wait for something to happen: {}.", what.join(", "));
        below(out, &line, Tint::Plain, style);
        let line = "Such a wait ends when it happens, or at its timeout; which of the two is not recorded.";
        below(out, line, Tint::Plain, style);
    }
}

fn listed(views: &[QueuedView]) -> String {
    let what = views.iter().map(|q| format!("{} at {} × {}", q.asked, q.service, units::count(q.count)));
    what.collect::<Vec<_>>().join(", ")
}

impl KindView {
    /// How many a second while they came.
    pub fn rate(&self) -> String {
        if self.rate_per_s.is_some() { units::rate(self.count, self.active_ns) } else { "-".into() }
    }

    /// Of how many requests it is known how long they took, where that is not nearly all.
    fn timed(&self) -> Option<u64> {
        let ended = self.count - self.unfinished.min(self.count);
        (ended < self.count - self.count / 10).then_some(ended)
    }

    /// One of its durations, with the number of requests that it is of if that is not nearly all; a dash where none is known.
    pub fn time(&self, ns: u64) -> String {
        match self.timed() {
            Some(0) => "-".into(),
            Some(ended) => format!("{} ({})", units::duration(ns), units::count(ended)),
            None => units::duration(ns),
        }
    }

    /// How many failed, or got no complete reply.
    pub fn without_success(&self) -> u64 {
        self.failed + self.left + self.reset + self.cut
    }

    /// How many were answered with a 4xx.
    pub fn refused(&self) -> u64 {
        self.statuses.iter().filter(|(s, _)| (400..500).contains(s)).map(|(_, n)| n).sum()
    }

    /// How its requests failed, were cut short or were refused (4xx), if any were.
    pub fn went_wrong(&self) -> Option<String> {
        let listed = |from: u16, to: u16| {
            let of = self.statuses.iter().filter(|(s, _)| (from..to).contains(s));
            of.map(|(s, n)| format!("{s} × {}", units::count(*n))).collect::<Vec<_>>()
        };
        let of_all = |n: u64| match n == self.count {
            true if n > 1 => format!("all {}", units::count(n)),
            _ => format!("{} of {}", units::count(n), units::count(self.count)),
        };
        let mut parts = Vec::new();
        if self.failed > 0 {
            let statuses = listed(500, 600);
            let how = if statuses.is_empty() { String::new() } else { format!(" ({})", statuses.join(", ")) };
            parts.push(format!("{} failed{how}", of_all(self.failed)));
        }
        if self.left > 0 {
            let clients =
                if self.left == 1 { "1 client".to_owned() } else { format!("{} clients", units::count(self.left)) };
            // who closes its sending half alone may still read, which is not recorded
            let side = if self.left == 1 { "its side" } else { "their sides" };
            parts.push(format!(
                "{clients} left or closed {side} before the reply was complete (at most {} at the server)",
                units::duration(self.left_longest_ns)
            ));
        }
        if self.reset > 0 {
            parts.push(format!("{} reset before the reply was complete", units::count(self.reset)));
        }
        if self.cut > 0 {
            parts.push(format!("{} without a complete reply", units::count(self.cut)));
        }
        if self.refused() > 0 {
            parts.push(format!("{} refused ({})", of_all(self.refused()), listed(400, 500).join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Most programs that are named whose calls are open.
const PROGRAMS_SHOWN: usize = 3;

impl CallsView {
    fn render(&self, out: &mut String, style: Style) {
        let classes = [(self.linked, "in paths"), (self.open, "open"), (self.own, "made for no request in progress")];
        let told: Vec<String> =
            classes.iter().filter(|c| c.0 > 0).map(|(n, what)| format!("{} {what}", units::count(*n))).collect();
        if !told.is_empty() {
            below(out, &format!("Calls of watched services: {}.", told.join(", ")), Tint::Plain, style);
        }
        if let Some(most) = self.missing.first() {
            let by = most.programs.iter().take(PROGRAMS_SHOWN).cloned().collect::<Vec<_>>().join(", ");
            let more = if most.programs.len() > PROGRAMS_SHOWN { ", …" } else { "" };
            let line = format!(
                "{} of the open calls, made by {by}{more}, {} one fact: {}. To get it: {}.",
                units::count(most.calls),
                if most.calls == 1 { "lacks" } else { "lack" },
                most.what,
                most.remedy
            );
            below(out, &line, Tint::Warn, style);
        }
        if self.unaccounted > 0 {
            let line = format!(
                "{} in none of these: a bug in wakepath, please report it.",
                units::counted(self.unaccounted, "call is", "calls are")
            );
            below(out, &line, Tint::Bad, style);
        }
    }
}

/// That so many replies do not show whether their requests failed.
pub(crate) fn replies_unknown(count: u64) -> String {
    let which = if count == 1 { "1 reply says".to_owned() } else { format!("{} replies say", units::count(count)) };
    format!("{which} neither success nor error, or could not be read (encrypted, or of no known protocol)")
}

/// That so many requests of no known protocol had no reply.
pub(crate) fn never_replied(count: u64) -> String {
    let which = units::counted(count, "request of no known protocol", "requests of no known protocol");
    format!("{which} got no reply; whether one was due is not known")
}

/// A line of prose below a heading, broken where it is longer than that may be.
pub(super) fn below(out: &mut String, line: &str, tint: Tint, style: Style) {
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

/// What durations leave out where arrivals were not seen.
const ARRIVALS_UNSEEN: &str = "-: when requests arrived was not seen, and durations begin when the program read them. Clients \
                               may have waited longer.";

/// From here on shares add up to more than rounding explains.
const SHARE_OVER: f64 = 1.05;
/// How that can be.
const AT_ONCE: &str =
    "The shares add up to more than 100 %, because calls were under way at once: each of them counts.";

/// Opening connections is told from this part of a kind's time on.
const OPENING_SHARE: f64 = 0.01;

/// Waiting for slow clients is told from this part of a kind's time on, or from so long a request on (ns).
const CLIENTS_SHARE: f64 = 0.05;
const CLIENTS_NS: u64 = 1_000_000;

/// Where durations and waits may be too short, since nobody saw messages arrive.
fn unseen_arrivals(k: &KindView, out: &mut String, style: Style) {
    if k.tiers.iter().any(|t| !t.arrivals_seen) {
        warn(out, ARRIVALS_UNSEEN, style);
    }
    for tier in k.tiers.iter().filter(|t| t.arrivals_seen && t.arrivals_unseen > 0) {
        let (was, it) = if tier.arrivals_unseen == 1 { ("was", "it") } else { ("were", "they") };
        let line = format!(
            "{} to {} {was} not seen to arrive: {it} may have waited there before, and so taken longer.",
            units::counted(tier.arrivals_unseen, "message", "messages"),
            tier.service,
        );
        warn(out, &line, style);
    }
}

fn render_tiers(k: &KindView, out: &mut String, style: Style) {
    let title = format!("{}  (mean {})", k.asked, units::duration(k.mean_ns));
    let _ = write!(out, "\n{}", wrap(&sanitise(&title), "", style.prose()));
    let mut t = Table::new(&[
        Column::text("tier"),
        Column::number("spans"),
        Column::number("own time"),
        Column::number("share"),
        Column::number("waiting to be picked up"),
        Column::number("network and delivery"),
    ])
    .indented(2);
    for tier in k.tiers.iter().filter(|t| t.spans_per_request > 0.0) {
        let name = if tier.unwatched { format!("{} (not watched)", tier.service) } else { tier.service.clone() };
        t.row([
            Cell::from(name),
            Cell::from(format!("{:.1}", tier.spans_per_request)),
            Cell::from(own_time(tier.self_ns, tier.self_unsure_ns)),
            Cell::from(format!("{}{:.0} %", at_most(tier.self_ns, tier.self_unsure_ns), tier.share * 100.0)),
            Cell::from(if tier.arrivals_seen { units::duration(tier.queued_ns) } else { "-".to_owned() }),
            Cell::from(units::duration(tier.between_ns)),
        ]);
    }
    out.push_str(&t.render(style));
    if k.tiers.iter().any(|t| is_unsure(t.self_ns, t.self_unsure_ns)) {
        warn(out, AT_MOST, style);
    }
    let after = |t: &TierView| t.after_ns as f64 / k.mean_ns.max(1) as f64;
    if k.tiers.iter().map(|t| (t.share - after(t)).max(0.0)).sum::<f64>() >= SHARE_OVER {
        below(out, AT_ONCE, Tint::Plain, style);
    }
    for tier in k.tiers.iter().filter(|t| after(t) >= SHARE_OVER - 1.0) {
        let line = format!(
            "Calls to {} went on for {} after the reply to their request, or after their caller left: that is in its row, and \
             not in the mean.",
            tier.service,
            units::duration(tier.after_ns),
        );
        below(out, &line, Tint::Plain, style);
    }
    unseen_arrivals(k, out, style);
    let counts = |ns: u64| ns >= CLIENTS_NS || (ns > 0 && ns as f64 >= CLIENTS_SHARE * k.mean_ns as f64);
    for tier in k.tiers.iter().filter(|t| counts(t.unread_ns)) {
        let line = format!(
            "{} waited {} for clients that read slowly (their windows were full): that is not in its own time.",
            tier.service,
            units::duration(tier.unread_ns),
        );
        out.push_str(&wrap(&sanitise(&line), "  ", style.prose()));
    }
    for tier in k.tiers.iter().filter(|t| counts(t.unsent_ns)) {
        let line = format!(
            "{} waited {} for clients that sent the rest of their requests late: that is not in its own time.",
            tier.service,
            units::duration(tier.unsent_ns),
        );
        out.push_str(&wrap(&sanitise(&line), "  ", style.prose()));
    }
    // what hardly counts needs no line
    for tier in k.tiers.iter().filter(|t| (t.connect_ns + t.handshake_ns) as f64 >= OPENING_SHARE * k.mean_ns as f64) {
        let line = format!(
            "{} {} took {}{}. No service's own time includes this.",
            if tier.spans_per_request > 0.0 { "Opening connections to" } else { "Connecting in vain to" },
            tier.service,
            units::duration(tier.connect_ns + tier.handshake_ns),
            match tier.handshake_ns {
                0 => String::new(),
                ns => format!(" ({} of it waiting for its part of the handshake)", units::duration(ns)),
            },
        );
        below(out, &line, Tint::Plain, style);
    }
    if let Some(line) = k.repeated() {
        below(out, &line, Tint::Warn, style);
    }
    if let Some(id) = k.slowest.first() {
        let _ = writeln!(out, "  slowest: {} ({})", id, units::duration(k.max_ns));
    }
}
