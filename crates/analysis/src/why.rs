//! Why some took longer than others: where their time went, compared cause by cause.
//!
//! Two groups of paths are compared by their average: the slow requests of a kind and the typical ones, or all of a kind
//! in two recordings, or a task in two. Averages are whole nanoseconds; what rounding leaves goes to the rest, so that the
//! differences and the rest add up to the whole difference exactly.

mod calls;
mod causes;
mod comparison;
mod group;
mod selected;

pub use crate::causes::Cause;
pub use calls::CallDifference;
pub use causes::{Detail, Reader, What};
pub use comparison::{Comparison, Difference, Part};
pub use group::{Group, LeftOut};
pub use selected::selected;

use crate::active_path::{active_path, lifetime};
use crate::critical_path::critical_path;
use crate::each::End;
use crate::histogram::Histogram;
use crate::names::Names;
use crate::requests::{KINDS_MAX, awaits, opens};
use crate::selection::{Known, Placed, Selection};
use std::collections::BTreeMap;
use wakepath_causality::Learned;
use wakepath_causality::exchange::{Exchange, ExchangeFlag};
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{HostId, TaskId};

/// Most paths of a group that are looked at: more are sampled evenly.
pub const PATHS_MAX: u64 = 2000;
/// Fewer requests of a kind are not compared: there is no typical one among them.
pub const REQUESTS_MIN: u64 = 8;
/// At least so many are the slow ones, where the kind has several times as many.
const SLOW_MIN: u64 = 3;
/// The typical ones: from this quantile of their durations to that.
const TYPICAL: (f64, f64) = (0.25, 0.75);

/// One recording, with what is needed to look into it.
pub struct Recording<'a> {
    /// The folder.
    pub folder: &'a Folder,
    /// Its execution graph.
    pub index: &'a Index,
    /// Its names.
    pub names: &'a Names<'a>,
}

/// Bytes that a question about all kinds reads of a folder, about: it learns how its tasks work, and finds its paths twice.
pub fn bytes_to_read(folder: &Folder) -> u64 {
    wakepath_causality::bytes_to_read(folder) / 2 * 3
}

/// A kind of request: entry service, and what was asked.
pub type KindName = (String, String);

/// The slow requests of a kind against the typical ones.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Whose.
    pub name: KindName,
    /// How many requests it has.
    pub requests: u64,
    /// The two groups.
    pub compared: Comparison,
    /// What the slow ones of it took longer than the median, all together (ns).
    pub lost_ns: u128,
}

/// What came of a question about all kinds.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The kinds that were looked at, those with the most time lost first.
    pub kinds: Vec<Kind>,
    /// Kinds that fit the question and have too few requests to be compared, with how many requests.
    pub too_few: (u64, u64),
    /// Further kinds that fit the question and were not looked at.
    pub further: u64,
    /// Kinds that only one of the two sides has.
    pub one_sided: Vec<(KindName, u64)>,
}

/// What is asked about requests.
pub struct Question<'q> {
    /// The share of the slow ones, 0 to 1.
    pub slowest: f64,
    /// Only this kind, as `wakepath requests` prints it.
    pub kind: Option<&'q str>,
    /// Most kinds looked at.
    pub kinds_max: usize,
}

impl Question<'_> {
    fn asks_for(&self, name: &KindName) -> bool {
        self.kind.is_none_or(|k| name.1 == k || format!("{} {}", name.0, name.1) == k)
    }
}

/// Which requests of a kind are looked at, and what was found.
struct Plan {
    slow: Wanted,
    typical: Wanted,
    groups: (Group, Group),
}

/// Requests by duration: all from a value on, some of those just below.
struct Wanted {
    all: std::ops::Range<u64>,
    some: std::ops::Range<u64>,
    left: u64,
    /// One in so many is looked at.
    stride: u64,
    seen: u64,
}

impl Wanted {
    fn new(all: std::ops::Range<u64>, some: std::ops::Range<u64>, left: u64, expected: u64) -> Wanted {
        Wanted { all, some, left, stride: expected.div_ceil(PATHS_MAX).max(1), seen: 0 }
    }

    fn everything(count: u64) -> Wanted {
        Wanted::new(0..u64::MAX, 0..0, 0, count)
    }

    fn has(&mut self, duration: u64) -> bool {
        let is_some = self.some.contains(&duration) && self.left > 0;
        self.left -= u64::from(is_some);
        is_some || self.all.contains(&duration)
    }

    /// Whether this one of the wanted is looked at.
    fn is_its_turn(&mut self) -> bool {
        self.seen += 1;
        (self.seen - 1).is_multiple_of(self.stride)
    }
}

/// How the requests of a kind are put into two groups.
#[derive(Clone, Copy)]
enum Split<'s> {
    /// By duration, as the plan says.
    ByDuration,
    /// Those of a selection, and all others.
    InTwo(&'s Selection),
    /// Those of a selection; the others are not looked at.
    Only(&'s Selection),
}

impl Split<'_> {
    fn asks_for_causes(self) -> bool {
        match self {
            Split::ByDuration => false,
            Split::InTwo(selection) | Split::Only(selection) => selection.asks_for_causes(),
        }
    }
}

