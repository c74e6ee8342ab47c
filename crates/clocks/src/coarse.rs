//! The coarse pass: approximate lines from a small sample, so that the main pass may forget what is not matched soon.

use super::bounds::Lines;
use super::fit::{self, Bound};
use super::groups::{Edge, Union, spanning_tree, ways};
use super::hull::Hull;
use super::sighting::Seen;
use super::sketch::Sketch;
use rustc_hash::FxHashSet;
use wakepath_model::clock::Transform;

/// Sends, and receives, that are sampled of each host: more in a further try, where the first do not do.
const CAPACITIES: [usize; 3] = [256, 4_096, 65_536];
/// A coarse line this close needs no further try (ns).
const CLOSE_NS: f64 = 5e6;
/// Messages that take longer on the way than this bound nothing that others would not (ns).
const ON_THE_WAY_NS: f64 = 10e6;

/// What the sample told.
pub struct Coarse {
    /// Each host's clock to its group's coarse line; `None` without any sighting.
    pub lines: Vec<Option<Transform>>,
    /// First and last sighting of each host.
    pub spans: Vec<Option<(u64, u64)>>,
    /// Who sent what was received by whom, as far as the sample has it.
    pub one_way: FxHashSet<(usize, usize)>,
    /// Who hangs together.
    pub union: Union,
    /// The host whose clock is each group's coarse line.
    pub root: Vec<usize>,
    /// How long the main pass must keep what is not matched (ns).
    pub window: i64,
    /// Entries held at most.
    pub held: usize,
}

/// A pair of hosts as the sample has it: the second's offset from the first, from the first sightings on.
struct Link {
    a: usize,
    b: usize,
    begin: f64,
    end: f64,
    length: f64,
    width: f64,
}

/// Finds coarse lines; `open` gives a host's sightings.
pub fn coarse<I: Iterator<Item = Seen>>(hosts: usize, reference: Option<usize>, open: &impl Fn(usize) -> I) -> Coarse {
    let mut held = 0;
    let mut found = None;
    for capacity in CAPACITIES {
        let sketches: Vec<Sketch> = (0..hosts).map(|h| Sketch::of(open(h), capacity)).collect();
        held = held.max(sketches.iter().map(Sketch::held).sum());
        let overflowed = sketches.iter().any(Sketch::overflowed);
        let result = lines(&sketches, reference);
        let any = |a: usize, b: usize| sketches[a].sent_to(&sketches[b]).next().is_some();
        let all = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b)));
        let one_way = all.filter(|&(a, b)| a != b && any(a, b)).collect();
        let is_enough = result.is_connected && result.worst <= CLOSE_NS;
        found = Some((result, sketches.iter().map(|s| s.span).collect::<Vec<_>>(), one_way));
        if is_enough || !overflowed {
            break;
        }
    }
    let Some((result, spans, one_way)) = found else { unreachable!("at least one capacity is tried") };
    let window = 2.0 * result.worst + ON_THE_WAY_NS;
    Coarse { lines: result.lines, spans, one_way, union: result.union, root: result.root, window: window as i64, held }
}

struct Laid {
    lines: Vec<Option<Transform>>,
    union: Union,
    root: Vec<usize>,
    worst: f64,
    is_connected: bool,
}

