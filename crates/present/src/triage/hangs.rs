//! What hangs: circles of waits, requests in flight, sessions amid a statement, and connections that owe an answer.

use super::{FINDINGS_MAX, Level, MEDIAN_MIN, Part, Parts, Screen, Section, count};
use crate::open::{HeldView, OpenView, RequestView};
use crate::requests::KindView;
use crate::units;
use std::fmt::Write as _;

/// Kinds and places of requests in flight that are told apart.
const APART_MAX: usize = 64;

pub(super) fn hangs(screen: &mut Screen<'_>, parts: &Parts) {
    let Part::Answer(open) = &parts.open else { return screen.missing(Section::Hangs, &parts.open, "open") };
    let next = screen.command("open");
    for c in open.circles.iter().take(FINDINGS_MAX) {
        screen.add(Section::Hangs, Level::Bad, &c.sentence, next.clone());
    }
    let requests = match &parts.requests {
        Part::Answer(r) => &r.kinds[..],
        _ => &[],
    };
    if !open.before.is_empty() {
        let waits = match open.before.len() {
            1 => "1 connection has".to_owned(),
            n => format!("{} connections have", units::count(n as u64)),
        };
        let text = format!(
            "{waits} waited for an answer since before the recording (or the protocol lets the client speak last)."
        );
        screen.add(Section::Hangs, Level::Bad, text, next.clone());
    }
    for h in open.sessions.iter().take(FINDINGS_MAX) {
        screen.add(Section::Hangs, Level::Bad, held(h), next.clone());
    }
    if open.requests.is_empty() {
        let level = if open.circles.is_empty() { Level::Good } else { Level::Fact };
        return screen.add(Section::Hangs, level, open.head.clone(), next);
    }
    screen.add(Section::Hangs, Level::Fact, format!("{}. The oldest:", open.head), next);
    // of requests of one kind at one place the oldest stands for all
    let is_alike =
        |a: &RequestView, b: &RequestView| (&a.service, &a.kind, &a.place) == (&b.service, &b.kind, &b.place);
    let mut told: Vec<(&RequestView, u64)> = Vec::new();
    for r in &open.requests {
        match told.iter().position(|(of, _)| is_alike(of, r)) {
            Some(i) => told[i].1 += 1,
            None if told.len() < APART_MAX => told.push((r, 0)),
            None => {}
        }
    }
    for (r, others) in told.into_iter().take(FINDINGS_MAX) {
        let next = screen.command("show").map(|c| format!("{c} {}", r.request));
        let mut text = in_flight(r, open, requests);
        if others > 0 {
            let _ = write!(text, " {} there too.", count(others, "more is", "more are"));
        }
        screen.add(Section::Hangs, Level::Fact, text, next);
    }
}

/// A session that sleeps amid a statement, and who may hold it up.
fn held(h: &HeldView) -> String {
    let mut text = format!("{} has slept for {} in the middle of {}.", h.task, units::duration(h.age_ns), h.statement);
    match h.others.first() {
        Some(other) => {
            let client = other.client.as_ref().map_or(String::new(), |c| format!(", client {c}"));
            let _ = write!(text, " {}{client} has a transaction open, last with {}", other.task, other.statement);
            if let Some(idle) = other.idle_ns {
                let _ = write!(text, ", and has waited for its client for {}", units::duration(idle));
            }
            if h.others.len() > 1 {
                let _ = write!(text, "; {} more have one", h.others.len() - 1);
            }
            text.push_str(". Ask the server which of them it waits for: ");
            text.push_str(&h.query);
        }
        None => text.push_str(" No other session with an open transaction was recorded."),
    }
    text
}

/// A request that had not ended: how old, how long others of its kind take, where it is, and for what that waits.
fn in_flight(r: &RequestView, open: &OpenView, kinds: &[KindView]) -> String {
    let mut text = format!("{} at {}, for {}", r.kind, r.service, units::duration(r.age_ns));
    let kind = kinds.iter().find(|k| k.asked == r.kind && k.service == r.service);
    let ended = |k: &KindView| k.count - k.unfinished.min(k.count);
    if let Some(k) = kind.filter(|k| ended(k) >= MEDIAN_MIN) {
        let _ = write!(
            text,
            " (p50 of {} is {})",
            count(ended(k), "such request", "such requests"),
            units::duration(k.p50_ns)
        );
    }
    let task = r.task.as_deref().unwrap_or("peer not recorded");
    let _ = match &r.handed_on {
        Some(h) => write!(
            text,
            ": it is at {}; {task} read it, and hands requests to other tasks ({} of {} were answered by others)",
            r.at_service,
            units::count(h.by_others),
            units::count(h.read)
        ),
        None if r.unread => write!(text, ": it was sent to {}, which was not seen to read it", r.at_service),
        None => match &r.queue {
            Some(q) => write!(text, ": it is {}", q.in_words()),
            None => write!(text, ": it is at {} ({task})", r.at_service),
        },
    };
    if r.asked != r.kind || r.at_service != r.service && !r.unread {
        let _ = write!(text, " with {}", r.asked);
    }
    let wait = open.waits.iter().find(|w| Some(&w.task) == r.task.as_ref() && w.holds.contains(&r.request));
    if let Some(w) = wait {
        let _ = write!(text, ", which {}", w.text);
    }
    text.push('.');
    let asleep: u64 = open.may_have.iter().map(|i| i.tasks).sum();
    if r.handed_on.is_some() && asleep > 0 {
        let tasks = units::counted(
            asleep,
            "task that fell asleep since may have it",
            "tasks that fell asleep since may have it",
        );
        let _ = write!(text, " {tasks}.");
    }
    if r.is_opaque() {
        text.push_str(" Its protocol could not be read: perhaps no answer is due.");
    }
    text
}
