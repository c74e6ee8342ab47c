//! Requests whose path has holes, and the whole ones that stand for them.
//!
//! Where only some paths are whole, the short ones are: they had fewer chances to be lost. A model of these alone would be
//! of a faster system than was recorded. So each request that was answered and whose path is not known takes the path of
//! a whole one of the same kind that took about as long (a "hot deck"). Where there is none, the model would leave out
//! what was slow, or a kind as a whole: then there is no model.

use super::collect::Collected;
use crate::derive::Unsupported;
use wakepath_model::ids::CommonNs;

/// A path stands for a request that took up to so many times as long, or as short.
const ALIKE: f64 = 1.25;
/// Requests that take less than this apart (ns) took equally long.
const ALIKE_NS: u64 = 100_000;
/// Whole requests nearest in duration among which the one that stands for another is taken in turn.
const NEAREST: usize = 8;
/// Largest part of all requests, or of all their time, for which nothing may stand.
const UNCOVERED_MAX: f64 = 0.05;
/// Least part of the requests that must be whole.
const WHOLE_MIN: f64 = 0.1;

/// Which whole requests stand for those with holes.
#[derive(Debug, Default)]
pub struct Cover {
    /// Of each of [`Collected::missing`], the whole request whose path it takes; `None` = it is left out.
    pub donors: Vec<Option<u32>>,
    /// Of each whole request, for how many it stands, itself included.
    pub weights: Vec<u32>,
    /// Part of the requests with holes for which none stands.
    pub uncovered: f64,
}

/// A whole request: kind, duration (ns), index.
type Donor = (u32, u64, u32);

/// Finds who stands for whom, or says why the whole requests are not like all.
pub fn cover(c: &Collected, took: impl Fn(usize) -> u64) -> Result<Cover, Unsupported> {
    let mut donors: Vec<Donor> = c.kind_of.iter().enumerate().map(|(i, &kind)| (kind, took(i), i as u32)).collect();
    donors.sort_unstable();
    let mut out = Cover { donors: Vec::new(), weights: vec![1; donors.len()], uncovered: 0.0 };
    let (mut lost_count, mut lost_ns) = (0u64, 0u128);
    for (n, m) in c.missing.iter().enumerate() {
        let ns = between(m.came, m.left);
        let found = donor(&donors, m.kind, ns, n);
        match found {
            Some(i) => out.weights[i as usize] += 1,
            None => (lost_count, lost_ns) = (lost_count + 1, lost_ns + u128::from(ns)),
        }
        out.donors.push(found);
    }
    let (whole, missing) = (donors.len() as u64, c.missing.len() as u64);
    let of_whole: u128 = donors.iter().map(|d| u128::from(d.1)).sum();
    let of_missing: u128 = c.missing.iter().map(|m| u128::from(between(m.came, m.left))).sum();
    out.uncovered = share_of(lost_count, missing);
    let lost = share_of(lost_count, whole + missing).max(lost_ns as f64 / (of_whole + of_missing).max(1) as f64);
    if lost > UNCOVERED_MAX || share_of(whole, whole + missing) < WHOLE_MIN {
        return Err(Unsupported::new(
            format!(
                "{missing} of {} answered requests have an incomplete path, and for {:.0} % of the time no complete one of the same \
                 kind and duration can stand",
                whole + missing,
                100.0 * lost_ns as f64 / (of_whole + of_missing).max(1) as f64
            ),
            "`wakepath requests` says which fact is missing, and how to get it",
        )
        .of_requests());
    }
    Ok(out)
}

/// A whole request of a kind that took about so long: in turn (`n`) one of those nearest.
fn donor(donors: &[Donor], kind: u32, ns: u64, n: usize) -> Option<u32> {
    let of_kind = &donors[donors.partition_point(|d| d.0 < kind)..donors.partition_point(|d| d.0 <= kind)];
    let low = ((ns as f64 / ALIKE) as u64).min(ns.saturating_sub(ALIKE_NS));
    let high = ((ns as f64 * ALIKE) as u64).max(ns.saturating_add(ALIKE_NS));
    let alike = &of_kind[of_kind.partition_point(|d| d.1 < low)..of_kind.partition_point(|d| d.1 <= high)];
    let middle = alike.partition_point(|d| d.1 < ns);
    let from = middle.saturating_sub(NEAREST / 2).min(alike.len().saturating_sub(NEAREST));
    let near = &alike[from..alike.len().min(from + NEAREST)];
    near.get(n % near.len().max(1)).map(|d| d.2)
}

fn share_of(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn between(a: CommonNs, b: CommonNs) -> u64 {
    super::between(a, b)
}

#[cfg(test)]
mod tests {
    use super::super::collect::Missing;
    use super::*;
    use wakepath_model::ids::{EndpointId, HostId};

    fn collected(whole: &[(u32, u64)], missing: &[(u32, u64)]) -> (Collected, Vec<u64>) {
        let missing = missing.iter().map(|&(kind, ns)| Missing {
            kind,
            flow: (HostId(0), EndpointId(1)),
            came: CommonNs(0),
            left: CommonNs(ns as i64),
            is_served: true,
        });
        let mut c = Collected { missing: missing.collect(), ..Collected::default() };
        c.kind_of = whole.iter().map(|w| w.0).collect();
        (c, whole.iter().map(|w| w.1).collect())
    }

    fn covered(whole: &[(u32, u64)], missing: &[(u32, u64)]) -> Result<Cover, String> {
        let (c, took) = collected(whole, missing);
        cover(&c, |i| took[i]).map_err(|e| e.to_string())
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_request_with_holes_takes_the_path_of_one_that_took_as_long() {
        let whole: Vec<(u32, u64)> = (1..=20).map(|n| (0, n * 10 * MS)).collect();
        let cover = covered(&whole, &[(0, 101 * MS), (0, 200 * MS)]).expect("covered");
        for (donor, ns) in cover.donors.iter().zip([101 * MS, 200 * MS]) {
            let took = whole[donor.expect("one stands for it") as usize].1;
            assert!(took.abs_diff(ns) * 4 <= ns, "{took} for {ns}");
        }
        assert_eq!(cover.weights.iter().sum::<u32>(), 22);
    }

    #[test]
    fn refuses_where_only_the_fast_ones_are_whole() {
        // a third is whole, of 3 ms; the others took 50
        let whole = vec![(0, 3 * MS); 100];
        let problem = covered(&whole, &vec![(0, 50 * MS); 200]).expect_err("the slow ones are missing");
        assert!(problem.contains("200 of 300") && problem.contains("97 % of the time"), "{problem}");
    }

    #[test]
    fn refuses_where_a_kind_is_never_whole() {
        let problem = covered(&[(0, 3 * MS); 100], &[(1, 3 * MS); 20]).expect_err("nothing stands for that kind");
        assert!(problem.contains("20 of 120") && problem.contains("17 % of the time"), "{problem}");
    }

    #[test]
    fn refuses_where_hardly_any_is_whole() {
        assert!(covered(&[(0, 3 * MS); 20], &[(0, 3 * MS); 300]).is_err());
        assert!(covered(&[(0, 3 * MS); 40], &[(0, 3 * MS); 300]).is_ok());
    }
}
