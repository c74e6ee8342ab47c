//! Why some took longer than others, as text and as JSON.

mod text;
mod views;
mod words;

use crate::requests::HeldRepliesView;
use crate::table::{Cell, Column, Table};
use crate::text::{Style, Tint, sanitise, wrap};
use crate::units;
use serde::Serialize;
use std::fmt::Write as _;
use views::kind_view;
use wakepath_analysis::why::{Answer, CallDifference, Cause, Comparison, Difference, Group, KindName, Part};
use wakepath_model::syscalls;

/// A difference that is less than this part of the whole is not worth a row of its own.
const SHARE_SHOWN: f64 = 0.005;
/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The slow requests of a recording with its typical ones.
    Slowest,
    /// Selected requests of a recording with the others of their kinds.
    Selected,
    /// Two recordings, or two periods.
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
    /// Of `count`, whose client left before the reply: their time is that of the service.
    pub abandoned: u64,
    /// Left out, since their path is incomplete.
    pub incomplete: u64,
    /// Left out, because they had no complete reply.
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

/// A kind of call that the slow ones make more or fewer of.
#[derive(Clone, Debug, Serialize)]
pub struct CallCountView {
    /// Which service is called.
    pub service: String,
    /// What it is asked for.
    pub kind: String,
    /// How many of these calls a slow one makes on average.
    pub slow: f64,
    /// How many a typical one makes.
    pub typical: f64,
    /// How many of the slow ones have at least half of the difference.
    pub requests_with: u64,
}

/// What requests spend most of their time on.
#[derive(Clone, Debug, Serialize)]
pub struct UsualView {
    /// What the time goes to, as of a difference.
    pub cause: &'static str,
    /// In words.
    pub text: String,
    /// How much on average (ns).
    pub mean_ns: u64,
}

impl UsualView {
    /// Whether it is known what the time goes to.
    pub fn is_known(&self) -> bool {
        self.cause != Cause::Unknown.name()
    }
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
    /// Which calls they make more or fewer of, the largest difference first.
    pub calls: Vec<CallCountView>,
    /// What the typical ones spend most of their time on; null where there are none.
    pub usual: Option<UsualView>,
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
    /// Kinds that only one of two recordings or periods has.
    pub one_sided: Vec<OneSidedView>,
    /// Reads of the index that failed.
    pub failed_reads: u64,
    /// Services whose replies TCP held back when they were written, of all folders; none where tasks are compared.
    pub held_replies: Vec<HeldRepliesView>,
}

/// Whose the comparisons are, in words.
pub struct Words<'w> {
    /// What is compared.
    pub mode: Mode,
    /// The share of the slow ones, 0 to 1.
    pub slowest: f64,
    /// The folder of the slow ones, as it is given to commands.
    pub folder: &'w str,
    /// What sentences call the side of the slow ones, where two are compared: a folder or a period.
    pub after: &'w str,
    /// The same of the other side.
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
            held_replies: Vec::new(),
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
            held_replies: Vec::new(),
        }
    }

    /// Whether every path that was asked for could be looked at.
    pub fn is_complete(&self) -> bool {
        let whole = |g: &GroupView| g.incomplete == 0 && g.unanswered == 0;
        self.failed_reads == 0 && self.kinds.iter().all(|k| whole(&k.slow) && whole(&k.typical))
    }
}

/// From here on the ones that could be looked at are not like all of them.
const UNLIKE: f64 = 0.25;

impl GroupView {
    /// What must be said first where the paths that are whole are not like the others.
    pub(crate) fn unlike(&self) -> Option<String> {
        let all = self.all_mean_ns.filter(|_| self.incomplete > 0 && self.count > 0)?;
        let (less, more) = (all.min(self.mean_ns).max(1), all.max(self.mean_ns));
        (more as f64 > less as f64 * (1.0 + UNLIKE)).then(|| {
            format!(
                "Of {}, {} an incomplete path, and the {} that could be examined {} not like them: {} took \
                 {} on average, all of them {}. What follows holds for {} alone. ",
                self.label,
                if self.incomplete == 1 {
                    "1 has".to_owned()
                } else {
                    format!("{} have", units::count(self.incomplete))
                },
                units::count(self.count),
                if self.count == 1 { "is" } else { "are" },
                if self.count == 1 { "it" } else { "these" },
                units::duration(self.mean_ns),
                units::duration(all),
                if self.count == 1 { "it" } else { "these" },
            )
        })
    }
}

impl GroupView {
    /// How long all of them took, where the ones that are whole are not like the others.
    fn all_of_them(&self) -> String {
        let all = self.unlike().and(self.all_mean_ns);
        all.map_or_else(String::new, |ns| format!(" (with those left out: {})", units::duration(ns)))
    }

    /// That clients did not wait for the reply, where some did not.
    fn abandonment(&self) -> String {
        match self.abandoned {
            0 => String::new(),
            n if n == self.count => " Their clients left before the reply; the times are the service's.".into(),
            n => format!(
                " The clients of {} of these {} left before the reply; their times are the service's.",
                units::count(n),
                units::count(self.count)
            ),
        }
    }

