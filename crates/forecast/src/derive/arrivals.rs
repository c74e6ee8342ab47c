//! How requests come: from clients that wait for an answer before they ask again, or whatever becomes of those before; and
//! which clients ask for something else than the others.

use super::ArrivalModel;
use super::requests::services::most_at_once;
use crate::jobs::{Arrivals, Crowd};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use wakepath_model::ids::{CommonNs, EndpointId, HostId};

/// A connection.
type Flow = (HostId, EndpointId);
/// From its first request to its last reply.
type Life = (CommonNs, CommonNs);

/// A request from outside.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    /// Over which connection.
    pub flow: (HostId, EndpointId),
    /// When it came.
    pub came: CommonNs,
    /// When it was answered.
    pub left: CommonNs,
}

/// What was inferred.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred {
    /// How they come.
    pub arrivals: Arrivals,
    /// Of each request, its client's pause before it (ns).
    pub thinks: Vec<u64>,
    /// Why, a sentence.
    pub why: String,
}

/// Of connections that carry so many requests on average, each is a client.
const KEPT: usize = 2;
/// Part of the time in which nearly the same number must be under way, for clients with a connection a request to count
/// as closed.
const STEADY: f64 = 0.8;

/// Who begins and ends within this part of the recording from its ends was there all the time: one part in so many.
const EDGE: u64 = 5;

/// Infers how requests come; `coming` is in order of time. `wanted`: the caller knows.
///
/// Where connections are kept, each is a client. Clients that pause take a pause that has nothing to do with how long
/// the answer took; who sends at given times pauses the shorter the longer that was. So the pause's slope over the
/// answer's time tells: 0 is closed, -1 is open. Where connections are not kept, closed is a number under way that hardly changes.
pub fn infer(coming: &[Coming], wanted: Option<ArrivalModel>) -> Inferred {
    let mut flows: FxHashMap<(HostId, EndpointId), (CommonNs, CommonNs)> = FxHashMap::default();
    for c in coming {
        let f = flows.entry(c.flow).or_insert((c.came, c.left));
        f.1 = f.1.max(c.left);
    }
    let is_kept = flows.len() * KEPT <= coming.len();
    let (model, why, clients) = if is_kept {
        let lives: Vec<(CommonNs, CommonNs)> = flows.values().copied().collect();
        let slope = slope(coming);
        let of = match flows.len() {
            1 => "1 connection carries several requests".to_owned(),
            n => format!("{n} connections carry several requests"),
        };
        let clients = most_at_once(&lives).max(1);
        match slope {
            Some(s) if s < -0.5 => {
                (ArrivalModel::Open, format!("{of}, and clients pause less after slower answers"), clients)
            }
            _ => (ArrivalModel::Closed, format!("{of}, and each sends its next request only after a reply"), clients),
        }
    } else {
        let Steady { share, near: (least, most), mean } = steady(coming);
        let of = "each request has a connection of its own";
        let measured =
            format!("{least} to {most} are in progress for {:.0} % of the time ({mean:.1} on average)", 100.0 * share);
        if share >= STEADY {
            (ArrivalModel::Closed, format!("{of}, and {measured}"), most)
        } else {
            (ArrivalModel::Open, format!("{of}, and their number in progress varies: {measured}"), most)
        }
    };
    let why = match wanted {
        Some(w) if w != model => "as given".into(),
        _ => why,
    };
    match wanted.unwrap_or(model) {
        ArrivalModel::Open => Inferred { arrivals: Arrivals::Open, thinks: vec![0; coming.len()], why },
        ArrivalModel::Closed => {
            let thinks = if is_kept { by_flow(coming) } else { by_turn(coming) };
            Inferred { arrivals: Arrivals::Closed { clients }, thinks, why }
        }
    }
}

fn between(a: CommonNs, b: CommonNs) -> u64 {
    u64::try_from(b.0.saturating_sub(a.0)).unwrap_or(0)
}

/// The pauses on each connection.
fn by_flow(coming: &[Coming]) -> Vec<u64> {
    let mut last: FxHashMap<(HostId, EndpointId), CommonNs> = FxHashMap::default();
    coming.iter().map(|c| last.insert(c.flow, c.left).map_or(0, |l| between(l, c.came))).collect()
}

/// The pauses of clients of whom the one that was answered last asks next: who waits for an answer asks again soon after
/// it.
fn by_turn(coming: &[Coming]) -> Vec<u64> {
    let mut idle: BTreeSet<(CommonNs, usize)> = BTreeSet::new();
    let pause = |(i, c): (usize, &Coming)| {
        let free = idle.range(..(c.came, usize::MAX)).next_back().copied();
        idle.insert((c.left, i));
        free.map_or(0, |f| {
            idle.remove(&f);
            between(f.0, c.came)
        })
    };
    coming.iter().enumerate().map(pause).collect()
}

