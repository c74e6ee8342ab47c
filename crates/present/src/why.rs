//! Why some took longer than others, as text and as JSON.

mod words;

use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use crate::waits::name as state_name;
use serde::Serialize;
use std::fmt::Write as _;
use wakepath_analysis::why::{Answer, Cause, Comparison, Difference, Group, KindName, Part};
use wakepath_model::syscalls;

/// A difference that is less than this part of the whole is not worth a row of its own.
const SHARE_SHOWN: f64 = 0.005;
/// Digits of a request's id in a table; `wakepath waits` takes first digits.
const DIGITS: usize = 8;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The slow requests of a recording with its typical ones.
    Slowest,
    /// Two recordings.
    BeforeAfter,
    /// Tasks in two recordings.
    Tasks,
}

/// One side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct GroupView {
    /// Which ones they are, in words.
    pub label: String,
    /// How many there are.
    pub found: u64,
    /// How many of them the averages are of.
    pub count: u64,
    /// Not all were looked at, but one in so many.
    pub is_sample: bool,
    /// Average length (ns).
    pub mean_ns: u64,
    /// Median length (ns).
    pub p50_ns: u64,
    /// Longest (ns).
    pub max_ns: u64,
    /// Average of all that were answered, those too that are left out for an incomplete path (ns); null where that is not
    /// asked, as of tasks.
    pub all_mean_ns: Option<u64>,
    /// Of `count`, whose reply said that they failed.
    pub failed: u64,
    /// Left out, since their path is incomplete.
    pub incomplete: u64,
    /// Left out, since they had no whole reply.
    pub unanswered: u64,
}

/// A part of a difference.
#[derive(Clone, Debug, Serialize)]
pub struct PartView {
    /// How much more on average (ns).
    pub more_ns: i64,
    /// What whoever was waited for did.
    pub state: &'static str,
    /// The system call in which was waited.
    pub syscall: Option<String>,
    /// Who held the lock or the processor, sent the message, or was waited for.
    pub by: Option<String>,
    /// The connection, device or name server.
    pub object: Option<String>,
    /// Whose time passed meanwhile, where that was another's.
    pub meanwhile: Option<String>,
    /// Of a lock: another thread of the same process holds it.
    pub is_own_thread: bool,
    /// What the service had been asked for, where another service asked.
    pub serving: Option<String>,
    /// Why no more is known.
    pub reason: Option<&'static str>,
}

/// What the slow ones spend more of.
#[derive(Clone, Debug, Serialize)]
pub struct DifferenceView {
    /// Its place, from 1.
    pub rank: u32,
    /// What the time goes to.
    pub cause: &'static str,
    /// In words.
    pub text: String,
    /// In which service or process.
    pub service: String,
    /// On which host.
    pub host: String,
    /// What its largest part is, as of `parts`.
    #[serde(flatten)]
    pub main: MainView,
    /// How much more on average (ns); negative = less.
    pub more_ns: i64,
    /// Its share of the whole difference; 1 = all of it.
    pub share: f64,
    /// Average of the slow ones (ns).
    pub slow_ns: u64,
    /// Average of the typical ones (ns).
    pub typical_ns: u64,
    /// How many of the slow ones have at least half of the average difference.
    pub requests_with: u64,
    /// Of those, the ones that have most of it.
    pub examples: Vec<String>,
    /// What it consists of, largest part first.
    pub parts: Vec<PartView>,
}

/// What the largest part of a difference says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MainView {
    /// As of a part.
    pub state: Option<&'static str>,
    /// As of a part.
    pub syscall: Option<String>,
    /// As of a part.
    pub by: Option<String>,
    /// As of a part.
    pub object: Option<String>,
    /// As of a part.
    pub serving: Option<String>,
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct KindView {
    /// What was asked, or the task.
    pub kind: String,
    /// Of which service; empty for a task.
    pub service: String,
    /// How many there are in all.
    pub requests: u64,
    /// The answer in one sentence.
    pub sentence: String,
    /// The ones that are asked about.
    pub slow: GroupView,
    /// What they are compared with.
    pub typical: GroupView,
    /// How much longer the slow ones are on average (ns).
    pub more_ns: i64,
    /// Where, largest first.
    pub differences: Vec<DifferenceView>,
    /// The whole difference without those listed: smaller ones, and what rounding leaves (ns).
    pub rest_ns: i64,
    /// What to run next.
    pub next: Option<String>,
}

