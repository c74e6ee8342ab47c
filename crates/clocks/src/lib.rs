//! Clock synchronisation: how the clocks of a folder's hosts relate, from the messages between them.
//!
//! A message is received after it was sent. In both directions between two hosts this bounds the offset and the drift
//! of their clocks: the convex hull method (wait paper, section 2.2). Three passes over all hosts, each a stream:
//! a coarse one on a sample ([`coarse`]), the main one, which matches with expiry ([`matching`]) and keeps of all
//! messages the corners of their hulls ([`hull`]), and one that looks for messages that the fit ([`fit`]) inverts. Where
//! single messages contradict all others ([`outliers`]), the main one is made again without them.

pub mod bounds;
pub mod coarse;
mod connections;
pub mod fit;
pub mod groups;
pub mod hull;
pub mod matching;
pub mod outliers;
mod pairs;
mod points;
pub mod sighting;
pub mod sketch;

pub use pairs::{Bounded, PairReport, PieceReport, Unsynchronised};
pub use points::{CELLS, MessageCounts};

use coarse::Coarse;
use fit::Bound;
use groups::Union;
use hull::Point;
use matching::{Match, Matcher};
use points::PairPoints;
use rustc_hash::{FxHashMap, FxHashSet};
use sighting::{Seen, Sightings};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wakepath_model::clock::{ClockGroup, Transform};
use wakepath_model::folder::{Folder, TableSet};
use wakepath_model::ids::HostId;

/// Unknowns of the largest fit that is tried.
const UNKNOWNS_MAX: usize = 800;
/// How often the fit is made again with the messages that it inverted.
const ROUNDS_MAX: usize = 4;
/// How often the main pass is made again without the messages that contradict all others.
const GATHERINGS_MAX: usize = 8;

/// What came of a synchronisation.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Hosts on one line, with their clocks.
    pub groups: Vec<GroupReport>,
    /// Every two hosts.
    pub pairs: Vec<PairReport>,
    /// Messages matched.
    pub messages: u64,
    /// Messages that the result inverts.
    pub inversions: u64,
    /// How long unmatched things were kept in the main pass (ns).
    pub window_ns: i64,
    /// Entries held at most for matching, by the coarse pass and by the main one.
    pub held_max: (usize, usize),
    /// Corners of hulls held at the end.
    pub corners: usize,
}

/// Hosts whose clocks were synchronised.
#[derive(Clone, Debug)]
pub struct GroupReport {
    /// The reference.
    pub reference: usize,
    /// The hosts, the reference first.
    pub hosts: Vec<usize>,
    /// Their clocks to the reference's.
    pub clocks: Vec<Transform>,
    /// Pairs of the spanning tree.
    pub tree: Vec<(usize, usize)>,
    /// Linear pieces.
    pub pieces: usize,
}

impl Outcome {
    /// What a time line is made of.
    pub fn clock_groups(&self) -> Vec<ClockGroup> {
        let id = |h: usize| HostId(h as u16);
        let group = |g: &GroupReport| {
            let is_in = |p: &&PairReport| g.hosts.contains(&p.a) && g.hosts.contains(&p.b);
            ClockGroup {
                clocks: g.hosts.iter().zip(&g.clocks).map(|(h, c)| (id(*h), c.clone())).collect(),
                uncertainty: self
                    .pairs
                    .iter()
                    .filter(is_in)
                    .filter_map(|p| Some((id(p.a), id(p.b), p.uncertainty_ns?)))
                    .collect(),
            }
        };
        self.groups.iter().map(group).collect()
    }
}

/// Synchronises a folder's hosts. Where `reference` names a host, its group's line is that host's clock; else the
/// clock of the host with the most messages.
pub fn synchronise(folder: &Folder, reference: Option<HostId>) -> Outcome {
    let hosts = folder.hosts();
    let open = |h: usize| Sightings::new(&hosts[h]);
    synchronise_seen(hosts.len(), reference.map(|r| usize::from(r.0)), &open)
}

