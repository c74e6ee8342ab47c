//! What is kept and told of two hosts.

use super::bounds::Lines;
use super::groups::{Edge, hosts_on, spanning_tree, ways};
use super::points::MessageCounts;
use super::{Fitted, Pass};
use rustc_hash::FxHashMap;
use wakepath_model::clock::Transform;
use wakepath_model::ids::MonoNs;

/// A value, and the bounds that messages set it; none where they set none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounded {
    /// As chosen.
    pub value: f64,
    /// Least and greatest possible.
    pub range: Option<(f64, f64)>,
}

/// How two clocks relate during one linear piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieceReport {
    /// Begin and end, on the first host's clock.
    pub span: (MonoNs, MonoNs),
    /// What the second clock is ahead of the first at the begin, ns.
    pub begin_ns: (i64, Option<(i64, i64)>),
    /// The same at the end.
    pub end_ns: (i64, Option<(i64, i64)>),
    /// What the second clock gains on the first, in parts per million: the chosen and the two extreme slopes.
    pub drift_ppm: Bounded,
}

/// Why two hosts could not be synchronised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unsynchronised {
    /// Nothing that one sent was found at the other.
    NoMessages,
    /// Messages went one way only, from this host.
    OneWay(usize),
    /// No clock, however bent, puts all messages in order: off by this much (ns).
    Contradiction(f64),
}

/// Two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct PairReport {
    /// The first.
    pub a: usize,
    /// The second.
    pub b: usize,
    /// Their messages.
    pub counts: MessageCounts,
    /// Names that came twice and were left out.
    pub ambiguous: u64,
    /// The hosts by which the offset is best known, both ends included: two where they know best themselves.
    pub via: Vec<usize>,
    /// It is in the spanning tree.
    pub in_tree: bool,
    /// The most by which the offset may be off at any time that both were recorded (ns); `None` where not synchronised.
    pub uncertainty_ns: Option<u64>,
    /// The same while messages go: from the first to the last one of every two hosts on the way [`PairReport::via`].
    pub uncertainty_amid_ns: Option<u64>,
    /// The pieces, where synchronised.
    pub pieces: Vec<PieceReport>,
    /// Why not, where not.
    pub why_not: Option<Unsynchronised>,
}

/// The greater of two, where there are any.
fn worse(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map_or(a.or(b), |(a, b)| Some(a.max(b)))
}

