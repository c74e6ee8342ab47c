//! `wakepath triage`: one screen made of what the other answers found. It adds nothing of its own: each finding is a sentence
//! that one of them carries, with the command that says more.

mod hangs;
mod slow;

use crate::forecast::ForecastView;
use crate::info::Info;
use crate::losses::Loss;
use crate::open::OpenView;
use crate::refusals;
use crate::requests::{CallErrorView, KindView, MASKED_WORDS, RequestsView, never_replied, replies_unknown};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use crate::why::WhyView;
use hangs::hangs;
use serde::Serialize;
use slow::{slow, throttled_elsewhere, watch_there_too};
use std::fmt::Write as _;
use wakepath_model::defects::Severity;

/// Most findings of a section; the commands that follow them have all.
const FINDINGS_MAX: usize = 3;
/// A median is compared with, where it is of so many.
const MEDIAN_MIN: u64 = 8;
/// Of fewer requests, no 99th percentile is told.
const PERCENTILE_MIN: u64 = 100;
/// A kind of which this part went wrong, and which has this part of all requests, fails altogether.
const TOTAL: f64 = 0.9;
const TOTAL_OF_ALL: f64 = 0.5;
/// Paths are too few to trust what is said of all requests where more than this part is incomplete.
const INCOMPLETE_BAD: f64 = 0.1;
/// Replies of 4xx are worth a line where they are this part of a kind's, or more.
const REFUSED_SHARE: f64 = 0.1;

/// What came of one of the answers that the screen is made of.
#[derive(Debug)]
pub enum Part<T> {
    /// The answer.
    Answer(T),
    /// There is none, and why.
    None(String),
    /// It was not ready in time.
    Late,
}

impl<T> Part<T> {
    /// The answer, where there is one.
    fn answer(&self) -> Option<&T> {
        match self {
            Part::Answer(answer) => Some(answer),
            Part::None(_) | Part::Late => None,
        }
    }
}

/// The answers.
pub struct Parts {
    /// As `requests` has it.
    pub requests: Part<RequestsView>,
    /// As `why` has it.
    pub why: Part<WhyView>,
    /// As `open` has it.
    pub open: Part<OpenView>,
    /// As `forecast` has it without a change: the bottleneck, and how well the model fits.
    pub forecast: Part<ForecastView>,
    /// As `info` has it.
    pub info: Part<Info>,
    /// What was lost, as far as it was read.
    pub losses: Vec<Loss>,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What is slow.
    Slow,
    /// What fails.
    Fails,
    /// What hangs.
    Hangs,
    /// What limits.
    Limits,
    /// How far to trust it.
    Trust,
}

impl Section {
    const fn title(self) -> &'static str {
        match self {
            Section::Slow => "What is slow",
            Section::Fails => "What fails",
            Section::Hangs => "What hangs",
            Section::Limits => "What limits",
            Section::Trust => "How far to trust it",
        }
    }
}

/// How a finding is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing is wrong, as far as was seen.
    Good,
    /// A fact.
    Fact,
    /// Something is wrong, or an answer may be.
    Bad,
    /// It is not known, and the sentence says why.
    Unknown,
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What it is about.
    pub section: Section,
    /// How it is meant.
    pub level: Level,
    /// In words.
    pub sentence: String,
    /// The command that says more.
    pub next: Option<String>,
    /// When it was met first (ns since 1970); `None` where that is not known, or it is of the whole recording.
    pub since_ns: Option<i64>,
}

/// The screen.
#[derive(Clone, Debug, Serialize)]
pub struct TriageView {
    /// What was recorded, in words.
    pub recorded: Vec<String>,
    /// Requests; null where they were not counted in time.
    pub requests: Option<u64>,
    /// The answers that were not ready in time, by command.
    pub late: Vec<&'static str>,
    /// The findings, section by section, the gravest first: of the sections, and of each.
    pub findings: Vec<Finding>,
    #[serde(skip)]
    is_whole: bool,
}

/// Collects findings.
struct Screen<'a> {
    /// The folders, as they would be typed.
    folders: &'a str,
    findings: Vec<Finding>,
}

