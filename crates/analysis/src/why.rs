//! Why some took longer than others: where their time went, compared cause by cause.
//!
//! Two groups of paths are compared by their average: the slow requests of a kind and the typical ones, or all of a kind
//! in two recordings, or a task in two. Averages are whole nanoseconds; what rounding leaves goes to the rest, so that the
//! differences and the rest add up to the whole difference exactly.

mod causes;

pub use causes::{Cause, Detail, Reader, What};

use crate::active_path::{active_path, lifetime};
use crate::critical_path::critical_path;
use crate::histogram::Histogram;
use crate::names::Names;
use crate::requests::{KINDS_MAX, kind_of};
use crate::slices::Slice;
use crate::spans::lay_out;
use std::collections::BTreeMap;
use wakepath_causality::graph::Index;
use wakepath_causality::path::Request;
use wakepath_model::folder::Folder;
use wakepath_model::ids::{HostId, TaskId};

/// Most paths of a group that are looked at: more are sampled evenly.
pub const PATHS_MAX: u64 = 2000;
/// Fewer requests of a kind are not compared: there is no typical one among them.
pub const REQUESTS_MIN: u64 = 8;
/// At least so many are the slow ones, where the kind has several times as many.
const SLOW_MIN: u64 = 3;
/// Causes and services told apart in a group.
const WHATS_MAX: usize = 10_000;
/// Details told apart of each.
const DETAILS_MAX: usize = 1_000;
/// Slices of a path that are read together, at least.
const BATCH: usize = 4096;
/// And at most, where one wait has so many.
const BATCH_MAX: usize = 1 << 16;
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

/// What paths were left out, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Their path is known to be incomplete.
    pub incomplete: u64,
    /// They had no whole reply: the connection or the recording ended before.
    pub unanswered: u64,
}

/// Paths that are compared with others.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// How many there are.
    pub found: u64,
    /// Of them, left out.
    pub left_out: LeftOut,
    /// Lengths of the paths that were looked at (ns).
    pub durations: Histogram,
    /// How long all of them took that were answered, those left out for an incomplete path too (ns).
    pub answered: Histogram,
    /// Of these, whose reply said that they failed.
    pub failed: u64,
    elapsed_ns: u128,
    whats: BTreeMap<What, u32>,
    sums: Vec<u128>,
    details: Vec<BTreeMap<Detail, u128>>,
    /// Each path: its id, and its time by place in `sums`.
    each: Vec<(u64, Vec<(u32, u64)>)>,
}

impl Group {
    /// How many paths were looked at.
    pub fn count(&self) -> u64 {
        self.each.len() as u64
    }

    /// Their average length (ns), whole nanoseconds.
    pub fn mean_ns(&self) -> u64 {
        mean(self.elapsed_ns, self.count())
    }

    /// Adds a path, whose slices `each` gives in order of time.
    fn add(
        &mut self,
        id: u64,
        request: Option<&Request>,
        reader: &Reader<'_>,
        each: impl FnOnce(&mut dyn FnMut(Slice)),
    ) {
        let (mut path, mut slices) = (Path::default(), Vec::<Slice>::with_capacity(BATCH));
        let mut read = |group: &mut Group, slices: &mut Vec<Slice>| {
            reader.read(slices, request, &mut |what, detail, ns| group.take(&mut path, what, detail, ns));
            slices.clear();
        };
        each(&mut |s| {
            // no wait is cut in two, but one of more slices than memory should hold
            let is_between = slices.last().is_some_and(|l| l.wait.is_none());
            if slices.len() >= BATCH_MAX || (slices.len() >= BATCH && is_between) {
                read(self, &mut slices);
            }
            slices.push(s);
        });
        read(self, &mut slices);
        self.close(id, path);
    }

