//! Tasks that wait for each other.

use super::{At, Circle, For, Open};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Circles: from each task to those it waits for, until one is met again.
pub(super) fn circles(waits: &[Open]) -> Vec<Circle> {
    let of: BTreeMap<At, &Open> = waits.iter().map(|w| (w.at, w)).collect();
    let mut done: FxHashSet<At> = FxHashSet::default();
    let mut out: Vec<Circle> = Vec::new();
    for &start in of.keys() {
        // a path, and how many of each one's edges were followed
        let mut path: Vec<(At, usize)> = Vec::new();
        if done.insert(start) {
            path.push((start, 0));
        }
        while let Some((at, next)) = path.last_mut() {
            let edges = of.get(at).map_or(&[][..], |w| &w.awaited);
            let Some(edge) = edges.get(*next) else {
                path.pop();
                continue;
            };
            *next += 1;
            let Some(to) = edge.peer.filter(|p| of.contains_key(p)) else { continue };
            if let Some(i) = path.iter().position(|p| p.0 == to) {
                let members: Vec<At> = path[i..].iter().map(|p| p.0).collect();
                let is_stuck = |m: &At| of.get(m).is_some_and(|w| w.what == For::Bytes);
                out.push(Circle { is_deadlock: members.iter().all(is_stuck), members });
            } else if done.insert(to) {
                path.push((to, 0));
            }
        }
    }
    out
}