/// A kind that was not compared.
#[derive(Clone, Debug, Serialize)]
pub struct OneSidedView {
    /// Which service.
    pub service: String,
    /// What was asked.
    pub kind: String,
    /// How many.
    pub requests: u64,
}

/// The answer to `wakepath why`.
#[derive(Clone, Debug, Serialize)]
pub struct WhyView {
    /// What is compared.
    pub mode: Mode,
    /// The comparisons, those with the most time lost first.
    pub kinds: Vec<KindView>,
    /// Kinds with too few requests to be compared.
    pub too_few_kinds: u64,
    /// How many requests those have.
    pub too_few_requests: u64,
    /// Further kinds, which were not looked at.
    pub further_kinds: u64,
    /// Kinds that only one of two recordings has.
    pub one_sided: Vec<OneSidedView>,
    /// Reads of the index that failed.
    pub failed_reads: u64,
}

/// Whose the comparisons are, in words.
pub struct Words<'w> {
    /// What is compared.
    pub mode: Mode,
    /// The share of the slow ones, 0 to 1.
    pub slowest: f64,
    /// The folder of the slow ones, as it was given.
    pub folder: &'w str,
    /// The folder of the others.
    pub before: &'w str,
}

impl WhyView {
    /// Of kinds of request.
    pub fn of_requests(answer: &Answer, words: &Words<'_>, failed_reads: u64) -> WhyView {
        let show = |id: u64| format!("{id:016x}");
        let kinds = answer.kinds.iter().map(|k| kind_view(&k.name, k.requests, &k.compared, words, &show)).collect();
        let mut one_sided: Vec<OneSidedView> = answer
            .one_sided
            .iter()
            .map(|(name, requests)| OneSidedView { service: name.0.clone(), kind: name.1.clone(), requests: *requests })
            .collect();
        one_sided.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.kind.cmp(&b.kind)));
        WhyView {
            mode: words.mode,
            kinds,
            too_few_kinds: answer.too_few.0,
            too_few_requests: answer.too_few.1,
            further_kinds: answer.further,
            one_sided,
            failed_reads,
        }
    }

    /// Of one task, or several of a name; `show` names an example.
    pub fn of_tasks(
        task: &str,
        compared: &Comparison,
        words: &Words<'_>,
        show: &dyn Fn(u64) -> String,
        failed_reads: u64,
    ) -> WhyView {
        let name = (String::new(), task.to_owned());
        WhyView {
            mode: words.mode,
            kinds: vec![kind_view(&name, compared.slow.found, compared, words, show)],
            too_few_kinds: 0,
            too_few_requests: 0,
            further_kinds: 0,
            one_sided: Vec::new(),
            failed_reads,
        }
    }

    /// Whether every path that was asked for could be looked at.
    pub fn is_complete(&self) -> bool {
        let whole = |g: &GroupView| g.incomplete == 0 && g.unanswered == 0;
        self.failed_reads == 0 && self.kinds.iter().all(|k| whole(&k.slow) && whole(&k.typical))
    }

    /// As text for a terminal; at most `limit` differences of each kind (0 = all).
    pub fn render(&self, limit: usize, style: Style) -> String {
        let mut out = String::new();
        for (i, kind) in self.kinds.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            self.kind(kind, limit, &mut out, style);
        }
        if self.kinds.is_empty() {
            out.push_str(&wrap(self.nothing(), "", style.prose()));
        }
        let mut notes: Vec<String> = Vec::new();
        if self.further_kinds > 0 {
            notes.push(format!(
                "{} more kinds lost less time; --kinds or --kind asks for them, `wakepath requests` lists them.",
                units::count(self.further_kinds)
            ));
        }
        if self.too_few_kinds > 0 {
            notes.push(format!(
                "{} with fewer than {} requests were not compared ({} requests).",
                plural(self.too_few_kinds, "kind", "kinds"),
                wakepath_analysis::why::REQUESTS_MIN,
                units::count(self.too_few_requests)
            ));
        }
        if !self.one_sided.is_empty() {
            const SHOWN: usize = 3;
            let named: Vec<String> = self
                .one_sided
                .iter()
                .take(SHOWN)
                .map(|k| format!("{} at {} ({})", k.kind, k.service, units::count(k.requests)))
                .collect();
            let more = if self.one_sided.len() > SHOWN { ", …" } else { "" };
            let count = plural(self.one_sided.len() as u64, "kind is", "kinds are");
            notes.push(format!("{count} in only one of the two: {}{more}.", named.join(", ")));
        }
        if self.failed_reads > 0 {
            notes.push(format!("{} reads of the index failed.", units::count(self.failed_reads)));
        }
        if !notes.is_empty() {
            out.push('\n');
            for note in notes {
                out.push_str(&wrap(&sanitise(&note), "", style.prose()));
            }
        }
        out
    }

    fn nothing(&self) -> &'static str {
        match self.mode {
            Mode::Slowest if self.too_few_kinds == 0 => {
                "There are no requests to compare. Of a folder without requests, compare a task with itself in another \
                 recording: wakepath why BEFORE AFTER --task NAME."
            }
            _ => "No kind of request can be compared: `wakepath requests` lists what there is.",
        }
    }

    fn kind(&self, k: &KindView, limit: usize, out: &mut String, style: Style) {
        let sentence = wrap(&sanitise(&k.sentence), "", style.prose());
        for line in sentence.lines() {
            let _ = writeln!(out, "{}", style.paint(line, Tint::Strong));
        }
        let is_compared = k.slow.count > 0 && k.typical.count > 0;
        if is_compared && !k.differences.is_empty() {
            out.push('\n');
            out.push_str(&self.table(k, limit).render(style));
        }
        out.push('\n');
        for note in notes(k) {
            out.push_str(&wrap(&sanitise(&note), "", style.prose()));
        }
        if let Some(next) = &k.next {
            let _ = writeln!(out, "Next: {}", sanitise(next));
        }
    }

    fn table(&self, k: &KindView, limit: usize) -> Table {
        let are_tasks = self.mode == Mode::Tasks;
        let one = |d: &&DifferenceView| d.share.abs() >= SHARE_SHOWN;
        let limit = if limit == 0 { usize::MAX } else { limit };
        let shown: Vec<&DifferenceView> = k.differences.iter().filter(one).take(limit).collect();
        let mut t = Table::new(&[
            Column::number(if k.more_ns < 0 { "less" } else { "more" }),
            Column::number("share"),
            Column::number(if are_tasks { "tasks" } else { "requests" }),
            Column::text("on what"),
        ]);
        let many_hosts = k.differences.iter().any(|d| d.host != k.differences[0].host);
        for d in &shown {
            let host = if many_hosts { format!(" on {}", d.host) } else { String::new() };
            t.row([
                Cell::from(relative(d.more_ns, k.more_ns)),
                Cell::from(percent(d.share)),
                Cell::from(format!("{} of {}", units::count(d.requests_with), units::count(k.slow.count))),
                Cell::from(format!("{}{host}", d.text)),
            ]);
            let examples: Vec<&str> = d.examples.iter().map(|e| short(e)).collect();
            let examples = (!examples.is_empty()).then(|| format!("  e.g. {}", examples.join(" ")));
            for text in sub_rows(d).into_iter().chain(examples) {
                t.row([Cell::default(), Cell::default(), Cell::default(), Cell::tinted(text, Tint::Dim)]);
            }
        }
        let told: i64 = shown.iter().map(|d| d.more_ns).sum();
        let rest = k.more_ns - told;
        if rest != 0 {
            let others = k.differences.len() - shown.len();
            let text = match others {
                0 => "the rest".into(),
                n => format!("the rest: {}", plural(n as u64, "smaller difference", "smaller differences")),
            };
            let share = if k.more_ns == 0 { 0.0 } else { rest as f64 / k.more_ns as f64 };
            t.row([
                Cell::from(relative(rest, k.more_ns)),
                Cell::from(percent(share)),
                Cell::default(),
                Cell::tinted(text, Tint::Dim),
            ]);
        }
        t.row([Cell::from(relative(k.more_ns, k.more_ns)), Cell::from("100 %"), Cell::default(), Cell::from("in all")]);
        t
    }
}