fn lines(sketches: &[Sketch], reference: Option<usize>) -> Laid {
    let hosts = sketches.len();
    let mut links = Vec::new();
    let mut messages = vec![0usize; hosts];
    for a in 0..hosts {
        for b in a + 1..hosts {
            if let Some((link, count)) = link(sketches, a, b) {
                messages[a] += count;
                messages[b] += count;
                links.push(link);
            }
        }
    }
    let edges: Vec<Edge> = links.iter().map(|l| (l.a, l.b, l.width)).collect();
    let tree: Vec<Edge> = spanning_tree(hosts, &edges).into_iter().map(|e| edges[e]).collect();
    let mut union = Union::new(hosts);
    tree.iter().for_each(|e| {
        union.join(e.0, e.1);
    });
    let mut root: Vec<usize> = (0..hosts).collect();
    for (h, root) in root.iter_mut().enumerate() {
        let members: Vec<usize> = (0..hosts).filter(|m| union.find(*m) == union.find(h)).collect();
        let most = members.iter().copied().max_by_key(|m| (messages[*m], hosts - m)).unwrap_or(h);
        *root = reference.filter(|r| members.contains(r)).unwrap_or(most);
    }
    let (mut worst, mut placed) = (0.0f64, vec![None; hosts]);
    for h in (0..hosts).filter(|h| root[*h] == *h) {
        // (offset, extra speed) of a host's time from its first sighting, to the root's from its own
        placed[h] = Some((0.0, 0.0));
        let ways = ways(hosts, &tree, h);
        let mut order: Vec<usize> = (0..hosts).filter(|m| ways[*m].is_some() && *m != h).collect();
        order.sort_by(|x, y| ways[*x].map(|w| w.0).partial_cmp(&ways[*y].map(|w| w.0)).expect("costs are numbers"));
        // parents first: along a way costs grow, and equal costs are retried
        let mut left = order.len();
        while left > 0 {
            let before = left;
            for &m in &order {
                let Some((cost, parent)) = ways[m] else { continue };
                if placed[m].is_some() {
                    continue;
                }
                if let Some((offset, speed)) = placed[parent]
                    && let Some(l) = links.iter().find(|l| (l.a, l.b) == (m.min(parent), m.max(parent)))
                {
                    let gain = (l.end - l.begin) / l.length;
                    // to the parent's time: the link says what the second shows when the first shows x
                    let (o, s) =
                        if l.b == m { (-l.begin / (1.0 + gain), -gain / (1.0 + gain)) } else { (l.begin, gain) };
                    placed[m] = Some((offset + o * (1.0 + speed), speed + s + speed * s));
                    worst = worst.max(cost);
                    left -= 1;
                }
            }
            if left == before {
                break;
            }
        }
    }
    let line = |h: usize| -> Option<Transform> {
        let (first, last) = sketches[h].span?;
        let origin = i128::from(sketches[root[h]].span?.0);
        let (offset, speed) = placed[h]?;
        let at = |t: u64| {
            let run = t - first;
            let x = origin + i128::from(run) + (offset + run as f64 * speed).round() as i128;
            i64::try_from(x).ok().map(|x| (t, x))
        };
        let two = (last > first).then(|| Transform::new(&[at(first)?, at(last)?])).flatten();
        two.or_else(|| at(first).map(Transform::through))
    };
    let mut all = union.clone();
    let seen: Vec<usize> = (0..hosts).filter(|h| sketches[*h].span.is_some()).collect();
    let is_connected = seen.windows(2).all(|w| all.find(w[0]) == all.find(w[1]));
    Laid { lines: (0..hosts).map(line).collect(), union, root, worst, is_connected }
}

/// The offset between two hosts as the sample bounds it, and how many messages it has; `None` where they did not send
/// in both directions.
fn link(sketches: &[Sketch], a: usize, b: usize) -> Option<(Link, usize)> {
    let (first_a, last_a) = sketches[a].span?;
    let first_b = sketches[b].span?.0;
    let since = |t: u64, first: u64| i64::try_from(t.saturating_sub(first)).unwrap_or(i64::MAX / 4);
    let (mut there, mut back, mut count) = (Hull::default(), Hull::default(), (0, 0));
    for (sent, received) in sketches[a].sent_to(&sketches[b]) {
        let x = since(sent, first_a);
        there.add((x, since(received, first_b) - x));
        count.0 += 1;
    }
    for (sent, received) in sketches[b].sent_to(&sketches[a]) {
        let y = since(sent, first_b);
        back.add((y, since(received, first_a) - y));
        count.1 += 1;
    }
    if count.0 == 0 || count.1 == 0 {
        return None;
    }
    let span = since(last_a, first_a).max(1);
    let mut lines = Lines::all(0, span);
    there.corners().iter().for_each(|p| lines.below(*p));
    back.corners().iter().for_each(|p| lines.above(*p));
    let ends = lines.offset(0).zip(lines.offset(span));
    let (begin, end, width) = match ends.zip(lines.plausible(fit::DRIFT_USUAL)) {
        Some(((x, y), line)) => (line.0, line.1, (x.1 - x.0).max(y.1 - y.0)),
        // the clocks are not linear, or a pairing is false: the least bad line, with what it misses
        None => {
            let strip = Some(0);
            let bounds: Vec<Bound> = there
                .corners()
                .iter()
                .map(|p| Bound { from: (0, p.0), to: (1, p.0 + p.1), strip })
                .chain(back.corners().iter().map(|p| Bound { from: (1, p.0), to: (0, p.0 + p.1), strip }))
                .collect();
            let (corrections, by_ns) = match fit::fit(2, 0, &[0, span], &bounds, 1) {
                Ok(c) => (c, 0.0),
                Err((c, contradiction)) => (c, contradiction.by_ns),
            };
            // a correction is added to the second's time: the offset is its negative
            (-corrections[1][0], -corrections[1][1], 4.0 * by_ns + 1e6)
        }
    };
    Some((Link { a, b, begin, end, length: span as f64, width }, count.0 + count.1))
}