/// The slope of the pause after an answer over the time that the answer took, within connections: that some clients pause
/// longer than others, which are answered later, says nothing of either. `None` where answers hardly differ.
fn slope(coming: &[Coming]) -> Option<f64> {
    // the last request, and of those before it how long the answer and the pause after it took
    type Told = (Coming, Vec<(f64, f64)>);
    let mut flows: FxHashMap<Flow, Told> = FxHashMap::default();
    for c in coming {
        match flows.get_mut(&c.flow) {
            Some((l, pairs)) => {
                pairs.push((between(l.came, l.left) as f64, between(l.left, c.came) as f64));
                *l = *c;
            }
            None => {
                flows.insert(c.flow, (*c, Vec::new()));
            }
        }
    }
    let (mut count, mut xx, mut xy) = (0, 0.0, 0.0);
    for (_, pairs) in flows.values() {
        let n = pairs.len() as f64;
        let (mx, my) = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
        count += pairs.len();
        xx += pairs.iter().map(|p| (p.0 - mx).powi(2)).sum::<f64>();
        xy += pairs.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>();
    }
    (count >= 16 && xx > 0.0).then(|| xy / xx)
}

/// Clients that ask for other things than others do, the crowd with most requests first: `asked` says what each request asks
/// for. None where connections are not kept, or one connection or another asks for everything.
pub fn crowds(coming: &[Coming], asked: &[usize]) -> Vec<Crowd> {
    let mut lives: FxHashMap<Flow, (CommonNs, CommonNs, usize)> = FxHashMap::default();
    // what is asked for on one connection belongs together: each leads to another, the last to itself
    let mut leads: FxHashMap<usize, usize> = FxHashMap::default();
    let root = |leads: &FxHashMap<usize, usize>, mut at: usize| {
        while let Some(&to) = leads.get(&at).filter(|to| **to != at) {
            at = to;
        }
        at
    };
    for (c, &what) in coming.iter().zip(asked) {
        leads.entry(what).or_insert(what);
        let life = lives.entry(c.flow).or_insert((c.came, c.left, what));
        life.1 = life.1.max(c.left);
        let (a, b) = (root(&leads, life.2), root(&leads, what));
        leads.insert(a, b);
    }
    let (Some(first), Some(last)) = (coming.first(), coming.last()) else { return Vec::new() };
    if lives.len() * KEPT > coming.len() {
        return Vec::new();
    }
    // how many requests, the lives of their connections, and what they ask for
    type Found = (usize, Vec<Life>, Vec<usize>);
    let mut found: BTreeMap<usize, Found> = BTreeMap::new();
    asked.iter().for_each(|&what| found.entry(root(&leads, what)).or_default().0 += 1);
    for &(from, to, what) in lives.values() {
        found.entry(root(&leads, what)).or_default().1.push((from, to));
    }
    let mut all: Vec<usize> = leads.keys().copied().collect();
    all.sort_unstable();
    all.iter().for_each(|&what| found.entry(root(&leads, what)).or_default().2.push(what));
    let (begun, edge) = (first.came, between(first.came, last.came) / EDGE);
    let crowd = |(count, lives, asks): Found| {
        let from = lives.iter().map(|l| l.0).min().unwrap_or(begun);
        let to = lives.iter().map(|l| l.1).max().unwrap_or(begun);
        let stays = between(begun, from) <= edge && between(to, last.came) <= edge;
        (count, Crowd { clients: most_at_once(&lives).max(1), asks, stays })
    };
    let mut crowds: Vec<(usize, Crowd)> = found.into_values().map(crowd).collect();
    if crowds.len() < 2 {
        return Vec::new();
    }
    crowds.sort_by_key(|c| std::cmp::Reverse(c.0));
    crowds.into_iter().map(|c| c.1).collect()
}

/// How steady the number under way is.
struct Steady {
    /// The part of the time in which it is near the usual.
    share: f64,
    /// The least and the most that are near: within a fifth, and at least one.
    near: (u32, u32),
    /// On average over all the time from the first request to the last reply.
    mean: f64,
}

