//! Services that owe answers since before the recording, and which of them waits for which.

use super::looks::Before;
use crate::names::Names;
use rustc_hash::FxHashMap;
use wakepath_model::ids::HostId;

/// A service that owes answers since before the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owing {
    /// Its connections with an answer due: places in [`super::Unended::before`], oldest first.
    pub before: Vec<usize>,
    /// The services that its processes have asked, and that owe them the answer: places in the list.
    pub asks: Vec<usize>,
}

/// The services that owe answers: first those that ask none of the others, then those that ask these, and so on.
pub(super) fn owing(before: &[Before], names: &Names<'_>) -> Vec<Owing> {
    let program = |b: &Before| names.program(b.leader.0, b.leader.1).to_owned();
    let mut services: Vec<(HostId, u16, String)> = Vec::new();
    let mut out: Vec<Owing> = Vec::new();
    let mut of_process: FxHashMap<(HostId, u32), Vec<usize>> = FxHashMap::default();
    for (i, b) in before.iter().enumerate().filter(|(_, b)| b.is_asked) {
        let service = (b.leader.0, b.port, program(b));
        let place = services.iter().position(|s| *s == service).unwrap_or_else(|| {
            services.push(service);
            out.push(Owing { before: Vec::new(), asks: Vec::new() });
            out.len() - 1
        });
        out[place].before.push(i);
        let of = of_process.entry((b.leader.0, names.tgid(b.leader.0, b.leader.1))).or_default();
        if !of.contains(&place) {
            of.push(place);
        }
    }
    for asked in 0..out.len() {
        for i in out[asked].before.clone() {
            let Some(client) = before[i].other else { continue };
            for &asking in of_process.get(&(client.0, names.tgid(client.0, client.1))).into_iter().flatten() {
                if asking != asked && !out[asking].asks.contains(&asked) {
                    out[asking].asks.push(asked);
                }
            }
        }
    }
    deepest_first(out)
}

/// Puts those first that ask none of the others, then those that ask these. What asks each other in a circle comes last, as it was.
fn deepest_first(all: Vec<Owing>) -> Vec<Owing> {
    let mut order: Vec<usize> = Vec::new();
    loop {
        let is_next = |i: &usize| !order.contains(i) && all[*i].asks.iter().all(|a| order.contains(a));
        let next: Vec<usize> = (0..all.len()).filter(is_next).collect();
        if next.is_empty() {
            break;
        }
        order.extend(next);
    }
    let circle: Vec<usize> = (0..all.len()).filter(|i| !order.contains(i)).collect();
    order.extend(circle);
    let place = |old: usize| order.iter().position(|i| *i == old).unwrap_or_default();
    let moved = |o: &Owing| Owing { asks: o.asks.iter().map(|&a| place(a)).collect(), ..o.clone() };
    order.iter().map(|&i| moved(&all[i])).collect()
}
