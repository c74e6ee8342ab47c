//! Changes to a recording as jobs, but for those of its calls (`calls.rs`).

use super::names::{find, is_meant, nearest};
use super::{Amount, Bandwidth, Change, Delay, Effect, No, calls, number, serving};
use crate::jobs::{Jobs, Part, PoolId, ServiceId, Visit, WorkState};
use crate::system::Station;
use rustc_hash::FxHashMap;

/// What clients are called where a link's end is named.
const CLIENT: &str = "client";
/// The host of what nobody watches.
const UNWATCHED: &str = "unwatched";

/// Makes a change, or refuses it before anything is changed.
pub(super) fn apply(change: &Change, jobs: &mut Jobs) -> Result<Effect, No> {
    match change {
        Change::Scale { host, process, state, factor } => scale(jobs, [host, process, state], *factor),
        Change::Cpu { of, to } => cpu(jobs, of, *to),
        Change::Speed { of, factor } => speed(jobs, of, *factor),
        Change::Link { between, bandwidth, delay } => link(jobs, between, *bandwidth, *delay),
        Change::Queue { name, to } => queue(jobs, name, *to),
        Change::Workers { of, to } => serving::workers(jobs, of, *to),
        Change::Threads { of, to } => serving::threads(jobs, of, *to),
        Change::Processes { of, to } => serving::processes(jobs, of, *to),
        Change::Pool { name, to } => pool(jobs, name, *to),
        Change::Drop { span, which } => calls::leave_out(jobs, span, *which),
        Change::Parallel { spans } => calls::at_once(jobs, spans),
        Change::Cache { span, hit } => calls::cache(jobs, span, *hit),
    }
}

/// What a service is called: its name, its process.
fn names_of(jobs: &Jobs, id: ServiceId) -> Vec<&str> {
    jobs.services.get(id).map_or_else(Vec::new, |s| vec![s.name.as_str(), s.process.as_str()])
}

/// The services that a name means, or all that could be meant.
pub(super) fn services(jobs: &Jobs, given: &str) -> Result<Vec<ServiceId>, No> {
    let found = find(given, (0..jobs.services.len()).map(|id| (id, names_of(jobs, id))));
    let listed = || nearest(given, jobs.services.iter().map(|s| s.name.clone()));
    match found.len() {
        0 => Err(No::because(format!("no service is called {given:?}")).near(listed())),
        1 => Ok(found),
        _ if given.contains('*') => Ok(found),
        n => Err(No::because(format!("{n} services are called {given:?}; say which, or {given}* for all"))
            .near(found.iter().map(|&id| jobs.services[id].name.clone()).collect())),
    }
}

/// What a name means where processors or disks are meant.
pub(super) enum Meant {
    /// Stations, by their own name or a host's.
    Stations(Vec<usize>),
    /// The stations of services or processes of the name.
    Users(Vec<usize>),
}

/// The stations that a name means. `users` are those who run there: their station, names, and host.
pub(super) fn stations<'a>(
    given: &str,
    stations: &[Station],
    users: impl Iterator<Item = (usize, Vec<&'a str>, &'a str)>,
    is_wanted: impl Fn(&Station) -> bool,
) -> Result<Meant, No> {
    let wanted = || stations.iter().enumerate().filter(|(_, s)| is_wanted(s));
    let own = find(given, wanted().map(|(i, s)| (i, vec![s.name.as_str()])));
    if !own.is_empty() {
        return Ok(Meant::Stations(own));
    }
    let mut rows: Vec<(usize, Vec<&str>, &str)> = Vec::new();
    rows.extend(users.filter(|u| stations.get(u.0).is_some_and(&is_wanted)));
    let once = |mut found: Vec<usize>| {
        found.sort_unstable();
        found.dedup();
        found
    };
    let theirs = find(given, rows.iter().map(|(s, names, _)| (*s, names.clone())));
    if !theirs.is_empty() {
        return Ok(Meant::Users(once(theirs)));
    }
    let hosts = once(find(given, rows.iter().map(|(s, _, host)| (*s, vec![*host]))));
    let names = |of: &mut dyn Iterator<Item = usize>| -> Vec<String> { of.map(|i| stations[i].name.clone()).collect() };
    match hosts.len() {
        0 => Err(No::because(format!("nothing that serves work is called {given:?}")).near(nearest(
            given,
            names(&mut wanted().map(|(i, _)| i))
                .into_iter()
                .chain(rows.iter().flat_map(|r| r.1.first()).map(|n| (*n).to_owned())),
        ))),
        1 => Ok(Meant::Stations(hosts)),
        _ if given.contains('*') => Ok(Meant::Stations(hosts)),
        n => Err(No::because(format!("{given:?} has {n} groups of processors; say which"))
            .near(names(&mut hosts.iter().copied()))),
    }
}