    /// A part of a path.
    fn take(&mut self, path: &mut Path, what: What, detail: Detail, ns: u64) {
        let place = self.place(what);
        self.sums[place as usize] += u128::from(ns);
        let details = &mut self.details[place as usize];
        if details.len() < DETAILS_MAX || details.contains_key(&detail) {
            *details.entry(detail).or_default() += u128::from(ns);
        }
        *path.times.entry(place).or_default() += ns;
        path.elapsed_ns += ns;
    }

    /// A path is told.
    fn close(&mut self, id: u64, path: Path) {
        self.elapsed_ns += u128::from(path.elapsed_ns);
        self.durations.add(path.elapsed_ns);
        self.each.push((id, path.times.into_iter().collect()));
    }

    fn place(&mut self, mut what: What) -> u32 {
        if self.whats.len() >= WHATS_MAX && !self.whats.contains_key(&what) {
            what.service = "(other)".into();
        }
        let next = self.sums.len() as u32;
        let place = *self.whats.entry(what).or_insert(next);
        if place == next {
            self.sums.push(0);
            self.details.push(BTreeMap::new());
        }
        place
    }

    fn sum(&self, what: &What) -> u128 {
        self.whats.get(what).map_or(0, |&p| self.sums[p as usize])
    }
}

/// A path while it is told.
#[derive(Default)]
struct Path {
    /// Its time by place in [`Group`]'s sums.
    times: BTreeMap<u32, u64>,
    elapsed_ns: u64,
}

fn mean(sum: u128, count: u64) -> u64 {
    if count == 0 { 0 } else { u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX) }
}

/// A part of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What is known of it.
    pub detail: Detail,
    /// How much more on average (ns).
    pub more_ns: i64,
}

/// What one group spends more of than the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// On what, and where.
    pub what: What,
    /// How much more on average (ns); negative = less.
    pub more_ns: i64,
    /// Average of the slow ones (ns).
    pub slow_ns: u64,
    /// Average of the typical ones (ns).
    pub typical_ns: u64,
    /// How many of the slow ones have at least half of the average difference.
    pub with: u64,
    /// Those that have most of it.
    pub examples: Vec<u64>,
    /// What it consists of, largest part first.
    pub parts: Vec<Part>,
}

/// Two groups compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The ones that are asked about.
    pub slow: Group,
    /// What they are compared with.
    pub typical: Group,
    /// How much longer the slow ones are on average (ns).
    pub more_ns: i64,
    /// Where, largest first: what explains most comes first, also where they are shorter.
    pub differences: Vec<Difference>,
    /// What the differences do not say: smaller ones, and what rounding leaves (ns).
    pub rest_ns: i64,
}

/// Most examples of a difference.
const EXAMPLES: usize = 3;
/// Most differences told apart.
const DIFFERENCES_MAX: usize = 50;
/// Most parts of a difference.
const PARTS_MAX: usize = 5;

fn signed(more: u64, less: u64) -> i64 {
    i64::try_from(i128::from(more) - i128::from(less)).unwrap_or(i64::MAX)
}

impl Comparison {
    /// Compares two groups.
    pub fn new(slow: Group, typical: Group) -> Comparison {
        let more_ns = signed(slow.mean_ns(), typical.mean_ns());
        let mut whats: Vec<&What> = slow.whats.keys().chain(typical.whats.keys()).collect();
        whats.sort_unstable();
        whats.dedup();
        let sign = if more_ns < 0 { -1 } else { 1 };
        let mut differences: Vec<Difference> =
            whats.into_iter().map(|w| difference(&slow, &typical, w)).filter(|d| d.more_ns != 0).collect();
        // what the recording itself caused explains nothing of the system
        let is_ours = |d: &Difference| d.what.cause == Cause::Isolation;
        differences.sort_by(|a, b| {
            let by_time = (b.more_ns * sign).cmp(&(a.more_ns * sign));
            is_ours(a).cmp(&is_ours(b)).then(by_time).then_with(|| a.what.cmp(&b.what))
        });
        differences.truncate(DIFFERENCES_MAX);
        for d in &mut differences {
            explain(&slow, &typical, d);
        }
        let told: i64 = differences.iter().map(|d| d.more_ns).sum();
        Comparison { more_ns, rest_ns: more_ns - told, differences, slow, typical }
    }
}