/// Of each kind, how long the selected requests and the others took.
fn durations(
    recording: &Recording<'_>,
    learned: &Learned,
    question: &Question<'_>,
    selection: &Selection,
) -> BTreeMap<KindName, (Histogram, Histogram)> {
    let mut kinds: BTreeMap<KindName, (Histogram, Histogram)> = BTreeMap::new();
    let line = recording.folder.timeline();
    let known = Known::new(recording.folder, recording.names, Some(recording.index), selection.asks_for_causes());
    let out = |r: Request| {
        let Some(placed) = Placed::new(&r, recording.names, &line) else { return };
        if awaits(&r)
            || opens(&r, &placed.kind.1)
            || !question.asks_for(&placed.kind)
            || (kinds.len() >= KINDS_MAX && !kinds.contains_key(&placed.kind))
        {
            return;
        }
        let is_within = selection.has(&r, &placed, &known);
        let (within, others) = kinds.entry(placed.kind).or_default();
        if is_within { within } else { others }.add(placed.duration_ns);
    };
    learned.reconstruct(recording.folder, out);
    kinds
}

/// Finds the paths of all requests again and adds those that are wanted to their groups.
fn gather(recording: &Recording<'_>, learned: &Learned, split: Split<'_>, plans: &mut BTreeMap<KindName, Plan>) {
    let Recording { folder, index, names } = *recording;
    let reader = Reader::new(folder, index, names);
    let known = Known::new(folder, names, Some(index), split.asks_for_causes());
    let line = folder.timeline();
    let out = |r: Request| {
        let Some(placed) = Placed::new(&r, names, &line) else { return };
        let Some(plan) = plans.get_mut(&placed.kind) else { return };
        let duration = placed.duration_ns;
        let (is_slow, is_typical) = match split {
            Split::ByDuration => (plan.slow.has(duration), plan.typical.has(duration)),
            Split::InTwo(selection) => (selection.has(&r, &placed, &known), true),
            Split::Only(selection) => (selection.has(&r, &placed, &known), false),
        };
        let (wanted, group) = match (is_slow, is_typical) {
            (true, _) => (&mut plan.slow, &mut plan.groups.0),
            (false, true) => (&mut plan.typical, &mut plan.groups.1),
            (false, false) => return,
        };
        group.found += 1;
        let reply = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).map(|h| &h.exchange);
        let Some(end) = reply.map(End::of).filter(|end| reply.is_some_and(|e| is_over(e, *end))) else {
            group.left_out.unanswered += 1;
            return;
        };
        group.answered.add(duration);
        if !r.is_complete() {
            group.left_out.incomplete += 1;
        } else if wanted.is_its_turn() {
            group.failed += u64::from(reply.is_some_and(crate::requests::has_failed));
            group.abandoned += u64::from(end == End::ClientLeft);
            group.calls.add(&r, names);
            let path = critical_path(folder, index, &r);
            group.add(r.id, Some(&r), &reader, |take| path.drain(take));
        }
    };
    learned.reconstruct(folder, out);
}

/// Whether a service is done with a request, and when is known: it has replied, or its client did not wait for that.
fn is_over(e: &Exchange, end: End) -> bool {
    match end {
        End::Answered => e.is(ExchangeFlag::Replied),
        End::ClientLeft => !e.client.is_work_unknown,
        End::Reset | End::Cut | End::Unfinished => false,
    }
}

/// What most of a request's critical path went to, and how much (ns); nothing where it has no whole reply, or its path is
/// incomplete.
pub fn largest(recording: &Recording<'_>, reader: &Reader<'_>, r: &Request) -> Option<(What, u64)> {
    let reply = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).map(|h| &h.exchange)?;
    if reply.is(ExchangeFlag::Cut)
        || reply.is(ExchangeFlag::Reset)
        || !reply.is(ExchangeFlag::Replied)
        || !r.is_complete()
    {
        return None;
    }
    let path = critical_path(recording.folder, recording.index, r);
    let mut group = Group::default();
    group.add(r.id, Some(r), reader, |take| path.drain(take));
    group.largest()
}