/// Whether it is processors.
pub(super) fn is_processors(s: &Station) -> bool {
    s.discipline.is_shared()
}

fn meant(jobs: &Jobs, given: &str, is_wanted: impl Fn(&Station) -> bool) -> Result<Meant, No> {
    let users = jobs.services.iter().enumerate();
    let users = users.map(|(id, s)| (s.station.index(), names_of(jobs, id), s.host.as_str()));
    stations(given, &jobs.stations, users, is_wanted).map_err(|no| no.missing(&jobs.unseen))
}

fn cpu(jobs: &mut Jobs, of: &str, to: Amount) -> Result<Effect, No> {
    let (Meant::Stations(found) | Meant::Users(found)) = meant(jobs, of, is_processors)?;
    let mut effect = Effect::default();
    set_servers(&mut jobs.stations, &found, to, &mut effect)?;
    for &i in &found {
        let others: Vec<&str> =
            jobs.services.iter().filter(|s| s.station.index() == i).map(|s| s.name.as_str()).collect();
        if others.len() > 1 {
            effect.assumptions.push(format!(
                "{} share the processors of {}.",
                others.join(", "),
                jobs.stations[i].name
            ));
        }
    }
    Ok(effect)
}

/// Changes the number of servers of stations.
pub(super) fn set_servers(
    stations: &mut [Station],
    found: &[usize],
    to: Amount,
    effect: &mut Effect,
) -> Result<(), No> {
    for &i in found {
        let s = &stations[i];
        if s.servers.is_infinite() {
            return Err(No::because(format!(
                "nothing waits for {} of {} in this recording, so more of them change nothing",
                s.what, s.name
            )));
        }
        if to.of(s.servers).is_some_and(|n| n <= 0.0) {
            return Err(No::because(format!(
                "{} has {} {}, and none would be left",
                s.name,
                number(s.servers),
                s.what
            )));
        }
    }
    for &i in found {
        let s = &mut stations[i];
        let now = to.of(s.servers).unwrap_or(f64::INFINITY);
        effect.done.push(format!("{} of {}: {} → {}", s.what, s.name, number(s.servers), number(now)));
        s.servers = now;
    }
    Ok(())
}

/// Processors or disks so many times as fast. Of a service that shares its processors, only its own computing.
fn speed(jobs: &mut Jobs, of: &str, factor: f64) -> Result<Effect, No> {
    let mut effect = Effect::default();
    let found = match meant(jobs, of, |_| true)? {
        Meant::Stations(found) => found,
        Meant::Users(found) => {
            let wanted = services(jobs, of)?;
            let is_alone = |s: &usize| {
                (0..jobs.services.len()).all(|id| jobs.services[id].station.index() != *s || wanted.contains(&id))
            };
            if !found.iter().all(is_alone) {
                let is_it = |v: &Visit, w| w == WorkState::Cpu && v.service.is_some_and(|id| wanted.contains(&id));
                let (count, ns) = scale_work(jobs, &is_it, 1.0 / factor);
                let names: Vec<&str> = wanted.iter().map(|&id| jobs.services[id].name.as_str()).collect();
                let names = names.join(", ");
                effect.done.push(format!(
                    "computing of {names}: {} times as fast ({})",
                    number(factor),
                    parts(count, ns)
                ));
                effect.assumptions.push(format!("{names} computes faster; others on the same processors do not."));
                return Ok(effect);
            }
            found
        }
    };
    for i in found {
        let s = &mut jobs.stations[i];
        effect.done.push(format!("speed of {} of {}: {} times", s.what, s.name, number(factor)));
        s.speed *= factor;
    }
    Ok(effect)
}