fn difference(slow: &Group, typical: &Group, what: &What) -> Difference {
    let (slow_ns, typical_ns) = (mean(slow.sum(what), slow.count()), mean(typical.sum(what), typical.count()));
    Difference {
        what: what.clone(),
        more_ns: signed(slow_ns, typical_ns),
        slow_ns,
        typical_ns,
        with: 0,
        examples: Vec::new(),
        parts: Vec::new(),
    }
}

/// Who has it, and what it consists of.
fn explain(slow: &Group, typical: &Group, d: &mut Difference) {
    let (of_slow, of_typical) = (slow.whats.get(&d.what), typical.whats.get(&d.what));
    let mut each: Vec<(i64, u64)> = slow
        .each
        .iter()
        .map(|(id, times)| {
            let ns = of_slow.and_then(|p| times.iter().find(|t| t.0 == *p)).map_or(0, |t| t.1);
            (signed(ns, d.typical_ns), *id)
        })
        .collect();
    let sign = if d.more_ns < 0 { -1 } else { 1 };
    each.sort_unstable_by(|a, b| (b.0 * sign).cmp(&(a.0 * sign)).then(a.1.cmp(&b.1)));
    let has_it = |more: i64| more * sign * 2 >= d.more_ns * sign;
    d.with = each.iter().filter(|e| has_it(e.0)).count() as u64;
    d.examples = each.iter().filter(|e| has_it(e.0)).take(EXAMPLES).map(|e| e.1).collect();
    let empty = BTreeMap::new();
    let a = of_slow.map_or(&empty, |p| &slow.details[*p as usize]);
    let b = of_typical.map_or(&empty, |p| &typical.details[*p as usize]);
    let mut parts: Vec<Part> = Vec::new();
    for detail in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
        let of = |g: &Group, m: &BTreeMap<Detail, u128>| mean(m.get(detail).copied().unwrap_or(0), g.count());
        let more_ns = signed(of(slow, a), of(typical, b));
        if more_ns != 0 {
            parts.push(Part { detail: detail.clone(), more_ns });
        }
    }
    parts.sort_by(|a, b| (b.more_ns * sign).cmp(&(a.more_ns * sign)).then_with(|| a.detail.cmp(&b.detail)));
    parts.truncate(PARTS_MAX);
    d.parts = parts;
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
    /// Kinds that only one of the two recordings has.
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

fn durations(folder: &Folder, names: &Names<'_>, question: &Question<'_>) -> BTreeMap<KindName, Histogram> {
    let mut kinds: BTreeMap<KindName, Histogram> = BTreeMap::new();
    let out = |r: Request| {
        if r.orphan.is_some() {
            return;
        }
        let Some(root) = lay_out(&r).first().map(|t| t.duration_ns()) else { return };
        let name = kind_of(&r, names);
        if question.asks_for(&name) && (kinds.len() < KINDS_MAX || kinds.contains_key(&name)) {
            kinds.entry(name).or_default().add(root);
        }
    };
    wakepath_causality::reconstruct(folder, out, |_, _, _, _| {});
    kinds
}