/// Of each kind of request, the slow ones against the typical ones. Reads the folder three times; memory: a histogram a kind,
/// and sums of at most [`PATHS_MAX`] paths a group of the kinds looked at.
pub fn slowest(recording: &Recording<'_>, question: &Question<'_>) -> Answer {
    let mut answer = Answer::default();
    let mut found: Vec<(u128, KindName, Histogram)> = Vec::new();
    let learned = Learned::of(recording.folder);
    for (name, (h, _)) in durations(recording, &learned, question, &Selection::default()) {
        if h.count() < REQUESTS_MIN {
            answer.too_few.0 += 1;
            answer.too_few.1 += h.count();
            continue;
        }
        let (_, from, _) = h.top(slow_count(&h, question.slowest));
        found.push((h.excess(from, h.quantile(0.5)), name, h));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    answer.further = found.len().saturating_sub(question.kinds_max) as u64;
    found.truncate(question.kinds_max);
    let mut plans: BTreeMap<KindName, Plan> = found
        .iter()
        .map(|(_, name, h)| {
            let count = slow_count(h, question.slowest);
            let (all, from, some) = h.top(count);
            let middle = h.between(TYPICAL.0, TYPICAL.1);
            // where the typical ones take as long as the slow ones begin at, the others of that length are these
            let typical = if middle.start >= from { from..all } else { middle.start..middle.end.min(from) };
            let plan = Plan {
                slow: Wanted::new(all..u64::MAX, from..all, some, count),
                typical: Wanted::new(typical, 0..0, 0, h.count() / 2),
                groups: Default::default(),
            };
            (name.clone(), plan)
        })
        .collect();
    gather(recording, &learned, Split::ByDuration, &mut plans);
    for (lost_ns, name, h) in found {
        if let Some(plan) = plans.remove(&name) {
            let compared = Comparison::new(plan.groups.0, plan.groups.1);
            answer.kinds.push(Kind { name, requests: h.count(), compared, lost_ns });
        }
    }
    answer
}

fn slow_count(h: &Histogram, share: f64) -> u64 {
    let count = (h.count() as f64 * share).ceil() as u64;
    count.max(SLOW_MIN.min(h.count() / 4)).clamp(1, h.count())
}

/// One side of a comparison: requests of a recording.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The recording.
    pub recording: &'a Recording<'a>,
    /// Which of its requests.
    pub selection: &'a Selection,
}

impl Side<'_> {
    /// How long those of each kind took; kinds without any are left out.
    fn durations(&self, learned: &Learned, question: &Question<'_>) -> BTreeMap<KindName, Histogram> {
        let all = durations(self.recording, learned, question, self.selection).into_iter();
        all.map(|(name, (selected, _))| (name, selected)).filter(|(_, h)| h.count() > 0).collect()
    }
}

/// Of each kind of request, those of one recording or period against those of another. Reads each folder three times, one
/// that both sides are of five times.
pub fn between(before: Side<'_>, after: Side<'_>, question: &Question<'_>) -> Answer {
    let mut answer = Answer::default();
    let after_learned = Learned::of(after.recording.folder);
    let is_same = std::ptr::eq(before.recording.folder, after.recording.folder);
    let own = (!is_same).then(|| Learned::of(before.recording.folder));
    let before_learned = own.as_ref().unwrap_or(&after_learned);
    let earlier = before.durations(before_learned, question);
    let mut later = after.durations(&after_learned, question);
    let mut found: Vec<(u128, KindName, u64, u64)> = Vec::new();
    for (name, a) in earlier {
        let Some(b) = later.remove(&name) else {
            answer.one_sided.push((name, a.count()));
            continue;
        };
        if a.count() < REQUESTS_MIN || b.count() < REQUESTS_MIN {
            answer.too_few.0 += 1;
            answer.too_few.1 += a.count() + b.count();
            continue;
        }
        let lost = u128::from(b.mean().abs_diff(a.mean())) * u128::from(b.count());
        found.push((lost, name, a.count(), b.count()));
    }
    answer.one_sided.extend(later.into_iter().map(|(name, h)| (name, h.count())));
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    answer.further = found.len().saturating_sub(question.kinds_max) as u64;
    found.truncate(question.kinds_max);
    let all_of = |side: Side<'_>, learned: &Learned, count: fn(&(u128, KindName, u64, u64)) -> u64| {
        let mut plans: BTreeMap<KindName, Plan> = found
            .iter()
            .map(|f| {
                let (slow, typical) = (Wanted::everything(count(f)), Wanted::everything(0));
                (f.1.clone(), Plan { slow, typical, groups: Default::default() })
            })
            .collect();
        gather(side.recording, learned, Split::Only(side.selection), &mut plans);
        plans
    };
    let mut typical = all_of(before, before_learned, |f| f.2);
    let mut slow = all_of(after, &after_learned, |f| f.3);
    for (lost_ns, name, _, requests) in &found {
        if let (Some(t), Some(s)) = (typical.remove(name), slow.remove(name)) {
            let compared = Comparison::new(s.groups.0, t.groups.0);
            answer.kinds.push(Kind { name: name.clone(), requests: *requests, compared, lost_ns: *lost_ns });
        }
    }
    answer
}

/// The active paths of tasks, each from its start, or its first record, to its end. A path's id is its task's place in
/// `tasks`.
pub fn of_tasks(recording: &Recording<'_>, tasks: &[(HostId, TaskId)]) -> Group {
    let Recording { folder, index, names } = *recording;
    let reader = Reader::new(folder, index, names);
    let mut group = Group::default();
    let stride = (tasks.len() as u64).div_ceil(PATHS_MAX).max(1);
    for (n, &(host, task)) in tasks.iter().enumerate() {
        let Some((from, to)) = lifetime(index, host, task) else { continue };
        group.found += 1;
        if !(n as u64).is_multiple_of(stride) {
            continue;
        }
        group.add(n as u64, None, &reader, |take| active_path(index, host, task, from, to, take));
    }
    group
}
