//! The joint fit: corrections of all hosts' clocks at once, under the bounds of all pairs.
//!
//! A composed transform does not guard pairs outside the spanning tree from inversion (wait paper, section 2.2). So each
//! host's correction is a continuous line through unknown values at common knots, every corner of every hull is a
//! linear inequality between two hosts' lines, and what is sought is the fit with the widest margins: for each pair (and
//! piece) the least slack of its messages is its margin, and the product of all margins is to be largest. For one pair
//! alone that is the middle of the widest strip between the two hulls; where margins compete, none is given up.
//! It is found by Newton's method on the logarithms, with the inequalities as a barrier.

/// One message's inequality: `delay + correction of to at its receive - correction of from at its send >= 0`.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Sender, and when it sent on its coarse time.
    pub from: (usize, i64),
    /// Receiver, and when it received.
    pub to: (usize, i64),
    /// The strip that its slack is a margin of; none where only one direction bounds it.
    pub strip: Option<usize>,
}

/// The corrections: for each host its values (ns) at the knots.
pub type Corrections = Vec<Vec<f64>>;

/// Why there is no fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contradiction {
    /// The best fit still violates a bound by this much (ns).
    pub by_ns: f64,
}

/// Clocks differ in speed by about so much: what holds a slope where messages do not.
pub const DRIFT_USUAL: f64 = 50e-6;
/// Slopes change from one piece to the next by about so much.
const BEND_USUAL: f64 = 2e-6;
/// A fit must leave that much, so that rounding to whole nanoseconds inverts nothing (ns).
const SLACK_MIN: f64 = 3.0;

/// What is solved: unknowns are the corrections of all hosts but the fixed one, and the strips' margins.
struct Problem<'a> {
    hosts: usize,
    fixed: usize,
    knots: &'a [i64],
    rows: Vec<Row>,
}

struct Row {
    /// Unknown and coefficient; the fixed host's are left out.
    terms: [(usize, f64); 4],
    terms_used: usize,
    delay: f64,
    strip: Option<usize>,
}

/// How a margin counts: by its logarithm, or (to find a first fit) by itself.
#[derive(Clone, Copy)]
enum Gain {
    Logarithm,
    Linear,
}

/// A sum of unknowns that is near zero unless messages say otherwise.
type Spring = Vec<(usize, f64)>;

/// How stiff the springs are: as much against margins at every weight of these, slack while a first fit is sought.
fn stiffness(gain: Gain, weight: f64) -> f64 {
    match gain {
        Gain::Logarithm => weight,
        Gain::Linear => 1e-3,
    }
}