fn short(example: &str) -> &str {
    if example.len() == 16 && example.bytes().all(|b| b.is_ascii_hexdigit()) { &example[..DIGITS] } else { example }
}

fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", units::count(n), if n == 1 { one } else { many })
}

/// How much more, or less where all is less: `12 ms`, `−3 ms` against the direction.
fn relative(ns: i64, whole: i64) -> String {
    let is_against = (ns < 0) != (whole < 0) && ns != 0;
    format!("{}{}", if is_against { "−" } else { "" }, units::duration(ns.unsigned_abs()))
}

fn percent(share: f64) -> String {
    let text = format!("{:.0} %", share * 100.0);
    if text == "-0 %" { "0 %".into() } else { text.replace('-', "−") }
}

/// What a difference consists of, where its own row does not say it.
fn sub_rows(d: &DifferenceView) -> Vec<String> {
    const LEAST: f64 = 0.15;
    let mut rows: Vec<(i64, String)> = Vec::new();
    for p in &d.parts {
        let mut text = match (&p.meanwhile, d.cause) {
            (Some(who), _) => format!("meanwhile {who} {}", doing(p.state)),
            (None, "lock") => continue,
            _ => String::new(),
        };
        if p.by != d.main.by || d.cause == "preempted" {
            let by = p.by.as_deref().unwrap_or("nobody that was seen");
            text = if text.is_empty() { format!("by {by}") } else { format!("{text}, by {by}") };
        }
        if p.object != d.main.object
            && let Some(object) = &p.object
        {
            let _ = write!(text, "{}{object}", if text.is_empty() { "" } else { ", " });
        }
        if p.serving != d.main.serving
            && let Some(asked) = &p.serving
        {
            let _ = write!(text, "{}for {asked}", if text.is_empty() { "" } else { ", " });
        }
        if text.is_empty() && p.syscall != d.main.syscall {
            text = p.syscall.as_ref().map_or_else(|| "in no system call".into(), |call| format!("in {call}"));
        }
        match rows.iter_mut().find(|r| r.1 == text) {
            _ if text.is_empty() => {}
            Some(row) => row.0 += p.more_ns,
            None => rows.push((p.more_ns, text)),
        }
    }
    rows.retain(|r| r.0 as f64 / d.more_ns as f64 >= LEAST);
    // one row that says what stands above it already says nothing
    if rows.len() == 1 && d.cause == "preempted" {
        rows.clear();
    }
    rows.into_iter().map(|(ns, text)| format!("  {} {text}", units::duration(ns.unsigned_abs()))).collect()
}