impl Screen<'_> {
    fn add(&mut self, section: Section, level: Level, sentence: impl Into<String>, next: Option<String>) {
        self.findings.push(Finding { section, level, sentence: sentence.into(), next, since_ns: None });
    }

    /// Of the last finding: since when.
    fn since(&mut self, ns: Option<i64>) {
        if let Some(last) = self.findings.last_mut() {
            last.since_ns = ns;
        }
    }

    fn command(&self, command: &str) -> Option<String> {
        Some(format!("wakepath {command} {}", self.folders))
    }

    /// What is not known since an answer has not come.
    fn missing<T>(&mut self, section: Section, part: &Part<T>, command: &str) {
        let why = match part {
            Part::Answer(_) => return,
            Part::None(why) => why.as_str(),
            Part::Late => "the answer takes longer than was given (--within)",
        };
        // whose folder it is, everybody knows here
        let why = why.strip_prefix(self.folders).and_then(|text| text.strip_prefix(": ")).unwrap_or(why);
        let command = if why.contains("`wakepath requests`") { "requests" } else { command };
        // what would help is told with the words of its option
        let chosen = why.find("--request '").filter(|_| section == Section::Limits);
        let next = match chosen {
            Some(at) => self.command("bottleneck").map(|c| format!("{c} {}", &why[at..])),
            None => self.command(command),
        };
        self.add(section, Level::Unknown, format!("Not known: {why}."), next);
    }
}

impl TriageView {
    /// Of the answers. `folders` as they would be typed.
    pub fn new(folders: &str, parts: &Parts) -> TriageView {
        let mut screen = Screen { folders, findings: Vec::new() };
        // what is gravest comes first: where most hangs, how fast the rest is comes second, and so where nothing works
        let hangs_first = hangs::is_most(parts);
        if hangs_first {
            hangs(&mut screen, parts);
        }
        if parts.requests.answer().is_some_and(has_total_failure) {
            fails(&mut screen, parts);
            slow(&mut screen, parts);
        } else {
            slow(&mut screen, parts);
            fails(&mut screen, parts);
        }
        if !hangs_first {
            hangs(&mut screen, parts);
        }
        limits(&mut screen, parts);
        trust(&mut screen, parts);
        let late = [
            (matches!(parts.requests, Part::Late), "requests"),
            (matches!(parts.why, Part::Late), "why"),
            (matches!(parts.open, Part::Late), "open"),
            (matches!(parts.forecast, Part::Late), "forecast"),
            (matches!(parts.info, Part::Late), "info"),
        ];
        TriageView {
            recorded: recorded(parts),
            requests: match &parts.requests {
                Part::Answer(r) => Some(r.requests),
                _ => None,
            },
            late: late.iter().filter(|(is_late, _)| *is_late).map(|(_, name)| *name).collect(),
            findings: screen.findings,
            is_whole: parts.requests.answer().is_none_or(RequestsView::is_complete),
        }
    }

    /// Whether every part answered and no path was left out.
    pub fn is_complete(&self) -> bool {
        self.late.is_empty() && self.is_whole
    }

    /// As text for a terminal.
    pub fn render(&self, style: Style) -> String {
        let mut out = String::new();
        for line in &self.recorded {
            out.push_str(&wrap(&sanitise(line), "", style.prose()));
        }
        let mut sections: Vec<Section> = Vec::new();
        for f in &self.findings {
            if !sections.contains(&f.section) {
                sections.push(f.section);
            }
        }
        for section in sections {
            let _ = writeln!(out, "\n{}", style.paint(section.title(), Tint::Strong));
            for f in self.findings.iter().filter(|f| f.section == section) {
                let tint = match f.level {
                    Level::Good => Tint::Good,
                    Level::Fact => Tint::Plain,
                    Level::Bad => Tint::Bad,
                    Level::Unknown => Tint::Warn,
                };
                let since = f.since_ns.map_or_else(String::new, |ns| format!(" First at {}.", units::wall(ns)));
                let text = wrap(&sanitise(&format!("{}{since}", f.sentence)), "    ", style.prose());
                let mark = style.paint("-", tint);
                let _ = write!(out, "  {mark} {}", text.trim_start());
                // what is well needs no command
                if let Some(next) = f.next.as_ref().filter(|_| f.level != Level::Good) {
                    // a command is one line, whatever its length: it is copied
                    let _ = writeln!(out, "      → {}", sanitise(next));
                }
            }
        }
        out
    }
}