/// So many pieces of work, and how long they take in all.
pub(super) fn parts(count: u64, ns: u64) -> String {
    format!("{count} pieces of work, {:.3} s in all", ns as f64 / 1e9)
}

/// Calls `f` with each visit, those that call before those that are called; and with who calls it.
pub(super) fn each_visit(jobs: &Jobs, f: &mut dyn FnMut(Option<&Visit>, &Visit)) {
    fn walk(from: Option<&Visit>, v: &Visit, f: &mut dyn FnMut(Option<&Visit>, &Visit)) {
        f(from, v);
        for part in &v.parts {
            if let Part::Calls(calls) = part {
                calls.iter().for_each(|c| walk(Some(v), c, f));
            }
        }
    }
    jobs.jobs.iter().for_each(|j| walk(None, &j.root, f));
}

/// The same, to be changed.
pub(super) fn each_visit_mut(jobs: &mut Jobs, f: &mut dyn FnMut(&mut Visit)) {
    fn walk(v: &mut Visit, f: &mut dyn FnMut(&mut Visit)) {
        f(v);
        for part in &mut v.parts {
            if let Part::Calls(calls) = part {
                calls.iter_mut().for_each(|c| walk(c, f));
            }
        }
    }
    jobs.jobs.iter_mut().for_each(|j| walk(&mut j.root, f));
}

fn scaled(ns: u64, factor: f64) -> u64 {
    (ns as f64 * factor).round() as u64
}

/// Scales work; how many pieces, and how long they took before.
fn scale_work(jobs: &mut Jobs, is_it: &dyn Fn(&Visit, WorkState) -> bool, factor: f64) -> (u64, u64) {
    let (mut count, mut sum) = (0, 0);
    each_visit_mut(jobs, &mut |v| {
        let wanted = [WorkState::Cpu, WorkState::Disk, WorkState::Timer, WorkState::Outside].map(|w| (w, is_it(v, w)));
        for part in &mut v.parts {
            if let Part::Work { state, ns } = part
                && wanted.contains(&(*state, true))
            {
                count += 1;
                sum += *ns;
                *ns = scaled(*ns, factor);
            }
        }
    });
    (count, sum)
}

/// What a state of work is called.
fn word(state: WorkState) -> &'static str {
    match state {
        WorkState::Cpu => "cpu",
        WorkState::Disk => "disk",
        WorkState::Timer => "timer",
        WorkState::Outside => "outside",
    }
}

/// Who serves a visit: hosts and processes as they may be named.
fn places<'a>(jobs: &'a Jobs, v: &Visit) -> (Vec<&'a str>, Vec<&'a str>) {
    match v.service.and_then(|id| jobs.services.get(id).map(|s| (id, s))) {
        Some((id, s)) => {
            let station = jobs.stations.get(s.station.index()).map(|s| s.name.as_str());
            ([s.host.as_str()].into_iter().chain(station).collect(), names_of(jobs, id))
        }
        None => (vec![UNWATCHED], vec![callee(jobs, v)]),
    }
}

/// The name of whom nobody watches: what comes before what was asked for.
fn callee<'a>(jobs: &'a Jobs, v: &Visit) -> &'a str {
    jobs.asked.get(v.asked).map_or(UNWATCHED, |a| a.split(' ').next().unwrap_or(a))
}

