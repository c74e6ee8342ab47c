//! Changes of which calls are made, and when.

use super::jobs::each_visit;
use super::names::{find, nearest};
use super::{Effect, No, Which};
use crate::jobs::{Jobs, Part, PoolId, Visit, WorkState};

/// What a name of a call means: itself with its service, what is behind the service's name, a service, or a pattern.
fn named(jobs: &Jobs, span: &str) -> Result<Vec<usize>, No> {
    let (mut is_call, mut is_root) = (vec![false; jobs.asked.len()], vec![false; jobs.asked.len()]);
    each_visit(jobs, &mut |from, v| {
        let seen = if from.is_some() { &mut is_call } else { &mut is_root };
        if let Some(seen) = seen.get_mut(v.asked) {
            *seen = true;
        }
    });
    let all = |wanted: &[bool]| -> Vec<(usize, Vec<&str>)> {
        let of = |i: usize| {
            let whole = jobs.asked[i].as_str();
            (i, whole.split_once(' ').map_or(vec![whole], |(_, what)| vec![whole, what]))
        };
        (0..jobs.asked.len()).filter(|&i| wanted[i]).map(of).collect()
    };
    // a service's name alone is all that it is asked for
    let service = |i: &usize| jobs.asked[*i].split(' ').next() == Some(span);
    let of_service: Vec<usize> = (0..jobs.asked.len()).filter(|&i| is_call[i]).filter(service).collect();
    if !of_service.is_empty() {
        return Ok(of_service);
    }
    let found = find(span, all(&is_call));
    let names = || nearest(span, (0..jobs.asked.len()).filter(|&i| is_call[i]).map(|i| jobs.asked[i].clone()));
    match found.len() {
        0 if !find(span, all(&is_root)).is_empty() => Err(No::because(format!(
            "{span:?} is what clients ask for; only calls that are made for a request can be changed"
        ))
        .near(names())),
        0 => Err(No::because(format!("no call is named {span:?}")).missing(&jobs.unseen).near(names())),
        n if n > 1 && !span.contains('*') => {
            Err(No::because(format!("{n} services are asked for {span:?}; put the service before it"))
                .near(found.iter().map(|&i| jobs.asked[i].clone()).collect()))
        }
        _ => Ok(found),
    }
}

/// Counts what is left out.
#[derive(Default)]
struct Out {
    calls: u64,
    of: u64,
    between_ns: u64,
    /// Hundredths owed, so that so many of a hundred are left out evenly.
    owed: f64,
}

impl Out {
    /// Whether the next call goes, which is the visit's `nth` of this name.
    fn goes(&mut self, which: Which, nth: u32) -> bool {
        self.of += 1;
        let goes = match which {
            Which::All => true,
            Which::Beyond(kept) => nth >= kept,
            Which::Percent(p) => {
                self.owed += p;
                let goes = self.owed >= 100.0;
                if goes {
                    self.owed -= 100.0;
                }
                goes
            }
        };
        self.calls += u64::from(goes);
        goes
    }
}

/// Takes calls out of a visit and those below it. `with_loop`: of a repeated call, also what is computed since the last one.
fn take_out(v: &mut Visit, wanted: &[usize], which: Which, with_loop: bool, out: &mut Out) {
    // of each name: how many so far, and after which part the last one is
    let mut seen: Vec<(u32, Option<usize>)> = vec![(0, None); wanted.len()];
    let mut emptied = false;
    for at in 0..v.parts.len() {
        let mut since: Option<usize> = None;
        if let Part::Calls(calls) = &mut v.parts[at] {
            let mut here: Vec<usize> = Vec::new();
            calls.retain(|c| {
                let Some(n) = wanted.iter().position(|&w| w == c.asked) else { return true };
                let goes = out.goes(which, seen[n].0);
                seen[n].0 += 1;
                if goes {
                    since = since.max(seen[n].1.map(|before| before + 1));
                }
                here.push(n);
                !goes
            });
            here.into_iter().for_each(|n| seen[n].1 = Some(at));
            emptied |= calls.is_empty();
            calls.iter_mut().for_each(|c| take_out(c, wanted, which, with_loop, out));
        }
        if let (Some(from), true) = (since, with_loop) {
            let is_loop =
                |p: &Part| matches!(p, Part::Work { state: WorkState::Cpu, .. } | Part::Take(_) | Part::Give(_));
            // parts that have become empty are no reason against it
            let is_empty = |p: &Part| matches!(p, Part::Calls(c) if c.is_empty());
            if v.parts[from..at].iter().all(|p| is_loop(p) || is_empty(p)) {
                for part in &mut v.parts[from..at] {
                    if let Part::Work { ns, .. } = part {
                        out.between_ns += std::mem::take(ns);
                    }
                }
            }
        }
    }
    if emptied {
        tidy(&mut v.parts);
    }
}