/// Which hosts, how long, how much.
fn recorded(parts: &Parts) -> Vec<String> {
    let Part::Answer(info) = &parts.info else { return Vec::new() };
    let requests = match &parts.requests {
        Part::Answer(r) => {
            format!(
                "; {} of {}",
                count(r.requests, "request", "requests"),
                count(r.kinds.len() as u64, "kind", "kinds")
            )
        }
        _ => String::new(),
    };
    let host = |h: &crate::info::HostFacts| {
        let when = match h.span {
            Some(s) => match s.begin_wall_ns {
                Some(ns) => format!("{} from {}", units::duration(s.duration_ns), units::wall(ns)),
                None => format!("{} (wall-clock time not known)", units::duration(s.duration_ns)),
            },
            None => "nothing recorded".to_owned(),
        };
        let mut selections: Vec<&str> =
            std::iter::once(&h.selection).chain(&h.earlier_selections).map(String::as_str).collect();
        selections.retain(|s| !s.is_empty());
        selections.sort_unstable();
        selections.dedup();
        let watched =
            if selections.is_empty() { String::new() } else { format!(", watched: {}", selections.join("; ")) };
        format!("{}: {when}{watched}", h.name)
    };
    let mut lines: Vec<String> = info.hosts.iter().map(host).collect();
    if let Some(last) = lines.last_mut() {
        last.push_str(&requests);
    }
    lines
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", units::count(n), if n == 1 { one } else { many })
}

/// A kind as an option's value.
fn of_kind(kind: &str) -> String {
    format!("--kind {}", crate::bottleneck::shell(kind))
}

// ---------------------------------------------------------------- what fails

fn fails(screen: &mut Screen<'_>, parts: &Parts) {
    let Part::Answer(r) = &parts.requests else { return screen.missing(Section::Fails, &parts.requests, "requests") };
    let mut found: Vec<(u64, String, Option<String>, Option<i64>)> = Vec::new();
    for k in &r.kinds {
        // what was still in progress when the recording ended is told by what hangs
        if let Some(text) = failures(k) {
            let met = met_in(r, k).map_or_else(String::new, |met| format!(" In them, {met}."));
            let text = format!("{} at {}: {text}.{met}", k.asked, k.service);
            found.push((went_wrong(k), text, example(screen, k), k.first_failed_ns));
        }
    }
    for f in r.refused.iter().filter(|f| !is_tried_always(&f.remote)) {
        let text = format!("{} {} {}: {}.", f.process, refusals::met(f.error), f.remote, times(f.count));
        found.push((f.count, text, screen.command("requests"), None));
    }
    for (at, e) in r.ended.iter().enumerate() {
        // why requests failed comes before those that did
        let rank = if at == 0 && e.unanswered > 0 { u64::MAX } else { e.unanswered.max(e.processes) };
        found.push((rank, format!("{}.", e.sentence), screen.command("requests"), Some(e.first_ns)));
    }
    for c in &r.closed_unread {
        found.push((c.closed, format!("{}.", c.sentence), screen.command("requests"), None));
    }
    // of those in failed requests, the requests are told already; these the application may have hidden from its clients
    let may_be_hidden = |e: &&CallErrorView| e.hidden + e.outcome_unknown > 0 || e.kind.is_none();
    for e in r.call_errors.iter().filter(may_be_hidden).filter(|e| !is_greeting(&e.asked)) {
        let count = (e.hidden + e.outcome_unknown).max(1);
        found.push((count, format!("{}.", e.sentence()), screen.command("requests"), None));
    }
    found.sort_by_key(|f| std::cmp::Reverse(f.0));
    let more = found.len().saturating_sub(FINDINGS_MAX);
    for (_, text, next, since) in found.into_iter().take(FINDINGS_MAX) {
        screen.add(Section::Fails, Level::Bad, text, next);
        screen.since(since);
    }
    if more > 0 {
        let next = screen.command("requests");
        screen.add(
            Section::Fails,
            Level::Bad,
            format!("{} as well.", count(more as u64, "more fails", "more fail")),
            next,
        );
    }
    if !screen.findings.iter().any(|f| f.section == Section::Fails) {
        let (unread, unreplied) =
            r.kinds.iter().fold((0, 0), |sum, k| (sum.0 + k.outcome_unknown, sum.1 + k.unreplied));
        let unknown = unread + unreplied;
        let why = match (unread, unreplied) {
            (_, 0) => replies_unknown(unread),
            (0, _) => never_replied(unreplied),
            _ => format!("{}. {}", replies_unknown(unread), never_replied(unreplied)),
        };
        let unfinished: u64 = r.kinds.iter().map(|k| k.unfinished).sum();
        let (level, text) = match (r.requests, unknown) {
            (n, 0) if n > 0 && unfinished >= n => (Level::Unknown, "Not known: no reply was recorded.".to_owned()),
            (n, 0) if unfinished > n / 10 => {
                let ended = count(n - unfinished, "request", "requests");
                let seen = format!("None of the {ended} whose end was recorded was answered with an error.");
                (Level::Unknown, format!("{seen} For {}, no reply was recorded.", units::count(unfinished)))
            }
            (0, _) => (Level::Unknown, "Not known: no request was seen, and no connection was refused.".to_owned()),
            (n, 0) => {
                (Level::Good, format!("None of the {} was answered with an error.", count(n, "request", "requests")))
            }
            (n, u) if u >= n => (Level::Unknown, format!("Not known: {why}.")),
            (n, _) => {
                let seen =
                    format!("None of the {} was seen to be answered with an error.", count(n, "request", "requests"));
                (Level::Unknown, format!("{seen} {why}."))
            }
        };
        let next = screen.command("requests");
        screen.add(Section::Fails, level, text, next);
    }
}