fn scale(jobs: &mut Jobs, given: [&String; 3], factor: f64) -> Result<Effect, No> {
    let [host, process, state] = given.map(String::as_str);
    let any = |given: &str, names: &[&str]| names.iter().any(|n| is_meant(given, n));
    let whole = given.map(String::as_str).join("/");
    let mut effect = Effect::default();
    if state.split(' ').next() == Some("lock") {
        let locks = locks(jobs, host, process, state);
        if locks.is_empty() {
            return Err(No::because(format!("no lock is called {whole:?}"))
                .missing(&jobs.unseen)
                .near(work_names(jobs, &whole)));
        }
        let (count, ns) = scale_held(jobs, &locks, factor);
        let names: Vec<&str> = locks.iter().map(|&p| jobs.pools[p].name.as_str()).collect();
        effect.done.push(format!(
            "time that {} is held: {} times ({})",
            names.join(", "),
            number(factor),
            parts(count, ns)
        ));
        return Ok(effect);
    }
    // by service, or by what is asked for where nobody watches: most visits are alike
    let mut known: FxHashMap<(Option<ServiceId>, usize), bool> = FxHashMap::default();
    each_visit(jobs, &mut |_, v| {
        known.entry(key(v)).or_insert_with(|| {
            let (hosts, processes) = places(jobs, v);
            any(host, &hosts) && any(process, &processes)
        });
    });
    let is_it = |v: &Visit, w: WorkState| is_meant(state, word(w)) && known.get(&key(v)) == Some(&true);
    let mut has_any = false;
    each_visit(jobs, &mut |_, v| {
        has_any |= v.parts.iter().any(|p| matches!(p, Part::Work { state, ns } if *ns > 0 && is_it(v, *state)));
    });
    if !has_any {
        return Err(No::because(format!("no work is called {whole:?}"))
            .missing(&jobs.unseen)
            .near(work_names(jobs, &whole)));
    }
    let (count, ns) = scale_work(jobs, &is_it, factor);
    effect.done.push(format!("work of {whole}: {} times ({})", number(factor), parts(count, ns)));
    Ok(effect)
}

fn key(v: &Visit) -> (Option<ServiceId>, usize) {
    (v.service, if v.service.is_some() { 0 } else { v.asked })
}

/// The locks of a host's process: all, or one by its number.
fn locks(jobs: &Jobs, host: &str, process: &str, state: &str) -> Vec<PoolId> {
    let is_it = |name: &str| {
        let (owner, lock) = name.rsplit_once('/').unwrap_or(("", name));
        let at_host = host == "*"
            || jobs.services.iter().any(|s| (s.process == owner || s.name == owner) && is_meant(host, &s.host));
        at_host && is_meant(process, owner) && (state == "lock" || is_meant(state, lock))
    };
    (0..jobs.pools.len()).filter(|&p| jobs.pools[p].is_lock && is_it(&jobs.pools[p].name)).collect()
}

/// Scales all that is done while one of these is held, calls and their ways too.
fn scale_held(jobs: &mut Jobs, locks: &[PoolId], factor: f64) -> (u64, u64) {
    fn walk(v: &mut Visit, locks: &[PoolId], factor: f64, in_call: bool, sum: &mut (u64, u64)) {
        let mut held = 0u32;
        for part in &mut v.parts {
            match part {
                Part::Take(p) if locks.contains(p) => held += 1,
                Part::Give(p) if locks.contains(p) => held = held.saturating_sub(1),
                Part::Work { ns, .. } if held > 0 || in_call => {
                    *sum = (sum.0 + 1, sum.1 + *ns);
                    *ns = scaled(*ns, factor);
                }
                Part::Calls(calls) => {
                    for c in calls {
                        let is_held = held > 0 || in_call;
                        if is_held {
                            (c.there_ns, c.back_ns) = (scaled(c.there_ns, factor), scaled(c.back_ns, factor));
                        }
                        walk(c, locks, factor, is_held, sum);
                    }
                }
                _ => {}
            }
        }
    }
    let mut sum = (0, 0);
    jobs.jobs.iter_mut().for_each(|j| walk(&mut j.root, locks, factor, false, &mut sum));
    sum
}

