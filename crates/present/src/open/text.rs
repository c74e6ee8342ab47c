//! What had not ended, as text for a terminal.

use super::{HeldView, OpenView, RequestView, SessionView, WaitingView, idle_words, silent_for_longer};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wakepath_analysis::names::OPAQUE;
use wakepath_analysis::open::{For, Unended};

impl SessionView {
    fn in_words(&self) -> String {
        let idle = self.idle_ns.map(|ns| format!("; answered, and waiting for its client for {}", units::duration(ns)));
        let client = self.client.as_ref().map_or(String::new(), |c| format!("; its client is {c}"));
        format!("{} ({}{}{client})", self.task, self.statement, idle.unwrap_or_default())
    }
}

/// How many requests were in flight; of `unknown` more, whose clients left, that is not known.
pub(super) fn in_flight(requests: usize, unknown: u64) -> String {
    let known = units::counted(requests as u64, "request", "requests");
    let client = if unknown == 1 { "client" } else { "clients" };
    let left = format!("{} whose {client} left", units::counted(unknown, "request", "requests"));
    match (requests, unknown) {
        (0, 0) => "No request that began during the recording was in flight when it ended.".to_owned(),
        (0, _) => format!(
            "No request that began during the recording is known to have been in flight when it ended. Whether work went on for \
             {left} is not known."
        ),
        (_, 0) => format!("In flight when the recording ended: {known}"),
        (_, _) => {
            format!("In flight when the recording ended: {known}. Whether work went on for {left} besides is not known")
        }
    }
}

/// What is known of connections that were open when the recording began: on `due` of them an answer is due, of `unknown` that
/// is not known. `None` where there are none.
pub(super) fn open_before(open: u64, due: usize, unknown: u64) -> Option<String> {
    if open == 0 && due == 0 {
        return None;
    }
    let others = if unknown < open { " On the others no answer has been due since then." } else { "" };
    let open = units::counted(open, "TCP connection was", "TCP connections were");
    let known = match (due, unknown) {
        (0, 0) => "Their sockets show that none of them has waited for an answer since then.".to_owned(),
        (0, n) => format!(
            "On {} of them nothing has moved since, and whether an answer is due there is not known: their sockets do not \
             show it (who sent last is not known, or says nothing, as in HTTP/2).{others}",
            units::count(n)
        ),
        (n, unknown) => {
            let unknown = match unknown {
                0 => String::new(),
                u => format!(" (on {} more that is not known)", units::count(u)),
            };
            format!("On {} of them, the client sent last and got nothing back{unknown}:", units::count(n as u64))
        }
    };
    Some(format!("When recording began: {open} open. {known}"))
}

/// Tasks that sleep, by what they wait for.
fn asleep(tasks: &BTreeMap<For, u64>) -> String {
    let total: u64 = tasks.values().sum();
    let parts: Vec<String> =
        tasks.iter().map(|(what, n)| format!("{} {}", units::count(*n), idle_words(*what))).collect();
    format!("{} ({})", units::counted(total, "task", "tasks"), parts.join(", "))
}

impl OpenView {
    /// As text for a terminal; at most `limit` requests and waits (0 = all).
    pub fn render(&self, unended: &Unended, limit: usize, style: Style) -> String {
        let mut out = String::new();
        let limit = if limit == 0 { usize::MAX } else { limit };
        for c in &self.circles {
            for line in wrap(&sanitise(&c.sentence), "", style.prose()).lines() {
                let _ = writeln!(out, "{}", style.paint(line, if c.is_deadlock { Tint::Bad } else { Tint::Warn }));
            }
        }
        for p in &self.stopped {
            let _ = write!(out, "{}", wrap(&sanitise(&p.sentence), "", style.prose()));
        }
        for q in &self.full_queues {
            for line in wrap(&sanitise(&q.sentence), "", style.prose()).lines() {
                let _ = writeln!(out, "{}", style.paint(line, Tint::Bad));
            }
        }
        if !self.circles.is_empty() || !self.full_queues.is_empty() || !self.stopped.is_empty() {
            out.push('\n');
        }
        for line in wrap(&self.head, "", style.prose()).lines() {
            let _ = writeln!(out, "{}", style.paint(line, Tint::Strong));
        }
        self.render_requests(limit, style, &mut out);
        self.render_before(limit, style, &mut out);
        self.render_sessions(limit, style, &mut out);
        out.push('\n');
        self.render_waits(limit, style, &mut out);
        if !unended.may_have.is_empty() {
            let line = format!(
                "Asleep since then, in services that hand requests to other tasks: {}. Some of them may have the requests above; \
                 which was not recorded.",
                asleep(&unended.may_have)
            );
            out.push_str(&wrap(&line, "", style.prose()));
        }
        if !unended.may_owe.is_empty() {
            let line = format!(
                "Asleep since before the recording, in services that owe the answers above: {}. Some of them may be \
                 what hangs; what they do for whom was not recorded.",
                asleep(&unended.may_owe)
            );
            out.push_str(&wrap(&line, "", style.prose()));
        }
        if !unended.idle.is_empty() {
            let line = format!("Idle, with no request and no call open: {}.", asleep(&unended.idle));
            out.push_str(&wrap(&line, "", style.prose()));
        }
        if !self.awaited.is_empty() {
            let what = |a: &WaitingView| {
                let (count, oldest) = (units::count(a.count), units::duration(a.oldest_ns));
                format!("{} at {} × {count} (oldest {oldest})", a.asked, a.service)
            };
            let what: Vec<String> = self.awaited.iter().map(what).collect();
            let line = format!("Not hanging, because they ask to wait for something to happen: {}.", what.join(", "));
            out.push_str(&wrap(&line, "", style.prose()));
        }
        out
    }

