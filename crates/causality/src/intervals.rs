//! When something was so: intervals of a host's clock.

use wakepath_model::ids::MonoNs;

/// Intervals in a host's clock, in order and without overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals(Vec<(u64, u64)>);

impl Intervals {
    /// Adds one, in any order.
    pub(crate) fn push(&mut self, from: u64, to: u64) {
        let to = to.max(from);
        match self.0.last_mut().filter(|l| from <= l.1 && l.0 <= to) {
            Some(l) => *l = (l.0.min(from), l.1.max(to)),
            None => self.0.push((from, to)),
        }
    }

    /// No more comes: puts them in order, those that touch as one.
    pub(crate) fn settle(&mut self) {
        self.0.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for &(a, b) in &self.0 {
            match merged.last_mut() {
                Some(l) if a <= l.1 => l.1 = l.1.max(b),
                _ => merged.push((a, b)),
            }
        }
        merged.shrink_to_fit();
        self.0 = merged;
    }

    /// Those of a host that has them in order.
    pub(crate) fn of(settled: &[(u64, u64)]) -> Intervals {
        Intervals(settled.to_vec())
    }

    /// All, from and to (ns).
    pub(crate) fn all(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// The one that came last lasts until this moment at least.
    pub(crate) fn lasts_to(&mut self, at: MonoNs) {
        if let Some(last) = self.0.last_mut() {
            last.1 = last.1.max(at.0);
        }
    }

    /// Whether any of them has a moment of `from..=to`.
    pub(crate) fn touch(&self, from: MonoNs, to: MonoNs) -> bool {
        let i = self.0.partition_point(|&(_, b)| b < from.0);
        self.0.get(i).is_some_and(|&(a, _)| a <= to.0)
    }

    /// Whether the first of them has reached `at` and began with the capture.
    pub(crate) fn begins_before(&self, at: MonoNs) -> bool {
        self.0.first().is_some_and(|&(a, b)| a == 0 && at.0 <= b)
    }
}