    /// Why none of them could be examined.
    fn why_nothing(&self) -> String {
        let left_out = [(self.incomplete, "with an incomplete path"), (self.unanswered, "without a complete reply")];
        let left_out: Vec<String> =
            left_out.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", units::count(*n))).collect();
        match (self.found, left_out.is_empty()) {
            (0, _) => format!("no request belongs to {}", self.label),
            (_, true) => format!("the waits of {} could not be followed", self.label),
            (_, false) => format!("none of {} could be examined ({})", self.label, left_out.join(", ")),
        }
    }
}

/// The answer in one sentence; before it, whom it is not of.
fn sentence(k: &KindView, words: &Words<'_>) -> String {
    // of those of which nothing follows, nothing needs to be said first; of the slowest, the sentence says it itself
    let groups = [&k.slow, &k.typical];
    let compares = groups.iter().all(|g| g.count > 0) && words.mode != Mode::Slowest;
    let unlike: String = groups.into_iter().filter(|_| compares).filter_map(GroupView::unlike).collect();
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
        return format!("{kind}: nothing can be said, because {}.", who.why_nothing());
    }
    let head = match words.mode {
        Mode::Slowest => {
            let label = k.slow.label.trim_start_matches("the ");
            let of_all = format!("{label} of the {} requests {kind}", units::count(k.requests));
            let who = match (k.slow.incomplete, k.slow.unanswered) {
                (0, 0) => format!("The {of_all} took"),
                (_, unanswered) => {
                    let whole = if unanswered > 0 { "complete path and reply" } else { "complete path" };
                    let count = if k.slow.count == 1 { "one".to_owned() } else { units::count(k.slow.count) };
                    format!("Of the {of_all}, the {count} with a {whole} took")
                }
            };
            let (all_slow, all_typical) = (k.slow.all_of_them(), k.typical.all_of_them());
            format!("{who} {slow} on average{all_slow}, the middle half {typical}{all_typical}")
        }
        Mode::Selected => {
            format!("The selected ones of {kind} ({found}) took {slow} on average, the others {typical}")
        }
        Mode::BeforeAfter => {
            format!("{kind} takes {slow} on average in {}, {typical} in {}", words.after, words.before)
        }
        Mode::Tasks => format!("{kind} took {slow} in {}, {typical} in {}", words.after, words.before),
    };
    if k.more_ns.unsigned_abs() as f64 <= HARDLY * k.typical.mean_ns as f64 {
        let unlike: String = [&k.slow, &k.typical].into_iter().filter_map(GroupView::unlike).collect();
        return match words.mode {
            Mode::Slowest => format!("{unlike}{}", alike(k, &kind)),
            _ => format!("{head}: almost no difference."),
        };
    }
    let word = if k.more_ns < 0 { "less" } else { "more" };
    let mut out = format!("{head}.{}", k.slow.abandonment());
    for (i, d) in k.differences.iter().take_while(|d| d.share >= SECOND).take(3).enumerate() {
        let part = units::duration(d.more_ns.unsigned_abs());
        let _ = match i {
            0 => {
                let whole = units::duration(k.more_ns.unsigned_abs());
                // other things may have gone the other way
                if d.share > 1.0 {
                    {
                        let rest = if k.more_ns < 0 { "more" } else { "less" };
                        write!(out, " {part} {word} are {}; other parts take {rest} time", d.text)
                    }
                } else {
                    write!(out, " Of the {whole} {word}, {part} are {}", d.text)
                }
            }
            _ => write!(out, "; {part} {}", d.text),
        };
    }
    if k.differences.first().is_none_or(|d| d.share < SECOND) {
        let _ = write!(out, " No single cause stands out: the largest is less than 20 % of the difference");
    }
    out.push('.');
    out + &more_calls(k, words)
}

/// What all requests of a kind take their time for, where none is slow against the others.
fn alike(k: &KindView, kind: &str) -> String {
    let mut text = format!(
        "All {} requests {kind} take about equally long: {} on average, {} {}.{}",
        units::count(k.requests),
        units::duration(k.typical.mean_ns),
        k.slow.label,
        units::duration(k.slow.mean_ns),
        k.slow.abandonment(),
    );
    if let Some(usual) = k.usual.as_ref().filter(|u| u.is_known()) {
        let _ = write!(text, " Of that, {} are {}.", units::duration(usual.mean_ns), usual.text);
    }
    text
}

/// The kind of call whose number differs most, where most of the slow ones make clearly more or fewer of it.
fn more_calls(k: &KindView, words: &Words<'_>) -> String {
    let is_clear = |c: &&CallCountView| (c.slow - c.typical).abs() >= 1.0 && 2 * c.requests_with >= k.slow.count;
    let Some(c) = k.calls.iter().find(is_clear) else { return String::new() };
    let (call, slow, typical) = (format!("{} at {}", c.kind, c.service), c.slow, c.typical);
    match words.mode {
        Mode::Slowest => {
            format!(" A slow one leads to {slow:.1} calls of {call} on average, a typical one to {typical:.1}.")
        }
        Mode::Selected => {
            format!(" A selected one leads to {slow:.1} calls of {call} on average, another one to {typical:.1}.")
        }
        Mode::BeforeAfter | Mode::Tasks => format!(
            " A request leads to {slow:.1} calls of {call} on average in {}, to {typical:.1} in {}.",
            words.after, words.before
        ),
    }
}