/// The error that calls of a kind's failed requests met most: one of its own before a status that may be passed on.
fn met_in(r: &RequestsView, k: &KindView) -> Option<String> {
    let is_its = |e: &&CallErrorView| e.entry.as_ref() == Some(&k.service) && e.kind.as_ref() == Some(&k.asked);
    let is_worse = |e: &&CallErrorView| std::cmp::Reverse((e.is_of_its_own() && e.told() > 0, e.told()));
    let most = r.call_errors.iter().filter(is_its).min_by_key(is_worse)?;
    (most.told() > 0).then(|| most.times(most.told()))
}

/// Whether a program tries it first, and goes on where it is not there: glibc's name service cache, `syslog(3)`, libuuid's daemon.
fn is_tried_always(remote: &str) -> bool {
    let in_run = remote.strip_prefix("/var").unwrap_or(remote);
    ["/run/nscd/", "/run/uuidd/"].iter().any(|dir| in_run.starts_with(dir)) || remote == "/dev/log"
}

/// Whether clients ask it first on each connection, and go on where the server does not know it: how Redis clients name themselves.
fn is_greeting(asked: &str) -> bool {
    ["CLIENT SETINFO", "HELLO"].iter().any(|greeting| asked.starts_with(greeting))
}

/// Requests of a kind that failed, were cut short or were refused.
fn went_wrong(k: &KindView) -> u64 {
    k.without_success() + k.refused()
}

/// Whether hardly any request of a kind that makes up most of all was answered as it should.
fn has_total_failure(r: &RequestsView) -> bool {
    let fails = |k: &&KindView| went_wrong(k) as f64 >= TOTAL * k.count as f64 && k.count > 0;
    let failing: u64 = r.kinds.iter().filter(fails).map(|k| k.count).sum();
    failing as f64 >= TOTAL_OF_ALL * r.requests.max(1) as f64
}

/// One of a kind that went wrong.
fn example(screen: &Screen<'_>, k: &KindView) -> Option<String> {
    match &k.failed_example {
        Some(id) => screen.command("show").map(|c| format!("{c} {id}")),
        None => screen.command("requests").map(|c| format!("{c} --each {}", of_kind(&k.asked))),
    }
}

fn times(n: u64) -> String {
    if n == 1 { "once".into() } else { format!("{} times", units::count(n)) }
}

/// How requests of a kind failed, if any did; single ones that were refused are the client's.
fn failures(k: &KindView) -> Option<String> {
    let is_worth = k.without_success() > 0 || k.refused() as f64 >= REFUSED_SHARE * k.count as f64;
    k.went_wrong().filter(|_| is_worth)
}

// ---------------------------------------------------------------- what limits

