//! Errors in replies to calls: the application may have hidden them from whoever asked.

use super::text::below;
use crate::text::{Style, Tint};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_analysis::requests::Kinds;

/// An error that calls of requests were answered with.
#[derive(Serialize)]
pub struct CallErrorView {
    /// Who replied.
    pub service: String,
    /// What it had been asked for.
    pub asked: String,
    /// The protocol's class of error (a SQLSTATE, `WRONGTYPE`), or a status; empty where the reply only says that it failed.
    /// Or how its connection ended before an answer was complete: `connection reset`, `no complete answer`, `answer not read`.
    pub error: String,
    /// The same in words, where they are known.
    pub words: Option<&'static str>,
    /// Entry service of the request that it was part of; `None` where that is not known.
    pub entry: Option<String>,
    /// The kind of that request.
    pub kind: Option<String>,
    /// Replies with it.
    pub count: u64,
    /// Of them, in requests that were answered without an error.
    pub hidden: u64,
    /// Of them, in requests whose own reply says neither success nor failure, or was not readable.
    pub outcome_unknown: u64,
}

impl CallErrorView {
    /// In words: who answered what with which error, how often, and in which requests.
    pub(crate) fn sentence(&self) -> String {
        let within = match (&self.kind, self.hidden) {
            (None, _) => "in requests that are not known".to_owned(),
            (Some(kind), 0) => format!("in {kind}"),
            (Some(kind), n) if n == self.count => format!("in {kind}, whose own reply does not mention it"),
            (Some(kind), n) => format!("in {kind}, whose own reply does not mention {}", units::count(n)),
        };
        format!("{}, {within}", self.times(self.count))
    }

    /// Who answered what with which error, so often.
    pub(crate) fn times(&self, count: u64) -> String {
        let error = match (self.error.as_str(), self.words) {
            ("", _) => "failed".to_owned(),
            (class, Some(words)) => format!("{class} ({words})"),
            (class, None) => class.to_owned(),
        };
        format!("{} to {}: {error} × {}", self.service, self.asked, units::count(count))
    }

    /// How many of them are in requests that were answered with an error.
    pub(crate) fn told(&self) -> u64 {
        self.count.saturating_sub(self.hidden).saturating_sub(self.outcome_unknown)
    }

    /// It is more than the status of a reply, which a service may only pass on.
    pub(crate) fn is_of_its_own(&self) -> bool {
        self.words.is_some() || self.error.parse::<u16>().is_err()
    }
}

/// Those that are met most, as lines of the answer.
pub(super) fn render(errors: &[CallErrorView], out: &mut String, style: Style) {
    const SHOWN: usize = 10;
    for e in errors.iter().take(SHOWN) {
        below(out, &e.sentence(), Tint::Bad, style);
    }
    if let Some(more) = errors.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        let _ = writeln!(out, "  … and {more} more (--json has all)");
    }
}

/// Most frequent first.
pub(super) fn call_errors(kinds: &Kinds) -> Vec<CallErrorView> {
    let mut errors: Vec<CallErrorView> = kinds
        .call_errors
        .iter()
        .map(|(e, met)| CallErrorView {
            service: e.service.clone(),
            asked: e.asked.clone(),
            error: e.error.clone(),
            words: in_words(&e.error),
            entry: e.kind.as_ref().map(|k| k.0.clone()),
            kind: e.kind.as_ref().map(|k| k.1.clone()),
            count: met.count,
            hidden: met.hidden,
            outcome_unknown: met.outcome_unknown,
        })
        .collect();
    errors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.service, &a.asked).cmp(&(&b.service, &b.asked))));
    errors
}

/// Classes of error that are met in practice, by SQLSTATE (the standard's, and PostgreSQL's and MySQL's own).
fn in_words(class: &str) -> Option<&'static str> {
    Some(match class {
        "22012" => "division by zero",
        "23503" => "foreign key violated",
        "23505" => "unique key violated",
        "25P02" => "the transaction had failed before",
        "40001" => "could not be serialized: try again",
        "40P01" => "deadlock",
        "42601" => "syntax error",
        "42703" => "no such column",
        "42P01" => "no such table",
        "53300" => "too many connections",
        "55P03" => "lock not available in time",
        "57014" => "cancelled",
        "57P01" => "ended by an administrator",
        _ => return None,
    })
}
