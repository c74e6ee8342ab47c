//! Who had each processor over time.

use super::{Part, Thin};
use std::collections::BTreeMap;
use wakepath_graph::Index;
use wakepath_model::ids::{CommonNs, HostId, TaskId};

/// A processor of a host.
#[derive(Clone, Debug)]
pub struct Processor {
    /// Which.
    pub cpu: u16,
    /// Who had it, each with how long in all (ns) and how often.
    pub by_task: BTreeMap<TaskId, (u64, u64)>,
    /// Who had it when, thinned. Where nobody is known to have had it, there is no part: it was idle, or a task had it that was
    /// not recorded.
    pub parts: Vec<Part<TaskId, ()>>,
}

/// The processors of a host on which tasks are known to have run between two moments; parts are for columns of this length (ns).
pub fn processors(index: &Index, host: HostId, from: CommonNs, to: CommonNs, column_ns: u64) -> Vec<Processor> {
    let all = index.processors(host).into_iter();
    all.map(|cpu| processor(index, host, cpu, (from, to), column_ns)).filter(|p| !p.by_task.is_empty()).collect()
}

fn processor(index: &Index, host: HostId, cpu: u16, (from, to): (CommonNs, CommonNs), column_ns: u64) -> Processor {
    let mut by_task: BTreeMap<TaskId, (u64, u64)> = BTreeMap::new();
    let local = |at: CommonNs| index.timeline().local(host, at);
    // they come last first: so is time here, counted backwards
    let back = |at: CommonNs| CommonNs(at.0.saturating_neg());
    let mut thin: Thin<Option<TaskId>, ()> = Thin::new(column_ns);
    let mut next = to;
    for held in index.holders(host, cpu, local(from), local(to)).filter(|held| held.is_end_known) {
        let (a, b) = (index.common(host, held.from).max(from), index.common(host, held.to).min(next));
        if a >= b {
            continue;
        }
        // what is not known between two lies between their parts, and is no part in the end
        if b < next {
            thin.add(back(next), back(b), None, ());
        }
        thin.add(back(b), back(a), Some(held.task), ());
        let sum = by_task.entry(held.task).or_default();
        sum.0 += b.0.abs_diff(a.0);
        sum.1 += 1;
        next = a;
    }
    let forwards = |p: Part<Option<TaskId>, ()>| {
        let Part { from, to, what, ns, count, detail } = p;
        Some(Part { from: back(to), to: back(from), what: what?, ns, count, detail })
    };
    let mut parts: Vec<Part<TaskId, ()>> = thin.finish().into_iter().filter_map(forwards).collect();
    parts.reverse();
    Processor { cpu, by_task, parts }
}
