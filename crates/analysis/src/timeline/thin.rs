//! Intervals as a drawing of so many columns needs them: long ones as they are, short neighbours as one part that says what
//! most of it was. However many intervals there are, about three a column are left.

use std::collections::BTreeMap;
use wakepath_model::ids::CommonNs;

/// A part of a drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<K, D> {
    /// Begin.
    pub from: CommonNs,
    /// End, one past.
    pub to: CommonNs,
    /// What most of it was: all of it where `count` is 1.
    pub what: K,
    /// How much of it was that (ns).
    pub ns: u64,
    /// How many intervals it stands for.
    pub count: u64,
    /// Of one interval, what else is known of it.
    pub detail: Option<D>,
}

/// Makes parts of intervals.
pub struct Thin<K, D> {
    column_ns: i64,
    short: Option<Short<K, D>>,
    parts: Vec<Part<K, D>>,
}

/// Short intervals together.
struct Short<K, D> {
    from: CommonNs,
    to: CommonNs,
    times: BTreeMap<K, u64>,
    count: u64,
    /// Of the first.
    detail: D,
}

impl<K: Ord, D> Thin<K, D> {
    /// For columns of this length (ns); 0 leaves every interval as it is.
    pub fn new(column_ns: u64) -> Thin<K, D> {
        Thin { column_ns: i64::try_from(column_ns).unwrap_or(i64::MAX), short: None, parts: Vec::new() }
    }

    /// Adds the next interval: none is empty, and none begins before the last one's end.
    pub fn add(&mut self, from: CommonNs, to: CommonNs, what: K, detail: D) {
        let length = to.0.saturating_sub(from.0);
        let ns = u64::try_from(length).unwrap_or(0);
        if length >= self.column_ns {
            self.close();
            self.parts.push(Part { from, to, what, ns, count: 1, detail: Some(detail) });
            return;
        }
        if self.short.as_ref().is_some_and(|s| s.to != from || s.to.0.saturating_sub(s.from.0) >= self.column_ns) {
            self.close();
        }
        let short = self.short.get_or_insert_with(|| Short { from, to, times: BTreeMap::new(), count: 0, detail });
        short.to = to;
        short.count += 1;
        *short.times.entry(what).or_default() += ns;
    }

    fn close(&mut self) {
        let Some(s) = self.short.take() else { return };
        // of equals the first by order: the same in every run
        let most = s.times.into_iter().rev().max_by_key(|(_, ns)| *ns);
        if let Some((what, ns)) = most {
            let detail = (s.count == 1).then_some(s.detail);
            self.parts.push(Part { from: s.from, to: s.to, what, ns, count: s.count, detail });
        }
    }

    /// The parts, in order of time.
    pub fn finish(mut self) -> Vec<Part<K, D>> {
        self.close();
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn thin(column_ns: u64, lengths: &[(u8, i64)]) -> Vec<Part<u8, i64>> {
        let (mut thin, mut at) = (Thin::new(column_ns), 0);
        for &(what, length) in lengths {
            thin.add(CommonNs(at), CommonNs(at + length), what, at);
            at += length;
        }
        thin.finish()
    }

    #[test]
    fn short_neighbours_are_told_by_what_most_of_them_was() {
        let parts = thin(100, &[(1, 500), (2, 10), (3, 30), (2, 15), (1, 500), (4, 5)]);
        let told: Vec<_> = parts.iter().map(|p| (p.from.0, p.to.0, p.what, p.ns, p.count)).collect();
        assert_eq!(told, [(0, 500, 1, 500, 1), (500, 555, 3, 30, 3), (555, 1055, 1, 500, 1), (1055, 1060, 4, 5, 1)]);
    }

    proptest! {
        #[test]
        fn parts_cover_what_was_given_and_are_few(lengths in proptest::collection::vec((0u8..5, 1i64..200), 1..400), column in 0u64..300) {
            let parts = thin(column, &lengths);
            let whole: i64 = lengths.iter().map(|l| l.1).sum();
            prop_assert_eq!(parts.iter().map(|p| p.to.0 - p.from.0).sum::<i64>(), whole);
            prop_assert_eq!(parts.iter().map(|p| p.count).sum::<u64>(), lengths.len() as u64);
            prop_assert!(parts.iter().all(|p| p.detail == (p.count == 1).then_some(p.from.0)));
            prop_assert!(parts.windows(2).all(|w| w[0].to == w[1].from));
            prop_assert!(parts.iter().all(|p| p.ns <= (p.to.0 - p.from.0) as u64 && p.ns > 0));
            if column > 0 {
                prop_assert!(parts.len() as i64 <= 3 * (whole / column as i64) + 3);
            } else {
                prop_assert_eq!(parts.len(), lengths.len());
            }
        }
    }
}