/// All names of work, those most like what was given first.
fn work_names(jobs: &Jobs, given: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut known: FxHashMap<(Option<ServiceId>, usize, WorkState), ()> = FxHashMap::default();
    each_visit(jobs, &mut |_, v| {
        for part in &v.parts {
            if let Part::Work { state, ns } = part
                && *ns > 0
                && known.insert((v.service, key(v).1, *state), ()).is_none()
            {
                let (hosts, processes) = places(jobs, v);
                names.push(format!("{}/{}/{}", hosts[0], processes[0], word(*state)));
            }
        }
    });
    for pool in jobs.pools.iter().filter(|p| p.is_lock) {
        let owner = pool.name.rsplit_once('/').map_or("", |(o, _)| o);
        let host =
            jobs.services.iter().find(|s| s.process == owner || s.name == owner).map_or("*", |s| s.host.as_str());
        names.push(format!("{host}/{}", pool.name));
    }
    nearest(given, names)
}

/// What the two ends of a visit's way are called.
fn ends<'a>(jobs: &'a Jobs, from: Option<&Visit>, v: &Visit) -> [Vec<&'a str>; 2] {
    let of = |v: &Visit| match v.service.and_then(|id| jobs.services.get(id).map(|s| (id, s))) {
        Some((id, s)) => names_of(jobs, id).into_iter().chain([s.host.as_str()]).collect(),
        None => vec![callee(jobs, v)],
    };
    [from.map_or_else(|| vec![CLIENT], of), of(v)]
}

fn link(jobs: &mut Jobs, between: &str, bandwidth: Option<Bandwidth>, delay: Option<Delay>) -> Result<Effect, No> {
    type Way = (Option<(Option<ServiceId>, usize)>, (Option<ServiceId>, usize));
    let way = |from: Option<&Visit>, v: &Visit| -> Way { (from.map(key), key(v)) };
    let mut known: FxHashMap<Way, bool> = FxHashMap::default();
    let mut names = Vec::new();
    each_visit(jobs, &mut |from, v| {
        known.entry(way(from, v)).or_insert_with(|| {
            let [a, b] = ends(jobs, from, v);
            names.push(format!("{}-{}", a[0], b[0]));
            let both = |a: &str, b: &str| [format!("{a}-{b}"), format!("{b}-{a}")].iter().any(|n| is_meant(between, n));
            a.iter().any(|a| b.iter().any(|b| both(a, b)))
        });
    });
    let named = || nearest(between, names.iter().cloned());
    if !known.values().any(|meant| *meant) {
        return Err(No::because(format!("no requests go over a link {between:?}")).missing(&jobs.unseen).near(named()));
    }
    let Some(delay) = delay.filter(|_| bandwidth.is_none()) else {
        return Err(No::because(
            "how long a link is occupied by a message is not known where requests are forecast; only its delay can be changed",
        )
        .missing(&jobs.unseen));
    };
    let mut seen = (0u64, 0u64);
    each_visit(jobs, &mut |from, v| {
        if known.get(&way(from, v)) == Some(&true) {
            seen = (seen.0 + 1, seen.1 + v.there_ns + v.back_ns);
        }
    });
    if seen.1 == 0 && matches!(delay, Delay::Times(_)) {
        return Err(No::because(format!("no delay of the link {between:?} is known apart from the time at its ends"))
            .missing(&jobs.unseen));
    }
    let change = |ns: &mut u64| *ns = delayed(*ns, delay);
    fn walk(
        from: Option<(Option<ServiceId>, usize)>,
        v: &mut Visit,
        is_it: &dyn Fn(&Way) -> bool,
        change: &dyn Fn(&mut u64),
    ) {
        let me = key(v);
        if is_it(&(from, me)) {
            change(&mut v.there_ns);
            change(&mut v.back_ns);
        }
        for part in &mut v.parts {
            if let Part::Calls(calls) = part {
                calls.iter_mut().for_each(|c| walk(Some(me), c, is_it, change));
            }
        }
    }
    let is_it = |w: &Way| known.get(w) == Some(&true);
    jobs.jobs.iter_mut().for_each(|j| walk(None, &mut j.root, &is_it, &change));
    let mean_us = seen.1 as f64 / (2.0 * seen.0.max(1) as f64 * 1e3);
    let done =
        format!("delay of the link {between}, each way: {delay} (now {mean_us:.1} µs on average, {} calls)", seen.0);
    let assumptions = vec!["A message is as long on its way whatever else is on the link.".into()];
    Ok(Effect { done: vec![done], assumptions })
}

