//! What selected requests have in common and the others have not: of each attribute's values, the share of either that has it.

use crate::attributes::{Attribute, visit};
use crate::names::Names;
use crate::requests::{awaits, opens};
use crate::selection::{Known, Placed, Selection};
use crate::why::{Reader, Recording, What, largest};
use std::collections::{BTreeMap, BTreeSet};
use wakepath_causality::path::Request;
use wakepath_graph::Index;
use wakepath_model::folder::Folder;

/// Most values that are told apart of an attribute; what comes later is counted as `(other)`.
const VALUES_MAX: usize = 1000;
/// What stands for the rest.
const OTHER: &str = "(other)";

/// How many requests have a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Having {
    /// Of the selected ones.
    pub selected: u64,
    /// Of the others.
    pub others: u64,
}

/// A value: of which attribute, how many requests have it, and by how much the selected ones' share (0 to 1) is above the others'.
pub type Ranked<'a> = (Attribute, &'a str, Having, f64);

/// What was found of a selection.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// Selected requests.
    pub selected: u64,
    /// The others of the same kind, or all others where none is asked for.
    pub others: u64,
    /// Of the selected, those whose main cause is known.
    pub selected_with_cause: u64,
    /// Of the others.
    pub others_with_cause: u64,
    /// How many have a value of an attribute.
    pub values: BTreeMap<(Attribute, String), Having>,
    /// How many values of an attribute are told apart.
    told: BTreeMap<Attribute, usize>,
}

impl Common {
    /// Shares of the selected and of the others that have a value (0 to 1). Of causes, those are left out of which none is known.
    pub fn shares(&self, attribute: Attribute, having: Having) -> (f64, f64) {
        let (selected, others) = match attribute {
            Attribute::Cause => (self.selected_with_cause, self.others_with_cause),
            _ => (self.selected, self.others),
        };
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        (share(having.selected, selected), share(having.others, others))
    }

    /// Values by how much those shares differ, the largest difference first; those that do not differ are left out.
    pub fn ranked(&self) -> Vec<Ranked<'_>> {
        let mut ranked: Vec<Ranked<'_>> = self
            .values
            .iter()
            .map(|((attribute, value), &having)| {
                let (selected, others) = self.shares(*attribute, having);
                (*attribute, value.as_str(), having, selected - others)
            })
            .filter(|(.., more)| more.abs() > 1e-9)
            .collect();
        // of two that differ as much, what the selected have comes first; then by name: the same each time
        let by_name = |a: &Ranked<'_>, b: &Ranked<'_>| (a.0, a.1).cmp(&(b.0, b.1));
        ranked.sort_by(|a, b| b.3.abs().total_cmp(&a.3.abs()).then(b.3.total_cmp(&a.3)).then(by_name(a, b)));
        ranked
    }

    fn add(&mut self, is_selected: bool, values: BTreeSet<(Attribute, String)>, has_cause: bool) {
        self.selected += u64::from(is_selected);
        self.others += u64::from(!is_selected);
        self.selected_with_cause += u64::from(is_selected && has_cause);
        self.others_with_cause += u64::from(!is_selected && has_cause);
        let known: BTreeSet<_> = values.into_iter().map(|v| self.known(v)).collect();
        for value in known {
            let having = self.values.entry(value).or_default();
            having.selected += u64::from(is_selected);
            having.others += u64::from(!is_selected);
        }
    }

    /// The value itself, as long as there is room for it.
    fn known(&mut self, value: (Attribute, String)) -> (Attribute, String) {
        if self.values.contains_key(&value) {
            return value;
        }
        let told = self.told.entry(value.0).or_default();
        if *told >= VALUES_MAX {
            return (value.0, OTHER.into());
        }
        *told += 1;
        // so that two new ones of one request are not taken for one
        self.values.entry(value.clone()).or_default();
        value
    }
}