/// What `b` shows when `a` shows `t`, less `t`.
fn offset(a: &Transform, b: &Transform, t: u64) -> i64 {
    let there = i128::from(b.inverse(a.at(t))) - i128::from(t);
    there.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl Pass<'_> {
    /// Every two hosts; completes the groups' spanning trees.
    pub(super) fn report(&mut self, fitted: &mut Fitted) -> Vec<PairReport> {
        let hosts = self.coarse.lines.len();
        let mut reports = Vec::new();
        for a in 0..hosts {
            for b in a + 1..hosts {
                reports.push(self.direct(a, b, fitted));
            }
        }
        let direct = |r: &&PairReport| r.uncertainty_ns.is_some();
        let edges: Vec<Edge> =
            reports.iter().filter(direct).map(|r| (r.a, r.b, r.uncertainty_ns.unwrap_or(0) as f64)).collect();
        let tree: Vec<(usize, usize)> =
            spanning_tree(hosts, &edges).into_iter().map(|e| (edges[e].0, edges[e].1)).collect();
        for g in &mut fitted.groups {
            g.tree = tree.iter().filter(|t| g.hosts.contains(&t.0)).copied().collect();
        }
        let ways: Vec<_> = (0..hosts).map(|h| ways(hosts, &edges, h)).collect();
        let amid: FxHashMap<(usize, usize), u64> =
            reports.iter().filter_map(|r| Some(((r.a, r.b), r.uncertainty_amid_ns?))).collect();
        for r in &mut reports {
            r.in_tree = tree.contains(&(r.a, r.b));
            let Some((cost, _)) = ways[r.a][r.b] else { continue };
            r.via = hosts_on(&ways[r.a], r.b);
            r.why_not = None;
            if r.pieces.is_empty() {
                self.compose(r, fitted, cost);
            }
            r.uncertainty_ns = Some(cost.ceil() as u64);
            let of_step = |step: &[usize]| amid.get(&(step[0].min(step[1]), step[0].max(step[1])));
            r.uncertainty_amid_ns = r.via.windows(2).map(of_step).sum();
        }
        reports
    }

    /// A pair as its own messages have it.
    fn direct(&mut self, a: usize, b: usize, fitted: &Fitted) -> PairReport {
        let ambiguous = [(a, b), (b, a)].iter().filter_map(|k| self.ambiguous.get(k)).sum();
        let mut report = PairReport {
            a,
            b,
            counts: MessageCounts::default(),
            ambiguous,
            via: Vec::new(),
            in_tree: false,
            uncertainty_ns: None,
            uncertainty_amid_ns: None,
            pieces: Vec::new(),
            why_not: Some(Unsynchronised::NoMessages),
        };
        let sampled = |from: usize, to: usize| self.coarse.one_way.contains(&(from, to));
        if sampled(a, b) != sampled(b, a) {
            report.why_not = Some(Unsynchronised::OneWay(if sampled(a, b) { a } else { b }));
        }
        let Some(points) = self.points.get(&(a, b)) else { return report };
        report.counts = points.counts;
        if let Some(by_ns) = fitted.contradictions.get(&(a, b)) {
            report.why_not = Some(Unsynchronised::Contradiction(*by_ns));
            return report;
        }
        if let Some(silent) = points.counts.messages.iter().position(|n| *n == 0) {
            report.why_not = Some(Unsynchronised::OneWay(if silent == 0 { b } else { a }));
            return report;
        }
        if fitted.clocks[a].is_none() || fitted.clocks[b].is_none() {
            return report;
        }
        let pieces = fitted.knots[a].len() - 1;
        let (mut worst, mut amid) = (None, None);
        for piece in 0..pieces {
            let Some((from, to)) = self.overlap(a, b, fitted, piece) else { continue };
            let mut lines = Lines::all(from, to);
            // a hull's corners have its first and its last message among them
            let mut messages: Option<(i64, i64)> = None;
            if let Some(points) = self.points.get_mut(&(a, b)) {
                let corners = [points.corners(0, piece, pieces), points.corners(1, piece, pieces)];
                corners[0].iter().for_each(|p| lines.below(*p));
                corners[1].iter().for_each(|p| lines.above(*p));
                for &(x, _) in corners.iter().flatten() {
                    messages = Some(messages.map_or((x, x), |(first, last)| (first.min(x), last.max(x))));
                }
            }
            let (told, off) = self.piece(a, b, fitted, (from, to), Some(&lines));
            report.pieces.extend(told);
            worst = worse(worst, off);
            // bounds open to both sides, so that they are widest at the ends of any interval
            let between = messages.map(|m| (m.0.clamp(from, to), m.1.clamp(from, to)));
            amid = worse(amid, between.and_then(|m| self.piece(a, b, fitted, m, Some(&lines)).1));
        }
        report.why_not = None;
        report.uncertainty_ns = worst.map(|w| w.ceil() as u64);
        report.uncertainty_amid_ns = amid.map(|w| w.ceil() as u64);
        report
    }

    /// The part of a piece in which both hosts were recorded, or all of it where they were not at the same time.
    fn overlap(&self, a: usize, b: usize, fitted: &Fitted, piece: usize) -> Option<(i64, i64)> {
        let knots = &fitted.knots[a];
        let span = |h: usize| {
            let (first, last) = self.coarse.spans[h]?;
            Some((self.line(h, first), self.line(h, last)))
        };
        let (of_a, of_b) = (span(a)?, span(b)?);
        let both = (of_a.0.max(of_b.0), of_a.1.min(of_b.1));
        let both = if both.0 < both.1 { both } else { (of_a.0.min(of_b.0), of_a.1.max(of_b.1)) };
        let part = (knots[piece].max(both.0), knots[piece + 1].min(both.1));
        (part.0 < part.1).then_some(part)
    }

    /// One piece; `lines` are those that the pair's own messages leave. Also how far off the offset may be.
    fn piece(
        &self,
        a: usize,
        b: usize,
        fitted: &Fitted,
        (from, to): (i64, i64),
        lines: Option<&Lines>,
    ) -> (Option<PieceReport>, Option<f64>) {
        let both = fitted.clocks[a].as_ref().zip(fitted.clocks[b].as_ref());
        let coarse = self.coarse.lines[a].as_ref().zip(self.coarse.lines[b].as_ref());
        let (Some((clock_a, clock_b)), Some((line_a, line_b))) = (both, coarse) else { return (None, None) };
        let mut off: Option<f64> = None;
        let mut end_at = |x: i64| {
            let t = line_a.inverse(x);
            let chosen = offset(clock_a, clock_b, t);
            // on the coarse lines, where the bounds are
            let coarse = (line_b.at(t.saturating_add_signed(chosen)) - x) as f64;
            let range = lines.and_then(|l| l.offset(x)).map(|(low, high)| {
                off = Some(off.unwrap_or(0.0).max(high - coarse).max(coarse - low));
                // a bound is never told tighter than it is
                (chosen + (low - coarse).floor() as i64, chosen + (high - coarse).ceil() as i64)
            });
            (t, coarse, (chosen, range))
        };
        let (begin, end) = (end_at(from), end_at(to));
        let length = end.0.saturating_sub(begin.0).max(1) as f64;
        let drift = (end.2.0 - begin.2.0) as f64 / length;
        let coarse_drift = (end.1 - begin.1) / (to - from).max(1) as f64;
        let range = lines
            .and_then(Lines::slope)
            .map(|(l, h)| ((drift + l - coarse_drift) * 1e6, (drift + h - coarse_drift) * 1e6));
        let told = PieceReport {
            span: (MonoNs(begin.0), MonoNs(end.0)),
            begin_ns: begin.2,
            end_ns: end.2,
            drift_ppm: Bounded { value: drift * 1e6, range },
        };
        (Some(told), off)
    }

    /// A pair that others bound: its pieces, with what the way between them leaves open.
    fn compose(&self, report: &mut PairReport, fitted: &Fitted, cost: f64) {
        let (a, b) = (report.a, report.b);
        if fitted.knots[a].is_empty() || fitted.clocks[b].is_none() {
            return;
        }
        for piece in 0..fitted.knots[a].len() - 1 {
            let Some(part) = self.overlap(a, b, fitted, piece) else { continue };
            let (told, _) = self.piece(a, b, fitted, part, None);
            report.pieces.extend(told.map(|mut p| {
                let wide = |v: i64| Some((v - cost.ceil() as i64, v + cost.ceil() as i64));
                (p.begin_ns.1, p.end_ns.1) = (wide(p.begin_ns.0), wide(p.end_ns.0));
                let length = p.span.1.0.saturating_sub(p.span.0.0).max(1) as f64;
                let open = 2.0 * cost / length * 1e6;
                p.drift_ppm.range = Some((p.drift_ppm.value - open, p.drift_ppm.value + open));
                p
            }));
        }
    }
}
