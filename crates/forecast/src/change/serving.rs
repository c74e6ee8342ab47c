//! More or fewer who serve: threads share what their process has, processes have it each for themselves.

use super::jobs::{each_visit_mut, services, small, whole_or_unbounded};
use super::{Amount, Effect, No};
use crate::jobs::{Jobs, Part, Pool, PoolId, Service, ServiceId};
use crate::system::Discipline;
use rustc_hash::FxHashMap;

/// Processes of which what each has is kept apart; of more, the others share with these.
const PROCESSES_MAX: u64 = 4096;

/// The services of a name whose number of workers limits something.
fn counted(jobs: &Jobs, of: &str) -> Result<Vec<ServiceId>, No> {
    let bare = [" workers", " threads", " processes"].iter().find_map(|kind| of.strip_suffix(kind)).unwrap_or(of);
    let found = services(jobs, bare)?;
    let is_counted = |id: &ServiceId| jobs.services[*id].workers.is_some();
    let counted: Vec<ServiceId> = found.iter().copied().filter(is_counted).collect();
    if counted.is_empty() {
        let with = (0..jobs.services.len()).filter(is_counted).map(|id| jobs.services[id].name.clone()).collect();
        let reason = format!(
            "the number of workers of {} limits nothing here: it has one a connection, or none was ever waited for",
            jobs.services[found[0]].name
        );
        return Err(No::because(reason).missing(&jobs.unseen).near(with));
    }
    Ok(counted)
}

/// `workers`: processes, where each has one; else threads, where these and processes come to the same.
pub(super) fn workers(jobs: &mut Jobs, of: &str, to: Amount) -> Result<Effect, No> {
    let found = counted(jobs, of)?;
    for &id in &found {
        let s = &jobs.services[id];
        let shared = shared(jobs, id);
        if s.is_threaded() && !shared.is_empty() {
            let (count, each) = (s.processes.len(), s.workers.unwrap_or(0) as usize / s.processes.len());
            return Err(No::because(format!(
                "a worker of {0} may be a thread or a process, and these differ: threads of one process share {1}. Now it \
                 has {count} process(es) of {each} threads; say `threads {0}=+4` or `processes {0}=+1`",
                s.name,
                shared.join(", ")
            )));
        }
    }
    let mut effect = Effect::default();
    for id in found {
        let s = &jobs.services[id];
        let now = s.workers.unwrap_or(0);
        let then = to.whole("workers", f64::from(now), 1)?;
        if !s.is_threaded() && then.is_none_or(|then| then > u64::from(now)) {
            can_spread(s)?;
        }
        effect.done.push(format!("workers of {}: {now} → {}", s.name, whole_or_unbounded(then)));
        if !s.is_threaded() {
            spread(jobs, id, then.unwrap_or(PROCESSES_MAX));
        }
        jobs.services[id].workers = then.map(small);
    }
    effect.assumptions.push(ALIKE.into());
    Ok(effect)
}

const ALIKE: &str = "Any worker can take any request, and new workers are as fast as the recorded ones.";

/// `threads`: of the processes that there are.
pub(super) fn threads(jobs: &mut Jobs, of: &str, to: Amount) -> Result<Effect, No> {
    let found = counted(jobs, of)?;
    let single = found.iter().find(|&&id| !jobs.services[id].is_threaded());
    if let Some(&id) = single {
        return Err(No::because(format!(
            "each process of {0} serves with one thread, and what threads of one process would share was not seen; \
             `workers {0}=+1` forecasts another process",
            jobs.services[id].name
        )));
    }
    let mut effect = Effect::default();
    for id in found {
        let shared = shared(jobs, id);
        let s = &mut jobs.services[id];
        let now = s.workers.unwrap_or(0);
        let then = to.whole("threads", f64::from(now), 1)?;
        let count = s.processes.len();
        let with = if shared.is_empty() { String::new() } else { format!(", which share {}", shared.join(", ")) };
        effect.done.push(format!(
            "threads of {} (in {count} process{}{with}): {now} → {}",
            s.name,
            if count == 1 { "" } else { "es" },
            whole_or_unbounded(then)
        ));
        s.workers = then.map(small);
    }
    effect.assumptions.push(ALIKE.into());
    Ok(effect)
}