/// What somebody did, by the name of the state.
fn doing(state: &str) -> String {
    match state {
        "running" => "ran".into(),
        "preempted" => "was ready and had no processor".into(),
        "timer" => "slept".into(),
        "unknown" => "did what is not known".into(),
        other => format!("waited ({other})"),
    }
}

fn notes(k: &KindView) -> Vec<String> {
    let mut out = Vec::new();
    for g in [&k.slow, &k.typical] {
        if g.is_sample {
            let (count, found) = (units::count(g.count), units::count(g.found));
            out.push(format!("Of {}, {count} of {found} were looked at, evenly picked.", g.label));
        }
        let mut left: Vec<String> = Vec::new();
        if g.incomplete > 0 {
            left.push(format!("{} with an incomplete path", units::count(g.incomplete)));
        }
        if g.unanswered > 0 {
            left.push(format!("{} without a whole reply", units::count(g.unanswered)));
        }
        if !left.is_empty() {
            out.push(format!("Left out of {}: {}.", g.label, left.join(", ")));
        }
    }
    if k.slow.failed > 0 {
        let count = format!("{} failed", units::count(k.slow.failed));
        out.push(format!("Of {}, {count} by their reply.", k.slow.label));
    }
    let unknown: i64 = k.differences.iter().filter(|d| d.cause == Cause::Unknown.name()).map(|d| d.more_ns).sum();
    if k.more_ns != 0 && unknown as f64 / k.more_ns as f64 >= SHARE_SHOWN {
        out.push(format!("Not known: {} of it, see the rows that say so.", units::duration(unknown.unsigned_abs())));
    }
    out
}