/// A delay under a change.
pub(super) fn delayed(ns: u64, delay: Delay) -> u64 {
    match delay {
        Delay::Times(factor) => scaled(ns, factor),
        Delay::By(more) => ns.saturating_add_signed(more),
        Delay::To(ns) => ns,
    }
}

fn queue(jobs: &mut Jobs, name: &str, to: Amount) -> Result<Effect, No> {
    let all = || jobs.services.iter().enumerate().filter(|(_, s)| s.backlog.is_some());
    let named = |s: &crate::jobs::Service| vec![s.name.clone(), s.process.clone(), format!("{} accept queue", s.name)];
    let found = find(name, all().map(|(id, s)| (id, named(s))));
    if found.is_empty() {
        let reason = if all().next().is_none() {
            "no queue with a bound was seen where anything waited for room".to_owned()
        } else {
            format!("no queue with a bound is called {name:?}")
        };
        let names = all().map(|(_, s)| s.name.clone()).collect::<Vec<_>>();
        return Err(No::because(reason).missing(&jobs.unseen).near(nearest(name, names)));
    }
    let mut effect = Effect::default();
    for id in found {
        let s = &mut jobs.services[id];
        let now = s.backlog.unwrap_or(0);
        let then = to.whole("places in the accept queue", now as f64, 1)?;
        effect.done.push(format!("room of the accept queue of {}: {now} → {}", s.name, whole_or_unbounded(then)));
        s.backlog = then;
    }
    Ok(effect)
}

/// A number of whole things, for people.
pub(super) fn whole_or_unbounded(n: Option<u64>) -> String {
    n.map_or_else(|| "unbounded".into(), |n| n.to_string())
}

/// A whole number that fits; what is larger is as good as without bound.
pub(super) fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn pool(jobs: &mut Jobs, name: &str, to: Amount) -> Result<Effect, No> {
    let found = find(name, jobs.pools.iter().enumerate().map(|(i, p)| (i, vec![p.name.as_str()])));
    let is_pool = |&i: &usize| !jobs.pools[i].is_lock;
    let pools: Vec<usize> = found.iter().copied().filter(is_pool).collect();
    if pools.is_empty() {
        let reason = match found.first() {
            Some(&lock) => format!(
                "{} is a lock: only one can hold it; `scale HOST/PROCESS/lock=0.5` forecasts that it is held for less",
                jobs.pools[lock].name
            ),
            None => format!("no pool is called {name:?}"),
        };
        let names = (0..jobs.pools.len()).filter(is_pool).map(|i| jobs.pools[i].name.clone()).collect::<Vec<_>>();
        return Err(No::because(reason).missing(&jobs.unseen).near(nearest(name, names)));
    }
    let mut effect = Effect::default();
    for i in pools {
        let p = &mut jobs.pools[i];
        let then = to.whole("connections", f64::from(p.tokens), 1)?;
        effect.done.push(format!("size of the pool {}: {} → {}", p.name, p.tokens, whole_or_unbounded(then)));
        p.tokens = then.map_or(u32::MAX, small);
    }
    effect.assumptions.push("The service behind can handle the extra connections.".into());
    Ok(effect)
}