/// How steady the number under way is.
fn steady(coming: &[Coming]) -> Steady {
    let mut steps: Vec<(CommonNs, i32)> = coming.iter().flat_map(|c| [(c.came, 1), (c.left, -1)]).collect();
    steps.sort_unstable_by_key(|&(at, n)| (at, -n));
    let mut at: FxHashMap<i32, u64> = FxHashMap::default();
    let (mut now, mut most) = (0i32, 0i32);
    for pair in steps.windows(2) {
        now += pair[0].1;
        most = most.max(now);
        *at.entry(now).or_default() += between(pair[0].0, pair[1].0);
    }
    let all: u64 = at.values().sum();
    let usual = at.iter().max_by_key(|(n, ns)| (**ns, **n)).map_or(0, |(n, _)| *n);
    let room = (usual / 5).max(1);
    // nobody under way is no client's waiting
    let near: u64 = at.iter().filter(|(n, _)| **n > 0 && (**n - usual).abs() <= room).map(|(_, ns)| *ns).sum();
    let sum: f64 = at.iter().map(|(n, ns)| f64::from(*n) * *ns as f64).sum();
    let part = |ns: f64| if all == 0 { 0.0 } else { ns / all as f64 };
    let near_most = (usual + room).min(most).max(1).unsigned_abs();
    Steady {
        share: part(near as f64),
        near: ((usual - room).max(1).unsigned_abs().min(near_most), near_most),
        mean: part(sum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(flow: u64, came: i64, left: i64) -> Coming {
        Coming { flow: (HostId(0), EndpointId(flow)), came: CommonNs(came), left: CommonNs(left) }
    }

    /// Answers that take now longer, now shorter.
    fn length(n: i64) -> i64 {
        100 + (n * 37) % 90
    }

    #[test]
    fn who_pauses_whatever_the_answer_took_is_a_client() {
        let mut at = 0;
        let mut coming = Vec::new();
        for n in 0..40 {
            coming.push(one(1, at, at + length(n)));
            at += length(n) + 50;
        }
        let found = infer(&coming, None);
        assert_eq!(found.arrivals, Arrivals::Closed { clients: 1 });
        assert!(found.thinks[1..].iter().all(|t| *t == 50) && found.thinks[0] == 0);
        assert_eq!(infer(&coming, Some(ArrivalModel::Open)).arrivals, Arrivals::Open);
    }

    #[test]
    fn who_sends_at_given_times_is_none() {
        let coming: Vec<Coming> = (0..40).map(|n| one(1, n * 300, n * 300 + length(n))).collect();
        let found = infer(&coming, None);
        assert_eq!(found.arrivals, Arrivals::Open);
        assert_eq!(infer(&coming, Some(ArrivalModel::Closed)).arrivals, Arrivals::Closed { clients: 1 });
    }

    /// One is answered after long and asks again at once, the other is answered at once and pauses: each waits for its answer.
    #[test]
    fn clients_that_differ_are_clients_all_the_same() {
        let mut coming = Vec::new();
        for (flow, took, pause) in [(1, 4_000, 10), (2, 200, 3_000)] {
            let mut at = flow;
            while at < 200_000 {
                let took = took + length(at) % 40;
                coming.push(one(flow as u64, at, at + took));
                at += took + pause;
            }
        }
        coming.sort_by_key(|c| c.came);
        assert_eq!(infer(&coming, None).arrivals, Arrivals::Closed { clients: 2 });
        let asked: Vec<usize> = coming.iter().map(|c| c.flow.1.0 as usize + 4).collect();
        let crowd = |asks: usize| Crowd { clients: 1, asks: vec![asks], stays: true };
        assert_eq!(crowds(&coming, &asked), [crowd(6), crowd(5)]);
        // where one connection asks for both, there is one crowd
        let at = coming.iter().position(|c| c.flow.1.0 == 1).expect("it asks");
        let mut both = asked.clone();
        both[at] = 6;
        assert_eq!(crowds(&coming, &both), []);
        assert_eq!(crowds(&coming, &vec![0; asked.len()]), []);
    }

    #[test]
    fn without_kept_connections_a_steady_number_under_way_tells() {
        // three clients, each with a new connection a request and hardly a pause
        let (mut coming, mut at) = (Vec::new(), [0i64, 33, 66]);
        for n in 0..90 {
            let who = (n % 3) as usize;
            coming.push(one(n as u64, at[who], at[who] + 100));
            at[who] += 102;
        }
        coming.sort_by_key(|c| c.came);
        let found = infer(&coming, None);
        assert_eq!(found.arrivals, Arrivals::Closed { clients: 3 });
        assert_eq!(
            found.why,
            "each request has a connection of its own, and 2 to 3 are in progress for 98 % of the time (2.9 on average)"
        );
        assert!(found.thinks[3..].iter().all(|t| *t == 2), "{:?}", found.thinks);
        // many at once and then nobody for long
        let bursts: Vec<Coming> =
            (0..90).map(|n| one(n as u64, n / 30 * 10_000 + n, n / 30 * 10_000 + n + 900)).collect();
        assert_eq!(infer(&bursts, None).arrivals, Arrivals::Open);
    }
}