/// The selected requests against all others of the kind that is asked for, or of all kinds. As `requests` does, it leaves out
/// those that only wait for something to happen, and those that only open a connection. Without an index no cause is known.
pub fn common(folder: &Folder, names: &Names<'_>, index: Option<&Index>, selection: &Selection) -> Common {
    let line = folder.timeline();
    let reader = index.map(|index| (Recording { folder, index, names }, Reader::new(folder, index, names)));
    let known = Known::new(folder, names, index, selection.asks_for_causes());
    let mut found = Common::default();
    let take = |r: Request| {
        let Some(placed) = Placed::new(&r, names, &line).filter(|p| selection.has_kind(&p.kind)) else { return };
        if awaits(&r) || opens(&r, &placed.kind.1) {
            return;
        }
        let cause = reader.as_ref().and_then(|(recording, reader)| largest(recording, reader, &r)).map(|c| c.0);
        let has_cause = cause.is_some();
        found.add(selection.has(&r, &placed, &known), values(&r, &placed, names, cause), has_cause);
    };
    wakepath_causality::reconstruct(folder, take, |_, _, _, _| {});
    found
}

/// The values of a request, each once.
fn values(r: &Request, placed: &Placed, names: &Names<'_>, cause: Option<What>) -> BTreeSet<(Attribute, String)> {
    let mut out = BTreeSet::new();
    visit(
        r,
        &placed.kind,
        names,
        |_| true,
        |attribute, value| {
            out.insert((attribute, value));
        },
    );
    if let Some(what) = cause {
        out.insert((Attribute::Cause, format!("{} at {}", what.cause.name(), what.service)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(values: &[(Attribute, &str)]) -> BTreeSet<(Attribute, String)> {
        values.iter().map(|(a, v)| (*a, (*v).to_owned())).collect()
    }

    #[test]
    fn what_differs_most_is_first_and_what_does_not_is_left_out() {
        let mut common = Common::default();
        for n in 0..10 {
            let process = if n < 9 { "worker/7" } else { "worker/8" };
            common.add(true, one(&[(Attribute::Kind, "GET /a"), (Attribute::Process, process)]), false);
        }
        for n in 0..100 {
            let process = if n < 50 { "worker/7" } else { "worker/8" };
            let reply = if n == 0 { "500" } else { "200" };
            let values = [(Attribute::Kind, "GET /a"), (Attribute::Process, process), (Attribute::Reply, reply)];
            common.add(false, one(&values), false);
        }
        let ranked = common.ranked();
        let names: Vec<_> = ranked.iter().map(|r| (r.0.name(), r.1)).collect();
        assert_eq!(names, [("reply", "200"), ("process", "worker/7"), ("process", "worker/8"), ("reply", "500")]);
        assert!((ranked[1].3 - 0.4).abs() < 1e-9 && (ranked[2].3 + 0.4).abs() < 1e-9);
        assert_eq!(ranked[1].2, Having { selected: 9, others: 50 });
    }

    #[test]
    fn causes_are_shares_of_the_requests_whose_cause_is_known() {
        let mut common = Common::default();
        common.add(true, one(&[(Attribute::Cause, "disk at db")]), true);
        common.add(true, one(&[]), false);
        common.add(false, one(&[(Attribute::Cause, "cpu at web")]), true);
        let having = common.values[&(Attribute::Cause, "disk at db".to_owned())];
        assert_eq!(common.shares(Attribute::Cause, having), (1.0, 0.0));
    }

    #[test]
    fn of_more_values_than_have_room_the_rest_is_one() {
        let mut common = Common::default();
        for n in 0..VALUES_MAX + 50 {
            common.add(true, one(&[(Attribute::Call, &format!("q{n}"))]), false);
        }
        assert_eq!(common.values.len(), VALUES_MAX + 1);
        assert_eq!(common.values[&(Attribute::Call, OTHER.to_owned())].selected, 50);
        assert_eq!(common.selected, (VALUES_MAX + 50) as u64);
    }
}
