//! Waits for what another request's process let go of, slept in poll: row and advisory locks of a database.
//!
//! PostgreSQL's backends wait for such locks on a latch: in epoll, until the holder sends them a signal when it commits.
//! Who held whom up is seen, but not for what: each row is a lock of its own, and no record says which. A queue of one
//! token for all of them would make strangers wait for each other, so these waits stay as long as they were, and that is said.

use crate::derive::visits::{Visits, waits};
use rustc_hash::FxHashMap;
use wakepath_analysis::names::Names;
use wakepath_graph::Index;
use wakepath_model::ids::{HostId, MonoNs};
use wakepath_model::rows::{EndedBy, WaitRow};

/// Waits of one program.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    ns: u64,
}

/// A sentence for each program whose processes waited so at least `least` times. `calls` are the calls of a visit.
pub(super) fn kept(
    index: &Index,
    names: &Names<'_>,
    visits: &Visits,
    least: usize,
    calls: impl Fn(usize) -> Vec<(MonoNs, MonoNs)>,
) -> Vec<String> {
    let mut sums: FxHashMap<(HostId, &str), Sum> = FxHashMap::default();
    for (i, v) in visits.all().iter().enumerate() {
        let program = names.program(v.host, v.task);
        let is_holder = |w: &WaitRow| {
            let by = visits.at(v.host, w.by, w.woken);
            by.is_some_and(|b| b.tgid != v.tgid && b.request != v.request && names.program(v.host, b.task) == program)
        };
        let mut own: Option<Vec<(MonoNs, MonoNs)>> = None;
        for w in waits(index, v.host, v.task, v.from, v.to) {
            if w.cause != EndedBy::Task || !is_poll(&w) || !is_holder(&w) {
                continue;
            }
            let calls = own.get_or_insert_with(|| calls(i));
            if !calls.iter().any(|c| c.0 < w.woken && w.blocked < c.1) {
                let sum = sums.entry((v.host, program)).or_default();
                *sum = Sum { count: sum.count + 1, ns: sum.ns + w.woken.0.saturating_sub(w.blocked.0) };
            }
        }
    }
    let mut all: Vec<_> = sums.into_iter().filter(|(_, s)| s.count >= least as u64).collect();
    all.sort_unstable_by_key(|((host, program), _)| (*host, *program));
    let sentence = |((_, program), s): ((HostId, &str), Sum)| {
        format!(
            "{} waits of {program} for locks that another request held (row or advisory locks of a database), {:.3} ms each, stay \
             as long as they were: which row each was for is not recorded.",
            s.count,
            s.ns as f64 / s.count as f64 / 1e6
        )
    };
    all.into_iter().map(sentence).collect()
}

/// poll, select, epoll_wait and their kin of x86-64.
fn is_poll(w: &WaitRow) -> bool {
    matches!(w.syscall, 7 | 23 | 34 | 128 | 130 | 232 | 270 | 271 | 281 | 441)
}
