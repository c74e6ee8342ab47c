//! Paths that are compared with others: where the time of each went, and of all together.

use super::calls::Calls;
use super::{Cause, Detail, Reader, What};
use crate::histogram::Histogram;
use crate::slices::Slice;
use std::collections::BTreeMap;
use wakepath_causality::path::Request;

/// Causes and services told apart in a group.
const WHATS_MAX: usize = 10_000;
/// Details told apart of each.
const DETAILS_MAX: usize = 1_000;

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
    /// Of these, whose client left before the reply: their time is that of the service.
    pub abandoned: u64,
    pub(super) calls: Calls,
    elapsed_ns: u128,
    pub(super) whats: BTreeMap<What, u32>,
    pub(super) sums: Vec<u128>,
    pub(super) details: Vec<BTreeMap<Detail, u128>>,
    /// Each path: its id, and its time by place in `sums`.
    pub(super) each: Vec<(u64, Vec<(u32, u64)>)>,
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
    pub(super) fn add(
        &mut self,
        id: u64,
        request: Option<&Request>,
        reader: &Reader<'_>,
        each: impl FnOnce(&mut dyn FnMut(Slice)),
    ) {
        let mut path = Path::default();
        reader.read_path(request, each, &mut |s, what, detail| self.take(&mut path, what, detail, s.duration_ns()));
        self.close(id, path);
    }

    /// A part of a path.
    pub(super) fn take(&mut self, path: &mut Path, what: What, detail: Detail, ns: u64) {
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
    pub(super) fn close(&mut self, id: u64, path: Path) {
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

    /// What most time of its paths went to, and how much (ns); the first by name where several took as much. What the
    /// recording itself took is never it.
    pub(super) fn largest(&self) -> Option<(What, u64)> {
        let ranked = self.whats.iter().filter(|(what, _)| what.cause != Cause::Isolation);
        let (what, &place) = ranked.rev().max_by_key(|(_, place)| self.sums[**place as usize])?;
        Some((what.clone(), u64::try_from(self.sums[place as usize]).unwrap_or(u64::MAX)))
    }

    pub(super) fn sum(&self, what: &What) -> u128 {
        self.whats.get(what).map_or(0, |&p| self.sums[p as usize])
    }
}

/// A path while it is told.
#[derive(Default)]
pub(super) struct Path {
    /// Its time by place in [`Group`]'s sums.
    times: BTreeMap<u32, u64>,
    elapsed_ns: u64,
}

pub(super) fn mean(sum: u128, count: u64) -> u64 {
    if count == 0 { 0 } else { u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX) }
}
