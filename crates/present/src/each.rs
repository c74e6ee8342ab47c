//! `wakepath requests --each`: requests one by one.

use crate::losses::{Loss, losses_or_none};
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_analysis::each::{Each, One};
use wakepath_model::defects::Answer;

/// What most of a request's critical path went to.
#[derive(Clone, Debug, Serialize)]
pub struct LargestView {
    /// As `wakepath why` names causes.
    pub cause: &'static str,
    /// In which service or process.
    pub service: String,
    /// How much (ns).
    pub duration_ns: u64,
}

/// A request.
#[derive(Clone, Debug, Serialize)]
pub struct OneView {
    /// Id.
    pub request: String,
    /// Entry service.
    pub service: String,
    /// What was asked.
    pub asked: String,
    /// Begin on the common time line (ns since 1970).
    pub at_ns: i64,
    /// How long it took (ns).
    pub duration_ns: u64,
    /// Status of its reply; 0 = none.
    pub status: u16,
    /// By its reply; `None` where no reply that says so was read.
    pub failed: Option<bool>,
    /// How it ended.
    pub end: &'static str,
    /// Nothing is known to be missing in its path.
    pub complete: bool,
    /// Its messages, itself included.
    pub spans: u32,
    /// `None` where waits were not recorded, its path is incomplete, or no complete reply came.
    pub largest: Option<LargestView>,
}

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct EachView {
    /// Requests in the selection.
    pub found: u64,
    /// This many of the first in `requests` are the slowest of the selection, none left out.
    pub slowest: u64,
    /// The others in `requests` are one in so many of the others in the selection.
    pub one_in: u64,
    /// When the recording began, which `+12.5s` counts from (ns since 1970).
    pub from_ns: i64,
    /// When it ended.
    pub to_ns: i64,
    /// Slowest first.
    pub requests: Vec<OneView>,
}

impl OneView {
    fn new(one: &One) -> OneView {
        OneView {
            request: format!("{:016x}", one.id),
            service: one.kind.0.clone(),
            asked: one.kind.1.clone(),
            at_ns: one.began.0,
            duration_ns: one.duration_ns,
            status: one.status,
            failed: one.failed,
            end: one.end.name(),
            complete: one.complete,
            spans: one.spans,
            largest: one.largest.as_ref().map(|(what, ns)| LargestView {
                cause: what.cause.name(),
                service: what.service.clone(),
                duration_ns: *ns,
            }),
        }
    }

    /// How it ended, in a few characters.
    fn reply(&self) -> Cell {
        match (self.end, self.failed, self.status) {
            ("answered", Some(true), 0) => Cell::tinted("failed", Tint::Bad),
            ("answered", Some(true), status) => Cell::tinted(status.to_string(), Tint::Bad),
            ("answered", _, 0) => Cell::default(),
            ("answered", _, status) => Cell::from(status.to_string()),
            (end, ..) => Cell::tinted(end.replace('_', " "), Tint::Bad),
        }
    }

    /// What most of it went to.
    fn most(&self) -> Cell {
        match &self.largest {
            Some(l) => Cell::from(format!("{} {} at {}", units::duration(l.duration_ns), l.cause, l.service)),
            None if !self.complete => Cell::tinted("not known: path incomplete", Tint::Dim),
            None => Cell::tinted("not known", Tint::Dim),
        }
    }
}

impl EachView {
    /// From what was found; `span`: begin and end of the recording (ns since 1970).
    pub fn new(each: &Each, span: (i64, i64)) -> EachView {
        EachView {
            found: each.found,
            slowest: each.slowest,
            one_in: each.one_in,
            from_ns: span.0,
            to_ns: span.1,
            requests: each.requests.iter().map(OneView::new).collect(),
        }
    }

    /// As text for a terminal.
    pub fn render(&self, losses: &[Loss], style: Style) -> String {
        let mut out = String::new();
        if self.requests.is_empty() {
            out.push_str("No request is selected. `wakepath requests` shows which kinds there are.\n");
        } else {
            let mut t = Table::new(&[
                Column::number("began"),
                Column::number("took"),
                Column::number("reply"),
                Column::text("request"),
                Column::text("kind"),
                Column::text("most of it"),
            ]);
            for r in &self.requests {
                t.row([
                    Cell::from(format!("+{:.6}s", r.at_ns.saturating_sub(self.from_ns) as f64 / 1e9)),
                    Cell::from(units::duration(r.duration_ns)),
                    r.reply(),
                    Cell::from(&r.request),
                    Cell::from(format!("{} at {}", r.asked, r.service)),
                    r.most(),
                ]);
            }
            out.push_str(&t.render(style));
            out.push_str(&wrap(&self.which(), "", style.prose()));
            let _ = writeln!(out, "Next: wakepath show DIR REQUEST");
        }
        out.push_str(&losses_or_none(losses, &[Answer::Requests, Answer::CriticalPath], style));
        out
    }

    /// Which of the selected ones are listed.
    fn which(&self) -> String {
        let (found, listed) = (self.found, self.requests.len() as u64);
        if found == listed {
            return format!("{}, slowest first.", units::counted(found, "request", "requests"));
        }
        let others = match listed - self.slowest {
            0 => String::new(),
            n => format!(", and {} of the others, one in {}", units::count(n), units::count(self.one_in)),
        };
        format!(
            "{} of {} requests: the {} slowest{others} (--limit 0 shows all).",
            units::count(listed),
            units::count(found),
            units::count(self.slowest)
        )
    }
}
