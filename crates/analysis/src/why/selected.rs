//! What a selection of requests spends more on than the others of the same kinds.

use super::{
    Answer, Comparison, Kind, KindName, Plan, Question, REQUESTS_MIN, Recording, Split, Wanted, durations, gather,
};
use crate::selection::Selection;
use std::collections::BTreeMap;
use wakepath_causality::Learned;

/// Of each kind of request, those of a selection against all others. Kinds of which none is selected are not told; nor
/// compared are those with too few others. Reads the folder three times.
pub fn selected(recording: &Recording<'_>, question: &Question<'_>, selection: &Selection) -> Answer {
    let mut answer = Answer::default();
    let mut found: Vec<(u128, KindName, u64, u64)> = Vec::new();
    let learned = Learned::of(recording.folder);
    for (name, (within, others)) in durations(recording, &learned, question, selection) {
        match (within.count(), others.count()) {
            (0, _) => {}
            (n, o) if o < REQUESTS_MIN => {
                answer.too_few.0 += 1;
                answer.too_few.1 += n + o;
            }
            (n, o) => found.push((within.excess(0, others.quantile(0.5)), name, n, o)),
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    answer.further = found.len().saturating_sub(question.kinds_max) as u64;
    found.truncate(question.kinds_max);
    let plan = |&(_, ref name, within, others): &(u128, KindName, u64, u64)| {
        let (slow, typical) = (Wanted::everything(within), Wanted::everything(others));
        (name.clone(), Plan { slow, typical, groups: Default::default() })
    };
    let mut plans: BTreeMap<KindName, Plan> = found.iter().map(plan).collect();
    gather(recording, &learned, Split::InTwo(selection), &mut plans);
    for (lost_ns, name, within, others) in found {
        if let Some(plan) = plans.remove(&name) {
            let compared = Comparison::new(plan.groups.0, plan.groups.1);
            answer.kinds.push(Kind { name, requests: within + others, compared, lost_ns });
        }
    }
    answer
}
