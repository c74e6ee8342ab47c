//! Two groups of paths compared, cause by cause.

use super::calls::{CallDifference, compare};
use super::group::{Group, mean};
use super::{Detail, What};
use std::collections::BTreeMap;

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
    /// How much longer the slow ones are on average (ns); 0 where one of the groups is empty.
    pub more_ns: i64,
    /// Where, largest first: what explains most comes first, also where they are shorter. None where one of the groups is empty.
    pub differences: Vec<Difference>,
    /// Which calls they make more or fewer of, the largest difference first.
    pub calls: Vec<CallDifference>,
    /// What the typical ones spend most of their time on, as against nothing. None where there are none.
    pub usual: Option<Difference>,
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
    /// Compares two groups. With an empty one nothing compares: all that the other did would be a difference.
    pub fn new(slow: Group, typical: Group) -> Comparison {
        let usual = largest(&typical);
        if slow.count() == 0 || typical.count() == 0 {
            let (differences, calls) = (Vec::new(), Vec::new());
            return Comparison { slow, typical, more_ns: 0, differences, calls, usual, rest_ns: 0 };
        }
        let more_ns = signed(slow.mean_ns(), typical.mean_ns());
        let mut whats: Vec<&What> = slow.whats.keys().chain(typical.whats.keys()).collect();
        whats.sort_unstable();
        whats.dedup();
        let sign = if more_ns < 0 { -1 } else { 1 };
        let mut differences: Vec<Difference> =
            whats.into_iter().map(|w| difference(&slow, &typical, w)).filter(|d| d.more_ns != 0).collect();
        // what the recording itself caused explains nothing of the system
        let is_ours = |d: &Difference| d.what.cause.about().is_by_recording;
        differences.sort_by(|a, b| {
            let by_time = (b.more_ns * sign).cmp(&(a.more_ns * sign));
            is_ours(a).cmp(&is_ours(b)).then(by_time).then_with(|| a.what.cmp(&b.what))
        });
        differences.truncate(DIFFERENCES_MAX);
        for d in &mut differences {
            explain(&slow, &typical, d);
        }
        let told: i64 = differences.iter().map(|d| d.more_ns).sum();
        let calls = compare(&slow.calls, &typical.calls);
        Comparison { more_ns, rest_ns: more_ns - told, differences, calls, usual, slow, typical }
    }
}

/// What most of a group's time goes to.
fn largest(group: &Group) -> Option<Difference> {
    let (what, _) = group.largest()?;
    let nothing = Group::default();
    let mut d = difference(group, &nothing, &what);
    explain(group, &nothing, &mut d);
    Some(d)
}

pub(super) fn difference(slow: &Group, typical: &Group, what: &What) -> Difference {
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

#[cfg(test)]
mod tests {
    use super::super::group::Path;
    use super::*;
    use crate::causes::Cause;
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
        let mut g = Group::default();
        g.found = paths.len() as u64;
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
        let usual = vec![vec![(0, 0, 100), (4, 0, 50)]; 10];
        let mut slow = usual.clone();
        for (i, path) in slow.iter_mut().enumerate() {
            path.push((3, 1, 1000 + i as u64));
            path.push((4, 0, 7));
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
        let disk = Cause::ALL.iter().position(|c| *c == Cause::Disk).expect("a cause");
        let before = vec![vec![(0, 0, 100), (disk, 0, 900), (2, 0, 5)]];
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
        let some = || group(&[vec![(1, 1, 5)]]);
        for (slow, typical) in [(Group::default(), some()), (some(), Group::default())] {
            let c = Comparison::new(slow, typical);
            assert_eq!((c.more_ns, c.rest_ns, &c.differences[..]), (0, 0, &[][..]));
        }
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
            let more_ns = if slow.is_empty() || usual.is_empty() { 0 } else { mean_of(&slow) as i64 - mean_of(&usual) as i64 };
            prop_assert_eq!(c.more_ns, more_ns);
            prop_assert_eq!(c.differences.iter().map(|d| d.more_ns).sum::<i64>() + c.rest_ns, c.more_ns);
            prop_assert!(c.differences.iter().all(|d| d.with <= slow.len() as u64 && d.examples.len() <= 3));
            // rounding alone leaves at most one nanosecond a term
            if c.differences.len() < DIFFERENCES_MAX {
                prop_assert!(c.rest_ns.unsigned_abs() <= 2 * Cause::ALL.len() as u64 * 3 + 2);
            }
        }
    }
}