/// `processes`: each with as many threads, and with locks, pools and an interpreter of its own.
pub(super) fn processes(jobs: &mut Jobs, of: &str, to: Amount) -> Result<Effect, No> {
    let found = counted(jobs, of)?;
    if let Some(&id) = found.iter().find(|&&id| jobs.services[id].processes.is_empty()) {
        return Err(No::because(format!("which processes serve {} is not known", jobs.services[id].name)));
    }
    let mut effect = Effect::default();
    for id in found {
        let own = shared(jobs, id);
        let s = &jobs.services[id];
        let (now, workers) = (s.processes.len() as u64, u64::from(s.workers.unwrap_or(0)));
        let each = (workers / now).max(1);
        let Some(then) = to.whole("processes", now as f64, 1)? else {
            return Err(No::because("say how many processes"));
        };
        if then > now {
            can_spread(s)?;
        }
        let with = if own.is_empty() { String::new() } else { format!(" and its own {}", own.join(", ")) };
        effect.done.push(format!("processes of {}, each with {each} thread(s){with}: {now} → {then}", s.name));
        spread(jobs, id, then);
        jobs.services[id].workers = Some(small(each * then));
    }
    effect.assumptions.push(ALIKE.into());
    effect.assumptions.push("Each process gets as many of the requests as the others.".into());
    Ok(effect)
}

/// Whether more processes of a service would get as many of the requests as those that there are.
fn can_spread(s: &Service) -> Result<(), No> {
    if s.is_pinned() || s.is_threaded() && s.keeps_connections {
        return Err(No::because(format!(
            "clients keep their connections to {}, and each stays with the process that accepted it: how they would be \
             spread over more processes is not known",
            s.name
        )));
    }
    Ok(())
}

/// What the threads of each process of a service share, in words.
fn shared(jobs: &Jobs, id: ServiceId) -> Vec<String> {
    let s = &jobs.services[id];
    let turns = s.turns.map(|_| "an interpreter's lock".to_owned());
    let is_own = |p: &&Pool| p.process.is_some_and(|pid| s.processes.contains(&pid));
    let pools = jobs.pools.iter().filter(is_own).map(|p| {
        let kind = if p.is_lock { "lock" } else { "pool" };
        format!("{kind} {}", p.name)
    });
    turns.into_iter().chain(pools).collect()
}

/// Spreads the visits of a service evenly over so many processes: what a process has, each of them has.
fn spread(jobs: &mut Jobs, id: ServiceId, then: u64) {
    let s = &mut jobs.services[id];
    let (before, then) = (s.processes.clone(), then.clamp(1, PROCESSES_MAX));
    if then == before.len() as u64 || before.is_empty() {
        return;
    }
    // numbers that no process has
    let next = before.iter().max().map_or(0, |most| most.saturating_add(1));
    let more = (0..then as u32).map(|n| before.get(n as usize).copied().unwrap_or(next.saturating_add(n)));
    s.processes = more.collect();
    if let Some(turns) = s.turns
        && let Some(station) = jobs.stations.get_mut(s.station.index())
    {
        let at_a_time = (turns.each * then as f64).min(turns.most);
        match &mut station.discipline {
            Discipline::Quota { at_once, .. } => *at_once = at_a_time.ceil() as u32,
            _ => station.servers = at_a_time,
        }
    }
    // of each process, what it has, in order: the first lock of one is the first lock of another
    let mut own: FxHashMap<u32, Vec<PoolId>> = FxHashMap::default();
    for (i, p) in jobs.pools.iter().enumerate() {
        if let Some(pid) = p.process.filter(|pid| before.contains(pid)) {
            own.entry(pid).or_default().push(i);
        }
    }
    let role: FxHashMap<PoolId, usize> =
        own.values().flat_map(|all| all.iter().enumerate().map(|(role, &pool)| (pool, role))).collect();
    if role.is_empty() {
        return;
    }
    let processes = jobs.services[id].processes.clone();
    let mut pools = std::mem::take(&mut jobs.pools);
    let mut count = 0usize;
    each_visit_mut(jobs, &mut |v| {
        if v.service != Some(id) {
            return;
        }
        let pid = processes[count % processes.len()];
        count += 1;
        for part in &mut v.parts {
            let (Part::Take(pool) | Part::Give(pool)) = part else { continue };
            let Some(&role) = role.get(pool) else { continue };
            let has = own.entry(pid).or_default();
            while has.len() <= role {
                let like = pools[*pool].clone();
                has.push(pools.len());
                pools.push(Pool { name: format!("{} of process {pid}", like.name), process: Some(pid), ..like });
            }
            *pool = has[role];
        }
    });
    jobs.pools = pools;
}