/// Finds the paths of all requests again and adds those that are wanted to their groups.
fn gather(recording: &Recording<'_>, plans: &mut BTreeMap<KindName, Plan>) {
    let Recording { folder, index, names } = *recording;
    let reader = Reader::new(folder, index, names);
    let out = |r: Request| {
        if r.orphan.is_some() {
            return;
        }
        let Some(plan) = plans.get_mut(&kind_of(&r, names)) else { return };
        let Some(duration) = lay_out(&r).first().map(|t| t.duration_ns()) else { return };
        let (wanted, group) = if plan.slow.has(duration) {
            (&mut plan.slow, &mut plan.groups.0)
        } else if plan.typical.has(duration) {
            (&mut plan.typical, &mut plan.groups.1)
        } else {
            return;
        };
        group.found += 1;
        let reply = r.spans[0].callee.as_ref().or(r.spans[0].caller.as_ref()).map(|h| &h.exchange);
        if reply.is_none_or(|e| e.cut || e.reset || !e.replied) {
            group.left_out.unanswered += 1;
            return;
        }
        group.answered.add(duration);
        if !r.is_complete() {
            group.left_out.incomplete += 1;
        } else if wanted.is_its_turn() {
            group.failed += u64::from(reply.is_some_and(crate::requests::has_failed));
            let path = critical_path(folder, index, &r);
            group.add(r.id, Some(&r), &reader, |take| path.drain(take));
        }
    };
    wakepath_causality::reconstruct(folder, out, |_, _, _, _| {});
}

/// Of each kind of request, the slow ones against the typical ones. Reads the folder twice; memory: a histogram a kind,
/// and sums of at most [`PATHS_MAX`] paths a group of the kinds looked at.
pub fn slowest(recording: &Recording<'_>, question: &Question<'_>) -> Answer {
    let mut answer = Answer::default();
    let mut found: Vec<(u128, KindName, Histogram)> = Vec::new();
    for (name, h) in durations(recording.folder, recording.names, question) {
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
            let typical = middle.start.min(from)..middle.end.min(from.max(middle.start + 1));
            let plan = Plan {
                slow: Wanted::new(all..u64::MAX, from..all, some, count),
                typical: Wanted::new(typical, 0..0, 0, h.count() / 2),
                groups: Default::default(),
            };
            (name.clone(), plan)
        })
        .collect();
    gather(recording, &mut plans);
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