impl<'a> Problem<'a> {
    fn new(hosts: usize, fixed: usize, knots: &'a [i64], bounds: &[Bound]) -> Problem<'a> {
        let mut p = Problem { hosts, fixed, knots, rows: Vec::new() };
        p.rows = bounds.iter().map(|b| p.row(b)).collect();
        p
    }

    fn unknowns(&self) -> usize {
        (self.hosts - 1) * self.knots.len()
    }

    /// The unknown of a host at a knot.
    fn unknown(&self, host: usize, knot: usize) -> Option<usize> {
        let rank = host - usize::from(host > self.fixed);
        (host != self.fixed).then_some(rank * self.knots.len() + knot)
    }

    fn row(&self, b: &Bound) -> Row {
        let mut row = Row { terms: [(0, 0.0); 4], terms_used: 0, delay: (b.to.1 - b.from.1) as f64, strip: b.strip };
        for ((host, at), sign) in [(b.to, 1.0), (b.from, -1.0)] {
            let last_piece = self.knots.len() - 2;
            let piece = self.knots.partition_point(|k| *k <= at).saturating_sub(1).min(last_piece);
            let (k0, k1) = (self.knots[piece], self.knots[piece + 1]);
            let part = (at - k0) as f64 / (k1 - k0) as f64;
            for (knot, value) in [(piece, 1.0 - part), (piece + 1, part)] {
                if let Some(u) = self.unknown(host, knot) {
                    row.terms[row.terms_used] = (u, sign * value);
                    row.terms_used += 1;
                }
            }
        }
        row
    }

    /// Weak springs that hold slopes where messages leave them open: (unknown, coefficient) sums.
    fn springs(&self) -> Vec<Spring> {
        let mut springs = Vec::new();
        let length = |k: usize| (self.knots[k + 1] - self.knots[k]) as f64;
        for host in (0..self.hosts).filter(|h| *h != self.fixed) {
            let u = |knot: usize| self.unknown(host, knot).unwrap_or(0);
            for k in 0..self.knots.len() - 1 {
                let scale = 1.0 / (DRIFT_USUAL * length(k));
                springs.push(vec![(u(k), -scale), (u(k + 1), scale)]);
            }
            for k in 1..self.knots.len() - 1 {
                let (before, after) = (1.0 / length(k - 1) / BEND_USUAL, 1.0 / length(k) / BEND_USUAL);
                springs.push(vec![(u(k - 1), before), (u(k), -before - after), (u(k + 1), after)]);
            }
        }
        springs
    }

    fn slack(&self, row: &Row, e: &[f64]) -> f64 {
        row.delay + row.terms[..row.terms_used].iter().map(|(u, c)| c * e[*u]).sum::<f64>()
    }

    /// The value that is to be largest; `None` outside the bounds.
    fn value(&self, e: &[f64], m: &[f64], gain: Gain, weight: f64, springs: &[Spring]) -> Option<f64> {
        let mut sum = 0.0;
        for &margin in m {
            match gain {
                Gain::Logarithm if margin <= 0.0 => return None,
                Gain::Logarithm => sum += weight * margin.ln(),
                Gain::Linear => sum += weight * margin,
            }
        }
        for row in &self.rows {
            let left = self.slack(row, e) - row.strip.map_or(0.0, |s| m[s]);
            if left <= 0.0 {
                return None;
            }
            sum += left.ln();
        }
        for terms in springs {
            let s: f64 = terms.iter().map(|(u, c)| c * e[*u]).sum();
            sum -= 0.5 * stiffness(gain, weight) * s * s;
        }
        Some(sum)
    }

    /// Newton's method to the largest value from a point inside.
    fn climb(&self, e: &mut [f64], m: &mut [f64], gain: Gain, weight: f64) {
        let n = e.len();
        let springs = self.springs();
        for _ in 0..80 {
            let (mut gradient, mut hessian) = (vec![0.0; n], vec![0.0; n * n]);
            let (mut gm, mut hm) = (vec![0.0; m.len()], vec![0.0; m.len()]);
            // how margins and unknowns mix: a sum for each strip
            let mut mixed = vec![0.0; m.len() * n];
            for (s, &margin) in m.iter().enumerate() {
                match gain {
                    Gain::Logarithm => (gm[s], hm[s]) = (weight / margin, weight / (margin * margin)),
                    Gain::Linear => (gm[s], hm[s]) = (weight, 1e-30),
                }
            }
            for row in &self.rows {
                let terms = &row.terms[..row.terms_used];
                let first = 1.0 / (self.slack(row, e) - row.strip.map_or(0.0, |s| m[s]));
                let second = first * first;
                for &(u, c) in terms {
                    gradient[u] += c * first;
                    for &(v, d) in terms {
                        hessian[u * n + v] += c * d * second;
                    }
                }
                if let Some(s) = row.strip {
                    gm[s] -= first;
                    hm[s] += second;
                    for &(u, c) in terms {
                        mixed[s * n + u] -= c * second;
                    }
                }
            }
            for terms in &springs {
                let w = stiffness(gain, weight);
                let at: f64 = terms.iter().map(|(u, c)| c * e[*u]).sum();
                for &(u, c) in terms {
                    gradient[u] -= w * at * c;
                    for &(v, d) in terms {
                        hessian[u * n + v] += w * c * d;
                    }
                }
            }
            // margins stand in no term with each other: eliminate them
            for s in 0..m.len() {
                let strip = &mixed[s * n..(s + 1) * n];
                let touched: Vec<usize> = (0..n).filter(|u| strip[*u] != 0.0).collect();
                for &u in &touched {
                    gradient[u] -= strip[u] * gm[s] / hm[s];
                    for &v in &touched {
                        hessian[u * n + v] -= strip[u] * strip[v] / hm[s];
                    }
                }
            }
            let Some(step) = solve(&mut hessian, &gradient) else { return };
            let step_m: Vec<f64> = (0..m.len())
                .map(|s| (gm[s] - (0..n).map(|u| mixed[s * n + u] * step[u]).sum::<f64>()) / hm[s])
                .collect();
            let gained: f64 = step.iter().zip(&gradient).map(|(s, g)| s * g).sum::<f64>();
            let gained = gained + (0..m.len()).map(|s| gm[s] * gm[s] / hm[s]).sum::<f64>();
            if !gained.is_finite() || gained < 1e-8 {
                return;
            }
            let Some(now) = self.value(e, m, gain, weight, &springs) else { return };
            let mut size = 1.0;
            loop {
                let there: Vec<f64> = e.iter().zip(&step).map(|(x, s)| x + size * s).collect();
                let margins: Vec<f64> = m.iter().zip(&step_m).map(|(x, s)| x + size * s).collect();
                if self.value(&there, &margins, gain, weight, &springs).is_some_and(|v| v >= now + 0.01 * size * gained)
                {
                    e.copy_from_slice(&there);
                    m.copy_from_slice(&margins);
                    break;
                }
                size *= 0.5;
                if size < 1e-9 {
                    return;
                }
            }
        }
    }
}

/// Solves `matrix * x = right` for a symmetric positive definite matrix, which it overwrites.
fn solve(matrix: &mut [f64], right: &[f64]) -> Option<Vec<f64>> {
    let n = right.len();
    for i in 0..n {
        // keeps an unknown that nothing holds from making the matrix singular
        matrix[i * n + i] = matrix[i * n + i] * (1.0 + 1e-12) + 1e-30;
    }
    for j in 0..n {
        let rest = &mut matrix[j * n..];
        let pivot = rest[j] - rest[..j].iter().map(|x| x * x).sum::<f64>();
        if pivot.is_nan() || pivot <= 0.0 {
            return None;
        }
        let pivot = pivot.sqrt();
        rest[j] = pivot;
        let (row_j, below) = rest.split_at_mut(n);
        for row in below.chunks_exact_mut(n) {
            let dot: f64 = row[..j].iter().zip(&row_j[..j]).map(|(a, b)| a * b).sum();
            row[j] = (row[j] - dot) / pivot;
        }
    }
    let mut x = right.to_vec();
    for i in 0..n {
        let dot: f64 = (0..i).map(|k| matrix[i * n + k] * x[k]).sum();
        x[i] = (x[i] - dot) / matrix[i * n + i];
    }
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|k| matrix[k * n + i] * x[k]).sum();
        x[i] = (x[i] - dot) / matrix[i * n + i];
    }
    Some(x)
}

