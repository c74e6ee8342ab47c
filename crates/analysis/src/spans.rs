//! Where a request's time went: the time of each span that no call of its covers, and the time between two sides.

use wakepath_causality::evidence::Rule;
use wakepath_causality::path::{Request, Span};
use wakepath_model::ids::{HostId, MonoNs};

/// A span with its times laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Index of the span in the request.
    pub index: u32,
    /// Depth below the root.
    pub depth: u32,
    /// The host whose clock `start` and `end` are of.
    pub host: HostId,
    /// Begin: the first byte's arrival where it was served, else when it was sent.
    pub start: MonoNs,
    /// End: the reply's last byte.
    pub end: MonoNs,
    /// Time from the first byte's arrival until a task took the request (ns).
    pub queued_ns: u64,
    /// Time inside the span that none of its calls covers, without the queueing (ns).
    pub self_ns: u64,
    /// Time that the caller saw and the server did not: network, and what it waited to be read (ns); `None` where
    /// one side was not watched.
    pub between_ns: Option<u64>,
}

impl Timed {
    /// Length of the span (ns).
    pub fn duration_ns(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }
}

/// Lays out the times of a request's spans.
pub fn lay_out(r: &Request) -> Vec<Timed> {
    let mut out: Vec<Timed> = Vec::with_capacity(r.spans.len());
    let mut calls: Vec<Vec<(u64, u64)>> = vec![Vec::new(); r.spans.len()];
    for s in &r.spans {
        if let (Some(p), Some(c)) = (s.parent, &s.caller) {
            calls[p as usize].push((c.exchange.began.0, c.exchange.ended.0));
        }
    }
    for (i, s) in r.spans.iter().enumerate() {
        let depth = s.parent.map_or(0, |p| out[p as usize].depth + 1);
        let Some(half) = s.callee.as_ref().or(s.caller.as_ref()) else { continue };
        let e = &half.exchange;
        let served = s.callee.is_some();
        // what arrived before the previous reply left waited behind it: that is queueing too
        let start = if served && e.arrived.0 != 0 { e.arrived.min(e.began) } else { e.began };
        let end = e.ended.max(e.began);
        let queued_ns = if served { e.taken.0.saturating_sub(start.0) } else { 0 };
        let covered = union(&mut calls[i], e.taken.0, end.0);
        let self_ns = if served { (end.0 - start.0).saturating_sub(covered + queued_ns) } else { end.0 - start.0 };
        let between_ns = match (&s.caller, &s.callee) {
            (Some(c), Some(_)) => {
                let seen = c.exchange.ended.0.saturating_sub(c.exchange.began.0);
                Some(seen.saturating_sub(end.0 - start.0))
            }
            _ => None,
        };
        out.push(Timed { index: i as u32, depth, host: half.host, start, end, queued_ns, self_ns, between_ns });
    }
    out
}

/// Length of the union of intervals, cut to `from..to`.
fn union(intervals: &mut [(u64, u64)], from: u64, to: u64) -> u64 {
    intervals.sort_unstable();
    let (mut covered, mut reached) = (0, from);
    for &(a, b) in intervals.iter() {
        let (a, b) = (a.max(reached), b.min(to));
        if b > a {
            covered += b - a;
            reached = b;
        }
    }
    covered
}

/// The evidence of a span, as shown: who made it, and how its two sides were joined.
pub fn evidence(s: &Span) -> String {
    let join = |r: Rule| format!("{} ({})", r.name(), r.class().name());
    match (s.made_by, s.joined_by) {
        (Some(m), Some(j)) => format!("{}, {}", join(m), join(j)),
        (Some(m), None) => join(m),
        (None, Some(j)) => join(j),
        (None, None) => "root".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_calls_count_once() {
        assert_eq!(union(&mut [(10, 20), (15, 30), (40, 50)], 0, 100), 30);
        assert_eq!(union(&mut [(0, 10), (90, 200)], 5, 100), 15);
        assert_eq!(union(&mut [], 0, 100), 0);
    }
}