fn kind_view(
    name: &KindName,
    requests: u64,
    c: &Comparison,
    words: &Words<'_>,
    show: &dyn Fn(u64) -> String,
) -> KindView {
    let (slow_label, typical_label) = match words.mode {
        Mode::Slowest => (
            format!("the slowest {}", share_of(c.slow.found, requests, words.slowest)),
            "the typical ones (the middle half by duration)".to_owned(),
        ),
        _ => (format!("those of {}", words.folder), format!("those of {}", words.before)),
    };
    let differences: Vec<DifferenceView> =
        c.differences.iter().zip(1..).map(|(d, rank)| difference_view(d, rank, c.more_ns, show)).collect();
    let example = differences.first().and_then(|d| d.examples.first());
    let next = example.map(|e| match words.mode {
        Mode::Tasks => format!("wakepath waits {} --task {e}", words.folder),
        _ => format!("wakepath waits {} --request {}", words.folder, short(e)),
    });
    let slow = group_view(&c.slow, slow_label);
    let typical = group_view(&c.typical, typical_label);
    let mut view = KindView {
        kind: name.1.clone(),
        service: name.0.clone(),
        requests,
        sentence: String::new(),
        slow,
        typical,
        more_ns: c.more_ns,
        differences,
        rest_ns: c.rest_ns,
        next,
    };
    view.sentence = sentence(&view, words);
    view
}