/// Of each kind of request, those of one recording against those of an earlier one. Reads each folder twice.
pub fn between(before: &Recording<'_>, after: &Recording<'_>, question: &Question<'_>) -> Answer {
    let mut answer = Answer::default();
    let earlier = durations(before.folder, before.names, question);
    let mut later = durations(after.folder, after.names, question);
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
    let all_of = |recording: &Recording<'_>, count: fn(&(u128, KindName, u64, u64)) -> u64| {
        let mut plans: BTreeMap<KindName, Plan> = found
            .iter()
            .map(|f| {
                let (slow, typical) = (Wanted::everything(count(f)), Wanted::everything(0));
                (f.1.clone(), Plan { slow, typical, groups: Default::default() })
            })
            .collect();
        gather(recording, &mut plans);
        plans
    };
    let (mut typical, mut slow) = (all_of(before, |f| f.2), all_of(after, |f| f.3));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slices::State;
    use proptest::prelude::*;

    fn what(cause: Cause, service: usize) -> What {
        What { cause, service: format!("s{service}"), host: "h".into() }
    }

    fn detail(by: usize) -> Detail {
        let by = Some(format!("b{by}"));
        Detail {
            state: State::Running,
            syscall: None,
            by,
            object: None,
            meanwhile: None,
            is_own_thread: false,
            serving: None,
            reason: None,
        }
    }

    /// A group of paths: of each, what it spent time on, by whom, how long.
    fn group(paths: &[Vec<(usize, usize, u64)>]) -> Group {
        let mut g = Group { found: paths.len() as u64, ..Group::default() };
        for (id, times) in paths.iter().enumerate() {
            let mut path = Path::default();
            for &(cause, by, ns) in times {
                let cause_ = Cause::ALL[cause % Cause::ALL.len()];
                g.take(&mut path, what(cause_, cause % 3), detail(by), ns);
            }
            g.close(id as u64, path);
        }
        g
    }

    #[test]
    fn what_explains_most_comes_first() {
        let usual = vec![vec![(0, 0, 100), (3, 0, 50)]; 10];
        let mut slow = usual.clone();
        for (i, path) in slow.iter_mut().enumerate() {
            path.push((2, 1, 1000 + i as u64));
            path.push((3, 0, 7));
        }
        let c = Comparison::new(group(&slow), group(&usual));
        let first = &c.differences[0];
        assert_eq!((first.what.cause, first.more_ns, first.with), (Cause::Lock, 1004, 10));
        assert_eq!(first.examples, [9, 8, 7]);
        assert_eq!(first.parts[0].detail.by.as_deref(), Some("b1"));
        assert_eq!((c.more_ns, c.rest_ns), (1011, 0), "1004.5 + 7, in whole nanoseconds");
    }

    #[test]
    fn one_that_is_alone_with_it_is_counted_alone() {
        let usual = vec![vec![(0, 0, 100)]; 10];
        let mut slow = usual.clone();
        slow[4].push((5, 0, 10_000));
        let c = Comparison::new(group(&slow), group(&usual));
        assert_eq!((c.differences[0].with, &c.differences[0].examples[..]), (1, &[4][..]));
    }

    #[test]
    fn what_became_faster_comes_first_where_all_did() {
        let before = vec![vec![(0, 0, 100), (5, 0, 900), (2, 0, 5)]];
        let after = vec![vec![(0, 0, 120), (2, 0, 5)]];
        let c = Comparison::new(group(&after), group(&before));
        assert_eq!((c.more_ns, c.differences[0].what.cause, c.differences[0].more_ns), (-880, Cause::Disk, -900));
        assert_eq!(c.differences.len(), 2, "what did not change is no difference");
    }

    #[test]
    fn what_the_recording_caused_comes_last() {
        let usual = vec![vec![(0, 0, 100)]; 10];
        let isolation = Cause::ALL.iter().position(|c| *c == Cause::Isolation).expect("a cause");
        let slow = vec![vec![(0, 0, 150), (isolation, 0, 10_000)]; 10];
        let c = Comparison::new(group(&slow), group(&usual));
        let causes: Vec<Cause> = c.differences.iter().map(|d| d.what.cause).collect();
        assert_eq!(causes, [Cause::Cpu, Cause::Isolation]);
        assert_eq!((c.more_ns, c.rest_ns), (10_050, 0), "it is told, with its time");
    }

    #[test]
    fn nothing_compares_with_nothing() {
        let c = Comparison::new(Group::default(), group(&[vec![(1, 1, 5)]]));
        assert_eq!((c.more_ns, c.rest_ns, c.differences[0].with), (-5, 0, 0));
    }

    fn paths() -> impl Strategy<Value = Vec<Vec<(usize, usize, u64)>>> {
        let time = (0usize..40, 0usize..20, prop_oneof![0u64..100, 0..u64::from(u32::MAX)]);
        proptest::collection::vec(proptest::collection::vec(time, 0..12), 0..12)
    }

    proptest! {
        #[test]
        fn the_differences_and_the_rest_are_the_whole(slow in paths(), usual in paths()) {
            let mean_of = |paths: &[Vec<(usize, usize, u64)>]| {
                let sum: u64 = paths.iter().flatten().map(|p| p.2).sum();
                sum.checked_div(paths.len() as u64).unwrap_or(0)
            };
            let c = Comparison::new(group(&slow), group(&usual));
            prop_assert_eq!(c.more_ns, mean_of(&slow) as i64 - mean_of(&usual) as i64);
            prop_assert_eq!(c.differences.iter().map(|d| d.more_ns).sum::<i64>() + c.rest_ns, c.more_ns);
            prop_assert!(c.differences.iter().all(|d| d.with <= slow.len() as u64 && d.examples.len() <= 3));
            // rounding alone leaves at most one nanosecond a term
            if c.differences.len() < DIFFERENCES_MAX {
                prop_assert!(c.rest_ns.unsigned_abs() <= 2 * Cause::ALL.len() as u64 * 3 + 2);
            }
        }
    }
}