/// Bytes that [`synchronise`] reads of a folder in each of its passes.
pub fn bytes_to_read(folder: &Folder) -> u64 {
    folder.hosts().iter().map(|h| h.bytes_of(TableSet::of(&sighting::TABLES))).sum()
}

/// [`synchronise`] of whatever `open` says that each host saw, in the order of its clock; it is asked several times.
pub fn synchronise_seen<I: Iterator<Item = Seen>>(
    hosts: usize,
    reference: Option<usize>,
    open: &impl Fn(usize) -> I,
) -> Outcome {
    let coarse = coarse::coarse(hosts, reference, open);
    let mut pass = Pass::new(hosts, &coarse);
    let mut held_main = 0;
    for gathering in 1..=GATHERINGS_MAX {
        let mut matcher = Matcher::new(Some(coarse.window));
        side_by_side(&coarse, open, &mut matcher, &mut |m| pass.message(&m));
        held_main = matcher.held_max();
        pass.ambiguous = std::mem::take(&mut matcher.ambiguous);
        let fitted = pass.fit();
        if gathering == GATHERINGS_MAX || !pass.reject(&fitted) {
            break;
        }
        pass.points.clear();
    }
    let mut outcome = Outcome {
        window_ns: coarse.window,
        held_max: (coarse.held, held_main),
        corners: pass.held(),
        messages: pass.points.values().map(|p| p.counts.messages.iter().sum::<u64>()).sum(),
        ..Outcome::default()
    };
    for round in 1..=ROUNDS_MAX {
        let mut fitted = pass.fit();
        pass.forget_checks();
        let mut matcher = Matcher::new(Some(coarse.window));
        let inversions = {
            let (pass, fitted) = (&mut pass, &fitted);
            let mut inversions = 0;
            side_by_side(&coarse, open, &mut matcher, &mut |m| inversions += u64::from(pass.check(&m, fitted)));
            inversions
        };
        outcome.inversions = inversions;
        if inversions == 0 || round == ROUNDS_MAX {
            outcome.pairs = pass.report(&mut fitted);
            outcome.groups = fitted.groups;
            return outcome;
        }
    }
    outcome
}

/// Entries that matching in one pass holds at most, when all hosts are read one after the other: what the two steps are
/// compared with.
pub fn held_in_one_pass<I: Iterator<Item = Seen>>(hosts: usize, open: &impl Fn(usize) -> I) -> usize {
    let mut matcher = Matcher::new(None);
    for h in 0..hosts {
        for (at, sighting) in open(h) {
            matcher.see(h, at as i64, &sighting, &mut |_| {});
        }
    }
    matcher.held_max()
}

/// Gives the matcher all hosts' sightings in order of the coarse line. Hosts that hang together with nobody are left out.
fn side_by_side<I: Iterator<Item = Seen>>(
    coarse: &Coarse,
    open: &impl Fn(usize) -> I,
    matcher: &mut Matcher,
    out: &mut impl FnMut(Match),
) {
    let mut union = coarse.union.clone();
    let count = coarse.lines.len();
    let is_linked = |h: usize, union: &mut Union| (0..count).any(|o| o != h && union.find(o) == union.find(h));
    let mut streams: Vec<Option<(&Transform, I)>> =
        (0..count).map(|h| Some((coarse.lines[h].as_ref().filter(|_| is_linked(h, &mut union))?, open(h)))).collect();
    let mut next: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let mut heads: Vec<Option<Seen>> = vec![None; count];
    let mut advance = |h: usize, heads: &mut Vec<Option<Seen>>, next: &mut BinaryHeap<Reverse<(i64, usize)>>| {
        let Some((line, seen)) = &mut streams[h] else { return };
        heads[h] = seen.next();
        if let Some((at, _)) = heads[h] {
            next.push(Reverse((line.at(at), h)));
        }
    };
    (0..count).for_each(|h| advance(h, &mut heads, &mut next));
    while let Some(Reverse((now, h))) = next.pop() {
        if let Some((_, sighting)) = heads[h].take() {
            matcher.see(h, now, &sighting, out);
        }
        advance(h, &mut heads, &mut next);
    }
    matcher.finish(out);
}