fn share_of(found: u64, requests: u64, asked: f64) -> String {
    let real = found as f64 / requests.max(1) as f64;
    // few requests have no hundredth
    let share = if (real - asked).abs() / asked > 0.5 { real } else { asked };
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn group_view(g: &Group, label: String) -> GroupView {
    GroupView {
        label,
        found: g.found,
        count: g.count(),
        is_sample: g.count() + g.left_out.incomplete + g.left_out.unanswered < g.found,
        mean_ns: g.mean_ns(),
        p50_ns: g.durations.quantile(0.5),
        max_ns: g.durations.max(),
        all_mean_ns: (g.answered.count() > 0).then(|| g.answered.mean()),
        failed: g.failed,
        incomplete: g.left_out.incomplete,
        unanswered: g.left_out.unanswered,
    }
}

fn call(syscall: Option<u16>) -> Option<String> {
    syscall.map(|nr| syscalls::name(nr).map_or_else(|| format!("syscall {nr}"), str::to_owned))
}

fn difference_view(d: &Difference, rank: u32, whole: i64, show: &dyn Fn(u64) -> String) -> DifferenceView {
    let main = d.parts.first().map(|p| &p.detail);
    DifferenceView {
        rank,
        cause: d.what.cause.name(),
        text: words::text(d, main),
        service: d.what.service.clone(),
        host: d.what.host.clone(),
        main: main.map_or_else(MainView::default, |m| MainView {
            state: Some(state_name(m.state)),
            syscall: call(m.syscall),
            by: m.by.clone(),
            object: m.object.clone(),
            serving: m.serving.clone(),
        }),
        more_ns: d.more_ns,
        share: if whole == 0 { 0.0 } else { d.more_ns as f64 / whole as f64 },
        slow_ns: d.slow_ns,
        typical_ns: d.typical_ns,
        requests_with: d.with,
        examples: d.examples.iter().map(|&id| show(id)).collect(),
        parts: d.parts.iter().map(part_view).collect(),
    }
}

fn part_view(p: &Part) -> PartView {
    let d = &p.detail;
    PartView {
        more_ns: p.more_ns,
        state: state_name(d.state),
        syscall: call(d.syscall),
        by: d.by.clone(),
        object: d.object.clone(),
        meanwhile: d.meanwhile.clone(),
        is_own_thread: d.is_own_thread,
        serving: d.serving.clone(),
        reason: d.reason,
    }
}

/// From here on the ones that could be looked at are not like all of them.
const UNLIKE: f64 = 0.25;

impl GroupView {
    /// What must be said first where the paths that are whole are not like the others.
    fn unlike(&self) -> Option<String> {
        let all = self.all_mean_ns.filter(|_| self.incomplete > 0 && self.count > 0)?;
        let (less, more) = (all.min(self.mean_ns).max(1), all.max(self.mean_ns));
        (more as f64 > less as f64 * (1.0 + UNLIKE)).then(|| {
            format!(
                "Of {}, {} have an incomplete path, and the {} that could be looked at are not like them: these took {} on average, \
                 all of them {}. What follows holds for these alone. ",
                self.label,
                units::count(self.incomplete),
                units::count(self.count),
                units::duration(self.mean_ns),
                units::duration(all)
            )
        })
    }
}

/// The answer in one sentence; before it, whom it is not of.
fn sentence(k: &KindView, words: &Words<'_>) -> String {
    let unlike: String = [&k.slow, &k.typical].into_iter().filter_map(GroupView::unlike).collect();
    format!("{unlike}{}", comparison(k, words))
}

fn comparison(k: &KindView, words: &Words<'_>) -> String {
    const SECOND: f64 = 0.2;
    const HARDLY: f64 = 0.1;
    let kind = if k.service.is_empty() { k.kind.clone() } else { format!("{} at {}", k.kind, k.service) };
    let found = format!("{} of {}", units::count(k.slow.count), units::count(k.requests));
    let (slow, typical) = (units::duration(k.slow.mean_ns), units::duration(k.typical.mean_ns));
    if k.slow.count == 0 || k.typical.count == 0 {
        let who = if k.slow.count == 0 { &k.slow } else { &k.typical };
        return format!(
            "{kind}: nothing can be said, since of {} none could be looked at ({} with an incomplete path, {} without \
             a whole reply).",
            who.label,
            units::count(who.incomplete),
            units::count(who.unanswered),
        );
    }
    let head = match words.mode {
        Mode::Slowest => {
            let label = k.slow.label.trim_start_matches("the ");
            format!("The {label} of {kind} ({found}) took {slow} on average, the typical ones {typical}")
        }
        Mode::BeforeAfter => {
            format!("{kind} takes {slow} on average in {}, {typical} in {}", words.folder, words.before)
        }
        Mode::Tasks => format!("{kind} took {slow} in {}, {typical} in {}", words.folder, words.before),
    };
    if k.more_ns.unsigned_abs() as f64 <= HARDLY * k.typical.mean_ns as f64 {
        return format!("{head}: hardly a difference.");
    }
    let word = if k.more_ns < 0 { "less" } else { "more" };
    let mut out = format!("{head}.");
    for (i, d) in k.differences.iter().take_while(|d| d.share >= SECOND).take(3).enumerate() {
        let part = units::duration(d.more_ns.unsigned_abs());
        let _ = match i {
            0 => {
                let whole = units::duration(k.more_ns.unsigned_abs());
                // other things may have gone the other way
                if d.share > 1.0 {
                    write!(out, " Of that, {part} {word} are {}, and other things went the other way", d.text)
                } else {
                    write!(out, " Of the {whole} {word}, {part} are {}", d.text)
                }
            }
            _ => write!(out, "; {part} {}", d.text),
        };
    }
    if k.differences.first().is_none_or(|d| d.share < SECOND) {
        let _ = write!(out, " No single thing stands out: the largest is less than a fifth of the difference");
    }
    out.push('.');
    out
}