/// Takes out parts that are nothing any more: empty calls, work of no length, and what is taken to be given back at once.
fn tidy(parts: &mut Vec<Part>) {
    let mut kept: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts.drain(..) {
        match &part {
            Part::Calls(calls) if calls.is_empty() => {}
            Part::Work { ns: 0, .. } => {}
            Part::Give(p) if matches!(kept.last(), Some(Part::Take(q)) if q == p) => {
                kept.pop();
            }
            _ => kept.push(part),
        }
    }
    *parts = kept;
}

fn list(jobs: &Jobs, found: &[usize]) -> String {
    match found {
        [one] => jobs.asked[*one].clone(),
        _ => format!("{} statements", found.len()),
    }
}

/// `drop`.
pub(super) fn leave_out(jobs: &mut Jobs, span: &str, which: Which) -> Result<Effect, No> {
    let found = named(jobs, span)?;
    let mut out = Out::default();
    jobs.jobs.iter_mut().for_each(|j| take_out(&mut j.root, &found, which, true, &mut out));
    let name = list(jobs, &found);
    let mut done = vec![format!("{} of {} calls left out: {name}", out.calls, out.of)];
    let mut assumptions = Vec::new();
    if out.between_ns > 0 {
        done.push(format!("with what the callers computed between them: {:.3} s in all", out.between_ns as f64 / 1e9));
        assumptions.push("What is computed between one call and its repetition goes when the repetition goes.".into());
    }
    assumptions.push("Callers still compute as before, including what they did with the replies.".into());
    Ok(Effect { done, assumptions })
}

/// `cache`.
pub(super) fn cache(jobs: &mut Jobs, span: &str, hit: f64) -> Result<Effect, No> {
    let found = named(jobs, span)?;
    let mut out = Out::default();
    jobs.jobs.iter_mut().for_each(|j| take_out(&mut j.root, &found, Which::Percent(hit), false, &mut out));
    let done = vec![format!("{} of {} calls answered by a cache: {}", out.calls, out.of, list(jobs, &found))];
    let assumptions =
        vec!["A hit costs the caller what it computes for a call now and nothing else; hits come evenly.".into()];
    Ok(Effect { done, assumptions })
}

/// Counts what is made concurrent.
#[derive(Default)]
struct Together {
    visits: u64,
    calls: u64,
    /// Visits whose calls go over one connection of a pool.
    on_one: u64,
    already: u64,
}

/// `parallel`.
pub(super) fn at_once(jobs: &mut Jobs, spans: &[String]) -> Result<Effect, No> {
    let mut found = Vec::new();
    for span in spans {
        found.extend(named(jobs, span)?);
    }
    found.sort_unstable();
    found.dedup();
    let mut sum = Together::default();
    let mut after = jobs.jobs.clone();
    after.iter_mut().for_each(|j| join(&mut j.root, &found, &mut sum));
    if sum.visits == 0 {
        let why = if sum.already > 0 {
            "these calls are made at once already"
        } else {
            "no visit makes two of these calls, one after the other"
        };
        return Err(No::because(why).missing(&jobs.unseen));
    }
    jobs.jobs = after;
    let done = vec![format!("{} calls made at once, in {} visits: {}", sum.calls, sum.visits, list(jobs, &found))];
    let mut assumptions = vec![
        "None of them needs another's reply; what is computed between them now is computed behind them.".to_owned(),
    ];
    if sum.on_one > 0 {
        assumptions.push(format!(
            "In {} visits these calls are made on one connection of a pool; each would need one of its own.",
            sum.on_one
        ));
    }
    Ok(Effect { done, assumptions })
}