/// What the main pass gathers, and what comes of it.
struct Pass<'c> {
    coarse: &'c Coarse,
    /// Begin and end of everything, on the coarse line.
    span: (i64, i64),
    points: FxHashMap<(usize, usize), PairPoints>,
    ambiguous: FxHashMap<(usize, usize), u64>,
    /// Messages that are left out: their pair, direction and place among the hull's points.
    rejected: FxHashSet<((usize, usize), usize, Point)>,
}

/// A fit of all groups.
struct Fitted {
    groups: Vec<GroupReport>,
    /// Each host's final clock; `None` where it is in no group.
    clocks: Vec<Option<Transform>>,
    /// Corrections of the coarse lines, by host, and the knots.
    knots: Vec<Vec<i64>>,
    corrections: Vec<Vec<f64>>,
    /// Pairs whose own messages contradict each other, by how much (ns).
    contradictions: FxHashMap<(usize, usize), f64>,
}

impl<'c> Pass<'c> {
    fn new(hosts: usize, coarse: &'c Coarse) -> Pass<'c> {
        let ends = (0..hosts).filter_map(|h| {
            let (first, last) = coarse.spans[h]?;
            coarse.lines[h].as_ref().map(|l| (l.at(first), l.at(last)))
        });
        let span = ends.reduce(|x, y| (x.0.min(y.0), x.1.max(y.1))).unwrap_or((0, 1));
        let span = (span.0, span.1.max(span.0 + 1));
        Pass {
            coarse,
            span,
            points: FxHashMap::default(),
            ambiguous: FxHashMap::default(),
            rejected: FxHashSet::default(),
        }
    }

    fn line(&self, host: usize, at: u64) -> i64 {
        self.coarse.lines[host].as_ref().map_or(0, |l| l.at(at))
    }

    /// Which part of the time.
    fn cell(&self, x: i64) -> usize {
        let part = i128::from(x - self.span.0) * CELLS as i128 / i128::from(self.span.1 - self.span.0);
        part.clamp(0, CELLS as i128 - 1) as usize
    }

    fn message(&mut self, m: &Match) {
        let (x, y) = (self.line(m.sent.0, m.sent.1), self.line(m.received.0, m.received.1));
        let cell = self.cell(x);
        let pair = (m.sent.0.min(m.received.0), m.sent.0.max(m.received.0));
        let direction = usize::from(m.sent.0 > m.received.0);
        let is_rejected = self.is_rejected(pair, direction, (x, y - x));
        let points = self.points.entry(pair).or_default();
        if is_rejected {
            points.counts.rejected += 1;
            return;
        }
        points.hulls[direction][cell].add((x, y - x));
        if !m.again {
            points.counts.messages[direction] += 1;
            points.counts.evidence[m.evidence.index()] += 1;
        }
    }

    fn is_rejected(&self, pair: (usize, usize), direction: usize, point: Point) -> bool {
        !self.rejected.is_empty() && self.rejected.contains(&(pair, direction, point))
    }

    /// Looks for messages that contradict all others of their pair, as long as they are few. False where there are none
    /// to be left out.
    fn reject(&mut self, fitted: &Fitted) -> bool {
        let knots = self.knots(CELLS);
        let before = self.rejected.len();
        for pair in fitted.contradictions.keys() {
            let Some(points) = self.points.get_mut(pair) else { continue };
            let mut suspects_in = |piece: usize, pieces: usize| {
                let corners = [points.corners(0, piece, pieces), points.corners(1, piece, pieces)];
                let cells = CELLS / pieces;
                outliers::candidates(&corners, knots[piece * cells], knots[(piece + 1) * cells])
            };
            // in short pieces a clock may bend as it likes, and what contradicts others still does
            let mut found: Vec<_> = (0..CELLS).flat_map(|piece| suspects_in(piece, CELLS)).collect();
            if found.is_empty() {
                found = suspects_in(0, 1);
            }
            let messages = points.counts.messages.iter().sum::<u64>() + points.counts.rejected;
            if found.len() as u64 + points.counts.rejected <= outliers::allowed(messages) {
                self.rejected.extend(found.into_iter().map(|(direction, point)| (*pair, direction, point)));
            }
        }
        self.rejected.len() > before
    }

    fn held(&self) -> usize {
        self.points.values().flat_map(|p| p.hulls.iter().flatten()).map(hull::Hull::held).sum()
    }

    fn forget_checks(&mut self) {
        for p in self.points.values_mut() {
            (p.counts.inversions, p.counts.delay_min_ns) = (0, [None; 2]);
        }
    }

    /// Whether the fit inverts a message; one that it does becomes a bound of the next fit.
    fn check(&mut self, m: &Match, fitted: &Fitted) -> bool {
        let clocks = fitted.clocks[m.sent.0].as_ref().zip(fitted.clocks[m.received.0].as_ref());
        let Some((from, to)) = clocks else { return false };
        let delay = to.at(m.received.1).saturating_sub(from.at(m.sent.1));
        let (x, y) = (self.line(m.sent.0, m.sent.1), self.line(m.received.0, m.received.1));
        let cell = self.cell(x);
        let pair = (m.sent.0.min(m.received.0), m.sent.0.max(m.received.0));
        let direction = usize::from(m.sent.0 > m.received.0);
        if self.is_rejected(pair, direction, (x, y - x)) {
            return false;
        }
        let Some(points) = self.points.get_mut(&pair) else { return false };
        let least = &mut points.counts.delay_min_ns[direction];
        *least = Some(least.map_or(delay, |l| l.min(delay)));
        if delay < 0 {
            points.counts.inversions += 1;
            points.inverted.push((direction, x, y));
            points.inverted.truncate(1_000);
            points.hulls[direction][cell].add((x, y - x));
        }
        delay < 0
    }

    /// Fits every group, in as few pieces as it takes.
    fn fit(&mut self) -> Fitted {
        let hosts = self.coarse.lines.len();
        let mut fitted = Fitted {
            groups: Vec::new(),
            clocks: vec![None; hosts],
            knots: vec![Vec::new(); hosts],
            corrections: vec![Vec::new(); hosts],
            contradictions: FxHashMap::default(),
        };
        let mut two_way: Vec<(usize, usize)> =
            self.points.iter().filter(|(_, p)| p.counts.messages.iter().all(|n| *n > 0)).map(|(k, _)| *k).collect();
        two_way.sort_unstable();
        // a pair whose own messages no line separates, however short the pieces, says nothing
        two_way.retain(|&pair| match self.fit_pieces(&[pair.0, pair.1], pair.0, &[pair], &[]) {
            Ok(_) => true,
            Err(contradiction) => {
                fitted.contradictions.insert(pair, contradiction.by_ns);
                false
            }
        });
        let mut union = Union::new(hosts);
        two_way.iter().for_each(|p| {
            union.join(p.0, p.1);
        });
        for lead in 0..hosts {
            let members: Vec<usize> = (0..hosts).filter(|h| union.find(*h) == union.find(lead)).collect();
            if members.len() < 2 || members[0] != lead {
                continue;
            }
            let root = self.coarse.root[lead];
            let reference = if members.contains(&root) { root } else { lead };
            let is_in = |p: &&(usize, usize)| members.contains(&p.0);
            let pairs: Vec<(usize, usize)> = two_way.iter().filter(is_in).copied().collect();
            let excluded: Vec<(usize, usize)> = fitted.contradictions.keys().copied().collect();
            match self.fit_pieces(&members, reference, &pairs, &excluded) {
                Ok((knots, corrections)) => self.settle(&mut fitted, &members, reference, &pairs, knots, corrections),
                Err(contradiction) => {
                    fitted.contradictions.extend(pairs.iter().map(|p| (*p, contradiction.by_ns)));
                }
            }
        }
        fitted
    }

    /// Fits some hosts under the bounds of some pairs; returns the knots and each host's corrections at them.
    fn fit_pieces(
        &mut self,
        members: &[usize],
        reference: usize,
        pairs: &[(usize, usize)],
        excluded: &[(usize, usize)],
    ) -> Result<(Vec<i64>, fit::Corrections), fit::Contradiction> {
        let index = |h: usize| members.iter().position(|m| *m == h);
        let mut last = fit::Contradiction { by_ns: 0.0 };
        let mut pieces = 1;
        while pieces <= CELLS && (pieces == 1 || (members.len() - 1) * (pieces + 1) <= UNKNOWNS_MAX) {
            let knots = self.knots(pieces);
            let (mut bounds, mut strips) = (Vec::new(), 0);
            for (&(a, b), points) in &mut self.points {
                let Some((ia, ib)) = index(a).zip(index(b)) else { continue };
                if excluded.contains(&(a, b)) {
                    continue;
                }
                let is_margin = pairs.contains(&(a, b));
                for piece in 0..pieces {
                    let there = points.corners(0, piece, pieces);
                    let back = points.corners(1, piece, pieces);
                    let strip = (is_margin && !there.is_empty() && !back.is_empty()).then_some(strips);
                    strips += usize::from(strip.is_some());
                    bounds.extend(there.iter().map(|p| Bound { from: (ia, p.0), to: (ib, p.0 + p.1), strip }));
                    bounds.extend(back.iter().map(|p| Bound { from: (ib, p.0), to: (ia, p.0 + p.1), strip }));
                }
                for &(direction, x, y) in &points.inverted {
                    let (from, to) = if direction == 0 { (ia, ib) } else { (ib, ia) };
                    bounds.push(Bound { from: (from, x), to: (to, y), strip: None });
                }
            }
            match fit::fit(members.len(), index(reference).unwrap_or(0), &knots, &bounds, strips) {
                Ok(corrections) => return Ok((knots, corrections)),
                Err((_, contradiction)) => last = contradiction,
            }
            pieces *= 2;
        }
        Err(last)
    }

    /// Ends of pieces, on the coarse line.
    fn knots(&self, pieces: usize) -> Vec<i64> {
        let length = i128::from(self.span.1 - self.span.0);
        (0..=pieces).map(|k| self.span.0 + (length * k as i128 / pieces as i128) as i64).collect()
    }

    fn settle(
        &self,
        fitted: &mut Fitted,
        members: &[usize],
        reference: usize,
        pairs: &[(usize, usize)],
        knots: Vec<i64>,
        corrections: fit::Corrections,
    ) {
        let clock = |h: usize, corrections: &[f64]| -> Option<Transform> {
            let line = self.coarse.lines[h].as_ref()?;
            let mut points: Vec<(u64, i64)> = Vec::new();
            for &k in &knots {
                // where a knot lies before the host's clock began, the begin stands for it
                let t = line.inverse(k);
                let x = line.at(t);
                let point = (t, x + points::correction_at(&knots, corrections, x).round() as i64);
                if points.last().is_none_or(|p| p.0 < t) {
                    points.push(point);
                }
            }
            Transform::new(&points)
        };
        let mut hosts = vec![reference];
        hosts.extend(members.iter().filter(|m| **m != reference));
        let mut clocks = Vec::new();
        for (m, c) in members.iter().zip(&corrections) {
            fitted.clocks[*m] = clock(*m, c);
            fitted.knots[*m].clone_from(&knots);
            fitted.corrections[*m].clone_from(c);
        }
        clocks.extend(hosts.iter().filter_map(|h| fitted.clocks[*h].clone()));
        if clocks.len() < hosts.len() {
            members.iter().for_each(|m| fitted.clocks[*m] = None);
            return;
        }
        fitted.groups.push(GroupReport { reference, hosts, clocks, tree: pairs.to_vec(), pieces: knots.len() - 1 });
    }
}