/// Finds the corrections; host `fixed` has none. `knots` are at least two, increasing. With `at_any_price` the least
/// bad fit is given even where bounds contradict each other, with how much it violates them.
pub fn fit(
    hosts: usize,
    fixed: usize,
    knots: &[i64],
    bounds: &[Bound],
    strips: usize,
) -> Result<Corrections, (Corrections, Contradiction)> {
    // first, one margin for all: the fit that is furthest inside, or least outside
    let single: Vec<Bound> = bounds.iter().map(|b| Bound { strip: Some(0), ..*b }).collect();
    let first = Problem::new(hosts, fixed, knots, &single);
    let mut e = vec![0.0; first.unknowns()];
    let least = first.rows.iter().map(|r| r.delay).fold(f64::INFINITY, f64::min);
    let corrections = |e: &[f64]| -> Corrections {
        let of = |h| (0..knots.len()).map(|k| first.unknown(h, k).map_or(0.0, |u| e[u])).collect();
        (0..hosts).map(of).collect()
    };
    if bounds.is_empty() {
        return Ok(corrections(&e));
    }
    let spread = first.rows.iter().map(|r| r.delay.abs()).fold(1.0, f64::max);
    let mut m = [least - 0.1 * spread - 1.0];
    // the barrier keeps the margin away from its best by at most rows / weight
    let mut weight = bounds.len() as f64 / spread;
    loop {
        first.climb(&mut e, &mut m, Gain::Linear, weight);
        let open = bounds.len() as f64 / weight;
        if m[0] > SLACK_MIN && m[0] > open {
            break;
        }
        if m[0] + open <= SLACK_MIN || open < 0.1 {
            if m[0] > SLACK_MIN {
                break;
            }
            return Err((corrections(&e), Contradiction { by_ns: (SLACK_MIN - m[0]).max(0.0) }));
        }
        weight *= 8.0;
    }
    // then each strip its own margin
    let second = Problem::new(hosts, fixed, knots, bounds);
    let mut margins = vec![f64::INFINITY; strips];
    for row in &second.rows {
        if let Some(s) = row.strip {
            margins[s] = margins[s].min(0.5 * second.slack(row, &e));
        }
    }
    margins.iter_mut().filter(|m| !m.is_finite()).for_each(|m| *m = 1.0);
    for weight in [1.0, 10.0, 100.0, 1_000.0] {
        second.climb(
            &mut e,
            &mut margins,
            Gain::Logarithm,
            weight * (bounds.len() as f64 / strips.max(1) as f64).max(1.0),
        );
    }
    Ok(corrections(&e))
}