/// Makes all calls of these names in a visit one part; in those below it too.
fn join(v: &mut Visit, wanted: &[usize], sum: &mut Together) {
    for part in &mut v.parts {
        if let Part::Calls(calls) = part {
            calls.iter_mut().for_each(|c| join(c, wanted, sum));
        }
    }
    let has = |p: &Part| matches!(p, Part::Calls(calls) if calls.iter().any(|c| wanted.contains(&c.asked)));
    // what is called after the reply does not move before it
    let is_late = |at: usize| v.parts[..at].contains(&Part::Reply);
    let mut places: Vec<usize> = (0..v.parts.len()).filter(|&i| has(&v.parts[i])).collect();
    let late = places.first().is_some_and(|&at| is_late(at));
    places.retain(|&at| is_late(at) == late);
    let [first, .., last] = places[..] else {
        let several = |p: &Part| matches!(p, Part::Calls(calls) if calls.iter().filter(|c| wanted.contains(&c.asked)).count() > 1);
        sum.already += u64::from(v.parts.iter().any(several));
        return;
    };
    let mut together = Vec::new();
    let mut shares_one = false;
    for &at in &places {
        let own = own_tokens(&v.parts, at, first, last);
        shares_one |= own.is_empty() && is_held(&v.parts, at);
        let Part::Calls(calls) = &mut v.parts[at] else { continue };
        let (mine, rest): (Vec<Visit>, Vec<Visit>) =
            std::mem::take(calls).into_iter().partition(|c| wanted.contains(&c.asked));
        *calls = rest;
        sum.calls += mine.len() as u64;
        match own.first() {
            // it takes its tokens along
            Some(_) => {
                let (asked, takes) = (mine[0].asked, own.iter().map(|&(p, ..)| Part::Take(p)));
                let gives = own.iter().rev().map(|&(p, ..)| Part::Give(p));
                let parts = takes.chain([Part::Calls(mine)]).chain(gives).collect();
                together.push(Visit { service: None, asked, there_ns: 0, back_ns: 0, parts });
                for &(_, take, give) in &own {
                    v.parts[take] = Part::Calls(Vec::new());
                    v.parts[give] = Part::Calls(Vec::new());
                }
            }
            None => together.extend(mine),
        }
    }
    if let Part::Calls(calls) = &mut v.parts[first] {
        calls.append(&mut together);
    }
    sum.visits += 1;
    sum.on_one += u64::from(shares_one);
    tidy(&mut v.parts);
}

/// The tokens that are held at a part and were taken for it alone of all calls from `first` to `last`: each with where it
/// is taken and given back.
fn own_tokens(parts: &[Part], at: usize, first: usize, last: usize) -> Vec<(PoolId, usize, usize)> {
    let mut own = Vec::new();
    for take in (0..at).rev() {
        match parts[take] {
            Part::Calls(_) if take >= first => break,
            Part::Take(p) => {
                let Some(give) = (take..parts.len()).find(|&i| parts[i] == Part::Give(p)) else { continue };
                let is_alone = !(at + 1..give).any(|i| i <= last && matches!(parts[i], Part::Calls(_)));
                if give > at && is_alone {
                    own.push((p, take, give));
                }
            }
            _ => {}
        }
    }
    own.reverse();
    own
}

/// Whether any token is held at a part.
fn is_held(parts: &[Part], at: usize) -> bool {
    let balance = parts[..at].iter().fold(0i64, |n, p| match p {
        Part::Take(_) => n + 1,
        Part::Give(_) => n - 1,
        _ => n,
    });
    balance > 0
}
