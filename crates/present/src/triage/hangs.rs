//! What hangs: circles of waits, requests in flight, sessions amid a statement, and connections that owe an answer.

use super::{FINDINGS_MAX, Level, MEDIAN_MIN, PERCENTILE_MIN, Part, Parts, Screen, Section, count};
use crate::open::{BeforeView, HeldView, OpenView, OwingView, RequestView, SessionView, SilentView, silent_for_longer};
use crate::requests::KindView;
use crate::units;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Kinds and places of requests in flight that are told apart.
const APART_MAX: usize = 64;

/// What waits for less was in progress, and no more, when the recording ended.
const HANG_FROM_NS: u64 = 1_000_000_000;
/// Most statements that a sentence names of those that sleep after the first.
const STATEMENTS_MAX: usize = 2;

pub(super) fn hangs(screen: &mut Screen<'_>, parts: &Parts) {
    let Part::Answer(open) = &parts.open else { return screen.missing(Section::Hangs, &parts.open, "open") };
    let next = screen.command("open");
    for c in open.circles.iter().take(FINDINGS_MAX) {
        screen.add(Section::Hangs, Level::Bad, &c.sentence, next.clone());
    }
    for s in open.stopped.iter().filter(|s| s.age_ns >= HANG_FROM_NS).take(FINDINGS_MAX) {
        screen.add(Section::Hangs, Level::Bad, &s.sentence, next.clone());
    }
    owed(screen, open);
    let asleep: Vec<&HeldView> = open.sessions.iter().filter(|h| h.age_ns >= HANG_FROM_NS).collect();
    let hosts: BTreeSet<&str> = asleep.iter().map(|h| h.host.as_str()).collect();
    for host in hosts.into_iter().take(FINDINGS_MAX) {
        let of_host: Vec<&HeldView> = asleep.iter().copied().filter(|h| h.host == host).collect();
        let silent: Vec<SilentView> = open.silent.iter().filter(|s| s.host == host).cloned().collect();
        screen.add(Section::Hangs, Level::Bad, held(&of_host, &silent), next.clone());
    }
    if open.requests.is_empty() {
        let hangs = screen.findings.iter().any(|f| f.section == Section::Hangs);
        let level = if hangs || open.left_unknown > 0 { Level::Fact } else { Level::Good };
        return screen.add(Section::Hangs, level, open.head.clone(), next);
    }
    let kinds = parts.requests.answer().map_or(&[][..], |r| &r.kinds[..]);
    in_flight(screen, open, kinds);
}

/// Whether more hangs than was answered.
pub(super) fn is_most(parts: &Parts) -> bool {
    let (Some(r), Some(open)) = (parts.requests.answer(), parts.open.answer()) else { return false };
    let ended: u64 = r.kinds.iter().map(ended).sum();
    let in_flight = open.requests.iter().filter(|f| may_hang(f, &r.kinds)).count() as u64;
    let owed: u64 = open.owing.iter().map(|o| o.connections).sum();
    in_flight + owed > ended
}

/// Answers that are due since before the recording: of each service that waits for no other such service, with those that wait for it.
fn owed(screen: &mut Screen<'_>, open: &OpenView) {
    let next = screen.command("open");
    let roots: Vec<&OwingView> = open.owing.iter().filter(|o| o.asks.is_empty()).collect();
    // in a circle of services none is the first
    let roots = if roots.is_empty() { open.owing.iter().collect() } else { roots };
    for root in roots.iter().take(FINDINGS_MAX) {
        let mut text = root.sentence.clone();
        let mut told: Vec<&str> = vec![&root.service];
        let mut waiting: Vec<String> = Vec::new();
        for o in &open.owing {
            if let Some(asked) = o.asks.iter().find(|a| told.contains(&a.as_str()) && **a != o.service) {
                let answers = count(o.connections, "answer", "answers");
                waiting.push(format!("{} waits for {asked}, and owes {answers} itself", o.service));
                told.push(&o.service);
            }
        }
        if !waiting.is_empty() && root.asks.is_empty() {
            let _ = write!(text, " {}.", waiting.join("; "));
        }
        if let Some(silent) = &root.silent_sentence {
            let _ = write!(text, " {silent}");
        }
        screen.add(Section::Hangs, Level::Bad, text, next.clone());
    }
    let asking: Vec<&BeforeView> = open.before.iter().filter(|b| !b.is_asked).collect();
    if let Some(first) = asking.first() {
        let others = match asking.len() - 1 {
            0 => String::new(),
            n => format!(" {} wait so too.", count(n as u64, "more connection", "more connections")),
        };
        let text = format!(
            "{} ago, before the recording, {} {} (or needed no answer).{others}",
            units::duration(first.age_ns),
            first.task.as_ref().unwrap_or(&first.process),
            first.text,
        );
        screen.add(Section::Hangs, Level::Bad, text, next);
    }
}