    fn render_requests(&self, limit: usize, style: Style, out: &mut String) {
        if !self.requests.is_empty() {
            let mut t = Table::new(&[
                Column::number("age"),
                Column::text("request"),
                Column::wrapped("what was asked"),
                Column::wrapped("where it is"),
            ]);
            for r in self.requests.iter().take(limit) {
                t.row([
                    Cell::from(units::duration(r.age_ns)),
                    Cell::from(&r.request[..8]),
                    Cell::from(format!("{} at {}", r.kind, r.service)),
                    Cell::from(&r.place),
                ]);
            }
            out.push_str(&t.render(style));
            more(out, self.requests.len(), limit);
            if self.requests.iter().take(limit).any(RequestView::is_opaque) {
                let line = format!(
                    "Of what is {OPAQUE} whether an answer is due is not known: its protocol could not be read."
                );
                out.push_str(&wrap(&line, "", style.prose()));
            }
        }
    }

    /// What hung before the recording began.
    fn render_before(&self, limit: usize, style: Style, out: &mut String) {
        let Some(line) = &self.before_sentence else { return };
        out.push_str(&wrap(line, "", style.prose()));
        if self.before.is_empty() {
            return;
        }
        for o in &self.owing {
            let silent = o.silent_sentence.as_ref().map_or_else(String::new, |text| format!(" {text}"));
            out.push_str(&wrap(&sanitise(&format!("{}{silent}", o.sentence)), "  ", style.prose()));
        }
        if !self.owing.is_empty() {
            out.push_str("Each of them:\n");
        }
        for b in self.before.iter().take(limit) {
            let who = b.task.as_ref().unwrap_or(&b.process);
            let line = format!("{} ago {who} {}.", units::duration(b.age_ns), b.text);
            out.push_str(&wrap(&sanitise(&line), "  ", style.prose()));
        }
        more(out, self.before.len(), limit);
    }

    /// Sessions of PostgreSQL that sleep amid a statement.
    fn render_sessions(&self, limit: usize, style: Style, out: &mut String) {
        const NAMED: usize = 3;
        if self.sessions.is_empty() {
            return;
        }
        out.push('\n');
        let head = "PostgreSQL's sessions that sleep in the middle of a statement";
        let _ = writeln!(out, "{}", style.paint(head, Tint::Strong));
        for h in self.sessions.iter().take(limit) {
            let open = if h.is_in_transaction { ", in a transaction" } else { "" };
            let others: Vec<String> = h.others.iter().take(NAMED).map(SessionView::in_words).collect();
            let more = h.others.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let suspects = match others.is_empty() {
                true => "no other session with an open transaction was recorded".to_owned(),
                false => format!("sessions with an open transaction: {}{more}", others.join(", ")),
            };
            let line = format!(
                "{} for {}{open}: {}. It waits for a lock of another session, or sleeps on its own; {suspects}. Ask \
                 the server: {}",
                h.task,
                units::duration(h.age_ns),
                h.statement,
                h.query,
            );
            out.push_str(&wrap(&sanitise(&line), "  ", style.prose()));
        }
        if let Some(line) = silent_for_longer(&self.silent) {
            out.push_str(&wrap(&sanitise(&line), "  ", style.prose()));
        }
        let may_wait_for = |a: &HeldView, b: &HeldView| a.others.iter().any(|o| o.task == b.task);
        let pairs = |a: &HeldView| self.sessions.iter().any(|b| may_wait_for(a, b) && may_wait_for(b, a));
        if self.sessions.iter().any(pairs) {
            let line = "If two of them wait for each other, it is a deadlock: the server ends one of them after \
                        deadlock_timeout.";
            out.push_str(&wrap(line, "  ", style.prose()));
        }
        more(out, self.sessions.len(), limit);
    }

    fn render_waits(&self, limit: usize, style: Style, out: &mut String) {
        let head = match self.waits.len() {
            0 if !self.before.is_empty() => {
                "No task waits for a request that began during the recording. One that owes an answer from before may be \
                 among those counted as idle."
                    .to_owned()
            }
            0 if !self.requests.is_empty() || self.left_unknown > 0 => {
                "No task is known to wait for one of these requests: those that have them may be among those counted as idle.".to_owned()
            }
            0 => "Only idle tasks were waiting.".to_owned(),
            n => format!("Waits still going on: {}", units::count(n as u64)),
        };
        for line in wrap(&head, "", style.prose()).lines() {
            let _ = writeln!(out, "{}", style.paint(line, Tint::Strong));
        }
        if !self.waits.is_empty() {
            let mut t = Table::new(&[
                Column::number("age"),
                Column::text("task"),
                Column::wrapped("what it waits for"),
                Column::text("holds"),
            ]);
            for w in self.waits.iter().take(limit) {
                let holds = match &w.holds[..] {
                    [] => String::new(),
                    [one] => one[..8].to_owned(),
                    [one, rest @ ..] => format!("{} +{}", &one[..8], rest.len()),
                };
                t.row([
                    Cell::from(units::duration(w.age_ns)),
                    Cell::from(&w.task),
                    Cell::from(&w.text),
                    Cell::from(holds),
                ]);
            }
            out.push_str(&t.render(style));
            more(out, self.waits.len(), limit);
        }
    }
}

fn more(out: &mut String, count: usize, limit: usize) {
    if count > limit {
        let _ = writeln!(out, "… and {} more; --limit 0 shows all.", units::count((count - limit) as u64));
    }
}