fn limits(screen: &mut Screen<'_>, parts: &Parts) {
    if let Part::Answer(r) = &parts.requests {
        for s in r.starved.iter().take(FINDINGS_MAX) {
            let next = screen.command("requests");
            screen.add(Section::Limits, Level::Bad, &s.sentence, next);
        }
        for t in throttled_elsewhere(r).take(FINDINGS_MAX) {
            let next = screen.command("waits").map(|c| format!("{c} --task {}", t.process));
            screen.add(Section::Limits, Level::Bad, &t.sentence, next);
        }
        for q in r.full_queues.iter().take(FINDINGS_MAX) {
            let next = screen.command("requests");
            screen.add(Section::Limits, Level::Bad, &q.sentence, next);
        }
        for h in r.held_replies.iter().take(FINDINGS_MAX) {
            let next = screen.command("requests");
            screen.add(Section::Limits, Level::Bad, &h.sentence, next);
        }
    }
    let Part::Answer(f) = &parts.forecast else {
        return screen.missing(Section::Limits, &parts.forecast, "why");
    };
    let next = screen.command("bottleneck");
    let what = if f.arrivals.model == "recorded" { "the run" } else { "mean latency" };
    let Some(step) = f.bottlenecks.first() else {
        return screen.add(Section::Limits, Level::Unknown, "Not known: nothing was replayed.", next);
    };
    let sentence = step.bottleneck.sentence(what);
    match f.calibration.sentence() {
        Some(misses) => screen.add(Section::Limits, Level::Unknown, format!("{misses} {sentence}"), next),
        None => {
            let fits =
                format!(" A replay of the unchanged recording misses the measurements by {:.0} %.", 100.0 * f.misses());
            screen.add(Section::Limits, Level::Fact, sentence + &fits, next);
        }
    }
}

// ---------------------------------------------------------------- how far to believe it

fn trust(screen: &mut Screen<'_>, parts: &Parts) {
    if let Part::Answer(r) = &parts.requests {
        let incomplete: u64 = r.kinds.iter().map(|k| k.incomplete).sum();
        let orphans: u64 = r.orphans.iter().map(|o| o.count).sum();
        let cut_off: u64 = r.kinds.iter().map(|k| k.cut_off).sum();
        let mut text = format!(
            "{} of {} have a complete path{}.",
            units::count(r.requests.saturating_sub(incomplete)),
            count(r.requests, "request", "requests"),
            r.cut_off().map_or_else(String::new, |text| format!("; {text}")),
        );
        if orphans > 0 {
            let _ = write!(text, " {} could not be assigned to a request.", count(orphans, "call", "calls"));
        }
        let leaving = r.leaving();
        let lacking = incomplete.saturating_sub(cut_off);
        let level = match &leaving {
            _ if lacking as f64 > INCOMPLETE_BAD * r.requests as f64 => Level::Bad,
            _ if lacking + orphans > 0 => Level::Unknown,
            Some(_) => Level::Unknown,
            None => Level::Good,
        };
        if r.requests + orphans > 0 {
            let there: Vec<&str> = r.unwatched.iter().map(|u| u.service.as_str()).collect();
            let next = match leaving {
                Some(leaving) => {
                    text = format!("{text} {leaving}");
                    watch_there_too(parts, &there).filter(|_| lacking + orphans == 0)
                }
                None => None,
            };
            let next = next.or_else(|| screen.command("requests"));
            screen.add(Section::Trust, level, text, next);
        }
        if r.is_masked() {
            let next = screen.command("requests");
            screen.add(Section::Trust, Level::Fact, MASKED_WORDS, next);
        }
        if !r.queued.is_empty() {
            let what: Vec<String> =
                r.queued.iter().take(FINDINGS_MAX).map(|q| format!("{} at {}", q.asked, q.service)).collect();
            let text =
                format!("Not known: what happens to messages put into queues ({}); paths end there.", what.join(", "));
            let next = screen.command("requests");
            screen.add(Section::Trust, Level::Unknown, text, next);
        }
    }
    let lost: Vec<&Loss> = parts.losses.iter().filter(|l| l.severity != Severity::Info.name()).collect();
    let next = screen.command("info");
    for l in lost.iter().take(FINDINGS_MAX) {
        let host = l.host.as_ref().map_or(String::new(), |h| format!(" on {h}"));
        let touches =
            if l.touches.is_empty() { String::new() } else { format!(" May affect: {}.", l.touches.join(", ")) };
        let text = format!("Lost: {} × {}{host}. {}{touches}", l.id, units::count(l.count), l.meaning);
        // others leave answers incomplete, which these say themselves
        let level = if l.severity == Severity::Error.name() { Level::Bad } else { Level::Unknown };
        screen.add(Section::Trust, level, text, next.clone());
    }
    if lost.len() > FINDINGS_MAX {
        let text = format!("{} more kinds of loss.", lost.len() - FINDINGS_MAX);
        screen.add(Section::Trust, Level::Unknown, text, next.clone());
    }
    match &parts.info {
        Part::Answer(_) if lost.is_empty() => {
            screen.add(Section::Trust, Level::Good, "No data lost that affects an answer.", next);
        }
        Part::Answer(_) => {}
        other => screen.missing(Section::Trust, other, "info"),
    }
}