/// Sessions of a host's PostgreSQL that sleep amid a statement, longest first: before them who may hold them up, where one waits for its
/// client in a transaction; `silent` were so during the whole recording.
fn held(asleep: &[&HeldView], silent: &[SilentView]) -> String {
    let [first, rest @ ..] = asleep else { return String::new() };
    let mut text = String::new();
    let is_asleep = |o: &&SessionView| asleep.iter().any(|h| h.task == o.task);
    let idle = first.others.iter().find(|o| o.idle_ns.is_some());
    let client = |o: &SessionView| o.client.as_ref().map_or(String::new(), |c| format!(", client {c},"));
    if let Some((o, idle_ns)) = idle.and_then(|o| Some((o, o.idle_ns?))) {
        let more = match first.others.iter().filter(|o| o.idle_ns.is_some()).count() - 1 {
            0 => String::new(),
            n => format!(" ({} too)", count(n as u64, "more does", "more do")),
        };
        let _ = write!(
            text,
            "{}{} has a transaction open, last with {}, and has waited for its client for {}{more}: it may hold the lock that others wait \
             for. ",
            o.task,
            client(o),
            o.statement,
            units::duration(idle_ns),
        );
    }
    let _ = write!(
        text,
        "{} has slept for {} in the middle of {}",
        first.task,
        units::duration(first.age_ns),
        first.statement
    );
    if !rest.is_empty() {
        let mut statements: Vec<&str> = Vec::new();
        for h in rest {
            if !statements.contains(&h.statement.as_str()) {
                statements.push(&h.statement);
            }
        }
        let more = if statements.len() > STATEMENTS_MAX { " and others" } else { "" };
        let named = statements[..statements.len().min(STATEMENTS_MAX)].join(", ");
        let sessions = count(rest.len() as u64, "more session", "more sessions");
        let _ = write!(text, ", then {sessions} in {named}{more}");
    }
    text.push('.');
    let awake: Vec<&SessionView> = first.others.iter().filter(|o| !is_asleep(o)).collect();
    match (idle, awake.first()) {
        (Some(_), _) => {}
        (None, Some(other)) => {
            let _ =
                write!(text, " {}{} has a transaction open, last with {}", other.task, client(other), other.statement);
            if awake.len() > 1 {
                let _ = write!(text, "; {} have one", count(awake.len() as u64 - 1, "more", "more"));
            }
            text.push('.');
        }
        (None, None) if first.others.is_empty() => {
            text.push_str(" No other session with an open transaction was recorded.")
        }
        (None, None) => text.push_str(" All other sessions with an open transaction sleep so too."),
    }
    if let Some(silent) = silent_for_longer(silent).filter(|_| idle.is_none()) {
        let _ = write!(text, " {silent}");
    }
    let _ = write!(text, " Ask the server: {}", first.query);
    text
}

fn ended(k: &KindView) -> u64 {
    k.count - k.unfinished.min(k.count)
}

/// Whether a request in flight is no older than answered ones of its kind were. Not known where few were answered.
fn is_usual(r: &RequestView, kinds: &[KindView]) -> bool {
    let kind = kinds.iter().find(|k| k.asked == r.kind && k.service == r.service);
    kind.is_some_and(|k| match ended(k) {
        n if n >= PERCENTILE_MIN => r.age_ns <= k.p99_ns,
        n if n >= MEDIAN_MIN => r.age_ns <= k.max_ns,
        _ => false,
    })
}

/// Whether a request in flight is worth a line: it may just have been asked, or take as long as others do.
fn may_hang(r: &RequestView, kinds: &[KindView]) -> bool {
    r.age_ns >= HANG_FROM_NS && !is_usual(r, kinds)
}

/// The requests in flight that may hang; of those of one kind at one place, the oldest stands for all.
fn in_flight(screen: &mut Screen<'_>, open: &OpenView, kinds: &[KindView]) {
    let hang: Vec<&RequestView> = open.requests.iter().filter(|r| may_hang(r, kinds)).collect();
    if hang.is_empty() {
        let text = format!(
            "{}. None is known to hang: each is younger than 1 s, or no older than others of its kind were.",
            open.head
        );
        return screen.add(Section::Hangs, Level::Fact, text, screen.command("open"));
    }
    let is_alike =
        |a: &RequestView, b: &RequestView| (&a.service, &a.kind, &a.place) == (&b.service, &b.kind, &b.place);
    let mut told: Vec<(&RequestView, u64)> = Vec::new();
    let others = open.requests.len() - hang.len();
    for r in hang {
        match told.iter().position(|(of, _)| is_alike(of, r)) {
            Some(i) => told[i].1 += 1,
            None if told.len() < APART_MAX => told.push((r, 0)),
            None => {}
        }
    }
    let mut head = match (open.requests.len(), others) {
        (1, _) if open.left_unknown == 0 => "In flight when the recording ended: ".to_owned(),
        (_, 0) => format!("{}. The oldest: ", open.head),
        (_, n) => {
            format!(
                "{}. Not known to hang: {} of those in flight. The oldest other: ",
                open.head,
                units::count(n as u64)
            )
        }
    };
    for (r, others) in told.into_iter().take(FINDINGS_MAX) {
        let next = screen.command("show").map(|c| format!("{c} {}", r.request));
        let mut text = std::mem::take(&mut head) + &one_in_flight(r, open, kinds);
        if others > 0 {
            let _ = write!(text, " {} there too.", count(others, "more is", "more are"));
        }
        screen.add(Section::Hangs, Level::Fact, text, next);
    }
}

/// A request that had not ended: how old, how long others of its kind take, where it is, and for what that waits.
fn one_in_flight(r: &RequestView, open: &OpenView, kinds: &[KindView]) -> String {
    let mut text = format!("{} at {}, for {}", r.kind, r.service, units::duration(r.age_ns));
    let kind = kinds.iter().find(|k| k.asked == r.kind && k.service == r.service);
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
    let is_session = open.sessions.iter().any(|h| Some(&h.task) == r.task.as_ref());
    if is_session {
        // which call it sleeps in says nothing: PostgreSQL waits for all things there
        text.push_str(", asleep in the middle of it (for a lock?)");
    } else if let Some(w) = wait.filter(|w| w.says_something()) {
        let _ = write!(text, ", which {}", w.text);
    }
    text.push('.');
    if let Some(ns) = r.left_ago_ns {
        let _ = write!(text, " Its client left after {}.", units::duration(r.age_ns.saturating_sub(ns)));
    }
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
